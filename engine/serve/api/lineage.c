/* Lineage as a graph of contents and attempts, bounded: the same that `cairn lineage --json`
 * prints. It begins at a content, or at a task or an output of a run.
 */
#include "record/lineage/graph.h"
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

static bool find_beginning(struct api *a, struct beginning *ret)
{
	const char *what = web_param(a->x, "content"), *run = web_param(a->x, "run");
	struct err err = { 0 };
	struct run_row row;
	struct viewed v;
	bool found;

	*ret = (struct beginning){ 0 };
	if (what && !run && !web_param(a->x, "task") && !web_param(a->x, "output")) {
		if (lineage_find(a->db, what, &ret->id, &err) == 0)
			return true;
		web_problem_err(a->x, &err);
		return false;
	}
	if (what || !run || !web_param(a->x, "task")) {
		web_problem(a->x, 400,
			    "parameter `content` is missing: sha256: and the beginning of a "
			    "digest; or `run` and `task`, and perhaps `output`");
		return false;
	}
	if (record_find_run(a->db, run, a->arena, &row, &err) < 0) {
		web_problem_err(a->x, &err);
		return false;
	}
	if (!api_view_of(a, &row, &v))
		return false;
	found = find_in_task(a, &v, ret);
	api_view_return(&v);
	return found;
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
