/* steps/shards/walk.c — a directory read depth first, then sorted. readdir() gives the kinds of
 * entries, so only links, and entries of unknown kind, need a stat(). */
#include "steps/shards/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/text/str.h"

struct walk {
	const char *root;
	struct arena *arena;
	struct walk_list *out;
	struct str path; /* of the directory, relative; "" or with a slash at its end */
};

static int walk_dir(struct walk *w, int fd, unsigned depth, struct err *err);

static int walk_below(struct walk *w, int dir, const char *name, unsigned depth, struct err *err)
{
	size_t len = w->path.len;
	int fd, r;

	if (depth == WALK_DEPTH_MAX)
		return err_set(err, ERR_INVALID, "%s/%s%s: more than %d directories deep", w->root,
			       w->path.len ? w->path.s : "", name, WALK_DEPTH_MAX);
	fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "cannot read %s/%s%s", w->root, w->path.len ? w->path.s : "",
				 name);
	str_addf(&w->path, "%s/", name);
	r = walk_dir(w, fd, depth + 1, err);
	w->path.len = len;
	w->path.s[len] = '\0';
	return r;
}

static void keep(struct walk *w, const char *name, bool link)
{
	size_t n = strlen(name);
	char *path = arena_alloc(w->arena, w->path.len + n + 1);

	if (w->path.len)
		memcpy(path, w->path.s, w->path.len);
	memcpy(path + w->path.len, name, n);
	VEC_PUSH(&w->out->files, ((struct walk_file){ .path = path, .link = link }));
}

static int walk_entry(struct walk *w, int dir, const struct dirent *e, unsigned depth,
		      struct err *err)
{
	unsigned kind = e->d_type;
	struct stat st;

	if (e->d_name[0] == '.') {
		w->out->hidden += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
		return 0;
	}
	if (kind == DT_UNKNOWN && fstatat(dir, e->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		kind = IFTODT(st.st_mode);
	if (kind == DT_DIR)
		return walk_below(w, dir, e->d_name, depth, err);
	if (kind == DT_REG) {
		keep(w, e->d_name, false);
	} else if (kind != DT_LNK) {
		return err_set(err, ERR_INVALID, "%s/%s%s is not a plain file", w->root,
			       w->path.len ? w->path.s : "", e->d_name);
	} else if (fstatat(dir, e->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode)) {
		w->out->links++;
	} else {
		keep(w, e->d_name, true);
	}
	return 0;
}

static int walk_dir(struct walk *w, int fd, unsigned depth, struct err *err)
{
	_cleanup_(closedirp) DIR *d = fs_list(fd);
	struct dirent *e;
	int r;

	if (!d)
		return err_errno(err, "cannot read %s/%s", w->root, w->path.len ? w->path.s : "");
	while ((r = fs_next(d, w->root, &e, err)) > 0)
		if (walk_entry(w, dirfd(d), e, depth, err) < 0)
			return -1;
	return r;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct walk_file *)a)->path, ((const struct walk_file *)b)->path);
}

int walk_directory(const char *root, struct arena *arena, struct walk_list *ret, struct err *err)
{
	struct walk w = { .root = root, .arena = arena, .out = ret };
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), r;

	if (fd < 0)
		return err_errno(err, "cannot read %s", root);
	r = walk_dir(&w, fd, 0, err);
	str_deinit(&w.path);
	if (r == 0 && ret->files.n)
		qsort(ret->files.v, ret->files.n, sizeof(*ret->files.v), by_path);
	return r;
}
