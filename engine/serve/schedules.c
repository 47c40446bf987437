/* engine/serve/schedules.c — the daemon's functions for the scheduler (struct scheduler_ops): start
 * and stop runs, fetch what pipelines use, notify, log.
 *
 * on_start() launches `cairn run` or `cairn resume` for a firing and keeps a struct firing_launch
 * for it, until on_run_end() reports the end to the scheduler. on_bring() does so with `cairn
 * graph`, which only reads the file. on_tell() writes notices in the scheduler's open transaction;
 * on_alert() and on_note() write the daemon's log afterwards. The table `kinds` maps each alert to
 * a log event and a notice.
 *
 * Invariants: each launch of a schedule has exactly one entry in `firings`. A notice is a row in
 * the same transaction as the change that it reports.
 *
 * Threads: the loop's. Not here: when something fires (schedule/), sending notices (notify/),
 * whether a metric's rule holds (notify/rules.c).
 */
#include <stdio.h>
#include <string.h>
#include "base/text/text.h"
#include "record/facts.h"
#include "serve/event.h"
#include "serve/internal.h"

/* How many firings back to search for a run that succeeded. */
#define FIRINGS_BACK 50

/* A firing whose run this server started, or, without a schedule, a file that is checked. */
struct firing_launch {
	struct daemon *d;
	struct project *project;
	struct launch *launch;
	char *path, *schedule;
	int64_t nominal_ns;
};

static struct project *project_of(const struct scheduled *f)
{
	return scheduler_project_owner(f->project);
}

static void firing_launch_free(struct firing_launch *o)
{
	free(o->path);
	free(o->schedule);
	free(o);
}

void daemon_firings_free(struct daemon *d)
{
	for (size_t i = 0; i < d->runs.n_firings; i++)
		firing_launch_free(d->runs.firings[i]);
	free(d->runs.firings);
	d->runs.firings = NULL;
	d->runs.n_firings = 0;
}

/* Runs. */

static void on_run_end(void *arg, const struct launch_end *end)
{
	struct firing_launch *o = arg;
	struct daemon *d = o->d;

	if (*o->schedule)
		scheduler_run_ended(d->scheduler, o->project->scheduled, o->path, o->schedule,
				    o->nominal_ns, end->run ? NULL : end->problem);
	else
		scheduler_brought(o->project->scheduled, o->path,
				  end->exit == 0 ? NULL
				  : end->problem ? end->problem
						 : "`cairn graph` failed");
	for (size_t i = 0; i < d->runs.n_firings; i++)
		if (d->runs.firings[i] == o)
			d->runs.firings[i--] = d->runs.firings[--d->runs.n_firings];
	firing_launch_free(o);
}

static int launch_out(struct daemon *d, const struct scheduled *f, const char *what,
		      const char *schedule, const char *const *argv, struct err *err)
{
	struct firing_launch *o = xcalloc(1, sizeof(*o));

	*o = (struct firing_launch){ .d = d,
				     .project = project_of(f),
				     .path = xstrdup(f->firing.path),
				     .schedule = xstrdup(schedule),
				     .nominal_ns = f->firing.nominal_ns };
	if (launch_start(d->runs.launches,
			 &(struct launch_options){ .project = o->project,
						   .what = what,
						   .args = argv,
						   .on_end = on_run_end,
						   .arg = o },
			 &o->launch, err) < 0) {
		firing_launch_free(o);
		return -1;
	}
	d->runs.firings = xreallocarray(d->runs.firings, d->runs.n_firings + 1,
					sizeof(struct firing_launch *));
	d->runs.firings[d->runs.n_firings++] = o;
	return 0;
}

static int on_bring(void *arg, const struct scheduled *f, struct err *err)
{
	_cleanup_(freep) char *path = xasprintf("./%s", f->firing.path);

	return launch_out(arg, f, "fetch", "",
			  (const char *[]){ "graph", "-q", "--json", path, NULL }, err);
}

static int on_start(void *arg, const struct scheduled *f, struct err *err)
{
	_cleanup_(freep) char *path = NULL, *schedule = NULL;
	_cleanup_(str_deinit) struct str time = { 0 };
	const char *argv[8] = { 0 };

	text_add_time(&time, f->firing.nominal_ns, 9);
	path = xasprintf("./%s", f->firing.path);
	schedule = xasprintf("%s@%s", f->firing.schedule, time.s);
	if (f->firing.run)
		memcpy(argv, ((const char *[]){ "resume", "-q", "--json", f->firing.run, NULL }),
		       5 * sizeof(*argv));
	else
		memcpy(argv,
		       ((const char *[]){ "run", "-q", "--json", path, "--schedule", schedule,
					  NULL }),
		       7 * sizeof(*argv));
	return launch_out(arg, f, f->firing.schedule, f->firing.schedule, argv, err);
}

static void on_stop(void *arg, const struct scheduled *f)
{
	struct daemon *d = arg;

	for (size_t i = 0; i < d->runs.n_firings; i++) {
		struct firing_launch *o = d->runs.firings[i];

		if (o->project == project_of(f) && o->nominal_ns == f->firing.nominal_ns &&
		    str_eq(o->path, f->firing.path) && str_eq(o->schedule, f->firing.schedule))
			launch_stop(o->launch);
	}
}

/* Alerts. */

static const char *succeeded_before(struct project *p, const struct firing *f, struct arena *arena)
{
	struct firing_filter filter = { .path = f->path,
					.schedule = f->schedule,
					.ended_runs = true,
					.before_ns = f->nominal_ns,
					.limit = FIRINGS_BACK };
	struct firing *rows;
	size_t n;

	if (record_firings(p->db, &filter, arena, &rows, &n, NULL) < 0)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (rows[i].state == FIRING_SUCCEEDED && rows[i].run)
			return rows[i].run;
	return NULL;
}

/* Rules are checked when the notice is sent (notify/rules.h). */
static int notify_metrics(struct daemon *d, const struct scheduled *f, const struct notice *end,
			  struct arena *arena, struct err *err)
{
	struct notice n = *end;
	bool wanted = false;

	for (size_t i = 0; i < f->decl->n_notify; i++)
		wanted |= (f->decl->notify[i].on & NOTIFY_METRIC) != 0;
	if (!n.run || !wanted)
		return 0;
	n.event = NOTIFY_METRIC;
	n.before = succeeded_before(n.project, &f->firing, arena);
	return notify(d->notifier, f->decl->notify, f->decl->n_notify, &n, err);
}

static void fill_notice(struct notice *n, const struct scheduled *f, const char *text,
			struct arena *arena)
{
	char hex[DIGEST_HEX_MAX];
	struct run_row run;

	n->project = project_of(f);
	n->pipeline = f->pipeline ? f->pipeline->name : NULL;
	n->path = f->firing.path;
	n->schedule = f->firing.schedule;
	n->nominal_ns = f->firing.nominal_ns;
	n->run = f->firing.run;
	n->message = text;
	if (n->run && record_find_run(n->project->db, n->run, arena, &run, NULL) == 0) {
		n->state = facts_state(&run);
		n->hash = run.has_hash ? arena_strdup(arena, digest_hex(&run.hash, hex)) : NULL;
	}
}

/* A broken schedule is reported to those whom its failures are reported to. A broken file is
 * reported to all of those for each of its schedules, as its last good version names them. */
static int notify_of_broken(struct daemon *d, const struct scheduled *f, const struct notice *n,
			    struct err *err)
{
	if (f->decl)
		return notify(d->notifier, f->decl->notify, f->decl->n_notify, n, err);
	for (size_t i = 0; f->pipeline && i < f->pipeline->n_schedules; i++) {
		struct notice one = *n;

		one.schedule = f->pipeline->schedules[i].name;
		if (notify(d->notifier, f->pipeline->schedules[i].notify,
			   f->pipeline->schedules[i].n_notify, &one, err) < 0)
			return -1;
	}
	return 0;
}

static const struct {
	const char *event;
	enum event_level level;
	enum notify_event tells;
} kinds[] = {
	[SCHEDULE_ALERT_FAILED] = { "schedule-failed", EVENT_ERROR, NOTIFY_FAILURE },
	[SCHEDULE_ALERT_RECOVERED] = { "schedule-recovered", EVENT_INFO, NOTIFY_RECOVERY },
	[SCHEDULE_ALERT_SUCCEEDED] = { "schedule-succeeded", EVENT_INFO, NOTIFY_SUCCESS },
	[SCHEDULE_ALERT_MISSED] = { "schedule-missed", EVENT_ERROR, NOTIFY_MISSED },
	[SCHEDULE_ALERT_RELOAD_BROKEN] = { "reload-broken", EVENT_ERROR, NOTIFY_FAILURE },
	[SCHEDULE_ALERT_RELOAD_OK] = { "reload-ok", EVENT_INFO, 0 },
	[SCHEDULE_ALERT_TROUBLE] = { "trouble", EVENT_ERROR, 0 },
};

/* Called in the transaction of the change that it reports. */
static int on_tell(void *arg, enum schedule_alert kind, const struct scheduled *f, const char *text,
		   struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct notice n = { .event = kinds[kind].tells };
	struct daemon *d = arg;

	if (!f->decl)
		return 0;
	fill_notice(&n, f, text, arena);
	if (notify(d->notifier, f->decl->notify, f->decl->n_notify, &n, err) < 0)
		return -1;
	if ((kind == SCHEDULE_ALERT_SUCCEEDED || kind == SCHEDULE_ALERT_RECOVERED) &&
	    notify_metrics(d, f, &n, arena, err) < 0)
		return -1;
	n.event = NOTIFY_SUCCESS;
	for (size_t i = 0; kind == SCHEDULE_ALERT_RECOVERED && i < f->decl->n_notify;
	     i++) /* a recovery is a success too */
		if (!(f->decl->notify[i].on & NOTIFY_RECOVERY) &&
		    notify(d->notifier, &f->decl->notify[i], 1, &n, err) < 0)
			return -1;
	return 0;
}

static void on_alert(void *arg, enum schedule_alert kind, const struct scheduled *f,
		     const char *text)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct notice n = { .event = kinds[kind].tells };
	struct err err = { 0 };
	struct daemon *d = arg;

	fill_notice(&n, f, text, arena);
	event(kinds[kind].level, kinds[kind].event, "{s:s, s:o, s:o, s:o, s:o}", "project",
	      n.project->name, "path", facts_text(n.path), "schedule", facts_text(n.schedule),
	      "run", facts_text(n.run), "message", facts_text(text));
	if (kind == SCHEDULE_ALERT_RELOAD_BROKEN && notify_of_broken(d, f, &n, &err) < 0)
		event_err("notify-not-recorded", n.path, &err);
	if (!db_in_transaction(n.project->db))
		notifier_look(d->notifier);
}

static void on_note(void *arg, const struct scheduled *f, const char *text)
{
	event(EVENT_INFO, "schedule", "{s:s, s:o, s:o, s:o}", "project", project_of(f)->name,
	      "path", facts_text(f->firing.path), "schedule", facts_text(f->firing.schedule),
	      "message", facts_text(text));
}

const struct scheduler_ops daemon_scheduler_ops = { .start = on_start,
						    .stop = on_stop,
						    .bring = on_bring,
						    .tell = on_tell,
						    .alert = on_alert,
						    .note = on_note };
