/* storage/remote/unsent.h — records that were put into the directory and may not be in the bucket
 * yet, so that they get there also when the process is killed: a file of each process beside what
 * is remembered of the bucket (layout in FORMAT.md).
 *
 * An entry is written before the record itself, and goes when all that the process put has arrived.
 * What an ended process left is taken over by the next that looks. Only records (of actions, of
 * runs, changes of names) are on it: what they name is found by reading them. Calls of one journal
 * come from any thread.
 *
 * A journal that can't be written costs what a crash in that moment would cost: nothing here fails.
 */
#ifndef CAIRN_STORAGE_REMOTE_UNSENT_H
#define CAIRN_STORAGE_REMOTE_UNSENT_H

#include "storage/store.h"

struct unsent;
struct unsent_record {
	enum store_space space; /* STORE_ACTION, STORE_RUN or STORE_TAG */
	struct digest name;
	bool replace; /* it takes the place of the one that the bucket has */
};

/* `dir`: absolute; made when something is written. */
struct unsent *unsent_new(const char *dir);
/* The file goes when nothing is on it; else it stays for others. NULL is fine. */
void unsent_free(struct unsent *u);
/* The record is about to be put. Between this and unsent_added() nothing is cleared. */
void unsent_add(struct unsent *u, const struct unsent_record *r);
void unsent_added(struct unsent *u);
/* Moves what ended processes left onto our own; *ret (the caller's) has all of that, each once,
 * also what was taken over before and is still there. */
void unsent_take_over(struct unsent *u, struct unsent_record **ret, size_t *ret_n);
/* All that was put has arrived, and (taken_over) what was taken over too. */
void unsent_clear(struct unsent *u, bool taken_over);

#endif
