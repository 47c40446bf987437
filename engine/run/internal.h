/* engine/run/internal.h — the state of a run, for the files of this folder. turn.c says what
 * changes it, and in what order. */
#ifndef CAIRN_RUN_INTERNAL_H
#define CAIRN_RUN_INTERNAL_H

#include "base/map.h"
#include "plan/plan.h"
#include "record/manifest/manifest.h"
#include "record/rows/approvals.h"
#include "run/reproduce/reproduce.h"
#include "run/slots.h"
#include "run/task.h"
#include "run/task/git.h"
#include "run/task/near.h"

/* What earlier engines of this run did for a task whose attempts outlive the engine. */
struct task_past {
	uint32_t failures[FAILURE_CLASSES]; /* since a user last started or resumed the run */
	unsigned last;                      /* number of its last attempt */
	const struct attempt_row *ended;    /* the last one that has ended; NULL: none */
};
/* The reason of an attempt when a user resumed a run that had ended. Retry budgets start anew. */
#define REASON_RESUMED "the run was resumed"

struct publisher;
struct environments;

/* The run that a reproduction repeats. */
struct past_run {
	struct digest hash;
	struct manifest manifest;
	struct results *results;
	struct config config; /* the project's, with that run's salt */
};

/* The tasks, by phase (run/task.h). */
struct run_tasks {
	/* Except PHASE_BEHIND and PHASE_IN_LINE: those lists belong to tasks and groups. */
	struct task_list in[PHASES];
	size_t n;
	struct map *by_attempt;         /* attempt id → struct task *, NULL when it has ended */
	struct map *by_key;             /* key → struct task * that has it, NULL when free */
	struct map *groups;             /* name → struct group * (group.c) */
	const struct task *passed;      /* the first of the parked tasks */
	unsigned passed_over;           /* how often others began before it */
	struct loop_source *look_again; /* timer: look again at keys and places of other engines */
	size_t unchecked;
};

/* How the run ends. */
struct run_end {
	bool failed;   /* a task or an export failed */
	bool itself;   /* … and not only because content couldn't be fetched or stored */
	bool stopping; /* nothing new may begin */
	bool interrupted, at_once; /* by a signal or a cancel request: running tasks are stopped */
	bool stopped_early; /* … by its own numbers: it is a trial of a sweep that others beat */
	bool finally;       /* … and steps of `finally` go on */
	struct loop_source *finally_timer;
	bool reported; /* a signal came after the last task had ended */
	bool done;
	struct err fatal; /* an error that the run can't survive */
};

/* What the next transaction writes, and what follows its commit. */
struct run_journal {
	/* Attempts with a new reason to wait. */
	VEC(struct attempt *) changed;
	VEC(struct attempt_row *) to_close; /* earlier attempts that nobody continues */
	VEC(uint64_t) settled; /* attempts whose end is written: the runner may forget them */
};

/* What earlier engines left of a resumed run. */
struct run_earlier {
	struct attempt_row *attempts;
	size_t n, n_pins;
	const struct run_row *seen; /* the run's row when we decided to take it up */
	/* task label → attempt_row * that still goes on at a durable runner; NULL: taken up */
	struct map *open;
	struct map *done;          /* task label → attempt_row * that succeeded in this run */
	struct map *past;          /* task label → struct task_past *; of a durable runner only */
	struct map *steps;         /* name → const struct step *; NULL: the run isn't resumed */
	int64_t newest_before_end; /* id of the newest attempt that isn't of a step of `finally` */
	bool looked_at;            /* earlier failures were checked */
	bool goes_on;              /* no user resumed it: its engine died or had to leave */
};

struct run_signals {
	bool listens;                   /* to requests to stop (base/os/stop.h) */
	struct loop_source *sources[3]; /* … or to signals through the loop alone */
};

struct run_approvals {
	struct loop_source *timer; /* the next look for answers */
	struct map *past;          /* task → answer in the run that is repeated; NULL: not read */
};

struct run_estimate {
	int64_t at_ns, remaining_ns; /* -1: unknown */
	struct step_rest *rest;      /* of each step (view/estimate.c) */
};

/* The file that others read (view/live.h). */
struct run_live {
	struct loop_source *timer; /* the next time to write it */
	int64_t not_before_ns;
	bool wrote;
};

/* Series that somebody looks at (view/watched.h). */
struct run_watched {
	struct map *of;  /* attempt id → struct watched *; NULL: nobody has looked yet */
	int64_t look_ns; /* when to look again who does */
};

struct run {
	const struct run_context *ctx;
	const struct pipeline *pipeline;
	const struct run_options *o;
	struct arena *arena;
	struct run_row row;
	struct plan *plan;
	const struct past_run *past; /* NULL: a run of its own */
	struct value *params;
	struct slots slots;
	struct publisher *publisher;
	struct environments *environments; /* task/environment.c; NULL: no task needed one yet */
	struct run_tasks tasks;
	struct run_journal journal;
	struct run_earlier earlier;
	struct run_end end;
	bool wake; /* something happened that a turn must handle */
	bool reported_waiting;
	struct run_signals signals;
	struct run_approvals approvals;
	struct run_estimate estimate;
	struct step_pace *paces; /* of each step (task/pack.c), made when first needed */
	struct near *near;       /* task/near.h; NULL: there is none on this runner */
	struct run_live live;
	struct run_watched watched;
};

/* Brings `estimate` up to date, at most once a second (view/estimate.c). */
void run_estimate(struct run *r);
int64_t run_expected_end_ns(struct run *r); /* wall; 0: unknown */

/* Who tells people of this run; NULL: nobody. */
static inline const struct run_notices *run_notices_of(const struct run *r)
{
	return r->past || r->o->trial.sweep ? NULL : r->ctx->notices;
}

static inline int64_t run_mono_ns(const struct run *r)
{
	struct clock *c = loop_clock(r->ctx->loop);

	return c->mono_ns(c);
}
static inline int64_t run_wall_ns(const struct run *r)
{
	struct clock *c = loop_clock(r->ctx->loop);

	return c->wall_ns(c);
}

/* run.c */
void run_init(struct run *r, const struct run_context *ctx, const struct pipeline *p,
	      const struct run_options *o, struct arena *arena);
void run_deinit(struct run *r);
/* Makes the plan from the pins, writes the rows and executes to the end. */
int run_begin(struct run *r, const struct plan_pin *pins, size_t n_pins, struct run_row *ret,
	      struct err *err);

/* reproduce/reproduce.c */
int past_run_load(const struct run_context *ctx, const struct digest *hash, const char *salt,
		  struct arena *arena, struct past_run *ret, struct err *err);
void past_run_deinit(struct past_run *past);
/* True when the options leave this task out, by its step or by its own name. */
bool reproduce_leaves_out(const struct run_options *o, const char *step, const char *task);
/* Called before a task executes. 1: it can. 2: its input is gone, but may come back when *ret_after
 * has been executed again. 0: something that it needs is missing, and the task has ended. -1:
 * error. */
int reproduce_admit(struct run *r, struct attempt *a, struct plan_task **ret_after,
		    struct err *err);

/* reproduce/report.c: called after the end */
int reproduce_report(struct run *r, struct reproduction **ret, struct err *err);
/* reproduce/environment.c */
int reproduce_environment(struct run *r, struct reproduction *rep, struct err *err);

/* turn.c */
void run_turn(void *arg); /* idle hook */
void run_on_started(void *arg, uint64_t attempt_id, int64_t wall_ns, pid_t pid);
void run_on_metric(void *arg, uint64_t attempt_id, const char *name, double value);
void run_on_finished(void *arg, uint64_t attempt_id, struct runner_result *result);
void run_on_waiting(void *arg, uint64_t attempt_id, const char *why);
void run_on_exited(void *arg, uint64_t attempt_id);
void run_on_signal(void *arg, int signo);
void run_cancel_attempts(struct run *r, bool gentle); /* those that run */
bool run_cancel_requested(struct run *r);             /* as the row in the database says now */
/* Runs `write` in a transaction and commits. Rolls back when it fails. */
int run_in_transaction(struct run *r, int (*write)(struct run *r, struct err *err),
		       struct err *err);

/* start.c: from a ready task to a submitted attempt */
/* Looks once at a task that is READY or PARKED; the task's phase says the result. Reads stores,
 * disks and other engines' locks, so no transaction may be open. */
int start_task(struct run *r, struct task *t, struct err *err);
/* Writes the rows of tasks that have begun, and of attempts that were closed for them. Call it
 * inside a transaction. Touches only the database. */
int start_write_rows(struct run *r, struct err *err);
/* Submits them to the runner, once the rows are committed. */
void start_submit(struct run *r);
/* Sets a timer for another look at ELSEWHERE tasks and at lines for places of other engines. */
void start_recheck(struct run *r);
/* Gives back what the task holds: key, lease, and its place or turn in its group. has_result: tasks
 * with the same key find a result on record. */
void start_give_back(struct task *t, bool has_result);
/* Does the same for a task that has ended in the plan. */
void start_task_over(struct task *t, bool has_result);

/* task/pack.c: how many attempts of the step may share this one's pod */
uint32_t pack_size(struct run *r, const struct attempt *a);
/* Whether the task waits for the end of others of its step, which will tell how long it takes. The
 * run looks at it again soon. */
bool pack_must_wait(struct run *r, const struct task *t);
/* One of the task's attempts ended well and is on record. */
void pack_learn(struct run *r, const struct task *t);

/* task/environment.c: the environments that steps run in */
/* 1: the task needs none, or it is there. 0: it is being made, and the task waits (ELSEWHERE). -1:
 * it can't be made: *ret_why, and *ret_log, what its tool printed (CONTENT_NONE: nothing). */
int environment_ready(struct task *t, struct content_id *ret_log, struct err *ret_why);
/* `env` of an attempt with the variables that activate the step's environment, in `arena`. */
const char *const *environment_activate(struct run *r, const struct plan_task *t,
					const char *const *env, struct arena *arena);
void environments_free(struct run *r); /* ends what is being made */

/* approve.c: tasks that wait for a person */
/* Fills in what a begun attempt asks; its row is described already. */
int approve_describe(struct run *r, struct attempt *a, struct err *err);
/* Instead of submitting it: the attempt is RUNNING until it has an answer. */
void approve_wait(struct task *t);
void approve_cancel(struct task *t);
/* Of a reproduction: 1 with the answer that this task got in the past run, 0 without. */
int approve_recorded(struct run *r, const char *task, const struct approval **ret, struct err *err);

/* group.c: places in concurrency groups */
struct task_list *group_line(struct group *g);
/* Whether the task may try for a place, as far as is known before its command is. False: it now
 * stands in line. */
bool group_admits(struct task *t);
/* 1: it has a place in group `name`, or needs none (NULL). 0: it stands in line. -1: error. */
int group_enter(struct task *t, const char *name, struct err *err);
/* Ends the turn of a called task: it has a place now, or won't take one. */
void group_turn_over(struct task *t);
/* Gives the task's place back, if it has one, and calls the next in line. */
void group_leave(struct task *t);
void group_recheck_all(struct run *r);
/* Aborts when nothing would ever call the group's line. */
void group_check(struct run *r, const struct group *g);

/* earlier.c: attempts of this run that an earlier engine left */
/* Claims the run for this engine. ERR_BUSY when another process has taken it up since
 * r->earlier.seen was read. */
int earlier_adopt(struct run *r, struct err *err);
/* The row of this task's attempt that still goes on; NULL: none. An attempt with another key is
 * added to to_close. */
struct attempt_row *earlier_row(struct run *r, const struct attempt *a);
/* Closes one row of to_close. Call it inside a transaction. */
int earlier_close_changed(struct run *r, struct attempt_row *row, struct err *err);
/* Whether this attempt of a step of `finally` was for an end of the run that wasn't its last: the
 * run went on since. */
bool earlier_acts_again(const struct run *r, const struct attempt_row *a);
unsigned earlier_number(const struct run *r, const char *task); /* of its last attempt; 0 */
/* A run that goes on without a user's request has only the rest of a task's retries. Fills the
 * task's history from them. Returns 1 when none is left; *ret is the attempt that says how it
 * ended. */
int earlier_history(struct task *t, const struct attempt_row **ret);
/* True when an attempt of this task goes on, or the task failed for good and that must be
 * reported. */
bool earlier_stands(const struct run *r, const char *task);
/* True when the run goes on without a user's request and one of its tasks had failed for good. */
bool earlier_failed(const struct run *r);
/* Closes attempts that nobody took up: the run has ended without them. */
int earlier_close(struct run *r, struct err *err);

/* publish.c: action records, after their content is durable */
int publisher_new(struct run *r, struct publisher **ret, struct err *err);
/* Begins to make durable what the run took in, if that is much. Starts a thread: call it after the
 * runner has its first attempts (runners/local.c forks before). */
void publisher_begin(struct publisher *p);
void publisher_add(struct publisher *p, const struct attempt *a);
/* Writes the records of hits that came from the database and that no store has, because the engine
 * that made the results was killed first. */
int publisher_make_up(struct publisher *p, struct err *err);
/* Waits until the last batch is written. */
int publisher_finish(struct publisher *p, struct err *err);
/* Returns how many records couldn't be written; *ret_first says why the first one failed. */
uint64_t publisher_failed(const struct publisher *p, struct err *ret_first);
void publisher_free(struct publisher *p);

/* task/export.c: copies outputs to where their steps say. A failed copy is a failure of the run
 * (r->end.failed, its message), not an error. */
int run_export(struct run *r, struct err *err);

struct plan_context run_plan_context(struct run *r); /* run.c: of a run that begins */

/* prove.c: checks that each task of a finished run has an end, in the plan and on record. Not for a
 * run that was stopped. ERR_IO, an internal error, lists the tasks without an end. */
int run_prove_end(struct run *r, struct err *err);

/* finish.c */
int run_finish(struct run *r, struct err *err);

/* options.c: what a run's row says about the run, executed here or handed over */

/* Fills in path, params, options, and the pipeline's files. The options include our salt, so that
 * keys can be computed again where there is no cairn.yaml. The pipeline's name is taken from the
 * pipeline itself. */
int row_describe(const struct run_context *ctx, const struct pipeline *p,
		 const struct value *params, const struct run_options *o, struct arena *arena,
		 struct run_row *row, struct err *err);
/* Waits for `look` (NULL is fine) and frees it. */
void row_add_git(struct run_row *row, struct git_query *look, struct arena *arena);

/* The options that resume needs, as canonical JSON in `arena`. */

const char *options_to_json(const struct run_options *o, struct arena *arena);
int options_from_json(const char *json, struct arena *arena, struct run_options *ret,
		      struct err *err);
const char *params_to_json(const struct pipeline *p, const struct value *params,
			   struct arena *arena);
int params_from_json(const struct pipeline *p, const char *json, struct arena *arena,
		     struct value *ret, struct err *err);

/* task/files.c: the pipeline's own files in the store. `last`: what the last run kept, which is
 * durable and isn't stored again; NULL: not known. */
int pipeline_files_store(const struct pipeline *p, const struct config *config, struct store *s,
			 const struct content_id *last, struct content_id *ret, struct err *err);

#define OBSERVE(r, fn, ...)                                         \
	do {                                                        \
		const struct run_observer *_o = (r)->ctx->observer; \
		if (_o && _o->fn)                                   \
			_o->fn(_o->arg, ##__VA_ARGS__);             \
	} while (0)
/* Shows one line to the user; arguments as for printf. */
#define run_notice(r, ...) OBSERVE(r, notice, arena_printf((r)->arena, __VA_ARGS__))

#endif
