/* train: cpus and GPUs of each member, and what it is told of its place. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>
#include "steps/train/gang.h"

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

static struct gang gang_of(enum framework f, unsigned nodes, unsigned procs, struct member *members, unsigned n)
{
	static uint16_t ports[64];
	struct gang g = { .framework = f, .nodes = nodes, .procs_per_node = procs, .workers = n, .workers_here = n, .n_members = n, .threads = 8,
			  .ports = ports, .own_gpus = true, .pins = true, .members = members };

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
			env = environment_of(&g, &members[i]);
			assert_string_equal(find(env, "CUDA_VISIBLE_DEVICES"), cases[c].want[i]);
			environment_free(env);
		}
	}
	unsetenv("CUDA_VISIBLE_DEVICES");
}

static void test_servers_have_no_gpu(void **state)
{
	struct member members[3] = { { .role = ROLE_SCHEDULER }, { .role = ROLE_SERVER }, { .role = ROLE_WORKER } };
	struct gang g = gang_of(PS, 1, 1, members, 3);
	static const char *const want[] = { "", "", "3" };

	g.workers = g.workers_here = 1;
	setenv("CUDA_VISIBLE_DEVICES", "3", 1);
	for (unsigned i = 0; i < 3; i++) {
		char **env;

		members[i].gang = &g;
		env = environment_of(&g, &members[i]);
		assert_string_equal(find(env, "CUDA_VISIBLE_DEVICES"), want[i]);
		assert_string_equal(find(env, "DMLC_PS_ROOT_PORT"), "1000");
		environment_free(env);
	}
	unsetenv("CUDA_VISIBLE_DEVICES");
}

/* Whatever there is of cpus: no two ranks share one, none is left over, and each has its share. */
static void test_cpus(void **state)
{
	cpu_set_t all;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	for (unsigned ranks = 1; ranks <= (unsigned)CPU_COUNT(&all) + 1; ranks++) {
		struct member *members = xcalloc(ranks, sizeof(*members));
		struct gang g = { .framework = TORCH, .nodes = 1, .procs_per_node = ranks, .workers = ranks, .workers_here = ranks, .n_members = ranks,
				  .pins = true, .members = members };
		cpu_set_t seen, mine, both;

		CPU_ZERO(&seen);
		for (unsigned i = 0; i < ranks; i++) {
			members[i] = (struct member){ .gang = &g, .index = i, .local = i };
			assert_int_equal(cpus_of(&g, &members[i], &mine), ranks <= (unsigned)CPU_COUNT(&all));
			if (ranks > (unsigned)CPU_COUNT(&all))
				continue;
			assert_true(CPU_COUNT(&mine) >= CPU_COUNT(&all) / (int)ranks);
			CPU_AND(&both, &seen, &mine);
			assert_int_equal(CPU_COUNT(&both), 0);
			CPU_OR(&seen, &seen, &mine);
		}
		if (ranks <= (unsigned)CPU_COUNT(&all))
			assert_true(CPU_EQUAL(&seen, &all));
		g.pins = false;
		assert_false(cpus_of(&g, &members[0], &mine));
		free(members);
	}
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
	env = environment_of(&g, &m);
	assert_string_equal(find(env, "RANK"), "0");
	assert_string_equal(find(env, "OMP_NUM_THREADS"), "2");
	environment_free(env);
	setenv("OMP_NUM_THREADS", "5", 1);
	g.threads = 1;
	env = environment_of(&g, &m);
	assert_string_equal(find(env, "OMP_NUM_THREADS"), "5");
	environment_free(env);
	unsetenv("OMP_NUM_THREADS");
	env = environment_of(&g, &m);
	assert_string_equal(find(env, "OMP_NUM_THREADS"), "1"); /* never 0 */
	environment_free(env);
}

/* --- nodes apart ------------------------------------------------------------------------------------------------------- */

static void surroundings(const char *hosts, const char *node, const char *nodes, const char *port, const char *addresses)
{
	static const char *const names[] = { "CAIRN_GANG_HOSTS", "CAIRN_GANG_NODE", "CAIRN_GANG_NODES", "CAIRN_GANG_PORT", "CAIRN_GANG_ADDRESSES" };
	const char *const values[] = { hosts, node, nodes, port, addresses };

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (values[i])
			setenv(names[i], values[i], 1);
		else
			unsetenv(names[i]);
	unsetenv("JOB_COMPLETION_INDEX");
}

/* "NAME=value" of the member with this role and index, on the node where the surroundings are. */
static void assert_told(struct gang *g, enum role role, unsigned index, unsigned local, const char *const *want)
{
	struct member m = { .gang = g, .role = role, .index = index, .local = local };
	char **env;

	g->members = &m;
	env = environment_of(g, &m);
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
	environment_free(env);
}

#define TOLD(...) ((const char *const[]){ __VA_ARGS__, NULL })

static struct gang far_gang(enum framework f, unsigned nodes, unsigned procs, unsigned servers)
{
	struct gang g = { .framework = f, .nodes = nodes, .procs_per_node = procs, .servers = servers, .workers = nodes * procs, .workers_here = procs, .threads = 8 };
	struct err err = { 0 };

	assert_int_equal(nodes_read(&g, &err), 0);
	assert_true(g.where.apart);
	return g;
}

static void test_frameworks_over_nodes(void **state)
{
	struct gang g;

	surroundings("j-%u.svc", "1", "2", NULL, NULL);
	g = far_gang(TORCH, 2, 2, 0);
	assert_told(&g, ROLE_WORKER, 3, 1,
		    TOLD("RANK=3", "LOCAL_RANK=1", "WORLD_SIZE=4", "LOCAL_WORLD_SIZE=2", "GROUP_RANK=1", "GROUP_WORLD_SIZE=2", "PET_NODE_RANK=1", "MASTER_ADDR=j-0.svc",
			 "MASTER_PORT=29500", "PET_NNODES=2", "PET_NPROC_PER_NODE=2", "OMP_NUM_THREADS=2"));
	g.starts_nodes = true;
	g.workers = 2;
	assert_told(&g, ROLE_WORKER, 1, 0, TOLD("PET_NODE_RANK=1", "NODE_RANK=1", "RANK=!", "PET_MASTER_ADDR=j-0.svc", "PET_MASTER_PORT=29500"));
	surroundings("j-%u.svc", "0", NULL, "4000", NULL);
	g = far_gang(TENSORFLOW, 2, 1, 3);
	assert_told(&g, ROLE_SERVER, 2, 1,
		    TOLD("TF_CONFIG={\"cluster\":{\"ps\":[\"j-0.svc:4002\",\"j-1.svc:4003\",\"j-0.svc:4004\"],\"worker\":[\"j-0.svc:4000\",\"j-1.svc:4001\"]},"
			 "\"task\":{\"index\":2,\"type\":\"ps\"}}"));
	g = far_gang(JAX, 2, 1, 0);
	assert_told(&g, ROLE_WORKER, 1, 0,
		    TOLD("JAX_COORDINATOR_ADDRESS=j-0.svc:4000", "COORDINATOR_ADDRESS=j-0.svc", "COORDINATOR_PORT=4000", "JAX_NUM_PROCESSES=2", "JAX_PROCESS_ID=1"));
	surroundings("j-%u.svc", "1", "3", NULL, "192.0.2.7,192.0.2.8,fd00::9");
	g = far_gang(PS, 3, 1, 1);
	assert_told(&g, ROLE_WORKER, 1, 0, TOLD("DMLC_PS_ROOT_URI=192.0.2.7", "DMLC_PS_ROOT_PORT=29500", "DMLC_WORKER_ID=1", "DMLC_NUM_WORKER=3", "DMLC_NUM_SERVER=1"));
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
		assert_int_equal(node_of(&g, ROLE_WORKER, i), workers[i]);
	for (unsigned i = 0; i < ARRAY_LEN(servers); i++)
		assert_int_equal(node_of(&g, ROLE_SERVER, i), servers[i]);
	assert_int_equal(node_of(&g, ROLE_SCHEDULER, 0), 0);
	surroundings(NULL, NULL, NULL, NULL, NULL);
}

static void test_surroundings_that_are_wrong(void **state)
{
	static const struct {
		const char *hosts, *node, *nodes, *port, *addresses, *want;
	} cases[] = {
		{ "j-%u", NULL, NULL, NULL, NULL, "neither CAIRN_GANG_NODE nor JOB_COMPLETION_INDEX" },
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
		{ "j-%u", "0", NULL, "65534", NULL, "ports 65534 to 65536" },
		{ "j-%u", "0", NULL, "70000", NULL, "CAIRN_GANG_PORT" },
		{ "j-%u", "0", NULL, NULL, "192.0.2.1", "CAIRN_GANG_ADDRESSES must hold 2" },
		{ "j-%u", "0", NULL, NULL, "192.0.2.1,", "CAIRN_GANG_ADDRESSES" },
		{ "j-%u", "0", NULL, NULL, "a b,c", "CAIRN_GANG_ADDRESSES" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct gang g = { .framework = TENSORFLOW, .nodes = 2, .procs_per_node = 1, .workers = 2 };
		struct err err = { 0 };

		surroundings(cases[i].hosts, cases[i].node, cases[i].nodes, cases[i].port, cases[i].addresses);
		assert_int_equal(nodes_read(&g, &err), -1);
		assert_non_null(strstr(err.msg, cases[i].want));
		assert_false(g.where.apart && g.where.addresses);
	}
	surroundings(NULL, NULL, NULL, NULL, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_frameworks_over_nodes), cmocka_unit_test(test_places), cmocka_unit_test(test_surroundings_that_are_wrong),
					    cmocka_unit_test(test_gpus), cmocka_unit_test(test_servers_have_no_gpu), cmocka_unit_test(test_cpus),
					    cmocka_unit_test(test_threads_and_overrides) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
