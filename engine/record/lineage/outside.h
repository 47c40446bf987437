/* engine/record/lineage/outside.h — origins of inputs and exports of outputs: content that crosses
 * the project's border. */
#ifndef CAIRN_RECORD_LINEAGE_OUTSIDE_H
#define CAIRN_RECORD_LINEAGE_OUTSIDE_H

#include "record/rows/runs.h"

/* Contents that runs pinned outside the project, once for each place; newest first. */
int record_origins(struct db *db, struct arena *arena, struct run_input_row **ret, size_t *ret_n,
		   struct err *err);

/* What is on record of a place, a file or directory of the project or a URI: the content that the
 * newest run that read it as an input, or wrote it as an exported output, knew there. Of what lies
 * in a directory that was read or written, that directory's. Only the newest 50,000 runs are asked.
 * `place`: as pipelines name it; `path`: the same, absolute, NULL for a URI; both without a slash
 * at their ends. `run`: only this one, by rowid; 0: all. 1 with *ret, or 0. */
struct place_row {
	struct content_id id;
	const char *name; /* of the input or output */
};
int record_place(struct db *db, const char *place, const char *path, int64_t run,
		 struct arena *arena, struct place_row *ret, struct err *err);

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
