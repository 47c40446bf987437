/* record/run_query.h — runs by what is known of them: time, pipeline, params, metrics, names,
 * state, commit, schedule.
 *
 * Answered by indexes, newest first, so that a hundred thousand runs cost no more than those that
 * are shown. The metrics of a run are those of its results table, of what was executed and of hits
 * alike; runs with the same table share them.
 */
#ifndef CAIRN_RECORD_RUN_QUERY_H
#define CAIRN_RECORD_RUN_QUERY_H

#include "base/compare.h"
#include "record/rows/runs.h"
#include "storage/store.h"

/* A param's value; or a metric's, of any task of the run ("val.accuracy", or with its step:
 * "evaluate.val.accuracy"). Text is compared as text. */
struct run_condition {
	const char *name;
	enum compare_op op;
	const char *text;
	bool is_number;
	double number;
};
/* "lr=0.1" "accuracy>=0.9" "optimizer!=sgd"; strings in `arena`. ERR_USAGE. */
int run_condition_parse(const char *text, struct arena *arena, struct run_condition *ret,
			struct err *err);

#define RUN_CONDITIONS_MAX 32

struct run_query {
	const char *pipeline, *schedule, *tag; /* or NULL */
	const char *commit;                    /* the beginning of one; or NULL */
	bool has_state;
	enum run_state state;
	int64_t since_ns, until_ns;                   /* of the start; 0: any */
	const struct run_condition *params, *metrics; /* all must hold */
	size_t n_params, n_metrics;
	/* By this metric; runs that don't have it are left out. NULL: newest first. */
	const char *sort;
	bool largest_first;
	uint64_t limit; /* 0: all */
	/* A page at a time: by row, newest first, whatever the times of the starts; before: only
	 * older rows (0: from the newest). Not together with sort. */
	bool paged;
	int64_t before;
};
int record_query_runs(struct db *db, const struct run_query *q, struct arena *arena,
		      struct run_row **ret, size_t *ret_n, struct err *err);

/* In a transaction, when a run has its table: its metrics become findable. Reads the table only
 * when no run had it before. */
int record_run_results(struct db *db, struct store *s, const struct run_row *r, struct err *err);
/* In a transaction, for a new row: its params become findable. */
int record_run_params(struct db *db, const struct run_row *r, struct err *err);

#endif
