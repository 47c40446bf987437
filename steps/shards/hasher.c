/* steps/shards/hasher.c — a ring of buffers between two threads: `given` out to be filled, `pushed`
 * when full, `hashed` when free again. */
#include "steps/shards/hasher.h"

#include <assert.h>
#include <pthread.h>
#include "base/mem.h"

/* One is filled, one is hashed, two absorb short delays of either thread. */
#define BUFFERS 4

struct hasher {
	struct digester *sha;
	pthread_t thread;
	bool has_thread;
	pthread_mutex_t lock;
	pthread_cond_t changed;
	char *buf[BUFFERS];
	size_t n[BUFFERS];
	uint64_t pushed, hashed; /* in total */
	bool ended;
};

static void *hash_all(void *arg)
{
	struct hasher *h = arg;

	pthread_mutex_lock(&h->lock);
	for (;;) {
		size_t at = h->hashed % BUFFERS;

		if (h->hashed == h->pushed) {
			if (h->ended)
				break;
			pthread_cond_wait(&h->changed, &h->lock);
			continue;
		}
		pthread_mutex_unlock(&h->lock);
		digester_update(h->sha, h->buf[at], h->n[at]);
		pthread_mutex_lock(&h->lock);
		h->hashed++;
		pthread_cond_signal(&h->changed);
	}
	pthread_mutex_unlock(&h->lock);
	return NULL;
}

struct hasher *hasher_new(size_t size)
{
	struct hasher *h = xcalloc(1, sizeof(*h));

	h->sha = digester_new();
	pthread_mutex_init(&h->lock, NULL);
	pthread_cond_init(&h->changed, NULL);
	for (size_t i = 0; i < BUFFERS; i++)
		h->buf[i] = xmalloc(size);
	h->has_thread = pthread_create(&h->thread, NULL, hash_all, h) == 0;
	return h;
}

char *hasher_buffer(struct hasher *h)
{
	char *buf;

	pthread_mutex_lock(&h->lock);
	while (h->pushed - h->hashed == BUFFERS)
		pthread_cond_wait(&h->changed, &h->lock);
	buf = h->buf[h->pushed % BUFFERS];
	pthread_mutex_unlock(&h->lock);
	return buf;
}

void hasher_push(struct hasher *h, size_t n)
{
	pthread_mutex_lock(&h->lock);
	assert(h->pushed - h->hashed < BUFFERS && !h->ended);
	h->n[h->pushed % BUFFERS] = n;
	h->pushed++;
	if (!h->has_thread)
		digester_update(h->sha, h->buf[h->hashed++ % BUFFERS], n);
	pthread_cond_signal(&h->changed);
	pthread_mutex_unlock(&h->lock);
}

static void stop(struct hasher *h)
{
	pthread_mutex_lock(&h->lock);
	h->ended = true;
	pthread_cond_signal(&h->changed);
	pthread_mutex_unlock(&h->lock);
	if (h->has_thread)
		pthread_join(h->thread, NULL);
	h->has_thread = false;
}

void hasher_final(struct hasher *h, struct digest *ret)
{
	stop(h);
	digester_final(h->sha, ret);
}

void hasher_free(struct hasher *h)
{
	if (!h)
		return;
	stop(h);
	for (size_t i = 0; i < BUFFERS; i++)
		free(h->buf[i]);
	pthread_mutex_destroy(&h->lock);
	pthread_cond_destroy(&h->changed);
	digester_free(h->sha);
	free(h);
}
