/* run/served.h — runs that a server answers for: which there are, and their end when they can't go on. */
#ifndef CAIRN_RUN_SERVED_H
#define CAIRN_RUN_SERVED_H

#include "record/db.h"

struct served_run {
	const char *id;
	unsigned unbegun; /* its last so many engines ended before it began */
};
/* Those that haven't ended, newest first. */
int served_runs(struct db *db, struct arena *arena, struct served_run **ret, size_t *ret_n,
		struct err *err);
/* An engine of it ended before the run began, and why, for whoever asks how it is; `times` in all.
 * Makes its own transaction, as the next one does. */
int served_run_unbegun(struct db *db, const char *run, unsigned times, const char *why,
		       struct err *err);
/* One that no engine has. */
int served_run_end(struct db *db, const char *run, enum run_state state, const char *why, struct err *err);

#endif
