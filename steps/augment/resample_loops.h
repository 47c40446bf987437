/* steps/augment/resample_loops.h — the inner loops of resampling, for any processor and for those
 * with AVX2. Sums of integers: the same pixels from both. */
#ifndef CAIRN_STEPS_AUGMENT_RESAMPLE_LOOPS_H
#define CAIRN_STEPS_AUGMENT_RESAMPLE_LOOPS_H

#include <stddef.h>
#include <stdint.h>

#define RESAMPLE_PRECISION 22 /* bits of a weight; 8 bits of level and a sum up to 2 are added */

/* For each output pixel: `n` input pixels from `first` on, with their weights at w + i * stride; a
 * weight of 0 follows them. */
struct weights {
	uint32_t *first, *n;
	int32_t *w;
	uint32_t stride;
};

#define RESAMPLE_ROWS 4

struct resample_loops {
	/* Works on four rows at once (some may be the same), with pixels of four bytes, `out`
	 * pixels each. Reads up to four bytes after the weighted pixels. */
	void (*rows)(const uint8_t *const from[RESAMPLE_ROWS], uint8_t *const to[RESAMPLE_ROWS],
		     uint32_t out, const struct weights *ws);
	/* Makes one row out of n rows; `bytes` is a multiple of 32. */
	void (*column)(const uint8_t *from, size_t stride, const int32_t *w, uint32_t n,
		       uint8_t *to, size_t bytes);
};
extern const struct resample_loops resample_plain;
const struct resample_loops *
resample_avx2(void); /* NULL where the processor or the build lacks it */

#endif
