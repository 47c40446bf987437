/* Random pipelines, reproduced: which tasks diverge, isolated and chained, and what is lost, held
 * against a naive model. */
#include <stdio.h>
#include "core/fixture.h"
#include "run/reproduce/reproduce.h"
#include "unit.h"

#define STEPS_MAX 10
#define AXIS_MAX  3
#define SEEDS     400

enum nature { STEADY, RANDOM /* other bytes each time */, BROKEN /* never ends well */ };

struct naive {
	uint64_t seed;
	struct dag d;
	enum nature nature[STEPS_MAX];
	bool lost[STEPS_MAX][AXIS_MAX]; /* what it made isn't in the store any more */
};

struct world {
	struct naive m;
	struct engine e;
	struct content_id made[STEPS_MAX][AXIS_MAX]; /* by the last execution */
	unsigned executed;
};

static void make_naive(struct naive *m, uint64_t seed)
{
	*m = (struct naive){ .seed = mix(seed, 7) };
	dag_make(&m->d, &m->seed, STEPS_MAX, AXIS_MAX);
	for (unsigned s = 0; s < m->d.n; s++) {
		unsigned r = pick(&m->seed, 10);

		m->nature[s] = r < 2 ? RANDOM : r < 3 ? BROKEN : STEADY;
	}
}

/* The world. */

static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;
	_cleanup_(str_deinit) struct str text = { 0 };
	char hex[DIGEST_HEX_MAX];
	unsigned s, x;

	dag_read_work(a, &s, &x);
	*ret_duration_ns = (int64_t)(a->id % 7) * NS_PER_MS;
	w->executed++;
	if (w->m.nature[s] == BROKEN) {
		*ret_failure = FAILURE_FAILED;
		return;
	}
	str_addf(&text, "%u %u", s, x);
	for (size_t i = 0; i < a->n_inputs; i++)
		str_addf(&text, " %s", digest_hex(&a->inputs[i].id.digest, hex));
	if (w->m.nature[s] == RANDOM)
		str_addf(&text, " attempt %llu", (unsigned long long)a->id);
	assert_int_equal(content_put_bytes(w->e.store, text.s, text.len, &ret_outputs[0], NULL), 0);
	w->made[s][x] = ret_outputs[0];
}

static void world_open(struct world *w, uint64_t seed)
{
	struct runner_fake_options o = { .seed = seed, .script = execute, .arg = w };

	*w = (struct world){ 0 };
	make_naive(&w->m, seed);
	engine_open(&w->e, &o);
}

static struct pipeline *parse(const struct naive *m, const char *dir)
{
	_cleanup_(str_deinit) struct str yaml = { 0 };

	dag_add_yaml(&yaml, &m->d, "defaults: {retry: {max: 0, lost: 0, store: 0}}\n", NULL, NULL);
	return engine_pipeline(dir, yaml.s);
}

static void run(struct world *w, const char *dir, const struct pipeline *p, struct run_row *ret,
		struct arena *arena)
{
	struct config config = engine_config(dir);
	struct run_context ctx = engine_context(&w->e, &config);
	struct run_options o = { .keep_going = true, .jobs = 3 };
	struct err err = { 0 };

	w->executed = 0;
	if (run_start(&ctx, p, &o, arena, ret, &err) < 0)
		fail_msg("run: %s", err.msg);
}

static struct reproduction *reproduce(struct world *w, const char *dir, const struct run_row *of,
				      enum reproduce_mode mode, struct arena *arena)
{
	struct config config = engine_config(dir);
	struct run_context ctx = engine_context(&w->e, &config);
	struct reproduce_options o = { .mode = mode, .jobs = 3 };
	struct reproduction *rep = NULL;
	struct run_row row;
	struct err err = { 0 };

	w->executed = 0;
	if (run_reproduce(&ctx, &of->hash, &o, arena, &row, &rep, &err) < 0)
		fail_msg("reproduce: %s", err.msg);
	assert_non_null(rep);
	return rep;
}

/* What should come out. */

static enum fate fate_of(const struct naive *m, unsigned s, unsigned x)
{
	for (unsigned d = 0; d < s; d++)
		for (unsigned y = 0; y < dag_tasks(&m->d, d); y++)
			if (dag_depends(&m->d, s, x, d, y) && fate_of(m, d, y) != FATE_OK)
				return FATE_BLOCKED;
	return m->nature[s] == BROKEN ? FATE_FAILED : FATE_OK;
}

/* Does it, or anything that it comes from, roll dice? */
static bool tainted(const struct naive *m, unsigned s, unsigned x)
{
	bool t = m->nature[s] == RANDOM;

	for (unsigned d = 0; d < s && !t; d++)
		for (unsigned y = 0; y < dag_tasks(&m->d, d); y++)
			t |= dag_depends(&m->d, s, x, d, y) && tainted(m, d, y);
	return t;
}

/* Something that it reads is gone, and isn't made again: what made it gives other bytes, or is cut
 * off itself. */
static bool cut_off(const struct naive *m, unsigned s, unsigned x)
{
	bool cut = false;

	for (unsigned d = 0; d < s; d++)
		for (unsigned y = 0; y < dag_tasks(&m->d, d); y++)
			cut |= dag_depends(&m->d, s, x, d, y) && m->lost[d][y] &&
			       (m->nature[d] != STEADY || cut_off(m, d, y));
	return cut;
}

static enum reproduce_verdict expected(const struct naive *m, enum reproduce_mode mode, unsigned s,
				       unsigned x)
{
	enum fate f = fate_of(m, s, x);
	bool differs = mode == REPRODUCE_ISOLATED ? m->nature[s] == RANDOM : tainted(m, s, x);

	if (f == FATE_BLOCKED)
		return NOT_SELECTED;
	if (mode == REPRODUCE_ISOLATED && cut_off(m, s, x))
		return NOT_COMPARABLE;
	if (f == FATE_FAILED || !differs)
		return REPRODUCED;
	return m->lost[s][x] ? NOT_COMPARABLE : DIVERGED;
}

static const struct reproduced_task *task_of(const struct reproduction *rep, const struct naive *m,
					     unsigned s, unsigned x)
{
	char name[32];

	snprintf(name, sizeof(name), m->d.matrix[s] ? "s%u[x=%u]" : "s%u", s, x);
	for (size_t i = 0; i < rep->n_tasks; i++)
		if (str_eq(rep->tasks[i].task, name))
			return &rep->tasks[i];
	fail_msg("%s is not in the report", name);
	return NULL;
}

static void check(const struct world *w, const struct reproduction *rep, uint64_t seed)
{
	enum compare_verdict worst = VERDICT_UNKNOWN;
	size_t total = 0;
	bool first = false;

	for (unsigned s = 0; s < w->m.d.n; s++)
		for (unsigned x = 0; x < dag_tasks(&w->m.d, s); x++, total++) {
			const struct reproduced_task *t = task_of(rep, &w->m, s, x);
			enum reproduce_verdict want = expected(&w->m, rep->mode, s, x);

			if (t->verdict != want)
				fail_msg("seed %llu, %s: verdict %d, not %d (%s)",
					 (unsigned long long)seed, t->task, (int)t->verdict,
					 (int)want, t->why ? t->why : "");
			if (want == NOT_COMPARABLE)
				assert_non_null(t->why);
			if (want == DIVERGED &&
			    !first) { /* files are in the order of the DAG here */
				assert_ptr_equal(t, &rep->tasks[rep->first]);
				first = true;
			}
			if (want != NOT_SELECTED && worst == VERDICT_UNKNOWN)
				worst = VERDICT_IDENTICAL; /* of nothing there would be nothing to
							      say */
		}
	assert_int_equal(rep->n_tasks, total);
	assert_int_equal(rep->first < rep->n_tasks, first);
	for (size_t i = 0; i < rep->n_tasks; i++)
		worst = MAX(worst, rep->tasks[i].verdict == NOT_COMPARABLE ? VERDICT_UNKNOWN
				   : rep->tasks[i].verdict == DIVERGED     ? VERDICT_DIFFERENT
									   : VERDICT_IDENTICAL);
	assert_int_equal(rep->verdict, worst);
}

static void lose_some(struct world *w)
{
	uint64_t dice = w->m.seed;

	for (unsigned s = 0; s < w->m.d.n; s++)
		for (unsigned x = 0; x < dag_tasks(&w->m.d, s); x++) {
			if (fate_of(&w->m, s, x) != FATE_OK || pick(&dice, 5))
				continue;
			w->m.lost[s][x] = true;
			assert_int_equal(
				store_delete(w->e.store, STORE_BLOB, &w->made[s][x].digest, NULL),
				0);
		}
}

static void one_seed(uint64_t seed, const char *dir)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct run_row first, again;
	struct pipeline *p;
	struct world w;
	struct content_id made[STEPS_MAX][AXIS_MAX];

	world_open(&w, seed);
	p = parse(&w.m, dir);
	run(&w, dir, p, &first, arena);
	memcpy(made, w.made, sizeof(made));
	check(&w, reproduce(&w, dir, &first, REPRODUCE_ISOLATED, arena), seed);
	check(&w, reproduce(&w, dir, &first, REPRODUCE_CHAINED, arena), seed);
	/* Others get what the first run made, and nothing that was made since. */
	run(&w, dir, p, &again, arena);
	assert_int_equal(again.counts.hits, first.counts.executed);
	assert_int_equal(again.counts.executed, 0);
	assert_true(content_id_eq(&first.results, &again.results) || first.state == RUN_FAILED);
	memcpy(w.made, made, sizeof(made));
	lose_some(&w);
	check(&w, reproduce(&w, dir, &first, REPRODUCE_ISOLATED, arena), seed);
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
