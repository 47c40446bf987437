/* storage/local/dir_gc.c — what the collector needs of a store in a directory: complete listings,
 * removal of what is old, leftovers of crashes, notes, who uses the store.
 *
 * A put that finds its object renews the object's time under a shared lock (dir.c); removal checks
 * the age under an exclusive one, so neither goes past the other. The note `condemned` is the first
 * of the collector's two marks. leases.h says when active runs began.
 *
 * Which objects are alive is decided in gc.c, never here.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/file.h>
#include "base/os/fs.h"
#include "storage/local/dir_internal.h"

#define NOTE "condemned"

bool dir_lock(int fd, int how)
{
	int r;

	do
		r = flock(fd, how);
	while (r < 0 && errno == EINTR);
	return r == 0 || errno != EWOULDBLOCK;
}

/* A linked file that has another name is never old: its times are the user's, and without the
 * store's name no byte would be freed. */
static int64_t age_of(const char *path, const struct stat *st)
{
	return dir_names_linked(path) && st->st_nlink > 1 ? INT64_MAX / 2 : ns_of(st->st_mtim);
}

/* `space`: its directory. */
static int list_shard(struct dir_store *d, const char *space, const char *shard, store_list_fn *fn,
		      void *arg, struct err *err)
{
	char path[64];
	_cleanup_(closedirp) DIR *dir = NULL;
	struct dirent *e;
	int r = 0;

	snprintf(path, sizeof(path), "%s/%.3s", space, shard);
	dir = fs_list_at(d->root, path, 0);
	if (!dir)
		return errno == ENOENT || errno == ENOTDIR
			       ? 0
			       : err_errno(err, "cannot list %s/%s", d->base.uri, path);
	/* A listing must be complete: gc collects what only an unlisted record names. */
	while (r == 0 && (r = fs_next(dir, path, &e, err)) == 1) {
		struct digest name;
		struct stat st;

		r = 0;
		if (strlen(e->d_name) != 64 || digest_parse(e->d_name, &name, NULL) < 0)
			continue;
		if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0) {
			if (errno != ENOENT)
				r = err_errno(err, "cannot list %s/%s", path, e->d_name);
			continue;
		}
		if (S_ISREG(st.st_mode))
			r = fn(arg, &name, (uint64_t)st.st_size, age_of(path, &st));
	}
	return r;
}

int dir_list(struct store *s, enum store_space space, store_list_fn *fn, void *arg, struct err *err)
{
	int r = 0;

	for (int i = 0; i < 256 && r == 0; i++) {
		char shard[4];

		snprintf(shard, sizeof(shard), "%02x", i);
		r = list_shard(dir_of(s), store_space_names[space], shard, fn, arg, err);
		if (r == 0 && space == STORE_BLOB)
			r = list_shard(dir_of(s), LINKED_DIR, shard, fn, arg, err);
	}
	return r ? r : packs_list(dir_of(s)->packs, space, fn, arg, err);
}

static int dir_swept(struct store *s, struct err *err)
{
	return packs_sweep(dir_of(s)->packs, err);
}

static int dir_del_old(struct store *s, enum store_space space, const struct digest *name,
		       int64_t unless_since_ns, struct err *err)
{
	struct dir_store *d = dir_of(s);
	_cleanup_(fd_closep) int fd = -1;
	char path[OBJECT_PATH_MAX];
	struct stat st;

	if (dir_stat(d, space, name, path, &st) == 0)
		fd = openat(d->root, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	if (fd >= 0 && !dir_lock(fd, LOCK_EX | LOCK_NB))
		return 1; /* a put renews it now */
	if (dir_stat(d, space, name, path, &st) < 0)
		return errno == ENOENT ? packs_condemn(d->packs, space, name, unless_since_ns)
				       : err_errno(err, "cannot look at %s/%s", s->uri, path);
	if (ns_of(st.st_mtim) >= unless_since_ns || (dir_names_linked(path) && st.st_nlink > 1))
		return 1;
	return dir_remove(d, space, name, err);
}

static int leftover(int fd, const char *name, int64_t before_ns, bool dry,
		    struct store_leftovers *l)
{
	struct stat st;

	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || ns_of(st.st_mtim) >= before_ns)
		return 0;
	/* A directory is the scratch store of a killed process. */
	if (!dry && S_ISDIR(st.st_mode) && fs_remove_tree_at(fd, name, NULL) < 0)
		return -1;
	if (!dry && !S_ISDIR(st.st_mode) && unlinkat(fd, name, 0) < 0)
		return errno == ENOENT ? 0 : -1;
	l->n++;
	l->bytes += (uint64_t)st.st_size;
	return 0;
}

static int dir_leftovers(struct store *s, enum store_leftover which, int64_t before_ns, bool dry,
			 struct store_leftovers *ret, struct err *err)
{
	static const char *const dirs[] = {
		[LEFTOVER_TEMPORARY] = "tmp", [LEFTOVER_CORRUPT] = "corrupt"
	};
	_cleanup_(closedirp) DIR *dir = fs_list_at(dir_of(s)->root, dirs[which], 0);
	struct dirent *e;
	int r = 0;

	*ret = (struct store_leftovers){ 0 };
	if (!dir)
		return errno == ENOENT
			       ? 0
			       : err_errno(err, "cannot look into %s/%s", s->uri, dirs[which]);
	while (r == 0 && (r = fs_next(dir, dirs[which], &e, err)) == 1) {
		r = leftover(dirfd(dir), e->d_name, before_ns, dry, ret);
		if (r < 0)
			dir_errno(dir_of(s), "cannot remove what a crash left", err);
	}
	return r == 0 && which == LEFTOVER_TEMPORARY
		       ? packs_leftovers(dir_of(s)->packs, before_ns, dry, ret, err)
		       : r;
}

/* Only gc replaces it, and only gc asks for the time, under its lock. */
static int dir_read_note(struct store *s, struct str *ret, int64_t *ret_ns, struct err *err)
{
	struct dir_store *d = dir_of(s);
	struct stat st;

	if (fs_read_file_at(d->root, NOTE, CONDEMNED_MAX, ret, err) < 0)
		return -1;
	if (fstatat(d->root, NOTE, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return dir_errno(d, "cannot collect", err);
	*ret_ns = ns_of(st.st_mtim);
	return 0;
}

/* A run that begins while the list is renamed may read the old one. So the new one's time must not
 * be before the rename: it is in the future until then. */
static int dir_write_note(struct store *s, const struct str *bytes, struct err *err)
{
	/* lint: time because files are as old as the machine says */
	const struct timespec later = { .tv_sec = time(NULL) + 24 * 3600 };
	struct dir_store *d = dir_of(s);
	_cleanup_(freep) char *temp = NULL;
	_cleanup_(fd_closep) int fd = -1;

	if (!bytes)
		return unlinkat(d->root, NOTE, 0) < 0 && errno != ENOENT
			       ? dir_errno(d, "cannot collect", err)
			       : 0;
	if (fs_temp_at(d->root, NOTE, 0644, &fd, &temp, err) < 0)
		return -1;
	if (fs_write_all(fd, bytes->s, bytes->len, NULL) == 0 &&
	    futimens(fd, (struct timespec[2]){ later, later }) == 0 && fsync(fd) == 0 &&
	    renameat(d->root, temp, d->root, NOTE) == 0 && futimens(fd, NULL) == 0)
		return fs_sync_dir_at(d->root, ".", err);
	dir_errno(d, "cannot collect", err);
	unlinkat(d->root, temp, 0);
	return -1;
}

static int dir_lock_gc(struct store *s, int *ret_fd, struct err *err)
{
	int fd = openat(dir_of(s)->root, "gc.lock", O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
			0666),
	    r;

	if (fd < 0)
		return dir_errno(dir_of(s), "cannot collect", err);
	r = fs_lock(fd, false, err);
	if (r != 0) {
		close(fd);
		return r;
	}
	*ret_fd = fd;
	return 0;
}

static int dir_use(struct store *s, struct err *err)
{
	struct dir_store *d = dir_of(s);

	int64_t ignored_ns;
	struct err e = { 0 };

	if (d->lease.fd >= 0)
		return 0;
	if (dir_lease_take(&d->lease, d->root) < 0)
		return dir_errno(d, "cannot protect what is used", err);
	if (dir_read_note(s, &d->condemned.bytes, &ignored_ns, &e) < 0)
		d->doubt_all = e.code != ERR_NOT_FOUND;
	else
		d->doubt_all = !condemned_list_check(&d->condemned);
	return 0;
}

static int dir_oldest_use(struct store *s, int64_t *ret_ns, struct err *err)
{
	return dir_leases_oldest(dir_of(s)->root, ret_ns, err);
}

const struct store_gc_ops dir_gc_ops = {
	.del_old = dir_del_old,
	.swept = dir_swept,
	.read_note = dir_read_note,
	.write_note = dir_write_note,
	.lock = dir_lock_gc,
	.use = dir_use,
	.oldest_use = dir_oldest_use,
	.leftovers = dir_leftovers,
};
