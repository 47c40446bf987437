/* engine/base/os/thread.h — threads that leave the program's signals to the loop, and conditions
 * that no clock disturbs.
 *
 * A signal that is sent to a process goes to any thread that hasn't blocked it. So all but the main
 * thread block them all: else SIGTERM, which the loop takes as a request, would end the process
 * when it comes to a thread that the loop knows nothing of. Those that the thread itself causes
 * (SIGSEGV and the like) stay as they are.
 */
#ifndef CAIRN_BASE_OS_THREAD_H
#define CAIRN_BASE_OS_THREAD_H

#include <pthread.h>

/* As pthread_create(): 0, or an errno. */
int thread_start(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *arg), void *arg);

/* A condition whose timed waits count by CLOCK_MONOTONIC: nobody sets it, and it stands still while
 * the machine sleeps. */
void thread_cond_init(pthread_cond_t *c);

#endif
