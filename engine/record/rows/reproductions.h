/* engine/record/rows/reproductions.h — which runs reproduce which, and the results.
 *
 * Retention keeps both runs of a reproduction until a user drops it. Writing needs a transaction
 * (record/db.h).
 */
#ifndef CAIRN_RECORD_ROWS_REPRODUCTIONS_H
#define CAIRN_RECORD_ROWS_REPRODUCTIONS_H

#include "record/rows/runs.h"

struct reproduction_row {
	int64_t run; /* rowid of the new run */
	const char *run_id;
	bool has_hash;
	struct digest hash;       /* of the new run */
	struct digest original;   /* run hash of the past one */
	int mode, verdict;        /* enum reproduce_mode, enum compare_verdict */
	struct content_id report; /* blob: the report as JSON */
};

/* Replaces an earlier report of the same run (a resumed one). */
int record_reproduction_add(struct db *db, const struct reproduction_row *r, struct err *err);
int record_reproductions(struct db *db, struct arena *arena, struct reproduction_row **ret,
			 size_t *ret_n, struct err *err); /* newest first */
/* Removes reproductions in which this run is the new or the past one: they don't keep it any more.
 * Returns how many there were. */
int record_reproduction_drop(struct db *db, const struct run_row *run, struct err *err);

#endif
