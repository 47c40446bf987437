/* steps/evaluate/measure/measure.h — metrics of rows that count several times, or not at all.
 *
 * A meter holds what is the same for every set of weights (orders, losses by row), so that the
 * whole, a slice (weights 0 and 1) and a bootstrap resample (how often each row was drawn) are
 * measured by the same code. The unit that has a weight is a row; in a ranking, a query.
 *
 * Definitions are scikit-learn's, where it has them. Where scikit-learn gives an error or a warning
 * instead of a value, the metric has NAN and `why`.
 */
#ifndef CAIRN_STEPS_EVALUATE_MEASURE_MEASURE_H
#define CAIRN_STEPS_EVALUATE_MEASURE_MEASURE_H

#include "steps/evaluate/data.h"
#include "steps/evaluate/measure/order.h"

#define MEASURES_MAX 64
#define BINS_MAX     100
#define CUTS_MAX     16  /* top_k and the cuts of a ranking */
#define CURVE_POINTS 512 /* more points can't be seen */

struct measure {
	const char *name; /* of the meter */
	double v;
	const char *why; /* the reason for NAN */
};

/* One meter always has the same names in the same order. Two meters may differ: a model that gives
 * only classes has no metrics that need scores. */
struct measures {
	struct measure v[MEASURES_MAX];
	size_t n;
};
/* NULL when no metric has that name. */
const struct measure *measures_get(const struct measures *m, const char *name);
/* a - b of that metric; NAN where either has no value. */
double measures_difference(const struct measures *a, const struct measures *b, const char *name);

struct meter_options {
	size_t bins;
	size_t cuts[CUTS_MAX], n_cuts; /* top_k, or k of a ranking */
	bool exponential_gain;
	unsigned threads;
};

/* Calibration: the rows whose probability falls in one bin. */
struct bin {
	uint64_t n, positive;
	double mean;
};

/* Points of a ROC curve, or of precision over recall, from the highest threshold down. */
struct curve {
	double x[CURVE_POINTS + 2], y[CURVE_POINTS + 2];
	size_t n;
};

struct class_measures {
	uint64_t support, predicted;
	double precision, recall, f1, roc_auc, pr_auc; /* NAN: not defined */
};

struct meter;
struct meter *meter_new(const struct data *d, const struct side *s, const struct meter_options *o);
void meter_free(struct meter *m);
size_t meter_units(const struct meter *m);
/* w: weight by unit; NULL: each counts once. threads: for this call. */
void meter_measure(const struct meter *m, const uint32_t *w, unsigned threads,
		   struct measures *ret);

/* For the report, over all rows. Classification: n_classes² counts [truth][predicted];
 * class_measures by class. */
void meter_confusion(const struct meter *m, const uint32_t *w, unsigned threads, uint64_t *ret);
void meter_classes(const struct meter *m, const uint64_t *confusion, struct class_measures *ret);
/* false: no such curve (no scores, or a class without rows). */
bool meter_curves(const struct meter *m, size_t class, struct curve *roc, struct curve *pr);
bool meter_bins(const struct meter *m, struct bin *ret); /* bins of them */
/* The losses that a paired test compares, by unit; smaller is better (regression: |error|; ranking:
 * -NDCG). NULL in classification. */
const double *meter_losses(const struct meter *m);
/* Regression: errors, sorted, largest first. */
const struct ranked *meter_errors(const struct meter *m);

#endif
