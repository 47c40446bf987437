/* record/rows/tags.h — names of runs: a small registry of models.
 *
 * A name means a run from one change on until the next: changes are kept, none is ever edited. What
 * a name means now is its newest change, by time and, of two at the same nanosecond, by digest.
 * Each change is a small immutable record in the store too (record/manifest/tag_store.h), so that
 * everybody who shares the store sees it and the database can be rebuilt; the database indexes
 * them.
 *
 * Names: [a-z0-9][a-z0-9._/-]*, at most 100 bytes, no empty part between slashes, and nothing that
 * could be meant for a run: not `last`, not four or more hex digits and nothing else, not
 * NAME-xxxxx as the ids of runs are.
 */
#ifndef CAIRN_RECORD_ROWS_TAGS_H
#define CAIRN_RECORD_ROWS_TAGS_H

#include "record/db.h"

#define TAG_NAME_MAX 100
#define TAG_NOTE_MAX 4000

struct tag_row {
	struct digest digest; /* of the change's record */
	const char *name;
	bool has_run;       /* false: the name was taken away */
	struct digest run;  /* run hash */
	const char *run_id; /* as it was called then; or NULL */
	int64_t at_ns;
	const char *author, *note; /* or NULL */
};

int tag_name_check(const char *name, struct err *err); /* ERR_USAGE says what is wrong with it */

/* In a transaction. A change that is there already is left as it is: 1; 0 when it is new. */
int record_tag_add(struct db *db, const struct tag_row *t, struct err *err);
/* The newest change of a name, which may be one that took it away; 1 found, 0 none. */
int record_tag_find(struct db *db, const char *name, struct arena *arena, struct tag_row *ret,
		    struct err *err);
/* What each name means now, those that mean something, by name. run: only names of that run (NULL:
 * all). */
int record_tags(struct db *db, const struct digest *run, struct arena *arena, struct tag_row **ret,
		size_t *ret_n, struct err *err);
/* All changes of a name (NULL: of all), newest first. */
int record_tag_history(struct db *db, const char *name, struct arena *arena, struct tag_row **ret,
		       size_t *ret_n, struct err *err);

#endif
