/* runners/kubernetes/init/parcel.c — packs small files into bytes, and lays them out again.
 *
 * An entry is its kind and mode (u32), its path (a field), and where its content lies in the bytes
 * (u64 offset, u64 length). A directory stands before what is in it. It is made writable first and
 * gets its mode when all is laid out.
 *
 * Packing walks by descriptors, without following links. Laying out opens the parent of each entry
 * below the directory, one component after the other, without links. So what a hostile program or
 * message has made can neither be read nor written outside. No state, any thread.
 */
#include "runners/kubernetes/init/parcel.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"

#define FILE_  1u
#define DIR_   2u
#define LINK_  3u
#define OTHER_ 4u
#define MODES  0777u
/* Names that tell what is there instead of an output. */
#define NAMES_MAX 64

/* fs_open_beneath() without links: the helper doesn't have that, and not every pod openat2(). */
static int open_dir_beneath(int dir_fd, const char *path)
{
	int fd = openat(dir_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	while (fd >= 0 && *path) {
		size_t n = strcspn(path, "/");
		_cleanup_(freep) char *name = xstrndup(path, n);
		_cleanup_(fd_closep) int at = fd;

		fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		path += n + (path[n] == '/');
	}
	return fd;
}

/* Packing. */

static int add_entry(struct parcel *p, unsigned kind, mode_t mode, const char *path, uint64_t at,
		     uint64_t n)
{
	str_add_u32(&p->entries, kind << 16 | (mode & MODES));
	str_add_field(&p->entries, path, strlen(path));
	str_add_u64(&p->entries, at);
	str_add_u64(&p->entries, n);
	return p->entries.len + p->bytes->len > p->max;
}

/* Where it lies; SIZE_MAX: it doesn't fit. */
static size_t add_bytes(struct parcel *p, const char *bytes, size_t n)
{
	const char *same = n && p->bytes->len ? memmem(p->bytes->s, p->bytes->len, bytes, n) : NULL;

	if (same)
		return (size_t)(same - p->bytes->s);
	if (n > p->max || p->bytes->len + n > p->max)
		return SIZE_MAX;
	str_addn(p->bytes, bytes, n);
	return p->bytes->len - n;
}

static int add_file(struct parcel *p, int fd, mode_t mode, const char *path)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	size_t at;
	ssize_t n;

	do {
		str_reserve(&text, 4096);
		n = read(fd, text.s + text.len, text.cap - text.len - 1);
		if (n < 0 && errno != EINTR)
			return -1;
		text.len += (size_t)MAX(n, 0);
		if (text.len > p->max)
			return 1;
	} while (n != 0);
	at = add_bytes(p, text.s, text.len);
	return at == SIZE_MAX ? 1 : add_entry(p, FILE_, mode, path, at, text.len);
}

static int add_link(struct parcel *p, int dir_fd, const char *name, const char *path)
{
	char target[PATH_MAX];
	ssize_t n = readlinkat(dir_fd, name, target, sizeof(target));
	size_t at = n < 0 ? 0 : add_bytes(p, target, (size_t)n);

	if (n < 0)
		return -1;
	return at == SIZE_MAX ? 1 : add_entry(p, LINK_, 0, path, at, (uint64_t)n);
}

static int add_below(struct parcel *p, int fd, const char *path, unsigned depth);

/* `path`: of the entry, as the parcel names it. */
static int add_one(struct parcel *p, int dir_fd, const char *name, const char *path, unsigned depth)
{
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	int r;

	if (fstatat(dir_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return -1;
	if (S_ISLNK(st.st_mode))
		return add_link(p, dir_fd, name, path);
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
		return add_entry(p, OTHER_, 0600, path, 0, 0);
	fd = openat(dir_fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	if (S_ISREG(st.st_mode))
		return add_file(p, fd, st.st_mode, path);
	if (depth >= PARCEL_DEPTH_MAX)
		return 1;
	r = add_entry(p, DIR_, st.st_mode, path, 0, 0);
	return r ? r : add_below(p, fd, path, depth + 1);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static int not_itself(const struct dirent *e)
{
	return strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
}

static int add_below(struct parcel *p, int fd, const char *path, unsigned depth)
{
	struct dirent **list = NULL;
	int n = scandirat(fd, ".", &list, not_itself, by_name), r = n < 0 ? -1 : 0;

	for (int i = 0; i < n; i++) {
		_cleanup_(freep) char *full = *path ? xasprintf("%s/%s", path, list[i]->d_name)
						    : xstrdup(list[i]->d_name);

		if (r == 0)
			r = add_one(p, fd, list[i]->d_name, full, depth);
		free(list[i]);
	}
	free(list);
	return r;
}

int parcel_add_all(struct parcel *p, int dir_fd)
{
	return add_below(p, dir_fd, "", 0);
}

/* What a link at `path` leads to, as a path below dir_fd; NULL: it isn't below. Nobody else changes
 * anything there meanwhile, and O_PATH reads nothing. */
static char *target_of(int dir_fd, const char *path)
{
	_cleanup_(fd_closep) int fd = openat(dir_fd, path, O_PATH | O_CLOEXEC);
	char link[64], root[PATH_MAX], full[PATH_MAX];
	ssize_t n, m;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", dir_fd);
	n = readlink(link, root, sizeof(root));
	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	m = fd < 0 ? -1 : readlink(link, full, sizeof(full) - 1);
	if (n <= 0 || m <= n + 1 || n == sizeof(root) || memcmp(root, full, (size_t)n) != 0 ||
	    full[n] != '/')
		return NULL;
	full[m] = '\0';
	return xstrdup(full + n + 1);
}

static int add_path(struct parcel *p, int dir_fd, const char *path, unsigned depth)
{
	const char *slash = path;
	struct stat st;

	/* A component that isn't a directory ends the way. */
	for (;;) {
		_cleanup_(freep) char *part = NULL, *target = NULL;
		int r;

		slash = strchrnul(slash, '/');
		part = xstrndup(path, (size_t)(slash - path));
		if (fstatat(dir_fd, part, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return -1;
		if (!*slash || (!S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode))) {
			r = add_one(p, dir_fd, part, part, depth);
			if (r != 0 || !S_ISLNK(st.st_mode))
				return r;
		} else if (S_ISDIR(st.st_mode)) {
			r = add_entry(p, DIR_, st.st_mode, part, 0, 0);
			if (r != 0)
				return r;
			slash++;
			continue;
		} else if ((r = add_link(p, dir_fd, part, part)) != 0) {
			return r;
		}
		target = target_of(dir_fd, path);
		if (!target || depth >= PARCEL_DEPTH_MAX)
			return 0;
		return add_path(p, dir_fd, target, depth + 1);
	}
}

int parcel_add(struct parcel *p, int dir_fd, const char *path)
{
	return add_path(p, dir_fd, path, 0);
}

int parcel_add_names(struct parcel *p, int dir_fd, const char *path)
{
	const char *slash = strrchr(path, '/');
	_cleanup_(freep) char *dir = xstrndup(path, slash ? (size_t)(slash - path) : 0);
	_cleanup_(fd_closep) int fd = open_dir_beneath(dir_fd, dir);
	struct dirent **list = NULL;
	int n = fd < 0 ? -1 : scandirat(fd, ".", &list, not_itself, by_name), r = n < 0 ? -1 : 0;

	for (int i = 0; i < n; i++) {
		_cleanup_(freep) char *full =
			slash ? xasprintf("%s/%s", dir, list[i]->d_name) : xstrdup(list[i]->d_name);

		if (r == 0 && i < NAMES_MAX)
			r = add_entry(p, FILE_, 0600, full, 0, 0);
		free(list[i]);
	}
	free(list);
	return r;
}

/* Laying out. */

struct reader {
	const char *at, *end;
};

static bool take_number(struct reader *r, size_t bytes, uint64_t *ret)
{
	if ((size_t)(r->end - r->at) < bytes)
		return false;
	*ret = 0;
	for (size_t i = bytes; i-- > 0;)
		*ret = *ret << 8 | (uint8_t)r->at[i];
	r->at += bytes;
	return true;
}

struct entry {
	unsigned kind;
	mode_t mode;
	char path[PATH_MAX];
	const char *bytes;
	size_t n;
};

static bool is_plain(const char *path)
{
	const char *at = path;

	for (;; at++) {
		size_t n = strcspn(at, "/");

		if (n == 0 || (n <= 2 && strncmp(at, "..", n) == 0))
			return false;
		at += n;
		if (!*at)
			return true;
	}
}

static bool take_entry(struct reader *r, const char *bytes, size_t n_bytes, struct entry *ret)
{
	uint64_t head, len, at, n;

	if (!take_number(r, 4, &head) || !take_number(r, 4, &len) || len == 0 ||
	    len >= sizeof(ret->path) || (uint64_t)(r->end - r->at) < len)
		return false;
	memcpy(ret->path, r->at, len);
	ret->path[len] = '\0';
	r->at += len;
	if (memchr(ret->path, '\0', len) || !is_plain(ret->path) || !take_number(r, 8, &at) ||
	    !take_number(r, 8, &n) || at > n_bytes || n > n_bytes - at)
		return false;
	ret->kind = (unsigned)(head >> 16);
	ret->mode = (mode_t)(head & MODES);
	ret->bytes = bytes + at;
	ret->n = n;
	return ret->kind >= FILE_ && ret->kind <= OTHER_;
}

static int open_parent(int dir_fd, const char *path, const char **ret_name)
{
	const char *slash = strrchr(path, '/');
	_cleanup_(freep) char *dir = xstrndup(path, slash ? (size_t)(slash - path) : 0);

	*ret_name = slash ? slash + 1 : path;
	return open_dir_beneath(dir_fd, dir);
}

static int lay_file(int at, const char *name, const struct entry *e)
{
	_cleanup_(fd_closep) int fd =
		openat(at, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	size_t done = 0;

	while (fd >= 0 && done < e->n) {
		ssize_t n = write(fd, e->bytes + done, e->n - done);

		if (n < 0 && errno != EINTR)
			return -1;
		done += (size_t)MAX(n, 0);
	}
	return fd < 0 || fchmod(fd, e->mode) < 0 ? -1 : 0;
}

static int lay(int dir_fd, const struct entry *e)
{
	const char *name;
	_cleanup_(fd_closep) int at = open_parent(dir_fd, e->path, &name);
	_cleanup_(freep) char *target = NULL;

	if (at < 0)
		return -1;
	switch (e->kind) {
	case FILE_:
		return lay_file(at, name, e);
	case DIR_:
		return mkdirat(at, name, 0700) < 0 && errno != EEXIST ? -1 : 0;
	case LINK_:
		target = xstrndup(e->bytes, e->n);
		return symlinkat(target, at, name) < 0 && errno != EEXIST ? -1 : 0;
	default:
		return mkfifoat(at, name, 0600);
	}
}

static int set_mode(int dir_fd, const struct entry *e)
{
	_cleanup_(fd_closep) int fd = open_dir_beneath(dir_fd, e->path);

	return fd < 0 ? -1 : fchmod(fd, e->mode);
}

int parcel_lay(int dir_fd, const char *entries, size_t n, const char *bytes, size_t n_bytes)
{
	struct reader r = { entries, entries + n };
	_cleanup_(freep) struct entry *e = xmalloc(sizeof(*e));
	VEC(size_t) dirs = { 0 }; /* where their entries begin */
	int result = 0;

	while (r.at < r.end && result == 0) {
		size_t begin = (size_t)(r.at - entries);

		if (!take_entry(&r, bytes, n_bytes, e)) {
			errno = EINVAL;
			result = -1;
			break;
		}
		result = lay(dir_fd, e);
		if (e->kind == DIR_)
			VEC_PUSH(&dirs, begin);
	}
	while (dirs.n > 0 && result == 0) {
		struct reader again = { entries + dirs.v[--dirs.n], entries + n };

		take_entry(&again, bytes, n_bytes, e);
		result = set_mode(dir_fd, e);
	}
	VEC_FREE(&dirs);
	return result;
}
