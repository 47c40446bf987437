/* cli/past/series.h — metrics over steps, as a step wrote them: its output STEP_SERIES_OUTPUT
 * (model/pipeline.h).
 *
 * series.c reads a step's series, tensorboard.c writes event files and tensorboard_read.c reads
 * them, metrics_series.c is the command. Values that aren't finite are gaps (plot/plot.h). Series
 * and their points live in the arena that the reader gets.
 */
#ifndef CAIRN_CLI_PAST_SERIES_H
#define CAIRN_CLI_PAST_SERIES_H

#include "cli/plot/plot.h"
#include "cli/render/facts.h"

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
/* 1 read; 0 the task has no series; -1 error. ERR_INVALID: what the program wrote is none. */
int series_load(struct store *store, const struct run_row *run, const struct facts_task *task,
		struct arena *arena, struct series *ret, struct err *err);
int series_parse(const char *text, size_t n, struct arena *arena, struct series *ret,
		 struct err *err); /* fills the metrics; ERR_INVALID */

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
