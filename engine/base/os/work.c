/* engine/base/os/work.c — a queue of work for the time of one call.
 *
 * The queue is a stack, so that what an item adds runs before older work, and memory stays small.
 * A thread takes one call at a time. Threads are started when there is work and none is idle. All
 * is done when the stack is empty and no call runs: then each thread ends, and the caller joins
 * them.
 *
 * Threads: all fields are under `lock`, which isn't held during a call. What it doesn't do: order
 * results, or keep threads for the next call.
 */
#include "base/os/work.h"

#include <assert.h>
#include <pthread.h>
#include "base/mem.h"
#include "base/os/thread.h"

#define STACK_BYTES (512 * KIB) /* of a thread: room for errors on the stack; calls aren't deep */

struct work_item {
	struct work w;
	size_t next;
};

struct work_queue {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	VEC(struct work_item) stack;
	size_t under_way; /* calls running now */
	unsigned idle, max;
	VEC(pthread_t) threads;
};

static void *work_thread(void *arg);

/* With the lock held. If a thread can't be started, fewer threads work. */
static void start_threads(struct work_queue *q, size_t wanted)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, STACK_BYTES);
	while (wanted > q->idle && q->threads.n + 1 < q->max) {
		pthread_t t;

		if (thread_start(&t, &attr, work_thread, q) != 0)
			break;
		VEC_PUSH(&q->threads, t);
		wanted--;
	}
	pthread_attr_destroy(&attr);
}

void work_push(struct work_queue *q, struct work w)
{
	if (!w.n)
		return;
	pthread_mutex_lock(&q->lock);
	VEC_PUSH(&q->stack, ((struct work_item){ .w = w }));
	start_threads(q, w.n);
	pthread_cond_broadcast(&q->changed);
	pthread_mutex_unlock(&q->lock);
}

/* With the lock held: takes one call. False when all is done. */
static bool take(struct work_queue *q, struct work *ret, size_t *ret_i)
{
	struct work_item *top;

	while (!q->stack.n && q->under_way) {
		q->idle++;
		pthread_cond_wait(&q->changed, &q->lock);
		q->idle--;
	}
	if (!q->stack.n)
		return false;
	top = &q->stack.v[q->stack.n - 1];
	*ret = top->w;
	*ret_i = top->next++;
	if (top->next == top->w.n)
		q->stack.n--;
	q->under_way++;
	return true;
}

static void *work_thread(void *arg)
{
	struct work_queue *q = arg;
	struct work w;
	size_t i;

	pthread_mutex_lock(&q->lock);
	while (take(q, &w, &i)) {
		pthread_mutex_unlock(&q->lock);
		w.fn(q, w.arg, i);
		pthread_mutex_lock(&q->lock);
		if (--q->under_way == 0 && !q->stack.n)
			pthread_cond_broadcast(&q->changed);
	}
	pthread_mutex_unlock(&q->lock);
	return NULL;
}

void work_run(unsigned threads, struct work w)
{
	struct work_queue q = { .max = MAX(threads, 1u) };

	pthread_mutex_init(&q.lock, NULL);
	pthread_cond_init(&q.changed, NULL);
	pthread_mutex_lock(&q.lock);
	if (w.n) {
		VEC_PUSH(&q.stack, ((struct work_item){ .w = w }));
		start_threads(&q, w.n - 1); /* this thread works too */
	}
	pthread_mutex_unlock(&q.lock);
	work_thread(&q);
	for (size_t i = 0; i < q.threads.n; i++) /* all work is done, so no thread starts another */
		pthread_join(q.threads.v[i], NULL);
	assert(!q.stack.n && !q.under_way);
	VEC_FREE(&q.stack);
	VEC_FREE(&q.threads);
	pthread_mutex_destroy(&q.lock);
	pthread_cond_destroy(&q.changed);
}

struct each {
	int (*fn)(void *arg, size_t i, struct err *err);
	void *arg;
	bool all;
	pthread_mutex_t lock;
	struct err err; /* the first; under `lock` */
};

static void each_one(struct work_queue *q, void *arg, size_t i)
{
	struct each *e = arg;
	struct err err = { 0 };
	bool stop;

	pthread_mutex_lock(&e->lock);
	stop = e->err.code && !e->all;
	pthread_mutex_unlock(&e->lock);
	if (stop || e->fn(e->arg, i, &err) >= 0)
		return;
	assert(err.code);
	pthread_mutex_lock(&e->lock);
	if (!e->err.code)
		e->err = err;
	pthread_mutex_unlock(&e->lock);
}

int work_each(unsigned threads, size_t n, bool all, int (*fn)(void *arg, size_t i, struct err *err),
	      void *arg, struct err *err)
{
	struct each e = { .fn = fn, .arg = arg, .all = all, .lock = PTHREAD_MUTEX_INITIALIZER };

	work_run(threads, (struct work){ each_one, &e, n });
	return e.err.code ? err_pass(err, &e.err) : 0;
}
