/* How many tasks share a pod by `pack: auto`: what they hold counts, and what they share does not,
 * if it is mounted. */
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "core/fixture.h"
#include "unit.h"

/* The first tasks have a pod each (FIRST_MAX); of those that are left, a 64th part may share one.
 */
#define BIG (65 * MIB)

struct world {
	unsigned largest; /* pack */
};

static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;

	*ret_duration_ns = NS_PER_MS;
	if (strcmp(a->on.step, "t") == 0)
		w->largest = MAX(w->largest, a->on.pack);
	else
		*ret_outputs = a->inputs[0].id;
}

static const struct pack_case {
	const char *input;
	const char *cache, *claim;
	unsigned want;
} cases[] = {
	/* 1 GiB holds 15 copies. */
	{ "inputs.big }}", NULL, NULL, 8 },
	{ "inputs.big }}", "/var/cache/cairn", NULL, 64 },
	{ "inputs.big }}", NULL, "near", 64 },
	{ "inputs.dir }}/big", "/var/cache/cairn", NULL, 64 },
	{ "inputs.dir }}/${{ params.name }}", "/var/cache/cairn", NULL, 64 },
	{ "inputs.dir }}/${{ matrix.name }}", "/var/cache/cairn", NULL, 8 },
	{ "steps.one.outputs.big }}", "/var/cache/cairn", NULL, 64 },
	/* By the matrix: each task has its own. */
	{ "steps.each.outputs.big }}", "/var/cache/cairn", NULL, 8 },
	{ "inputs.medium }}", "/var/cache/cairn", NULL, 16 }, /* too small to be mounted */
};

static void put_zeros(const char *path, int64_t size)
{
	_cleanup_(fd_closep) int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, size), 0);
}

/* 300 times each name. */
static void add_matrix(struct str *yaml)
{
	str_add(yaml, "    matrix:\n      name: [big, other]\n      n: [0");
	for (int i = 1; i < 300; i++)
		str_addf(yaml, ", %d", i);
	str_add(yaml, "]\n");
}

static unsigned largest_pack(struct engine *e, const char *dir, size_t i)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str yaml = { 0 };
	const struct pack_case *c = &cases[i];
	const char *targets[] = { "t" };
	struct run_options o = { .jobs = 1000, .select.targets = targets, .select.n_targets = 1 };
	struct config config = engine_config(dir);
	struct world w = { 0 };
	struct runner_fake_options fake = { .script = execute, .arg = &w };
	struct runner_fake_world *cluster = runner_fake_world_new(&e->clock, &fake);
	struct runner *unused = e->runner;
	struct run_context ctx;
	struct pipeline *p;
	struct run_row row;
	struct err err = { 0 };

	config.kubernetes.cache.host_path = c->cache;
	config.kubernetes.cache.claim = c->claim;
	str_addf(&yaml,
		 "pipeline: pack%zu\n"
		 "params: {name: big}\n"
		 "inputs: {big: big, medium: medium, dir: dir/}\n"
		 "steps:\n"
		 "  one:\n"
		 "    run: echo one\n"
		 "    inputs: {b: \"${{ inputs.big }}\"}\n"
		 "    outputs: {big: o}\n"
		 "  each:\n"
		 "    run: echo ${{ matrix.name }} ${{ matrix.n }}\n"
		 "    inputs: {b: \"${{ inputs.big }}\"}\n"
		 "    outputs: {big: o}\n",
		 i);
	add_matrix(&yaml);
	str_addf(&yaml,
		 "  t:\n"
		 "    run: echo %zu ${{ matrix.name }} ${{ matrix.n }}\n"
		 "    inputs: {i: \"${{ %s\"}\n",
		 i, c->input);
	add_matrix(&yaml);
	assert_int_equal(runner_fake_durable_new(e->loop, cluster, &e->runner, NULL), 0);
	ctx = engine_context(e, &config);
	p = engine_pipeline(dir, yaml.s);
	if (run_start(&ctx, p, &o, arena, &row, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(row.counts.failed, 0);
	pipeline_free(p);
	e->runner->ops->free(e->runner);
	runner_fake_world_free(cluster);
	e->runner = unused;
	return w.largest;
}

static void test_what_is_held(void **state)
{
	struct runner_fake_options fake = { 0 };
	struct engine e;
	char dir[TEST_DIR_MAX];

	test_dir(dir, sizeof(dir), "pack");
	assert_int_equal(chdir(dir), 0);
	assert_int_equal(mkdir("dir", 0755), 0);
	put_zeros("big", BIG);
	put_zeros("dir/big", BIG);
	put_zeros("dir/other", BIG);
	put_zeros("medium", 40 * MIB);
	engine_open(&e, &fake);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		unsigned got = largest_pack(&e, dir, i);

		if (got != cases[i].want)
			fail_msg("row %zu: %u, not %u", i, got, cases[i].want);
	}
	engine_close(&e);
	fs_remove_tree(dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_what_is_held) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
