/* engine/serve/health/sdnotify.h — systemd's protocols for services: readiness and watchdog
 * (sd_notify(3)), sockets (sd_listen_fds(3)).
 *
 * The protocol is a datagram to $NOTIFY_SOCKET and two variables; no library is needed. Without the
 * variables every call does nothing. sdnotify_init() takes the variables out of the environment, so
 * that no run inherits them. The loop's thread.
 */
#ifndef CAIRN_SERVE_HEALTH_SDNOTIFY_H
#define CAIRN_SERVE_HEALTH_SDNOTIFY_H

#include "base/err.h"

#define SDNOTIFY_LISTEN_MAX 8

struct sdnotify {
	int fd;              /* -1: no service manager */
	int64_t watchdog_ns; /* longest time between two WATCHDOG=1; 0: none needed */
	int listen_fds[SDNOTIFY_LISTEN_MAX];
	size_t n_listen;
};

int sdnotify_init(struct sdnotify *s, struct err *err);
void sdnotify_deinit(struct sdnotify *s); /* doesn't close the sockets: their user does */
void sdnotify_ready(struct sdnotify *s);
void sdnotify_reloading(struct sdnotify *s); /* call _ready() again afterwards */
void sdnotify_stopping(struct sdnotify *s);
void sdnotify_watchdog(struct sdnotify *s);
void sdnotify_status(struct sdnotify *s, const char *text);

#endif
