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
	struct gang g = { .framework = f, .nodes = nodes, .procs_per_node = procs, .workers = n, .n_members = n, .threads = 8, .ports = ports, .own_gpus = true,
			  .pins = true, .members = members, .master = "127.0.0.1" };

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

			members[i] = (struct member){ .gang = &g, .index = i };
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

	g.workers = 1;
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
		struct gang g = { .framework = TORCH, .nodes = 1, .procs_per_node = ranks, .workers = ranks, .n_members = ranks, .pins = true, .members = members };
		cpu_set_t seen, mine, both;

		CPU_ZERO(&seen);
		for (unsigned i = 0; i < ranks; i++) {
			members[i] = (struct member){ .gang = &g, .index = i };
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

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_gpus), cmocka_unit_test(test_servers_have_no_gpu), cmocka_unit_test(test_cpus),
					    cmocka_unit_test(test_threads_and_overrides) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
