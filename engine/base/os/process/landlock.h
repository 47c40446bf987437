/* engine/base/os/process/landlock.h — closes directories against a program and all that it starts,
 * whatever its user (Landlock, Linux). Any thread.
 *
 * Two kinds of rulesets. One closes some directories against writes, the other opens only what is
 * named.
 *
 * landlock_close_dirs() restricts writes only: opening for writing, truncating, making, removing,
 * renaming, linking. Reading, running programs, chmod and utimes aren't restricted. A Landlock rule
 * can only allow a directory with all below it. So `closed` is closed by allowing everything beside
 * the path to it, from the root down. Therefore the program can make no new names in the
 * directories on that path, and can't write to entries that others make there later.
 *
 * landlock_close_all() also restricts reading files, listing directories and running programs. As
 * far as the kernel can, the program doesn't reach abstract Unix sockets and processes outside
 * either (Linux 6.12). Not restricted: stat() and readlink() of any path, chdir, chmod, utimes, and
 * Unix sockets that have a path.
 */
#ifndef CAIRN_BASE_OS_PROCESS_LANDLOCK_H
#define CAIRN_BASE_OS_PROCESS_LANDLOCK_H

#include "base/err.h"

/* A ruleset that closes these directories: absolute paths without links. *ret_fd is for
 * process_spec.rules; close it. ERR_UNSUPPORTED when the kernel can't, or when a directory on the
 * way can't be listed. */
int landlock_close_dirs(const char *const *closed, size_t n, int *ret_fd, struct err *err);
/* Allows writes to the entries of the directory again, except to the entry `except` (or NULL).
 * Links stay closed. */
int landlock_open_entries(int rules, int dir_fd, const char *except, struct err *err);
/* A ruleset that allows nothing; landlock_open() adds to it. As landlock_close_dirs() otherwise. */
int landlock_close_all(int *ret_fd, struct err *err);
enum landlock_use {
	LANDLOCK_READ,   /* read files, list directories, run programs */
	LANDLOCK_WRITE,  /* and everything else, except to make devices */
	LANDLOCK_DEVICE, /* read, write and control: for devices */
};
/* Allows this use of the file, or of the directory and all below it. A path that doesn't exist, or
 * may not be looked at, stays closed. */
int landlock_open(int rules, const char *path, enum landlock_use use, struct err *err);
/* Whether the kernel can do all this. */
int landlock_check(struct err *err);
/* Applies the rules to the caller's thread. Makes only system calls: for a child before exec. -1
 * with errno.
 */
int landlock_enter(int rules);

#endif
