/* serve/web/listen.h — addresses to listen at: "127.0.0.1:8410", "[::1]:8410", "localhost:8410",
 * "unix:/run/cairn.sock". */
#ifndef CAIRN_SERVE_WEB_LISTEN_H
#define CAIRN_SERVE_WEB_LISTEN_H

#include <stdbool.h>
#include "base/err.h"
#include "base/text/str.h"

struct listener {
	int fd;
	bool local; /* only this machine reaches it: loopback or a Unix socket */
	bool is_unix;
	char *unlink_path; /* a Unix socket that we made; or NULL */
	void *arg;         /* of whoever serves it */
	char *text;        /* "127.0.0.1:8410", with the port that it got */
};

/* Port 0: any that is free. ERR_USAGE: not an address; ERR_BUSY: somebody listens there. */
int listener_open(const char *address, struct listener *ret, struct err *err);
/* One that systemd made; the descriptor is the listener's now. */
int listener_adopt(int fd, struct listener *ret, struct err *err);
void listener_close(struct listener *l);

#endif
