/* run/served.h — runs that a server answers for: which there are, and their end when they can't go on. */
#ifndef CAIRN_RUN_SERVED_H
#define CAIRN_RUN_SERVED_H

#include "record/db.h"

/* Ids of those that haven't ended, newest first. */
int served_runs(struct db *db, struct arena *arena, const char ***ret, size_t *ret_n, struct err *err);
/* One that no engine has. Makes its own transaction. */
int served_run_end(struct db *db, const char *run, enum run_state state, const char *why, struct err *err);

#endif
