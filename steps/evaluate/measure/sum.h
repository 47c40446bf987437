/* steps/evaluate/measure/sum.h — sums whose error doesn't grow with their length (A. Neumaier,
 * 1974): the exact sum, rounded, except after pathological cancellation. Two parts can be joined,
 * so that blocks are summed on any thread and joined in their order. */
#ifndef CAIRN_STEPS_EVALUATE_MEASURE_SUM_H
#define CAIRN_STEPS_EVALUATE_MEASURE_SUM_H

#include <math.h>

struct sum {
	double s, lost;
};

static inline void sum_add(struct sum *a, double v)
{
	double t = a->s + v;

	a->lost += fabs(a->s) >= fabs(v) ? (a->s - t) + v : (v - t) + a->s;
	a->s = t;
}

static inline void sum_join(struct sum *a, const struct sum *b)
{
	sum_add(a, b->s);
	a->lost += b->lost;
}

static inline double sum_value(const struct sum *a)
{
	return a->s + a->lost;
}

#endif
