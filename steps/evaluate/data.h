/* steps/evaluate/data.h — the rows of truth and predictions, matched, checked, and as arrays.
 *
 * Everything is checked here: after data_load each class is below n_classes, each number finite,
 * each array of `n` rows.
 */
#ifndef CAIRN_STEPS_EVALUATE_DATA_H
#define CAIRN_STEPS_EVALUATE_DATA_H

#include "steps/step.h"
#include "steps/table/frame.h"

#define CLASSES_MAX 2000  /* the confusion matrix has the square of this */
#define SLICES_MAX  10000 /* values of one column; the largest 100 are shown */

enum task { TASK_CLASSIFICATION, TASK_REGRESSION, TASK_RANKING };
const char *task_name(enum task t); /* as written in the settings */

/* One model's predictions for all rows. */
struct side {
	const char *file;
	uint32_t *predicted; /* classification: a class; NULL in the other tasks */
	/* Of row r and column k: scores[r * row_stride + k * column_stride]; NULL: only classes
	 * were given. */
	double *scores;
	/* Width 1: the positive class, or the predicted number; else one column a class. */
	size_t width, row_stride, column_stride;
	/* Of the scores' original type: the smallest distance from 0 or 1 that a probability can
	 * express. */
	double epsilon;
	bool lent; /* the scores belong to the table */
};

struct slice_column {
	const char *name;
	uint32_t *codes;
	struct dict values;
};

struct data {
	enum task task;
	size_t n;
	/* Rows of the predictions, and rows of other inputs without a prediction. */
	uint64_t rows_read;
	uint64_t rows_skipped;      /* of rows_read, left out by on_bad: skip */
	char **classes;             /* in the order of the score columns */
	size_t n_classes, positive; /* positive: with two classes */
	bool named;                 /* by `classes` or prob_*: then macro averages cover all */
	bool thresholded; /* a threshold was given: it decides between two score columns, too */
	double threshold;
	uint32_t *truth; /* a class */
	double *target;  /* a number: regression, ranking */
	uint32_t *query;
	size_t n_queries;
	struct side model, baseline; /* baseline.file NULL: none */
	VEC(struct slice_column) slices;
	struct arena *arena;
	struct frame *tables[3]; /* they hold lent scores */
};

int data_load(struct step_args *a, struct data *ret, struct err *err);
void data_deinit(struct data *d);

static inline double side_score(const struct side *s, size_t row, size_t column)
{
	return s->scores[row * s->row_stride + column * s->column_stride];
}

#endif
