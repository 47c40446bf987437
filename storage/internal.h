/* storage/internal.h — what store implementations give and what content code may ask of them. Only
 * storage/ and its tests include it. */
#ifndef CAIRN_STORAGE_INTERNAL_H
#define CAIRN_STORAGE_INTERNAL_H

#include <endian.h>
#include <pthread.h>
#include <stdatomic.h>
#include <time.h>
#include "base/map.h"
#include "base/mem.h"
#include "storage/content/content.h"
#include "storage/digest_set.h"

/* What is found instead of written is made young when it is older: half of gc's grace time. */
#define STORE_FRESH_NS (30 * 60 * NS_PER_S)

enum store_leftover { LEFTOVER_TEMPORARY, LEFTOVER_CORRUPT };
struct store_leftovers {
	uint64_t n, bytes;
};
extern const char *const store_space_names[STORE_SPACES]; /* blobs, trees, actions, runs, tags */

/* One table a kind of store. Objects are whole files of a space; names are digests. All may be
 * called from any thread. */
struct store_ops {
	/* sizes NULL, or sizes[i] UINT64_MAX: any size. */
	int (*has)(struct store *s, enum store_space space, const struct digest *names,
		   const uint64_t *sizes, size_t n, bool *ret, struct err *err);
	int (*get)(struct store *s, enum store_space space, const struct digest *name,
		   uint64_t max_bytes, struct str *ret, struct err *err);
	int (*put)(struct store *s, enum store_space space, const struct digest *name,
		   const void *bytes, size_t n, bool replace, struct err *err);
	int (*del)(struct store *s, enum store_space space, const struct digest *name,
		   struct err *err);
	int (*list)(struct store *s, enum store_space space, store_list_fn *fn, void *arg,
		    struct err *err);
	int (*sync)(struct store *s, struct err *err);
	/* A blob's bytes on a descriptor, for streaming, and how many there are. `size`: how many
	 * whoever names it expects, which bounds what is fetched; UINT64_MAX: not known. */
	int (*open)(struct store *s, const struct digest *name, uint64_t size, int *ret_fd,
		    uint64_t *ret_size, struct err *err);
	/* Moves a wrong object out of the way. False when the store can't be written to. */
	bool (*set_aside)(struct store *s, enum store_space space, const struct digest *name);
	void (*free)(struct store *s);
	const struct store_file_ops *files;    /* NULL: it has no file system */
	const struct store_gc_ops *gc;         /* of the store that is `here`; NULL: of a view */
	const struct store_shared_ops *shared; /* a tier's; NULL elsewhere */
};

/* Contents that come and stay as files. */
struct store_file_ops {
	/* An empty file on the store's file system that can become a blob by publish_temp. */
	int (*open_temp)(struct store *s, int *ret_fd, char **ret_name, struct err *err);
	/* Publishes or drops a temporary: `name` NULL drops. Closes fd, frees temp. 1: a blob of
	 * that name was there, and stays. */
	int (*publish_temp)(struct store *s, int fd, char *temp, const struct digest *name,
			    struct err *err);
	/* Moves dir_fd/path into the store when it is on the same file system: 0 moved (or was
	 * there), 1 can't. */
	int (*move_in)(struct store *s, int dir_fd, const char *path, const struct digest *name,
		       struct err *err);
	/* It is used now. NULL for a tier. */
	void (*touch)(struct store *s, enum store_space space, const struct digest *name);
};

/* What collecting needs of the store that holds the objects. */
struct store_gc_ops {
	/* Deletes the object unless it was made, or made to look young, at or after
	 * `unless_since_ns`. 0 deleted or gone, 1 kept. */
	int (*del_old)(struct store *s, enum store_space space, const struct digest *name,
		       int64_t unless_since_ns, struct err *err);
	/* gc's own file beside the spaces. read: ERR_NOT_FOUND. NULL bytes remove it. */
	int (*read_note)(struct store *s, struct str *ret, struct err *err);
	int (*write_note)(struct store *s, const struct str *bytes, struct err *err);
	/* One collector at a time: 0 with a lock in *ret_fd (or -1 when it needs none), 1 busy. */
	int (*lock)(struct store *s, int *ret_fd, struct err *err);
	/* The following are NULL for a store in memory. */
	/* store_use(), and when the oldest run began that is at work (INT64_MAX: none is). What a
	 * run finds is never older than STORE_FRESH_NS before its beginning. */
	int (*use)(struct store *s, struct err *err);
	int (*oldest_use)(struct store *s, int64_t *ret_ns, struct err *err);
	/* What crashes and set_aside() left, older than before_ns: counted, and deleted unless dry.
	 */
	int (*leftovers)(struct store *s, enum store_leftover which, int64_t before_ns, bool dry,
			 struct store_leftovers *ret, struct err *err);
};

/* What a directory in front of a bucket can, beside (remote/tier.c). In a view only the first two
 * are set. */
struct store_shared_ops {
	/* Brings all that these contents reach here, in few requests (only_these: not what trees
	 * name); what can't be had is left out. */
	int (*bring)(struct store *s, const struct content_id *ids, size_t n, bool only_these,
		     struct err *err);
	/* Brings records here. What isn't there is left out. */
	int (*bring_records)(struct store *s, enum store_space space, const struct digest *names,
			     size_t n, struct err *err);
	/* What others wrote there meanwhile (store_refresh). */
	int (*refresh)(struct store *s, enum store_space space, const struct digest *names,
		       size_t n, struct err *err);
	void (*told)(struct store *s, const struct content_id *ids, size_t n); /* store_told() */
	/* Out of the bucket. */
	int (*drop)(struct store *s, enum store_space space, const struct digest *name,
		    struct err *err);
	/* store_attach(). One that can't be reached is no error. */
	int (*attach)(struct store *s, struct err *err);
	/* How many objects didn't reach the shared store, and why not. */
	uint64_t (*unsent)(struct store *s, struct err *ret_first);
};

/* Both for any store: nothing to do where it isn't a tier. */
int store_bring(struct store *s, const struct content_id *ids, size_t n, bool only_these,
		struct err *err);
int store_bring_records(struct store *s, enum store_space space, const struct digest *names,
			size_t n, struct err *err);

struct origins;
struct store {
	const struct store_ops *ops;
	struct store
		*here; /* where its objects lie on this machine: itself, or a tier's directory */
	char *uri;
	pthread_mutex_t lock; /* guards what follows, and what the implementation says */
	atomic_ulong
		healed; /* damaged objects that were replaced when their content was put again */
	struct signing *signing; /* signature.c: who signs, and who is believed; or NULL */
	struct origins *origins; /* origin.c: what is known of content that lies outside; or NULL */
	struct digest_set *complete; /* trees whose members were all found, in this process */
	struct digest_set *verified; /* blobs whose bytes were checked in this process */
	struct digest_set *arrived;  /* blobs that were hashed on their way into files of this
					store, and not used since */
};

/* Whether the store has this one object. size UINT64_MAX: any. */
static inline int store_has_object(struct store *s, enum store_space space,
				   const struct digest *name, uint64_t size, bool *ret,
				   struct err *err)
{
	return s->ops->has(s, space, name, &size, 1, ret, err);
}

static inline int64_t ns_of(struct timespec t)
{
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* Fixed fields of our formats, as str_add_u32() and str_add_u64() write them. */
static inline uint32_t get_le32(const void *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return le32toh(v);
}
static inline uint64_t get_le64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

/* Files up to this size go through memory: one read, one write. */
#define CONTENT_SMALL_BYTES (256 * KIB)

/* gc.c: only the mark. The sets become the caller's when it succeeds; of *ret only `lost` means
 * something. */
struct store_gc_options;
struct store_gc_result;
int store_mark(struct store *s, const struct store_gc_options *o,
	       struct digest_set *ret_live[STORE_SPACES], struct store_gc_result *ret,
	       struct err *err);

int store_dir_open(const char *path, bool create, struct store **ret, struct err *err);
struct store *store_memory_new(void);
/* remote/tier.c: a directory in front of a bucket */
int store_tier_open(const char *uri, const struct store_options *o, bool create, struct store **ret,
		    struct err *err);
void store_base_init(struct store *s, const struct store_ops *ops, const char *uri);
void store_base_deinit(struct store *s);

/* hash.c: the identity of a blob whose bytes come from a descriptor. */
uint64_t content_part_bytes(uint64_t size); /* for blobs larger than CONTENT_PART_BYTES */
int content_hash_fd(int fd, uint64_t size, unsigned n_threads, struct digest *ret, struct err *err);
/* Copies `size` bytes into the empty file `to` (reflinked, where that is possible), and says what
 * the copy holds: parts are hashed while those behind them are still copied. One of n_threads
 * copies, in order, so that a file that a power cut leaves is too short rather than wrong. */
int content_copy_fd(int from, int to, uint64_t size, unsigned n_threads, struct digest *ret,
		    struct err *err);
/* Threads for contents whose user says nothing about them. */
unsigned content_threads(void);
/* Streaming over bytes that arrive in order, of a known size. */
struct blob_hasher {
	struct digester *part, *whole;
	uint64_t part_bytes, left_in_part;
};
void blob_hasher_init(struct blob_hasher *h, uint64_t size);
void blob_hasher_update(struct blob_hasher *h, const void *bytes, size_t n);
void blob_hasher_final(struct blob_hasher *h, struct digest *ret); /* also frees */

/* walk.c: every listing that a tree reaches, its own first, each once; what fn returns ends it
 * unless it is 0. */
typedef int tree_listing_fn(void *arg, const struct tree *t, struct err *err);
int tree_each_listing(struct store *s, const struct content_id *root, tree_listing_fn *fn,
		      void *arg, struct err *err);

/* Refuses an object that no reader would take: ERR_TOO_LARGE. */
int store_check_size(enum store_space space, uint64_t n, struct err *err);
uint64_t store_max_size(enum store_space space);
/* What this process knows about contents. */
bool store_is_verified(struct store *s, const struct digest *d);
void store_note_verified(struct store *s, const struct digest *d);
/* The first copy of a blob that was hashed as it came in needs no hash of its own: true once. Both
 * speak of the directory where the store's objects lie. */
void store_note_arrived(struct store *s, const struct digest *d);
bool store_take_arrived(struct store *s, const struct digest *d);
bool store_is_complete(struct store *s, const struct digest *d);
void store_note_complete(struct store *s, const struct digest *d);
void store_forget(struct store *s, const struct digest *d); /* it was deleted or set aside */
/* Sets the object aside; ERR_CORRUPT. */
int store_damaged(struct store *s, enum store_space space, const struct digest *name,
		  struct err *err);
/* The name under which the n-th observation (from 1) beside the first record of a key lies. */
void action_observation_name(const struct digest *key, unsigned number, struct digest *ret);
#define ACTION_OBSERVATIONS_MAX 100 /* nobody learns more from the hundredth different result */

#endif
