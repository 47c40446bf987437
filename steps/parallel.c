/* steps/parallel.c — work on all cores; the result doesn't depend on how many there are.
 *
 * A stream is a ring of slots; each item is made, worked on, and done in order. Every thread does
 * whatever is possible next: finishing in order comes before working, working before making, so
 * that the ring drains first and memory stays bounded. `made`, `taken` and `finished` only grow,
 * with finished ≤ taken ≤ made ≤ finished + n; item k lives in slot k % n.
 *
 * The lock is held for the ring's state only, never during a callback. The flags `making` and
 * `finishing` admit one thread each: next() never overlaps itself, nor does done(), but the two may
 * run together.
 *
 * An error takes its place in the order: the slot of a failed item is finished in its turn, so the
 * error of the earliest item counts. After it (`failed`) no item is made or worked on; items that
 * were made go to drop().
 *
 * step_parallel() gives out indices from a counter. After a failure only smaller indices still run,
 * since one of them may fail too and then is the first.
 *
 * Threads live for one call. Having fewer than were asked for is no error: the caller's thread is
 * always one of them.
 */
#include <assert.h>
#include <pthread.h>
#include <string.h>
#include "base/mem.h"
#include "steps/step.h"

#define IN_FLIGHT_PER_THREAD 4

/* A stream. */

struct slot {
	enum { SLOT_FREE, SLOT_MADE, SLOT_BUSY, SLOT_WORKED } state;
	void *item;
	struct err err; /* code 0 when the work went well */
};

struct ring {
	const struct step_stream *s;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	struct slot *slots;
	size_t n;                      /* slots */
	size_t made, taken, finished;  /* totals: by next(), for work, by done() */
	bool making, finishing, ended; /* ended: nothing more is made */
	bool failed;
	struct err err;
};

/* Each of these is called with the lock held, releases it for the callback, and returns with it
 * held again. */
static void make_one(struct ring *r)
{
	struct err err = { 0 };
	struct slot *slot = &r->slots[r->made % r->n];
	void *item;

	r->making = true;
	pthread_mutex_unlock(&r->lock);
	item = r->s->next(r->s->arg, &err);
	pthread_mutex_lock(&r->lock);
	r->making = false;
	if (item || err.code) { /* an error takes its place in the order */
		*slot = (struct slot){ .state = item ? SLOT_MADE : SLOT_WORKED,
				       .item = item,
				       .err = err };
		r->made++;
	}
	r->ended |= !item;
}

static void work_one(struct ring *r)
{
	struct slot *slot = &r->slots[r->taken++ % r->n];
	struct err err = { 0 };

	if (slot->state != SLOT_MADE)
		return;
	if (r->failed) { /* it will be dropped */
		slot->state = SLOT_WORKED;
		return;
	}
	slot->state = SLOT_BUSY;
	pthread_mutex_unlock(&r->lock);
	if (r->s->work && r->s->work(r->s->arg, slot->item, &err) < 0 && !err.code)
		err_set(&err, ERR_INVALID, "a step's work failed without a reason");
	pthread_mutex_lock(&r->lock);
	slot->err = err;
	slot->state = SLOT_WORKED;
}

static void finish_one(struct ring *r)
{
	struct slot *slot = &r->slots[r->finished % r->n];
	struct err err = slot->err;
	void *item = slot->item;
	bool drop = r->failed || err.code;

	r->finishing = true;
	pthread_mutex_unlock(&r->lock);
	if (drop && item)
		r->s->drop(r->s->arg, item);
	else if (item && r->s->done(r->s->arg, item, &err) < 0 && !err.code)
		err_set(&err, ERR_INVALID, "a step's writer failed without a reason");
	pthread_mutex_lock(&r->lock);
	r->finishing = false;
	slot->state = SLOT_FREE;
	r->finished++;
	if (err.code && !r->failed) {
		r->failed = true;
		r->err = err;
	}
}

static void *turn(void *arg)
{
	struct ring *r = arg;

	pthread_mutex_lock(&r->lock);
	while (!((r->ended || r->failed) && r->finished == r->made && !r->making &&
		 !r->finishing)) {
		if (!r->finishing && r->finished < r->made &&
		    r->slots[r->finished % r->n].state == SLOT_WORKED)
			finish_one(r);
		else if (r->taken < r->made)
			work_one(r);
		else if (!r->making && !r->ended && !r->failed && r->made - r->finished < r->n)
			make_one(r);
		else {
			pthread_cond_wait(&r->changed, &r->lock);
			continue;
		}
		pthread_cond_broadcast(&r->changed);
	}
	pthread_cond_broadcast(&r->changed);
	pthread_mutex_unlock(&r->lock);
	return NULL;
}

/* Fewer threads than asked for only take longer. */
static void run_on_threads(unsigned threads, void *(*fn)(void *), void *arg)
{
	pthread_t *v = xcalloc(threads, sizeof(*v));
	unsigned n = 0;

	while (n + 1 < threads && pthread_create(&v[n], NULL, fn, arg) == 0)
		n++;
	fn(arg);
	for (unsigned i = 0; i < n; i++)
		pthread_join(v[i], NULL);
	free(v);
}

int step_stream(unsigned threads, const struct step_stream *s, struct err *err)
{
	struct ring r = { .s = s,
			  .lock = PTHREAD_MUTEX_INITIALIZER,
			  .changed = PTHREAD_COND_INITIALIZER };

	assert(s->next && s->done && s->drop);
	threads = MAX(threads, 1);
	r.n = s->max_in_flight ? s->max_in_flight : (size_t)threads * IN_FLIGHT_PER_THREAD;
	r.slots = xcalloc(r.n, sizeof(*r.slots));
	run_on_threads(threads, turn, &r);
	free(r.slots);
	pthread_mutex_destroy(&r.lock);
	pthread_cond_destroy(&r.changed);
	return r.failed ? err_pass(err, &r.err) : 0;
}

/* A known number of items. */

struct range {
	int (*work)(void *arg, size_t i, struct err *err);
	void *arg;
	pthread_mutex_t lock;
	size_t n, next, failed_at; /* failed_at: n when none has */
	struct err err;
};

static void *work_range(void *arg)
{
	struct range *r = arg;

	for (;;) {
		struct err err = { 0 };
		size_t i;

		pthread_mutex_lock(&r->lock);
		/* Indices before the failure still run: they may fail too. */
		i = r->next < r->failed_at ? r->next++ : r->n;
		pthread_mutex_unlock(&r->lock);
		if (i >= r->n)
			return NULL;
		if (r->work(r->arg, i, &err) < 0) {
			pthread_mutex_lock(&r->lock);
			if (i < r->failed_at) {
				r->failed_at = i;
				r->err = err;
			}
			pthread_mutex_unlock(&r->lock);
		}
	}
}

int step_parallel(unsigned threads, size_t n, int (*work)(void *arg, size_t i, struct err *err),
		  void *arg, struct err *err)
{
	struct range r = {
		.work = work, .arg = arg, .lock = PTHREAD_MUTEX_INITIALIZER, .n = n, .failed_at = n
	};

	run_on_threads((unsigned)MIN(MAX(threads, 1), MAX(n, 1)), work_range, &r);
	pthread_mutex_destroy(&r.lock);
	return r.failed_at < n ? err_pass(err, &r.err) : 0;
}
