#include "base/os/thread.h"
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <time.h>
#include "base/macros.h"

int thread_start(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *arg), void *arg)
{
	static const int own[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, SIGTRAP, SIGSYS };
	sigset_t all, old;
	int r;

	sigfillset(&all);
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		sigdelset(&all, own[i]);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(ret, attr, fn, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return r;
}

void thread_cond_init(pthread_cond_t *c)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(c, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

void threads_init(struct threads *t)
{
	*t = (struct threads){ .n = 0 };
	pthread_mutex_init(&t->lock, NULL);
	thread_cond_init(&t->changed);
}

int threads_start(struct threads *t, void *(*fn)(void *arg), void *arg, struct err *err)
{
	assert(t->n < THREADS_MAX);
	errno = thread_start(&t->v[t->n], NULL, fn, arg);
	if (errno)
		return err_errno(err, "cannot start a thread");
	t->n++;
	return 0;
}

void threads_end(struct threads *t)
{
	pthread_mutex_lock(&t->lock);
	t->ending = true;
	pthread_cond_broadcast(&t->changed);
	pthread_mutex_unlock(&t->lock);
	for (; t->n; t->n--)
		pthread_join(t->v[t->n - 1], NULL);
}

void threads_deinit(struct threads *t)
{
	threads_end(t);
	pthread_cond_destroy(&t->changed);
	pthread_mutex_destroy(&t->lock);
}
