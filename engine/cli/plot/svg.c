/* A plot as a picture without external parts: a panel for each metric, one below the other. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "base/text/text.h"
#include "cli/graph/graph.h"
#include "cli/plot/plot.h"

#define WIDTH_PX  760.0
#define LEFT_PX   76.0
#define RIGHT_PX  20.0
#define TOP_PX    34.0
#define PLOT_PX   220.0
#define AXIS_PX   34.0
#define LEGEND_PX 18.0

/* Okabe and Ito's palette, which colour-blind readers can tell apart. */
static const char *const colors[] = { "#0072b2", "#e69f00", "#009e73",
				      "#cc79a7", "#56b4e9", "#d55e00" };

static double height_of(const struct plot *p)
{
	return TOP_PX + PLOT_PX + AXIS_PX + LEGEND_PX * (double)p->n + 12;
}

struct panel {
	const struct plot *p;
	struct plot_range xs, ys;
	double top; /* of the plot itself */
};

static double at_x(const struct panel *n, double v)
{
	return LEFT_PX + plot_place(&n->xs, v) * (WIDTH_PX - LEFT_PX - RIGHT_PX);
}

static double at_y(const struct panel *n, double v)
{
	return n->top + (1 - plot_place(&n->ys, v)) * PLOT_PX;
}

static void add_axes(struct str *out, const struct panel *n)
{
	double ticks[PLOT_TICKS_MAX];
	size_t k = plot_ticks(&n->ys, 6, ticks);

	for (size_t i = 0; i < k; i++)
		str_addf(out,
			 "<path class=\"grid\" d=\"M%.1f %.1fH%.1f\"/><text x=\"%.1f\" y=\"%.1f\" "
			 "text-anchor=\"end\">%.4g</text>\n",
			 LEFT_PX, at_y(n, ticks[i]), WIDTH_PX - RIGHT_PX, LEFT_PX - 8,
			 at_y(n, ticks[i]) + 4, ticks[i]);
	k = plot_ticks(&n->xs, 8, ticks);
	for (size_t i = 0; i < k; i++)
		str_addf(out, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.6g</text>\n",
			 at_x(n, ticks[i]), n->top + PLOT_PX + 18, ticks[i]);
	str_addf(out, "<path class=\"axis\" d=\"M%.1f %.1fV%.1fH%.1f\"/>\n", LEFT_PX, n->top,
		 n->top + PLOT_PX, WIDTH_PX - RIGHT_PX);
}

/* A path that starts anew after each gap; a single point is a dot, drawn by a round cap. */
static void add_line(struct str *out, const struct panel *n, size_t line)
{
	const struct plot_line *l = &n->p->lines[line];
	bool open = false;

	str_addf(out, "<path class=\"line\" stroke=\"%s\" d=\"", colors[line % ARRAY_LEN(colors)]);
	for (size_t i = 0; i < l->n; i++) {
		bool is = isfinite(l->v[i].x) && isfinite(l->v[i].y);

		if (is)
			str_addf(out, open ? "L%.2f %.2f" : "M%.2f %.2fh0", at_x(n, l->v[i].x),
				 at_y(n, l->v[i].y));
		open = is;
	}
	str_add(out, "\"/>\n");
}

static void add_legend(struct str *out, const struct panel *n)
{
	for (size_t i = 0; i < n->p->n; i++) {
		double y = n->top + PLOT_PX + AXIS_PX + LEGEND_PX * (double)i + 4;

		str_addf(out,
			 "<path class=\"line\" stroke=\"%s\" d=\"M%.1f %.1fh18\"/><text x=\"%.1f\" "
			 "y=\"%.1f\">",
			 colors[i % ARRAY_LEN(colors)], LEFT_PX, y, LEFT_PX + 26, y + 4);
		text_add_xml(out, n->p->lines[i].label, strlen(n->p->lines[i].label));
		str_add(out, "</text>\n");
	}
}

static void add_panel(struct str *out, const struct plot *p, double top)
{
	struct panel n = { .p = p, .top = top + TOP_PX };

	str_addf(out, "<text class=\"title\" x=\"%.1f\" y=\"%.1f\">", LEFT_PX, top + 22);
	text_add_xml(out, p->title, strlen(p->title));
	str_add(out, "</text>\n");
	if (!plot_range_of(p, PLOT_X, &n.xs) || !plot_range_of(p, PLOT_Y, &n.ys)) {
		str_addf(out, "<text x=\"%.1f\" y=\"%.1f\">no finite value</text>\n", LEFT_PX,
			 n.top + 20);
		return;
	}
	add_axes(out, &n);
	for (size_t i = 0; i < p->n; i++)
		add_line(out, &n, i);
	add_legend(out, &n);
}

void plot_add_svg(struct str *out, const struct plot *plots, size_t n)
{
	double height = 0, top = 0;

	for (size_t i = 0; i < n; i++)
		height += height_of(&plots[i]);
	str_addf(out,
		 "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" "
		 "width=\"%.0f\" height=\"%.0f\" role=\"img\">\n<title>metrics over "
		 "steps</title>\n<style>svg{background:#fff;font:12px "
		 "sans-serif}text{fill:#333}.title{font-weight:bold;font-size:14px}.grid{stroke:#"
		 "e4e4e4}.axis{stroke:#888;fill:none}.line{fill:none;stroke-width:1.8;stroke-"
		 "linecap:round;stroke-linejoin:round}@media(prefers-color-scheme:dark){svg{"
		 "background:#111}text{fill:#ccc}.grid{stroke:#333}}</style>\n",
		 WIDTH_PX, height, WIDTH_PX, height);
	for (size_t i = 0; i < n; i++) {
		add_panel(out, &plots[i], top);
		top += height_of(&plots[i]);
	}
	str_add(out, "</svg>\n");
}
