/* storage/local/condemned.h — the list of objects that a collection of a directory found dead.
 *
 * gc.c writes it, and removes an object only if the list had it long enough. A run reads it when it
 * begins: only what is on it may be removed while the run lasts, so only that must be renewed when
 * the run finds it (dir.c). FORMAT.md has the format and the rules.
 *
 * A list is plain data of one owner; lookups may come from any thread.
 */
#ifndef CAIRN_STORAGE_LOCAL_CONDEMNED_H
#define CAIRN_STORAGE_LOCAL_CONDEMNED_H

#include "storage/store.h"

#define CONDEMNED_KEY_BYTES   (1 + DIGEST_BYTES)            /* space, digest */
#define CONDEMNED_ENTRY_BYTES (CONDEMNED_KEY_BYTES + 8 + 8) /* and two times */

struct condemned {
	struct str bytes;     /* the whole file; sorted, unless entries were added since */
	size_t unsorted_from; /* entries before are sorted among themselves */
};
struct condemned_entry {
	uint8_t key[CONDEMNED_KEY_BYTES];
	int64_t dead_ns;   /* the mark that first found it dead */
	int64_t listed_ns; /* a list with it was out by then; 0: this list is the first */
};

void condemned_list_key(enum store_space space, const struct digest *name,
			uint8_t ret[CONDEMNED_KEY_BYTES]);
/* Checks bytes that were read, and sorts them. A list that is damaged, or that another version
 * wrote, becomes empty: false. */
bool condemned_list_check(struct condemned *list);
bool condemned_list_find(const struct condemned *list, const uint8_t key[CONDEMNED_KEY_BYTES],
			 struct condemned_entry *ret);
size_t condemned_list_len(const struct condemned *list);
/* For a list that is made: in any order, best a shard after the other. */
void condemned_list_add(struct condemned *list, const struct condemned_entry *e);
/* Sorts it, for writing. */
void condemned_list_end(struct condemned *list);
void condemned_list_deinit(struct condemned *list);

#endif
