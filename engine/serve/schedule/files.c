/* engine/serve/schedule/files.c — pipeline files and their schedules: loaded, watched, replaced
 * when they change, kept when the change is broken.
 *
 * A file has changed when the stat() of it or of one of its step files differs. `seen` is taken
 * before the file is read, so that a change during the read is found later. scheduler_file_load()
 * loads, drops schedules that are gone, gives the others their new declaration and row (adopt()),
 * and then frees the old pipeline. schedule_arm() puts a schedule into the heaps.
 *
 * Invariants: `decl` of a schedule points into its file's pipeline, so the old pipeline is freed
 * only after every schedule has a new `decl`, even after a database error. A schedule is stored
 * under its name in `schedules`; a dropped one leaves NULL there. A broken file is loaded at each
 * poll, and each error text is reported once.
 *
 * A load asks nobody for what lies elsewhere, since that takes minutes: pipeline_note_lack() notes
 * it, bring() lets the owner fetch it in another process, and scheduler_brought() loads again.
 * Nothing is told meanwhile.
 *
 * Threads: the loop's. Not here: finding files (project/discover.c), firing (fire.c).
 */
#include <string.h>
#include "base/diag.h"
#include "serve/schedule/internal.h"

/* The state of a file. */

static struct stat look_at(const struct watched_file *f, const char *path)
{
	_cleanup_(freep) char *full = xasprintf("%s/%s", f->project->root, path);
	struct stat st = { 0 };

	if (stat(full, &st) < 0)
		st = (struct stat){ 0 };
	st.st_atim = (struct timespec){ 0 }; /* reading isn't a change */
	return st;
}

static bool unchanged(const struct watched_file *f)
{
	for (size_t i = 0; i < f->n_seen; i++) {
		struct stat now = look_at(f, f->pipeline->files[i]);

		const struct stat *seen = &f->seen[i];

		if (now.st_ino != seen->st_ino || now.st_dev != seen->st_dev ||
		    now.st_size != seen->st_size || now.st_mtim.tv_sec != seen->st_mtim.tv_sec ||
		    now.st_mtim.tv_nsec != seen->st_mtim.tv_nsec ||
		    now.st_ctim.tv_sec != seen->st_ctim.tv_sec ||
		    now.st_ctim.tv_nsec != seen->st_ctim.tv_nsec)
			return false;
	}
	return f->n_seen > 0;
}

/* Schedules. */

static void schedule_free(struct schedule *sc)
{
	scheduler_inputs_forget(sc);
	due_clear(&sc->fire);
	due_clear(&sc->dead_man);
	due_clear(&sc->look);
	due_clear(&sc->retry);
	free(sc->name);
	free(sc);
}

void schedule_arm(struct schedule *sc)
{
	struct scheduler *s = sc->file->project->s;
	bool works = !sc->unusable && !sc->file->dropped && !s->draining && sc->decl;

	sc->next_ns = works ? calendar_next(&sc->calendar, sc->seen_ns) : CALENDAR_NEVER;
	if (sc->next_ns == CALENDAR_NEVER) {
		due_clear(&sc->fire);
	} else {
		sc->due_ns = calendar_due(&sc->calendar, sc->file->path, sc->name, sc->next_ns,
					  sc->decl->jitter_ns);
		scheduler_due_at(s, &sc->fire, sc->due_ns);
	}
	if (!works || sc->decl->n_on_change == 0)
		due_clear(&sc->look);
	else if (!due_is_set(&sc->look) && !sc->looking)
		scheduler_due_in(s, &sc->look, 0);
	if (!works || !sc->decl->alert_after_ns)
		due_clear(&sc->dead_man);
}

/* Watches the oldest nominal time without a success. */
void schedule_arm_dead_man(struct schedule *sc, int64_t nominal_ns)
{
	if (!sc->decl || !sc->decl->alert_after_ns || sc->watch_ns)
		return;
	sc->watch_ns = nominal_ns;
	scheduler_due_at(sc->file->project->s, &sc->dead_man,
			 nominal_ns + sc->decl->alert_after_ns);
}

/* Watches the last handled nominal time, unless it was reported already. */
void schedule_follow(struct schedule *sc, const struct schedule_row *row)
{
	int64_t last = calendar_previous(&sc->calendar, row->seen_ns + 1);

	sc->seen_ns = row->seen_ns;
	sc->paused_ns = row->paused_ns;
	sc->seen_end = row->seen_end;
	sc->watch_ns = 0;
	due_clear(&sc->dead_man);
	schedule_arm(sc);
	if (last > row->alerted_ns)
		schedule_arm_dead_man(sc, last);
}

/* Makes the schedule's row, or restarts it for a changed rule. Call it in a transaction. */
static int take_up_row(struct schedule *sc, struct arena *arena, struct err *err)
{
	struct db *db = sc->file->project->db;
	const struct schedule_decl *d = sc->decl;
	_cleanup_(freep) char *rule =
		xasprintf("%s %s %s %lld %lld", d->cron ? d->cron : "", d->timezone, d->dst,
			  (long long)d->start_ns, (long long)d->end_ns);
	int64_t now = scheduler_wall_ns(sc->file->project->s);
	struct schedule_row row;

	if (d->on.pipeline || d->on.webhook) {
		free(rule);
		rule = d->on.pipeline ? xasprintf("on %s %s", d->on.state, d->on.pipeline)
				      : xasprintf("on webhook %s", d->on.webhook);
	}
	if (record_schedule(db, sc->file->path, sc->name, arena, &row, err) < 0)
		return -1;
	if (!str_eq(row.rule, rule) && record_last_end(db, &row.seen_end, err) < 0)
		return -1;
	if (!str_eq(row.rule, rule) || row.seen_ns > now) {
		row.seen_ns = row.alerted_ns = now;
		row.rule = rule;
		if (record_schedule_put(db, &row, err) < 0)
			return -1;
	}
	schedule_follow(sc, &row);
	return 0;
}

static struct schedule *schedule_named(struct watched_file *f, const char *name)
{
	void **slot = map_slot_str(f->schedules, name);

	if (!*slot) {
		struct schedule *sc = xcalloc(1, sizeof(*sc));

		*sc = (struct schedule){ .file = f,
					 .name = xstrdup(name),
					 .next_ns = CALENDAR_NEVER };
		sc->fire = (struct due){ .fn = scheduler_on_fire, .arg = sc };
		sc->dead_man = (struct due){ .fn = scheduler_on_dead_man, .arg = sc };
		sc->look = (struct due){ .fn = scheduler_on_poll, .arg = sc };
		sc->retry = (struct due){ .fn = scheduler_on_retry, .arg = sc };
		*slot = sc;
	}
	return *slot;
}

static void drop_absent(struct watched_file *f, const struct pipeline *p)
{
	for (size_t i = 0; i < map_len(f->schedules); i++) {
		struct schedule *sc = map_at(f->schedules, i, NULL, NULL);
		bool there = false;

		for (size_t k = 0; sc && k < p->n_schedules && !there; k++)
			there = str_eq(p->schedules[k].name, sc->name);
		if (!sc || there)
			continue;
		*map_slot_str(f->schedules, sc->name) = NULL;
		schedule_free(sc);
	}
}

static int adopt(struct watched_file *f, const struct pipeline *p, struct err *err)
{
	struct scheduler *s = f->project->s;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	int r = 0;

	if (db_begin(f->project->db, err) < 0)
		return -1;
	for (size_t i = 0; r == 0 && i < p->n_schedules; i++) {
		struct schedule *sc = schedule_named(f, p->schedules[i].name);
		struct err why = { 0 };

		sc->decl = &p->schedules[i];
		scheduler_inputs_forget(sc);
		due_clear(&sc->dead_man);
		sc->unusable = calendar_of(sc->decl, s->zones, &sc->calendar, &why) < 0;
		if (sc->unusable) {
			scheduler_alert(f->project, SCHEDULE_ALERT_RELOAD_BROKEN, sc, NULL,
					why.msg);
			schedule_arm(sc); /* removes it from the heaps */
		} else {
			r = take_up_row(sc, arena, err);
		}
	}
	return db_finish(f->project->db, r, err);
}

/* Loading. */

static void report_broken(struct watched_file *f, struct diag_list *diags, const char *why)
{
	struct str text = { 0 };

	if (diags)
		diag_render(diags, &text);
	if (!text.len)
		str_add(&text, why);
	if (!f->broken || !str_eq(f->broken_text, text.s)) {
		struct firing of = { .path = f->path };

		f->project->s->counts.reloads_broken++;
		scheduler_alert(f->project, SCHEDULE_ALERT_RELOAD_BROKEN, NULL, &of, text.s);
	}
	free(f->broken_text);
	f->broken_text = str_take(&text);
	f->broken = true;
}

static void replace_pipeline(struct watched_file *f, struct pipeline *p)
{
	struct firing of = { .path = f->path };

	if (f->pipeline && f->broken)
		scheduler_alert(f->project, SCHEDULE_ALERT_RELOAD_OK, NULL, &of,
				"the pipeline file is valid again");
	else
		scheduler_note(f->project, NULL, &of, "%s: %zu schedules %s", f->path,
			       p->n_schedules, f->pipeline ? "loaded again" : "loaded");
	f->broken = false;
	f->project->s->counts.reloads++;
	pipeline_free(f->pipeline);
	f->pipeline = p;
}

/* Lets what the file uses be brought, if nobody does yet. After a failure the file is broken, and
 * it is tried again a while later. */
static void bring(struct watched_file *f)
{
	struct scheduler *s = f->project->s;
	struct scheduled what = { .project = f->project,
				  .pipeline = f->pipeline,
				  .firing = { .path = f->path } };
	struct err err = { 0 };

	if (f->bringing || s->draining)
		return;
	if (scheduler_mono_ns(s) < f->bring_mono_ns) {
		report_broken(f, NULL, f->bring_problem);
		return;
	}
	free(f->bring_problem);
	f->bring_problem = NULL;
	f->bringing = s->ops->bring(s->arg, &what, &err) == 0;
	if (!f->bringing)
		report_broken(f, NULL, err.msg);
	else
		scheduler_note(f->project, NULL, &what.firing,
			       "%s: fetching what its steps use from elsewhere", f->path);
}

void scheduler_brought(struct scheduler_project *p, const char *path, const char *problem)
{
	struct watched_file *f = scheduler_find_file(p, path);
	struct err err = { 0 };

	if (!f || !f->bringing)
		return;
	f->bringing = false;
	f->bring_problem =
		xstrdup(problem ? problem : "what its steps use was fetched, but isn't there");
	f->bring_mono_ns = scheduler_mono_ns(p->s) + BRING_AGAIN_NS;
	if (!f->dropped && scheduler_file_load(f, true, &err) < 0)
		project_trouble(p, &err);
	scheduler_sweep(p);
	scheduler_rearm(p->s);
}

/* A broken file is loaded every time: the error may be in a step file that isn't known yet. */
int scheduler_file_load(struct watched_file *f, bool always, struct err *err)
{
	_cleanup_(freep) char *path = xasprintf("%s/%s", f->project->root, f->path);
	_cleanup_(diag_list_freep) struct diag_list *diags = NULL;
	bool lacks = false;
	struct pipeline_load_options o = { .project_root = f->project->root,
					   .cache_dir = f->project->cache_dir,
					   .uses_dir = f->project->uses_dir,
					   .bring = f->project->s->ops->bring ? pipeline_note_lack
									      : NULL,
					   .bring_arg = &lacks };
	struct pipeline *p = NULL;
	struct err why = { 0 };
	struct stat main;

	if (!always && !f->broken && unchanged(f))
		return 0;
	main = look_at(f, f->path);
	diags = diag_list_new();
	if (pipeline_load(path, &o, diags, &p, &why) < 0) {
		if (lacks)
			bring(f);
		else
			report_broken(f, diags, why.msg);
		return 1;
	}
	f->bring_mono_ns = 0;
	drop_absent(f, p);
	if (adopt(f, p, err) < 0) {
		/* Declarations point into p, so it replaces the old pipeline all the same. The next
		 * look tries again. */
		replace_pipeline(f, p);
		f->n_seen = 0;
		return -1;
	}
	f->n_seen = p->n_files;
	f->seen = xreallocarray(f->seen, p->n_files, sizeof(*f->seen));
	f->seen[0] = main;
	for (size_t i = 1; i < p->n_files; i++)
		f->seen[i] = look_at(f, p->files[i]);
	replace_pipeline(f, p);
	return 0;
}

void scheduler_file_free(struct watched_file *f)
{
	for (size_t i = 0; i < map_len(f->schedules); i++)
		if (map_at(f->schedules, i, NULL, NULL))
			schedule_free(map_at(f->schedules, i, NULL, NULL));
	map_free(f->schedules);
	pipeline_free(f->pipeline);
	free(f->seen);
	free(f->path);
	free(f->broken_text);
	free(f->bring_problem);
	free(f);
}
