/* storage/local/linked.c — see linked.h.
 *
 * `notes` has what this process knows of linked files, by digest; entries are never removed. The
 * map `inodes` is made when a file with several links turns up that isn't linked as what it is now:
 * it tells as what it was linked. Both are guarded by `lock`, which is held while a check looks at
 * the files, so that checks at the same time don't do the same work at once.
 */
#include "storage/local/linked.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "storage/internal.h"

struct note {
	ino_t ino;
	off_t size;
	int64_t mtime_ns;
	char *path; /* or NULL: not known in this process */
};

struct linked {
	struct store *store;
	int root;
	pthread_mutex_t lock;
	struct map *notes;  /* digest → struct note * */
	struct map *inodes; /* inode → digest; NULL: not read yet */
	struct arena *arena;
};

struct linked *linked_new(struct store *s, int root)
{
	struct linked *l = xcalloc(1, sizeof(*l));

	l->store = s;
	l->root = root;
	pthread_mutex_init(&l->lock, NULL);
	l->notes = map_new();
	l->arena = arena_new();
	return l;
}

void linked_free(struct linked *l)
{
	if (!l)
		return;
	map_free(l->notes);
	map_free(l->inodes);
	arena_free(l->arena);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

const char *linked_path(char buf[LINKED_PATH_MAX], const struct digest *name)
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(name, hex);
	snprintf(buf, LINKED_PATH_MAX, LINKED_DIR "/%.2s/%s", hex, hex);
	return buf;
}

static bool same(const struct note *n, const struct stat *st)
{
	return n->ino == st->st_ino && n->size == st->st_size && n->mtime_ns == ns_of(st->st_mtim);
}

/* Under the lock. */
static void note(struct linked *l, const struct digest *name, const struct stat *st,
		 const char *path)
{
	void **slot = map_slot(l->notes, name->b, DIGEST_BYTES, NULL);
	struct note *n = *slot;

	if (!n)
		*slot = n = arena_alloc(l->arena, sizeof(*n));
	n->ino = st->st_ino;
	n->size = st->st_size;
	n->mtime_ns = ns_of(st->st_mtim);
	if (path && !n->path)
		n->path = arena_strdup(l->arena, path);
}

bool linked_is(struct linked *l, const struct digest *name, const struct stat *st, const char *path)
{
	char at[LINKED_PATH_MAX];
	struct stat there;

	if ((st->st_mode & 07777) != 0444 || st->st_nlink < 2 ||
	    fstatat(l->root, linked_path(at, name), &there, AT_SYMLINK_NOFOLLOW) < 0 ||
	    there.st_ino != st->st_ino || there.st_dev != st->st_dev)
		return false;
	pthread_mutex_lock(&l->lock);
	note(l, name, st, path);
	pthread_mutex_unlock(&l->lock);
	return true;
}

bool linked_opened(struct linked *l, const struct digest *name, const struct stat *st)
{
	const struct note *n;
	bool r;

	pthread_mutex_lock(&l->lock);
	n = map_get(l->notes, name->b, DIGEST_BYTES);
	r = !n || same(n, st);
	if (!n)
		note(l, name, st, NULL);
	pthread_mutex_unlock(&l->lock);
	return r;
}

/* Takes the name away. The file is the user's, so nothing is lost. */
static int changed(struct linked *l, const struct digest *name, const char *path, struct err *err)
{
	char at[LINKED_PATH_MAX], hex[DIGEST_HEX_MAX], by_inode[96];
	struct stat st = { 0 };

	(void)!fstatat(l->root, linked_path(at, name), &st, AT_SYMLINK_NOFOLLOW);
	snprintf(by_inode, sizeof(by_inode), "a file of an input (find . -inum %llu)",
		 (unsigned long long)st.st_ino);
	(void)unlinkat(l->root, at, 0);
	store_forget(l->store, name);
	return err_set(err, ERR_CHANGED,
		       "%s was changed after it was linked into the store (`mode: link`), so the "
		       "store no longer has sha256:%.12s…; put the old bytes back, or run again to "
		       "take it as it is now",
		       path ? path : by_inode, digest_hex(name, hex));
}

int linked_damaged(struct linked *l, const struct digest *name, struct err *err)
{
	const struct note *n;
	char at[LINKED_PATH_MAX];

	if (faccessat(l->root, linked_path(at, name), F_OK, AT_SYMLINK_NOFOLLOW) < 0)
		return 0;
	pthread_mutex_lock(&l->lock);
	n = map_get(l->notes, name->b, DIGEST_BYTES);
	changed(l, name, n ? n->path : NULL, err);
	pthread_mutex_unlock(&l->lock);
	if (err)
		err->code = ERR_CORRUPT;
	return -1;
}

/* Adding. */

static int read_shard(struct linked *l, const char *shard, struct err *err)
{
	_cleanup_(freep) char *path = xasprintf(LINKED_DIR "/%s", shard);
	_cleanup_(closedirp) DIR *d = fs_list_at(l->root, path, 0);
	struct dirent *e;
	int r = 0;

	if (!d)
		return errno == ENOENT ? 0 : err_errno(err, "cannot list %s", path);
	while ((r = fs_next(d, path, &e, err)) > 0) {
		struct digest *name = arena_alloc(l->arena, sizeof(*name));
		uint64_t ino = e->d_ino;

		if (strlen(e->d_name) == 64 && digest_parse(e->d_name, name, NULL) == 0)
			*map_slot(l->inodes, &ino, sizeof(ino), NULL) = name;
	}
	return r;
}

/* 0: *ret is the content as which the file was linked, or NULL. */
static int linked_as(struct linked *l, const struct stat *st, const struct digest **ret,
		     struct err *err)
{
	uint64_t ino = st->st_ino;
	int r = 0;

	pthread_mutex_lock(&l->lock);
	if (!l->inodes) {
		l->inodes = map_new();
		for (int i = 0; i < 256 && r == 0; i++) {
			char shard[4];

			snprintf(shard, sizeof(shard), "%02x", i);
			r = read_shard(l, shard, err);
		}
	}
	*ret = map_get(l->inodes, &ino, sizeof(ino));
	pthread_mutex_unlock(&l->lock);
	return r;
}

static int cannot_link(const struct linked_file *f, const char *why, struct err *err)
{
	return err_set(err, ERR_UNSUPPORTED,
		       "%s can't be linked into the store: %s; leave out `mode: link` and it is "
		       "copied",
		       f->path, why);
}

static int cannot_link_errno(const struct linked_file *f, struct err *err)
{
	return err_errno(err,
			 "%s can't be linked into the store (leave out `mode: link` and it is "
			 "copied)",
			 f->path);
}

static int check_file(const struct linked_file *f, struct err *err)
{
	if (f->st.st_uid != geteuid())
		return cannot_link(f, "it belongs to another user, who may change it", err);
	if ((f->st.st_mode & 0444) != 0444)
		return cannot_link(f,
				   "the store's files can be read by all, and this one can't "
				   "(chmod a+r)",
				   err);
	return 0;
}

static int make_link(struct linked *l, const struct linked_file *f, const char *at, struct err *err)
{
	char open_file[64], shard[LINKED_PATH_MAX];

	snprintf(open_file, sizeof(open_file), "/proc/self/fd/%d", f->fd);
	snprintf(shard, sizeof(shard), "%.*s", (int)(strrchr(at, '/') - at), at);
	for (int tries = 0; tries < 2; tries++) {
		if (linkat(AT_FDCWD, open_file, l->root, at, AT_SYMLINK_FOLLOW) == 0)
			return 0;
		if (errno != ENOENT || fs_mkdir_p_at(l->root, shard, 0777, NULL) < 0)
			break;
	}
	switch (errno) {
	case EEXIST:
		return 1;
	case EXDEV:
		return cannot_link(f, "the store is on another file system", err);
	case EMLINK:
		return cannot_link(f, "it has as many links as the file system allows", err);
	case ENOENT:
		return err_set(err, ERR_CHANGED,
			       "%s was removed while it was read; run again when it is quiet",
			       f->path);
	default:
		return cannot_link_errno(f, err);
	}
}

/* The store's name leads to some file. True: that file has these bytes. */
static bool holds(struct linked *l, const char *at, const struct digest *name)
{
	_cleanup_(fd_closep) int fd = openat(l->root, at, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	struct digest got;
	struct stat st;

	return fd >= 0 && fstat(fd, &st) == 0 &&
	       content_hash_fd(fd, (uint64_t)st.st_size, content_threads(), &got, NULL) == 0 &&
	       digest_eq(&got, name);
}

int linked_add(struct linked *l, const struct linked_file *f, const struct digest *name,
	       struct err *err)
{
	const struct digest *was = NULL;
	char at[LINKED_PATH_MAX];
	struct stat st;
	int r;

	linked_path(at, name);
	if (f->st.st_nlink > 1 && (fstatat(l->root, at, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
				   st.st_ino != f->st.st_ino || st.st_dev != f->st.st_dev)) {
		if (linked_as(l, &f->st, &was, err) < 0)
			return -1;
		if (was && !digest_eq(was, name) &&
		    fstatat(l->root, linked_path(at, was), &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    st.st_ino == f->st.st_ino)
			return changed(l, was, f->path, err);
		linked_path(at, name);
	}
	if (check_file(f, err) < 0)
		return -1;
	if ((f->st.st_mode & 07777) != 0444 && fchmod(f->fd, 0444) < 0)
		return cannot_link_errno(f, err);
	r = make_link(l, f, at, err);
	if (r == 1 && (fstatat(l->root, at, &st, AT_SYMLINK_NOFOLLOW) < 0 ||
		       st.st_ino != f->st.st_ino || st.st_dev != f->st.st_dev)) {
		if (holds(l, at, name)) /* an equal file: one is enough */
			return 0;
		if (unlinkat(l->root, at, 0) == 0)
			r = make_link(l, f, at, err);
	}
	if (r < 0)
		return -1;
	/* The times that it had when it was hashed: a change since then is found. */
	pthread_mutex_lock(&l->lock);
	note(l, name, &f->st, f->path);
	pthread_mutex_unlock(&l->lock);
	return 0;
}

/* Checking. */

/* Under the lock. */
static int check_one(struct linked *l, const struct digest *name, struct note *n, struct err *err)
{
	char at[LINKED_PATH_MAX];
	struct stat st;

	linked_path(at, name);
	if (fstatat(l->root, at, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : err_errno(err, "cannot look at %s", at);
	if (same(n, &st))
		return 0;
	if (!holds(l, at, name))
		return changed(l, name, n->path, err);
	note(l, name, &st, NULL);
	return 0;
}

int linked_check(struct linked *l, struct err *err)
{
	int r = 0;

	pthread_mutex_lock(&l->lock);
	for (size_t i = 0; i < map_len(l->notes) && r == 0; i++) {
		struct digest name = { 0 };
		const void *key;
		struct note *n = map_at(l->notes, i, &key, NULL);

		memcpy(name.b, key, DIGEST_BYTES);
		r = check_one(l, &name, n, err);
	}
	pthread_mutex_unlock(&l->lock);
	return r;
}
