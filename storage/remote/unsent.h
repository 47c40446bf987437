/* storage/remote/unsent.h — a journal of records that were put into the directory and may not be in
 * the bucket yet, so that they get there even if the process is killed. Each process has one file,
 * in the directory's part for this bucket (layout in FORMAT.md).
 *
 * An entry is written before the record itself, and removed when all that the process put has
 * arrived. A later process takes over the entries of an ended one. A journal has only records (of
 * actions, of runs, changes of names); reading them finds what they name. Any thread.
 *
 * A journal that can't be written is as bad as a crash at that moment, no worse, so no function
 * here fails.
 */
#ifndef CAIRN_STORAGE_REMOTE_UNSENT_H
#define CAIRN_STORAGE_REMOTE_UNSENT_H

#include "storage/store.h"

struct unsent;
struct unsent_record {
	enum store_space space; /* STORE_ACTION, STORE_RUN or STORE_TAG */
	struct digest name;
	bool replace; /* it replaces the bucket's record */
};

/* `dir`: absolute; created when needed. */
struct unsent *unsent_new(const char *dir);
/* Removes the file when it is empty; else it stays for others. NULL is allowed. */
void unsent_free(struct unsent *u);
/* Call before the record is put. unsent_clear() removes nothing between this and unsent_added(). */
void unsent_add(struct unsent *u, const struct unsent_record *r);
void unsent_added(struct unsent *u);
/* Moves the entries of ended processes into our journal. *ret (the caller frees it) has all entries
 * taken over that are still unsent, each once. */
void unsent_take_over(struct unsent *u, struct unsent_record **ret, size_t *ret_n);
/* Call when all that was put has arrived, and (taken_over) all that was taken over too. */
void unsent_clear(struct unsent *u, bool taken_over);

#endif
