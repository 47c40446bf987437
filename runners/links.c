/* runners/links.c — the checks before inputs are linked, the rule while a program runs, the mending
 * after it.
 *
 * The rule closes the store and all workspaces, since others hold links to the same files, and then
 * opens the entries of the program's own workspace but inputs/. Landlock goes by paths: where the
 * store or the workspaces can be reached by a second mount, links aren't made.
 *
 * What the program could not do is add or remove names in inputs/. So links_mend() finds there what
 * it was given. A file with one link is a copy, and nobody else's.
 */
#include "runners/links.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "base/os/landlock.h"
#include "base/text/str.h"

#define MOUNTS_MAX_BYTES (4 * MIB)
/* Times of files come from a clock that ticks this slowly, at most. */
#define TICK_NS (20 * NS_PER_MS)

/* Second mounts. */

struct mount {
	char device[32];
	char *root, *at; /* in the file system; in the tree */
};

/* Blanks and the like are \ooo (proc_pid_mountinfo(5)). */
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

static bool parse_mount(const char *line, struct mount *ret)
{
	int root, root_end, at, at_end;

	if (sscanf(line, "%*d %*d %31s %n%*s%n %n%*s%n", ret->device, &root, &root_end, &at,
		   &at_end) != 1)
		return false;
	ret->root = unescape(line + root, (size_t)(root_end - root));
	ret->at = unescape(line + at, (size_t)(at_end - at));
	return true;
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
		struct mount m;

		end = line + strcspn(line, "\n");
		if (parse_mount(line, &m))
			VEC_PUSH(&ret->list, m);
	}
	return 0;
}

/* Is `dir`, or part of it, to be seen at a second place? */
static int check_mounts(const struct mounts *m, const char *dir, struct err *err)
{
	_cleanup_(freep) char *below = NULL, *inner = NULL;
	const struct mount *own = NULL;

	for (size_t i = 0; i < m->list.n; i++) { /* a later one covers an earlier one */
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

/* Where `dir`/`name` really is, or will be: somebody may have put it on another disk by a link. */
static char *real_place(const char *dir, const char *name)
{
	_cleanup_(freep) char *path = fs_join(dir, name);
	char *real = realpath(path, NULL), *parent = NULL;

	if (!real && errno == ENOENT && (parent = realpath(dir, NULL)))
		real = fs_join(parent, name);
	free(parent);
	return real;
}

enum { STORE, BLOBS, WORK, CLOSED };

static void closed_deinit(char *closed[CLOSED])
{
	for (size_t i = 0; i < CLOSED; i++)
		free(closed[i]);
}

static int closed_dirs(const char *store_dir, const char *state_dir, char *ret[CLOSED],
		       struct err *err)
{
	ret[STORE] = realpath(store_dir, NULL);
	ret[BLOBS] = real_place(store_dir, "blobs");
	ret[WORK] = real_place(state_dir, "work");
	if (!ret[STORE] || !ret[BLOBS] || !ret[WORK])
		return err_errno(err, "cannot look at %s", ret[BLOBS] ? state_dir : store_dir);
	return 0;
}

/* An empty file in each directory: can the one be the other's link, or share its bytes? */
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
	struct mounts mounts = { 0 };
	char *closed[CLOSED] = { 0 };
	int rules = -1, r = -1;

	if (probe(store_dir, state_dir, false, err) == 0 &&
	    closed_dirs(store_dir, state_dir, closed, err) == 0 && read_mounts(&mounts, err) == 0)
		r = 0;
	for (size_t i = 0; i < CLOSED && r == 0; i++)
		r = check_mounts(&mounts, closed[i], err);
	if (r == 0)
		r = landlock_close_dirs((const char *const *)closed, CLOSED, &rules, err);
	fd_closep(&rules);
	mounts_deinit(&mounts);
	closed_deinit(closed);
	return r;
}

/* An attempt. */

bool links_fit(const struct runner_attempt *a)
{
	for (size_t i = 0; i < a->n_outputs; i++) {
		const char *path = a->outputs[i].path;

		if (!strchr(path, '/') && !str_eq(path, a->series_path) &&
		    (!a->outputs[i].is_dir || str_eq(path, ".")))
			return false;
	}
	return true;
}

int links_rules(const char *store_dir, const char *state_dir, const struct workspace *w,
		int *ret_fd, struct err *err)
{
	_cleanup_(fd_closep) int frame = open(w->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
				 rules = -1;
	char *closed[CLOSED] = { 0 };
	int r = frame < 0 ? err_errno(err, "cannot open %s", w->dir)
			  : closed_dirs(store_dir, state_dir, closed, err);

	if (r == 0)
		r = landlock_close_dirs((const char *const *)closed, CLOSED, &rules, err);
	if (r == 0 && (landlock_open_entries(rules, frame, "w", err) < 0 ||
		       landlock_open_entries(rules, w->dir_fd, "inputs", err) < 0))
		r = -1;
	closed_deinit(closed);
	if (r < 0)
		return err_wrap(err, "protecting the inputs");
	*ret_fd = TAKE_FD(rules);
	return 0;
}

/* Mending. */

static int64_t ns_of(const struct timespec *t)
{
	return t->tv_sec * NS_PER_S + t->tv_nsec;
}

static void mend_file(int dir_fd, const char *name, const struct stat *st, bool touched)
{
	static const struct timespec now[2] = { { 0, UTIME_NOW }, { 0, UTIME_NOW } };

	if (st->st_uid != geteuid()) /* root's programs can give it away */
		(void)!fchownat(dir_fd, name, geteuid(), getegid(), AT_SYMLINK_NOFOLLOW);
	if ((st->st_mode & 07777) != 0444)
		(void)!fchmodat(dir_fd, name, 0444, 0);
	if (touched)
		(void)!utimensat(dir_fd, name, now, AT_SYMLINK_NOFOLLOW);
}

static void mend_dir(int dir_fd, const char *name, int64_t since_ns)
{
	int fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	DIR *d;
	struct dirent *e;
	struct stat st;

	if (fd < 0 && errno == EACCES && fchmodat(dir_fd, name, 0755, 0) == 0)
		fd = openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	d = fd < 0 ? NULL : fdopendir(fd);
	if (!d && fd >= 0)
		close(fd);
	if (d && fstat(fd, &st) == 0 && (st.st_mode & 0500) != 0500)
		(void)!fchmod(fd, 0755);
	while (d && fs_next(d, name, &e, NULL) > 0) {
		if (fstatat(fd, e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISDIR(st.st_mode))
			mend_dir(fd, e->d_name, since_ns);
		else if (S_ISREG(st.st_mode) && st.st_nlink > 1)
			mend_file(fd, e->d_name, &st, ns_of(&st.st_ctim) >= since_ns);
	}
	if (d)
		closedir(d);
}

void links_mend(int dir_fd, int64_t since_ns)
{
	mend_dir(dir_fd, "inputs", since_ns - TICK_NS);
}
