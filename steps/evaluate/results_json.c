/* steps/evaluate/results_json.c — results as JSON: the step's metrics, and metrics.json of the
 * report.
 *
 * results_metrics() makes the content of the metrics file; results_full() copies it and adds data
 * that isn't a number: the task, why a metric is null (undefined()), the confusion matrix,
 * calibration, the settings of the bootstrap. Numbers are rounded to 14 digits (results_number());
 * a number that isn't finite is null.
 *
 * Limits: per-class metrics for at most CLASSES_SHOWN classes, and no slices if they would make
 * more than METRICS_ENOUGH numbers; results_full() has both even then. Names of classes, columns
 * and values are keys as they are, including their dots: gate.c finds them anyway.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text/text.h"
#include "steps/evaluate/results.h"

#define METRICS_ENOUGH 5000 /* the engine accepts 10,000 numbers from a task */
#define CLASSES_SHOWN  200

/* Rounded; null where it isn't finite. */
static json_t *results_number(double v)
{
	char text[64];
	double rounded;

	if (!isfinite(v))
		return json_null();
	snprintf(text, sizeof(text), "%.14g", v);
	for (char *p = text; *p; p++)
		if (*p == ',') /* the locale's decimal point */
			*p = '.';
	return text_parse_double(text, &rounded) ? json_real(rounded) : json_null();
}

static json_t *count(uint64_t n)
{
	return json_integer((json_int_t)n);
}

static void add_measures(json_t *to, const struct measures *m)
{
	for (size_t i = 0; i < m->n; i++)
		json_object_set_new(to, m->v[i].name,
				    str_has_prefix(m->v[i].name, "queries")
					    ? count((uint64_t)m->v[i].v)
					    : results_number(m->v[i].v));
}

static json_t *classes(const struct results *r)
{
	json_t *all = json_object();

	for (size_t i = 0; i < r->d->n_classes; i++) {
		const struct class_measures *c = &r->classes[i];
		json_t *one = json_pack(
			"{s:o, s:o, s:o, s:o, s:o}", "precision", results_number(c->precision),
			"recall", results_number(c->recall), "f1", results_number(c->f1), "support",
			count(c->support), "predicted", count(c->predicted));

		if (r->d->model.scores && (r->d->n_classes > 2 || i == r->d->positive)) {
			json_object_set_new(one, "roc_auc", results_number(c->roc_auc));
			json_object_set_new(one, "pr_auc", results_number(c->pr_auc));
		}
		json_object_set_new(all, r->d->classes[i], one);
	}
	return all;
}

static json_t *slices(const struct results *r)
{
	json_t *all = json_object();

	for (size_t i = 0; i < r->slices.n; i++) {
		const struct slice_result *s = &r->slices.v[i];
		json_t *one = json_object(), *column = json_object_get(all, s->column);

		json_object_set_new(one, r->d->task == TASK_RANKING ? "queries" : "rows",
				    count(s->units));
		add_measures(one, &s->model);
		if (r->baseline) {
			json_t *b = json_object();

			add_measures(b, &s->baseline);
			json_object_set_new(one, "baseline", b);
		}
		if (!column)
			json_object_set_new(all, s->column, column = json_object());
		json_object_set_new(column, s->value, one);
	}
	return all;
}

static void add_baseline(json_t *to, const struct results *r)
{
	json_t *b = json_object(), *all = json_object(), *c;

	add_measures(b, &r->b);
	for (size_t i = 0; i < r->m.n; i++) {
		const char *name = r->m.v[i].name;
		json_t *d = json_pack("{s:o}", "value",
				      results_number(measures_difference(&r->m, &r->b, name)));

		if (r->intervals) {
			json_object_set_new(d, "low",
					    results_number(r->intervals->difference[i].low));
			json_object_set_new(d, "high",
					    results_number(r->intervals->difference[i].high));
			json_object_set_new(d, "p", results_number(r->intervals->p[i]));
		}
		json_object_set_new(all, name, d);
	}
	c = json_pack("{s:o}", "p", results_number(r->comparison.p));
	if (r->d->task == TASK_CLASSIFICATION) {
		json_object_set_new(c, "only_model_right", count(r->comparison.only_model));
		json_object_set_new(c, "only_baseline_right", count(r->comparison.only_baseline));
	}
	json_object_set_new(to, "baseline", b);
	json_object_set_new(to, "difference", all);
	json_object_set_new(to, "comparison", c);
}

static size_t numbers(const json_t *v)
{
	const char *key;
	json_t *member;
	size_t n = 0;

	if (!json_is_object(v))
		return 1;
	json_object_foreach((json_t *)(uintptr_t)v, key, member) n += numbers(member);
	return n;
}

json_t *results_metrics(const struct results *r)
{
	json_t *m = json_object(), *all;

	json_object_set_new(m, "rows", count(r->d->n));
	json_object_set_new(m, "rows_skipped", count(r->d->rows_skipped));
	add_measures(m, &r->m);
	if (r->intervals) {
		all = json_object();
		for (size_t i = 0; i < r->m.n; i++) {
			const struct interval *ci = &r->intervals->model[i];

			json_object_set_new(all, r->m.v[i].name,
					    json_pack("{s:o, s:o}", "low", results_number(ci->low),
						      "high", results_number(ci->high)));
		}
		json_object_set_new(m, "ci", all);
	}
	if (r->baseline)
		add_baseline(m, r);
	if (r->classes && r->d->n_classes <= CLASSES_SHOWN)
		json_object_set_new(m, "classes", classes(r));
	if (r->slices.n)
		json_object_set_new(m, "slices", slices(r));
	if (numbers(m) > METRICS_ENOUGH) {
		json_object_del(m, "slices");
		step_note("there are too many slices for metrics: they are only in the report's "
			  "metrics.json");
	}
	return m;
}

static json_t *confusion(const struct results *r)
{
	size_t k = r->d->n_classes;
	json_t *names = json_array(), *rows = json_array();

	for (size_t i = 0; i < k; i++) {
		json_t *row = json_array();

		json_array_append_new(names, json_string(r->d->classes[i]));
		for (size_t j = 0; j < k; j++)
			json_array_append_new(row, count(r->confusion[i * k + j]));
		json_array_append_new(rows, row);
	}
	return json_pack("{s:o, s:o, s:s}", "classes", names, "counts", rows, "layout",
			 "a row is a true class, a column a predicted one");
}

static void add_undefined(json_t *to, const char *prefix, const struct measures *m)
{
	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].why) {
			_cleanup_(freep) char *name = xasprintf("%s%s", prefix, m->v[i].name);

			json_object_set_new(to, name, json_string(m->v[i].why));
		}
}

static void add_undefined_class(json_t *to, const char *class, const char *metric, bool undefined,
				const char *why)
{
	_cleanup_(freep) char *name = xasprintf("classes.%s.%s", class, metric);

	if (undefined)
		json_object_set_new(to, name, json_string(why));
}

static json_t *undefined(const struct results *r)
{
	json_t *all = json_object();

	add_undefined(all, "", &r->m);
	if (r->baseline)
		add_undefined(all, "baseline.", &r->b);
	for (size_t i = 0; r->baseline && i < r->m.n; i++)
		if (!measures_get(&r->b, r->m.v[i].name)) {
			_cleanup_(freep) char *name = xasprintf("difference.%s", r->m.v[i].name);

			json_object_set_new(
				all, name, json_string("the baseline has no scores, only classes"));
		}
	if (r->comparison.why)
		json_object_set_new(all, "comparison.p", json_string(r->comparison.why));
	for (size_t i = 0; r->classes && i < r->d->n_classes && i < CLASSES_SHOWN; i++) {
		const struct class_measures *c = &r->classes[i];

		add_undefined_class(all, r->d->classes[i], "precision", !c->predicted,
				    "never predicted; counts as 0 in averages");
		add_undefined_class(all, r->d->classes[i], "recall", !c->support,
				    "no row is of this class; counts as 0 in averages");
		add_undefined_class(all, r->d->classes[i], "f1", !c->support && !c->predicted,
				    "neither occurs nor was predicted; counts as 0 in averages");
	}
	for (size_t i = 0; i < r->slices.n; i++) {
		_cleanup_(freep) char *prefix =
			xasprintf("slices.%s.%s.", r->slices.v[i].column, r->slices.v[i].value);

		add_undefined(all, prefix, &r->slices.v[i].model);
	}
	return all;
}

static json_t *calibration(const struct results *r)
{
	struct bin bins[BINS_MAX];
	json_t *all;

	if (!meter_bins(r->model, bins))
		return NULL;
	all = json_array();
	for (size_t i = 0; i < r->options.bins; i++)
		if (bins[i].n)
			json_array_append_new(
				all, json_pack("{s:o, s:o, s:o}", "rows", count(bins[i].n),
					       "predicted", results_number(bins[i].mean), "true",
					       results_number((double)bins[i].positive /
							      (double)bins[i].n)));
	return all;
}

json_t *results_full(const struct results *r, const json_t *metrics)
{
	json_t *all = json_deep_copy(metrics), *bins;

	json_object_set_new(all, "task", json_string(task_name(r->d->task)));
	json_object_set_new(all, "undefined", undefined(r));
	if (r->slices.n && !json_object_get(all, "slices"))
		json_object_set_new(all, "slices", slices(r));
	if (r->intervals)
		json_object_set_new(all, "bootstrap",
				    json_pack("{s:o, s:o, s:o}", "resamples",
					      count(r->resampling.resamples), "seed",
					      count(r->resampling.seed), "confidence",
					      results_number(r->resampling.confidence)));
	if (r->classes && r->d->n_classes > CLASSES_SHOWN)
		json_object_set_new(all, "classes", classes(r));
	if (r->confusion && r->d->n_classes <= CONFUSION_SHOWN)
		json_object_set_new(all, "confusion", confusion(r));
	if (r->d->task == TASK_CLASSIFICATION && r->d->n_classes == 2)
		json_object_set_new(all, "positive", json_string(r->d->classes[r->d->positive]));
	if (r->comparison.test)
		json_object_set_new(json_object_get(all, "comparison"), "test",
				    json_string(r->comparison.test));
	bins = r->d->task == TASK_CLASSIFICATION ? calibration(r) : NULL;
	if (bins)
		json_object_set_new(all, "calibration", bins);
	return all;
}
