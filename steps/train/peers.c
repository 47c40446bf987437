/* steps/train/peers.c — messages between the launchers of one gang, for what its ranks can't settle
 * themselves.
 *
 * Two cases. Servers never end by themselves, and those of one node serve the workers of all. So
 * each node's launcher tells the first node's when its workers have ended well, and gets "end" when
 * all have (ends_together()). And mpirun, on the first node, needs a daemon on each other one: it
 * calls this program (`mpi-agent ADDRESS COMMAND`, peers_agent_main()) where it would call ssh, and
 * the agent asks that node's launcher to start the daemon.
 *
 * One line a connection, "TOKEN done NODE" or "TOKEN run COMMAND", answered by one: "end", "ok", or
 * "no: why". A wrong token gets no answer: a caller that doesn't know it is no pod of this gang.
 * Names aren't resolved: addresses come from the environment.
 *
 * The first node keeps `done` by node and the callers that wait; note_done() answers them once.
 * Another node calls the first again after AGAIN_NS until it is connected; when that connection
 * ends without "end", the gang has failed (`forsaken`).
 *
 * Connections and timers are on the gang's loop and thread; a message has at most MESSAGE_MAX
 * bytes, and there are at most CALLERS_MAX callers. The agent is a separate process that mpirun
 * starts: it has no loop and waits. Failures of ranks aren't sent here: a launcher that fails ends
 * its node, and the runner ends the other nodes.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "steps/train/gang.h"

/* A daemon's command line names every node. The bound is the longest string for execve() (Linux,
 * MAX_ARG_STRLEN). */
#define MESSAGE_MAX (128 * KIB)
#define CALLERS_MAX 8192
#define AGAIN_NS    NS_PER_S
/* How long another node's launcher may take until it listens: its image may have to be pulled. */
#define AGENT_PATIENCE_S 600

struct caller {
	struct peers *peers;
	struct loop_source *source;
	int fd;
	struct str said;
	bool done; /* waits for the end */
};

struct peers {
	struct gang *gang;
	int listen_fd, first_fd; /* first: our connection to the first node */
	struct loop_source *listener, *first, *again;
	VEC(struct caller *) callers;
	bool *done; /* by node: its workers ended well */
	unsigned n_done;
	bool over, we_are_done, done_sent;
};

/* Addresses. */

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static int parse_address(const char *text, uint16_t port, union address *ret, socklen_t *ret_len)
{
	*ret = (union address){ 0 };
	if (inet_pton(AF_INET, text, &ret->v4.sin_addr) == 1) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons(port);
		*ret_len = sizeof(ret->v4);
		return 0;
	}
	if (inet_pton(AF_INET6, text, &ret->v6.sin6_addr) != 1)
		return -1;
	ret->v6.sin6_family = AF_INET6;
	ret->v6.sin6_port = htons(port);
	*ret_len = sizeof(ret->v6);
	return 0;
}

static int address_of(const struct gang *g, unsigned node, union address *ret, socklen_t *ret_len,
		      struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	gang_add_address(g, node, &text);
	if (parse_address(text.s, (uint16_t)(g->where.port - 1), ret, ret_len) < 0)
		return err_set(err, ERR_INVALID,
			       "node %u is known by its name `%s` only: CAIRN_GANG_ADDRESSES must "
			       "say its address",
			       node, text.s);
	return 0;
}

/* Callers. */

static void hang_up(struct caller *c)
{
	struct peers *p = c->peers;

	for (size_t i = 0; i < p->callers.n; i++)
		if (p->callers.v[i] == c)
			p->callers.v[i] = p->callers.v[--p->callers.n];
	loop_remove(p->gang->loop, c->source);
	fd_closep(&c->fd);
	str_deinit(&c->said);
	free(c);
}

static void answer(int fd, const char *text)
{
	/* The buffer is empty, so a few bytes always fit. */
	(void)!send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* The workers of this node ended well; when all nodes' have, the gang ends. */
static void note_done(struct peers *p, unsigned node)
{
	assert(node < p->gang->size.nodes);
	if (p->done[node])
		return;
	p->done[node] = true;
	if (++p->n_done < p->gang->size.nodes)
		return;
	p->over = true;
	while (p->callers.n) {
		if (p->callers.v[0]->done)
			answer(p->callers.v[0]->fd, "end\n");
		hang_up(p->callers.v[0]);
	}
	gang_all_over(p->gang);
}

/* The caller may be freed afterwards. */
static void act_on(struct caller *c, char *line)
{
	struct peers *p = c->peers;
	const char *token = p->gang->where.token;
	size_t n = strlen(token);
	struct err err = { 0 };
	unsigned node;

	if (strncmp(line, token, n) != 0 || line[n] != ' ') {
		hang_up(c);
		return;
	}
	line += n + 1;
	if (p->done && sscanf(line, "done %u", &node) == 1 && node < p->gang->size.nodes) {
		c->done = true;
		note_done(p, node);
		return;
	}
	if (!p->done && str_has_prefix(line, "run ")) {
		if (gang_run_daemon(p->gang, line + 4, &err) < 0) {
			_cleanup_(freep) char *why = xasprintf("no: %s\n", err.msg);

			answer(c->fd, why);
		} else {
			answer(c->fd, "ok\n");
		}
	}
	hang_up(c);
}

static void on_caller(void *arg, int fd, uint32_t events)
{
	struct caller *c = arg;
	char buf[4096], *nl;
	ssize_t n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || c->done || c->said.len + (size_t)n > MESSAGE_MAX) {
		hang_up(c);
		return;
	}
	str_addn(&c->said, buf, (size_t)n);
	nl = memchr(c->said.s, '\n', c->said.len);
	if (nl) {
		*nl = 0;
		act_on(c, c->said.s);
	}
}

static void on_listener(void *arg, int fd, uint32_t events)
{
	struct peers *p = arg;
	struct err err = { 0 };
	struct caller *c;
	int peer = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (peer < 0)
		return;
	if (p->over || p->callers.n >= CALLERS_MAX) {
		close(peer);
		return;
	}
	c = xcalloc(1, sizeof(*c));
	*c = (struct caller){ .peers = p, .fd = peer };
	if (loop_add_fd(p->gang->loop, peer, EPOLLIN, on_caller, c, &c->source, &err) < 0) {
		close(peer);
		free(c);
		return;
	}
	VEC_PUSH(&p->callers, c);
}

static int listen_here(struct peers *p, struct err *err)
{
	union address at;
	socklen_t len;
	int on = 1;

	if (address_of(p->gang, p->gang->where.here, &at, &len, err) < 0)
		return -1;
	p->listen_fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p->listen_fd < 0 ||
	    setsockopt(p->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) < 0 ||
	    bind(p->listen_fd, &at.any, len) < 0 || listen(p->listen_fd, 128) < 0)
		return err_errno(err, "cannot listen for the other nodes' launchers at port %u",
				 p->gang->where.port - 1u);
	return loop_add_fd(p->gang->loop, p->listen_fd, EPOLLIN, on_listener, p, &p->listener, err);
}

/* Calling the first node. */

static void send_done(void *arg);

static void try_again(struct peers *p)
{
	struct clock *c = loop_clock(p->gang->loop);

	loop_remove(p->gang->loop, p->first);
	p->first = NULL;
	fd_closep(&p->first_fd);
	if (!p->again)
		p->again = loop_add_timer(p->gang->loop, c->mono_ns(c) + AGAIN_NS, send_done, p);
}

static void on_first(void *arg, int fd, uint32_t events)
{
	struct peers *p = arg;
	char buf[16];
	ssize_t n;

	if (!p->done_sent) { /* it may be connected now, or have failed */
		_cleanup_(freep) char *text =
			xasprintf("%s done %u\n", p->gang->where.token, p->gang->where.here);

		if (send(fd, text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text)) {
			try_again(p);
			return;
		}
		p->done_sent = true;
	}
	n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	loop_remove(p->gang->loop, p->first);
	p->first = NULL;
	p->over = true;
	p->gang->end.forsaken = n < 4 || memcmp(buf, "end\n", 4) != 0;
	gang_all_over(p->gang);
}

static void send_done(void *arg)
{
	struct peers *p = arg;
	struct err err = { 0 };
	union address at;
	socklen_t len;

	p->again = NULL;
	if (address_of(p->gang, 0, &at, &len, &err) < 0)
		return; /* peers_begin() has checked it */
	p->first_fd = socket(at.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (p->first_fd < 0 || (connect(p->first_fd, &at.any, len) < 0 && errno != EINPROGRESS) ||
	    loop_add_fd(p->gang->loop, p->first_fd, EPOLLOUT | EPOLLIN | EPOLLET, on_first, p,
			&p->first, &err) < 0)
		try_again(p);
}

/* For gang.c. */

/* Whether there are servers, or a scheduler, that workers of other nodes need. */
static bool ends_together(const struct gang *g)
{
	return g->where.apart && (g->framework == PS || g->size.servers);
}

int peers_begin(struct gang *g, struct err *err)
{
	struct peers *p;
	union address at;
	socklen_t len;

	/* mpirun's daemons run on each node but the first. */
	if (!ends_together(g) && !(gang_is_mpi(g) && g->where.apart && g->where.here))
		return 0;
	p = g->peers = xcalloc(1, sizeof(*p));
	*p = (struct peers){ .gang = g, .listen_fd = -1, .first_fd = -1 };
	if (ends_together(g) && g->where.here)
		return address_of(g, 0, &at, &len, err);
	if (ends_together(g))
		p->done = xcalloc(g->size.nodes, sizeof(*p->done));
	return listen_here(p, err);
}

bool peers_workers_done(struct gang *g)
{
	struct peers *p = g->peers;

	if (!p || !ends_together(g) || p->over)
		return false;
	p->we_are_done = true;
	if (p->done)
		note_done(p, 0);
	else
		send_done(p);
	return true;
}

bool peers_pending(const struct gang *g)
{
	const struct peers *p = g->peers;

	return p && ends_together(g) && p->we_are_done && !p->over;
}

void peers_free(struct gang *g)
{
	struct peers *p = g->peers;

	if (!p)
		return;
	while (p->callers.n)
		hang_up(p->callers.v[0]);
	VEC_FREE(&p->callers);
	loop_remove(g->loop, p->listener);
	loop_remove(g->loop, p->first);
	loop_remove(g->loop, p->again);
	fd_closep(&p->listen_fd);
	fd_closep(&p->first_fd);
	free(p->done);
	free(p);
	g->peers = NULL;
}

/* The agent. */

static int connect_patiently(const union address *at, socklen_t len)
{
	for (int i = 0; i < 5 * AGENT_PATIENCE_S; i++) {
		int fd = socket(at->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0 || connect(fd, &at->any, len) == 0)
			return fd;
		close(fd);
		clock_sleep(NS_PER_S / 5);
	}
	return -1;
}

static int ask(int fd, char **command, struct str *ret)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	const char *token = getenv("CAIRN_GANG_TOKEN");
	char buf[512];
	ssize_t n;

	str_addf(&text, "%s run", token ? token : GANG_NO_TOKEN);
	for (; *command; command++)
		str_addf(&text, " %s", *command);
	if (memchr(text.s, '\n', text.len) || text.len + 1 > MESSAGE_MAX)
		return -1;
	str_addc(&text, '\n');
	if (fs_write_all(fd, text.s, text.len, NULL) < 0)
		return -1;
	while ((n = read(fd, buf, sizeof(buf))) > 0)
		str_addn(ret, buf, (size_t)n);
	return 0;
}

int peers_agent_main(int argc, char **argv)
{
	_cleanup_(str_deinit) struct str said = { 0 };
	_cleanup_(fd_closep) int fd = -1;
	const char *said_port = getenv("CAIRN_GANG_PORT");
	int64_t port = GANG_PORT;
	union address at;
	socklen_t len;

	if (said_port && (!text_parse_int(said_port, &port) || port <= 1 || port > UINT16_MAX))
		port = GANG_PORT; /* gang_read_nodes() refuses it where it matters */
	if (argc < 2 || parse_address(argv[0], (uint16_t)(port - 1), &at, &len) < 0) {
		fprintf(stderr, "usage: mpi-agent ADDRESS COMMAND...: called by mpirun\n");
		return 2;
	}
	fd = connect_patiently(&at, len);
	if (fd < 0 || ask(fd, argv + 1, &said) < 0) {
		fprintf(stderr, "mpi-agent: the launcher at %s can't be reached\n", argv[0]);
		return 1;
	}
	if (said.len >= 3 && memcmp(said.s, "ok\n", 3) == 0)
		return 0;
	fprintf(stderr, "mpi-agent: the launcher at %s says: %s\n", argv[0],
		said.len ? said.s : "nothing");
	return 1;
}
