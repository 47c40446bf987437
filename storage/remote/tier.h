/* storage/remote/tier.h — a local directory in front of a bucket, as one store: what `cairn store`
 * does with the two beside what any store can. */
#ifndef CAIRN_STORAGE_REMOTE_TIER_H
#define CAIRN_STORAGE_REMOTE_TIER_H

#include "storage/remote/remote.h"

/* Both parts become the tier's, also when this fails. */
struct store *tier_new(struct store *local, struct remote *remote, const struct store_options *o);
/* NULL when `s` is no tier. Lent. */
struct remote *tier_remote(struct store *s);
struct store *tier_local(struct store *s);
/* From now on, notes in `dir` (absolute) each record that is put, until it has arrived: unsent.h.
 */
void tier_keep_unsent(struct store *s, const char *dir);
/* A bucket that doesn't answer counts as empty: what it may have is ERR_NOT_FOUND then. Whoever
 * concludes something from what is missing asks here first: -1 when the bucket failed since this
 * process last sent something. */
int tier_failure(struct store *s, struct err *err);

/* The names of a space, here and in the bucket, each once and sorted. The caller frees *ret. Of any
 * store: without a bucket, what is here. */
int tier_names(struct store *s, enum store_space space, struct digest **ret, size_t *ret_n,
	       struct err *err);

/* What is to be moved: manifests by hash, and all that they reach, action records included. n 0:
 * everything that there is. */
struct tier_wanted {
	const struct digest *manifests;
	size_t n_manifests;
	const struct closure_names *names; /* what a manifest names */
};
/* Sends what the bucket lacks. ret->missing: the local store doesn't have it. */
int tier_push(struct store *s, const struct tier_wanted *w, struct remote_sent *ret,
	      struct err *err);
/* Sends records that earlier processes put into the directory and couldn't send, or were killed
 * before they could, with all that they name. Looks at nothing else, and asks nobody when there is
 * none. `names` as above. */
int tier_send_unsent(struct store *s, const struct closure_names *names, struct remote_sent *ret,
		     struct err *err);
/* Says which of these the directory has: all of them, when nothing is to be sent from it (no tier,
 * or one that only reads). */
int tier_has_here(struct store *s, enum store_space space, const struct digest *names, size_t n,
		  bool *ret, struct err *err);
struct tier_pulled {
	uint64_t objects, fetched, missing; /* named; brought now; not to be had */
};
int tier_pull(struct store *s, const struct tier_wanted *w, struct tier_pulled *ret,
	      struct err *err);

/* Reads the bucket back, all of it or a part (0 < sample <= 1, another one each time): each object,
 * each index of a pack, and whether all is there that records name. What is damaged or missing is
 * sent from the directory, as far as it has it. `repaired` counts only what was read back sound
 * afterwards. Nothing is ever written under the name of a pack that somebody may be collecting.
 * What a collector removes meanwhile is no problem. Manifests and listings are kept in the
 * directory. */
struct tier_verify {
	double sample;
	const struct closure_names *names; /* what a manifest names; NULL: nothing is asked */
	void (*on_problem)(
		void *arg,
		const struct store_problem *p); /* damaged; or missing although it is named */
	void (*on_progress)(void *arg, uint64_t done, uint64_t total);
	void *arg;
	/* answered */
	uint64_t checked, problems, repaired;
};
int tier_verify(struct store *s, struct tier_verify *v, struct err *err);
/* Brings what was set aside in the directory. `ret_there` says which are here again. */
int tier_repair(struct store *s, enum store_space space, const struct digest *name, bool *ret_there,
		struct err *err);

#endif
