/* engine/cli/lineage/draw.c — lineage as JSON, DOT and SVG: one walk, three forms.
 *
 * lineage_build() makes the graph (record/lineage/graph.h); each form prints it. JSON gets what
 * facts.c reads from key records, and with --down what is affected. DOT is written as it is. For
 * SVG the graph becomes a struct graph and graph/svg.c draws it.
 *
 * struct graph wants topological order, and lineage may have cycles: an attempt may read a content
 * and make it again. in_order() is Kahn's order; where only a cycle is left, it is broken at its
 * first node, and as_graph() leaves out edges that go backward.
 *
 * Invariant: a graph that was cut at its bound says so (`truncated`); SVG refuses more than
 * GRAPH_TASKS_MAX nodes.
 */
#include "cli/graph/graph.h"
#include "cli/lineage/lineage.h"

int lineage_build(struct cli *cli, struct db *db, const struct lineage_question *q,
		  struct lineage_graph *ret, struct err *err)
{
	lineage_graph_init(ret, q->direction, cli->arena);
	return q->attempt ? lineage_graph_of_attempt(ret, db, q->attempt, q->depth, err)
			  : lineage_graph_of_content(ret, db, &q->id, q->name, q->depth, err);
}

/* JSON. */

struct describing {
	struct cli *cli;
	struct db *db;
};

static void describe(void *arg, const struct lineage_node *n, json_t *o)
{
	struct describing *d = arg;
	struct lineage_facts f;

	if (lineage_facts_read(d->cli, d->db, &n->attempt.key, &f, NULL) < 0)
		return;
	json_object_set(o, "params", f.params);
	json_object_set(o, "tools", f.tools);
	json_object_set_new(o, "code", f.has_code ? facts_id(&f.code) : json_null());
	lineage_facts_deinit(&f);
}

static json_t *affected_json(const struct affected *a, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++) {
		json_t *o = json_object(), *tags = json_array();

		for (const char *t = a[i].tags; *t; t += strspn(t, ", ")) {
			json_array_append_new(tags, json_stringn(t, strcspn(t, ",")));
			t += strcspn(t, ",");
		}
		json_object_set_new(o, "run",
				    facts_text(a[i].attempt->run ? a[i].attempt->run->id : NULL));
		json_object_set_new(o, "task", facts_text(a[i].attempt->attempt.task));
		json_object_set_new(o, "output", facts_text(a[i].output));
		json_object_set_new(o, "id", facts_id(a[i].id));
		json_object_set_new(o, "tags", tags);
		json_array_append_new(list, o);
	}
	return list;
}

int lineage_print_json(struct cli *cli, struct db *db, const struct lineage_question *q,
		       struct err *err)
{
	struct describing d = { cli, db };
	struct affected *affected = NULL;
	struct lineage_graph g;
	size_t n = 0;
	json_t *j;
	int r = lineage_build(cli, db, q, &g, err);

	if (r == 0 && q->direction == LINEAGE_DOWN)
		r = lineage_affected(cli, db, &g, &affected, &n, err);
	if (r == 0) {
		j = lineage_graph_json(&g, describe, &d);
		json_object_set_new(j, "member", facts_text(q->member_of));
		if (q->what.kind == WHAT_METRIC)
			json_object_set_new(j, "metric",
					    json_pack("{s:o, s:o}", "name",
						      facts_text(q->what.metric), "value",
						      facts_number(q->what.value)));
		if (q->direction == LINEAGE_DOWN)
			json_object_set_new(j, "affected", affected_json(affected, n));
		cli_print_json(cli, "cairn.lineage/1", j);
	}
	lineage_graph_deinit(&g);
	return r;
}

/* Drawings. */

static const char *label_of(struct cli *cli, const struct lineage_node *n)
{
	if (n->is_attempt)
		return arena_printf(cli->arena, "%s in %s", n->attempt.task ? n->attempt.task : "?",
				    n->run ? n->run->id : "?");
	if (n->has_origin)
		return arena_printf(cli->arena, "%s %s",
				    n->origin.uri ? n->origin.uri : n->origin.input,
				    cli_hash(cli, &n->id.digest));
	return arena_printf(cli->arena, "%s %s", n->name ? n->name : "",
			    cli_hash(cli, &n->id.digest));
}

int lineage_print_dot(struct cli *cli, struct db *db, const struct lineage_question *q,
		      struct err *err)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	struct lineage_graph g;
	int r = lineage_build(cli, db, q, &g, err);

	str_add(&s, "digraph ");
	graph_add_dot_string(&s, g.nodes.n ? g.nodes.v[0].key : "");
	str_add(&s, " {\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
	for (size_t i = 0; i < g.nodes.n; i++) {
		str_add(&s, "  ");
		graph_add_dot_string(&s, g.nodes.v[i].key);
		str_add(&s, " [label=");
		graph_add_dot_string(&s, label_of(cli, &g.nodes.v[i]));
		str_add(&s, g.nodes.v[i].is_attempt ? "];\n" : ", shape=note];\n");
	}
	for (size_t i = 0; i < g.edges.n; i++) {
		str_add(&s, "  ");
		graph_add_dot_string(&s, g.nodes.v[g.edges.v[i].from].key);
		str_add(&s, " -> ");
		graph_add_dot_string(&s, g.nodes.v[g.edges.v[i].to].key);
		str_add(&s, " [label=");
		graph_add_dot_string(&s, g.edges.v[i].name);
		str_add(&s, "];\n");
	}
	str_add(&s, "}\n");
	if (r == 0)
		cli_printf(cli, "%s", s.s);
	lineage_graph_deinit(&g);
	return r;
}

/* Kahn's order. A content that an attempt both read and made again would be a cycle: such an edge
 * is left out of the drawing. */
static void in_order(const struct lineage_graph *g, uint32_t *order)
{
	_cleanup_(freep) uint32_t *needs = xcalloc(g->nodes.n + 1, sizeof(*needs)),
				  *start = xcalloc(g->nodes.n + 2, sizeof(*start));
	_cleanup_(freep) uint32_t *out = xcalloc(g->edges.n + 1, sizeof(*out));
	_cleanup_(freep) bool *done = xcalloc(g->nodes.n + 1, sizeof(*done));
	size_t n = 0, looked = 0, first = 0;

	for (size_t i = 0; i < g->edges.n; i++) {
		needs[g->edges.v[i].to]++;
		start[g->edges.v[i].from + 2]++;
	}
	for (size_t i = 2; i <= g->nodes.n; i++)
		start[i] += start[i - 1];
	for (size_t i = 0; i < g->edges.n; i++)
		out[start[g->edges.v[i].from + 1]++] = g->edges.v[i].to;
	while (n < g->nodes.n) {
		for (size_t i = 0; looked == n && i < g->nodes.n; i++)
			if (!done[i] && (needs[i] == 0 || first)) {
				done[i] = true;
				order[n++] = (uint32_t)i;
				first = 0;
			}
		first = looked == n; /* only a cycle is left: break it at its first node */
		for (; looked < n; looked++)
			for (uint32_t k = start[order[looked]]; k < start[order[looked] + 1]; k++)
				if (--needs[out[k]] == 0 && !done[out[k]]) {
					done[out[k]] = true;
					order[n++] = out[k];
				}
	}
}

static int as_graph(struct cli *cli, const struct lineage_graph *g, struct graph *ret,
		    struct err *err)
{
	uint32_t *order = arena_alloc(cli->arena, (g->nodes.n + 1) * sizeof(*order)),
		 *place = arena_alloc(cli->arena, (g->nodes.n + 1) * sizeof(*place));

	if (g->nodes.n > GRAPH_TASKS_MAX)
		return err_set(err, ERR_TOO_LARGE,
			       "%zu nodes can't be drawn (at most %d): use --depth or --json",
			       g->nodes.n, GRAPH_TASKS_MAX);
	in_order(g, order);
	*ret = (struct graph){ .name = g->nodes.v[0].name ? g->nodes.v[0].name : "lineage" };
	ret->nodes = arena_alloc(cli->arena, (g->nodes.n + 1) * sizeof(*ret->nodes));
	ret->edges = arena_alloc(cli->arena, (g->edges.n + 1) * sizeof(*ret->edges));
	for (size_t i = 0; i < g->nodes.n; i++) {
		const struct lineage_node *n = &g->nodes.v[order[i]];

		place[order[i]] = (uint32_t)i;
		ret->nodes[i] =
			(struct graph_node){ .name = label_of(cli, n),
					     .step = n->is_attempt ? n->attempt.step : NULL,
					     .tasks = 1,
					     .is_input = !n->is_attempt,
					     .style = order[i] == 0 ? STYLE_GREEN : STYLE_PLAIN };
	}
	ret->n_nodes = g->nodes.n;
	for (size_t i = 0; i < g->edges.n; i++) {
		uint32_t from = place[g->edges.v[i].from], to = place[g->edges.v[i].to];

		if (from < to)
			ret->edges[ret->n_edges++] = (struct graph_edge){ from, to, GRAPH_DATA };
	}
	return 0;
}

int lineage_write_svg(struct cli *cli, struct db *db, const struct lineage_question *q,
		      const char *path, struct err *err)
{
	_cleanup_(str_deinit) struct str svg = { 0 };
	struct lineage_graph g;
	struct graph drawing;
	int r = lineage_build(cli, db, q, &g, err);

	if (r == 0)
		r = as_graph(cli, &g, &drawing, err);
	if (r == 0) {
		graph_add_svg(&drawing, &svg);
		r = cli_write_to(cli, path, &svg, err);
	}
	lineage_graph_deinit(&g);
	return r;
}
