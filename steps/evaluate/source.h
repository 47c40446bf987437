/* steps/evaluate/source.h — one input of `evaluate`: chooses its columns, reads them, and matches
 * them with the other inputs' rows. */
#ifndef CAIRN_STEPS_EVALUATE_SOURCE_H
#define CAIRN_STEPS_EVALUATE_SOURCE_H

#include "steps/evaluate/data.h"

#define SOURCE_COLUMNS_MAX 40 /* id, label, prediction, scores, query and the slices */

struct source {
	const char *path;
	struct frame *table;
	struct column columns[SOURCE_COLUMNS_MAX];
	size_t n;
	struct column *id, *label, *prediction, *scores, *query; /* into `columns`, or NULL */
	uint32_t *rows; /* by matched row: this source's row; NULL: the same number */
	/* Of `prob_*`: the text matched by the star, by score column; else NULL. */
	const char **score_classes;
};

/* The inputs of one evaluation. */
struct inputs {
	struct source model, labels, baseline; /* path NULL: not given */
	struct source *truth;                  /* labels, or model */
	struct source *all[3];                 /* the given ones, the model first */
	size_t n;
	bool skip; /* leave out rows that can't be used, rather than fail */
};

/* Adds a column of `kind`; lent. */
struct column *source_want(struct source *s, struct arena *arena, enum column_kind kind,
			   const char *const *names, size_t n);
/* Classes that are already known, in their order. */
struct class_order {
	const char *const *names;
	size_t n;
	bool must; /* columns that match none of these classes are an error, too */
};
/* Chooses the score columns that the settings' `score` names: one name each, or a pattern with one
 * `*`, which stands for the class. If `order` isn't NULL, the columns are taken in its order,
 * wherever they stand. Without `must` they may also be of other classes only, and then keep their
 * own order. */
int source_want_scores(struct source *s, struct arena *arena, const json_t *score,
		       const struct class_order *order, struct err *err);
/* Matches rows: by the id columns if there are any, else by position. *ret_n rows are left.
 * *ret_unmatched: the number of rows of another source whose id the first source lacks; with
 * several other sources, the largest of their numbers. */
int source_match(struct inputs *in, size_t *ret_n, uint64_t *ret_unmatched, struct err *err);
/* Of the *n matched rows, keeps only those for which keep[i] is set. */
void source_keep(struct inputs *in, const uint8_t *keep, size_t *n);
/* A column's codes of the matched rows; free() them. Call it once per column. */
uint32_t *source_take_codes(const struct source *s, struct column *c, size_t n);
void source_deinit(struct source *s); /* not the table */

static inline size_t source_row(const struct source *s, size_t i)
{
	return s->rows ? s->rows[i] : i;
}

#endif
