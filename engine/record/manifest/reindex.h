/* engine/record/manifest/reindex.h — rebuilds the database from the store: from run manifests and
 * changes of names.
 *
 * A reindex never destroys data. The new database is built beside the old one and replaces it in
 * one rename at the end; the old one stays as cairn.db.before-reindex. Rows that no manifest has
 * are copied from the old database, when it can be read: runs that haven't ended, and those whose
 * manifests were collected; schedules and firings, reproductions, exports, kept workspaces. Runs
 * keep their ids and attempts keep their numbers. The exception is a store with runs of several
 * projects whose attempts have the same numbers: then all get new numbers, ordered by time.
 */
#ifndef CAIRN_RECORD_MANIFEST_REINDEX_H
#define CAIRN_RECORD_MANIFEST_REINDEX_H

#include "record/rows/runs.h"
#include "storage/store.h"

/* Imports a run that only the store has; strings of *ret in `arena`. Call it outside a transaction.
 * 1: it is new. 0: the run was on record already (perhaps with another manifest, since it was
 * resumed). Attempts get new numbers when theirs are taken. */
int record_import_run(struct db *db, struct store *s, const struct digest *hash,
		      struct arena *arena, struct run_row *ret, struct err *err);
/* Hashes of runs in the store (and its remote, when it is shared) that begin with `prefix`; at most
 * `max`, though *ret_n may be larger. */
int record_store_runs(struct store *s, const char *prefix, struct digest *ret, size_t max,
		      size_t *ret_n, struct err *err);

struct reindex_options {
	void (*on_progress)(void *arg, uint64_t done, uint64_t total); /* or NULL */
	void (*on_warning)(void *arg, const char *text);               /* damaged files */
	void *arg;
};
struct reindex_result {
	uint64_t runs, attempts, tags;
	uint64_t carried;    /* runs that only the old database had */
	uint64_t superseded; /* manifests of runs that have a later one */
	uint64_t damaged;    /* unreadable manifests, which are left out */
	bool renumbered;
	bool kept_old; /* as PATH.before-reindex */
};
/* ERR_BUSY while a run of this database executes, or a server serves its project. */
int record_reindex(const char *db_path, struct store *s, const struct reindex_options *o,
		   struct reindex_result *ret, struct err *err);

#endif
