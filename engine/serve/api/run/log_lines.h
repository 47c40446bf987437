/* engine/serve/api/run/log_lines.h — lines of logs by number, for those that search in them. */
#ifndef CAIRN_SERVE_API_RUN_LOG_LINES_H
#define CAIRN_SERVE_API_RUN_LOG_LINES_H

#include "serve/api/log.h"

/* What the lines of a rank of a distributed step begin with. */
struct log_mark {
	char s[32];
	size_t len; /* 0: all lines are wanted */
};
void log_mark_init(struct log_mark *m, int64_t rank); /* rank -1: all lines */

/* ?rank=; -1: not given. False: the client got a problem as answer. */
bool api_log_rank(struct api *a, int64_t *ret);

struct log_line {
	uint64_t number, at; /* among the lines of the rank; the offset of its beginning */
};
/* A line that begins at or before `at`, at most some thousand lines away. False: answered. */
bool api_log_line_near(struct api *a, const struct log_source *log, int64_t rank, uint64_t at,
		       struct log_line *ret);

#endif
