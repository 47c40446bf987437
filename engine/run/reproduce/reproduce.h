/* engine/run/reproduce/reproduce.h — running a past run again, and what came out of it.
 *
 * A reproduction is a run of its own, whose row names the run hash that it reproduces. It takes
 * pipeline, params, inputs, code and the order of tasks from the manifest and from nothing else.
 * No action record answers for its tasks. It leaves one only as an observation beside the record
 * that is there. Isolated (the default): each task is given the inputs on record, so that one pass
 * finds every task that isn't deterministic. Chained: it is given what was made now.
 */
#ifndef CAIRN_RUN_REPRODUCE_REPRODUCE_H
#define CAIRN_RUN_REPRODUCE_REPRODUCE_H

#include "run/reproduce/compare.h"
#include "run/run.h"

enum reproduce_mode { REPRODUCE_ISOLATED, REPRODUCE_CHAINED };

enum reproduce_verdict {
	REPRODUCED, /* all outputs the same bytes (perhaps after a named normalisation), all metrics
		       the same or within tolerance */
	DIVERGED,
	NOT_COMPARABLE, /* it could not be run again, or what it made then is gone: `why` says what
			   is missing */
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
	double tolerance; /* 0: none is declared */
	enum compare_verdict verdict;
};
struct reproduced_task {
	const char *task, *step;
	enum reproduce_verdict verdict;
	const char *why;       /* for people, or NULL: "input raw (sha256:…) is not in the store",
				  "failed: exit 1" */
	bool after_divergence; /* chained: something that it reads had diverged already */
	int64_t was_duration_ns, duration_ns;
	struct reproduced_output *outputs;
	size_t n_outputs;
	struct reproduced_metric *metrics;
	size_t n_metrics;
};
/* What was different around it: "tool python3 --version", "kernel", "cpu flags", "cairn", "gpu". */
struct environment_difference {
	const char *what, *was, *is;
};

struct reproduction {
	struct digest original; /* run hash */
	struct run_row was, is; /* the past run and the new one */
	enum reproduce_mode mode;
	/* The worst of all tasks: COMPARE_IDENTICAL, NORMALISED, TOLERATED, DIFFERENT or UNKNOWN.
	 */
	enum compare_verdict verdict;
	struct reproduced_task *tasks; /* in the order in which they were expanded */
	size_t n_tasks;
	size_t first; /* index of the task that diverged first in the order of the DAG; n_tasks:
			 none did */
	struct environment_difference *environment;
	size_t n_environment;
};

struct reproduce_options {
	enum reproduce_mode mode;
	/* Tasks or steps; none: all. Chained: what they need comes along. */
	const char *const *only;
	size_t n_only;
	/* Tasks or steps to leave out, such as those that act on the world. */
	const char *const *skip;
	size_t n_skip;
	unsigned jobs; /* 0: from the configuration */
	bool keep_workspace;
};

/* The pipeline of a past run, as its own files in the store say. `path` is the run's; nothing is
 * executed. */
int pipeline_files_load(struct store *s, const struct content_id *tree, const char *path,
			struct pipeline **ret, struct err *err);

/* Executes the run whose manifest has this hash once more and holds what it makes against what it
 * made. Needs the store and nothing else: not the checkout, not the database that the run was in.
 * What can't be had (an input, code, a secret) costs the tasks that need it, and the others go on.
 *
 * Fills *ret as run_start() does. *ret_reproduction (in `arena`) is set when the run ended by
 * itself, NULL when it was interrupted; it can be resumed then. ERR_NOT_FOUND, ERR_CORRUPT when
 * there is nothing to begin with: no manifest, pipeline or table of results; ERR_INVALID for
 * unknown names. */
int run_reproduce(const struct run_context *ctx, const struct digest *original,
		  const struct reproduce_options *o, struct arena *arena, struct run_row *ret,
		  struct reproduction **ret_reproduction, struct err *err);

#endif
