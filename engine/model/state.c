/* engine/model/state.c — checks who made the state, as far as owners, links and git's index tell.
 *
 * state_check() looks at the root, at the files that mark a root, and at the state directory with
 * its entries, one level deep. Each must be the caller's own (trust_is_own()), or the user must
 * have allowed the project (base/crypto/trust.h). No entry may be a symbolic link. Unless an
 * environment variable names the directory, it may be no symbolic link either, and `.cairn/` must
 * not be in git's index of the work tree around the project.
 *
 * This check is part of every command, so the index is read by base/gitindex.h and not by libgit2.
 */
#include "model/state.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include "base/crypto/trust.h"
#include "base/gitindex.h"
#include "base/mem.h"
#include "base/os/fs.h"

/* Owners and links. */

static int check_owner(const char *root, const char *path, uid_t owner, struct err *err)
{
	int allowed = trust_is_own(owner) ? 1 : trust_allows_project(root, err);

	if (allowed)
		return MIN(allowed, 0);
	return err_set(err, ERR_INVALID,
		       "%s belongs to user %lu, not to you, and what is in it would decide what "
		       "runs as you. If you trust it, add the line `project %s` to "
		       "~/.config/cairn/trust, or set CAIRN_TRUST_PROJECTS",
		       path, (unsigned long)owner, root);
}

static int refuse_link(const char *path, struct err *err)
{
	return err_set(err, ERR_INVALID,
		       "%s is a symbolic link: state is kept in a directory of its own. Name "
		       "another place by CAIRN_DIR, or by `store` in cairn.yaml",
		       path);
}

static int check_owner_of(const char *root, const char *path, struct err *err)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return errno == ENOENT || errno == ENOTDIR
			       ? 0
			       : err_errno(err, "cannot look at %s", path);
	return check_owner(root, path, st.st_uid, err);
}

/* There are only a few entries: secrets, store, database, logs. */
static int check_entries(const char *root, const char *dir, struct err *err)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	struct stat own;
	int r = 0, more = 0;

	if (!d)
		return errno == ENOENT ? 0 : err_errno(err, "cannot read %s", dir);
	if (fstat(dirfd(d), &own) == 0)
		r = check_owner(root, dir, own.st_uid, err);
	while (r == 0 && (more = fs_next(d, dir, &e, err)) > 0) {
		_cleanup_(freep) char *path = NULL;
		struct stat st;

		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		path = fs_join(dir, e->d_name);
		if (S_ISLNK(st.st_mode))
			r = refuse_link(path, err);
		else
			r = check_owner(root, path, st.st_uid, err);
	}
	closedir(d);
	return r < 0 || more < 0 ? -1 : 0;
}

/* Git's index. */

/* The index of a work tree whose top is `top`: in .git, or where the file .git points. */
static char *index_of(const char *top)
{
	_cleanup_(freep) char *git = fs_join(top, ".git"), *dir = NULL;
	_cleanup_(str_deinit) struct str text = { 0 };
	struct stat st;

	if (stat(git, &st) < 0)
		return NULL;
	if (S_ISDIR(st.st_mode))
		return fs_join(git, "index");
	if (fs_read_file(git, 64 * KIB, &text, NULL) < 0 || !str_has_prefix(text.s, "gitdir: "))
		return NULL;
	text.s[strcspn(text.s, "\r\n")] = '\0';
	dir = fs_join(top, text.s + strlen("gitdir: "));
	return fs_join(dir, "index");
}

static int check_tracked(const char *root, struct err *err)
{
	_cleanup_(freep) char *top = xstrdup(root), *index = NULL, *prefix = NULL;

	while (!(index = index_of(top))) {
		char *slash = strrchr(top, '/');

		if (!slash || slash == top)
			return 0;
		*slash = '\0';
	}
	prefix = xasprintf("%s%s.cairn/", root + strlen(top) + (root[strlen(top)] == '/'),
			   root[strlen(top)] ? "/" : "");
	if (!gitindex_has(index, prefix))
		return 0;
	return err_set(
		err, ERR_INVALID,
		"git tracks %s/.cairn, so whoever committed it decides what runs here. It is the "
		"state of one machine: remove it with `git rm -r .cairn`, and add it to .gitignore",
		root);
}

/* The whole check. */

int state_check(const char *root, const char *dir, bool named, struct err *err)
{
	static const char *const marks[] = { "cairn.yaml", ".cairn", ".git" };
	struct stat st;

	assert(*root == '/' && *dir == '/');
	if (check_owner_of(root, root, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(marks); i++) {
		_cleanup_(freep) char *mark = fs_join(root, marks[i]);

		if (check_owner_of(root, mark, err) < 0)
			return -1;
	}
	if (lstat(dir, &st) < 0)
		return 0;
	if (named)
		return check_owner_of(root, dir, err) < 0 || check_entries(root, dir, err) < 0 ? -1
											       : 0;
	if (S_ISLNK(st.st_mode))
		return refuse_link(dir, err);
	return check_entries(root, dir, err) < 0 ? -1 : check_tracked(root, err);
}
