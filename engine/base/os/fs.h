/* engine/base/os/fs.h — files: atomic writes, whole reads, safe removal, cheap copies, locks,
 * lexical paths.
 *
 * Functions that take a dir_fd work like the *at() calls: a relative path is below it, AT_FDCWD is
 * the working directory. Errors: err_errno() kinds (ERR_NOT_FOUND, ERR_NO_SPACE, ERR_IO) with the
 * path in the message; EROFS gives ERR_READ_ONLY, EEXIST gives ERR_EXISTS. Any thread.
 */
#ifndef CAIRN_BASE_OS_FS_H
#define CAIRN_BASE_OS_FS_H

#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/stat.h>
#include "base/err.h"
#include "base/text/str.h"

/* Whole files. */

/* Appends the file's bytes to *ret. ERR_TOO_LARGE over max_bytes; ERR_INVALID when it isn't a
 * regular file. Works on files that report size 0 (/proc). */
int fs_read_file_at(int dir_fd, const char *path, uint64_t max_bytes, struct str *ret,
		    struct err *err);
static inline int fs_read_file(const char *path, uint64_t max_bytes, struct str *ret,
			       struct err *err)
{
	return fs_read_file_at(AT_FDCWD, path, max_bytes, ret, err);
}

/* openat(2) for a path below dir_fd that somebody hostile laid out, or is changing at this moment:
 * nothing outside of dir_fd is ever opened, whatever links there are on the way; without `links`,
 * none is followed. -1 with errno: EXDEV or ELOOP when one leads out, or none may be. */
int fs_open_beneath(int dir_fd, const char *path, int flags, bool links);
/* Makes directory `path` and what lacks of its parents, through real directories only: ERR_INVALID
 * when the path goes up, is absolute, or has a symbolic link on its way. Existing directories are
 * fine. The one function for places that a manifest, a tree, an archive or a pipeline names.
 * Returns the directory, opened O_PATH for the *at() calls; -1. What is made has 0777 as far as our
 * umask lets, and any other `mode` exactly. */
int fs_make_beneath(int dir_fd, const char *path, mode_t mode, struct err *err);
/* Gives the open file or directory exactly `mode`, whatever our umask took of it: 0, or -1 with
 * errno. */
int fs_set_mode(int fd, mode_t mode);
/* fs_open_beneath() for reading a regular file (ERR_INVALID for anything else); never waits.
 * *ret: what it is. */
int fs_open_file_beneath(int dir_fd, const char *path, bool links, struct stat *ret,
			 struct err *err);

enum fs_write_flags {
	FS_WRITE_NO_SYNC = 1 << 0, /* leave durability to a later sync */
	FS_WRITE_NEW = 1 << 1,     /* ERR_EXISTS instead of replacing */
};
/* Temporary in the same directory (O_EXCL), write, fsync, rename, fsync of the directory. A crash
 * leaves the old file or the new one, and perhaps a temporary named `.tmp-*`. `mode` isn't reduced
 * by umask when it has 0200 cleared (0444). */
int fs_write_atomic_at(int dir_fd, const char *path, const void *bytes, size_t n, mode_t mode,
		       int flags, struct err *err);
static inline int fs_write_atomic(const char *path, const void *bytes, size_t n, struct err *err)
{
	return fs_write_atomic_at(AT_FDCWD, path, bytes, n, 0644, 0, err);
}

/* pread(2) until n bytes are there or the file ends: how many, or -1 with errno. */
ssize_t fs_read_at(int fd, void *buf, size_t n, off_t at);
/* write(2) until all is written. */
int fs_write_all(int fd, const void *bytes, size_t n, struct err *err);

/* A file of this process's own beside `path`'s last component, opened O_RDWR|O_EXCL|O_CLOEXEC;
 * *ret_name is the path relative to dir_fd (free it). Rename it into place, or unlink it. */
int fs_temp_at(int dir_fd, const char *path, mode_t mode, int *ret_fd, char **ret_name,
	       struct err *err);
/* A file without a name that goes when it is closed, on the disk of dir_fd's directory `dir`; in
 * memory where there is none (dir_fd -1) or it can't have one. The descriptor, O_RDWR|O_CLOEXEC;
 * -1. */
int fs_unnamed_at(int dir_fd, const char *dir, struct err *err);
int fs_sync_dir_at(int dir_fd, const char *path, struct err *err);

/* Directories. */

int fs_mkdir_p_at(int dir_fd, const char *path, mode_t mode,
		  struct err *err); /* existing ones are fine */
static inline int fs_mkdir_p(const char *path, struct err *err)
{
	return fs_mkdir_p_at(AT_FDCWD, path, 0777, err);
}

/* The next entry but "." and "..": 1 with *ret, lent until the next call; 0 at the end; -1: the
 * rest can't be read, and the listing must not pass for a whole one. `what` names the directory in
 * the error. */
int fs_next(DIR *d, const char *what, struct dirent **ret, struct err *err);

/* Removes a file or a whole tree. Never follows a symlink, never crosses into another mount; gives
 * itself permission in directories that are read-only; any depth with a bounded number of
 * descriptors. What doesn't exist is fine. Goes on after an error in one entry and reports the
 * first one. */
int fs_remove_tree_at(int dir_fd, const char *path, struct err *err);
static inline int fs_remove_tree(const char *path, struct err *err)
{
	return fs_remove_tree_at(AT_FDCWD, path, err);
}

/* Copies. */

/* Shares the extents of `from` with the empty file `to` (FICLONE): 0, or 1 when the file system
 * can't. */
int fs_reflink(int from, int to);
/* All bytes of `from`, whatever its offset, into the empty file `to`: by reflink, else
 * copy_file_range, else read and write; holes stay holes. ERR_CHANGED when `from` gets shorter
 * meanwhile. */
int fs_copy_fd(int from, int to, struct err *err);
/* Only the bytes from `at` to `end`, to the same place; without reflinks, and with holes as zeros.
 */
int fs_copy_range(int from, int to, off_t at, off_t end, struct err *err);
/* fs_copy_fd() by names; `to` must not exist (ERR_EXISTS) and gets exactly `mode`; it is removed
 * again on error. `from` must be a regular file and is not followed when it is a symlink. */
int fs_copy_file_at(int from_dir, const char *from, int to_dir, const char *to, mode_t mode,
		    struct err *err);

/* Locks. */

/* Open-file-description locks: they belong to the open file, not to the process, so that they hold
 * between threads and libraries too and go with the last close (or with the process, kill -9
 * included). Only advisory; Linux keeps them on NFS too, where fs_network_name() says what to
 * expect. Don't mix whole-file and range locks in one file. */

/* 0 locked; 1 somebody else holds it (only with wait false). `fd` must be open for writing. */
int fs_lock(int fd, bool wait, struct err *err);
void fs_unlock(int fd);
/* Opens or makes `path` (0666 & ~umask) and locks it. 0 with *ret_fd: unlock by closing; 1 busy.
 * Never unlink a lock file. */
int fs_lock_path(const char *path, bool wait, int *ret_fd, struct err *err);

#define FS_LOCK_OFFSET_MAX ((1ULL << 62) - 1)
/* One byte at `offset` (at most FS_LOCK_OFFSET_MAX; the file may be empty): a lease on whatever the
 * offset stands for, such as the first 62 bits of a key. 0 locked; 1 held through another open
 * file. A second try through the same fd gives 0. */
int fs_lock_range_try(int fd, uint64_t offset, struct err *err);
void fs_unlock_range(int fd, uint64_t offset);

/* File systems. */

/* "NFS", "SMB", "CIFS", "FUSE", "AFS", "Ceph", "9P", "Lustre", "GPFS", "GFS2", "OCFS2": a file
 * system that other machines may be writing to (or, for FUSE, that could be anything); NULL for a
 * local one or when it can't be determined. */
const char *fs_network_name(const char *path);

/* Does the path still lead to the file that is open at `fd`? */
bool fs_leads_to(const char *path, int fd);

/* Paths: lexical, bytes, nothing is looked up. */

/* All return memory of the caller's. */
char *fs_join(const char *dir,
	      const char *path); /* `path` itself when it is absolute or dir is "" */
/* Without ".", "//" and trailing '/'; ".." takes the component before it away, stays at the front
 * of a relative path and vanishes at the root; "" and "." become ".". */
char *fs_normalise(const char *path);
/* Is `path` `root` itself or below it? Both are normalised first; both absolute or both relative. A
 * relative path that goes up with ".." is inside of nothing. */
bool fs_is_inside(const char *root, const char *path);
/* `path` as seen from `root`, when it is inside ("." for root itself); else NULL. */
char *fs_relative(const char *root, const char *path);
/* Any text as one name in a directory: `/`, `%` and a leading dot as %XX; a long one is cut and
 * gets a digest. Never empty. */
char *fs_file_name(const char *text);
const char *fs_basename(const char *path); /* the part after the last '/', lent; "" for "a/" */
char *fs_dirname(const char *path);        /* "." when there is no '/' */

/* Absolute path of the nearest directory, from start_dir upward, that holds cairn.yaml, .cairn/ or
 * .git. ERR_NOT_FOUND says `cairn init`. */
int fs_find_project_root(const char *start_dir, char **ret, struct err *err);

#endif
