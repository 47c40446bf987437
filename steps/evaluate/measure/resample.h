/* steps/evaluate/measure/resample.h — the bootstrap (B. Efron, 1979): how far metrics would move if
 * the rows had been drawn again.
 *
 * Each resample b of seed s has a generator of its own, so that intervals depend neither on the
 * threads nor on the number of resamples before b. With a baseline both models are measured on the
 * same draws: the differences are paired. */
#ifndef CAIRN_STEPS_EVALUATE_MEASURE_RESAMPLE_H
#define CAIRN_STEPS_EVALUATE_MEASURE_RESAMPLE_H

#include "steps/evaluate/measure/measure.h"

struct interval {
	double low, high; /* NAN: fewer than two resamples have a value */
};

struct resampled {
	struct interval model[MEASURES_MAX], baseline[MEASURES_MAX],
		difference[MEASURES_MAX]; /* by measure; difference: model - baseline */
	/* two-sided: how often the difference has the other sign; NAN without a baseline. */
	double p[MEASURES_MAX];
};

struct resample_options {
	size_t resamples;
	uint64_t seed;
	double confidence;
	unsigned threads;
};

/* baseline may be NULL. */
void resample_bootstrap(const struct meter *model, const struct meter *baseline,
			const struct resample_options *o, struct resampled *ret);

/* The random numbers for draws, public for tests: xoshiro256** (D. Blackman and S. Vigna, 2018),
 * its state filled by splitmix64. */
struct draws {
	uint64_t s[4];
};
void draws_init(struct draws *d, uint64_t seed, uint64_t stream);
uint64_t draws_next(struct draws *d);
/* Sets w[i] to the number of times that unit i was drawn, in n draws with replacement. */
void draws_weights(struct draws *d, uint32_t *w, size_t n);

#endif
