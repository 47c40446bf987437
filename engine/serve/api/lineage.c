/* engine/serve/api/lineage.c — lineage as a graph of contents and attempts, bounded.
 *
 * It is the same that `cairn lineage --json` prints. It begins at a content; or in a run, at a task
 * or an output of it, at the task that measured a metric, or at an input, which is a dataset. A tag
 * of a run is a name of it. A file, directory or URI stands for what runs read or wrote there; the
 * project's files themselves aren't looked at.
 *
 * Threads: the pool's. Not here: the walk (record/lineage/graph.c).
 */
#include <string.h>
#include "base/os/fs.h"
#include "record/lineage/graph.h"
#include "record/lineage/outside.h"
#include "serve/api/run/views.h"

#define ATTEMPTS_DEFAULT 1000
#define ATTEMPTS_MAX     10000

struct beginning {
	struct content_id id; /* or CONTENT_NONE: */
	int64_t attempt;
	const char *name;
};

static bool find_in_task(struct api *a, struct viewed *v, struct beginning *ret)
{
	const char *output = web_param(a->x, "output");
	const struct view_task *t = api_view_task(v);
	struct cached_result hit = { 0 };
	struct facts_task f;
	struct err err = { 0 };

	if (!t)
		return false;
	if (view_results(v->v, a->db, t, a->arena, &f, &err) < 0 ||
	    (!t->attempt && record_lookup(a->db, &t->key, a->arena, &hit, &err) < 0)) {
		web_problem_err(a->x, &err);
		return false;
	}
	ret->attempt = t->attempt ? t->attempt : hit.attempt;
	for (size_t i = 0; output && i < f.n_outputs; i++)
		if (str_eq(f.outputs[i].name, output)) {
			ret->id = f.outputs[i].id;
			ret->name = f.outputs[i].name;
		}
	if (output && !ret->id.kind)
		web_problem(a->x, 404, "task %s has no output `%.200s`", t->name, output);
	else if (!output && !ret->attempt)
		web_problem(a->x, 404, "no attempt of task %s is on record", t->name);
	return !a->x->status;
}

/* The attempt of the only task that has this metric, or of `task`. */
static bool find_metric(struct api *a, struct viewed *v, struct beginning *ret)
{
	const char *metric = web_param(a->x, "metric"), *first = NULL;
	struct err err = { 0 };

	for (size_t i = 0; i < v->v->n_tasks && !a->x->status; i++) {
		const struct view_task *t = &v->v->tasks[i];
		struct cached_result hit = { .attempt = t->attempt };
		struct facts_task f;
		bool has = false;

		if (t->state != VIEW_EXECUTED && t->state != VIEW_HIT && t->state != VIEW_FAILED)
			continue;
		if (view_results(v->v, a->db, t, a->arena, &f, &err) < 0)
			break;
		for (size_t k = 0; k < f.n_metrics; k++)
			has |= str_eq(f.metrics[k].name, metric);
		if (!has)
			continue;
		if (first)
			web_problem(a->x, 400,
				    "several tasks of run %s have the metric `%.200s`, such as %s "
				    "and %s: name one with `task`",
				    v->v->run.id, metric, first, t->name);
		else if (!hit.attempt && record_lookup(a->db, &t->key, a->arena, &hit, &err) < 0)
			break;
		else
			ret->attempt = hit.attempt;
		first = t->name;
	}
	if (err.code)
		web_problem_err(a->x, &err);
	else if (!a->x->status && !first)
		web_problem(a->x, 404, "no task of run %s has the metric `%.200s`", v->v->run.id,
			    metric);
	else if (!a->x->status && !ret->attempt)
		web_problem(a->x, 404, "no attempt of task %s is on record", first);
	return !a->x->status;
}

static bool find_input(struct api *a, const struct run_row *run, struct beginning *ret)
{
	const char *input = web_param(a->x, "input");
	struct run_input_row *rows;
	struct err err = { 0 };
	size_t n;

	if (record_run_inputs(a->db, run->rowid, a->arena, &rows, &n, &err) < 0) {
		web_problem_err(a->x, &err);
		return false;
	}
	for (size_t i = 0; i < n; i++)
		if (str_has_prefix(rows[i].name, "input:") &&
		    str_eq(rows[i].name + strlen("input:"), input)) {
			ret->id = rows[i].id;
			ret->name = input;
			return true;
		}
	web_problem(a->x, 404, "run %s has no input `%.200s`", run->id, input);
	return false;
}

/* `run`: NULL for the newest that knows the place. */
static bool find_place(struct api *a, const char *run, struct beginning *ret)
{
	const char *place = web_param(a->x, "file"), *path = NULL;
	const char *root = a->project->config->project_root;
	_cleanup_(freep) char *normal = NULL, *within = NULL;
	struct run_row row = { 0 };
	struct place_row found;
	struct err err = { 0 };
	int r = run ? record_find_run(a->db, run, a->arena, &row, &err) : 0;

	if (!strstr(place, "://")) {
		place = normal = fs_normalise(place);
		within = *normal == '/' ? fs_relative(root, normal) : NULL;
		path = *normal == '/' ? normal : arena_printf(a->arena, "%s/%s", root, normal);
		place = within ? within : normal;
	}
	if (r >= 0)
		r = record_place(a->db, place, path, row.rowid, a->arena, &found, &err);
	if (r < 0)
		web_problem_err(a->x, &err);
	else if (r == 0)
		web_problem(a->x, 404,
			    "%s `%.200s`: name an input's path or URI as the "
			    "pipeline has it, or a place that an output was exported to",
			    run ? "the run didn't read or write" : "no run on record read or wrote",
			    place);
	else
		*ret = (struct beginning){ .id = found.id, .name = found.name };
	return !a->x->status;
}

/* At a task, an output, a metric or an input of a run. */
static bool find_in_run(struct api *a, const char *run, struct beginning *ret)
{
	struct err err = { 0 };
	struct run_row row;
	struct viewed v;
	bool found;

	if (record_find_run(a->db, run, a->arena, &row, &err) < 0) {
		web_problem_err(a->x, &err);
		return false;
	}
	if (web_param(a->x, "input"))
		return find_input(a, &row, ret);
	if (!api_view_of(a, &row, &v))
		return false;
	found = web_param(a->x, "task") ? find_in_task(a, &v, ret) : find_metric(a, &v, ret);
	api_view_return(&v);
	return found;
}

static bool find_beginning(struct api *a, struct beginning *ret)
{
	const char *what = web_param(a->x, "content"), *run = web_param(a->x, "run");
	const char *file = web_param(a->x, "file");
	size_t in_run = (web_param(a->x, "task") || web_param(a->x, "output")) +
			(web_param(a->x, "metric") != NULL) + (web_param(a->x, "input") != NULL);
	struct err err = { 0 };

	*ret = (struct beginning){ 0 };
	if (file && !what && !in_run)
		return find_place(a, run, ret);
	if (what && !run && !in_run && !file) {
		if (lineage_find(a->db, what, &ret->id, &err) == 0)
			return true;
		web_problem_err(a->x, &err);
		return false;
	}
	/* A metric may be one of a task that is named. */
	if (web_param(a->x, "task") && web_param(a->x, "metric") && !web_param(a->x, "output"))
		in_run--;
	if (what || !run || in_run != 1 || file ||
	    (web_param(a->x, "output") && !web_param(a->x, "task"))) {
		web_problem(a->x, 400,
			    "parameter `content` is missing: sha256: and the beginning of a "
			    "digest; or a `file`; or `run` with a `task` and perhaps its "
			    "`output`, a `metric` or an `input`");
		return false;
	}
	return find_in_run(a, run, ret);
}

void api_lineage(struct api *a)
{
	const char *direction = web_param(a->x, "direction");
	uint64_t limit = ATTEMPTS_DEFAULT, depth = LINEAGE_DEPTH_ALL;
	struct beginning b;
	struct err err = { 0 };
	struct lineage_graph g;
	int r;

	if (direction && !str_eq(direction, "up") && !str_eq(direction, "down"))
		web_problem(a->x, 400, "parameter `direction` must be up or down");
	if (a->x->status || !api_uint(a, "limit", 1, ATTEMPTS_MAX, &limit) ||
	    !api_uint(a, "depth", 1, LINEAGE_DEPTH_ALL, &depth) || !find_beginning(a, &b))
		return;
	lineage_graph_init(&g, str_eq(direction, "down") ? LINEAGE_DOWN : LINEAGE_UP, a->arena);
	g.attempts_max = limit;
	r = b.id.kind ? lineage_graph_of_content(&g, a->db, &b.id, b.name, depth, &err)
		      : lineage_graph_of_attempt(&g, a->db, b.attempt, depth, &err);
	if (r < 0)
		web_problem_err(a->x, &err);
	else
		web_answer_json(a->x, 200, lineage_graph_json(&g, NULL, NULL));
	lineage_graph_deinit(&g);
}
