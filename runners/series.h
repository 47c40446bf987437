/* runners/series.h — the newest numbers of a file of metrics that is being written: a JSON object a
 * line, {"step": 3, "loss": 0.2}.
 *
 * For people who watch: whatever can't be read is passed over. Loop's thread only; a bounded read a
 * look.
 */
#ifndef CAIRN_RUNNERS_SERIES_H
#define CAIRN_RUNNERS_SERIES_H

#include <stdint.h>
#include "base/macros.h"

#define SERIES_INTERVAL_NS NS_PER_S

struct series_tail {
	int fd; /* -1 until the file is there */
	uint64_t size;
};

/* Calls fn for the numbers of the last whole line, if the file has grown since the last look.
 * `step` and `time` are left out. */
void series_look(struct series_tail *t, int dir_fd, const char *path,
		 void (*fn)(void *arg, const char *name, double value), void *arg);
void series_close(struct series_tail *t);

#endif
