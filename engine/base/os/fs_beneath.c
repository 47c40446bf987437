/* engine/base/os/fs_beneath.c — opens and makes files in hostile places, which may be changing now;
 * and makes file names of any text.
 *
 * Uses openat2(2) with RESOLVE_BENEATH where the kernel has it. Else open_by_components() opens one
 * component after another and follows no link, even if `links` is set. Directories are always made
 * one by one, each opened with O_NOFOLLOW before the next is made in it. A regular file is first
 * opened O_PATH and checked, and only then opened for reading, because opening a device or a pipe
 * can have effects or block.
 */
#include <errno.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include "base/crypto/digest.h"
#include "base/mem.h"
#include "base/os/fs.h"

#define FILE_NAME_MAX 200 /* bytes: room for a suffix below the 255 of most file systems */

/* For systems without openat2 (Linux < 5.6, gVisor, old seccomp profiles): opens each component
 * separately, and follows no link. */
static int open_by_components(int dir_fd, const char *path, int flags)
{
	_cleanup_(fd_closep) int at = -1;
	_cleanup_(freep) char *copy = xstrdup(path);
	char *name = copy;

	for (;;) {
		char *end = strchrnul(name, '/');
		bool last = !*end;
		int next;

		*end = '\0';
		if (!*name || strcmp(name, "..") == 0) {
			errno = EXDEV;
			return -1;
		}
		next = openat(at < 0 ? dir_fd : at, name,
			      last ? flags | O_NOFOLLOW
				   : O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC,
			      0666);
		if (next < 0 || last)
			return next;
		fd_closep(&at);
		at = next;
		name = end + 1;
	}
}

int fs_open_beneath(int dir_fd, const char *path, int flags, bool links)
{
	struct open_how how = { .flags = (uint64_t)(flags | O_CLOEXEC) };
	long fd;

	how.resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS | (links ? 0 : RESOLVE_NO_SYMLINKS);
	if (flags & O_CREAT)
		how.mode = 0666;
	do
		fd = syscall(SYS_openat2, dir_fd, path, &how, sizeof(how));
	while (fd < 0 && errno == EAGAIN); /* something was renamed meanwhile: man 2 openat2 */
	if (fd < 0 && (errno == ENOSYS || errno == EPERM))
		return open_by_components(dir_fd, path, flags | O_CLOEXEC);
	return (int)fd;
}

int fs_set_mode(int fd, mode_t mode)
{
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -1;
	return (st.st_mode & 07777) == mode ? 0 : fchmod(fd, mode);
}

/* Sets the mode of a directory that was just made. `at` is opened O_PATH, which doesn't allow
 * that. */
static int set_made(int at, mode_t mode)
{
	_cleanup_(fd_closep) int fd =
		mode == 0777 ? -1 : openat(at, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return mode == 0777 ? 0 : fd < 0 ? -1 : fs_set_mode(fd, mode);
}

/* One component after another on every kernel, because a missing directory can't be opened in one
 * call anyway. */
int fs_make_beneath(int dir_fd, const char *path, mode_t mode, struct err *err)
{
	_cleanup_(freep) char *copy = xstrdup(path);
	int at = openat(dir_fd, ".", O_PATH | O_DIRECTORY | O_CLOEXEC);

	for (char *name = copy, *end; at >= 0 && name; name = end) {
		_cleanup_(fd_closep) int parent = at;
		bool made;

		end = strchr(name, '/');
		if (end)
			*end++ = '\0';
		if (!*name || str_eq(name, ".."))
			return err_set(err, ERR_INVALID, "%s is not a path below the directory",
				       path);
		made = mkdirat(parent, name, mode) == 0;
		if (!made && errno != EEXIST)
			return err_errno(err, "cannot make directory %s", path);
		at = openat(parent, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (at < 0 && (errno == ENOTDIR || errno == ELOOP))
			return err_set(err, ERR_INVALID, "%s: %s is there and isn't a directory",
				       path, name);
		if (at >= 0 && made && set_made(at, mode) < 0) {
			err_errno(err, "cannot protect directory %s", path);
			close(at);
			return -1;
		}
	}
	return at < 0 ? err_errno(err, "cannot make directory %s", path) : at;
}

int fs_open_file_beneath(int dir_fd, const char *path, bool links, struct stat *ret,
			 struct err *err)
{
	/* Check before opening: opening can have effects (a device), or block (a pipe). */
	_cleanup_(fd_closep) int fd =
		fs_open_beneath(dir_fd, path, O_PATH | (links ? 0 : O_NOFOLLOW), links);
	struct stat seen;

	if (fd < 0 && (errno == EXDEV || errno == ELOOP))
		return err_set(err, ERR_INVALID, "%s is reached by a symbolic link%s", path,
			       links ? " that leads out of the directory" : "");
	if (fd < 0 || fstat(fd, &seen) < 0)
		return err_errno(err, "cannot read %s", path);
	if (!S_ISREG(seen.st_mode))
		return err_set(err, ERR_INVALID, "%s isn't a regular file", path);
	fd_closep(&fd);
	fd = fs_open_beneath(dir_fd, path,
			     O_RDONLY | O_NONBLOCK | O_NOCTTY | (links ? 0 : O_NOFOLLOW), links);
	if (fd < 0 || fstat(fd, ret) < 0)
		return err_errno(err, "cannot read %s", path);
	if (!S_ISREG(ret->st_mode))
		return err_set(err, ERR_CHANGED, "%s changed while it was opened", path);
	return TAKE_FD(fd);
}

char *fs_file_name(const char *text)
{
	_cleanup_(str_deinit) struct str out = { 0 };
	struct digest d;
	char hex[DIGEST_HEX_MAX];

	for (const char *p = text; *p; p++) {
		if (*p == '/' || *p == '%' || (unsigned char)*p < ' ' || (*p == '.' && p == text))
			str_addf(&out, "%%%02X", (unsigned char)*p);
		else
			str_addc(&out, *p);
	}
	if (out.len > FILE_NAME_MAX) {
		digest_bytes(text, strlen(text), &d);
		out.len = FILE_NAME_MAX - 20;
		str_addf(&out, "-%.16s", digest_hex(&d, hex));
	}
	if (out.len == 0)
		str_addc(&out, '%');
	return str_take(&out);
}
