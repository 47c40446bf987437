/* engine/serve/schedule/fire.c — from a time to rows: which nominal times are due, which of them
 * become firings, and other due work (the dead man's check, looks at inputs).
 *
 * Everything is decided in one transaction from the schedule's row, which another server or the
 * command line may have changed. collect_due() sorts due times into three groups: too old to run
 * (`old`), more than may run (`over`), and to be run (a ring of the newest). claim() makes a
 * firing's row, or records it as skipped; claim_missed() makes one row for many that weren't run.
 * schedule_pump() starts firings afterwards.
 *
 * Invariants: each nominal time up to `seen_ns` has a row or is counted by one, except during a
 * pause. A claim that finds a row came after another server's, and does nothing. `overlap` looks
 * only at firings that were open before this batch. A nominal time without a success is reported
 * once (`alerted_ns`).
 *
 * Threads: the loop's. Not here: runs (run.c), the calendar (calendar.c).
 */
#include <stdio.h>
#include <string.h>
#include "serve/schedule/internal.h"

/* Due times. */

/* Several nominal times in one row. */
struct span {
	int64_t first, last;
	uint64_t n;
};

/* Nominal times after the last handled one whose due time has come, ascending: `old`, too old to be
 * run; `over`, more than the `max` that `catch_up` lets run; and in a ring the newest, which are
 * run. */
struct due_times {
	int64_t v[CATCH_UP_MAX];
	size_t begin, n, max;
	struct span old, over;
	int64_t newest; /* 0: none */
};

static int64_t due_at(const struct schedule *sc, int64_t nominal)
{
	return calendar_due(&sc->calendar, sc->file->path, sc->name, nominal, sc->decl->jitter_ns);
}

static void span_add(struct span *s, int64_t nominal)
{
	if (!s->n++)
		s->first = nominal;
	s->last = nominal;
}

static void add_due(struct due_times *t, int64_t nominal)
{
	if (t->n == t->max) {
		span_add(&t->over, t->v[t->begin]);
		t->begin = (t->begin + 1) % CATCH_UP_MAX;
		t->n--;
	}
	t->v[(t->begin + t->n++) % CATCH_UP_MAX] = nominal;
}

/* After years of absence, at most COUNT_MAX old times are counted one by one; the span has all. */
static void collect_due(const struct schedule *sc, int64_t seen, int64_t now, struct due_times *t)
{
	const struct schedule_decl *d = sc->decl;
	int64_t window = str_eq(d->catch_up, "none") ? GRACE_NS
			 : d->catch_up_window_ns     ? d->catch_up_window_ns
						     : CATCH_UP_WINDOW_NS;
	int64_t oldest = now - window, nominal = calendar_next(&sc->calendar, seen);

	t->max = str_eq(d->catch_up, "all") ? CATCH_UP_MAX : 1;
	for (; nominal != CALENDAR_NEVER && nominal <= now;
	     nominal = calendar_next(&sc->calendar, nominal)) {
		int64_t due = due_at(sc, nominal);

		if (due > now)
			break; /* later ones aren't due either: they keep their order */
		t->newest = nominal;
		if (due >= oldest)
			add_due(t, nominal);
		else
			span_add(&t->old, nominal);
		if (t->old.n >= COUNT_MAX && t->n == 0) {
			int64_t skip_to = calendar_previous(&sc->calendar, oldest - d->jitter_ns);

			if (skip_to > nominal)
				nominal = t->newest = t->old.last = skip_to;
		}
	}
}

/* Claims. */

struct claims {
	struct schedule *sc;
	struct db *db;
	struct arena *arena;
	int64_t now;
	struct firing *open; /* open before this batch */
	size_t n_before;
	size_t n_open; /* including this batch */
	bool any;      /* a firing may be started */
};

static int find_open(struct claims *c, struct err *err)
{
	struct firing_filter open = { .path = c->sc->file->path,
				      .schedule = c->sc->name,
				      .open = true };

	if (record_firings(c->db, &open, c->arena, &c->open, &c->n_before, err) < 0)
		return -1;
	c->n_open = c->n_before;
	return 0;
}

/* Drops waiting firings. schedule_pump() sees the message on the running one and asks it to
 * stop. */
static int replace_open(struct claims *c, int64_t by, struct err *err)
{
	for (size_t i = 0; i < c->n_before; i++) {
		struct firing *f = &c->open[i];

		if (f->state != FIRING_STARTED) {
			if (f->nominal_ns >= by)
				continue;
			f->state = f->state == FIRING_WAITING ? FIRING_SKIPPED : FIRING_CANCELLED;
			f->ended_ns = c->now;
		}
		f->message = REPLACED;
		if (record_firing_update(c->db, f, err) < 0)
			return -1;
	}
	return 0;
}

/* `overlap` looks at firings that were open before: caught-up firings always wait for each
 * other. */
static int claim(struct claims *c, int64_t nominal, enum firing_cause cause, const char *event,
		 struct err *err)
{
	struct schedule *sc = c->sc;
	struct scheduler *s = sc->file->project->s;
	struct firing f = { .path = sc->file->path,
			    .schedule = sc->name,
			    .nominal_ns = nominal,
			    .cause = cause,
			    .state = FIRING_WAITING,
			    .claimed_ns = c->now,
			    .server = s->server,
			    .event = event };
	bool plain = cause == FIRING_TIME || cause == FIRING_CHANGE || cause == FIRING_EVENT;
	int r;

	if (c->n_open >= OPEN_MAX) {
		f.state = FIRING_SKIPPED;
		f.message = "too many firings of this schedule wait";
	} else if (plain && c->n_before && str_eq(sc->decl->overlap, "skip")) {
		f.state = FIRING_SKIPPED;
		f.message = arena_printf(c->arena, "%s was still running",
					 c->open[0].run ? c->open[0].run : "the firing before");
	}
	r = record_firing_claim(c->db, &f, err);
	if (r <= 0)
		return r; /* another server was first */
	if (f.state == FIRING_SKIPPED) {
		s->counts.skipped++;
		scheduler_note(sc->file->project, sc, &f, "skipped: %s", f.message);
		return 1;
	}
	if (plain && c->n_before && str_eq(sc->decl->overlap, "replace") &&
	    replace_open(c, nominal, err) < 0)
		return -1;
	s->counts.fired++;
	c->any = true;
	c->n_open++;
	return 1;
}

/* Records that nothing ran for these times. If the clock was ahead and the last one's time comes
 * again, its firing replaces this row. */
static int claim_missed(struct claims *c, const struct span *span, const char *message,
			struct err *err)
{
	struct scheduler_project *p = c->sc->file->project;
	struct firing f = { .path = c->sc->file->path,
			    .schedule = c->sc->name,
			    .nominal_ns = span->last,
			    .cause = FIRING_TIME,
			    .state = FIRING_MISSED,
			    .claimed_ns = c->now,
			    .first_ns = span->first,
			    .times = span->n,
			    .message = message };

	if (span->n == 0)
		return 0;
	if (record_firing_missed(c->db, &f, err) < 0)
		return -1;
	p->s->counts.missed += span->n;
	if (span->n == 1)
		scheduler_note(p, c->sc, &f, "missed: %s", message);
	else
		scheduler_note(p, c->sc, &f, "missed %llu nominal times: %s",
			       (unsigned long long)span->n, message);
	return 0;
}

/* Gives every due nominal time a row, or a row that counts it. */
static int claim_due(struct claims *c, const struct due_times *t, struct err *err)
{
	const char *why = t->max == 1 ? "only the newest of those that were due is run"
				      : "more than 1000 were due at once";

	if (claim_missed(c, &t->old, "no server ran at that time", err) < 0 ||
	    claim_missed(c, &t->over, why, err) < 0)
		return -1;
	for (size_t i = 0; i < t->n; i++) {
		int64_t nominal = t->v[(t->begin + i) % CATCH_UP_MAX];
		bool on_time = i == t->n - 1 && c->now - due_at(c->sc, nominal) <= GRACE_NS;

		if (claim(c, nominal, on_time ? FIRING_TIME : FIRING_CATCH_UP, NULL, err) < 0)
			return -1;
	}
	return 0;
}

/* Fire a schedule. */

/* Another server or the command line may have handled more than we know. */
static int fire_from_row(struct claims *c, struct schedule_row *row, struct due_times *t,
			 struct err *err)
{
	struct schedule *sc = c->sc;

	if (record_schedule(c->db, sc->file->path, sc->name, c->arena, row, err) < 0)
		return -1;
	sc->paused_ns = row->paused_ns;
	collect_due(sc, row->seen_ns, c->now, t);
	if (!t->newest)
		return 0;
	if (!row->paused_ns && (find_open(c, err) < 0 || claim_due(c, t, err) < 0))
		return -1;
	row->seen_ns = t->newest;
	if (row->paused_ns)
		row->alerted_ns = t->newest;
	return record_schedule_put(c->db, row, err);
}

void scheduler_on_fire(void *arg)
{
	struct schedule *sc = arg;
	struct scheduler_project *p = sc->file->project;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct claims c = { .sc = sc, .db = p->db, .arena = arena, .now = scheduler_wall_ns(p->s) };
	struct due_times *t = arena_alloc(arena, sizeof(*t));
	struct schedule_row row = { 0 };
	struct err err = { 0 };

	p->s->counts.lag_ns = MAX(c.now - sc->due_ns, 0);
	if (project_begin(p) < 0 || project_end(p, fire_from_row(&c, &row, t, &err), &err) < 0) {
		scheduler_due_in(p->s, &sc->fire, AGAIN_NS);
		return;
	}
	sc->seen_ns = row.seen_ns;
	schedule_arm(sc);
	if (t->newest && !row.paused_ns)
		schedule_arm_dead_man(sc, t->newest);
	if (c.any)
		schedule_pump(sc);
}

int schedule_claim(struct schedule *sc, int64_t nominal, enum firing_cause cause, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct claims c = { .sc = sc,
			    .db = sc->file->project->db,
			    .arena = arena,
			    .now = scheduler_wall_ns(sc->file->project->s) };

	return find_open(&c, err) < 0 ? -1 : claim(&c, nominal, cause, NULL, err);
}

/* Makes a nominal time wait, unless it has succeeded or is under way. 1: it has to be run. */
static int backfill(struct claims *c, int64_t nominal, bool dry_run, struct err *err)
{
	struct firing f = { .path = c->sc->file->path,
			    .schedule = c->sc->name,
			    .nominal_ns = nominal,
			    .cause = FIRING_BACKFILL,
			    .state = FIRING_WAITING,
			    .claimed_ns = c->now,
			    .server = c->sc->file->project->s->server };
	struct firing old;
	int r = record_firing(c->db, f.path, f.schedule, nominal, c->arena, &old, err);

	if (r < 0 || (r > 0 && old.state <= FIRING_SUCCEEDED))
		return MIN(r, 0);
	if (c->n_open++ >= OPEN_MAX)
		return err_set(err, ERR_BUSY, "more than %d firings of the schedule would wait",
			       OPEN_MAX);
	if (dry_run)
		return 1;
	f.number = r > 0 ? old.number : 0;
	r = record_firing_claim(c->db, &f, err);
	if (r == 0) /* it didn't succeed: once more */
		r = record_firing_update(c->db, &f, err);
	if (r < 0)
		return -1;
	c->sc->file->project->s->counts.fired++;
	return 1;
}

int schedule_backfill(struct schedule *sc, const struct scheduler_range *range, struct arena *arena,
		      int64_t **ret, size_t *ret_n, struct err *err)
{
	struct claims c = { .sc = sc,
			    .db = sc->file->project->db,
			    .arena = arena,
			    .now = scheduler_wall_ns(sc->file->project->s) };
	int64_t *times = arena_alloc(arena, BACKFILL_MAX * sizeof(*times));
	int64_t to_ns = MIN(range->to_ns, c.now); /* later ones fire by themselves */
	size_t n = 0, looked = 0;

	if (find_open(&c, err) < 0)
		return -1;
	for (int64_t t = calendar_next(&sc->calendar, range->from_ns - 1);
	     t != CALENDAR_NEVER && t <= to_ns; t = calendar_next(&sc->calendar, t)) {
		int r;

		if (looked++ == BACKFILL_MAX)
			return err_set(err, ERR_TOO_LARGE,
				       "there are more than %d times in this range: take a shorter "
				       "one",
				       BACKFILL_MAX);
		r = backfill(&c, t, range->dry_run, err);
		if (r < 0)
			return -1;
		if (r > 0)
			times[n++] = t;
	}
	*ret = times;
	*ret_n = n;
	return 0;
}

/* Events. */

/* A firing for the event, if it has none yet. An event isn't a nominal time: of two at one time the
 * second gets the next free nanosecond. */
static int claim_event(struct claims *c, const char *event, int64_t at_ns, enum firing_cause cause,
		       struct err *err)
{
	struct schedule *sc = c->sc;
	struct firing f;
	int r = record_firing_of_event(c->db, sc->file->path, sc->name, event, c->arena, &f, err);

	if (r != 0)
		return MIN(r, 0);
	for (int64_t nominal = at_ns; r == 0; nominal++)
		r = claim(c, nominal, cause, event, err);
	return r;
}

int schedule_claim_event(struct schedule *sc, const char *event, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	int64_t now = scheduler_wall_ns(sc->file->project->s);
	struct claims c = { .sc = sc, .db = sc->file->project->db, .arena = arena, .now = now };

	return find_open(&c, err) < 0 ? -1 : claim_event(&c, event, now, FIRING_EVENT, err);
}

static bool is_awaited(const struct event_decl *on, const struct ended_run *e)
{
	return str_eq(on->state, "any") ||
	       e->state == (str_eq(on->state, "failed") ? RUN_FAILED : RUN_SUCCEEDED);
}

static int claim_end(struct claims *c, const struct ended_run *e, struct err *err)
{
	const char *event = arena_printf(c->arena, FIRING_EVENT_RUN "%s", e->run);
	bool on_time = c->now - e->ended_ns <= GRACE_NS;

	return claim_event(c, event, MIN(e->ended_ns, c->now),
			   on_time ? FIRING_EVENT : FIRING_CATCH_UP, err);
}

/* Ends up to `until`, as times that are due: `catch_up` says which of those that come late are
 * run. Those from before the schedule began, or from a pause, fire nothing. */
static int claim_ends(struct claims *c, const struct schedule_row *row, int64_t until,
		      struct err *err)
{
	const struct schedule_decl *d = c->sc->decl;
	int64_t window = str_eq(d->catch_up, "none") ? GRACE_NS
			 : d->catch_up_window_ns     ? d->catch_up_window_ns
						     : CATCH_UP_WINDOW_NS;
	size_t n, n_due = 0, max = str_eq(d->catch_up, "all") ? CATCH_UP_MAX : 1;
	struct span old = { 0 }, over = { 0 };
	struct ended_run *ends;

	if (record_ends(c->db, d->on.pipeline, row->seen_end, until, c->arena, &ends, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		bool counts = ends[i].ended_ns > row->seen_ns && is_awaited(&d->on, &ends[i]);

		if (counts && ends[i].ended_ns >= c->now - window)
			ends[n_due++] = ends[i];
		else if (counts)
			span_add(&old, ends[i].ended_ns);
	}
	for (size_t i = 0; i + max < n_due; i++)
		span_add(&over, ends[i].ended_ns);
	if (claim_missed(c, &old, "no server ran when these runs ended", err) < 0 ||
	    claim_missed(c, &over, "only the newest of the runs that had ended are followed", err) <
		    0)
		return -1;
	for (size_t i = n_due > max ? n_due - max : 0; i < n_due; i++)
		if (claim_end(c, &ends[i], err) < 0)
			return -1;
	return 0;
}

static int fire_from_ends(struct claims *c, int64_t until, struct err *err)
{
	struct schedule *sc = c->sc;
	struct schedule_row row;

	if (record_schedule(c->db, sc->file->path, sc->name, c->arena, &row, err) < 0)
		return -1;
	sc->paused_ns = row.paused_ns;
	if (row.seen_end >= until)
		return 0;
	if (!row.paused_ns && (find_open(c, err) < 0 || claim_ends(c, &row, until, err) < 0))
		return -1;
	row.seen_end = until;
	return record_schedule_put(c->db, &row, err);
}

void schedule_poll_ends(struct schedule *sc, int64_t until)
{
	struct scheduler_project *p = sc->file->project;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct claims c = { .sc = sc, .db = p->db, .arena = arena, .now = scheduler_wall_ns(p->s) };
	struct err err = { 0 };

	if (!sc->decl || !sc->decl->on.pipeline || sc->unusable || sc->file->dropped ||
	    sc->seen_end >= until)
		return;
	if (project_begin(p) < 0 || project_end(p, fire_from_ends(&c, until, &err), &err) < 0)
		return; /* the next poll tries again */
	sc->seen_end = until;
	if (c.any)
		schedule_pump(sc);
}

/* Dead man. */

/* 1: the alert is due, and is on record now; 0: it isn't due. Call it in a transaction. */
static int is_missed(struct schedule *sc, const struct firing *of, const char *text,
		     struct arena *arena, struct err *err)
{
	struct firing_filter since = { .path = sc->file->path,
				       .schedule = sc->name,
				       .since_ns = sc->watch_ns,
				       .ended_runs = true };
	struct schedule_row row;
	struct firing *f;
	size_t n;

	if (record_schedule(sc->file->project->db, sc->file->path, sc->name, arena, &row, err) <
		    0 ||
	    record_firings(sc->file->project->db, &since, arena, &f, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (f[i].state == FIRING_SUCCEEDED)
			return 0;
	if (row.paused_ns || row.alerted_ns >= sc->watch_ns)
		return 0;
	row.alerted_ns = sc->watch_ns;
	if (record_schedule_put(sc->file->project->db, &row, err) < 0)
		return -1;
	return scheduler_notify(sc->file->project, SCHEDULE_ALERT_MISSED, sc, of, text, err) < 0
		       ? -1
		       : 1;
}

void scheduler_on_dead_man(void *arg)
{
	struct schedule *sc = arg;
	struct scheduler_project *p = sc->file->project;
	struct firing of = { .path = sc->file->path,
			     .schedule = sc->name,
			     .nominal_ns = sc->watch_ns };
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err err = { 0 };
	int r = project_begin(p);

	str_addf(&text, "no run of schedule %s has succeeded for ", sc->name);
	text_add_time(&text, sc->watch_ns, 0);
	str_add(&text, " or later, ");
	text_add_duration(&text, sc->decl->alert_after_ns);
	str_add(&text, " after that time");
	if (r == 0)
		r = project_end(p, is_missed(sc, &of, text.s, arena, &err), &err);
	if (r < 0) {
		scheduler_due_in(p->s, &sc->dead_man, AGAIN_NS);
		return;
	}
	if (r > 0) {
		p->s->counts.missed++;
		scheduler_alert(p, SCHEDULE_ALERT_MISSED, sc, &of, text.s);
	}
	sc->watch_ns = 0;
}

/* Inputs. */

/* A change counts when two looks give the same digest: a copy in progress isn't a change yet. While
 * an earlier firing is open and `overlap` is skip, the change waits: it isn't lost. */
static int fire_if_changed(struct claims *c, const char *hex, struct err *err)
{
	struct schedule *sc = c->sc;
	struct schedule_row row;
	int64_t nominal = c->now;
	int r;

	if (record_schedule(c->db, sc->file->path, sc->name, c->arena, &row, err) < 0 ||
	    find_open(c, err) < 0)
		return -1;
	sc->paused_ns = row.paused_ns;
	if (str_eq(row.inputs, hex)) {
		sc->candidate[0] = '\0';
		return 0;
	}
	if (row.inputs && !row.paused_ns) {
		bool settled = str_eq(sc->candidate, hex);

		snprintf(sc->candidate, sizeof(sc->candidate), "%s", hex);
		if (!settled || (c->n_open && str_eq(sc->decl->overlap, "skip")))
			return 0;
		while ((r = claim(c, nominal, FIRING_CHANGE, NULL, err)) == 0)
			nominal++;
		if (r < 0)
			return -1;
	}
	row.inputs = hex;
	return record_schedule_put(c->db, &row, err);
}

static void looked(struct schedule *sc, const char *hex, const struct err *why)
{
	struct scheduler_project *p = sc->file->project;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct claims c = { .sc = sc, .db = p->db, .arena = arena, .now = scheduler_wall_ns(p->s) };
	struct err err = { 0 };
	int r = 0;

	if (p->s->closing || p->s->draining)
		return;
	scheduler_due_in(p->s, &sc->look, sc->decl->poll_ns);
	if (!hex)
		scheduler_note(p, sc, NULL, "%s", why->msg);
	else if (project_begin(p) == 0)
		r = project_end(p, fire_if_changed(&c, hex, &err), &err);
	if (r >= 0 && c.any)
		schedule_pump(sc);
	scheduler_rearm(p->s);
}

void scheduler_on_poll(void *arg)
{
	struct schedule *sc = arg;

	if (!sc->looking)
		scheduler_inputs_poll(sc, looked);
}
