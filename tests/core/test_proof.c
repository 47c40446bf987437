/* The proof at a run's end: what the plan or the record lacks is an internal error with a list, and
 * never a success.
 *
 * The record is damaged while a run goes, through the engine's own database, when its last task
 * begins; the plan by setting the state of a task. No part of the engine knows of it.
 */
#include <stdio.h>
#include "core/fixture.h"
#include "plan/plan.h"
#include "record/db_sql.h"
#include "storage/store.h"
#include "unit.h"

static const char yaml[] = "pipeline: proof\nsteps:\n"
			   "  a: {run: work a, outputs: {o: o}}\n"
			   "  many: {run: \"work ${{ matrix.x }}\", matrix: {x: [0, 1, 2, 3, 4, 5, "
			   "6, 7, 8, 9, 10, 11]}}\n"
			   "  bad: {run: work bad}\n"
			   "  last: {run: work last, needs: [a, many], if: \"${{ always() }}\"}\n";

struct world {
	char dir[TEST_DIR_MAX];
	struct config config;
	struct engine e;
	struct arena *arena;
	const char *damage; /* SQL */
	bool fails;         /* task `bad` */
};

static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;
	struct err err = { 0 };

	*ret_duration_ns = NS_PER_MS;
	if (str_eq(a->task, "bad") && w->fails)
		*ret_failure = FAILURE_FAILED;
	if (!str_eq(a->task, "last"))
		return;
	*ret_duration_ns = NS_PER_S; /* all the others have ended when it does */
	if (w->damage && db_exec(w->e.db, w->damage, &err) < 0)
		fail_msg("%s", err.msg);
}

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	test_dir(w->dir, sizeof(w->dir), "proof");
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

static int count_manifest(void *arg, const struct digest *name, uint64_t size_bytes,
			  int64_t mtime_ns)
{
	++*(unsigned *)arg;
	return 0;
}

static void test_damaged_record(void **state)
{
	static const struct {
		const char *damage;
		bool fails;
		const char *want[3]; /* parts of the message; none: the run ends as ever */
	} rows[] = {
		{ NULL, false, { NULL } },
		{ NULL, true, { NULL } },
		{ "UPDATE attempt SET message = 'x'", false, { NULL } },
		{ "DELETE FROM result; DELETE FROM attempt WHERE task = 'a'",
		  false,
		  { "of 1 of its tasks: a (executed, but no attempt of this run is on record)" } },
		{ "UPDATE attempt SET ended_ns = 0 WHERE task = 'many[x=3]'",
		  false,
		  { "of 1 of its tasks: many[x=3] (its attempt has no end on record)" } },
		{ "UPDATE attempt SET failure = 1 WHERE task = 'a'",
		  false,
		  { "a (executed, but the record of its attempt says otherwise)" } },
		{ "UPDATE attempt SET key = zeroblob(32) WHERE task = 'a'",
		  false,
		  { "a (executed, but the record of its attempt says otherwise)" } },
		{ "UPDATE attempt SET failure = 0 WHERE task = 'bad'",
		  true,
		  { "bad (failed, but its attempt is on record as a success)" } },
		/* a second attempt of a task, which never ended */
		{ "INSERT INTO attempt (run, task, step, pipeline, number, key, started_ns) SELECT "
		  "run, task, step, pipeline, 2, key, started_ns FROM attempt WHERE task = 'a'",
		  false,
		  { "of 1 of its tasks: a (its attempt has no end on record)" } },
		{ "DELETE FROM result; DELETE FROM attempt WHERE task <> 'last'",
		  false,
		  { "of 14 of its tasks: a (", "many[x=0] (", ", …" } },
	};
	struct world *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct runner_fake_options fake = { .script = execute, .arg = w };
		struct run_row row = { 0 }, found;
		struct run_context ctx;
		struct pipeline *p;
		struct err err = { 0 };
		unsigned manifests = 0;
		int r;

		w->damage = rows[i].damage;
		w->fails = rows[i].fails;
		engine_open(&w->e, &fake);
		ctx = engine_context(&w->e, &w->config);
		p = engine_pipeline(w->dir, yaml);
		r = run_start(&ctx, p, &(struct run_options){ .jobs = 1, .keep_going = true },
			      w->arena, &row, &err);
		assert_int_equal(
			store_list(w->e.store, STORE_RUN, count_manifest, &manifests, NULL), 0);
		assert_int_equal(record_find_run(w->e.db, "last", w->arena, &found, NULL), 0);
		if (!rows[i].want[0]) {
			if (r < 0)
				fail_msg("row %zu: %s", i, err.msg);
			assert_int_equal(found.state, rows[i].fails ? RUN_FAILED : RUN_SUCCEEDED);
			assert_int_equal(manifests, 1);
		} else {
			assert_int_equal(r, -1);
			assert_int_equal(err.code, ERR_IO);
			if (!strstr(err.msg, "internal error: the run came to its end, but the "
					     "record does not say so"))
				fail_msg("row %zu: %s", i, err.msg);
			for (size_t k = 0; k < ARRAY_LEN(rows[i].want) && rows[i].want[k]; k++)
				if (!strstr(err.msg, rows[i].want[k]))
					fail_msg("row %zu: %s", i, err.msg);
			/* nothing says that it has ended: it can be resumed */
			assert_int_equal(found.state, RUN_INTERRUPTED);
			assert_false(found.has_hash);
			assert_int_equal(manifests, 0);
		}
		pipeline_free(p);
		engine_close(&w->e);
	}
}

static void prove(struct plan *plan, const char *want)
{
	struct err err = { 0 };
	int r = plan_prove_ended(plan, &err);

	if (want ? r != -1 || err.code != ERR_IO || !strstr(err.msg, want) : r != 0)
		fail_msg("%s: %s", want ? want : "nothing", err.msg);
}

static void test_damaged_plan(void **state)
{
	struct world *w = *state;
	struct runner_fake_options fake = { 0 };
	_cleanup_(pipeline_freep) struct pipeline *p = engine_pipeline(w->dir, yaml);
	struct plan_context c = { .config = &w->config, .pipeline = p };
	struct plan_task *t;
	struct plan *plan;
	struct err err = { 0 };

	engine_open(&w->e, &fake);
	c.store = w->e.store;
	c.db = w->e.db;
	if (plan_new(&c, &(struct plan_options){ 0 }, &plan, &err) < 0 ||
	    plan_resolve(plan, &err) < 0)
		fail_msg("%s", err.msg);
	prove(plan, "internal error: the run came to its end, but 15 of its tasks did not: a, "
		    "many[x=0], ");
	prove(plan, "many[x=8], …");
	while ((t = plan_take_ready(plan))) {
		struct content_id made = { .kind = CONTENT_BLOB };

		plan_task_end(plan, t,
			      &(struct task_result){ .state = TASK_STATE_DONE,
						     .outputs = &made,
						     .duration_ns = 1,
						     .attempt = 1 });
		assert_int_equal(plan_resolve(plan, &err), 0);
	}
	prove(plan, NULL);
	t = plan_task_at(plan, 1, 7);
	t->state = TASK_TAKEN; /* no end */
	prove(plan, "but 1 of its tasks did not: many[x=7]");
	t->state = TASK_STATE_FAILED; /* another end than the one that was counted */
	prove(plan, "internal error: the run's counts are not those of its tasks: 15 of 15 ended");
	t->state = TASK_STATE_DONE;
	plan_task_at(plan, 0, 0)->state =
		TASK_STATE_UNSELECTED; /* its end was counted, and nobody wanted it */
	prove(plan, "counts are not those of its tasks");
	plan_free(plan);
	engine_close(&w->e);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_damaged_record, setup, teardown),
		cmocka_unit_test_setup_teardown(test_damaged_plan, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
