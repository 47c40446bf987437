/* engine/run/sweep/internal.h — shared by search.c, halving.c and tpe.c: the numbers behind a
 * param's values, and random draws. */
#ifndef CAIRN_RUN_SWEEP_INTERNAL_H
#define CAIRN_RUN_SWEEP_INTERNAL_H

#include "run/sweep/search.h"

/* A range as the searches see it: an interval in which all places count alike. An int is the
 * interval from half below its value to half above. */
struct interval {
	double low, high;
};
struct interval search_interval(const struct search *s, const struct sweep_param *p);
/* Between a place in the interval and the value there. */
struct value search_value_at(const struct search *s, const struct sweep_param *p, double x);
double search_place_of(const struct sweep_param *p, const struct value *v);

/* Those of the n trials that have a value, the best first, equal ones by their numbers. Returns how
 * many. */
size_t search_rank(const struct search *s, const struct search_trial *trials, size_t n,
		   const struct search_trial **ret);

/* The same order for pointers into one array. */
void search_sort(const struct search *s, const struct search_trial **v, size_t n);

/* Draws: splitmix64 (G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators",
 * OOPSLA 2014), seeded by a mix of the sweep's seed and two numbers. */
struct draws {
	uint64_t state;
};
struct draws draws_of(uint64_t seed, uint64_t a, uint64_t b);
uint64_t draws_next(struct draws *d);
double draws_unit(struct draws *d); /* in [0, 1) */

/* Values of trial n from those of `past` (which have all ended). */
void tpe_ask(const struct search *s, const struct search_trial *past, size_t n_past, size_t n,
	     struct value *ret_values);

void search_ask_random(const struct search *s, size_t n, struct value *ret);
enum search_answer halving_ask(const struct search *s, const struct search_trial *trials, size_t n,
			       struct value *ret);
enum search_answer asha_ask(const struct search *s, const struct search_trial *trials, size_t n,
			    struct value *ret);
size_t halving_n_trials(const struct sweep_decl *d); /* of both; of asha at most */

#endif
