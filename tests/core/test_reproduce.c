/* Random pipelines, reproduced: which tasks diverge, isolated and chained, and what is lost, held against a naive model. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include "base/fs.h"
#include "run/reproduce.h"

#define STEPS_MAX 10
#define AXIS_MAX 3
#define SEEDS 400

enum nature { STEADY, RANDOM /* other bytes each time */, BROKEN /* never ends well */ };

struct naive {
	uint64_t seed;
	unsigned n, c;
	bool matrix[STEPS_MAX], needs[STEPS_MAX][STEPS_MAX];
	enum nature nature[STEPS_MAX];
	bool lost[STEPS_MAX][AXIS_MAX]; /* what it made isn't in the store any more */
};

struct world {
	struct naive m;
	struct clock clock;
	struct loop *loop;
	struct store *store;
	struct db *db;
	struct runner *runner;
	struct content_id made[STEPS_MAX][AXIS_MAX]; /* by the last execution */
	unsigned executed;
};

static unsigned pick(struct naive *m, unsigned n)
{
	m->seed = (m->seed ^ m->seed >> 29) * 0xbf58476d1ce4e5b9ULL + 1;
	return (unsigned)(m->seed >> 33) % n;
}

static void make_naive(struct naive *m, uint64_t seed)
{
	*m = (struct naive){ .seed = seed * 0x9e3779b97f4a7c15ULL + 7 };
	m->n = 1 + pick(m, STEPS_MAX);
	m->c = 1 + pick(m, AXIS_MAX);
	for (unsigned s = 0; s < m->n; s++) {
		unsigned r = pick(m, 10);

		m->matrix[s] = pick(m, 2);
		m->nature[s] = r < 2 ? RANDOM : r < 3 ? BROKEN : STEADY;
		for (unsigned d = 0; d < s; d++)
			m->needs[s][d] = pick(m, 4) == 0;
	}
}

static unsigned n_tasks(const struct naive *m, unsigned s)
{
	return m->matrix[s] ? m->c : 1;
}

static bool depends(const struct naive *m, unsigned s, unsigned x, unsigned d, unsigned y)
{
	return m->needs[s][d] && (!(m->matrix[s] && m->matrix[d]) || x == y);
}

static void write_yaml(const struct naive *m, struct str *out)
{
	str_add(out, "pipeline: random\ndefaults: {retry: {max: 0, lost: 0, store: 0}}\nsteps:\n");
	for (unsigned s = 0; s < m->n; s++) {
		str_addf(out, "  s%u:\n    outputs: {o: o.txt}\n    run: work %u %s\n", s, s, m->matrix[s] ? "${{ matrix.x }}" : "0");
		for (unsigned x = 0; m->matrix[s] && x < m->c; x++)
			str_addf(out, "%s%u%s", x ? ", " : "    matrix: {x: [", x, x + 1 == m->c ? "]}\n" : "");
		str_add(out, "    inputs: {");
		for (unsigned d = 0, n = 0; d < s; d++)
			if (m->needs[s][d])
				str_addf(out, "%si%u: \"${{ steps.s%u.outputs.o }}\"", n++ ? ", " : "", d, d);
		str_add(out, "}\n");
	}
}

/* --- the world ----------------------------------------------------------------------------------------------------------- */

static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure, int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;
	_cleanup_(str_deinit) struct str text = { 0 };
	char hex[DIGEST_HEX_MAX];
	unsigned s, x;

	assert_int_equal(sscanf(a->argv[2], "work %u %u", &s, &x), 2);
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
	assert_int_equal(content_put_bytes(w->store, text.s, text.len, &ret_outputs[0], NULL), 0);
	w->made[s][x] = ret_outputs[0];
}

static void world_open(struct world *w, uint64_t seed)
{
	struct runner_fake_options o = { .seed = seed, .script = execute, .arg = w };

	*w = (struct world){ 0 };
	make_naive(&w->m, seed);
	clock_virtual_init(&w->clock, 1700000000LL * NS_PER_S);
	assert_int_equal(loop_new(&w->clock, &w->loop, NULL), 0);
	assert_int_equal(store_open("memory:", true, &w->store, NULL), 0);
	assert_int_equal(db_open(":memory:", DB_WRITE, &w->db, NULL), 0);
	assert_int_equal(runner_fake_new(w->loop, &o, &w->runner, NULL), 0);
}

static void world_close(struct world *w)
{
	w->runner->ops->free(w->runner);
	db_close(w->db);
	store_free(w->store);
	loop_free(w->loop);
}

static struct pipeline *parse(const struct naive *m, const char *dir)
{
	_cleanup_(str_deinit) struct str yaml = { 0 };
	_cleanup_(freep) char *path = xasprintf("%s/pipeline.yaml", dir);
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	struct pipeline_load_options o = { .project_root = dir };
	struct pipeline *p = NULL;
	struct err err = { 0 };

	write_yaml(m, &yaml);
	assert_int_equal(fs_write_atomic_at(AT_FDCWD, path, yaml.s, yaml.len, 0644, FS_WRITE_NO_SYNC, &err), 0);
	if (pipeline_load(path, &o, diags, &p, &err) < 0)
		fail_msg("%s\n%s", err.msg, yaml.s);
	return p;
}

static struct run_context context_of(struct world *w, const struct config *config)
{
	return (struct run_context){ .config = config, .loop = w->loop, .db = w->db, .store = w->store, .runner = w->runner, .leases_fd = -1 };
}

static struct config config_of(const char *dir)
{
	return (struct config){ .project_root = dir, .state_dir = dir, .runner = "local", .cpu_milli = 1000000, .memory_bytes = GIB, .gpus = 0 };
}

static void run(struct world *w, const char *dir, const struct pipeline *p, struct run_row *ret, struct arena *arena)
{
	struct config config = config_of(dir);
	struct run_context ctx = context_of(w, &config);
	struct run_options o = { .keep_going = true, .jobs = 3 };
	struct err err = { 0 };

	w->executed = 0;
	if (run_start(&ctx, p, &o, arena, ret, &err) < 0)
		fail_msg("run: %s", err.msg);
}

static struct reproduction *reproduce(struct world *w, const char *dir, const struct run_row *of, enum reproduce_mode mode, struct arena *arena)
{
	struct config config = config_of(dir);
	struct run_context ctx = context_of(w, &config);
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

/* --- what should come out --------------------------------------------------------------------------------------------------- */

enum fate { FATE_OK, FATE_FAILED, FATE_BLOCKED };

static enum fate fate_of(const struct naive *m, unsigned s, unsigned x)
{
	for (unsigned d = 0; d < s; d++)
		for (unsigned y = 0; y < n_tasks(m, d); y++)
			if (depends(m, s, x, d, y) && fate_of(m, d, y) != FATE_OK)
				return FATE_BLOCKED;
	return m->nature[s] == BROKEN ? FATE_FAILED : FATE_OK;
}

/* Does it, or anything that it comes from, roll dice? */
static bool tainted(const struct naive *m, unsigned s, unsigned x)
{
	bool t = m->nature[s] == RANDOM;

	for (unsigned d = 0; d < s && !t; d++)
		for (unsigned y = 0; y < n_tasks(m, d); y++)
			t |= depends(m, s, x, d, y) && tainted(m, d, y);
	return t;
}

/* Something that it reads is gone, and isn't made again: what made it gives other bytes, or is cut off itself. */
static bool cut_off(const struct naive *m, unsigned s, unsigned x)
{
	bool cut = false;

	for (unsigned d = 0; d < s; d++)
		for (unsigned y = 0; y < n_tasks(m, d); y++)
			cut |= depends(m, s, x, d, y) && m->lost[d][y] && (m->nature[d] != STEADY || cut_off(m, d, y));
	return cut;
}

static enum reproduce_verdict expected(const struct naive *m, enum reproduce_mode mode, unsigned s, unsigned x)
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

static const struct reproduced_task *task_of(const struct reproduction *rep, const struct naive *m, unsigned s, unsigned x)
{
	char name[32];

	snprintf(name, sizeof(name), m->matrix[s] ? "s%u[x=%u]" : "s%u", s, x);
	for (size_t i = 0; i < rep->n_tasks; i++)
		if (str_eq(rep->tasks[i].task, name))
			return &rep->tasks[i];
	fail_msg("%s is not in the report", name);
	return NULL;
}

static void check(const struct world *w, const struct reproduction *rep, uint64_t seed)
{
	enum compare_verdict worst = COMPARE_UNKNOWN;
	size_t total = 0;
	bool first = false;

	for (unsigned s = 0; s < w->m.n; s++)
		for (unsigned x = 0; x < n_tasks(&w->m, s); x++, total++) {
			const struct reproduced_task *t = task_of(rep, &w->m, s, x);
			enum reproduce_verdict want = expected(&w->m, rep->mode, s, x);

			if (t->verdict != want)
				fail_msg("seed %llu, %s: verdict %d, not %d (%s)", (unsigned long long)seed, t->task, (int)t->verdict, (int)want, t->why ? t->why : "");
			if (want == NOT_COMPARABLE)
				assert_non_null(t->why);
			if (want == DIVERGED && !first) { /* files are in the order of the DAG here */
				assert_ptr_equal(t, &rep->tasks[rep->first]);
				first = true;
			}
			if (want != NOT_SELECTED && worst == COMPARE_UNKNOWN)
				worst = COMPARE_IDENTICAL; /* of nothing there would be nothing to say */
		}
	assert_int_equal(rep->n_tasks, total);
	assert_int_equal(rep->first < rep->n_tasks, first);
	for (size_t i = 0; i < rep->n_tasks; i++)
		worst = MAX(worst, rep->tasks[i].verdict == NOT_COMPARABLE ? COMPARE_UNKNOWN : rep->tasks[i].verdict == DIVERGED ? COMPARE_DIFFERENT : COMPARE_IDENTICAL);
	assert_int_equal(rep->verdict, worst);
}

static void lose_some(struct world *w)
{
	struct naive dice = w->m;

	for (unsigned s = 0; s < w->m.n; s++)
		for (unsigned x = 0; x < n_tasks(&w->m, s); x++) {
			if (fate_of(&w->m, s, x) != FATE_OK || pick(&dice, 5))
				continue;
			w->m.lost[s][x] = true;
			assert_int_equal(store_delete(w->store, STORE_BLOB, &w->made[s][x].digest, NULL), 0);
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
	assert_int_equal(db_check(w.db, NULL), 0);
	pipeline_free(p);
	world_close(&w);
}

static void test_random_pipelines(void **state)
{
	char dir[] = "/tmp/cairn-reproduce-XXXXXX";
	const char *only = getenv("CAIRN_REPRODUCE_SEED");

	assert_non_null(mkdtemp(dir));
	for (uint64_t seed = 0; seed < SEEDS; seed++)
		if (!only || strtoull(only, NULL, 10) == seed)
			one_seed(seed, dir);
	fs_remove_tree(dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random_pipelines) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
