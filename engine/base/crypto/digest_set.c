/* engine/base/crypto/digest_set.c — the set: open addressing with linear probing, in 256 tables.
 *
 * A place of zeros is free, so the digest of zeros is kept apart (`has_zero`). A table grows by a
 * quarter when seven eighths of it are full. Removal moves displaced digests back (Knuth, The Art
 * of Computer Programming 3, 6.4, algorithm R), so there are no tombstones.
 *
 * The hash mixes a digest with the set's seed: an attacker who chooses digests can't choose their
 * places.
 */
#include "base/crypto/digest_set.h"

#include <string.h>
#include "base/mem.h"
#include "base/os/machine.h"
#include "base/time/clock.h"

#define TABLES  256
#define CAP_MIN 8

struct table {
	struct digest *v;
	size_t cap, n; /* n at most 7/8 of cap */
};

struct digest_set {
	/* TABLES of them; allocated for the first digest, because many sets stay empty. */
	struct table *tables;
	uint64_t seed;
	size_t n;
	bool has_zero;
};

static const struct digest zero;

struct digest_set *digest_set_new(void)
{
	struct digest_set *s = xcalloc(1, sizeof(*s));

	s->seed = random_u64() | 1;
	return s;
}

void digest_set_free(struct digest_set *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < TABLES && s->tables; i++)
		free(s->tables[i].v);
	free(s->tables);
	free(s);
}

/* Multiply and xor-shift over all words. */
static uint64_t hash(const struct digest_set *s, const struct digest *d)
{
	uint64_t w[4], h = s->seed;

	memcpy(w, d->b, sizeof(w));
	for (size_t i = 0; i < 4; i++) {
		h = (h ^ w[i]) * (s->seed | 0x9e3779b97f4a7c15ULL);
		h ^= h >> 29;
	}
	return h;
}

static struct table *table_of(const struct digest_set *s, uint64_t h)
{
	return &s->tables[h % TABLES];
}

/* The preferred place of a digest. */
static size_t home(const struct table *t, uint64_t h)
{
	return (size_t)((h >> 8) % t->cap);
}

/* Returns the digest's place, or the free place for it. At least one place must be free. */
static size_t find(const struct table *t, const struct digest *d, uint64_t h)
{
	size_t i = home(t, h);

	while (!digest_eq(&t->v[i], &zero) && !digest_eq(&t->v[i], d))
		i = i + 1 == t->cap ? 0 : i + 1;
	return i;
}

static void grow(struct digest_set *s, struct table *t)
{
	struct table old = *t;

	t->cap = old.cap < CAP_MIN ? CAP_MIN : old.cap + old.cap / 4;
	t->v = xcalloc(t->cap, sizeof(*t->v));
	for (size_t i = 0; i < old.cap; i++)
		if (!digest_eq(&old.v[i], &zero))
			t->v[find(t, &old.v[i], hash(s, &old.v[i]))] = old.v[i];
	free(old.v);
}

bool digest_set_add(struct digest_set *s, const struct digest *d)
{
	uint64_t h = hash(s, d);
	struct table *t;
	size_t i;

	if (digest_eq(d, &zero)) {
		bool is_new = !s->has_zero;

		s->has_zero = true;
		s->n += is_new;
		return is_new;
	}
	if (!s->tables)
		s->tables = xcalloc(TABLES, sizeof(*s->tables));
	t = table_of(s, h);
	if (t->n + 1 > t->cap - t->cap / 8)
		grow(s, t);
	i = find(t, d, h);
	if (digest_eq(&t->v[i], d))
		return false;
	t->v[i] = *d;
	t->n++;
	s->n++;
	return true;
}

bool digest_set_has(const struct digest_set *s, const struct digest *d)
{
	uint64_t h = hash(s, d);
	const struct table *t;

	if (digest_eq(d, &zero))
		return s->has_zero;
	if (!s->tables)
		return false;
	t = table_of(s, h);
	return t->n && digest_eq(&t->v[find(t, d, h)], d);
}

void digest_set_remove(struct digest_set *s, const struct digest *d)
{
	uint64_t h = hash(s, d);
	struct table *t;
	size_t gap, at;

	if (!digest_set_has(s, d))
		return;
	s->n--;
	if (digest_eq(d, &zero)) {
		s->has_zero = false;
		return;
	}
	t = table_of(s, h);
	gap = find(t, d, h);
	t->v[gap] = zero;
	t->n--;
	for (size_t i = gap;;) {
		i = i + 1 == t->cap ? 0 : i + 1;
		if (digest_eq(&t->v[i], &zero))
			return;
		/* A digest whose home is in the cyclic range (gap, i] stays. */
		at = home(t, hash(s, &t->v[i]));
		if (gap <= i ? gap < at && at <= i : gap < at || at <= i)
			continue;
		t->v[gap] = t->v[i];
		t->v[i] = zero;
		gap = i;
	}
}

size_t digest_set_len(const struct digest_set *s)
{
	return s->n;
}
