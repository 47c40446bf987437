/* engine/serve/web/listen.h — addresses to listen at: "127.0.0.1:8410", "[::1]:8410",
 * "localhost:8410", "unix:/run/cairn.sock". */
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
	void *arg;         /* for the server's own use */
	char *text;        /* "127.0.0.1:8410", with the real port */
};

/* Port 0: any free port. ERR_USAGE: not an address; ERR_BUSY: it is in use. */
int listener_open(const char *address, struct listener *ret, struct err *err);
/* A socket that systemd made; takes over the descriptor. */
int listener_adopt(int fd, struct listener *ret, struct err *err);
void listener_close(struct listener *l);

#endif
