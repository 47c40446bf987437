/* record/manifest/carry.h — what no manifest has, out of the old database into the one that takes
 * its place; for record/reindex. */
#ifndef CAIRN_RECORD_MANIFEST_CARRY_H
#define CAIRN_RECORD_MANIFEST_CARRY_H

#include "record/db.h"

/* Makes the old one (of this version: opened for writing before) readable beside db. In no
 * transaction. */
int carry_attach(struct db *db, const char *old_path, struct err *err);
int carry_detach(struct db *db, struct err *err);

struct carry_run {
	int64_t rowid, started_ns;
	const char *id;
	bool unfinished; /* says that it runs: what a manifest has of it is from before it was taken
			    up again */
	bool has_hash;
	struct digest hash;
};
/* All runs of the old one, by start. */
int carry_list(struct db *db, struct arena *arena, struct carry_run **ret, size_t *ret_n,
	       struct err *err);
/* One of them, with all that it has. In a transaction. */
int carry_one(struct db *db, int64_t rowid, struct err *err);
/* What isn't a run's: names, schedules, firings; and what was noted of runs and attempts that are
 * there now: reproductions, exports, workspaces; and that no number of an attempt is used again. In
 * a transaction. */
int carry_rest(struct db *db, struct err *err);

#endif
