/* Files and directories into a store and out of it.
 *
 * Into: a file is copied to the store's file system first and what was copied is hashed, so that an edit meanwhile can't give an id that
 * the bytes don't have; its stat is compared before and after, so that a half-edited file isn't taken for either version.
 * Files that are ours (a task's outputs) are hashed in place and moved.
 *
 * Out: a reflink where the file system has it, else a copy. Not a hard link: a program that runs as the same user, or as root, could
 * make it writable and so write into the store. Bytes are hashed while they are copied (after a reflink: once a
 * process), so that a damaged blob never reaches a program.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include "base/fs.h"
#include "storage/internal.h"
#include "storage/statcache.h"

/* Files up to this size go through memory: one read, one write. */
#define SMALL_BYTES (256 * KIB)

void content_id_of_bytes(const void *bytes, size_t n, struct content_id *ret)
{
	struct blob_hasher h;

	ret->kind = CONTENT_BLOB;
	ret->size_bytes = n;
	if (n <= CONTENT_PART_BYTES) {
		digest_bytes(bytes, n, &ret->digest);
		return;
	}
	blob_hasher_init(&h, n);
	blob_hasher_update(&h, bytes, n);
	blob_hasher_final(&h, &ret->digest);
}

int content_put_bytes(struct store *s, const void *bytes, size_t n, struct content_id *ret, struct err *err)
{
	content_id_of_bytes(bytes, n, ret);
	return store_put(s, STORE_BLOB, &ret->digest, bytes, n, err) < 0 ? -1 : 0;
}

/* --- in: one file ------------------------------------------------------------------------------------------------------ */

struct putter {
	struct store *store;
	const struct content_put_options *o;
	struct str path; /* of what is being put, for messages and the stat cache */
};

static bool same_stat(const struct stat *a, const struct stat *b)
{
	return a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec && a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
	       a->st_ctim.tv_sec == b->st_ctim.tv_sec && a->st_ctim.tv_nsec == b->st_ctim.tv_nsec && a->st_ino == b->st_ino;
}

static int changed(const struct putter *p, struct err *err)
{
	return err_set(err, ERR_CHANGED, "%s changed while it was read; run again when it is quiet", p->path.s);
}

static int check_unchanged(const struct putter *p, int fd, const struct stat *before, struct err *err)
{
	struct stat after;

	if (fstat(fd, &after) < 0)
		return err_errno(err, "cannot read %s", p->path.s);
	return same_stat(before, &after) ? 0 : changed(p, err);
}

static int put_small(struct putter *p, int fd, const struct stat *st, bool store, struct content_id *ret, struct err *err)
{
	uint8_t stack[16384];
	size_t n = (size_t)st->st_size, done = 0;
	_cleanup_(freep) uint8_t *heap = n >= sizeof(stack) ? xmalloc(n + 1) : NULL;
	uint8_t *buf = heap ? heap : stack;

	/* One byte more than there should be: growth shows. */
	for (;;) {
		ssize_t got = read(fd, buf + done, n + 1 - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return err_errno(err, "cannot read %s", p->path.s);
		done += (size_t)got;
		if (got == 0 || done > n)
			break;
	}
	if (done != n)
		return changed(p, err);
	content_id_of_bytes(buf, n, ret);
	if (store && store_put(p->store, STORE_BLOB, &ret->digest, buf, n, err) < 0)
		return -1;
	return 0;
}

static int put_large_copy(struct putter *p, int fd, const struct stat *st, struct content_id *ret, struct err *err)
{
	char *temp;
	int out, r;

	if (p->store->ops->open_temp(p->store, &out, &temp, err) < 0)
		return -1;
	r = fs_copy_fd(fd, out, err);
	if (r == 0)
		r = content_hash_fd(out, (uint64_t)st->st_size, p->o->n_threads, &ret->digest, err);
	if (r == 0)
		r = check_unchanged(p, fd, st, err);
	if (p->store->ops->publish_temp(p->store, out, temp, r == 0 ? &ret->digest : NULL, err) < 0)
		r = -1;
	return r < 0 ? err_wrap(err, "storing %s", p->path.s) : 0;
}

static int put_large_in_memory(struct putter *p, int fd, const struct stat *st, struct content_id *ret, struct err *err)
{
	return put_small(p, fd, st, true, ret, err);
}

static bool blob_present(struct store *s, const struct content_id *id)
{
	bool present = false;

	return store_has(s, id, 1, &present, NULL) == 0 && present;
}

static int put_open_file(struct putter *p, int dir_fd, const char *name, int fd, const struct stat *st, struct content_id *ret, struct err *err)
{
	bool hash_only = p->o->flags & CONTENT_PUT_HASH_ONLY, small = (uint64_t)st->st_size <= SMALL_BYTES;
	bool move = (p->o->flags & CONTENT_PUT_MOVE) && p->store->ops->move_in && st->st_nlink == 1;
	int r;

	ret->kind = CONTENT_BLOB;
	ret->size_bytes = (uint64_t)st->st_size;
	if (hash_only || move) {
		r = small ? put_small(p, fd, st, false, ret, err) : content_hash_fd(fd, (uint64_t)st->st_size, p->o->n_threads, &ret->digest, err);
		if (r < 0 || check_unchanged(p, fd, st, err) < 0)
			return -1;
		if (hash_only)
			return 0;
		r = p->store->ops->move_in(p->store, dir_fd, name, &ret->digest, err);
		if (r <= 0)
			return r;
		if (lseek(fd, 0, SEEK_SET) < 0)
			return err_errno(err, "cannot read %s", p->path.s);
	}
	if (small || !p->store->ops->open_temp) {
		r = small ? put_small(p, fd, st, true, ret, err) : put_large_in_memory(p, fd, st, ret, err);
		return r < 0 ? -1 : check_unchanged(p, fd, st, err);
	}
	return put_large_copy(p, fd, st, ret, err);
}

int content_put_fd(struct store *s, int fd, struct content_id *ret, struct err *err)
{
	static const struct content_put_options defaults;
	struct putter p = { .store = s, .o = &defaults };
	struct stat st;
	int r;

	if (fstat(fd, &st) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		return err_errno(err, "cannot read a file");
	str_add(&p.path, "the file");
	r = put_open_file(&p, -1, NULL, fd, &st, ret, err);
	str_deinit(&p.path);
	return r;
}

static int64_t wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* With the stat cache, an unchanged file isn't even opened. */
static int put_file(struct putter *p, int dir_fd, const char *name, const struct stat *seen, struct content_id *ret, struct err *err)
{
	bool hash_only = p->o->flags & CONTENT_PUT_HASH_ONLY;
	_cleanup_(fd_closep) int fd = -1;
	int64_t began;
	struct stat st;

	if (p->o->cache && statcache_get(p->o->cache, p->path.s, seen, ret) && (hash_only || blob_present(p->store, ret)))
		return 0;
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	began = wall_ns();
	if (fd < 0 || fstat(fd, &st) < 0)
		return err_errno(err, "cannot read %s", p->path.s);
	if (!S_ISREG(st.st_mode))
		return changed(p, err);
	if (put_open_file(p, dir_fd, name, fd, &st, ret, err) < 0)
		return -1;
	if (p->o->cache && !(p->o->flags & CONTENT_PUT_MOVE))
		statcache_put(p->o->cache, p->path.s, &st, began, ret);
	return 0;
}

/* --- in: directories --------------------------------------------------------------------------------------------------- */

static int put_entry(struct putter *p, int dir_fd, const char *name, const struct stat *st, struct tree_entry *e, struct err *err);

static bool left_out(const struct putter *p, const char *name)
{
	for (const char *const *x = p->o->exclude; x && *x; x++)
		if (strcmp(*x, name) == 0)
			return true;
	return false;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int read_names(const struct putter *p, int fd, struct arena *arena, char ***ret, size_t *ret_n, struct err *err)
{
	VEC(char *) names = { 0 };
	DIR *d = fdopendir(dup(fd));
	struct dirent *e;

	if (!d)
		return err_errno(err, "cannot read directory %s", p->path.s);
	rewinddir(d);
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && !left_out(p, e->d_name))
			VEC_PUSH(&names, arena_strdup(arena, e->d_name));
	closedir(d);
	if (names.n)
		qsort(names.v, names.n, sizeof(*names.v), by_text);
	*ret = names.v;
	*ret_n = names.n;
	return 0;
}

/* Files of one directory, spread over threads. */
struct dir_job {
	const struct putter *p;
	int fd;
	char **names;
	struct tree_entry *entries;
	size_t n;
	pthread_mutex_t lock;
	size_t next;
	struct err err;
};

static int put_name(struct putter *p, int fd, const char *name, struct tree_entry *e, struct err *err)
{
	size_t len = p->path.len;
	struct stat st;
	int r;

	str_addf(&p->path, "%s%s", len ? "/" : "", name);
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		r = errno == ENOENT ? changed(p, err) : err_errno(err, "cannot read %s", p->path.s);
	else
		r = put_entry(p, fd, name, &st, e, err);
	p->path.len = len;
	p->path.s[len] = '\0';
	return r;
}

static void *put_names(void *arg)
{
	struct dir_job *j = arg;
	struct content_put_options o = *j->p->o;
	struct putter p = { .store = j->p->store, .o = &o };

	o.n_threads = 1;
	str_add(&p.path, j->p->path.s);
	for (;;) {
		struct err e = { 0 };
		size_t i, end;

		pthread_mutex_lock(&j->lock);
		i = j->err.code ? j->n : j->next;
		end = MIN(i + 16, j->n);
		j->next = end;
		pthread_mutex_unlock(&j->lock);
		if (i >= j->n)
			break;
		for (; i < end; i++)
			if (put_name(&p, j->fd, j->names[i], &j->entries[i], &e) < 0) {
				pthread_mutex_lock(&j->lock);
				j->err = e;
				pthread_mutex_unlock(&j->lock);
				break;
			}
	}
	str_deinit(&p.path);
	return NULL;
}

static int put_all_names(struct putter *p, int fd, char **names, struct tree_entry *entries, size_t n, struct err *err)
{
	struct dir_job j = { .p = p, .fd = fd, .names = names, .entries = entries, .n = n, .lock = PTHREAD_MUTEX_INITIALIZER };
	pthread_t threads[16];
	size_t t = 0;

	/* A few names aren't worth a thread; large files among them get threads of their own for their parts. */
	if (n < 64 || p->o->n_threads < 2) {
		for (size_t i = 0; i < n; i++)
			if (put_name(p, fd, names[i], &entries[i], err) < 0)
				return -1;
		return 0;
	}
	while (t + 1 < MIN(p->o->n_threads, ARRAY_LEN(threads)) && pthread_create(&threads[t], NULL, put_names, &j) == 0)
		t++;
	put_names(&j);
	while (t)
		pthread_join(threads[--t], NULL);
	if (j.err.code && err)
		*err = j.err;
	return j.err.code ? -1 : 0;
}

static int put_dir(struct putter *p, int dir_fd, const char *name, struct content_id *ret, struct err *err)
{
	_cleanup_(fd_closep) int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct tree_builder *b;
	struct tree_entry *entries;
	char **names = NULL;
	size_t n = 0;
	int r;

	if (fd < 0)
		return err_errno(err, "cannot read directory %s", p->path.s);
	if (read_names(p, fd, arena, &names, &n, err) < 0)
		return -1;
	entries = arena_alloc(arena, (n + 1) * sizeof(*entries));
	r = put_all_names(p, fd, names, entries, n, err);
	b = tree_builder_new();
	for (size_t i = 0; i < n && r == 0; i++) {
		entries[i].name = names[i];
		entries[i].name_len = strlen(names[i]);
		r = tree_builder_add(b, &entries[i], err);
	}
	for (size_t i = 0; i < n; i++)
		free((char *)entries[i].target); /* symbolic links only */
	if (r == 0)
		r = tree_builder_store(b, p->o->flags & CONTENT_PUT_HASH_ONLY ? NULL : p->store, ret, err);
	tree_builder_free(b);
	free(names);
	return r;
}

static int put_symlink(const struct putter *p, int dir_fd, const char *name, struct tree_entry *e, struct err *err)
{
	char target[4097];
	ssize_t n = readlinkat(dir_fd, name, target, sizeof(target));

	if (n < 0)
		return err_errno(err, "cannot read symbolic link %s", p->path.s);
	e->kind = TREE_SYMLINK;
	e->target = xstrndup(target, (size_t)n);
	e->target_len = (size_t)n;
	return 0;
}

static int put_entry(struct putter *p, int dir_fd, const char *name, const struct stat *st, struct tree_entry *e, struct err *err)
{
	switch (st->st_mode & S_IFMT) {
	case S_IFREG:
		e->kind = st->st_mode & 0100 ? TREE_EXECUTABLE : TREE_FILE;
		return put_file(p, dir_fd, name, st, &e->id, err);
	case S_IFDIR:
		e->kind = TREE_DIR;
		return put_dir(p, dir_fd, name, &e->id, err);
	case S_IFLNK:
		return put_symlink(p, dir_fd, name, e, err);
	default:
		return err_set(err, ERR_INVALID, "%s is a socket, a device or a pipe; only files, directories and symbolic links can be stored", p->path.s);
	}
}

/* A link at the top is followed where it leads inside of dir_fd. */
static int follow_top(int dir_fd, const char *path, char **ret, struct stat *st, struct err *err)
{
	_cleanup_(freep) char *base = NULL;
	_cleanup_(freep) char *fd_path = xasprintf("/proc/self/fd/%d/%s", dir_fd, path), *fd_base = xasprintf("/proc/self/fd/%d", dir_fd);
	char *real;

	if (dir_fd == AT_FDCWD)
		return err_set(err, ERR_INVALID, "%s is a symbolic link; name what it leads to", path);
	real = realpath(fd_path, NULL);
	base = realpath(fd_base, NULL);
	if (!real || !base || !fs_is_inside(base, real) || fstatat(AT_FDCWD, real, st, AT_SYMLINK_NOFOLLOW) < 0) {
		free(real);
		return err_set(err, ERR_INVALID, "%s is a symbolic link that leads out of the directory, or to nothing; copy what it means into it", path);
	}
	*ret = real;
	return 0;
}

int content_put_at(struct store *s, int dir_fd, const char *path, const struct content_put_options *o, struct content_id *ret, struct err *err)
{
	static const struct content_put_options defaults;
	struct putter p = { .store = s, .o = o ? o : &defaults };
	_cleanup_(freep) char *real = NULL;
	struct tree_entry e = { 0 };
	struct stat st;
	int r;

	if (fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "cannot read %s", path);
	if (S_ISLNK(st.st_mode) && follow_top(dir_fd, path, &real, &st, err) < 0)
		return -1;
	str_add(&p.path, path);
	r = put_entry(&p, real ? AT_FDCWD : dir_fd, real ? real : path, &st, &e, err);
	str_deinit(&p.path);
	if (r == 0)
		*ret = e.id;
	return r;
}

/* --- out: bytes ---------------------------------------------------------------------------------------------------------- */

int content_read(struct store *s, const struct content_id *id, uint64_t max_bytes, struct str *ret, struct err *err)
{
	return store_get(s, id->kind == CONTENT_TREE ? STORE_TREE : STORE_BLOB, &id->digest, max_bytes, ret, err);
}

int content_open(struct store *s, const struct content_id *id, int *ret_fd, struct err *err)
{
	return s->ops->open(s, &id->digest, ret_fd, err);
}

static int damaged(struct store *s, const struct content_id *id, struct err *err)
{
	char hex[DIGEST_HEX_MAX];

	s->ops->set_aside(s, STORE_BLOB, &id->digest);
	return err_set(err, ERR_CORRUPT, "store %s: the bytes of sha256:%s don't match it any more; the copy was set aside, run again to make it anew",
		       s->uri, digest_hex(&id->digest, hex));
}

static int verify_fd(struct store *s, const struct content_id *id, int fd, struct err *err)
{
	struct digest d;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return err_errno(err, "cannot read from the store");
	if ((uint64_t)st.st_size != id->size_bytes)
		return damaged(s, id, err);
	if (store_is_verified(s, &id->digest))
		return 0;
	if (content_hash_fd(fd, id->size_bytes, 1, &d, err) < 0)
		return -1;
	if (!digest_eq(&d, &id->digest))
		return damaged(s, id, err);
	store_note_verified(s, &id->digest);
	return 0;
}

/* Small blobs: read, hash, write; three calls and no second look. */
static int copy_small(struct store *s, const struct content_id *id, int in, int out, struct err *err)
{
	uint8_t stack[16384];
	size_t n = (size_t)id->size_bytes;
	_cleanup_(freep) uint8_t *heap = n > sizeof(stack) ? xmalloc(n) : NULL;
	uint8_t *buf = heap ? heap : stack;
	struct content_id got;

	for (size_t done = 0; done < n;) {
		ssize_t r = read(in, buf + done, n - done);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return err_errno(err, "cannot read from the store");
		if (r == 0)
			return damaged(s, id, err);
		done += (size_t)r;
	}
	content_id_of_bytes(buf, n, &got);
	if (!digest_eq(&got.digest, &id->digest))
		return damaged(s, id, err);
	return fs_write_all(out, buf, n, err);
}

static int copy_blob(struct store *s, const struct content_id *id, int in, int out, struct err *err)
{
	if (id->size_bytes == 0)
		return 0;
	if (id->size_bytes <= SMALL_BYTES && fs_reflink(in, out) != 0)
		return copy_small(s, id, in, out, err);
	if (id->size_bytes > SMALL_BYTES && fs_copy_fd(in, out, err) < 0)
		return -1;
	/* What was copied is what is hashed: the store's file could differ from it by a failing disk only. */
	return verify_fd(s, id, out, err);
}

static int materialise_blob(struct store *s, const struct content_id *id, bool executable, enum content_materialise_mode mode, int dir_fd,
			    const char *name, struct err *err)
{
	mode_t m = mode == CONTENT_COPY_WRITABLE ? (executable ? 0755 : 0644) : (executable ? 0555 : 0444);
	_cleanup_(fd_closep) int in = -1, out = -1;

	if (content_open(s, id, &in, err) < 0)
		return -1;
	out = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, m);
	if (out < 0)
		return errno == EEXIST ? err_set(err, ERR_EXISTS, "%s exists already", name) : err_errno(err, "cannot make %s", name);
	if (copy_blob(s, id, in, out, err) < 0) {
		unlinkat(dir_fd, name, 0);
		return err_wrap(err, "%s", name);
	}
	return 0;
}

static int materialise_tree(struct store *s, const struct content_id *id, enum content_materialise_mode mode, int dir_fd, const char *name, struct err *err);

static int materialise_entry(struct store *s, const struct tree_entry *e, enum content_materialise_mode mode, int fd, struct err *err)
{
	switch (e->kind) {
	case TREE_DIR:
		return materialise_tree(s, &e->id, mode, fd, e->name, err);
	case TREE_SYMLINK:
		return symlinkat(e->target, fd, e->name) < 0 ? err_errno(err, "cannot make symbolic link %s", e->name) : 0;
	default:
		return materialise_blob(s, &e->id, e->kind == TREE_EXECUTABLE, mode, fd, e->name, err);
	}
}

static int materialise_tree(struct store *s, const struct content_id *id, enum content_materialise_mode mode, int dir_fd, const char *name, struct err *err)
{
	_cleanup_(tree_freep) struct tree *t = NULL;
	_cleanup_(fd_closep) int fd = -1;

	if (tree_load(s, id, &t, err) < 0)
		return -1;
	if (mkdirat(dir_fd, name, 0777) < 0)
		return errno == EEXIST ? err_set(err, ERR_EXISTS, "%s exists already", name) : err_errno(err, "cannot make directory %s", name);
	fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0)
		return err_errno(err, "cannot open directory %s", name);
	for (size_t i = 0; i < tree_len(t); i++)
		if (materialise_entry(s, tree_at(t, i), mode, fd, err) < 0)
			return err_wrap(err, "%s", name);
	if (mode == CONTENT_LINK_READONLY && fchmod(fd, 0555) < 0)
		return err_errno(err, "cannot protect directory %s", name);
	return 0;
}

int content_materialise_at(struct store *s, const struct content_id *id, bool executable, enum content_materialise_mode mode,
			   int dir_fd, const char *path, struct err *err)
{
	if (id->kind == CONTENT_TREE)
		return materialise_tree(s, id, mode, dir_fd, path, err);
	if (id->kind == CONTENT_BLOB)
		return materialise_blob(s, id, executable, mode, dir_fd, path, err);
	return err_set(err, ERR_INVALID, "there is no content to put at %s", path);
}

/* --- is it all there? ---------------------------------------------------------------------------------------------------- */

static bool known_complete(struct store *s, const struct content_id *id)
{
	bool r;

	pthread_mutex_lock(&s->lock);
	r = map_has(s->complete, id->digest.b, DIGEST_BYTES);
	pthread_mutex_unlock(&s->lock);
	return r;
}

static int tree_complete(struct store *s, const struct content_id *id, bool *ret, struct err *err)
{
	_cleanup_(tree_freep) struct tree *t = NULL;
	_cleanup_(freep) struct content_id *ids = NULL;
	_cleanup_(freep) bool *present = NULL;
	struct err e = { 0 };
	size_t n = 0;

	*ret = false;
	if (known_complete(s, id)) {
		*ret = true;
		return 0;
	}
	if (tree_load(s, id, &t, &e) < 0) {
		if (e.code == ERR_NOT_FOUND || e.code == ERR_CORRUPT)
			return 0;
		if (err)
			*err = e;
		return -1;
	}
	ids = xcalloc(tree_len(t) + 1, sizeof(*ids));
	present = xcalloc(tree_len(t) + 1, sizeof(*present));
	for (size_t i = 0; i < tree_len(t); i++)
		if (tree_at(t, i)->kind != TREE_SYMLINK)
			ids[n++] = tree_at(t, i)->id;
	if (content_complete(s, ids, n, present, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (!present[i])
			return 0;
	pthread_mutex_lock(&s->lock);
	*map_slot(s->complete, id->digest.b, DIGEST_BYTES, NULL) = s;
	pthread_mutex_unlock(&s->lock);
	*ret = true;
	return 0;
}

int content_complete(struct store *s, const struct content_id *ids, size_t n, bool *ret, struct err *err)
{
	if (n && store_has(s, ids, n, ret, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (ret[i] && ids[i].kind == CONTENT_TREE && tree_complete(s, &ids[i], &ret[i], err) < 0)
			return -1;
	return 0;
}

int content_verify(struct store *s, const struct content_id *id, struct err *err)
{
	_cleanup_(tree_freep) struct tree *t = NULL;
	_cleanup_(fd_closep) int fd = -1;

	if (id->kind == CONTENT_BLOB)
		return content_open(s, id, &fd, err) < 0 ? -1 : verify_fd(s, id, fd, err);
	if (tree_load(s, id, &t, err) < 0)
		return -1;
	for (size_t i = 0; i < tree_len(t); i++)
		if (tree_at(t, i)->kind != TREE_SYMLINK && content_verify(s, &tree_at(t, i)->id, err) < 0)
			return err_wrap(err, "%s", tree_at(t, i)->name);
	return 0;
}
