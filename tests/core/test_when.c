/* Random pipelines that say when a step runs: needs with and without content, states of other
 * steps, always() and failed(), failures that are tolerated, fail_fast, and steps of `finally`; in
 * runs that go on, stop at a failure, or are interrupted. Held against a naive model. */
#include <signal.h>
#include <stdio.h>
#include "base/map.h"
#include "core/fixture.h"
#include "record/manifest/manifest.h"
#include "record/manifest/results.h"
#include "unit.h"

#define STEPS_MAX   12
#define FINALLY_MAX 3
#define SEEDS       3000

enum need { NO_NEED, BY_DATA, BY_ORDER, BY_STATE };
enum condition { NO_CONDITION, ALWAYS, FAILED, SOME_SUCCEEDED };
enum end { END_NONE, END_OK, END_FAILED, END_SKIPPED, END_BLOCKED };

struct model {
	unsigned n, n_finally; /* the last n_finally of n are of `finally` */
	enum need needs[STEPS_MAX][STEPS_MAX];
	enum condition condition[STEPS_MAX];
	bool fails[STEPS_MAX], tolerated[STEPS_MAX];
	bool keep_going, fail_fast; /* by the command line, by `defaults` */
	unsigned interrupt_at;      /* the n-th execution of an ordinary step; 0: never */
};

struct world {
	struct model m;
	struct engine e;
	unsigned n_executed;
	bool executed[STEPS_MAX];
	char told[STEPS_MAX][256]; /* state and failures, as a step of `finally` got them */
	int64_t ordinary_end_ns;   /* when the last ordinary attempt ends */
};

static bool is_finally(const struct model *m, unsigned s)
{
	return s >= m->n - m->n_finally;
}

static bool stops(const struct model *m)
{
	return !m->keep_going && m->fail_fast;
}

static void make_model(struct model *m, uint64_t *dice)
{
	*m = (struct model){ .n_finally = pick(dice, FINALLY_MAX + 1) };
	m->n = m->n_finally + 1 + pick(dice, STEPS_MAX - FINALLY_MAX);
	m->keep_going = pick(dice, 3) == 0;
	m->fail_fast = pick(dice, 2);
	m->interrupt_at = pick(dice, 4) ? 0 : 1 + pick(dice, m->n);
	for (unsigned s = 0; s < m->n; s++) {
		bool asks = false;

		for (unsigned d = 0; d < s; d++) {
			m->needs[s][d] = pick(dice, 3) ? NO_NEED : BY_DATA + pick(dice, 3);
			asks |= m->needs[s][d] == BY_STATE;
		}
		m->condition[s] = asks            ? SOME_SUCCEEDED
				  : pick(dice, 4) ? NO_CONDITION
				  : pick(dice, 2) ? ALWAYS
						  : FAILED;
		m->fails[s] = pick(dice, 4) == 0;
		m->tolerated[s] = pick(dice, 3) == 0;
	}
}

static struct pipeline *parse(const struct model *m, const char *dir)
{
	_cleanup_(str_deinit) struct str y = { 0 };

	str_addf(&y, "pipeline: when\ndefaults: {fail_fast: %s}\nsteps:\n",
		 m->fail_fast ? "true" : "false");
	for (unsigned s = 0; s < m->n; s++) {
		unsigned n = 0;

		str_addf(&y, "%s  s%u:\n    outputs: {o: o.txt}\n    run: work %u%s\n",
			 s == m->n - m->n_finally ? "finally:\n" : "", s, s,
			 is_finally(m, s) ? " ${{ run.state }} ${{ join(failed.tasks, ' ') }}"
					  : "");
		str_addf(&y, "    continue_on_error: %s\n    inputs: {",
			 m->tolerated[s] ? "true" : "false");
		for (unsigned d = 0; d < s; d++)
			if (m->needs[s][d] == BY_DATA)
				str_addf(&y, "%si%u: \"${{ steps.s%u.outputs.o }}\"",
					 n++ ? ", " : "", d, d);
		str_add(&y, "}\n    needs: [");
		n = 0;
		for (unsigned d = 0; d < s; d++)
			if (m->needs[s][d] == BY_ORDER)
				str_addf(&y, "%ss%u", n++ ? ", " : "", d);
		str_add(&y, "]\n");
		n = 0;
		if (m->condition[s] == ALWAYS || m->condition[s] == FAILED)
			str_addf(&y, "    if: \"${{ %s() }}\"\n",
				 m->condition[s] == ALWAYS ? "always" : "failed");
		for (unsigned d = 0; d < s; d++)
			if (m->needs[s][d] == BY_STATE)
				str_addf(&y, "%ssteps.s%u.state == 'succeeded'",
					 n++ ? " || " : "    if: \"${{ ", d);
		if (n)
			str_add(&y, " }}\"\n");
	}
	return engine_pipeline(dir, y.s);
}

/* What each step comes to in a run that nothing stops. */

static bool went_wrong(const struct model *m, const enum end *end, unsigned d)
{
	return end[d] == END_BLOCKED || (end[d] == END_FAILED && !m->tolerated[d]);
}

static bool gave_nothing(const struct model *m, const enum end *end, unsigned d)
{
	return end[d] == END_SKIPPED || (end[d] == END_FAILED && m->tolerated[d]);
}

static bool steps_went_wrong(const struct model *m, const enum end *end)
{
	bool wrong = false;

	for (unsigned s = 0; s < m->n - m->n_finally; s++)
		wrong |= went_wrong(m, end, s);
	return wrong;
}

static enum end end_of(const struct model *m, const enum end *end, unsigned s)
{
	bool handles = m->condition[s] == ALWAYS || m->condition[s] == FAILED, some = false,
	     wrong = is_finally(m, s) && steps_went_wrong(m, end), blocked = false, skipped = false;

	for (unsigned d = 0; d < s; d++) {
		const enum need need = m->needs[s][d];
		const bool outside = is_finally(m, s) && !is_finally(m, d);

		if (need == NO_NEED)
			continue;
		wrong |= went_wrong(m, end, d);
		some |= need == BY_STATE && end[d] == END_OK;
		blocked |= went_wrong(m, end, d) &&
			   (need == BY_DATA || (need == BY_ORDER && !handles && !outside));
		skipped |= need == BY_DATA && gave_nothing(m, end, d);
	}
	if (blocked || skipped)
		return blocked ? END_BLOCKED : END_SKIPPED;
	if ((m->condition[s] == FAILED && !wrong) || (m->condition[s] == SOME_SUCCEEDED && !some))
		return END_SKIPPED;
	return m->fails[s] ? END_FAILED : END_OK;
}

/* Executing. */

static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;
	const struct model *m = &w->m;
	int64_t now = w->e.clock.mono_ns(&w->e.clock);
	const char *state = "", *failed = "";
	unsigned s;

	assert_int_equal(sscanf(a->argv[2], "work %u", &s), 1);
	assert_false(w->executed[s]); /* in this run */
	w->executed[s] = true;
	*ret_duration_ns = (int64_t)(mix(s, a->id) % 5000) * NS_PER_MS;
	if (!is_finally(m, s)) {
		w->ordinary_end_ns = MAX(w->ordinary_end_ns, now + *ret_duration_ns);
		if (++w->n_executed == m->interrupt_at)
			assert_int_equal(raise(SIGINT), 0);
	} else {
		assert_true(m->interrupt_at || now >= w->ordinary_end_ns);
		for (const char *const *e = a->env; *e; e++) {
			state = str_has_prefix(*e, "CAIRN_V1=") ? *e + 9 : state;
			failed = str_has_prefix(*e, "CAIRN_V2=") ? *e + 9 : failed;
		}
		snprintf(w->told[s], sizeof(w->told[s]), "%s %s", state, failed);
	}
	if (m->fails[s])
		*ret_failure = FAILURE_FAILED;
	else
		assert_int_equal(content_put_bytes(w->e.store, a->task, strlen(a->task),
						   &ret_outputs[0], NULL),
				 0);
}

static const enum end end_of_result[] = {
	[RESULT_SUCCEEDED] = END_OK,
	[RESULT_FAILED] = END_FAILED,
	[RESULT_SKIPPED] = END_SKIPPED,
	[RESULT_BLOCKED] = END_BLOCKED,
};

static void read_ends(struct world *w, const struct run_row *row, struct arena *arena,
		      enum end *ret)
{
	struct results *res;
	struct results_cursor c;
	struct result_entry e;
	struct manifest m;

	assert_int_equal(manifest_load(w->e.store, &row->hash, arena, &m, NULL), 0);
	assert_int_equal(results_open(w->e.store, &m.results, &res, NULL), 0);
	for (results_first(res, &c); results_next(&c, &e);) {
		unsigned s;

		assert_int_equal(sscanf(e.step, "s%u", &s), 1);
		assert_int_equal(ret[s], END_NONE);
		ret[s] = end_of_result[e.state];
	}
	results_free(res);
}

static void check_told(const struct world *w, const enum end *end, const char *state)
{
	const struct model *m = &w->m;
	_cleanup_(str_deinit) struct str want = { 0 };

	str_addf(&want, "%s ", state);
	for (unsigned s = 0, n = 0; s < m->n - m->n_finally; s++)
		if (end[s] == END_FAILED && !m->tolerated[s])
			str_addf(&want, "%ss%u", n++ ? " " : "", s);
	for (unsigned s = m->n - m->n_finally; s < m->n; s++)
		if (w->executed[s])
			assert_string_equal(w->told[s], want.s);
}

static void check(struct world *w, const struct run_row *row, struct arena *arena)
{
	const struct model *m = &w->m;
	enum end end[STEPS_MAX] = { 0 }, want[STEPS_MAX] = { 0 };
	bool wrong = false, interrupted = row->state == RUN_INTERRUPTED, failed = false;

	read_ends(w, row, arena, end);
	for (unsigned s = 0; s < m->n; s++) {
		want[s] = end_of(m, want, s);
		failed |= end[s] == END_FAILED && !m->tolerated[s];
		wrong |= went_wrong(m, want, s);
		/* A step of `finally` comes to what it would after any end of the others. */
		if (is_finally(m, s)) {
			enum end again = end_of(m, end, s);

			if (m->condition[s] == FAILED && interrupted)
				continue; /* a cancelled run hasn't failed */
			if (again != end[s])
				fail_msg("s%u: %d, not %d", s, end[s], again);
		}
		if (!stops(m) && !interrupted && end[s] != want[s])
			fail_msg("s%u: %d, not %d", s, end[s], want[s]);
	}
	if (interrupted) {
		assert_true(m->interrupt_at != 0);
		return;
	}
	assert_int_equal(row->state, failed ? RUN_FAILED : RUN_SUCCEEDED);
	assert_int_equal(failed, wrong);
	check_told(w, end, steps_went_wrong(m, end) ? "failed" : "succeeded");
}

static void one_seed(uint64_t seed, const char *dir)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct world w = { 0 };
	struct runner_fake_options o = { .seed = seed, .script = execute, .arg = &w };
	struct config config = engine_config(dir);
	struct run_context ctx;
	struct run_options ro = { .jobs = 1 + (unsigned)(seed % 3) };
	uint64_t dice = mix(seed, 3);
	struct err err = { 0 };
	struct pipeline *p;
	struct run_row row;

	make_model(&w.m, &dice);
	engine_open(&w.e, &o);
	ctx = engine_context(&w.e, &config);
	ctx.handle_signals = true;
	ro.keep_going = w.m.keep_going;
	p = parse(&w.m, dir);
	if (run_start(&ctx, p, &ro, arena, &row, &err) < 0)
		fail_msg("%s", err.msg);
	assert_true(row.has_hash);
	check(&w, &row, arena);
	/* Once more: what succeeded is on record, and `finally` acts again. */
	if (row.state == RUN_SUCCEEDED) {
		memset(w.executed, 0, sizeof(w.executed));
		w.m.interrupt_at = 0;
		w.ordinary_end_ns = 0;
		assert_int_equal(run_start(&ctx, p, &ro, arena, &row, &err), 0);
		check(&w, &row, arena);
		for (unsigned s = 0; s < w.m.n; s++)
			assert_true(!w.executed[s] || is_finally(&w.m, s) || w.m.fails[s]);
	}
	assert_int_equal(db_check(w.e.db, NULL), 0);
	pipeline_free(p);
	engine_close(&w.e);
}

static void test_random_pipelines(void **state)
{
	each_seed(SEEDS, one_seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_pipelines) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
