/* steps/augment/random.h — random numbers that depend only on where they are used, not on earlier
 * draws.
 *
 * Philox4x32-10, a counter-based generator: J. Salmon, M. Moraes, R. Dror, D. Shaw, "Parallel
 * random numbers: as easy as 1, 2, 3", SC 2011. The key is the first 8 bytes of SHA-256("cairn
 * augment\0", seed as u64 little endian, the sample's key); the counter is (block, op, copy,
 * purpose). So each op of each copy of each sample has a separate stream.
 */
#ifndef CAIRN_STEPS_AUGMENT_RANDOM_H
#define CAIRN_STEPS_AUGMENT_RANDOM_H

#include "base/macros.h"

struct random_key {
	uint32_t k[2];
};

enum random_purpose { RANDOM_DRAW = 0, RANDOM_PIXELS = 1 };

struct random {
	struct random_key key;
	uint32_t counter[4]; /* of the next block */
	uint32_t block[4];
	unsigned used; /* of the block; 4: none left */
};

struct random_key random_key_of(uint64_t seed, const char *sample);
void random_start(struct random *r, const struct random_key *key, uint32_t copy, uint32_t op,
		  enum random_purpose purpose);
/* The generator itself. */
void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t ret[4]);

uint32_t random_u32(struct random *r);
void random_fill(struct random *r, uint32_t *to,
		 size_t n);           /* the same as n calls of random_u32() */
double random_unit(struct random *r); /* [0, 1), 53 bits of two numbers */
double random_between(struct random *r, double lo,
		      double hi); /* lo when they are equal; always draws two numbers */
uint32_t random_below(struct random *r, uint32_t n); /* n at least 1; without bias */

/* Turns n uniform numbers into standard normal ones in 1/65536: by a table of the inverse
 * distribution function at 4096 places, linear between them; beyond the outermost (3.5 sigma, one
 * in 2000) the last one. Any thread. */
void random_to_normal(const uint32_t *bits, int32_t *to, size_t n);

#endif
