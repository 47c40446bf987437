/* engine/pod/gang.c — pods of one step wait for each other by asking DNS.
 *
 * wait_for_all() looks up the service's own name until it has as many addresses as there are nodes,
 * or as an elastic gang has at least. Only then is a pod's name looked up, because DNS may cache an
 * answer "no such name" for a while. The first pod's name is always looked up, because all ranks
 * meet there; all pods' names when launchers must reach each other
 * without resolving names (`all` of pod_gang_meet()). Pauses grow from LOOK_FIRST_NS to
 * LOOK_MOST_NS.
 *
 * Invariants: every wait is bounded (DNS_WITHIN_NS, GANG_WITHIN_NS), and stopped() is checked
 * before each pause. The token is the same in each pod of an attempt, because it depends only on
 * the specification. Clock, pause and look-up come from struct pod_gang_world, for tests.
 *
 * Threads: the caller's, which it blocks. Not here: starting ranks (steps/train/), judging whether
 * a gang gets its nodes in time (the runner).
 */
#include "pod/gang.h"
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include "base/text/text.h"

#define LOOK_FIRST_NS (NS_PER_S / 10)
#define LOOK_MOST_NS  (2 * NS_PER_S)
/* A pod has its address when its sidecar runs; DNS learns it seconds later. */
#define DNS_WITHIN_NS (2 * 60 * NS_PER_S)
/* The limit for all pods: a safety net, since the runner's own limit is shorter. */
#define GANG_WITHIN_NS (3600 * NS_PER_S)
/* CAIRN_GANG_ADDRESSES is one string of an environment: 128 KiB at most (Linux, MAX_ARG_STRLEN). */
#define ADDRESSES_MAX (120 * KIB)
#define GANG_NAME_MAX 80 /* a label of DNS has at most 63 characters */

/* The real world. */

static int look_up(void *arg, const char *name, struct str *ret)
{
	const struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
	struct addrinfo *found = NULL;
	int n = 0;

	if (getaddrinfo(name, NULL, &hints, &found) != 0)
		return -1;
	for (const struct addrinfo *a = found; a; a = a->ai_next) {
		char text[NI_MAXHOST];

		if (a->ai_family != found->ai_family ||
		    getnameinfo(a->ai_addr, a->ai_addrlen, text, sizeof(text), NULL, 0,
				NI_NUMERICHOST) != 0)
			continue;
		str_addf(ret, "%s%s", n ? "," : "", text);
		n++;
	}
	freeaddrinfo(found);
	return n ? n : -1;
}

static void wait_a_while(void *arg, int64_t ns)
{
	const struct timespec t = { .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };

	nanosleep(&t, NULL); /* lint: nanosleep because it is the real world's wait; a signal ends
				it early: stopped() is checked next */
}

/* Meeting. */

struct meeting {
	struct pod_gang_world world;
	char service[GANG_NAME_MAX];  /* of all pods */
	char host[2 * GANG_NAME_MAX]; /* of each, with %u for its number */
	unsigned nodes, here;
	unsigned enough; /* pods to begin with; of an elastic gang others may join later */
	int64_t begun_ns, pause_ns;
};

static int64_t now_ns(const struct meeting *m)
{
	return m->world.clock->mono_ns(m->world.clock);
}

/* Pauses between two look-ups. */
static int pause_for(struct meeting *m, struct err *err)
{
	if (m->world.stopped && m->world.stopped(m->world.arg))
		return err_set(err, ERR_CANCELLED,
			       "asked to stop while waiting for the other pods");
	m->world.wait(m->world.arg, m->pause_ns);
	m->pause_ns = MIN(m->pause_ns * 3 / 2, LOOK_MOST_NS);
	return 0;
}

static void begin(struct meeting *m)
{
	m->begun_ns = now_ns(m);
	m->pause_ns = LOOK_FIRST_NS;
}

/* Waits until DNS knows enough pods. If it doesn't know even this pod, which runs, DNS is at fault.
 */
static int wait_for_all(struct meeting *m, struct err *err)
{
	_cleanup_(str_deinit) struct str found = { 0 };
	int n, most = 0;

	for (begin(m);;) {
		str_reset(&found);
		n = m->world.look_up(m->world.arg, m->service, &found);
		most = MAX(most, n);
		if (n >= (int)m->enough)
			return 0;
		if (most <= 0 && now_ns(m) - m->begun_ns > DNS_WITHIN_NS)
			return err_set(err, ERR_IO,
				       "the cluster's DNS doesn't know the service %s, to which "
				       "this pod belongs: pods can't find each other",
				       m->service);
		if (now_ns(m) - m->begun_ns > GANG_WITHIN_NS)
			return err_set(err, ERR_IO,
				       "after an hour only %d of %u pods have an address", most,
				       m->enough);
		if (pause_for(m, err) < 0)
			return -1;
	}
}

/* All pods are known to the service then, so their names are known soon. Only of an elastic gang
 * the first pod may not be there yet, even if enough are. */
static int wait_for_name(struct meeting *m, unsigned index, struct str *ret_first, struct err *err)
{
	int64_t within = m->enough < m->nodes ? GANG_WITHIN_NS : DNS_WITHIN_NS;
	const char *rest = strstr(m->host, "%u");
	_cleanup_(freep) char *name =
		xasprintf("%.*s%u%s", (int)(rest - m->host), m->host, index, rest + 2);
	_cleanup_(str_deinit) struct str found = { 0 };

	for (begin(m);;) {
		str_reset(&found);
		if (m->world.look_up(m->world.arg, name, &found) > 0)
			break;
		if (now_ns(m) - m->begun_ns > within)
			return err_set(
				err, ERR_IO,
				"the cluster's DNS doesn't know %s, though it knows %s pods of %s",
				name, m->enough < m->nodes ? "other" : "all", m->service);
		if (pause_for(m, err) < 0)
			return -1;
	}
	str_addn(ret_first, found.s, strcspn(found.s, ","));
	return 0;
}

static const char *const *environment(const struct meeting *m, const struct runner_attempt *a,
				      const struct str *addresses, struct arena *arena)
{
	_cleanup_(str_deinit) struct str token = { 0 };
	const char **env = arena_alloc(arena, 6 * sizeof(*env));
	char hex[DIGEST_HEX_MAX];
	struct digest d;
	size_t n = 0;

	env[n++] = arena_printf(arena, "CAIRN_GANG_HOSTS=%s", m->host);
	env[n++] = arena_printf(arena, "CAIRN_GANG_NODE=%u", m->here);
	env[n++] = arena_printf(arena, "CAIRN_GANG_NODES=%u", m->nodes);
	if (addresses->len || a->on.gang.min_nodes) {
		/* The token is the same in each pod of the attempt, because it depends only on the
		 * specification. No object of the cluster contains it. */
		str_addf(&token, "cairn gang %llu %s ", (unsigned long long)a->id,
			 a->run_id ? a->run_id : "");
		if (a->key)
			str_add(&token, digest_hex(a->key, hex));
		digest_bytes(token.s, token.len, &d);
		if (addresses->len)
			env[n++] = arena_printf(arena, "CAIRN_GANG_ADDRESSES=%s", addresses->s);
		env[n++] = arena_printf(arena, "CAIRN_GANG_TOKEN=%s", digest_hex(&d, hex));
	}
	env[n] = NULL;
	return env;
}

static int surroundings(struct meeting *m, const char *service, const char *index, struct err *err)
{
	bool each = service && str_has_suffix(service, POD_GANG_EACH);
	size_t len = service ? strlen(service) - (each ? strlen(POD_GANG_EACH) : 0) : 0;
	int64_t here;

	if (len == 0 || len >= sizeof(m->service) ||
	    strspn(service, "abcdefghijklmnopqrstuvwxyz0123456789-") < len)
		return err_set(err, ERR_INVALID,
			       POD_GANG_SERVICE
			       " doesn't name the service of this pod's step, which has %u nodes",
			       m->nodes);
	if (!index || !text_parse_int(index, &here) || here < 0 || here >= m->nodes)
		return err_set(err, ERR_INVALID,
			       POD_GANG_INDEX " doesn't say which of %u pods this is", m->nodes);
	snprintf(m->service, sizeof(m->service), "%.*s", (int)len, service);
	if (each)
		snprintf(m->host, sizeof(m->host), "%s", service);
	else
		snprintf(m->host, sizeof(m->host), "%s-%%u.%s", service, service);
	m->here = (unsigned)here;
	return 0;
}

int pod_gang_meet(const struct runner_attempt *a, const char *service, const char *index,
		  const struct pod_gang_world *world, struct arena *arena,
		  const char *const **ret_env, struct err *err)
{
	static const char *const nothing[] = { NULL };
	_cleanup_(str_deinit) struct str addresses = { 0 };
	const struct runner_gang *g = &a->on.gang;
	struct meeting m = { .nodes = g->nodes, .enough = g->min_nodes ? g->min_nodes : g->nodes };
	/* These launchers must reach each other and resolve no names. */
	bool all = g->servers || str_eq(g->framework, "mpi") || str_eq(g->framework, "horovod") ||
		   str_eq(g->framework, "ps");

	if (g->nodes <= 1) {
		*ret_env = nothing;
		return 0;
	}
	if (world)
		m.world = *world;
	if (!m.world.clock)
		m.world.clock = clock_system();
	if (!m.world.wait)
		m.world.wait = wait_a_while;
	if (!m.world.look_up)
		m.world.look_up = look_up;
	if (surroundings(&m, service, index, err) < 0 || wait_for_all(&m, err) < 0)
		return -1;
	for (unsigned i = 0; i < (all ? m.nodes : 1); i++) {
		if (i)
			str_addc(&addresses, ',');
		if (wait_for_name(&m, i, &addresses, err) < 0)
			return -1;
	}
	if (addresses.len > ADDRESSES_MAX)
		return err_set(err, ERR_TOO_LARGE,
			       "the addresses of %u nodes are too long for the environment of the "
			       "framework `%s`",
			       m.nodes, g->framework);
	if (!all)
		str_reset(&addresses);
	*ret_env = environment(&m, a, &addresses, arena);
	return 0;
}
