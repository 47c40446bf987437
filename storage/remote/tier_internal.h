/* storage/remote/tier_internal.h — the parts of a tier: tier.c (its functions), tier_bring.c
 * (fetches from the bucket), tier_queue.c (sends to it). Only these include it. */
#ifndef CAIRN_STORAGE_REMOTE_TIER_INTERNAL_H
#define CAIRN_STORAGE_REMOTE_TIER_INTERNAL_H

#include "storage/remote/internal.h"
#include "storage/remote/tier.h"
#include "storage/remote/unsent.h"

struct tier {
	struct store base;
	struct store *local;
	struct remote *remote;
	bool writes;
	uint64_t cache_max;
	const struct closure_names *names;
	struct evict_user *user;
	struct unsent *unsent;   /* journal of records that must be sent even if we die; or NULL */
	pthread_mutex_t sending; /* one sync sends at a time; taken before base.lock */
	/* Under `sending`: */
	uint64_t lease; /* the number of the lease under which `there` of the objects was found */
	bool lapsed;    /* a lease lapsed: objects believed present under it may be gone */
	/* Under base.lock: */
	struct map *index;                 /* name → index in `objects` + 1 */
	VEC(struct remote_object) objects; /* there: known to be in the bucket */
	size_t n_unsent;                   /* of `objects` */
	size_t n_held;        /* records held back: they name content that is in neither place */
	uint64_t failures;    /* so far */
	int64_t failed_at_ns; /* monotonic; 0: the last try succeeded */
	struct err failure;   /* the first since the last success */
	/* Records that the bucket was just found to lack: name → second of the monotonic clock. */
	struct map *absent;
	struct digest_set
		*noted;       /* contents in the bucket, according to the processes that put them */
	struct map *touched;  /* objects that this process read, when the directory is bounded */
	uint64_t added_bytes; /* added to the directory since its last scan */
	bool was_scanned;
};

static inline struct tier *tier_of(struct store *s)
{
	return CONTAINER_OF(s, struct tier, base);
}
static inline int64_t tier_now_ns(void)
{
	return clock_system()->mono_ns(clock_system());
}

/* tier.c */
/* False for a while after a failure. */
bool tier_may_try(struct tier *t);
void tier_note_failure(struct tier *t, const struct err *e);
/* Notes the failure. 0: it may be transient, and until the next try the bucket counts as empty.
 */
int tier_away(struct tier *t, const struct err *e, struct err *err);

/* tier_bring.c */
/* Fetches an object that the directory lacks. `lacking`: the directory's error. */
int tier_bring_one(struct tier *t, const struct remote_object *o, const struct err *lacking,
		   struct err *err);
int tier_bring(struct store *s, const struct content_id *ids, size_t n, enum store_bring what,
	       struct err *err);
int tier_place(struct store *s, struct store_place *v, size_t n, struct err *err);
int tier_bring_records(struct store *s, enum store_space space, const struct digest *names,
		       size_t n, struct err *err);
int tier_refresh(struct store *s, enum store_space space, const struct digest *names, size_t n,
		 struct err *err);

/* tier_queue.c */
/* Queues an object of the directory: the next sync sends it if the bucket lacks it. o->verified:
 * this process put it.
 */
void tier_enqueue(struct tier *t, const struct remote_object *o);
int tier_sync(struct store *s, struct err *err);
uint64_t tier_unsent(struct store *s, struct err *ret_first);

#endif
