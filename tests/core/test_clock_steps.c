/* The wall clock is set while schedules run: back, forth, by a leap second, over a sleep, thousands
 * of times over.
 *
 * A scheduler with five schedules lives for a day of monotonic time; every now and then the wall
 * clock jumps. Whatever it does:
 * - no timer dies: a trigger that somebody left in the database is started within two polls, a run
 * that failed is tried again within its back-off, the server goes on noting that it lives, and a
 * schedule whose runs all fail is told of as missing;
 * - every nominal time that the wall clock passed or jumped over has a row, or one that counts it;
 * - no nominal time is started more often than its retries allow, and never twice at once. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "base/os/process/process.h"
#include "base/text/text.h"
#include "core/seeds.h"
#include "serve/schedule/calendar.h"
#include "serve/schedule/scheduler.h"

#define START_NS    (1767225600 * NS_PER_S + 17 * NS_PER_S) /* 2026-01-01T00:00:17Z */
#define HOUR_NS     (3600 * NS_PER_S)
#define MINUTE_NS   (60 * NS_PER_S)
#define POLL_NS     (60 * NS_PER_S)
#define LIFE_NS     (24 * HOUR_NS)
#define N_SCHEDULES 5
#define RETRIES     2
/* An alert comes so long after the last step at most: the next nominal time, alert_after, and a
 * look at the clock. */
#define ALERT_WITHIN_NS (30 * MINUTE_NS + HOUR_NS + 2 * MINUTE_NS)

static const char pipeline_yaml[] =
	"pipeline: steps\n"
	"steps:\n"
	"  a: {run: x}\n"
	"schedules:\n"
	"  s0: {cron: \"*/20 * * * *\", overlap: allow, catch_up: none}\n"
	"  s1: {cron: \"7 * * * *\", overlap: queue, catch_up: latest, catch_up_window: 6h, "
	"jitter: 2h}\n"
	"  s2: {cron: \"*/15 * * * *\", overlap: skip, catch_up: all, catch_up_window: 12h, "
	"jitter: 5m}\n"
	"  s3: {cron: \"@every 10m\", overlap: replace, catch_up: all, catch_up_window: 2h}\n"
	"  failing: {cron: \"*/30 * * * *\", overlap: allow, catch_up: none, alert_after: 1h,\n"
	"            retry: {max: 2, backoff: 1m..2m}}\n";
static const char *const names[N_SCHEDULES] = { "s0", "s1", "s2", "s3", "failing" };

struct world;

struct fake_run {
	struct world *w;
	struct run_row row;
	const char *schedule;
	int64_t nominal_ns;
	bool stopped;
	struct loop_source *timer;
	struct fake_run *next;
};

struct world {
	uint64_t seed, random;
	struct clock clock;
	struct loop *loop;
	struct arena *arena;
	struct db *db;
	struct scheduler *s;
	struct scheduler_project *p;
	struct fake_run *runs;
	char dir[TEST_DIR_MAX], host[256];
	int64_t began_ns, stepped_ns, alerted_ns; /* monotonic */
	int64_t trigger_ns; /* nominal time of what was left in the database */
	int64_t beat_ns;
	int64_t failed_ns; /* monotonic: when a firing that will be tried again failed; 0: none
			      waits */
	unsigned starts, steps, alerts, retries, same_beats;
};

static uint64_t rnd(struct world *w, uint64_t n)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random % n;
}

static int64_t mono(struct world *w)
{
	return w->clock.mono_ns(&w->clock);
}

static int64_t wall(struct world *w)
{
	return w->clock.wall_ns(&w->clock);
}

static void must(int r, const struct err *err)
{
	if (r < 0)
		fail_msg("%s", err->msg);
}

/* Runs. */

static void write_run(struct world *w, struct fake_run *r, enum run_state state)
{
	struct err err = { 0 };

	r->row.state = state;
	r->row.ended_ns = state == RUN_RUNNING ? 0 : wall(w);
	must(db_begin(w->db, &err), &err);
	must(record_run_update(w->db, &r->row, &err), &err);
	must(db_commit(w->db, &err), &err);
}

static void drop_run(struct fake_run *r)
{
	struct fake_run **at = &r->w->runs;

	while (*at != r)
		at = &(*at)->next;
	*at = r->next;
	loop_remove(r->w->loop, r->timer);
	free(r);
}

static void on_run_end(void *arg)
{
	struct fake_run *r = arg;
	struct world *w = r->w;
	bool fails = str_eq(r->schedule, "failing");
	const char *schedule = r->schedule;
	int64_t nominal = r->nominal_ns;

	r->timer = NULL;
	write_run(w, r, r->stopped ? RUN_CANCELLED : fails ? RUN_FAILED : RUN_SUCCEEDED);
	drop_run(r);
	scheduler_run_ended(w->s, w->p, "pipeline.yaml", schedule, nominal, NULL);
}

static const char *name_of(const char *schedule)
{
	for (size_t i = 0; i < N_SCHEDULES; i++)
		if (str_eq(names[i], schedule))
			return names[i];
	fail_msg("unknown schedule %s", schedule);
	return NULL;
}

static int start(void *arg, const struct scheduled *d, struct err *err)
{
	struct world *w = arg;
	struct fake_run *r = xcalloc(1, sizeof(*r));
	struct firing_begin b = { .path = "pipeline.yaml",
				  .schedule = d->firing.schedule,
				  .nominal_ns = d->firing.nominal_ns,
				  .wall_ns = wall(w) };

	w->starts++;
	for (struct fake_run *other = w->runs; other; other = other->next)
		if (other->nominal_ns == d->firing.nominal_ns &&
		    str_eq(other->schedule, d->firing.schedule))
			fail_msg("seed %llu: %s@%lld was started twice",
				 (unsigned long long)w->seed, d->firing.schedule,
				 (long long)d->firing.nominal_ns);
	if (d->firing.number > 1 + (str_eq(d->firing.schedule, "failing") ? RETRIES : 0))
		fail_msg("seed %llu: %s@%lld was started %u times", (unsigned long long)w->seed,
			 d->firing.schedule, (long long)d->firing.nominal_ns, d->firing.number);
	w->retries += d->firing.number > 1;
	*r = (struct fake_run){ .w = w,
				.schedule = name_of(d->firing.schedule),
				.nominal_ns = d->firing.nominal_ns };
	r->row = (struct run_row){ .pipeline = "steps",
				   .path = "pipeline.yaml",
				   .started_ns = wall(w),
				   .schedule = r->schedule,
				   .nominal_ns = r->nominal_ns };
	must(db_begin(w->db, err), err);
	must(record_run_add(w->db, &r->row, w->arena, err), err);
	b.run = r->row.id;
	must(record_firing_begin(w->db, &b, w->arena, err), err);
	must(db_commit(w->db, err), err);
	r->row.engine.pid = (int32_t)getpid();
	r->row.engine.start = process_start_time(getpid());
	r->row.engine.host = w->host;
	write_run(w, r, RUN_RUNNING);
	r->timer = loop_add_timer(w->loop, mono(w) + (int64_t)(1 + rnd(w, 400)) * NS_PER_S,
				  on_run_end, r);
	r->next = w->runs;
	w->runs = r;
	return 0;
}

static void stop(void *arg, const struct scheduled *d)
{
	struct world *w = arg;

	for (struct fake_run *r = w->runs; r; r = r->next)
		if (r->nominal_ns == d->firing.nominal_ns &&
		    str_eq(r->schedule, d->firing.schedule)) {
			r->stopped = true;
			loop_remove(w->loop, r->timer);
			r->timer = loop_add_timer(w->loop, mono(w) + 2 * NS_PER_S, on_run_end, r);
			return;
		}
}

static void on_alert(void *arg, enum schedule_alert kind, const struct scheduled *d,
		     const char *text)
{
	struct world *w = arg;

	if (kind == SCHEDULE_ALERT_TROUBLE || kind == SCHEDULE_ALERT_RELOAD_BROKEN)
		fail_msg("seed %llu: alert: %s", (unsigned long long)w->seed, text);
	if (kind == SCHEDULE_ALERT_MISSED) {
		w->alerts++;
		w->alerted_ns = mono(w);
	}
}

static const struct scheduler_ops ops = { .start = start, .stop = stop, .alert = on_alert };

/* The clock is set. */

static void on_step(void *arg)
{
	static const int64_t sizes[] = { NS_PER_S,     17 * NS_PER_S,    120 * NS_PER_S,
					 HOUR_NS,      2 * HOUR_NS,      8 * HOUR_NS,
					 26 * HOUR_NS, 20 * 24 * HOUR_NS };
	struct world *w = arg;
	int64_t by = sizes[rnd(w, ARRAY_LEN(sizes))];

	clock_virtual_step(&w->clock, rnd(w, 2) ? by : -by);
	w->stepped_ns = mono(w);
	w->steps++;
	loop_add_timer(w->loop, mono(w) + (int64_t)(1 + rnd(w, 5 * 3600)) * NS_PER_S, on_step, w);
}

/* What must go on. */

/* As `cairn schedule trigger` does where a server runs. */
static void leave_trigger(void *arg)
{
	struct world *w = arg;
	struct firing f = { .path = "pipeline.yaml",
			    .schedule = "s0",
			    .cause = FIRING_MANUAL,
			    .state = FIRING_WAITING,
			    .claimed_ns = wall(w) };
	struct err err = { 0 };
	int r;

	must(db_begin(w->db, &err), &err);
	for (f.nominal_ns = wall(w) + 1; (r = record_firing_claim(w->db, &f, &err)) == 0;
	     f.nominal_ns++)
		;
	must(r, &err);
	must(db_commit(w->db, &err), &err);
	w->trigger_ns = f.nominal_ns;
}

static void look(void *arg)
{
	struct world *w = arg;
	struct firing_filter open = { .path = "pipeline.yaml",
				      .schedule = "failing",
				      .open = true };
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct firing f, *rows;
	struct err err = { 0 };
	bool waits = false;
	int64_t beat = 0;
	size_t n;

	if (w->trigger_ns) {
		assert_int_equal(
			record_firing(w->db, "pipeline.yaml", "s0", w->trigger_ns, arena, &f, &err),
			1);
		if (f.state == FIRING_WAITING)
			fail_msg("seed %llu: after a step of the clock nobody looks at the "
				 "database any more",
				 (unsigned long long)w->seed);
	}
	must(record_server_heartbeat_of(w->db, "me", &beat, &err), &err);
	w->same_beats =
		beat == w->beat_ns ? w->same_beats + 1 : 0; /* one may be by chance: the clock went
							       back by as much as had passed */
	if (w->same_beats > 2)
		fail_msg("seed %llu: the server no longer notes that it lives",
			 (unsigned long long)w->seed);
	w->beat_ns = beat;
	must(record_firings(w->db, &open, arena, &rows, &n, &err), &err);
	for (size_t i = 0; i < n; i++)
		waits |= rows[i].state == FIRING_RETRYING;
	if (!waits)
		w->failed_ns = 0;
	else if (!w->failed_ns)
		w->failed_ns = mono(w);
	if (w->failed_ns && mono(w) - w->failed_ns > 3 * HOUR_NS)
		fail_msg("seed %llu: runs that failed aren't tried again",
			 (unsigned long long)w->seed);
	if (mono(w) - MAX(MAX(w->stepped_ns, w->alerted_ns), w->began_ns) > ALERT_WITHIN_NS)
		fail_msg("seed %llu: nobody is told that every run fails",
			 (unsigned long long)w->seed);
	leave_trigger(w);
	loop_add_timer(w->loop, mono(w) + 2 * POLL_NS + 3 * NS_PER_S, look, w);
}

static void on_end(void *arg)
{
	loop_stop(((struct world *)arg)->loop);
}

/* Every nominal time has a row. */

static void check_rows(struct world *w, const char *name, const struct calendar *c,
		       int64_t jitter_ns)
{
	struct firing_filter f = { .path = "pipeline.yaml", .schedule = name };
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	int64_t now = wall(w), t = calendar_next(c, START_NS);
	struct err err = { 0 };
	struct firing *rows;
	size_t n;

	must(record_firings(w->db, &f, arena, &rows, &n, &err), &err); /* newest first */
	for (; t <= now && calendar_due(c, "pipeline.yaml", name, t, jitter_ns) <= now - POLL_NS;
	     t = calendar_next(c, t)) {
		bool found = false;

		while (n && rows[n - 1].nominal_ns < t)
			n--;
		for (size_t i = n; i-- > 0 && !found;)
			found = rows[i].first_ns <= t && t <= rows[i].nominal_ns;
		if (!found) {
			struct str text = { 0 };

			text_add_time(&text, t, 0);
			fail_msg("seed %llu: %s has no row for %s", (unsigned long long)w->seed,
				 name, text.s);
		}
	}
}

static void check_all_rows(struct world *w)
{
	_cleanup_(freep) char *path = xasprintf("%s/pipeline.yaml", w->dir);
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	struct pipeline_load_options o = { .project_root = w->dir };
	struct zone_set *zones = zone_set_new(NULL);
	struct pipeline *p;
	struct err err = { 0 };

	must(pipeline_load(path, &o, diags, &p, &err), &err);
	for (size_t i = 0; i < p->n_schedules; i++) {
		struct calendar c;

		must(calendar_of(&p->schedules[i], zones, &c, &err), &err);
		check_rows(w, p->schedules[i].name, &c, p->schedules[i].jitter_ns);
	}
	pipeline_free(p);
	zone_set_free(zones);
}

/* A life. */

static bool nobody_else(void *arg, const char *server)
{
	return str_eq(server, "me");
}

static void open_world(struct world *w, uint64_t seed, const char *yaml)
{
	_cleanup_(freep) char *path = NULL;
	struct err err = { 0 };

	*w = (struct world){ .seed = seed, .random = seed * 0x9e3779b97f4a7c15ULL + 1 };
	test_dir_in_memory(w->dir, sizeof(w->dir), "steps");
	path = xasprintf("%s/pipeline.yaml", w->dir);
	must(fs_write_atomic(path, yaml, strlen(yaml), &err), &err);
	gethostname(w->host, sizeof(w->host) - 1);
	clock_virtual_init(&w->clock, START_NS);
	must(loop_new(&w->clock, &w->loop, &err), &err);
	w->arena = arena_new();
	must(db_open(":memory:", DB_WRITE, &w->db, &err), &err);
}

static void server_up(struct world *w)
{
	struct scheduler_options o = { .server = "me",
				       .server_lives = nobody_else,
				       .poll_ns = POLL_NS };
	struct err err = { 0 };

	must(scheduler_new(w->loop, &ops, w, &o, &w->s, &err), &err);
	must(scheduler_add_project(w->s, w->dir, NULL, w->db, w, &w->p, &err), &err);
	assert_int_equal(scheduler_add_pipeline(w->p, "pipeline.yaml", &err), 0);
}

static void close_world(struct world *w)
{
	scheduler_free(w->s);
	while (w->runs)
		drop_run(w->runs);
	db_close(w->db);
	loop_free(w->loop);
	arena_free(w->arena);
	fs_remove_tree(w->dir, NULL);
}

static void live(uint64_t seed, unsigned *starts, unsigned *alerts)
{
	struct err err = { 0 };
	struct world w;

	open_world(&w, seed, pipeline_yaml);
	server_up(&w);
	w.began_ns = w.stepped_ns = mono(&w);
	loop_add_timer(w.loop, mono(&w) + (int64_t)(1 + rnd(&w, 3600)) * NS_PER_S, on_step, &w);
	loop_add_timer(w.loop, mono(&w) + 2 * POLL_NS, look, &w);
	loop_add_timer(w.loop, mono(&w) + LIFE_NS, on_end, &w);
	must(loop_run(w.loop, &err), &err);
	check_all_rows(&w);
	*starts += w.starts;
	*alerts += w.alerts;
	assert_true(w.steps > 2 && w.retries > 0);
	close_world(&w);
}

static void test_steps_of_the_clock(void **state)
{
	struct seeds seeds = seeds_of(1, 60);
	uint64_t n = seeds.to - seeds.from;
	unsigned starts = 0, alerts = 0;

	for (uint64_t seed = seeds.from; seed < seeds.to; seed++)
		live(seed, &starts, &alerts);
	print_message("%llu lives: %u starts, %u alerts\n", (unsigned long long)n, starts, alerts);
	assert_true(starts > n * 50 && alerts > n);
}

/* An absence, and what it leaves. */

static const struct absence {
	const char *rule;
	int64_t away_ns;       /* from 00:00:17 on */
	size_t fired;          /* nominal times that are run */
	const char *newest_is; /* the cause of the newest one that is run */
	uint64_t missed, rows; /* nominal times that aren't, and in how many rows */
} absences[] = {
	/* Back within the minute of the newest one: it is on time, and waits for those of its own
	   batch, whatever `overlap` says. */
	{ "cron: \"* * * * *\", catch_up: all", 10 * MINUTE_NS, 10, "time", 0, 0 },
	{ "cron: \"* * * * *\", catch_up: all, overlap: replace", 10 * MINUTE_NS, 10, "time", 0,
	  0 },
	{ "cron: \"* * * * *\", catch_up: all, overlap: queue", 10 * MINUTE_NS, 10, "time", 0, 0 },
	{ "cron: \"* * * * *\", catch_up: all, overlap: allow", 10 * MINUTE_NS, 10, "time", 0, 0 },
	/* At most 1,000; the others are counted. */
	{ "cron: \"* * * * *\", catch_up: all", 2880 * MINUTE_NS, 1000, "time", 1880, 1 },
	{ "cron: \"* * * * *\", catch_up: all, catch_up_window: 1h", 2880 * MINUTE_NS, 60, "time",
	  2820, 1 },
	{ "cron: \"* * * * *\", catch_up: latest", 2880 * MINUTE_NS, 1, "time", 2879, 1 },
	{ "cron: \"* * * * *\", catch_up: latest, catch_up_window: 1h", 2880 * MINUTE_NS, 1, "time",
	  2879, 2 },
	{ "cron: \"* * * * *\"", 2880 * MINUTE_NS, 1, "time", 2879, 1 },
	{ "cron: \"0 * * * *\"", 90 * MINUTE_NS, 0, NULL, 1, 1 },
	{ "cron: \"0 * * * *\", catch_up: latest", 150 * MINUTE_NS, 1, "catch-up", 1, 1 },
	{ "cron: \"@every 1s\"", 24 * HOUR_NS, 1, "time", 86400 - 1, 2 },
};

static void check_absence(const struct absence *a)
{
	_cleanup_(freep) char *yaml = xasprintf(
		"pipeline: steps\nsteps:\n  a: {run: x}\nschedules:\n  s0: {%s}\n", a->rule);
	struct firing_filter all = { .path = "pipeline.yaml", .schedule = "s0" };
	uint64_t missed = 0, missed_rows = 0;
	int64_t covered_from = INT64_MAX;
	struct firing *rows, *newest = NULL;
	struct err err = { 0 };
	size_t fired = 0, n;
	struct world w;

	open_world(&w, 1, yaml);
	server_up(&w);
	scheduler_free(w.s);
	clock_virtual_step(&w.clock, a->away_ns);
	server_up(&w);
	assert_int_equal(loop_turn(w.loop, 0, &err), 1);
	must(record_firings(w.db, &all, w.arena, &rows, &n, &err), &err);
	for (size_t i = 0; i < n; i++) {
		if (rows[i].state != FIRING_MISSED) {
			if (rows[i].state > FIRING_STARTED)
				fail_msg("%s: a firing of the batch is %s", a->rule,
					 firing_state_name(rows[i].state));
			newest = newest ? newest : &rows[i];
			fired++;
			continue;
		}
		missed += rows[i].times;
		missed_rows++;
		if (rows[i].nominal_ns >= covered_from)
			fail_msg("%s: two rows stand for one time", a->rule);
		covered_from = rows[i].first_ns;
	}
	if (fired != a->fired || missed != a->missed || missed_rows != a->rows)
		fail_msg("%s: %zu are run and %llu missed in %llu rows", a->rule, fired,
			 (unsigned long long)missed, (unsigned long long)missed_rows);
	if (newest && !str_eq(firing_cause_name(newest->cause), a->newest_is))
		fail_msg("%s: the newest is there because of %s", a->rule,
			 firing_cause_name(newest->cause));
	close_world(&w);
}

static void test_absences(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(absences); i++)
		check_absence(&absences[i]);
}

/* A jitter that is longer than the time between two firings: each is still fired, once, and before
 * the next one. */
static void test_long_jitter(void **state)
{
	struct firing_filter all = { .path = "pipeline.yaml", .schedule = "s0" };
	struct firing *rows;
	struct err err = { 0 };
	struct world w;
	size_t n;

	open_world(&w, 1,
		   "pipeline: steps\nsteps:\n  a: {run: x}\nschedules:\n  s0: {cron: \"@every "
		   "5s\", jitter: 40s, overlap: allow}\n");
	server_up(&w);
	loop_add_timer(w.loop, mono(&w) + 600 * NS_PER_S, on_end, &w);
	must(loop_run(w.loop, &err), &err);
	must(record_firings(w.db, &all, w.arena, &rows, &n, &err), &err);
	assert_in_range(n, 119, 120);
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(rows[i].cause, FIRING_TIME);
		assert_int_equal(rows[i].times, 1);
		assert_in_range(rows[i].claimed_ns - rows[i].nominal_ns, 0, 5 * NS_PER_S);
	}
	close_world(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_absences),
					    cmocka_unit_test(test_long_jitter),
					    cmocka_unit_test(test_steps_of_the_clock) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
