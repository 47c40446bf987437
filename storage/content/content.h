/* storage/content/content.h — blobs and trees: files and directories in and out of a store.
 *
 * Identity. A blob of at most 16 MiB: SHA-256 of its bytes. A larger one: SHA-256 over the
 * concatenated SHA-256 digests of its parts of 16 MiB; the part size doubles until there are at
 * most 8,192. A tree: SHA-256 of its canonical listing (storage/FORMAT.md); its size is the
 * listing's. A file that its owner may execute is an executable: the same bytes under the same
 * digest, but another kind, which travels with the id and stands in the tree's entry. So a digest
 * alone (content_find) names the bytes as a plain file.
 *
 * A reference stands for an object outside, pinned to one version of it (reference.h). It is an
 * entry of a tree, or a content of its own, whose bytes are the record. What is materialised are
 * the object's bytes: they are fetched then, if the store doesn't have them yet (origin.h).
 *
 * What can be stored: regular files, symlinks (as text), directories. Sockets, devices and fifos
 * are ERR_INVALID by name. Names are raw bytes.
 *
 * What a function returns by a pointer is set only on success: a file that could not be kept leaves
 * no half of an id. Errors as in store.h, and ERR_CHANGED when a file changed while it was read.
 */
#ifndef CAIRN_STORAGE_CONTENT_CONTENT_H
#define CAIRN_STORAGE_CONTENT_CONTENT_H

#include "storage/limits.h"
#include "storage/store.h"

struct reference;
struct statcache; /* statcache.h: remembers path + stat → id, so that unchanged files are not read
		     again */

enum content_put_flags {
	/* The files are ours and nobody writes to them any more: they may be moved into the store
	   instead of copied. */
	CONTENT_PUT_MOVE = 1 << 0,
	/* Only compute the id; store nothing. */
	CONTENT_PUT_HASH_ONLY = 1 << 1,
	/* Somebody hostile laid it out, and may still be changing it: whatever links there are,
	   nothing outside of dir_fd is read. Wins over MOVE. */
	CONTENT_PUT_BENEATH = 1 << 2,
};

struct content_put_options {
	int flags;
	struct statcache *cache; /* or NULL */
	unsigned n_threads;      /* to hash and copy with; 0: this thread only */
	const char *const
		*exclude; /* names left out of directories at the top, NULL-terminated; or NULL */
	const char *const *ignore; /* patterns (fnmatch) of names left out of directories at any
				      depth, likewise */
};

/* Takes the file or directory at `path` under dir_fd (AT_FDCWD works) into the store. A symlink at
 * the top is followed only if it stays inside dir_fd. */
int content_put_at(struct store *s, int dir_fd, const char *path,
		   const struct content_put_options *o, struct content_id *ret, struct err *err);
int content_put_bytes(struct store *s, const void *bytes, size_t n, struct content_id *ret,
		      struct err *err);
/* The regular file open at fd, from its beginning; it is copied. */
int content_put_fd(struct store *s, int fd, struct content_id *ret, struct err *err);
/* Finds the content of this digest in the store: a tree, or else a blob (never an executable: the
 * digest doesn't tell). ERR_NOT_FOUND. */
int content_find(struct store *s, const struct digest *digest, struct content_id *ret,
		 struct err *err);
/* The id that `n` bytes would have; stores nothing. */
void content_id_of_bytes(const void *bytes, size_t n, struct content_id *ret);

/* Whole blob or tree listing in memory, verified. ERR_TOO_LARGE over max_bytes. */
int content_read(struct store *s, const struct content_id *id, uint64_t max_bytes, struct str *ret,
		 struct err *err);
/* The blob's bytes on a read-only descriptor, not verified; for streaming. */
int content_open(struct store *s, const struct content_id *id, int *ret_fd, struct err *err);

enum content_materialise_mode {
	/* Reflink or copy. The user's own files (cairn get): 0644 and 0777, as far as umask lets.
	 * What a program finds has modes that don't depend on our umask, since they get into what
	 * it makes: */
	CONTENT_COPY_WRITABLE,
	CONTENT_COPY_WORKSPACE, /* writable for us: 0644, directories 0755 */
	CONTENT_COPY_FOR_ALL, /* writable for every user: the program may be another one than we are
			       */
	CONTENT_LINK_READONLY, /* reflink or copy, never a hard link: a program that writes to what
				  it was given can't damage the store, whoever it runs as. Files are
				  0444. */
	CONTENT_HARD_LINK,     /* as LINK_READONLY, but files that aren't executable are hard links
				  of the store's own, wherever there can be one: only for a program
				  that is kept from writing to them (base/os/landlock.h) */
};
/* Makes the content appear as `path` under dir_fd; parents must exist; an existing path is
 * ERR_EXISTS. Directories are 0777 for CONTENT_COPY_WRITABLE and 0555 for what is read-only.
 * An executable has the bits x wherever its mode has r. */
int content_materialise_at(struct store *s, const struct content_id *id,
			   enum content_materialise_mode mode, int dir_fd, const char *path,
			   struct err *err);

/* The same where `path` comes from a manifest, a tree or a pipeline: missing parents are made, and
 * none of them may be a symbolic link (fs_make_beneath). What a failure had made of the content is
 * removed, and nothing else. */
int content_materialise_beneath(struct store *s, const struct content_id *id,
				enum content_materialise_mode mode, int dir_fd, const char *path,
				struct err *err);

/* The same into an empty directory or file that is there and stays the same object: somebody may
 * have mounted it already. What a failure leaves in it is undefined. */
int content_fill_at(struct store *s, const struct content_id *id,
		    enum content_materialise_mode mode, int dir_fd, const char *path,
		    struct err *err);

/* Tells for each id (ret[i]) whether all of it is present, members of trees included. Batched. A
 * tree that this process found whole isn't walked again unless something was deleted meanwhile. */
int content_complete(struct store *s, const struct content_id *ids, size_t n, bool *ret,
		     struct err *err);
/* Does laying it out take `bytes` or more? Each listing counts once; what references mean counts.
 */
int content_takes(struct store *s, const struct content_id *id, uint64_t bytes, bool *ret,
		  struct err *err);
/* Reads it all back. ERR_CORRUPT / ERR_NOT_FOUND name the first bad member. */
int content_verify(struct store *s, const struct content_id *id, struct err *err);

/* Trees. */

enum tree_entry_kind {
	TREE_FILE = 1,
	TREE_EXECUTABLE = 2,
	TREE_SYMLINK = 3,
	TREE_DIR = 4,
	TREE_REFERENCE = 5
};

struct tree_entry {
	const char *name; /* raw bytes, NUL-terminated; no '/', not "", ".", ".." */
	size_t name_len;
	enum tree_entry_kind kind;
	struct content_id id; /* file: blob; executable: executable; dir: tree */
	const char *target;   /* symlink: its text */
	size_t target_len;
	const struct reference *
		ref; /* reference: what is meant; `id` is CONTENT_NONE until tree_entry_resolve() */
};
/* The kind of content that an entry of this kind names by its id; CONTENT_NONE for symlinks and
 * references. */
enum content_kind tree_entry_content_kind(enum tree_entry_kind kind);
/* The entry that keeps content of this kind in a tree; a reference has one of its own making
 * (tree_entry.ref). */
enum tree_entry_kind tree_entry_kind_of(const struct content_id *id);
/* Tells whether the entry names content that lies in the store. */
static inline bool tree_entry_is_kept(const struct tree_entry *e)
{
	return e->kind != TREE_SYMLINK && e->kind != TREE_REFERENCE;
}
/* Gives a reference an id of its own, by storing its record (s NULL: only computes it); others have
 * theirs. */
int tree_entry_resolve(struct store *s, struct tree_entry *e, struct err *err);

struct tree; /* a decoded listing, sorted by raw name; immutable */
int tree_decode(const void *bytes, size_t n, struct tree **ret,
		struct err *err); /* hostile input */
int tree_load(struct store *s, const struct content_id *id, struct tree **ret, struct err *err);
void tree_free(struct tree *t);
static inline void tree_freep(struct tree **t)
{
	tree_free(*t);
}
size_t tree_len(const struct tree *t);
const struct tree_entry *tree_at(const struct tree *t, size_t i);
const struct tree_entry *tree_find(const struct tree *t, const char *name,
				   size_t len); /* NULL when absent */

/* Builds a listing from entries in any order; duplicates and bad names are ERR_INVALID. */
struct tree_builder;
struct tree_builder *tree_builder_new(void);
void tree_builder_free(struct tree_builder *b);
int tree_builder_add(struct tree_builder *b, const struct tree_entry *e, struct err *err);
int tree_builder_store(struct tree_builder *b, struct store *s, struct content_id *ret,
		       struct err *err); /* s NULL: id only */

/* Entry at "a/b/c" below a tree. ERR_NOT_FOUND. The names in *ret live in `arena`. */
struct arena;
int tree_lookup(struct store *s, const struct content_id *root, const char *path,
		struct arena *arena, struct tree_entry *ret, struct err *err);

/* Members that match a glob relative to the tree (`*`, `?`, `[a-z]`, `**`; hidden names only when
 * the pattern names the dot), sorted by path bytes. A pattern that ends in '/' matches directories
 * only. */
struct tree_match {
	char *path; /* relative to the tree, in `arena` */
	struct tree_entry entry;
};
int tree_glob(struct store *s, const struct content_id *root, const char *pattern,
	      struct arena *arena, struct tree_match **ret, size_t *ret_n, struct err *err);

#endif
