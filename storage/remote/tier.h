/* storage/remote/tier.h — a local directory in front of a bucket, as one store: what `cairn store` does with the two beside what any store can. */
#ifndef CAIRN_STORAGE_REMOTE_TIER_H
#define CAIRN_STORAGE_REMOTE_TIER_H

#include "storage/remote/remote.h"

/* Both parts become the tier's, also when this fails. */
struct store *tier_new(struct store *local, struct remote *remote, const struct store_options *o);
/* NULL when `s` is no tier. Lent. */
struct remote *tier_remote(struct store *s);
struct store *tier_local(struct store *s);

/* Sends what these reach: contents, action records by name, manifests by hash with `walk` saying what they name (as store_gc_options.manifest_*). n 0 for all
 * three: everything that the local store has. */
struct tier_push {
	const struct digest *manifests;
	size_t n_manifests;
	const struct store_gc_options *walk;
};
int tier_push(struct store *s, const struct tier_push *p, struct remote_sent *ret, struct err *err);
struct tier_pulled {
	uint64_t objects, bytes, missing;
};
/* Brings manifests and all that they reach; n 0: everything that is there. */
int tier_pull(struct store *s, const struct tier_push *p, struct tier_pulled *ret, struct err *err);

#endif
