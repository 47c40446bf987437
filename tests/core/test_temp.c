/* Random pipelines of pipelines, some of whose outputs are `temp`: run again and again, with gc
 * between runs, which keeps what the last run's record names. Held against a naive model: what gc
 * frees, and what is executed then: what changed with all that follows, and what made temporary
 * content that one of those reads.
 *
 * Steps of a row of numbers may stand in a pipeline of their own, which the outer one uses. Across
 * its border no axes are matched, so a task there needs all tasks of a step on the other side. */
#include <stdio.h>
#include "base/map.h"
#include "core/fixture.h"
#include "record/manifest/manifest.h"
#include "storage/content/content.h"
#include "storage/local/maintain.h"
#include "unit.h"

#define STEPS_MAX 9
#define AXIS_MAX  3
#define SEEDS     300
#define RUNS      5

struct model {
	struct dag d;
	unsigned group[STEPS_MAX]; /* 0: the outer pipeline; g: what its step g<g> uses */
	unsigned n_groups;
	bool temp[STEPS_MAX];
	unsigned version[STEPS_MAX]; /* its salt; only goes up */
};

struct task {
	uint64_t content; /* a number that stands for its key, and is what it makes */
	bool wanted;      /* to be executed */
	bool ran;
};

struct world {
	struct model m;
	struct engine e;
	struct task tasks[STEPS_MAX][AXIS_MAX];
	struct map *known; /* contents on record */
	uint64_t seed;
};

static void make_model(struct model *m, uint64_t *dice)
{
	*m = (struct model){ 0 };
	dag_make(&m->d, dice, STEPS_MAX, AXIS_MAX);
	for (unsigned s = 0; s < m->d.n;) {
		unsigned end = s + 1 + pick(dice, 3), group = pick(dice, 2) ? ++m->n_groups : 0;

		for (; s < end && s < m->d.n; s++) {
			m->group[s] = group;
			m->temp[s] = pick(dice, 2);
		}
	}
	for (unsigned s = 0; s < m->d.n; s++) { /* only what is read can be temporary */
		bool is_read = false;

		for (unsigned k = s + 1; k < m->d.n; k++)
			is_read |= m->d.needs[k][s];
		m->temp[s] &= is_read;
	}
}

static bool depends(const struct model *m, unsigned s, unsigned x, unsigned k, unsigned y)
{
	return m->group[s] == m->group[k] ? dag_depends(&m->d, s, x, k, y) : m->d.needs[s][k];
}

/* The pipelines. */

/* How a file of group `in` names the output of step k. */
static void add_reference(const struct model *m, unsigned in, unsigned k, struct str *out)
{
	if (m->group[k] == in)
		str_addf(out, "i%u: \"${{ steps.s%u.outputs.o }}\", ", k, k);
	else if (in)
		str_addf(out, "i%u: \"${{ inputs.i%u }}\", ", k, k);
	else
		str_addf(out, "i%u: \"${{ steps.g%u.outputs.o%u }}\", ", k, m->group[k], k);
}

static void add_step(const struct model *m, unsigned s, struct str *out)
{
	str_addf(out,
		 "  s%u:\n    run: work %u %s\n    salt: v%u\n"
		 "    outputs: {o: {path: o.txt, temp: %s}}\n",
		 s, s, m->d.matrix[s] ? "${{ matrix.x }}" : "0", m->version[s],
		 m->temp[s] ? "true" : "false");
	for (unsigned x = 0; m->d.matrix[s] && x < m->d.c; x++)
		str_addf(out, "%s%u%s", x ? ", " : "    matrix: {x: [", x,
			 x + 1 == m->d.c ? "]}\n" : "");
	str_add(out, "    inputs: {");
	for (unsigned k = 0; k < s; k++)
		if (m->d.needs[s][k])
			add_reference(m, m->group[s], k, out);
	str_add(out, "}\n");
}

/* Whether the group reads what step k makes outside of it. */
static bool reads(const struct model *m, unsigned group, unsigned k)
{
	for (unsigned s = 0; s < m->d.n; s++)
		if (m->group[s] == group && m->group[k] != group && m->d.needs[s][k])
			return true;
	return false;
}

static void add_use(const struct model *m, unsigned group, struct str *out)
{
	str_addf(out, "  g%u:\n    uses: ./g%u.yaml\n    inputs: {", group, group);
	for (unsigned k = 0; k < m->d.n; k++)
		if (reads(m, group, k))
			add_reference(m, 0, k, out);
	str_add(out, "}\n");
}

static void write_used(const struct model *m, unsigned group, const char *dir)
{
	_cleanup_(freep) char *path = xasprintf("%s/g%u.yaml", dir, group);
	_cleanup_(str_deinit) struct str y = { 0 };

	str_addf(&y, "pipeline: g%u\ninputs: {", group);
	for (unsigned k = 0; k < m->d.n; k++)
		if (reads(m, group, k))
			str_addf(&y, "i%u: none, ", k);
	str_add(&y, "}\noutputs: {");
	for (unsigned s = 0; s < m->d.n; s++)
		if (m->group[s] == group)
			str_addf(&y, "o%u: \"${{ steps.s%u.outputs.o }}\", ", s, s);
	str_add(&y, "}\nsteps:\n");
	for (unsigned s = 0; s < m->d.n; s++)
		if (m->group[s] == group)
			add_step(m, s, &y);
	assert_int_equal(
		fs_write_atomic_at(AT_FDCWD, path, y.s, y.len, 0644, FS_WRITE_NO_SYNC, NULL), 0);
}

static struct pipeline *parse(const struct model *m, const char *dir)
{
	_cleanup_(str_deinit) struct str y = { 0 };

	str_add(&y, "pipeline: random\nsteps:\n");
	for (unsigned s = 0; s < m->d.n; s++)
		if (!m->group[s]) {
			add_step(m, s, &y);
		} else if (s == 0 || m->group[s - 1] != m->group[s]) {
			add_use(m, m->group[s], &y);
			write_used(m, m->group[s], dir);
		}
	return engine_pipeline(dir, y.s);
}

/* What is wanted. */

static struct content_id id_of(uint64_t content, char text[24])
{
	struct content_id id;

	snprintf(text, 24, "%llu", (unsigned long long)content);
	content_id_of_bytes(text, strlen(text), &id);
	return id;
}

static bool is_there(struct world *w, uint64_t content)
{
	char text[24];
	struct content_id id = id_of(content, text);
	bool present = false;

	assert_int_equal(content_complete(w->e.store, &id, 1, &present, NULL), 0);
	return present;
}

static bool is_known(const struct world *w, uint64_t content)
{
	return map_get(w->known, &content, sizeof(content)) != NULL;
}

/* From the last step to the first: who is executed needs what it reads. */
static void want_all(struct world *w)
{
	const struct model *m = &w->m;

	for (unsigned s = 0; s < m->d.n; s++)
		for (unsigned x = 0; x < dag_tasks(&m->d, s); x++) {
			struct task *t = &w->tasks[s][x];

			t->content = mix(mix(s, 1), m->version[s] * 100 + x);
			for (unsigned k = 0; k < s; k++)
				for (unsigned y = 0; y < dag_tasks(&m->d, k); y++)
					if (depends(m, s, x, k, y))
						t->content =
							mix(t->content, w->tasks[k][y].content);
			t->wanted = !is_known(w, t->content);
			t->ran = false;
		}
	for (unsigned s = m->d.n; s-- > 0;)
		for (unsigned x = 0; x < dag_tasks(&m->d, s); x++)
			for (unsigned k = 0; k < s && w->tasks[s][x].wanted; k++)
				for (unsigned y = 0; y < dag_tasks(&m->d, k); y++)
					if (depends(m, s, x, k, y) &&
					    !is_there(w, w->tasks[k][y].content))
						w->tasks[k][y].wanted = true;
}

static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;
	struct task *t;
	unsigned s, x;
	char text[24];

	dag_read_work(a, &s, &x);
	t = &w->tasks[s][x];
	if (t->ran || !t->wanted)
		fail_msg("seed %llu: %s is executed%s", (unsigned long long)w->seed, a->task,
			 t->ran ? " twice" : "");
	t->ran = true;
	for (size_t i = 0; i < a->n_inputs; i++) {
		bool present = false;

		assert_int_equal(content_complete(w->e.store, &a->inputs[i].id, 1, &present, NULL),
				 0);
		assert_true(present);
	}
	*ret_duration_ns = (int64_t)(mix(t->content, a->id) % 5000) * NS_PER_MS;
	id_of(t->content, text);
	assert_int_equal(content_put_bytes(w->e.store, text, strlen(text), &ret_outputs[0], NULL),
			 0);
}

/* gc keeps what isn't temporary of the last run, and nothing else that steps made. */
static void collect(struct world *w, const struct run_row *last)
{
	struct store_gc_options o = { .names = &manifest_names,
				      .manifests = &last->hash,
				      .n_manifests = 1 };
	struct store_gc_result res;

	o.now_ns = clock_system()->wall_ns(clock_system());
	for (int i = 0; i < 3; i++) {
		o.now_ns += 2 * 3600 * NS_PER_S;
		assert_int_equal(store_gc(w->e.store, &o, &res, NULL), 0);
	}
	for (unsigned s = 0; s < w->m.d.n; s++)
		for (unsigned x = 0; x < dag_tasks(&w->m.d, s); x++)
			assert_int_equal(is_there(w, w->tasks[s][x].content), !w->m.temp[s]);
}

static void one_run(struct world *w, const char *dir, unsigned jobs, bool then_gc)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct config config = engine_config(dir);
	struct run_context ctx = engine_context(&w->e, &config);
	struct run_options o = { .jobs = jobs };
	struct pipeline *p = parse(&w->m, dir);
	struct err err = { 0 };
	struct run_row row;

	want_all(w);
	if (run_start(&ctx, p, &o, arena, &row, &err) < 0)
		fail_msg("%s", err.msg);
	assert_int_equal(row.state, RUN_SUCCEEDED);
	for (unsigned s = 0; s < w->m.d.n; s++)
		for (unsigned x = 0; x < dag_tasks(&w->m.d, s); x++) {
			struct task *t = &w->tasks[s][x];

			if (t->wanted != t->ran)
				fail_msg("seed %llu: s%u, %u isn't executed",
					 (unsigned long long)w->seed, s, x);
			*map_slot(w->known, &t->content, sizeof(t->content), NULL) = w;
		}
	assert_int_equal(db_check(w->e.db, NULL), 0);
	if (then_gc)
		collect(w, &row);
	pipeline_free(p);
}

static void one_seed(uint64_t seed, const char *dir)
{
	struct world w = { .known = map_new(), .seed = seed };
	struct runner_fake_options o = { .seed = seed, .script = execute, .arg = &w };
	uint64_t dice = mix(seed, 9);

	make_model(&w.m, &dice);
	engine_open(&w.e, &o);
	for (unsigned i = 0; i < RUNS; i++) {
		one_run(&w, dir, 1 + (unsigned)(seed % 3), pick(&dice, 3));
		for (unsigned n = pick(&dice, 3); n > 0; n--)
			w.m.version[pick(&dice, w.m.d.n)]++;
	}
	engine_close(&w.e);
	map_free(w.known);
}

static void test_random_temp(void **state)
{
	each_seed(SEEDS, one_seed);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_temp) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
