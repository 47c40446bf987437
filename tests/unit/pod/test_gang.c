/* Pods of a gang wait for each other's names, with a DNS that learns of them one by one. */
#include <stdlib.h>
#include <string.h>
#include "pod/gang.h"
#include "unit.h"

struct dns {
	struct clock clock;
	int64_t each_ns;      /* a pod more is known after that */
	int64_t late_ns;      /* … and its name so much later */
	unsigned pods, never; /* name number `never` (from 1) isn't known at all */
	int64_t stop_ns;
	unsigned asked;
};

static unsigned known(const struct dns *d, int64_t late)
{
	return (unsigned)MIN(MAX((d->clock.now_ns - late) / d->each_ns, 0), d->pods);
}

static int look_up(void *arg, const char *name, struct str *ret)
{
	struct dns *d = arg;
	const char *dot = strchr(name, '.');
	bool pod = strlen(name) > strlen("train-1");
	unsigned n = known(d, pod ? d->late_ns : 0), i;

	d->asked++;
	if (!pod) {
		assert_string_equal(name, "train-1");
		for (i = 0; i < n; i++)
			str_addf(ret, "%s192.0.2.%u", i ? "," : "", n - i); /* in no order */
		return n ? (int)n : -1;
	}
	if (dot)
		assert_string_equal(dot, ".train-1");
	i = (unsigned)atoi(name + strlen("train-1-"));
	assert_true(i < d->pods);
	if (i >= n || i + 1 == d->never)
		return -1;
	str_addf(ret, "192.0.2.%u,192.0.2.200", i + 1);
	return 2;
}

static void pass(void *arg, int64_t ns)
{
	struct dns *d = arg;

	clock_virtual_advance(&d->clock, ns);
}

static bool stopped(void *arg)
{
	const struct dns *d = arg;

	return d->stop_ns && d->clock.now_ns > d->stop_ns;
}

static int meet_some(struct dns *d, const char *framework, unsigned min, unsigned nodes,
		     const char *service, const char *index, struct arena *arena,
		     const char *const **env, struct err *err)
{
	const struct runner_attempt a = { .on.gang = { framework, nodes, 1, 0, min } };
	const struct pod_gang_world world = {
		.clock = &d->clock, .wait = pass, .look_up = look_up, .stopped = stopped, .arg = d
	};

	*err = (struct err){ 0 };
	clock_virtual_init(&d->clock, 0);
	return pod_gang_meet(&a, service, index, &world, arena, env, err);
}

static int meet(struct dns *d, const char *framework, unsigned nodes, const char *service,
		const char *index, struct arena *arena, const char *const **env, struct err *err)
{
	return meet_some(d, framework, 0, nodes, service, index, arena, env, err);
}

static void test_all_are_waited_for(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct dns d = { .each_ns = 20 * NS_PER_S, .late_ns = NS_PER_S, .pods = 4 };
	const char *const *env;
	struct err err;

	assert_int_equal(meet(&d, "torch", 4, "train-1", "2", arena, &env, &err), 0);
	assert_true(d.clock.now_ns >= 80 * NS_PER_S && d.clock.now_ns < 90 * NS_PER_S);
	assert_true(d.asked < 80);
	assert_string_equal(env[0], "CAIRN_GANG_HOSTS=train-1-%u.train-1");
	assert_string_equal(env[1], "CAIRN_GANG_NODE=2");
	assert_string_equal(env[2], "CAIRN_GANG_NODES=4");
	assert_null(env[3]);
	assert_int_equal(meet(&d, "mpi", 4, "train-1", "0", arena, &env, &err), 0);
	assert_string_equal(
		env[3],
		"CAIRN_GANG_ADDRESSES=192.0.2.1,192.0.2.2,192.0.2.3,192.0.2.4"); /* in the order of
										    the nodes */
	assert_int_equal(strlen(env[4]), strlen("CAIRN_GANG_TOKEN=") + 64);
	assert_null(env[5]);
	assert_int_equal(meet(&d, "torch", 4, "train-1-%u", "1", arena, &env, &err), 0);
	assert_string_equal(env[0], "CAIRN_GANG_HOSTS=train-1-%u");
	assert_string_equal(env[1], "CAIRN_GANG_NODE=1");
}

/* Of an elastic gang, enough and the first one. */
static void test_enough_are_waited_for(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct dns d = { .each_ns = 20 * NS_PER_S, .late_ns = NS_PER_S, .pods = 3 };
	const char *const *env;
	struct err err;

	assert_int_equal(meet_some(&d, "torch", 2, 8, "train-1", "7", arena, &env, &err), 0);
	assert_true(d.clock.now_ns >= 40 * NS_PER_S && d.clock.now_ns < 50 * NS_PER_S);
	assert_string_equal(env[1], "CAIRN_GANG_NODE=7");
	assert_string_equal(env[2], "CAIRN_GANG_NODES=8");
	assert_int_equal(strlen(env[3]), strlen("CAIRN_GANG_TOKEN=") + 64);
	assert_null(env[4]);
	/* The first one may get its place much later. */
	d.late_ns = 600 * NS_PER_S;
	assert_int_equal(meet_some(&d, "torch", 2, 8, "train-1", "7", arena, &env, &err), 0);
	assert_true(d.clock.now_ns >= 600 * NS_PER_S && d.clock.now_ns < 640 * NS_PER_S);
	d.never = 1;
	assert_int_equal(meet_some(&d, "torch", 2, 8, "train-1", "7", arena, &env, &err), -1);
	assert_non_null(
		strstr(err.msg, "DNS doesn't know train-1-0.train-1, though it knows other"));
}

static void test_one_node_waits_for_nobody(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct dns d = { .each_ns = 1 };
	const char *const *env;
	struct err err;

	assert_int_equal(meet(&d, NULL, 1, NULL, NULL, arena, &env, &err), 0);
	assert_null(env[0]);
	assert_int_equal(d.asked, 0);
}

static void test_what_ends_the_wait(void **state)
{
	static const struct {
		struct dns dns;
		const char *service, *index;
		enum err_code code;
		const char *want;
		int64_t within_ns;
	} cases[] = {
		{ { .each_ns = 1000 * 3600 * NS_PER_S, .pods = 3 },
		  "train-1",
		  "0",
		  ERR_IO,
		  "DNS doesn't know the service train-1",
		  125 * NS_PER_S },
		{ { .each_ns = NS_PER_S, .pods = 2 },
		  "train-1",
		  "0",
		  ERR_IO,
		  "2 of 3 pods have an address",
		  3605 * NS_PER_S },
		{ { .each_ns = NS_PER_S, .pods = 2, .stop_ns = 7 * NS_PER_S },
		  "train-1",
		  "0",
		  ERR_CANCELLED,
		  "asked to stop",
		  10 * NS_PER_S },
		{ { .each_ns = NS_PER_S, .pods = 3, .never = 1 },
		  "train-1",
		  "1",
		  ERR_IO,
		  "DNS doesn't know train-1-0.train-1",
		  130 * NS_PER_S },
		{ { .each_ns = NS_PER_S, .pods = 3 },
		  NULL,
		  "1",
		  ERR_INVALID,
		  "CAIRN_POD_SERVICE",
		  0 },
		{ { .each_ns = NS_PER_S, .pods = 3 },
		  "a%n",
		  "1",
		  ERR_INVALID,
		  "CAIRN_POD_SERVICE",
		  0 },
		{ { .each_ns = NS_PER_S, .pods = 3 },
		  "-%u",
		  "1",
		  ERR_INVALID,
		  "CAIRN_POD_SERVICE",
		  0 },
		{ { .each_ns = NS_PER_S, .pods = 3 },
		  "a-%u-%u",
		  "1",
		  ERR_INVALID,
		  "CAIRN_POD_SERVICE",
		  0 },
		{ { .each_ns = NS_PER_S, .pods = 3, .never = 1 },
		  "train-1-%u",
		  "1",
		  ERR_IO,
		  "DNS doesn't know train-1-0, ",
		  130 * NS_PER_S },
		{ { .each_ns = NS_PER_S, .pods = 3 },
		  "train-1",
		  NULL,
		  ERR_INVALID,
		  "JOB_COMPLETION_INDEX",
		  0 },
		{ { .each_ns = NS_PER_S, .pods = 3 },
		  "train-1",
		  "3",
		  ERR_INVALID,
		  "JOB_COMPLETION_INDEX",
		  0 },
		{ { .each_ns = NS_PER_S, .pods = 3 },
		  "train-1",
		  "-1",
		  ERR_INVALID,
		  "JOB_COMPLETION_INDEX",
		  0 },
	};
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	const char *const *env;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct dns d = cases[i].dns;
		struct err err;

		assert_int_equal(
			meet(&d, "torch", 3, cases[i].service, cases[i].index, arena, &env, &err),
			-1);
		assert_int_equal(err.code, cases[i].code);
		assert_non_null(strstr(err.msg, cases[i].want));
		assert_true(d.clock.now_ns <= cases[i].within_ns);
	}
}

/* The resolver that pods use, on a name that any machine has. */
static void test_the_real_resolver(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	const struct runner_attempt a = { .on.gang = { "torch", 2, 1, 0 } };
	struct dns d = { .stop_ns = 1 };
	const struct pod_gang_world world = {
		.clock = &d.clock, .wait = pass, .stopped = stopped, .arg = &d
	};
	const char *const *env;
	struct err err = { 0 };

	clock_virtual_init(&d.clock, 0);
	assert_int_equal(pod_gang_meet(&a, "localhost", "0", &world, arena, &env, &err),
			 -1); /* has one address: we wait for the second pod, until told to end */
	assert_int_equal(err.code, ERR_CANCELLED);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_all_are_waited_for),
					    cmocka_unit_test(test_enough_are_waited_for),
					    cmocka_unit_test(test_one_node_waits_for_nobody),
					    cmocka_unit_test(test_what_ends_the_wait),
					    cmocka_unit_test(test_the_real_resolver) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
