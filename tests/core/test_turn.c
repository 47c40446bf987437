/* The turn of a run: what waits costs nothing, and nothing that waits is forgotten. */
#include <time.h>
#include "core/fixture.h"
#include "record/rows/attempts.h"
#include "storage/internal.h"
#include "unit.h"

struct world {
	char dir[TEST_DIR_MAX];
	struct config config;
	struct run_options options;
	struct arena *arena;
	bool fails;
	int64_t taking_in_ns;
	uint64_t made_bytes; /* each task makes as much, which the store then has to flush */
	struct engine *e;
	struct run_row row;
	struct attempt_row *attempts;
	size_t n_attempts;
};

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	test_dir(w->dir, sizeof(w->dir), "turn");
	w->config = engine_config(w->dir);
	w->arena = arena_new();
	*state = w;
	return 0;
}

static int teardown(void **state)
{
	struct world *w = *state;

	arena_free(w->arena);
	fs_remove_tree(w->dir, NULL);
	free(w);
	return 0;
}

/* A store whose disk has to take in some bytes, and when it was made to. */
static struct {
	struct store_ops ops;
	struct engine *e;
	uint64_t waiting;
	int64_t at_ns[8];
	size_t n;
} disk;

static uint64_t waiting(struct store *s)
{
	return disk.waiting;
}

static int flush(struct store *s, struct err *err)
{
	if (disk.waiting && disk.n < ARRAY_LEN(disk.at_ns))
		disk.at_ns[disk.n++] = disk.e->clock.wall_ns(&disk.e->clock);
	disk.waiting = 0;
	return 0;
}

static void open_disk(struct engine *e, uint64_t bytes)
{
	memset(&disk, 0, sizeof(disk));
	disk.ops = *e->store->ops;
	disk.ops.sync = flush;
	disk.ops.unsynced = waiting;
	disk.e = e;
	disk.waiting = bytes;
	e->store->ops = &disk.ops;
}

/* A task of the step `long` takes an hour, `mate` a second, others a millisecond. */
static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	const struct world *w = arg;
	const unsigned jobs = w->options.jobs;

	if (w->taking_in_ns) {
		size_t programs = runner_fake_running(w->e->runner);

		assert_true(programs <= jobs);
		assert_true(programs + runner_fake_taking_in(w->e->runner) <= 2 * jobs);
	}
	*ret_duration_ns = str_eq(a->on.step, "long")   ? 3600 * NS_PER_S
			   : str_eq(a->on.step, "mate") ? NS_PER_S
							: NS_PER_MS;
	disk.waiting += w->made_bytes;
	if (w->fails)
		*ret_failure = FAILURE_FAILED;
}

/* Seconds of this thread that the run takes. */
static double run(struct world *w, const char *yaml)
{
	struct runner_fake_options fake = { .script = execute,
					    .taking_in_ns = w->taking_in_ns,
					    .arg = w };
	struct run_context ctx;
	struct timespec from, to;
	struct pipeline *p;
	struct engine e;
	struct err err = { 0 };

	engine_open(&e, &fake);
	open_disk(&e, w->made_bytes);
	w->e = &e;
	ctx = engine_context(&e, &w->config);
	p = engine_pipeline(w->dir, yaml);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
	if (run_start(&ctx, p, &w->options, w->arena, &w->row, &err) < 0)
		fail_msg("%s", err.msg);
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
	assert_int_equal(record_run_attempts(e.db, w->row.rowid, w->arena, &w->attempts,
					     &w->n_attempts, NULL),
			 0);
	pipeline_free(p);
	engine_close(&e);
	return (double)(to.tv_sec - from.tv_sec) + (double)(to.tv_nsec - from.tv_nsec) / 1e9;
}

#define N 3000

/* … of N tasks of a step; `item` is what is different between their commands. */
static double cost(struct world *w, const char *item, const char *more)
{
	_cleanup_(str_deinit) struct str yaml = { 0 };

	str_addf(&yaml, "pipeline: many\nsteps:\n  s:\n    run: work %s\n%s    each: [", item,
		 more);
	for (unsigned i = 0; i < N; i++)
		str_addf(&yaml, "%s%u", i ? ", " : "", i);
	str_add(&yaml, "]\n");
	return run(w, yaml.s);
}

/* Looking at all that waits in each turn, or at its keys and commands, would cost many times as
 * much. */
static void test_waiting_is_not_dear(void **state)
{
	static const struct {
		const char *name, *item, *more;
		bool fails;
	} rows[] = {
		{ "without room for two", "${{ item }}", "    resources: {cpu: 3}\n", false },
		{ "of one key", "x", "", false },
		{ "of one key that fail", "x", "", true },
		{ "in a group of one", "${{ item }}", "    concurrency: {group: g, max: 1}\n",
		  false },
		{ "in a group whose name is rendered", "${{ item }}",
		  "    concurrency: {group: \"g-${{ item < 0 }}\", max: 1}\n", false },
	};
	struct world *w = *state;
	double plain;

	w->config.limits.cpu_milli = 4000;
	w->options = (struct run_options){ .jobs = 4, .keep_going = true };
	plain = cost(w, "${{ item }}", "");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		double s;

		w->fails = rows[i].fails;
		s = cost(w, rows[i].item, rows[i].more);
		print_message("%u tasks: %.2f s, %s: %.2f s\n", N, plain, rows[i].name, s);
		assert_int_equal(w->row.counts.executed + w->row.counts.hits + w->row.counts.failed,
				 N);
		assert_int_equal(w->row.counts.failed, rows[i].fails ? N : 0);
		if (s > plain * 2 + 0.1)
			fail_msg("%s: %.2f s instead of %.2f", rows[i].name, s, plain);
	}
}

/* 256 tasks begin before `big`, which needs the whole machine. The last of them takes its place in
 * the group, so that it comes to wait for that instead of for room: then others need not wait for
 * it. */
static void test_passed_over(void **state)
{
	_cleanup_(str_deinit) struct str yaml = { 0 };
	struct world *w = *state;

	w->config.limits.cpu_milli = 3000;
	w->options = (struct run_options){ .jobs = 3 };
	str_add(&yaml,
		"pipeline: passed\nsteps:\n"
		"  long: {run: work long, resources: {cpu: 1}}\n"
		"  big: {run: work big, resources: {cpu: 3}, concurrency: {group: g, max: 1}}\n"
		"  small: {run: \"work ${{ item }}\", resources: {cpu: 1}, each: [0");
	for (unsigned i = 1; i < 255; i++)
		str_addf(&yaml, ", %u", i);
	str_add(&yaml, "]}\n  mate: {run: work mate, resources: {cpu: 1}, concurrency: {group: g, "
		       "max: 1}}\n"
		       "  after: {run: \"work after ${{ item }}\", resources: {cpu: 1}, each: [0, "
		       "1, 2]}\n");
	run(w, yaml.s);
	assert_int_equal(w->row.state, RUN_SUCCEEDED);
	assert_int_equal(w->row.counts.executed, 261);
	/* `mate` is its group's first; in the second that it takes, `after` begins; `big` is the
	 * last. */
	assert_string_equal(w->attempts[256].task, "mate");
	assert_string_equal(w->attempts[257].task, "after[0]");
	assert_true(w->attempts[257].started_ns < w->attempts[256].ended_ns);
	assert_string_equal(w->attempts[260].task, "big");
}

/* What this machine can never run has had an attempt all the same: its first. */
static void test_too_many_gpus(void **state)
{
	struct world *w = *state;

	run(w, "pipeline: gpus\nsteps:\n  s: {run: work, resources: {gpu: 1}}\n");
	assert_int_equal(w->row.state, RUN_FAILED);
	assert_int_equal(w->n_attempts, 1);
	assert_int_equal(w->attempts[0].number, 1);
	assert_int_equal(w->attempts[0].failure, FAILURE_UNSCHEDULABLE);
	assert_non_null(strstr(w->attempts[0].message, "it asks for 1 GPU; this machine has 0"));
}

/* `mate` takes a second, and its outputs are taken in after it. */
static void test_the_next_program_begins_while_outputs_are_taken_in(void **state)
{
	static const struct {
		unsigned jobs;
		int64_t taking_in_s, want_s;
	} rows[] = {
		{ 1, 1, 8 },   /* nothing overlaps */
		{ 2, 1, 3 },   /* programs at 0 and 1 */
		{ 2, 10, 12 }, /* likewise */
		{ 4, 10, 11 },
	};
	struct world *w = *state;

	w->config.limits.cpu_milli = 4000;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(freep) char *yaml =
			xasprintf("pipeline: over%zu\nsteps:\n  mate:\n    run: work %zu ${{ item "
				  "}}\n    each: [0, 1, 2, 3]\n",
				  i, i);

		w->options = (struct run_options){ .jobs = rows[i].jobs };
		w->taking_in_ns = rows[i].taking_in_s * NS_PER_S;
		run(w, yaml);
		assert_int_equal(w->row.counts.executed, 4);
		assert_int_equal((w->row.ended_ns - w->row.started_ns) / NS_PER_S, rows[i].want_s);
	}
}

/* No more than `jobs` are taken in beside as many that run: the fifth program begins when the first
 * two have ended. */
static void test_what_is_taken_in_has_a_limit(void **state)
{
	struct world *w = *state;

	w->config.limits.cpu_milli = 4000;
	w->options = (struct run_options){ .jobs = 2 };
	w->taking_in_ns = 10 * NS_PER_S;
	run(w,
	    "pipeline: limit\nsteps:\n  mate:\n    run: work ${{ item }}\n    each: [0, 1, 2, 3, "
	    "4, 5]\n");
	assert_int_equal(w->row.counts.executed, 6);
	assert_true(w->attempts[4].started_ns - w->row.started_ns >= 10 * NS_PER_S);
}

/* What is large goes to the disk while tasks run. What isn't, waits for the end: with others it
 * costs one flush. */
static void test_large_content_is_flushed_early(void **state)
{
	static const struct {
		uint64_t bytes;
		int64_t want_s[2];
		size_t n;
	} rows[] = {
		{ 1 * GIB, { 0, 2 }, 2 }, /* a task makes its bytes as it begins */
		{ 1000, { 3 }, 1 },
	};
	struct world *w = *state;

	w->options = (struct run_options){ .jobs = 1 };
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(freep) char *yaml =
			xasprintf("pipeline: large%zu\nsteps:\n  mate:\n    run: "
				  "work %zu ${{ item }}\n    each: [0, 1, 2]\n",
				  i, i);

		w->made_bytes = rows[i].bytes;
		run(w, yaml);
		assert_int_equal(w->row.counts.executed, 3);
		assert_int_equal(disk.n, rows[i].n);
		for (size_t k = 0; k < disk.n; k++)
			assert_int_equal((disk.at_ns[k] - w->row.started_ns) / NS_PER_S,
					 rows[i].want_s[k]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_waiting_is_not_dear, setup, teardown),
		cmocka_unit_test_setup_teardown(test_passed_over, setup, teardown),
		cmocka_unit_test_setup_teardown(test_too_many_gpus, setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_the_next_program_begins_while_outputs_are_taken_in, setup, teardown),
		cmocka_unit_test_setup_teardown(test_what_is_taken_in_has_a_limit, setup, teardown),
		cmocka_unit_test_setup_teardown(test_large_content_is_flushed_early, setup,
						teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
