/* engine/run/store.h — the store that a project's configuration names. */
#ifndef CAIRN_RUN_STORE_H
#define CAIRN_RUN_STORE_H

#include "model/config.h"
#include "storage/store.h"

/* create: the store is made where there is none (else ERR_NOT_FOUND), and one that can't be reached
 * is an error now, not after hours of work. */
int run_open_store(const struct config *c, bool create, struct store **ret, struct err *err);

#endif
