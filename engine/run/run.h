/* engine/run/run.h — making a run happen: from a checked pipeline to a run hash.
 *
 * run_start() makes a new run, run_resume() takes up one whose engine died; both then execute to
 * the end on the caller's thread (the loop's) and return. Every state change is journaled before
 * anything relies on it. The caller gives the surroundings; tests give a fake runner, a memory
 * store and a virtual clock.
 */
#ifndef CAIRN_RUN_RUN_H
#define CAIRN_RUN_RUN_H

#include "base/os/loop.h"
#include "model/config.h"
#include "model/pipeline.h"
#include "record/rows/firings.h"
#include "runners/runner.h"
#include "storage/content/content.h"
#include "storage/local/statcache.h"

/* What to run and how. Zeroed is the default. */
struct run_options {
	const struct param_override *overrides;
	size_t n_overrides;
	const char *const *targets; /* step or task names; none: all. Their needs come along */
	size_t n_targets;
	const char *from;  /* this step and everything after it; what is before must be cached */
	const char *until; /* everything up to this step, included */
	/* Steps to execute whatever the cache says; "*": all that is selected. */
	const char *const *force;
	size_t n_force;
	const char *const
		*audit; /* steps to tell the undeclared reads of; "*": all that is executed */
	size_t n_audit;
	bool keep_going; /* after a failure: everything that doesn't need it */
	bool keep_workspace;
	unsigned jobs;          /* tasks at once; 0: from the configuration */
	const char *shell_step; /* open a shell in this task's workspace instead of running it */
	struct run_firing {
		/* The run is a schedule's firing, which must not have run
		 * (record/rows/firings.h); or NULL. */
		const struct schedule_times *times;
		int64_t nominal_ns;
		enum firing_cause cause;
		bool again; /* unless it failed, was cancelled or skipped */
	} firing;
	/* A reproduction's (run/reproduce/reproduce.h), which run_reproduce() and run_resume() fill
	 * in. */
	enum run_kind { RUN_NEW, RUN_ISOLATED, RUN_CHAINED } kind;
	struct {
		const char *const *only, *const *skip; /* tasks or steps */
		size_t n_only, n_skip;
	} tasks;
	/* Where attempts outlive the engine; NULL: nowhere. Filled in when the run starts. */
	const char *runner;
	const char *salt; /* the project's, as it was; NULL: as it is */
	/* A server has it, and goes on with it by itself when its engine dies. `request`: what a
	 * run that was handed over was asked for by (run/handover/handover.h), or NULL. */
	bool served;
	/* Of one that is served: its last so many engines ended before it began. */
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

/* What a person may want to see while it goes. All on the loop's thread; every function may be
 * NULL. Strings are borrowed for the call. */
struct run_observer {
	/* The estimate is from past runs; 0: unknown. */
	void (*started)(void *arg, const struct run_row *run, int64_t estimate_ns);
	/* Totals after any change; total grows when a fan-out becomes known. */
	void (*progress)(void *arg, const struct run_counts *counts, uint64_t running,
			 int64_t remaining_ns /* estimate, -1 unknown */);
	void (*task_started)(void *arg, uint64_t attempt, const char *task, unsigned number,
			     const char *reason);
	/* duration of the execution (for a hit: what it saved). failure and message only for failed
	 * attempts; will_retry with its delay. */
	void (*task_ended)(void *arg, uint64_t attempt, const char *task, enum task_outcome outcome,
			   int64_t duration_ns);
	void (*attempt_failed)(void *arg, uint64_t attempt, const char *task, unsigned number,
			       const struct runner_result *result, bool will_retry,
			       int64_t delay_ns);
	/* The newest number of a running task. */
	void (*metric)(void *arg, uint64_t attempt, const char *name, double value);
	/* A started task doesn't run yet. NULL: nothing holds it up any more. */
	void (*waiting)(void *arg, uint64_t attempt, const char *task, const char *why);
	/* One line: waiting for another run, nondeterminism found, … */
	void (*notice)(void *arg, const char *text);
	void (*ended)(void *arg, const struct run_row *run);
	void *arg;
};

struct plan_images;
struct run_context {
	const struct config *config;
	struct loop *loop;
	struct db *db;
	struct store *store;
	struct statcache *cache; /* or NULL */
	struct runner *runner;
	/* Where the runner's attempts run in containers (plan/plan.h); else NULL. */
	const struct plan_images *images;
	/* Path of the built-in steps' program where the runner's attempts run; NULL: on PATH. */
	const char *steps_program;
	/* … of the launcher of ranks, where it is a program of its own; NULL: the same. */
	const char *launch_program;
	/* … of the steps' program on this machine; NULL: the same. */
	const char *steps_here;
	/* File whose byte ranges are key leases between engines; -1: no other engine (tests). */
	int leases_fd;
	unsigned hash_threads;
	const struct run_observer *observer; /* or NULL */
	/* SIGINT, SIGTERM, SIGHUP: once stops gently (running tasks get TERM and their grace time),
	 * twice at once: the process ends within a second, whatever it waits for (base/os/stop.h).
	 */
	bool handle_signals;
};

/* Executes `p` as a new run. Fills *ret (strings in `arena`) when a run came to be, whatever its
 * end; the error says why none did or what stopped it (store gone, disk full): then the run stays
 * resumable. 0 when the run ended by itself, see ret->state. */
int run_start(const struct run_context *ctx, const struct pipeline *p, const struct run_options *o,
	      struct arena *arena, struct run_row *ret, struct err *err);
/* The runner that a run's attempts live on with when its engine doesn't (run_row.options_json);
 * NULL: none. In `arena`. */
const char *run_durable_runner(const char *options_json, struct arena *arena);
/* No engine has it and no durable runner goes on with it: attempts of it without an end are lost.
 */
bool run_is_left(const struct run_row *r);
struct reproduction;
/* Goes on with a run that isn't running any more (ERR_BUSY when its engine lives). The pipeline,
 * params, inputs and code are those of its start, from the store. A reproduction goes on as one:
 * *ret_reproduction is what came out of it, in `arena`; else NULL. */
int run_resume(const struct run_context *ctx, const char *run_id, unsigned jobs /* 0: as it was */,
	       struct arena *arena, struct run_row *ret, struct reproduction **ret_reproduction,
	       struct err *err);

#endif
