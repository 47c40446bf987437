/* engine/run/internal.h — the state of a run, for the files of this folder. turn.c says what
 * changes it, and in what order. */
#ifndef CAIRN_RUN_INTERNAL_H
#define CAIRN_RUN_INTERNAL_H

#include "base/map.h"
#include "plan/plan.h"
#include "record/manifest/manifest.h"
#include "run/reproduce/reproduce.h"
#include "run/slots.h"
#include "run/task.h"
#include "run/task/git.h"

/* What earlier engines of this run did for a task, when it goes on elsewhere without them. */
struct task_past {
	uint32_t failures[FAILURE_CLASSES]; /* since the run was last asked for */
	unsigned last;                      /* number of its last attempt */
	const struct attempt_row *ended;    /* the last that has; NULL: none */
};
/* Why an attempt came to be, when somebody asked for a run that had ended: with new budgets. */
#define REASON_RESUMED "the run was resumed"

struct publisher;

/* The run that a reproduction makes again. */
struct past_run {
	struct digest hash;
	struct manifest manifest;
	struct results *results;
	struct config config; /* the project's, with what is as it was */
};

/* The tasks, by phase (run/task.h). */
struct run_tasks {
	/* But for PHASE_BEHIND and PHASE_IN_LINE, whose lists are others'. */
	struct task_list in[PHASES];
	size_t n;
	struct map *by_attempt;         /* attempt id → struct task *, NULL when it has ended */
	struct map *by_key;             /* key → struct task * that has it, NULL when free */
	struct map *groups;             /* name → struct group * (group.c) */
	const struct task *passed;      /* the first of the parked ones */
	unsigned passed_over;           /* how often others began before it */
	struct loop_source *look_again; /* timer: at what is other engines' */
	size_t unchecked;
};

/* How the run ends. */
struct run_end {
	bool failed;   /* a task did, or an export */
	bool itself;   /* … and not only because content couldn't be brought or kept */
	bool stopping; /* nothing new is to be begun */
	bool interrupted, at_once; /* by a signal, or a request to cancel: what runs is stopped */
	bool told;                 /* a signal came after the last task had ended */
	bool done;
	struct err fatal; /* what the run can't survive */
};

/* For the next transaction, and what follows when it is committed. */
struct run_journal {
	VEC(struct attempt *) news; /* attempts that wait for something else than is on record */
	VEC(struct attempt_row *) to_close; /* an earlier engine's that nobody goes on with */
	VEC(uint64_t) settled;              /* attempts whose end is written: the runner is told */
};

/* What earlier engines left, of a run that is resumed. */
struct run_earlier {
	struct attempt_row *attempts;
	size_t n, n_pins;
	const struct run_row *seen; /* the run as it was when we decided to take it up */
	/* task label → attempt_row * that lives on where a durable runner executes it, NULL once it
	 * was taken up */
	struct map *open;
	struct map *done; /* task label → attempt_row * that succeeded in this run */
	struct map *past; /* task label → struct task_past *; of a durable runner only */
	bool looked_at;   /* for failures from then */
	bool goes_on;     /* nobody asked: its engine died, or was told to leave */
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
	struct run_tasks tasks;
	struct run_journal journal;
	struct run_earlier earlier;
	struct run_end end;
	bool wake; /* something happened that a turn must handle */
	bool told_waiting;
	struct {
		bool listens;                   /* to requests to stop (base/os/stop.h) */
		struct loop_source *sources[3]; /* … or by the loop alone */
	} signals;
	struct {
		int64_t at_ns, remaining_ns;
		int64_t *medians; /* of each step in past runs, as far as they were asked for */
	} estimate;
};

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
/* Plan from the pins, rows in the journal, execution to the end. */
int run_begin(struct run *r, const struct plan_pin *pins, size_t n_pins, struct run_row *ret,
	      struct err *err);

/* reproduce/reproduce.c */
int past_run_load(const struct run_context *ctx, const struct digest *hash, const char *salt,
		  struct arena *arena, struct past_run *ret, struct err *err);
void past_run_deinit(struct past_run *past);
/* Was it left out on request, by its step or by its own name? */
bool reproduce_leaves_out(const struct run_options *o, const char *step, const char *task);
/* Before it is executed: 1 it can be; 2 what it reads is gone, but may come back when *ret_after
 * has been executed again; 0 something that it needs is not here, and it has ended; -1 error. */
int reproduce_admit(struct run *r, struct attempt *a, struct plan_task **ret_after,
		    struct err *err);

/* reproduce/report.c: after the end */
int reproduce_report(struct run *r, struct reproduction **ret, struct err *err);
/* reproduce/environment.c */
int reproduce_environment(struct run *r, struct reproduction *rep, struct err *err);

/* turn.c */
void run_turn(void *arg); /* idle hook */
void run_on_started(void *arg, uint64_t attempt_id, int64_t wall_ns, pid_t pid);
void run_on_metric(void *arg, uint64_t attempt_id, const char *name, double value);
void run_on_finished(void *arg, uint64_t attempt_id, struct runner_result *result);
void run_on_waiting(void *arg, uint64_t attempt_id, const char *why);
void run_on_signal(void *arg, int signo);
void run_cancel_attempts(struct run *r, bool gentle); /* those that run */
bool run_cancel_requested(struct run *r);             /* as its row says now */
/* Begins, writes, commits; or undoes what failed. */
int run_in_transaction(struct run *r, int (*write)(struct run *r, struct err *err),
		       struct err *err);

/* start.c: from a ready task to a submitted attempt */
/* One look at a task that is READY or PARKED; its phase says what came of it. Asks stores, disks
 * and other engines' locks, so no transaction may be open. */
int start_task(struct run *r, struct task *t, struct err *err);
/* Rows of what has begun, and of what was closed for it; inside a transaction. Touches nothing but
 * the database. */
int start_write_rows(struct run *r, struct err *err);
/* Once they are committed. */
void start_submit(struct run *r);
/* ELSEWHERE, and lines before places of other engines, are looked at again in a moment. */
void start_look_again(struct run *r);
/* What it holds is given back: key, lease, place or turn in its group. has_result: whoever has the
 * same key finds it on record. */
void start_give_back(struct task *t, bool has_result);
/* … and it has ended in the plan. */
void start_task_over(struct task *t, bool has_result);

/* group.c: places in concurrency groups */
struct task_list *group_line(struct group *g);
/* May it take a place, as far as that is known before its command is? False: it stands in line. */
bool group_admits(struct task *t);
/* 1 it has a place in the group of that name, or needs none (NULL); 0 it stands in line, -1 error
 */
int group_enter(struct task *t, const char *name, struct err *err);
/* A called one was looked at: it has a place now, or will not. */
void group_turn_over(struct task *t);
/* Gives its place back, if it has one, and calls who is next. */
void group_leave(struct task *t);
void group_look_all(struct run *r);
/* Aborts when nobody would call its line. */
void group_check(struct run *r, const struct group *g);

/* earlier.c: attempts of this run that an earlier engine left */
/* The run is this engine's from here on. ERR_BUSY when another process has taken it up since
 * r->earlier.seen was read. */
int earlier_take_up(struct run *r, struct err *err);
/* The row of this task's attempt that still goes on; NULL: it has none. One of another key is put
 * into to_close. */
struct attempt_row *earlier_row(struct run *r, const struct attempt *a);
/* Of to_close, inside a transaction. */
int earlier_close_changed(struct run *r, struct attempt_row *row, struct err *err);
unsigned earlier_number(const struct run *r, const char *task); /* of its last attempt; 0 */
/* A run that goes on by itself goes on with what is left of a task's retries: fills its history
 * from them. 1: none is left, *ret is how it ended. */
int earlier_history(struct task *t, const struct attempt_row **ret);
/* An attempt of this task goes on; or it failed for good, and that is to be told. */
bool earlier_stands(const struct run *r, const char *task);
/* A task of a run that goes on by itself had failed for good. */
bool earlier_failed(const struct run *r);
/* Whatever nobody took up: the run has ended without it. */
int earlier_close(struct run *r, struct err *err);

/* publish.c: action records, after their content is durable */
int publisher_new(struct run *r, struct publisher **ret, struct err *err);
void publisher_add(struct publisher *p, const struct attempt *a);
/* Of hits that the database answered: records that no store has, since the engine that made the
 * results was killed before it wrote them. */
int publisher_make_up(struct publisher *p, struct err *err);
/* Waits until the last batch is written. */
int publisher_finish(struct publisher *p, struct err *err);
/* How many records couldn't be written, and why the first of them. */
uint64_t publisher_failed(const struct publisher *p, struct err *ret_first);
void publisher_free(struct publisher *p);

/* task/export.c: copies outputs to where their steps say. A failure to do so is the run's
 * (r->end.failed, its message), not an error. */
int run_export(struct run *r, struct err *err);

/* prove.c: before a run that wasn't stopped is said to have ended: each of its tasks has an end, in
 * the plan and on record. ERR_IO, an internal error, with the list of those that have none. */
int run_prove_end(struct run *r, struct err *err);

/* finish.c */
int run_finish(struct run *r, struct err *err);

/* options.c: what the row of a run says of what is run, whether that happens here or is handed over
 */

/* Path, params, options (with our salt: keys can be made again where there is no cairn.yaml), the
 * pipeline's files. The name is its own. */
int row_describe(const struct run_context *ctx, const struct pipeline *p,
		 const struct value *params, const struct run_options *o, struct arena *arena,
		 struct run_row *row, struct err *err);
/* Waits for the look (NULL is fine) and frees it. */
void row_add_git(struct run_row *row, struct git_look *look, struct arena *arena);

/* What resume needs, as canonical JSON in `arena`. */

const char *options_to_json(const struct run_options *o, struct arena *arena);
int options_from_json(const char *json, struct arena *arena, struct run_options *ret,
		      struct err *err);
const char *params_to_json(const struct pipeline *p, const struct value *params,
			   struct arena *arena);
int params_from_json(const struct pipeline *p, const char *json, struct arena *arena,
		     struct value *ret, struct err *err);

/* task/files.c: the pipeline's own files in the store */
int pipeline_files_store(const struct pipeline *p, const char *project_root, struct store *s,
			 struct content_id *ret, struct err *err);

#define OBSERVE(r, fn, ...)                                         \
	do {                                                        \
		const struct run_observer *_o = (r)->ctx->observer; \
		if (_o && _o->fn)                                   \
			_o->fn(_o->arg, ##__VA_ARGS__);             \
	} while (0)
/* One line that a person who watches should know, as for printf. */
#define run_notice(r, ...) OBSERVE(r, notice, arena_printf((r)->arena, __VA_ARGS__))

#endif
