/* steps/evaluate/measure/sweep.h — one class against the others while the threshold falls through
 * all scores. */
#ifndef CAIRN_STEPS_EVALUATE_MEASURE_SWEEP_H
#define CAIRN_STEPS_EVALUATE_MEASURE_SWEEP_H

#include "steps/evaluate/measure/measure.h"

struct sweep {
	uint32_t class;         /* in */
	struct curve *roc, *pr; /* in: filled, or NULL. They count weights too */
	/* in: by class b, set to twice the number of pairs of a row of `class` and one of b that
	 * the score orders correctly (a tie counts half); or NULL. */
	uint64_t *pairs;
	uint64_t positives, negatives;
	double roc_auc, pr_auc; /* 0 without positives, or negatives. pr_auc: average precision */
};

/* `order`: by falling score of the class, with true classes as codes. w: by row, or NULL. */
void sweep(const struct ranked *order, size_t n, const uint32_t *w, struct sweep *s);

#endif
