#include "serve/web/pool.h"

#include <assert.h>
#include <errno.h>
#include "base/mem.h"
#include "base/os/thread.h"

#define THREADS_MAX 16

struct web_pool {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct web_job *first, **last; /* under lock */
	bool ending;                   /* under lock */
	pthread_t threads[THREADS_MAX];
	unsigned n_threads;
};

static void *work(void *arg)
{
	struct web_pool *c = arg;

	pthread_mutex_lock(&c->lock);
	while (c->first || !c->ending) {
		struct web_job *job = c->first;

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

int web_pool_new(unsigned n_threads, struct web_pool **ret, struct err *err)
{
	struct web_pool *c = xcalloc(1, sizeof(*c));

	assert(n_threads > 0 && n_threads <= THREADS_MAX);
	c->last = &c->first;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->changed, NULL);
	for (; c->n_threads < n_threads; c->n_threads++) {
		int r = thread_start(&c->threads[c->n_threads], NULL, work, c);

		if (r) {
			web_pool_free(c);
			errno = r;
			return err_errno(err, "cannot start a thread");
		}
	}
	*ret = c;
	return 0;
}

void web_pool_free(struct web_pool *c)
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

void web_pool_submit(struct web_pool *c, struct web_job *job)
{
	assert(job->run);
	job->next = NULL;
	pthread_mutex_lock(&c->lock);
	*c->last = job;
	c->last = &job->next;
	pthread_cond_signal(&c->changed);
	pthread_mutex_unlock(&c->lock);
}
