/* engine/run/sweep/search.h — which values a trial of a sweep has.
 *
 * A search is a pure function: the values of trial n follow from the declaration and the results of
 * the trials before it, by their numbers. It has no state, reads no clock, and doesn't depend on
 * the order in which trials end. So a sweep that was killed goes on as if nothing had happened, and
 * a seed gives the same trials again.
 *
 * grid: every combination; the last param changes fastest. random: independent uniform draws.
 * sobol: a low-discrepancy sequence (sobol.h), shifted by the seed. tpe: the tree-structured Parzen
 * estimator (tpe.c). With `parallel` k, trial n learns from trials 0 to n - k and waits for them:
 * which ones it learns from must not depend on which ended first. halving: random draws on the
 * first rung; when a rung has ended, the best 1/factor of it run again with a larger value of the
 * rungs' param. asha: the same without waiting for a rung: which trial is next follows from all
 * that have ended by now, so that a seed gives the same trials again only with one at a time.
 *
 * Values of a float range are rounded to six significant digits, so that people can read and repeat
 * them. Numbers of trials begin at 0 here. Any thread.
 */
#ifndef CAIRN_RUN_SWEEP_SEARCH_H
#define CAIRN_RUN_SWEEP_SEARCH_H

#include "model/pipeline.h"

struct search {
	const struct sweep_decl *decl;
	const struct param_decl *params; /* the pipeline's */
};

struct search_trial {
	bool ended;     /* also when it was left out */
	bool has_value; /* it ended well, with a finite value of the objective */
	double value;
	const struct value *values; /* search_n_values() of them; NULL while it hasn't begun */
};

/* Values of a trial: one for each param of the sweep, then that of the rungs' param, if any. */
size_t search_n_values(const struct search *s);
/* The pipeline's param of value i. */
uint32_t search_param(const struct search *s, size_t i);
/* All trials, on all rungs. Trials of later rungs are left out when too few have a value; asha
 * mostly leaves out many. */
size_t search_n_trials(const struct search *s);

enum search_answer {
	SEARCH_TRIAL, /* run it with these values */
	SEARCH_WAIT,  /* trials before it have to end first */
	SEARCH_LEFT_OUT,
};
/* `trials`: those before n; of asha all search_n_trials(), but for n = 0. Strings and lists of
 * *ret_values belong to the declaration. */
enum search_answer search_ask(const struct search *s, const struct search_trial *trials, size_t n,
			      struct value *ret_values);

/* The best trial, or SIZE_MAX: none has a value. Of halving and asha only trials of the last rung
 * that has values are compared. */
size_t search_best(const struct search *s, const struct search_trial *trials, size_t n);
/* Whether `a` is better than `b`. */
bool search_is_better(const struct search *s, double a, double b);

#endif
