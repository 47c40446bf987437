/* steps/table/dict.c — open addressing with linear probes, at most half full. */
#include "steps/table/dict.h"
#include <assert.h>
#include <pthread.h>
#include <string.h>
#include "base/os/machine.h"

static uint64_t seed;
static void make_seed(void)
{
	seed = random_u64();
}

static inline uint64_t mix(uint64_t h, uint64_t v)
{
	__extension__ unsigned __int128 x = (unsigned __int128)(h ^ v) * 0x9fb21c651e98df25ULL;

	return (uint64_t)x ^ (uint64_t)(x >> 64);
}

static uint32_t hash(const char *s, size_t n)
{
	uint64_t h = seed ^ n, v;

	for (; n >= 8; s += 8, n -= 8) {
		memcpy(&v, s, 8);
		h = mix(h, v);
	}
	v = 0;
	memcpy(&v, s, n);
	h = mix(mix(h, v), 0x2545f4914f6cdd1dULL);
	return (uint32_t)(h ^ h >> 32);
}

static bool is(const struct dict_text *t, uint32_t h, const char *s, size_t n)
{
	return t->hash == h && t->n == n && memcmp(t->s, s, n) == 0;
}

static void grow(struct dict *d)
{
	d->n_slots = d->n_slots ? d->n_slots * 2 : 64;
	free(d->slots);
	d->slots = xcalloc(d->n_slots, sizeof(*d->slots));
	for (uint32_t i = 0; i < d->texts.n; i++) {
		size_t at = d->texts.v[i].hash & (d->n_slots - 1);

		while (d->slots[at])
			at = (at + 1) & (d->n_slots - 1);
		d->slots[at] = i + 1;
	}
}

uint32_t dict_code(struct dict *d, const char *s, size_t n)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	uint32_t h;
	size_t at;
	char *copy;

	assert(n <= UINT32_MAX);
	if (!d->arena) {
		pthread_once(&once, make_seed);
		d->arena = arena_new();
	}
	if (d->texts.n * 2 >= d->n_slots)
		grow(d);
	h = hash(s, n);
	for (at = h & (d->n_slots - 1); d->slots[at]; at = (at + 1) & (d->n_slots - 1))
		if (is(&d->texts.v[d->slots[at] - 1], h, s, n))
			return d->slots[at] - 1;
	copy = arena_alloc(d->arena, n + 1);
	memcpy(copy, s, n);
	VEC_PUSH(&d->texts, ((struct dict_text){ copy, (uint32_t)n, h }));
	d->slots[at] = (uint32_t)d->texts.n;
	return (uint32_t)d->texts.n - 1;
}

int64_t dict_find(const struct dict *d, const char *s, size_t n)
{
	uint32_t h;

	if (!d->texts.n)
		return -1;
	h = hash(s, n);
	for (size_t at = h & (d->n_slots - 1); d->slots[at]; at = (at + 1) & (d->n_slots - 1))
		if (is(&d->texts.v[d->slots[at] - 1], h, s, n))
			return d->slots[at] - 1;
	return -1;
}

void dict_deinit(struct dict *d)
{
	VEC_FREE(&d->texts);
	free(d->slots);
	arena_free(d->arena);
	*d = (struct dict){ 0 };
}
