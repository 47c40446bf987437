/* A Unix socket tells its peer's user itself. For TCP within this machine, /proc/net/tcp lists both
 * ends of a connection, each with the user who made it; the peer's end is the line whose two
 * addresses are ours, exchanged. Only an established connection counts: a line of one that has
 * ended says user 0, whoever made it. */
#include "serve/web/peer.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include "base/macros.h"

#define ESTABLISHED 1
/* The kernel's number for users that have none in our namespace. */
#define NO_UID 65534

union address {
	struct sockaddr any;
	struct sockaddr_in in;
	struct sockaddr_in6 in6;
	struct sockaddr_storage room;
};

static bool is_mapped(const union address *a)
{
	return a->any.sa_family == AF_INET6 && IN6_IS_ADDR_V4MAPPED(&a->in6.sin6_addr);
}

void peer_name(int fd, struct peer_name *ret)
{
	union address a = { 0 };
	socklen_t len = sizeof(a);

	snprintf(ret->address, sizeof(ret->address), "unknown");
	if (getpeername(fd, &a.any, &len) < 0)
		return;
	if (a.any.sa_family == AF_UNIX)
		snprintf(ret->address, sizeof(ret->address), "unix");
	else if (a.any.sa_family == AF_INET)
		inet_ntop(AF_INET, &a.in.sin_addr, ret->address, sizeof(ret->address));
	else if (is_mapped(&a))
		inet_ntop(AF_INET, &a.in6.sin6_addr.s6_addr[12], ret->address,
			  sizeof(ret->address));
	else if (a.any.sa_family == AF_INET6)
		inet_ntop(AF_INET6, &a.in6.sin6_addr, ret->address, sizeof(ret->address));
}

/* "0100007F:1F90": each 32-bit word as the machine holds it, in hex; the port in order. */
static void write_end(char *out, size_t size, const union address *a, bool as_v6)
{
	uint32_t words[4] = { 0 };

	if (a->any.sa_family == AF_INET && !as_v6) {
		snprintf(out, size, "%08X:%04X", a->in.sin_addr.s_addr, ntohs(a->in.sin_port));
		return;
	}
	if (a->any.sa_family == AF_INET) {
		words[2] = htonl(0xffff);
		words[3] = a->in.sin_addr.s_addr;
	} else {
		memcpy(words, &a->in6.sin6_addr, sizeof(words));
	}
	snprintf(out, size, "%08X%08X%08X%08X:%04X", words[0], words[1], words[2], words[3],
		 ntohs(a->any.sa_family == AF_INET ? a->in.sin_port : a->in6.sin6_port));
}

/* Looks for the end at `from` that is connected to `to`. */
static bool find_line(const char *file, const char *from, const char *to, uid_t *ret)
{
	FILE *f = fopen(file, "re");
	char line[512], a[40], b[40];
	bool found = false;
	unsigned state, uid;

	if (!f)
		return false;
	while (!found && fgets(line, sizeof(line), f))
		found = sscanf(line, " %*[^:]: %39s %39s %x %*s %*s %*s %u", a, b, &state, &uid) ==
				4 &&
			state == ESTABLISHED && strcmp(a, from) == 0 && strcmp(b, to) == 0;
	fclose(f);
	if (found)
		*ret = uid;
	return found;
}

static bool tcp_uid(const union address *peer, const union address *ours, uid_t *ret)
{
	static const char *const files[] = { "/proc/net/tcp", "/proc/net/tcp6" };

	/* A program may have connected to an IPv4 address through an IPv6 socket. */
	for (size_t i = peer->any.sa_family == AF_INET6; i < ARRAY_LEN(files); i++) {
		char from[40], to[40];

		write_end(from, sizeof(from), peer, i > 0);
		write_end(to, sizeof(to), ours, i > 0);
		if (find_line(files[i], from, to, ret))
			return *ret != NO_UID;
	}
	return false;
}

bool peer_uid(int fd, uid_t *ret)
{
	union address peer = { 0 }, ours = { 0 };
	socklen_t len = sizeof(peer), ours_len = sizeof(ours);
	struct ucred c;
	socklen_t c_len = sizeof(c);

	if (getpeername(fd, &peer.any, &len) < 0 || getsockname(fd, &ours.any, &ours_len) < 0)
		return false;
	if (peer.any.sa_family == AF_UNIX) {
		if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &c, &c_len) < 0 || c.uid == NO_UID)
			return false;
		*ret = c.uid;
		return true;
	}
	return (peer.any.sa_family == AF_INET || peer.any.sa_family == AF_INET6) &&
	       tcp_uid(&peer, &ours, ret);
}
