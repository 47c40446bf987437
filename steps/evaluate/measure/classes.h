/* steps/evaluate/measure/classes.h — the classes of a classification, and each row's class as a
 * number. */
#ifndef CAIRN_STEPS_EVALUATE_MEASURE_CLASSES_H
#define CAIRN_STEPS_EVALUATE_MEASURE_CLASSES_H

#include "steps/evaluate/source.h"

/* Reads the settings' `classes` into d->classes, if there are any. Call it before the score columns
 * are wanted. */
int classes_list(struct step_args *a, struct data *d, struct err *err);
/* Finds the classes: those in the settings, or those of `prob_*`, or all that labels and
 * predictions have, sorted. Then checks the rows: a row of another class is an error, or with
 * in->skip is dropped from the match. */
int classes_resolve(struct step_args *a, struct data *d, struct inputs *in, struct err *err);
/* Fills d->truth and both sides' `predicted` (from the scores when no class was given). Call it
 * after the scores have been gathered. */
void classes_apply(struct data *d, struct inputs *in, unsigned threads);

#endif
