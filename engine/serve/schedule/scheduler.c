/* engine/serve/schedule/scheduler.c — the scheduler's life: projects, the clock, the heaps, and the
 * calls of its owner.
 *
 * on_timer() runs the due entries of both heaps (internal.h explains the two), TURN_MAX entries a
 * turn, and scheduler_rearm() sets the one timer for the first of the rest. The next turn sees when
 * the wall clock went back; rebase() then computes each schedule anew from its row. on_poll() looks
 * at files and rows of each project, since the command line and other servers change them too.
 *
 * Invariants: while `ticking` or `closing`, nothing sets the timer. Every change of rows is between
 * project_begin() and project_end(), or in db_begin() where the caller wants the error; trouble is
 * reported once until a commit succeeds. Memory is only a copy: schedule_follow() updates it from a
 * row.
 *
 * Threads: the loop's; a pool of one worker looks at inputs (inputs.c). Not here: from a time to
 * rows (fire.c), from rows to runs and back (run.c), files (files.c).
 */
#include "serve/schedule/scheduler.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include "serve/schedule/internal.h"

int64_t scheduler_wall_ns(const struct scheduler *s)
{
	return s->clock->wall_ns(s->clock);
}

int64_t scheduler_mono_ns(const struct scheduler *s)
{
	return s->clock->mono_ns(s->clock);
}

void scheduler_due_at(struct scheduler *s, struct due *d, int64_t wall_ns)
{
	due_set(&s->wall, d, wall_ns);
}

void scheduler_due_in(struct scheduler *s, struct due *d, int64_t ns)
{
	due_set(&s->mono, d, scheduler_mono_ns(s) + MAX(ns, 0));
}

struct watched_file *scheduler_find_file(const struct scheduler_project *p, const char *path)
{
	for (size_t i = 0; i < p->files.n; i++)
		if (str_eq(p->files.v[i]->path, path))
			return p->files.v[i];
	return NULL;
}

/* Reporting. */

static struct scheduled about(struct scheduler_project *p, const struct schedule *sc,
			      const struct firing *f)
{
	const struct watched_file *file = sc             ? sc->file
					  : f && f->path ? scheduler_find_file(p, f->path)
							 : NULL;
	struct scheduled d = { .project = p,
			       .pipeline = file && (sc || !file->dropped) ? file->pipeline : NULL,
			       .decl = sc ? sc->decl : NULL };

	if (f)
		d.firing = *f;
	else if (sc)
		d.firing = (struct firing){ .path = sc->file->path, .schedule = sc->name };
	return d;
}

void scheduler_note(struct scheduler_project *p, const struct schedule *sc, const struct firing *f,
		    const char *fmt, ...)
{
	struct scheduled d = about(p, sc, f);
	char text[512];
	va_list ap;

	if (!p->s->ops->note)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	p->s->ops->note(p->s->arg, &d, text);
}

int scheduler_notify(struct scheduler_project *p, enum schedule_alert kind,
		     const struct schedule *sc, const struct firing *f, const char *text,
		     struct err *err)
{
	struct scheduled d = about(p, sc, f);

	return p->s->ops->tell ? p->s->ops->tell(p->s->arg, kind, &d, text, err) : 0;
}

void scheduler_alert(struct scheduler_project *p, enum schedule_alert kind,
		     const struct schedule *sc, const struct firing *f, const char *text)
{
	struct scheduled d = about(p, sc, f);

	p->s->counts.alerts++;
	if (p->s->ops->alert)
		p->s->ops->alert(p->s->arg, kind, &d, text);
}

/* Transactions. */

void project_trouble(struct scheduler_project *p, const struct err *err)
{
	if (!p->trouble)
		scheduler_alert(p, SCHEDULE_ALERT_TROUBLE, NULL, NULL, err->msg);
	p->trouble = true;
}

int project_begin(struct scheduler_project *p)
{
	struct err err = { 0 };

	if (db_begin(p->db, &err) == 0)
		return 0;
	project_trouble(p, &err);
	return -1;
}

int project_end(struct scheduler_project *p, int result, const struct err *err)
{
	struct err at_commit = { 0 };

	if (result < 0) {
		db_rollback(p->db);
		project_trouble(p, err);
		return -1;
	}
	if (db_commit(p->db, &at_commit) < 0) {
		project_trouble(p, &at_commit);
		return -1;
	}
	p->trouble = false;
	return result;
}

/* The clock. */

static void on_timer(void *arg);

/* One timer for the first entries of both heaps. It never waits long, because the wall clock may be
 * set meanwhile. */
void scheduler_rearm(struct scheduler *s)
{
	struct due *wall = due_first(&s->wall), *mono = due_first(&s->mono);
	int64_t now = scheduler_mono_ns(s), at = now + LOOK_NS;

	if (s->ticking || s->closing)
		return;
	if (wall)
		at = MIN(at, now + MAX(wall->at_ns - scheduler_wall_ns(s), 0));
	if (mono)
		at = MIN(at, MAX(mono->at_ns, now));
	if (s->timer && s->timer_at_ns == at)
		return;
	loop_remove(s->loop, s->timer);
	s->timer = loop_add_timer(s->loop, at, on_timer, s);
	s->timer_at_ns = at;
}

/* Call it in a transaction. Times handled "in the future" must not silence a schedule until then.
 * Rows still say what has fired, so nothing fires twice. */
static int rebase_schedule(struct schedule *sc, int64_t now, struct arena *arena, struct err *err)
{
	struct db *db = sc->file->project->db;
	struct schedule_row row;

	if (record_schedule(db, sc->file->path, sc->name, arena, &row, err) < 0)
		return -1;
	if (row.seen_ns > now) {
		row.seen_ns = now;
		row.alerted_ns = MIN(row.alerted_ns, now);
		if (record_schedule_put(db, &row, err) < 0)
			return -1;
	}
	schedule_follow(sc, &row);
	return 0;
}

/* Called when the clock went back. -1: not all was written, so it is done again. */
static int rebase(struct scheduler_project *p, int64_t now)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct err err = { 0 };
	int r = project_begin(p);

	if (r < 0)
		return -1;
	for (size_t i = 0; r == 0 && i < p->files.n; i++)
		for (size_t k = 0; r == 0 && k < map_len(p->files.v[i]->schedules); k++) {
			struct schedule *sc = map_at(p->files.v[i]->schedules, k, NULL, NULL);

			if (sc && sc->decl && !sc->unusable)
				r = rebase_schedule(sc, now, arena, &err);
		}
	return project_end(p, r, &err);
}

/* Entries that a turn handles; the rest follows at once. */
#define TURN_MAX 1000

static struct due *next_due(struct scheduler *s, int64_t wall, int64_t mono)
{
	struct due *d = due_first(&s->mono);

	if (d && d->at_ns <= mono)
		return d;
	d = due_first(&s->wall);
	return d && d->at_ns <= wall ? d : NULL;
}

static void on_timer(void *arg)
{
	struct scheduler *s = arg;
	int64_t wall = scheduler_wall_ns(s), mono = scheduler_mono_ns(s);
	struct due *d;
	bool rebased = true;

	s->timer = NULL;
	s->ticking = true;
	if (wall < s->last_wall_ns) {
		for (size_t i = 0; i < s->projects.n; i++)
			if (rebase(s->projects.v[i], wall) < 0)
				rebased = false;
		/* Sooner than the next poll, because rows have times in the future. */
		scheduler_due_in(s, &s->poll, rebased ? 0 : AGAIN_NS);
	}
	if (rebased)
		s->last_wall_ns = wall;
	for (int n = 0; n < TURN_MAX && (d = next_due(s, wall, mono)); n++) {
		due_clear(d);
		d->fn(d->arg);
	}
	s->ticking = false;
	scheduler_rearm(s);
}

/* Polling. */

/* Whoever runs a pipeline, its end is a row. */
static void look_at_ends(struct scheduler_project *p)
{
	struct err err = { 0 };
	int64_t last;

	if (p->s->draining)
		return;
	if (record_last_end(p->db, &last, &err) < 0) {
		project_trouble(p, &err);
		return;
	}
	for (size_t i = 0; i < p->files.n; i++)
		for (size_t k = 0; k < map_len(p->files.v[i]->schedules); k++) {
			struct schedule *sc = map_at(p->files.v[i]->schedules, k, NULL, NULL);

			if (sc)
				schedule_poll_ends(sc, last);
		}
}

static int see_pause(struct schedule *sc, struct arena *arena, struct err *err)
{
	struct schedule_row row;
	int r = record_schedule(sc->file->project->db, sc->file->path, sc->name, arena, &row, err);

	if (r > 0 && sc->decl && row.paused_ns != sc->paused_ns)
		schedule_follow(sc, &row);
	return MIN(r, 0);
}

void scheduler_see_pauses(struct scheduler_project *p)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct err err = { 0 };
	int64_t version = 0;
	int r = db_version(p->db, &version, &err);

	if (r == 0 && version == p->rows_version)
		return;
	for (size_t i = 0; r == 0 && i < p->files.n; i++)
		for (size_t k = 0; r == 0 && k < map_len(p->files.v[i]->schedules); k++) {
			struct schedule *sc = map_at(p->files.v[i]->schedules, k, NULL, NULL);

			r = sc ? see_pause(sc, arena, &err) : 0;
		}
	if (r < 0)
		project_trouble(p, &err);
	else
		p->rows_version = version;
	scheduler_rearm(p->s);
}

/* The command line and other servers change rows and files. */
static void on_poll(void *arg)
{
	struct scheduler *s = arg;

	for (size_t i = 0; i < s->projects.n; i++) {
		struct scheduler_project *p = s->projects.v[i];
		struct err err = { 0 };

		if (scheduler_mono_ns(s) - p->beat_mono_ns >= BEAT_NS && project_begin(p) == 0 &&
		    project_end(
			    p,
			    record_server_heartbeat(p->db, s->server, scheduler_wall_ns(s), &err),
			    &err) == 0)
			p->beat_mono_ns = scheduler_mono_ns(s);
		for (size_t k = 0; k < p->files.n; k++)
			if (!p->files.v[k]->dropped &&
			    scheduler_file_load(p->files.v[k], false, &err) < 0)
				project_trouble(p, &err);
		scheduler_see_pauses(p);
		look_at_ends(p);
		scheduler_sweep(p);
	}
	scheduler_due_in(s, &s->poll, s->options.poll_ns);
	scheduler_rearm(s);
}

void scheduler_each_schedule(struct scheduler *s, void (*fn)(struct schedule *sc))
{
	for (size_t i = 0; i < s->projects.n; i++)
		for (size_t k = 0; k < s->projects.v[i]->files.n; k++) {
			struct map *m = s->projects.v[i]->files.v[k]->schedules;

			for (size_t j = 0; j < map_len(m); j++)
				if (map_at(m, j, NULL, NULL))
					fn(map_at(m, j, NULL, NULL));
		}
}

static void on_refresh(void *arg)
{
	struct scheduler *s = arg;

	if (zone_refresh(s->zones))
		scheduler_each_schedule(s, schedule_arm);
	scheduler_due_in(s, &s->refresh, ZONES_NS);
}

/* Start and end. */

int scheduler_new(struct loop *l, const struct scheduler_ops *ops, void *arg,
		  const struct scheduler_options *o, struct scheduler **ret, struct err *err)
{
	struct scheduler *s = xcalloc(1, sizeof(*s));

	assert(ops->start);
	*s = (struct scheduler){
		.loop = l, .clock = loop_clock(l), .ops = ops, .arg = arg, .arena = arena_new()
	};
	if (o)
		s->options = *o;
	if (!s->options.poll_ns)
		s->options.poll_ns = POLL_NS;
	s->server = s->options.server ? arena_strdup(s->arena, s->options.server)
				      : server_name_self(s->arena);
	s->zones = zone_set_new(NULL);
	s->poll = (struct due){ .fn = on_poll, .arg = s };
	s->refresh = (struct due){ .fn = on_refresh, .arg = s };
	s->last_wall_ns = scheduler_wall_ns(s);
	if (pool_new(l, s->clock->is_virtual ? 0 : 1, &s->pool, err) < 0) {
		scheduler_free(s);
		return -1;
	}
	scheduler_due_in(s, &s->poll, s->options.poll_ns);
	scheduler_due_in(s, &s->refresh, ZONES_NS);
	scheduler_rearm(s);
	*ret = s;
	return 0;
}

static void project_free(struct scheduler_project *p)
{
	for (size_t i = 0; i < p->files.n; i++)
		scheduler_file_free(p->files.v[i]);
	for (size_t i = 0; i < p->started.n; i++)
		started_run_free(p->started.v[i]);
	VEC_FREE(&p->files);
	VEC_FREE(&p->started);
	peers_free(p->peers);
	free(p->root);
	free(p->cache_dir);
	free(p->uses_dir);
	free(p);
}

void scheduler_free(struct scheduler *s)
{
	if (!s)
		return;
	s->closing = true;
	loop_remove(s->loop, s->timer);
	for (size_t i = 0; i < s->projects.n; i++)
		project_free(s->projects.v[i]);
	VEC_FREE(&s->projects);
	pool_free(s->pool);
	due_heap_deinit(&s->wall);
	due_heap_deinit(&s->mono);
	zone_set_free(s->zones);
	arena_free(s->arena);
	free(s);
}

void scheduler_project_uses(struct scheduler_project *p, const char *uses_dir)
{
	free(p->uses_dir);
	p->uses_dir = xstrdup(uses_dir);
}

int scheduler_add_project(struct scheduler *s, const char *root, const char *cache_dir,
			  struct db *db, void *owner, struct scheduler_project **ret,
			  struct err *err)
{
	struct scheduler_project *p = xcalloc(1, sizeof(*p));
	int r;

	assert(*root == '/');
	*p = (struct scheduler_project){ .s = s,
					 .root = xstrdup(root),
					 .cache_dir = cache_dir ? xstrdup(cache_dir) : NULL,
					 .db = db,
					 .owner = owner,
					 .peers = peers_new() };
	r = db_begin(db, err);
	if (r == 0) {
		r = record_server_heartbeat(db, s->server, scheduler_wall_ns(s), err);
		if (r == 0)
			r = peers_look(p->peers, db, scheduler_wall_ns(s), scheduler_mono_ns(s),
				       err);
		r = db_finish(db, r, err);
	}
	if (r < 0) {
		project_free(p);
		return -1;
	}
	p->beat_mono_ns = scheduler_mono_ns(s);
	VEC_PUSH(&s->projects, p);
	*ret = p;
	return 0;
}

void *scheduler_project_owner(const struct scheduler_project *p)
{
	return p->owner;
}

/* Files. */

struct schedule *scheduler_find_schedule(const struct scheduler_project *p, const char *path,
					 const char *name)
{
	struct watched_file *f = scheduler_find_file(p, path);

	return f ? map_get_str(f->schedules, name) : NULL;
}

int scheduler_add_pipeline(struct scheduler_project *p, const char *path, struct err *err)
{
	struct watched_file *f = scheduler_find_file(p, path);
	int r;

	if (!f) {
		f = xcalloc(1, sizeof(*f));
		*f = (struct watched_file){ .project = p,
					    .path = xstrdup(path),
					    .schedules = map_new() };
		VEC_PUSH(&p->files, f);
	}
	f->dropped = false;
	r = scheduler_file_load(f, true, err);
	if (r >= 0)
		scheduler_sweep(p);
	scheduler_rearm(p->s);
	return r;
}

void scheduler_drop_pipeline(struct scheduler_project *p, const char *path)
{
	struct watched_file *f = scheduler_find_file(p, path);

	if (!f)
		return;
	f->dropped = true;
	for (size_t i = 0; i < map_len(f->schedules); i++)
		if (map_at(f->schedules, i, NULL, NULL))
			schedule_arm(map_at(f->schedules, i, NULL, NULL));
	scheduler_rearm(p->s);
}

int scheduler_reload(struct scheduler *s)
{
	struct err err = { 0 };
	int broken = 0;

	for (size_t i = 0; i < s->projects.n; i++) {
		struct scheduler_project *p = s->projects.v[i];

		for (size_t k = 0; k < p->files.n; k++) {
			int r = p->files.v[k]->dropped
					? 0
					: scheduler_file_load(p->files.v[k], true, &err);

			if (r < 0)
				project_trouble(p, &err);
			broken += r != 0;
		}
	}
	if (zone_refresh(s->zones))
		scheduler_each_schedule(s, schedule_arm);
	scheduler_rearm(s);
	return broken;
}

/* By hand. */

static int need_schedule(struct scheduler_project *p, const char *path, const char *name,
			 struct schedule **ret, struct err *err)
{
	struct watched_file *f = scheduler_find_file(p, path);
	_cleanup_(str_deinit) struct str hint = { 0 };
	_cleanup_(freep) const char **names = NULL;

	*ret = scheduler_find_schedule(p, path, name);
	if (*ret)
		return 0;
	if (!f)
		return err_set(err, ERR_NOT_FOUND, "no pipeline file `%s` is served here", path);
	names = xcalloc(map_len(f->schedules) + 1, sizeof(*names));
	for (size_t i = 0, n = 0; i < map_len(f->schedules); i++)
		if (map_at(f->schedules, i, NULL, NULL))
			names[n++] = ((struct schedule *)map_at(f->schedules, i, NULL, NULL))->name;
	for (size_t n = 0; names[n]; n++)
		if (!hint.len && text_nearest(name, &names[n], 1))
			text_add_suggestion(&hint, name, &names[n], 1);
	return err_set(err, ERR_NOT_FOUND, "%s has no schedule `%.60s`%s", path, name,
		       hint.s ? hint.s : "");
}

int scheduler_trigger(struct scheduler_project *p, const char *path, const char *name,
		      int64_t *ret_nominal_ns, struct err *err)
{
	struct schedule *sc;
	int64_t nominal = scheduler_wall_ns(p->s);
	int r;

	if (need_schedule(p, path, name, &sc, err) < 0 || db_begin(p->db, err) < 0)
		return -1;
	while ((r = schedule_claim(sc, nominal, FIRING_MANUAL, err)) == 0)
		nominal++;
	if (db_finish(p->db, r, err) < 0)
		return -1;
	*ret_nominal_ns = nominal;
	schedule_pump(sc);
	scheduler_rearm(p->s);
	return 0;
}

int scheduler_backfill(struct scheduler_project *p, const char *path, const char *name,
		       const struct scheduler_range *range, struct arena *arena, int64_t **ret,
		       size_t *ret_n, struct err *err)
{
	struct schedule *sc;
	int r;

	if (need_schedule(p, path, name, &sc, err) < 0)
		return -1;
	if (!sc->decl || !sc->decl->cron)
		return err_set(err, ERR_INVALID,
			       "schedule %s has no cron rule: there are no times to make up for",
			       name);
	if (db_begin(p->db, err) < 0)
		return -1;
	r = schedule_backfill(sc, range, arena, ret, ret_n, err);
	if (db_finish(p->db, r, err) < 0)
		return -1;
	schedule_pump(sc);
	scheduler_rearm(p->s);
	return 0;
}

int scheduler_deliver(struct scheduler_project *p, const char *path, const char *name,
		      const char *delivery, struct arena *arena, struct firing *ret,
		      struct err *err)
{
	const char *event = arena_printf(arena, FIRING_EVENT_DELIVERY "%s", delivery);
	struct schedule_row row;
	struct schedule *sc;
	int r;

	if (need_schedule(p, path, name, &sc, err) < 0 || db_begin(p->db, err) < 0)
		return -1;
	r = record_firing_of_event(p->db, path, name, event, arena, ret, err);
	if (r == 0) {
		r = record_schedule(p->db, path, name, arena, &row, err);
		if (r >= 0 && row.paused_ns)
			r = err_set(err, ERR_BUSY, "schedule %s is paused", name);
		if (r >= 0)
			r = schedule_claim_event(sc, event, err);
		if (r >= 0)
			r = record_firing_of_event(p->db, path, name, event, arena, ret, err);
		if (r == 0)
			r = err_set(err, ERR_BUSY, "schedule %s can't fire now", name);
	}
	if (db_finish_durable(p->db, MIN(r, 0), err) < 0)
		return -1;
	schedule_pump(sc);
	scheduler_rearm(p->s);
	return 0;
}

int scheduler_pause(struct scheduler_project *p, const char *path, const char *name, bool paused,
		    struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct schedule_row row;
	struct schedule *sc;
	int r;

	if (need_schedule(p, path, name, &sc, err) < 0 || db_begin(p->db, err) < 0)
		return -1;
	r = record_schedule(p->db, path, name, arena, &row, err);
	if (r >= 0) {
		schedule_row_pause(&row, paused, scheduler_wall_ns(p->s));
		r = record_schedule_put(p->db, &row, err);
	}
	if (db_finish(p->db, r, err) < 0)
		return -1;
	schedule_follow(sc, &row);
	scheduler_rearm(p->s);
	return 0;
}

/* The end of runs, and listing. */

void scheduler_run_ended(struct scheduler *s, struct scheduler_project *p, const char *path,
			 const char *schedule, int64_t nominal_ns, const char *problem)
{
	struct started_run *b = scheduler_find_started(p, path, schedule, nominal_ns);

	if (!b || b->ended)
		return;
	b->ended = true;
	b->problem = problem ? xstrdup(problem) : NULL;
	s->running--;
	scheduler_finish(p, b);
	scheduler_rearm(s);
}

void scheduler_drain(struct scheduler *s)
{
	struct err err = { 0 };

	s->draining = true;
	scheduler_each_schedule(s, schedule_arm);
	for (size_t i = 0; i < s->projects.n; i++) {
		struct scheduler_project *p = s->projects.v[i];

		if (project_begin(p) == 0)
			project_end(p,
				    record_firing_release(p->db, s->server, &err) < 0
					    ? -1
					    : record_server_gone(p->db, s->server, &err),
				    &err);
	}
	scheduler_rearm(s);
}

void scheduler_each(struct scheduler *s, void (*fn)(void *arg, const struct schedule_facts *f),
		    void *arg)
{
	for (size_t i = 0; i < s->projects.n; i++)
		for (size_t k = 0; k < s->projects.v[i]->files.n; k++) {
			struct watched_file *f = s->projects.v[i]->files.v[k];

			for (size_t j = 0; !f->dropped && j < map_len(f->schedules); j++) {
				struct schedule *sc = map_at(f->schedules, j, NULL, NULL);
				bool fires = sc && sc->next_ns != CALENDAR_NEVER && !sc->paused_ns;
				struct schedule_facts facts = { .project = f->project,
								.path = f->path,
								.pipeline = f->pipeline,
								.broken = f->broken };

				if (!sc)
					continue;
				facts.decl = sc->decl;
				facts.next_ns = fires ? sc->next_ns : 0;
				facts.next_due_ns = fires ? sc->due_ns : 0;
				facts.paused_ns = sc->paused_ns;
				facts.open = sc->open;
				fn(arg, &facts);
			}
		}
}

static void count_one(void *arg, const struct schedule_facts *f)
{
	struct scheduler_counts *c = arg;

	c->schedules++;
	c->open += f->open;
}

struct scheduler_counts scheduler_counts(const struct scheduler *s)
{
	struct scheduler_counts c = s->counts;

	c.running = s->running;
	scheduler_each((struct scheduler *)(uintptr_t)s, count_one, &c);
	return c;
}
