/* engine/run/cancel.h — asking the engine of a run, another process, to stop. */
#ifndef CAIRN_RUN_CANCEL_H
#define CAIRN_RUN_CANCEL_H

#include "record/db.h"

/* `db` is open for writing, without a transaction. now: tasks get no time to end in order. ERR_INVALID when no engine of this machine has it. */
int run_cancel(struct db *db, const struct run_row *r, bool now, struct err *err);

#endif
