/* storage/bucket/transfer.h — shared by all kinds of object storage to send many requests: slots
 * that adapt to the server, and retries with a shared budget.
 *
 * Slots: additive increase, multiplicative decrease. A throttled answer halves the number of slots
 * (at most five times a second); each full round of successes adds one. Retries: full jitter over
 * 0.1 s, 0.2 s, … 20 s. The retry budget is 100, and grows by one for each success and ten a
 * second. When it is used up, retries also wait for it, so that our retries don't keep a server
 * down. Any thread.
 */
#ifndef CAIRN_STORAGE_BUCKET_TRANSFER_H
#define CAIRN_STORAGE_BUCKET_TRANSFER_H

#include <stdbool.h>
#include "base/net/http.h"
#include "base/os/work.h"

struct transfer;
struct transfer *transfer_new(unsigned max_connections, unsigned tries); /* 0: 64; 10 */
void transfer_free(struct transfer *t);
unsigned transfer_tries(const struct transfer *t);

enum transfer_outcome { TRANSFER_FINE, TRANSFER_THROTTLED, TRANSFER_FAILED };
/* Call around each request: waits for a slot, and gives it back. */
void transfer_begin(struct transfer *t);
void transfer_end(struct transfer *t, enum transfer_outcome outcome);
unsigned transfer_limit(struct transfer *t); /* slots now */
/* Sleeps before try number `tries + 1`, at least as long as `answer` of the last try asks for (a
 * minute at most). False: no more tries. */
bool transfer_retry(struct transfer *t, unsigned tries, const struct http_request *answer);
int64_t transfer_jitter_ns(unsigned tries,
			   uint64_t random); /* the time that it sleeps; random: 64 uniform bits */
bool transfer_throttled(long status);
/* A header's value, at most `max` bytes; the caller frees. NULL when it is absent, longer, or not
 * printable ASCII. */
char *transfer_header(const struct http_request *r, const char *name, size_t max);
/* Reads Content-Length; false when it is absent or no number. */
bool transfer_length(const struct http_request *r, uint64_t *ret);
/* Adds "NAME=VALUE" to a query or a form, escaped, after a `&` unless it is the first. value NULL:
 * "".
 */
void transfer_add_param(struct str *query, const char *name, const char *value);
/* Parses a Content-Range such as "bytes 0-99/1234"; false when malformed. */
bool transfer_parse_range(const char *s, uint64_t *ret_first, uint64_t *ret_last,
			  uint64_t *ret_total);

unsigned transfer_threads(const struct transfer *t);

#endif
