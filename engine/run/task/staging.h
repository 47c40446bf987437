/* engine/run/task/staging.h — moves content between the store and a working directory, for runners,
 * which don't know the store. */
#ifndef CAIRN_RUN_TASK_STAGING_H
#define CAIRN_RUN_TASK_STAGING_H

#include "runners/runner.h"
#include "storage/content/content.h"

/* The functions for a runner's options; `store` must outlive the runner. Any thread. */
struct runner_staging staging_of(struct store *store);

/* Makes the parent directories of outputs and metrics, and outputs that are directories. `mode` as
 * in fs_make_beneath(). */
int staging_make_places(const struct runner_attempt *a, int dir_fd, mode_t mode, struct err *err);
/* Like runner_staging's collect, for a working directory that the program may still change: nothing
 * is moved, and no link leads out of dir_fd. */
int staging_collect_hostile(struct store *store, const struct runner_attempt *a, int dir_fd,
			    struct content_id *ret_ids, struct err *err);

#endif
