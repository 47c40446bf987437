/* packaging/musl/missing.h — what glibc has and musl lacks, for the static program: included
 * before each of its sources by -include. Only what Cairn uses, with the same contracts.
 */
#ifndef CAIRN_PACKAGING_STATIC_MISSING_H
#define CAIRN_PACKAGING_STATIC_MISSING_H

#include <pthread.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <time.h>

#ifndef RENAME_NOREPLACE
#define RENAME_NOREPLACE (1 << 0)
#define RENAME_EXCHANGE  (1 << 1)
int renameat2(int old_dir, const char *old_path, int new_dir, const char *new_path, unsigned flags);
#endif

const char *strerrordesc_np(int error);
const char *sigabbrev_np(int signal); /* "TERM"; NULL: no such signal */
int close_range(unsigned first, unsigned last, int flags);
/* Only with CLOCK_MONOTONIC. */
int pthread_clockjoin_np(pthread_t thread, void **value, clockid_t clock,
			 const struct timespec *until);

/* ENOSYS before Linux 5.11. */
int epoll_pwait2(int epoll, struct epoll_event *events, int max, const struct timespec *wait,
		 const sigset_t *mask);
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

/* musl's malloc() has no arenas to be limited. */
#define M_ARENA_MAX      (-8)
#define mallopt(what, n) ((void)(n))

#endif
