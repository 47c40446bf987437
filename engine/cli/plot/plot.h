/* cli/plot/plot.h — metrics over steps, as a picture: in the terminal, and as SVG.
 *
 * past/series.c reads the series of a step, plot/scale.c computes axes, plot/text.c and
 * plot/svg.c draw, past/tensorboard.c writes event files
 * and tensorboard_read.c reads them, past/metrics_series.c combines them.
 * Values that aren't finite are gaps. Series and their points live in cli->arena, or in the arena
 * that series_parse() gets.
 */
#ifndef CAIRN_CLI_PLOT_PLOT_H
#define CAIRN_CLI_PLOT_PLOT_H

#include "base/text/str.h"
#include "cli/render/facts.h"

struct plot_point {
	double x, y; /* y: NAN where the program wrote that */
};

/* Series of a task: its output with this name (model/pipeline.h, STEP_SERIES_OUTPUT). */

struct series_metric {
	const char *name;
	struct plot_point *v; /* sorted by step */
	size_t n;
};

struct series {
	const char *run, *task;
	int64_t started_ns;            /* of the run */
	struct series_metric *metrics; /* sorted by name */
	size_t n_metrics;
};

bool series_is_there(const struct facts_task *task); /* or another output with this name */
/* 1 read; 0 the task has no series (or another output with this name); -1 error. */
int series_load(struct cli *cli, struct store *store, const struct run_row *run,
		const struct facts_task *task, struct series *ret, struct err *err);
int series_parse(const char *text, size_t n, struct arena *arena, struct series *ret,
		 struct err *err); /* fills the metrics; ERR_INVALID */

/* Drawing. */

struct plot_line {
	const char *label;
	const struct plot_point *v;
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

/* TensorBoard. */

enum { TB_VARINT = 0, TB_FIXED64 = 1, TB_BYTES = 2, TB_FIXED32 = 5 }; /* wire types of protobuf */
uint32_t tensorboard_checksum(const void *bytes, size_t n);           /* masked CRC-32C */

/* Calls fn for each scalar of an event file: hostile input. ERR_INVALID; a file that ends in the
 * middle of a record is fine. */
typedef void tensorboard_scalar_fn(void *arg, const char *tag, double step, double value);
int tensorboard_read(const void *bytes, size_t n, tensorboard_scalar_fn *fn, void *arg,
		     struct err *err);

/* The bytes of an event file that holds the series as scalars. */
void tensorboard_add(struct str *out, const struct series *s);
/* Writes dir/RUN/TASK/events.out.tfevents.…, one for each series; replaces an earlier export of the
 * same series. */
int tensorboard_write(const char *dir, const struct series *v, size_t n, struct err *err);

/* `cairn metrics` with --plot, --svg or --tensorboard. */

struct metrics_source {
	const struct run_row *run;
	const struct facts_task *task;
};
bool metrics_wants_series(const struct cli_args *args);
/* Newest run first. --plot and --svg show only the newest run that has series, unless runs are
 * named or counted. */
int metrics_show_series(struct cli *cli, const struct cli_args *args,
			const struct metrics_source *v, size_t n, struct err *err);

#endif
