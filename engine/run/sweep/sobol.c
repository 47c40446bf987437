/* The direction numbers are those of S. Joe and F. Kuo, "Constructing Sobol sequences with better
 * two-dimensional projections", SIAM J. Sci. Comput. 30 (2008), in their file new-joe-kuo-6. The
 * order by Gray code is that of I. Antonov and V. Saleev (1979). */
#include "run/sweep/sobol.h"
#include <assert.h>
#include "base/mem.h"

/* Degree s and inner coefficients a of the primitive polynomial, and the first numbers m. The first
 * dimension has none: all its m are 1. */
static const struct {
	uint8_t s, a, m[7];
} published[SOBOL_DIMENSIONS - 1] = {
	{ 1, 0, { 1 } },
	{ 2, 1, { 1, 3 } },
	{ 3, 1, { 1, 3, 1 } },
	{ 3, 2, { 1, 1, 1 } },
	{ 4, 1, { 1, 1, 3, 3 } },
	{ 4, 4, { 1, 3, 5, 13 } },
	{ 5, 2, { 1, 1, 5, 5, 17 } },
	{ 5, 4, { 1, 1, 5, 5, 5 } },
	{ 5, 7, { 1, 1, 7, 11, 19 } },
	{ 5, 11, { 1, 1, 5, 1, 1 } },
	{ 5, 13, { 1, 1, 1, 3, 11 } },
	{ 5, 14, { 1, 3, 5, 5, 31 } },
	{ 6, 1, { 1, 3, 3, 9, 7, 49 } },
	{ 6, 13, { 1, 1, 1, 15, 21, 21 } },
	{ 6, 16, { 1, 3, 1, 13, 27, 49 } },
	{ 6, 19, { 1, 1, 1, 15, 7, 5 } },
	{ 6, 22, { 1, 3, 1, 15, 13, 25 } },
	{ 6, 25, { 1, 1, 5, 5, 19, 61 } },
	{ 7, 1, { 1, 3, 7, 11, 23, 15, 103 } },
	{ 7, 4, { 1, 3, 7, 13, 13, 15, 69 } },
};

/* v[k]: the direction number of bit k. */
static void directions(unsigned dimension, uint32_t v[32])
{
	unsigned s = dimension ? published[dimension - 1].s : 32;

	for (unsigned k = 0; k < MIN(s, 32U); k++)
		v[k] = (dimension ? published[dimension - 1].m[k] : 1U) << (31 - k);
	for (unsigned k = s; k < 32; k++) {
		v[k] = v[k - s] ^ (v[k - s] >> s);
		for (unsigned i = 1; i < s; i++)
			if (published[dimension - 1].a >> (s - 1 - i) & 1)
				v[k] ^= v[k - i];
	}
}

uint32_t sobol(uint32_t n, unsigned dimension)
{
	uint32_t v[32], x = 0, gray = n ^ (n >> 1);

	assert(dimension < SOBOL_DIMENSIONS);
	directions(dimension, v);
	for (unsigned k = 0; gray; k++, gray >>= 1)
		if (gray & 1)
			x ^= v[k];
	return x;
}
