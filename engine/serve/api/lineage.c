/* Lineage as a graph of contents and attempts, bounded: the same that `cairn lineage --json`
 * prints.
 */
#include "record/lineage/graph.h"
#include "serve/internal.h"

#define ATTEMPTS_DEFAULT 1000
#define ATTEMPTS_MAX     10000

void api_lineage(struct api *a)
{
	const char *what = web_param(a->x, "content"), *direction = web_param(a->x, "direction");
	uint64_t limit = ATTEMPTS_DEFAULT;
	struct err err = { 0 };
	struct content_id id;
	struct lineage_graph g;

	if (!what)
		web_problem(
			a->x, 400,
			"parameter `content` is missing: sha256: and the beginning of a digest");
	else if (direction && !str_eq(direction, "up") && !str_eq(direction, "down"))
		web_problem(a->x, 400, "parameter `direction` must be up or down");
	if (a->x->status || !api_uint(a, "limit", 1, ATTEMPTS_MAX, &limit))
		return;
	if (lineage_find(a->db, what, &id, &err) < 0) {
		web_problem_err(a->x, &err);
		return;
	}
	lineage_graph_init(&g, str_eq(direction, "down") ? LINEAGE_DOWN : LINEAGE_UP, a->arena);
	g.attempts_max = limit;
	if (lineage_graph_of_content(&g, a->db, &id, NULL, LINEAGE_DEPTH_ALL, &err) < 0)
		web_problem_err(a->x, &err);
	else
		web_answer_json(a->x, 200, lineage_graph_json(&g, NULL, NULL));
	lineage_graph_deinit(&g);
}
