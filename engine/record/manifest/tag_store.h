/* engine/record/manifest/tag_store.h — changes of names as objects in the store
 * (storage/FORMAT.md), shared with all its users.
 *
 * A change is written to the store first and then to the database; other users take it in when they
 * list the store. Without a network a change stays in the local directory until the next
 * store_sync() or `cairn store push`.
 */
#ifndef CAIRN_RECORD_MANIFEST_TAG_STORE_H
#define CAIRN_RECORD_MANIFEST_TAG_STORE_H

#include "record/rows/tags.h"
#include "storage/store.h"

/* Sets t->digest; the caller calls store_sync() afterwards. */
int tag_store_put(struct store *s, struct tag_row *t, struct err *err);
/* ERR_CORRUPT when it isn't a valid change. */
int tag_store_load(struct store *s, const struct digest *name, struct arena *arena,
		   struct tag_row *ret, struct err *err);
/* Adds changes in the store (and its remote, when it is shared) that the database lacks. Damaged
 * ones are left out. Returns how many were new, or -1. Call it outside a transaction. */
int tag_store_take_in(struct db *db, struct store *s, struct err *err);

/* Calls fn with the run of each change in the store or its remote: all runs that ever had a
 * name. */
int tag_store_each_run(struct store *s, void (*fn)(void *arg, const struct digest *run), void *arg,
		       struct err *err);

#endif
