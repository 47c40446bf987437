/* engine/base/text/pattern.h — regular expressions for searching text of others with patterns of
 * others.
 *
 * The notation is Perl's, by PCRE2 (pcre2pattern(3)); text that isn't UTF-8 is fine. What a pattern
 * may cost a line is bounded, so one that would try for ever fails instead.
 *
 * A pattern may be used by one thread at a time.
 */
#ifndef CAIRN_BASE_TEXT_PATTERN_H
#define CAIRN_BASE_TEXT_PATTERN_H

#include <stdbool.h>
#include <stddef.h>
#include "base/err.h"

struct pattern;

/* ERR_INVALID: what is wrong with it, and where; ERR_UNSUPPORTED: PCRE2 isn't there.
 * `any_case`: a matches A. */
int pattern_new(const char *text, bool any_case, struct pattern **ret, struct err *err);
void pattern_free(struct pattern *p); /* NULL is fine */
static inline void pattern_freep(struct pattern **p)
{
	pattern_free(*p);
}
/* 1: a part of the line matches; 0: none. ERR_INVALID: it costs too much to find out. `line` has no
 * newline. */
int pattern_matches(struct pattern *p, const char *line, size_t n, struct err *err);

#endif
