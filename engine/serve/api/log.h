/* engine/serve/api/log.h — the log that a request names, as a file that can be read at any place.
 */
#ifndef CAIRN_SERVE_API_LOG_H
#define CAIRN_SERVE_API_LOG_H

#include "record/rows/attempts.h"
#include "serve/internal.h"

struct log_source {
	int64_t attempt;       /* 0: of an execution that only the store knows */
	struct content_id log; /* as stored; CONTENT_NONE while the attempt runs */
	bool live;             /* it grows */
	int fd;                /* -1: it is empty */
	uint64_t size;         /* now */
};

/* The log of {run}, ?task= and ?attempt=. False: the client got a problem as answer, also for the
 * log of a pod that still runs, which can only be followed. */
bool api_log_open(struct api *a, struct log_source *ret);
static inline void log_source_close(struct log_source *s)
{
	if (s->fd >= 0)
		close(s->fd);
}

/* Bytes as JSON text for people: those that aren't UTF-8, and NUL, become U+FFFD. */
json_t *api_lossy_text(const char *bytes, size_t n);

/* Finds the lines of logs; kept for the next request. */
struct log_indexes *api_log_indexes_new(void);
void api_log_indexes_free(struct log_indexes *v); /* NULL is fine */

#endif
