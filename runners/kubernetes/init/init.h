/* runners/kubernetes/init/init.h — the parts of `cairn-init`, process 1 of a pod's main container.
 * protocol.h says what it does.
 *
 * It is linked statically and runs in any image: it needs no name service, locale, threads or
 * writable place except POD_RUN. It has one thread, which waits only in poll(). So it acts on a
 * signal at once, whatever the program, the disk or the reader of the output do.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_INIT_INIT_H
#define CAIRN_RUNNERS_KUBERNETES_INIT_INIT_H

#include <sys/types.h>
#include "base/text/str.h"
#include "runners/kubernetes/init/protocol.h"

int64_t init_now_ns(void); /* monotonic */

/* log.c: writes what a program prints to the container's output and to I/log, without secrets. */

struct redactor;
struct init_log {
	/* Of I/log; -1: it can't be created. The program runs all the same; the sidecar reports it.
	 */
	int fd;
	uint64_t kept, max; /* bytes of I/log, and its limit */
	bool is_over;       /* it has `max` bytes */
	uint64_t lost;      /* bytes that I/log could not take since its last successful write */
	bool unread; /* nobody reads the container's output any more: only I/log is written */
	struct redactor *redactor; /* or NULL */
	struct str clean, out;     /* out: bytes that the container's output hasn't taken yet */
};
/* `names`: environment variables whose values are secret. */
void init_log_open(struct init_log *l, int dir_fd, const char *const *names);
void init_log_feed(struct init_log *l, const char *bytes, size_t n, bool end);
/* The container's output is too slow: read nothing more from the program for now. */
bool init_log_is_full(const struct init_log *l);
void init_log_flush(struct init_log *l); /* writes as much as the output takes without waiting */
/* Stops waiting for a reader that has stopped, so that I/log gets the rest. */
void init_log_give_up_output(struct init_log *l);
void init_log_close(struct init_log *l);

/* program.c: one program, from start to end. */

struct init_surroundings {
	int signals;        /* signalfd for the signals of init_signals() */
	const char *cgroup; /* directory of the container's cgroup */
	int64_t flush_ns;   /* how long the output's reader may take for the rest */
	bool alone;         /* this is process 1: all other processes are the program's */
};
void init_signals(sigset_t *ret);
/* dir_fd: POD_RUN/I. *stopped is set when the pod gets the signal to end, and stays set. */
void init_run(const struct init_program *p, const struct init_surroundings *s, int dir_fd,
	      bool *stopped, struct init_exit *ret);

/* cgroup.c */

/* How many processes of this cgroup the kernel has killed for memory; 0 where it doesn't count.
 */
uint64_t init_oom_kills(const char *cgroup);

/* make_readable.c */

/* Makes everything that our user made below `path` readable: the sidecar may be another user. */
void init_make_readable(const char *path);

#endif
