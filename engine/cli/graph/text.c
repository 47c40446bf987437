/* engine/cli/graph/text.c — a graph in the terminal: layers with lines between them, or an indented
 * tree.
 *
 * draw_layers() writes one line a layer with the names, and between two layers a channel in which
 * edges turn. Where that isn't possible (more than DRAWN_MAX nodes, wider than the terminal, a name
 * too narrow for its edges, a drawing that would mislead) graph_add_tree() writes a tree: each node
 * once, under its deepest need; its other needs are named after it.
 *
 * All edges that leave one place form a net: down from the source, one horizontal piece on a track,
 * down to each target. Invariant: following a net's lines, never upward, leads to exactly its
 * targets. Therefore
 *
 * - nets that have several targets enter a node at ports of their own; nets whose only target is
 *   this
 *   node may join each other;
 * - two nets share a track only when a column stays free between them;
 * - a net that starts in a column in which another one comes down turns off above the place where
 *   the other one arrives. When such orders contradict each other, no correct drawing exists;
 * - a line that merely passes behind a vertical one is interrupted there.
 *
 * Threads: any; it touches only its arguments. What it doesn't do: choose places (layout.c).
 */
#include "base/text/text.h"
#include <string.h>
#include "base/mem.h"
#include "cli/graph/layout.h"

#define DRAWN_MAX 300 /* nodes: more are shown as a tree */
#define GAP       3

enum { UP = 1, DOWN = 2, LEFT = 4, RIGHT = 8 };

void graph_add_label(const struct graph_node *n, bool utf8, struct str *out)
{
	if (n->is_input)
		str_addc(out, '(');
	text_add_printable(out, n->name, strlen(n->name));
	if (n->is_input)
		str_addc(out, ')');
	if (n->tasks < 0)
		str_add(out, utf8 ? " ×?" : " x?");
	else if (n->tasks != 1 && !n->is_input)
		str_addf(out, utf8 ? " ×%lld" : " x%lld", (long long)n->tasks);
	if (n->asks)
		str_add(out, ": approval");
}

static const char *node_style(const struct graph_node *n, const struct graph_text_options *o)
{
	return !o->color                 ? ""
	       : n->style != STYLE_PLAIN ? cli_style_escape(n->style)
	       : n->is_input             ? cli_style_escape(STYLE_DIM)
					 : cli_style_escape(STYLE_BOLD);
}

static const char *plain_style(const struct graph_text_options *o)
{
	return o->color ? cli_style_escape(STYLE_PLAIN) : "";
}

/* Channel. */

struct net {
	uint32_t place;
	int *ports; /* columns in which it comes down: one for each target below */
	int x, left, right;
	bool bends; /* has a horizontal piece */
	int track;
};

struct cell {
	uint8_t vertical, horizontal;
	bool joined; /* the horizontal line's own net turns or forks here */
};

struct drawing {
	const struct graph *g;
	const struct layout *l;
	const struct graph_text_options *o;
	struct str *out;
	int columns;
	struct str *labels; /* of each node */
};

/* Ports: where nets enter a node. */

struct port {
	double wanted;
	uint32_t place; /* the net that enters here, or any of those that join here */
	int column;
};

static bool ends_there(const struct layout *l, uint32_t place)
{
	return l->places[place].down.n == 1;
}

static int by_wanted(const void *a, const void *b)
{
	const struct port *x = a, *y = b;

	if (x->wanted != y->wanted)
		return x->wanted < y->wanted ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

/* Places them straight down where possible, in the order of their sources, with a column between
 * any two. False when the node is too narrow. */
static bool set_columns(const struct place *p, struct port *v, size_t n)
{
	int first = (int)p->x - ((int)p->width - 1) / 2, last = first + (int)p->width - 1;

	if ((int)n * 2 - 1 > (int)p->width)
		return false;
	qsort(v, n, sizeof(*v), by_wanted);
	for (size_t i = 0; i < n; i++)
		v[i].column =
			(int)MIN(MAX(v[i].wanted, (double)first + 2 * (double)i), (double)last);
	for (size_t i = 1; i < n; i++)
		v[i].column = MAX(v[i].column, v[i - 1].column + 2);
	for (size_t i = n, limit = 0; i-- > 0; limit += 2)
		v[i].column = MIN(v[i].column, last - (int)limit);
	return true;
}

/* The column in which the net of `from` enters `to`; -1 when there are too many nets. */
static int port_of(const struct layout *l, uint32_t from, uint32_t to)
{
	const struct place *p = &l->places[to];
	_cleanup_(freep) struct port *v = xcalloc(p->up.n + 1, sizeof(*v));
	size_t n = 0, ending = SIZE_MAX;

	if (p->node < 0)
		return (int)p->x;
	for (size_t i = 0; i < p->up.n; i++) {
		if (!ends_there(l, p->up.v[i])) {
			v[n++] = (struct port){ l->places[p->up.v[i]].x, p->up.v[i], 0 };
		} else if (ending == SIZE_MAX) {
			ending = n;
			v[n++] = (struct port){ l->places[p->up.v[i]].x, p->up.v[i], 0 };
		} else {
			v[ending].wanted = p->x; /* several that join: in the middle */
		}
	}
	ending = ending == SIZE_MAX ? SIZE_MAX : v[ending].place;
	if (!set_columns(p, v, n))
		return -1;
	for (size_t i = 0; i < n; i++)
		if (v[i].place == from || (v[i].place == ending && ends_there(l, from)))
			return v[i].column;
	return -1;
}

/* Nets and tracks. */

/* -1 when a node is too narrow. */
static int make_net(const struct layout *l, uint32_t place, struct net *net)
{
	const struct place *p = &l->places[place];

	*net = (struct net){
		.place = place, .x = (int)p->x, .left = (int)p->x, .right = (int)p->x, .track = -1
	};
	net->ports = xcalloc(p->down.n + 1, sizeof(*net->ports));
	for (size_t k = 0; k < p->down.n; k++) {
		net->ports[k] = port_of(l, place, p->down.v[k]);
		if (net->ports[k] < 0)
			return -1;
		net->left = MIN(net->left, net->ports[k]);
		net->right = MAX(net->right, net->ports[k]);
	}
	net->bends = net->left != net->right;
	return 0;
}

/* Whether a's horizontal piece must be above b's: a starts in a column where b comes down. */
static bool above(const struct layout *l, const struct net *a, const struct net *b)
{
	for (size_t i = 0; i < l->places[b->place].down.n; i++)
		if (b->ports[i] == a->x)
			return a != b && a->bends && b->bends;
	return false;
}

static bool free_in_track(const struct net *nets, size_t n, const struct net *net, int track)
{
	for (size_t i = 0; i < n; i++)
		if (&nets[i] != net && nets[i].bends && nets[i].track == track &&
		    net->left <= nets[i].right + 1 && nets[i].left <= net->right + 1)
			return false;
	return true;
}

/* Gives each net that bends a track, starting with nets that nothing must be above. Returns the
 * number of tracks, -1 for a contradiction. */
static int assign_tracks(const struct layout *l, struct net *nets, size_t n)
{
	int n_tracks = 0;
	size_t left = 0;

	for (size_t i = 0; i < n; i++)
		left += nets[i].bends;
	while (left) {
		bool any = false;

		for (size_t i = 0; i < n; i++) {
			int track = 0;
			bool ready = nets[i].bends && nets[i].track < 0;

			for (size_t k = 0; k < n && ready; k++) {
				if (!above(l, &nets[k], &nets[i]))
					continue;
				ready = nets[k].track >= 0;
				track = MAX(track, nets[k].track + 1);
			}
			if (!ready)
				continue;
			while (!free_in_track(nets, n, &nets[i], track))
				track++;
			nets[i].track = track;
			n_tracks = MAX(n_tracks, track + 1);
			left--;
			any = true;
		}
		if (!any)
			return -1;
	}
	return n_tracks;
}

static void draw_down(struct cell *cells, int columns, int x, int from, int to)
{
	for (int y = from; y < to; y++)
		cells[(size_t)y * (size_t)columns + (size_t)x].vertical |= UP | DOWN;
}

static void draw_net(const struct layout *l, const struct net *net, struct cell *cells, int columns,
		     int height)
{
	struct cell *row = cells + (size_t)MAX(net->track, 0) * (size_t)columns;

	if (!net->bends) {
		draw_down(cells, columns, net->x, 0, height);
		return;
	}
	draw_down(cells, columns, net->x, 0, net->track);
	for (int x = net->left; x <= net->right; x++)
		row[x].horizontal |=
			(uint8_t)((x > net->left ? LEFT : 0) | (x < net->right ? RIGHT : 0));
	row[net->x].vertical |= UP;
	row[net->x].joined = true;
	for (size_t i = 0; i < l->places[net->place].down.n; i++) {
		row[net->ports[i]].vertical |= DOWN;
		row[net->ports[i]].joined = true;
		draw_down(cells, columns, net->ports[i], net->track + 1, height);
	}
}

static void add_cells(struct drawing *d, const struct cell *cells, int height)
{
	static const char *const lines[16] = { " ", "╵", "╷", "│", "╴", "┘", "┐", "┤",
					       "╶", "└", "┌", "├", "─", "┴", "┬", "┼" };
	static const char *const ascii[16] = { " ", "|", "|", "|", "-", "+", "+", "+",
					       "-", "+", "+", "+", "-", "+", "+", "+" };

	for (int y = 0; y < height; y++) {
		const struct cell *row = cells + (size_t)y * (size_t)d->columns;
		int end = d->columns;

		while (end > 0 && !row[end - 1].vertical && !row[end - 1].horizontal)
			end--;
		str_add(d->out, d->o->color ? cli_style_escape(STYLE_DIM) : "");
		for (int x = 0; x < end; x++) {
			unsigned bits = row[x].vertical;

			if (row[x].joined || !bits)
				bits |= row[x].horizontal;
			str_add(d->out, d->o->utf8 ? lines[bits] : ascii[bits]);
		}
		str_addf(d->out, "%s\n", plain_style(d->o));
	}
}

static bool draw_channel(struct drawing *d, size_t layer)
{
	const struct layout *l = d->l;
	struct net *nets = xcalloc(l->layer_len[layer] + 1, sizeof(*nets));
	_cleanup_(freep) struct cell *cells = NULL;
	int height = -1;
	size_t n = 0;
	bool done = true;

	for (size_t i = 0; i < l->layer_len[layer] && done; i++)
		if (l->places[l->layers[layer][i]].down.n)
			done = make_net(l, l->layers[layer][i], &nets[n++]) == 0;
	if (done)
		height = assign_tracks(l, nets, n);
	if (height >= 0) {
		height = MAX(height, 1);
		cells = xcalloc((size_t)height * (size_t)d->columns, sizeof(*cells));
		for (size_t i = 0; i < n; i++)
			draw_net(l, &nets[i], cells, d->columns, height);
		add_cells(d, cells, height);
	}
	for (size_t i = 0; i < n; i++)
		free(nets[i].ports);
	free(nets);
	return height >= 0;
}

/* Names. */

static void draw_names(struct drawing *d, size_t layer)
{
	int at = 0;

	for (size_t i = 0; i < d->l->layer_len[layer]; i++) {
		const struct place *p = &d->l->places[d->l->layers[layer][i]];
		int width = p->node < 0
				    ? 1
				    : (int)text_width(d->labels[p->node].s, d->labels[p->node].len),
		    start = (int)p->x - (width - 1) / 2;

		str_addf(d->out, "%*s", MAX(start - at, 0), "");
		if (p->node < 0)
			str_add(d->out, d->o->utf8 ? "│" : "|");
		else
			str_addf(d->out, "%s%s%s", node_style(&d->g->nodes[p->node], d->o),
				 d->labels[p->node].s, plain_style(d->o));
		at = MAX(start, at) + width;
	}
	str_addc(d->out, '\n');
}

/* Each port needs a column, and one between any two. A name that is shorter than its ports gets
 * brackets that show its width. */
static void make_room(const struct graph *g, struct str *labels, double *widths)
{
	_cleanup_(freep) uint32_t *needs = xcalloc(g->n_nodes + 1, sizeof(*needs));

	for (size_t i = 0; i < g->n_edges; i++)
		needs[g->edges[i].to]++;
	for (size_t i = 0; i < g->n_nodes; i++) {
		size_t width = text_width(labels[i].s, labels[i].len),
		       room = needs[i] ? 2 * MIN(needs[i], 9u) - 1 : 0;

		if (room > width) {
			_cleanup_(str_deinit) struct str name = labels[i];
			size_t space = room > width + 2 ? room - width - 2 : 0;

			labels[i] = (struct str){ 0 };
			str_addf(&labels[i], "[%*s%s%*s]", (int)(space / 2), "", name.s,
				 (int)(space - space / 2), "");
			width = MAX(room, width + 2);
		}
		widths[i] = (double)width;
	}
}

static bool draw_layers(const struct graph *g, const struct graph_text_options *o,
			struct str *labels, const double *widths, struct str *out)
{
	struct layout_options lo = { .widths = widths, .bend_width = 1, .gap = GAP, .whole = true };
	_cleanup_(layout_freep) struct layout *l = layout_new(g, &lo);
	struct drawing d = { .g = g, .l = l, .o = o, .out = out, .labels = labels };

	if (!l || l->width > o->columns)
		return false;
	d.columns = (int)l->width + 2;
	for (size_t i = 0; i < l->n_layers; i++) {
		draw_names(&d, i);
		if (i + 1 < l->n_layers && !draw_channel(&d, i))
			return false;
	}
	return true;
}

/* Tree. */

/* Each node stands once, under its deepest need. The other needs are named after it. */
struct tree {
	const struct graph *g;
	const struct graph_text_options *o;
	uint32_t *layer, *parent, *first_child, *next; /* UINT32_MAX: none */
	size_t *need_start;
	uint32_t *needs;
};

static void tree_links(struct tree *t)
{
	const struct graph *g = t->g;

	for (size_t i = 0; i < g->n_nodes; i++)
		t->parent[i] = t->first_child[i] = t->next[i] = UINT32_MAX;
	for (size_t i = 0; i < g->n_edges; i++) {
		uint32_t from = g->edges[i].from, to = g->edges[i].to;
		t->need_start[to + 1]++;
		if (t->parent[to] == UINT32_MAX || t->layer[from] > t->layer[t->parent[to]])
			t->parent[to] = from;
	}
	for (size_t i = 0; i < g->n_nodes; i++)
		t->need_start[i + 1] += t->need_start[i];
	for (size_t i = g->n_edges; i-- > 0;)
		t->needs[--t->need_start[g->edges[i].to + 1]] = g->edges[i].from;
	for (size_t i = g->n_nodes; i-- > 0;) {
		if (t->parent[i] == UINT32_MAX)
			continue;
		t->next[i] = t->first_child[t->parent[i]];
		t->first_child[t->parent[i]] = (uint32_t)i;
	}
}

static void tree_needs(const struct tree *t, uint32_t node, struct str *out)
{
	size_t end = node + 1 < t->g->n_nodes ? t->need_start[node + 2] : t->g->n_edges, said = 0;

	for (size_t i = t->need_start[node + 1]; i < end; i++) {
		if (t->needs[i] == t->parent[node])
			continue;
		if (said == 0)
			str_addf(out, "%s  also needs ",
				 t->o->color ? cli_style_escape(STYLE_DIM) : "");
		else if (said == 5) {
			str_addf(out, " and %zu more", end - i);
			break;
		} else {
			str_add(out, ", ");
		}
		text_add_printable(out, t->g->nodes[t->needs[i]].name,
				   strlen(t->g->nodes[t->needs[i]].name));
		said++;
	}
	if (said)
		str_add(out, plain_style(t->o));
}

/* Without recursion: a chain of a hundred thousand steps is deeper than the stack. */
static void tree_walk(const struct tree *t, uint32_t root, struct str *out)
{
	uint32_t at = root;
	size_t depth = 0;

	for (;;) {
		const struct graph_node *n = &t->g->nodes[at];

		if (depth > 40) /* deeper than a screen is wide: the depth as a number */
			str_addf(out, "%*s[%zu] ", 80, "", depth);
		else
			str_addf(out, "%*s", (int)depth * 2, "");
		str_add(out, node_style(n, t->o));
		graph_add_label(n, t->o->utf8, out);
		str_add(out, plain_style(t->o));
		tree_needs(t, at, out);
		str_addc(out, '\n');
		if (t->first_child[at] != UINT32_MAX) {
			at = t->first_child[at];
			depth++;
			continue;
		}
		while (at != root && t->next[at] == UINT32_MAX) {
			at = t->parent[at];
			depth--;
		}
		if (at == root)
			return;
		at = t->next[at];
	}
}

static void graph_add_tree(const struct graph *g, const struct graph_text_options *o,
			   struct str *out)
{
	size_t n = g->n_nodes + 2;
	struct tree t = { .g = g, .o = o };
	_cleanup_(freep) uint32_t *layer = t.layer = xcalloc(n, sizeof(uint32_t));
	_cleanup_(freep) uint32_t *parent = t.parent = xcalloc(n, sizeof(uint32_t));
	_cleanup_(freep) uint32_t *child = t.first_child = xcalloc(n, sizeof(uint32_t));
	_cleanup_(freep) uint32_t *next = t.next = xcalloc(n, sizeof(uint32_t));
	_cleanup_(freep) size_t *start = t.need_start = xcalloc(n, sizeof(size_t));
	_cleanup_(freep) uint32_t *needs = t.needs = xcalloc(g->n_edges + 1, sizeof(uint32_t));

	(void)layer, (void)parent, (void)child, (void)next, (void)start, (void)needs;
	layout_layers(g, t.layer);
	tree_links(&t);
	for (size_t i = 0; i < g->n_nodes; i++)
		if (t.parent[i] == UINT32_MAX)
			tree_walk(&t, (uint32_t)i, out);
}

void graph_add_text(const struct graph *g, const struct graph_text_options *o, struct str *out)
{
	_cleanup_(str_deinit) struct str drawn = { 0 };
	struct str *labels;
	double *widths;
	bool done = false;

	if (g->n_nodes > 0 && g->n_nodes <= DRAWN_MAX) {
		labels = xcalloc(g->n_nodes, sizeof(*labels));
		widths = xcalloc(g->n_nodes, sizeof(*widths));
		for (size_t i = 0; i < g->n_nodes; i++)
			graph_add_label(&g->nodes[i], o->utf8, &labels[i]);
		make_room(g, labels, widths);
		done = draw_layers(g, o, labels, widths, &drawn);
		for (size_t i = 0; i < g->n_nodes; i++)
			str_deinit(&labels[i]);
		free(labels);
		free(widths);
	}
	if (done)
		str_addn(out, drawn.s, drawn.len);
	else
		graph_add_tree(g, o, out);
}
