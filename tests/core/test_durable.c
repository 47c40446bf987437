/* Random pipelines on a durable runner, under an engine that is killed again and again: at any turn
 * of its loop, before and after any commit, write into the store and request of the runner. A new
 * one resumes the run over the same database, store and world (runners/fake_world.c), until it
 * ends. Held against the same run left alone, and against a naive model of what each task comes to.
 * One seed: CAIRN_DURABLE_SEED=17; more of them: CAIRN_TEST_FULL=1.
 *
 * What was broken in the engine to see that it is found, each within 40 seeds: settled() isn't
 * told; a new id on resume; adopt() isn't told; submitted before the commit; settled before the
 * commit; what had ended isn't forgotten on resume; an end without its result; retries counted from
 * nothing; a cancellation that is forgotten.
 */
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include "base/map.h"
#include "base/os/fs.h"
#include "core/seeds.h"
#include "record/manifest/results.h"
#include "run/run.h"
#include "unit.h"

#define STEPS_MAX  8
#define AXIS_MAX   3
#define SEEDS      250
#define SEEDS_FULL 20000
#define LIVES_MAX  60 /* of engines, for one run: each gets a little further */

/* An engine that dies. */

/* Dead, it does nothing any more that anybody could see: its transactions fail, the runner and the
 * store don't hear it. So it finds its way out and frees what it holds, as kill -9 would. */
static struct {
	bool mortal, dead;
	unsigned long at, kill_at; /* points passed */
	long cancel_in;            /* turns until somebody cancels the run; -1: nobody does */
	void (*cancel)(void *arg);
	void *arg;
} engine;

static bool lives(void *arg)
{
	if (engine.mortal && !engine.dead && engine.at++ == engine.kill_at)
		engine.dead = true;
	return !engine.dead;
}

static int killed(struct err *err)
{
	return err_set(err, ERR_CANCELLED, "killed");
}

int __real_db_begin(struct db *db, struct err *err);
int __real_db_commit(struct db *db, struct err *err);
int __real_db_commit_durable(struct db *db, struct err *err);
int __real_loop_turn(struct loop *l, int64_t max_wait_ns, struct err *err);
int __real_store_put(struct store *s, enum store_space space, const struct digest *name,
		     const void *bytes, size_t n, struct err *err);
int __real_store_sync(struct store *s, struct err *err);

int __wrap_db_begin(struct db *db, struct err *err)
{
	return lives(NULL) ? __real_db_begin(db, err) : killed(err);
}

static int commit(struct db *db, int (*real)(struct db *db, struct err *err), struct err *err)
{
	if (!lives(NULL)) {
		db_rollback(db);
		return killed(err);
	}
	if (real(db, err) < 0)
		return -1;
	return lives(NULL) ? 0 : killed(err);
}

int __wrap_db_commit(struct db *db, struct err *err)
{
	return commit(db, __real_db_commit, err);
}

int __wrap_db_commit_durable(struct db *db, struct err *err)
{
	return commit(db, __real_db_commit_durable, err);
}

int __wrap_loop_turn(struct loop *l, int64_t max_wait_ns, struct err *err)
{
	if (engine.mortal && !engine.dead && engine.cancel_in >= 0 && engine.cancel_in-- == 0)
		engine.cancel(engine.arg);
	return lives(NULL) ? __real_loop_turn(l, max_wait_ns, err) : killed(err);
}

int __wrap_store_put(struct store *s, enum store_space space, const struct digest *name,
		     const void *bytes, size_t n, struct err *err)
{
	return lives(NULL) ? __real_store_put(s, space, name, bytes, n, err) : killed(err);
}

int __wrap_store_sync(struct store *s, struct err *err)
{
	return lives(NULL) ? __real_store_sync(s, err) : killed(err);
}

/* A random pipeline, and what it should do. */

struct naive_step {
	bool matrix, gang;
	bool needs[STEPS_MAX];
	unsigned retries, pack;
};

struct naive {
	uint64_t seed, dice;
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
	m->dice = mix(m->dice, 77);
	return (unsigned)(m->dice >> 20) % n;
}

static void make_naive(struct naive *m, uint64_t seed)
{
	*m = (struct naive){ .seed = mix(seed, 1), .dice = mix(seed, 2) };
	m->n = 1 + pick(m, STEPS_MAX);
	m->c = 1 + pick(m, AXIS_MAX);
	m->jobs = 1 + pick(m, 6);
	m->keep_going = pick(m, 4) != 0;
	for (unsigned s = 0; s < m->n; s++) {
		struct naive_step *t = &m->steps[s];

		t->matrix = pick(m, 3) != 0;
		t->retries = pick(m, 3);
		t->gang = pick(m, 6) == 0;
		t->pack = t->gang || pick(m, 2) ? 1 : 2 + pick(m, 3);
		for (unsigned d = 0; d < s; d++)
			t->needs[d] = pick(m, 4) == 0;
	}
}

/* How many attempts of a task are preempted, and how many fail after those. */
static unsigned preemptions_of(const struct naive *m, unsigned step, unsigned x)
{
	unsigned r = (unsigned)(mix(mix(m->seed, step + 11), x + 7) >> 17) % 8;

	return r == 0 ? 2 : r == 1;
}

static unsigned failures_of(const struct naive *m, unsigned step, unsigned x)
{
	unsigned r = (unsigned)(mix(mix(m->seed, step + 1), x + 100) >> 13) % 16;

	return r == 0 ? 9 : r < 4 ? r - 1 : 0;
}

static void add_names(const struct naive *m, unsigned s, struct str *out)
{
	str_add(out, "    inputs: {");
	for (unsigned d = 0, n = 0; d < s; d++)
		if (m->steps[s].needs[d])
			str_addf(out, "%si%u: \"${{ steps.s%u.outputs.o }}\"", n++ ? ", " : "", d,
				 d);
	str_add(out, "}\n");
}

static void write_yaml(const struct naive *m, struct str *out)
{
	str_add(out, "pipeline: random\nsteps:\n");
	for (unsigned s = 0; s < m->n; s++) {
		const struct naive_step *t = &m->steps[s];

		str_addf(out,
			 "  s%u:\n    outputs: {o: o.txt}\n    retry: {max: %u, backoff: 1s..1m}\n "
			 "   run: work %u %s\n",
			 s, t->retries, s, t->matrix ? "${{ matrix.x }}" : "0");
		for (unsigned x = 0; t->matrix && x < m->c; x++)
			str_addf(out, "%s%u%s", x ? ", " : "    matrix: {x: [", x,
				 x + 1 == m->c ? "]}\n" : "");
		if (t->pack > 1)
			str_addf(out, "    pack: %u\n", t->pack);
		if (t->gang)
			str_add(out, "    distributed: {framework: torch, nodes: 2}\n");
		add_names(m, s, out);
	}
}

static unsigned n_tasks(const struct naive *m, unsigned s)
{
	return m->steps[s].matrix ? m->c : 1;
}

static void fates(const struct naive *m, enum fate f[STEPS_MAX][AXIS_MAX])
{
	for (unsigned s = 0; s < m->n; s++)
		for (unsigned x = 0; x < n_tasks(m, s); x++) {
			bool blocked = false;

			for (unsigned d = 0; d < s; d++)
				for (unsigned y = 0; m->steps[s].needs[d] && y < n_tasks(m, d); y++)
					if (!(m->steps[s].matrix && m->steps[d].matrix) || x == y)
						blocked |= f[d][y] != FATE_OK;
			f[s][x] = blocked                                      ? FATE_BLOCKED
				  : failures_of(m, s, x) > m->steps[s].retries ? FATE_FAILED
									       : FATE_OK;
		}
}

/* The world. */

struct world {
	uint64_t number; /* the seed as it is given */
	struct naive m;
	const char *dir;
	struct clock clock;
	struct store *store;
	struct db *db;
	struct runner_fake_world *jobs;
	struct map *attempts; /* task → number of executions */
	struct map *done;     /* key → a program that ended well */
	bool cancelled;       /* programs were stopped, and their tasks may begin once more */
	unsigned lives;
	struct run_row row;
	struct arena *arena;
};

static void execute(void *arg, const struct runner_attempt *a, enum failure_class *ret_failure,
		    int64_t *ret_duration_ns, struct content_id *ret_outputs,
		    char **ret_metrics_json)
{
	struct world *w = arg;
	unsigned step, x = 0, number;
	void **n = map_slot_str(w->attempts, a->task),
	     **done = map_slot(w->done, a->key->b, DIGEST_BYTES, NULL);
	char hex[DIGEST_HEX_MAX];
	bool mortal = engine.mortal;

	assert_true(sscanf(a->task, "s%u[x=%u]", &step, &x) >= 1);
	number = (unsigned)(uintptr_t)(*n = (void *)((uintptr_t)*n + 1));
	if (runner_fake_world_executions(w->jobs, a->id) != 1)
		fail_msg("seed %llu: attempt %llu (%s) is executed twice",
			 (unsigned long long)w->number, (unsigned long long)a->id, a->task);
	if (!w->cancelled && *done)
		fail_msg("seed %llu: %s is executed again, and had ended well",
			 (unsigned long long)w->number, a->task);
	if (!w->cancelled && (a->number != number || number > preemptions_of(&w->m, step, x) +
								      w->m.steps[step].retries + 1))
		fail_msg("seed %llu: %s is executed for the %u. time, as attempt %u, with %u "
			 "preemptions and %u retries",
			 (unsigned long long)w->number, a->task, number, a->number,
			 preemptions_of(&w->m, step, x), w->m.steps[step].retries);
	*ret_duration_ns = (int64_t)(mix(mix(w->m.seed, step * 10 + x), number) % 5000) * NS_PER_MS;
	if (number <= preemptions_of(&w->m, step, x)) {
		*ret_failure = FAILURE_PREEMPTED;
		return;
	}
	if (number <= preemptions_of(&w->m, step, x) + failures_of(&w->m, step, x)) {
		*ret_failure = FAILURE_FAILED;
		return;
	}
	*done = w;
	engine.mortal = false;                    /* it isn't the engine that writes here */
	for (size_t i = 0; i < a->n_outputs; i++) /* of a distributed one, also its series */
		assert_int_equal(content_put_bytes(w->store, digest_hex(a->key, hex), 64,
						   &ret_outputs[i], NULL),
				 0);
	engine.mortal = mortal;
}

static void world_open(struct world *w, uint64_t seed, const char *dir, struct arena *arena)
{
	struct runner_fake_options o = {
		.seed = mix(seed, 5), .script = execute, .alive = lives, .arg = w
	};

	*w = (struct world){ .number = seed, .dir = dir, .arena = arena };
	make_naive(&w->m, seed);
	clock_virtual_init(&w->clock, 1700000000LL * NS_PER_S);
	assert_int_equal(store_open("memory:", true, &w->store, NULL), 0);
	assert_int_equal(db_open(":memory:", DB_WRITE, &w->db, NULL), 0);
	w->jobs = runner_fake_world_new(&w->clock, &o);
	w->attempts = map_new();
	w->done = map_new();
}

static void world_close(struct world *w)
{
	db_close(w->db);
	store_free(w->store);
	runner_fake_world_free(w->jobs);
	map_free(w->attempts);
	map_free(w->done);
}

static struct pipeline *parse(const struct naive *m, const char *dir)
{
	_cleanup_(str_deinit) struct str yaml = { 0 }, text = { 0 };
	_cleanup_(freep) char *path = xasprintf("%s/pipeline.yaml", dir);
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	struct pipeline_load_options o = { .project_root = dir };
	struct pipeline *p = NULL;
	struct err err = { 0 };

	write_yaml(m, &yaml);
	assert_int_equal(
		fs_write_atomic_at(AT_FDCWD, path, yaml.s, yaml.len, 0644, FS_WRITE_NO_SYNC, &err),
		0);
	if (pipeline_load(path, &o, diags, &p, &err) < 0) {
		diag_render(diags, &text);
		fail_msg("%s\n%s\n%s", err.msg, text.s ? text.s : "", yaml.s);
	}
	return p;
}

/* Lives. */

static void cancel(void *arg)
{
	struct world *w = arg;
	struct run_row *rows;
	size_t n;

	assert_int_equal(record_running(w->db, w->arena, &rows, &n, NULL), 0);
	if (n == 0)
		return;
	assert_int_equal(__real_db_begin(w->db, NULL), 0);
	assert_int_equal(record_run_request_cancel(w->db, rows[0].rowid, false, NULL), 0);
	assert_int_equal(__real_db_commit(w->db, NULL), 0);
	w->cancelled = true;
	raise(SIGTERM);
}

/* The engine's process isn't there any more. */
static void bury(struct world *w, struct run_row *row)
{
	row->engine.start = 1;
	assert_int_equal(__real_db_begin(w->db, NULL), 0);
	assert_int_equal(record_run_update(w->db, row, NULL), 0);
	assert_int_equal(__real_db_commit(w->db, NULL), 0);
}

/* From the run's start, or from where the last engine died. True when the run has ended, false when
 * the engine was killed. */
static bool live(struct world *w, const struct pipeline *p)
{
	struct config config = { .project_root = w->dir,
				 .state_dir = w->dir,
				 .runner = "local",
				 .limits.cpu_milli = 1000000,
				 .limits.memory_bytes = GIB,
				 .limits.gpus = 0 };
	struct run_context ctx = { .config = &config,
				   .db = w->db,
				   .store = w->store,
				   .leases_fd = -1,
				   .handle_signals = true };
	struct run_options o = { .keep_going = w->m.keep_going, .jobs = w->m.jobs };
	struct reproduction *rep;
	struct run_row *rows;
	struct err err = { 0 };
	struct run_row before = { 0 };
	size_t n;
	int r;

	assert_int_equal(loop_new(&w->clock, &ctx.loop, NULL), 0);
	assert_int_equal(runner_fake_durable_new(ctx.loop, w->jobs, &ctx.runner, NULL), 0);
	assert_int_equal(record_all_runs(w->db, w->arena, &rows, &n, NULL), 0);
	if (n)
		before = rows[0];
	w->lives++;
	r = n ? run_resume(&ctx, rows[0].id, 0, w->arena, &w->row, &rep, &err)
	      : run_start(&ctx, p, &o, w->arena, &w->row, &err);
	ctx.runner->ops->free(ctx.runner);
	loop_free(ctx.loop);
	if (r < 0 && !engine.dead)
		fail_msg("seed %llu: %s", (unsigned long long)w->number, err.msg);
	engine.mortal = false;
	assert_int_equal(record_all_runs(w->db, w->arena, &rows, &n, NULL), 0);
	if (n && rows[0].state == RUN_RUNNING)
		bury(w, &rows[0]);
	if (n)
		w->row = rows[0];
	return n && rows[0].state != RUN_RUNNING &&
	       (rows[0].ended_ns != before.ended_ns || rows[0].state != before.state);
}

static void wake(unsigned long kill_at)
{
	engine.mortal = true;
	engine.dead = false;
	engine.at = 0;
	engine.kill_at = kill_at;
}

/* One life, undisturbed. Returns how many points there were at which it could have died. */
static unsigned long live_long(struct world *w, const struct pipeline *p)
{
	wake(ULONG_MAX);
	assert_true(live(w, p));
	return engine.at;
}

/* Killed in most of its lives: anywhere in the first, soon in some of the others. */
static void live_often(struct world *w, const struct pipeline *p, unsigned long points)
{
	unsigned kills = 1 + pick(&w->m, 5);
	bool over = false;

	while (!over) {
		unsigned long at =
			pick(&w->m, 2) ? pick(&w->m, 12) : pick(&w->m, (unsigned)points + 1);

		assert_true(w->lives < LIVES_MAX);
		wake(w->lives < kills ? at : ULONG_MAX);
		over = live(w, p);
		clock_virtual_advance(&w->clock,
				      pick(&w->m, 2) ? 0 : (int64_t)pick(&w->m, 20) * NS_PER_S);
	}
}

/* What must have come out. */

static void check_table(struct world *w, const struct world *alone)
{
	struct results *a, *b;
	struct results_cursor ca, cb;
	struct result_entry ea, eb;

	assert_int_equal(results_open(alone->store, &alone->row.results, &a, NULL), 0);
	assert_int_equal(results_open(w->store, &w->row.results, &b, NULL), 0);
	results_first(a, &ca);
	results_first(b, &cb);
	while (results_next(&ca, &ea)) {
		struct content_id ia, ib;

		assert_true(results_next(&cb, &eb));
		assert_string_equal(ea.task, eb.task);
		if (ea.state != eb.state || !digest_eq(&ea.key, &eb.key) ||
		    ea.n_outputs != eb.n_outputs)
			fail_msg("seed %llu: %s has come to %d, and left alone to %d",
				 (unsigned long long)w->number, ea.task, eb.state, ea.state);
		for (size_t i = 0; i < ea.n_outputs; i++) {
			results_output(&ea, i, &ia);
			results_output(&eb, i, &ib);
			assert_true(content_id_eq(&ia, &ib));
		}
	}
	assert_false(results_next(&cb, &eb));
	results_free(a);
	results_free(b);
}

static void check_nothing_left(struct world *w)
{
	struct attempt_row *rows;
	size_t n;

	/* One that died between the run's last row and its own end leaves them to their time to
	 * live. */
	if (runner_fake_world_jobs(w->jobs) && !engine.dead)
		fail_msg("seed %llu: %zu Jobs are left", (unsigned long long)w->number,
			 runner_fake_world_jobs(w->jobs));
	assert_int_equal(record_run_attempts(w->db, w->row.rowid, w->arena, &rows, &n, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		assert_true(rows[i].ended_ns);
		if (rows[i].failure == FAILURE_CANCELLED &&
		    !w->cancelled) /* a failure elsewhere lets what runs end */
			fail_msg("seed %llu: %s was stopped: %s", (unsigned long long)w->number,
				 rows[i].task, rows[i].message);
	}
	assert_int_equal(db_check(w->db, NULL), 0);
}

/* With a failure that stops the rest, what the rest has come to is a matter of time; but not
 * whether the run failed. */
static void check_fates(struct world *w)
{
	enum fate f[STEPS_MAX][AXIS_MAX];
	unsigned count[3] = { 0 }, total = 0;

	fates(&w->m, f);
	for (unsigned s = 0; s < w->m.n; s++)
		for (unsigned x = 0; x < n_tasks(&w->m, s); x++, total++)
			count[f[s][x]]++;
	if (w->row.state != (count[FATE_FAILED] ? RUN_FAILED : RUN_SUCCEEDED))
		fail_msg("seed %llu: the run ended as %s", (unsigned long long)w->number,
			 run_state_name(w->row.state));
	assert_int_equal(w->row.counts.total, total);
	if (!w->m.keep_going && count[FATE_FAILED])
		return;
	assert_int_equal(w->row.counts.executed + w->row.counts.hits, count[FATE_OK]);
	assert_int_equal(w->row.counts.failed, count[FATE_FAILED]);
	assert_int_equal(w->row.counts.blocked, count[FATE_BLOCKED]);
}

static void drain_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	while (sigtimedwait(&set, NULL, &(struct timespec){ 0 }) > 0)
		;
}

/* Whatever was asked last is what happens: a run that was to stop has stopped, wherever its engine
 * died; and goes on when that is asked for. */
static void check_cancelled(struct world *w, const struct pipeline *p, const struct world *alone)
{
	if (w->cancelled && w->row.state != RUN_CANCELLED && w->row.state != alone->row.state)
		fail_msg("seed %llu: cancelled, the run ended as %s", (unsigned long long)w->number,
			 run_state_name(w->row.state));
	drain_signals();
	check_nothing_left(w);
	if (w->row.state != RUN_CANCELLED)
		return;
	engine.cancel_in = -1;
	live_often(w, p, 50);
	drain_signals();
	/* Asked for anew, it has its retries anew: what would have failed may do well. */
	if (w->row.state != RUN_SUCCEEDED && w->row.state != alone->row.state)
		fail_msg("seed %llu: cancelled and resumed, the run ended as %s",
			 (unsigned long long)w->number, run_state_name(w->row.state));
	check_nothing_left(w);
}

static void one_seed(uint64_t seed, const char *dir)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct world alone, w;
	struct pipeline *p;
	unsigned long points;
	bool cancels = seed % 4 == 3;

	engine.cancel_in = -1;
	world_open(&alone, seed, dir, arena);
	p = parse(&alone.m, dir);
	points = live_long(&alone, p);
	check_fates(&alone);
	check_nothing_left(&alone);
	world_open(&w, seed, dir, arena);
	engine.cancel = cancel;
	engine.arg = &w;
	engine.cancel_in = cancels ? (long)pick(&w.m, 40) : -1;
	live_often(&w, p, points);
	if (cancels) {
		check_cancelled(&w, p, &alone);
	} else {
		check_fates(&w);
		check_nothing_left(&w);
		if (alone.row.state == RUN_SUCCEEDED || w.m.keep_going)
			check_table(&w, &alone);
	}
	pipeline_free(p);
	world_close(&w);
	world_close(&alone);
}

/* Beyond what is tried each time, what was found once. */
static const uint64_t found[] = { 29303 /* cancelled before it has a Job */ };

static void test_killed_engines(void **state)
{
	char dir[TEST_DIR_MAX];
	const char *full = getenv("CAIRN_TEST_FULL");
	struct seeds seeds = seeds_of(0, full && strcmp(full, "0") != 0 ? SEEDS_FULL : SEEDS);

	test_dir(dir, sizeof(dir), "durable");
	for (uint64_t seed = seeds.from; seed < seeds.to; seed++)
		one_seed(seed, dir);
	for (size_t i = 0; i < ARRAY_LEN(found) && !seeds.given; i++)
		one_seed(found[i], dir);
	fs_remove_tree(dir, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_killed_engines) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
