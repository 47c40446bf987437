/* steps/evaluate/measure/compare.h — paired tests: whether one model is better than another on the
 * same rows, or only luckier.
 *
 * p-values are two-sided. Pure.
 */
#ifndef CAIRN_STEPS_EVALUATE_MEASURE_COMPARE_H
#define CAIRN_STEPS_EVALUATE_MEASURE_COMPARE_H

#include <stdbool.h>
#include "base/macros.h"

/* McNemar's test (Q. McNemar, 1947) over the rows that only one model got right: exact up to 10,000
 * such rows, else by chi-squared with continuity correction. NAN without such rows. */
double compare_mcnemar(uint64_t only_a, uint64_t only_b, bool *ret_exact);

/* Wilcoxon's signed-rank test of a[i] - b[i] (F. Wilcoxon, 1945): zeros left out, ties with their
 * mean rank, normal approximation with tie correction and without continuity correction (scipy's
 * `mode="approx"`). NAN when fewer than COMPARE_WILCOXON_MIN differ: too few for the approximation.
 */
#define COMPARE_WILCOXON_MIN 10
double compare_wilcoxon(const double *a, const double *b, size_t n, unsigned threads,
			uint64_t *ret_different);

#endif
