/* steps/evaluate/results.h — all measurements, for the metrics and the report. */
#ifndef CAIRN_STEPS_EVALUATE_RESULTS_H
#define CAIRN_STEPS_EVALUATE_RESULTS_H

#include "steps/evaluate/measure/resample.h"

#define SLICES_SHOWN    100 /* per column, the largest */
#define CONFUSION_SHOWN 200 /* classes; a larger matrix is left out of metrics.json */

struct slice_result {
	const char *column, *value;
	uint64_t units;
	struct measures model, baseline;
};

struct comparison {
	const char *test; /* NULL: no baseline */
	const char *why;  /* why there is no p */
	double p;
	uint64_t only_model,
		only_baseline; /* classification: rows that only this model got right */
};

struct results {
	const struct data *d;
	const char *title;
	struct meter_options options;
	struct resample_options resampling;
	struct meter *model, *baseline; /* baseline NULL: none */
	struct measures m, b;
	struct resampled *intervals; /* NULL: none */
	uint64_t *confusion;
	struct class_measures *classes;
	VEC(struct slice_result) slices;
	struct comparison comparison;
};

/* Regression: of one row, prediction minus truth. */
static inline double results_error(const struct results *r, size_t row)
{
	return side_score(&r->d->model, row, 0) - r->d->target[row];
}

void results_measure(struct results *r);
void results_deinit(struct results *r);

/* The content of the metrics file: numbers and nulls. Values are rounded to 14 digits, in which the
 * C libraries of different machines agree. */
json_t *results_metrics(const struct results *r);
/* The same with additions, for report/metrics.json: the confusion matrix, why some metrics are
 * null, and what they are metrics of. */
json_t *results_full(const struct results *r, const json_t *metrics);

/* 0 all conditions hold; 1 some don't, and *ret_why (free it) names them. ERR_INVALID for a
 * malformed condition. */
int gate_judge(const json_t *gate, const json_t *metrics, char **ret_why, struct err *err);
/* Checks only the form of the conditions. */
int gate_check(const json_t *gate, struct err *err);

int results_write(const char *dir, const struct results *r, const json_t *full, struct err *err);

#endif
