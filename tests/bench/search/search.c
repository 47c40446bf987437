/* What searches of sweeps find on published functions: bench_search TRIALS SEEDS. For each function
 * and search a line: function, search, the median over seeds of the best value after that many
 * trials, and cpu microseconds a trial, between tabs.
 * tests/bench/search/search.py runs the same functions under Optuna's samplers. */
#include "run/sweep/search.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "base/mem.h"

#define N_MAX 6

static double sphere(const double *x)
{
	double sum = 0;

	for (unsigned i = 0; i < 4; i++)
		sum += (x[i] - 1) * (x[i] - 1);
	return sum;
}

/* L. C. W. Dixon and G. P. Szegő, "The global optimization problem: an introduction", 1978. */
static double branin(const double *x)
{
	double a = x[1] - 5.1 / (4 * M_PI * M_PI) * x[0] * x[0] + 5 / M_PI * x[0] - 6;

	return a * a + 10 * (1 - 1 / (8 * M_PI)) * cos(x[0]) + 10;
}

/* The same book. Its minimum is -3.32237. */
static double hartmann6(const double *x)
{
	static const double c[4] = { 1, 1.2, 3, 3.2 },
			    a[4][6] = { { 10, 3, 17, 3.5, 1.7, 8 },
					{ 0.05, 10, 17, 0.1, 8, 14 },
					{ 3, 3.5, 1.7, 10, 17, 8 },
					{ 17, 8, 0.05, 10, 0.1, 14 } },
			    p[4][6] = { { 0.1312, 0.1696, 0.5569, 0.0124, 0.8283, 0.5886 },
					{ 0.2329, 0.4135, 0.8307, 0.3736, 0.1004, 0.9991 },
					{ 0.2348, 0.1451, 0.3522, 0.2883, 0.3047, 0.6650 },
					{ 0.4047, 0.8828, 0.8732, 0.5743, 0.1091, 0.0381 } };
	double sum = 0;

	for (unsigned i = 0; i < 4; i++) {
		double inner = 0;

		for (unsigned k = 0; k < 6; k++)
			inner += a[i][k] * (x[k] - p[i][k]) * (x[k] - p[i][k]);
		sum -= c[i] * exp(-inner);
	}
	return sum;
}

/* H. H. Rosenbrock, 1960, in four dimensions. */
static double rosenbrock(const double *x)
{
	double sum = 0;

	for (unsigned i = 0; i < 3; i++) {
		double a = x[i + 1] - x[i] * x[i];

		sum += 100 * a * a + (1 - x[i]) * (1 - x[i]);
	}
	return sum;
}

static const struct {
	const char *name;
	double (*fn)(const double *x);
	size_t n;
	struct {
		double min, max;
	} in[N_MAX];
} functions[] = {
	{ "sphere", sphere, 4, { { -5, 5 }, { -5, 5 }, { -5, 5 }, { -5, 5 } } },
	{ "branin", branin, 2, { { -5, 10 }, { 0, 15 } } },
	{ "hartmann6",
	  hartmann6,
	  6,
	  { { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 }, { 0, 1 } } },
	{ "rosenbrock",
	  rosenbrock,
	  4,
	  { { -2.048, 2.048 }, { -2.048, 2.048 }, { -2.048, 2.048 }, { -2.048, 2.048 } } },
};

static int by_number(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double best_of(size_t f, enum sweep_search search, uint64_t seed, size_t trials)
{
	struct param_decl params[N_MAX];
	struct sweep_param in[N_MAX];
	struct sweep_decl d = { .params = in,
				.n_params = functions[f].n,
				.search = search,
				.trials = (uint32_t)trials,
				.seed = seed,
				.parallel = 1 };
	struct search s = { &d, params };
	struct search_trial *t = xcalloc(trials, sizeof(*t));
	struct value *v = xcalloc(trials * N_MAX, sizeof(*v));
	double best;

	for (size_t i = 0; i < d.n_params; i++) {
		params[i] = (struct param_decl){ .name = "x", .type = VALUE_FLOAT };
		in[i] = (struct sweep_param){ .param = (uint32_t)i,
					      .min = functions[f].in[i].min,
					      .max = functions[f].in[i].max };
	}
	for (size_t i = 0; i < trials; i++) {
		double x[N_MAX];

		search_ask(&s, t, i, v + i * N_MAX);
		for (size_t k = 0; k < d.n_params; k++)
			x[k] = v[i * N_MAX + k].f;
		t[i] = (struct search_trial){ true, true, functions[f].fn(x), v + i * N_MAX };
	}
	best = t[search_best(&s, t, trials)].value;
	free(t);
	free(v);
	return best;
}

static double cpu_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

int main(int argc, char **argv)
{
	static const enum sweep_search searches[] = { SWEEP_RANDOM, SWEEP_SOBOL, SWEEP_TPE };
	long trials = argc == 3 ? strtol(argv[1], NULL, 10) : 0,
	     seeds = argc == 3 ? strtol(argv[2], NULL, 10) : 0;
	double *best;

	if (trials < 1 || trials > 10000 || seeds < 1 || seeds > 10000) {
		fputs("usage: bench_search TRIALS SEEDS\n", stderr);
		return 2;
	}
	best = xcalloc((size_t)seeds, sizeof(*best));
	for (size_t f = 0; f < ARRAY_LEN(functions); f++)
		for (size_t k = 0; k < ARRAY_LEN(searches); k++) {
			double begin = cpu_us();

			for (long seed = 0; seed < seeds; seed++)
				best[seed] =
					best_of(f, searches[k], (uint64_t)seed, (size_t)trials);
			qsort(best, (size_t)seeds, sizeof(*best), by_number);
			printf("%s\t%s\t%.6g\t%.1f\n", functions[f].name,
			       sweep_search_name(searches[k]), best[seeds / 2],
			       (cpu_us() - begin) / (double)(seeds * trials));
		}
	free(best);
	return 0;
}
