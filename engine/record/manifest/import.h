/* record/manifest/import.h — one run out of its manifest into the database; for record/reindex. */
#ifndef CAIRN_RECORD_MANIFEST_IMPORT_H
#define CAIRN_RECORD_MANIFEST_IMPORT_H

#include "record/manifest/manifest.h"

enum import_ids {
	IMPORT_KEEP_IDS,    /* attempts keep their numbers; one that is taken ends the import */
	IMPORT_NEW_IDS,     /* all get new ones, in order */
	IMPORT_IDS_IF_FREE, /* each keeps its number unless it is taken */
};
enum import_outcome {
	IMPORT_KNOWN = 0,
	IMPORT_DONE = 1,
	IMPORT_CLASH = 2 /* only with IMPORT_KEEP_IDS: roll back */
};

/* In a transaction. Content that is gone from the store or damaged (the table of results, a key
 * record) is left out: what it said isn't known any more. Sets m->run's rowid and, when its id is
 * another run's, its id. Returns an outcome, or -1. *ret_attempts is added to; *ret_lost (in arena)
 * is set to why attempts are left out, when some are. */
int manifest_import(struct db *db, struct store *s, struct manifest *m, enum import_ids ids,
		    struct arena *arena, uint64_t *ret_attempts, const char **ret_lost,
		    struct err *err);

#endif
