/* steps/evaluate/results.c — everything that is measured, in order: the model, the baseline and
 * their comparison, the confusion matrix, slices, intervals.
 *
 * Each of these uses the same meters with other weights. A slice is a set of weights 0 and 1
 * (measure_slice()); slices of one column are measured in parallel, each on one thread. In a
 * ranking the unit is a query, which belongs to the slice of its first row. Slices of one column
 * stand together, the largest first, which report.c relies on.
 *
 * The comparison uses McNemar's test of the rows that only one side gets right, or Wilcoxon's of
 * the losses by unit (measure/compare.c). Unless the settings give the number of resamples, it is
 * chosen here by the work that they take.
 *
 * Nothing is written here; results_json.c and report.c do that.
 */
#include "steps/evaluate/results.h"
#include <math.h>
#include <string.h>
#include "steps/evaluate/measure/compare.h"

/* Slices. */

struct slicing {
	struct results *r;
	const struct slice_column *column;
	const uint32_t *unit_code; /* for a query: its first row's */
	size_t first;
};

static int measure_slice(void *arg, size_t i, struct err *err)
{
	const struct slicing *x = arg;
	struct slice_result *s = &x->r->slices.v[x->first + i];
	size_t n = meter_units(x->r->model);
	uint32_t *w = xmalloc(MAX(n, 1) * sizeof(*w)),
		 code = (uint32_t)dict_find(&x->column->values, s->value, strlen(s->value));

	for (size_t k = 0; k < n; k++)
		w[k] = x->unit_code[k] == code;
	meter_measure(x->r->model, w, 1, &s->model);
	if (x->r->baseline)
		meter_measure(x->r->baseline, w, 1, &s->baseline);
	free(w);
	return 0;
}

static int by_units(const void *a, const void *b)
{
	const struct slice_result *x = a, *y = b;

	return x->units != y->units ? (x->units < y->units ? 1 : -1) : strcmp(x->value, y->value);
}

static void measure_column(struct results *r, const struct slice_column *c)
{
	struct slicing x = { r, c, c->codes, r->slices.n };
	_cleanup_(freep) uint32_t *first = NULL; /* the code of each query's first row */
	size_t n = c->values.texts.n;
	uint64_t *units = xcalloc(MAX(n, 1), sizeof(*units));

	if (r->d->task == TASK_RANKING) {
		x.unit_code = first = xcalloc(MAX(r->d->n_queries, 1), sizeof(*first));
		for (size_t i = r->d->n; i-- > 0;)
			first[r->d->query[i]] = c->codes[i];
	}
	for (size_t i = 0; i < meter_units(r->model); i++)
		units[x.unit_code[i]]++;
	for (size_t k = 0; k < n; k++)
		if (units[k])
			VEC_PUSH(&r->slices,
				 ((struct slice_result){ .column = c->name,
							 .value = c->values.texts.v[k].s,
							 .units = units[k] }));
	n = r->slices.n - x.first;
	if (n)
		qsort(r->slices.v + x.first, n, sizeof(*r->slices.v), by_units);
	if (n > SLICES_SHOWN) {
		step_note("`%.60s` has %zu values; metrics are computed for the %d with the most "
			  "rows",
			  c->name, n, SLICES_SHOWN);
		n = SLICES_SHOWN;
		r->slices.n = x.first + n;
	}
	step_parallel(r->options.threads, n, measure_slice, &x, NULL);
	free(units);
}

/* Comparison. */

static void compare(struct results *r)
{
	const struct data *d = r->d;
	struct comparison *c = &r->comparison;
	uint64_t different;
	bool exact;

	if (d->task != TASK_CLASSIFICATION) {
		c->test = "Wilcoxon's signed-rank test";
		c->p = compare_wilcoxon(meter_losses(r->model), meter_losses(r->baseline),
					meter_units(r->model), r->options.threads, &different);
		c->why = !different    ? "both are equally good at each"
			 : isnan(c->p) ? "fewer than 10 differ: too few for the test"
				       : NULL;
		return;
	}
	for (size_t i = 0; i < d->n; i++) {
		bool model = d->model.predicted[i] == d->truth[i],
		     baseline = d->baseline.predicted[i] == d->truth[i];

		c->only_model += model && !baseline;
		c->only_baseline += baseline && !model;
	}
	c->p = compare_mcnemar(c->only_model, c->only_baseline, &exact);
	c->test = exact ? "McNemar's test, exact"
			: "McNemar's test, chi-squared with continuity correction";
	c->why = isnan(c->p) ? "both are right on the same rows" : NULL;
}

void results_measure(struct results *r)
{
	const struct data *d = r->d;

	r->model = meter_new(d, &d->model, &r->options);
	meter_measure(r->model, NULL, r->options.threads, &r->m);
	if (d->baseline.file) {
		r->baseline = meter_new(d, &d->baseline, &r->options);
		meter_measure(r->baseline, NULL, r->options.threads, &r->b);
		compare(r);
	}
	if (d->task == TASK_CLASSIFICATION) {
		r->confusion = xcalloc(MAX(d->n_classes * d->n_classes, 1), sizeof(uint64_t));
		r->classes = xcalloc(MAX(d->n_classes, 1), sizeof(*r->classes));
		meter_confusion(r->model, NULL, r->options.threads, r->confusion);
		meter_classes(r->model, r->confusion, r->classes);
	}
	for (size_t i = 0; i < d->slices.n; i++)
		measure_column(r, &d->slices.v[i]);
	if (r->resampling.resamples == SIZE_MAX) {
		size_t cost = d->n * MAX(d->model.width,
					 1); /* each column of scores is measured separately */

		r->resampling.resamples = cost <= 100000 ? 1000 : cost <= 1000000 ? 200 : 0;
	}
	if (r->resampling.resamples > 1 && meter_units(r->model) > 1) {
		r->intervals = xcalloc(1, sizeof(*r->intervals));
		resample_bootstrap(r->model, r->baseline, &r->resampling, r->intervals);
	}
}

void results_deinit(struct results *r)
{
	meter_free(r->model);
	meter_free(r->baseline);
	free(r->intervals);
	free(r->confusion);
	free(r->classes);
	VEC_FREE(&r->slices);
}
