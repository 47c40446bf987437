/* engine/run/task.h — a task in the hands of a run: the phase that it is in, and what it holds.
 *
 * The plan knows what a task needs and how it ended (plan/plan.h, enum task_state). What the run
 * does with it in between is its phase. Each phase has a list, and a task is on exactly one list:
 * so it is in exactly one phase. Who waits for a task or for a place in a group is on that task's
 * or that group's own list, first come, first served.
 *
 *	PLANNED → READY → BEGUN → RUNNING → ENDED → PLANNED, or BACKING_OFF → READY
 *	READY → BEHIND, IN_LINE, PARKED or ELSEWHERE, and back
 *
 * All of it lives in the run's arena, but attempts: they are freed when they are over.
 */
#ifndef CAIRN_RUN_TASK_H
#define CAIRN_RUN_TASK_H

#include "base/failure.h"
#include "plan/plan.h"
#include "record/db.h"
#include "runners/runner.h"

/* For each: what it means; what moves it on. */
enum task_phase {
	/* The plan has it: it waits for what it needs, is ready there, or has ended.
	 * → READY when the plan gives it. */
	PHASE_PLANNED,
	/* It wants to begin, and is looked at as soon as a task more may run (start.c).
	 * → BEGUN, a phase of waiting, or PLANNED when it ends without an attempt: a hit, say. */
	PHASE_READY,
	/* Another task of this run goes first: it has the same key, or makes again what this one
	 * reads. → READY when that one has ended, or has failed and backs off. */
	PHASE_BEHIND,
	/* Its concurrency group has no place. → READY when one came free, or may have come free at
	 * another engine. */
	PHASE_IN_LINE,
	/* This machine has no room for what it asks for. Looked at in each turn. → as READY. */
	PHASE_PARKED,
	/* Another engine executes its key. → READY after a while: nobody tells us when it ended. */
	PHASE_ELSEWHERE,
	/* It holds all that it takes: room, key, place in the group.
	 * → RUNNING in the same turn, once its row is committed; or ENDED if it can't even begin.
	 */
	PHASE_BEGUN,
	/* The runner has it. → ENDED when the runner says so. */
	PHASE_RUNNING,
	/* How it ended is known here, and not on record. → PLANNED or BACKING_OFF once it is. */
	PHASE_ENDED,
	/* It failed and is tried again. → READY when its time has come. */
	PHASE_BACKING_OFF,
	PHASES,
};

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
	struct task_list *behind; /* those in PHASE_BEHIND because of this one; NULL: none ever */
	struct attempt *attempt;  /* while BEGUN, RUNNING, ENDED; else NULL */
	struct task_history *history; /* NULL: it hasn't failed */
	/* Its concurrency group, once that is known; and the place in it that it holds. */
	struct group *group;
	uint32_t group_place;
	bool has_group_place;
	bool called;     /* from the line: it is its turn to take a place */
	bool was_called; /* … it was before: it need not stand in line behind others */
	bool has_key;    /* of this run's tasks it alone may execute its key */
	bool has_lease;  /* … and of all engines this one */
};

/* Of a task that has failed. */
struct task_history {
	uint32_t failures[FAILURE_CLASSES];
	uint32_t attempts;
	double memory_factor;
	struct loop_source *timer; /* while BACKING_OFF */
	bool content_failed;       /* its last attempt couldn't be brought what it reads */
};

/* A task that is being executed. */
struct attempt {
	struct task *task;
	const struct step *step;
	struct arena *arena;
	char *label;
	struct task_command command;
	struct runner_attempt given; /* to the runner */
	struct attempt_row row;
	bool fails_at_once; /* it can't even begin: its row is written all the same */
	bool taken_up;      /* its row is an earlier engine's */
	/* Why it doesn't run yet, and what of that is on record; or NULL. */
	const char *waiting_for, *told;
	/* once it ended: */
	struct runner_result result; /* copies in `arena` */
	struct metric_value *metrics;
	size_t n_metrics;
	struct named_content *sources; /* of what it read (plan_task_sources) */
	size_t n_sources;
	bool differs; /* from what the same key gave before */
};

/* The run's view of that task; made PLANNED when there is none yet. */
struct task *task_of(struct run *r, struct plan_task *plan);
/* From the list that it is on to the end, or the beginning, of another one. */
void task_move(struct task *t, struct task_list *to);
void task_move_to_front(struct task *t, struct task_list *to);
void task_set_phase(struct task *t, enum task_phase phase); /* which has one list in the run */
static inline enum task_phase task_phase(const struct task *t)
{
	return t->on->phase;
}
struct task_history *task_history_of(struct task *t); /* made when there is none yet */
/* `t` waits until `first` has ended. */
void task_wait_behind(struct task *t, struct task *first);
void attempt_free(struct attempt *a); /* NULL is fine */

/* Aborts when a task isn't where its list says, or is on none. Looks at all tasks, but only so
 * often that it comes to a few a turn. */
void task_check_all(struct run *r);

#endif
