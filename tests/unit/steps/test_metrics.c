/* The parts of evaluate that scikit-learn doesn't see: orders, weights, resamples, paired tests. */
#include <math.h>
#include <string.h>
#include "base/mem.h"
#include "steps/evaluate/measure/compare.h"
#include "steps/evaluate/measure/resample.h"
#include "steps/evaluate/measure/sum.h"
#include "unit.h"

static uint64_t random_state = 1;
static uint64_t next_random(void)
{
	random_state = random_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return random_state >> 33;
}

/* Orders. */

static void check_order(const double *v, size_t n, unsigned threads)
{
	struct ranked *o = ranked_order(v, 1, NULL, n, threads);
	uint8_t *seen = xcalloc(MAX(n, 1), 1);

	for (size_t i = 0; i < n; i++) {
		assert_false(seen[o[i].row]++);
		if (i == 0)
			continue;
		assert_true(v[o[i - 1].row] >= v[o[i].row]);
		assert_int_equal(v[o[i - 1].row] == v[o[i].row], o[i - 1].key == o[i].key);
		if (o[i - 1].key == o[i].key)
			assert_true(o[i - 1].row < o[i].row);
	}
	free(seen);
	free(o);
}

static void orders(void **state)
{
	static const size_t sizes[] = { 0, 1, 2, 31, 33, 1000, 300000 };

	for (size_t s = 0; s < ARRAY_LEN(sizes); s++)
		for (int kind = 0; kind < 5; kind++) {
			size_t n = sizes[s];
			double *v = xmalloc(MAX(n, 1) * sizeof(*v));

			for (size_t i = 0; i < n; i++) {
				double r = (double)next_random();

				v[i] = kind == 0   ? r * 0x1p-31
				       : kind == 1 ? fmod(r, 3) - 1
				       : kind == 2 ? (r - 0x1p30) * exp(r * 1e-7)
				       : kind == 3 ? (fmod(r, 2) ? 0.0 : -0.0)
						   : ldexp(r, -1070);
			}
			check_order(v, n, 1 + kind % 3);
			free(v);
		}
}

/* Weights: a row that counts twice is like two rows. */

struct rows {
	struct data d;
	double *scores;
	uint32_t *truth, *predicted;
};

static void make_rows(struct rows *r, size_t n, size_t k, enum task task)
{
	*r = (struct rows){ .d = { .task = task,
				   .n = n,
				   .n_classes = k,
				   .positive = k == 2,
				   .arena = arena_new() } };
	r->scores = xcalloc(n * k, sizeof(double));
	r->truth = xcalloc(n, sizeof(uint32_t));
	r->predicted = xcalloc(n, sizeof(uint32_t));
	r->d.target = xcalloc(n, sizeof(double));
	r->d.truth = r->truth;
	r->d.model = (struct side){ .file = "t",
				    .predicted = r->predicted,
				    .scores = r->scores,
				    .width = k == 2 ? 1 : k,
				    .row_stride = k,
				    .column_stride = 1 };
	r->d.classes = arena_alloc(r->d.arena, k * sizeof(char *));
	for (size_t c = 0; c < k; c++)
		r->d.classes[c] = arena_printf(r->d.arena, "%zu", c);
}

static void free_rows(struct rows *r)
{
	arena_free(r->d.arena);
	free(r->scores);
	free(r->truth);
	free(r->predicted);
	free(r->d.target);
}

static void set_row(struct rows *r, size_t to, const struct rows *from, size_t row)
{
	size_t k = r->d.n_classes;

	memcpy(r->scores + to * k, from->scores + row * k, k * sizeof(double));
	r->truth[to] = from->truth[row];
	r->predicted[to] = from->predicted[row];
	r->d.target[to] = from->d.target[row];
}

static void random_row(struct rows *r, size_t i)
{
	size_t k = r->d.n_classes;
	double sum = 0;

	r->truth[i] = (uint32_t)(next_random() % k);
	r->predicted[i] = (uint32_t)(next_random() % k);
	r->d.target[i] = (double)(next_random() % 20);
	for (size_t c = 0; c < k; c++)
		sum += r->scores[i * k + c] = (double)(1 + next_random() % 6);
	for (size_t c = 0; c < k; c++)
		r->scores[i * k + c] /= sum;
}

static void same_measures(const struct measures *a, const struct measures *b)
{
	assert_int_equal(a->n, b->n);
	for (size_t i = 0; i < a->n; i++) {
		assert_string_equal(a->v[i].name, b->v[i].name);
		assert_int_equal(isnan(a->v[i].v), isnan(b->v[i].v));
		if (!isnan(a->v[i].v) &&
		    !(fabs(a->v[i].v - b->v[i].v) <= 1e-12 * fmax(1, fabs(b->v[i].v))))
			fail_msg("%s is %.17g with weights, %.17g with rows", a->v[i].name,
				 a->v[i].v, b->v[i].v);
	}
}

static void weights_of(enum task task, size_t k)
{
	struct meter_options o = { .bins = 7, .cuts = { 1, 2 }, .n_cuts = 2, .threads = 1 };
	size_t n = 1 + next_random() % 40, total = 0, at = 0;
	uint32_t w[64];
	struct measures weighted, repeated;
	struct rows some, many;
	struct meter *a, *b;

	make_rows(&some, n, k, task);
	for (size_t i = 0; i < n; i++) {
		random_row(&some, i);
		w[i] = (uint32_t)(next_random() % 4);
		total += w[i];
	}
	make_rows(&many, MAX(total, 1), k, task);
	many.d.n = total;
	for (size_t i = 0; i < n; i++)
		for (uint32_t j = 0; j < w[i]; j++)
			set_row(&many, at++, &some, i);
	a = meter_new(&some.d, &some.d.model, &o);
	b = meter_new(&many.d, &many.d.model, &o);
	meter_measure(a, w, 2, &weighted);
	meter_measure(b, NULL, 1, &repeated);
	same_measures(&weighted, &repeated);
	meter_free(a);
	meter_free(b);
	free_rows(&some);
	free_rows(&many);
}

static void weights(void **state)
{
	for (int i = 0; i < 300; i++) {
		weights_of(TASK_CLASSIFICATION, 2);
		weights_of(TASK_CLASSIFICATION, 2 + next_random() % 5);
		weights_of(TASK_REGRESSION, 1);
	}
}

/* Resamples. */

static void draws(void **state)
{
	struct draws a, b;
	uint32_t w[1000], total = 0;

	draws_init(&a, 7, 3);
	draws_init(&b, 7, 3);
	assert_int_equal(draws_next(&a), draws_next(&b));
	draws_init(&b, 7, 4);
	assert_int_not_equal(draws_next(&a), draws_next(&b));
	draws_weights(&a, w, ARRAY_LEN(w));
	for (size_t i = 0; i < ARRAY_LEN(w); i++)
		total += w[i];
	assert_int_equal(total, ARRAY_LEN(w));
}

/* A bootstrap of the accuracy is a binomial: its interval must be where the normal approximation
 * has it. */
static void intervals(void **state)
{
	struct meter_options o = { .bins = 5, .threads = 1 };
	struct resample_options ro = {
		.resamples = 2000, .seed = 1, .confidence = 0.95, .threads = 2
	};
	struct resampled *a = xcalloc(1, sizeof(*a)), *b = xcalloc(1, sizeof(*b));
	struct meter *m;
	struct rows r;
	double half;

	make_rows(&r, 1000, 2, TASK_CLASSIFICATION);
	for (size_t i = 0; i < 1000; i++) {
		random_row(&r, i);
		r.predicted[i] = i % 10 < 3 ? 1 - r.truth[i] : r.truth[i];
	}
	m = meter_new(&r.d, &r.d.model, &o);
	resample_bootstrap(m, NULL, &ro, a);
	half = 1.96 * sqrt(0.7 * 0.3 / 1000);
	assert_true(fabs(a->model[0].low - (0.7 - half)) < 0.004 &&
		    fabs(a->model[0].high - (0.7 + half)) < 0.004);
	assert_true(isnan(a->p[0]));
	ro.threads = 1;
	resample_bootstrap(m, m, &ro, b);
	assert_memory_equal(&a->model[0], &b->model[0], sizeof(a->model[0]));
	assert_true(b->difference[0].low == 0 && b->difference[0].high == 0 && b->p[0] == 1);
	meter_free(m);
	free_rows(&r);
	free(a);
	free(b);
}

/* Paired tests. */

/* Values of scipy.stats.binomtest and chi2.sf. */
static void mcnemar(void **state)
{
	bool exact;

	assert_true(isnan(compare_mcnemar(0, 0, &exact)));
	assert_true(fabs(compare_mcnemar(1, 9, &exact) - 0.021484375) < 1e-14 && exact);
	assert_true(compare_mcnemar(5, 5, &exact) == 1);
	assert_true(fabs(compare_mcnemar(0, 10, &exact) - 0.001953125) < 1e-15);
	assert_true(fabs(compare_mcnemar(480, 520, &exact) - 0.2174482932041409) < 1e-12 && exact);
	assert_true(fabs(compare_mcnemar(9900, 10200, &exact) - 0.034946015256560756) < 1e-14 &&
		    !exact);
	assert_true(compare_mcnemar(0, 9999, &exact) == 0);
}

static void wilcoxon(void **state)
{
	double a[20], b[20];
	uint64_t different;

	for (int i = 0; i < 20; i++) {
		a[i] = i;
		b[i] = i < 5 ? i : i + (i % 3 ? 1 : -2);
	}
	assert_false(isnan(compare_wilcoxon(a, b, 20, 1, &different)));
	assert_int_equal(different, 15);
	assert_true(compare_wilcoxon(a, b, 20, 1, &different) ==
		    compare_wilcoxon(b, a, 20, 2, &different));
	assert_true(isnan(compare_wilcoxon(a, a, 20, 1, &different)) && different == 0);
}

/* What one double loses. */
static void sums(void **state)
{
	struct sum s = { 0 };

	sum_add(&s, 1e16);
	for (int i = 0; i < 1000; i++)
		sum_add(&s, 1);
	sum_add(&s, -1e16);
	assert_true(sum_value(&s) == 1000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(orders),    cmocka_unit_test(weights), cmocka_unit_test(draws),
		cmocka_unit_test(intervals), cmocka_unit_test(mcnemar), cmocka_unit_test(wilcoxon),
		cmocka_unit_test(sums),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
