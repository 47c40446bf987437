/* engine/run/task/staging.h — brings content to a working directory and back: what runners are
 * given, since they don't know the store. */
#ifndef CAIRN_RUN_TASK_STAGING_H
#define CAIRN_RUN_TASK_STAGING_H

#include "runners/runner.h"
#include "storage/content/content.h"

/* Functions for a runner's options; `store` must outlive the runner. Any thread. */
struct runner_staging staging_of(struct store *store);

/* The directories that outputs and metrics go into; directories that are outputs themselves. `mode`
 * as in fs_make_beneath(). */
int staging_make_places(const struct runner_attempt *a, int dir_fd, mode_t mode, struct err *err);
/* runner_staging's collect of a working directory that the program may still be changing: nothing
 * is moved, and no link leads out of dir_fd. */
int staging_collect_hostile(struct store *store, const struct runner_attempt *a, int dir_fd,
			    struct content_id *ret_ids, struct err *err);

#endif
