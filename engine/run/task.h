/* engine/run/task.h — a task during a run: the phase that it is in, and what it holds.
 *
 * The plan knows what a task needs and how it ended (plan/plan.h, enum task_state). The phase is
 * what the run does with it in between. A task is on exactly one list, and each list has one phase:
 * so a task is in exactly one phase. A task that waits for another task, or for a place in a group,
 * is on that task's or group's own list, first come, first served.
 *
 *   PLANNED → READY → BEGUN → RUNNING → ENDED → PLANNED, or BACKING_OFF → READY
 *   READY → BEHIND, IN_LINE, PARKED or ELSEWHERE, and back
 *
 * Everything lives in the run's arena, except attempts, which are freed when they are over.
 */
#ifndef CAIRN_RUN_TASK_H
#define CAIRN_RUN_TASK_H

#include "base/failure.h"
#include "plan/plan.h"
#include "record/db.h"
#include "runners/runner.h"

/* For each phase: what it means; what ends it. */
enum task_phase {
	/* The task is in the plan's hands: it waits for what it needs, is ready there, or has
	 * ended. → READY when the plan hands it out. */
	PHASE_PLANNED,
	/* It can begin, and is looked at as soon as one more task may run (start.c). → BEGUN, a
	 * waiting phase, or PLANNED when it ends without an attempt, for example as a hit. */
	PHASE_READY,
	/* Another task of this run goes first: it has the same key, or makes again what this one
	 * reads. → READY when that task has ended, or has failed and backs off. */
	PHASE_BEHIND,
	/* Its concurrency group has no place. → READY when one came free, or may have come free at
	 * another engine. */
	PHASE_IN_LINE,
	/* This machine has no room for its resources. Looked at in each turn. → like READY. */
	PHASE_PARKED,
	/* Another engine executes its key, or its environment is being made. → READY after a while:
	 * its end isn't reported to us. */
	PHASE_ELSEWHERE,
	/* It holds everything that it needs: room, key, place in the group. → RUNNING in the same
	 * turn, once its row is committed; or ENDED if it can't even begin. */
	PHASE_BEGUN,
	/* The runner executes it. → ENDED when the runner reports its end. */
	PHASE_RUNNING,
	/* Its end is known, but not on record. → PLANNED or BACKING_OFF once it is. */
	PHASE_ENDED,
	/* It failed and waits for its retry. → READY when the delay is over. */
	PHASE_BACKING_OFF,
	PHASES,
};

struct approval;
struct run;
struct task;
struct task_list {
	enum task_phase phase;
	struct task *first, *last;
	size_t n;
};

struct task {
	struct run *run;
	struct plan_task *plan;
	struct task_list *on; /* never NULL */
	struct task *before, *after;
	struct task_list *behind; /* tasks in PHASE_BEHIND because of this one; NULL: never any */
	struct attempt *attempt;  /* while BEGUN, RUNNING, ENDED; else NULL */
	struct task_history *history; /* NULL: it hasn't failed */
	/* Its concurrency group, once known, and the place in it that the task holds. */
	struct group *group;
	uint32_t group_place;
	bool has_group_place;
	bool called;     /* from the line: it may take a place */
	bool was_called; /* … it was called before: it need not stand in line again */
	bool has_key;    /* no other task of this run may execute its key */
	bool has_lease;  /* … and no other engine */
};

/* For a task that has failed. */
struct task_history {
	uint32_t failures[FAILURE_CLASSES];
	uint32_t attempts;
	double memory_factor;
	struct loop_source *timer; /* while BACKING_OFF */
	bool content_failed;       /* its last attempt couldn't fetch its inputs */
};

/* One execution of a task. */
struct attempt {
	struct task *task;
	const struct step *step;
	struct arena *arena;
	char *label;
	struct task_command command;
	struct runner_attempt given; /* passed to the runner */
	struct attempt_row row;
	bool fails_at_once;          /* it can't even begin: its row is written all the same */
	bool taken_up;               /* an earlier engine wrote its row */
	bool gave_back;              /* what it used of the machine (run_on_exited) */
	const struct approval *asks; /* of a step with `approve`; else NULL */
	const char *said;            /* … and the answer, once it ended */
	/* Why it doesn't run yet, and what the record says of that; NULL: nothing. */
	const char *waiting_for, *reported;
	/* Of its series, while it runs: the newest step, and the best value of a trial's metric. */
	double series_step, series_best;
	bool has_step, has_best;
	/* once it ended: */
	struct runner_result *result; /* in `arena`; NULL before: thousands may run at once */
	struct metric_value *metrics;
	size_t n_metrics;
	struct named_content *sources; /* of what it read (plan_task_sources) */
	size_t n_sources;
	bool differs; /* from an earlier result of the same key */
};

/* The run's state of that plan task; made as PLANNED on the first call. */
struct task *task_of(struct run *r, struct plan_task *plan);
/* Moves the task to the end, or the beginning, of another list. */
void task_move(struct task *t, struct task_list *to);
void task_move_to_front(struct task *t, struct task_list *to);
void task_set_phase(struct task *t, enum task_phase phase); /* a phase with one list in the run */
static inline enum task_phase task_phase(const struct task *t)
{
	return t->on->phase;
}
struct task_history *task_history_of(struct task *t); /* made on the first call */
/* `t` waits until `first` has ended. */
void task_wait_behind(struct task *t, struct task *first);
/* How it ended; what *result points to must stay. Returns the attempt's copy. */
struct runner_result *attempt_ended(struct attempt *a, const struct runner_result *result);
void attempt_free(struct attempt *a); /* NULL is fine */

/* Aborts when a task's list doesn't match its phase, or it is on none. Looks at all tasks, but
 * rarely: a few a turn on average. */
void task_check_all(struct run *r);

#endif
