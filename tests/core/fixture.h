/* core/fixture.h — what tests of whole runs stand on: an engine whose runner is a fake one, with a
 * store and a database in memory and a virtual clock; and random DAGs.
 *
 * Include it after cmocka.h. What goes wrong here fails the test.
 */
#ifndef CAIRN_TESTS_CORE_FIXTURE_H
#define CAIRN_TESTS_CORE_FIXTURE_H

#include <fcntl.h>
#include "base/os/fs.h"
#include "core/seeds.h"
#include "run/run.h"
#include "unit.h"

/* An engine. */

struct engine {
	struct clock clock;
	struct loop *loop;
	struct store *store;
	struct db *db;
	struct runner *runner;
};

static inline void engine_open(struct engine *e, const struct runner_fake_options *o)
{
	*e = (struct engine){ 0 };
	clock_virtual_init(&e->clock, 1700000000LL * NS_PER_S);
	assert_int_equal(loop_new(&e->clock, &e->loop, NULL), 0);
	assert_int_equal(store_open("memory:", true, &e->store, NULL), 0);
	assert_int_equal(db_open(":memory:", DB_WRITE, &e->db, NULL), 0);
	assert_int_equal(runner_fake_new(e->loop, o, &e->runner, NULL), 0);
}

static inline void engine_close(struct engine *e)
{
	e->runner->ops->free(e->runner);
	db_close(e->db);
	store_free(e->store);
	loop_free(e->loop);
}

static inline struct run_context engine_context(const struct engine *e, const struct config *config)
{
	return (struct run_context){ .config = config,
				     .loop = e->loop,
				     .db = e->db,
				     .store = e->store,
				     .runner = e->runner,
				     .leases_fd = -1 };
}

/* A project of that directory, on a machine that holds nothing up. */
static inline struct config engine_config(const char *dir)
{
	return (struct config){ .project_root = dir,
				.state_dir = dir,
				.runner = "local",
				.limits.cpu_milli = 1000000,
				.limits.memory_bytes = GIB,
				.limits.gpus = 0 };
}

/* As pipeline.yaml of the project. */
static inline struct pipeline *engine_pipeline(const char *dir, const char *yaml)
{
	_cleanup_(freep) char *path = xasprintf("%s/pipeline.yaml", dir);
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(str_deinit) struct str text = { 0 };
	struct pipeline_load_options o = { .project_root = dir };
	struct pipeline *p = NULL;
	struct err err = { 0 };

	assert_int_equal(fs_write_atomic_at(AT_FDCWD, path, yaml, strlen(yaml), 0644,
					    FS_WRITE_NO_SYNC, &err),
			 0);
	if (pipeline_load(path, &o, diags, &p, &err) < 0) {
		diag_render(diags, &text);
		fail_msg("%s\n%s\n%s", err.msg, text.len ? text.s : "", yaml);
	}
	return p;
}

/* Dice. */

static inline uint64_t mix(uint64_t a, uint64_t b)
{
	a ^= b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2);
	a ^= a >> 31;
	a *= 0xbf58476d1ce4e5b9ULL;
	return a ^ a >> 29;
}

static inline unsigned pick(uint64_t *seed, unsigned n)
{
	*seed = mix(*seed, 77);
	return (unsigned)(*seed >> 20) % n;
}

/* Calls `fn` for each seed of n from 0 on, with a directory of this test's own. */
static inline void each_seed(uint64_t n, void (*fn)(uint64_t seed, const char *dir))
{
	const struct seeds seeds = seeds_of(0, n);
	char dir[TEST_DIR_MAX];

	test_dir(dir, sizeof(dir), "core");
	for (uint64_t seed = seeds.from; seed < seeds.to; seed++)
		fn(seed, dir);
	fs_remove_tree(dir, NULL);
}

/* A random DAG. */

#define DAG_STEPS_MAX 14
#define DAG_AXIS_MAX  4

struct dag {
	unsigned n, c;                            /* steps; values of the axis x, 0 … c-1 */
	bool matrix[DAG_STEPS_MAX];               /* over x */
	bool needs[DAG_STEPS_MAX][DAG_STEPS_MAX]; /* needs[s][d]: by data, d < s */
};

static inline void dag_make(struct dag *d, uint64_t *seed, unsigned steps_max, unsigned axis_max)
{
	*d = (struct dag){ .n = 1 + pick(seed, steps_max), .c = 1 + pick(seed, axis_max) };
	for (unsigned s = 0; s < d->n; s++) {
		d->matrix[s] = pick(seed, 2);
		for (unsigned k = 0; k < s; k++)
			d->needs[s][k] = pick(seed, 4) == 0;
	}
}

static inline unsigned dag_tasks(const struct dag *d, unsigned s)
{
	return d->matrix[s] ? d->c : 1;
}

/* Does task x of step s read what task y of step k makes? */
static inline bool dag_depends(const struct dag *d, unsigned s, unsigned x, unsigned k, unsigned y)
{
	return d->needs[s][k] && (!(d->matrix[s] && d->matrix[k]) || x == y);
}

/* A pipeline whose tasks are "work STEP X" with an output `o`; `more` adds lines to a step. */
static inline void dag_add_yaml(struct str *out, const struct dag *d, const char *defaults,
				void (*more)(const void *arg, unsigned s, struct str *out),
				const void *arg)
{
	str_addf(out, "pipeline: random\n%ssteps:\n", defaults);
	for (unsigned s = 0; s < d->n; s++) {
		str_addf(out, "  s%u:\n    outputs: {o: o.txt}\n    run: work %u %s\n", s, s,
			 d->matrix[s] ? "${{ matrix.x }}" : "0");
		for (unsigned x = 0; d->matrix[s] && x < d->c; x++)
			str_addf(out, "%s%u%s", x ? ", " : "    matrix: {x: [", x,
				 x + 1 == d->c ? "]}\n" : "");
		str_add(out, "    inputs: {");
		for (unsigned k = 0, n = 0; k < s; k++)
			if (d->needs[s][k])
				str_addf(out, "%si%u: \"${{ steps.s%u.outputs.o }}\"",
					 n++ ? ", " : "", k, k);
		str_add(out, "}\n");
		if (more)
			more(arg, s, out);
	}
}

/* What the attempt of such a task was told: a value of the matrix is a variable that the command
 * names. */
static inline void dag_read_work(const struct runner_attempt *a, unsigned *ret_step,
				 unsigned *ret_x)
{
	assert_true(sscanf(a->argv[2], "work %u %u", ret_step, ret_x) >= 1);
	for (const char *const *e = a->env; *e; e++)
		if (str_has_prefix(*e, "CAIRN_V1="))
			*ret_x = (unsigned)strtoul(strchr(*e, '=') + 1, NULL, 10);
}

/* What a task comes to. */
enum fate { FATE_OK, FATE_FAILED, FATE_BLOCKED };

#endif
