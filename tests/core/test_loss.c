/* Random pipelines whose content gets lost: the whole store or parts of it, between runs and while
 * one goes on; with `each`, matrices, gathered inputs, failures and gc. Held against a naive model.
 *
 * What must hold whatever happens: a run that says `succeeded` has a result for each of its tasks,
 * each task once, and nothing of it is left open in the database. What an engine can't help (a
 * listing is gone that it has to read) ends the run as an error, never as a success. When nothing
 * gets lost during a run, exactly that is executed which the model wants: what changed with all
 * that follows, and what is lost and needed.
 *
 * CAIRN_TEST_SEEDS names the seeds to run (seeds.h).
 */
#include <stdio.h>
#include "base/map.h"
#include "core/fixture.h"
#include "core/seeds.h"
#include "record/manifest/manifest.h"
#include "record/manifest/results.h"
#include "storage/local/maintain.h"
#include "unit.h"

#define STEPS_MAX 9
#define WIDTH_MAX 4
#define SEEDS     (1000 * SEEDS_PART) /* as many in every build */
#define ROUNDS    2

enum shape { PLAIN, MATRIX, EACH };

struct model {
	unsigned n, width; /* steps; values of the axis */
	enum shape shape[STEPS_MAX];
	unsigned source[STEPS_MAX];  /* of an EACH: the plain step whose directory it ranges over */
	unsigned members[STEPS_MAX]; /* in the directory of a plain step */
	bool needs[STEPS_MAX][STEPS_MAX];
	bool is_source[STEPS_MAX];
	unsigned version[STEPS_MAX]; /* its salt: another one gives other keys */
	unsigned jobs;
	bool keep_going;
};

/* What is known of one task of the model. */
struct known {
	struct content_id outputs[2];
	unsigned n_outputs;
	bool made, ran, lost, want;
};

struct world {
	uint64_t dice, seed;
	struct model m;
	struct engine e;
	struct pipeline *p; /* of the versions as they are; NULL: to be read */
	struct known tasks[STEPS_MAX][WIDTH_MAX];
	struct map *by_label;              /* → struct known * */
	unsigned lose_one_in, fail_one_in; /* executions; 0: never */
	bool lost, failed;                 /* in this run */
	unsigned executed;
};

/* The pipeline. */

static void make_model(struct model *m, uint64_t *dice)
{
	*m = (struct model){ .n = 2 + pick(dice, STEPS_MAX - 1),
			     .width = 1 + pick(dice, WIDTH_MAX),
			     .jobs = 1 + pick(dice, 4),
			     .keep_going = pick(dice, 2) };
	for (unsigned s = 0; s < m->n; s++) {
		m->shape[s] = pick(dice, 3) ? PLAIN : MATRIX;
		m->members[s] = 1 + pick(dice, WIDTH_MAX);
		for (unsigned k = 0; k < s; k++)
			m->needs[s][k] = pick(dice, 3) == 0;
		if (s == 0 || pick(dice, 3))
			continue;
		m->source[s] = pick(dice, s);
		if (m->shape[m->source[s]] != PLAIN)
			continue;
		m->shape[s] = EACH;
		m->is_source[m->source[s]] = true;
	}
}

static unsigned width(const struct model *m, unsigned s)
{
	return m->shape[s] == PLAIN    ? 1
	       : m->shape[s] == MATRIX ? m->width
				       : m->members[m->source[s]];
}

static bool depends(const struct model *m, unsigned s, unsigned x, unsigned k, unsigned y)
{
	if (m->shape[s] == EACH && m->source[s] == k)
		return true;
	return m->needs[s][k] && (m->shape[s] != MATRIX || m->shape[k] != MATRIX || x == y);
}

static struct pipeline *parse(const struct model *m, const char *dir)
{
	_cleanup_(str_deinit) struct str yaml = { 0 };

	str_add(&yaml, "pipeline: random\nsteps:\n");
	for (unsigned s = 0; s < m->n; s++) {
		str_addf(&yaml,
			 "  s%u:\n    run: work %u %s\n    salt: v%u\n    retry: {backoff: "
			 "1s..2s}\n    outputs: {o: o.txt%s}\n",
			 s, s, m->shape[s] == MATRIX ? "${{ matrix.x }}" : "", m->version[s],
			 m->shape[s] == PLAIN ? ", d: d/" : "");
		for (unsigned x = 0; m->shape[s] == MATRIX && x < m->width; x++)
			str_addf(&yaml, "%s%u%s", x ? ", " : "    matrix: {x: [", x,
				 x + 1 == m->width ? "]}\n" : "");
		if (m->shape[s] == EACH)
			str_addf(&yaml, "    each: \"${{ steps.s%u.outputs.d }}/*\"\n",
				 m->source[s]);
		str_addf(&yaml, "    inputs: {%s",
			 m->shape[s] == EACH ? "item: \"${{ item }}\"" : "");
		for (unsigned k = 0, n = m->shape[s] == EACH; k < s; k++)
			if (m->needs[s][k])
				str_addf(&yaml, "%si%u: \"${{ steps.s%u.outputs.o }}\"",
					 n++ ? ", " : "", k, k);
		str_add(&yaml, "}\n");
	}
	return engine_pipeline(dir, yaml.s);
}

static void name_tasks(struct world *w)
{
	for (unsigned s = 0; s < w->m.n; s++)
		for (unsigned x = 0; x < width(&w->m, s); x++) {
			_cleanup_(freep) char *label =
				w->m.shape[s] == PLAIN
					? xasprintf("s%u", s)
					: xasprintf(w->m.shape[s] == MATRIX ? "s%u[x=%u]"
									    : "s%u[m%u]",
						    s, x);

			*map_slot_str(w->by_label, label) = &w->tasks[s][x];
		}
}

/* Losing. */

struct names {
	VEC(struct digest) v;
};

static int add_name(void *arg, const struct digest *name, uint64_t size, int64_t mtime_ns)
{
	struct names *n = arg;

	VEC_PUSH(&n->v, *name);
	return 0;
}

/* One in `one_in` of what there is; 1: all of it. */
static void lose(struct world *w, unsigned one_in)
{
	for (int space = 0; space < STORE_SPACES; space++) {
		struct names n = { 0 };

		assert_int_equal(store_list(w->e.store, space, add_name, &n, NULL), 0);
		for (size_t i = 0; i < n.v.n; i++)
			if (pick(&w->dice, one_in) == 0)
				assert_int_equal(store_delete(w->e.store, space, &n.v.v[i], NULL),
						 0);
		VEC_FREE(&n.v);
	}
	w->lost = true;
}

static bool is_there(struct world *w, const struct known *k)
{
	bool present[2] = { false, false };

	assert_int_equal(content_complete(w->e.store, k->outputs, k->n_outputs, present, NULL), 0);
	return k->made && present[0] && (k->n_outputs == 1 || present[1]);
}

static void collect(struct world *w, const struct run_row *last)
{
	struct store_gc_options o = { .names = &manifest_names,
				      .manifests = &last->hash,
				      .n_manifests = 1 };
	struct store_gc_result res;
	bool before[STEPS_MAX][WIDTH_MAX];

	for (unsigned s = 0; s < w->m.n; s++)
		for (unsigned x = 0; x < width(&w->m, s); x++)
			before[s][x] = is_there(w, &w->tasks[s][x]);
	o.now_ns = clock_system()->wall_ns(clock_system());
	for (int i = 0; i < 3; i++) {
		o.now_ns += 2 * 3600 * NS_PER_S;
		assert_int_equal(store_gc(w->e.store, &o, &res, NULL), 0);
	}
	for (unsigned s = 0; s < w->m.n && last->state == RUN_SUCCEEDED; s++)
		for (unsigned x = 0; x < width(&w->m, s); x++)
			assert_int_equal(
				before[s][x],
				is_there(w, &w->tasks[s][x])); /* all that the run gave stays */
}

/* Executing. */

static struct content_id put(struct world *w, const struct digest *key, const char *what)
{
	struct content_id id;
	char hex[DIGEST_HEX_MAX];
	_cleanup_(freep) char *text = xasprintf("%s %s", digest_hex(key, hex), what);

	assert_int_equal(content_put_bytes(w->e.store, text, strlen(text), &id, NULL), 0);
	return id;
}

static struct content_id put_dir(struct world *w, const struct digest *key, unsigned n)
{
	struct tree_builder *b = tree_builder_new();
	struct content_id id;

	for (unsigned i = 0; i < n; i++) {
		char name[16];
		int len = snprintf(name, sizeof(name), "m%u", i);
		struct tree_entry e = { .name = name,
					.name_len = (size_t)len,
					.kind = TREE_FILE,
					.id = put(w, key, name) };

		assert_int_equal(tree_builder_add(b, &e, NULL), 0);
	}
	assert_int_equal(tree_builder_store(b, w->e.store, &id, NULL), 0);
	tree_builder_free(b);
	return id;
}

static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;
	struct known *k = map_get_str(w->by_label, a->task);

	assert_non_null(k);
	assert_true(runner_fake_running(w->e.runner) <= w->m.jobs);
	*ret_duration_ns = (int64_t)pick(&w->dice, 5000) * NS_PER_MS;
	if (w->lose_one_in && pick(&w->dice, w->lose_one_in) == 0)
		lose(w, pick(&w->dice, 3) ? 1 + pick(&w->dice, 6) : 1);
	for (size_t i = 0; i < a->n_inputs; i++) {
		bool there = false;

		assert_int_equal(content_complete(w->e.store, &a->inputs[i].id, 1, &there, NULL),
				 0);
		if (there)
			continue;
		assert_true(w->lost); /* nothing is given to a task that isn't there */
		*ret_failure = FAILURE_STORE;
		return;
	}
	if (w->fail_one_in && pick(&w->dice, w->fail_one_in) == 0) {
		*ret_failure = FAILURE_FAILED;
		w->failed = true;
		return;
	}
	*k = (struct known){ .n_outputs = (unsigned)a->n_outputs, .made = true, .ran = true };
	for (size_t i = 0; i < a->n_outputs; i++)
		k->outputs[i] = ret_outputs[i] =
			str_eq(a->outputs[i].name, "d")
				? put_dir(w, a->key, w->m.members[strtoul(a->task + 1, NULL, 10)])
				: put(w, a->key, "o");
	w->executed++;
}

/* What must hold. */

/* Each task of the model once, with a result. */
static void check_results(struct world *w, const struct run_row *row)
{
	_cleanup_(map_freep) struct map *seen = map_new();
	struct results *table;
	struct results_cursor c;
	struct result_entry e;
	size_t total = 0;

	assert_int_equal(results_open(w->e.store, &row->results, &table, NULL), 0);
	results_first(table, &c);
	while (results_next(&c, &e)) {
		void **slot = map_slot_str(seen, e.task);
		struct content_id id;

		assert_non_null(map_get_str(w->by_label, e.task));
		assert_null(*slot);
		*slot = w;
		if (e.state != RESULT_SUCCEEDED)
			fail_msg("seed %llu: succeeded without %s", (unsigned long long)w->seed,
				 e.task);
		for (size_t i = 0; i < e.n_outputs; i++) {
			results_output(&e, i, &id);
			assert_int_not_equal(id.kind, CONTENT_NONE);
		}
	}
	results_free(table);
	for (unsigned s = 0; s < w->m.n; s++)
		total += width(&w->m, s);
	assert_int_equal(map_len(seen), total);
	assert_int_equal(row->counts.total, total);
	assert_int_equal(row->counts.executed + row->counts.hits, total);
}

static void check_rows(struct world *w, const struct run_row *row, struct arena *arena)
{
	struct attempt_row *rows;
	size_t n;

	assert_int_equal(record_run_attempts(w->e.db, row->rowid, arena, &rows, &n, NULL), 0);
	for (size_t i = 0; i < n; i++)
		assert_true(rows[i].ended_ns > 0);
}

/* false: the run ended as an error, which it may only when something got lost. */
static bool go(struct world *w, const char *dir, struct run_row *ret, struct arena *arena)
{
	struct config config = engine_config(dir);
	struct run_context ctx = engine_context(&w->e, &config);
	struct run_options o = { .keep_going = w->m.keep_going, .jobs = w->m.jobs };
	struct err err = { 0 };
	int r;

	for (unsigned s = 0; s < w->m.n; s++)
		for (unsigned x = 0; x < WIDTH_MAX; x++)
			w->tasks[s][x].ran = false;
	w->executed = 0;
	w->lost = w->failed = false;
	w->p = w->p ? w->p : parse(&w->m, dir);
	r = run_start(&ctx, w->p, &o, arena, ret, &err);
	assert_int_equal(runner_fake_running(w->e.runner), 0);
	if (r < 0) {
		if (!w->lost || strstr(err.msg, "internal error") ||
		    strstr(err.msg, "came to a halt"))
			fail_msg("seed %llu: %s", (unsigned long long)w->seed, err.msg);
		return false;
	}
	check_rows(w, ret, arena);
	assert_true(ret->has_hash);
	if (ret->state == RUN_SUCCEEDED)
		check_results(w, ret);
	else if (!w->lost && !w->failed)
		fail_msg("seed %llu: %s, and nothing had happened", (unsigned long long)w->seed,
			 run_state_name(ret->state));
	assert_int_equal(ret->counts.executed + ret->counts.hits + ret->counts.failed +
				 ret->counts.blocked + ret->counts.skipped,
			 ret->counts.total);
	return true;
}

/* What is wanted. */

static bool is_used(const struct model *m, unsigned k)
{
	for (unsigned s = k + 1; s < m->n; s++)
		if (m->needs[s][k] || (m->shape[s] == EACH && m->source[s] == k))
			return true;
	return false;
}

static void want(struct world *w, const bool changed[STEPS_MAX])
{
	const struct model *m = &w->m;

	for (unsigned s = 0; s < m->n; s++)
		for (unsigned x = 0; x < width(m, s); x++) {
			struct known *t = &w->tasks[s][x];

			t->lost = !is_there(w, t);
			t->want = changed[s] || !t->made;
			for (unsigned k = 0; k < s; k++)
				for (unsigned y = 0; y < width(m, k); y++)
					t->want |= depends(m, s, x, k, y) && w->tasks[k][y].want;
		}
	/* The pipeline's last results, and what is read to know which tasks there are, have to be
	 * there. */
	for (unsigned s = 0; s < m->n; s++)
		for (unsigned x = 0; x < width(m, s); x++)
			w->tasks[s][x].want |=
				w->tasks[s][x].lost && (!is_used(m, s) || m->is_source[s]);
	for (unsigned s = m->n; s-- > 0;)
		for (unsigned x = 0; x < width(m, s); x++)
			for (unsigned k = 0; w->tasks[s][x].want && k < s; k++)
				for (unsigned y = 0; y < width(m, k); y++)
					w->tasks[k][y].want |=
						depends(m, s, x, k, y) && w->tasks[k][y].lost;
}

static void check_wanted(struct world *w)
{
	for (unsigned s = 0; s < w->m.n; s++)
		for (unsigned x = 0; x < width(&w->m, s); x++) {
			const struct known *t = &w->tasks[s][x];

			/* What was executed has been made anew: `want` went with it. */
			if (!t->ran && t->want)
				fail_msg("seed %llu: s%u[%u] not executed",
					 (unsigned long long)w->seed, s, x);
		}
}

/* Nothing gets lost while it runs: what is executed is known before. */
static void quiet_run(struct world *w, const char *dir, const bool changed[STEPS_MAX],
		      struct run_row *ret, struct arena *arena)
{
	unsigned wanted = 0;

	w->lose_one_in = w->fail_one_in = 0;
	want(w, changed);
	for (unsigned s = 0; s < w->m.n; s++)
		for (unsigned x = 0; x < width(&w->m, s); x++)
			wanted += w->tasks[s][x].want;
	assert_true(go(w, dir, ret, arena));
	assert_int_equal(ret->state, RUN_SUCCEEDED);
	check_wanted(w);
	if (w->executed != wanted)
		fail_msg("seed %llu: %u executed, %u wanted", (unsigned long long)w->seed,
			 w->executed, wanted);
}

static void one_seed(uint64_t seed, const char *dir)
{
	static const bool none[STEPS_MAX];
	struct world w = { .seed = seed, .dice = mix(seed, 5) };
	struct runner_fake_options o = { .seed = seed, .script = execute, .arg = &w };

	make_model(&w.m, &w.dice);
	w.by_label = map_new();
	name_tasks(&w);
	engine_open(&w.e, &o);
	for (unsigned round = 0; round < ROUNDS; round++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		bool changed[STEPS_MAX] = { 0 };
		struct run_row row;

		for (unsigned s = 0; s < w.m.n && round; s++)
			if ((changed[s] = pick(&w.dice, 6) == 0)) {
				w.m.version[s]++;
				pipeline_free(w.p);
				w.p = NULL;
			}
		if (round && pick(&w.dice, 3))
			lose(&w, pick(&w.dice, 3) ? 2 + pick(&w.dice, 4) : 1);
		if (pick(&w.dice, 2)) { /* then nobody can say what is executed, but it must come to
					   a good end */
			w.lose_one_in = 1 + pick(&w.dice, 8);
			w.fail_one_in = pick(&w.dice, 2) ? 0 : 8;
			go(&w, dir, &row, arena);
			w.lose_one_in = w.fail_one_in = 0;
			go(&w, dir, &row, arena);
			assert_int_equal(row.state, RUN_SUCCEEDED);
		} else {
			quiet_run(&w, dir, changed, &row, arena);
		}
		if (pick(&w.dice, 3) == 0)
			collect(&w, &row);
		quiet_run(&w, dir, none, &row, arena);
	}
	assert_int_equal(db_check(w.e.db, NULL), 0);
	engine_close(&w.e);
	pipeline_free(w.p);
	map_free(w.by_label);
}

static void test_losses(void **state)
{
	char in_memory[] = "/dev/shm/cairn-loss-XXXXXX", on_disk[] = "/tmp/cairn-loss-XXXXXX",
	     *dir = mkdtemp(in_memory);
	const struct seeds seeds = seeds_of(0, SEEDS);

	if (!dir)
		dir = mkdtemp(on_disk);
	assert_non_null(dir);
	for (uint64_t seed = seeds.from; seed < seeds.to; seed++) {
		one_seed(seed, dir);
		if (seeds.given && (seed + 1 - seeds.from) % 500 == 0)
			print_message("%llu seeds\n", (unsigned long long)(seed + 1 - seeds.from));
	}
	fs_remove_tree(dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_losses) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
