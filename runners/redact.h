/* runners/redact.h — takes secret values out of a stream of bytes.
 *
 * What comes out is what went in, but for this: each longest run of bytes that secrets cover
 * becomes one "***". That doesn't depend on how the stream was cut into writes. Nothing is held
 * back longer than it takes to tell: only an end of the stream that may begin a secret is, at
 * most REDACT_PIECE - 1 bytes.
 *
 * A secret is found as it is, line by line, and as programs write it: in base64 (either alphabet,
 * at each of the three places where it may begin inside of a longer text, also broken into lines
 * of 64 or 76), percent-encoded, and inside of a JSON string. In base64 up to four bits of its
 * first and of its last byte may stay, and a last line of fewer than REDACT_MIN characters. What
 * is longer than REDACT_PIECE is cut into pieces of more than half of that, each of which is
 * masked wherever it stands: that bounds memory and time. Lines shorter than REDACT_MIN bytes
 * aren't looked for: they would hit ordinary text. One owner.
 */
#ifndef CAIRN_RUNNERS_REDACT_H
#define CAIRN_RUNNERS_REDACT_H

#include <stdbool.h>
#include "base/text/str.h"

#define REDACT_MIN   4
#define REDACT_PIECE 80
#define REDACT_MASK  "***"

/* False when each line of the value is shorter than REDACT_MIN: then it is not masked. */
bool redact_can_mask(const char *value, size_t n);

struct redactor;
/* NUL-terminated values; they aren't kept, but pieces of them are until redactor_free(), which
 * wipes them. */
struct redactor *redactor_new(const char *const *values, size_t n);
void redactor_free(struct redactor *r); /* NULL is fine */
/* Appends to `out` what is decided of the stream so far. `end`: nothing follows, all is given,
 * and a new stream may begin. */
void redactor_feed(struct redactor *r, const char *bytes, size_t n, bool end, struct str *out);

/* All that is looked for, in no order and maybe twice, each of REDACT_MIN to REDACT_PIECE bytes. */
typedef void (*redact_form_fn)(void *arg, const char *bytes, size_t n);
void redact_forms(const char *value, size_t n, redact_form_fn add, void *arg);

#endif
