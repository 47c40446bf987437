/* Runs that runs cause, and deliveries, on a virtual clock with servers that crash: each event has
 * exactly one firing, and that one exactly one run.
 *
 * A chain of pipelines: the test runs `a` by itself, `b` follows each success of it, `c` each end
 * of `b`, `h` each delivery. Runs are rows that a timer ends, as in test_schedules.c. Servers come
 * and go; sometimes nobody is there when runs end, for days. */
#include "unit.h"

#include <stdio.h>
#include <string.h>
#include "base/os/fs.h"
#include "base/os/process/process.h"
#include "core/seeds.h"
#include "record/db_sql.h"
#include "serve/schedule/scheduler.h"

#define START_NS   (1767225600 * NS_PER_S)
#define DELIVERIES 40

struct world;

struct server {
	struct world *w;
	struct scheduler *s;
	struct scheduler_project *p;
	struct db *db;
	char name[24];
};

struct fake_run {
	struct world *w;
	char server[24]; /* who waits for it */
	char schedule[8];
	struct run_row row;
};

struct world {
	struct clock clock;
	struct loop *loop;
	struct arena *arena;
	struct db *db;
	char dir[TEST_DIR_MAX], host[256];
	struct server servers[2];
	uint64_t random;
	unsigned generation, running, crashes, starts;
	int64_t nominal[DELIVERIES]; /* of each delivery that was answered */
};

static uint64_t rnd(struct world *w, uint64_t n)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	w->random ^= w->random << 17;
	return w->random % n;
}

static void must(int r, const struct err *err)
{
	if (r < 0)
		fail_msg("%s", err->msg);
}

/* Runs. */

static void on_end(void *arg)
{
	struct fake_run *r = arg;
	struct world *w = r->w;
	struct err err = { 0 };

	r->row.state = rnd(w, 3) ? RUN_SUCCEEDED : RUN_FAILED;
	r->row.ended_ns = w->clock.now_ns;
	must(db_begin(w->db, &err), &err);
	must(record_run_update(w->db, &r->row, &err), &err);
	if (*r->schedule)
		must(record_firing_ended(w->db, &r->row, w->arena, &err), &err);
	must(db_commit(w->db, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(w->servers); i++)
		if (w->servers[i].s && str_eq(w->servers[i].name, r->server))
			scheduler_run_ended(w->servers[i].s, w->servers[i].p, r->row.path,
					    r->schedule, r->row.nominal_ns, NULL);
	w->running--;
	free(r);
}

static void begin(struct world *w, const char *pipeline, const struct firing *f, const char *server)
{
	struct fake_run *r = xcalloc(1, sizeof(*r));
	struct err err = { 0 };

	r->w = w;
	snprintf(r->server, sizeof(r->server), "%s", server);
	snprintf(r->schedule, sizeof(r->schedule), "%s", f ? f->schedule : "");
	r->row = (struct run_row){ .pipeline = pipeline,
				   .path = arena_printf(w->arena, "%s.yaml", pipeline),
				   .started_ns = w->clock.now_ns,
				   .engine.pid = (int32_t)getpid(),
				   .engine.start = process_start_time(getpid()),
				   .engine.host = w->host };
	if (f) {
		r->row.schedule = arena_strdup(w->arena, f->schedule);
		r->row.nominal_ns = f->nominal_ns;
	}
	must(db_begin(w->db, &err), &err);
	must(record_run_add(w->db, &r->row, w->arena, &err), &err);
	if (f) {
		struct firing_begin b = { .path = r->row.path,
					  .schedule = r->row.schedule,
					  .nominal_ns = f->nominal_ns,
					  .wall_ns = w->clock.now_ns,
					  .run = r->row.id };

		must(record_firing_begin(w->db, &b, w->arena, &err), &err);
	}
	must(db_commit(w->db, &err), &err);
	w->running++;
	loop_add_timer(w->loop, w->clock.now_ns + (int64_t)rnd(w, 600) * NS_PER_S, on_end, r);
}

static int start(void *arg, const struct scheduled *d, struct err *err)
{
	struct server *server = arg;

	server->w->starts++;
	assert_null(d->firing.run); /* no run here is ever interrupted */
	begin(server->w, d->pipeline->name, &d->firing, server->name);
	return 0;
}

static void on_alert(void *arg, enum schedule_alert kind, const struct scheduled *d,
		     const char *text)
{
	if (kind == SCHEDULE_ALERT_TROUBLE || kind == SCHEDULE_ALERT_RELOAD_BROKEN)
		fail_msg("alert: %s", text);
}

static const struct scheduler_ops ops = { .start = start, .alert = on_alert };

/* Servers. */

static bool server_lives(void *arg, const char *name)
{
	struct world *w = ((struct server *)arg)->w;

	for (size_t i = 0; i < ARRAY_LEN(w->servers); i++)
		if (w->servers[i].s && str_eq(w->servers[i].name, name))
			return true;
	return false;
}

static void server_up(struct server *server)
{
	static const char *const files[] = { "a.yaml", "b.yaml", "c.yaml", "h.yaml" };
	struct world *w = server->w;
	struct scheduler_options o = { .server = server->name,
				       .server_lives = server_lives,
				       .poll_ns = 30 * NS_PER_S };
	_cleanup_(freep) char *path = xasprintf("%s/cairn.db", w->dir);
	struct err err = { 0 };

	snprintf(server->name, sizeof(server->name), "server-%u", ++w->generation);
	must(db_open(path, DB_WRITE, &server->db, &err), &err);
	must(scheduler_new(w->loop, &ops, server, &o, &server->s, &err), &err);
	must(scheduler_add_project(server->s, w->dir, NULL, server->db, w, &server->p, &err), &err);
	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		assert_int_equal(scheduler_add_pipeline(server->p, files[i], &err), 0);
}

static void server_down(struct server *server)
{
	scheduler_free(server->s);
	server->s = NULL;
	db_close(server->db);
	server->w->crashes++;
}

/* The same delivery, to whichever server, at any time, is the same firing. */
static void deliver(struct world *w, struct server *server)
{
	size_t n = rnd(w, DELIVERIES);
	_cleanup_(freep) char *id = xasprintf("msg_%zu", n);
	struct firing f;
	struct err err = { 0 };

	must(scheduler_deliver(server->p, "h.yaml", "hook", id, w->arena, &f, &err), &err);
	assert_true(w->nominal[n] == 0 || w->nominal[n] == f.nominal_ns);
	w->nominal[n] = f.nominal_ns;
}

static void stop_loop(void *arg)
{
	loop_stop(((struct world *)arg)->loop);
}

static void pass(struct world *w, int64_t seconds)
{
	struct err err = { 0 };

	loop_add_timer(w->loop, w->clock.now_ns + seconds * NS_PER_S, stop_loop, w);
	must(loop_run(w->loop, &err), &err);
}

/* What happens next. */
static void happen(struct world *w)
{
	struct server *server = &w->servers[rnd(w, 2)];

	switch (rnd(w, 6)) {
	case 0:
		server->s ? server_down(server) : server_up(server);
		break;
	case 1:
		if (server->s)
			deliver(w, server);
		break;
	default:
		begin(w, "a", NULL, "");
	}
	pass(w, rnd(w, 20) ? (int64_t)rnd(w, 400) : (int64_t)rnd(w, 86400));
}

/* What came of it. */

static int64_t count(struct world *w, const char *sql)
{
	struct err err = { 0 };
	int64_t n = -1;

	must(db_get(w->db, sql, DB_IN(), NULL, DB_OUT(&n), &err), &err);
	return n;
}

static void check(struct world *w)
{
	int64_t answered = 0;

	/* runs of `path` that end as they must, and have not exactly one run that names them */
#define LOST(of, by, states)                                                                  \
	"SELECT count(*) FROM run r WHERE r.path = '" of "' AND r.state IN (" states ") AND " \
	"1 <> (SELECT count(*) FROM firing f JOIN run n ON n.id = f.run WHERE f.path = '" by  \
	"' AND f.event = 'run:' || r.id AND n.path = f.path AND n.nominal_ns = f.nominal_ns)"
	assert_int_equal(count(w, LOST("a.yaml", "b.yaml", "1")), 0);
	assert_int_equal(count(w, LOST("b.yaml", "c.yaml", "1, 2")), 0);
	for (size_t i = 0; i < DELIVERIES; i++)
		answered += w->nominal[i] != 0;
	assert_int_equal(count(w, "SELECT count(*) FROM run WHERE path = 'h.yaml'"), answered);
	assert_int_equal(count(w, "SELECT count(*) FROM run WHERE path = 'b.yaml'"),
			 count(w, "SELECT count(*) FROM run WHERE path = 'a.yaml' AND state = 1"));
	assert_int_equal(count(w, "SELECT count(*) FROM run WHERE path = 'c.yaml'"),
			 count(w, "SELECT count(*) FROM run WHERE path = 'b.yaml'"));
	assert_int_equal(count(w, "SELECT count(*) FROM firing WHERE state < 3 OR event IS NULL"),
			 0);
	print_message("%lld runs, %u of them started by %u servers\n",
		      (long long)count(w, "SELECT count(*) FROM run"), w->starts, w->generation);
	assert_true(answered > 2 && w->crashes > 5);
}

static void write_file(const struct world *w, const char *pipeline, const char *schedule)
{
	_cleanup_(freep) char *path = xasprintf("%s/%s.yaml", w->dir, pipeline),
			      *text = xasprintf("pipeline: %s\nsteps: {s: {run: x}}\n%s", pipeline,
						schedule);

	assert_int_equal(fs_write_atomic(path, text, strlen(text), NULL), 0);
}

static void live(uint64_t seed, unsigned events)
{
	struct world w = { .random = seed * 0x9e3779b97f4a7c15ULL + 1 };
	_cleanup_(freep) char *path = NULL;
	struct err err = { 0 };

	test_dir_in_memory(w.dir, sizeof(w.dir), "events");
	clock_virtual_init(&w.clock, START_NS);
	must(loop_new(&w.clock, &w.loop, &err), &err);
	gethostname(w.host, sizeof(w.host) - 1);
	w.arena = arena_new();
	path = xasprintf("%s/cairn.db", w.dir);
	must(db_open(path, DB_WRITE, &w.db, &err), &err);
	write_file(&w, "a", "");
	write_file(&w, "b", "schedules: {next: {on: {pipeline: a.yaml}}}\n");
	write_file(&w, "c", "schedules: {next: {on: {pipeline: b.yaml, state: any}}}\n");
	write_file(&w, "h", "schedules: {hook: {on: {webhook: h, secret: S}}}\n");
	for (size_t i = 0; i < ARRAY_LEN(w.servers); i++)
		w.servers[i].w = &w;
	server_up(&w.servers[0]); /* a schedule begins when a server sees it first */
	for (unsigned i = 0; i < events; i++)
		happen(&w);
	if (!w.servers[0].s)
		server_up(&w.servers[0]);
	pass(&w, (int64_t)events * 2000); /* those that wait go one after the other */
	assert_int_equal(w.running, 0);
	check(&w);
	for (size_t i = 0; i < ARRAY_LEN(w.servers); i++)
		if (w.servers[i].s)
			server_down(&w.servers[i]);
	db_close(w.db);
	loop_free(w.loop);
	arena_free(w.arena);
	fs_remove_tree(w.dir, NULL);
}

static void test_chains(void **state)
{
	for (uint64_t seed = 1; seed <= (seeds_quick() ? 1 : 3); seed++)
		live(seed, 150);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_chains) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
