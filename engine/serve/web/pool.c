#include "serve/web/pool.h"

#include <assert.h>
#include "base/mem.h"
#include "base/os/thread.h"

struct web_pool {
	struct threads threads;
	struct web_job *first, **last; /* under the threads' lock */
};

static void *work(void *arg)
{
	struct web_pool *c = arg;

	pthread_mutex_lock(&c->threads.lock);
	while (c->first || !c->threads.ending) {
		struct web_job *job = c->first;

		if (!job) {
			pthread_cond_wait(&c->threads.changed, &c->threads.lock);
			continue;
		}
		c->first = job->next;
		if (!c->first)
			c->last = &c->first;
		pthread_mutex_unlock(&c->threads.lock);
		job->run(job->arg); /* the job may free itself */
		pthread_mutex_lock(&c->threads.lock);
	}
	pthread_mutex_unlock(&c->threads.lock);
	return NULL;
}

int web_pool_new(unsigned n_threads, struct web_pool **ret, struct err *err)
{
	struct web_pool *c = xcalloc(1, sizeof(*c));

	assert(n_threads > 0 && n_threads <= THREADS_MAX);
	c->last = &c->first;
	threads_init(&c->threads);
	for (unsigned i = 0; i < n_threads; i++)
		if (threads_start(&c->threads, work, c, err) < 0) {
			web_pool_free(c);
			return -1;
		}
	*ret = c;
	return 0;
}

void web_pool_free(struct web_pool *c)
{
	if (!c)
		return;
	threads_deinit(&c->threads);
	free(c);
}

void web_pool_submit(struct web_pool *c, struct web_job *job)
{
	assert(job->run);
	job->next = NULL;
	pthread_mutex_lock(&c->threads.lock);
	*c->last = job;
	c->last = &job->next;
	pthread_cond_signal(&c->threads.changed);
	pthread_mutex_unlock(&c->threads.lock);
}
