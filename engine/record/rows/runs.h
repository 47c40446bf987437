/* engine/record/rows/runs.h — runs in the database: the row of each, and how to find one.
 *
 * Functions that write need an open transaction (record/db.h). Returned strings live in `arena`.
 */
#ifndef CAIRN_RECORD_ROWS_RUNS_H
#define CAIRN_RECORD_ROWS_RUNS_H

#include "record/db.h"

enum run_state { RUN_RUNNING = 0, RUN_SUCCEEDED, RUN_FAILED, RUN_CANCELLED, RUN_INTERRUPTED };
const char *run_state_name(enum run_state s);

struct run_counts {
	uint64_t total, executed, hits, failed, skipped, blocked; /* tasks */
	int64_t saved_ns; /* time that the executions behind the hits took */
};

/* The commit of the project's tree. */
struct run_git {
	const char *commit; /* or NULL */
	bool dirty;
	const char *remote;     /* without credentials; or NULL */
	const char *author;     /* of the commit: a name; or NULL */
	const char *submodules; /* JSON: [{"path", "commit", "dirty"}]; or NULL: none */
};

struct run_process {
	int32_t pid;
	uint64_t start; /* in ticks: tells processes with the same pid apart */
	const char *host;
};

/* What a sweep's run is for. On record in the run's options, as "trial". */
struct run_trial {
	const char *sweep; /* its name; NULL: the run is no trial */
	const char *id;    /* digest of what all trials of the sweep have in common, in hex */
	uint32_t number;   /* from 1 */
};

struct run_row {
	int64_t rowid;
	const char *id; /* "digits-7kq2m": pipeline name and five letters, unique in the project */
	const char *pipeline;
	const char *path; /* of the pipeline file, relative to the project root */
	enum run_state state;
	/* Wall; ended 0 while it runs, or waits for its first engine. */
	int64_t started_ns, ended_ns;
	bool has_hash;
	struct digest hash;              /* the run hash: the manifest's digest */
	struct content_id pipeline_blob; /* tree with the pipeline file and its step files */
	struct content_id results; /* results table (manifest/results.h), if it ended by itself */
	const char *params_json;   /* canonical object of all resolved params */
	const char *options_json;  /* targets, force, keep_going …: what resume needs */
	struct run_counts counts;
	struct run_git git;
	const char *message;   /* first error of a failed run; or NULL */
	bool cancel_requested; /* stop in order */
	bool cancel_now;
	struct run_process engine; /* while it runs */
	const char *schedule;      /* name of the schedule that made it, or NULL */
	int64_t nominal_ns;        /* nominal time of the schedule; 0: none */
	bool has_reproduces;
	struct digest reproduces; /* the past run that it reproduces */
	bool has_plan_digest;
	struct digest plan_digest; /* what the plan of `results` was made from (plan_digest()) */
	uint64_t cache_failures;   /* not recorded: unpublished records of the last engine */
	bool only_store_failed;    /* not recorded: content failed, no task by itself */
};

/* Makes a fresh id from r->pipeline, sets r->id (in arena) and r->rowid. */
int record_run_add(struct db *db, struct run_row *r, struct arena *arena, struct err *err);
/* The same with the id in r->id (record/reindex); 1 when a run has that id already. */
int record_run_insert(struct db *db, struct run_row *r, struct err *err);
int record_run_input(struct db *db, int64_t run, const char *name, const char *origin,
		     const struct content_id *id, struct err *err);
/* state, ended, hash, results, counts, message, pid, pid_start, host. */
int record_run_update(struct db *db, const struct run_row *r, struct err *err);
int record_run_set_options(struct db *db, int64_t run, const char *options_json, struct err *err);
int record_run_request_cancel(struct db *db, int64_t run, bool now, struct err *err);
int record_run_forget_cancel(struct db *db, int64_t run, struct err *err); /* the run is to go on */

/* Finding. */

/* Id, run hash, name (record/rows/tags.h), "last" (newest), "last:PIPELINE", or an unambiguous
 * beginning of an id or hash (of a hash at least four digits). ERR_NOT_FOUND / ERR_INVALID when
 * ambiguous (lists them). */
int record_find_run(struct db *db, const char *what, struct arena *arena, struct run_row *ret,
		    struct err *err);
/* The same without beginnings: only full names. 1 found, 0 not; ERR_NOT_FOUND for a name whose run
 * isn't known here. */
int record_find_run_named(struct db *db, const char *what, struct arena *arena, struct run_row *ret,
			  struct err *err);
int record_run_by_id(struct db *db, const char *id, struct arena *arena, struct run_row *ret,
		     struct err *err); /* 1 found, 0 not */
int record_run_by_hash(struct db *db, const struct digest *hash, struct arena *arena,
		       struct run_row *ret, struct err *err); /* 1 found, 0 not */
int record_running(struct db *db, struct arena *arena, struct run_row **ret, size_t *ret_n,
		   struct err *err); /* state is running */
/* Whether a run's engine is alive. For another machine that is unknown here: ELSEWHERE, and r->host
 * isn't NULL. */
enum run_engine {
	RUN_ENGINE_NONE /* the run has ended */,
	RUN_ENGINE_LIVES,
	RUN_ENGINE_DIED,
	RUN_ENGINE_ELSEWHERE
};
enum run_engine record_run_engine(const struct run_row *r);
int record_all_runs(struct db *db, struct arena *arena, struct run_row **ret, size_t *ret_n,
		    struct err *err); /* newest first */
/* Interrupted runs, and those in state running (their engine may be dead). Newest first. */
int record_resumable(struct db *db, struct arena *arena, struct run_row **ret, size_t *ret_n,
		     struct err *err);
struct run_input_row {
	const char *name, *origin;
	struct content_id id;
};
int record_run_inputs(struct db *db, int64_t run, struct arena *arena, struct run_input_row **ret,
		      size_t *ret_n, struct err *err);
/* The newest run before this one that began by hand (no schedule, no trial, no reproduction), of
 * the same pipeline, and came to its end; `succeeded`: only such. 1 found, 0 none. */
int record_run_before(struct db *db, const struct run_row *run, bool succeeded, struct arena *arena,
		      struct run_row *ret, struct err *err);
/* Newest run of the pipeline that has a results table; 1 found, 0 none. */
int record_last_results(struct db *db, const char *pipeline, struct arena *arena,
			struct run_row *ret, struct err *err);
/* The same for a pipeline's file, among the newest runs of the project. */
int record_last_results_of(struct db *db, const char *path, struct arena *arena,
			   struct run_row *ret, struct err *err);

#endif
