/* engine/serve/web/peer.h — who is at the other end of a connection, as the kernel knows it. */
#ifndef CAIRN_SERVE_WEB_PEER_H
#define CAIRN_SERVE_WEB_PEER_H

#include <stdbool.h>
#include <sys/types.h>

#define PEER_ADDRESS_MAX 64

struct peer_name {
	char address[PEER_ADDRESS_MAX]; /* "192.0.2.7", "2001:db8::1"; "unix" for a Unix socket */
};
void peer_name(int fd, struct peer_name *ret);

/* The user of the process at the other end: of a Unix socket, or of a TCP connection within this
 * machine. False: not known, as for a connection of another machine or one that is about to end. */
bool peer_uid(int fd, uid_t *ret);

#endif
