/* Searches of sweeps: the published Sobol sequence, draws against what they should be distributed
 * like, halving and asha against naive models, TPE against random draws on known functions. */
#include <math.h>
#include <stdio.h>
#include "run/sweep/internal.h"
#include "run/sweep/sobol.h"
#include "unit.h"

static void test_sobol_is_the_published_sequence(void **state)
{
	/* Of all 21 dimensions, in 64ths: point 37 by the order of the Gray code. */
	static const uint32_t of_37[SOBOL_DIMENSIONS] = { 59, 41, 37, 59, 49, 19, 11, 51, 39, 11, 1,
							  5,  37, 55, 7,  31, 51, 27, 3,  9,  61 };
	static const uint32_t of_5[SOBOL_DIMENSIONS] = { 7, 7, 1, 3, 7, 5, 7, 3, 3, 1, 3,
							 7, 7, 1, 7, 3, 7, 3, 3, 5, 5 };

	for (unsigned d = 0; d < SOBOL_DIMENSIONS; d++) {
		assert_int_equal(sobol(0, d), 0);
		assert_int_equal(sobol(1, d), 1U << 31);
		assert_int_equal(sobol(5, d), of_5[d] << 29);
		assert_int_equal(sobol(37, d), of_37[d] << 26);
	}
}

/* Each dimension's first 2^k points lie in different 2^k-ths; so do those after a shift. */
static void test_sobol_stratifies(void **state)
{
	for (unsigned d = 0; d < SOBOL_DIMENSIONS; d++)
		for (unsigned k = 0; k <= 8; k++) {
			bool seen[256] = { false };

			for (uint32_t n = 0; n < 1U << k; n++) {
				uint32_t in = k ? sobol(n, d) >> (32 - k) : 0;

				assert_false(seen[in]);
				seen[in] = true;
			}
		}
}

static const struct value kinds[] = { { .type = VALUE_STRING, .s = "a" },
				      { .type = VALUE_STRING, .s = "b" },
				      { .type = VALUE_STRING, .s = "c" } };
static const struct param_decl params[] = { { .name = "x", .type = VALUE_FLOAT },
					    { .name = "n", .type = VALUE_INT },
					    { .name = "kind", .type = VALUE_STRING },
					    { .name = "epochs", .type = VALUE_INT } };
static const struct sweep_param three[] = { { .param = 0, .min = 0.001, .max = 10, .log = true },
					    { .param = 1, .min = -2, .max = 2 },
					    { .param = 2, .values = kinds, .n_values = 3 } };

static void test_draws_are_spread_as_declared(void **state)
{
	for (int search = SWEEP_RANDOM; search <= SWEEP_SOBOL; search++) {
		struct sweep_decl d = { .params = three,
					.n_params = 3,
					.search = (enum sweep_search)search,
					.trials = 4000,
					.seed = 11 };
		struct search s = { &d, params };
		unsigned decades[4] = { 0 }, ints[5] = { 0 }, kind[3] = { 0 };

		for (size_t i = 0; i < 4000; i++) {
			struct value v[3];

			assert_int_equal(search_ask(&s, NULL, i, v), SEARCH_TRIAL);
			assert_true(v[0].type == VALUE_FLOAT && v[0].f >= 0.001 && v[0].f <= 10);
			assert_true(v[1].type == VALUE_INT && v[1].i >= -2 && v[1].i <= 2);
			decades[MIN((size_t)(log10(v[0].f) + 3), 3)]++;
			ints[v[1].i + 2]++;
			kind[v[2].s[0] - 'a']++;
		}
		for (unsigned i = 0; i < 4; i++)
			assert_in_range(decades[i], 900, 1100);
		for (unsigned i = 0; i < 5; i++)
			assert_in_range(ints[i], 700, 900);
		for (unsigned i = 0; i < 3; i++)
			assert_in_range(kind[i], 1200, 1470);
	}
}

static void test_a_grid_has_each_point_once(void **state)
{
	static const struct sweep_param two[] = { { .param = 1, .min = 3, .max = 5 },
						  { .param = 2, .values = kinds, .n_values = 3 } };
	struct sweep_decl d = { .params = two, .n_params = 2, .search = SWEEP_GRID, .trials = 9 };
	struct search s = { &d, params };

	for (size_t i = 0; i < 9; i++) {
		struct value v[2];

		search_ask(&s, NULL, i, v);
		assert_int_equal(v[0].i, 3 + (int64_t)i / 3);
		assert_string_equal(v[1].s, kinds[i % 3].s);
	}
}

/* Halving. */

#define TRIALS 400

struct played {
	struct search_trial trials[TRIALS];
	struct value values[TRIALS][8];
	enum search_answer answers[TRIALS];
};

/* A trial's value, known only to the test: negative ones fail. */
static double score(uint64_t seed, const struct value *v)
{
	struct draws d = draws_of(seed, (uint64_t)(v[0].f * 1e6), (uint64_t)v[3].i);

	return floor(draws_unit(&d) * 12) - 2;
}

static void play(const struct search *s, uint64_t seed, struct played *p)
{
	size_t n = search_n_trials(s);

	assert_true(n <= TRIALS);
	memset(p, 0, sizeof(*p));
	for (size_t i = 0; i < n; i++) {
		p->answers[i] = search_ask(s, p->trials, i, p->values[i]);
		assert_int_not_equal(p->answers[i], SEARCH_WAIT);
		p->trials[i].ended = true;
		if (p->answers[i] == SEARCH_LEFT_OUT)
			continue;
		p->trials[i].values = p->values[i];
		p->trials[i].value = score(seed, p->values[i]);
		p->trials[i].has_value = p->trials[i].value >= 0;
	}
}

/* The naive model: who of a rung is promoted is found by looking for the best again and again. */
static void check_rungs(const struct sweep_decl *d, const struct played *p)
{
	size_t first = 0, n = d->trials;
	int64_t resource = d->rungs.min;

	while (resource < d->rungs.max && n / d->rungs.factor) {
		size_t next = first + n, n_next = n / d->rungs.factor;
		bool taken[TRIALS] = { false };

		resource = MIN(resource * d->rungs.factor, d->rungs.max);
		for (size_t i = next; i < next + n_next; i++) {
			size_t best = SIZE_MAX;

			for (size_t k = first; k < next; k++)
				if (p->trials[k].has_value && !taken[k] &&
				    (best == SIZE_MAX ||
				     (d->maximize ? p->trials[k].value > p->trials[best].value
						  : p->trials[k].value < p->trials[best].value)))
					best = k;
			if (best == SIZE_MAX) {
				assert_int_equal(p->answers[i], SEARCH_LEFT_OUT);
				continue;
			}
			taken[best] = true;
			assert_int_equal(p->answers[i], SEARCH_TRIAL);
			assert_int_equal(p->values[i][3].i, resource);
			assert_true(p->values[i][0].f == p->values[best][0].f);
			assert_true(value_eq(&p->values[i][2], &p->values[best][2]));
		}
		first = next;
		n = n_next;
	}
}

static void test_halving_promotes_the_best(void **state)
{
	static struct played p;

	for (uint64_t seed = 1; seed <= 300; seed++) {
		struct draws r = draws_of(seed, 0, 0);
		struct sweep_decl d = { .params = three,
					.n_params = 3,
					.search = SWEEP_HALVING,
					.trials = 1 + (uint32_t)(draws_next(&r) % 90),
					.seed = seed,
					.maximize = seed % 2,
					.rungs = { .param = 3,
						   .min = 1 + (int64_t)(draws_next(&r) % 3),
						   .max = 4 + (int64_t)(draws_next(&r) % 60),
						   .factor = 2 + (uint32_t)(draws_next(&r) % 3) } };
		struct search s = { &d, params };
		size_t best;

		play(&s, seed, &p);
		check_rungs(&d, &p);
		best = search_best(&s, p.trials, search_n_trials(&s));
		for (size_t i = 0; best != SIZE_MAX && i < search_n_trials(&s); i++)
			assert_false(
				p.trials[i].has_value &&
				(p.values[i][3].i > p.values[best][3].i ||
				 (p.values[i][3].i == p.values[best][3].i &&
				  search_is_better(&s, p.trials[i].value, p.trials[best].value))));
	}
}

/* A rung waits for the one before it, whole. */
static void test_a_rung_waits(void **state)
{
	struct sweep_decl d = { .params = three,
				.n_params = 3,
				.search = SWEEP_HALVING,
				.trials = 4,
				.rungs = { .param = 3, .min = 1, .max = 4, .factor = 2 } };
	struct search s = { &d, params };
	struct search_trial t[7] = { 0 };
	struct value v[7][4];

	assert_int_equal(search_n_trials(&s), 7);
	for (size_t i = 0; i < 4; i++) {
		assert_int_equal(search_ask(&s, t, 4, v[4]), SEARCH_WAIT);
		assert_int_equal(search_ask(&s, t, i, v[i]), SEARCH_TRIAL);
		t[i] = (struct search_trial){ true, i == 2, 1, v[i] };
	}
	assert_int_equal(search_ask(&s, t, 4, v[4]), SEARCH_TRIAL);
	assert_true(v[4][0].f == v[2][0].f);
	assert_int_equal(search_ask(&s, t, 5, v[5]), SEARCH_LEFT_OUT);
	assert_int_equal(search_ask(&s, t, 6, v[6]), SEARCH_WAIT);
}

/* ASHA. */

/* Against the paper's get_job(), on trials whose ends come in any order, `at_once` at a time. */
static void check_asha(uint64_t seed, struct played *p)
{
	struct draws r = draws_of(seed, 1, 0);
	struct sweep_decl d = { .params = three,
				.n_params = 3,
				.search = SWEEP_ASHA,
				.trials = 1 + (uint32_t)(draws_next(&r) % 40),
				.seed = seed,
				.maximize = seed % 2,
				.rungs = { .param = 3,
					   .min = 1 + (int64_t)(draws_next(&r) % 3),
					   .max = 4 + (int64_t)(draws_next(&r) % 60),
					   .factor = 2 + (uint32_t)(draws_next(&r) % 3) } };
	struct search s = { &d, params };
	size_t n = search_n_trials(&s), at_once = 1 + draws_next(&r) % 5, running = 0, first = 0;

	assert_true(n <= TRIALS);
	memset(p, 0, sizeof(*p));
	for (size_t i = 0; i < n || running;) {
		enum search_answer answer = SEARCH_WAIT;
		size_t least = 0, one;

		if (i < n && running < at_once)
			answer = search_ask(&s, p->trials, i, p->values[i]);
		if (answer == SEARCH_LEFT_OUT) {
			assert_int_equal(running, 0);
			assert_int_equal(first, d.trials);
			p->trials[i++].ended = true;
			continue;
		}
		if (answer == SEARCH_TRIAL) {
			int64_t resource = p->values[i][3].i;

			/* A promotion: there is one like it on the rung below, and it is among the
			 * best. */
			for (size_t k = 0; k < i && resource > d.rungs.min; k++) {
				const struct search_trial *t = &p->trials[k];
				size_t better = 0, ended = 0;

				if (!t->ended || p->values[k][0].f != p->values[i][0].f ||
				    MIN(p->values[k][3].i * d.rungs.factor, d.rungs.max) !=
					    resource)
					continue;
				for (size_t o = 0; o < i; o++) {
					if (!p->trials[o].ended ||
					    p->values[o][3].i != p->values[k][3].i)
						continue;
					ended++;
					better +=
						p->trials[o].has_value &&
						search_is_better(&s, p->trials[o].value, t->value);
				}
				assert_true(t->has_value && better < ended / d.rungs.factor);
				least++;
			}
			assert_int_equal(least, resource > d.rungs.min);
			first += resource == d.rungs.min;
			p->trials[i].values = p->values[i];
			running++;
			i++;
			continue;
		}
		/* One of those that run ends. */
		assert_true(running > 0);
		one = draws_next(&r) % running;
		for (size_t k = 0; k < i; k++) {
			struct search_trial *t = &p->trials[k];

			if (t->ended || one-- > 0)
				continue;
			t->ended = true;
			t->value = score(seed, p->values[k]);
			t->has_value = t->value >= 0;
			break;
		}
		running--;
	}
}

static void test_asha_promotes_what_is_good_now(void **state)
{
	static struct played p;

	for (uint64_t seed = 1; seed <= 300; seed++)
		check_asha(seed, &p);
}

/* A trial on the first rung that is still running keeps nobody from the next one. */
static void test_asha_does_not_wait(void **state)
{
	struct sweep_decl d = { .params = three,
				.n_params = 3,
				.search = SWEEP_ASHA,
				.trials = 4,
				.rungs = { .param = 3, .min = 1, .max = 4, .factor = 2 } };
	struct search s = { &d, params };
	struct search_trial t[12] = { 0 };
	struct value v[12][4];

	assert_int_equal(search_n_trials(&s), 12);
	for (size_t i = 0; i < 3; i++) {
		assert_int_equal(search_ask(&s, t, i, v[i]), SEARCH_TRIAL);
		t[i].values = v[i];
	}
	t[1] = (struct search_trial){ true, true, 1, v[1] };
	t[2] = (struct search_trial){ true, true, 2, v[2] };
	assert_int_equal(search_ask(&s, t, 3, v[3]), SEARCH_TRIAL); /* trial 0 still runs */
	assert_int_equal(v[3][3].i, 2);
	assert_true(v[3][0].f == v[1][0].f);
	t[3].values = v[3];
	assert_int_equal(search_ask(&s, t, 4, v[4]), SEARCH_TRIAL); /* nobody else: a new one */
	assert_int_equal(v[4][3].i, 1);
	t[4].values = v[4];
	assert_int_equal(search_ask(&s, t, 5, v[5]), SEARCH_WAIT);
}

/* TPE. */

static double sphere(const struct value *v)
{
	double sum = 0;

	for (unsigned i = 0; i < 4; i++)
		sum += (v[i].f - 1) * (v[i].f - 1);
	return sum;
}

/* L. C. W. Dixon and G. P. Szegő, 1978. */
static double branin(const struct value *v)
{
	double x = v[0].f, y = v[1].f, a = y - 5.1 / (4 * M_PI * M_PI) * x * x + 5 / M_PI * x - 6;

	return a * a + 10 * (1 - 1 / (8 * M_PI)) * cos(x) + 10;
}

static const struct {
	const char *name;
	double (*fn)(const struct value *v);
	struct sweep_param params[4];
	size_t n;
} functions[] = {
	{ "sphere",
	  sphere,
	  { { .min = -5, .max = 5 },
	    { .min = -5, .max = 5 },
	    { .min = -5, .max = 5 },
	    { .min = -5, .max = 5 } },
	  4 },
	{ "branin", branin, { { .min = -5, .max = 10 }, { .min = 0, .max = 15 } }, 2 },
};

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

#define SEEDS 15

/* The median over seeds of the best value after 60 trials. */
static double median_of(size_t function, enum sweep_search search, uint32_t parallel)
{
	double best[SEEDS];

	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		struct sweep_decl d = { .params = functions[function].params,
					.n_params = functions[function].n,
					.search = search,
					.trials = 60,
					.seed = seed,
					.parallel = parallel };
		struct search s = { &d, params };
		struct search_trial t[60] = { 0 };
		struct value v[60][4];

		for (size_t i = 0; i < 60; i++) {
			assert_int_equal(search_ask(&s, t, i, v[i]), SEARCH_TRIAL);
			t[i] = (struct search_trial){ true, true, functions[function].fn(v[i]),
						      v[i] };
		}
		best[seed] = t[search_best(&s, t, 60)].value;
	}
	qsort(best, SEEDS, sizeof(*best), by_number);
	return best[SEEDS / 2];
}

static void test_tpe_beats_random(void **state)
{
	for (size_t f = 0; f < ARRAY_LEN(functions); f++) {
		double tpe = median_of(f, SWEEP_TPE, 1), random = median_of(f, SWEEP_RANDOM, 1),
		       four = median_of(f, SWEEP_TPE, 4);

		print_message("%s: tpe %g, four at once %g, random %g\n", functions[f].name, tpe,
			      four, random);
		assert_true(tpe < random * 0.6);
		assert_true(four < random * 0.7);
	}
}

/* With two at once, trial n learns from trials 0 to n - 2, and only from those. */
static void test_tpe_waits_and_looks_no_further(void **state)
{
	struct sweep_decl d = { .params = three,
				.n_params = 3,
				.search = SWEEP_TPE,
				.trials = 40,
				.parallel = 2,
				.seed = 5 };
	struct search s = { &d, params };
	struct search_trial t[40] = { 0 };
	struct value v[40][3], again[3];

	for (size_t i = 0; i < 40; i++) {
		assert_int_equal(search_ask(&s, t, i, v[i]), SEARCH_TRIAL);
		if (i + 2 < 40)
			assert_int_equal(search_ask(&s, t, i + 2, again), SEARCH_WAIT);
		if (i > 0) {
			t[i - 1].value -= 100;
			search_ask(&s, t, i, again);
			t[i - 1].value += 100;
			for (size_t k = 0; k < 3; k++)
				assert_true(value_eq(&v[i][k], &again[k]));
		}
		t[i] = (struct search_trial){ true, i % 7 != 3, v[i][0].f + (double)v[i][1].i,
					      v[i] };
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sobol_is_the_published_sequence),
		cmocka_unit_test(test_sobol_stratifies),
		cmocka_unit_test(test_draws_are_spread_as_declared),
		cmocka_unit_test(test_a_grid_has_each_point_once),
		cmocka_unit_test(test_halving_promotes_the_best),
		cmocka_unit_test(test_asha_promotes_what_is_good_now),
		cmocka_unit_test(test_asha_does_not_wait),
		cmocka_unit_test(test_a_rung_waits),
		cmocka_unit_test(test_tpe_beats_random),
		cmocka_unit_test(test_tpe_waits_and_looks_no_further),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
