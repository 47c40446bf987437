/* steps/table/jsonl.h — JSON lines: one object a line, its members one after the other, from
 * memory.
 *
 * The text is hostile: it is held against RFC 8259 to the letter, but for the NaN, Infinity and
 * -Infinity that Python writes as numbers. Depth, members and the length of a line are bounded.
 * `\u0000`, text that isn't UTF-8, a line that is no object and a key that its outermost object has
 * twice are ERR_INVALID with file and line. What lies deeper is given as it is written: a key that
 * is twice in there is the business of who reads it. Members are lent slices of the text, strings
 * with escapes of the reader's own buffer; valid until the next call. Lines with nothing but spaces
 * are passed over.
 */
#ifndef CAIRN_STEPS_TABLE_JSONL_H
#define CAIRN_STEPS_TABLE_JSONL_H

#include "base/err.h"
#include "base/text/str.h"

enum jsonl_kind { JSONL_NULL, JSONL_BOOL, JSONL_NUMBER, JSONL_STRING, JSONL_ARRAY, JSONL_OBJECT };

struct jsonl_member {
	const char *key, *s; /* s: a string's characters, decoded; anything else as it is written */
	size_t key_n, n;
	enum jsonl_kind kind;
};

struct jsonl;
/* `first_line`: what the text's first line is called, usually 1. Both `text` and `what` must live
 * as long as the reader. */
struct jsonl *jsonl_new(const char *what, const char *text, size_t n, uint64_t first_line);
/* 1: an object (with n members, perhaps 0), 0: the end, -1. */
int jsonl_next(struct jsonl *j, const struct jsonl_member **ret, size_t *ret_n, struct err *err);
uint64_t jsonl_line(const struct jsonl *j); /* of the object that was returned last */
void jsonl_free(struct jsonl *j);

/* The member called `key`, or NULL. */
const struct jsonl_member *jsonl_find(const struct jsonl_member *v, size_t n, const char *key);
/* Numbers of an array member into `out`, at most max; how many it holds, or -1 when one of them is
 * no number. */
int64_t jsonl_numbers(const struct jsonl_member *m, double *out, size_t max);

#endif
