/* engine/run/view/tasks.h — a run as its steps and tasks, whatever state the run is in: for
 * commands and the HTTP API.
 *
 * A task's state comes from the results table if the run has one, else from what its engine tells
 * (view/live.h); attempts in the database are added to both. So there is a row for each task that
 * is known, also for those that wait and for hits. What costs a query for each task (reasons,
 * outputs, the run that made a hit) is asked for on demand, with any handle of the database.
 *
 * A view is immutable after view_open(), and any thread may read it. It holds no handle.
 */
#ifndef CAIRN_RUN_VIEW_TASKS_H
#define CAIRN_RUN_VIEW_TASKS_H

#include "base/map.h"
#include "model/pipeline.h"
#include "record/facts.h"
#include "run/view/live.h"

enum view_state {
	VIEW_WAITING,
	VIEW_RUNNING,
	VIEW_EXECUTED,
	VIEW_HIT,
	VIEW_FAILED,
	VIEW_SKIPPED,
	VIEW_BLOCKED,
	VIEW_CANCELLED,
	VIEW_STATES
};
const char *view_state_name(enum view_state s); /* "waiting", "hit", … */
bool view_state_parse(const char *name, enum view_state *ret);

struct view_task {
	const char *name;
	uint32_t step; /* in the view's steps */
	enum view_state state;
	enum live_state phase; /* of a waiting one, as its engine told; or 0 */
	uint32_t n_attempts;
	int64_t attempt; /* the last one in this run; 0: none */
	/* Of the last attempt, if it was in this run; 0: not begun, not ended. */
	int64_t started_ns, ended_ns;
	int64_t first_started_ns; /* of its first attempt */
	/* Executed: of the attempt; a hit: of the execution that made the result. */
	int64_t duration_ns;
	struct digest key;           /* all zero: none */
	struct results_cursor place; /* in the results table; `r` NULL: not in it */
};

struct view_step {
	const char *name;
	const struct step *decl; /* NULL: the pipeline can't be read any more */
	bool expanded;           /* false: its tasks aren't known yet */
	size_t first, n;         /* its tasks stand next to one another */
	uint64_t counts[VIEW_STATES];
	/* Of its attempts in this run; 0: none began, some haven't ended. */
	int64_t started_ns, ended_ns;
};

struct run_view {
	struct run_row run;
	struct pipeline *pipeline; /* as the run had it; NULL: it can't be read any more */
	struct view_step *steps;   /* in topological order */
	size_t n_steps;
	struct view_task *tasks; /* by step, then as they were expanded */
	size_t n_tasks;
	struct map *by_name; /* name → struct view_task * */
	/* private */
	struct map *step_names;  /* name → index in `steps`, plus 1 */
	struct results *results; /* or NULL */
	struct arena *arena;
};

/* `run` is copied. `s` may be NULL for a run without a results table. A pipeline that can't be read
 * is no error. */
int view_open(struct db *db, struct store *s, const char *state_dir, const struct run_row *run,
	      struct run_view **ret, struct err *err);
void view_free(struct run_view *v); /* NULL is fine */
static inline void view_freep(struct run_view **v)
{
	view_free(*v);
}

const struct view_task *view_find(const struct run_view *v, const char *task); /* or NULL */
/* The step with this name, or NULL. */
const struct view_step *view_find_step(const struct run_view *v, const char *name);

/* Its results, as far as there are any: those on record under its key, or of its last attempt. */
int view_results(const struct run_view *v, struct db *db, const struct view_task *t,
		 struct arena *arena, struct facts_task *ret, struct err *err);
/* The run of this project that made a hit's result; NULL: not known. */
int view_made_in(const struct run_view *v, struct db *db, const struct view_task *t,
		 struct arena *arena, const char **ret, struct err *err);
/* Why a task wasn't executed (skipped, blocked, a hit that failed), or what a waiting one waits
 * for; NULL: not known, or nothing to say. */
const char *view_reason(const struct run_view *v, const struct view_task *t, struct arena *arena);

/* The tasks of an ended run that weren't executed in it: [{"task", "step", "state": "hit",
 * "skipped" or "blocked", "made_by": run or null, "reason": text or null, "duration_ns"}]. */
int view_spared_json(const struct run_view *v, struct db *db, json_t **ret, struct err *err);

#endif
