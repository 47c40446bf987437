/* record/manifest/tag_store.h — changes of names as objects in the store (storage/FORMAT.md), so
 * that all who share it have them.
 *
 * A change is put into the store first and then into the database; whoever lists the store takes in
 * what others did. Without a network a change is in the directory, and goes up with the next
 * store_sync() or `cairn store push`.
 */
#ifndef CAIRN_RECORD_MANIFEST_TAG_STORE_H
#define CAIRN_RECORD_MANIFEST_TAG_STORE_H

#include "record/rows/tags.h"
#include "storage/store.h"

/* Sets t->digest; the caller calls store_sync(). */
int tag_store_put(struct store *s, struct tag_row *t, struct err *err);
/* ERR_CORRUPT when it isn't one. */
int tag_store_load(struct store *s, const struct digest *name, struct arena *arena,
		   struct tag_row *ret, struct err *err);
/* In no transaction: takes in the changes that lie in the store (here, and behind it when it is
 * shared) and aren't in the database. Damaged ones are left out. Returns how many were new, or -1.
 */
int tag_store_take_in(struct db *db, struct store *s, struct err *err);

/* The run of each change that lies in the store, here or behind it: what any name ever meant. */
int tag_store_each_run(struct store *s, void (*fn)(void *arg, const struct digest *run), void *arg,
		       struct err *err);

#endif
