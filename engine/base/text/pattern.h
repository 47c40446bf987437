/* base/text/pattern.h — regular expressions for searching text of others with patterns of others.
 *
 * The usual notation: literals, . [a-z] [^…] \d \w \s \D \W \S \t, ^ $ (of a line), ( | ), * + ?
 * and {n,m}. No back references and no look-around: so a line costs time in proportion to its
 * length, whatever the pattern is. Bytes are matched, and `.` is a whole character of UTF-8.
 *
 * A pattern may be used by one thread at a time: it keeps what it learns.
 */
#ifndef CAIRN_BASE_TEXT_PATTERN_H
#define CAIRN_BASE_TEXT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"

struct pattern;

/* ERR_INVALID: what is wrong with it, and where. `any_case`: a matches A, of ASCII. */
int pattern_new(const char *text, bool any_case, struct pattern **ret, struct err *err);
void pattern_free(struct pattern *p); /* NULL is fine */
static inline void pattern_freep(struct pattern **p)
{
	pattern_free(*p);
}
/* Whether a part of the line matches. `line` has no newline. */
bool pattern_matches(struct pattern *p, const char *line, size_t n);

#endif
