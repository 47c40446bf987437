/* Random pipelines with loops: steps with `repeat`, alone and over a matrix, that hand a state on,
 * use the round's number, or do the same in each round; that end, fail in a round, or come to
 * `max`. Run again and again, with other versions, goals and limits, and after content got lost.
 * Held against a naive model: which rounds there are, how each ends, what each reads, and what is
 * executed. */
#include <stdio.h>
#include "base/map.h"
#include "core/fixture.h"
#include "core/seeds.h"
#include "record/manifest/results.h"
#include "unit.h"

#define STEPS_MAX 6
#define WIDTH_MAX 3
#define MAX_MAX   7
#define SEEDS     600
#define RUNS      5

struct model {
	unsigned n, width;
	bool loops[STEPS_MAX], matrix[STEPS_MAX], state[STEPS_MAX], says_round[STEPS_MAX];
	bool needs[STEPS_MAX][STEPS_MAX];
	unsigned max[STEPS_MAX], goal[STEPS_MAX]; /* it ends when its metric is below */
	unsigned version[STEPS_MAX];              /* its salt */
	unsigned fails_one_in;                    /* executions, by their content; 0: never */
};

/* One round as the model wants it. Content is a number: what goes into its key. */
struct round {
	uint64_t content;
	enum result_state end;
};

struct loop_end {
	struct round v[MAX_MAX + 1]; /* from 1 */
	unsigned n;
};

struct world {
	struct model m;
	struct engine e;
	struct loop_end want[STEPS_MAX][WIDTH_MAX];
	struct map *by_label; /* → struct round * */
	struct map *known;    /* content → on record */
	struct map *executed; /* content, in this run */
	bool lost;            /* content, since ever: then more is executed */
};

static void make_model(struct model *m, uint64_t *dice)
{
	*m = (struct model){ .n = 1 + pick(dice, STEPS_MAX), .width = 1 + pick(dice, WIDTH_MAX) };
	m->fails_one_in = pick(dice, 3) ? 0 : 6;
	for (unsigned s = 0; s < m->n; s++) {
		m->loops[s] = pick(dice, 3) > 0;
		m->matrix[s] = pick(dice, 2);
		m->state[s] = m->loops[s] && pick(dice, 3) > 0;
		m->says_round[s] = m->loops[s] && pick(dice, 2);
		m->max[s] = 1 + pick(dice, MAX_MAX);
		m->goal[s] = 10 + pick(dice, 80);
		for (unsigned k = 0; k < s; k++)
			m->needs[s][k] = pick(dice, 3) == 0;
	}
}

static unsigned width(const struct model *m, unsigned s)
{
	return m->matrix[s] ? m->width : 1;
}

static bool depends(const struct model *m, unsigned s, unsigned x, unsigned k, unsigned y)
{
	return m->needs[s][k] && (!(m->matrix[s] && m->matrix[k]) || x == y);
}

static struct pipeline *parse(const struct model *m, const char *dir)
{
	_cleanup_(str_deinit) struct str y = { 0 };

	str_add(&y, "pipeline: random\nsteps:\n");
	for (unsigned s = 0; s < m->n; s++) {
		str_addf(&y,
			 "  s%u:\n    run: work %u %s %s\n    salt: v%u\n    metrics: m.json\n"
			 "    outputs: {o: o.txt}\n    retry: {max: 0}\n",
			 s, s, m->matrix[s] ? "${{ matrix.x }}" : "",
			 m->says_round[s] ? "${{ round }}" : "", m->version[s]);
		for (unsigned x = 0; m->matrix[s] && x < m->width; x++)
			str_addf(&y, "%s%u%s", x ? ", " : "    matrix: {x: [", x,
				 x + 1 == m->width ? "]}\n" : "");
		if (m->loops[s])
			str_addf(&y,
				 "    repeat: {until: \"${{ steps.s%u.metrics.v < %u }}\", max: "
				 "%u}\n",
				 s, m->goal[s], m->max[s]);
		str_add(&y, "    inputs: {");
		if (m->state[s])
			str_addf(&y,
				 "state: {first: pipeline.init, then: \"${{ steps.s%u.outputs.o "
				 "}}\"}, ",
				 s);
		for (unsigned k = 0; k < s; k++)
			if (m->needs[s][k])
				str_addf(&y, "i%u: \"${{ steps.s%u.outputs.o }}\", ", k, k);
		str_add(&y, "}\n");
	}
	return engine_pipeline(dir, y.s);
}

/* What is wanted. */

static unsigned metric(uint64_t content)
{
	return (unsigned)(content >> 7) % 100;
}

static void want_loop(struct world *w, unsigned s, unsigned x)
{
	const struct model *m = &w->m;
	struct loop_end *l = &w->want[s][x];
	uint64_t inputs = mix(s, m->version[s] * 100 + x);
	bool blocked = false;

	*l = (struct loop_end){ 0 };
	for (unsigned k = 0; k < s; k++)
		for (unsigned y = 0; y < width(m, k); y++) {
			const struct loop_end *u = &w->want[k][y];

			if (!depends(m, s, x, k, y))
				continue;
			blocked |= u->v[u->n].end != RESULT_SUCCEEDED;
			inputs = mix(inputs, u->v[u->n].content);
		}
	do {
		struct round *r = &l->v[++l->n];

		r->content = mix(inputs, m->says_round[s] ? l->n : 0);
		r->content = mix(r->content, m->state[s] ? l->v[l->n - 1].content : 0);
		r->end = blocked ? RESULT_BLOCKED
			 : m->fails_one_in && (r->content >> 20) % m->fails_one_in == 0
				 ? RESULT_FAILED
				 : RESULT_SUCCEEDED;
		if (r->end != RESULT_SUCCEEDED || !m->loops[s] || metric(r->content) < m->goal[s])
			return;
	} while (l->n < m->max[s]);
	l->v[l->n].end = RESULT_FAILED;
}

static void want_all(struct world *w)
{
	map_free(w->by_label);
	w->by_label = map_new();
	for (unsigned s = 0; s < w->m.n; s++)
		for (unsigned x = 0; x < width(&w->m, s); x++) {
			want_loop(w, s, x);
			for (unsigned r = 1; r <= w->want[s][x].n; r++) {
				_cleanup_(str_deinit) struct str label = { 0 };
				bool both = w->m.matrix[s] && w->m.loops[s];

				str_addf(&label, "s%u", s);
				if (w->m.matrix[s])
					str_addf(&label, "[x=%u%s", x, both ? "," : "]");
				if (w->m.loops[s])
					str_addf(&label, "%sround=%u]", both ? "" : "[", r);
				*map_slot_str(w->by_label, label.s) = &w->want[s][x].v[r];
			}
		}
}

/* Executing. */

static struct content_id put(struct world *w, uint64_t content)
{
	_cleanup_(freep) char *text = xasprintf("%llu", (unsigned long long)content);
	struct content_id id;

	assert_int_equal(content_put_bytes(w->e.store, text, strlen(text), &id, NULL), 0);
	return id;
}

static bool has_content(struct world *w, const struct content_id *id, uint64_t content)
{
	_cleanup_(freep) char *want = xasprintf("%llu", (unsigned long long)content);
	_cleanup_(str_deinit) struct str text = { 0 };

	assert_int_equal(content_read(w->e.store, id, 100, &text, NULL), 0);
	return str_eq(text.s, want);
}

/* A round gets what the one before made, and a step the last round of what it needs. */
static void check_inputs(struct world *w, const struct runner_attempt *a, const struct round *r,
			 unsigned s, unsigned x)
{
	const struct model *m = &w->m;

	for (size_t i = 0; i < a->n_inputs; i++) {
		const char *name = a->inputs[i].name;
		const struct loop_end *u;
		unsigned k;

		if (str_eq(name, "state")) {
			if (r > &w->want[s][x].v[1])
				assert_true(has_content(w, &a->inputs[i].id, r[-1].content));
			continue;
		}
		assert_int_equal(sscanf(name, "i%u", &k), 1);
		u = &w->want[k][m->matrix[k] ? x : 0];
		if (!m->matrix[k] || m->matrix[s])
			assert_true(has_content(w, &a->inputs[i].id, u->v[u->n].content));
	}
}

static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;
	const struct round *r = map_get_str(w->by_label, a->task);
	const char *at = strstr(a->task, "x=");
	unsigned s;
	void **slot;

	if (!r)
		fail_msg("%s isn't a task", a->task);
	assert_int_equal(sscanf(a->task, "s%u", &s), 1);
	check_inputs(w, a, r, s, at ? (unsigned)strtoul(at + 2, NULL, 10) : 0);
	slot = map_slot(w->executed, &r->content, sizeof(r->content), NULL);
	assert_true(!*slot || w->m.fails_one_in); /* each key once */
	*slot = w;
	*ret_duration_ns = (int64_t)(mix(r->content, a->id) % 5000) * NS_PER_MS;
	if (w->m.fails_one_in && (r->content >> 20) % w->m.fails_one_in == 0) {
		*ret_failure = FAILURE_FAILED;
		return;
	}
	ret_outputs[0] = put(w, r->content);
	*ret_metrics_json = xasprintf("{\"v\": %u}", metric(r->content));
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

static void lose(struct world *w, uint64_t *dice, unsigned one_in)
{
	for (int space = 0; space < STORE_SPACES; space++) {
		struct names n = { 0 };

		assert_int_equal(store_list(w->e.store, space, add_name, &n, NULL), 0);
		for (size_t i = 0; i < n.v.n; i++)
			if (pick(dice, one_in) == 0)
				assert_int_equal(store_delete(w->e.store, space, &n.v.v[i], NULL),
						 0);
		VEC_FREE(&n.v);
	}
	w->lost = true;
}

/* One run. */

static void check_ends(struct world *w, const struct run_row *row)
{
	_cleanup_(map_freep) struct map *seen = map_new();
	struct results *table;
	struct results_cursor c;
	struct result_entry e;
	bool good = true;

	assert_int_equal(results_open(w->e.store, &row->results, &table, NULL), 0);
	for (results_first(table, &c); results_next(&c, &e);) {
		const struct round *r = map_get_str(w->by_label, e.task);
		void **slot = map_slot_str(seen, e.task);

		if (!r || *slot || r->end != e.state)
			fail_msg("%s: %d, not %d", e.task, (int)e.state, r ? (int)r->end : -1);
		*slot = w;
		good &= e.state == RESULT_SUCCEEDED;
	}
	results_free(table);
	assert_int_equal(map_len(seen), map_len(w->by_label));
	assert_int_equal(row->counts.total, map_len(w->by_label));
	assert_int_equal(row->state, good ? RUN_SUCCEEDED : RUN_FAILED);
}

/* Rounds of which nothing is on record, and no others. */
static void check_executed(struct world *w)
{
	for (unsigned s = 0; s < w->m.n; s++)
		for (unsigned x = 0; x < width(&w->m, s); x++)
			for (unsigned i = 1; i <= w->want[s][x].n; i++) {
				const struct round *r = &w->want[s][x].v[i];
				bool done = map_get(w->executed, &r->content, sizeof(r->content)),
				     known = map_get(w->known, &r->content, sizeof(r->content));

				if (r->end == RESULT_BLOCKED)
					continue;
				if (!w->lost && done == known)
					fail_msg("s%u x=%u round %u: %s", s, x, i,
						 done ? "executed again" : "not executed");
				assert_true(done || known);
			}
	for (size_t i = 0; i < map_len(w->executed); i++) {
		size_t len;
		const void *key;

		map_at(w->executed, i, &key, &len);
		*map_slot(w->known, key, len, NULL) = w;
	}
	/* A failure isn't on record; one that only came to `max` is. */
	for (unsigned s = 0; s < w->m.n && w->m.fails_one_in; s++)
		for (unsigned x = 0; x < width(&w->m, s); x++)
			for (unsigned i = 1; i <= w->want[s][x].n; i++) {
				uint64_t c = w->want[s][x].v[i].content;

				if ((c >> 20) % w->m.fails_one_in == 0)
					*map_slot(w->known, &c, sizeof(c), NULL) = NULL;
			}
}

static void one_run(struct world *w, const char *dir, unsigned jobs)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct config config = engine_config(dir);
	struct run_context ctx = engine_context(&w->e, &config);
	struct run_options o = { .keep_going = true, .jobs = jobs };
	struct pipeline *p = parse(&w->m, dir);
	struct err err = { 0 };
	struct run_row row;

	map_free(w->executed);
	w->executed = map_new();
	want_all(w);
	if (run_start(&ctx, p, &o, arena, &row, &err) < 0)
		fail_msg("%s", err.msg);
	check_ends(w, &row);
	check_executed(w);
	assert_int_equal(db_check(w->e.db, NULL), 0);
	pipeline_free(p);
}

static void one_seed(uint64_t seed, const char *dir)
{
	struct world w = { .known = map_new() };
	struct runner_fake_options o = { .seed = seed, .script = execute, .arg = &w };
	uint64_t dice = mix(seed, 5);
	unsigned s;

	make_model(&w.m, &dice);
	engine_open(&w.e, &o);
	for (unsigned i = 0; i < RUNS; i++) {
		one_run(&w, dir, 1 + (unsigned)(seed % 3));
		s = pick(&dice, w.m.n);
		switch (pick(&dice, 5)) {
		case 0:
			w.m.version[s]++;
			break;
		case 1: /* stricter or less strict: only further rounds run */
			w.m.goal[s] = 10 + pick(&dice, 80);
			break;
		case 2:
			w.m.max[s] = 1 + pick(&dice, MAX_MAX);
			break;
		case 3:
			lose(&w, &dice, 1 + pick(&dice, 3));
			break;
		default: /* the same again */
			break;
		}
	}
	engine_close(&w.e);
	map_free(w.by_label);
	map_free(w.known);
	map_free(w.executed);
}

static void test_random_loops(void **state)
{
	char dir[TEST_DIR_MAX];
	struct seeds seeds = seeds_of(0, SEEDS);
	_cleanup_(freep) char *init = NULL;

	test_dir(dir, sizeof(dir), "repeat");
	init = xasprintf("%s/pipeline.init", dir);
	assert_int_equal(fs_write_atomic_at(AT_FDCWD, init, "0", 1, 0644, FS_WRITE_NO_SYNC, NULL),
			 0);
	for (uint64_t seed = seeds.from; seed < seeds.to; seed++)
		one_seed(seed, dir);
	fs_remove_tree(dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_loops) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
