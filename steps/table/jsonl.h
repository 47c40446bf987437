/* steps/table/jsonl.h — JSON lines in memory: one object a line, read one after the other.
 *
 * The text is hostile: it must follow RFC 8259 exactly, except for the NaN, Infinity and -Infinity
 * that Python writes as numbers. Depth, members and the length of a line are bounded. `\u0000`,
 * text that isn't UTF-8, a line that is no object and a duplicate key in its outermost object are
 * ERR_INVALID with file and line. Nested values are returned as written; duplicate keys in them are
 * left to the code that reads them. Members are lent slices of the text, strings with escapes
 * slices of the reader's own buffer; valid until the next call. Lines with only spaces are skipped.
 */
#ifndef CAIRN_STEPS_TABLE_JSONL_H
#define CAIRN_STEPS_TABLE_JSONL_H

#include "base/err.h"
#include "base/text/str.h"

enum jsonl_kind { JSONL_NULL, JSONL_BOOL, JSONL_NUMBER, JSONL_STRING, JSONL_ARRAY, JSONL_OBJECT };

struct jsonl_member {
	const char *key, *s; /* s: a string's characters, decoded; any other value as written */
	size_t key_n, n;
	enum jsonl_kind kind;
};

struct jsonl;
/* `first_line`: number of the text's first line, usually 1. Both `text` and `what` must outlive the
 * reader. */
struct jsonl *jsonl_new(const char *what, const char *text, size_t n, uint64_t first_line);
/* 1: an object (with n members, perhaps 0), 0: the end, -1. */
int jsonl_next(struct jsonl *j, const struct jsonl_member **ret, size_t *ret_n, struct err *err);
uint64_t jsonl_line(const struct jsonl *j); /* of the last object returned */
void jsonl_free(struct jsonl *j);

/* The member called `key`, or NULL. */
const struct jsonl_member *jsonl_find(const struct jsonl_member *v, size_t n, const char *key);
/* Copies the numbers of an array member to `out`, at most max. Returns how many the array has, or
 * -1 when one isn't a number. */
int64_t jsonl_numbers(const struct jsonl_member *m, double *out, size_t max);

#endif
