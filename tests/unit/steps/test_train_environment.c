/* train: cpus and GPUs of each member, and what it is told of its place. */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "steps/train/gang.h"
#include "unit.h"

static const char *find(char **env, const char *name)
{
	const char *found = NULL;
	size_t n = strlen(name);

	for (char **e = env; *e; e++)
		if (strncmp(*e, name, n) == 0 && (*e)[n] == '=') {
			assert_null(found); /* each once */
			found = *e + n + 1;
		}
	return found;
}

static struct gang gang_of(enum framework f, unsigned nodes, unsigned procs, struct member *members,
			   unsigned n)
{
	static uint16_t ports[64];
	struct gang g = { .framework = f,
			  .size.nodes = nodes,
			  .size.procs_per_node = procs,
			  .size.workers = n,
			  .size.workers_here = n,
			  .members.n = n,
			  .settings.threads = 8,
			  .ports.v = ports,
			  .ports.n = ARRAY_LEN(ports),
			  .settings.own_gpus = true,
			  .settings.pins = true,
			  .members.v = members };

	for (unsigned i = 0; i < n; i++)
		ports[i] = (uint16_t)(1000 + i);
	return g;
}

/* Divided: each device to one rank; fewer devices than ranks: each rank has one. */
static void test_gpus(void **state)
{
	static const struct {
		const char *all;
		unsigned ranks;
		const char *want[4];
	} cases[] = {
		{ "0,1,2,3", 4, { "0", "1", "2", "3" } },
		{ "0,1,2,3", 2, { "0,1", "2,3" } },
		{ "4,7,9", 2, { "4", "7,9" } },
		{ "GPU-1-a,GPU-2-b", 2, { "GPU-1-a", "GPU-2-b" } },
		{ "5", 3, { "5", "5", "5" } },
		{ "5,6", 3, { "5", "5", "6" } },
		{ "0,1", 1, { "0,1" } },
	};

	for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
		struct member members[4] = { 0 };
		struct gang g = gang_of(JAX, 1, cases[c].ranks, members, cases[c].ranks);

		setenv("CUDA_VISIBLE_DEVICES", cases[c].all, 1);
		for (unsigned i = 0; i < cases[c].ranks; i++) {
			char **env;

			members[i] = (struct member){ .gang = &g, .index = i, .local = i };
			env = gang_environment(&g, &members[i]);
			assert_string_equal(find(env, "CUDA_VISIBLE_DEVICES"), cases[c].want[i]);
			gang_environment_free(env);
		}
	}
	unsetenv("CUDA_VISIBLE_DEVICES");
}

static void test_servers_have_no_gpu(void **state)
{
	struct member members[3] = { { .role = ROLE_SCHEDULER },
				     { .role = ROLE_SERVER },
				     { .role = ROLE_WORKER } };
	struct gang g = gang_of(PS, 1, 1, members, 3);
	static const char *const want[] = { "", "", "3" };

	g.size.workers = g.size.workers_here = 1;
	setenv("CUDA_VISIBLE_DEVICES", "3", 1);
	for (unsigned i = 0; i < 3; i++) {
		char **env;

		members[i].gang = &g;
		env = gang_environment(&g, &members[i]);
		assert_string_equal(find(env, "CUDA_VISIBLE_DEVICES"), want[i]);
		assert_string_equal(find(env, "DMLC_PS_ROOT_PORT"), "1000");
		gang_environment_free(env);
	}
	unsetenv("CUDA_VISIBLE_DEVICES");
}

/* No two ranks share a cpu of `all`, none is left over, and each has its share. */
static void check_cpus(const struct cpus *all, unsigned ranks)
{
	struct member *members = xcalloc(ranks, sizeof(*members));
	struct gang g = { .framework = TORCH,
			  .size.nodes = 1,
			  .size.procs_per_node = ranks,
			  .size.workers = ranks,
			  .size.workers_here = ranks,
			  .members.n = ranks,
			  .settings.pins = true,
			  .members.v = members };
	struct cpus seen = { 0 }, mine;
	bool enough = ranks <= cpus_count(all);

	for (unsigned i = 0; i < ranks; i++) {
		members[i] = (struct member){ .gang = &g, .index = i, .local = i };
		assert_int_equal(gang_cpus(&g, &members[i], &mine), enough);
		if (!enough)
			continue;
		assert_true(cpus_count(&mine) >= cpus_count(all) / ranks);
		for (unsigned cpu = 0; cpu < MACHINE_CPUS_MAX; cpu++)
			if (cpus_has(&mine, cpu)) {
				assert_false(cpus_has(&seen, cpu));
				cpus_add(&seen, cpu);
			}
	}
	if (enough)
		assert_memory_equal(&seen, all, sizeof(seen));
	g.settings.pins = false;
	assert_false(gang_cpus(&g, &members[0], &mine));
	free(members);
}

static void test_cpus(void **state)
{
	struct cpus all;

	assert_int_equal(cpus_get(&all), 0);
	for (unsigned ranks = 1; ranks <= cpus_count(&all) + 1; ranks++)
		check_cpus(&all, ranks);
}

/* In place of the C library's, to be a machine of so many cpus. The kernel refuses a set without
 * room for all. */
static unsigned pretended_cpus;

int sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
	long n;

	if (!pretended_cpus) {
		n = syscall(SYS_sched_getaffinity, pid, bytes, set);
		if (n >= 0)
			memset((char *)set + n, 0, bytes - (size_t)n);
		return n < 0 ? -1 : 0;
	}
	if (bytes * 8 < pretended_cpus) {
		errno = EINVAL;
		return -1;
	}
	memset(set, 0, bytes);
	for (unsigned i = 0; i < pretended_cpus; i++)
		CPU_SET_S(i, bytes, set);
	return 0;
}

static void test_many_cpus(void **state)
{
	static const unsigned counts[] = { 1024, 1025, 1500, MACHINE_CPUS_MAX };

	for (size_t i = 0; i < ARRAY_LEN(counts); i++) {
		struct cpus all;

		pretended_cpus = counts[i];
		assert_int_equal(cpus_get(&all), 0);
		assert_int_equal(cpus_count(&all), counts[i]);
		check_cpus(&all, 1);
		check_cpus(&all, 7);
		check_cpus(&all, 1200);
	}
	pretended_cpus = 0;
}

/* What the user's environment says of threads stays; what is ours replaces what was there. */
static void test_threads_and_overrides(void **state)
{
	struct member m = { 0 };
	struct gang g = gang_of(TORCH, 2, 2, &m, 1);
	char **env;

	m.gang = &g;
	setenv("RANK", "77", 1);
	unsetenv("OMP_NUM_THREADS");
	env = gang_environment(&g, &m);
	assert_string_equal(find(env, "RANK"), "0");
	assert_string_equal(find(env, "OMP_NUM_THREADS"), "2");
	gang_environment_free(env);
	setenv("OMP_NUM_THREADS", "5", 1);
	g.settings.threads = 1;
	env = gang_environment(&g, &m);
	assert_string_equal(find(env, "OMP_NUM_THREADS"), "5");
	gang_environment_free(env);
	unsetenv("OMP_NUM_THREADS");
	env = gang_environment(&g, &m);
	assert_string_equal(find(env, "OMP_NUM_THREADS"), "1"); /* never 0 */
	gang_environment_free(env);
}

/* Nodes apart. */

static void surroundings(const char *hosts, const char *node, const char *nodes, const char *port,
			 const char *addresses)
{
	static const char *const names[] = { "CAIRN_GANG_HOSTS", "CAIRN_GANG_NODE",
					     "CAIRN_GANG_NODES", "CAIRN_GANG_PORT",
					     "CAIRN_GANG_ADDRESSES" };
	const char *const values[] = { hosts, node, nodes, port, addresses };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (values[i])
			setenv(names[i], values[i], 1);
		else
			unsetenv(names[i]);
	unsetenv("JOB_COMPLETION_INDEX");
}

/* "NAME=value" of the member with this role and index, on the node where the surroundings are. */
static void assert_told(struct gang *g, enum role role, unsigned index, unsigned local,
			const char *const *want)
{
	struct member m = { .gang = g, .role = role, .index = index, .local = local };
	char **env;

	g->members.v = &m;
	env = gang_environment(g, &m);
	for (; *want; want++) {
		const char *eq = strchr(*want, '=');
		char *name = xstrndup(*want, (size_t)(eq - *want));
		const char *found = find(env, name);

		if (eq[1] == '!') {
			assert_null(found);
		} else {
			assert_non_null(found);
			assert_string_equal(found, eq + 1);
		}
		free(name);
	}
	gang_environment_free(env);
}

#define TOLD(...) ((const char *const[]){ __VA_ARGS__, NULL })

static struct gang far_gang(enum framework f, unsigned nodes, unsigned procs, unsigned servers)
{
	struct gang g = { .framework = f,
			  .size.nodes = nodes,
			  .size.procs_per_node = procs,
			  .size.servers = servers,
			  .size.workers = nodes * procs,
			  .size.workers_here = procs,
			  .settings.threads = 8 };
	struct err err = { 0 };

	assert_int_equal(gang_read_nodes(&g, &err), 0);
	assert_true(g.where.apart);
	return g;
}

static void test_frameworks_over_nodes(void **state)
{
	struct gang g;

	surroundings("j-%u.svc", "1", "2", NULL, NULL);
	g = far_gang(TORCH, 2, 2, 0);
	assert_told(&g, ROLE_WORKER, 3, 1,
		    TOLD("RANK=3", "LOCAL_RANK=1", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2",
			 "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "PET_NODE_RANK=1",
			 "MASTER_ADDR=j-0.svc", "MASTER_PORT=29500", "PET_NNODES=2",
			 "PET_NPROC_PER_NODE=2", "OMP_NUM_THREADS=2"));
	g.settings.starts_nodes = true;
	g.size.workers = 2;
	assert_told(&g, ROLE_WORKER, 1, 0,
		    TOLD("PET_NODE_RANK=1", "NODE_RANK=1", "RANK=!", "PET_MASTER_ADDR=j-0.svc",
			 "PET_MASTER_PORT=29500"));
	surroundings("j-%u.svc", "0", NULL, "4000", NULL);
	g = far_gang(TENSORFLOW, 2, 1, 3);
	assert_told(&g, ROLE_SERVER, 2, 1,
		    TOLD("TF_CONFIG={\"cluster\":{\"ps\":[\"j-0.svc:4002\",\"j-1.svc:4003\",\"j-0."
			 "svc:4004\"],\"worker\":[\"j-0.svc:4000\",\"j-1.svc:4001\"]},\"task\":{"
			 "\"index\":2,\"type\":\"ps\"}}"));
	g = far_gang(JAX, 2, 1, 0);
	assert_told(&g, ROLE_WORKER, 1, 0,
		    TOLD("JAX_COORDINATOR_ADDRESS=j-0.svc:4000", "COORDINATOR_ADDRESS=j-0.svc",
			 "COORDINATOR_PORT=4000", "JAX_NUM_PROCESSES=2", "JAX_PROCESS_ID=1"));
	surroundings("j-%u.svc", "1", "3", NULL, "192.0.2.7,192.0.2.8,fd00::9");
	g = far_gang(PS, 3, 1, 1);
	assert_told(&g, ROLE_WORKER, 1, 0,
		    TOLD("DMLC_PS_ROOT_URI=192.0.2.7", "DMLC_PS_ROOT_PORT=29500",
			 "DMLC_WORKER_ID=1", "DMLC_NUM_WORKER=3", "DMLC_NUM_SERVER=1"));
	surroundings(NULL, NULL, NULL, NULL, NULL);
}

/* Each member is on one node, and all are somewhere. */
static void test_places(void **state)
{
	static const unsigned workers[] = { 0, 0, 0, 1, 1, 1, 2, 2, 2 }, servers[] = { 0, 1, 2, 0 };
	struct gang g;

	surroundings("j-%u", "2", NULL, NULL, NULL);
	g = far_gang(PS, 3, 3, 4);
	for (unsigned i = 0; i < ARRAY_LEN(workers); i++)
		assert_int_equal(gang_node(&g, ROLE_WORKER, i), workers[i]);
	for (unsigned i = 0; i < ARRAY_LEN(servers); i++)
		assert_int_equal(gang_node(&g, ROLE_SERVER, i), servers[i]);
	assert_int_equal(gang_node(&g, ROLE_SCHEDULER, 0), 0);
	surroundings(NULL, NULL, NULL, NULL, NULL);
}

/* The last port there is can be used: by one that listens, or as the last of several. */
static void test_last_port(void **state)
{
	static const struct {
		enum framework framework;
		unsigned workers, servers;
		const char *port;
		int want;
	} cases[] = {
		{ TORCH, 2, 0, "65535", 0 },       { TORCH, 2, 0, "2", 0 },
		{ PS, 2, 2, "65535", 0 },          { TENSORFLOW, 2, 0, "65534", 0 },
		{ TENSORFLOW, 2, 0, "65535", -1 }, { TENSORFLOW, 2, 3, "65531", 0 },
		{ TENSORFLOW, 2, 3, "65532", -1 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct gang g = { .framework = cases[i].framework,
				  .size.nodes = 2,
				  .size.procs_per_node = 1,
				  .size.workers = cases[i].workers,
				  .size.servers = cases[i].servers };
		struct err err = { 0 };

		surroundings("j-%u", "0", NULL, cases[i].port, NULL);
		assert_int_equal(gang_read_nodes(&g, &err), cases[i].want);
		if (cases[i].want == 0)
			assert_int_equal(g.where.port, atoi(cases[i].port));
	}
	surroundings(NULL, NULL, NULL, NULL, NULL);
}

static void test_surroundings_that_are_wrong(void **state)
{
	static const struct {
		const char *hosts, *node, *nodes, *port, *addresses, *want;
	} cases[] = {
		{ "j-%u", NULL, NULL, NULL, NULL,
		  "neither CAIRN_GANG_NODE nor JOB_COMPLETION_INDEX" },
		{ "j-%s", "0", NULL, NULL, NULL, "CAIRN_GANG_HOSTS is `j-%s`" },
		{ "j-%u%u", "0", NULL, NULL, NULL, "CAIRN_GANG_HOSTS" },
		{ "j-%u%n", "0", NULL, NULL, NULL, "CAIRN_GANG_HOSTS" },
		{ "j,k", "0", NULL, NULL, NULL, "CAIRN_GANG_HOSTS" },
		{ "j-%", "0", NULL, NULL, NULL, "CAIRN_GANG_HOSTS" },
		{ "j-%u", "2", NULL, NULL, NULL, "CAIRN_GANG_NODE is `2`: a number from 0 to 1" },
		{ "j-%u", "-1", NULL, NULL, NULL, "CAIRN_GANG_NODE" },
		{ "j-%u", "x", NULL, NULL, NULL, "CAIRN_GANG_NODE" },
		{ "j-%u", "0", "3", NULL, NULL, "CAIRN_GANG_NODES says 3 nodes, the step 2" },
		{ "j-%u", "0", NULL, "0", NULL, "CAIRN_GANG_PORT" },
		{ "j-%u", "0", NULL, "1", NULL, "CAIRN_GANG_PORT is 1: it must be 2 or more" },
		{ "j-%u", "0", NULL, "65535", NULL, "ports 65534 to 65536" },
		{ "j-%u", "0", NULL, "70000", NULL, "CAIRN_GANG_PORT" },
		{ "j-%u", "0", NULL, NULL, "192.0.2.1", "CAIRN_GANG_ADDRESSES must hold 2" },
		{ "j-%u", "0", NULL, NULL, "192.0.2.1,", "CAIRN_GANG_ADDRESSES" },
		{ "j-%u", "0", NULL, NULL, "a b,c", "CAIRN_GANG_ADDRESSES" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct gang g = { .framework = TENSORFLOW,
				  .size.nodes = 2,
				  .size.procs_per_node = 1,
				  .size.workers = 2 };
		struct err err = { 0 };

		surroundings(cases[i].hosts, cases[i].node, cases[i].nodes, cases[i].port,
			     cases[i].addresses);
		assert_int_equal(gang_read_nodes(&g, &err), -1);
		assert_non_null(strstr(err.msg, cases[i].want));
		assert_false(g.where.apart && g.where.addresses);
	}
	surroundings(NULL, NULL, NULL, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_frameworks_over_nodes),
					    cmocka_unit_test(test_last_port),
					    cmocka_unit_test(test_many_cpus),
					    cmocka_unit_test(test_places),
					    cmocka_unit_test(test_surroundings_that_are_wrong),
					    cmocka_unit_test(test_gpus),
					    cmocka_unit_test(test_servers_have_no_gpu),
					    cmocka_unit_test(test_cpus),
					    cmocka_unit_test(test_threads_and_overrides) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
