/* engine/run/reproduce/reproduce.h — executes a past run again and compares the results.
 *
 * A reproduction is a run of its own, whose row names the run hash that it reproduces. It takes
 * pipeline, params, inputs, code and the order of tasks from the manifest and from nothing else.
 * Its tasks use no action records. It adds a record only as an observation beside an existing one.
 * Isolated (the default): each task gets the inputs on record, so that one pass finds every task
 * that isn't deterministic. Chained: each task gets the outputs of this reproduction.
 */
#ifndef CAIRN_RUN_REPRODUCE_REPRODUCE_H
#define CAIRN_RUN_REPRODUCE_REPRODUCE_H

#include "run/reproduce/compare.h"
#include "run/run.h"

enum reproduce_mode { REPRODUCE_ISOLATED, REPRODUCE_CHAINED };

enum reproduce_verdict {
	/* All outputs the same bytes (perhaps after a named normalisation), all metrics the same or
	 * within tolerance. */
	REPRODUCED,
	DIVERGED,
	/* It could not be run again, or its old results are gone: `why` says what is missing. */
	NOT_COMPARABLE,
	NOT_SELECTED,
};

struct reproduced_output {
	const char *name;
	struct content_id was, is;
	struct compare_result result;
};
struct reproduced_metric {
	const char *name;
	bool had, has;
	double was, is;
	double tolerance; /* 0: none declared */
	enum compare_verdict verdict;
};
struct reproduced_task {
	const char *task, *step;
	enum reproduce_verdict verdict;
	const char *why;       /* for people, or NULL: "input raw (sha256:…) is not in the store",
				  "failed: exit 1" */
	bool after_divergence; /* chained: one of its inputs had diverged already */
	int64_t was_duration_ns, duration_ns;
	struct reproduced_output *outputs;
	size_t n_outputs;
	struct reproduced_metric *metrics;
	size_t n_metrics;
};
/* A difference in the environment: "tool python3 --version", "kernel", "cpu flags", "cairn",
 * "gpu". */
struct environment_difference {
	const char *what, *was, *is;
};

struct reproduction {
	struct digest original; /* run hash */
	struct run_row was, is; /* the past run and the new one */
	enum reproduce_mode mode;
	/* The worst of all tasks: VERDICT_IDENTICAL, NORMALISED, TOLERATED, DIFFERENT, UNKNOWN. */
	enum compare_verdict verdict;
	struct reproduced_task *tasks; /* in the order in which they were expanded */
	size_t n_tasks;
	size_t first; /* index of the first task in DAG order that diverged; n_tasks: none */
	struct environment_difference *environment;
	size_t n_environment;
};

struct reproduce_options {
	enum reproduce_mode mode;
	/* Tasks or steps; none: all. Chained: also the tasks that they need. */
	const char *const *only;
	size_t n_only;
	/* Tasks or steps to leave out, such as those with effects outside the run. */
	const char *const *skip;
	size_t n_skip;
	unsigned jobs; /* 0: from the configuration */
	bool keep_workspace;
};

/* Loads the pipeline of a past run from its files in the store. `path` is the run's. Executes
 * nothing. */
int pipeline_files_load(struct store *s, const struct content_id *tree, const char *path,
			struct pipeline **ret, struct err *err);

/* Executes the run with this manifest hash again and compares the results. Needs only the store:
 * not the checkout, not the database of that run. When something is missing (an input, code, a
 * secret), the tasks that need it fail to compare, and the others go on.
 *
 * Fills *ret like run_start(). Sets *ret_reproduction (in `arena`) when the run ended by itself,
 * and NULL when it was interrupted; it can then be resumed. ERR_NOT_FOUND, ERR_CORRUPT: no usable
 * manifest, pipeline or results table; ERR_INVALID: unknown names. */
int run_reproduce(const struct run_context *ctx, const struct digest *original,
		  const struct reproduce_options *o, struct arena *arena, struct run_row *ret,
		  struct reproduction **ret_reproduction, struct err *err);

#endif
