/* runners/redact.h — takes secret values out of a stream of bytes, also where one straddles two writes.
 *
 * Each line of a secret that has at least REDACT_MIN bytes is replaced by "***"; shorter ones would hit ordinary text. Memory is
 * bounded by the longest value. One owner.
 */
#ifndef CAIRN_RUNNERS_REDACT_H
#define CAIRN_RUNNERS_REDACT_H

#include "base/str.h"

#define REDACT_MIN 4

struct redactor;
struct redactor *redactor_new(const char *const *values, size_t n);
void redactor_free(struct redactor *r);
/* Appends to `out` what can be told of the stream so far; `end`: nothing follows, all is given. */
void redactor_feed(struct redactor *r, const char *bytes, size_t n, bool end, struct str *out);

#endif
