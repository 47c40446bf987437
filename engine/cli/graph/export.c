/* DOT, Mermaid and JSON. */
#include <assert.h>
#include <string.h>
#include "base/text/text.h"
#include "cli/graph/graph.h"

const char *graph_edge_kind_name(enum graph_edge_kind k)
{
	static const char *const names[] = { "data", "metrics", "order" };

	assert(k < ARRAY_LEN(names));
	return names[k];
}

/* A quoted string: `"` and `\` are escaped; there are no line ends, since the text is printable. */
void graph_add_dot_string(struct str *out, const char *s)
{
	_cleanup_(str_deinit) struct str plain = { 0 };

	text_add_printable(&plain, s, strlen(s));
	str_addc(out, '"');
	for (size_t i = 0; i < plain.len; i++) {
		if (plain.s[i] == '"' || plain.s[i] == '\\')
			str_addc(out, '\\');
		str_addc(out, plain.s[i]);
	}
	str_addc(out, '"');
}

/* An input may have the name of a step. */
static void dot_id(struct str *out, const struct graph_node *n)
{
	_cleanup_(str_deinit) struct str id = { 0 };

	str_addf(&id, "%s%s", n->is_input ? "inputs." : "", n->name);
	graph_add_dot_string(out, id.s);
}

void graph_add_dot(const struct graph *g, struct str *out)
{
	str_add(out, "digraph ");
	graph_add_dot_string(out, g->name);
	str_add(out, " {\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
	for (size_t i = 0; i < g->n_nodes; i++) {
		_cleanup_(str_deinit) struct str label = { 0 };
		const struct graph_node *n = &g->nodes[i];

		graph_add_label(n, true, &label);
		str_add(out, "  ");
		dot_id(out, n);
		str_add(out, " [label=");
		graph_add_dot_string(out, label.s);
		if (n->is_input)
			str_add(out, ", shape=plaintext");
		str_add(out, "];\n");
	}
	for (size_t i = 0; i < g->n_edges; i++) {
		str_add(out, "  ");
		dot_id(out, &g->nodes[g->edges[i].from]);
		str_add(out, " -> ");
		dot_id(out, &g->nodes[g->edges[i].to]);
		str_add(out, g->edges[i].kind == GRAPH_DATA      ? ";\n"
			     : g->edges[i].kind == GRAPH_METRICS ? " [style=dashed];\n"
								 : " [style=dotted];\n");
	}
	str_add(out, "}\n");
}

void graph_add_mermaid(const struct graph *g, struct str *out)
{
	str_add(out, "flowchart TD\n");
	for (size_t i = 0; i < g->n_nodes; i++) {
		_cleanup_(str_deinit) struct str label = { 0 };
		bool in = g->nodes[i].is_input;

		if (in)
			text_add_printable(&label, g->nodes[i].name, strlen(g->nodes[i].name));
		else
			graph_add_label(&g->nodes[i], true, &label);
		str_addf(out, "  n%zu%s\"", i, in ? "([" : "[");
		for (size_t k = 0; k < label.len; k++)
			if (strchr("\"#<>&`;\\", label.s[k]))
				str_addf(out, "#%d;",
					 label.s[k]); /* only entities are safe there */
			else
				str_addc(out, label.s[k]);
		str_addf(out, "\"%s\n", in ? "])" : "]");
	}
	for (size_t i = 0; i < g->n_edges; i++)
		str_addf(out, "  n%u %s n%u\n", g->edges[i].from,
			 g->edges[i].kind == GRAPH_DATA ? "-->" : "-.->", g->edges[i].to);
}

json_t *graph_json(const struct graph *g)
{
	json_t *nodes = json_array(), *edges = json_array();

	for (size_t i = 0; i < g->n_nodes; i++) {
		const struct graph_node *n = &g->nodes[i];

		json_array_append_new(
			nodes, json_pack("{s:o, s:b, s:b, s:s?, s:o}", "name",
					 json_name(n->name, strlen(n->name)), "input", n->is_input,
					 "approval", n->asks, "step", n->step, "tasks",
					 n->tasks < 0 ? json_null() : json_integer(n->tasks)));
	}
	for (size_t i = 0; i < g->n_edges; i++) {
		const struct graph_node *from = &g->nodes[g->edges[i].from],
					*to = &g->nodes[g->edges[i].to];
		json_array_append_new(edges,
				      json_pack("{s:o, s:b, s:o, s:s}", "from",
						json_name(from->name, strlen(from->name)),
						"from_input", from->is_input, "to",
						json_name(to->name, strlen(to->name)), "kind",
						graph_edge_kind_name(g->edges[i].kind)));
	}
	return json_pack("{s:s, s:o, s:o}", "pipeline", g->name, "nodes", nodes, "edges", edges);
}
