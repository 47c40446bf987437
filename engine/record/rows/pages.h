/* engine/record/rows/pages.h — records a page at a time, and as sums: for readers with bounded
 * memory.
 *
 * Reading only; any handle. Strings live in `arena`.
 */
#ifndef CAIRN_RECORD_ROWS_PAGES_H
#define CAIRN_RECORD_ROWS_PAGES_H

#include "record/rows/attempts.h"

struct attempt_page {
	int64_t run;
	const char *task; /* of this task or step; or NULL */
	uint32_t number;  /* 0: any */
	int64_t after;    /* id: only later ones */
	uint64_t limit;
	bool newest_first;
};
int record_page_attempts(struct db *db, const struct attempt_page *p, struct arena *arena,
			 struct attempt_row **ret, size_t *ret_n, struct err *err);

/* Those of a run that haven't ended. */
int record_open_attempts(struct db *db, int64_t run, struct arena *arena, struct attempt_row **ret,
			 size_t *ret_n, struct err *err);

/* Sums over all runs of a pipeline in one state. */
struct run_sum {
	const char *pipeline;
	enum run_state state;
	uint64_t n;
	int64_t duration_ns;
	struct run_counts counts;
};
/* By pipeline and state, at most `max` rows. Reads every run: call it seldom. */
int record_run_sums(struct db *db, size_t max, struct arena *arena, struct run_sum **ret,
		    size_t *ret_n, struct err *err);

#endif
