/* storage/bucket/ranged.h — fetches an object in ranges, for all kinds of object storage. Only
 * those kinds include it. */
#ifndef CAIRN_STORAGE_BUCKET_RANGED_H
#define CAIRN_STORAGE_BUCKET_RANGED_H

#include <stdatomic.h>
#include "storage/bucket/bucket.h"
#include "storage/bucket/transfer.h"

#define RANGED_ETAG_MAX 256

/* One request, and what the kind of storage reports about its answer. */
struct ranged_part {
	const char *range; /* value of the Range header; NULL: none */
	/* The kind calls these with this part as `arg`: `sink` as the request's sink, `rewind`
	 * before each try, `check` for each 2xx answer (-1: treat the answer as cut short). */
	int (*sink)(void *arg, const void *bytes, size_t n, struct err *err);
	size_t piece_bytes; /* as in http.h */
	void (*rewind)(void *arg);
	int (*check)(void *arg, const struct http_request *r, struct err *err);
	/* answered */
	const struct http_request *reply; /* set before it is sent; valid until request() returns */
	char etag[RANGED_ETAG_MAX]; /* or generation, which differs between versions; "" when there
				       is none */
	char encoding[16];
};

struct ranged {
	/* Sends the request, with g->version. 0; 1: status 416, the object ends before the range;
	 * -1 with *err. */
	int (*request)(void *store, const struct bucket_get *g, struct ranged_part *p,
		       struct err *err);
	void *store;
	atomic_bool *no_ranges; /* noted when the server ignores ranges, and read before each get */
};
/* Fetches all, on `threads` threads; returns when each has its result. */
void ranged_get_many(const struct ranged *store, unsigned threads, struct bucket_get *const *v,
		     size_t n);

#endif
