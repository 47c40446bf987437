/* engine/run/task/git_index.c — reads an index and the work tree side by side.
 *
 * Entries of an index are sorted by path, and so are the names that the walk meets, when a
 * directory counts as its name and a '/'. So both are read once, as streams: read_entry() has one
 * entry at a time, walk() the names of the directories on the way to it. A file is unchanged if
 * size, mode, times and inode are those of its entry, and it is older than the index. The answer is
 * dirty only for what git calls dirty without reading files: another size, mode or kind, a name
 * that is gone or untracked. Everything else is unsure.
 *
 * Last, the extension TREE of the index tells whether it is the tree of HEAD.
 *
 * The index may be hostile: all lengths are checked, and a path leads nowhere, because names are
 * only compared.
 */
#include "run/task/git_index.h"
#include <dirent.h>
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/text/str.h"

#define OID_BYTES     20
#define PATH_BYTES    4096
#define DEPTH_MAX     512
#define FLAG_VALID    0x8000 /* "assume unchanged" */
#define FLAG_EXTENDED 0x4000
#define FLAG_STAGE    0x3000

/* As it is in the file, in network byte order. */
struct raw_entry {
	uint32_t ctime_s, ctime_ns, mtime_s, mtime_ns, dev, ino, mode, uid, gid, size;
	uint8_t oid[OID_BYTES];
	uint16_t flags;
} __attribute__((packed));

struct reader {
	int fd;
	struct stat st;
	uint8_t buf[64 * KIB];
	size_t at, len;
	uint64_t taken; /* bytes of the file before buf[at] */
	uint32_t version, left;
	bool at_end; /* no entry is left */
	struct raw_entry entry;
	char path[PATH_BYTES]; /* of the entry */
	size_t path_len;
};

struct look {
	const struct git_index_look *o;
	struct reader r;
	struct str path; /* of the directory that is walked, with its '/'; empty at the top */
	dev_t state_dev;
	ino_t state_ino;
};

/* The stream. */

static bool get(struct reader *r, void *ret, size_t n)
{
	uint8_t *to = ret;

	while (n) {
		size_t part = MIN(n, r->len - r->at);

		memcpy(to, r->buf + r->at, part);
		r->at += part;
		r->taken += part;
		to += part;
		n -= part;
		if (n) {
			ssize_t got = read(r->fd, r->buf, sizeof(r->buf));

			if (got <= 0)
				return false;
			r->at = 0;
			r->len = (size_t)got;
		}
	}
	return true;
}

static bool get_u32(struct reader *r, uint32_t *ret)
{
	if (!get(r, ret, sizeof(*ret)))
		return false;
	*ret = be32toh(*ret);
	return true;
}

/* A split index lacks the entries of its other part, whose file is beside it. */
static bool is_split(const char *path)
{
	_cleanup_(freep) char *dir = fs_dirname(path);
	DIR *d = opendir(dir);
	struct dirent *e;
	bool split = false;

	while (d && !split && fs_next(d, dir, &e, NULL) > 0)
		split = str_has_prefix(e->d_name, "sharedindex.");
	if (d)
		closedir(d);
	return split;
}

static bool open_index(struct reader *r, const char *path)
{
	uint32_t magic;

	if (is_split(path))
		return false;
	r->fd = open(path, O_RDONLY | O_CLOEXEC);
	return r->fd >= 0 && fstat(r->fd, &r->st) == 0 && get_u32(r, &magic) &&
	       magic == 0x44495243 /* DIRC */ && get_u32(r, &r->version) && r->version >= 2 &&
	       r->version <= 4 && get_u32(r, &r->left);
}

/* Version 4: how many bytes of the last path are dropped. */
static bool get_dropped(struct reader *r, size_t *ret)
{
	uint8_t c;
	size_t n;

	if (!get(r, &c, 1))
		return false;
	for (n = c & 127; c & 128; n = ((n + 1) << 7) | (c & 127))
		if (n > PATH_BYTES || !get(r, &c, 1))
			return false;
	*ret = n;
	return n <= r->path_len;
}

static bool get_path(struct reader *r)
{
	size_t dropped = r->path_len;

	if (r->version == 4 && !get_dropped(r, &dropped))
		return false;
	for (r->path_len -= dropped; r->path_len < PATH_BYTES; r->path_len++) {
		if (!get(r, &r->path[r->path_len], 1))
			return false;
		if (!r->path[r->path_len])
			return r->path_len > 0;
	}
	return false;
}

/* False: unsure. */
static bool read_entry(struct reader *r)
{
	uint64_t began = r->taken;
	char padding[8];
	uint16_t flags;

	if (r->left == 0) {
		r->at_end = true;
		return true;
	}
	r->left--;
	if (!get(r, &r->entry, sizeof(r->entry)))
		return false;
	flags = be16toh(r->entry.flags);
	if (!S_ISREG(be32toh(r->entry.mode)) && !S_ISLNK(be32toh(r->entry.mode)))
		return false; /* a submodule, or a directory of a sparse index */
	/* Extended flags: an entry outside of a sparse checkout, or one without content yet. */
	if (flags & (FLAG_VALID | FLAG_EXTENDED | FLAG_STAGE) || !get_path(r))
		return false;
	return r->version == 4 || get(r, padding, (8 - (r->taken - began) % 8) % 8);
}

/* After the entries: names and lengths of extensions, then a checksum. */
static enum git_index_state compare_tree(struct look *l)
{
	struct reader *r = &l->r;
	uint8_t skipped[4096], oid[OID_BYTES];
	char sign[4], c;

	while (r->taken + OID_BYTES < (uint64_t)r->st.st_size) {
		uint32_t n;

		if (!get(r, sign, sizeof(sign)) || !get_u32(r, &n))
			return GIT_INDEX_UNSURE;
		if (memcmp(sign, "TREE", 4) == 0) { /* "" NUL COUNT ' ' SUBTREES '\n' OID */
			if (n < 5 + OID_BYTES || !get(r, &c, 1) || c || !get(r, &c, 1) || c == '-')
				return GIT_INDEX_UNSURE;
			for (n -= 2; c != '\n'; n--)
				if (n <= OID_BYTES || !get(r, &c, 1))
					return GIT_INDEX_UNSURE;
			if (!get(r, oid, sizeof(oid)))
				return GIT_INDEX_UNSURE;
			return memcmp(oid, l->o->head_tree, sizeof(oid)) == 0 ? GIT_INDEX_CLEAN
									      : GIT_INDEX_DIRTY;
		}
		if (sign[0] < 'A' || sign[0] > 'Z') /* not to be ignored: a split or sparse index */
			return GIT_INDEX_UNSURE;
		for (; n; n -= MIN(n, sizeof(skipped)))
			if (!get(r, skipped, MIN(n, sizeof(skipped))))
				return GIT_INDEX_UNSURE;
	}
	return GIT_INDEX_UNSURE;
}

/* The work tree. */

struct name {
	char *s;
	size_t len;
	bool is_dir; /* then s ends in '/' */
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct name *)a)->s, ((const struct name *)b)->s);
}

struct names {
	struct arena *arena;
	VEC(struct name) list;
};

static void names_deinit(struct names *n)
{
	VEC_FREE(&n->list);
	arena_free(n->arena);
}

static bool read_names(const struct look *l, int fd, struct names *ret)
{
	int own = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = own < 0 ? NULL : fdopendir(own);
	struct dirent *e;
	int r = -1;

	if (!d && own >= 0)
		close(own);
	ret->arena = arena_new();
	while (d && (r = fs_next(d, ".", &e, NULL)) > 0) {
		struct name n = { .len = strlen(e->d_name), .is_dir = e->d_type == DT_DIR };
		struct stat st;

		if (l->path.len == 0 && str_eq(e->d_name, ".git"))
			continue;
		if (e->d_type == DT_UNKNOWN || (n.is_dir && e->d_ino == l->state_ino)) {
			if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
				break;
			n.is_dir = S_ISDIR(st.st_mode);
			if (n.is_dir && st.st_ino == l->state_ino && st.st_dev == l->state_dev)
				continue;
		}
		n.s = arena_alloc(ret->arena, n.len + 2);
		memcpy(n.s, e->d_name, n.len);
		memcpy(n.s + n.len, n.is_dir ? "/" : "", n.is_dir ? 2 : 1);
		VEC_PUSH(&ret->list, n);
	}
	if (d)
		closedir(d);
	if (ret->list.n)
		qsort(ret->list.v, ret->list.n, sizeof(*ret->list.v), by_name);
	return r == 0;
}

static bool is_time(const struct timespec *t, uint32_t s, uint32_t ns)
{
	return (uint32_t)t->tv_sec == be32toh(s) && (uint32_t)t->tv_nsec == be32toh(ns);
}

/* CLEAN: this file is. */
static enum git_index_state compare_file(const struct look *l, int fd, const char *name)
{
	const struct raw_entry *e = &l->r.entry;
	uint32_t mode = be32toh(e->mode);
	struct stat st;

	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return GIT_INDEX_UNSURE;
	if ((mode & S_IFMT) != (st.st_mode & S_IFMT) ||
	    (S_ISREG(st.st_mode) && (mode & S_IXUSR) != (st.st_mode & S_IXUSR)))
		return GIT_INDEX_DIRTY;
	/* Git writes 0 into entries that are as new as the index itself. */
	if (be32toh(e->size) != (uint32_t)st.st_size)
		return e->size ? GIT_INDEX_DIRTY : GIT_INDEX_UNSURE;
	if (!is_time(&st.st_mtim, e->mtime_s, e->mtime_ns) ||
	    !is_time(&st.st_ctim, e->ctime_s, e->ctime_ns) ||
	    be32toh(e->ino) != (uint32_t)st.st_ino)
		return GIT_INDEX_UNSURE;
	return st.st_mtim.tv_sec < l->r.st.st_mtim.tv_sec ||
			       (st.st_mtim.tv_sec == l->r.st.st_mtim.tv_sec &&
				st.st_mtim.tv_nsec < l->r.st.st_mtim.tv_nsec)
		       ? GIT_INDEX_CLEAN
		       : GIT_INDEX_UNSURE;
}

static enum git_index_state walk(struct look *l, int dir_fd, const char *name, bool tracked,
				 int depth);

/* A name that no entry has. A directory counts for what is in it. */
static enum git_index_state see_untracked(struct look *l, int fd, const struct name *n, int depth)
{
	size_t len = l->path.len;
	bool ignored;

	str_add(&l->path, n->s);
	ignored = l->o->is_ignored(l->o->arg, l->path.s);
	l->path.len = len;
	l->path.s[len] = '\0';
	if (ignored)
		return GIT_INDEX_CLEAN;
	return n->is_dir ? walk(l, fd, n->s, false, depth + 1) : GIT_INDEX_DIRTY;
}

static enum git_index_state see_name(struct look *l, int fd, const struct name *n, int depth)
{
	struct reader *r = &l->r;
	size_t dir = l->path.len;
	int order;

	if (r->at_end)
		return see_untracked(l, fd, n, depth);
	if (strncmp(r->path, l->path.s, dir) != 0)
		/* Of another directory, which comes before this one only if it is gone. */
		return strcmp(r->path, l->path.s) < 0 ? GIT_INDEX_DIRTY
						      : see_untracked(l, fd, n, depth);
	if (n->is_dir && strncmp(r->path + dir, n->s, n->len + 1) == 0)
		return walk(l, fd, n->s, true, depth + 1);
	order = strcmp(r->path + dir, n->s);
	if (order < 0)
		return GIT_INDEX_DIRTY; /* it is gone */
	if (order > 0)
		return see_untracked(l, fd, n, depth);
	order = (int)compare_file(l, fd, n->s);
	if (order == GIT_INDEX_CLEAN && !read_entry(r))
		return GIT_INDEX_UNSURE;
	return (enum git_index_state)order;
}

static enum git_index_state walk(struct look *l, int dir_fd, const char *name, bool tracked,
				 int depth)
{
	_cleanup_(fd_closep) int fd =
		openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_(names_deinit) struct names names = { 0 };
	enum git_index_state state = GIT_INDEX_CLEAN;
	size_t len = l->path.len;

	if (depth > 0)
		str_add(&l->path, name);
	if (fd < 0 || depth > DEPTH_MAX || !read_names(l, fd, &names))
		return GIT_INDEX_UNSURE; /* ends all */
	for (size_t i = 0; i < names.list.n && state == GIT_INDEX_CLEAN; i++)
		/* A repository of its own: git decides what that is. */
		state = depth > 0 && str_has_prefix(names.list.v[i].s, ".git") &&
					names.list.v[i].s[4 + names.list.v[i].is_dir] == '\0'
				? GIT_INDEX_UNSURE
				: see_name(l, fd, &names.list.v[i], depth);
	if (state == GIT_INDEX_CLEAN && tracked && !l->r.at_end &&
	    strncmp(l->r.path, l->path.s, l->path.len) == 0)
		state = GIT_INDEX_DIRTY; /* its last names are gone */
	l->path.len = len;
	l->path.s[len] = '\0';
	return state;
}

enum git_index_state git_index_look(const struct git_index_look *o)
{
	struct look *l = xcalloc(1, sizeof(*l));
	enum git_index_state state = GIT_INDEX_UNSURE;
	struct stat st;

	l->o = o;
	if (o->state_dir && stat(o->state_dir, &st) == 0) {
		l->state_dev = st.st_dev;
		l->state_ino = st.st_ino;
	}
	str_add(&l->path, "");
	l->r.fd = -1;
	if (open_index(&l->r, o->index) && read_entry(&l->r))
		state = walk(l, AT_FDCWD, o->workdir, true, 0);
	if (state == GIT_INDEX_CLEAN)
		state = compare_tree(l);
	fd_closep(&l->r.fd);
	str_deinit(&l->path);
	free(l);
	return state;
}
