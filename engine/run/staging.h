/* engine/run/staging.h — brings content to a working directory and back: what runners are given, since they don't know the store. */
#ifndef CAIRN_RUN_STAGING_H
#define CAIRN_RUN_STAGING_H

#include "runners/runner.h"
#include "storage/content.h"

/* Functions for runner_local_options.staging; `store` must outlive the runner. Any thread. */
struct runner_staging staging_of(struct store *store);

#endif
