/* storage/content/view.c — makes, checks, finds and evicts kept views.
 *
 * 	views/BOOT/NAME/PATH        a view; NAME: the digest of what is in it and at which path
 * 	views/BOOT/.make-…          being made, or left by a crash
 * 	views/BOOT/.gone-…          being removed, likewise
 *
 * A view appears complete: it is made under another name, then renamed. A rename can survive a
 * power cut that the files before it don't survive. So the name of the boot is in the path, and
 * what an earlier boot left is never used. A view that is used holds a shared lock (flock) on its
 * directory; who makes or removes one holds an exclusive lock. After locking, the name must still
 * lead to the locked directory.
 *
 * The first use in a process compares the whole view with the store's listings and hashes every
 * file, as copies are hashed. A view that differs is removed and made again, out of blobs that are
 * verified anew.
 *
 * One thread of a process at a time makes or checks, so that many attempts of a sweep don't do
 * the same work at once. Two processes may both make a view; the first one's stays.
 */
#include "storage/content/view.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/os/machine.h"
#include "storage/internal.h"

#define BOOT_ID_BYTES 8
/* More tries mean that somebody removes it again and again. */
#define TRIES 4

static int boot_name(char ret[BOOT_ID_BYTES + 1], struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	if (fs_read_file("/proc/sys/kernel/random/boot_id", 64, &text, err) < 0)
		return -1;
	if (text.len < BOOT_ID_BYTES)
		return err_set(err, ERR_UNSUPPORTED, "the kernel doesn't say which boot this is");
	memcpy(ret, text.s, BOOT_ID_BYTES);
	ret[BOOT_ID_BYTES] = '\0';
	return 0;
}

static bool lock_dir(int fd, int how)
{
	int r;

	do
		r = flock(fd, how);
	while (r < 0 && errno == EINTR);
	return r == 0;
}

static int open_dir(int dir_fd, const char *name)
{
	return openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
}

static bool leads_to(int dir_fd, const char *name, int fd, struct stat *ret)
{
	struct stat there;

	return fstat(fd, ret) == 0 && fstatat(dir_fd, name, &there, AT_SYMLINK_NOFOLLOW) == 0 &&
	       there.st_ino == ret->st_ino && there.st_dev == ret->st_dev;
}

static void temp_name(const char *kind, char ret[64])
{
	uint64_t rnd;

	random_bytes(&rnd, sizeof(rnd));
	snprintf(ret, 64, ".%s-%016llx", kind, (unsigned long long)rnd);
}

/* Takes the view out of the way, and removes it unless somebody still uses it. */
static void discard(int boot_fd, const char *name)
{
	_cleanup_(fd_closep) int fd = open_dir(boot_fd, name);
	char gone[64];

	temp_name("gone", gone);
	if (fd < 0 || renameat(boot_fd, name, boot_fd, gone) < 0)
		return;
	if (lock_dir(fd, LOCK_EX | LOCK_NB))
		fs_remove_tree_at(boot_fd, gone, NULL);
}

/* What this process notes about a view that it has compared: this directory, with this name. */
static void note_of(const char *name, const struct stat *st, struct digest *ret)
{
	char text[128];

	snprintf(text, sizeof(text), "cairn-view %s %llu", name, (unsigned long long)st->st_ino);
	digest_bytes(text, strlen(text), ret);
}

static int make(struct store *s, const struct content_id *id, const char *path, int boot_fd,
		const char *name, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct digest note;
	char temp[64];
	struct stat st;
	int r = -1;

	temp_name("make", temp);
	if (mkdirat(boot_fd, temp, 0755) < 0)
		return err_errno(err, "cannot make a view in the store %s", s->uri);
	fd = open_dir(boot_fd, temp);
	if (fd < 0 || !lock_dir(fd, LOCK_EX | LOCK_NB) || fs_set_mode(fd, 0755) < 0 ||
	    fstat(fd, &st) < 0)
		err_errno(err, "cannot make a view in the store %s", s->uri);
	else if (content_materialise_beneath(s, id, CONTENT_HARD_LINK, fd, path, err) == 0)
		r = renameat2(boot_fd, temp, boot_fd, name, RENAME_NOREPLACE) == 0 ? 0
		    : errno == EEXIST
			    ? 1
			    : err_errno(err, "cannot name a view in the store %s", s->uri);
	if (r == 0) { /* links and copies were verified */
		note_of(name, &st, &note);
		store_note_verified(s, &note);
		return 0;
	}
	fs_remove_tree_at(boot_fd, temp, NULL);
	return r < 0 ? -1 : 0;
}

/* The directory views/BOOT. Opening it for the first time removes what earlier boots left. */
static int open_boot(struct store *s, char boot[BOOT_ID_BYTES + 1], struct err *err)
{
	const struct store_file_ops *files = s->here->ops->files;
	_cleanup_(fd_closep) int views = -1;
	int fd;

	if (!files || !files->open_views)
		return err_set(err, ERR_UNSUPPORTED, "the store %s isn't a directory", s->uri);
	if (boot_name(boot, err) < 0)
		return -1;
	views = files->open_views(s->here, true);
	if (views < 0)
		return err_errno(err, "cannot keep views in the store %s", s->uri);
	fd = open_dir(views, boot);
	if (fd < 0 && errno == ENOENT) {
		if (mkdirat(views, boot, 0777) < 0 && errno != EEXIST)
			return err_errno(err, "cannot keep views in the store %s", s->uri);
		view_evict(s, 0);
		fd = open_dir(views, boot);
	}
	return fd < 0 ? err_errno(err, "cannot keep views in the store %s", s->uri) : fd;
}

/* 1: taken, 0: try again. */
static int try_take(struct store *s, const struct content_id *id, const char *path, int boot_fd,
		    const char *name, struct view *ret, struct err *err)
{
	_cleanup_(fd_closep) int fd = open_dir(boot_fd, name);
	struct err why = { 0 };
	struct digest note;
	struct stat st;

	if (fd < 0 && errno == ENOENT) {
		if (make(s, id, path, boot_fd, name, &why) < 0)
			return err_pass(err, &why);
		fd = open_dir(boot_fd, name);
		if (fd < 0 || fstat(fd, &st) < 0)
			return 0;
	}
	if (fd < 0 || !lock_dir(fd, LOCK_SH))
		return err_errno(err, "cannot use a view of the store %s", s->uri);
	if (!leads_to(boot_fd, name, fd, &st))
		return 0;
	note_of(name, &st, &note);
	if (!store_is_verified(s, &note)) {
		if (content_check_at(s, id, CONTENT_HARD_LINK, fd, path, &why) < 0) {
			if (why.code != ERR_CORRUPT)
				return err_pass(err, &why);
			fd_closep(&fd);
			fd = -1;
			discard(boot_fd, name);
			return 0;
		}
		store_note_verified(s, &note);
	}
	(void)!futimens(fd, NULL);
	ret->fd = TAKE_FD(fd);
	return 1;
}

int view_take(struct store *s, const struct content_id *id, const char *path, struct view *ret,
	      struct err *err)
{
	char boot[BOOT_ID_BYTES + 1], hex[DIGEST_HEX_MAX];
	_cleanup_(str_deinit) struct str what = { 0 };
	_cleanup_(fd_closep) int boot_fd = -1;
	struct digest d;
	int r = 0;

	assert(*path && *path != '/');
	boot_fd = open_boot(s, boot, err);
	if (boot_fd < 0)
		return -1;
	str_addf(&what, "cairn-view/1 %d %s %llu %s", id->kind, digest_hex(&id->digest, hex),
		 (unsigned long long)id->size_bytes, path);
	digest_bytes(what.s, what.len, &d);
	digest_hex(&d, hex);
	hex[32] = '\0';
	pthread_mutex_lock(&s->views);
	for (int i = 0; i < TRIES && r == 0; i++)
		r = try_take(s, id, path, boot_fd, hex, ret, err);
	pthread_mutex_unlock(&s->views);
	if (r == 0)
		return err_set(err, ERR_IO, "a view in the store %s doesn't stay as it was made",
			       s->uri);
	if (r > 0)
		snprintf(ret->name, sizeof(ret->name), "%.*s/%.32s", BOOT_ID_BYTES, boot, hex);
	return r < 0 ? -1 : 0;
}

/* Removes those of one boot that are old enough and not in use; true when none is left. */
static bool evict_boot(int boot_fd, int64_t unused_since_ns, uint64_t *n)
{
	int dup_fd = openat(boot_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = dup_fd < 0 ? NULL : fdopendir(dup_fd);
	struct dirent *e;
	bool empty = d != NULL;

	if (!d && dup_fd >= 0)
		close(dup_fd);
	while (d && fs_next(d, "views", &e, NULL) > 0) {
		_cleanup_(fd_closep) int fd = open_dir(boot_fd, e->d_name);
		char gone[64];
		struct stat st;

		temp_name("gone", gone);
		if (fd < 0 || !lock_dir(fd, LOCK_EX | LOCK_NB) ||
		    !leads_to(boot_fd, e->d_name, fd, &st) ||
		    (e->d_name[0] != '.' && ns_of(st.st_mtim) > unused_since_ns) ||
		    renameat(boot_fd, e->d_name, boot_fd, gone) < 0 ||
		    fs_remove_tree_at(boot_fd, gone, NULL) < 0)
			empty = false;
		else
			++*n;
	}
	if (d)
		closedir(d);
	return empty;
}

uint64_t view_evict(struct store *s, int64_t unused_since_ns)
{
	const struct store_file_ops *files = s->here->ops->files;
	int views = files && files->open_views ? files->open_views(s->here, false) : -1;
	DIR *d = views < 0 ? NULL : fdopendir(views);
	char boot[BOOT_ID_BYTES + 1];
	struct dirent *e;
	uint64_t n = 0;

	if (!d && views >= 0)
		close(views);
	while (d && boot_name(boot, NULL) == 0 && fs_next(d, "views", &e, NULL) > 0) {
		_cleanup_(fd_closep) int fd = open_dir(dirfd(d), e->d_name);
		bool now = str_eq(e->d_name, boot);

		if (fd >= 0 && evict_boot(fd, now ? unused_since_ns : INT64_MAX, &n) && !now)
			unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR);
	}
	if (d)
		closedir(d);
	return n;
}
