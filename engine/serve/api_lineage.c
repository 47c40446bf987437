/* Which content came from which: the closure as a graph of contents and attempts, bounded. */
#include <string.h>
#include "base/map.h"
#include "record/facts.h"
#include "record/lineage.h"
#include "serve/internal.h"

#define ATTEMPTS_DEFAULT 1000
#define ATTEMPTS_MAX	 10000

struct graph {
	struct api *a;
	struct map *known;
	json_t *nodes, *edges;
};

static json_t *add_content(struct graph *g, const struct content_id *id)
{
	json_t *node = facts_content(id), *name = json_object_get(node, "id");
	const char *text = json_string_value(name);
	bool is_new;

	json_incref(name);
	*map_slot(g->known, text, strlen(text), &is_new) = g;
	if (is_new) {
		json_object_set(node, "content", json_object_get(node, "kind"));
		json_object_set_new(node, "kind", json_string("artifact"));
		json_array_append(g->nodes, node);
	}
	json_decref(node);
	return name;
}

static void add_edges(struct graph *g, const char *attempt, const struct named_content *v, size_t n, bool made)
{
	for (size_t i = 0; i < n; i++) {
		json_t *content, *edge = json_object();

		if (v[i].id.kind == CONTENT_NONE) {
			json_decref(edge);
			continue;
		}
		content = add_content(g, &v[i].id);
		json_object_set_new(edge, made ? "from" : "to", json_string(attempt));
		json_object_set_new(edge, made ? "to" : "from", content);
		json_object_set_new(edge, "name", facts_text(v[i].name));
		json_array_append_new(g->edges, edge);
	}
}

static int add_attempt(struct graph *g, const struct attempt_row *row, struct err *err)
{
	struct api *a = g->a;
	const char *id = arena_printf(a->arena, "attempt:%lld", (long long)row->id);
	struct named_content *inputs;
	struct cached_result made;
	size_t n;

	if (record_inputs(a->db, row->id, a->arena, &inputs, &n, err) < 0 || record_outputs(a->db, row->id, a->arena, &made, err) < 0)
		return -1;
	json_array_append_new(g->nodes, json_pack("{s:s, s:s, s:o, s:o, s:o}", "id", id, "kind", "attempt", "task", facts_text(row->task), "run",
						  facts_text(record_run_id(a->db, row->run, a->arena)), "started", facts_time(row->started_ns)));
	add_edges(g, id, inputs, n, false);
	add_edges(g, id, made.outputs, made.n_outputs, true);
	return 0;
}

static int answer_closure(struct graph *g, const struct content_id *id, enum lineage_direction direction, uint64_t limit, struct err *err)
{
	struct attempt_row *rows;
	json_t *artifact = add_content(g, id);
	size_t n = 0;
	int r = lineage_closure(g->a->db, id, direction, limit, g->a->arena, &rows, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_attempt(g, &rows[i], err);
	if (r == 0)
		web_answer_json(g->a->x, 200, json_pack("{s:O, s:O, s:O, s:b}", "artifact", artifact, "nodes", g->nodes, "edges", g->edges, "complete", n < limit));
	json_decref(artifact);
	return r;
}

void api_lineage(struct api *a)
{
	const char *what = web_param(a->x, "content"), *direction = web_param(a->x, "direction");
	struct graph g = { .a = a };
	uint64_t limit = ATTEMPTS_DEFAULT;
	struct err err = { 0 };
	struct content_id id;

	if (!what)
		web_problem(a->x, 400, "parameter `content` is missing: sha256: and the beginning of a digest");
	else if (direction && !str_eq(direction, "up") && !str_eq(direction, "down"))
		web_problem(a->x, 400, "parameter `direction` must be up or down");
	if (a->x->status || !api_uint(a, "limit", 1, ATTEMPTS_MAX, &limit))
		return;
	if (lineage_find(a->db, what, &id, &err) < 0) {
		web_problem_err(a->x, &err);
		return;
	}
	g.known = map_new();
	g.nodes = json_array();
	g.edges = json_array();
	if (answer_closure(&g, &id, str_eq(direction, "down") ? LINEAGE_DOWN : LINEAGE_UP, limit, &err) < 0)
		web_problem_err(a->x, &err);
	map_free(g.known);
	json_decref(g.nodes);
	json_decref(g.edges);
}
