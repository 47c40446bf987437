/* engine/run/sweep/tpe.c — the tree-structured Parzen estimator (J. Bergstra, R. Bardenet,
 * Y. Bengio, B. Kégl, "Algorithms for hyper-parameter optimization", NIPS 2011), over all params
 * together (S. Falkner, A. Klein, F. Hutter, "BOHB", ICML 2018; the choices are compared by
 * S. Watanabe, "Tree-structured Parzen estimator", 2023).
 *
 * The trials with a value are split into the best few and the rest. Both groups become a density: a
 * mixture with one kernel for each trial, which is a product over the params, and a wide one for
 * the whole space (the prior), so that no place is ever ruled out. Candidates are drawn from the
 * density of the best; the one whose density there exceeds that of the rest by the largest factor
 * wins. Because a candidate is drawn and judged as a whole, params that only work together are
 * found together.
 *
 * A kernel of a range is a normal distribution, cut at the ends of the interval: TPE_BANDWIDTH of
 * it wide, and less the more trials the group has (D. Scott's rule). A kernel of a list has its own
 * value and, with the weight of one of the group's kernels, all values alike.
 *
 * All draws of a trial come from one generator, in the order of the params. The first trials are
 * random draws. Memory: the places of all trials. It is our own, because it is short, and a search
 * that depended on the version of a Python package couldn't be repeated in years. Against theirs:
 * tests/bench/run --only search.
 */
#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include "run/sweep/internal.h"

#define TPE_FIRST      10   /* trials that are drawn at random before anything is learnt */
#define TPE_CANDIDATES 24   /* of the paper's authors */
#define TPE_BEST       0.15 /* of the trials belong to the best */
#define TPE_BEST_MAX   25
#define TPE_BANDWIDTH \
	0.1 /* of the interval: 0.2 and more were behind on all of tests/bench/search/search.c */

/* One param as the kernels see it. */
struct axis {
	struct interval in; /* of a range */
	size_t n_values;    /* of a list, or 0 */
	double width;       /* of each kernel that isn't the prior */
};

/* The kernels of a group. The last one is the prior, which has no places. */
struct mixture {
	const double *const *at; /* one row a trial, one place (or the number of a value) an axis */
	size_t n;                /* with the prior */
	const struct axis *axes;
	size_t n_axes;
};

static void set_widths(struct axis *axes, size_t n_axes, size_t n_trials)
{
	double part =
		TPE_BANDWIDTH * pow((double)MAX(n_trials, (size_t)1), -1 / ((double)n_axes + 4));

	for (size_t i = 0; i < n_axes; i++)
		axes[i].width = part * (axes[i].in.high - axes[i].in.low);
}

/* The part of a normal distribution below z. */
static double below(double z)
{
	return 0.5 * erfc(-z * M_SQRT1_2);
}

/* The logarithm of a kernel's density at `x`, but for a factor that all kernels share. */
static double kernel_log_density(const struct mixture *m, size_t kernel, const double *x)
{
	double sum = 0;

	for (size_t i = 0; i < m->n_axes; i++) {
		const struct axis *a = &m->axes[i];
		bool prior = kernel == m->n - 1;
		double all = a->in.high - a->in.low, w = prior ? all : a->width,
		       at = prior ? (a->in.low + a->in.high) / 2 : m->at[kernel][i], z, inside;

		if (a->n_values) {
			double even = 1 / ((double)a->n_values * (double)m->n);

			sum += prior ? -log((double)a->n_values)
				     : log((even + (at == x[i])) / (1 + 1 / (double)m->n));
			continue;
		}
		z = (x[i] - at) / w;
		inside = below((a->in.high - at) / w) - below((a->in.low - at) / w);
		sum -= 0.5 * z * z + log(w * fmax(inside, 1e-12));
	}
	return sum;
}

static double mixture_log_density(const struct mixture *m, const double *x, double *room)
{
	double most = -INFINITY, sum = 0;

	for (size_t i = 0; i < m->n; i++) {
		room[i] = kernel_log_density(m, i, x);
		most = fmax(most, room[i]);
	}
	for (size_t i = 0; i < m->n; i++)
		sum += exp(room[i] - most);
	return most + log(sum / (double)m->n);
}

/* Box and Muller's way; what falls outside is drawn again. */
static double draw_in(const struct interval *in, double at, double width, struct draws *d)
{
	double x = at;

	for (unsigned tries = 0; tries < 100; tries++) {
		double r = sqrt(-2 * log(1 - draws_unit(d))), z = r * cos(2 * M_PI * draws_unit(d));

		x = at + z * width;
		if (x >= in->low && x <= in->high)
			return x;
	}
	return fmin(fmax(x, in->low), in->high);
}

static void mixture_draw(const struct mixture *m, struct draws *d, double *ret)
{
	size_t kernel = MIN((size_t)(draws_unit(d) * (double)m->n), m->n - 1);
	bool prior = kernel == m->n - 1;

	for (size_t i = 0; i < m->n_axes; i++) {
		const struct axis *a = &m->axes[i];
		double all = a->in.high - a->in.low;

		if (!a->n_values)
			ret[i] = draw_in(&a->in,
					 prior ? (a->in.low + a->in.high) / 2 : m->at[kernel][i],
					 prior ? all : a->width, d);
		else if (prior || draws_unit(d) * ((double)m->n + 1) < 1)
			ret[i] = floor(draws_unit(d) * (double)a->n_values);
		else
			ret[i] = m->at[kernel][i];
	}
}

static double place_on(const struct sweep_param *p, const struct value *v)
{
	if (!p->values)
		return search_place_of(p, v);
	for (size_t k = 0; k < p->n_values; k++)
		if (value_eq(&p->values[k], v))
			return (double)k;
	return 0;
}

static void ask_first(const struct search *s, size_t n, struct value *ret)
{
	struct sweep_decl random = *s->decl;
	struct search first = { &random, s->params };

	random.search = SWEEP_RANDOM;
	random.trials = (uint32_t)n + 1;
	search_ask(&first, NULL, n, ret);
}

/* Puts what wins among the candidates into `ret`, a place for each axis. `rows`: the best first. */
static void choose(const double *const *rows, size_t n, struct axis axes[2][SWEEP_PARAMS_MAX],
		   size_t n_axes, struct draws *d, double *ret)
{
	size_t n_best = MIN((size_t)ceil(TPE_BEST * (double)n), TPE_BEST_MAX);
	struct mixture best = { rows, n_best + 1, axes[0], n_axes },
		       rest = { rows + n_best, n - n_best + 1, axes[1], n_axes };
	double *room = xcalloc(n + 1, sizeof(*room)), score = -INFINITY;

	set_widths(axes[0], n_axes, n_best);
	set_widths(axes[1], n_axes, n - n_best);
	for (unsigned i = 0; i < TPE_CANDIDATES; i++) {
		double x[SWEEP_PARAMS_MAX], is;

		mixture_draw(&best, d, x);
		is = mixture_log_density(&best, x, room) - mixture_log_density(&rest, x, room);
		if (i == 0 || is > score) {
			score = is;
			memcpy(ret, x, n_axes * sizeof(*ret));
		}
	}
	free(room);
}

static void learn(const struct search *s, const struct search_trial *const *sorted, size_t count,
		  size_t n, struct value *ret)
{
	size_t n_axes = s->decl->n_params;
	struct draws d = draws_of(s->decl->seed, n, 0);
	struct axis axes[2][SWEEP_PARAMS_MAX] = { 0 };
	double chosen[SWEEP_PARAMS_MAX], *places = xcalloc(count * n_axes, sizeof(*places));
	const double **rows = xcalloc(count, sizeof(*rows));

	assert(n_axes <= SWEEP_PARAMS_MAX);
	for (size_t i = 0; i < n_axes; i++) {
		const struct sweep_param *p = &s->decl->params[i];

		if (p->values)
			axes[0][i].n_values = p->n_values;
		else
			axes[0][i].in = search_interval(s, p);
		axes[1][i] = axes[0][i];
		for (size_t k = 0; k < count; k++)
			places[k * n_axes + i] = place_on(p, &sorted[k]->values[i]);
	}
	for (size_t k = 0; k < count; k++)
		rows[k] = places + k * n_axes;
	choose(rows, count, axes, n_axes, &d, chosen);
	for (size_t i = 0; i < n_axes; i++) {
		const struct sweep_param *p = &s->decl->params[i];

		ret[i] = p->values ? p->values[MIN((size_t)chosen[i], p->n_values - 1)]
				   : search_value_at(s, p, chosen[i]);
	}
	free(places);
	free(rows);
}

void tpe_ask(const struct search *s, const struct search_trial *past, size_t n_past, size_t n,
	     struct value *ret_values)
{
	const struct search_trial **sorted = xcalloc(n_past + 1, sizeof(*sorted));
	size_t count = search_rank(s, past, n_past, sorted);

	if (count < TPE_FIRST)
		ask_first(s, n, ret_values);
	else
		learn(s, sorted, count, n, ret_values);
	free(sorted);
}
