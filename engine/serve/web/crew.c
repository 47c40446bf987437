#include "serve/web/crew.h"

#include <assert.h>
#include <errno.h>
#include "base/mem.h"
#include "base/os/thread.h"

#define THREADS_MAX 16

struct crew {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct crew_job *first, **last; /* under lock */
	bool ending;                    /* under lock */
	pthread_t threads[THREADS_MAX];
	unsigned n_threads;
};

static void *work(void *arg)
{
	struct crew *c = arg;

	pthread_mutex_lock(&c->lock);
	while (c->first || !c->ending) {
		struct crew_job *job = c->first;

		if (!job) {
			pthread_cond_wait(&c->changed, &c->lock);
			continue;
		}
		c->first = job->next;
		if (!c->first)
			c->last = &c->first;
		pthread_mutex_unlock(&c->lock);
		job->run(job->arg); /* the job may free itself */
		pthread_mutex_lock(&c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

int crew_new(unsigned n_threads, struct crew **ret, struct err *err)
{
	struct crew *c = xcalloc(1, sizeof(*c));

	assert(n_threads > 0 && n_threads <= THREADS_MAX);
	c->last = &c->first;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	for (; c->n_threads < n_threads; c->n_threads++) {
		int r = thread_start(&c->threads[c->n_threads], NULL, work, c);

		if (r) {
			crew_free(c);
			errno = r;
			return err_errno(err, "cannot start a thread");
		}
	}
	*ret = c;
	return 0;
}

void crew_free(struct crew *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&c->lock);
	c->ending = true;
	pthread_cond_broadcast(&c->changed);
	pthread_mutex_unlock(&c->lock);
	for (unsigned i = 0; i < c->n_threads; i++)
		pthread_join(c->threads[i], NULL);
	pthread_cond_destroy(&c->changed);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

void crew_submit(struct crew *c, struct crew_job *job)
{
	assert(job->run);
	job->next = NULL;
	pthread_mutex_lock(&c->lock);
	*c->last = job;
	c->last = &job->next;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
}
