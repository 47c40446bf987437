/* engine/serve/api/run/views.h — views of runs (run/view/tasks.h) for requests, kept for the next
 * one.
 *
 * A page asks for the same run again and again, and a view of ten thousand tasks takes tens of
 * milliseconds. So a view is kept: of a run that has ended as long as there is room, of another one
 * for a second. At most VIEWS_TASKS_MAX tasks are kept; a larger view is freed after its request,
 * and one view is made at a time. Any thread.
 */
#ifndef CAIRN_SERVE_API_RUN_VIEWS_H
#define CAIRN_SERVE_API_RUN_VIEWS_H

#include "run/view/needs.h"
#include "run/view/series.h"
#include "serve/internal.h"

#define VIEWS_MAX       8
#define VIEWS_TASKS_MAX 300000
#define VIEWS_LIVE_NS   NS_PER_S

/* Lent until api_view_return(). */
struct viewed {
	struct api *a;
	const struct run_view *v;
	const struct view_need *needs;       /* of each task */
	const bool *critical;                /* likewise: whether it is on the critical path */
	const struct view_task *const *path; /* that path, from its end */
	size_t n_path;
	struct kept_view *kept;
};
/* The run that {run} names. False: the client got a problem as answer. */
bool api_view(struct api *a, struct viewed *ret);
bool api_view_of(struct api *a, const struct run_row *run, struct viewed *ret);
void api_view_return(struct viewed *v); /* zeroed is fine */

/* A task as a row: documented as `Task` in schemas.json. NULL: *err says why. */
json_t *api_task_row(const struct viewed *v, const struct view_task *t, struct arena *arena,
		     struct err *err);
/* The metrics over time of a task: what it left or, while it runs, what it wrote so far and, on a
 * cluster, what its engine has fetched of that. 1: read; 0: none, or none that can be shown. `s`
 * may be NULL. */
int api_series_read(const struct viewed *v, struct store *s, const struct view_task *t,
		    const struct facts_task *results, struct arena *arena, struct series *ret,
		    struct err *err);
/* The task that ?task= names, or the only one of the step that it names. NULL: answered. */
const struct view_task *api_view_task(struct viewed *v);

#endif
