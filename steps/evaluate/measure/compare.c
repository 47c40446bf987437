/* steps/evaluate/measure/compare.c — paired tests: the binomial sum for McNemar's, the ranks of
 * differences for Wilcoxon's.
 *
 * exact() adds the terms of the binomial distribution from the largest down, so it needs no large
 * factorials. Ranks come from ranked_order(), the largest difference first. Pure, except for the
 * threads that sort.
 */
#include "steps/evaluate/measure/compare.h"
#include <math.h>
#include "base/mem.h"
#include "steps/evaluate/measure/order.h"
#include "steps/evaluate/measure/sum.h"

#define EXACT_MAX 10000

/* 2 P(X <= k) of a fair coin thrown n times. Starts with the largest term and computes each from
 * the one before.
 */
static double exact(uint64_t k, uint64_t n)
{
	double term = exp(lgamma((double)n + 1) - lgamma((double)k + 1) -
			  lgamma((double)(n - k) + 1) - (double)n * M_LN2);
	struct sum sum = { 0 };

	for (uint64_t i = k;; i--) {
		sum_add(&sum, term);
		if (i == 0 || term == 0)
			break;
		term *= (double)i / (double)(n - i + 1);
	}
	return fmin(1, 2 * sum_value(&sum));
}

double compare_mcnemar(uint64_t only_a, uint64_t only_b, bool *ret_exact)
{
	uint64_t n = only_a + only_b, k = MIN(only_a, only_b);
	double x;

	*ret_exact = n <= EXACT_MAX;
	if (n == 0)
		return NAN;
	if (*ret_exact)
		return exact(k, n);
	x = fmax(0, (double)(n - 2 * k) - 1);
	return erfc(sqrt(x * x / (double)n / 2));
}

double compare_wilcoxon(const double *a, const double *b, size_t n, unsigned threads,
			uint64_t *ret_different)
{
	double *size = xmalloc(MAX(n, 1) * sizeof(*size)), p, mean, variance, smaller;
	struct sum plus = { 0 }, ties = { 0 };
	struct ranked *order;
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		size[i] = fabs(a[i] - b[i]);
	order = ranked_order(size, 1, NULL, n, threads);
	for (size_t i = 0; i < n; i++)
		k += size[i] > 0;
	for (size_t i = 0, j; i < k; i = j) { /* largest first: rank k, k-1, … */
		double positive = 0, t, rank;

		for (j = i; j < k && order[j].key == order[i].key; j++)
			positive += a[order[j].row] > b[order[j].row];
		t = (double)(j - i);
		rank = (double)k - ((double)i + (double)(j - 1)) / 2;
		sum_add(&plus, positive * rank);
		sum_add(&ties, t * t * t - t);
	}
	mean = (double)k * ((double)k + 1) / 4;
	variance = (double)k * ((double)k + 1) * (2 * (double)k + 1) / 24 - sum_value(&ties) / 48;
	smaller = fmin(sum_value(&plus), 2 * mean - sum_value(&plus));
	*ret_different = k;
	p = k >= COMPARE_WILCOXON_MIN ? erfc(fabs(smaller - mean) / sqrt(variance) / M_SQRT2) : NAN;
	free(order);
	free(size);
	return p;
}
