/* storage/internal.h — the interface between store implementations and content code. Only storage/
 * and its tests include it. */
#ifndef CAIRN_STORAGE_INTERNAL_H
#define CAIRN_STORAGE_INTERNAL_H

#include <endian.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>
#include "base/crypto/digest_set.h"
#include "base/map.h"
#include "base/mem.h"
#include "storage/content/content.h"

/* A put that finds its object already there renews the object's time if it is older than this. Half
 * of gc's grace time. */
#define STORE_FRESH_NS (30 * 60 * NS_PER_S)

enum store_leftover { LEFTOVER_TEMPORARY, LEFTOVER_CORRUPT };
struct store_leftovers {
	uint64_t n, bytes;
};
extern const char *const store_space_names[STORE_SPACES]; /* blobs, trees, actions, runs, tags */

/* One table per kind of store. An object is a whole file in a space; its name is a digest. Any
 * thread may call any function. */
struct store_ops {
	/* sizes NULL, or sizes[i] UINT64_MAX: any size. */
	int (*has)(struct store *s, enum store_space space, const struct digest *names,
		   const uint64_t *sizes, size_t n, bool *ret, struct err *err);
	int (*get)(struct store *s, enum store_space space, const struct digest *name,
		   uint64_t max_bytes, struct str *ret, struct err *err);
	int (*put)(struct store *s, enum store_space space, const struct digest *name,
		   const void *bytes, size_t n, bool replace, struct err *err);
	/* store_put_many(). NULL: one by one. */
	int (*put_many)(struct store *s, const struct store_item *v, size_t n, struct err *err);
	int (*del)(struct store *s, enum store_space space, const struct digest *name,
		   struct err *err);
	int (*list)(struct store *s, enum store_space space, store_list_fn *fn, void *arg,
		    struct err *err);
	int (*sync)(struct store *s, struct err *err);
	uint64_t (*unsynced)(struct store *s); /* store_unsynced(); NULL: 0 */
	/* Opens a blob for streaming and returns its size. `size`: the size that the caller
	 * expects, which limits how much is fetched; UINT64_MAX: not known. */
	int (*open)(struct store *s, const struct digest *name, uint64_t size, int *ret_fd,
		    uint64_t *ret_size, struct err *err);
	/* Moves a damaged object out of the way. False when the store isn't writable. */
	bool (*set_aside)(struct store *s, enum store_space space, const struct digest *name);
	void (*free)(struct store *s);
	const struct store_file_ops *files;    /* NULL: not on a file system */
	const struct store_gc_ops *gc;         /* of the store `here`; NULL: a view */
	const struct store_shared_ops *shared; /* of a tier; NULL for others */
};

/* For stores that keep contents as files. */
struct store_file_ops {
	/* Opens an empty file on the store's file system, which publish_temp can make a blob. */
	int (*open_temp)(struct store *s, int *ret_fd, char **ret_name, struct err *err);
	/* Publishes a temporary, or deletes it when `name` is NULL. Closes fd, frees temp. 1: a
	 * blob of that name existed, and stays. */
	int (*publish_temp)(struct store *s, int fd, char *temp, const struct digest *name,
			    struct err *err);
	/* Moves dir_fd/path into the store if it is on the same file system. 0: moved, or the blob
	 * existed. 1: not possible. */
	int (*move_in)(struct store *s, int dir_fd, const char *path, const struct digest *name,
		       struct err *err);
	/* Gives a file of the user's, open at fd and hashed, a name in the store; it is read-only
	 * from then on. `path` is for messages. 0: linked. 1: not needed, a blob existed. Errors of
	 * linked_add(). */
	int (*link_in)(struct store *s, int fd, const struct stat *st, const char *path,
		       const struct digest *name, struct err *err);
	/* linked_is(), linked_check(), linked_damaged() (local/linked.h). NULL for a tier. */
	bool (*is_linked)(struct store *s, const struct digest *name, const struct stat *st,
			  const char *path);
	int (*check_linked)(struct store *s, struct err *err);
	int (*damaged_linked)(struct store *s, const struct digest *name, struct err *err);
	/* Opens the directory of views (view.h); -1 with errno. NULL for a tier. */
	int (*open_views)(struct store *s, bool create);
	/* Marks the object as used now. NULL for a tier. */
	void (*touch)(struct store *s, enum store_space space, const struct digest *name);
};

/* For gc: functions of the store that holds the objects. */
struct store_gc_ops {
	/* Deletes the object unless it was made or renewed at or after `unless_since_ns`. 0:
	 * deleted or absent, 1: kept. */
	int (*del_old)(struct store *s, enum store_space space, const struct digest *name,
		       int64_t unless_since_ns, struct err *err);
	/* Ends the sweep of a space: what del_old() deleted before is gone afterwards. NULL: it is
	 * already. */
	int (*swept)(struct store *s, struct err *err);
	/* gc's own file beside the spaces. read: ERR_NOT_FOUND. NULL bytes remove it. *ret_ns: when
	 * it could be read by others, at the latest, by the clock that dates files; in the future
	 * when a crash came in between. */
	int (*read_note)(struct store *s, struct str *ret, int64_t *ret_ns, struct err *err);
	int (*write_note)(struct store *s, const struct str *bytes, struct err *err);
	/* One collector at a time: 0 with a lock in *ret_fd (or -1 when it needs none), 1 busy. */
	int (*lock)(struct store *s, int *ret_fd, struct err *err);
	/* The rest is NULL for a store in memory. */
	/* `use` is store_use(). `oldest_use` returns when the oldest active run began (INT64_MAX:
	 * none). What a run finds on the list that it read then is never older than STORE_FRESH_NS
	 * before the run began. */
	int (*use)(struct store *s, struct err *err);
	int (*oldest_use)(struct store *s, int64_t *ret_ns, struct err *err);
	/* Counts leftovers of crashes and of set_aside() that are older than before_ns, and deletes
	 * them unless dry. */
	int (*leftovers)(struct store *s, enum store_leftover which, int64_t before_ns, bool dry,
			 struct store_leftovers *ret, struct err *err);
};

/* What is fetched of some contents. */
enum store_bring {
	BRING_ALL,   /* they, and all that they reach */
	BRING_THESE, /* not what trees name */
	BRING_SMALL, /* as BRING_ALL, but not the blobs that store_place_blobs() fetches */
};

/* A blob that is wanted in a file outside the store. */
struct store_place {
	struct content_id id;
	int fd;      /* an empty file, open for reading and writing */
	bool placed; /* answered: it holds the blob, verified; else it holds anything */
};

/* Extra functions of a directory in front of a bucket (remote/tier.c). A view sets only the first
 * two. */
struct store_shared_ops {
	/* Fetches contents in few requests. Skips what it can't get. */
	int (*bring)(struct store *s, const struct content_id *ids, size_t n, enum store_bring what,
		     struct err *err);
	/* Fetches records. Skips those that the shared store lacks. */
	int (*bring_records)(struct store *s, enum store_space space, const struct digest *names,
			     size_t n, struct err *err);
	/* store_refresh() */
	int (*refresh)(struct store *s, enum store_space space, const struct digest *names,
		       size_t n, struct err *err);
	void (*note_present)(struct store *s, const struct content_id *ids,
			     size_t n); /* store_note_present() */
	/* store_place_blobs() */
	int (*place)(struct store *s, struct store_place *v, size_t n, struct err *err);
	/* Deletes from the bucket. */
	int (*drop)(struct store *s, enum store_space space, const struct digest *name,
		    struct err *err);
	/* store_attach(). A shared store that can't be reached is no error. */
	int (*attach)(struct store *s, struct err *err);
	/* store_unsent() */
	uint64_t (*unsent)(struct store *s, struct err *ret_first);
};

/* All accept any store, and do nothing if it isn't a tier. */
int store_bring(struct store *s, const struct content_id *ids, size_t n, enum store_bring what,
		struct err *err);
/* Fetches blobs of at least REMOTE_LOOSE_MIN straight into files; the directory gets no copy. What
 * it can't fetch so (a compressed blob, one in a pack, one that is lacking) isn't placed: read it
 * from the store, as ever. It may be in the directory then. */
int store_place_blobs(struct store *s, struct store_place *v, size_t n, struct err *err);
int store_bring_records(struct store *s, enum store_space space, const struct digest *names,
			size_t n, struct err *err);

struct origins;
struct store {
	const struct store_ops *ops;
	/* The store that holds its objects on this machine: itself, or a tier's directory. */
	struct store *here;
	char *uri;
	pthread_mutex_t views; /* one thread at a time makes or checks a view (view.c) */
	/* Guards the fields below, and those that the implementation names. */
	pthread_mutex_t lock;
	atomic_ulong
		healed; /* damaged objects that were replaced when their content was put again */
	struct signing *signing; /* signature.c: the user's key and the trusted writers; or NULL */
	struct origins *origins; /* origin.c: what is known of content outside the store; or NULL */
	struct digest_set *complete; /* trees whose members this process has all found */
	struct digest_set *verified; /* blobs whose bytes this process has checked */
	/* Blobs that were hashed while they were written here, and not used since. */
	struct digest_set *arrived;
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

/* How much earlier than a change the time may be that its file gets. Times on ext4, xfs and btrfs
 * are those of the kernel's last tick (1 to 10 ms ago). So if hashing began at h, a later change
 * has a ctime after h - 10 ms, and can't match older times. Doubled, because the wall clock may be
 * slewed. Coarser file systems (FAT: 2 s) are recognised by their whole seconds. */
static inline int64_t ns_of_tick(bool whole_seconds)
{
	return whole_seconds ? 2 * NS_PER_S : 20 * NS_PER_MS;
}

/* Fixed-width fields, as str_add_u32() and str_add_u64() write them. */
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

/* gc.c: only the mark phase. `ret_held`: content that isn't live, but is named by a dead record
 * that stays (options.goes). On success the caller owns the sets; in *ret only `lost` is
 * meaningful. */
struct store_gc_options;
struct store_gc_result;
int store_mark(struct store *s, const struct store_gc_options *o,
	       struct digest_set *ret_live[STORE_SPACES], struct digest_set *ret_held[STORE_SPACES],
	       struct store_gc_result *ret, struct err *err);

int store_dir_open(const char *path, bool create, struct store **ret, struct err *err);
struct store *store_memory_new(void);
/* remote/tier.c: a directory in front of a bucket */
int store_tier_open(const char *uri, const struct store_options *o, bool create, struct store **ret,
		    struct err *err);
void store_base_init(struct store *s, const struct store_ops *ops, const char *uri);
void store_base_deinit(struct store *s);

/* hash.c: hashes a blob from a descriptor. */
uint64_t content_part_bytes(uint64_t size); /* for blobs larger than CONTENT_PART_BYTES */
int content_hash_fd(int fd, uint64_t size, unsigned n_threads, struct digest *ret, struct err *err);
/* Copies `size` bytes into the empty file `to` (a reflink where possible), and returns the copy's
 * digest. Some threads hash the first parts while later parts are still being copied. One at a time
 * copies, in order, so that after a power cut the file is too short rather than wrong. With `lasts`
 * the disk begins to write at once, since the caller will make the copy durable. */
int content_copy_fd(int from, int to, uint64_t size, unsigned n_threads, bool lasts,
		    struct digest *ret, struct err *err);
/* The default number of threads. */
unsigned content_threads(void);
/* Hashes a stream of known size whose bytes arrive in order. */
struct blob_hasher {
	struct digester *part, *whole;
	uint64_t part_bytes, left_in_part;
};
void blob_hasher_init(struct blob_hasher *h, uint64_t size);
void blob_hasher_update(struct blob_hasher *h, const void *bytes, size_t n);
void blob_hasher_final(struct blob_hasher *h, struct digest *ret); /* also frees */

/* walk.c: calls fn once for each listing that a tree reaches, its own first. A return other than 0
 * ends the walk and is returned. */
typedef int tree_listing_fn(void *arg, const struct tree *t, struct err *err);
int tree_each_listing(struct store *s, const struct content_id *root, tree_listing_fn *fn,
		      void *arg, struct err *err);

/* materialise.c: compares what is there with the content, file by file. ERR_CORRUPT when anything
 * differs: bytes, modes, names. A file isn't hashed if its ctime tells that it is as it was at
 * `verified_ns` (wall clock), when its bytes were right; 0: all are hashed. */
int content_check_at(struct store *s, const struct content_id *id,
		     enum content_materialise_mode mode, int64_t verified_ns, int dir_fd,
		     const char *path, struct err *err);
/* change.c: tells whether two trees have so much in common that it pays to change one into the
 * other. False when a listing can't be read. */
bool content_is_near(struct store *s, const struct content_id *from, const struct content_id *to);
/* Makes the tree `from`, laid out at `path` by CONTENT_HARD_LINK, into the tree `to`. What stays is
 * compared as by content_check_at(). After an error it is neither; ERR_CORRUPT when it wasn't
 * `from`. Not for trees that aren't near. */
int content_change_at(struct store *s, const struct content_id *from, const struct content_id *to,
		      int64_t verified_ns, int dir_fd, const char *path, struct err *err);
/* content.c: tells whether the times of files in this file system show every change. */
bool content_times_tell(int fd);

/* Refuses an object that readers would refuse: ERR_TOO_LARGE. */
int store_check_size(enum store_space space, uint64_t n, struct err *err);
uint64_t store_max_size(enum store_space space);
/* What this process knows about contents. */
bool store_is_verified(struct store *s, const struct digest *d);
void store_note_verified(struct store *s, const struct digest *d);
/* The first copy of a blob that was hashed when it arrived needn't be hashed again:
 * store_take_arrived() returns true once, and only for the file that was hashed, if nobody has
 * written to it since. fd: the file; it is noted before it gets its name. Both concern the
 * directory that holds the store's objects. */
void store_note_arrived(struct store *s, const struct digest *d, int fd);
bool store_take_arrived(struct store *s, const struct digest *d, int fd);
bool store_is_complete(struct store *s, const struct digest *d);
void store_note_complete(struct store *s, const struct digest *d);
void store_forget(struct store *s,
		  const struct digest *d); /* call when it was deleted or set aside */
/* Sets the object aside; ERR_CORRUPT. */
int store_damaged(struct store *s, enum store_space space, const struct digest *name,
		  struct err *err);
/* The object name of a key's observation `number` (from 1). */
void action_observation_name(const struct digest *key, unsigned number, struct digest *ret);
#define ACTION_OBSERVATIONS_MAX 100 /* more different results tell nobody anything new */

#endif
