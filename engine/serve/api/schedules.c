/* engine/serve/api/schedules.c — routes of schedules: their state in the scheduler, their firings,
 * and trigger, backfill, pause and resume.
 *
 * The scheduler's memory is read on the loop's thread: api_call() passes struct chosen or struct
 * listing there, and it comes back filled. Firings are read from the database, by the request's own
 * reader.
 *
 * Invariants: functions named *_on_loop run on the loop's thread while the request's thread waits.
 * Only they touch the scheduler; their results are copied into the request's arena or are JSON.
 * `decl` is valid only there. A name that several pipelines have is an error without `path`.
 *
 * Threads: the pool's and, for *_on_loop, the loop's. Not here: what a trigger or a pause means
 * (schedule/scheduler.c).
 */
#include "base/text/json.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "record/facts.h"
#include "serve/internal.h"
#include "serve/schedule/calendar.h"

#define NEXT_DEFAULT 20
#define NEXT_MAX     1000

/* Which schedule. */

/* A schedule that a request names: {schedule} and ?path=. Filled on the loop's thread. */
struct chosen {
	struct api *a;
	const char *name, *want_path, *path; /* path: of the schedule that matches */
	size_t n;
	uint64_t n_next;
	int64_t from_ns, to_ns; /* of a calendar */
	const char *timezone;
	json_t *out;
	bool paused;
	int64_t nominal_ns;
	int result;
	struct err err;
	const struct schedule_decl *decl; /* valid only on the loop's thread */
};

static void match(void *arg, const struct schedule_facts *f)
{
	struct chosen *c = arg;

	if (f->project != c->a->project->scheduled || !str_eq(f->decl->name, c->name) ||
	    (c->want_path && !str_eq(c->want_path, f->path)))
		return;
	if (c->n++ == 0)
		c->path = arena_strdup(c->a->arena, f->path);
	c->decl = f->decl;
}

/* On the loop's thread. Fails unless exactly one schedule matches. */
static bool choose(struct chosen *c)
{
	scheduler_each(c->a->d->scheduler, match, c);
	if (c->n == 0)
		c->result = err_set(&c->err, ERR_NOT_FOUND,
				    "no schedule `%s` is served here; /api/v1/schedules lists them",
				    c->name);
	else if (c->n > 1)
		c->result = err_set(&c->err, ERR_INVALID,
				    "several pipelines have a schedule `%s`: name one with the "
				    "parameter `path`",
				    c->name);
	return c->n == 1;
}

static bool ask(struct api *a, loop_fn fn, struct chosen *c)
{
	c->a = a;
	c->name = a->x->captures[0];
	c->want_path = web_param(a->x, "path");
	if (!api_call(a, fn, c))
		return false;
	if (c->result >= 0)
		return true;
	web_problem_err(a->x, &c->err);
	return false;
}

/* Listing. */

struct listing {
	struct project *project;
	json_t *out;
	struct daemon *d;
};

static void add_schedule(void *arg, const struct schedule_facts *f)
{
	struct listing *l = arg;
	json_t *o;

	if (f->project != l->project->scheduled)
		return;
	o = json_object();
	json_object_set_new(o, "schedule", facts_text(f->decl->name));
	json_object_set_new(o, "path", facts_text(f->path));
	json_object_set_new(o, "pipeline", facts_text(f->pipeline->name));
	json_object_set_new(o, "cron", facts_text(f->decl->cron));
	json_object_set_new(o, "on", facts_event(&f->decl->on));
	json_object_set_new(o, "timezone", facts_text(f->decl->timezone));
	json_object_set_new(o, "overlap", facts_text(f->decl->overlap));
	json_object_set_new(o, "catch_up", facts_text(f->decl->catch_up));
	json_object_set_new(o, "dst", facts_text(f->decl->dst));
	json_object_set_new(o, "next", facts_time(f->next_ns));
	json_object_set_new(o, "paused", facts_time(f->paused_ns));
	json_object_set_new(o, "open", json_integer(f->open));
	json_object_set_new(o, "broken", json_boolean(f->broken));
	json_array_append_new(l->out, o);
}

static void list_on_loop(void *arg)
{
	struct listing *l = arg;

	scheduler_see_pauses(l->project->scheduled);
	scheduler_each(l->d->scheduler, add_schedule, l);
}

static void next_on_loop(void *arg)
{
	struct chosen *c = arg;
	struct clock *clock = loop_clock(c->a->d->loop);
	struct zone_set *zones;
	struct calendar calendar;
	int64_t at = clock->wall_ns(clock);

	if (!choose(c))
		return;
	zones = zone_set_new(NULL);
	c->result = calendar_of(c->decl, zones, &calendar, &c->err);
	for (uint64_t i = 0; c->result == 0 && !calendar.none && i < c->n_next; i++) {
		at = calendar_next(&calendar, at);
		if (at == CALENDAR_NEVER)
			break;
		json_array_append_new(c->out, facts_time(at));
	}
	zone_set_free(zones);
}

void api_schedule_next(struct api *a)
{
	struct chosen c = { .n_next = NEXT_DEFAULT };

	if (!api_uint(a, "n", 1, NEXT_MAX, &c.n_next))
		return;
	c.out = json_array();
	if (ask(a, next_on_loop, &c))
		web_answer_json(a->x, 200,
				json_pack("{s:o, s:o, s:O}", "schedule", facts_text(c.name), "path",
					  facts_text(c.path), "next", c.out));
	json_decref(c.out);
}

/* Firings. */

static json_t *firing_json(const struct firing *f)
{
	json_t *o = json_object();

	json_object_set_new(o, "schedule", facts_text(f->schedule));
	json_object_set_new(o, "path", facts_text(f->path));
	json_object_set_new(o, "nominal", facts_time(f->nominal_ns));
	json_object_set_new(o, "cause", json_string(firing_cause_name(f->cause)));
	json_object_set_new(o, "state", json_string(firing_state_name(f->state)));
	json_object_set_new(o, "number", json_integer(f->number));
	json_object_set_new(o, "claimed", facts_time(f->claimed_ns));
	json_object_set_new(o, "started", facts_time(f->started_ns));
	json_object_set_new(o, "ended", facts_time(f->ended_ns));
	json_object_set_new(o, "run", facts_text(f->run));
	json_object_set_new(o, "message", facts_text(f->message));
	json_object_set_new(o, "times", json_integer((json_int_t)f->times));
	json_object_set_new(o, "first", facts_time(f->first_ns));
	json_object_set_new(o, "event", facts_text(f->event));
	return o;
}

/* "last": its newest firing, or null. */
static int add_last(json_t *schedules, struct db *db, struct arena *arena, struct err *err)
{
	struct firing *rows;
	json_t *o;
	size_t i, n;

	json_array_foreach(schedules, i, o)
	{
		struct firing_filter newest = { .path = facts_get_text(o, "path", arena),
						.schedule = facts_get_text(o, "schedule", arena),
						.limit = 1 };

		if (record_firings(db, &newest, arena, &rows, &n, err) < 0)
			return -1;
		json_object_set_new(o, "last", n ? firing_json(&rows[0]) : json_null());
	}
	return 0;
}

int api_schedule_list(struct daemon *d, struct project *p, struct db *db, struct arena *arena,
		      json_t **ret, struct err *err)
{
	struct listing l = { .project = p, .d = d, .out = json_array() };

	calls_run(d->calls, list_on_loop, &l);
	if (add_last(l.out, db, arena, err) < 0) {
		json_decref(l.out);
		return -1;
	}
	*ret = l.out;
	return 0;
}

void api_schedules(struct api *a)
{
	struct listing l = { .project = a->project, .d = a->d, .out = json_array() };
	struct err err = { 0 };

	if (api_call(a, list_on_loop, &l)) {
		if (add_last(l.out, a->db, a->arena, &err) < 0)
			web_problem_err(a->x, &err);
		else
			web_answer_json(a->x, 200, json_pack("{s:O}", "schedules", l.out));
	}
	json_decref(l.out);
}

/* "NOMINAL/PATH": several pipelines may have a schedule of the same name that fires at the same
 * time. A cursor of an older version has no path. */
static bool read_cursor(struct api *a, struct firing_filter *f)
{
	const char *text = web_param(a->x, "cursor"), *slash = text ? strchr(text, '/') : NULL;
	_cleanup_(str_deinit) struct str path = { 0 };
	size_t n = slash ? (size_t)(slash - text) : text ? strlen(text) : 0;

	if (!text)
		return true;
	if (!text_parse_int(arena_strndup(a->arena, text, n), &f->before_ns) || f->before_ns < 1 ||
	    f->before_ns > API_CURSOR_MAX || (slash && !slash[1])) {
		web_problem(a->x, 400,
			    "parameter `cursor` must be the `next` of the previous page");
		return false;
	}
	if (slash && json_name_decode(&path, slash + 1, NULL) == 0)
		f->before_path = arena_strdup(a->arena, path.s);
	return true;
}

void api_schedule_history(struct api *a)
{
	struct firing_filter f = { .path = web_param(a->x, "path"),
				   .schedule = a->x->captures[0],
				   .limit = API_LIMIT_DEFAULT };
	struct err err = { 0 };
	struct firing *rows;
	json_t *list;
	size_t n;

	if (!api_uint(a, "limit", 1, API_LIMIT_MAX, &f.limit) || !read_cursor(a, &f))
		return;
	if (record_firings(a->db, &f, a->arena, &rows, &n, &err) < 0) {
		web_problem_err(a->x, &err);
		return;
	}
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, firing_json(&rows[i]));
	api_answer_page(a, "firings", list,
			n == f.limit && rows[n - 1].nominal_ns > 0
				? arena_printf(a->arena, "%lld/%s",
					       (long long)rows[n - 1].nominal_ns, rows[n - 1].path)
				: NULL);
}

/* Calendar. */

#define CALENDAR_MAX     1000
#define CALENDAR_DAYS_NS (31 * 86400 * NS_PER_S)

static void plan_on_loop(void *arg)
{
	struct chosen *c = arg;
	struct zone_set *zones;
	struct calendar calendar;
	int64_t at = c->from_ns - 1;

	if (!choose(c))
		return;
	c->timezone = c->decl->timezone ? arena_strdup(c->a->arena, c->decl->timezone) : NULL;
	zones = zone_set_new(NULL);
	c->result = calendar_of(c->decl, zones, &calendar, &c->err);
	while (c->result == 0 && !calendar.none && json_array_size(c->out) < CALENDAR_MAX &&
	       (at = calendar_next(&calendar, at)) < c->to_ns)
		json_array_append_new(c->out, facts_time(at));
	zone_set_free(zones);
}

void api_schedule_calendar(struct api *a)
{
	struct clock *clock = loop_clock(a->d->loop);
	int64_t now = clock->wall_ns(clock), from = now - CALENDAR_DAYS_NS,
		to = now + CALENDAR_DAYS_NS;
	struct firing_filter f = { .limit = CALENDAR_MAX };
	struct chosen c = { 0 };
	struct err err = { 0 };
	struct firing *rows;
	json_t *past;
	size_t n;

	if (!api_time(a, "from", &from) || !api_time(a, "to", &to))
		return;
	if (to <= from) {
		web_problem(a->x, 400, "`to` must be after `from`");
		return;
	}
	c.from_ns = MAX(from, now);
	c.to_ns = to;
	c.out = json_array();
	if (ask(a, plan_on_loop, &c)) {
		f.path = c.path;
		f.schedule = c.name;
		f.since_ns = from;
		f.before_ns = to;
		if (record_firings(a->db, &f, a->arena, &rows, &n, &err) < 0) {
			web_problem_err(a->x, &err);
		} else {
			past = json_array();
			while (n-- > 0)
				json_array_append_new(past, firing_json(&rows[n]));
			web_answer_json(a->x, 200,
					json_pack("{s:o, s:o, s:o, s:o, s:O}", "schedule",
						  facts_text(c.name), "path", facts_text(c.path),
						  "timezone", facts_text(c.timezone), "firings",
						  past, "planned", c.out));
		}
	}
	json_decref(c.out);
}

/* Changes. */

static void trigger_on_loop(void *arg)
{
	struct chosen *c = arg;

	if (choose(c))
		c->result = scheduler_trigger(c->a->project->scheduled, c->path, c->name,
					      &c->nominal_ns, &c->err);
}

void api_schedule_trigger(struct api *a)
{
	struct chosen c = { 0 };

	if (ask(a, trigger_on_loop, &c))
		web_answer_json(a->x, 202,
				json_pack("{s:o, s:o, s:o}", "schedule", facts_text(c.name), "path",
					  facts_text(c.path), "nominal", facts_time(c.nominal_ns)));
}

struct filling {
	struct chosen c;
	struct scheduler_range range;
	int64_t *times;
	size_t n;
};

static void backfill_on_loop(void *arg)
{
	struct filling *f = arg;

	if (choose(&f->c))
		f->c.result =
			scheduler_backfill(f->c.a->project->scheduled, f->c.path, f->c.name,
					   &f->range, f->c.a->arena, &f->times, &f->n, &f->c.err);
}

static bool read_range(struct api *a, struct scheduler_range *ret)
{
	static const char *const keys[] = { "from", "to", "dry_run" };
	const char *from, *to;
	struct err err = { 0 };

	if (!api_known_keys(a, keys, ARRAY_LEN(keys)))
		return false;
	if (json_get_str(a->body, "from", &from, &err) < 0 ||
	    json_get_str(a->body, "to", &to, &err) < 0 ||
	    json_get_bool_opt(a->body, "dry_run", false, &ret->dry_run, &err) < 0 ||
	    text_parse_time(from, &ret->from_ns, &err) < 0 ||
	    text_parse_time(to, &ret->to_ns, &err) < 0)
		web_problem(a->x, 400, "body: %s", err.msg);
	else if (ret->to_ns < ret->from_ns)
		web_problem(a->x, 400, "body: `to` is before `from`");
	return !a->x->status;
}

void api_schedule_backfill(struct api *a)
{
	struct filling f = { 0 };
	json_t *times;

	if (!read_range(a, &f.range) || !ask(a, backfill_on_loop, &f.c))
		return;
	times = json_array();
	for (size_t i = 0; i < f.n; i++)
		json_array_append_new(times, facts_time(f.times[i]));
	web_answer_json(a->x, 200,
			json_pack("{s:o, s:o, s:o}", "schedule", facts_text(f.c.name), "path",
				  facts_text(f.c.path), "times", times));
}

static void pause_on_loop(void *arg)
{
	struct chosen *c = arg;

	if (choose(c))
		c->result = scheduler_pause(c->a->project->scheduled, c->path, c->name, c->paused,
					    &c->err);
}

static void set_paused(struct api *a, bool paused)
{
	struct chosen c = { .paused = paused };

	if (ask(a, pause_on_loop, &c))
		web_answer_json(a->x, 200,
				json_pack("{s:o, s:o, s:b}", "schedule", facts_text(c.name), "path",
					  facts_text(c.path), "paused", paused));
}

void api_schedule_pause(struct api *a)
{
	set_paused(a, true);
}

void api_schedule_resume(struct api *a)
{
	set_paused(a, false);
}
