/* engine/serve/api/run/tasks.c — the tasks of a run as rows of a table, whatever state they are in.
 *
 * Rows are chosen, sorted and cut to a page in the view's memory. Only the rows of the page cost
 * queries: their attempt, their results, the run that made a hit. The cursor counts the tasks that
 * match.
 *
 * Threads: the pool's.
 */
#include <string.h>
#include "record/rows/attempts.h"
#include "run/run.h"
#include "serve/api/run/views.h"

enum sort { SORT_NONE, SORT_STARTED, SORT_DURATION, SORT_TASK };

/* Its duration so far. */
static int64_t duration_of(const struct view_task *t)
{
	if (t->state == VIEW_RUNNING)
		return clock_wall_ns() - t->started_ns;
	return t->state == VIEW_HIT ? 0 : t->n_attempts ? t->ended_ns - t->started_ns : 0;
}

/* What only its attempt says. */
static int add_attempt(const struct viewed *v, const struct view_task *t, struct arena *arena,
		       json_t *o, struct err *err)
{
	struct attempt_row row = { 0 };
	struct run_row of;
	const char *reason = view_reason(v->v, t, arena);

	if (t->attempt && record_attempt(v->a->db, t->attempt, arena, &row, &of, err) < 0)
		return -1;
	json_object_set_new(o, "phase",
			    t->state == VIEW_WAITING ? facts_text(reason) : json_null());
	json_object_set_new(o, "reason",
			    t->state == VIEW_WAITING
				    ? json_null()
				    : facts_text(row.reason ? row.reason : reason));
	json_object_set_new(o, "failure",
			    row.ended_ns && row.failure != FAILURE_NONE
				    ? json_string(failure_class_name(row.failure))
				    : json_null());
	json_object_set_new(o, "message", facts_text(row.message));
	json_object_set_new(o, "waiting",
			    t->state == VIEW_RUNNING ? facts_text(row.waiting) : json_null());
	json_object_set_new(o, "node", facts_text(row.node));
	return 0;
}

json_t *api_task_row(const struct viewed *v, const struct view_task *t, struct arena *arena,
		     struct err *err)
{
	const char *made_in = NULL;
	struct facts_task f;
	json_t *o, *first;

	if (view_results(v->v, v->a->db, t, arena, &f, err) < 0 ||
	    (t->state == VIEW_HIT && view_made_in(v->v, v->a->db, t, arena, &made_in, err) < 0))
		return NULL;
	o = facts_task_json(&f); /* task, step, key, outputs, metrics */
	if (add_attempt(v, t, arena, o, err) < 0) {
		json_decref(o);
		return NULL;
	}
	first = f.n_metrics ? json_pack("{s:o, s:o}", "name", facts_text(f.metrics[0].name),
					"value", facts_number(f.metrics[0].value))
			    : json_null();
	json_object_set_new(o, "state", json_string(view_state_name(t->state)));
	json_object_set_new(o, "started", facts_time(t->started_ns));
	json_object_set_new(o, "ended", facts_time(t->ended_ns));
	json_object_set_new(o, "duration_ns", json_integer(MAX(duration_of(t), 0)));
	json_object_set_new(o, "saved_ns", json_integer(t->state == VIEW_HIT ? t->duration_ns : 0));
	json_object_set_new(o, "attempts", json_integer(t->n_attempts));
	json_object_set_new(o, "hit_of", facts_text(made_in));
	json_object_set_new(o, "metric", first);
	json_object_set_new(o, "critical", json_boolean(v->critical[t - v->v->tasks]));
	return o;
}

const struct view_task *api_view_task(struct viewed *v)
{
	const char *name = web_param(v->a->x, "task");
	const struct view_task *t = name ? view_find(v->v, name) : NULL;
	const struct view_step *s = name ? view_find_step(v->v, name) : NULL;

	if (t)
		return t;
	if (s && s->n == 1)
		return &v->v->tasks[s->first];
	if (!name)
		web_problem(v->a->x, 400, "parameter `task` is missing: a task of the run");
	else if (s && s->n)
		web_problem(v->a->x, 400,
			    "parameter `task`: step `%s` has several tasks, such as %s: name one",
			    name, v->v->tasks[s->first].name);
	else
		web_problem(v->a->x, 404, "run %s has no task `%.200s`", v->v->run.id, name);
	return NULL;
}

/* The list. */

struct listing {
	const struct viewed *v;
	const char *step, *task, *q;
	bool has_state;
	enum view_state state;
	enum sort sort;
	bool largest_first;
	uint64_t skip, limit;
};

static bool matches(const struct listing *l, const struct view_task *t)
{
	return (!l->step || str_eq(l->step, l->v->v->steps[t->step].name)) &&
	       (!l->task || str_eq(l->task, t->name)) && (!l->has_state || l->state == t->state) &&
	       (!l->q || strcasestr(t->name, l->q));
}

static int by_sort(const void *pa, const void *pb, void *arg)
{
	const struct view_task *a = *(const struct view_task *const *)pa,
			       *b = *(const struct view_task *const *)pb;
	const struct listing *l = arg;
	int64_t x = 0, y = 0;
	int order;

	if (l->sort == SORT_STARTED) {
		x = a->started_ns ? a->started_ns : INT64_MAX;
		y = b->started_ns ? b->started_ns : INT64_MAX;
	} else if (l->sort == SORT_DURATION) {
		x = a->state == VIEW_RUNNING ? INT64_MAX : duration_of(a);
		y = b->state == VIEW_RUNNING ? INT64_MAX : duration_of(b);
	}
	order = l->sort == SORT_TASK ? strcmp(a->name, b->name) : (x > y) - (x < y);
	if (l->largest_first)
		order = -order;
	return order ? order : (a > b) - (a < b); /* no ties: pages need one order */
}

static bool parse(struct api *a, struct listing *l)
{
	static const char *const sorts[] = {
		[SORT_STARTED] = "started", [SORT_DURATION] = "duration", [SORT_TASK] = "task"
	};
	const char *state = web_param(a->x, "state"), *sort = web_param(a->x, "sort");

	l->step = web_param(a->x, "step");
	l->task = web_param(a->x, "task");
	l->q = web_param(a->x, "q");
	l->limit = API_LIMIT_DEFAULT;
	l->has_state = state != NULL;
	if (state && !view_state_parse(state, &l->state)) {
		web_problem(a->x, 400,
			    "parameter `state` must be waiting, running, executed, hit, failed, "
			    "skipped, blocked or cancelled");
		return false;
	}
	l->largest_first = sort && *sort == '-';
	for (size_t i = 1; sort && i < ARRAY_LEN(sorts); i++)
		if (str_eq(sort + l->largest_first, sorts[i]))
			l->sort = (enum sort)i;
	if (sort && !l->sort) {
		web_problem(a->x, 400,
			    "parameter `sort` must be started, duration or task, with `-` before "
			    "it for the largest first");
		return false;
	}
	return api_uint(a, "limit", 1, API_LIMIT_MAX, &l->limit) &&
	       api_uint(a, "cursor", 1, INT64_MAX / 2, &l->skip);
}

static void answer(struct api *a, struct listing *l)
{
	VEC(const struct view_task *) found = { 0 };
	const struct run_view *v = l->v->v;
	json_t *list = json_array();
	struct err err = { 0 };
	uint64_t end;

	for (size_t i = 0; i < v->n_tasks; i++)
		if (matches(l, &v->tasks[i]))
			VEC_PUSH(&found, &v->tasks[i]);
	if (l->sort && found.n)
		qsort_r(found.v, found.n, sizeof(*found.v), by_sort, l);
	end = MIN(l->skip + l->limit, found.n);
	for (uint64_t i = l->skip; i < end; i++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		json_t *row = api_task_row(l->v, found.v[i], arena, &err);

		if (!row)
			break;
		json_array_append_new(list, row);
	}
	if (err.code) {
		json_decref(list);
		web_problem_err(a->x, &err);
	} else {
		web_answer_json(a->x, 200,
				json_pack("{s:o, s:o, s:I}", "tasks", list, "next",
					  facts_text(api_cursor(a, end < found.n ? end : 0)),
					  "total", (json_int_t)found.n));
	}
	VEC_FREE(&found);
}

void api_run_tasks(struct api *a)
{
	struct listing l = { 0 };
	struct viewed v;

	if (!parse(a, &l) || !api_view(a, &v))
		return;
	l.v = &v;
	answer(a, &l);
	api_view_return(&v);
}
