/* steps/evaluate/measure/regression.c — the meter of a regression.
 *
 * Errors are prediction minus truth. Quantiles are NumPy's (linear between order statistics; R. J.
 * Hyndman and Y. Fan, 1996, type 7).
 *
 * regression_prepare() keeps the errors, their sizes, and the orders of both. A measurement makes
 * two passes over the rows by blocks, the second for the squared distances from the means of the
 * first, and walks along the orders for the quantiles. at_rank() continues from its last position,
 * so quantiles are computed from the largest down.
 *
 * Where squares could leave the range of doubles, numbers are divided by 2^scale first and results
 * multiplied again, which is exact (find_scale()).
 *
 * The meter is read-only once it is prepared; sums don't depend on the threads (meter_blocks()).
 */
#include <float.h>
#include "steps/evaluate/measure/meter.h"

struct part {
	struct sum error, size, square, truth, percent;
	uint64_t n;
};

struct spread_part {
	struct sum truth, error; /* squares of distances from the mean */
};

struct pass {
	const struct meter *m;
	const uint32_t *w;
	double mean_truth, mean_error; /* scaled */
};

static void errors_block(void *arg, size_t from, size_t to, void *partial)
{
	const struct meter *m = arg;

	for (size_t i = from; i < to; i++) {
		m->error[i] = side_score(m->s, i, 0) - m->d->target[i];
		m->size[i] = fabs(m->error[i]);
	}
}

/* Squares of numbers beyond 2^±500 leave the range of a double, and an infinite or lost sum would
 * make r2 a 1. Dividing by a power of two prevents that and is exact. Other numbers aren't
 * changed. */
static int find_scale(const struct meter *m)
{
	double top = 0;
	int e = 0;

	for (size_t i = 0; i < m->d->n; i++)
		top = fmax(top, fmax(fabs(m->d->target[i]), fabs(side_score(m->s, i, 0))));
	frexp(top, &e);
	return e > 400 || e < -400 ? e : 0;
}

void regression_prepare(struct meter *m)
{
	size_t n = m->d->n, blocks;

	m->error = xmalloc(MAX(n, 1) * sizeof(double));
	m->size = xmalloc(MAX(n, 1) * sizeof(double));
	free(meter_blocks(n, m->o.threads, 0, errors_block, m, &blocks));
	m->scale = find_scale(m);
	m->by_error = ranked_order(m->error, 1, NULL, n, m->o.threads);
	m->by_size = ranked_order(m->size, 1, NULL, n, m->o.threads);
}

static inline void scale(const struct pass *x, size_t i, double *truth, double *error)
{
	*truth = x->m->d->target[i];
	*error = x->m->error[i];
	if (x->m->scale) {
		*truth = ldexp(*truth, -x->m->scale);
		*error = ldexp(side_score(x->m->s, i, 0), -x->m->scale) - *truth;
	}
}

static void sums_block(void *arg, size_t from, size_t to, void *partial)
{
	const struct pass *x = arg;
	struct part *p = partial;

	for (size_t i = from; i < to; i++) {
		uint64_t k = weight(x->w, i);
		double w = (double)k, e = x->m->error[i], truth = x->m->d->target[i];

		if (!k)
			continue;
		p->n += k;
		sum_add(&p->percent, w * (fabs(e) / fmax(fabs(truth), DBL_EPSILON)));
		scale(x, i, &truth, &e);
		sum_add(&p->error, w * e);
		sum_add(&p->size, w * fabs(e));
		sum_add(&p->square, w * (e * e));
		sum_add(&p->truth, w * truth);
	}
}

static void spread_block(void *arg, size_t from, size_t to, void *partial)
{
	const struct pass *x = arg;
	struct spread_part *p = partial;

	for (size_t i = from; i < to; i++) {
		double w = (double)weight(x->w, i), t, e;

		scale(x, i, &t, &e);
		t -= x->mean_truth;
		e -= x->mean_error;
		sum_add(&p->truth, w * (t * t));
		sum_add(&p->error, w * (e * e));
	}
}

static void add_sums(const struct pass *x, unsigned threads, struct part *all)
{
	size_t n;
	struct part *v =
		meter_blocks(x->m->d->n, threads, sizeof(*v), sums_block, (void *)(uintptr_t)x, &n);

	for (size_t i = 0; i < n; i++) {
		all->n += v[i].n;
		sum_join(&all->error, &v[i].error);
		sum_join(&all->size, &v[i].size);
		sum_join(&all->square, &v[i].square);
		sum_join(&all->truth, &v[i].truth);
		sum_join(&all->percent, &v[i].percent);
	}
	free(v);
}

static void add_spread(const struct pass *x, unsigned threads, struct spread_part *all)
{
	size_t n;
	struct spread_part *v = meter_blocks(x->m->d->n, threads, sizeof(*v), spread_block,
					     (void *)(uintptr_t)x, &n);

	for (size_t i = 0; i < n; i++) {
		sum_join(&all->truth, &v[i].truth);
		sum_join(&all->error, &v[i].error);
	}
	free(v);
}

/* Quantiles. */

/* Walks an order; fastest from the largest value to the smallest. */
struct walk {
	const struct ranked *order;
	const double *v;
	const uint32_t *w;
	size_t at;
	uint64_t before; /* weight before `at` */
};

/* The value with `above` others above it. */
static double at_rank(struct walk *x, uint64_t above)
{
	if (!x->w)
		return x->v[x->order[above].row];
	while (x->before > above)
		x->before -= x->w[x->order[--x->at].row];
	while (x->before + x->w[x->order[x->at].row] <= above)
		x->before += x->w[x->order[x->at++].row];
	return x->v[x->order[x->at].row];
}

static double quantile(struct walk *x, uint64_t n, double q)
{
	double h = (double)(n - 1) * q, low = floor(h), t = h - low, a, b;
	uint64_t k = (uint64_t)low;

	b = at_rank(x, k + 1 < n ? n - 2 - k : 0);
	a = at_rank(x, n - 1 - k);
	return t >= 0.5 ? b - (b - a) * (1 - t) : a + (b - a) * t;
}

struct quantile {
	const char *name;
	double q;
};

static const struct quantile quantiles[] = {
	{ "error_p95", 0.95 }, { "error_p75", 0.75 }, { "error_median", 0.5 },
	{ "error_p25", 0.25 }, { "error_p05", 0.05 },
};

static const struct quantile sizes[] = {
	{ "abs_error_p99", 0.99 },
	{ "abs_error_p95", 0.95 },
	{ "abs_error_p90", 0.9 },
	{ "median_absolute_error", 0.5 },
};

static void add_quantiles(const struct meter *m, const uint32_t *w, uint64_t n, const char *why,
			  struct measures *ret)
{
	struct walk errors = { m->by_error, m->error, w, 0, 0 },
		    absolute = { m->by_size, m->size, w, 0, 0 };

	measures_add(ret, "max_error", why ? 0 : at_rank(&absolute, 0), why);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		measures_add(ret, sizes[i].name, why ? 0 : quantile(&absolute, n, sizes[i].q), why);
	for (size_t i = 0; i < ARRAY_LEN(quantiles); i++)
		measures_add(ret, quantiles[i].name, why ? 0 : quantile(&errors, n, quantiles[i].q),
			     why);
}

/* 1 - a / b; a constant truth counts as explained wholly or not at all. */
static double explained(double unexplained, double total)
{
	return total > 0 ? 1 - unexplained / total : unexplained > 0 ? 0 : 1;
}

void regression_measure(const struct meter *m, const uint32_t *w, unsigned threads,
			struct measures *ret)
{
	struct pass x = { .m = m, .w = w };
	struct spread_part spread = { 0 };
	struct part all = { 0 };
	const char *why, *few;
	double n;

	add_sums(&x, threads, &all);
	why = all.n ? NULL : "there are no rows";
	few = all.n > 1 ? NULL : all.n ? "one row has no variance" : why;
	n = (double)MAX(all.n, 1);
	x.mean_truth = sum_value(&all.truth) / n;
	x.mean_error = sum_value(&all.error) / n;
	if (all.n)
		add_spread(&x, threads, &spread);
	measures_add(ret, "mae", ldexp(sum_value(&all.size) / n, m->scale), why);
	measures_add(ret, "mse", ldexp(sum_value(&all.square) / n, 2 * m->scale), why);
	measures_add(ret, "rmse", ldexp(sqrt(sum_value(&all.square) / n), m->scale), why);
	measures_add(ret, "r2", explained(sum_value(&all.square), sum_value(&spread.truth)), few);
	measures_add(ret, "explained_variance",
		     explained(sum_value(&spread.error), sum_value(&spread.truth)), why);
	measures_add(ret, "mape", sum_value(&all.percent) / n, why);
	measures_add(ret, "mean_error", ldexp(x.mean_error, m->scale), why);
	add_quantiles(m, w, all.n, why, ret);
}
