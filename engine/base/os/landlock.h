/* engine/base/os/landlock.h — closes directories against writes of a program and all that it
 * starts, whatever its user (Landlock, Linux).
 *
 * Only writes are restricted: opening for writing, truncating, making, removing, renaming, linking.
 * Reading, running programs, chmod and utimes aren't. A Landlock rule can only allow a directory
 * with all below it. So `closed` is closed by allowing everything beside the path to it, from the
 * root down. Therefore the program can make no new names in the directories on that path, and can't
 * write to entries that others make there later. Any thread.
 */
#ifndef CAIRN_BASE_OS_LANDLOCK_H
#define CAIRN_BASE_OS_LANDLOCK_H

#include "base/err.h"

/* A ruleset that closes these directories: absolute paths without links. *ret_fd is for
 * process_spec.rules; close it. ERR_UNSUPPORTED when the kernel can't, or when a directory on the
 * way can't be listed. */
int landlock_close_dirs(const char *const *closed, size_t n, int *ret_fd, struct err *err);
/* Allows writes to the entries of the directory again, except to the entry `except` (or NULL).
 * Links stay closed. */
int landlock_open_entries(int rules, int dir_fd, const char *except, struct err *err);
/* Applies the rules to the caller's thread. Makes only system calls: for a child before exec. -1
 * with errno.
 */
int landlock_enter(int rules);

#endif
