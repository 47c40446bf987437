/* engine/cli/graph/graph.h — a pipeline as nodes and edges, and its drawings.
 *
 * A graph is plain data in the caller's arena: it can come from a pipeline (steps, or tasks as far
 * as they are known without running) or from anywhere else. Names may be hostile: every drawing
 * escapes what its format needs.
 */
#ifndef CAIRN_CLI_GRAPH_GRAPH_H
#define CAIRN_CLI_GRAPH_GRAPH_H

#include "cli/cli.h"

enum graph_edge_kind { GRAPH_DATA, GRAPH_METRICS, GRAPH_ORDER };

struct graph_node {
	const char *name; /* unique in the graph */
	const char *step; /* the step it belongs to; NULL for an input of the pipeline */
	/* Of a step: its number of tasks, 1 without fan-out, -1 when only a run can tell. */
	int64_t tasks;
	bool is_input;
	bool asks;            /* it waits for a person */
	enum cli_style style; /* STYLE_PLAIN, or the colour of its state */
};
struct graph_edge {
	uint32_t from, to;
	enum graph_edge_kind kind;
};
struct graph {
	const char *name;
	struct graph_node *nodes; /* in topological order */
	size_t n_nodes;
	struct graph_edge *edges;
	size_t n_edges;
};

#define GRAPH_TASKS_MAX 2000 /* a drawing with more can't be read */
#define GRAPH_EDGES_MAX 200000

/* tasks: one node a task, for matrices and lists whose values are known; ERR_TOO_LARGE over
 * GRAPH_TASKS_MAX. */
int graph_from_pipeline(const struct pipeline *p, bool tasks, struct arena *arena,
			struct graph *ret, struct err *err);

struct graph_text_options {
	unsigned
		columns; /* a layered drawing that is wider, or unclear, becomes an indented tree */
	bool color, utf8;
};
void graph_add_text(const struct graph *g, const struct graph_text_options *o, struct str *out);
/* Writes a quoted string of the DOT language, with its bytes made printable. */
void graph_add_dot_string(struct str *out, const char *s);
void graph_add_dot(const struct graph *g, struct str *out);
void graph_add_mermaid(const struct graph *g, struct str *out);
/* One file without external parts, for light and dark. */
void graph_add_svg(const struct graph *g, struct str *out);
json_t *graph_json(const struct graph *g);
/* "train", "train ×4", "(raw)", "release: approval": printable. */
void graph_add_label(const struct graph_node *n, bool utf8, struct str *out);
const char *graph_edge_kind_name(enum graph_edge_kind k);

#endif
