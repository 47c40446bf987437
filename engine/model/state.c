/* engine/model/state.c — checks who made the state, as far as owners, links and git's index tell.
 *
 * state_check() looks at the root, at the files that mark a root, and at the state directory with
 * its entries, one level deep. Each must be the caller's own (trust_is_own()), or the user must
 * have allowed the project (base/crypto/trust.h). No entry may be a symbolic link. Unless an
 * environment variable names the directory, it may be no symbolic link either, and `.cairn/` must
 * not be in git's index of the work tree around the project.
 *
 * git's index is parsed here, since libgit2 is loaded only by runs, but this check is part of every
 * command. Entries (gitformat-index) have 62 bytes before the name, 74 in a repository of SHA-256,
 * and two more in version 3 with a flag. Names are padded to eight bytes; in version 4, a name is
 * what follows a prefix of the one before. An index of another shape proves nothing: it counts as
 * one without `.cairn`.
 */
#include "model/state.h"
#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "base/crypto/trust.h"
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

static uint32_t get_u32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/* 1: a name begins with `prefix`; 0: none does; -1: the entries have another shape. */
static int search_entries(const unsigned char *bytes, size_t n, size_t head, const char *prefix)
{
	uint32_t version = get_u32(bytes + 4), count = get_u32(bytes + 8);
	_cleanup_(str_deinit) struct str name = { 0 };
	size_t at = 12, prefix_n = strlen(prefix);

	for (uint32_t i = 0; i < count; i++) {
		size_t start = at, fixed, kept = 0, len;
		const unsigned char *end;

		if (n - at < head + 3)
			return -1;
		fixed = head + (version >= 3 && (bytes[at + head - 2] & 0x40) ? 2 : 0);
		len = (size_t)(bytes[at + head - 2] & 0x0f) << 8 | bytes[at + head - 1];
		at += fixed;
		if (version ==
		    4) { /* an offset as in packs: how many bytes of the last name are dropped */
			size_t gone = bytes[at] & 0x7f;

			while (bytes[at++] & 0x80) {
				if (at >= n)
					return -1;
				gone = ((gone + 1) << 7) | (bytes[at] & 0x7f);
			}
			if (gone > name.len)
				return -1;
			kept = name.len - gone;
		}
		end = at < n ? memchr(bytes + at, '\0', n - at) : NULL;
		if (!end)
			return -1;
		name.len = kept;
		str_addn(&name, bytes + at, (size_t)(end - (bytes + at)));
		if (len < 0xfff && len != name.len)
			return -1;
		if (name.len >= prefix_n && memcmp(name.s, prefix, prefix_n) == 0)
			return 1;
		at = version == 4 ? (size_t)(end - bytes) + 1
				  : start + ((fixed + name.len + 8) & ~(size_t)7);
		if (at > n)
			return -1;
	}
	return 0;
}

static bool index_has(const char *path, const char *prefix)
{
	_cleanup_(fd_closep) int fd = open(path, O_RDONLY | O_CLOEXEC);
	const unsigned char *bytes;
	struct stat st;
	size_t n;
	int r;

	if (fd < 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode) || st.st_size < 12)
		return false;
	n = (size_t)st.st_size;
	bytes = mmap(NULL, n, PROT_READ, MAP_PRIVATE, fd, 0);
	if (bytes == MAP_FAILED)
		return false;
	r = memcmp(bytes, "DIRC", 4) == 0 && get_u32(bytes + 4) >= 2 && get_u32(bytes + 4) <= 4
		    ? 0
		    : -1;
	/* Where names stand in full, one search over the bytes shows that most indexes have no such
	 * name. */
	if (r == 0 && (get_u32(bytes + 4) == 4 || memmem(bytes, n, prefix, strlen(prefix)))) {
		r = search_entries(bytes, n, 62, prefix);
		if (r < 0)
			r = search_entries(bytes, n, 74, prefix);
	}
	munmap((void *)bytes, n);
	return r > 0;
}

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
	if (!index_has(index, prefix))
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
