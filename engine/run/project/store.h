/* engine/run/project/store.h — the store that a project's configuration names. */
#ifndef CAIRN_RUN_PROJECT_STORE_H
#define CAIRN_RUN_PROJECT_STORE_H

#include "model/config/config.h"
#include "storage/store.h"

/* create: makes the store where there is none (else ERR_NOT_FOUND), and contacts a shared one. That
 * fails if the store refuses us. If it can't be reached, the caller asks tier_failure(): a plan
 * goes on, a run doesn't. */
int run_open_store(const struct config *c, bool create, struct store **ret, struct err *err);
/* Asks a shared store once whether it answers and takes our credentials; leaves nothing behind. 1:
 * it does, but no store is there yet. 0 for a directory. */
int run_try_store(const struct config *c, struct err *err);

#endif
