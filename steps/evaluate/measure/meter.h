/* steps/evaluate/measure/meter.h — shared by the three kinds of meters. Private to measure.c,
 * classification.c, regression.c and ranking.c. */
#ifndef CAIRN_STEPS_EVALUATE_MEASURE_METER_H
#define CAIRN_STEPS_EVALUATE_MEASURE_METER_H

#include <assert.h>
#include <math.h>
#include "steps/evaluate/measure/measure.h"
#include "steps/evaluate/measure/sum.h"

/* Rows per block. Blocks are summed separately, then joined in order, so that sums don't depend on
 * the threads. */
#define METER_BLOCK (64 * KIB)

struct meter {
	const struct data *d;
	const struct side *s;
	struct meter_options o;
	struct arena *arena; /* names */
	size_t units;

	/* classification */
	struct ranked **orders; /* by score column; with two classes only the positive one's */
	size_t n_orders;
	double *loss, *brier; /* by row; NULL: the scores aren't probabilities */
	double *confidence;
	uint8_t *bin, *right; /* right: the prediction that `confidence` belongs to was right */
	uint32_t *rank;       /* of the true class, from 0 */
	const char *why_not;  /* why there is no loss */
	const char *names[CUTS_MAX];

	/* regression */
	int scale;            /* numbers are divided by 2^scale before they are squared */
	double *error, *size; /* size: |error| */
	struct ranked *by_error, *by_size;

	/* ranking: by query */
	double *ndcg[CUTS_MAX + 1], *rr, *ap, *negative;
	uint8_t *has_relevant;
};

static inline void measures_add(struct measures *m, const char *name, double v, const char *why)
{
	if (!why && !isfinite(v))
		why = "it is beyond what a 64-bit float can hold";
	assert(m->n < MEASURES_MAX);
	m->v[m->n++] = (struct measure){ name, why ? NAN : v, why };
}

static inline uint64_t weight(const uint32_t *w, size_t i)
{
	return w ? w[i] : 1;
}

/* Calls fn for each block; returns the partial results in order, `size` bytes each, zeroed before.
 * free() them. */
void *meter_blocks(size_t n, unsigned threads, size_t size,
		   void (*fn)(void *arg, size_t from, size_t to, void *partial), void *arg,
		   size_t *ret_n);

void classification_prepare(struct meter *m);
void classification_measure(const struct meter *m, const uint32_t *w, unsigned threads,
			    struct measures *ret);
void regression_prepare(struct meter *m);
void regression_measure(const struct meter *m, const uint32_t *w, unsigned threads,
			struct measures *ret);
void ranking_prepare(struct meter *m);
void ranking_measure(const struct meter *m, const uint32_t *w, unsigned threads,
		     struct measures *ret);

#endif
