/* steps/evaluate/measure/order.c — rows by falling score: a stable radix sort, most significant
 * digit first, with digits that fit the current keys.
 *
 * A double becomes a 64-bit key that rises while the score falls (key_of()). A range is split
 * between its smallest and largest key into buckets of equal width (spread_of()), so that scores
 * that are crowded in a small part of the doubles still spread out. Small ranges are sorted by
 * insertion; a range of one key is sorted already.
 *
 * With more than one block of rows the first split is counted and scattered in blocks on all
 * threads; place() gives each block its own places in each bucket, in the order of the rows. Then
 * each bucket belongs to one thread. So the result is the same for any number of threads.
 *
 * `a` and `b` are two arrays of all rows, one the source and one the target of a pass. Offsets are
 * 32 bits: there are at most FRAME_ROWS_MAX rows.
 */
#include "steps/evaluate/measure/order.h"
#include <assert.h>
#include <string.h>
#include "base/mem.h"
#include "steps/step.h"

#define BUCKETS 2048 /* counts of a block fit the first-level cache */
#define SMALL   32   /* insertion sort below */
#define BLOCK   (256 * KIB)

static uint64_t key_of(double v)
{
	uint64_t b;

	v = -v + 0.0; /* falling; and -0.0 becomes 0.0 */
	memcpy(&b, &v, sizeof(b));
	return b >> 63 ? ~b : b | 1ULL << 63;
}

struct spread {
	uint64_t min;
	unsigned shift;
};

static inline size_t bucket(const struct spread *s, uint64_t key)
{
	return (size_t)((key - s->min) >> s->shift);
}

static struct spread spread_of(uint64_t min, uint64_t max, size_t buckets)
{
	struct spread s = { min, 0 };

	while ((max - min) >> s.shift >= buckets)
		s.shift++;
	return s;
}

static void insertion(struct ranked *v, size_t n)
{
	for (size_t i = 1; i < n; i++) {
		struct ranked x = v[i];
		size_t k = i;

		for (; k && v[k - 1].key > x.key; k--)
			v[k] = v[k - 1];
		v[k] = x;
	}
}

/* Sorts v with the buffer tmp, both of n items. */
static void sort(struct ranked *v, struct ranked *tmp, size_t n)
{
	uint64_t min = UINT64_MAX, max = 0;
	uint32_t starts[BUCKETS + 1];
	size_t buckets = 2;
	struct spread s;

	if (n <= SMALL) {
		insertion(v, n);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		min = MIN(min, v[i].key);
		max = MAX(max, v[i].key);
	}
	if (min == max)
		return;
	while (buckets < BUCKETS && buckets * 8 < n)
		buckets *= 2;
	s = spread_of(min, max, buckets);
	memset(starts, 0, (buckets + 1) * sizeof(*starts));
	for (size_t i = 0; i < n; i++)
		starts[bucket(&s, v[i].key) + 1]++;
	for (size_t b = 0; b < buckets; b++)
		starts[b + 1] += starts[b];
	for (size_t i = 0; i < n; i++)
		tmp[starts[bucket(&s, v[i].key)]++] = v[i];
	memcpy(v, tmp, n * sizeof(*v));
	for (size_t b = 0, from = 0; b < buckets; from = starts[b++])
		if (starts[b] - from > 1)
			sort(v + from, tmp + from, starts[b] - from);
}

struct sorting {
	const double *v;
	size_t stride, n, blocks;
	const uint32_t *codes;
	struct ranked *a, *b;
	uint64_t *min, *max;
	struct spread spread;
	uint32_t (*counts)[BUCKETS]; /* by block; later the target of its members */
	uint32_t starts[BUCKETS + 1];
};

static size_t block_end(const struct sorting *s, size_t i)
{
	return MIN((i + 1) * BLOCK, s->n);
}

static int make_keys(void *arg, size_t i, struct err *err)
{
	struct sorting *s = arg;
	uint64_t min = UINT64_MAX, max = 0;

	for (size_t r = i * BLOCK; r < block_end(s, i); r++) {
		s->a[r] = (struct ranked){ key_of(s->v[r * s->stride]), (uint32_t)r,
					   s->codes ? s->codes[r] : 0 };
		min = MIN(min, s->a[r].key);
		max = MAX(max, s->a[r].key);
	}
	s->min[i] = min;
	s->max[i] = max;
	return 0;
}

static int count(void *arg, size_t i, struct err *err)
{
	struct sorting *s = arg;

	for (size_t r = i * BLOCK; r < block_end(s, i); r++)
		s->counts[i][bucket(&s->spread, s->a[r].key)]++;
	return 0;
}

static int scatter(void *arg, size_t i, struct err *err)
{
	struct sorting *s = arg;

	for (size_t r = i * BLOCK; r < block_end(s, i); r++)
		s->b[s->counts[i][bucket(&s->spread, s->a[r].key)]++] = s->a[r];
	return 0;
}

static int sort_bucket(void *arg, size_t b, struct err *err)
{
	struct sorting *s = arg;

	sort(s->b + s->starts[b], s->a + s->starts[b], s->starts[b + 1] - s->starts[b]);
	return 0;
}

/* Turns counts into places: bucket after bucket, within it block after block. */
static void place(struct sorting *s)
{
	uint32_t at = 0;

	for (size_t b = 0; b < BUCKETS; b++) {
		s->starts[b] = at;
		for (size_t i = 0; i < s->blocks; i++) {
			uint32_t n = s->counts[i][b];

			s->counts[i][b] = at;
			at += n;
		}
	}
	s->starts[BUCKETS] = at;
}

struct ranked *ranked_order(const double *v, size_t stride, const uint32_t *codes, size_t n,
			    unsigned threads)
{
	struct sorting *s = xcalloc(1, sizeof(*s));
	uint64_t min = UINT64_MAX, max = 0;
	struct ranked *ret;

	assert(n <= UINT32_MAX);
	*s = (struct sorting){
		.v = v, .stride = stride, .n = n, .blocks = (n + BLOCK - 1) / BLOCK, .codes = codes
	};
	s->a = xmalloc(MAX(n, 1) * sizeof(*s->a));
	s->b = xmalloc(MAX(n, 1) * sizeof(*s->b));
	s->min = xcalloc(s->blocks + 1, sizeof(*s->min));
	s->max = xcalloc(s->blocks + 1, sizeof(*s->max));
	step_parallel(threads, s->blocks, make_keys, s, NULL);
	for (size_t i = 0; i < s->blocks; i++) {
		min = MIN(min, s->min[i]);
		max = MAX(max, s->max[i]);
	}
	if (s->blocks <= 1) {
		sort(s->a, s->b, n);
		ret = TAKE_PTR(s->a);
	} else {
		s->spread = spread_of(min, max, BUCKETS);
		s->counts = xcalloc(s->blocks, sizeof(*s->counts));
		step_parallel(threads, s->blocks, count, s, NULL);
		place(s);
		step_parallel(threads, s->blocks, scatter, s, NULL);
		step_parallel(threads, BUCKETS, sort_bucket, s, NULL);
		ret = TAKE_PTR(s->b);
	}
	free(s->a);
	free(s->b);
	free(s->min);
	free(s->max);
	free(s->counts);
	free(s);
	return ret;
}
