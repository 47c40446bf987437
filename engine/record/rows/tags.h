/* engine/record/rows/tags.h — names of runs: a small registry of models.
 *
 * A name means a run from one change until the next: changes are kept and never edited. The newest
 * change says what a name means now: by time and, at the same nanosecond, by digest. Each change is
 * also a small immutable object in the store (record/manifest/tag_store.h), so that everybody who
 * shares the store sees it and the database can be rebuilt; the database indexes them.
 *
 * Names: [a-z0-9][a-z0-9._/-]*, at most 100 bytes, no empty part between slashes. A name must not
 * look like a run: not `last`, not only four or more hex digits, not NAME-xxxxx like the ids of
 * runs.
 */
#ifndef CAIRN_RECORD_ROWS_TAGS_H
#define CAIRN_RECORD_ROWS_TAGS_H

#include "record/db.h"

#define TAG_NAME_MAX 100
#define TAG_NOTE_MAX 4000

struct tag_row {
	struct digest digest; /* of the change's object in the store */
	const char *name;
	bool has_run;       /* false: the name was removed */
	struct digest run;  /* run hash */
	const char *run_id; /* its id at that time; or NULL */
	int64_t at_ns;
	const char *author, *note; /* or NULL */
};

int tag_name_check(const char *name, struct err *err); /* ERR_USAGE says what is wrong with it */

/* Call it in a transaction. 0: the change is new; 1: it exists already and stays as it is. */
int record_tag_add(struct db *db, const struct tag_row *t, struct err *err);
/* The newest change of a name, which may be its removal; 1 found, 0 none. */
int record_tag_find(struct db *db, const char *name, struct arena *arena, struct tag_row *ret,
		    struct err *err);
/* Names that mean a run now, sorted by name. run: only names of that run (NULL: all). */
int record_tags(struct db *db, const struct digest *run, struct arena *arena, struct tag_row **ret,
		size_t *ret_n, struct err *err);
/* All changes of a name (NULL: of all), newest first. */
int record_tag_history(struct db *db, const char *name, struct arena *arena, struct tag_row **ret,
		       size_t *ret_n, struct err *err);

#endif
