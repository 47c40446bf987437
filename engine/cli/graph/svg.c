/* engine/cli/graph/svg.c — a graph as one SVG file without external parts.
 *
 * layout.c gives places; this file turns columns into pixels. Text isn't measured: COLUMN_PX a
 * column is more than common sans-serif fonts take at this size, so that names stay inside their
 * boxes in any font.
 *
 * An edge is one path: from the source down its chain of bends to the target, a curve between two
 * layers and a straight piece through each layer that it passes. Colours are CSS variables, so that
 * one file suits light and dark.
 *
 * Invariant: every name goes through text_add_xml(). A graph that layout.c refuses becomes a
 * picture that says so.
 */
#include <string.h>
#include "base/mem.h"
#include "base/text/text.h"
#include "cli/graph/layout.h"

#define COLUMN_PX 8.6
#define PAD_PX    12.0
#define BOX_PX    30.0
#define LAYER_PX  72.0
#define MARGIN_PX 16.0

static double place_x(const struct place *p)
{
	return MARGIN_PX + p->x;
}

static double layer_y(uint32_t layer)
{
	return MARGIN_PX + layer * LAYER_PX;
}

/* Collects the bends of the source's chain from the target up, then draws them downward. */
static void add_edge(struct str *out, const struct layout *l, const struct graph_edge *e)
{
	_cleanup_(freep) uint32_t *way = xcalloc(l->n_layers + 1, sizeof(*way));
	size_t n = 0;
	double x, y;

	for (uint32_t at = e->to; at != e->from;) {
		const struct place *p = &l->places[at];
		size_t i = 0;
		way[n++] = at;
		while (i < p->up.n && l->places[p->up.v[i]].source != e->from)
			i++;
		if (i == p->up.n)
			return;
		at = p->up.v[i];
	}
	x = place_x(&l->places[e->from]);
	y = layer_y(l->places[e->from].layer) + BOX_PX;
	str_addf(out, "<path class=\"%s\" marker-end=\"url(#end)\" d=\"M%.1f %.1f",
		 graph_edge_kind_name(e->kind), x, y);
	while (n-- > 0) {
		const struct place *p = &l->places[way[n]];
		double to_y = layer_y(p->layer) - (p->node >= 0 ? 5 : 0);
		double middle = (y + to_y) / 2;

		str_addf(out, "C%.1f %.1f %.1f %.1f %.1f %.1f", x, middle, place_x(p), middle,
			 place_x(p), to_y);
		x = place_x(p);
		y = to_y;
		if (p->node < 0) {
			y += BOX_PX;
			str_addf(out, "V%.1f", y);
		}
	}
	str_add(out, "\"/>\n");
}

static const char *style_class(const struct graph_node *n)
{
	switch (n->style) {
	case STYLE_RED:
		return "node failed";
	case STYLE_GREEN:
		return "node done";
	case STYLE_CYAN:
		return "node hit";
	case STYLE_BLUE:
		return "node running";
	default:
		return n->is_input ? "input" : "node";
	}
}

static void add_node(struct str *out, const struct graph_node *n, const struct place *p)
{
	_cleanup_(str_deinit) struct str label = { 0 };
	double x = place_x(p), y = layer_y(p->layer);

	graph_add_label(n, true, &label);
	str_addf(out,
		 "<g class=\"%s\"><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\" "
		 "rx=\"7\"/>",
		 style_class(n), x - p->width / 2, y, p->width, BOX_PX);
	str_addf(out, "<text x=\"%.1f\" y=\"%.1f\">", x, y + BOX_PX / 2 + 4.5);
	text_add_xml(out, label.s, label.len);
	str_add(out, "</text></g>\n");
}

static void add_head(struct str *out, const struct graph *g, double width, double height)
{
	str_addf(out,
		 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
		 "width=\"%.0f\" height=\"%.0f\" role=\"img\">\n<title>",
		 width, height, width, height);
	text_add_xml(out, g->name, strlen(g->name));
	str_add(out, "</title>\n"
		     "<defs><marker id=\"end\" viewBox=\"0 0 8 8\" refX=\"3\" refY=\"4\" "
		     "markerWidth=\"7\" markerHeight=\"7\" orient=\"auto\">"
		     "<path class=\"head\" d=\"M0 0 8 4 0 8z\"/></marker></defs>\n"
		     "<style>\n"
		     "svg{--back:#fff;--ink:#1b2733;--line:#8795a3;--box:#eef3f7;--edge:#c3ced8}\n"
		     "@media "
		     "(prefers-color-scheme:dark){svg{--back:#14191e;--ink:#e6edf3;--line:#75828f;-"
		     "-box:#222c36;--edge:#3d4a57}}\n"
		     "text{font:13px system-ui,sans-serif;fill:var(--ink);text-anchor:middle}\n"
		     ".node rect{fill:var(--box);stroke:var(--edge)}\n"
		     ".input rect{fill:none;stroke:none}.input text{font-style:italic}\n"
		     ".done rect{stroke:#2e9e5b}.hit rect{stroke:#1793a5}.failed "
		     "rect{stroke:#d1443c}.running rect{stroke:#3b73d9}\n"
		     "path{fill:none;stroke:var(--line);stroke-width:1.4}.head{fill:var(--line);"
		     "stroke:none}\n"
		     ".metrics{stroke-dasharray:6 4}.order{stroke-dasharray:2 4}\n"
		     "</style>\n"
		     "<rect width=\"100%\" height=\"100%\" fill=\"var(--back)\"/>\n");
}

void graph_add_svg(const struct graph *g, struct str *out)
{
	_cleanup_(freep) double *widths = xcalloc(g->n_nodes + 1, sizeof(*widths));
	_cleanup_(layout_freep) struct layout *l = NULL;
	struct layout_options o = { .widths = widths, .bend_width = 8, .gap = 26 };

	for (size_t i = 0; i < g->n_nodes; i++) {
		_cleanup_(str_deinit) struct str label = { 0 };
		graph_add_label(&g->nodes[i], true, &label);
		widths[i] = (double)text_width(label.s, label.len) * COLUMN_PX + 2 * PAD_PX;
	}
	l = layout_new(g, &o);
	if (!l) { /* too large for a picture: the picture says so */
		add_head(out, g, 400, 60);
		str_add(out, "<text x=\"200\" y=\"35\">too large to be drawn</text>\n</svg>\n");
		return;
	}
	add_head(out, g, l->width + 2 * MARGIN_PX,
		 (double)(l->n_layers ? l->n_layers - 1 : 0) * LAYER_PX + BOX_PX + 2 * MARGIN_PX);
	for (size_t i = 0; i < g->n_edges; i++)
		add_edge(out, l, &g->edges[i]);
	for (size_t i = 0; i < g->n_nodes; i++)
		add_node(out, &g->nodes[i], &l->places[i]);
	str_add(out, "</svg>\n");
}
