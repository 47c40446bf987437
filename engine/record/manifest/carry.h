/* engine/record/manifest/carry.h — copies rows that no manifest has from the old database into its
 * replacement; for record/reindex. */
#ifndef CAIRN_RECORD_MANIFEST_CARRY_H
#define CAIRN_RECORD_MANIFEST_CARRY_H

#include "record/db.h"

/* Attaches the old database to db. It must have this version's schema (it was opened for writing
 * before). Call it outside a transaction. */
int carry_attach(struct db *db, const char *old_path, struct err *err);
int carry_detach(struct db *db, struct err *err);

struct carry_run {
	int64_t rowid, started_ns;
	const char *id;
	bool unfinished; /* its row says running, so its manifest is older than its last resume */
	bool has_hash;
	struct digest hash;
};
/* All runs of the old database, by start. */
int carry_list(struct db *db, struct arena *arena, struct carry_run **ret, size_t *ret_n,
	       struct err *err);
/* Copies one of them, with all its rows. Call it in a transaction. */
int carry_one(struct db *db, int64_t rowid, struct err *err);
/* Copies rows that belong to no run: names, schedules, firings. Also notes about runs and attempts
 * that exist now: reproductions, exports, workspaces. Makes sure that no attempt's number is used
 * again. Call it in a transaction. */
int carry_rest(struct db *db, struct err *err);

#endif
