/* engine/run/cancel.h — asks the engine of a run, which is another process, to stop. */
#ifndef CAIRN_RUN_CANCEL_H
#define CAIRN_RUN_CANCEL_H

#include "model/config.h"
#include "record/rows/runs.h"

/* `db` is open for writing, without a transaction. now: tasks get no time to end in order.
 * ERR_INVALID when no engine of this machine has it. */
int run_cancel(struct db *db, const struct run_row *r, bool now, struct err *err);

/* Has it no engine, but Jobs on a cluster that may go on? */
bool run_has_only_jobs(const struct run_row *r);
/* Deletes them (*ret_n); then its attempts and the run itself have ended. ERR_BUSY when an engine
 * has it again. Blocks. */
int run_cancel_jobs(const struct config *c, struct db *db, const struct run_row *r, size_t *ret_n,
		    struct err *err);

#endif
