/* runners/kubernetes/init/init.h — the parts of `cairn-init`, process 1 of a pod's main container.
 * What it does stands in protocol.h.
 *
 * It is linked statically and runs in any image: nothing here asks for names, locales, threads or a
 * place to write beside POD_RUN. One thread, which waits in poll() alone, so that a signal is acted
 * on whatever the program, the disk or the reader of our output do.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_INIT_INIT_H
#define CAIRN_RUNNERS_KUBERNETES_INIT_INIT_H

#include <sys/types.h>
#include "base/text/str.h"
#include "runners/kubernetes/init/protocol.h"

int64_t init_now_ns(void); /* monotonic */

/* log.c: what a program prints, to the container's output and to I/log, with secrets taken out. */

struct redactor;
struct init_log {
	int fd; /* of I/log; -1: it can't be made. The program runs all the same; the sidecar
		   reports it */
	uint64_t kept, max;        /* bytes of I/log, and how many there may be */
	bool is_over;              /* it has `max` bytes */
	uint64_t lost;             /* bytes that I/log could not take since the last that it took */
	bool unread;               /* nobody reads our output any more: only I/log is written */
	struct redactor *redactor; /* or NULL */
	struct str clean, out;     /* out: what our own output hasn't taken yet */
};
/* `names`: variables of our environment whose values are secret. */
void init_log_open(struct init_log *l, int dir_fd, const char *const *names);
void init_log_feed(struct init_log *l, const char *bytes, size_t n, bool end);
/* Our output doesn't keep up: nothing more is to be read from the program for now. */
bool init_log_is_full(const struct init_log *l);
void init_log_flush(struct init_log *l); /* what our output takes without waiting */
/* Whoever reads our output has stopped: it is not waited for, so that I/log has the rest. */
void init_log_give_up_output(struct init_log *l);
void init_log_close(struct init_log *l);

/* program.c: one program, from start to end. */

struct init_surroundings {
	int signals;        /* signalfd of what init_signals() has */
	const char *cgroup; /* directory of the container's own group */
	int64_t flush_ns;   /* for our output's reader to take the rest */
	bool alone;         /* we are process 1: all processes that there are, are the program's */
};
void init_signals(sigset_t *ret);
/* dir_fd: POD_RUN/I. *told is set when the pod is told to end, and stays set. */
void init_run(const struct init_program *p, const struct init_surroundings *s, int dir_fd,
	      bool *told, struct init_exit *ret);

/* cgroup.c */

/* How often the kernel killed something of this group for memory so far; 0 where it doesn't count.
 */
uint64_t init_oom_kills(const char *cgroup);

/* open_up.c */

/* Lets everybody read what our user made below `path`: the sidecar may be another user. */
void init_open_up(const char *path);

#endif
