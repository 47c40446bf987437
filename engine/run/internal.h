/* engine/run/internal.h — the state of a run, for the files of this folder.
 *
 * What changes it: ends of attempts (from the runner), due retries, free leases (timers), requests to stop (signals). They are queued and
 * handled together when the loop has nothing else: journaled in one transaction, applied to the plan, and then what can be started is
 * started. Nothing is submitted to a runner before the row that says so is committed.
 */
#ifndef CAIRN_RUN_INTERNAL_H
#define CAIRN_RUN_INTERNAL_H

#include "base/map.h"
#include "plan/plan.h"
#include "record/manifest.h"
#include "run/git.h"
#include "run/reproduce.h"
#include "run/slots.h"

/* Failures so far of a task that had any. */
struct task_history {
	uint32_t failures[FAILURE_CLASSES];
	uint32_t attempts;
	double memory_factor;
};

/* What earlier engines of this run did for a task, when it goes on elsewhere without them. */
struct task_past {
	uint32_t failures[FAILURE_CLASSES]; /* since the run was last asked for */
	unsigned last;			    /* number of its last attempt */
	const struct attempt_row *ended;    /* the last that has; NULL: none */
};
/* Why an attempt came to be, when somebody asked for a run that had ended: with new budgets. */
#define REASON_RESUMED "the run was resumed"

/* A task that is being executed. */
struct active {
	struct run *run;
	struct plan_task *task;
	const struct step *step;
	struct arena *arena;
	struct task_command command;
	struct runner_attempt attempt;
	struct attempt_row row;
	char *label;
	bool has_lease;
	struct group *group; /* in which it has a place; or NULL */
	uint32_t group_place;
	bool fails_at_once; /* it can't even begin: its row is written all the same */
	bool submitted;
	bool taken_up; /* its row is an earlier engine's */
	const char *waiting_for, *told; /* why it doesn't run yet, and what of that is on record; or NULL */
	struct plan_task **waiting; /* tasks with the same key */
	size_t n_waiting;
	/* once it ended: */
	struct runner_result result; /* copies in `arena` */
	struct metric_value *metrics;
	size_t n_metrics;
	struct named_content *sources; /* of what it read (plan_task_sources) */
	size_t n_sources;
};

struct publisher;

/* The run that a reproduction makes again. */
struct past_run {
	struct digest hash;
	struct manifest manifest;
	struct results *results;
	struct config config; /* the project's, with what is as it was */
};

/* A failed task that is tried again later. */
struct retry {
	struct run *run;
	struct plan_task *task;
	enum failure_class failure;
	struct loop_source *timer;
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
	struct map *history; /* struct plan_task * → struct task_history * */
	struct map *running_keys; /* key → struct active *, NULL when free */
	struct map *actives;	  /* attempt id → struct active *, NULL when it has ended */
	VEC(struct active *) ended; /* queued for the next turn */
	VEC(struct active *) to_write;	/* begun in this turn: their rows come next */
	VEC(struct attempt_row *) to_close; /* an earlier engine's that nobody goes on with */
	VEC(struct active *) to_submit; /* rows written in this turn */
	VEC(uint64_t) news;	/* attempts that wait for something else than is on record */
	VEC(uint64_t) settled;	/* whose end is written in this turn */
	VEC(struct active *) over; /* … and applied: what they hold is given back when it is committed */
	VEC(struct plan_task *) parked; /* ready, but no slots for them; tried first */
	unsigned passed_over;		/* how often others went ahead of parked[0] */
	VEC(struct plan_task *) deferred; /* another engine has the key, or places of the concurrency group */
	struct map *groups;	   /* name → struct group * (group.c) */
	struct map *group_of_task; /* struct plan_task * → struct group *, of those that ever waited for a place */
	size_t n_in_line;	   /* tasks that wait for a place */
	struct loop_source *defer_timer;
	bool defer_due;
	VEC(struct retry *) due; /* retries whose time has come */
	VEC(struct retry *) retries;
	size_t n_retrying, n_running;
	struct publisher *publisher;
	bool failed, stopping, interrupted, interrupted_now, told_waiting;
	bool failed_itself; /* some task did: not only because content couldn't be brought or kept */
	bool wake; /* something happened that a turn must handle */
	bool done;
	struct err fatal;
	bool listens;	    /* to requests to stop (base/stop.h) */
	struct loop_source *signals[3]; /* … or by the loop alone */
	bool told_to_end;   /* one that came after the last task had ended */
	int64_t estimated_at_ns, remaining_ns;
	int64_t *medians; /* duration of each step in past runs, as far as it was asked for */
	/* resume */
	struct attempt_row *earlier;
	size_t n_earlier;
	struct map *earlier_open; /* task label → attempt_row * that lives on where a durable runner executes it, NULL once it was taken up */
	struct map *earlier_done; /* task label → attempt_row * that succeeded in this run */
	struct map *earlier_past; /* task label → struct task_past *; of a durable runner only */
	bool looked_back;	  /* for failures from then */
	bool goes_on;		  /* nobody asked: its engine died, or was told to leave */
};

/* run.c */
void run_init(struct run *r, const struct run_context *ctx, const struct pipeline *p, const struct run_options *o, struct arena *arena);
void run_deinit(struct run *r);
/* Plan from the pins, rows in the journal, execution to the end. */
int run_begin(struct run *r, const struct plan_pin *pins, size_t n_pins, struct run_row *ret, struct err *err);

/* reproduce.c */
int past_run_load(const struct run_context *ctx, const struct digest *hash, const char *salt, struct arena *arena, struct past_run *ret, struct err *err);
void past_run_deinit(struct past_run *past);
/* Before it is executed: 1 it can be; 2 what it reads is gone, but may come back when what made it has been executed again; 0 something that it
 * needs is not here, and it has ended; -1 error. */
int reproduce_admit(struct run *r, struct active *a, struct err *err);

/* reproduce_report.c: after the end */
int reproduce_report(struct run *r, struct reproduction **ret, struct err *err);
/* reproduce_environment.c */
int reproduce_environment(struct run *r, struct reproduction *rep, struct err *err);

/* turn.c */
void run_turn(void *arg); /* idle hook */
void run_on_started(void *arg, uint64_t attempt_id, int64_t wall_ns, pid_t pid);
void run_on_metric(void *arg, uint64_t attempt_id, const char *name, double value);
void run_on_finished(void *arg, uint64_t attempt_id, struct runner_result *result);
void run_on_waiting(void *arg, uint64_t attempt_id, const char *why);
void run_on_signal(void *arg, int signo);
bool may_go_on(const struct run *r, const struct plan_task *t); /* though nothing new is to be started */

/* start.c: from a ready task to a submitted attempt */
/* 1 started (in to_write), 0 it waits or has ended otherwise, -1 error. Asks stores, disks and other engines' locks, so no transaction may be open. */
int start_task(struct run *r, struct plan_task *t, struct err *err);
/* Rows of what was started, and of what was closed for it; inside a transaction. Touches nothing but the database. */
int start_write_rows(struct run *r, struct err *err);
/* Once they are committed. */
void start_rows_written(struct run *r);
int start_later(struct run *r, struct plan_task *t); /* it is tried again in a moment */
void active_free(struct active *a);
void active_release(struct active *a); /* slots, lease, group, waiting tasks */
struct task_history *history_of(struct run *r, struct plan_task *t, bool make);

/* group.c: places in concurrency groups */
void groups_free(struct run *r);
/* Before a task is looked at: *ret_waits when it is known already that there is no place for it; it stands in line then. Returns the group where it had
 * waited before, for group_after(), which is told whether it has a place now. */
struct group *group_before(struct run *r, struct plan_task *t, bool *ret_waits);
void group_after(struct run *r, struct group *g, const struct plan_task *t, bool has_place);
int group_enter(struct run *r, struct active *a, struct err *err); /* 1 it has a place or needs none, 0 it stands in line, -1 error */
void group_leave(struct active *a);	/* and wakes who is next */
void group_take_back(struct active *a); /* a place that it couldn't use yet: group_after() follows */
void groups_stop(struct run *r);	/* nothing new is begun: who stands in line is blocked, or ready */

/* earlier.c: attempts of this run that an earlier engine left */
/* The run is this engine's from here on. `seen`: its row as it was read; ERR_BUSY when another process has taken it up since then. */
int earlier_take_up(struct run *r, const struct run_row *seen, struct err *err);
/* The row of this task's attempt that still goes on; NULL: it has none. One of another key is put into to_close. */
struct attempt_row *earlier_row(struct run *r, const struct active *a);
/* Of to_close, inside a transaction. */
int earlier_close_changed(struct run *r, struct attempt_row *row, struct err *err);
unsigned earlier_number(const struct run *r, const char *task); /* of its last attempt; 0 */
/* A run that goes on by itself goes on with what is left of a task's retries: fills its history from them. 1: none is left, *ret is how it ended. */
int earlier_history(struct run *r, struct plan_task *t, const struct attempt_row **ret);
/* An attempt of this task goes on; or it failed for good, and that is to be told. */
bool earlier_stands(const struct run *r, const char *task);
/* A task of a run that goes on by itself had failed for good. */
bool earlier_failed(const struct run *r);
/* Whatever nobody took up: the run has ended without it. */
int earlier_close(struct run *r, struct err *err);

/* publish.c: action records, after their content is durable */
int publisher_new(struct run *r, struct publisher **ret, struct err *err);
void publisher_add(struct publisher *p, const struct active *a);
/* Of hits that the database answered: records that no store has, since the engine that made the results was killed before it wrote them. */
int publisher_make_up(struct publisher *p, struct err *err);
int publisher_finish(struct publisher *p, struct err *err); /* waits; the number of records that couldn't be written is in *ret_failed */
uint64_t publisher_failed(const struct publisher *p, struct err *ret_first);
void publisher_free(struct publisher *p);

/* export.c: copies outputs to where their steps say. A failure to do so is the run's (r->failed, its message), not an error. */
int run_export(struct run *r, struct err *err);

/* prove.c: before a run that wasn't stopped is said to have ended: each of its tasks has an end, in the plan and on record. ERR_IO, an internal
 * error, with the list of those that have none. */
int run_prove_end(struct run *r, struct err *err);

/* finish.c */
int run_finish(struct run *r, struct err *err);

/* row.c: what the row of a run says of what is run, whether that happens here or is handed over */
/* Path, params, options (with our salt: keys can be made again where there is no cairn.yaml), the pipeline's files. The name is its own. */
int row_describe(const struct run_context *ctx, const struct pipeline *p, const struct value *params, const struct run_options *o, struct arena *arena, struct run_row *row,
		 struct err *err);
/* Waits for the look (NULL is fine) and frees it. */
void row_add_git(struct run_row *row, struct git_look *look, struct arena *arena);

/* options.c: what resume needs, as canonical JSON in `arena` */
const char *options_to_json(const struct run_options *o, struct arena *arena);
int options_from_json(const char *json, struct arena *arena, struct run_options *ret, struct err *err);
const char *params_to_json(const struct pipeline *p, const struct value *params, struct arena *arena);
int params_from_json(const struct pipeline *p, const char *json, struct arena *arena, struct value *ret, struct err *err);

/* files.c: the pipeline's own files in the store */
int pipeline_files_store(const struct pipeline *p, const char *project_root, struct store *s, struct content_id *ret, struct err *err);

#define OBSERVE(r, fn, ...)                                                            \
	do {                                                                           \
		const struct run_observer *_o = (r)->ctx->observer;                    \
		if (_o && _o->fn)                                                      \
			_o->fn(_o->arg, ##__VA_ARGS__);                                \
	} while (0)

#endif
