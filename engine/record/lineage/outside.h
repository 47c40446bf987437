/* record/lineage/outside.h — origins of inputs and exports of outputs: content that crosses the
 * project's border. */
#ifndef CAIRN_RECORD_LINEAGE_OUTSIDE_H
#define CAIRN_RECORD_LINEAGE_OUTSIDE_H

#include "record/rows/runs.h"

/* Contents that runs pinned outside the project, once for each place; newest first. */
int record_origins(struct db *db, struct arena *arena, struct run_input_row **ret, size_t *ret_n,
		   struct err *err);

struct export_row {
	int64_t run;
	const char *task, *output, *uri;
	struct content_id id;
	int64_t at_ns;
	const char *message; /* why it failed; NULL: it succeeded */
};
/* Replaces the record of this run's output. Call it in a transaction. */
int record_export(struct db *db, const struct export_row *e, struct err *err);
/* 1: the last export to `uri` had this content and succeeded; 0: not. */
int record_exported(struct db *db, const char *uri, const struct content_id *id, struct err *err);
/* The run's exports, failed ones too. Sorted by task and output. */
int record_run_exports(struct db *db, int64_t run, struct arena *arena, struct export_row **ret,
		       size_t *ret_n, struct err *err);

#endif
