/* engine/base/os/landlock.h — directories that a program and all that it starts can't write to,
 * whoever it runs as (Landlock, Linux).
 *
 * Only writing is ruled: opening for writing, truncating, making, removing, renaming, linking.
 * Reading, running programs, chmod and utimes aren't. The kernel knows only what is allowed, with
 * all that lies beneath it. So `closed` is closed by allowing everything beside it, along its way
 * from the root: in the directories on that way no new names can be made, and what somebody else
 * makes there later can't be written to. Any thread.
 */
#ifndef CAIRN_BASE_OS_LANDLOCK_H
#define CAIRN_BASE_OS_LANDLOCK_H

#include "base/err.h"

/* A ruleset that closes these directories: absolute paths without links. *ret_fd is for
 * process_spec.rules; close it. ERR_UNSUPPORTED when the kernel can't, or when a directory on the
 * way can't be listed. */
int landlock_close_dirs(const char *const *closed, size_t n, int *ret_fd, struct err *err);
/* Opens what lies in the directory again, but for the entry `except` (or NULL). Links stay out. */
int landlock_open_entries(int rules, int dir_fd, const char *except, struct err *err);
/* Brings the caller's thread under it. Only system calls: for a child before exec. -1 with errno.
 */
int landlock_enter(int rules);

#endif
