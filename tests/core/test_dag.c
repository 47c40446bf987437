/* Thousands of random pipelines through the real planner, journal and run state, with a fake runner, a memory store, a database in memory
 * and a virtual clock; held against a naive model that knows only what depends on what. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include "base/fs.h"
#include "base/map.h"
#include "run/run.h"

#define STEPS_MAX 14
#define AXIS_MAX 4
#define SEEDS 2500

/* --- a random pipeline, and what it should do ------------------------------------------------------------------------------------ */

struct naive_step {
	bool matrix;	   /* over x: 0 … c-1 */
	bool needs[STEPS_MAX]; /* by data */
	bool changed;	       /* since the run before: another salt, so other keys for it and all that follows */
	unsigned retries;
};

struct naive {
	uint64_t seed;
	unsigned n, c, jobs;
	bool keep_going;
	struct naive_step steps[STEPS_MAX];
};

enum fate { FATE_OK, FATE_FAILED, FATE_BLOCKED };

static uint64_t mix(uint64_t a, uint64_t b)
{
	a ^= b + 0x9e3779b97f4a7c15ULL + (a << 6) + (a >> 2);
	a ^= a >> 31;
	a *= 0xbf58476d1ce4e5b9ULL;
	return a ^ a >> 29;
}

static unsigned pick(struct naive *m, unsigned n)
{
	m->seed = mix(m->seed, 77);
	return (unsigned)(m->seed >> 20) % n;
}

static void make_naive(struct naive *m, uint64_t seed)
{
	*m = (struct naive){ .seed = mix(seed, 1) };
	m->n = 1 + pick(m, STEPS_MAX);
	m->c = 1 + pick(m, AXIS_MAX);
	m->jobs = 1 + pick(m, 4);
	m->keep_going = pick(m, 4) != 0;
	for (unsigned s = 0; s < m->n; s++) {
		m->steps[s].matrix = pick(m, 2);
		m->steps[s].retries = pick(m, 3);
		for (unsigned d = 0; d < s; d++)
			m->steps[s].needs[d] = pick(m, 4) == 0;
	}
}

/* How many attempts of this task fail before one succeeds; more than its retries: it fails for good. */
static unsigned failures_of(const struct naive *m, unsigned step, unsigned x)
{
	unsigned r = (unsigned)(mix(mix(m->seed, step + 1), x + 100) >> 13) % 12;

	return r == 0 ? 9 : r < 4 ? r - 1 : 0;
}

static void write_yaml(const struct naive *m, struct str *out)
{
	str_add(out, "pipeline: random\nsteps:\n");
	for (unsigned s = 0; s < m->n; s++) {
		str_addf(out, "  s%u:\n    outputs: {o: o.txt}\n    retry: {max: %u, backoff: 1s..1m}\n%s", s, m->steps[s].retries,
			 m->steps[s].changed ? "    salt: changed\n" : "");
		if (m->steps[s].matrix) {
			str_add(out, "    matrix: {x: [0");
			for (unsigned x = 1; x < m->c; x++)
				str_addf(out, ", %u", x);
			str_addf(out, "]}\n    run: work %u ${{ matrix.x }}\n", s);
		} else {
			str_addf(out, "    run: work %u 0\n", s);
		}
		str_add(out, "    inputs: {");
		for (unsigned d = 0, n = 0; d < s; d++)
			if (m->steps[s].needs[d])
				str_addf(out, "%si%u: \"${{ steps.s%u.outputs.o }}\"", n++ ? ", " : "", d, d);
		str_add(out, "}\n");
	}
}

static unsigned n_tasks(const struct naive *m, unsigned s)
{
	return m->steps[s].matrix ? m->c : 1;
}

/* What every task comes to when everything that can go on does. */
static void fates(const struct naive *m, enum fate f[STEPS_MAX][AXIS_MAX])
{
	for (unsigned s = 0; s < m->n; s++)
		for (unsigned x = 0; x < n_tasks(m, s); x++) {
			bool blocked = false;

			for (unsigned d = 0; d < s; d++)
				for (unsigned y = 0; m->steps[s].needs[d] && y < n_tasks(m, d); y++)
					if (!(m->steps[s].matrix && m->steps[d].matrix) || x == y)
						blocked |= f[d][y] != FATE_OK;
			f[s][x] = blocked ? FATE_BLOCKED : failures_of(m, s, x) > m->steps[s].retries ? FATE_FAILED : FATE_OK;
		}
}

/* --- the world ------------------------------------------------------------------------------------------------------------------------ */

struct world {
	struct naive m;
	struct clock clock;
	struct loop *loop;
	struct store *store;
	struct db *db;
	struct runner *runner;
	struct map *attempts; /* task → number of attempts */
	struct map *done;     /* key → successful executions */
	struct digest keys[STEPS_MAX][AXIS_MAX]; /* of the last execution */
	bool ran[STEPS_MAX][AXIS_MAX];		 /* in this run */
	unsigned executed, failed_attempts;
};

static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure, int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;
	unsigned step, x;
	void **attempts = map_slot_str(w->attempts, a->task), **done = map_slot(w->done, a->key->b, DIGEST_BYTES, NULL);
	char hex[DIGEST_HEX_MAX];

	assert_int_equal(sscanf(a->argv[2], "work %u %u", &step, &x), 2);
	assert_true(runner_fake_running(w->runner) <= w->m.jobs);
	assert_null(*done); /* no key is executed again once it gave a result */
	*attempts = (void *)((uintptr_t)*attempts + 1);
	assert_int_equal(a->number, (uintptr_t)*attempts);
	assert_true(a->number <= w->m.steps[step].retries + 1);
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
	assert_int_equal(content_put_bytes(w->store, hex, 64, &ret_outputs[0], NULL), 0);
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
	w->attempts = map_new();
	w->done = map_new();
}

static void world_close(struct world *w)
{
	w->runner->ops->free(w->runner);
	db_close(w->db);
	store_free(w->store);
	loop_free(w->loop);
	map_free(w->attempts);
	map_free(w->done);
}

static void go(struct world *w, const char *dir, const struct pipeline *p, struct run_row *ret, struct arena *arena)
{
	struct config config = { .project_root = dir, .state_dir = dir, .runner = "local", .cpu_milli = 1000000, .memory_bytes = GIB, .gpus = 0 };
	struct run_context ctx = { .config = &config, .loop = w->loop, .db = w->db, .store = w->store, .runner = w->runner, .leases_fd = -1 };
	struct run_options o = { .keep_going = w->m.keep_going, .jobs = w->m.jobs };
	struct err err = { 0 };

	map_free(w->attempts);
	w->attempts = map_new();
	w->executed = w->failed_attempts = 0;
	memset(w->ran, 0, sizeof(w->ran));
	if (run_start(&ctx, p, &o, arena, ret, &err) < 0)
		fail_msg("seed: %s", err.msg);
	assert_int_equal(runner_fake_running(w->runner), 0);
	assert_true(ret->has_hash);
}

static struct pipeline *parse(const struct naive *m, const char *dir)
{
	_cleanup_(str_deinit) struct str yaml = { 0 }, text = { 0 };
	_cleanup_(freep) char *path = xasprintf("%s/pipeline.yaml", dir);
	struct pipeline_load_options o = { .project_root = dir };
	struct diag_list *diags = diag_list_new();
	struct pipeline *p = NULL;
	struct err err = { 0 };

	write_yaml(m, &yaml);
	assert_int_equal(fs_write_atomic_at(AT_FDCWD, path, yaml.s, yaml.len, 0644, FS_WRITE_NO_SYNC, &err), 0);
	if (pipeline_load(path, &o, diags, &p, &err) < 0) {
		diag_render(diags, &text);
		fail_msg("%s\n%s\n%s", err.msg, text.s, yaml.s);
	}
	diag_list_free(diags);
	return p;
}

static void check_first(struct world *w, const struct run_row *row)
{
	enum fate f[STEPS_MAX][AXIS_MAX];
	unsigned count[3] = { 0 }, total = 0;

	fates(&w->m, f);
	for (unsigned s = 0; s < w->m.n; s++)
		for (unsigned x = 0; x < n_tasks(&w->m, s); x++, total++)
			count[f[s][x]]++;
	assert_int_equal(row->counts.total, total);
	assert_int_equal(row->counts.executed + row->counts.hits + row->counts.failed + row->counts.blocked + row->counts.skipped, total);
	assert_int_equal(row->state, count[FATE_FAILED] ? RUN_FAILED : RUN_SUCCEEDED);
	assert_int_equal(row->counts.executed, w->executed);
	if (!w->m.keep_going) {
		assert_true(row->counts.executed <= count[FATE_OK]);
		assert_true(count[FATE_FAILED] == 0 || row->counts.failed >= 1);
		return;
	}
	/* Two tasks with one key share one execution: then one of them is a hit. Commands name step and x, so here there are none. */
	assert_int_equal(row->counts.executed, count[FATE_OK]);
	assert_int_equal(row->counts.failed, count[FATE_FAILED]);
	assert_int_equal(row->counts.blocked, count[FATE_BLOCKED]);
}

/* --- content that is gone ------------------------------------------------------------------------------------------------------------ */

static bool depends(const struct naive *m, unsigned s, unsigned x, unsigned d, unsigned y)
{
	return m->steps[s].needs[d] && (!(m->steps[s].matrix && m->steps[d].matrix) || x == y);
}

static bool is_used(const struct naive *m, unsigned d)
{
	for (unsigned s = d + 1; s < m->n; s++)
		if (m->steps[s].needs[d])
			return true;
	return false;
}

/* What has to be executed: what changed and all that follows; and of what is lost, the last of the pipeline, and what something that is executed reads. */
static void wanted(const struct naive *m, bool lost[STEPS_MAX][AXIS_MAX], bool want[STEPS_MAX][AXIS_MAX])
{
	for (unsigned s = 0; s < m->n; s++)
		for (unsigned x = 0; x < n_tasks(m, s); x++) {
			want[s][x] = m->steps[s].changed;
			for (unsigned d = 0; d < s; d++)
				for (unsigned y = 0; y < n_tasks(m, d); y++)
					want[s][x] |= depends(m, s, x, d, y) && want[d][y];
		}
	for (unsigned s = 0; s < m->n; s++)
		for (unsigned x = 0; x < n_tasks(m, s); x++)
			want[s][x] |= lost[s][x] && !is_used(m, s);
	for (unsigned s = m->n; s-- > 0;)
		for (unsigned x = 0; x < n_tasks(m, s); x++)
			for (unsigned d = 0; want[s][x] && d < s; d++)
				for (unsigned y = 0; y < n_tasks(m, d); y++)
					want[d][y] |= depends(m, s, x, d, y) && lost[d][y];
}

static void lose(struct world *w, unsigned s, unsigned x)
{
	struct content_id id;
	char hex[DIGEST_HEX_MAX];

	digest_hex(&w->keys[s][x], hex);
	content_id_of_bytes(hex, 64, &id);
	assert_int_equal(store_delete(w->store, STORE_BLOB, &id.digest, NULL), 0);
	*map_slot(w->done, w->keys[s][x].b, DIGEST_BYTES, NULL) = NULL; /* may be executed once more */
}

static void lose_some_and_change(struct world *w, const char *dir, struct arena *arena)
{
	bool lost[STEPS_MAX][AXIS_MAX] = { 0 }, want[STEPS_MAX][AXIS_MAX] = { 0 };
	struct naive dice = w->m; /* the world's own seed says which attempts fail */
	struct run_row row;
	struct pipeline *p;

	for (unsigned s = 0; s < w->m.n; s++) {
		w->m.steps[s].changed = pick(&dice, 5) == 0;
		for (unsigned x = 0; x < n_tasks(&w->m, s); x++)
			if (pick(&dice, 3) == 0) {
				lost[s][x] = true;
				lose(w, s, x);
			}
	}
	wanted(&w->m, lost, want);
	p = parse(&w->m, dir);
	go(w, dir, p, &row, arena);
	assert_int_equal(row.state, RUN_SUCCEEDED);
	for (unsigned s = 0; s < w->m.n; s++)
		for (unsigned x = 0; x < n_tasks(&w->m, s); x++)
			if (w->ran[s][x] != want[s][x])
				fail_msg("s%u[%u]: %s", s, x, want[s][x] ? "not executed" : "executed for nothing");
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
	/* Again: what ended well is on record, and nothing of it is executed (the script would object). */
	go(&w, dir, p, &second, arena);
	assert_true(second.counts.hits >= first.counts.executed);
	if (first.state == RUN_SUCCEEDED) {
		assert_int_equal(second.counts.hits, first.counts.total);
		assert_int_equal(w.executed + w.failed_attempts, 0);
		assert_true(content_id_eq(&first.results, &second.results)); /* nothing new: the same table */
		lose_some_and_change(&w, dir, arena);
	}
	assert_int_equal(db_check(w.db, NULL), 0);
	pipeline_free(p);
	world_close(&w);
}

static void test_random_pipelines(void **state)
{
	char dir[] = "/tmp/cairn-dag-XXXXXX";
	const char *only = getenv("CAIRN_DAG_SEED");

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
