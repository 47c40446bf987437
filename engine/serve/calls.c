#include "serve/calls.h"
#include <pthread.h>
#include <string.h>
#include "base/mem.h"

struct call {
	loop_fn fn;
	void *arg;
	bool done, ran;
};

struct calls {
	struct loop *loop;
	pthread_mutex_t lock;
	pthread_cond_t ended;
	VEC(struct call *) waiting;
	bool posted, closed;
};

struct calls *calls_new(struct loop *l)
{
	struct calls *c = xcalloc(1, sizeof(*c));

	c->loop = l;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->ended, NULL);
	return c;
}

/* The lock is released during each call, so that other threads can queue theirs. */
static void run_waiting(void *arg)
{
	struct calls *c = arg;

	pthread_mutex_lock(&c->lock);
	c->posted = false;
	while (c->waiting.n) {
		struct call *call = c->waiting.v[0];

		memmove(c->waiting.v, c->waiting.v + 1, --c->waiting.n * sizeof(*c->waiting.v));
		pthread_mutex_unlock(&c->lock);
		call->fn(call->arg);
		pthread_mutex_lock(&c->lock);
		call->ran = call->done = true;
		pthread_cond_broadcast(&c->ended);
	}
	pthread_mutex_unlock(&c->lock);
}

void calls_free(struct calls *c)
{
	if (!c)
		return;
	loop_unpost(c->loop, run_waiting, c);
	VEC_FREE(&c->waiting);
	pthread_cond_destroy(&c->ended);
	pthread_mutex_destroy(&c->lock);
	free(c);
}

bool calls_run(struct calls *c, loop_fn fn, void *arg)
{
	struct call call = { fn, arg, false, false };

	pthread_mutex_lock(&c->lock);
	if (!c->closed) {
		VEC_PUSH(&c->waiting, &call);
		if (!c->posted) {
			c->posted = true;
			loop_post(c->loop, run_waiting, c);
		}
		while (!call.done)
			pthread_cond_wait(&c->ended, &c->lock);
	}
	pthread_mutex_unlock(&c->lock);
	return call.ran;
}

/* lint: unused but by tests: they wait for it */
size_t calls_waiting(struct calls *c)
{
	size_t n;

	pthread_mutex_lock(&c->lock);
	n = c->waiting.n;
	pthread_mutex_unlock(&c->lock);
	return n;
}

void calls_close(struct calls *c)
{
	pthread_mutex_lock(&c->lock);
	c->closed = true;
	for (size_t i = 0; i < c->waiting.n; i++)
		c->waiting.v[i]->done = true;
	c->waiting.n = 0;
	pthread_cond_broadcast(&c->ended);
	pthread_mutex_unlock(&c->lock);
}
