/* storage/local/dir.c — a store in a directory: .cairn/store. The layout is in FORMAT.md.
 *
 * Objects appear complete: they are written under tmp/, then renamed to their name without
 * replacing (the first stays). A file with a name in a space is never written again; its mode is
 * 0444. What a crash leaves is in tmp/.
 *
 * Durability: a rename may reach the disk before the bytes do, so after a power cut a name may have
 * a file that is too short. Two things make that harmless: store_sync() runs before a record that
 * names the object is published, and every look-up compares the size. A put of existing content
 * compares the bytes, and so repairs a damaged object.
 *
 * Another process may run gc at the same time. A put that finds its object renews the object's time
 * (freshen()) under a shared lock; dir_gc.c checks the age under an exclusive lock. A run renews
 * what it finds only if gc may remove it while the run lasts (in_doubt()).
 *
 * A blob may also be a file of the user's, a hard link under linked/ (linked.h). It is looked for
 * there when blobs/ lacks it.
 *
 * Many small objects that are put together are a pack (packs.h). Where an object is in a pack and
 * a file of its own, the file counts.
 *
 * Any thread may call any function: flush.c guards what waits to be flushed, the file system
 * everything else.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include "base/os/fs.h"
#include "base/os/work.h"
#include "base/time/clock.h"
#include "storage/local/dir_internal.h"

#define VERSION "cairn store 1\n"
/* Kernels write dirty pages back after 30 s by themselves. */
#define WRITTEN_BACK_AFTER_S 60

static int put_file(struct dir_store *d, enum store_space space, const struct digest *name,
		    const void *bytes, size_t n, bool replace, struct err *err);

/* A run asks for as many as it has tasks, so without printf. */
static const char *object_path(char buf[OBJECT_PATH_MAX], enum store_space space,
			       const struct digest *name)
{
	const char *dir = store_space_names[space];
	size_t n = strlen(dir);
	char *shard = buf + n + 1, *file = shard + 3;

	assert(n + 4 + DIGEST_HEX_MAX <= OBJECT_PATH_MAX);
	memcpy(buf, dir, n);
	digest_hex(name, file);
	memcpy(shard, file, 2);
	shard[-1] = shard[2] = '/';
	return buf;
}

int dir_errno(struct dir_store *d, const char *doing, struct err *err)
{
	int e = errno;

	switch (e) {
	case ENOSPC:
	case EDQUOT:
		return err_set(
			err, ERR_NO_SPACE,
			"%s: no space left for the store %s; free some, or type `cairn store gc`",
			doing, d->base.uri);
	case EROFS:
	case EACCES:
	case EPERM:
		return err_set(err, ERR_READ_ONLY, "%s: the store %s can't be written to", doing,
			       d->base.uri);
	default:
		errno = e;
		return err_errno(err, "%s: store %s", doing, d->base.uri);
	}
}

/* Look-ups. */

int dir_stat(struct dir_store *d, enum store_space space, const struct digest *name,
	     char path[OBJECT_PATH_MAX], struct stat *st)
{
	if (fstatat(d->root, object_path(path, space, name), st, AT_SYMLINK_NOFOLLOW) == 0)
		return 0;
	if (errno != ENOENT || space != STORE_BLOB)
		return -1;
	return fstatat(d->root, linked_path(path, name), st, AT_SYMLINK_NOFOLLOW);
}

/* Whether gc may remove the object while this run lasts, although the run finds it: then it must be
 * renewed. gc waits for runs that began before it listed an object. */
static bool in_doubt(const struct dir_store *d, enum store_space space, const struct digest *name)
{
	uint8_t key[CONDEMNED_KEY_BYTES];
	struct condemned_entry ignored;

	if (d->lease.fd < 0 || d->doubt_all)
		return d->lease.fd >= 0;
	condemned_list_key((uint8_t)space, name, key);
	return condemned_list_find(&d->condemned, key, &ignored);
}

/* Renews the time of an object that a put found, so that a gc running now keeps it. False when gc
 * removed it first. Both lock the object, so that gc can't remove an object that was renewed after
 * gc checked it. Where files can't be locked (NFS needs write access), a short race remains. */
static bool freshen(struct dir_store *d, const char *path, const struct stat *st)
{
	int64_t now = time(NULL); /* lint: time because files are as old as the machine says */
	_cleanup_(fd_closep) int fd = -1;
	struct stat mine, there;

	if (now - st->st_mtime <= STORE_FRESH_NS / NS_PER_S ||
	    (dir_names_linked(path) && st->st_nlink > 1))
		return true;
	fd = openat(d->root, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return false;
	/* Waits for gc: a new object put before gc unlinks the name would be removed too. */
	if (fd >= 0)
		dir_lock(fd, LOCK_SH);
	(void)!utimensat(d->root, path, NULL, AT_SYMLINK_NOFOLLOW);
	return fd < 0 || fstat(fd, &mine) < 0 ||
	       (fstatat(d->root, path, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
		there.st_ino == mine.st_ino);
}

/* gc removes an old object of a pack whatever its readers do, so a run that uses one puts it once
 * more, as a file. Where that isn't possible, it is used as it is. */
static void keep_packed(struct dir_store *d, enum store_space space, const struct digest *name,
			const struct packed *what, const struct str *bytes)
{
	_cleanup_(str_deinit) struct str read = { 0 };
	struct packed again;
	struct digest got;

	if (clock_wall_ns() - what->made_ns <= STORE_FRESH_NS || !in_doubt(d, space, name))
		return;
	if (!bytes && packs_get(d->packs, space, name, &read, &again, NULL) <= 0)
		return;
	bytes = bytes ? bytes : &read;
	digest_bytes(bytes->s, bytes->len, &got);
	if (space == STORE_ACTION || digest_eq(&got, name)) /* else it is damaged */
		(void)put_file(d, space, name, bytes->s ? bytes->s : "", bytes->len, false, NULL);
}

/* Appends the bytes of an object that is in a pack: 0. 1: it is in none. */
static int get_packed(struct dir_store *d, enum store_space space, const struct digest *name,
		      uint64_t max_bytes, struct str *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	struct packed what;
	int r = packs_get(d->packs, space, name, &bytes, &what, err);

	if (r <= 0)
		return r < 0 ? -1 : 1;
	if (what.size > max_bytes)
		return err_set(err, ERR_TOO_LARGE,
			       "an object of the store has %llu bytes; at most %llu are read here",
			       (unsigned long long)what.size, (unsigned long long)max_bytes);
	keep_packed(d, space, name, &what, &bytes);
	str_addn(ret, bytes.s ? bytes.s : "", bytes.len);
	return 0;
}

static int has_packed(struct dir_store *d, enum store_space space, const struct digest *name,
		      uint64_t size, bool *ret, struct err *err)
{
	struct packed what;
	int r = packs_get(d->packs, space, name, NULL, &what, err);

	*ret = r > 0 && (size == UINT64_MAX || size == what.size);
	if (*ret)
		keep_packed(d, space, name, &what, NULL);
	return r < 0 ? -1 : 0;
}

/* Look-ups that go on one thread; more are shared with others. A thread costs as much as a few
 * dozen of them. */
#define HAS_PER_THREAD 256
#define HAS_THREADS    8

struct look_up {
	struct dir_store *d;
	enum store_space space;
	const struct digest *names;
	const uint64_t *sizes;
	size_t n, n_parts;
	bool *ret;
};

/* One stat for each object: sizes must be compared, and a directory listing lacks them. */
static int look_up(void *arg, size_t part, struct err *err)
{
	const struct look_up *l = arg;
	struct dir_store *d = l->d;
	char path[OBJECT_PATH_MAX];
	struct stat st;

	for (size_t i = l->n * part / l->n_parts; i < l->n * (part + 1) / l->n_parts; i++) {
		const struct digest *name = &l->names[i];
		const uint64_t size = l->sizes ? l->sizes[i] : UINT64_MAX;
		bool *found = &l->ret[i];

		*found = false;
		if (dir_stat(d, l->space, name, path, &st) == 0)
			*found = S_ISREG(st.st_mode) &&
				 (size == UINT64_MAX || size == (uint64_t)st.st_size);
		else if (errno != ENOENT && errno != ENOTDIR)
			return err_errno(err, "cannot look into %s", path);
		if (*found && in_doubt(d, l->space, name))
			*found = freshen(d, path, &st);
		if (!*found && has_packed(d, l->space, name, size, found, err) < 0)
			return -1;
	}
	return 0;
}

static int dir_has(struct store *s, enum store_space space, const struct digest *names,
		   const uint64_t *sizes, size_t n, bool *ret, struct err *err)
{
	const size_t worth = n / HAS_PER_THREAD, /* asking for the cores opens a file */
		limit = worth < 2 ? 1 : MIN((size_t)content_threads(), (size_t)HAS_THREADS);
	struct look_up l = { .d = dir_of(s),
			     .space = space,
			     .names = names,
			     .sizes = sizes,
			     .n = n,
			     .n_parts = MAX(MIN(worth, limit), (size_t)1),
			     .ret = ret };

	return l.n_parts == 1 ? look_up(&l, 0, err)
			      : work_each((unsigned)l.n_parts, l.n_parts, false, look_up, &l, err);
}

static int open_object(struct dir_store *d, enum store_space space, const struct digest *name,
		       struct stat *st, struct err *err)
{
	char path[OBJECT_PATH_MAX], hex[DIGEST_HEX_MAX];
	int fd = openat(d->root, object_path(path, space, name), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd < 0 && errno == ENOENT && space == STORE_BLOB)
		fd = openat(d->root, linked_path(path, name), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 && errno == ENOENT)
		return err_set(err, ERR_NOT_FOUND, "sha256:%s is not in the store %s",
			       digest_hex(name, hex), d->base.uri);
	if (fd < 0 || fstat(fd, st) < 0) {
		err_errno(err, "cannot read sha256:%s in the store %s", digest_hex(name, hex),
			  d->base.uri);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	if (dir_names_linked(path) && !linked_opened(d->linked, name, st))
		store_forget(&d->base, name); /* hashed again before it is believed */
	if (in_doubt(d, space, name) && !freshen(d, path, st)) {
		close(fd);
		return err_set(err, ERR_NOT_FOUND, "sha256:%s was just collected in the store %s",
			       digest_hex(name, hex), d->base.uri);
	}
	return fd;
}

static int dir_get(struct store *s, enum store_space space, const struct digest *name,
		   uint64_t max_bytes, struct str *ret, struct err *err)
{
	struct stat st;
	struct err why = { 0 };
	_cleanup_(fd_closep) int fd = open_object(dir_of(s), space, name, &st, &why);
	ssize_t got;

	if (fd < 0) {
		int r = why.code == ERR_NOT_FOUND
				? get_packed(dir_of(s), space, name, max_bytes, ret, err)
				: 1;

		return r > 0 ? err_pass(err, &why) : r;
	}
	if ((uint64_t)st.st_size > max_bytes)
		return err_set(err, ERR_TOO_LARGE,
			       "an object of the store has %llu bytes; at most %llu are read here",
			       (unsigned long long)st.st_size, (unsigned long long)max_bytes);
	str_reserve(ret, (size_t)st.st_size + 1);
	got = fs_read_at(fd, ret->s + ret->len, (size_t)st.st_size, 0);
	if (got < 0)
		return err_errno(err, "cannot read from the store %s", s->uri);
	ret->len += (size_t)got; /* if the file was cut meanwhile, the digest won't match */
	ret->s[ret->len] = '\0';
	return 0;
}

/* In memory, since it is small. */
static int open_packed(struct dir_store *d, const struct digest *name, const struct err *absent,
		       int *ret_fd, uint64_t *ret_size, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	_cleanup_(fd_closep) int fd = -1;
	int r = get_packed(d, STORE_BLOB, name, PACK_MEMORY_MAX, &bytes, err);

	if (r != 0)
		return r < 0 ? -1 : err_pass(err, absent);
	fd = fs_unnamed_at(-1, ".", err);
	if (fd < 0 || fs_write_all(fd, bytes.s ? bytes.s : "", bytes.len, err) < 0)
		return err_wrap(err, "reading the store %s", d->base.uri);
	*ret_fd = TAKE_FD(fd);
	*ret_size = bytes.len;
	return 0;
}

static int dir_open_blob(struct store *s, const struct digest *name, uint64_t size, int *ret_fd,
			 uint64_t *ret_size, struct err *err)
{
	struct err why = { 0 };
	struct stat st;
	int fd = open_object(dir_of(s), STORE_BLOB, name, &st, &why);

	if (fd < 0 && why.code == ERR_NOT_FOUND)
		return open_packed(dir_of(s), name, &why, ret_fd, ret_size, err);
	if (fd < 0)
		return err_pass(err, &why);
	*ret_fd = fd;
	*ret_size = (uint64_t)st.st_size;
	return 0;
}

/* Publishing. */

/* Tells whether the object exists with this size, and its path. Then renews its time, and flushes
 * it with ours if the process that put it may not have flushed it yet. */
static bool already_there(struct dir_store *d, enum store_space space, const struct digest *name,
			  char path[OBJECT_PATH_MAX], uint64_t size)
{
	int64_t now = time(NULL); /* lint: time because files are as old as the machine says */
	struct stat st;

	if (dir_stat(d, space, name, path, &st) < 0 || !S_ISREG(st.st_mode) ||
	    (uint64_t)st.st_size != size)
		return false;
	if (!freshen(d, path, &st))
		return false;
	if (now - st.st_ctime < WRITTEN_BACK_AFTER_S)
		flush_note(&d->flush, path, size);
	return true;
}

static bool same_bytes(struct dir_store *d, const char *path, const void *bytes, size_t n)
{
	_cleanup_(fd_closep) int fd = openat(d->root, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	char buf[16 * KIB];

	for (size_t at = 0; fd >= 0 && at < n;) {
		ssize_t got = fs_read_at(fd, buf, MIN(n - at, sizeof(buf)), (off_t)at);

		if (got <= 0 || memcmp(buf, (const char *)bytes + at, (size_t)got) != 0)
			return false;
		at += (size_t)got;
	}
	return fd >= 0;
}

static bool dir_set_aside(struct store *s, enum store_space space, const struct digest *name);

/* The object of this name is damaged, and the caller has the right bytes. */
static void set_damaged_aside(struct dir_store *d, enum store_space space,
			      const struct digest *name)
{
	if (dir_set_aside(&d->base, space, name))
		atomic_fetch_add(&d->base.healed, 1);
}

/* Tells whether the existing blob matches its name. Used when the same content is put again; hashes
 * once per process. */
static bool is_sound(struct dir_store *d, const struct digest *name, const char *path)
{
	_cleanup_(fd_closep) int fd = -1;
	struct digest got;
	struct stat st;

	if (store_is_verified(&d->base, name))
		return true;
	fd = openat(d->root, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd < 0 || fstat(fd, &st) < 0 ||
	    content_hash_fd(fd, (uint64_t)st.st_size, content_threads(), &got, NULL) < 0)
		return true; /* a blob that can't be read now needn't be damaged */
	if (!digest_eq(&got, name))
		return false;
	store_note_verified(&d->base, name);
	return true;
}

/* An object on its way into the store. */
struct incoming {
	int dir;
	const char *path; /* below `dir` */
	uint64_t size;
	bool replace;
};

/* Renames it to `path` in the store. 0: published, 1: one exists (it stays), 2: another file
 * system, -1: error. */
static int rename_in(struct dir_store *d, const struct incoming *in, const char *path, bool replace)
{
	for (int tries = 0;; tries++) {
		int r = replace ? renameat(in->dir, in->path, d->root, path)
				: renameat2(in->dir, in->path, d->root, path, RENAME_NOREPLACE);

		if (r == 0)
			return 0;
		if (errno == EINVAL && !replace) { /* a file system without NOREPLACE */
			r = linkat(in->dir, in->path, d->root, path, 0);
			if (r == 0)
				return unlinkat(in->dir, in->path, 0);
		}
		if (errno == EEXIST)
			return 1;
		if (errno == EXDEV)
			return 2;
		if (errno == ENOENT && tries == 0) {
			char shard[OBJECT_PATH_MAX];

			snprintf(shard, sizeof(shard), "%.*s", (int)(strrchr(path, '/') - path),
				 path);
			if (mkdirat(d->root, shard, 0777) < 0 && errno != EEXIST &&
			    (errno != ENOENT || fs_mkdir_p_at(d->root, shard, 0777, NULL) < 0))
				return -1;
			flush_note_shard(&d->flush, path);
			continue;
		}
		return -1;
	}
}

/* As rename_in(). A truncated or damaged object of that name must not keep the good one out. */
static int publish(struct dir_store *d, const struct incoming *in, enum store_space space,
		   const struct digest *name, struct err *err)
{
	char path[OBJECT_PATH_MAX];
	struct stat st;
	int r;

	if (space == STORE_BLOB && fstatat(d->root, linked_path(path, name), &st, 0) == 0 &&
	    (uint64_t)st.st_size == in->size && is_sound(d, name, path))
		return 1;
	r = rename_in(d, in, object_path(path, space, name), in->replace);
	if (r == 1 && space == STORE_BLOB && !is_sound(d, name, path)) {
		set_damaged_aside(d, space, name);
		r = rename_in(d, in, path, true);
	}
	if (r == 1 && space != STORE_ACTION && !already_there(d, space, name, path, in->size))
		r = rename_in(d, in, object_path(path, space, name), true);
	if (r < 0)
		return dir_errno(d, "cannot write", err);
	if (r == 0)
		flush_note(&d->flush, path, in->size);
	return r;
}

static int make_temp(struct dir_store *d, int *ret_fd, char **ret_name, struct err *err)
{
	for (int tries = 0; tries < 1000; tries++) {
		char *name = xasprintf("tmp/%ld-%lx-%lx", (long)getpid(),
				       atomic_fetch_add(&d->temp_counter, 1),
				       (unsigned long)(uintptr_t)d >> 4);
		int fd = openat(d->root, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW,
				0444);

		if (fd >= 0) {
			*ret_fd = fd;
			*ret_name = name;
			return 0;
		}
		free(name);
		if (errno == ENOENT && mkdirat(d->root, "tmp", 0777) == 0)
			continue;
		if (errno != EEXIST)
			break;
	}
	return dir_errno(d, "cannot write", err);
}

/* Tells whether a pack has it. Content counts only if it is young and sound: another copy does no
 * harm, and the first record of a key stays. */
static bool is_packed(struct dir_store *d, enum store_space space, const struct digest *name,
		      const void *bytes, size_t n)
{
	_cleanup_(str_deinit) struct str there = { 0 };
	struct packed what;

	if (packs_get(d->packs, space, name, &there, &what, NULL) <= 0)
		return false;
	return space == STORE_ACTION ||
	       (clock_wall_ns() - what.made_ns <= STORE_FRESH_NS && there.len == n &&
		(n == 0 || memcmp(there.s, bytes, n) == 0));
}

static int put_file(struct dir_store *d, enum store_space space, const struct digest *name,
		    const void *bytes, size_t n, bool replace, struct err *err)
{
	struct err cause = { 0 };
	char *temp;
	int fd, r;

	if (make_temp(d, &fd, &temp, err) < 0)
		return -1;
	r = fs_write_all(fd, bytes, n, &cause);
	if (r < 0) {
		errno = cause.sys;
		dir_errno(d, "cannot write", err);
	}
	if (close(fd) < 0 && r == 0) /* NFS and quotas report errors only now */
		r = dir_errno(d, "cannot write", err);
	if (r == 0)
		r = publish(d, &(struct incoming){ d->root, temp, n, replace }, space, name, err);
	if (r != 0)
		unlinkat(d->root, temp, 0);
	free(temp);
	return r;
}

static int dir_put(struct store *s, enum store_space space, const struct digest *name,
		   const void *bytes, size_t n, bool replace, struct err *err)
{
	struct dir_store *d = dir_of(s);
	char path[OBJECT_PATH_MAX];

	if (!replace && space != STORE_ACTION && already_there(d, space, name, path, n)) {
		if (same_bytes(d, path, bytes, n))
			return 1;
		set_damaged_aside(d, space, name);
	}
	if (!replace && is_packed(d, space, name, bytes, n))
		return 1;
	return put_file(d, space, name, bytes, n, replace, err);
}

/* What others put a moment ago is made durable, too: it may be named by one of these. */
static int dir_put_many(struct store *s, const struct store_item *v, size_t n, struct err *err)
{
	struct dir_store *d = dir_of(s);
	struct store_item *lacking = xcalloc(n + 1, sizeof(*lacking));
	char path[OBJECT_PATH_MAX];
	size_t m = 0;
	int r;

	for (size_t i = 0; i < n; i++)
		if (v[i].space == STORE_ACTION ||
		    !(already_there(d, v[i].space, &v[i].name, path, v[i].n) &&
		      same_bytes(d, path, v[i].bytes, v[i].n)))
			lacking[m++] = v[i];
	r = s->ops->sync(s, err);
	if (r == 0 && m)
		r = packs_put(d->packs, lacking, m, err);
	free(lacking);
	return r;
}

static int dir_open_temp(struct store *s, int *ret_fd, char **ret_name, struct err *err)
{
	return make_temp(dir_of(s), ret_fd, ret_name, err);
}

static int dir_publish_temp(struct store *s, int fd, char *temp, const struct digest *name,
			    struct err *err)
{
	struct dir_store *d = dir_of(s);
	struct stat st;
	int r = 0;

	if (name && fstat(fd, &st) < 0)
		r = dir_errno(d, "cannot write", err);
	if (close(fd) < 0 && name && r == 0)
		r = dir_errno(d, "cannot write", err);
	if (name && r == 0)
		r = publish(d, &(struct incoming){ d->root, temp, (uint64_t)st.st_size, false },
			    STORE_BLOB, name, err);
	if (!name || r != 0)
		unlinkat(d->root, temp, 0);
	free(temp);
	return r < 0 ? -1 : r == 1;
}

static int dir_move_in(struct store *s, int dir_fd, const char *path, const struct digest *name,
		       struct err *err)
{
	struct dir_store *d = dir_of(s);
	struct stat st;
	int r;

	if (fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "cannot read %s", path);
	if ((st.st_mode & 07777) != 0444 && fchmodat(dir_fd, path, 0444, 0) < 0)
		return 1; /* another user's file: copy it */
	r = publish(d, &(struct incoming){ dir_fd, path, (uint64_t)st.st_size, false }, STORE_BLOB,
		    name, err);
	if (r == 1)
		unlinkat(dir_fd, path, 0);
	return r < 0 ? -1 : r == 2;
}

static int dir_link_in(struct store *s, int fd, const struct stat *st, const char *path,
		       const struct digest *name, struct err *err)
{
	struct dir_store *d = dir_of(s);
	char at[OBJECT_PATH_MAX];
	struct stat there;

	if (fstatat(d->root, object_path(at, STORE_BLOB, name), &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	    already_there(d, STORE_BLOB, name, at, (uint64_t)st->st_size)) {
		if (is_sound(d, name, at))
			return 1;
		set_damaged_aside(d, STORE_BLOB, name);
	}
	if (linked_add(d->linked, &(struct linked_file){ fd, *st, path }, name, err) < 0)
		return -1;
	store_note_verified(s, name);
	flush_note_shard(&d->flush, linked_path(at, name));
	flush_note(&d->flush, at, (uint64_t)st->st_size);
	return 0;
}

static bool dir_is_linked(struct store *s, const struct digest *name, const struct stat *st,
			  const char *path)
{
	return linked_is(dir_of(s)->linked, name, st, path);
}

static int dir_damaged_linked(struct store *s, const struct digest *name, struct err *err)
{
	struct dir_store *d = dir_of(s);
	char path[OBJECT_PATH_MAX];

	return faccessat(d->root, object_path(path, STORE_BLOB, name), F_OK, AT_SYMLINK_NOFOLLOW) ==
			       0
		       ? 0
		       : linked_damaged(d->linked, name, err);
}

static int dir_check_linked(struct store *s, struct err *err)
{
	return linked_check(dir_of(s)->linked, err);
}

int dir_remove(struct dir_store *d, enum store_space space, const struct digest *name,
	       struct err *err)
{
	char path[OBJECT_PATH_MAX];

	if ((unlinkat(d->root, object_path(path, space, name), 0) < 0 && errno != ENOENT) ||
	    (space == STORE_BLOB && unlinkat(d->root, linked_path(path, name), 0) < 0 &&
	     errno != ENOENT))
		return dir_errno(d, "cannot delete", err);
	store_forget(&d->base, name);
	return 0;
}

static int dir_del(struct store *s, enum store_space space, const struct digest *name,
		   struct err *err)
{
	struct dir_store *d = dir_of(s);

	return dir_remove(d, space, name, err) < 0 ? -1 : packs_remove(d->packs, space, name, err);
}

/* Sets only the access time: gc uses the modification time. */
static void dir_touch(struct store *s, enum store_space space, const struct digest *name)
{
	const struct timespec t[2] = { { .tv_nsec = UTIME_NOW }, { .tv_nsec = UTIME_OMIT } };
	char path[OBJECT_PATH_MAX];

	(void)!utimensat(dir_of(s)->root, object_path(path, space, name), t, AT_SYMLINK_NOFOLLOW);
}

static bool dir_set_aside(struct store *s, enum store_space space, const struct digest *name)
{
	struct dir_store *d = dir_of(s);
	char path[OBJECT_PATH_MAX], aside[OBJECT_PATH_MAX + 32], hex[DIGEST_HEX_MAX];
	struct stat st;
	bool gone;

	if (dir_stat(d, space, name, path, &st) == 0 && dir_names_linked(path)) { /* the user's */
		gone = unlinkat(d->root, path, 0) == 0 || errno == ENOENT;
		store_forget(s, name);
		return gone;
	}
	if (fstatat(d->root, object_path(path, space, name), &st, AT_SYMLINK_NOFOLLOW) < 0 &&
	    errno == ENOENT) {
		store_forget(s, name);
		return packs_remove(d->packs, space, name, NULL) == 0;
	}
	snprintf(aside, sizeof(aside), "corrupt/%s-%s", store_space_names[space],
		 digest_hex(name, hex));
	(void)mkdirat(d->root, "corrupt", 0777);
	(void)!utimensat(
		d->root, path, NULL,
		AT_SYMLINK_NOFOLLOW); /* it is kept for CORRUPT_dir_is_linked_NS from now */
	gone = renameat(d->root, path, d->root, aside) == 0 || unlinkat(d->root, path, 0) == 0 ||
	       errno == ENOENT;
	store_forget(s, name);
	return gone;
}

static int dir_sync(struct store *s, struct err *err)
{
	struct dir_store *d = dir_of(s);

	return flush_all(&d->flush) < 0 ? dir_errno(d, "cannot make new objects durable", err) : 0;
}

static uint64_t dir_unsynced(struct store *s)
{
	return flush_waiting(&dir_of(s)->flush);
}

/* Open and close. */

static void dir_free(struct store *s)
{
	struct dir_store *d = dir_of(s);

	dir_lease_give_back(&d->lease, d->root);
	condemned_list_deinit(&d->condemned);
	linked_free(d->linked);
	packs_free(d->packs);
	flush_deinit(&d->flush);
	if (d->root >= 0)
		close(d->root);
	store_base_deinit(s);
	free(d);
}

static int dir_open_views(struct store *s, bool create)
{
	struct dir_store *d = dir_of(s);

	if (create && mkdirat(d->root, "views", 0777) < 0 && errno != EEXIST)
		return -1;
	return openat(d->root, "views", O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static const struct store_file_ops dir_files = {
	.open_temp = dir_open_temp,
	.publish_temp = dir_publish_temp,
	.move_in = dir_move_in,
	.link_in = dir_link_in,
	.is_linked = dir_is_linked,
	.check_linked = dir_check_linked,
	.damaged_linked = dir_damaged_linked,
	.open_views = dir_open_views,
	.touch = dir_touch,
};
static const struct store_ops dir_ops = {
	.has = dir_has,
	.get = dir_get,
	.put = dir_put,
	.put_many = dir_put_many,
	.del = dir_del,
	.list = dir_list,
	.sync = dir_sync,
	.unsynced = dir_unsynced,
	.open = dir_open_blob,
	.set_aside = dir_set_aside,
	.free = dir_free,
	.files = &dir_files,
	.gc = &dir_gc_ops,
};

static int make_layout(struct dir_store *d, struct err *err)
{
	for (int i = 0; i < STORE_SPACES; i++)
		if (mkdirat(d->root, store_space_names[i], 0777) < 0 && errno != EEXIST)
			return dir_errno(d, "cannot make a store", err);
	if (mkdirat(d->root, "tmp", 0777) < 0 && errno != EEXIST)
		return dir_errno(d, "cannot make a store", err);
	return fs_write_atomic_at(d->root, "version", VERSION, sizeof(VERSION) - 1, 0644, 0, err);
}

static int check_version(struct dir_store *d, bool create, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err e = { 0 };

	if (fs_read_file_at(d->root, "version", 256, &text, &e) < 0) {
		if (e.code == ERR_NOT_FOUND)
			return create ? make_layout(d, err)
				      : err_set(err, ERR_NOT_FOUND,
						"%s is not a store (it has no `version` file)",
						d->base.uri);
		return err_set(err, e.code, "store %s: %s", d->base.uri, e.msg);
	}
	if (str_eq(text.s, VERSION) || str_eq(text.s, PACKS_VERSION))
		return 0;
	if (str_has_prefix(text.s, "cairn store "))
		return err_set(err, ERR_NEWER,
			       "the store %s was written by a newer cairn (%.40s); upgrade, or "
			       "name another store",
			       d->base.uri, text.s);
	return err_set(err, ERR_CORRUPT, "%s/version is not that of a store", d->base.uri);
}

int store_dir_open(const char *path, bool create, struct store **ret, struct err *err)
{
	struct dir_store *d = xcalloc(1, sizeof(*d));

	d->lease.fd = -1;
	store_base_init(&d->base, &dir_ops, path);
	d->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (d->root < 0 && errno == ENOENT && create && fs_mkdir_p(path, NULL) == 0)
		d->root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	flush_init(&d->flush, d->root);
	if (d->root < 0) {
		if (errno == ENOENT)
			err_set(err, ERR_NOT_FOUND, "there is no store at %s", path);
		else
			dir_errno(d, "cannot open", err);
		dir_free(&d->base);
		return -1;
	}
	d->linked = linked_new(&d->base, d->root);
	d->packs = packs_new(&d->base, d->root);
	if (check_version(d, create, err) < 0) {
		dir_free(&d->base);
		return -1;
	}
	*ret = &d->base;
	return 0;
}
