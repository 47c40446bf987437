/* engine/cli/plot/plot.h — lines as a picture: in the terminal, and as SVG. scale.c computes the
 * axes, text.c and svg.c draw. Values that aren't finite are gaps. All points are the caller's. */
#ifndef CAIRN_CLI_PLOT_PLOT_H
#define CAIRN_CLI_PLOT_PLOT_H

#include "base/text/str.h"
#include "run/view/series.h"

struct plot_line {
	const char *label;
	const struct series_point *v;
	size_t n;
};

struct plot {
	const char *title;
	const struct plot_line *lines;
	size_t n;
};

struct plot_range {
	double min, max; /* min < max */
};

enum plot_axis { PLOT_X, PLOT_Y };
/* The range of all finite points, widened when there is only one value; false when there is no
 * point. */
bool plot_range_of(const struct plot *p, enum plot_axis axis, struct plot_range *ret);
/* The position of v in the range: 0 to 1. */
double plot_place(const struct plot_range *r, double v);
/* Finds at most `max` (>= 2) round numbers in the range; returns how many. */
#define PLOT_TICKS_MAX 12
size_t plot_ticks(const struct plot_range *r, size_t max, double ret[static PLOT_TICKS_MAX]);

struct plot_text_options {
	unsigned columns, rows; /* of the whole picture, title and legend not counted */
	bool utf8, color;       /* else ASCII, without escapes */
};
void plot_add_text(struct str *out, const struct plot *p, const struct plot_text_options *o);
/* One document with a panel for each plot. */
void plot_add_svg(struct str *out, const struct plot *plots, size_t n);

#endif
