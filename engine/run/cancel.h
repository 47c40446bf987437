/* engine/run/cancel.h — asks the engine of a run, which is another process, to stop. */
#ifndef CAIRN_RUN_CANCEL_H
#define CAIRN_RUN_CANCEL_H

#include "model/config/config.h"
#include "record/rows/runs.h"

/* `db` must be open for writing, outside a transaction. now: tasks get no grace time. ERR_INVALID
 * when no engine on this machine executes the run. */
int run_cancel(struct db *db, const struct run_row *r, bool now, struct err *err);

/* True when the run has no engine, but its Jobs may still run on a cluster. */
bool run_has_only_jobs(const struct run_row *r);
/* Deletes the run's Jobs, *ret_n of them, and writes that its attempts and the run have ended.
 * ERR_BUSY when an engine has taken the run up again. Blocks. */
int run_cancel_jobs(const struct config *c, struct db *db, const struct run_row *r, size_t *ret_n,
		    struct err *err);

#endif
