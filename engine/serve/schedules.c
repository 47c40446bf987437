/* What the scheduler asks for: runs begin as processes, end, are asked to stop; people are told. */
#include <stdio.h>
#include <string.h>
#include "base/text.h"
#include "plan/metrics.h"
#include "record/facts.h"
#include "serve/event.h"
#include "serve/internal.h"

/* How far back a run is looked for that succeeded before. */
#define FIRINGS_BACK 50
/* Metrics of a run with more tasks aren't looked through. */
#define METRICS_TASKS_MAX 100000

/* A firing whose run was begun here. */
struct out {
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

static void out_free(struct out *o)
{
	free(o->path);
	free(o->schedule);
	free(o);
}

static void forget(struct out *o)
{
	struct daemon *d = o->d;

	for (size_t i = 0; i < d->n_outs; i++)
		if (d->outs[i] == o)
			d->outs[i--] = d->outs[--d->n_outs];
	out_free(o);
}

void daemon_outs_free(struct daemon *d)
{
	for (size_t i = 0; i < d->n_outs; i++)
		out_free(d->outs[i]);
	free(d->outs);
	d->outs = NULL;
	d->n_outs = 0;
}

/* --- runs ---------------------------------------------------------------------------------------------------------------------- */

static void on_run_end(void *arg, const struct launch_end *end)
{
	struct out *o = arg;

	scheduler_run_ended(o->d->scheduler, o->project->scheduled, o->path, o->schedule, o->nominal_ns, end->run ? NULL : end->problem);
	forget(o);
}

static int on_start(void *arg, const struct scheduled *f, struct err *err)
{
	_cleanup_(freep) char *path = NULL, *schedule = NULL;
	_cleanup_(str_deinit) struct str time = { 0 };
	struct daemon *d = arg;
	struct out *o = xcalloc(1, sizeof(*o));
	const char *argv[8] = { 0 };

	text_add_time(&time, f->firing.nominal_ns, 9);
	path = xasprintf("./%s", f->firing.path);
	schedule = xasprintf("%s@%s", f->firing.schedule, time.s);
	if (f->firing.run)
		memcpy(argv, ((const char *[]){ "resume", "-q", "--json", f->firing.run, NULL }), 5 * sizeof(*argv));
	else
		memcpy(argv, ((const char *[]){ "run", "-q", "--json", path, "--schedule", schedule, NULL }), 7 * sizeof(*argv));
	*o = (struct out){ .d = d, .project = project_of(f), .path = xstrdup(f->firing.path), .schedule = xstrdup(f->firing.schedule),
			   .nominal_ns = f->firing.nominal_ns };
	if (launch_start(d->launches, o->project, f->firing.schedule, argv, on_run_end, o, &o->launch, err) < 0) {
		out_free(o);
		return -1;
	}
	d->outs = xreallocarray(d->outs, d->n_outs + 1, sizeof(struct out *));
	d->outs[d->n_outs++] = o;
	return 0;
}

static void on_stop(void *arg, const struct scheduled *f)
{
	struct daemon *d = arg;

	for (size_t i = 0; i < d->n_outs; i++) {
		struct out *o = d->outs[i];

		if (o->project == project_of(f) && o->nominal_ns == f->firing.nominal_ns && str_eq(o->path, f->firing.path) && str_eq(o->schedule, f->firing.schedule))
			launch_stop(o->launch);
	}
}

/* --- metrics held against the last run: on a worker --------------------------------------------------------------------------------- */

struct metric_check {
	struct daemon *d;
	struct project *project;
	struct arena *arena;
	struct notice notice; /* strings in the arena */
	struct notify_decl *decls;
	size_t n_decls;
	const char *before; /* the run that succeeded before, or NULL */
	json_t **found;	    /* for each decl: an array of rules that hold, or NULL */
};

struct values {
	struct facts_task *v;
	size_t n;
	bool known;
};

static void read_values(struct metric_check *c, struct db *db, const char *id, struct values *ret)
{
	struct run_row run;
	struct store *s = NULL;

	*ret = (struct values){ 0 };
	if (!id || record_find_run(db, id, c->arena, &run, NULL) < 0 || run.counts.total > METRICS_TASKS_MAX || project_store(c->project, &s, NULL) < 0)
		return;
	ret->known = facts_read_tasks(db, s, &run, c->arena, &ret->v, &ret->n, NULL) == 0;
}

/* Of several tasks that have it the last one: results stand in the order of the pipeline. */
static bool value_of(const struct values *v, const char *metric, double *ret)
{
	for (size_t i = v->n; v->known && i-- > 0;)
		for (size_t k = 0; k < v->v[i].n_metrics; k++)
			if (str_eq(v->v[i].metrics[k].name, metric)) {
				*ret = v->v[i].metrics[k].value;
				return true;
			}
	return false;
}

static json_t *rules_that_hold(const struct notify_decl *decl, const struct values *now, const struct values *before)
{
	json_t *found = NULL;

	for (size_t i = 0; i < decl->n_metrics; i++) {
		const struct notify_metric *m = &decl->metrics[i];
		double value, bound = m->bound;

		if (!value_of(now, m->metric, &value) || (m->last && !value_of(before, m->metric, &bound)) || !gate_holds(m->op, value, bound))
			continue;
		found = found ? found : json_array();
		json_array_append_new(found, json_pack("{s:s, s:f, s:f}", "rule", m->text, "value", value, "bound", bound));
	}
	return found;
}

static void check_on_worker(void *arg)
{
	struct metric_check *c = arg;
	struct values now, before;
	struct db *db;

	if (project_reader(c->project, &db, NULL) < 0)
		return;
	read_values(c, db, c->notice.run, &now);
	read_values(c, db, c->before, &before);
	for (size_t i = 0; i < c->n_decls; i++)
		if (c->decls[i].on & NOTIFY_METRIC)
			c->found[i] = rules_that_hold(&c->decls[i], &now, &before);
	project_reader_return(c->project, db);
}

static void check_done(void *arg)
{
	struct metric_check *c = arg;
	struct err err = { 0 };

	for (size_t i = 0; i < c->n_decls; i++) {
		if (!c->found[i])
			continue;
		c->notice.metrics = c->found[i];
		c->notice.message = arena_printf(c->arena, "%s: %s", c->notice.schedule, json_string_value(json_object_get(json_array_get(c->found[i], 0), "rule")));
		if (notify(c->d->notifier, &c->decls[i], 1, &c->notice, &err) < 0)
			event_err("notify-not-recorded", c->notice.schedule, &err);
		json_decref(c->found[i]);
	}
	notifier_look(c->d->notifier);
	arena_free(c->arena);
	free(c);
}

static const char *copy(struct arena *a, const char *s)
{
	return s ? arena_strdup(a, s) : NULL;
}

/* Declarations belong to the pipeline, which a reload may replace meanwhile. */
static void copy_decls(struct metric_check *c, const struct schedule_decl *s)
{
	c->decls = arena_memdup(c->arena, s->notify, s->n_notify * sizeof(*c->decls));
	c->n_decls = s->n_notify;
	c->found = arena_alloc(c->arena, s->n_notify * sizeof(*c->found));
	for (size_t i = 0; i < s->n_notify; i++) {
		struct notify_decl *n = &c->decls[i];
		struct notify_metric *m = arena_memdup(c->arena, n->metrics, n->n_metrics * sizeof(*m));
		const char **to = arena_alloc(c->arena, (n->n_to + 1) * sizeof(*to));

		for (size_t k = 0; k < n->n_metrics; k++) {
			m[k].metric = copy(c->arena, m[k].metric);
			m[k].text = copy(c->arena, m[k].text);
		}
		for (size_t k = 0; k < n->n_to; k++)
			to[k] = copy(c->arena, n->to[k]);
		n->metrics = m;
		n->to = to;
		n->command = copy(c->arena, n->command);
		n->url = copy(c->arena, n->url);
		n->secret = copy(c->arena, n->secret);
		n->from = copy(c->arena, n->from);
	}
}

static const char *succeeded_before(struct project *p, const struct firing *f, struct arena *arena)
{
	struct firing_filter filter = { .path = f->path, .schedule = f->schedule, .ended_runs = true, .before_ns = f->nominal_ns, .limit = FIRINGS_BACK };
	struct firing *rows;
	size_t n;

	if (record_firings(p->db, &filter, arena, &rows, &n, NULL) < 0)
		return NULL;
	for (size_t i = 0; i < n; i++)
		if (rows[i].state == FIRING_SUCCEEDED && rows[i].run)
			return rows[i].run;
	return NULL;
}

static bool wants_metrics(const struct schedule_decl *s)
{
	for (size_t i = 0; i < s->n_notify; i++)
		if (s->notify[i].on & NOTIFY_METRIC)
			return true;
	return false;
}

static void check_metrics(struct daemon *d, const struct scheduled *f, const struct notice *n)
{
	struct metric_check *c;

	if (!n->run || !wants_metrics(f->decl))
		return;
	c = xcalloc(1, sizeof(*c));
	*c = (struct metric_check){ .d = d, .project = n->project, .arena = arena_new(), .notice = *n };
	c->notice.event = NOTIFY_METRIC;
	c->notice.pipeline = copy(c->arena, n->pipeline);
	c->notice.path = copy(c->arena, n->path);
	c->notice.schedule = copy(c->arena, n->schedule);
	c->notice.run = copy(c->arena, n->run);
	c->notice.hash = copy(c->arena, n->hash);
	c->notice.state = copy(c->arena, n->state);
	copy_decls(c, f->decl);
	c->before = succeeded_before(n->project, &f->firing, c->arena);
	pool_submit(d->pool, check_on_worker, check_done, c);
}

/* --- alerts ------------------------------------------------------------------------------------------------------------------------------ */

static void fill_notice(struct notice *n, const struct scheduled *f, const char *text, struct arena *arena)
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

/* A file that can't be loaded concerns everybody who is told of failures in it. */
static int tell_all(struct daemon *d, const struct scheduled *f, const struct notice *n, struct err *err)
{
	for (size_t i = 0; f->pipeline && i < f->pipeline->n_schedules; i++) {
		struct notice one = *n;

		one.schedule = f->pipeline->schedules[i].name;
		if (notify(d->notifier, f->pipeline->schedules[i].notify, f->pipeline->schedules[i].n_notify, &one, err) < 0)
			return -1;
	}
	return 0;
}

static const struct { const char *event; enum event_level level; enum notify_event tells; } kinds[] = {
	[SCHEDULE_ALERT_FAILED] = { "schedule-failed", EVENT_ERROR, NOTIFY_FAILURE },
	[SCHEDULE_ALERT_RECOVERED] = { "schedule-recovered", EVENT_INFO, NOTIFY_RECOVERY },
	[SCHEDULE_ALERT_SUCCEEDED] = { "schedule-succeeded", EVENT_INFO, NOTIFY_SUCCESS },
	[SCHEDULE_ALERT_MISSED] = { "schedule-missed", EVENT_ERROR, NOTIFY_MISSED },
	[SCHEDULE_ALERT_RELOAD_BROKEN] = { "reload-broken", EVENT_ERROR, NOTIFY_FAILURE },
	[SCHEDULE_ALERT_RELOAD_OK] = { "reload-ok", EVENT_INFO, 0 },
	[SCHEDULE_ALERT_TROUBLE] = { "trouble", EVENT_ERROR, 0 },
};

/* In the transaction in which it happened. */
static int on_tell(void *arg, enum schedule_alert kind, const struct scheduled *f, const char *text, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct notice n = { .event = kinds[kind].tells };
	struct daemon *d = arg;

	if (!f->decl)
		return 0;
	fill_notice(&n, f, text, arena);
	if (notify(d->notifier, f->decl->notify, f->decl->n_notify, &n, err) < 0)
		return -1;
	n.event = NOTIFY_SUCCESS;
	for (size_t i = 0; kind == SCHEDULE_ALERT_RECOVERED && i < f->decl->n_notify; i++) /* it is a success too */
		if (!(f->decl->notify[i].on & NOTIFY_RECOVERY) && notify(d->notifier, &f->decl->notify[i], 1, &n, err) < 0)
			return -1;
	return 0;
}

static void on_alert(void *arg, enum schedule_alert kind, const struct scheduled *f, const char *text)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct notice n = { .event = kinds[kind].tells };
	struct err err = { 0 };
	struct daemon *d = arg;

	fill_notice(&n, f, text, arena);
	event(kinds[kind].level, kinds[kind].event, "{s:s, s:o, s:o, s:o, s:o}", "project", n.project->name, "path", facts_text(n.path), "schedule",
	      facts_text(n.schedule), "run", facts_text(n.run), "message", facts_text(text));
	if (kind == SCHEDULE_ALERT_RELOAD_BROKEN && tell_all(d, f, &n, &err) < 0)
		event_err("notify-not-recorded", n.path, &err);
	if (f->decl && (kind == SCHEDULE_ALERT_SUCCEEDED || kind == SCHEDULE_ALERT_RECOVERED)) {
		n.event = NOTIFY_SUCCESS;
		check_metrics(d, f, &n);
	}
	if (!db_in_transaction(n.project->db))
		notifier_look(d->notifier);
}

static void on_note(void *arg, const struct scheduled *f, const char *text)
{
	event(EVENT_INFO, "schedule", "{s:s, s:o, s:o, s:o}", "project", project_of(f)->name, "path", facts_text(f->firing.path), "schedule",
	      facts_text(f->firing.schedule), "message", facts_text(text));
}

const struct scheduler_ops daemon_scheduler_ops = { .start = on_start, .stop = on_stop, .tell = on_tell, .alert = on_alert, .note = on_note };
