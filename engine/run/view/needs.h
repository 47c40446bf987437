/* engine/run/view/needs.h — which task of a run waited for which, and the path that decided how
 * long the run took.
 *
 * Needs are those of the pipeline: tasks of steps that share axes of a matrix are matched by their
 * labels, others need all tasks of the step. A task that wasn't executed in this run counts as
 * ended when the run began.
 */
#ifndef CAIRN_RUN_VIEW_NEEDS_H
#define CAIRN_RUN_VIEW_NEEDS_H

#include "run/view/tasks.h"

/* Of one task. */
struct view_need {
	const struct view_task *last; /* of those that it needs, the one that ended last; or NULL */
	int64_t ready_ns;             /* when that one ended, or the run began */
};
/* Of all tasks, in their order: n_tasks of them, in `arena`. */
struct view_need *view_needs(const struct run_view *v, struct arena *arena);
/* From the task that ended last to the one that began first, each the one that the task before it
 * waited for; in `arena`. */
size_t view_critical(const struct run_view *v, const struct view_need *needs, struct arena *arena,
		     const struct view_task *const **ret);

/* Tasks that `t` needs or, `down`, that need it; at most `max`, in `arena`. *ret_all: how many
 * there are. */
size_t view_neighbours(const struct run_view *v, const struct view_task *t, bool down, size_t max,
		       struct arena *arena, const struct view_task *const **ret, size_t *ret_all);

#endif
