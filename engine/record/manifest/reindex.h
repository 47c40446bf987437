/* record/manifest/reindex.h — the database from what the store has: run manifests, and changes of
 * names.
 *
 * A reindex never destroys: the new database is built beside the old one and takes its place in one
 * rename at the end; the old one stays as cairn.db.before-reindex. What no manifest has is carried
 * over from the old database, when it can be read: runs that haven't ended, and those whose
 * manifests were collected; schedules and firings, reproductions, exports, kept workspaces. Runs
 * keep their ids and attempts keep their numbers, but when runs of several projects, which numbered
 * their attempts alike, lie in one store: then all are numbered anew, in the order of time.
 */
#ifndef CAIRN_RECORD_MANIFEST_REINDEX_H
#define CAIRN_RECORD_MANIFEST_REINDEX_H

#include "record/rows/runs.h"
#include "storage/store.h"

/* A run that only the store knows, into the database; strings of *ret in `arena`. In no
 * transaction. 1 it is new, 0 the run was on record (another manifest of it perhaps: it was
 * resumed). Attempts get new numbers when theirs are taken. */
int record_import_run(struct db *db, struct store *s, const struct digest *hash,
		      struct arena *arena, struct run_row *ret, struct err *err);
/* Hashes of the runs in the store (and behind it, when it is shared) that begin so; at most `max`,
 * *ret_n may be larger. */
int record_store_runs(struct store *s, const char *prefix, struct digest *ret, size_t max,
		      size_t *ret_n, struct err *err);

struct reindex_options {
	void (*on_progress)(void *arg, uint64_t done, uint64_t total); /* or NULL */
	void (*on_warning)(void *arg, const char *text); /* a manifest that is damaged, an old
							    database that can't be read */
	void *arg;
};
struct reindex_result {
	uint64_t runs, attempts, tags;
	uint64_t carried;    /* runs that only the old database had */
	uint64_t superseded; /* manifests of runs that have a later one */
	uint64_t damaged;    /* manifests that can't be read: left out */
	bool renumbered;
	bool kept_old; /* as PATH.before-reindex */
};
/* ERR_BUSY while a run of this database is going on, or a server serves its project. */
int record_reindex(const char *db_path, struct store *s, const struct reindex_options *o,
		   struct reindex_result *ret, struct err *err);

#endif
