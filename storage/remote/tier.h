/* storage/remote/tier.h — a local directory in front of a bucket, as one store.
 *
 * A tier has all functions of store.h. Here are those that only a tier has: `cairn store` pushes,
 * pulls, verifies and repairs; a run keeps a journal of records that the bucket must get even if
 * the run dies, and asks whether the bucket failed.
 *
 * Any thread; errors as in store.h and remote.h. Of another store, tier_remote() and tier_local()
 * are NULL, nothing is unsent and nothing failed, and moving content is ERR_USAGE.
 */
#ifndef CAIRN_STORAGE_REMOTE_TIER_H
#define CAIRN_STORAGE_REMOTE_TIER_H

#include "storage/remote/remote.h"

/* Takes ownership of both parts, also on failure. */
struct store *tier_new(struct store *local, struct remote *remote, const struct store_options *o);
/* NULL when `s` is no tier. Borrowed. */
struct remote *tier_remote(struct store *s);
struct store *tier_local(struct store *s);
/* From now on, journals each record that is put in `dir` (absolute) until it has arrived: unsent.h.
 */
void tier_keep_unsent(struct store *s, const char *dir);
/* A bucket that doesn't answer counts as empty, so reads may give ERR_NOT_FOUND for objects that it
 * has. Call this before you conclude anything from a missing object: -1 when the bucket failed
 * since this process last sent something. */
int tier_failure(struct store *s, struct err *err);

/* The names in a space, in the directory and the bucket, sorted, each once. The caller frees *ret.
 * Works for any store: without a bucket, lists the store. */
int tier_names(struct store *s, enum store_space space, struct digest **ret, size_t *ret_n,
	       struct err *err);

/* What to move: manifests by hash, and all that they reach, including action records. n_manifests
 * 0: everything. */
struct tier_wanted {
	const struct digest *manifests;
	size_t n_manifests;
	const struct closure_names *names; /* what a manifest names */
};
/* Sends what the bucket lacks. ret->missing: objects that the local store lacks too. */
int tier_push(struct store *s, const struct tier_wanted *w, struct remote_sent *ret,
	      struct err *err);
/* Sends records that earlier processes put into the directory but couldn't send, or were killed
 * before they could, with all that they name. Reads nothing else, and sends no request when there
 * are none. `names` as above. */
int tier_send_unsent(struct store *s, const struct closure_names *names, struct remote_sent *ret,
		     struct err *err);
/* Says which of these the directory has. All, if the store never sends (no tier, or a read-only
 * one). */
int tier_has_here(struct store *s, enum store_space space, const struct digest *names, size_t n,
		  bool *ret, struct err *err);
struct tier_pulled {
	uint64_t objects, fetched, missing; /* named; fetched now; not found */
};
int tier_pull(struct store *s, const struct tier_wanted *w, struct tier_pulled *ret,
	      struct err *err);

/* Reads the bucket back, all of it or a random part (0 < sample <= 1): each object, each pack
 * index, and whether all that records name is present. Sends damaged or missing objects from the
 * directory, if it has them. `repaired` counts only objects that were read back intact afterwards.
 * Never writes under the name of a pack that may be being collected. Objects that a collector
 * removes meanwhile aren't problems. The directory keeps manifests and listings. */
struct tier_verify {
	double sample;
	const struct closure_names *names; /* what a manifest names; NULL: manifests name nothing */
	void (*on_problem)(void *arg,
			   const struct store_problem *p); /* damaged; or missing, but named */
	void (*on_progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
	/* answered */
	uint64_t checked, problems, repaired;
};
int tier_verify(struct store *s, struct tier_verify *v, struct err *err);
/* Fetches an object that was set aside in the directory. *ret_there: the directory has it again. */
int tier_repair(struct store *s, enum store_space space, const struct digest *name, bool *ret_there,
		struct err *err);

#endif
