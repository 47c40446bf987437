#include "serve/health/sdnotify.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include "base/text/str.h"
#include "base/text/text.h"
#include "base/time/clock.h"

#define LISTEN_FDS_START 3

/* "/path", or "@name" in the abstract name space. */
static int connect_to(const char *path, struct err *err)
{
	struct sockaddr_un a = { .sun_family = AF_UNIX };
	size_t n = strlen(path);
	int fd;

	if ((path[0] != '/' && path[0] != '@') || n >= sizeof(a.sun_path))
		return err_set(err, ERR_USAGE, "NOTIFY_SOCKET is no socket's path: %s", path);
	memcpy(a.sun_path, path, n);
	if (path[0] == '@')
		a.sun_path[0] = '\0';
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || connect(fd, (struct sockaddr *)&a,
			      (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n)) < 0) {
		err_errno(err, "cannot reach NOTIFY_SOCKET %s", path);
		fd_closep(&fd);
		return -1;
	}
	return fd;
}

/* A number in the environment, if it is meant for this process: a second variable holds the pid. */
static int64_t number_for_us(const char *name, const char *pid_name)
{
	const char *text = getenv(name), *pid = getenv(pid_name);
	int64_t v, p;

	if (!text || !text_parse_int(text, &v) || v <= 0)
		return 0;
	if (pid && (!text_parse_int(pid, &p) || p != getpid()))
		return 0;
	return v;
}

static int take_sockets(struct sdnotify *s, struct err *err)
{
	int64_t n = getenv("LISTEN_PID") ? number_for_us("LISTEN_FDS", "LISTEN_PID") : 0;

	if (n > SDNOTIFY_LISTEN_MAX)
		return err_set(err, ERR_USAGE, "LISTEN_FDS hands over %lld sockets; %d at most",
			       (long long)n, SDNOTIFY_LISTEN_MAX);
	for (int fd = LISTEN_FDS_START; fd < LISTEN_FDS_START + n; fd++) {
		int listening = 0;
		socklen_t len = sizeof(listening);

		if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) < 0 || !listening)
			return err_set(err, ERR_USAGE,
				       "descriptor %d of LISTEN_FDS is no socket that listens", fd);
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) < 0 ||
		    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) < 0)
			return err_errno(err, "cannot take descriptor %d of LISTEN_FDS", fd);
		s->listen_fds[s->n_listen++] = fd;
	}
	return 0;
}

int sdnotify_init(struct sdnotify *s, struct err *err)
{
	static const char *const ours[] = { "NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID",
					    "LISTEN_FDS",    "LISTEN_PID",    "LISTEN_FDNAMES" };
	const char *socket_path = getenv("NOTIFY_SOCKET");
	int r;

	*s = (struct sdnotify){ .fd = -1 };
	s->watchdog_ns = number_for_us("WATCHDOG_USEC", "WATCHDOG_PID") * 1000;
	r = take_sockets(s, err);
	if (r == 0 && socket_path && *socket_path) {
		s->fd = connect_to(socket_path, err);
		r = s->fd < 0 ? -1 : 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(ours); i++)
		unsetenv(ours[i]);
	return r;
}

void sdnotify_deinit(struct sdnotify *s)
{
	fd_closep(&s->fd);
	s->fd = -1;
}

/* Best effort: a manager that doesn't read must not block us. */
static void tell(struct sdnotify *s, const char *text)
{
	if (s->fd >= 0 && send(s->fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
		/* The queue is full; the next message will do. */
	}
}

void sdnotify_ready(struct sdnotify *s)
{
	tell(s, "READY=1");
}

void sdnotify_reloading(struct sdnotify *s)
{
	char text[80];

	snprintf(text, sizeof(text), "RELOADING=1\nMONOTONIC_USEC=%lld",
		 (long long)(clock_mono_ns() / 1000));
	tell(s, text);
}

void sdnotify_stopping(struct sdnotify *s)
{
	tell(s, "STOPPING=1");
}

void sdnotify_watchdog(struct sdnotify *s)
{
	tell(s, "WATCHDOG=1");
}

void sdnotify_status(struct sdnotify *s, const char *text)
{
	_cleanup_(str_deinit) struct str line = { 0 };

	str_add(&line, "STATUS=");
	text_add_printable(&line, text, strlen(text));
	tell(s, line.s);
}
