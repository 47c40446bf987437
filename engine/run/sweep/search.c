/* engine/run/sweep/search.c — grid, random and Sobol; tpe.c and halving.c have the others.
 *
 * A param that has a range is searched as an interval of places (internal.h), one that has a list
 * by the number of its value. A draw depends on the seed, the trial's number and the param's number
 * only.
 */
#include "run/sweep/search.h"
#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "run/sweep/internal.h"
#include "run/sweep/sobol.h"

/* Draws. */

static uint64_t mix(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
	return z ^ (z >> 31);
}

uint64_t draws_next(struct draws *d)
{
	d->state += 0x9e3779b97f4a7c15ULL;
	return mix(d->state);
}

struct draws draws_of(uint64_t seed, uint64_t a, uint64_t b)
{
	struct draws d = { seed };

	d.state = draws_next(&d) ^ a;
	d.state = draws_next(&d) ^ b;
	d.state = draws_next(&d);
	return d;
}

double draws_unit(struct draws *d)
{
	return (double)(draws_next(d) >> 11) * 0x1p-53;
}

/* Places and values. */

static bool is_int(const struct search *s, const struct sweep_param *p)
{
	return s->params[p->param].type == VALUE_INT;
}

struct interval search_interval(const struct search *s, const struct sweep_param *p)
{
	double half = is_int(s, p) ? 0.5 : 0;
	struct interval i = { p->min - half, p->max + half };

	assert(!p->values);
	return p->log ? (struct interval){ log(i.low), log(i.high) } : i;
}

/* Six significant digits are as many as a person reads. */
static double rounded(double x)
{
	char text[32];

	snprintf(text, sizeof(text), "%.6g", x);
	return strtod(text, NULL);
}

struct value search_value_at(const struct search *s, const struct sweep_param *p, double x)
{
	double v = p->log ? exp(x) : x;

	if (is_int(s, p))
		return (struct value){ .type = VALUE_INT,
				       .i = (int64_t)fmin(fmax(round(v), p->min), p->max) };
	return (struct value){ .type = VALUE_FLOAT, .f = fmin(fmax(rounded(v), p->min), p->max) };
}

double search_place_of(const struct sweep_param *p, const struct value *v)
{
	double x = v->type == VALUE_INT ? (double)v->i : v->type == VALUE_FLOAT ? v->f : p->min;

	x = fmin(fmax(x, p->min), p->max);
	return p->log ? log(x) : x;
}

static struct value value_of_unit(const struct search *s, const struct sweep_param *p, double u)
{
	struct interval i;

	if (p->values)
		return p->values[MIN((size_t)(u * (double)p->n_values), p->n_values - 1)];
	i = search_interval(s, p);
	return search_value_at(s, p, i.low + u * (i.high - i.low));
}

/* The searches. */

static void ask_grid(const struct search *s, size_t n, struct value *ret)
{
	for (size_t i = s->decl->n_params; i-- > 0;) {
		const struct sweep_param *p = &s->decl->params[i];
		size_t count = p->values ? p->n_values : (size_t)(p->max - p->min) + 1;

		ret[i] = p->values ? p->values[n % count]
				   : (struct value){ .type = VALUE_INT,
						     .i = (int64_t)p->min + (int64_t)(n % count) };
		n /= count;
	}
}

void search_ask_random(const struct search *s, size_t n, struct value *ret)
{
	for (size_t i = 0; i < s->decl->n_params; i++) {
		struct draws d = draws_of(s->decl->seed, n, i);

		ret[i] = value_of_unit(s, &s->decl->params[i], draws_unit(&d));
	}
}

/* The shift is one number per param, by exclusive or: each pair of points keeps its distance in
 * binary digits, so the sequence stays as even as it was. */
static void ask_sobol(const struct search *s, size_t n, struct value *ret)
{
	for (size_t i = 0; i < s->decl->n_params; i++) {
		struct draws d = draws_of(s->decl->seed, UINT64_MAX, i);
		uint32_t x = sobol((uint32_t)n, (unsigned)i) ^ (uint32_t)(draws_next(&d) >> 32);

		ret[i] = value_of_unit(s, &s->decl->params[i], ((double)x + 0.5) * 0x1p-32);
	}
}

/* Results. */

bool search_is_better(const struct search *s, double a, double b)
{
	return s->decl->maximize ? a > b : a < b;
}

static int better_first(const void *a, const void *b, void *arg)
{
	const struct search_trial *x = *(const struct search_trial *const *)a,
				  *y = *(const struct search_trial *const *)b;

	if (x->value == y->value)
		return (x > y) - (x < y);
	return search_is_better(arg, x->value, y->value) ? -1 : 1;
}

void search_sort(const struct search *s, const struct search_trial **v, size_t n)
{
	if (n)
		qsort_r(v, n, sizeof(*v), better_first, (void *)(uintptr_t)s);
}

size_t search_rank(const struct search *s, const struct search_trial *trials, size_t n,
		   const struct search_trial **ret)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (trials[i].has_value)
			ret[count++] = &trials[i];
	search_sort(s, ret, count);
	return count;
}

/* All. */

size_t search_n_values(const struct search *s)
{
	return s->decl->n_params + sweep_has_rungs(s->decl);
}

uint32_t search_param(const struct search *s, size_t i)
{
	return i < s->decl->n_params ? s->decl->params[i].param : s->decl->rungs.param;
}

size_t search_n_trials(const struct search *s)
{
	return sweep_has_rungs(s->decl) ? halving_n_trials(s->decl) : s->decl->trials;
}

enum search_answer search_ask(const struct search *s, const struct search_trial *trials, size_t n,
			      struct value *ret_values)
{
	size_t n_past;

	assert(n < search_n_trials(s));
	switch (s->decl->search) {
	case SWEEP_GRID:
		ask_grid(s, n, ret_values);
		return SEARCH_TRIAL;
	case SWEEP_RANDOM:
		search_ask_random(s, n, ret_values);
		return SEARCH_TRIAL;
	case SWEEP_SOBOL:
		ask_sobol(s, n, ret_values);
		return SEARCH_TRIAL;
	case SWEEP_HALVING:
		return halving_ask(s, trials, n, ret_values);
	case SWEEP_ASHA:
		return asha_ask(s, trials, n, ret_values);
	case SWEEP_TPE:
		break;
	}
	n_past = n >= s->decl->parallel ? n + 1 - s->decl->parallel : 0;
	for (size_t i = 0; i < n_past; i++)
		if (!trials[i].ended)
			return SEARCH_WAIT;
	tpe_ask(s, trials, n_past, n, ret_values);
	return SEARCH_TRIAL;
}

size_t search_best(const struct search *s, const struct search_trial *trials, size_t n)
{
	size_t best = SIZE_MAX, at = s->decl->n_params;

	for (size_t i = 0; i < n; i++) {
		int64_t more = 0;

		if (!trials[i].has_value)
			continue;
		if (best != SIZE_MAX && sweep_has_rungs(s->decl))
			more = trials[i].values[at].i - trials[best].values[at].i;
		if (best == SIZE_MAX || more > 0 ||
		    (more == 0 && search_is_better(s, trials[i].value, trials[best].value)))
			best = i;
	}
	return best;
}
