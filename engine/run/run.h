/* engine/run/run.h — executes a run: from a checked pipeline to a run hash.
 *
 * run_start() makes a new run, run_resume() takes up one whose engine died. Both execute to the end
 * on the caller's thread (the loop's) and return. Every state change is journaled before anything
 * relies on it. The caller passes loop, store, runner and clock in; tests pass a fake runner, a
 * memory store and a virtual clock.
 */
#ifndef CAIRN_RUN_RUN_H
#define CAIRN_RUN_RUN_H

#include "base/os/loop.h"
#include "model/config/config.h"
#include "model/pipeline.h"
#include "plan/plan.h"
#include "record/rows/attempts.h"
#include "record/rows/firings.h"
#include "runners/runner.h"
#include "storage/content/content.h"
#include "storage/local/statcache.h"

/* Of a trial: when it isn't worth going on. Its run is cancelled, with a message that begins with
 * RUN_STOPPED_EARLY, once the best value of that metric so far is worse than that of the last point
 * at or before the newest step. */
struct early_stop {
	const char *step, *metric;
	bool maximize;
	const struct early_stop_point {
		double at, than;
	} * points; /* sorted by `at` */
	size_t n;
};
#define RUN_STOPPED_EARLY "stopped early: "

/* The cluster on which the Jobs of a run are: whoever looks for them later needs to know. */
struct run_cluster {
	const char *name;    /* in `kubernetes.contexts` of cairn.yaml; NULL: in none */
	const char *context; /* of the kubeconfig; NULL: of the pod that the engine ran in */
	const char *namespace_;
};

/* The firing of a schedule that a run is; without `times`: of none. */
struct run_firing {
	/* The firing must not have run yet (record/rows/firings.h). */
	const struct schedule_times *times;
	int64_t nominal_ns;
	enum firing_cause cause;
	bool again; /* allowed again after it failed, was cancelled or skipped */
};

/* Tasks or steps that alone are executed, or that are left out. */
struct run_targets {
	const char *const *only, *const *skip;
	size_t n_only, n_skip;
};

/* What to run and how. Zeroed is the default. */
struct run_options {
	const struct param_override *overrides;
	size_t n_overrides;
	struct plan_selection select;
	const char *const *audit; /* steps whose undeclared reads are reported; "*": all */
	size_t n_audit;
	bool keep_going; /* after a failure, go on with tasks that don't need its output */
	bool keep_workspace;
	unsigned jobs;          /* tasks at once; 0: from the configuration */
	struct run_trial trial; /* of a sweep that this run is for; zeroed: none */
	struct early_stop stop; /* of a trial; without points: none */
	const char *shell_step; /* open a shell in this task's workspace instead of running it */
	struct run_firing firing;
	/* For a reproduction (run/reproduce/reproduce.h): run_reproduce() and run_resume() fill it
	 * in. */
	enum run_kind { RUN_NEW, RUN_ISOLATED, RUN_CHAINED } kind;
	struct run_targets tasks;
	/* The durable runner, set when the run starts; NULL: attempts end with the engine. */
	const char *runner;
	const struct run_cluster *cluster; /* likewise: where it is; or NULL */
	const char *salt; /* the project's at the run's start; NULL: the current one */
	/* A server owns the run and resumes it when its engine dies. `request`: the id of the
	 * request by which the run was handed over (run/handover/handover.h), or NULL. */
	bool served;
	/* Of a served run: how many engines in a row ended before the run began. */
	unsigned unbegun;
	const char *request;
};

enum task_outcome {
	OUTCOME_HIT,
	OUTCOME_DONE,
	OUTCOME_FAILED,
	OUTCOME_SKIPPED,
	OUTCOME_BLOCKED,
	OUTCOME_CANCELLED
};

/* Events for a person who watches the run. All on the loop's thread; every function may be NULL.
 * Strings are borrowed for the call. */
struct run_observer {
	/* The estimate is from past runs; 0: unknown. */
	void (*started)(void *arg, const struct run_row *run, int64_t estimate_ns);
	/* Totals after any change; total grows when a fan-out becomes known. */
	void (*progress)(void *arg, const struct run_counts *counts, uint64_t running,
			 int64_t remaining_ns /* estimate, -1 unknown */);
	void (*task_started)(void *arg, uint64_t attempt, const char *task, unsigned number,
			     const char *reason);
	/* Called before attempt_failed and task_ended. `log`: all that it printed, in the store. */
	void (*attempt_ended)(void *arg, uint64_t attempt, const struct content_id *log);
	/* duration_ns: of the execution (for a hit: the time saved). attempt_failed: one call a
	 * failed attempt; delay_ns holds when will_retry. */
	void (*task_ended)(void *arg, uint64_t attempt, const char *task, enum task_outcome outcome,
			   int64_t duration_ns);
	/* The task isn't executed: a hit, skipped or blocked. Costs a call per such task, so leave
	 * it NULL unless somebody wants to see them. */
	void (*task_spared)(void *arg, const char *task, enum task_outcome outcome,
			    int64_t duration_ns);
	void (*attempt_failed)(void *arg, uint64_t attempt, const char *task, unsigned number,
			       const struct runner_result *result, bool will_retry,
			       int64_t delay_ns);
	/* The latest value of a running task's metric. */
	void (*metric)(void *arg, uint64_t attempt, const char *name, double value);
	/* A started task doesn't run yet, because of `why`. NULL: nothing holds it up any more. */
	void (*waiting)(void *arg, uint64_t attempt, const char *task, const char *why);
	/* An output is at its place: `place` is a URL, a path in the project, or an absolute one.
	 */
	void (*exported)(void *arg, const char *task, const char *output, const char *place);
	/* One line: waiting for another run, nondeterminism found, … */
	void (*notice)(void *arg, const char *text);
	void (*ended)(void *arg, const struct run_row *run);
	void *arg;
};

/* Tells people of the run (cli/run/notices.h). Functions with an error end the run when they fail,
 * since the database did. */
struct run_notices {
	/* Before anything is executed, outside of transactions. */
	int (*begin)(void *arg, const struct pipeline *p, const struct run_row *run,
		     struct err *err);
	/* In the transaction of the change: an attempt waits for a person; the run has ended. */
	int (*asks)(void *arg, const struct run_row *run, const struct attempt_row *a,
		    const char *waiting, struct err *err);
	int (*ended)(void *arg, const struct run_row *run, struct err *err);
	void (*committed)(void *arg); /* after asks() */
	void *arg;
};

struct plan_images;
struct run_context {
	const struct config *config;
	struct loop *loop;
	struct db *db;
	struct store *store;
	struct statcache *cache;  /* or NULL */
	struct plan_ahead *ahead; /* or NULL */
	struct runner *runner;
	/* For a runner on a cluster; else NULL. */
	const struct run_cluster *cluster;
	/* For a runner that executes attempts in containers (plan/plan.h); else NULL. */
	const struct plan_images *images;
	/* Path of the program of built-in steps, as the runner's attempts see it; NULL: on PATH. */
	const char *steps_program;
	/* Path of the launcher of ranks, if it is a program of its own; NULL: steps_program. */
	const char *launch_program;
	/* Path of the program of built-in steps on this machine; NULL: steps_program. */
	const char *steps_here;
	/* File whose byte ranges are key leases between engines; -1: no other engine (tests). */
	int leases_fd;
	unsigned hash_threads;
	const struct run_observer *observer; /* or NULL */
	const struct run_notices *notices;   /* or NULL */
	/* SIGINT, SIGTERM, SIGHUP: the first stops gently (running tasks get TERM and their grace
	 * time), the second at once: the process ends within a second, even in a blocking call
	 * (base/os/stop.h). */
	bool handle_signals;
};

/* Executes `p` as a new run. Fills *ret (strings in `arena`) when a run was made, however it ended.
 * Returns 0 when the run came to its end by itself; see ret->state. An error says why no run was
 * made, or what stopped it (store gone, disk full): then the run stays resumable. */
int run_start(const struct run_context *ctx, const struct pipeline *p, const struct run_options *o,
	      struct arena *arena, struct run_row *ret, struct err *err);
/* The durable runner on which a run's attempts outlive its engine (from run_row.options_json);
 * NULL: none. In `arena`. */
const char *run_durable_runner(const char *options_json, struct arena *arena);
/* Where the Jobs of such a run are; NULL: not on record. In `arena`. */
const struct run_cluster *run_cluster_of(const char *options_json, struct arena *arena);
/* The path that a run's row has for this pipeline file: from the project's root, if the file is
 * inside. malloc'd. */
char *run_pipeline_path(const struct config *config, const char *path);
/* True when the run has no engine and no durable runner: its attempts without an end are lost. */
bool run_is_left(const struct run_row *r);
struct reproduction;
/* Continues a run that isn't running any more (ERR_BUSY when its engine lives). Pipeline, params,
 * inputs and code are those of its start, from the store. A reproduction continues as one:
 * *ret_reproduction is its result, in `arena`; else NULL. */
int run_resume(const struct run_context *ctx, const char *run_id, unsigned jobs /* 0: as it was */,
	       struct arena *arena, struct run_row *ret, struct reproduction **ret_reproduction,
	       struct err *err);

#endif
