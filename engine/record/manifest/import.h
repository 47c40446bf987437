/* engine/record/manifest/import.h — imports one run from its manifest into the database; for
 * record/reindex. */
#ifndef CAIRN_RECORD_MANIFEST_IMPORT_H
#define CAIRN_RECORD_MANIFEST_IMPORT_H

#include "record/manifest/manifest.h"

enum import_ids {
	IMPORT_KEEP_IDS, /* attempts keep their numbers; a number that is taken ends the import */
	IMPORT_NEW_IDS,  /* all get new numbers, in order */
	IMPORT_IDS_IF_FREE, /* each keeps its number unless it is taken */
};
enum import_outcome {
	IMPORT_KNOWN = 0,
	IMPORT_DONE = 1,
	IMPORT_CLASH = 2 /* only with IMPORT_KEEP_IDS: roll back */
};

/* Call it in a transaction. Content that is missing or damaged in the store (the results table, a
 * key record) is left out: its facts are lost. Sets m->run's rowid and, when another run has its
 * id, a new id. Returns an outcome, or -1. Adds to *ret_attempts. *ret_lost (in `arena`) says why
 * attempts were left out, if any were. */
int manifest_import(struct db *db, struct store *s, struct manifest *m, enum import_ids ids,
		    struct arena *arena, uint64_t *ret_attempts, const char **ret_lost,
		    struct err *err);

#endif
