/* engine/run/handover/served.h — the runs that a server owns, and their end when they can't go on.
 */
#ifndef CAIRN_RUN_HANDOVER_SERVED_H
#define CAIRN_RUN_HANDOVER_SERVED_H

#include "record/rows/runs.h"

struct served_run {
	const char *id;
	unsigned unbegun; /* how many engines in a row ended before it began */
	bool has_died;    /* its row says running, but its engine is gone */
};
/* Served runs that haven't ended, newest first. */
int served_runs(struct db *db, struct arena *arena, struct served_run **ret, size_t *ret_n,
		struct err *err);
bool run_is_served(const struct run_row *r);
/* Marks the run as interrupted, if no engine has it, and keeps `why` for `cairn status`: the server
 * will retry it. Its last `unbegun` engines ended before the run began. Makes its own transaction,
 * like the next function. */
int served_run_wait(struct db *db, const char *run, unsigned unbegun, const char *why,
		    struct err *err);
/* Ends a run that no engine has. */
int served_run_end(struct db *db, const char *run, enum run_state state, const char *why,
		   struct err *err);

#endif
