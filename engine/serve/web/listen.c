/* engine/serve/web/listen.c — makes a listening socket from a text address, and a listener from
 * systemd's socket.
 *
 * parse_inet() and parse_unix() fill a sockaddr, bind_there() binds it, and listener_adopt() reads
 * the address from the socket itself. So `text` has the real port in place of 0, and both ways give
 * the same struct.
 *
 * Invariants: no names are resolved except `localhost`. The file of a Unix socket is removed before
 * binding only when it is a socket that refuses connections (remove_stale()); it has mode 0660
 * before anybody can connect, and listener_close() removes it when it was made here.
 *
 * Threads: any; nothing is kept between calls. Not here: accepting connections (web.c), whether an
 * address needs a token (daemon.c).
 */
#include "serve/web/listen.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include "base/mem.h"
#include "base/text/text.h"

#define BACKLOG 128

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_un un;
};

/* From a socket. */

int listener_adopt(int fd, struct listener *ret, struct err *err)
{
	union address a = { 0 };
	socklen_t len = sizeof(a), skipped = offsetof(struct sockaddr_un, sun_path);
	struct listener l = { .fd = fd };
	char host[INET6_ADDRSTRLEN] = "";

	if (getsockname(fd, &a.any, &len) < 0)
		return err_errno(err, "cannot tell where descriptor %d listens", fd);
	switch (a.any.sa_family) {
	case AF_UNIX:
		l.local = l.is_unix = true;
		l.text = xasprintf("unix:%.*s", (int)(MAX(len, skipped) - skipped), a.un.sun_path);
		break;
	case AF_INET:
		l.local = (ntohl(a.in.sin_addr.s_addr) >> 24) == 127;
		l.text = xasprintf("%s:%u", inet_ntop(AF_INET, &a.in.sin_addr, host, sizeof(host)),
				   ntohs(a.in.sin_port));
		break;
	case AF_INET6:
		l.local = IN6_IS_ADDR_LOOPBACK(&a.in6.sin6_addr);
		l.text = xasprintf("[%s]:%u",
				   inet_ntop(AF_INET6, &a.in6.sin6_addr, host, sizeof(host)),
				   ntohs(a.in6.sin6_port));
		break;
	default:
		return err_set(err, ERR_USAGE,
			       "descriptor %d is a socket of a family that can't be served", fd);
	}
	*ret = l;
	return 0;
}

void listener_close(struct listener *l)
{
	fd_closep(&l->fd);
	l->fd = -1;
	if (l->unlink_path)
		unlink(l->unlink_path);
	free(l->unlink_path);
	free(l->text);
	l->unlink_path = l->text = NULL;
}

/* From text. */

static int not_an_address(const char *text, struct err *err)
{
	return err_set(
		err, ERR_USAGE,
		"`%s` is no address to listen at: write 127.0.0.1:8410, [::1]:8410 or unix:/path",
		text);
}

static int parse_inet(const char *text, union address *ret, socklen_t *ret_len, struct err *err)
{
	const char *colon = strrchr(text, ':');
	_cleanup_(freep) char *host = colon ? xstrndup(text, (size_t)(colon - text)) : NULL;
	size_t n = host ? strlen(host) : 0;
	int64_t port;

	if (!colon || !text_parse_int(colon + 1, &port) || port < 0 || port > 65535 ||
	    colon[1] == '+' || colon[1] == '-')
		return not_an_address(text, err);
	if (n > 2 && host[0] == '[' && host[n - 1] == ']') {
		host[n - 1] = '\0';
		ret->in6 = (struct sockaddr_in6){ .sin6_family = AF_INET6,
						  .sin6_port = htons((uint16_t)port) };
		*ret_len = sizeof(ret->in6);
		return inet_pton(AF_INET6, host + 1, &ret->in6.sin6_addr) == 1
			       ? 0
			       : not_an_address(text, err);
	}
	ret->in = (struct sockaddr_in){ .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };
	*ret_len = sizeof(ret->in);
	return inet_pton(AF_INET, str_eq(host, "localhost") ? "127.0.0.1" : host,
			 &ret->in.sin_addr) == 1
		       ? 0
		       : not_an_address(text, err);
}

static int parse_unix(const char *path, union address *ret, socklen_t *ret_len, struct err *err)
{
	size_t n = strlen(path);

	ret->un = (struct sockaddr_un){ .sun_family = AF_UNIX };
	if (n == 0 || n >= sizeof(ret->un.sun_path))
		return err_set(err, ERR_USAGE, "a Unix socket's path has 1 to %zu bytes: unix:%s",
			       sizeof(ret->un.sun_path) - 1, path);
	memcpy(ret->un.sun_path, path, n);
	*ret_len = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1);
	return 0;
}

/* Removes the socket file of a killed server, when nothing listens there. */
static void remove_stale(const union address *a, socklen_t len)
{
	_cleanup_(fd_closep) int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (lstat(a->un.sun_path, &st) < 0 || !S_ISSOCK(st.st_mode))
		return;
	if (fd >= 0 && connect(fd, &a->any, len) < 0 && errno == ECONNREFUSED)
		unlink(a->un.sun_path);
}

static int bind_there(int fd, const union address *a, socklen_t len, const char *text,
		      struct err *err)
{
	int on = 1;

	if (a->any.sa_family == AF_UNIX)
		remove_stale(a, len);
	else
		setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (a->any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof(on));
	if (bind(fd, &a->any, len) < 0) {
		if (errno == EADDRINUSE)
			return err_set(err, ERR_BUSY,
				       "cannot listen at %s: somebody listens there already; "
				       "choose another address with --listen",
				       text);
		return err_errno(err, "cannot listen at %s", text);
	}
	if (a->any.sa_family == AF_UNIX && chmod(a->un.sun_path, 0660) < 0)
		return err_errno(err, "cannot protect %s", text);
	return listen(fd, BACKLOG) < 0 ? err_errno(err, "cannot listen at %s", text) : 0;
}

int listener_open(const char *text, struct listener *ret, struct err *err)
{
	bool is_unix = str_has_prefix(text, "unix:");
	_cleanup_(fd_closep) int fd = -1;
	union address a = { 0 };
	socklen_t len = 0;

	if ((is_unix ? parse_unix(text + 5, &a, &len, err) : parse_inet(text, &a, &len, err)) < 0)
		return -1;
	fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return err_errno(err, "cannot make a socket");
	if (bind_there(fd, &a, len, text, err) < 0 || listener_adopt(fd, ret, err) < 0)
		return -1;
	ret->unlink_path = is_unix ? xstrdup(text + 5) : NULL;
	TAKE_FD(fd);
	return 0;
}
