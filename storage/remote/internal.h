/* storage/remote/internal.h — the parts of a remote store. Only this folder includes it. */
#ifndef CAIRN_STORAGE_REMOTE_INTERNAL_H
#define CAIRN_STORAGE_REMOTE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/map.h"
#include "base/mem.h"
#include "storage/condemned.h"
#include "storage/internal.h"
#include "storage/remote/pack.h"
#include "storage/remote/remote.h"

#define REMOTE_KEY_MAX 96
#define NAME_LEN       (1 + DIGEST_BYTES)

/* The kinds of objects in the condemned list. */
enum remote_kind { KIND_BLOB, KIND_ACTION, KIND_RUN, KIND_PACK, REMOTE_KINDS };

struct pack {
	struct digest name;
	uint8_t *index;
	size_t index_len, n;
	uint64_t size;    /* the size that the pack must have */
	int64_t mtime_ns; /* of its index; 0: our own pack, not listed yet */
	bool condemned, gone;
};

/* Where a member is; sorted by the first eight bytes of its name. */
struct slot {
	uint64_t prefix;
	uint32_t pack, at;
};

struct slots {
	struct slot *v;
	size_t n;
	bool old; /* packs were added since it was built */
};

struct remote_condemned {
	struct condemned list; /* by remote_kind */
	int64_t written_ns;    /* 0: there is no list */
};

struct lease {
	char *key;
	int64_t started_ns;    /* the server's */
	int64_t renewed_at_ns; /* CLOCK_BOOTTIME, which also counts while the machine sleeps */
	/* The condemned list and the packs were read under it; until then it protects, but allows
	 * no writes. */
	bool trusted;
	pthread_t thread;
	bool has_thread, stop;
	pthread_cond_t wake;
};

struct remote {
	struct bucket *bucket;
	int dir; /* descriptor, or -1 */
	struct remote_options o;
	pthread_mutex_t io;   /* held to attach or to list packs; taken before `lock` */
	pthread_mutex_t lock; /* guards the fields below */
	bool attached;
	uint64_t leases; /* how many were taken; knowledge from an earlier lease is void */
	bool if_absent, delete_if; /* what the server supports */
	VEC(struct pack) packs;
	struct map *pack_by_name; /* index + 1 */
	struct slots slots;
	VEC(struct digest) bad_indexes;
	/* A record was read since packs were listed; it may name content in a newer pack. */
	bool packs_old;
	uint64_t n_lists; /* how often packs were listed */
	struct map *bad; /* name and pack (or BAD_ALONE) of damaged copies, which count as absent */
	struct map *known; /* separate blobs and records in the bucket: name → 1 */
	VEC(uint8_t) seen; /* names that became known, not yet written to the directory */
	struct map *lost;  /* names that were in `known`, but are absent: not remembered */
	struct remote_condemned condemned;
	struct lease lease;
	struct err refused;   /* why writing isn't possible, though wanted */
	atomic_ulong damaged; /* damaged objects found */
	atomic_ulong healed;  /* damaged objects that were replaced */
};

/* remote.c */
const char *remote_key(char buf[REMOTE_KEY_MAX], enum store_space space, const struct digest *name);
const char *remote_pack_key(char buf[REMOTE_KEY_MAX], const struct digest *name, bool index);
/* Parses the name in a key, after `skip` characters. */
bool remote_name_in(const char *key, size_t skip, struct digest *ret);
/* An object's key in maps. */
static inline void remote_name_key(uint8_t key[NAME_LEN], enum store_space space,
				   const struct digest *name)
{
	key[0] = (uint8_t)space;
	memcpy(key + 1, name->b, DIGEST_BYTES);
}
enum remote_kind remote_kind_of(enum store_space space);
int remote_get_bytes(struct remote *r, const char *key, uint64_t max_bytes, struct str *ret,
		     struct err *err); /* one small object */
/* A batch of gets, with the memory of their keys. The caller fills `keys` and the rest of `v`;
 * results are in v[i], whose bodies remote_gets_deinit() frees. */
struct remote_gets {
	struct bucket_get *v;
	char (*keys)[REMOTE_KEY_MAX];
	size_t n;
};
void remote_gets_init(struct remote_gets *g, size_t n);
int remote_gets_run(struct remote *r, struct remote_gets *g, struct err *err);
void remote_gets_deinit(struct remote_gets *g);
int remote_put_bytes(struct remote *r, const char *key, const void *bytes, size_t n, bool if_absent,
		     struct err *err);

/* presence.c; *_locked: with `lock` held */
int presence_load(struct remote *r,
		  struct err *err); /* lists packs, fetches indexes; with `io` held */
/* Loads packs written since the last listing, if remote_expect_changes() was called since; forgets
 * nothing. */
int presence_load_new(struct remote *r, struct err *err);
/* condemned_too: if no other pack has it, condemned packs count too. Only for reading: content that
 * is still needed will be pardoned. */
bool presence_find_locked(struct remote *r, const struct remote_object *o, bool condemned_too,
			  uint32_t *ret_pack, struct pack_member *ret);
void presence_add_pack(struct remote *r, const struct digest *name,
		       struct str *index); /* takes ownership of index */
void presence_note(struct remote *r, enum store_space space, const struct digest *name);
void presence_forget(struct remote *r);
/* A separate object turned out absent: forgets it, here and for later processes. */
void presence_lost(struct remote *r, enum store_space space, const struct digest *name);
/* True when a damaged copy exists, as a separate object or in a listed pack. A copy that was
 * removed meanwhile doesn't count. */
bool presence_is_damaged(struct remote *r, enum store_space space, const struct digest *name);
#define BAD_ALONE UINT32_MAX
void presence_note_bad(struct remote *r, enum store_space space, const struct digest *name,
		       uint32_t pack);
/* True when the separate copy is damaged or condemned, and so counts as absent. */
bool presence_is_unusable_locked(const struct remote *r, enum store_space space,
				 const struct digest *name);
void presence_remember(struct remote *r); /* writes newly known names into the directory */
void presence_recall(struct remote *r);
uint64_t presence_lists(struct remote *r); /* how many listings were made so far */
/* Lists packs again if the list is old. *ret_did: there are more than `seen` listings now (perhaps
 * another thread's), so results must be looked up again. */
int presence_refresh_if_old(struct remote *r, uint64_t seen, bool *ret_did, struct err *err);
void presence_free(struct remote *r);

/* The lease under which objects were found present. A write that relies on their presence is
 * allowed only while this lease holds. */
struct lease_hold {
	struct remote *r;
	uint64_t number;
};
struct lease_hold lease_hold(struct remote *r);
bool lease_holds(void *hold); /* as bucket.h's `may` */

/* send.c: sends the pack, then its index, under the lease held at the start. The lease must hold
 * throughout: a collector removes a pack without an index if its writer seems dead, and readers
 * would believe the index without a pack. */
int remote_send_pack(struct remote *r, struct pack_writer *w, uint64_t *ret_bytes, struct err *err);

/* lease.c */
int lease_take(struct remote *r, struct err *err);
void lease_give_back(struct remote *r);
bool lease_is_good(struct remote *r);
/* Call when the condemned list and the packs were read after the lease was taken. */
void lease_trust(struct remote *r);
uint64_t lease_number(struct remote *r); /* how many leases this process took and trusted */
int condemned_load(struct remote *r, struct err *err);
/* Since when it is condemned, by the server's clock; 0: it isn't. Hold `lock` if another thread may
 * load the list. */
int64_t condemned_since(const struct remote *r, enum remote_kind kind, const struct digest *name);
/* transfer.c, for verify.c: sends the records whose contents are all in the bucket. */
int transfer_send_whole(struct store *tier, const struct closure_names *names,
			struct remote_object *v, size_t n, struct remote_sent *ret,
			struct err *err);
struct transfer_named {
	const struct closure_names *names; /* NULL: manifests name nothing */
	const struct digest *manifests;
	size_t n_manifests;
	const struct content_id *contents; /* contents that action records name */
	size_t n_contents;
	/* Collects listings that couldn't be read, whose members are unknown; or NULL. */
	struct digest_set *unread;
};
/* Calls fn once for each content that these records reach; -1 ends it. Records that can't be read
 * name nothing. */
typedef int transfer_name_fn(void *arg, enum store_space space, const struct digest *name,
			     uint64_t size);
int transfer_each_named(struct store *s, const struct transfer_named *named, transfer_name_fn *fn,
			void *arg, struct err *err);
/* tier.c, for verify.c and collect.c: makes a store for content that is only checked or moved, of
 * any size: a directory at `path`, or in memory if the tier has no files either. */
int tier_scratch(struct store *tier, const char *path, struct store **ret, struct err *err);
void tier_scratch_drop(struct store *tier, const char *path, struct store **s);
/* Adds an object of the scratch store to the pack; a large blob goes through its file. */
int tier_pack_add(struct pack_writer *w, struct store *scratch, const struct remote_object *o,
		  struct err *err);
/* tier_queue.c, for transfer.c: returns what ended processes left unsent, if requests to the bucket
 * are allowed now.
 */
struct unsent_record;
void tier_take_unsent(struct store *s, struct unsent_record **ret,
		      size_t *ret_n);                              /* the caller frees *ret */
void tier_sent_unsent(struct store *s, const struct err *failure); /* NULL: all was sent */
/* tier.c, for transfer.c: how often the bucket failed so far. tier_failed_since() returns -1 when
 * it failed since then, or when requests are paused after a failure: objects that couldn't be read
 * may exist. */
uint64_t tier_failures(struct store *s);
int tier_failed_since(struct store *s, uint64_t before, struct err *err);

#define CONDEMNED_KEY "gc/condemned"
#define LEASES_PREFIX "leases/"

#endif
