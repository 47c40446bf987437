/* engine/cli/graph/layout.c — layers, order, positions (layout.h names the method).
 *
 * Four passes. layout_layers() gives layers. chain_at() splits each edge that spans several layers
 * into bends; all edges of one node share one chain, so a fan-out is one line that branches.
 * order() sweeps down and up by barycentres, at most SWEEPS times, and keeps the best order that it
 * saw. position() sets every layer to its neighbours' mean, four rounds of down and up, and
 * place_layer() keeps order and distance meanwhile (pool adjacent violators).
 *
 * `x` has two meanings: while order() works it is the index within the layer, afterwards a
 * position.
 *
 * Invariants: the nodes are in topological order, as struct graph promises. The first n_nodes
 * places are the nodes. Neighbours in `up` and `down` are always one layer apart. layout_new()
 * gives up at PLACES_MAX places.
 *
 * Cost: counting crossings is quadratic in a layer's edges, so a layer with more than COUNT_MAX
 * edges counts as one crossing, which keeps the sweeps going.
 *
 * Threads: any; it touches only its arguments. What it doesn't do: draw (text.c, svg.c).
 */
#include "cli/graph/layout.h"
#include <assert.h>
#include <math.h>
#include <string.h>
#include "base/mem.h"

#define PLACES_MAX  1000000
#define SWEEPS      12
#define COUNT_MAX   400 /* edges between two layers up to which crossings are counted */
#define BEND_WEIGHT 0.1 /* where there isn't room for both, a bend moves aside for a node */

size_t layout_layers(const struct graph *g, uint32_t *layer)
{
	_cleanup_(freep) bool *has_need = xcalloc(g->n_nodes + 1, sizeof(*has_need));
	_cleanup_(freep) uint32_t *first_user = xcalloc(g->n_nodes + 1, sizeof(*first_user));
	_cleanup_(freep) size_t *start = xcalloc(g->n_nodes + 2, sizeof(*start));
	_cleanup_(freep) uint32_t *to = xcalloc(g->n_edges + 1, sizeof(*to));
	size_t n = 0;

	memset(layer, 0, g->n_nodes * sizeof(*layer));
	for (size_t i = 0; i < g->n_edges; i++) {
		assert(g->edges[i].from < g->edges[i].to && g->edges[i].to < g->n_nodes);
		start[g->edges[i].from + 1]++;
	}
	for (size_t i = 0; i < g->n_nodes; i++)
		start[i + 1] += start[i];
	for (size_t i = g->n_edges; i-- > 0;)
		to[--start[g->edges[i].from + 1]] = g->edges[i].to;
	/* start[i + 1] is now where i's edges begin; those of i end where i + 1's begin. */
	for (size_t i = 0; i < g->n_nodes; i++) {
		size_t end = i + 1 < g->n_nodes ? start[i + 2] : g->n_edges;
		first_user[i] = UINT32_MAX;
		for (size_t k = start[i + 1]; k < end; k++) {
			layer[to[k]] = MAX(layer[to[k]], layer[i] + 1);
			has_need[to[k]] = true;
		}
	}
	for (size_t i = 0; i < g->n_edges; i++)
		first_user[g->edges[i].from] =
			MIN(first_user[g->edges[i].from], layer[g->edges[i].to]);
	for (size_t i = 0; i < g->n_nodes; i++) {
		if (!has_need[i] && first_user[i] != UINT32_MAX)
			layer[i] = first_user[i] - 1;
		n = MAX(n, (size_t)layer[i] + 1);
	}
	return n;
}

/* Places. */

struct builder {
	struct layout *l;
	size_t cap;
	double bend_width;
	/* Of each node: the deepest place of its chain of bends, at first itself. */
	uint32_t *chain_end;
};

static uint32_t add_place(struct builder *b, int32_t node, uint32_t source, uint32_t layer,
			  double width)
{
	struct layout *l = b->l;

	if (l->n_places == b->cap) {
		b->cap = b->cap ? b->cap * 2 : 64;
		l->places = xreallocarray(l->places, b->cap, sizeof(*l->places));
	}
	l->places[l->n_places] =
		(struct place){ .node = node, .source = source, .layer = layer, .width = width };
	return (uint32_t)l->n_places++;
}

static void link_places(struct layout *l, uint32_t a, uint32_t b)
{
	VEC_PUSH(&l->places[a].down, b);
	VEC_PUSH(&l->places[b].up, a);
}

/* The place of `from`'s chain in `layer`; extends the chain if needed. chain_end is the deepest
 * place. A chain is followed through the bend among the places below. */
static uint32_t chain_at(struct builder *b, uint32_t from, uint32_t layer)
{
	struct layout *l = b->l;
	uint32_t at = b->chain_end[from];

	while (l->places[at].layer < layer) {
		uint32_t next = add_place(b, -1, from, l->places[at].layer + 1, b->bend_width);
		link_places(l, at, next);
		at = b->chain_end[from] = next;
	}
	while (l->places[at].layer > layer)
		at = l->places[at].up.v[0];
	return at;
}

/* Order: for now, x is the index within the layer. */

struct keyed {
	double key;
	uint32_t place;
	size_t was;
};

static int by_key(const void *a, const void *b)
{
	const struct keyed *x = a, *y = b;

	if (x->key != y->key)
		return x->key < y->key ? -1 : 1;
	return x->was < y->was ? -1 : x->was > y->was;
}

static double mean_x(const struct layout *l, const uint32_t *v, size_t n, double otherwise)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += l->places[v[i]].x;
	return n ? sum / (double)n : otherwise;
}

static void order_layer(struct layout *l, size_t layer, bool by_upper)
{
	size_t n = l->layer_len[layer];
	_cleanup_(freep) struct keyed *v = xcalloc(n + 1, sizeof(*v));

	for (size_t i = 0; i < n; i++) {
		const struct place *p = &l->places[l->layers[layer][i]];
		v[i].place = l->layers[layer][i];
		v[i].was = i;
		v[i].key = by_upper ? mean_x(l, p->up.v, p->up.n, p->x)
				    : mean_x(l, p->down.v, p->down.n, p->x);
	}
	qsort(v, n, sizeof(*v), by_key);
	for (size_t i = 0; i < n; i++) {
		l->layers[layer][i] = v[i].place;
		l->places[v[i].place].x = (double)i;
	}
}

/* Pairs of edges between two layers that cross; 1 where counting would take too long. */
static uint64_t crossings(const struct layout *l, size_t layer)
{
	struct pair {
		double a, b;
	};
	VEC(struct pair) edges = { 0 };
	uint64_t n = 0;

	for (size_t i = 0; i < l->layer_len[layer]; i++) {
		const struct place *p = &l->places[l->layers[layer][i]];
		for (size_t k = 0; k < p->down.n && edges.n <= COUNT_MAX; k++) {
			struct pair e = { p->x, l->places[p->down.v[k]].x };
			VEC_PUSH(&edges, e);
		}
	}
	if (edges.n > COUNT_MAX)
		n = 1;
	for (size_t i = 0; i < edges.n && edges.n <= COUNT_MAX; i++)
		for (size_t k = 0; k < i; k++)
			n += (edges.v[i].a - edges.v[k].a) * (edges.v[i].b - edges.v[k].b) < 0;
	VEC_FREE(&edges);
	return n;
}

static uint64_t all_crossings(const struct layout *l)
{
	uint64_t n = 0;

	for (size_t i = 0; i + 1 < l->n_layers; i++)
		n += crossings(l, i);
	return n;
}

static void keep_order(const struct layout *l, uint32_t *best)
{
	for (size_t i = 0; i < l->n_layers; best += l->layer_len[i], i++)
		memcpy(best, l->layers[i], l->layer_len[i] * sizeof(*best));
}

static void order(struct layout *l)
{
	_cleanup_(freep) uint32_t *best = xcalloc(l->n_places + 1, sizeof(*best));
	uint64_t fewest = all_crossings(l), now;

	keep_order(l, best);
	for (int sweep = 0; sweep < SWEEPS && fewest; sweep++) {
		if (sweep % 2 == 0)
			for (size_t i = 1; i < l->n_layers; i++)
				order_layer(l, i, true);
		else
			for (size_t i = l->n_layers - 1; i-- > 0;)
				order_layer(l, i, false);
		now = all_crossings(l);
		if (now <= fewest) {
			fewest = now;
			keep_order(l, best);
		}
	}
	for (size_t i = 0, at = 0; i < l->n_layers; at += l->layer_len[i], i++) {
		memcpy(l->layers[i], best + at, l->layer_len[i] * sizeof(*best));
		for (size_t k = 0; k < l->layer_len[i]; k++)
			l->places[best[at + k]].x = (double)k;
	}
}

/* Positions. */

static double separation(const struct layout *l, size_t layer, size_t i, double gap)
{
	return (l->places[l->layers[layer][i - 1]].width + l->places[l->layers[layer][i]].width) /
		       2 +
	       gap;
}

/* The positions nearest to the desired ones (least squares) that keep order and distance: pool
 * adjacent violators. */
static void place_layer(struct layout *l, size_t layer, const double *desired, double gap)
{
	struct block {
		double sum, weight;
		size_t n;
	};
	size_t n = l->layer_len[layer], n_blocks = 0;
	_cleanup_(freep) struct block *b = xcalloc(n + 1, sizeof(*b));
	double offset = 0;

	for (size_t i = 0; i < n; i++) {
		double w = l->places[l->layers[layer][i]].node < 0 ? BEND_WEIGHT : 1;
		offset += i ? separation(l, layer, i, gap) : 0;
		b[n_blocks++] = (struct block){ (desired[i] - offset) * w, w, 1 };
		while (n_blocks > 1 && b[n_blocks - 2].sum / b[n_blocks - 2].weight >=
					       b[n_blocks - 1].sum / b[n_blocks - 1].weight) {
			b[n_blocks - 2].sum += b[n_blocks - 1].sum;
			b[n_blocks - 2].weight += b[n_blocks - 1].weight;
			b[n_blocks - 2].n += b[n_blocks - 1].n;
			n_blocks--;
		}
	}
	offset = 0;
	for (size_t i = 0, k = 0, left = b[0].n; i < n; i++, left--) {
		if (left == 0)
			left = b[++k].n;
		offset += i ? separation(l, layer, i, gap) : 0;
		l->places[l->layers[layer][i]].x = b[k].sum / b[k].weight + offset;
	}
}

/* Nodes weigh more than bends, so that chains of nodes are straight and long edges run beside
 * them. */
static double middle(const struct layout *l, const uint32_t *v, size_t n, double otherwise)
{
	double sum = 0, weight = 0;

	for (size_t i = 0; i < n; i++) {
		double w = l->places[v[i]].node < 0 ? 0.1 : 1;
		sum += l->places[v[i]].x * w;
		weight += w;
	}
	return n ? sum / weight : otherwise;
}

static void pull(struct layout *l, size_t layer, int sides, double gap)
{
	size_t n = l->layer_len[layer];
	_cleanup_(freep) double *desired = xcalloc(n + 1, sizeof(*desired));

	for (size_t i = 0; i < n; i++) {
		const struct place *p = &l->places[l->layers[layer][i]];
		double up = middle(l, p->up.v, p->up.n, p->x),
		       down = middle(l, p->down.v, p->down.n, p->x);
		desired[i] = sides == 1             ? up
			     : sides == 2           ? down
			     : p->up.n && p->down.n ? (up + down) / 2
			     : p->up.n              ? up
						    : down;
	}
	if (n)
		place_layer(l, layer, desired, gap);
}

/* Puts a place right under its single neighbour that is nearly above, when there is room. */
static void straighten(struct layout *l, size_t layer, double gap, bool by_upper)
{
	for (size_t i = 0; i < l->layer_len[layer]; i++) {
		struct place *p = &l->places[l->layers[layer][i]];
		const uint32_t *v = by_upper ? p->up.v : p->down.v;
		size_t n = by_upper ? p->up.n : p->down.n;
		double want;

		if (n != 1)
			continue;
		want = l->places[v[0]].x;
		if (want - p->x > 2.5 || p->x - want > 2.5)
			continue;
		if (i &&
		    want - l->places[l->layers[layer][i - 1]].x < separation(l, layer, i, gap - 1))
			continue;
		if (i + 1 < l->layer_len[layer] && l->places[l->layers[layer][i + 1]].x - want <
							   separation(l, layer, i + 1, gap - 1))
			continue;
		p->x = want;
	}
}

static void to_origin(struct layout *l)
{
	double least = INFINITY, most = 0;

	for (size_t i = 0; i < l->n_places; i++)
		least = MIN(least, l->places[i].x - l->places[i].width / 2);
	for (size_t i = 0; i < l->n_places; i++) {
		l->places[i].x -= least;
		most = MAX(most, l->places[i].x + l->places[i].width / 2);
	}
	l->width = most;
}

static void position(struct layout *l, const struct layout_options *o)
{
	for (size_t i = 0; i < l->n_layers; i++) {
		_cleanup_(freep) double *zero = xcalloc(l->layer_len[i] + 1, sizeof(*zero));
		if (l->layer_len[i])
			place_layer(l, i, zero, o->gap);
	}
	for (int round = 0; round < 4; round++) {
		for (size_t i = 1; i < l->n_layers; i++)
			pull(l, i, 1, o->gap);
		for (size_t i = l->n_layers; i-- > 0;)
			pull(l, i, round == 3 ? 3 : 2, o->gap);
	}
	if (o->whole) {
		to_origin(l);
		for (size_t i = 0; i < l->n_places; i++)
			l->places[i].x =
				(double)(int64_t)(l->places[i].x + 0.5); /* never negative here */
		for (size_t i = 1; i < l->n_layers; i++)
			straighten(l, i, o->gap, true);
		for (size_t i = l->n_layers; i-- > 0;)
			straighten(l, i, o->gap, false);
	}
	to_origin(l);
	for (size_t i = 0; o->whole && i < l->n_places; i++)
		l->places[i].x = (double)(int64_t)l->places[i].x;
}

struct layout *layout_new(const struct graph *g, const struct layout_options *o)
{
	_cleanup_(layout_freep) struct layout *l = xcalloc(1, sizeof(*l));
	_cleanup_(freep) uint32_t *layer = xcalloc(g->n_nodes + 1, sizeof(*layer));
	_cleanup_(freep) uint32_t *chain_end = xcalloc(g->n_nodes + 1, sizeof(*chain_end));
	struct builder b = { .l = l, .bend_width = o->bend_width, .chain_end = chain_end };

	l->n_layers = layout_layers(g, layer);
	for (size_t i = 0; i < g->n_nodes; i++)
		chain_end[i] = add_place(&b, (int32_t)i, (uint32_t)i, layer[i], o->widths[i]);
	for (size_t i = 0; i < g->n_edges; i++) {
		const struct graph_edge *e = &g->edges[i];

		if (l->n_places + layer[e->to] - layer[e->from] > PLACES_MAX)
			return NULL;
		link_places(l, chain_at(&b, e->from, layer[e->to] - 1), e->to);
	}
	l->layers = xcalloc(l->n_layers + 1, sizeof(*l->layers));
	l->layer_len = xcalloc(l->n_layers + 1, sizeof(*l->layer_len));
	for (size_t i = 0; i < l->n_places; i++)
		l->layer_len[l->places[i].layer]++;
	for (size_t i = 0; i < l->n_layers; i++) {
		l->layers[i] = xcalloc(l->layer_len[i] + 1, sizeof(**l->layers));
		l->layer_len[i] = 0;
	}
	for (size_t i = 0; i < l->n_places; i++) {
		uint32_t in = l->places[i].layer;
		l->places[i].x = (double)l->layer_len[in];
		l->layers[in][l->layer_len[in]++] = (uint32_t)i;
	}
	order(l);
	position(l, o);
	return TAKE_PTR(l);
}

void layout_free(struct layout *l)
{
	if (!l)
		return;
	for (size_t i = 0; i < l->n_places; i++) {
		VEC_FREE(&l->places[i].up);
		VEC_FREE(&l->places[i].down);
	}
	for (size_t i = 0; l->layers && i < l->n_layers; i++)
		free(l->layers[i]);
	free(l->layers);
	free(l->layer_len);
	free(l->places);
	free(l);
}
