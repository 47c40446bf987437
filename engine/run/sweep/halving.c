/* engine/run/sweep/halving.c — successive halving: many short trials, and the best of them longer.
 * Rungs differ by factor in the value of the rungs' param.
 *
 * halving (K. Jamieson and A. Talwalkar, AISTATS 2016) numbers its trials rung by rung: the first
 * rung has `trials` of them, each next one 1/factor as many, rounded down, up to the param's max. A
 * rung is decided when all its trials have ended: so the result doesn't depend on which trial is
 * faster, at the price of waiting for the slowest.
 *
 * asha (L. Li et al., "A system for massively parallel hyperparameter tuning", MLSys 2020) never
 * waits: the next trial is the promotion, on the highest rung where there is one, of a trial that
 * is now among the best 1/factor of those that have ended on its rung; else a new one on the first
 * rung, while that has fewer than `trials`. What has ended decides, so with several trials at once
 * their order does. It is on record all the same: a trial's rung is its value of the param, and it
 * was promoted when a trial with its other values is on the next rung. With one at a time the seed
 * alone decides.
 *
 * A trial without a value is never promoted, but counts as one that has ended. Equal values: the
 * lower number is promoted.
 */
#include <assert.h>
#include <stdlib.h>
#include "run/sweep/internal.h"

struct rung {
	size_t first, n; /* trials */
	int64_t resource;
};

/* 1 when it has this rung. */
static bool rung_at(const struct sweep_decl *d, unsigned number, struct rung *ret)
{
	struct rung r = { 0, d->trials, d->rungs.min };

	for (unsigned i = 0; i < number; i++) {
		if (r.resource >= d->rungs.max || r.n / d->rungs.factor == 0)
			return false;
		r.first += r.n;
		r.n /= d->rungs.factor;
		r.resource = r.resource > d->rungs.max / d->rungs.factor
				     ? d->rungs.max
				     : r.resource * d->rungs.factor;
	}
	*ret = r;
	return true;
}

size_t halving_n_trials(const struct sweep_decl *d)
{
	struct rung r = { 0 };
	unsigned n = 0;

	while (rung_at(d, n, &r))
		n++;
	/* Any trial of the first rung may be among the best of its rung for a while. */
	return d->search == SWEEP_ASHA ? (size_t)d->trials * n : r.first + r.n;
}

enum search_answer halving_ask(const struct search *s, const struct search_trial *trials, size_t n,
			       struct value *ret)
{
	const struct sweep_decl *d = s->decl;
	const struct search_trial **ranked;
	struct rung r = { 0 }, last = { 0 };
	size_t n_ranked;

	for (unsigned i = 0; rung_at(d, i, &r) && n >= r.first + r.n; i++)
		last = r;
	assert(n >= r.first && n < r.first + r.n);
	ret[d->n_params] = (struct value){ .type = VALUE_INT, .i = r.resource };
	if (r.first == 0) {
		search_ask_random(s, n, ret);
		return SEARCH_TRIAL;
	}
	for (size_t i = last.first; i < r.first; i++)
		if (!trials[i].ended)
			return SEARCH_WAIT;
	ranked = xcalloc(last.n, sizeof(*ranked));
	n_ranked = search_rank(s, trials + last.first, last.n, ranked);
	if (n - r.first < n_ranked)
		memcpy(ret, ranked[n - r.first]->values, d->n_params * sizeof(*ret));
	free(ranked);
	return n - r.first < n_ranked ? SEARCH_TRIAL : SEARCH_LEFT_OUT;
}

/* ASHA. */

static bool is_on(const struct search *s, const struct search_trial *t, const struct rung *r)
{
	return t->values && t->values[s->decl->n_params].i == r->resource;
}

static bool was_promoted(const struct search *s, const struct search_trial *trials, size_t n,
			 const struct search_trial *t, const struct rung *to)
{
	for (size_t i = 0; i < n; i++) {
		bool same = is_on(s, &trials[i], to);

		for (size_t k = 0; k < s->decl->n_params && same; k++)
			same = value_eq(&trials[i].values[k], &t->values[k]);
		if (same)
			return true;
	}
	return false;
}

/* The trial to promote from rung `r` to `to`, or NULL. */
static const struct search_trial *promotable(const struct search *s,
					     const struct search_trial *trials, size_t n,
					     const struct rung *r, const struct rung *to)
{
	const struct search_trial **ranked = xcalloc(n, sizeof(*ranked)), *found = NULL;
	size_t n_ended = 0, n_ranked = 0;

	for (size_t i = 0; i < n; i++) {
		if (!trials[i].ended || !is_on(s, &trials[i], r))
			continue;
		n_ended++;
		if (trials[i].has_value)
			ranked[n_ranked++] = &trials[i];
	}
	search_sort(s, ranked, n_ranked);
	for (size_t i = 0; i < MIN(n_ended / s->decl->rungs.factor, n_ranked) && !found; i++)
		if (!was_promoted(s, trials, n, ranked[i], to))
			found = ranked[i];
	free(ranked);
	return found;
}

enum search_answer asha_ask(const struct search *s, const struct search_trial *trials, size_t n,
			    struct value *ret)
{
	const struct sweep_decl *d = s->decl;
	size_t all = search_n_trials(s), n_first = 0;
	struct rung first, from, to;
	unsigned top = 0;
	bool running = false;

	(void)rung_at(d, 0, &first);
	while (n > 0 && rung_at(d, top + 1, &to))
		top++;
	for (; top > 0; top--) {
		const struct search_trial *t;

		(void)rung_at(d, top, &to);
		(void)rung_at(d, top - 1, &from);
		t = promotable(s, trials, all, &from, &to);
		if (!t)
			continue;
		memcpy(ret, t->values, d->n_params * sizeof(*ret));
		ret[d->n_params] = (struct value){ .type = VALUE_INT, .i = to.resource };
		return SEARCH_TRIAL;
	}
	for (size_t i = 0; n > 0 && i < all; i++) {
		n_first += is_on(s, &trials[i], &first);
		running |= trials[i].values && !trials[i].ended;
	}
	if (n_first < d->trials) {
		search_ask_random(s, n, ret);
		ret[d->n_params] = (struct value){ .type = VALUE_INT, .i = first.resource };
		return SEARCH_TRIAL;
	}
	return running ? SEARCH_WAIT : SEARCH_LEFT_OUT;
}
