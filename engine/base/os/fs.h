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

/* openat(2) for a hostile path below dir_fd, which may even be changing now. Never opens anything
 * outside dir_fd, whatever links are on the way; without `links`, follows none. -1 with errno:
 * EXDEV or ELOOP when a link leads out, or isn't allowed. */
int fs_open_beneath(int dir_fd, const char *path, int flags, bool links);
/* Makes directory `path` and its missing parents, through real directories only: ERR_INVALID when
 * the path goes up, is absolute, or has a symbolic link on its way. Existing directories are fine.
 * Use it for every path from a manifest, a tree, an archive or a pipeline. Returns the directory,
 * opened O_PATH for the *at() calls; -1. For `mode` 0777 our umask applies; any other mode is set
 * exactly. */
int fs_make_beneath(int dir_fd, const char *path, mode_t mode, struct err *err);
/* Gives the open file or directory exactly `mode`, whatever our umask: 0, or -1 with errno. */
int fs_set_mode(int fd, mode_t mode);
/* fs_open_beneath() to read a regular file (ERR_INVALID for others); never blocks. *ret: its
 * stat. */
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

/* pread(2) until n bytes are read or the file ends. Returns how many, or -1 with errno. */
ssize_t fs_read_at(int fd, void *buf, size_t n, off_t at);
/* write(2) until all is written. */
int fs_write_all(int fd, const void *bytes, size_t n, struct err *err);

/* Makes a temporary file in the directory of `path`, opened O_RDWR|O_EXCL|O_CLOEXEC. *ret_name is
 * its path relative to dir_fd (free it). Rename it into place, or unlink it. */
int fs_temp_at(int dir_fd, const char *path, mode_t mode, int *ret_fd, char **ret_name,
	       struct err *err);
/* Makes a file without a name, which vanishes when it is closed, on the disk of dir_fd's directory
 * `dir`; in memory when dir_fd is -1 or the file system can't. Returns the descriptor,
 * O_RDWR|O_CLOEXEC; -1. */
int fs_unnamed_at(int dir_fd, const char *dir, struct err *err);
int fs_sync_dir_at(int dir_fd, const char *path, struct err *err);

/* Directories. */

int fs_mkdir_p_at(int dir_fd, const char *path, mode_t mode,
		  struct err *err); /* existing directories are fine */
static inline int fs_mkdir_p(const char *path, struct err *err)
{
	return fs_mkdir_p_at(AT_FDCWD, path, 0777, err);
}

/* A listing of the directory open at `fd`, which it takes, also when it fails. NULL with errno; for
 * fd < 0 errno stays. */
DIR *fs_list(int fd);

/* A listing of dir_fd/name. `flags`: 0, or O_NOFOLLOW. */
static inline DIR *fs_list_at(int dir_fd, const char *name, int flags)
{
	return fs_list(openat(dir_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags));
}

static inline void closedirp(DIR **d)
{
	if (*d)
		closedir(*d);
}

/* The next entry, without "." and "..". 1: *ret is borrowed until the next call; 0: end; -1: the
 * rest can't be read, so don't use the listing as a complete one. `what` names the directory in the
 * error. */
int fs_next(DIR *d, const char *what, struct dirent **ret, struct err *err);

/* Removes a file or a whole tree. Never follows a symlink, never crosses into another mount; gives
 * itself permission in read-only directories; any depth with a bounded number of descriptors. An
 * absent path is no error. Continues after an error in one entry, and reports the first error. */
int fs_remove_tree_at(int dir_fd, const char *path, struct err *err);
static inline int fs_remove_tree(const char *path, struct err *err)
{
	return fs_remove_tree_at(AT_FDCWD, path, err);
}
/* Removes the files of `dir` that `counts` picks, except the `keep` newest by the time of their
 * last change. A directory that isn't there, or a file that can't be removed, is no error: what is
 * left counts the next time. */
void fs_keep_newest(const char *dir, size_t keep,
		    bool (*counts)(int dir_fd, const char *name, const struct stat *st));

/* Copies. */

/* Shares the extents of `from` with the empty file `to` (FICLONE): 0, or 1 when the file system
 * can't. */
int fs_reflink(int from, int to);
/* Copies all bytes of `from`, whatever its offset, into the empty file `to`: by reflink, else
 * copy_file_range, else read and write; holes stay holes. ERR_CHANGED when `from` gets shorter
 * meanwhile. */
int fs_copy_fd(int from, int to, struct err *err);
/* Copies only the bytes from `at` to `end`, to the same place; without reflinks, and with holes as
 * zeros.
 */
int fs_copy_range(int from, int to, off_t at, off_t end, struct err *err);
/* fs_copy_fd() by names; `to` must not exist (ERR_EXISTS) and gets exactly `mode`; on error it is
 * removed. `from` must be a regular file, not a symlink. */
int fs_copy_file_at(int from_dir, const char *from, int to_dir, const char *to, mode_t mode,
		    struct err *err);

/* Locks. */

/* Open-file-description locks: they belong to the open file, not to the process, so they also work
 * between threads and libraries, and end with the last close (or with the process, also after kill
 * -9). They are advisory. Linux supports them on NFS too; fs_network_name() tells about network
 * file systems. Don't mix whole-file and range locks in one file. */

/* 0: locked; 1: another holder has it (only with wait false). `fd` must be open for writing. */
int fs_lock(int fd, bool wait, struct err *err);
void fs_unlock(int fd);
/* Opens or makes `path` (0666 & ~umask) and locks it. 0 with *ret_fd: close it to unlock; 1: busy.
 * Never unlink a lock file. */
int fs_lock_path(const char *path, bool wait, int *ret_fd, struct err *err);

#define FS_LOCK_OFFSET_MAX ((1ULL << 62) - 1)
/* Locks one byte at `offset` (at most FS_LOCK_OFFSET_MAX; the file may be empty): a lease on
 * whatever the offset stands for, such as the first 62 bits of a key. 0: locked; 1: held through
 * another open file. A second try through the same fd gives 0. */
int fs_lock_range_try(int fd, uint64_t offset, struct err *err);
void fs_unlock_range(int fd, uint64_t offset);

/* File systems. */

/* "NFS", "SMB", "CIFS", "FUSE", "AFS", "Ceph", "9P", "Lustre", "GPFS", "GFS2", "OCFS2": a file
 * system that other machines may be writing to (or, for FUSE, that could be anything); NULL for a
 * local one or when it can't be determined. */
const char *fs_network_name(const char *path);

/* Tells whether the path still leads to the file that is open at `fd`. */
bool fs_leads_to(const char *path, int fd);

/* Paths: lexical, as bytes, without a look at the disk. */

/* The caller frees all results. */
char *fs_join(const char *dir,
	      const char *path); /* `path` itself when it is absolute or dir is "" */
/* Without ".", "//" and trailing '/'; ".." removes the component before it, stays at the front of a
 * relative path and vanishes at the root; "" and "." become ".". */
char *fs_normalise(const char *path);
/* Tells whether `path` is `root` itself or below it. Normalises both; both must be absolute or both
 * relative. A relative path that goes up with ".." is inside nothing. */
bool fs_is_inside(const char *root, const char *path);
/* `path` as seen from `root`, when it is inside ("." for root itself); else NULL. */
char *fs_relative(const char *root, const char *path);
/* Makes any text a file name: `/`, `%` and a leading dot become %XX; a long text is cut and gets a
 * digest. Never empty. */
char *fs_file_name(const char *text);
const char *fs_basename(const char *path); /* the part after the last '/', borrowed; "" for "a/" */
char *fs_dirname(const char *path);        /* "." when there is no '/' */

/* Absolute path of the nearest directory, from start_dir upward, that holds cairn.yaml, .cairn/ or
 * .git. ERR_NOT_FOUND; the message names `cairn init`. */
int fs_find_project_root(const char *start_dir, char **ret, struct err *err);

#endif
