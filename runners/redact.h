/* runners/redact.h — removes secret values from a stream of bytes.
 *
 * The output equals the input, except that each longest run of bytes covered by secrets becomes one
 * "***". The result doesn't depend on how the stream was cut into writes. The redactor holds back
 * only an end of the stream that may begin a secret, at most REDACT_PIECE - 1 bytes.
 *
 * It finds a secret as it is, line by line, and as programs write it: in base64 (either alphabet,
 * at each of the three offsets inside a longer text, also broken into lines of 64 or 76),
 * percent-encoded, and inside a JSON string. In base64, up to four bits of the secret's first and
 * last byte may stay visible, and so may a last line of fewer than REDACT_MIN characters. A secret
 * longer than REDACT_PIECE is cut into pieces of more than half of that, and each piece is masked
 * wherever it appears: that bounds memory and time. Lines shorter than REDACT_MIN bytes aren't
 * masked: they would match ordinary text. One owner.
 */
#ifndef CAIRN_RUNNERS_REDACT_H
#define CAIRN_RUNNERS_REDACT_H

#include <stdbool.h>
#include "base/text/str.h"

#define REDACT_MIN   4
#define REDACT_PIECE 80
#define REDACT_MASK  "***"

/* False when each line of the value is shorter than REDACT_MIN: it can't be masked. */
bool redact_can_mask(const char *value, size_t n);

struct redactor;
/* NUL-terminated values. They aren't kept, but pieces of them are, until redactor_free() wipes
 * them. */
struct redactor *redactor_new(const char *const *values, size_t n);
void redactor_free(struct redactor *r); /* NULL is fine */
/* Appends to `out` the part of the stream that is decided so far. `end`: the stream is over;
 * everything is appended, and a new stream may begin. */
void redactor_feed(struct redactor *r, const char *bytes, size_t n, bool end, struct str *out);

/* Gives all forms that are searched for, in no order and perhaps twice, each of REDACT_MIN to
 * REDACT_PIECE bytes. */
typedef void (*redact_form_fn)(void *arg, const char *bytes, size_t n);
void redact_forms(const char *value, size_t n, redact_form_fn add, void *arg);

#endif
