/* engine/base/table/csv.h — rows of CSV (RFC 4180, with any separator) in memory, read one after
 * the other.
 *
 * The text is hostile: a NUL, a quote that isn't closed, or a row with another number of fields is
 * ERR_INVALID with file and line. Fields are lent slices of the text when they need no decoding, of
 * the reader's own buffer otherwise; valid until the next call. A UTF-8 byte order mark is skipped;
 * CR LF and LF end rows. Empty lines at the end are no rows. In a table of one column an empty line
 * is an empty value, and only the last line end makes no row.
 */
#ifndef CAIRN_BASE_TABLE_CSV_H
#define CAIRN_BASE_TABLE_CSV_H

#include "base/err.h"
#include "base/text/str.h"

struct csv_field {
	const char *s;
	size_t n;
	bool quoted;
};

struct csv;
/* `text` and `what` must outlive the reader; `what` names the text in errors. ERR_USAGE: an
 * impossible separator. */
int csv_open(const char *what, const char *text, size_t n, char separator, struct csv **ret,
	     struct err *err);
/* 1: a row (with n fields, at least 1), 0: the end, -1. */
int csv_next(struct csv *c, const struct csv_field **ret, size_t *ret_n, struct err *err);
uint64_t csv_line(const struct csv *c); /* of the last row returned, from 1 */
void csv_free(struct csv *c);

#endif
