/* A year of fifty schedules on a virtual clock, with crashes, long absences and pauses: every
 * firing exactly once, none lost beyond its catch-up rule.
 *
 * The world is a fake: start() makes the run's rows as `cairn run --schedule` does, a timer ends
 * it. A crash drops the scheduler and all that is in memory; what it began dies with it or goes on
 * alone; some crashes come inside of start(), before or after the run's row. The same with two
 * schedulers on one database. What must have fired is worked out by a model that knows only nominal
 * times, when a server was there, and pauses. */
#include "unit.h"

#include <dlfcn.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include "base/map.h"
#include "base/os/fs.h"
#include "base/os/process/process.h"
#include "base/text/text.h"
#include "core/seeds.h"
#include "serve/schedule/calendar.h"
#include "serve/schedule/scheduler.h"

#define N_SCHEDULES 50
#define DAY_NS      (86400 * NS_PER_S)
#define START_NS    (1767225600 * NS_PER_S + 17 * NS_PER_S) /* 2026-01-01T00:00:17Z */
#define SERVERS_MAX 2

struct interval {
	int64_t from, to;
};

/* What the test knows of one schedule. */
struct known {
	char name[16];
	const char *overlap, *catch_up;
	int64_t window_ns, jitter_ns;
	unsigned retries, fail_percent;
	struct calendar calendar;
	VEC(struct interval) pauses;
	unsigned running, most_running;
};

struct world;

struct server {
	struct world *w;
	struct scheduler *s;
	struct scheduler_project *p;
	struct db *db;
	char name[24];
	VEC(struct interval) up;
	struct loop_source *timer; /* its end, or its beginning */
};

/* A run as the world sees it: a process. */
struct fake_run {
	struct world *w;
	struct server *server; /* who waits for it; NULL: nobody any more */
	struct known *of;
	int64_t nominal_ns;
	struct run_row row;
	bool stopped;
	struct loop_source *timer;
	struct fake_run *next;
};

struct world {
	struct clock clock;
	struct loop *loop;
	struct arena *arena;
	struct zone_set *zones;
	struct db *db; /* the world's own */
	char dir[TEST_DIR_MAX], host[256];
	struct map *runs_of; /* "NAME NOMINAL" → 1000 for a success, 1 for any other run */
	struct known known[N_SCHEDULES];
	struct server servers[SERVERS_MAX];
	size_t n_servers;
	struct fake_run *runs;
	uint64_t random;
	int64_t end_ns;
	unsigned crashes, resumes, never_came, starts, generation;
	unsigned crash_permille; /* of starts */
	struct server *crash;    /* as soon as the loop is ours again */
};

/* So many of a thousand looks at one run fail. */
static unsigned blind_permille, blind_looks;
static bool world_looks;

int sqlite3_step(sqlite3_stmt *s)
{
	static int (*next)(sqlite3_stmt * s);
	static unsigned looks;
	const char *sql = sqlite3_sql(s);

	if (blind_permille && !world_looks && sql && strstr(sql, "FROM run WHERE id = ?") &&
	    looks++ * blind_permille % 1000 < blind_permille) {
		blind_looks++;
		return SQLITE_IOERR;
	}
	if (!next)
		next = (int (*)(sqlite3_stmt *))dlsym(RTLD_NEXT, "sqlite3_step");
	return next(s);
}

static uint64_t rnd(struct world *w, uint64_t n)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random % n;
}

static int64_t now_of(struct world *w)
{
	return w->clock.now_ns;
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
	r->row.ended_ns = state == RUN_RUNNING ? 0 : now_of(w);
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

static void end_run(struct fake_run *r, enum run_state state)
{
	struct server *server = r->server;
	int64_t nominal = r->nominal_ns;
	const char *name = r->of->name;
	struct world *w = r->w;

	r->of->running--;
	write_run(w, r, state);
	drop_run(r);
	if (server && server->s)
		scheduler_run_ended(server->s, server->p, "pipeline.yaml", name, nominal, NULL);
}

static void on_run_end(void *arg)
{
	struct fake_run *r = arg;

	r->timer = NULL;
	end_run(r, r->stopped                             ? RUN_CANCELLED
		   : rnd(r->w, 100) < r->of->fail_percent ? RUN_FAILED
							  : RUN_SUCCEEDED);
}

static void begin_run(struct world *w, struct fake_run *r)
{
	static const int64_t lengths[] = { 1, 20, 300, 1800, 5400 };
	struct err err = { 0 };

	must(db_begin(w->db, &err), &err);
	if (r->row.id) {
		w->resumes++;
		must(record_run_update(w->db, &r->row, &err), &err);
	} else {
		struct firing_begin b = { .path = "pipeline.yaml",
					  .schedule = r->of->name,
					  .nominal_ns = r->nominal_ns,
					  .wall_ns = now_of(w) };

		must(record_run_add(w->db, &r->row, w->arena, &err), &err);
		b.run = r->row.id;
		must(record_firing_begin(w->db, &b, w->arena, &err), &err);
	}
	must(db_commit(w->db, &err), &err);
	r->row.engine.pid = (int32_t)getpid();
	r->row.engine.start = process_start_time(getpid());
	r->row.engine.host = w->host;
	write_run(w, r, RUN_RUNNING);
	if (++r->of->running > r->of->most_running)
		r->of->most_running = r->of->running;
	r->timer = loop_add_timer(
		w->loop,
		now_of(w) + (lengths[rnd(w, r->of - w->known < 12 ? 3 : 5)] + (int64_t)rnd(w, 10)) *
				    NS_PER_S,
		on_run_end, r);
	r->next = w->runs;
	w->runs = r;
}

static struct known *known_of(struct world *w, const char *name)
{
	return &w->known[atoi(name + 1)];
}

static int start(void *arg, const struct scheduled *d, struct err *err)
{
	struct server *server = arg;
	struct world *w = server->w;
	bool crash = w->crash_permille && rnd(w, 1000) < w->crash_permille;
	struct fake_run *r;

	w->starts++;
	if (crash) {
		w->crash = server;
		loop_stop(w->loop);
		if (rnd(w, 2)) {
			w->never_came++;
			return 0; /* the child never came to be */
		}
	}
	r = xcalloc(1, sizeof(*r));
	*r = (struct fake_run){ .w = w,
				.server = server,
				.of = known_of(w, d->firing.schedule),
				.nominal_ns = d->firing.nominal_ns };
	r->row = (struct run_row){ .pipeline = "year",
				   .path = "pipeline.yaml",
				   .started_ns = now_of(w),
				   .schedule = r->of->name,
				   .nominal_ns = r->nominal_ns };
	if (d->firing.run) {
		world_looks = true;
		must(record_find_run(w->db, d->firing.run, w->arena, &r->row, err), err);
		world_looks = false;
		assert_int_not_equal(r->row.state, RUN_SUCCEEDED);
	}
	begin_run(w, r);
	return 0;
}

static void stop(void *arg, const struct scheduled *d)
{
	struct server *server = arg;

	for (struct fake_run *r = server->w->runs; r; r = r->next)
		if (r->server == server && r->nominal_ns == d->firing.nominal_ns &&
		    str_eq(r->of->name, d->firing.schedule)) {
			r->stopped = true;
			loop_remove(r->w->loop, r->timer);
			r->timer = loop_add_timer(r->w->loop, now_of(r->w) + 2 * NS_PER_S,
						  on_run_end, r);
			return;
		}
}

static void on_alert(void *arg, enum schedule_alert kind, const struct scheduled *d,
		     const char *text)
{
	if ((kind == SCHEDULE_ALERT_TROUBLE && !blind_permille) ||
	    kind == SCHEDULE_ALERT_RELOAD_BROKEN)
		fail_msg("alert: %s", text);
}

static const struct scheduler_ops ops = { .start = start, .stop = stop, .alert = on_alert };

/* Servers. */

static bool server_lives(void *arg, const char *name)
{
	struct world *w = ((struct server *)arg)->w;

	for (size_t i = 0; i < w->n_servers; i++)
		if (w->servers[i].s && str_eq(w->servers[i].name, name))
			return true;
	return false;
}

static void server_up(struct server *server)
{
	struct world *w = server->w;
	struct scheduler_options o = { .server = server->name,
				       .server_lives = server_lives,
				       .poll_ns = 600 * NS_PER_S };
	_cleanup_(freep) char *path = xasprintf("%s/cairn.db", w->dir);
	struct err err = { 0 };

	snprintf(server->name, sizeof(server->name), "server-%u", ++w->generation);
	must(db_open(path, DB_WRITE, &server->db, &err), &err);
	must(scheduler_new(w->loop, &ops, server, &o, &server->s, &err), &err);
	must(scheduler_add_project(server->s, w->dir, NULL, server->db, w, &server->p, &err), &err);
	VEC_PUSH(&server->up, ((struct interval){ now_of(w), INT64_MAX }));
	assert_int_equal(scheduler_add_pipeline(server->p, "pipeline.yaml", &err), 0);
}

/* Processes of a dead server die with it, or go on alone. */
static void server_down(struct server *server)
{
	struct world *w = server->w;

	scheduler_free(server->s);
	server->s = NULL;
	db_close(server->db);
	server->up.v[server->up.n - 1].to = now_of(w);
	w->crashes++;
	for (struct fake_run *r = w->runs, *next; r; r = next) {
		next = r->next;
		if (r->server != server)
			continue;
		r->server = NULL;
		if (rnd(w, 2)) {
			r->row.engine.pid = 0;
			write_run(w, r, RUN_RUNNING); /* so it says, but nobody is there */
			r->of->running--;
			drop_run(r);
		}
	}
}

static void on_server_timer(void *arg);

/* At odd seconds, when no schedule is due: the model needn't know what comes first within an
 * instant. */
static void arm_server(struct server *server, int64_t from_now_s)
{
	struct world *w = server->w;
	int64_t at = now_of(w) + from_now_s * NS_PER_S;

	at += (97 * NS_PER_S - at % (60 * NS_PER_S)) % (60 * NS_PER_S);
	server->timer = loop_add_timer(w->loop, at, on_server_timer, server);
}

static void on_server_timer(void *arg)
{
	static const int64_t absences[] = { 20, 60, 600, 7200, 86400, 5 * 86400 };
	struct server *server = arg;
	struct world *w = server->w;

	server->timer = NULL;
	if (server->s) {
		server_down(server);
		arm_server(server, absences[rnd(w, 6)]);
	} else {
		server_up(server);
		arm_server(server, 3600 + (int64_t)rnd(w, 15 * 86400));
	}
}

/* One that came inside of start(): the server is back within the time in which a firing is still on
 * time. */
static void come_back(void *arg)
{
	struct server *server = arg;

	server_up(server);
	arm_server(server, 3600 + (int64_t)rnd(server->w, 15 * 86400));
}

static void crash_now(struct world *w)
{
	struct server *server = w->crash;

	w->crash = NULL;
	server_down(server);
	loop_remove(w->loop, server->timer);
	server->timer = NULL;
	loop_add_timer(w->loop, now_of(w) + (int64_t)rnd(w, 13) * NS_PER_S, come_back, server);
}

/* Pauses. */

static void on_pause(void *arg)
{
	struct world *w = arg;
	struct known *k = &w->known[rnd(w, N_SCHEDULES)];
	bool paused = k->pauses.n && k->pauses.v[k->pauses.n - 1].to == INT64_MAX;
	struct schedule_row row;
	struct err err = { 0 };
	int64_t at = now_of(w) + (int64_t)(1 + rnd(w, 48)) * 3600 * NS_PER_S;

	must(db_begin(w->db, &err), &err);
	must(record_schedule(w->db, "pipeline.yaml", k->name, w->arena, &row, &err), &err);
	schedule_row_pause(&row, !paused, now_of(w));
	must(record_schedule_put(w->db, &row, &err), &err);
	must(db_commit(w->db, &err), &err);
	if (paused)
		k->pauses.v[k->pauses.n - 1].to = now_of(w);
	else
		VEC_PUSH(&k->pauses, ((struct interval){ now_of(w), INT64_MAX }));
	at += (83 * NS_PER_S - at % (60 * NS_PER_S)) % (60 * NS_PER_S);
	loop_add_timer(w->loop, at, on_pause, w);
}

/* The world. */

static const char *pick(struct world *w, const char *const *v, size_t n)
{
	return v[rnd(w, n)];
}

static void add_rule(struct world *w, struct str *y, int i)
{
	if (i < 2)
		str_addf(y, "\"*/%d * * * *\"", 20 + 10 * i);
	else if (i < 6)
		str_addf(y, "\"%d * * * *\"", (int)rnd(w, 60));
	else if (i < 9)
		str_addf(y, "\"%d */%d * * *\"", (int)rnd(w, 60), (int)(2 + rnd(w, 8)));
	else if (i < 12)
		str_addf(y, "\"@every %dm\"", (int)(60 + rnd(w, 500)));
	else if (i < 40)
		str_addf(y, "\"%d %d * * *\"", (int)rnd(w, 60), (int)rnd(w, 24));
	else if (i < 45)
		str_addf(y, "\"%d %d %s * *\"", (int)rnd(w, 60), (int)rnd(w, 24),
			 rnd(w, 2) ? "L" : "1,15");
	else
		str_addf(y, "\"%d %d * * %s\"", (int)rnd(w, 60), (int)rnd(w, 4),
			 rnd(w, 2) ? "mon-fri" : "fri#2");
}

static void make_pipeline(struct world *w)
{
	static const char *const zones[] = { "UTC",
					     "Europe/Berlin",
					     "America/New_York",
					     "Australia/Lord_Howe",
					     "America/Santiago",
					     "Asia/Kolkata" };
	static const char *const overlaps[] = { "allow", "queue", "queue", "skip", "replace" },
				 *const catch_ups[] = { "none", "latest", "all" };
	static const char *const dsts[] = { "once", "skip", "twice" };
	_cleanup_(freep) char *path = xasprintf("%s/pipeline.yaml", w->dir);
	struct str y = { 0 };
	struct err err = { 0 };

	str_add(&y, "pipeline: year\nsteps:\n  a: {run: x}\nschedules:\n");
	for (int i = 0; i < N_SCHEDULES; i++) {
		struct known *k = &w->known[i];

		snprintf(k->name, sizeof(k->name), "s%d", i);
		k->overlap = pick(w, overlaps, 5);
		k->catch_up = pick(w, catch_ups, 3);
		k->window_ns = str_eq(k->catch_up, "none")
				       ? 0
				       : (int64_t)(1 + rnd(w, 100)) * 3600 * NS_PER_S;
		k->jitter_ns =
			i >= 12 && rnd(w, 3) == 0 ? (int64_t)(1 + rnd(w, 30)) * 60 * NS_PER_S : 0;
		k->retries = (unsigned)rnd(w, 3);
		k->fail_percent = rnd(w, 3) == 0 ? 30 : 0;
		str_addf(&y, "  %s: {cron: ", k->name);
		add_rule(w, &y, i);
		str_addf(&y, ", timezone: %s, dst: %s, overlap: %s, catch_up: %s",
			 pick(w, zones, 6), pick(w, dsts, 3), k->overlap, k->catch_up);
		if (k->window_ns)
			str_addf(&y, ", catch_up_window: %dh",
				 (int)(k->window_ns / (3600 * NS_PER_S)));
		if (k->jitter_ns)
			str_addf(&y, ", jitter: %dm", (int)(k->jitter_ns / (60 * NS_PER_S)));
		str_addf(&y, ", retry: {max: %u, backoff: 1m..10m}, alert_after: 6h}\n",
			 k->retries);
	}
	must(fs_write_atomic(path, y.s, y.len, &err), &err);
	str_deinit(&y);
}

static void load_calendars(struct world *w, struct pipeline **ret)
{
	_cleanup_(freep) char *path = xasprintf("%s/pipeline.yaml", w->dir);
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	struct pipeline_load_options o = { .project_root = w->dir };
	struct err err = { 0 };

	must(pipeline_load(path, &o, diags, ret, &err), &err);
	for (int i = 0; i < N_SCHEDULES; i++)
		must(calendar_of(&(*ret)->schedules[i], w->zones, &w->known[i].calendar, &err),
		     &err);
}

/* The model. */

struct wanted {
	int64_t nominal, due, handled;
};

/* When is something that is due at `due` handled? While any server is there: then; else when the
 * next one comes. */
static int64_t handled_at(const struct world *w, int64_t due)
{
	int64_t at = INT64_MAX;

	for (size_t i = 0; i < w->n_servers; i++)
		for (size_t k = 0; k < w->servers[i].up.n; k++) {
			struct interval up = w->servers[i].up.v[k];

			if (due < up.to)
				at = MIN(at, MAX(due, up.from));
		}
	return at;
}

static bool is_paused(const struct known *k, const struct wanted *t)
{
	for (size_t i = 0; i < k->pauses.n; i++)
		if (t->nominal <= k->pauses.v[i].to &&
		    t->handled >=
			    k->pauses.v[i].from) /* what is nominal before its end is backlog */
			return true;
	return false;
}

/* Of those that are handled at one moment. */
static bool model_fires(const struct known *k, const struct wanted *t, const struct wanted *newest)
{
	bool last = t == newest;

	if (is_paused(k, t))
		return false;
	if (str_eq(k->catch_up, "none"))
		return last && t->handled - t->due <= 60 * NS_PER_S;
	return (last || str_eq(k->catch_up, "all")) && t->handled - t->due <= k->window_ns;
}

static bool one_firing(struct world *w, struct known *k, int64_t nominal, struct firing *ret)
{
	struct err err = { 0 };
	int r = record_firing(w->db, "pipeline.yaml", k->name, nominal, w->arena, ret, &err);

	must(r, &err);
	return r > 0 && ret->state != FIRING_MISSED;
}

static size_t check_schedule(struct world *w, struct known *k)
{
	VEC(struct wanted) all = { 0 };
	size_t fired = 0, n;
	struct firing_filter f = { .path = "pipeline.yaml", .schedule = k->name };
	struct firing *rows;
	struct err err = { 0 };

	for (int64_t t = calendar_next(&k->calendar, START_NS); t < w->end_ns;
	     t = calendar_next(&k->calendar, t)) {
		struct wanted one = {
			t, calendar_due(&k->calendar, "pipeline.yaml", k->name, t, k->jitter_ns), 0
		};

		one.handled = handled_at(w, one.due);
		if (one.handled < w->end_ns - DAY_NS)
			VEC_PUSH(&all, one);
	}
	for (size_t i = 0; i < all.n; i++) {
		size_t newest = i;
		struct firing row;

		while (newest + 1 < all.n && all.v[newest + 1].handled <= all.v[i].handled)
			newest++;
		if (model_fires(k, &all.v[i], &all.v[newest]) !=
		    one_firing(w, k, all.v[i].nominal, &row)) {
			struct str text = { 0 };

			text_add_time(&text, all.v[i].nominal, 0);
			str_add(&text, " due ");
			text_add_time(&text, all.v[i].due, 0);
			str_add(&text, " handled ");
			text_add_time(&text, all.v[i].handled, 0);
			fail_msg("%s (catch_up %s, overlap %s): %s should%s have fired", k->name,
				 k->catch_up, k->overlap, text.s,
				 model_fires(k, &all.v[i], &all.v[newest]) ? "" : "n't");
		}
		fired += model_fires(k, &all.v[i], &all.v[newest]);
	}
	/* Nothing but what the model knows: rows are no more than nominal times. */
	must(record_firings(w->db, &f, w->arena, &rows, &n, &err), &err);
	for (size_t i = 0; i < n; i++)
		assert_int_equal(calendar_next(&k->calendar, rows[i].nominal_ns - 1),
				 rows[i].nominal_ns);
	VEC_FREE(&all);
	return fired;
}

static void count_runs(struct world *w)
{
	struct run_row *runs;
	struct err err = { 0 };
	size_t n;

	must(record_all_runs(w->db, w->arena, &runs, &n, &err), &err);
	w->runs_of = map_new();
	for (size_t i = 0; i < n; i++) {
		_cleanup_(freep) char *key =
			xasprintf("%s %lld", runs[i].schedule, (long long)runs[i].nominal_ns);

		*(uintptr_t *)map_slot_str(w->runs_of, key) +=
			runs[i].state == RUN_SUCCEEDED ? 1000 : 1;
	}
}

/* Of each firing: one run that succeeded, or as many failed ones as its retries allow. */
static void check_runs(struct world *w, struct known *k)
{
	struct firing_filter f = { .path = "pipeline.yaml", .schedule = k->name };
	struct firing *rows;
	size_t n;
	struct err err = { 0 };

	must(record_firings(w->db, &f, w->arena, &rows, &n, &err), &err);
	for (size_t i = 0; i < n; i++) {
		_cleanup_(freep) char *key =
			xasprintf("%s %lld", k->name, (long long)rows[i].nominal_ns);
		uintptr_t count = (uintptr_t)map_get_str(w->runs_of, key);

		if (rows[i].nominal_ns > w->end_ns - 2 * DAY_NS)
			continue; /* still under way */
		switch (rows[i].state) {
		case FIRING_SUCCEEDED:
			assert_int_equal(count / 1000, 1);
			assert_true(count % 1000 <= k->retries);
			break;
		case FIRING_FAILED:
			assert_int_equal(count, k->retries + 1);
			break;
		case FIRING_SKIPPED:
		case FIRING_MISSED:
			assert_int_equal(count, 0);
			break;
		case FIRING_CANCELLED:
			assert_true(str_eq(k->overlap, "replace"));
			assert_true(count < 1000 ||
				    blind_permille); /* it had ended, and nobody could see it */
			break;
		default:
			fail_msg("%s: %lld is %s", k->name, (long long)rows[i].nominal_ns,
				 firing_state_name(rows[i].state));
		}
	}
	if (!str_eq(k->overlap, "allow"))
		assert_true(k->most_running <= 1);
}

/* A year. */

static void on_end(void *arg)
{
	loop_stop(((struct world *)arg)->loop);
}

static void open_world(struct world *w, uint64_t seed, size_t n_servers, int64_t days)
{
	_cleanup_(freep) char *path = NULL;
	struct err err = { 0 };

	*w = (struct world){ .random = seed * 0x9e3779b97f4a7c15ULL + 1,
			     .n_servers = n_servers,
			     .crash_permille = 20 };
	test_dir_in_memory(w->dir, sizeof(w->dir), "year");
	clock_virtual_init(&w->clock, START_NS);
	must(loop_new(&w->clock, &w->loop, &err), &err);
	gethostname(w->host, sizeof(w->host) - 1);
	w->arena = arena_new();
	w->zones = zone_set_new(NULL);
	path = xasprintf("%s/cairn.db", w->dir);
	must(db_open(path, DB_WRITE, &w->db, &err), &err);
	w->end_ns = START_NS + days * DAY_NS;
	make_pipeline(w);
	for (size_t i = 0; i < n_servers; i++) {
		w->servers[i].w = w;
		server_up(&w->servers[i]);
		arm_server(&w->servers[i], 3600 + (int64_t)rnd(w, 15 * 86400));
	}
	loop_add_timer(w->loop, START_NS + 3606 * NS_PER_S, on_pause, w);
	loop_add_timer(w->loop, w->end_ns, on_end, w);
}

static void close_world(struct world *w)
{
	for (size_t i = 0; i < w->n_servers; i++) {
		scheduler_free(w->servers[i].s);
		if (w->servers[i].s)
			db_close(w->servers[i].db);
		VEC_FREE(&w->servers[i].up);
	}
	while (w->runs)
		drop_run(w->runs);
	for (int i = 0; i < N_SCHEDULES; i++)
		VEC_FREE(&w->known[i].pauses);
	map_free(w->runs_of);
	db_close(w->db);
	loop_free(w->loop);
	zone_set_free(w->zones);
	arena_free(w->arena);
	fs_remove_tree(w->dir, NULL);
}

static void live(uint64_t seed, size_t n_servers, int64_t days)
{
	struct world w;
	struct err err = { 0 };
	struct pipeline *p;
	size_t fired = 0;

	open_world(&w, seed, n_servers, days);
	while (now_of(&w) < w.end_ns) {
		must(loop_run(w.loop, &err), &err);
		if (w.crash)
			crash_now(&w);
	}
	load_calendars(&w, &p);
	count_runs(&w);
	for (int i = 0; i < N_SCHEDULES; i++) {
		fired += check_schedule(&w, &w.known[i]);
		check_runs(&w, &w.known[i]);
	}
	print_message("seed %llu: %zu firings, %u starts, %u crashes (%u before a run came to be), "
		      "%u resumes\n",
		      (unsigned long long)seed, fired, w.starts, w.crashes, w.never_came,
		      w.resumes);
	assert_true(fired > (size_t)days * 20 && w.crashes > 10 && w.resumes > 0 &&
		    w.never_came > 0);
	pipeline_free(p);
	close_world(&w);
}

static int64_t days_of_test(void)
{
	return MAX((int64_t)seeds_part(365), seeds_quick() ? 10 : 30);
}

static void test_year(void **state)
{
	live(1, 1, days_of_test());
}

static void test_two_servers(void **state)
{
	if (seeds_quick())
		skip();
	live(2, 2, MIN(days_of_test(), 120));
}

/* What can't be read isn't gone: no run is begun once more since nobody could look at it. */
static void test_a_disk_that_fails(void **state)
{
	if (seeds_quick())
		skip();
	blind_permille = 50;
	live(3, 1, MIN(days_of_test(), 15));
	blind_permille = 0;
	assert_true(blind_looks > 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_year),
					    cmocka_unit_test(test_two_servers),
					    cmocka_unit_test(test_a_disk_that_fails) };

	/* All connections are of this process: SQLite keeps their locks in memory, instead of
	 * asking the kernel for some of them millions of times. */
	assert_int_equal(sqlite3_vfs_register(sqlite3_vfs_find("unix-excl"), 1), SQLITE_OK);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
