/* steps/table/csv.h — rows of CSV (RFC 4180, with any separator), one after the other, from memory.
 *
 * The text is hostile: a NUL, a quote that isn't closed, a row with another number of fields are
 * ERR_INVALID with file and line. Fields are lent slices of the text where nothing was quoted, of
 * the reader's own buffer otherwise; valid until the next call. A UTF-8 byte order mark is skipped;
 * CR LF and LF end rows. Empty lines at the end are no rows; in a table of one column only the last
 * line end is none, as an empty line is an empty value there.
 */
#ifndef CAIRN_STEPS_TABLE_CSV_H
#define CAIRN_STEPS_TABLE_CSV_H

#include "base/err.h"
#include "base/text/str.h"

struct csv_field {
	const char *s;
	size_t n;
	bool quoted;
};

struct csv;
/* `text` and `what` must live as long as the reader; `what` names the text in errors. ERR_USAGE: a
 * separator that can't be one. */
int csv_open(const char *what, const char *text, size_t n, char separator, struct csv **ret,
	     struct err *err);
/* 1: a row (with n fields, at least 1), 0: the end, -1. */
int csv_next(struct csv *c, const struct csv_field **ret, size_t *ret_n, struct err *err);
uint64_t csv_line(const struct csv *c); /* of the row that was returned last, from 1 */
void csv_free(struct csv *c);

#endif
