/* engine/serve/events/poll.c — finds what has changed since the last poll, and reports it.
 *
 * A database says by its data version whether anybody has written to it. Only then, and every
 * AGAIN_NS, since an engine's death writes nothing, its runs are compared: those that go on, those
 * that did at the last poll, and those that are new. Of a run that is watched, attempts are
 * compared in the same way, and reported first: the end of a run is told after the ends of its
 * tasks, all of them read in one snapshot. So a poll costs what changes, not what is on record.
 *
 * What was reported last is kept as a digest, so that nothing is reported twice. Errors of a
 * database are those of a moment (it is locked, or was replaced): it is opened again at the next
 * poll, and readers are told to read everything again.
 *
 * Threads: one. Schedules are asked on the loop's thread. */
#include <string.h>
#include "record/facts.h"
#include "record/rows/pages.h"
#include "record/run_query.h"
#include "run/run.h"
#include "serve/events/events.h"

#define AGAIN_NS     (5 * NS_PER_S)
#define SCHEDULES_NS NS_PER_S /* they are asked on the loop's thread */
#define RUNS_MAX     500      /* that go on, or are new, in one poll */
#define RUNS_FEW     20       /* are polled at first */
#define ATTEMPTS_MAX 2000     /* new ones of a run in one query */
/* A reader subscribes, then reads: what ended shortly before is told as well. */
#define BEFORE_NS   (2 * NS_PER_S)
#define CACHE_BYTES (4 * MIB)

struct known { /* a run, an attempt or a schedule, as it was reported last */
	char *name;
	int64_t id;
	struct digest reported;
	bool seen;
};

struct watched {
	char *run;
	int64_t rowid;
	int64_t newest; /* attempt */
	VEC(struct known) open;
	bool wanted;
};

struct place { /* a project */
	struct project *p;
	struct db *db; /* NULL: not open */
	int64_t version, at_ns, schedules_ns;
	int64_t newest; /* run */
	bool polled;
	bool schedules_changed; /* perhaps: they weren't asked since the last change */
	VEC(struct known) runs, schedules;
	VEC(struct watched) watched;
};

struct poller {
	struct daemon *d;
	struct events *e;
	struct place *v;
	size_t n;
};

struct poller *poller_new(struct daemon *d, struct events *e)
{
	struct poller *l = xcalloc(1, sizeof(*l));

	l->d = d;
	l->e = e;
	l->n = d->n_projects;
	l->v = xcalloc(l->n + 1, sizeof(*l->v));
	for (size_t i = 0; i < l->n; i++)
		l->v[i].p = d->projects[i];
	return l;
}

static void free_watched(struct watched *w)
{
	VEC_FREE(&w->open);
	free(w->run);
}

void poller_free(struct poller *l)
{
	for (size_t i = 0; i < l->n; i++) {
		struct place *p = &l->v[i];

		for (size_t k = 0; k < p->runs.n; k++)
			free(p->runs.v[k].name);
		for (size_t k = 0; k < p->schedules.n; k++)
			free(p->schedules.v[k].name);
		for (size_t k = 0; k < p->watched.n; k++)
			free_watched(&p->watched.v[k]);
		VEC_FREE(&p->runs);
		VEC_FREE(&p->schedules);
		VEC_FREE(&p->watched);
		db_close(p->db);
	}
	free(l->v);
	free(l);
}

/* True: it differs from what was reported last, which is from now on `j`. */
static bool is_changed(struct known *k, const json_t *j)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct digest d;

	json_add_canonical(&text, j);
	digest_bytes(text.s, text.len, &d);
	if (digest_eq(&d, &k->reported))
		return false;
	k->reported = d;
	return true;
}

static json_t *with_project(json_t *j, const struct place *p)
{
	json_object_set_new(j, "project", json_string(p->p->name));
	return j;
}

/* Runs. */

static void report_run(struct poller *l, struct place *p, const struct run_row *row,
		       struct arena *arena)
{
	json_t *j = with_project(api_run_json(p->p, p->db, row, arena), p);
	bool goes_on = row->state == RUN_RUNNING || row->state == RUN_INTERRUPTED;
	struct known *k = NULL, fresh = { 0 };

	for (size_t i = 0; i < p->runs.n && !k; i++)
		if (p->runs.v[i].id == row->rowid)
			k = &p->runs.v[i];
	if (!k && goes_on) {
		k = VEC_ADD(&p->runs);
		*k = (struct known){ .name = xstrdup(row->id), .id = row->rowid };
	}
	if (!k)
		k = &fresh;
	k->seen = true;
	/* How long it has been going on isn't news. */
	if (goes_on)
		json_object_set_new(j, "duration_ns", json_null());
	if (is_changed(k, j) && p->polled)
		events_add(l->e, p->p, NULL, "run", j);
	else
		json_decref(j);
	if (!goes_on && k != &fresh) {
		free(k->name);
		*k = p->runs.v[--p->runs.n];
	}
}

/* Those that went on at the last poll, and don't any more. */
static int poll_ended(struct poller *l, struct place *p, struct arena *arena, struct err *err)
{
	for (size_t i = p->runs.n; i-- > 0;) {
		struct run_row row;
		int r;

		if (p->runs.v[i].seen)
			continue;
		r = record_run_by_id(p->db, p->runs.v[i].name, arena, &row, err);
		if (r < 0)
			return -1;
		if (r > 0) {
			report_run(l, p, &row, arena);
		} else {
			free(p->runs.v[i].name);
			p->runs.v[i] = p->runs.v[--p->runs.n];
		}
	}
	return 0;
}

static int poll_runs(struct poller *l, struct place *p, struct arena *arena, struct err *err)
{
	struct run_query newest = { .paged = true, .limit = p->polled ? RUNS_FEW : 1 }, running = {
		.paged = true, .has_state = true, .state = RUN_RUNNING, .limit = RUNS_MAX
	};
	int64_t before = p->newest;
	struct run_row *rows;
	size_t n;

	for (size_t i = 0; i < p->runs.n; i++)
		p->runs.v[i].seen = false;
	if (record_query_runs(p->db, &running, arena, &rows, &n, err) < 0)
		return -1;
	for (size_t i = n; i-- > 0;)
		report_run(l, p, &rows[i], arena);
	if (record_query_runs(p->db, &newest, arena, &rows, &n, err) < 0)
		return -1;
	if (p->polled && n == RUNS_FEW && rows[n - 1].rowid > before) {
		newest.limit = RUNS_MAX;
		if (record_query_runs(p->db, &newest, arena, &rows, &n, err) < 0)
			return -1;
	}
	if (p->polled && n == RUNS_MAX && rows[n - 1].rowid > before)
		events_add(l->e, p->p, NULL, "reset", with_project(json_object(), p));
	for (size_t i = n; i-- > 0;)
		if (rows[i].rowid > before) {
			p->newest = rows[i].rowid;
			if (rows[i].state != RUN_RUNNING)
				report_run(l, p, &rows[i], arena);
		}
	return poll_ended(l, p, arena, err);
}

/* Tasks of watched runs. */

/* Sent to many readers, often: what is null is left out. */
static void set(json_t *j, const char *name, json_t *value)
{
	if (json_is_null(value))
		json_decref(value);
	else
		json_object_set_new(j, name, value);
}

static void report_task(struct poller *l, struct place *p, struct watched *w, struct known *k,
			const struct attempt_row *row, bool tell)
{
	json_t *j = json_object();
	const char *state = !row->ended_ns                      ? "running"
			    : row->failure == FAILURE_NONE      ? "executed"
			    : row->failure == FAILURE_CANCELLED ? "cancelled"
								: "failed";

	set(j, "run", facts_text(w->run));
	set(j, "task", facts_text(row->task));
	set(j, "step", facts_text(row->step));
	set(j, "state", json_string(state));
	set(j, "started", facts_time(row->started_ns));
	set(j, "ended", facts_time(row->ended_ns));
	set(j, "duration_ns",
	    row->ended_ns ? json_integer(row->ended_ns - row->started_ns) : json_null());
	set(j, "attempts", json_integer(row->number));
	set(j, "reason", facts_text(row->reason));
	set(j, "failure",
	    row->ended_ns && row->failure != FAILURE_NONE
		    ? json_string(failure_class_name(row->failure))
		    : json_null());
	set(j, "message", facts_text(row->message));
	set(j, "waiting", row->ended_ns ? json_null() : facts_text(row->waiting));
	set(j, "node", facts_text(row->node));
	with_project(j, p);
	if (is_changed(k, j) && tell)
		events_add(l->e, p->p, w->run, "task", j);
	else
		json_decref(j);
}

/* The first look at a run: what goes on, and what has ended since its reader came. */
static int begin_watch(struct poller *l, struct place *p, struct watched *w, int64_t since_ns,
		       struct arena *arena, struct err *err)
{
	const struct attempt_page page = { .run = w->rowid,
					   .limit = ATTEMPTS_MAX,
					   .newest_first = true };
	struct attempt_row *rows;
	size_t n;

	if (record_open_attempts(p->db, w->rowid, arena, &rows, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct known *k = VEC_ADD(&w->open);

		k->id = rows[i].id;
		report_task(l, p, w, k, &rows[i], true);
	}
	if (record_page_attempts(p->db, &page, arena, &rows, &n, err) < 0)
		return -1;
	for (size_t i = n; i-- > 0;) {
		w->newest = rows[i].id;
		if (rows[i].ended_ns > since_ns - BEFORE_NS)
			report_task(l, p, w, &(struct known){ 0 }, &rows[i], true);
	}
	return 0;
}

static int poll_attempts(struct poller *l, struct place *p, struct watched *w, struct arena *arena,
			 struct err *err)
{
	struct attempt_page page = { .run = w->rowid, .limit = ATTEMPTS_MAX };
	struct attempt_row *rows, row;
	struct run_row run;
	size_t n;

	for (size_t i = w->open.n; i-- > 0;) {
		int r = record_attempt(p->db, w->open.v[i].id, arena, &row, &run, err);

		if (r < 0)
			return -1;
		if (r > 0)
			report_task(l, p, w, &w->open.v[i], &row, true);
		if (r == 0 || row.ended_ns)
			w->open.v[i] = w->open.v[--w->open.n];
	}
	do {
		page.after = w->newest;
		if (record_page_attempts(p->db, &page, arena, &rows, &n, err) < 0)
			return -1;
		for (size_t i = 0; i < n; i++) {
			struct known k = { .id = rows[i].id };

			w->newest = rows[i].id;
			report_task(l, p, w, &k, &rows[i], true);
			if (!rows[i].ended_ns)
				VEC_PUSH(&w->open, k);
		}
	} while (n == ATTEMPTS_MAX);
	return 0;
}

static int poll_watched(struct poller *l, struct place *p, const struct events_watch *v, size_t n,
			bool changed, struct arena *arena, struct err *err)
{
	for (size_t i = 0; i < p->watched.n; i++)
		p->watched.v[i].wanted = false;
	for (size_t i = 0; i < n; i++) {
		struct watched *w = NULL;
		struct run_row run;
		int r;

		if (v[i].project && v[i].project != p->p)
			continue;
		for (size_t k = 0; k < p->watched.n; k++)
			if (str_eq(p->watched.v[k].run, v[i].run))
				w = &p->watched.v[k];
		if (w) {
			w->wanted = true;
			if (changed && poll_attempts(l, p, w, arena, err) < 0)
				return -1;
			continue;
		}
		r = record_run_by_id(p->db, v[i].run, arena, &run, err);
		if (r < 0)
			return -1;
		if (r == 0) /* of another project, or not begun */
			continue;
		w = VEC_ADD(&p->watched);
		*w = (struct watched){ .run = xstrdup(v[i].run),
				       .rowid = run.rowid,
				       .wanted = true };
		if (begin_watch(l, p, w, v[i].since_ns, arena, err) < 0)
			return -1;
	}
	for (size_t i = p->watched.n; i-- > 0;)
		if (!p->watched.v[i].wanted) {
			free_watched(&p->watched.v[i]);
			p->watched.v[i] = p->watched.v[--p->watched.n];
		}
	return 0;
}

/* Schedules. */

static int poll_schedules(struct poller *l, struct place *p, struct arena *arena, struct err *err)
{
	json_t *list, *j;
	size_t i;

	if (api_schedule_list(l->d, p->p, p->db, arena, &list, err) < 0)
		return -1;

	json_array_foreach(list, i, j)
	{
		_cleanup_(freep) char *name =
			xasprintf("%s/%s", json_string_value(json_object_get(j, "path")),
				  json_string_value(json_object_get(j, "schedule")));
		struct known *k = NULL;

		for (size_t n = 0; n < p->schedules.n && !k; n++)
			if (str_eq(p->schedules.v[n].name, name))
				k = &p->schedules.v[n];
		if (!k) {
			k = VEC_ADD(&p->schedules);
			k->name = TAKE_PTR(name);
		}
		with_project(j, p);
		if (is_changed(k, j) && p->polled)
			events_add(l->e, p->p, NULL, "schedule", json_incref(j));
	}
	json_decref(list);
	return 0;
}

/* A project. */

static int look_at(struct poller *l, struct place *p, const struct events_watch *w, size_t n,
		   struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	int64_t version, now = clock_mono_ns();
	bool changed;
	int r;

	if (!p->db) {
		if (db_open(p->p->db_path, DB_READ, &p->db, err) < 0)
			return -1;
		db_limit_cache(p->db, CACHE_BYTES);
		p->version = -1;
	}
	if (db_version(p->db, &version, err) < 0)
		return -1;
	changed = version != p->version || now - p->at_ns >= AGAIN_NS;
	db_snapshot(p->db);
	r = poll_watched(l, p, w, n, changed, arena, err);
	if (r == 0 && changed)
		r = poll_runs(l, p, arena, err);
	db_snapshot_end(p->db);
	if (r < 0)
		return -1;
	p->schedules_changed |= changed;
	if (p->schedules_changed && now - p->schedules_ns >= SCHEDULES_NS) {
		if (poll_schedules(l, p, arena, err) < 0)
			return -1;
		p->schedules_changed = false;
		p->schedules_ns = now;
	}
	if (changed)
		p->at_ns = now;
	p->version = version;
	p->polled = true;
	return 0;
}

void poller_poll(struct poller *l, const struct events_watch *w, size_t n)
{
	for (size_t i = 0; i < l->n; i++) {
		struct place *p = &l->v[i];
		struct err err = { 0 };

		if (look_at(l, p, w, n, &err) == 0)
			continue;
		if (p->db)
			events_add(l->e, p->p, NULL, "reset", with_project(json_object(), p));
		db_close(p->db);
		p->db = NULL;
	}
}
