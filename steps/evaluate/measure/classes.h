/* steps/evaluate/measure/classes.h — the classes of a classification: which there are, and each
 * row's as a number. */
#ifndef CAIRN_STEPS_EVALUATE_MEASURE_CLASSES_H
#define CAIRN_STEPS_EVALUATE_MEASURE_CLASSES_H

#include "steps/evaluate/source.h"

/* The settings' `classes` into d->classes, where there are any; before the score columns are
 * wanted. */
int classes_list(struct step_args *a, struct data *d, struct err *err);
/* Finds the classes (those listed; or those of `prob_*`; or all that are in the labels and
 * predictions, sorted) and holds the rows against them: a row of another class is an error, or is
 * dropped from the match with in->skip. */
int classes_resolve(struct step_args *a, struct data *d, struct inputs *in, struct err *err);
/* Fills d->truth and both sides' `predicted` (from the scores where no class was given). After the
 * scores have been gathered. */
void classes_apply(struct data *d, struct inputs *in, unsigned threads);

#endif
