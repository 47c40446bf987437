/* storage/bucket/transfer.h — what every kind of object storage needs to send many requests: slots
 * that adapt to what the server takes, retries with a shared budget, and a queue of work whose
 * items may add more.
 *
 * Slots: additive increase, multiplicative decrease. A throttled answer halves the number of
 * requests under way (at most five times a second), each full round of good ones adds one. Retries:
 * full jitter over 0.1 s, 0.2 s, … 20 s; beyond the budget (100, one more for each success and ten
 * a second) they also wait for it, so that a server that is down isn't kept down by us. Any thread.
 */
#ifndef CAIRN_STORAGE_BUCKET_TRANSFER_H
#define CAIRN_STORAGE_BUCKET_TRANSFER_H

#include <stdbool.h>
#include "base/net/http.h"

struct transfer;
struct transfer *transfer_new(unsigned max_connections, unsigned tries); /* 0: 64; 10 */
void transfer_free(struct transfer *t);
unsigned transfer_tries(const struct transfer *t);

enum transfer_outcome { TRANSFER_FINE, TRANSFER_THROTTLED, TRANSFER_FAILED };
/* Around each request: waits for a slot; gives it back. */
void transfer_begin(struct transfer *t);
void transfer_end(struct transfer *t, enum transfer_outcome outcome);
unsigned transfer_limit(struct transfer *t); /* slots now */
/* Sleeps before try number `tries + 1`, as long as `answer`, what the last try got, asks for (a
 * minute at most); false: no more tries. */
bool transfer_retry(struct transfer *t, unsigned tries, const struct http_request *answer);
int64_t transfer_jitter_ns(unsigned tries,
			   uint64_t random); /* what it sleeps for; random: 64 even bits */
bool transfer_throttled(long status);
/* A header's value as text of the caller's, at most `max` bytes; NULL when there is none, or it is
 * longer or not printable ASCII. */
char *transfer_header(const struct http_request *r, const char *name, size_t max);
/* Of Content-Length; false when there is none, or it is no number. */
bool transfer_length(const struct http_request *r, uint64_t *ret);
/* "NAME=VALUE" of a query or a form, escaped, behind a `&` if it isn't the first. value NULL: "".
 */
void transfer_add_param(struct str *query, const char *name, const char *value);
/* "bytes 0-99/1234" of Content-Range; false when it is malformed. */
bool transfer_parse_range(const char *s, uint64_t *ret_first, uint64_t *ret_last,
			  uint64_t *ret_total);

/* Work. */

struct work_queue;
struct work {
	void (*fn)(struct work_queue *q, void *arg,
		   size_t i); /* for i from 0 to n - 1, in any order, on any thread */
	void *arg;
	size_t n;
};
/* Runs it, and what it pushes, on up to `threads` threads (the caller's is one); returns when all
 * is done. */
void work_run(unsigned threads, struct work w);
/* From inside: done before what was there. */
void work_push(struct work_queue *q, struct work w);
/* Calls fn for i from 0 to n - 1 likewise, and returns the first failure (-1 with *err). `all`: the
 * other calls are made all the same; else those that haven't begun aren't. */
int work_each(unsigned threads, size_t n, bool all, int (*fn)(void *arg, size_t i, struct err *err),
	      void *arg, struct err *err);
unsigned transfer_threads(const struct transfer *t);

#endif
