/* Thousands of random pipelines through the real planner, journal and run state, with a fake
 * runner, a memory store, a database in memory and a virtual clock; held against a naive model that
 * knows only what depends on what. */
#include <stdio.h>
#include "base/map.h"
#include "core/fixture.h"
#include "unit.h"

#define STEPS_MAX DAG_STEPS_MAX
#define AXIS_MAX  DAG_AXIS_MAX
#define SEEDS     2500

/* A random pipeline, and what it should do. */

struct naive {
	uint64_t seed;
	struct dag d;
	unsigned jobs;
	bool keep_going;
	bool changed[STEPS_MAX]; /* since the run before: another salt, so other keys for it and all
				    that follows */
	unsigned retries[STEPS_MAX];
};

static void make_naive(struct naive *m, uint64_t seed)
{
	*m = (struct naive){ .seed = mix(seed, 1) };
	dag_make(&m->d, &m->seed, STEPS_MAX, AXIS_MAX);
	m->jobs = 1 + pick(&m->seed, 4);
	m->keep_going = pick(&m->seed, 4) != 0;
	for (unsigned s = 0; s < m->d.n; s++)
		m->retries[s] = pick(&m->seed, 3);
}

/* How many attempts of this task fail before one succeeds; more than its retries: it fails for
 * good. */
static unsigned failures_of(const struct naive *m, unsigned step, unsigned x)
{
	unsigned r = (unsigned)(mix(mix(m->seed, step + 1), x + 100) >> 13) % 12;

	return r == 0 ? 9 : r < 4 ? r - 1 : 0;
}

static void add_retries(const void *arg, unsigned s, struct str *out)
{
	const struct naive *m = arg;

	str_addf(out, "    retry: {max: %u, backoff: 1s..1m}\n%s", m->retries[s],
		 m->changed[s] ? "    salt: changed\n" : "");
}

static struct pipeline *parse(const struct naive *m, const char *dir)
{
	_cleanup_(str_deinit) struct str yaml = { 0 };

	dag_add_yaml(&yaml, &m->d, "", add_retries, m);
	return engine_pipeline(dir, yaml.s);
}

/* What every task comes to when everything that can go on does. */
static void fates(const struct naive *m, enum fate f[STEPS_MAX][AXIS_MAX])
{
	for (unsigned s = 0; s < m->d.n; s++)
		for (unsigned x = 0; x < dag_tasks(&m->d, s); x++) {
			bool blocked = false;

			for (unsigned d = 0; d < s; d++)
				for (unsigned y = 0; y < dag_tasks(&m->d, d); y++)
					blocked |= dag_depends(&m->d, s, x, d, y) &&
						   f[d][y] != FATE_OK;
			f[s][x] = blocked                                ? FATE_BLOCKED
				  : failures_of(m, s, x) > m->retries[s] ? FATE_FAILED
									 : FATE_OK;
		}
}

/* The world. */

struct world {
	struct naive m;
	struct engine e;
	struct map *attempts;                    /* task → number of attempts */
	struct map *done;                        /* key → successful executions */
	struct digest keys[STEPS_MAX][AXIS_MAX]; /* of the last execution */
	bool ran[STEPS_MAX][AXIS_MAX];           /* in this run */
	unsigned executed, failed_attempts;
};

static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;
	unsigned step, x;
	void **attempts = map_slot_str(w->attempts, a->task),
	     **done = map_slot(w->done, a->key->b, DIGEST_BYTES, NULL);
	char hex[DIGEST_HEX_MAX];

	dag_read_work(a, &step, &x);
	assert_true(runner_fake_running(w->e.runner) <= w->m.jobs);
	assert_null(*done); /* no key is executed again once it gave a result */
	*attempts = (void *)((uintptr_t)*attempts + 1);
	assert_int_equal(a->number, (uintptr_t)*attempts);
	assert_true(a->number <= w->m.retries[step] + 1);
	*ret_duration_ns = (int64_t)(mix(w->m.seed, a->id) % 5000) * NS_PER_MS;
	if (a->number <= failures_of(&w->m, step, x)) {
		*ret_failure = FAILURE_FAILED;
		w->failed_attempts++;
		return;
	}
	*done = w;
	w->keys[step][x] = *a->key;
	w->ran[step][x] = true;
	w->executed++;
	digest_hex(a->key, hex);
	assert_int_equal(content_put_bytes(w->e.store, hex, 64, &ret_outputs[0], NULL), 0);
}

static void world_open(struct world *w, uint64_t seed)
{
	struct runner_fake_options o = {
		.seed = seed,
		.script = execute,
		.taking_in_ns = seed % 2 ? (int64_t)(mix(seed, 77) % 8000) * NS_PER_MS : 0,
		.arg = w
	};

	*w = (struct world){ 0 };
	make_naive(&w->m, seed);
	engine_open(&w->e, &o);
	w->attempts = map_new();
	w->done = map_new();
}

static void world_close(struct world *w)
{
	engine_close(&w->e);
	map_free(w->attempts);
	map_free(w->done);
}

static void go(struct world *w, const char *dir, const struct pipeline *p, struct run_row *ret,
	       struct arena *arena)
{
	struct config config = engine_config(dir);
	struct run_context ctx = engine_context(&w->e, &config);
	struct run_options o = { .keep_going = w->m.keep_going, .jobs = w->m.jobs };
	struct err err = { 0 };

	map_free(w->attempts);
	w->attempts = map_new();
	w->executed = w->failed_attempts = 0;
	memset(w->ran, 0, sizeof(w->ran));
	if (run_start(&ctx, p, &o, arena, ret, &err) < 0)
		fail_msg("seed: %s", err.msg);
	assert_int_equal(runner_fake_running(w->e.runner), 0);
	assert_int_equal(runner_fake_taking_in(w->e.runner), 0);
	assert_true(ret->has_hash);
}

static void check_first(struct world *w, const struct run_row *row)
{
	enum fate f[STEPS_MAX][AXIS_MAX];
	unsigned count[3] = { 0 }, total = 0;

	fates(&w->m, f);
	for (unsigned s = 0; s < w->m.d.n; s++)
		for (unsigned x = 0; x < dag_tasks(&w->m.d, s); x++, total++)
			count[f[s][x]]++;
	assert_int_equal(row->counts.total, total);
	assert_int_equal(row->counts.executed + row->counts.hits + row->counts.failed +
				 row->counts.blocked + row->counts.skipped,
			 total);
	assert_int_equal(row->state, count[FATE_FAILED] ? RUN_FAILED : RUN_SUCCEEDED);
	assert_int_equal(row->counts.executed, w->executed);
	if (!w->m.keep_going) {
		assert_true(row->counts.executed <= count[FATE_OK]);
		assert_true(count[FATE_FAILED] == 0 || row->counts.failed >= 1);
		return;
	}
	/* Two tasks with one key share one execution: then one of them is a hit. Commands name step
	 * and x, so here there are none. */
	assert_int_equal(row->counts.executed, count[FATE_OK]);
	assert_int_equal(row->counts.failed, count[FATE_FAILED]);
	assert_int_equal(row->counts.blocked, count[FATE_BLOCKED]);
}

/* Content that is gone. */

static bool is_used(const struct naive *m, unsigned d)
{
	for (unsigned s = d + 1; s < m->d.n; s++)
		if (m->d.needs[s][d])
			return true;
	return false;
}

/* What has to be executed: what changed and all that follows; and of what is lost, the last of the
 * pipeline, and what something that is executed reads. */
static void wanted(const struct naive *m, bool lost[STEPS_MAX][AXIS_MAX],
		   bool want[STEPS_MAX][AXIS_MAX])
{
	for (unsigned s = 0; s < m->d.n; s++)
		for (unsigned x = 0; x < dag_tasks(&m->d, s); x++) {
			want[s][x] = m->changed[s];
			for (unsigned d = 0; d < s; d++)
				for (unsigned y = 0; y < dag_tasks(&m->d, d); y++)
					want[s][x] |= dag_depends(&m->d, s, x, d, y) && want[d][y];
		}
	for (unsigned s = 0; s < m->d.n; s++)
		for (unsigned x = 0; x < dag_tasks(&m->d, s); x++)
			want[s][x] |= lost[s][x] && !is_used(m, s);
	for (unsigned s = m->d.n; s-- > 0;)
		for (unsigned x = 0; x < dag_tasks(&m->d, s); x++)
			for (unsigned d = 0; want[s][x] && d < s; d++)
				for (unsigned y = 0; y < dag_tasks(&m->d, d); y++)
					want[d][y] |= dag_depends(&m->d, s, x, d, y) && lost[d][y];
}

static void lose(struct world *w, unsigned s, unsigned x)
{
	struct content_id id;
	char hex[DIGEST_HEX_MAX];

	digest_hex(&w->keys[s][x], hex);
	content_id_of_bytes(hex, 64, &id);
	assert_int_equal(store_delete(w->e.store, STORE_BLOB, &id.digest, NULL), 0);
	*map_slot(w->done, w->keys[s][x].b, DIGEST_BYTES, NULL) =
		NULL; /* may be executed once more */
}

static void lose_some_and_change(struct world *w, const char *dir, struct arena *arena)
{
	bool lost[STEPS_MAX][AXIS_MAX] = { 0 }, want[STEPS_MAX][AXIS_MAX] = { 0 };
	uint64_t dice = w->m.seed; /* the world's own seed says which attempts fail */
	struct run_row row;
	struct pipeline *p;

	for (unsigned s = 0; s < w->m.d.n; s++) {
		w->m.changed[s] = pick(&dice, 5) == 0;
		for (unsigned x = 0; x < dag_tasks(&w->m.d, s); x++)
			if (pick(&dice, 3) == 0) {
				lost[s][x] = true;
				lose(w, s, x);
			}
	}
	wanted(&w->m, lost, want);
	p = parse(&w->m, dir);
	go(w, dir, p, &row, arena);
	assert_int_equal(row.state, RUN_SUCCEEDED);
	for (unsigned s = 0; s < w->m.d.n; s++)
		for (unsigned x = 0; x < dag_tasks(&w->m.d, s); x++)
			if (w->ran[s][x] != want[s][x])
				fail_msg("s%u[%u]: %s", s, x,
					 want[s][x] ? "not executed" : "executed for nothing");
	assert_int_equal(row.counts.executed + row.counts.hits, row.counts.total);
	assert_int_equal(row.counts.executed, w->executed);
	pipeline_free(p);
}

static void one_seed(uint64_t seed, const char *dir)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct run_row first, second;
	struct pipeline *p;
	struct world w;

	world_open(&w, seed);
	p = parse(&w.m, dir);
	go(&w, dir, p, &first, arena);
	check_first(&w, &first);
	/* Again: what ended well is on record, and nothing of it is executed (the script would
	 * object). */
	go(&w, dir, p, &second, arena);
	assert_true(second.counts.hits >= first.counts.executed);
	if (first.state == RUN_SUCCEEDED) {
		assert_int_equal(second.counts.hits, first.counts.total);
		assert_int_equal(w.executed + w.failed_attempts, 0);
		assert_true(content_id_eq(&first.results,
					  &second.results)); /* nothing new: the same table */
		lose_some_and_change(&w, dir, arena);
	}
	assert_int_equal(db_check(w.e.db, NULL), 0);
	pipeline_free(p);
	world_close(&w);
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
