/* engine/base/os/fs_remove.c — removes a tree that another user filled, and may still be changing.
 *
 * Every step uses a descriptor of the parent directory and one name. It never follows a symlink and
 * never enters another mount, so it can't reach anything outside the tree, whatever is renamed
 * meanwhile. The descent is recursive with one descriptor per level, up to LEVELS_MAX. A deeper
 * directory is first moved to the top of the tree and removed there like the others, so that
 * descriptors, the stack and PATH_MAX don't limit the depth.
 *
 * The first error is kept, and the removal continues. What has vanished counts as removed. A
 * directory is read up to PASSES_MAX times, because some file systems skip entries while others are
 * removed.
 */
#include "base/os/fs.h"

#include <dirent.h>
#include <errno.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include "base/mem.h"

#define LEVELS_MAX 64 /* descriptors in use at once */
#define PASSES_MAX 3

struct remover {
	int top_fd;       /* directories that are too deep are moved here */
	uint64_t n_moved; /* names them */
	struct err first;
};

static void note(struct remover *r, const char *name)
{
	struct err e = { 0 };

	if (r->first.code != ERR_NONE)
		return;
	if (errno == EXDEV)
		err_set(&e, ERR_BUSY, "cannot remove %s: something is mounted there", name);
	else
		err_errno(&e, "cannot remove %s", name);
	r->first = e;
}

/* Kernels before 5.6 and some sandboxes don't have openat2: then bind mounts of the same file
 * system aren't noticed. */
static int open_no_xdev(int parent, const char *name, int flags)
{
	struct open_how how = { .flags = (uint64_t)flags,
				.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS };
	int fd = (int)syscall(SYS_openat2, parent, name, &how, sizeof(how));

	if (fd >= 0 || (errno != ENOSYS && errno != EPERM))
		return fd;
	return openat(parent, name, flags);
}

/* Gives us permissions on a directory through a path descriptor, which a symlink can't redirect. */
static int add_permission(int parent, const char *name)
{
	_cleanup_(fd_closep) int fd =
		open_no_xdev(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	char self[40];

	if (fd < 0)
		return -1;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	return chmod(self, 0700);
}

static int open_dir(int parent, const char *name)
{
	const int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
	int fd = open_no_xdev(parent, name, flags);
	struct stat st;

	if (fd < 0 && errno == EACCES && add_permission(parent, name) == 0)
		fd = open_no_xdev(parent, name, flags);
	/* entries of a read-only directory can't be removed, except by root */
	if (fd >= 0 && geteuid() != 0 && fstat(fd, &st) == 0 && (st.st_mode & 0700) != 0700)
		(void)!fchmod(fd, 0700);
	return fd;
}

static void remove_entry(struct remover *r, int parent, const char *name, bool is_dir, int level);

/* Moving a directory changes its "..", so the directory must be writable too: open_dir() makes it
 * so. */
static void move_to_top(struct remover *r, int parent, const char *name)
{
	_cleanup_(fd_closep) int fd = open_dir(parent, name);
	char moved[64];

	for (int tries = 0; fd >= 0 && tries < 100; tries++) {
		snprintf(moved, sizeof(moved), ".moved-%d-%llu", (int)getpid(),
			 (unsigned long long)r->n_moved++);
		if (renameat(parent, name, r->top_fd, moved) == 0)
			return;
		if (errno != EEXIST && errno != ENOTEMPTY &&
		    errno != ENOTDIR) /* else: that name is taken */
			break;
	}
	note(r, name);
}

static void remove_open_dir(struct remover *r, int parent, const char *name, DIR *dir, int level)
{
	for (int passes = 0; passes < PASSES_MAX; passes++) {
		uint64_t moved_before = r->n_moved;
		struct dirent *e;
		int more;

		rewinddir(dir);
		while ((more = fs_next(dir, "", &e, NULL)) > 0)
			remove_entry(r, dirfd(dir), e->d_name, e->d_type == DT_DIR, level + 1);
		if (more < 0)
			note(r, "the entries of a directory");
		if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
			return;
		if (r->first.code != ERR_NONE)
			return;
		if (level == 0 && r->n_moved != moved_before)
			passes = 0; /* something was moved to the top */
	}
	note(r, name);
}

static void remove_dir(struct remover *r, int parent, const char *name, int level)
{
	_cleanup_(closedirp) DIR *dir = NULL;

	if (unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return;
	if (level >= LEVELS_MAX) {
		move_to_top(r, parent, name);
		return;
	}
	dir = fs_list(open_dir(parent, name));
	if (!dir) {
		if (errno != ENOENT)
			note(r, name);
		return;
	}
	remove_open_dir(r, parent, name, dir, level);
}

static void remove_entry(struct remover *r, int parent, const char *name, bool is_dir, int level)
{
	if (!is_dir) {
		if (unlinkat(parent, name, 0) == 0 || errno == ENOENT)
			return;
		if (errno != EISDIR) {
			note(r, name);
			return;
		}
	}
	remove_dir(r, parent, name, level);
}

static int remove_top(int dir_fd, const char *path, struct err *err)
{
	/* The path to the top may cross mounts and symlinks, because the caller gave it; only its
	 * last component must not be a symlink. */
	_cleanup_(freep) char *above = fs_dirname(path);
	_cleanup_(fd_closep) int parent = openat(dir_fd, above, O_PATH | O_DIRECTORY | O_CLOEXEC);
	int fd = parent < 0 ? -1 : open_dir(parent, fs_basename(path));
	_cleanup_(closedirp) DIR *dir = fs_list(fd);
	struct remover r = { .top_fd = fd };

	if (!dir)
		return err_errno(err, "cannot remove %s", path);
	remove_open_dir(&r, dir_fd, path, dir, 0);
	if (r.first.code != ERR_NONE && err)
		*err = r.first;
	return r.first.code == ERR_NONE ? 0 : -1;
}

int fs_remove_tree_at(int dir_fd, const char *path, struct err *err)
{
	_cleanup_(freep) char *p = xstrdup(path);

	for (size_t n = strlen(p); n > 1 && p[n - 1] == '/'; n--)
		p[n - 1] = '\0';
	if (unlinkat(dir_fd, p, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno == EROFS)
		return err_set(err, ERR_READ_ONLY, "cannot remove %s: the file system is read-only",
			       p);
	if (errno != EISDIR)
		return err_errno(err, "cannot remove %s", p);
	if (unlinkat(dir_fd, p, AT_REMOVEDIR) == 0 || errno == ENOENT)
		return 0;
	return remove_top(dir_fd, p, err);
}
