/* engine/base/map.c — the hash table: open addressing with linear probing over 32-bit indices
 * into an array of entries.
 *
 * The array keeps insertion order; a slot costs 4 bytes. Nothing is ever removed, so there are no
 * tombstones. Keys live in the map's arena and stay where they are; entries move when the array
 * grows, so a slot is valid only until the next map_slot(). At most three quarters of the slots
 * are used.
 *
 * Hash: SipHash-1-3 (Aumasson, Bernstein 2012) with a seed per process, because keys come from
 * files that strangers write: a pipeline must not be able to choose collisions. The seed is made
 * once, under pthread_once; a map itself has no lock.
 */
#include "base/map.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include "base/mem.h"
#include "base/os/machine.h"

#define SLOTS_MIN 16U

struct entry {
	const char *key;
	size_t len;
	void *value;
	uint64_t hash;
};

struct map {
	VEC(struct entry) entries;
	uint32_t *slots; /* index into entries + 1; 0 is free */
	size_t n_slots;  /* power of two, at least 4/3 of entries */
	struct arena *keys;
};

static uint64_t seed[2];
static pthread_once_t seed_once = PTHREAD_ONCE_INIT;

static void make_seed(void)
{
	random_bytes(seed, sizeof(seed));
}

static inline uint64_t rotl(uint64_t x, int b)
{
	return (x << b) | (x >> (64 - b));
}

static inline void sip_round(uint64_t v[4])
{
	v[0] += v[1];
	v[1] = rotl(v[1], 13) ^ v[0];
	v[0] = rotl(v[0], 32);
	v[2] += v[3];
	v[3] = rotl(v[3], 16) ^ v[2];
	v[0] += v[3];
	v[3] = rotl(v[3], 21) ^ v[0];
	v[2] += v[1];
	v[1] = rotl(v[1], 17) ^ v[2];
	v[2] = rotl(v[2], 32);
}

static inline uint64_t load64(const unsigned char *p, size_t n)
{
	uint64_t w = 0;

	memcpy(&w, p, n); /* host order: the value never leaves the process */
	return w;
}

static uint64_t hash_key(const void *key, size_t len)
{
	const unsigned char *p = key;
	uint64_t v[4] = {
		seed[0] ^ 0x736f6d6570736575ULL,
		seed[1] ^ 0x646f72616e646f6dULL,
		seed[0] ^ 0x6c7967656e657261ULL,
		seed[1] ^ 0x7465646279746573ULL,
	};
	uint64_t w;
	size_t i;

	for (i = 0; i + 8 <= len; i += 8) {
		w = load64(p + i, 8);
		v[3] ^= w;
		sip_round(v);
		v[0] ^= w;
	}
	w = (i < len ? load64(p + i, len - i) : 0) | ((uint64_t)len << 56);
	v[3] ^= w;
	sip_round(v);
	v[0] ^= w;
	v[2] ^= 0xff;
	for (int k = 0; k < 3; k++)
		sip_round(v);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

struct map *map_new(void)
{
	pthread_once(&seed_once, make_seed);
	return xcalloc(1, sizeof(struct map));
}

void map_free(struct map *m)
{
	if (!m)
		return;
	arena_free(m->keys);
	free(m->slots);
	VEC_FREE(&m->entries);
	free(m);
}

size_t map_len(const struct map *m)
{
	return m->entries.n;
}

/* The slot that holds the key, or the free slot for it. Needs n_slots > 0. */
static size_t find(const struct map *m, const void *key, size_t len, uint64_t hash)
{
	size_t mask = m->n_slots - 1;

	for (size_t i = hash & mask;; i = (i + 1) & mask) {
		const struct entry *e;

		if (m->slots[i] == 0)
			return i;
		e = &m->entries.v[m->slots[i] - 1];
		if (e->hash == hash && e->len == len && (len == 0 || memcmp(e->key, key, len) == 0))
			return i;
	}
}

static void grow(struct map *m)
{
	size_t mask;

	m->n_slots = m->n_slots ? m->n_slots * 2 : SLOTS_MIN;
	mask = m->n_slots - 1;
	free(m->slots);
	m->slots = xcalloc(m->n_slots, sizeof(*m->slots));
	for (size_t k = 0; k < m->entries.n; k++) {
		size_t i = m->entries.v[k].hash & mask;

		while (m->slots[i])
			i = (i + 1) & mask;
		m->slots[i] = (uint32_t)(k + 1);
	}
}

void **map_slot(struct map *m, const void *key, size_t len, bool *ret_new)
{
	uint64_t hash = hash_key(key, len);
	struct entry *e;
	size_t i;

	if (m->entries.n >= m->n_slots / 4 * 3)
		grow(m);
	i = find(m, key, len, hash);
	if (ret_new)
		*ret_new = m->slots[i] == 0;
	if (m->slots[i])
		return &m->entries.v[m->slots[i] - 1].value;
	if (m->entries.n >= UINT32_MAX - 1)
		mem_die(SIZE_MAX);
	if (!m->keys)
		m->keys = arena_new();
	e = VEC_ADD(&m->entries);
	e->key = arena_memdup(m->keys, key, len);
	e->len = len;
	e->hash = hash;
	m->slots[i] = (uint32_t)m->entries.n;
	return &e->value;
}

static const struct entry *lookup(const struct map *m, const void *key, size_t len)
{
	size_t i;

	if (m->n_slots == 0)
		return NULL;
	i = find(m, key, len, hash_key(key, len));
	return m->slots[i] ? &m->entries.v[m->slots[i] - 1] : NULL;
}

void *map_get(const struct map *m, const void *key, size_t len)
{
	const struct entry *e = lookup(m, key, len);

	return e ? e->value : NULL;
}

bool map_has(const struct map *m, const void *key, size_t len)
{
	return lookup(m, key, len) != NULL;
}

void *map_at(const struct map *m, size_t i, const void **ret_key, size_t *ret_len)
{
	const struct entry *e = &m->entries.v[i];

	assert(i < m->entries.n);
	if (ret_key)
		*ret_key = e->key;
	if (ret_len)
		*ret_len = e->len;
	return e->value;
}
