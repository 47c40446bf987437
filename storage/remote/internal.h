/* storage/remote/internal.h — the parts of a remote store. Only this folder includes it. */
#ifndef CAIRN_STORAGE_REMOTE_INTERNAL_H
#define CAIRN_STORAGE_REMOTE_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/map.h"
#include "base/mem.h"
#include "storage/internal.h"
#include "storage/remote/pack.h"
#include "storage/remote/remote.h"

#define REMOTE_KEY_MAX 96
#define NAME_LEN       (1 + DIGEST_BYTES)

/* What the list of the condemned and the collector speak of: objects of the bucket. */
enum remote_kind { KIND_BLOB, KIND_ACTION, KIND_RUN, KIND_PACK, REMOTE_KINDS };

struct condemned {
	uint8_t kind;
	struct digest name;
	int64_t since_ns; /* the server's time of the list in which it was new */
};

struct pack {
	struct digest name;
	uint8_t *index;
	size_t index_len, n;
	uint64_t size;    /* as it must be */
	int64_t mtime_ns; /* of its index; 0: ours, not listed yet */
	bool condemned, gone;
};

/* Where a member lies: sorted by the first eight bytes of its name. */
struct slot {
	uint64_t prefix;
	uint32_t pack, at;
};

struct lease {
	char *key;
	int64_t started_ns;    /* the server's */
	int64_t renewed_at_ns; /* CLOCK_BOOTTIME: it counts while the machine sleeps */
	bool trusted; /* what is believed was read under it; until then, it protects but allows
			 nothing */
	pthread_t thread;
	bool has_thread, stop;
	pthread_cond_t wake;
};

struct remote {
	struct bucket *bucket;
	int dir; /* descriptor, or -1 */
	struct remote_options o;
	pthread_mutex_t io;   /* one thread attaches, or lists packs; taken before `lock` */
	pthread_mutex_t lock; /* guards what follows */
	bool attached;
	uint64_t
		leases; /* how many were taken: what was known under an earlier one holds no more */
	bool if_absent, delete_if; /* what the store honours */
	VEC(struct pack) packs;
	struct map *pack_by_name; /* index + 1 */
	struct {
		struct slot *v;
		size_t n;
		bool old; /* packs were added since */
	} slots;
	VEC(struct digest) bad_indexes;
	bool packs_old;   /* a record was read since they were listed: it may name what lies in a
			     newer one */
	uint64_t n_lists; /* of packs that were made */
	struct map *bad;  /* name and pack (or BAD_ALONE): copies that didn't match their name; they
			     count as absent */
	struct map *known; /* blobs and records that lie alone there: name → 1 */
	VEC(uint8_t) seen; /* names that became known, to be remembered */
	struct map *lost;  /* names that were believed to lie alone, and don't: not remembered any
			      more */
	struct {
		struct condemned *v; /* sorted by kind and name */
		size_t n;
		int64_t written_ns; /* 0: there is no list */
	} condemned;
	struct lease lease;
	struct err refused;   /* why nothing can be written although it was wanted */
	atomic_ulong damaged; /* objects that didn't match their name */
	atomic_ulong healed;  /* damaged ones that were written anew */
};

/* remote.c */
const char *remote_key(char buf[REMOTE_KEY_MAX], enum store_space space, const struct digest *name);
const char *remote_pack_key(char buf[REMOTE_KEY_MAX], const struct digest *name, bool index);
/* The name in a key, after `skip` characters. */
bool remote_name_in(const char *key, size_t skip, struct digest *ret);
/* An object as the key of a map. */
static inline void remote_name_key(uint8_t key[NAME_LEN], enum store_space space,
				   const struct digest *name)
{
	key[0] = (uint8_t)space;
	memcpy(key + 1, name->b, DIGEST_BYTES);
}
enum remote_kind remote_kind_of(enum store_space space);
int remote_get_bytes(struct remote *r, const char *key, uint64_t max_bytes, struct str *ret,
		     struct err *err); /* one small object */
int remote_put_bytes(struct remote *r, const char *key, const void *bytes, size_t n, bool if_absent,
		     struct err *err);

/* presence.c; *_locked: with `lock` held */
int presence_load(struct remote *r,
		  struct err *err); /* lists packs, fetches indexes; with `io` held */
/* What was written since the last list, if remote_expect_news() was called since; nothing is
 * forgotten. */
int presence_load_new(struct remote *r, struct err *err);
/* Condemned packs count only when there is no other, and for reading: what lies there may still be
 * needed, and then it will be pardoned. */
bool presence_find_locked(struct remote *r, const struct remote_object *o, bool condemned_too,
			  uint32_t *ret_pack, struct pack_member *ret);
void presence_add_pack(struct remote *r, const struct digest *name,
		       struct str *index); /* takes index */
void presence_note(struct remote *r, enum store_space space, const struct digest *name);
void presence_forget(struct remote *r);
/* It was looked for alone and isn't there: this process forgets it, and the next one isn't told. */
void presence_lost(struct remote *r, enum store_space space, const struct digest *name);
/* True when there is a damaged copy of it, alone or in a pack that is listed. What went meanwhile
 * is not damaged. */
bool presence_is_damaged(struct remote *r, enum store_space space, const struct digest *name);
#define BAD_ALONE UINT32_MAX
void presence_note_bad(struct remote *r, enum store_space space, const struct digest *name,
		       uint32_t pack);
/* The copy that lies alone is damaged, or on the list: it counts as absent. */
bool presence_is_unusable_locked(const struct remote *r, enum store_space space,
				 const struct digest *name);
void presence_remember(struct remote *r); /* writes what became known into the directory */
void presence_recall(struct remote *r);
uint64_t presence_lists(struct remote *r); /* how many were made so far */
/* Lists packs when they are old. *ret_did: what was concluded when there were `seen` lists has to
 * be looked up again; another thread may have listed meanwhile. */
int presence_refresh_if_old(struct remote *r, uint64_t seen, bool *ret_did, struct err *err);
void presence_free(struct remote *r);

/* The lease under which something was found to be there: what relies on that may be written only as
 * long as it holds. */
struct lease_hold {
	struct remote *r;
	uint64_t number;
};
struct lease_hold lease_hold(struct remote *r);
bool lease_holds(void *hold); /* as bucket.h's `may` */

/* send.c: the pack, then its index, under the lease that is held when it begins: a pack without an
 * index is collected when its writer seems dead, and an index without a pack is believed. */
int remote_send_pack(struct remote *r, struct pack_writer *w, uint64_t *ret_bytes, struct err *err);

/* lease.c */
int lease_take(struct remote *r, struct err *err);
void lease_give_back(struct remote *r);
bool lease_is_good(struct remote *r);
/* The list of the condemned and that of the packs have been read since it was taken. */
void lease_trust(struct remote *r);
uint64_t lease_number(struct remote *r); /* of those that this process took and trusted */
int condemned_load(struct remote *r, struct err *err);
int condemned_parse(const void *bytes, size_t n, int64_t mtime_ns, struct condemned **ret,
		    size_t *ret_n);
void condemned_encode(const struct condemned *v, size_t n,
		      struct str *ret); /* since_ns 0: new in this one */
/* Its entry, lent; NULL: it isn't on the list. With `lock` held, where another thread may load. */
const struct condemned *condemned_find(const struct remote *r, enum remote_kind kind,
				       const struct digest *name);
int condemned_order(const void *a, const void *b);
size_t condemned_max(void); /* entries of the longest list that is read (CONDEMNED_MAX) */
/* transfer.c, for verify.c: sends those records whose contents are all in the bucket. */
int transfer_send_whole(struct store *tier, const struct closure_names *names,
			struct remote_object *v, size_t n, struct remote_sent *ret,
			struct err *err);
struct transfer_named {
	const struct closure_names *names; /* NULL: manifests name nothing */
	const struct digest *manifests;
	size_t n_manifests;
	const struct content_id *contents; /* named by action records */
	size_t n_contents;
	struct digest_set *unread; /* listings that couldn't be read: what they name isn't among the
				      contents; or NULL */
};
/* All contents that these records reach, each once: fn's -1 ends it. Records that can't be read
 * name nothing. */
typedef int transfer_name_fn(void *arg, enum store_space space, const struct digest *name,
			     uint64_t size);
int transfer_each_named(struct store *s, const struct transfer_named *named, transfer_name_fn *fn,
			void *arg, struct err *err);
/* tier.c, for verify.c and collect.c: a store for what is only looked at or moved, of any size: a
 * directory at `path`, or in memory where the tier has no files either. */
int tier_scratch(struct store *tier, const char *path, struct store **ret, struct err *err);
void tier_scratch_drop(struct store *tier, const char *path, struct store **s);
/* Puts it into the pack from there; a blob that isn't small goes through its file. */
int tier_pack_add(struct pack_writer *w, struct store *scratch, const struct remote_object *o,
		  struct err *err);
/* tier_queue.c, for transfer.c: what ended processes left unsent, if the bucket may be asked now.
 */
struct unsent_record;
void tier_take_unsent(struct store *s, struct unsent_record **ret,
		      size_t *ret_n);                              /* the caller's */
void tier_sent_unsent(struct store *s, const struct err *failure); /* NULL: all of it */
/* tier.c, for transfer.c: how often the bucket failed so far; and -1 when it did since then, or is
 * left alone for a while: what couldn't be read may be there. */
uint64_t tier_failures(struct store *s);
int tier_failed_since(struct store *s, uint64_t before, struct err *err);

#define CONDEMNED_KEY "gc/condemned"
#define LEASES_PREFIX "leases/"

#endif
