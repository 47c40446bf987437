/* record/facts and the exports, of a run that was interrupted: what is on record of it are its
 * attempts, of which one may have no end. */
#include "base/time/clock.h"
#include "record/db.h"
#include "record/export/export.h"
#include "unit.h"

struct fixture {
	struct db *db;
	struct store *s;
	struct arena *arena;
	struct run_row run;
};

static int set_up(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	f->arena = arena_new();
	f->run = (struct run_row){ .pipeline = "p",
				   .state = RUN_INTERRUPTED,
				   .started_ns = 1000 * NS_PER_S,
				   .ended_ns = 2000 * NS_PER_S };
	assert_int_equal(store_open("memory:", true, &f->s, NULL), 0);
	assert_int_equal(db_open(":memory:", DB_WRITE, &f->db, NULL), 0);
	assert_int_equal(db_begin(f->db, NULL), 0);
	assert_int_equal(record_run_add(f->db, &f->run, f->arena, NULL), 0);
	assert_int_equal(record_run_update(f->db, &f->run, NULL), 0);
	*state = f;
	return 0;
}

static int tear_down(void **state)
{
	struct fixture *f = *state;

	assert_int_equal(db_commit(f->db, NULL), 0);
	db_close(f->db);
	store_free(f->s);
	arena_free(f->arena);
	free(f);
	return 0;
}

/* With one output; ended_s 0: it has no end. */
static void add(struct fixture *f, const char *task, uint32_t number, int64_t ended_s,
		enum failure_class failure)
{
	struct attempt_row a = { .run = f->run.rowid,
				 .task = task,
				 .step = task,
				 .number = number,
				 .started_ns = (1000 + number) * NS_PER_S };
	_cleanup_(freep) char *made = xasprintf("%s %u", task, (unsigned)number);
	struct named_content out = { .name = "o" };

	assert_int_equal(record_attempt_start(f->db, &a, NULL), 0);
	if (!ended_s)
		return;
	a.ended_ns = ended_s * NS_PER_S;
	a.failure = failure;
	a.key.b[0] = 7;
	assert_int_equal(record_attempt_end(f->db, &a, NULL), 0);
	assert_int_equal(content_put_bytes(f->s, made, strlen(made), &out.id, NULL), 0);
	assert_true(record_result(f->db,
				  &(struct observation){ .attempt = a.id,
							 .key = &a.key,
							 .outputs = &out,
							 .n_outputs = 1 },
				  NULL) >= 0);
}

static void test_a_task_that_was_tried_again_is_one(void **state)
{
	struct fixture *f = *state;
	struct facts_task *t;
	size_t n;

	add(f, "a", 1, 1100, FAILURE_GATE);
	add(f, "b", 1, 1200, FAILURE_NONE);
	add(f, "a", 2, 1300, FAILURE_NONE);
	assert_int_equal(facts_read_tasks(f->db, f->s, &f->run, f->arena, &t, &n, NULL), 0);
	assert_int_equal(n, 2);
	assert_string_equal(t[0].task, "a");
	assert_int_equal(t[0].state, RESULT_SUCCEEDED);
	assert_int_equal(t[0].duration_ns, 298 * NS_PER_S);
	assert_string_equal(t[1].task, "b");
}

static void test_exports_of_an_attempt_without_an_end(void **state)
{
	struct fixture *f = *state;
	struct export_run x;
	struct err err = { 0 };
	char *slsa, *events;
	json_t *j;

	add(f, "a", 1, 1100, FAILURE_GATE);
	add(f, "a", 2, 0, FAILURE_NONE);
	if (export_open(&x, f->db, f->s, &f->run, f->arena, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(x.n_tasks, 1);
	if (export_slsa(&x, &x.tasks[0], NULL, &j, &err) < 0)
		fail_msg("%s", err.msg);
	slsa = json_dumps(j, JSON_SORT_KEYS);
	json_decref(j);
	if (export_openlineage(&x, NULL, &j, &err) < 0)
		fail_msg("%s", err.msg);
	events = json_dumps(j, JSON_SORT_KEYS);
	json_decref(j);
	export_close(&x);
	if (!strstr(slsa, "\"finishedOn\": \"1970-01-01T00:33:20.000Z\""))
		fail_msg("%s", slsa);
	if (strstr(events, "ended as none") || !strstr(events, "ended as gate") ||
	    !strstr(events, "its end isn't on record"))
		fail_msg("%s", events);
	free(slsa);
	free(events);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_a_task_that_was_tried_again_is_one, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(test_exports_of_an_attempt_without_an_end, set_up,
						tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
