/* steps/augment/random.c — Philox, and numbers made from its bits.
 *
 * A stream is a key and a counter; a block of four numbers is a function of both (random_philox()),
 * so a stream's only state is its position. random_fill() computes eight blocks side by side and
 * gives exactly the same as that many calls of random_u32(): numbers that are left in the last
 * block come first.
 *
 * The conversion from bits to numbers is part of the step's results: 53 bits for a unit number,
 * Lemire's method for whole numbers (which may take more numbers than one), a table for normal
 * ones. That table is made once per process (normal_once) and is read-only then; it is rounded so
 * that C libraries agree.
 *
 * random_philox() and eight_blocks() must agree: tests compare the first with Random123's known
 * answers, and random_fill() with random_u32().
 */
#include "steps/augment/random.h"
#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include "base/crypto/digest.h"
#include "base/text/str.h"
#include "steps/augment/image.h"

#ifndef __clang__
#pragma GCC optimize("O3")
#endif

#define ROUNDS   10
#define FACTOR_0 0xD2511F53ULL
#define FACTOR_1 0xCD9E8D57ULL
#define STEP_0   0x9E3779B9 /* of the key, from round to round */
#define STEP_1   0xBB67AE85

void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t ret[4])
{
	uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3], k0 = key[0],
		 k1 = key[1];

	for (int round = 0; round < ROUNDS; round++) {
		uint64_t a = FACTOR_0 * c0, b = FACTOR_1 * c2;

		c0 = (uint32_t)(b >> 32) ^ c1 ^ k0;
		c1 = (uint32_t)b;
		c2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
		c3 = (uint32_t)a;
		k0 += STEP_0;
		k1 += STEP_1;
	}
	ret[0] = c0;
	ret[1] = c1;
	ret[2] = c2;
	ret[3] = c3;
}

static uint32_t le32(const uint8_t *b)
{
	return b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

struct random_key random_key_of(uint64_t seed, const char *sample)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	struct digest d;

	str_addn(&s, "cairn augment", sizeof("cairn augment"));
	str_add_u64(&s, seed);
	str_add(&s, sample);
	digest_bytes(s.s, s.len, &d);
	return (struct random_key){ { le32(d.b), le32(d.b + 4) } };
}

void random_start(struct random *r, const struct random_key *key, uint32_t copy, uint32_t op,
		  enum random_purpose purpose)
{
	*r = (struct random){ .key = *key, .counter = { 0, op, copy, purpose }, .used = 4 };
}

uint32_t random_u32(struct random *r)
{
	if (r->used == 4) {
		random_philox(r->counter, r->key.k, r->block);
		r->counter[0]++;
		r->used = 0;
	}
	return r->block[r->used++];
}

#define LANES 8

/* Computes eight consecutive blocks side by side. */
IMAGE_CLONES static void eight_blocks(const uint32_t counter[4], const uint32_t key[2],
				      uint32_t to[4 * LANES])
{
	uint32_t c[4][LANES], k0 = key[0], k1 = key[1];

	for (uint32_t l = 0; l < LANES; l++) {
		c[0][l] = counter[0] + l;
		c[1][l] = counter[1];
		c[2][l] = counter[2];
		c[3][l] = counter[3];
	}
	for (int round = 0; round < ROUNDS; round++, k0 += STEP_0, k1 += STEP_1)
		for (int l = 0; l < LANES; l++) {
			uint64_t a = FACTOR_0 * c[0][l], b = FACTOR_1 * c[2][l];

			c[0][l] = (uint32_t)(b >> 32) ^ c[1][l] ^ k0;
			c[1][l] = (uint32_t)b;
			c[2][l] = (uint32_t)(a >> 32) ^ c[3][l] ^ k1;
			c[3][l] = (uint32_t)a;
		}
	for (int l = 0; l < LANES; l++)
		for (int i = 0; i < 4; i++)
			to[4 * l + i] = c[i][l];
}

void random_fill(struct random *r, uint32_t *to, size_t n)
{
	for (; n > 0 && r->used < 4; n--)
		*to++ = random_u32(r);
	for (; n >= 4 * LANES; n -= 4 * LANES, to += 4 * LANES) {
		eight_blocks(r->counter, r->key.k, to);
		r->counter[0] += LANES;
	}
	while (n-- > 0)
		*to++ = random_u32(r);
}

double random_unit(struct random *r)
{
	uint64_t hi = random_u32(r), lo = random_u32(r);

	return (double)((hi << 32 | lo) >> 11) * 0x1p-53;
}

double random_between(struct random *r, double lo, double hi)
{
	return lo + (hi - lo) * random_unit(r);
}

/* D. Lemire, "Fast random integer generation in an interval", 2019. */
uint32_t random_below(struct random *r, uint32_t n)
{
	uint64_t m = (uint64_t)random_u32(r) * n;

	assert(n > 0);
	if ((uint32_t)m < n)
		for (uint32_t least = -n % n; (uint32_t)m < least;)
			m = (uint64_t)random_u32(r) * n;
	return (uint32_t)(m >> 32);
}

/* Normal numbers. */

/* Bits of the index into the table; the next bits interpolate to the next entry. */
#define NORMAL_BITS 12
#define PART_BITS   12 /* steps of the table are below 2^17, so that a product fits */
static int32_t normal_table[(1 << NORMAL_BITS) + 1];
static pthread_once_t normal_once = PTHREAD_ONCE_INIT;

/* The x at which the distribution function is p, by bisection: slow, but the same to 1/65536 with
 * any erfc() that is accurate to 1e-12. */
static double inverse_normal(double p)
{
	double lo = -5, hi = 5;

	for (int i = 0; i < 50; i++) {
		double mid = (lo + hi) / 2;

		if (erfc(-mid * M_SQRT1_2) / 2 < p)
			lo = mid;
		else
			hi = mid;
	}
	return (lo + hi) / 2;
}

static void make_normal_table(void)
{
	const int n = 1 << NORMAL_BITS;

	for (int i = 1; i < n; i++)
		normal_table[i] = (int32_t)floor(inverse_normal((double)i / n) * 65536 + 0.5);
	normal_table[0] = normal_table[1];
	normal_table[n] = normal_table[n - 1];
}

IMAGE_CLONES static void look_up(const uint32_t *bits, int32_t *to, size_t n)
{
	for (size_t k = 0; k < n; k++) {
		uint32_t i = bits[k] >> (32 - NORMAL_BITS);
		int32_t part = (int32_t)(bits[k] >> (32 - NORMAL_BITS - PART_BITS) &
					 ((1 << PART_BITS) - 1));

		to[k] = normal_table[i] +
			(((normal_table[i + 1] - normal_table[i]) * part) >> PART_BITS);
	}
}

void random_to_normal(const uint32_t *bits, int32_t *to, size_t n)
{
	pthread_once(&normal_once, make_normal_table);
	look_up(bits, to, n);
}
