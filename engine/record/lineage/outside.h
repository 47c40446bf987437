/* record/lineage/outside.h — what came from outside, and what went there: origins of inputs,
 * exports of outputs. */
#ifndef CAIRN_RECORD_LINEAGE_OUTSIDE_H
#define CAIRN_RECORD_LINEAGE_OUTSIDE_H

#include "record/rows/runs.h"

/* Contents that runs pinned somewhere else than in the project, each once for each place; the
 * newest first. */
int record_origins(struct db *db, struct arena *arena, struct run_input_row **ret, size_t *ret_n,
		   struct err *err);

struct export_row {
	int64_t run;
	const char *task, *output, *uri;
	struct content_id id;
	int64_t at_ns;
	const char *message; /* why it failed; NULL: it is there */
};
/* In a transaction of the caller's. Replaces what is on record of this run's output. */
int record_export(struct db *db, const struct export_row *e, struct err *err);
/* Is this content the newest thing that was exported to `uri`, and was it whole? 1 yes, 0 no. */
int record_exported(struct db *db, const char *uri, const struct content_id *id, struct err *err);
/* What this run exported, or tried to. Sorted by task and output. */
int record_run_exports(struct db *db, int64_t run, struct arena *arena, struct export_row **ret,
		       size_t *ret_n, struct err *err);

#endif
