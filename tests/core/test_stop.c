/* A run without --keep-going at its first failure: nothing new begins, what runs comes to its end,
 * and so it is when the engine changes in between. */
#include <signal.h>
#include <stdio.h>
#include "core/fixture.h"
#include "record/manifest/results.h"
#include "unit.h"

static char dir[TEST_DIR_MAX];

/* "work SECONDS" ends well; "fail SECONDS" doesn't. */
static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct store **store = arg;
	char what[8];
	unsigned seconds;
	const char *script = "";

	for (const char *const *v = a->argv; *v; v++)
		script = *v;
	assert_int_equal(sscanf(script, "%7s %u", what, &seconds), 2);
	*ret_duration_ns = (int64_t)seconds * NS_PER_S;
	if (strcmp(what, "fail") == 0)
		*ret_failure = FAILURE_FAILED;
	for (size_t i = 0; i < a->n_outputs && *ret_failure == FAILURE_NONE; i++)
		assert_int_equal(
			content_put_bytes(*store, a->task, strlen(a->task), &ret_outputs[i], NULL),
			0);
}

static unsigned attempts_of(struct db *db, const struct run_row *run, const char *task,
			    struct arena *arena, struct attempt_row *ret_last)
{
	struct attempt_row *rows;
	unsigned found = 0;
	size_t n;

	assert_int_equal(record_run_attempts(db, run->rowid, arena, &rows, &n, NULL), 0);
	for (size_t i = 0; i < n; i++)
		if (str_eq(rows[i].task, task)) {
			*ret_last = rows[i];
			found++;
		}
	return found;
}

static void test_a_retry_that_waits_is_given_up(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct engine e;
	struct runner_fake_options o = { .script = execute, .arg = &e.store };
	struct config config = engine_config(dir);
	struct run_context ctx;
	struct run_options ro = { 0 };
	struct run_row row;
	struct attempt_row last;
	struct pipeline *p =
		engine_pipeline(dir, "pipeline: stop\nsteps:\n  a: {run: fail 10}\n  b: {run: fail "
				     "1, retry: {max: 3, backoff: 1h..1h}}\n");
	int64_t began;

	engine_open(&e, &o);
	ctx = engine_context(&e, &config);
	began = e.clock.mono_ns(&e.clock);
	assert_int_equal(run_start(&ctx, p, &ro, arena, &row, NULL), 0);
	assert_int_equal(row.state, RUN_FAILED);
	assert_true(e.clock.mono_ns(&e.clock) - began < 60 * NS_PER_S);
	assert_int_equal(row.counts.failed, 1);
	assert_int_equal(row.counts.blocked, 1);
	assert_int_equal(attempts_of(e.db, &row, "b", arena, &last), 1);
	pipeline_free(p);
	engine_close(&e);
}

static void test_what_waits_for_a_result_is_given_up(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct engine e;
	struct runner_fake_options o = { .script = execute, .arg = &e.store };
	struct config config = engine_config(dir);
	struct run_context ctx;
	struct run_options ro = { .jobs = 8 };
	struct run_row row;
	struct attempt_row last;
	struct pipeline *p = engine_pipeline(
		dir, "pipeline: stop\nsteps:\n  a: {run: fail 10}\n  v: {run: fail 20}\n  w: {run: "
		     "fail 20}\n  x: {run: work 20}\n  y: {run: work 20}\n");

	engine_open(&e, &o);
	ctx = engine_context(&e, &config);
	assert_int_equal(run_start(&ctx, p, &ro, arena, &row, NULL), 0);
	assert_int_equal(row.counts.failed, 2);
	assert_int_equal(row.counts.blocked, 1);
	assert_int_equal(row.counts.executed, 1);
	assert_int_equal(row.counts.hits, 1);
	assert_int_equal(attempts_of(e.db, &row, "v", arena, &last) +
				 attempts_of(e.db, &row, "w", arena, &last),
			 1);
	pipeline_free(p);
	engine_close(&e);
}

/* What a resumed run reads must be what was executed. */
static void test_a_pipeline_that_is_edited_meanwhile_does_not_run(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct engine e;
	struct runner_fake_options o = { .script = execute, .arg = &e.store };
	struct config config = engine_config(dir);
	struct run_context ctx;
	struct run_options ro = { 0 };
	struct run_row row;
	struct err err = { 0 };
	struct pipeline *p = engine_pipeline(dir, "pipeline: stop\nsteps:\n  a: {run: work 10}\n");

	pipeline_free(engine_pipeline(dir, "pipeline: stop\nsteps:\n  a: {run: work 11}\n"));
	engine_open(&e, &o);
	ctx = engine_context(&e, &config);
	assert_int_equal(run_start(&ctx, p, &ro, arena, &row, &err), -1);
	assert_int_equal(err.code, ERR_CHANGED);
	assert_null(row.id);
	pipeline_free(p);
	engine_close(&e);
}

/* Two engines. */

static void tell_to_end(void *arg)
{
	raise(SIGTERM);
}

struct world {
	struct clock clock;
	struct store *store;
	struct db *db;
	struct runner_fake_world *jobs;
};

/* until_ns: then the engine is told to end; 0: never. */
static int live(struct world *w, const struct pipeline *p, const char *run, int64_t until_ns,
		struct arena *arena, struct run_row *ret)
{
	struct config config = engine_config(dir);
	struct run_context ctx = { .config = &config,
				   .db = w->db,
				   .store = w->store,
				   .leases_fd = -1,
				   .handle_signals = true };
	struct run_options o = { .jobs = 2 };
	struct reproduction *rep;
	struct err err = { 0 };
	int r;

	assert_int_equal(loop_new(&w->clock, &ctx.loop, NULL), 0);
	assert_int_equal(runner_fake_durable_new(ctx.loop, w->jobs, &ctx.runner, NULL), 0);
	if (until_ns)
		loop_add_timer(ctx.loop, w->clock.mono_ns(&w->clock) + until_ns, tell_to_end, NULL);
	r = run ? run_resume(&ctx, run, 0, arena, ret, &rep, &err)
		: run_start(&ctx, p, &o, arena, ret, &err);
	ctx.runner->ops->free(ctx.runner);
	loop_free(ctx.loop);
	return r;
}

/* `a` fails after 10 s, `b` runs for 100; `c` has no place beside them, `d` reads what `b` makes,
 * `f` waits to be tried again. */
static void one_stop(int64_t told_after_ns)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct world w = { 0 };
	struct runner_fake_options o = { .script = execute, .arg = &w.store };
	struct run_row row;
	struct attempt_row last;
	struct pipeline *p = engine_pipeline(
		dir, "pipeline: stop\nsteps:\n"
		     "  f: {run: fail 1, retry: {max: 3, backoff: 1h..1h}}\n"
		     "  a: {run: fail 10}\n"
		     "  b: {run: work 100, outputs: {o: o}}\n"
		     "  c: {run: work 10, needs: [b]}\n"
		     "  d: {run: work 10, inputs: {i: \"${{ steps.b.outputs.o }}\"}}\n");

	clock_virtual_init(&w.clock, 1700000000LL * NS_PER_S);
	assert_int_equal(store_open("memory:", true, &w.store, NULL), 0);
	assert_int_equal(db_open(":memory:", DB_WRITE, &w.db, NULL), 0);
	w.jobs = runner_fake_world_new(&w.clock, &o);
	if (live(&w, p, NULL, told_after_ns, arena, &row) < 0) {
		assert_int_equal(row.state, RUN_INTERRUPTED);
		assert_int_equal(live(&w, p, row.id, 0, arena, &row), 0);
	} else {
		assert_int_equal(told_after_ns, 0);
	}
	assert_int_equal(row.state, RUN_FAILED);
	assert_non_null(strstr(row.message, "a: "));
	assert_int_equal(row.counts.failed, 1);
	assert_int_equal(row.counts.executed, 1);
	assert_int_equal(row.counts.blocked, 3);
	assert_int_equal(attempts_of(w.db, &row, "b", arena, &last), 1);
	assert_int_equal(last.failure, FAILURE_NONE);
	assert_int_equal(runner_fake_world_executions(w.jobs, (uint64_t)last.id), 1);
	assert_int_equal(attempts_of(w.db, &row, "f", arena, &last), 1);
	assert_int_equal(attempts_of(w.db, &row, "c", arena, &last), 0);
	assert_int_equal(attempts_of(w.db, &row, "d", arena, &last), 0);
	assert_int_equal(runner_fake_world_jobs(w.jobs), 0);
	pipeline_free(p);
	db_close(w.db);
	store_free(w.store);
	runner_fake_world_free(w.jobs);
}

static void test_the_engine_changes(void **state)
{
	one_stop(0);
	one_stop(15 * NS_PER_S);
	one_stop(60 * NS_PER_S);
}

static int set_up(void **state)
{
	test_dir(dir, sizeof(dir), "stop");
	return 0;
}

static int tear_down(void **state)
{
	return fs_remove_tree(dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_a_retry_that_waits_is_given_up),
		cmocka_unit_test(test_what_waits_for_a_result_is_given_up),
		cmocka_unit_test(test_a_pipeline_that_is_edited_meanwhile_does_not_run),
		cmocka_unit_test(test_the_engine_changes)
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
