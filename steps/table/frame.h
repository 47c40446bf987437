/* steps/table/frame.h — the wanted columns of CSV, TSV, JSON lines or NPY, read on all threads into
 * arrays.
 *
 * The content tells the format. A directory counts as one table of its files, in the order of their
 * names, all of the same format and columns. Files are mapped while the table lives; they must not
 * change meanwhile. The result doesn't depend on the number of threads.
 *
 * A cell that is missing or no finite number is ERR_INVALID with file, line and column, or marks
 * its row as bad. A file that isn't valid in its format is always an error.
 */
#ifndef CAIRN_STEPS_TABLE_FRAME_H
#define CAIRN_STEPS_TABLE_FRAME_H

#include <stdbool.h>
#include "base/err.h"
#include "steps/table/dict.h"

#define FRAME_ROWS_MAX 2000000000u

enum frame_format { FRAME_CSV, FRAME_TSV, FRAME_JSONL, FRAME_NPY };

enum column_kind {
	/* One number a row, or several: one per field, or one field with a JSON array. */
	COLUMN_NUMBERS,
	COLUMN_CODES, /* texts, as small numbers in the order in which they first appear */
	COLUMN_TEXTS,
};

struct slice {
	const char *s;
	size_t n;
};

struct column {
	const char *const *names; /* fields; exactly 1 except for NUMBERS. Unused for an NPY */
	size_t n_names;
	enum column_kind kind;
	uint32_t codes_max; /* more distinct texts are an error */
	bool may_be_empty;  /* CODES: "" is a text like others */

	/* Of row r and field k: numbers[r * row_stride + k * column_stride]; k < width. */
	double *numbers;
	size_t width, row_stride, column_stride;
	bool lent; /* numbers belong to the table */
	uint32_t *codes;
	struct dict texts;
	struct slice *slices; /* lent by the table */
};

struct frame;
int frame_open(const char *path, unsigned threads, struct frame **ret, struct err *err);
void frame_free(struct frame *t);
enum frame_format frame_format(const struct frame *t);
size_t frame_rows(const struct frame *t);
/* Fields of the first row of a CSV, keys of the first line of JSON lines; NULL and 0 for an NPY. */
const char *const *frame_names(const struct frame *t, size_t *ret_n);
/* Whether the first line has the column. If not, the caller relies on its absence in all lines:
 * this calls frame_rely(t, name). */
bool frame_has(struct frame *t, const char *name);
/* The caller has chosen columns by the names in frame_names() that match `pattern`, a name with at
 * most one `*`. If a later line of JSON lines has another matching name, frame_read() gives
 * ERR_INVALID, because its value would be ignored otherwise. */
void frame_rely(struct frame *t, const char *pattern);
/* Whether a name of n bytes matches such a pattern; the star stands for at least one byte. */
bool frame_matches(const char *pattern, const char *name, size_t n);
/* For an NPY: 'b' 'i' 'u' 'f' 'S' 'U', and the second dimension (1 if there is only one). */
char frame_npy_kind(const struct frame *t, size_t *ret_columns, unsigned *ret_dimensions);

/* The distance from 1 to the next number of the stored type; text counts as float64. */
double frame_epsilon(const struct frame *t);

/* Fills the columns. skip_bad: unusable rows are counted and marked (frame_bad) instead of failing.
 * The caller passes each column to column_deinit. */
int frame_read(struct frame *t, struct column *columns, size_t n, bool skip_bad, struct err *err);
/* One byte per row, 1 for bad ones; NULL when there are none. */
const uint8_t *frame_bad(const struct frame *t, size_t *ret_n);
void column_deinit(struct column *c);

#endif
