/* engine/serve/schedule/run.c — from rows to runs and back: starts waiting firings, records the end
 * of runs, and takes up what other servers left.
 *
 * schedule_pump() reads the open firings of one schedule and starts those that may start. settle()
 * decides about a STARTED firing whose run may have ended. It treats runs alike that this server, a
 * dead server or another process started. Both trust only the database. scheduler_sweep() goes over
 * all open firings of a project at each poll.
 *
 * Invariants: rows are written before start() is called, and announced after the commit. Rows that
 * a decision rests on are read again inside the transaction. A `started_run` exists from start()
 * until its end is on record; if that can't be written, it stays `ended`, and each sweep tries
 * again. A firing of a live server is left alone. While the scheduler drains, nothing is started or
 * taken.
 *
 * Threads: the loop's. Not here: from a time to a firing (fire.c), processes (the owner's start()
 * and stop()).
 */
#include <stdio.h>
#include <string.h>
#include "record/rows/takeover.h"
#include "serve/schedule/internal.h"

/* Firings that were started here. */

struct started_run *scheduler_find_started(const struct scheduler_project *p, const char *path,
					   const char *schedule, int64_t nominal_ns)
{
	for (size_t i = 0; i < p->started.n; i++) {
		struct started_run *b = p->started.v[i];

		if (b->nominal_ns == nominal_ns && str_eq(b->schedule, schedule) &&
		    str_eq(b->path, path))
			return b;
	}
	return NULL;
}

void started_run_free(struct started_run *b)
{
	free(b->path);
	free(b->schedule);
	free(b->problem);
	free(b);
}

/* Starting. */

/* An interrupted run is resumed at once, but with a growing delay when it is interrupted again. */
static int64_t retry_at(const struct schedule_decl *d, const struct firing *f)
{
	if (f->run && !f->resumes)
		return f->ended_ns;
	return f->ended_ns +
	       backoff_ns(d->retry_min_ns, d->retry_max_ns, f->run ? f->resumes : f->number);
}

struct choice {
	struct firing *open;
	size_t n_open;
	VEC(size_t) start, stop; /* indices into open */
	int64_t retry_ns;        /* when to look again for a retry; INT64_MAX: never */
	bool starved;
};

static bool may_start(struct schedule *sc, struct choice *c, const struct firing *f, int64_t now)
{
	const struct scheduler *s = sc->file->project->s;

	if (!str_eq(f->server, s->server) || f->state == FIRING_STARTED)
		return false;
	if (f->state == FIRING_RETRYING && retry_at(sc->decl, f) > now) {
		c->retry_ns = MIN(c->retry_ns, retry_at(sc->decl, f));
		return false;
	}
	if (s->options.max_runs && s->running + c->start.n >= s->options.max_runs) {
		c->starved = true;
		return false;
	}
	return true;
}

/* With `allow` all waiting firings start. Else one at a time, over all servers: a running or
 * retried firing goes before waiting ones. */
static int choose(struct schedule *sc, struct arena *arena, struct choice *c, struct err *err)
{
	struct firing_filter open = { .path = sc->file->path, .schedule = sc->name, .open = true };
	bool allow = str_eq(sc->decl->overlap, "allow"), busy = false;
	int64_t now = scheduler_wall_ns(sc->file->project->s);

	c->start.n = c->stop.n = 0;
	c->retry_ns = INT64_MAX;
	c->starved = false;
	if (record_firings(sc->file->project->db, &open, arena, &c->open, &c->n_open, err) < 0)
		return -1;
	for (size_t i = 0; i < c->n_open; i++) {
		busy |= c->open[i].state != FIRING_WAITING;
		if (c->open[i].state == FIRING_STARTED && str_eq(c->open[i].message, REPLACED))
			VEC_PUSH(&c->stop, i);
	}
	for (size_t i = 0; i < c->n_open; i++) {
		const struct firing *f = &c->open[i];

		if ((allow || (f->state == FIRING_RETRYING ? busy : !busy && c->start.n == 0)) &&
		    may_start(sc, c, f, now))
			VEC_PUSH(&c->start, i);
	}
	sc->open = (unsigned)c->n_open;
	sc->starved = c->starved;
	if (c->retry_ns != INT64_MAX)
		scheduler_due_in(sc->file->project->s, &sc->retry, c->retry_ns - now);
	return 0;
}

static int write_starts(struct schedule *sc, struct choice *c, struct err *err)
{
	struct scheduler_project *p = sc->file->project;

	for (size_t i = 0; i < c->start.n; i++) {
		struct firing *f = &c->open[c->start.v[i]];

		f->state = FIRING_STARTED;
		f->number += !f->run;
		f->resumes = f->run ? f->resumes + 1 : 0;
		f->started_ns = scheduler_wall_ns(p->s);
		f->ended_ns = 0;
		f->message = NULL;
		if (record_firing_update(p->db, f, err) < 0)
			return -1;
	}
	return 0;
}

/* Cancels a run of another process or of a dead server, like `cairn cancel`. */
static int write_stops(struct schedule *sc, struct choice *c, struct arena *arena, struct err *err)
{
	struct scheduler_project *p = sc->file->project;

	for (size_t i = 0; i < c->stop.n; i++) {
		struct firing *f = &c->open[c->stop.v[i]];
		struct run_row run = { .state = RUN_FAILED };
		struct err why = { 0 };

		if (scheduler_find_started(p, f->path, f->schedule, f->nominal_ns) || !f->run)
			continue;
		if (record_find_run(p->db, f->run, arena, &run, &why) < 0 &&
		    why.code != ERR_NOT_FOUND) {
			*err = why;
			return -1;
		}
		if (run.state == RUN_RUNNING &&
		    record_run_request_cancel(p->db, run.rowid, false, err) < 0)
			return -1;
	}
	return 0;
}

static struct scheduled described(struct schedule *sc, const struct firing *f)
{
	return (struct scheduled){ .project = sc->file->project,
				   .pipeline = sc->file->pipeline,
				   .decl = sc->decl,
				   .firing = *f };
}

static void begin(struct schedule *sc, const struct firing *f)
{
	struct scheduler_project *p = sc->file->project;
	struct scheduled d = described(sc, f);
	struct started_run *b = xcalloc(1, sizeof(*b));
	struct err err = { 0 };

	*b = (struct started_run){ .path = xstrdup(f->path),
				   .schedule = xstrdup(f->schedule),
				   .nominal_ns = f->nominal_ns };
	VEC_PUSH(&p->started, b);
	p->s->counts.started++;
	p->s->running++;
	if (p->s->ops->start(p->s->arg, &d, &err) == 0)
		return;
	p->s->running--;
	b->ended = true;
	b->problem = xstrdup(err.msg);
	scheduler_due_in(p->s, &sc->retry, 0); /* not here: an immediate failure would recurse */
}

static void stop(struct schedule *sc, const struct firing *f)
{
	struct scheduler_project *p = sc->file->project;
	struct started_run *b = scheduler_find_started(p, f->path, f->schedule, f->nominal_ns);
	struct scheduled d = described(sc, f);

	if (!b || b->stopping || b->ended)
		return;
	b->stopping = true;
	if (p->s->ops->stop)
		p->s->ops->stop(p->s->arg, &d);
}

void schedule_pump(struct schedule *sc)
{
	struct scheduler_project *p = sc->file->project;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct choice c = { 0 };
	struct err err = { 0 };
	int r = 0;

	if (p->s->draining || p->s->closing || !sc->decl || sc->file->dropped)
		return;
	if (choose(sc, arena, &c, &err) < 0) {
		project_trouble(p, &err);
	} else if (c.start.n || c.stop.n) {
		r = project_begin(p);
		if (r == 0)
			r = project_end(p,
					choose(sc, arena, &c, &err) < 0 ||
							write_starts(sc, &c, &err) < 0 ||
							write_stops(sc, &c, arena, &err) < 0
						? -1
						: 0,
					&err);
		for (size_t i = 0; r == 0 && i < c.stop.n; i++)
			stop(sc, &c.open[c.stop.v[i]]);
		for (size_t i = 0; r == 0 && i < c.start.n; i++)
			begin(sc, &c.open[c.start.v[i]]);
	}
	VEC_FREE(&c.start);
	VEC_FREE(&c.stop);
	scheduler_rearm(p->s);
}

/* Ending. */

struct outcome {
	bool ended; /* the firing is closed; see `firing` */
	bool recovered;
	struct firing firing;
};

static void close_as(struct outcome *o, struct firing *f, enum firing_state state, int64_t now,
		     const char *message)
{
	f->state = state;
	f->ended_ns = now;
	f->message = message;
	o->ended = state >= FIRING_SUCCEEDED;
}

/* Whether the last firing before this one failed, or was reported as missed. */
static int has_recovered(struct schedule *sc, const struct firing *f, struct arena *arena,
			 bool *ret, struct err *err)
{
	struct firing_filter before = { .path = f->path,
					.schedule = f->schedule,
					.before_ns = f->nominal_ns,
					.ended_runs = true,
					.limit = 1 };
	struct db *db = sc->file->project->db;
	struct schedule_row row;
	struct firing *last;
	size_t n;

	if (record_firings(db, &before, arena, &last, &n, err) < 0 ||
	    record_schedule(db, f->path, f->schedule, arena, &row, err) < 0)
		return -1;
	*ret = (n && last->state == FIRING_FAILED) ||
	       ((!n || last->nominal_ns < row.alerted_ns) && row.alerted_ns <= f->nominal_ns &&
		row.alerted_ns &&
		calendar_next(&sc->calendar, row.alerted_ns - 1) == row.alerted_ns);
	return 0;
}

static void failed(struct schedule *sc, struct firing *f, const char *why, int64_t now,
		   struct outcome *o)
{
	if (sc && f->number <= sc->decl->retry_max) {
		close_as(o, f, FIRING_RETRYING, now, why);
		f->run = NULL;
		sc->file->project->s->counts.retried++;
	} else {
		close_as(o, f, FIRING_FAILED, now, why);
	}
}

static void interrupted(struct scheduler *s, struct schedule *sc, struct firing *f, int64_t now,
			struct outcome *o)
{
	if (s->draining)
		return; /* the next server continues it */
	if (!sc || f->resumes >= RESUMES_MAX)
		close_as(o, f, FIRING_FAILED, now, "its run was interrupted again and again");
	else
		close_as(o, f, FIRING_RETRYING, now, "its run was interrupted");
}

/* Call it in the transaction that ends the firing. */
static int notify_outcome(struct scheduler_project *p, struct schedule *sc, const struct outcome *o,
			  struct err *err)
{
	const struct firing *f = &o->firing;

	if (!o->ended)
		return 0;
	if (f->state == FIRING_FAILED)
		return scheduler_notify(p, SCHEDULE_ALERT_FAILED, sc, f, f->message, err);
	if (f->state == FIRING_SUCCEEDED && o->recovered)
		return scheduler_notify(p, SCHEDULE_ALERT_RECOVERED, sc, f, "it works again", err);
	return f->state == FIRING_SUCCEEDED
		       ? scheduler_notify(p, SCHEDULE_ALERT_SUCCEEDED, sc, f, "", err)
		       : 0;
}

/* Call it in a transaction; `f` is STARTED. `problem`: why there may be no run; NULL: unknown here,
 * and the firing starts again. 1 with *err: the run can't be read and may be running; nothing was
 * settled. */
static int settle(struct scheduler_project *p, struct schedule *sc, struct firing *f,
		  bool was_begun, const char *problem, struct arena *arena, struct outcome *o,
		  struct err *err)
{
	int64_t now = scheduler_wall_ns(p->s);
	bool replaced = str_eq(f->message, REPLACED);
	struct run_row run = { .state = RUN_FAILED };
	struct err why = { 0 };

	*o = (struct outcome){ 0 };
	if (f->run && record_find_run(p->db, f->run, arena, &run, &why) < 0) {
		if (why.code != ERR_NOT_FOUND) {
			*err = why;
			return 1;
		}
		run = (struct run_row){ .state = RUN_FAILED,
					.message = "its run is no longer on record" };
	} else if (!f->run) {
		run.message =
			problem ? arena_strdup(arena, problem)
				: "it began no run"; /* a copy, since it outlives `started_run` */
	}
	if (run.state == RUN_RUNNING &&
	    (record_run_engine(&run) == RUN_ENGINE_LIVES ||
	     (was_begun && record_run_engine(&run) == RUN_ENGINE_ELSEWHERE)))
		return 0; /* another process runs it (elsewhere: if its server lives) */
	if (!f->run && !was_begun && !replaced) {
		f->state = FIRING_WAITING; /* its server died before it made a run: no try */
		f->number--;
	} else if (run.state == RUN_SUCCEEDED) {
		close_as(o, f, FIRING_SUCCEEDED, now, NULL);
		if (sc && has_recovered(sc, f, arena, &o->recovered, err) < 0)
			return -1;
	} else if (replaced || run.state == RUN_CANCELLED) {
		close_as(o, f, FIRING_CANCELLED, now, replaced ? REPLACED : "cancelled");
	} else if (run.state == RUN_FAILED) {
		failed(sc, f, run.message ? run.message : "failed", now, o);
	} else {
		if (record_run_engine(&run) == RUN_ENGINE_DIED &&
		    record_run_left(p->db, &run, "its engine died", now, err) < 0)
			return -1;
		interrupted(p->s, sc, f, now, o);
	}
	o->firing = *f;
	return record_firing_update(p->db, f, err) < 0 ? -1 : notify_outcome(p, sc, o, err);
}

/* In a transaction: a firing that its own run ended after its server had died. */
static int settle_untold(struct scheduler_project *p, struct schedule *sc, struct firing *f,
			 struct arena *arena, struct outcome *o, struct err *err)
{
	int r = record_firing_reported(p->db, f, err);

	if (r <= 0)
		return r;
	o->ended = true;
	if (f->state == FIRING_FAILED && sc && f->number <= sc->decl->retry_max) {
		failed(sc, f, f->message, scheduler_wall_ns(p->s), o);
		f->server = p->s->server;
		if (record_firing_update(p->db, f, err) < 0)
			return -1;
	} else if (f->state == FIRING_SUCCEEDED && sc &&
		   has_recovered(sc, f, arena, &o->recovered, err) < 0) {
		return -1;
	}
	o->firing = *f;
	return notify_outcome(p, sc, o, err);
}

static void settle_dead_man(struct schedule *sc, const struct firing *f)
{
	if (!sc->watch_ns || f->nominal_ns < sc->watch_ns)
		return;
	sc->watch_ns = 0;
	due_clear(&sc->dead_man);
	if (sc->seen_ns > f->nominal_ns &&
	    calendar_next(&sc->calendar, sc->seen_ns - 1) == sc->seen_ns)
		schedule_arm_dead_man(sc, sc->seen_ns);
}

/* Call it after the commit. */
static void announce(struct scheduler_project *p, struct schedule *sc, const struct outcome *o)
{
	const struct firing *f = &o->firing;

	if (!o->ended)
		return;
	scheduler_note(p, sc, f, "%s%s%s", firing_state_name(f->state), f->message ? ": " : "",
		       f->message ? f->message : "");
	if (f->state == FIRING_SUCCEEDED) {
		p->s->counts.succeeded++;
		if (sc)
			settle_dead_man(sc, f);
		scheduler_alert(p,
				o->recovered ? SCHEDULE_ALERT_RECOVERED : SCHEDULE_ALERT_SUCCEEDED,
				sc, f, o->recovered ? "it works again" : "");
	} else if (f->state == FIRING_FAILED) {
		p->s->counts.failed++;
		scheduler_alert(p, SCHEDULE_ALERT_FAILED, sc, f, f->message);
	}
}

static void pump_starved(struct schedule *sc)
{
	const struct scheduler *s = sc->file->project->s;

	if (sc->starved && (!s->options.max_runs || s->running < s->options.max_runs))
		schedule_pump(sc);
}

void scheduler_finish(struct scheduler_project *p, struct started_run *b)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct schedule *sc = scheduler_find_schedule(p, b->path, b->schedule);
	struct outcome o = { 0 };
	struct err err = { 0 };
	struct firing f;
	int r = project_begin(p);

	if (r == 0) {
		r = record_firing(p->db, b->path, b->schedule, b->nominal_ns, arena, &f, &err);
		if (r > 0 && f.state == FIRING_STARTED && str_eq(f.server, p->s->server))
			r = settle(p, sc, &f, true, b->problem, arena, &o, &err) == 0 ? 0 : -1;
		r = project_end(p, MIN(r, 0), &err);
	}
	if (r < 0)
		return; /* it stays `ended`; the next sweep tries again */
	for (size_t i = 0; i < p->started.n; i++)
		if (p->started.v[i] == b)
			p->started.v[i--] = p->started.v[--p->started.n];
	started_run_free(b);
	announce(p, sc, &o);
	if (sc)
		schedule_pump(sc);
	if (p->s->options.max_runs)
		scheduler_each_schedule(p->s, pump_starved);
}

static void finish_ended(struct scheduler_project *p)
{
	for (size_t i = 0; i < p->started.n;) {
		size_t n = p->started.n;

		if (p->started.v[i]->ended)
			scheduler_finish(p, p->started.v[i]);
		if (p->started.n == n)
			i++;
		else if (p->started.n > n)
			break; /* a firing was started: the next look does the rest */
	}
}

void scheduler_on_retry(void *arg)
{
	struct schedule *sc = arg;

	finish_ended(sc->file->project);
	schedule_pump(sc);
}

/* What other servers left. */

/* 1: no live server has the firing, or we do; 0: another live server does. */
static int is_ours_to_take(struct scheduler_project *p, const struct firing *f, struct err *err)
{
	struct scheduler *s = p->s;
	bool lives;

	if (!f->server || str_eq(f->server, s->server))
		return 1;
	if (s->options.server_lives)
		return !s->options.server_lives(s->arg, f->server);
	return peers_lives(p->peers, p->db, f->server, scheduler_mono_ns(s), &lives, err) < 0
		       ? -1
		       : !lives;
}

static bool file_is_certain(const struct scheduler_project *p, const char *path)
{
	const struct watched_file *f = scheduler_find_file(p, path);

	return f && f->pipeline && !f->broken && !f->dropped;
}

/* The clock went back after the failure: the pause would last until the old time comes again. */
static bool failed_in_the_future(const struct scheduler_project *p, const struct firing *f)
{
	return f->state == FIRING_RETRYING && f->ended_ns > scheduler_wall_ns(p->s);
}

/* Handles one open firing: takes it if nobody has it, settles it if its run may have ended. When a
 * run can't be read, sets only *ret_unread, so that the other firings go on. */
static int sweep_one(struct scheduler_project *p, struct firing *f, struct arena *arena,
		     struct outcome *o, struct err *ret_unread, struct err *err)
{
	struct schedule *sc = scheduler_find_schedule(p, f->path, f->schedule);
	bool mine = str_eq(f->server, p->s->server);
	int r = is_ours_to_take(p, f, err);

	if (r <= 0 || (!sc && !file_is_certain(p, f->path)))
		return MIN(r, 0);
	if (!mine) {
		r = record_firing_take(p->db, f, f->server, p->s->server, err);
		if (r <= 0)
			return r; /* another server was first */
		p->s->counts.taken_up++;
		f->server = p->s->server;
		scheduler_note(p, sc, f, "taken up");
	}
	if (!sc && f->state != FIRING_STARTED) {
		close_as(o, f, FIRING_CANCELLED, scheduler_wall_ns(p->s), "its schedule is gone");
		o->firing = *f;
		return record_firing_update(p->db, f, err);
	}
	if (failed_in_the_future(p, f)) {
		f->ended_ns = scheduler_wall_ns(p->s);
		return record_firing_update(p->db, f, err);
	}
	if (f->state != FIRING_STARTED ||
	    scheduler_find_started(p, f->path, f->schedule, f->nominal_ns))
		return 0;
	r = settle(p, sc, f, !sc, NULL, arena, o, err);
	if (r > 0)
		*ret_unread = *err;
	return MIN(r, 0);
}

/* Whether there is anything to write: if not, the look takes no lock. */
static bool needs_sweep(struct scheduler_project *p, const struct firing *f)
{
	if (!str_eq(f->server, p->s->server))
		return is_ours_to_take(p, f, NULL) > 0;
	if (failed_in_the_future(p, f))
		return true;
	return f->state == FIRING_STARTED
		       ? !scheduler_find_started(p, f->path, f->schedule, f->nominal_ns)
		       : !scheduler_find_schedule(p, f->path, f->schedule);
}

static void pump_of(struct scheduler_project *p, const struct firing *open, size_t n)
{
	_cleanup_(map_freep) struct map *seen = map_new();

	for (size_t i = 0; i < n; i++) {
		struct schedule *sc = scheduler_find_schedule(p, open[i].path, open[i].schedule);
		bool is_new;

		map_slot(seen, &sc, sizeof(sc), &is_new);
		if (sc && is_new)
			schedule_pump(sc);
	}
}

static void sweep_untold(struct scheduler_project *p)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct firing *rows;
	struct err err = { 0 };
	size_t n;

	if (record_firings_unreported(p->db, arena, &rows, &n, &err) < 0) {
		project_trouble(p, &err);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		struct schedule *sc = scheduler_find_schedule(p, rows[i].path, rows[i].schedule);
		struct outcome o = { 0 };

		if (!sc && !file_is_certain(p, rows[i].path))
			continue;
		if (project_begin(p) < 0 ||
		    project_end(p, settle_untold(p, sc, &rows[i], arena, &o, &err), &err) < 0)
			return;
		announce(p, sc, &o);
		if (sc)
			schedule_pump(sc);
	}
}

void scheduler_sweep(struct scheduler_project *p)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct firing_filter filter = { .open = true };
	struct outcome *outcomes;
	struct firing *open;
	struct err err = { 0 }, unread = { 0 };
	bool any = false;
	size_t n;
	int r;

	finish_ended(p);
	if (p->s->draining)
		return;
	sweep_untold(p);
	if (record_firings(p->db, &filter, arena, &open, &n, &err) < 0) {
		project_trouble(p, &err);
		return;
	}
	for (size_t i = 0; i < n && !any; i++)
		any = needs_sweep(p, &open[i]);
	if (any) {
		if (project_begin(p) < 0)
			return;
		r = record_firings(p->db, &filter, arena, &open, &n, &err);
		outcomes = arena_alloc(arena, (n + 1) * sizeof(*outcomes));
		for (size_t i = 0; r == 0 && i < n; i++)
			if (sweep_one(p, &open[i], arena, &outcomes[i], &unread, &err) < 0)
				r = -1;
		if (project_end(p, r, &err) < 0)
			return;
		if (unread.code)
			project_trouble(p, &unread);
		for (size_t i = 0; i < n; i++)
			announce(p, scheduler_find_schedule(p, open[i].path, open[i].schedule),
				 &outcomes[i]);
	}
	pump_of(p, open, n);
}
