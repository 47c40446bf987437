/* engine/run/view/series.h — metrics over time that a step wrote: its output `series`.
 *
 * All of it is hostile input, and bounded. Values that aren't finite are gaps. What is returned
 * lives in the arena that is passed.
 */
#ifndef CAIRN_RUN_VIEW_SERIES_H
#define CAIRN_RUN_VIEW_SERIES_H

#include "record/facts.h"

#define SERIES_MAX_BYTES (512 * MIB)

struct series_point {
	double x, y;   /* y: NAN where the program wrote that */
	double time_s; /* of a clock that only differences tell of; NAN: unknown */
};
struct series_metric {
	const char *name;
	struct series_point *v; /* sorted by step */
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
/* Fills the metrics; ERR_INVALID. */
int series_parse(const char *text, size_t n, struct arena *arena, struct series *ret,
		 struct err *err);
/* TensorBoard's event files in a directory below dir_fd that a step still writes to, as far as they
 * are there; at most max_bytes of them. Links aren't followed. False: no point is there. */
bool series_read_growing(int dir_fd, const char *path, uint64_t max_bytes, struct arena *arena,
			 struct series *ret);
/* When its first point was measured; NAN: no point has a time. */
double series_begin_s(const struct series *s);

#endif
