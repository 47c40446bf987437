/* engine/base/os/fs.c — files: whole reads, atomic writes, directories, copies, locks.
 *
 * An atomic write is a temporary in the same directory (fs_temp_at()), filled and synced, renamed
 * into place, and a sync of the directory. Without RENAME_NOREPLACE, a hard link makes a new
 * name. Each failure removes the temporary; a crash leaves it.
 *
 * A copy is a reflink, else copy_file_range() between holes, else a buffer; each method continues
 * where the previous one fails. Locks are open-file-description locks only. Nothing here has state,
 * and nothing logs.
 *
 * fs_remove.c removes trees, fs_beneath.c handles hostile places, fs_path.c lexical paths.
 */
#include "base/os/fs.h"
#include <errno.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include "base/mem.h"
#include "base/os/machine.h"

/* The piece size for copy_file_range(), because some C libraries and file systems silently cut
 * larger ones short. */
#define COPY_PIECE (1024 * MIB)

static int fs_errno(struct err *err, const char *what, const char *path)
{
	int e = errno;

	if (e == EROFS)
		return err_set(err, ERR_READ_ONLY, "%s %s: the file system is read-only", what,
			       path);
	if (e == EEXIST)
		return err_set(err, ERR_EXISTS, "%s %s: it exists already", what, path);
	errno = e;
	return err_errno(err, "%s %s", what, path);
}

/* Whole files. */

static int too_large(const char *path, uint64_t max_bytes, struct err *err)
{
	return err_set(err, ERR_TOO_LARGE, "%s is larger than %llu bytes", path,
		       (unsigned long long)max_bytes);
}

static int read_to_end(int fd, const char *path, uint64_t max_bytes, struct str *ret,
		       struct err *err)
{
	size_t start = ret->len;

	for (;;) {
		ssize_t n;

		if (ret->cap - ret->len <
		    2) /* rare: usually the size was right, and the last read gives 0 */
			str_reserve(ret, 65536);
		n = read(fd, ret->s + ret->len, ret->cap - ret->len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return fs_errno(err, "cannot read", path);
		if (n == 0)
			return 0;
		ret->len += (size_t)n;
		if (ret->len - start > max_bytes)
			return too_large(path, max_bytes, err);
	}
}

int fs_read_file_at(int dir_fd, const char *path, uint64_t max_bytes, struct str *ret,
		    struct err *err)
{
	_cleanup_(fd_closep) int fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t start = ret->len;
	struct stat st;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0)
		return fs_errno(err, "cannot read", path);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a regular file", path);
	if ((uint64_t)st.st_size > max_bytes)
		return too_large(path, max_bytes, err);
	str_reserve(ret, (size_t)st.st_size + 1);
	r = read_to_end(fd, path, max_bytes, ret, err);
	if (r < 0)
		ret->len = start;
	ret->s[ret->len] = '\0';
	return r;
}

ssize_t fs_read_at(int fd, void *buf, size_t n, off_t at)
{
	size_t done = 0;

	while (done < n) {
		ssize_t got = pread(fd, (char *)buf + done, n - done, at + (off_t)done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			return -1;
		if (got == 0)
			break;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

int fs_write_all(int fd, const void *bytes, size_t n, struct err *err)
{
	const char *at = bytes;

	while (n) {
		ssize_t w = write(fd, at, MIN(n, (size_t)COPY_PIECE));

		if (w < 0 && errno == EINTR)
			continue;
		if (w < 0)
			return err_errno(err, "cannot write");
		at += w;
		n -= (size_t)w;
	}
	return 0;
}

int fs_temp_at(int dir_fd, const char *path, mode_t mode, int *ret_fd, char **ret_name,
	       struct err *err)
{
	_cleanup_(freep) char *dir = fs_dirname(path);

	for (int tries = 0; tries < 100; tries++) {
		char *name;
		int fd;

		name = xasprintf("%s%s.tmp-%016llx", strcmp(dir, ".") ? dir : "",
				 strcmp(dir, ".") ? "/" : "", (unsigned long long)random_u64());
		fd = openat(dir_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, mode);
		if (fd >= 0) {
			*ret_fd = fd;
			*ret_name = name;
			return 0;
		}
		free(name);
		if (errno != EEXIST)
			return fs_errno(err, "cannot write", path);
	}
	return err_set(err, ERR_EXISTS, "cannot find a free temporary name beside %s", path);
}

int fs_unnamed_at(int dir_fd, const char *dir, struct err *err)
{
	int fd = dir_fd != -1 ? openat(dir_fd, dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;

	if (fd < 0)
		fd = memfd_create("cairn", MFD_CLOEXEC);
	return fd < 0 ? err_errno(err, "cannot make a temporary file") : fd;
}

int fs_sync_dir_at(int dir_fd, const char *path, struct err *err)
{
	_cleanup_(fd_closep) int fd = openat(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0 || (fsync(fd) < 0 && errno != EINVAL))
		return fs_errno(err, "cannot sync", path);
	return 0;
}

/* File systems without RENAME_NOREPLACE (NFS) have hard links instead. */
static int rename_into_place(int dir_fd, const char *temp, const char *path, bool must_be_new)
{
	if (!must_be_new)
		return renameat(dir_fd, temp, dir_fd, path);
	if (renameat2(dir_fd, temp, dir_fd, path, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	if (linkat(dir_fd, temp, dir_fd, path, 0) < 0)
		return -1;
	unlinkat(dir_fd, temp, 0);
	return 0;
}

int fs_write_atomic_at(int dir_fd, const char *path, const void *bytes, size_t n, mode_t mode,
		       int flags, struct err *err)
{
	_cleanup_(freep) char *temp = NULL, *dir = fs_dirname(path);
	_cleanup_(fd_closep) int fd = -1;
	bool sync = !(flags & FS_WRITE_NO_SYNC);
	int r;

	if (fs_temp_at(dir_fd, path, mode | 0200, &fd, &temp, err) < 0)
		return -1;
	r = fs_write_all(fd, bytes, n, err);
	if (r == 0 && !(mode & 0200) && fchmod(fd, mode) < 0)
		r = err_errno(err, "cannot set the mode");
	if (r == 0 && sync && fsync(fd) < 0)
		r = err_errno(err, "cannot sync");
	if (r < 0)
		err_wrap(err, "%s", path);
	if (r == 0 && rename_into_place(dir_fd, temp, path, flags & FS_WRITE_NEW) < 0)
		r = fs_errno(err, flags & FS_WRITE_NEW ? "cannot make" : "cannot replace", path);
	if (r == 0 && sync)
		r = fs_sync_dir_at(dir_fd, dir, err);
	if (r < 0)
		unlinkat(dir_fd, temp, 0);
	return r;
}

/* Directories. */

DIR *fs_list(int fd)
{
	DIR *d = fd < 0 ? NULL : fdopendir(fd); /* lint: fdopendir because this is fs_list() */

	if (!d && fd >= 0) {
		int e = errno;

		close(fd);
		errno = e;
	}
	return d;
}

int fs_next(DIR *d, const char *what, struct dirent **ret, struct err *err)
{
	do
		errno = 0, *ret = readdir(d); /* lint: readdir because this is fs_next() */
	while (*ret && (strcmp((*ret)->d_name, ".") == 0 || strcmp((*ret)->d_name, "..") == 0));
	if (*ret)
		return 1;
	return errno ? err_errno(err, "cannot read directory %s", what) : 0;
}

struct dated {
	char *name;
	struct timespec changed;
};

static int newest_first(const void *a, const void *b)
{
	const struct timespec *x = &((const struct dated *)a)->changed,
			      *y = &((const struct dated *)b)->changed;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? 1 : -1;
	return (x->tv_nsec < y->tv_nsec) - (x->tv_nsec > y->tv_nsec);
}

void fs_keep_newest(const char *dir, size_t keep,
		    bool (*counts)(int dir_fd, const char *name, const struct stat *st))
{
	VEC(struct dated) files = { 0 };
	DIR *d = opendir(dir);
	struct dirent *e;
	struct stat st;

	if (!d)
		return;
	while (fs_next(d, dir, &e, NULL) > 0)
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		    counts(dirfd(d), e->d_name, &st))
			VEC_PUSH(&files, ((struct dated){ xstrdup(e->d_name), st.st_mtim }));
	if (files.n > keep)
		qsort(files.v, files.n, sizeof(*files.v), newest_first);
	for (size_t i = 0; i < files.n; i++) {
		if (i >= keep)
			unlinkat(dirfd(d), files.v[i].name, 0);
		free(files.v[i].name);
	}
	VEC_FREE(&files);
	closedir(d);
}

int fs_mkdir_p_at(int dir_fd, const char *path, mode_t mode, struct err *err)
{
	_cleanup_(freep) char *copy = xstrdup(path);
	struct stat st;

	if (mkdirat(dir_fd, path, mode) == 0)
		return 0;
	for (char *slash = errno == ENOENT && *path ? strchr(copy + 1, '/') : NULL; slash;
	     slash = strchr(slash + 1, '/')) {
		*slash = '\0';
		if (mkdirat(dir_fd, copy, mode) < 0 && errno != EEXIST)
			return fs_errno(err, "cannot make directory", copy);
		*slash = '/';
	}
	if (mkdirat(dir_fd, path, mode) == 0)
		return 0;
	if (errno != EEXIST)
		return fs_errno(err, "cannot make directory", path);
	if (fstatat(dir_fd, path, &st, 0) < 0)
		return fs_errno(err, "cannot make directory", path);
	return S_ISDIR(st.st_mode)
		       ? 0
		       : err_set(err, ERR_EXISTS, "%s exists and is not a directory", path);
}

/* Copies. */

int fs_reflink(int from, int to)
{
	return ioctl(to, FICLONE, from) == 0 ? 0 : 1;
}

static int copy_by_buffer(int from, int to, off_t at, off_t end, struct err *err)
{
	_cleanup_(freep) char *buf = xmalloc(256 * KIB);

	while (at < end) {
		ssize_t n = pread(from, buf, MIN((size_t)(end - at), (size_t)(256 * KIB)), at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot read");
		if (n == 0)
			return err_set(err, ERR_CHANGED,
				       "the file got shorter while it was copied");
		for (ssize_t done = 0; done < n;) {
			ssize_t w = pwrite(to, buf + done, (size_t)(n - done), at + done);

			if (w < 0 && errno != EINTR)
				return err_errno(err, "cannot write");
			done += w > 0 ? w : 0;
		}
		at += n;
	}
	return 0;
}

int fs_copy_range(int from, int to, off_t at, off_t end, struct err *err)
{
	while (at < end) {
		off_t in = at, out = at;
		ssize_t n = copy_file_range(from, &in, to, &out,
					    MIN((size_t)(end - at), (size_t)COPY_PIECE), 0);

		if (n < 0 && (errno == ENOSPC || errno == EDQUOT || errno == EIO))
			return err_errno(err, "cannot copy");
		if (n <= 0)
			return copy_by_buffer(from, to, at, end, err);
		at += n;
	}
	return 0;
}

int fs_copy_fd(int from, int to, struct err *err)
{
	struct stat st;
	off_t at = 0;

	if (fstat(from, &st) < 0)
		return err_errno(err, "cannot read");
	if (st.st_size == 0 || fs_reflink(from, to) == 0)
		return 0;
	while (at < st.st_size) {
		off_t data = lseek(from, at, SEEK_DATA), hole;

		if (data < 0 && errno == ENXIO)
			break; /* a hole up to the end */
		if (data < 0)
			data = at;
		hole = lseek(from, data, SEEK_HOLE);
		if (hole < 0 || hole > st.st_size)
			hole = st.st_size;
		if (fs_copy_range(from, to, data, hole, err) < 0)
			return -1;
		at = hole;
	}
	return ftruncate(to, st.st_size) < 0 ? err_errno(err, "cannot write") : 0;
}

int fs_copy_file_at(int from_dir, const char *from, int to_dir, const char *to, mode_t mode,
		    struct err *err)
{
	_cleanup_(fd_closep) int in = openat(from_dir, from,
					     O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK),
				 out = -1;
	struct stat st;
	int r;

	if (in < 0 || fstat(in, &st) < 0)
		return fs_errno(err, "cannot read", from);
	if (!S_ISREG(st.st_mode))
		return err_set(err, ERR_INVALID, "%s is not a regular file", from);
	out = openat(to_dir, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (out < 0)
		return fs_errno(err, "cannot make", to);
	r = fs_copy_fd(in, out, err);
	if (r == 0 && fchmod(out, mode) < 0)
		r = err_errno(err, "cannot set the mode");
	if (r < 0) {
		err_wrap(err, "copying %s to %s", from, to);
		unlinkat(to_dir, to, 0);
	}
	return r;
}

/* Locks. */

static int set_lock(int fd, int command, short type, off_t start, off_t len)
{
	struct flock fl = { .l_type = type, .l_whence = SEEK_SET, .l_start = start, .l_len = len };
	int r;

	do
		r = fcntl(fd, command, &fl);
	while (r < 0 && errno == EINTR && command == F_OFD_SETLKW);
	return r;
}

int fs_lock(int fd, bool wait, struct err *err)
{
	if (set_lock(fd, wait ? F_OFD_SETLKW : F_OFD_SETLK, F_WRLCK, 0, 0) == 0)
		return 0;
	if (!wait && (errno == EAGAIN || errno == EACCES))
		return 1;
	return err_errno(err, "cannot lock");
}

void fs_unlock(int fd)
{
	set_lock(fd, F_OFD_SETLK, F_UNLCK, 0, 0);
}

int fs_lock_path(const char *path, bool wait, int *ret_fd, struct err *err)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666), r;

	if (fd < 0)
		return fs_errno(err, "cannot open the lock file", path);
	r = fs_lock(fd, wait, err);
	if (r == 0)
		*ret_fd = fd;
	else
		close(fd);
	return r < 0 ? err_wrap(err, "%s", path) : r;
}

int fs_lock_range_try(int fd, uint64_t offset, struct err *err)
{
	if (set_lock(fd, F_OFD_SETLK, F_WRLCK, (off_t)(offset & FS_LOCK_OFFSET_MAX), 1) == 0)
		return 0;
	return errno == EAGAIN || errno == EACCES ? 1 : err_errno(err, "cannot lock");
}

void fs_unlock_range(int fd, uint64_t offset)
{
	set_lock(fd, F_OFD_SETLK, F_UNLCK, (off_t)(offset & FS_LOCK_OFFSET_MAX), 1);
}

/* File systems. */

const char *fs_network_name(const char *path)
{
	/* statfs(2) and linux/magic.h; Lustre's and GPFS's are from their own sources. */
	static const struct {
		unsigned long magic;
		const char *name;
	} known[] = {
		{ 0x6969, "NFS" },        { 0x517b, "SMB" },      { 0xfe534d42, "SMB" },
		{ 0xff534d42, "CIFS" },   { 0x65735546, "FUSE" }, { 0x5346414f, "AFS" },
		{ 0x6b414653, "AFS" },    { 0x00c36400, "Ceph" }, { 0x01021997, "9P" },
		{ 0x0bd00bd0, "Lustre" }, { 0x47504653, "GPFS" }, { 0x01161970, "GFS2" },
		{ 0x7461636f, "OCFS2" },
	};
	struct statfs st;

	if (statfs(path, &st) < 0)
		return NULL;
	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if ((unsigned long)st.f_type == known[i].magic)
			return known[i].name;
	return NULL;
}

bool fs_leads_to(const char *path, int fd)
{
	struct stat named, opened;

	return stat(path, &named) == 0 && fstat(fd, &opened) == 0 &&
	       named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}
