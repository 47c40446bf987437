/* engine/run/task/near.h — on which nodes of a cluster an attempt's large inputs lie already. Used
 * by runs, and by commands that show what a run would submit. near.c says how it is known.
 *
 * Functions take NULL: nothing is known, and nothing is remembered. One thread.
 */
#ifndef CAIRN_RUN_TASK_NEAR_H
#define CAIRN_RUN_TASK_NEAR_H

#include "model/config/config.h"
#include "record/db.h"
#include "run/run.h"
#include "runners/runner.h"

struct near;
/* NULL where pods keep nothing on their nodes. `db` stays the caller's; everything but the maps is
 * in `arena`. `cluster`: where the attempts will be, as in run_options. */
struct near *near_new(const struct config *c, struct db *db, const struct run_cluster *cluster,
		      struct arena *arena);
void near_free(struct near *n);
/* Fills in the hint of an attempt that is otherwise ready, in `arena`. */
void near_fill(struct near *n, struct arena *arena, struct runner_attempt *a);
/* It ended well on `node` (NULL: not known): its inputs are there. */
void near_learn(struct near *n, const struct runner_attempt *a, const char *node);

#endif
