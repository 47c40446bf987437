/* engine/base/os/thread.h — threads that leave signals to the loop, and conditions that changes of
 * the clock don't disturb.
 *
 * A signal to a process goes to any thread that hasn't blocked it. So all threads but the main one
 * block all signals; else a SIGTERM, meant as a request to the loop, could reach another thread and
 * end the process. Signals that the thread itself causes (such as SIGSEGV) aren't blocked.
 */
#ifndef CAIRN_BASE_OS_THREAD_H
#define CAIRN_BASE_OS_THREAD_H

#include <pthread.h>

/* As pthread_create(): 0, or an errno. */
int thread_start(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *arg), void *arg);

/* A condition whose timed waits use CLOCK_MONOTONIC, which nobody sets, and which stops while the
 * machine sleeps. */
void thread_cond_init(pthread_cond_t *c);

#endif
