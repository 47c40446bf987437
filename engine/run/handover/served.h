/* run/handover/served.h — runs that a server answers for: which there are, and their end when they
 * can't go on. */
#ifndef CAIRN_RUN_HANDOVER_SERVED_H
#define CAIRN_RUN_HANDOVER_SERVED_H

#include "record/rows/runs.h"

struct served_run {
	const char *id;
	unsigned unbegun; /* its last so many engines ended before it began */
	bool has_died;    /* it says that it is running, and its engine is gone */
};
/* Those that haven't ended, newest first. */
int served_runs(struct db *db, struct arena *arena, struct served_run **ret, size_t *ret_n,
		struct err *err);
bool run_is_served(const struct run_row *r);
/* It waits to be tried again, and why, for whoever asks how it is: from now on it is interrupted,
 * if no engine has it. Its last `unbegun` engines ended before the run began. Makes its own
 * transaction, as the next one does. */
int served_run_wait(struct db *db, const char *run, unsigned unbegun, const char *why,
		    struct err *err);
/* One that no engine has. */
int served_run_end(struct db *db, const char *run, enum run_state state, const char *why,
		   struct err *err);

#endif
