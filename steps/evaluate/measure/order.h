/* steps/evaluate/measure/order.h — rows by falling score, as every threshold metric needs them. */
#ifndef CAIRN_STEPS_EVALUATE_MEASURE_ORDER_H
#define CAIRN_STEPS_EVALUATE_MEASURE_ORDER_H

#include "base/macros.h"

struct ranked {
	/* Rises while the score falls; equal scores have equal keys (0.0 and -0.0 too). */
	uint64_t key;
	uint32_t row;
	uint32_t code; /* of the row, from `codes`; 0 when that is NULL */
};

/* Rows 0..n-1 with scores v[row * stride], all finite, sorted; free() the result. Within equal
 * scores the order is that of the rows. */
struct ranked *ranked_order(const double *v, size_t stride, const uint32_t *codes, size_t n,
			    unsigned threads);

#endif
