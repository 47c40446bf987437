/* engine/run/task/work_tree.c — reads an index and the work tree side by side.
 *
 * Entries of an index are sorted by path, and so are the names that the walk meets, when a
 * directory counts as its name and a '/'. So both are read once, as streams: next_entry() has one
 * entry at a time, walk() the names of the directories on the way to it. A file is unchanged if
 * size, mode, times and inode are those of its entry, and it is older than the index. The answer is
 * dirty only for what git calls dirty without reading files: another size, mode or kind, a name
 * that is gone or untracked. Everything else is unsure.
 *
 * Last, the tree that the index notes tells whether it is the tree of HEAD.
 *
 * The index may be hostile: a path leads nowhere, because names are only compared.
 */
#include "run/task/work_tree.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/gitindex.h"
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/text/str.h"

#define DEPTH_MAX 512

struct look {
	const struct work_tree_scan *o;
	struct gitindex *index;
	const struct gitindex_entry *entry; /* NULL: none is left */
	struct str path; /* of the directory that is walked, with its '/'; empty at the top */
	dev_t state_dev;
	ino_t state_ino;
};

/* A split index lacks the entries of its other part, whose file is beside it. */
static bool is_split(const char *path)
{
	_cleanup_(freep) char *dir = fs_dirname(path);
	_cleanup_(closedirp) DIR *d = opendir(dir);
	struct dirent *e;
	bool split = false;

	while (d && !split && fs_next(d, dir, &e, NULL) > 0)
		split = str_has_prefix(e->d_name, "sharedindex.");
	return split;
}

/* False: unsure. */
static bool next_entry(struct look *l)
{
	const struct gitindex_entry *e;
	int r = gitindex_next(l->index, &e);

	l->entry = r > 0 ? e : NULL;
	if (r <= 0)
		return r == 0;
	/* Else a submodule, or a directory of a sparse index. */
	return (S_ISREG(e->mode) || S_ISLNK(e->mode)) && e->path_len < sizeof(e->path) &&
	       !(e->flags & (GITINDEX_VALID | GITINDEX_EXTENDED | GITINDEX_STAGE));
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
	_cleanup_(closedirp) DIR *d = fs_list_at(fd, ".", 0);
	struct dirent *e;
	int r = -1;

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
	if (ret->list.n)
		qsort(ret->list.v, ret->list.n, sizeof(*ret->list.v), by_name);
	return r == 0;
}

static bool is_time(const struct timespec *t, uint32_t s, uint32_t ns)
{
	return (uint32_t)t->tv_sec == s && (uint32_t)t->tv_nsec == ns;
}

/* CLEAN: this file is. */
static enum work_tree_state compare_file(const struct look *l, int fd, const char *name)
{
	const struct gitindex_entry *e = l->entry;
	const struct timespec *written = &gitindex_stat(l->index)->st_mtim;
	struct stat st;

	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return WORK_TREE_UNSURE;
	if ((e->mode & S_IFMT) != (st.st_mode & S_IFMT) ||
	    (S_ISREG(st.st_mode) && (e->mode & S_IXUSR) != (st.st_mode & S_IXUSR)))
		return WORK_TREE_DIRTY;
	/* Git writes 0 into entries that are as new as the index itself. */
	if (e->size != (uint32_t)st.st_size)
		return e->size ? WORK_TREE_DIRTY : WORK_TREE_UNSURE;
	if (!is_time(&st.st_mtim, e->mtime_s, e->mtime_ns) ||
	    !is_time(&st.st_ctim, e->ctime_s, e->ctime_ns) || e->ino != (uint32_t)st.st_ino)
		return WORK_TREE_UNSURE;
	return st.st_mtim.tv_sec < written->tv_sec || (st.st_mtim.tv_sec == written->tv_sec &&
						       st.st_mtim.tv_nsec < written->tv_nsec)
		       ? WORK_TREE_CLEAN
		       : WORK_TREE_UNSURE;
}

static enum work_tree_state walk(struct look *l, int dir_fd, const char *name, bool tracked,
				 int depth);

/* A name that no entry has. A directory counts for what is in it. */
static enum work_tree_state see_untracked(struct look *l, int fd, const struct name *n, int depth)
{
	size_t len = l->path.len;
	bool ignored;

	str_add(&l->path, n->s);
	ignored = l->o->is_ignored(l->o->arg, l->path.s);
	l->path.len = len;
	l->path.s[len] = '\0';
	if (ignored)
		return WORK_TREE_CLEAN;
	return n->is_dir ? walk(l, fd, n->s, false, depth + 1) : WORK_TREE_DIRTY;
}

static enum work_tree_state see_name(struct look *l, int fd, const struct name *n, int depth)
{
	const char *path = l->entry ? l->entry->path : NULL;
	size_t dir = l->path.len;
	int order;

	if (!path)
		return see_untracked(l, fd, n, depth);
	if (strncmp(path, l->path.s, dir) != 0)
		/* Of another directory, which comes before this one only if it is gone. */
		return strcmp(path, l->path.s) < 0 ? WORK_TREE_DIRTY
						   : see_untracked(l, fd, n, depth);
	if (n->is_dir && strncmp(path + dir, n->s, n->len + 1) == 0)
		return walk(l, fd, n->s, true, depth + 1);
	order = strcmp(path + dir, n->s);
	if (order < 0)
		return WORK_TREE_DIRTY; /* it is gone */
	if (order > 0)
		return see_untracked(l, fd, n, depth);
	order = (int)compare_file(l, fd, n->s);
	if (order == WORK_TREE_CLEAN && !next_entry(l))
		return WORK_TREE_UNSURE;
	return (enum work_tree_state)order;
}

static enum work_tree_state walk(struct look *l, int dir_fd, const char *name, bool tracked,
				 int depth)
{
	_cleanup_(fd_closep) int fd =
		openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_(names_deinit) struct names names = { 0 };
	enum work_tree_state state = WORK_TREE_CLEAN;
	size_t len = l->path.len;

	if (depth > 0)
		str_add(&l->path, name);
	if (fd < 0 || depth > DEPTH_MAX || !read_names(l, fd, &names))
		return WORK_TREE_UNSURE; /* ends all */
	for (size_t i = 0; i < names.list.n && state == WORK_TREE_CLEAN; i++)
		/* A repository of its own: git decides what that is. */
		state = depth > 0 && str_has_prefix(names.list.v[i].s, ".git") &&
					names.list.v[i].s[4 + names.list.v[i].is_dir] == '\0'
				? WORK_TREE_UNSURE
				: see_name(l, fd, &names.list.v[i], depth);
	if (state == WORK_TREE_CLEAN && tracked && l->entry &&
	    strncmp(l->entry->path, l->path.s, l->path.len) == 0)
		state = WORK_TREE_DIRTY; /* its last names are gone */
	l->path.len = len;
	l->path.s[len] = '\0';
	return state;
}

enum work_tree_state work_tree_scan(const struct work_tree_scan *o)
{
	struct look l = { .o = o };
	enum work_tree_state state = WORK_TREE_UNSURE;
	uint8_t tree[GITINDEX_SHA1];
	struct stat st;

	if (o->state_dir && stat(o->state_dir, &st) == 0) {
		l.state_dev = st.st_dev;
		l.state_ino = st.st_ino;
	}
	str_add(&l.path, "");
	if (!is_split(o->index))
		l.index = gitindex_open(o->index, GITINDEX_SHA1);
	if (l.index && next_entry(&l))
		state = walk(&l, AT_FDCWD, o->workdir, true, 0);
	if (state == WORK_TREE_CLEAN) {
		if (!gitindex_tree(l.index, tree))
			state = WORK_TREE_UNSURE;
		else if (memcmp(tree, o->head_tree, sizeof(tree)) != 0)
			state = WORK_TREE_DIRTY;
	}
	gitindex_free(l.index);
	str_deinit(&l.path);
	return state;
}
