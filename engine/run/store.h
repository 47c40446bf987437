/* engine/run/store.h — the store that a project's configuration names. */
#ifndef CAIRN_RUN_STORE_H
#define CAIRN_RUN_STORE_H

#include "model/config.h"
#include "storage/store.h"

/* create: makes the store where there is none (else ERR_NOT_FOUND), and fails at once when a store
 * can't be reached, not after hours of work. */
int run_open_store(const struct config *c, bool create, struct store **ret, struct err *err);

#endif
