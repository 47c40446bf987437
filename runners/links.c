/* runners/links.c — the checks before inputs are linked, the ruleset while a program runs, the
 * repair after it.
 *
 * The ruleset closes the store and all workspaces, because other workspaces hold links to the same
 * files. Then it opens the entries of the program's own workspace except inputs/. Landlock works by
 * paths: links aren't made where a second mount also shows the store or the workspaces.
 *
 * The program can't add or remove names in inputs/, so links_repair() finds all links there. A file
 * with one link is a copy that belongs to this workspace alone.
 */
#include "runners/links.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/os/process/landlock.h"
#include "base/text/str.h"

#define MOUNTS_MAX_BYTES (4 * MIB)
/* The clock for times of files ticks at least this often. */
#define TICK_NS (20 * NS_PER_MS)

/* Second mounts. */

struct mount {
	char device[32];
	char *root, *at; /* path in the file system; path in the tree */
};

/* Blanks and other special characters are \ooo (proc_pid_mountinfo(5)). */
static char *unescape(const char *s, size_t n)
{
	char *out = xstrndup(s, n), *to = out;

	for (const char *c = out; *c; c++) {
		if (c[0] == '\\' && c[1] >= '0' && c[1] <= '3' && c[2] && c[3]) {
			*to++ = (char)((c[1] - '0') * 64 + (c[2] - '0') * 8 + (c[3] - '0'));
			c += 3;
		} else {
			*to++ = *c;
		}
	}
	*to = '\0';
	return out;
}

struct mounts {
	VEC(struct mount) list;
};

static void mounts_deinit(struct mounts *m)
{
	for (size_t i = 0; i < m->list.n; i++) {
		free(m->list.v[i].root);
		free(m->list.v[i].at);
	}
	VEC_FREE(&m->list);
}

static int read_mounts(struct mounts *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	if (fs_read_file("/proc/self/mountinfo", MOUNTS_MAX_BYTES, &text, err) < 0)
		return -1;
	str_addn(&text, "", 0);
	for (char *line = text.s, *end; *line; line = end + (*end != '\0')) {
		int root, root_end, at, at_end;
		struct mount m;

		end = line + strcspn(line, "\n");
		if (sscanf(line, "%*d %*d %31s %n%*s%n %n%*s%n", m.device, &root, &root_end, &at,
			   &at_end) != 1)
			continue;
		m.root = unescape(line + root, (size_t)(root_end - root));
		m.at = unescape(line + at, (size_t)(at_end - at));
		VEC_PUSH(&ret->list, m);
	}
	return 0;
}

/* Fails when a second mount shows `dir` or a part of it. */
static int check_mounts(const struct mounts *m, const char *dir, struct err *err)
{
	_cleanup_(freep) char *below = NULL, *inner = NULL;
	const struct mount *own = NULL;

	for (size_t i = 0; i < m->list.n; i++) { /* a later mount covers an earlier one */
		const struct mount *x = &m->list.v[i];

		if (fs_is_inside(x->at, dir) && (!own || strlen(x->at) >= strlen(own->at)))
			own = x;
	}
	if (!own)
		return err_set(err, ERR_UNSUPPORTED, "no mount shows %s", dir);
	below = fs_relative(own->at, dir);
	inner = str_eq(below, ".") ? xstrdup(own->root) : fs_join(own->root, below);
	for (size_t i = 0; i < m->list.n; i++) {
		const struct mount *x = &m->list.v[i];

		if (x != own && str_eq(x->device, own->device) &&
		    (fs_is_inside(x->root, inner) || fs_is_inside(inner, x->root)))
			return err_set(err, ERR_UNSUPPORTED,
				       "%s can also be reached by the mount %s", dir, x->at);
	}
	return 0;
}

/* Checks. */

/* The real path of `dir`/`name`, which may not exist yet or may be a link to another disk. */
static char *real_place(const char *dir, const char *name)
{
	_cleanup_(freep) char *path = fs_join(dir, name);
	char *real = realpath(path, NULL), *parent = NULL;

	if (!real && errno == ENOENT && (parent = realpath(dir, NULL)))
		real = fs_join(parent, name);
	free(parent);
	return real;
}

/* The directories that the ruleset closes. */
struct closed {
	char *store, *blobs, *work;
};

static void closed_deinit(struct closed *c)
{
	free(c->store);
	free(c->blobs);
	free(c->work);
}

static int closed_find(const char *store_dir, const char *state_dir, struct closed *ret,
		       struct err *err)
{
	ret->store = realpath(store_dir, NULL);
	ret->blobs = real_place(store_dir, "blobs");
	ret->work = real_place(state_dir, "work");
	if (!ret->store || !ret->blobs || !ret->work)
		return err_errno(err, "cannot look at %s", ret->blobs ? state_dir : store_dir);
	return 0;
}

static int close_dirs(const struct closed *c, int *ret_rules, struct err *err)
{
	return landlock_close_dirs((const char *const[]){ c->store, c->blobs, c->work }, 3,
				   ret_rules, err);
}

/* Makes a file in from_dir and tries whether to_dir can hold a link to it, or a reflink of it. */
static int probe(const char *from_dir, const char *to_dir, bool reflink, struct err *err)
{
	_cleanup_(freep) char *from_path = fs_join(from_dir, "probe"),
			      *to_path = fs_join(to_dir, "probe"), *from_name = NULL,
			      *to_name = NULL, *linked = NULL;
	_cleanup_(fd_closep) int from = -1, to = -1;
	static const char bytes[8192] = { 1 };
	int r = -1;

	if (fs_temp_at(AT_FDCWD, from_path, 0600, &from, &from_name, err) < 0)
		return -1;
	if (fs_temp_at(AT_FDCWD, to_path, 0600, &to, &to_name, err) == 0) {
		linked = xasprintf("%s-link", to_name);
		if (reflink)
			r = fs_write_all(from, bytes, sizeof(bytes), err) == 0 &&
					    fs_reflink(from, to) == 0
				    ? 0
				    : -1;
		else if (link(from_name, linked) == 0)
			r = unlink(linked);
		else if (errno == EXDEV)
			err_set(err, ERR_UNSUPPORTED,
				"the store and the workspaces are on different file systems");
		else
			err_errno(err, "no hard link can be made in %s", to_dir);
		unlink(to_name);
	}
	unlink(from_name);
	return r;
}

bool links_reflinks(const char *store_dir, const char *state_dir)
{
	return probe(store_dir, state_dir, true, NULL) == 0;
}

int links_check(const char *store_dir, const char *state_dir, struct err *err)
{
	_cleanup_(mounts_deinit) struct mounts mounts = { 0 };
	_cleanup_(closed_deinit) struct closed closed = { 0 };
	_cleanup_(fd_closep) int rules = -1;

	if (probe(store_dir, state_dir, false, err) < 0 ||
	    closed_find(store_dir, state_dir, &closed, err) < 0 || read_mounts(&mounts, err) < 0)
		return -1;
	if (check_mounts(&mounts, closed.store, err) < 0 ||
	    check_mounts(&mounts, closed.blobs, err) < 0 ||
	    check_mounts(&mounts, closed.work, err) < 0)
		return -1;
	return close_dirs(&closed, &rules, err);
}

/* An attempt. */

bool links_fit(const struct runner_attempt *a)
{
	for (size_t i = 0; i < a->n_outputs; i++) {
		const char *path = a->outputs[i].path;
		bool is_dir = a->outputs[i].is_dir;

		if (!strchr(path, '/') &&
		    (is_dir ? str_eq(path, ".") : !str_eq(path, a->series_path)))
			return false;
	}
	return true;
}

int links_rules(const char *store_dir, const char *state_dir, const struct workspace *w,
		int *ret_fd, struct err *err)
{
	_cleanup_(fd_closep) int frame = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
				 rules = -1;
	_cleanup_(closed_deinit) struct closed closed = { 0 };

	assert(w->dir && w->dir_fd >= 0);
	if (frame < 0)
		return err_errno(err, "protecting the inputs: cannot open %s", w->dir);
	if (closed_find(store_dir, state_dir, &closed, err) < 0 ||
	    close_dirs(&closed, &rules, err) < 0 ||
	    landlock_open_entries(rules, frame, "w", err) < 0 ||
	    landlock_open_entries(rules, w->dir_fd, "inputs", err) < 0)
		return err_wrap(err, "protecting the inputs");
	*ret_fd = TAKE_FD(rules);
	return 0;
}

/* Repair. */

static void mend_dir(int dir_fd, const char *name, int64_t since_ns)
{
	static const struct timespec now[2] = { { 0, UTIME_NOW }, { 0, UTIME_NOW } };
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	_cleanup_(closedirp) DIR *d = NULL;
	struct dirent *e;
	struct stat st;

	if (fd < 0 && errno == EACCES && fchmodat(dir_fd, name, 0755, 0) == 0)
		fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	d = fs_list(fd);
	if (d && fstat(fd, &st) == 0 && (st.st_mode & 0500) != 0500)
		(void)!fchmod(fd, 0755);
	while (d && fs_next(d, name, &e, NULL) > 0) {
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISDIR(st.st_mode))
			mend_dir(fd, e->d_name, since_ns);
		if (!S_ISREG(st.st_mode) || st.st_nlink == 1)
			continue;
		if (st.st_uid != geteuid()) /* a program of root can change the owner */
			(void)!fchownat(fd, e->d_name, geteuid(), getegid(), AT_SYMLINK_NOFOLLOW);
		if ((st.st_mode & 07777) != 0444)
			(void)!fchmodat(fd, e->d_name, 0444, 0);
		if (st.st_ctim.tv_sec * NS_PER_S + st.st_ctim.tv_nsec >= since_ns)
			(void)!utimensat(fd, e->d_name, now, AT_SYMLINK_NOFOLLOW);
	}
}

void links_repair(int dir_fd, int64_t since_ns)
{
	assert(dir_fd >= 0);
	mend_dir(dir_fd, "inputs", since_ns - TICK_NS);
}

void links_explain(struct err *err)
{
	const struct err why = *err;

	err_set(err, why.code,
		"%s; its inputs are read-only links, beside which nothing new can be made "
		"(`workspace: copy` gives the step copies of its own)",
		why.msg);
}
