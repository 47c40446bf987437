/* runners/series/series.h — reads the newest numbers of a metrics file while the program writes it:
 * one JSON object a line, {"step": 3, "loss": 0.2}, or CSV with a header; or those of a directory
 * of TensorBoard's event files.
 *
 * The numbers are for people who watch, and for a sweep that stops bad trials early, so unreadable
 * lines are skipped. Loop's thread only; each look reads a bounded amount.
 */
#ifndef CAIRN_RUNNERS_SERIES_SERIES_H
#define CAIRN_RUNNERS_SERIES_SERIES_H

#include <stdint.h>
#include "base/macros.h"

#define SERIES_INTERVAL_NS NS_PER_S

struct series_tail {
	int fd; /* -1 until the file or directory is there */
	uint64_t size;
	struct event_tail *events; /* of a directory (events.h) */
};

/* Where the numbers of a line belong: its `step`, else its `epoch`. */
#define SERIES_STEP "step"

/* Calls fn for the numbers of the last complete line, if the file has grown since the last look:
 * first for its SERIES_STEP, if it has one. Skips `epoch`, `time` and `wall_time`. Of a directory,
 * event_tail_poll(). */
void series_poll(struct series_tail *t, int dir_fd, const char *path,
		 void (*fn)(void *arg, const char *name, double value), void *arg);
void series_close(struct series_tail *t);

#endif
