/* engine/run/sweep/tpe.c — the tree-structured Parzen estimator (J. Bergstra, R. Bardenet,
 * Y. Bengio, B. Kégl, "Algorithms for hyper-parameter optimization", NIPS 2011).
 *
 * The trials with a value are split into the best few and the rest. For each param on its own, both
 * groups become a density: a mixture of normal distributions around the group's places, cut at the
 * ends of the interval, and a wide one over the whole interval (the prior), so that no place is
 * ever ruled out. Candidates are drawn from the density of the best; the one whose density there
 * exceeds that of the rest by the largest factor wins. A param with a list has frequencies instead
 * of densities, each value counted once more as the prior.
 *
 * A normal distribution is as wide as the larger gap to its neighbours, at least the interval
 * divided by the number of places (100 at most), at most the whole interval. The first trials are
 * random draws. Memory: the places of one param at a time. It is our own, because it is short, and
 * a search that depended on the version of a Python package couldn't be repeated in years.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "run/sweep/internal.h"

#define TPE_FIRST      10   /* trials that are drawn at random before anything is learnt */
#define TPE_CANDIDATES 24   /* of the paper's authors */
#define TPE_BEST       0.15 /* of the trials belong to the best */
#define TPE_BEST_MAX   25

/* The places of a group, sorted, each with its width. The prior is the last one. */
struct mixture {
	double *at, *width;
	size_t n;
	struct interval in;
};

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* `at` has room for one more. */
static void mixture_finish(struct mixture *m)
{
	double all = m->in.high - m->in.low, least = all / MIN(100.0, 1.0 + (double)m->n);

	if (m->n)
		qsort(m->at, m->n, sizeof(*m->at), by_number);
	for (size_t i = 0; i < m->n; i++) {
		double left = m->at[i] - (i ? m->at[i - 1] : m->in.low),
		       right = (i + 1 < m->n ? m->at[i + 1] : m->in.high) - m->at[i];

		m->width[i] = fmin(fmax(fmax(left, right), least), all);
	}
	m->at[m->n] = (m->in.low + m->in.high) / 2;
	m->width[m->n++] = all;
}

/* The part of a normal distribution below z. */
static double below(double z)
{
	return 0.5 * erfc(-z * M_SQRT1_2);
}

static double mixture_log_density(const struct mixture *m, double x)
{
	double sum = 0;

	for (size_t i = 0; i < m->n; i++) {
		double w = m->width[i], z = (x - m->at[i]) / w,
		       inside = below((m->in.high - m->at[i]) / w) -
				below((m->in.low - m->at[i]) / w);

		sum += exp(-0.5 * z * z) / (w * fmax(inside, 1e-12));
	}
	return log(fmax(sum / (double)m->n, 1e-300));
}

/* Box and Muller's way; what falls outside is drawn again. */
static double mixture_draw(const struct mixture *m, struct draws *d)
{
	size_t i = MIN((size_t)(draws_unit(d) * (double)m->n), m->n - 1);
	double x = m->at[i];

	for (unsigned tries = 0; tries < 100; tries++) {
		double r = sqrt(-2 * log(1 - draws_unit(d))), z = r * cos(2 * M_PI * draws_unit(d));

		x = m->at[i] + z * m->width[i];
		if (x >= m->in.low && x <= m->in.high)
			return x;
	}
	return fmin(fmax(x, m->in.low), m->in.high);
}

/* Trials with values, the best first; equal ones by their numbers. */
struct ranking {
	const struct search_trial *const *trials;
	size_t n, n_best;
};

static struct value ask_range(const struct search *s, const struct ranking *r, size_t param,
			      struct draws *d)
{
	const struct sweep_param *p = &s->decl->params[param];
	double *room = xcalloc(2 * (r->n + 2), sizeof(*room)), *widths = room + r->n + 2;
	struct interval in = search_interval(s, p);
	struct mixture best = { .at = room, .width = widths, .in = in }, rest = {
		.at = room + r->n_best + 1, .width = widths + r->n_best + 1, .in = in
	};
	double chosen = 0, score = -INFINITY;
	struct value v;

	for (size_t i = 0; i < r->n; i++) {
		struct mixture *m = i < r->n_best ? &best : &rest;

		m->at[m->n++] = search_place_of(p, &r->trials[i]->values[param]);
	}
	mixture_finish(&best);
	mixture_finish(&rest);
	for (unsigned i = 0; i < TPE_CANDIDATES; i++) {
		double x = mixture_draw(&best, d),
		       is = mixture_log_density(&best, x) - mixture_log_density(&rest, x);

		if (is > score) {
			score = is;
			chosen = x;
		}
	}
	free(room);
	v = search_value_at(s, p, chosen);
	return v;
}

static struct value ask_list(const struct search *s, const struct ranking *r, size_t param,
			     struct draws *d)
{
	const struct sweep_param *p = &s->decl->params[param];
	double *best = xcalloc(2 * p->n_values, sizeof(*best)), *rest = best + p->n_values,
	       score = -INFINITY;
	size_t chosen = 0;

	for (size_t k = 0; k < p->n_values; k++)
		best[k] = rest[k] = 1;
	for (size_t i = 0; i < r->n; i++)
		for (size_t k = 0; k < p->n_values; k++)
			if (value_eq(&r->trials[i]->values[param], &p->values[k]))
				(i < r->n_best ? best : rest)[k]++;
	for (unsigned i = 0; i < TPE_CANDIDATES; i++) {
		double u = draws_unit(d) * (double)(r->n_best + p->n_values);
		size_t k = 0;

		while (k + 1 < p->n_values && u >= best[k])
			u -= best[k++];
		if (best[k] / rest[k] > score) {
			score = best[k] / rest[k];
			chosen = k;
		}
	}
	free(best);
	return p->values[chosen];
}

static void ask_first(const struct search *s, size_t n, struct value *ret)
{
	struct sweep_decl random = *s->decl;
	struct search first = { &random, s->params };

	random.search = SWEEP_RANDOM;
	random.trials = (uint32_t)n + 1;
	search_ask(&first, NULL, n, ret);
}

void tpe_ask(const struct search *s, const struct search_trial *past, size_t n_past, size_t n,
	     struct value *ret_values)
{
	const struct search_trial **sorted = xcalloc(n_past + 1, sizeof(*sorted));
	struct ranking r = { .trials = sorted, .n = search_rank(s, past, n_past, sorted) };

	if (r.n < TPE_FIRST) {
		ask_first(s, n, ret_values);
		free(sorted);
		return;
	}
	r.n_best = MIN((size_t)ceil(TPE_BEST * (double)r.n), TPE_BEST_MAX);
	for (size_t i = 0; i < s->decl->n_params; i++) {
		struct draws d = draws_of(s->decl->seed, n, i);

		ret_values[i] = s->decl->params[i].values ? ask_list(s, &r, i, &d)
							  : ask_range(s, &r, i, &d);
	}
	free(sorted);
}
