/* steps/evaluate/measure/resample.c — the bootstrap: intervals from repeated measurements, weighted
 * by how often each unit was drawn.
 *
 * A resample is a set of weights for the same meters (draws_weights()), so nothing is copied or
 * sorted again. Resamples run in parallel, each on one thread, and store their values at
 * [measure][resample]; with a baseline both meters get the same weights.
 *
 * Intervals are percentiles of the values that are defined (interval()); p counts how often the
 * difference lies on the other side of 0 (p_value()). Measures of the baseline are found by their
 * name, since a side without scores has fewer.
 *
 * Memory: MEASURES_MAX times the resamples, twice. The meter decides which metrics there are;
 * results.c how many resamples.
 */
#include "steps/evaluate/measure/resample.h"
#include <math.h>
#include <string.h>
#include "base/mem.h"

static uint64_t splitmix(uint64_t *x)
{
	uint64_t z = *x += 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

void draws_init(struct draws *d, uint64_t seed, uint64_t stream)
{
	uint64_t x = seed, y;

	y = splitmix(&x) ^ stream * 0xd1342543de82ef95ULL;
	for (int i = 0; i < 4; i++)
		d->s[i] = splitmix(&y);
}

static uint64_t rotated(uint64_t v, int k)
{
	return v << k | v >> (64 - k);
}

uint64_t draws_next(struct draws *d)
{
	uint64_t *s = d->s, ret = rotated(s[1] * 5, 7) * 9, t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotated(s[3], 45);
	return ret;
}

void draws_weights(struct draws *d, uint32_t *w, size_t n)
{
	memset(w, 0, n * sizeof(*w));
	for (size_t i = 0; i < n; i++) {
		__extension__ unsigned __int128 x = (unsigned __int128)draws_next(d) * n;

		w[(size_t)(x >> 64)]++;
	}
}

/* Resamples. */

struct resampling {
	const struct meter *model, *baseline;
	const struct resample_options *o;
	const struct measures *names;           /* the model's */
	double *model_values, *baseline_values; /* [measure][resample] */
};

/* In the order of the model's measures; NAN for those that the other meter lacks. */
static void store(const struct resampling *r, double *to, const struct measures *m, size_t b)
{
	for (size_t i = 0; i < r->names->n; i++) {
		const struct measure *one = measures_get(m, r->names->v[i].name);

		to[i * r->o->resamples + b] = one ? one->v : NAN;
	}
}

static int one(void *arg, size_t b, struct err *err)
{
	const struct resampling *r = arg;
	size_t n = meter_units(r->model);
	uint32_t *w = xmalloc(MAX(n, 1) * sizeof(*w));
	struct measures m;
	struct draws d;

	draws_init(&d, r->o->seed, b);
	draws_weights(&d, w, n);
	meter_measure(r->model, w, 1, &m);
	store(r, r->model_values, &m, b);
	if (r->baseline) {
		meter_measure(r->baseline, w, 1, &m);
		store(r, r->baseline_values, &m, b);
	}
	free(w);
	return 0;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double quantile(const double *v, size_t n, double q)
{
	double h = (double)(n - 1) * q;
	size_t k = MIN((size_t)h, n - 1), next = MIN(k + 1, n - 1);

	return v[k] + (v[next] - v[k]) * (h - (double)k);
}

/* Uses the values that are defined, and sorts them. */
static struct interval interval(double *v, size_t n, double confidence)
{
	size_t k = 0;

	for (size_t i = 0; i < n; i++)
		if (isfinite(v[i]))
			v[k++] = v[i];
	if (k < 2)
		return (struct interval){ NAN, NAN };
	qsort(v, k, sizeof(*v), by_value);
	return (struct interval){ quantile(v, k, (1 - confidence) / 2),
				  quantile(v, k, 1 - (1 - confidence) / 2) };
}

/* (A. Davison and D. Hinkley, 1997, section 4.4: with one added, so that it is never 0.) */
static double p_value(const double *v, size_t n)
{
	size_t below = 0, above = 0, k = 0;

	for (size_t i = 0; i < n; i++) {
		k += isfinite(v[i]);
		below += v[i] <= 0;
		above += v[i] >= 0;
	}
	return k < 2 ? NAN : fmin(1, 2 * (double)(MIN(below, above) + 1) / (double)(k + 1));
}

void resample_bootstrap(const struct meter *model, const struct meter *baseline,
			const struct resample_options *o, struct resampled *ret)
{
	struct resampling r = { .model = model, .baseline = baseline, .o = o };
	size_t b = o->resamples, cells = MAX(MEASURES_MAX * b, 1);
	double *difference;
	struct measures m;

	meter_measure(model, NULL, o->threads, &m);
	r.names = &m;
	r.model_values = xcalloc(cells, sizeof(double));
	r.baseline_values = xcalloc(cells, sizeof(double));
	step_parallel(o->threads, b, one, &r, NULL);
	for (size_t i = 0; i < m.n; i++) {
		ret->p[i] = NAN;
		if (baseline) {
			difference = xcalloc(MAX(b, 1), sizeof(double));
			for (size_t k = 0; k < b; k++)
				difference[k] =
					r.model_values[i * b + k] - r.baseline_values[i * b + k];
			ret->p[i] = p_value(difference, b);
			ret->difference[i] = interval(difference, b, o->confidence);
			ret->baseline[i] = interval(r.baseline_values + i * b, b, o->confidence);
			free(difference);
		}
		ret->model[i] = interval(r.model_values + i * b, b, o->confidence);
	}
	free(r.model_values);
	free(r.baseline_values);
}
