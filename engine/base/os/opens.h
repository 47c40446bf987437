/* engine/base/os/opens.h — which files a program and all that it starts open for reading, or run.
 *
 * A seccomp filter in the program hands each open() and execve() to a thread of ours, which reads
 * the path and lets the call go on as it is (seccomp_unotify(2)): nothing is refused or changed.
 * Told are regular files that are there, by their path without links, once each; not those that
 * were made after the watch began (by the clock of the file system, which may lag by some
 * milliseconds), nor those that were opened for writing only.
 *
 * Not seen: calls of another ABI than ours (an i386 program on x86-64), io_uring, descriptors that
 * the program was given, and whether the call went well. A program that gains privileges when it is
 * run (setuid) doesn't gain them, unless we are root.
 */
#ifndef CAIRN_BASE_OS_OPENS_H
#define CAIRN_BASE_OS_OPENS_H

#include <stdbool.h>
#include "base/err.h"

/* So many files are told; what comes then is counted. */
#define OPENS_MAX 100000

struct opens;
/* Begins to watch. What lies in one of the `n` directories `except` (absolute, without links) isn't
 * told. ERR_UNSUPPORTED when the kernel can't, or isn't allowed to. */
int opens_new(const char *const *except, size_t n, struct opens **ret, struct err *err);
/* For process_spec.opens: of one program only. Once it was started, or couldn't be, call
 * opens_started(). */
int opens_fd(const struct opens *o);
void opens_started(struct opens *o);
/* Ends the watch: what still runs of the program can't open files any more. Call it when all of it
 * has ended. The paths are sorted and live as long as `o`; *ret_untold: how many files more there
 * were, and calls whose path couldn't be read. */
size_t opens_stop(struct opens *o, const char *const **ret, size_t *ret_untold);
void opens_free(struct opens *o); /* NULL is fine */

/* Puts the caller's thread, and what it will start, under watch. Only system calls: for a child
 * before exec. -1 with errno. */
int opens_enter(int fd);

#endif
