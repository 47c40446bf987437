/* storage/content/content.h — blobs and trees: files and directories in and out of a store.
 *
 * Identity. A blob of at most 16 MiB: SHA-256 of its bytes. A larger one: SHA-256 over the
 * concatenated SHA-256 digests of its parts of 16 MiB; the part size doubles until there are at
 * most 8,192. A tree: SHA-256 of its canonical listing (storage/FORMAT.md); its size is the
 * listing's. A file that its owner may execute is an executable: the same digest as a plain file of
 * these bytes, but another kind. The kind is part of the id and of the tree's entry. A digest alone
 * (content_find) names the bytes as a plain file.
 *
 * A reference stands for one version of an object outside the store (reference.h). It is an entry
 * of a tree, or a content of its own, whose bytes are the record. Materialising it writes the
 * object's bytes, and fetches them first if the store lacks them (origin.h).
 *
 * What can be stored: regular files, symlinks (as text), directories. Sockets, devices and fifos
 * give ERR_INVALID, with their name. Names are raw bytes.
 *
 * Results by pointer are set only on success. Errors as in store.h, and ERR_CHANGED when a file
 * changed while it was read.
 */
#ifndef CAIRN_STORAGE_CONTENT_CONTENT_H
#define CAIRN_STORAGE_CONTENT_CONTENT_H

#include "storage/limits.h"
#include "storage/store.h"

struct reference;
struct statcache; /* statcache.h: path + stat → id, so that unchanged files aren't read again */

enum content_put_flags {
	/* The files are ours and nobody writes to them any more, so they may be moved into the
	 * store instead of copied. */
	CONTENT_PUT_MOVE = 1 << 0,
	/* Only compute the id; store nothing. */
	CONTENT_PUT_HASH_ONLY = 1 << 1,
	/* The files may be hostile and still changing: follows no link out of dir_fd. Wins over
	 * MOVE. */
	CONTENT_PUT_BENEATH = 1 << 2,
	/* The files are the user's, who won't change them, so they are linked into the store
	 * instead of copied, and are read-only from then on (local/linked.h). Empty files,
	 * executables, and bytes that the store has already stay as they are. ERR_UNSUPPORTED: why
	 * a file can't be linked. */
	CONTENT_PUT_LINK = 1 << 3,
};

struct content_put_options {
	int flags;
	struct statcache *cache; /* or NULL */
	unsigned n_threads;      /* threads to hash and copy; 0: only the caller's */
	const char *const
		*exclude; /* names left out of directories at the top, NULL-terminated; or NULL */
	/* Patterns (fnmatch) of names left out of directories at any depth, likewise. */
	const char *const *ignore;
};

/* Takes the file or directory at `path` under dir_fd (AT_FDCWD works) into the store. A symlink at
 * the top is followed only if it stays inside dir_fd. */
int content_put_at(struct store *s, int dir_fd, const char *path,
		   const struct content_put_options *o, struct content_id *ret, struct err *err);
int content_put_bytes(struct store *s, const void *bytes, size_t n, struct content_id *ret,
		      struct err *err);
/* Copies the regular file open at fd, from its beginning. */
int content_put_fd(struct store *s, int fd, struct content_id *ret, struct err *err);
/* Finds the content of this digest in the store: a tree, or else a blob (never an executable: the
 * digest doesn't tell). ERR_NOT_FOUND. */
int content_find(struct store *s, const struct digest *digest, struct content_id *ret,
		 struct err *err);
/* Computes the id of these bytes; stores nothing. */
void content_id_of_bytes(const void *bytes, size_t n, struct content_id *ret);

/* Fetches the content, and all that it reaches, from the shared store into the directory in front
 * of it. Does nothing for other stores. */
int content_fetch(struct store *s, const struct content_id *id, struct err *err);

/* Reads a whole blob or tree listing into memory, verified. ERR_TOO_LARGE over max_bytes. */
int content_read(struct store *s, const struct content_id *id, uint64_t max_bytes, struct str *ret,
		 struct err *err);
/* Opens the blob read-only, for streaming. The bytes aren't verified. */
int content_open(struct store *s, const struct content_id *id, int *ret_fd, struct err *err);

enum content_materialise_mode {
	/* Reflink or copy. For the user's own files (cairn get): 0644 and 0777, limited by umask.
	 * The modes below are for programs. They don't depend on our umask, because modes get into
	 * a program's outputs: */
	CONTENT_COPY_WRITABLE,
	CONTENT_COPY_WORKSPACE, /* writable for us: 0644, directories 0755 */
	/* Writable for every user, because the program may run as another user. */
	CONTENT_COPY_FOR_ALL,
	/* Reflink or copy, never a hard link, so that no program can damage the store by writing to
	 * its inputs, whatever its user. Files are 0444. */
	CONTENT_LINK_READONLY,
	/* As LINK_READONLY, but files that aren't executable are hard links to the store's files
	 * where possible. Only for a program that can't write to them (base/os/process/landlock.h).
	 * */
	CONTENT_HARD_LINK,
};
/* Creates the content as `path` under dir_fd. Parents must exist; an existing path is ERR_EXISTS.
 * Directories are 0777 for CONTENT_COPY_WRITABLE, and 0555 in read-only modes. An executable has an
 * x bit for each r bit of its mode. */
int content_materialise_at(struct store *s, const struct content_id *id,
			   enum content_materialise_mode mode, int dir_fd, const char *path,
			   struct err *err);

/* The same for a `path` from a manifest, a tree or a pipeline. Makes missing parents; none of them
 * may be a symbolic link (fs_make_beneath). On failure removes what it made of the content, but not
 * the parents. */
int content_materialise_beneath(struct store *s, const struct content_id *id,
				enum content_materialise_mode mode, int dir_fd, const char *path,
				struct err *err);

/* The same into an existing directory, which is empty, or file, whose bytes are replaced. It stays
 * the same inode, because it may be mounted already. After a failure its content is undefined. */
int content_fill_at(struct store *s, const struct content_id *id,
		    enum content_materialise_mode mode, int dir_fd, const char *path,
		    struct err *err);

/* Sets ret[i] to whether ids[i] and all members of its trees are present. Batched. A tree that this
 * process found complete isn't walked again, unless something was deleted meanwhile. */
int content_complete(struct store *s, const struct content_id *ids, size_t n, bool *ret,
		     struct err *err);
/* Adds to *total how many bytes it takes to materialise it, until that is `enough` or more. Each
 * listing counts once; a file of a tree counts as 16 KiB at least, since making it takes as long;
 * the objects of references count. */
int content_weigh(struct store *s, const struct content_id *id, uint64_t enough, uint64_t *total,
		  struct err *err);
/* The same of one content: sets *ret to whether it takes `bytes` or more. */
int content_takes(struct store *s, const struct content_id *id, uint64_t bytes, bool *ret,
		  struct err *err);
/* ERR_CHANGED when a file that was linked into the store isn't as this process found it. What was
 * read of it meanwhile is worth nothing. */
int content_check_linked(struct store *s, struct err *err);
/* Reads all of it back. ERR_CORRUPT / ERR_NOT_FOUND name the first bad member. */
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
	const struct reference
		*ref; /* reference: the object; `id` is CONTENT_NONE until tree_entry_resolve() */
};
/* The content kind of an entry's id; CONTENT_NONE for symlinks and references. */
enum content_kind tree_entry_content_kind(enum tree_entry_kind kind);
/* The entry kind for this content. Not for references: they need tree_entry.ref. */
enum tree_entry_kind tree_entry_kind_of(const struct content_id *id);
/* Tells whether the entry names content in the store. */
static inline bool tree_entry_is_kept(const struct tree_entry *e)
{
	return e->kind != TREE_SYMLINK && e->kind != TREE_REFERENCE;
}
/* Sets the id of a reference by storing its record (s NULL: only computes it). Other entries keep
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

/* Finds the entry at "a/b/c" below a tree. ERR_NOT_FOUND. The names in *ret live in `arena`. */
struct arena;
int tree_lookup(struct store *s, const struct content_id *root, const char *path,
		struct arena *arena, struct tree_entry *ret, struct err *err);

/* Finds members that match a glob relative to the tree (`*`, `?`, `[a-z]`, `**`; hidden names only
 * when the pattern names the dot), sorted by path bytes. A pattern that ends in '/' matches
 * directories only. */
struct tree_match {
	char *path; /* relative to the tree, in `arena` */
	struct tree_entry entry;
};
int tree_glob(struct store *s, const struct content_id *root, const char *pattern,
	      struct arena *arena, struct tree_match **ret, size_t *ret_n, struct err *err);

#endif
