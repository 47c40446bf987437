/* engine/serve/api/compare.c — two to fifty runs side by side: params, metrics, and why each
 * differs from the first one.
 *
 * Params are those of the rows; metrics those of the index of results, so that neither reads a
 * results table. Why two runs differ is found as `cairn diff` finds it (run/view/cause.h): tasks in
 * the order of the pipeline, so that the first cause which didn't come from another task is where
 * the difference began.
 *
 * Invariants: runs with more than TASKS_MAX tasks together get no causes. One comparison of causes
 * at a time.
 *
 * Threads: the pool's.
 */
#include <pthread.h>
#include <string.h>
#include "base/map.h"
#include "record/facts.h"
#include "record/run_query.h"
#include "run/view/cause.h"
#include "serve/internal.h"

#define RUNS_MAX    50
#define METRICS_MAX 5000
#define TASKS_MAX   20000
#define CAUSES_MAX  20 /* explained tasks of a run */

struct comparing {
	struct api *a;
	struct run_row runs[RUNS_MAX];
	size_t n;
	json_t *params, *metrics;
};

static bool find_runs(struct api *a, struct comparing *c)
{
	const char *text = web_param(a->x, "runs");
	struct err err = { 0 };

	for (const char *at = text; at && *at;) {
		size_t n = strcspn(at, ",");

		if (c->n == RUNS_MAX) {
			web_problem(a->x, 400, "parameter `runs`: at most %d runs", RUNS_MAX);
			return false;
		}
		if (n && record_find_run(a->db, arena_strndup(a->arena, at, n), a->arena,
					 &c->runs[c->n++], &err) < 0) {
			web_problem_err(a->x, &err);
			return false;
		}
		at += n + (at[n] == ',');
	}
	if (c->n >= 2)
		return true;
	web_problem(a->x, 400, "parameter `runs` must name two runs or more, with commas between");
	return false;
}

/* The list of values under this name, with as many as there are runs. */
static json_t *values_of(struct comparing *c, json_t *o, const char *name)
{
	json_t *list = json_object_get(o, name);

	if (list || json_object_size(o) >= METRICS_MAX)
		return list;
	list = json_array();
	for (size_t i = 0; i < c->n; i++)
		json_array_append_new(list, json_null());
	json_object_set_new(o, name, list);
	return list;
}

static void add_params(struct comparing *c, size_t i)
{
	_cleanup_(json_decrefp) json_t *params =
		c->runs[i].params_json ? json_loads(c->runs[i].params_json, 0, NULL) : NULL;
	const char *name;
	json_t *v;

	json_object_foreach(params, name, v)
	{
		json_t *list = values_of(c, c->params, name);

		if (list)
			json_array_set(list, i, v);
	}
}

struct adding {
	struct comparing *c;
	size_t run;
};

static void add_metric(void *arg, const char *task, const char *name, double value)
{
	struct adding *ad = arg;
	_cleanup_(freep) char *full = xasprintf("%s/%s", task, name);
	_cleanup_(json_decrefp) json_t *key = facts_text(full);
	json_t *list = values_of(ad->c, ad->c->metrics, json_string_value(key));

	if (list)
		json_array_set_new(list, ad->run, facts_number(value));
}

/* Causes. */

static int load_side(struct api *a, struct store *s, const struct run_row *run,
		     struct cause_side *ret, struct err *err)
{
	*ret = (struct cause_side){ .run = *run };
	return record_run_inputs(a->db, run->rowid, a->arena, &ret->pins, &ret->n_pins, err) < 0
		       ? -1
		       : facts_read_tasks(a->db, s, run, a->arena, &ret->tasks, &ret->n_tasks, err);
}

static int add_because(struct causes *cs, const struct facts_task *a, const struct facts_task *b,
		       json_t *because, json_t **first, struct err *err)
{
	const struct explanation *e;
	json_t *o;
	int r;

	if (json_array_size(because) >= CAUSES_MAX)
		return 0;
	r = causes_explain(cs, a, b, &o, &e, err);
	if (r <= 0)
		return r;
	json_array_append_new(because, o);
	for (size_t i = 0; i < e->n && !*first; i++)
		if (e->v[i].kind != CAUSE_MADE)
			*first = cause_json(a ? a->task : b->task, &e->v[i]);
	return 0;
}

static int explain(struct causes *cs, json_t *because, json_t **first, struct err *err)
{
	int r = 0;

	for (size_t i = 0; i < cs->a->n_tasks && r == 0; i++)
		r = add_because(cs, &cs->a->tasks[i],
				map_get_str(cs->b->by_name, cs->a->tasks[i].task), because, first,
				err);
	for (size_t i = 0; i < cs->b->n_tasks && r == 0; i++)
		if (!map_get_str(cs->a->by_name, cs->b->tasks[i].task))
			r = add_because(cs, NULL, &cs->b->tasks[i], because, first, err);
	return r;
}

/* Why run `i` differs from the first one. */
static int add_causes(struct comparing *c, struct store *s, size_t i, json_t *list, struct err *err)
{
	json_t *because = json_array(), *first = NULL;
	struct cause_side a, b;
	struct causes cs = { 0 };
	int r = load_side(c->a, s, &c->runs[0], &a, err) < 0 ||
				load_side(c->a, s, &c->runs[i], &b, err) < 0 ||
				causes_open(&cs, c->a->arena, c->a->db, s, &a, &b, err) < 0
			? -1
			: explain(&cs, because, &first, err);

	causes_close(&cs);
	if (r == 0)
		json_array_append_new(
			list, json_pack("{s:o, s:o, s:O, s:o}", "a", facts_text(c->runs[0].id), "b",
					facts_text(c->runs[i].id), "because", because, "first",
					first ? json_incref(first) : json_null()));
	json_decref(because);
	json_decref(first);
	return r;
}

static int causes_json(struct comparing *c, json_t **ret, struct err *err)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	json_t *list = json_array();
	struct store *s;
	uint64_t tasks = 0;
	int r = 0;

	for (size_t i = 0; i < c->n; i++)
		tasks += c->runs[i].counts.total;
	*ret = list;
	if (tasks > TASKS_MAX || project_store(c->a->project, &s, NULL) < 0)
		return 0;
	pthread_mutex_lock(&one);
	for (size_t i = 1; i < c->n && r == 0; i++)
		if (c->runs[i].rowid != c->runs[0].rowid)
			r = add_causes(c, s, i, list, err);
	pthread_mutex_unlock(&one);
	if (r < 0)
		json_decref(list);
	return r;
}

void api_compare(struct api *a)
{
	struct comparing *c = arena_alloc(a->arena, sizeof(*c));
	json_t *runs, *causes = NULL;
	struct err err = { 0 };
	int r = 0;

	c->a = a;
	if (!find_runs(a, c))
		return;
	c->params = json_object();
	c->metrics = json_object();
	runs = json_array();
	for (size_t i = 0; i < c->n && r == 0; i++) {
		json_array_append_new(runs, facts_named_run(a->db, &c->runs[i], a->arena));
		add_params(c, i);
		r = record_each_run_metric(a->db, c->runs[i].rowid, METRICS_MAX, add_metric,
					   &(struct adding){ c, i }, &err);
	}
	if (r == 0)
		r = causes_json(c, &causes, &err);
	if (r < 0)
		web_problem_err(a->x, &err);
	else
		web_answer_json(a->x, 200,
				json_pack("{s:O, s:O, s:O, s:o}", "runs", runs, "params", c->params,
					  "metrics", c->metrics, "causes", causes));
	json_decref(runs);
	json_decref(c->params);
	json_decref(c->metrics);
}
