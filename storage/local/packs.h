/* storage/local/packs.h — packs of a directory store: one file that holds many small objects.
 *
 * packs/HEX and packs/HEX.idx have the format of packs in a bucket (remote/pack.h), and may hold
 * action records, too; never manifests or tags. They never change. A pack is durable before its
 * index is named, so whoever finds a member finds its bytes.
 *
 * A member's time is its pack's. It is never renewed: who uses an old member puts it once more, as
 * an object of its own. To remove members, a pack is written again without them.
 *
 * Any thread may call these. `root` is the store's directory, `s` the store; both outlive it.
 */
#ifndef CAIRN_STORAGE_LOCAL_PACKS_H
#define CAIRN_STORAGE_LOCAL_PACKS_H

#include "storage/internal.h"

#define PACKS_DIR "packs"
/* What `version` says from the first pack on. */
#define PACKS_VERSION "cairn store 2\n"
/* Fewer objects are files of their own: a pack is two files, and every reader opens it. */
#define PACKS_WORTH 64
/* With this many packs, the small ones are merged. */
#define PACKS_MERGE_AT 64

struct packs;
struct packs *packs_new(struct store *s, int root);
void packs_free(struct packs *p);

struct packed {
	uint64_t size;
	int64_t made_ns; /* wall clock */
};
/* Looks for an object, also in packs that others made meanwhile. 1: found; *ret (or NULL) gets its
 * bytes, fewer when the pack was cut. 0: no pack has it. -1: it can't be read. */
int packs_get(struct packs *p, enum store_space space, const struct digest *name, struct str *ret,
	      struct packed *ret_what, struct err *err);
/* Makes a pack of these: blobs and action records, which are durable when this returns. */
int packs_put(struct packs *p, const struct store_item *v, size_t n, struct err *err);
int packs_list(struct packs *p, enum store_space space, store_list_fn *fn, void *arg,
	       struct err *err);
/* Removes an object from all packs. No error when it is in none. */
int packs_remove(struct packs *p, enum store_space space, const struct digest *name,
		 struct err *err);
/* For gc: 0: the next packs_sweep() removes it, or it is in no pack; 1: it was made at or after
 * `unless_since_ns`, and stays. */
int packs_condemn(struct packs *p, enum store_space space, const struct digest *name,
		  int64_t unless_since_ns);
int packs_sweep(struct packs *p, struct err *err);
/* Packs without an index and temporaries, which a crash left before before_ns. Adds to *ret. */
int packs_leftovers(struct packs *p, int64_t before_ns, bool dry, struct store_leftovers *ret,
		    struct err *err);

#endif
