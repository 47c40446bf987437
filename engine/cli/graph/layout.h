/* engine/cli/graph/layout.h — places for the nodes of a graph, in layers from top to bottom (after
 * Sugiyama, Tagawa, Toda 1981).
 *
 * Layers by the longest path; an edge that spans several layers gets a stand-in ("bend") in each
 * layer between, one chain for all edges from the same node; order within layers by barycentres;
 * positions by isotonic regression towards the mean of the neighbours.
 */
#ifndef CAIRN_CLI_GRAPH_LAYOUT_H
#define CAIRN_CLI_GRAPH_LAYOUT_H

#include "cli/graph/graph.h"

struct place {
	int32_t node;    /* index into graph->nodes, or -1: a bend */
	uint32_t source; /* the node at which a bend's chain begins; for a node, itself */
	uint32_t layer;
	double x; /* of the centre; the leftmost edge is at 0 */
	double width;
	VEC(uint32_t) up, down; /* neighbours: indices into places */
};

struct layout {
	struct place *places; /* the first n_nodes are the nodes, in their order */
	size_t n_places;
	uint32_t **layers; /* places of each layer, from left to right */
	size_t *layer_len;
	size_t n_layers;
	double width;
};

struct layout_options {
	const double *widths; /* of each node */
	double bend_width, gap;
	bool whole; /* positions are whole numbers */
};

/* NULL when it would need more than a million places: no one could read that. */
struct layout *layout_new(const struct graph *g, const struct layout_options *o);
void layout_free(struct layout *l);
static inline void layout_freep(struct layout **l)
{
	layout_free(*l);
}
/* Layers by the longest path from a node without needs. Nodes without needs are placed right above
 * the first node that needs them. ret has n_nodes places. Returns the number of layers. */
size_t layout_layers(const struct graph *g, uint32_t *ret);

#endif
