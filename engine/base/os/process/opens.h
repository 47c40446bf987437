/* engine/base/os/process/opens.h — records which files a program and all that it starts read or
 * run.
 *
 * A seccomp filter in the program hands each open() and execve() to a thread of ours, which reads
 * the path and lets the call go on as it is (seccomp_unotify(2)): nothing is refused or changed.
 * Recorded are existing regular files, by their path without links, once each; on request also
 * directories, and files that are to be written or made. Not recorded are files made after the
 * watch began (by the clock of the file system, which may lag by some milliseconds).
 *
 * Not seen: calls of another ABI (an i386 program on x86-64), io_uring, inherited descriptors, and
 * whether a call succeeded. Unless we are root, a setuid program doesn't gain its privileges.
 */
#ifndef CAIRN_BASE_OS_PROCESS_OPENS_H
#define CAIRN_BASE_OS_PROCESS_OPENS_H

#include <stdbool.h>
#include "base/err.h"

/* At most this many files are recorded; the rest is counted. */
#define OPENS_MAX 100000

struct opens;
enum opens_what {
	OPENS_READS, /* regular files that are read or run */
	OPENS_ALL,   /* also directories that are listed, and files that are written or made */
};
/* Begins to watch. Files in the `n` directories `except` (absolute, without links) aren't recorded.
 * ERR_UNSUPPORTED when the kernel can't, or isn't allowed to. */
int opens_new(enum opens_what what, const char *const *except, size_t n, struct opens **ret,
	      struct err *err);
/* For process_spec.opens, for one program only. After the start of the program, or its failure,
 * call opens_started(). */
int opens_fd(const struct opens *o);
void opens_started(struct opens *o);
/* Ends the watch. Call it when all processes of the program have ended, because those that still
 * run can't open files any more. The paths are sorted and live as long as `o`. *ret_untold: how
 * many more files there were, and calls whose path couldn't be read. */
size_t opens_stop(struct opens *o, const char *const **ret, size_t *ret_untold);
void opens_free(struct opens *o); /* NULL is fine */

/* Puts the caller's thread, and what it will start, under watch. Makes only system calls: for a
 * child before exec. -1 with errno. */
int opens_enter(int fd);

#endif
