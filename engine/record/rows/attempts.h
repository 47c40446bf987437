/* engine/record/rows/attempts.h — attempts in the database, their inputs and outputs, and results
 * by key.
 *
 * Functions that write need an open transaction (record/db.h). Returned strings live in `arena`.
 */
#ifndef CAIRN_RECORD_ROWS_ATTEMPTS_H
#define CAIRN_RECORD_ROWS_ATTEMPTS_H

#include "record/db.h"
#include "record/rows/runs.h"

struct attempt_row {
	int64_t id; /* unique in the project; never reused */
	int64_t run;
	const char *task; /* "train[fold=0]" */
	const char *step;
	uint32_t number;
	struct digest key;
	int64_t started_ns, ended_ns; /* ended: 0 while it runs */
	enum failure_class failure;
	int32_t exit_status, signo;
	uint64_t max_rss_bytes;
	int64_t cpu_ns;
	struct content_id log;
	const char *node, *message, *workspace; /* NULL: none */
	/* Earlier attempts whose checkpoint it continued: "12 15"; NULL: none. */
	const char *continues;
	const char *reason;  /* why the task ran: "input data changed: …" (plan/past/reason.c) */
	const char *waiting; /* until it ends: why it doesn't run yet; or NULL */
	const char *image;   /* its program's, "registry/name@sha256:…"; NULL: none, or Cairn's */
	const char *approval; /* what it asks people, and the answer (rows/approvals.h); or NULL */
};

struct named_content {
	const char *name;
	struct content_id id;
};

/* Sets a->id. */
int record_attempt_start(struct db *db, struct attempt_row *a, struct err *err);
int record_attempt_end(struct db *db, const struct attempt_row *a, struct err *err);
/* Records what a submitted attempt waits for; NULL: nothing any more. Its end clears it. */
int record_attempt_waiting(struct db *db, int64_t id, const char *why, struct err *err);
/* Stores the key record's bytes, once per key; for `why`. */
int record_key(struct db *db, const struct digest *key, const void *bytes, size_t n,
	       struct err *err);
/* Inputs and outputs of an attempt that succeeded or failed only at its gate. */
struct observation {
	int64_t attempt;
	const struct digest *key;
	bool cacheable; /* later runs may take it as a hit */
	const struct named_content *inputs, *outputs;
	size_t n_inputs, n_outputs;
};
/* Returns 1 when an earlier observation of the key has other outputs (nondeterminism), else 0. */
int record_result(struct db *db, const struct observation *o, struct err *err);
struct metric_value {
	const char *name; /* flattened: "val.accuracy" */
	double value;
};
int record_metrics(struct db *db, int64_t attempt, const struct metric_value *m, size_t n,
		   struct err *err);

/* The cacheable result of a key in this database, the first that was observed. When there is none,
 * ask for the store's action record. 1 found, 0 not. Outputs and metrics are sorted by name, in
 * `arena`. */
struct cached_result {
	int64_t attempt;
	int64_t duration_ns;
	struct named_content *outputs;
	size_t n_outputs;
	struct metric_value *metrics;
	size_t n_metrics;
};
int record_lookup(struct db *db, const struct digest *key, struct arena *arena,
		  struct cached_result *ret, struct err *err);
/* Its blobs are gone: the key is no hit any more. */
int record_forget(struct db *db, const struct digest *key, struct err *err);

/* Reading. */

/* Keys under which executions gave different outputs. */
struct nondeterminism_row {
	struct digest key;
	const char *task;
	uint64_t n_results;
};
int record_nondeterminism(struct db *db, struct arena *arena, struct nondeterminism_row **ret,
			  size_t *ret_n, struct err *err);
/* The attempt's inputs, sorted by name. */
int record_inputs(struct db *db, int64_t attempt, struct arena *arena, struct named_content **ret,
		  size_t *ret_n, struct err *err);
/* The nodes of the newest attempts that read this content in runs on the same cluster, as the
 * options of a run name it (run/options.c): each once, the newest first, at most `max`. */
int record_readers(struct db *db, const struct content_id *id, const char *options_json,
		   struct arena *arena, const char **ret, size_t max, size_t *ret_n,
		   struct err *err);
/* Calls fn for steps with tasks executed in that run whose results can't be reused (cache: false).
 * A result other than 0 stops and is returned. */
int record_each_uncached_step(struct db *db, int64_t run, int (*fn)(void *arg, const char *step),
			      void *arg, struct err *err);
/* Calls fn with the short form of each attempt of the run, in the order of their ids; `task` and
 * `step` are borrowed for the call. A result other than 0 stops and is returned. */
struct attempt_end {
	int64_t id, started_ns, ended_ns;
	const char *task, *step;
	struct digest key;
	enum failure_class failure;
};
int record_each_end(struct db *db, int64_t run,
		    int (*fn)(void *arg, const struct attempt_end *e, struct err *err), void *arg,
		    struct err *err);
int record_run_attempts(struct db *db, int64_t run, struct arena *arena, struct attempt_row **ret,
			size_t *ret_n, struct err *err);
/* One attempt with its run; 1 found, 0 none. */
int record_attempt(struct db *db, int64_t id, struct arena *arena, struct attempt_row *ret,
		   struct run_row *ret_run, struct err *err);
/* The newest ended attempt of this task in this pipeline before `before_attempt` (0: any), of any
 * run; 1 found, 0 none. */
int record_previous_attempt(struct db *db, const char *pipeline, const char *task,
			    int64_t before_attempt, struct arena *arena, struct attempt_row *ret,
			    struct err *err);
/* ERR_NOT_FOUND when the key isn't on record. */
int record_key_bytes(struct db *db, const struct digest *key, struct str *ret, struct err *err);
/* Median duration of the last 20 successful attempts of a step; 1 known, 0 not. */
int record_step_duration(struct db *db, const char *pipeline, const char *step, int64_t *ret_ns,
			 struct err *err);
int record_outputs(struct db *db, int64_t attempt, struct arena *arena, struct cached_result *ret,
		   struct err *err);

#endif
