/* engine/base/os/thread.h — threads that leave signals to the loop, conditions that changes of the
 * clock don't disturb, and threads that share one lock until they are told to end.
 *
 * A signal to a process goes to any thread that hasn't blocked it. So all threads but the main one
 * block all signals; else a SIGTERM, meant as a request to the loop, could reach another thread and
 * end the process. Signals that the thread itself causes (such as SIGSEGV) aren't blocked.
 */
#ifndef CAIRN_BASE_OS_THREAD_H
#define CAIRN_BASE_OS_THREAD_H

#include <pthread.h>
#include <stdbool.h>
#include "base/err.h"

/* As pthread_create(): 0, or an errno. */
int thread_start(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *arg), void *arg);

/* A condition whose timed waits use CLOCK_MONOTONIC, which nobody sets, and which stops while the
 * machine sleeps. */
void thread_cond_init(pthread_cond_t *c);

#define THREADS_MAX 16 /* the web server's pool has as many */

/* What threads share: a lock, and one condition for every change under it. Open for those who wait
 * and change. */
struct threads {
	pthread_mutex_t lock;
	pthread_cond_t changed; /* as thread_cond_init() makes it */
	bool ending;            /* under lock: each thread returns when it sees it */
	pthread_t v[THREADS_MAX];
	unsigned n; /* of who starts them and ends them */
};
void threads_init(struct threads *t);
/* One more. With the lock held or not. */
int threads_start(struct threads *t, void *(*fn)(void *arg), void *arg, struct err *err);
/* Sets `ending`, and waits until all have returned. Without the lock. Again is fine. */
void threads_end(struct threads *t);
void threads_deinit(struct threads *t); /* ends them first */

#endif
