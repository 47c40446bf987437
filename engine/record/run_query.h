/* engine/record/run_query.h — finds runs by time, pipeline, params, metrics, names, state, commit,
 * schedule.
 *
 * Indexes answer the queries, newest first, so that the cost depends on the runs shown and not on
 * the hundred thousand others. The metrics of a run are those of its results table, of executed
 * tasks and of hits alike; runs with the same table share them.
 */
#ifndef CAIRN_RECORD_RUN_QUERY_H
#define CAIRN_RECORD_RUN_QUERY_H

#include "base/compare.h"
#include "record/rows/runs.h"
#include "storage/store.h"

/* A condition on a param's value, or on a metric of any task of the run ("val.accuracy", or with
 * its step: "evaluate.val.accuracy"). Text is compared as text. */
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
	const char *pipeline, *schedule, *sweep, *tag; /* or NULL */
	const char *commit;                            /* its beginning; or NULL */
	/* Text in the id, hash, pipeline, path, params, message, commit, schedule or a name of the
	 * run, whatever the case of letters; or NULL. Reads each row: bound it with `after`. */
	const char *text;
	bool has_state;
	enum run_state state;
	int64_t since_ns, until_ns;                   /* of the start; 0: any */
	const struct run_condition *params, *metrics; /* all must hold */
	size_t n_params, n_metrics;
	/* Sorts by this metric; runs without it are left out. NULL: newest first. */
	const char *sort;
	bool largest_first;
	uint64_t limit; /* 0: all */
	/* One page: by row, newest first, ignoring start times. before: only older rows (0: from
	 * the newest). Not together with sort. */
	bool paged;
	int64_t before;
	int64_t after; /* only newer rows; 0: any */
};
int record_query_runs(struct db *db, const struct run_query *q, struct arena *arena,
		      struct run_row **ret, size_t *ret_n, struct err *err);

/* How many runs match, if that can be told without reading them: 1 known, 0 not. Pages and limits
 * don't count. */
int record_count_runs(struct db *db, const struct run_query *q, uint64_t *ret, struct err *err);
/* The row of the newest run; 0: there is none. */
int record_newest_run(struct db *db, int64_t *ret, struct err *err);

/* A metric of a run, by its name or STEP.NAME as in conditions: of several tasks the smallest or
 * the largest value. 1: *ret is set; 0: the run has none. */
int record_run_metric(struct db *db, const struct run_row *run, const char *name, bool largest,
		      double *ret, struct err *err);

/* Calls fn for each searchable metric of a run, at most `max`; strings are borrowed. */
int record_each_run_metric(struct db *db, int64_t run, uint64_t max,
			   void (*fn)(void *arg, const char *task, const char *name, double value),
			   void *arg, struct err *err);

/* Sums over the runs that began at since_ns or later, by stretches of `stretch_ns` of the epoch. */
struct run_stretch {
	int64_t begin_ns;
	uint64_t runs, failed; /* failed: runs */
	uint64_t executed, hits;
	int64_t saved_ns;
};
int record_run_stretches(struct db *db, int64_t since_ns, int64_t stretch_ns, struct arena *arena,
			 struct run_stretch **ret, size_t *ret_n, struct err *err);

/* Makes the metrics of a run's results table searchable. Call it in a transaction, when the run has
 * its table. Reads the table only when no earlier run has the same one. */
int record_run_results(struct db *db, struct store *s, const struct run_row *r, struct err *err);
/* Makes the params of a new row searchable. Call it in a transaction. */
int record_run_params(struct db *db, const struct run_row *r, struct err *err);

#endif
