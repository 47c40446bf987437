/* storage/condemned.h — the list of objects that a collection found dead, of a directory or a
 * bucket.
 *
 * A collector writes it, and removes an object only if the list had it long enough. Whoever uses
 * the store reads it first: only what is on it may be removed meanwhile. So a run renews only that
 * when it finds it in a directory (local/dir.c), and counts it as absent in a bucket
 * (remote/presence.c). FORMAT.md has the format and the rules.
 *
 * A list is plain data of one owner; lookups may come from any thread.
 */
#ifndef CAIRN_STORAGE_CONDEMNED_H
#define CAIRN_STORAGE_CONDEMNED_H

#include "base/crypto/digest.h"
#include "base/text/str.h"

#define CONDEMNED_KEY_BYTES (1 + DIGEST_BYTES) /* kind, digest */

/* Whose list it is. Zero: a directory's. An entry of a bucket has one time, because the server
 * dates the list. */
enum condemned_form { CONDEMNED_DIRECTORY, CONDEMNED_BUCKET };

struct condemned {
	struct str bytes;     /* the whole file; sorted, unless entries were added since */
	size_t unsorted_from; /* entries before are sorted among themselves */
	enum condemned_form form;
};
struct condemned_entry {
	uint8_t key[CONDEMNED_KEY_BYTES];
	int64_t dead_ns;   /* the mark that first found it dead; in a bucket: as listed_ns */
	int64_t listed_ns; /* a list with it was out by then; 0: this list is the first */
};

/* kind: what the owner of the list distinguishes, such as a space. */
void condemned_list_key(uint8_t kind, const struct digest *name, uint8_t ret[CONDEMNED_KEY_BYTES]);
/* Checks bytes that were read, and sorts them. A list that is damaged, or that another version
 * wrote, becomes empty: false. */
bool condemned_list_check(struct condemned *list);
bool condemned_list_find(const struct condemned *list, const uint8_t key[CONDEMNED_KEY_BYTES],
			 struct condemned_entry *ret);
size_t condemned_list_len(const struct condemned *list);
struct condemned_entry condemned_list_at(const struct condemned *list, size_t i);
size_t condemned_list_max(enum condemned_form form); /* most entries of a list that readers take */
/* For a list that is made: in any order, best a shard after the other. */
void condemned_list_add(struct condemned *list, const struct condemned_entry *e);
/* Sorts it, for writing. An empty list has bytes, too. */
void condemned_list_end(struct condemned *list);
void condemned_list_deinit(struct condemned *list);

#endif
