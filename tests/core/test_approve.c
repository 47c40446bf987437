/* Steps that wait for a person, on a virtual clock: the first answer counts, or else the time
 * limit; a run that waits holds nothing up, and never goes on without an answer. */
#include "core/fixture.h"
#include "core/seeds.h"
#include "record/rows/approvals.h"

#define TASKS_MAX 6

struct world {
	char dir[TEST_DIR_MAX];
	struct config config;
	struct arena *arena;
	struct engine e;
	const char *run;
	/* What people do, and what must come of it. */
	struct answer {
		struct world *w;
		char task[16];
		int64_t after_ns; /* 0: nobody answers */
		bool approved, may;
		int64_t limit_ns; /* 0: none */
		bool at_limit;
	} answers[TASKS_MAX];
	size_t n;
};

static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	assert_int_not_equal(a->task[0], 'q'); /* questions have no runner */
	*ret_duration_ns = NS_PER_MS;
}

static int64_t wall(struct world *w)
{
	return w->e.clock.wall_ns(&w->e.clock);
}

static void answer(void *arg)
{
	struct answer *a = arg;
	struct world *w = a->w;
	struct approval_given g = { .task = a->task,
				    .approved = a->approved,
				    .who = a->may ? "ada@host" : "eve@host",
				    .way = "cli",
				    .at_ns = wall(w) };
	struct attempt_row row;
	struct run_row run;
	struct err err = { 0 };
	int r;

	assert_int_equal(record_run_by_id(w->e.db, w->run, w->arena, &run, &err), 1);
	r = record_approval_give(w->e.db, &run, &g, w->arena, &row, &err);
	if (!a->may && (!a->limit_ns || a->after_ns < a->limit_ns))
		assert_int_equal(err.code, ERR_INVALID);
	assert_int_equal(r, a->may && (!a->limit_ns || a->after_ns < a->limit_ns) ? 0 : -1);
	if (r == 0) { /* nobody changes it */
		g.approved = !g.approved;
		assert_int_equal(record_approval_give(w->e.db, &run, &g, w->arena, &row, &err), -1);
		assert_int_equal(err.code, ERR_EXISTS);
	}
}

static void on_started(void *arg, const struct run_row *run, int64_t estimate_ns)
{
	struct world *w = arg;

	w->run = arena_strdup(w->arena, run->id);
	for (size_t i = 0; i < w->n; i++)
		if (w->answers[i].after_ns)
			loop_add_timer(w->e.loop,
				       w->e.clock.mono_ns(&w->e.clock) + w->answers[i].after_ns,
				       answer, &w->answers[i]);
}

static bool is_approved(const struct answer *a)
{
	const bool counts = a->after_ns && a->may && (!a->limit_ns || a->after_ns < a->limit_ns);

	return counts ? a->approved : a->at_limit;
}

static bool is_on_record(struct world *w, const struct attempt_row *v, size_t n, const char *task,
			 bool *ret_well, struct approval *ret)
{
	for (size_t i = 0; i < n; i++)
		if (str_eq(v[i].task, task)) {
			*ret_well = v[i].failure == FAILURE_NONE;
			assert_int_not_equal(v[i].ended_ns, 0);
			return !v[i].approval || approval_parse(v[i].approval, w->arena, ret);
		}
	return false;
}

/* As many questions as there are answers, at once, with one place for tasks; each has a task that
 * needs it. Returns the run's state. */
static enum run_state run(struct world *w)
{
	struct runner_fake_options fake = { .script = execute, .arg = w };
	struct run_observer observer = { .started = on_started, .arg = w };
	struct run_options options = { .jobs = 1, .keep_going = true };
	_cleanup_(str_deinit) struct str yaml = { 0 };
	struct run_context ctx;
	struct attempt_row *v;
	struct err err = { 0 };
	struct run_row row;
	struct pipeline *p;
	size_t n;

	str_add(&yaml, "pipeline: asks\nsteps:\n");
	for (size_t i = 0; i < w->n; i++) {
		const struct answer *a = &w->answers[i];

		str_addf(&yaml, "  q%zu:\n    approve: {by: ada%s}\n", i,
			 a->limit_ns && a->at_limit ? ", default: approve" : "");
		if (a->limit_ns)
			str_addf(&yaml, "    timeout: %lldms\n",
				 (long long)(a->limit_ns / NS_PER_MS));
		str_addf(&yaml, "  t%zu: {needs: [q%zu], run: work %zu}\n", i, i, i);
	}
	engine_open(&w->e, &fake);
	ctx = engine_context(&w->e, &w->config);
	ctx.observer = &observer;
	p = engine_pipeline(w->dir, yaml.s);
	if (run_start(&ctx, p, &options, w->arena, &row, &err) < 0)
		fail_msg("%s\n%s", err.msg, yaml.s);
	assert_int_equal(record_run_attempts(w->e.db, row.rowid, w->arena, &v, &n, NULL), 0);
	for (size_t i = 0; i < w->n; i++) {
		const struct answer *a = &w->answers[i];
		struct approval asked = { 0 };
		char task[16];
		bool well;

		snprintf(task, sizeof(task), "t%u", (unsigned)i % TASKS_MAX);
		assert_true(is_on_record(w, v, n, a->task, &well, &asked));
		assert_int_equal(well, is_approved(a));
		assert_int_equal(asked.answer, well ? APPROVAL_APPROVED : APPROVAL_REFUSED);
		assert_int_equal(is_on_record(w, v, n, task, &well, &asked), is_approved(a));
	}
	pipeline_free(p);
	engine_close(&w->e);
	return row.state;
}

static int setup(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	test_dir(w->dir, sizeof(w->dir), "approve");
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

/* Without a limit, somebody who may must answer, or the run would wait for ever. */
static void throw(struct world * w, uint64_t *seed)
{
	w->n = 1 + pick(seed, TASKS_MAX);
	for (size_t i = 0; i < w->n; i++) {
		struct answer *a = &w->answers[i];

		*a = (struct answer){ .w = w, .approved = pick(seed, 2), .may = pick(seed, 4) };
		snprintf(a->task, sizeof(a->task), "q%u", (unsigned)i % TASKS_MAX);
		if (pick(seed, 3))
			a->after_ns = (1 + pick(seed, 9000)) * NS_PER_MS;
		if (pick(seed, 2) || !a->after_ns || !a->may) {
			a->limit_ns = (1 + pick(seed, 9000)) * NS_PER_MS;
			a->at_limit = pick(seed, 2);
		}
		/* Of the same instant, either may be first. */
		if (a->limit_ns && a->limit_ns - a->after_ns < 3 * NS_PER_MS &&
		    a->after_ns - a->limit_ns < 3 * NS_PER_MS)
			a->after_ns += 10 * NS_PER_MS;
	}
}

static void test_random(void **state)
{
	struct world *w = *state;
	const struct seeds seeds = seeds_of(1, 400);

	for (uint64_t s = seeds.from; s < seeds.to; s++) {
		uint64_t seed = mix(s, 16);
		bool all = true;

		throw(w, &seed);
		for (size_t i = 0; i < w->n; i++)
			all &= is_approved(&w->answers[i]);
		assert_int_equal(run(w), all ? RUN_SUCCEEDED : RUN_FAILED);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_random, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
