/* storage/bucket/ranged.h — fetching an object in ranges, whatever kind of storage answers. Only
 * this folder's kinds of storage include it. */
#ifndef CAIRN_STORAGE_BUCKET_RANGED_H
#define CAIRN_STORAGE_BUCKET_RANGED_H

#include <stdatomic.h>
#include "storage/bucket/bucket.h"
#include "storage/bucket/transfer.h"

#define RANGED_ETAG_MAX 256

/* One request: what is asked, and what the kind of storage says about the answer. */
struct ranged_part {
	const char *range; /* value of the Range header; NULL: none */
	/* To be called with this part as `arg`, as the request's sink, before each try, and for
	 * each 2xx answer (-1: as if it had been cut short). */
	int (*sink)(void *arg, const void *bytes, size_t n, struct err *err);
	size_t piece_bytes; /* as in http.h */
	void (*rewind)(void *arg);
	int (*check)(void *arg, const struct http_request *r, struct err *err);
	/* answered */
	const struct http_request *reply; /* set before it is sent; valid until request() returns */
	char etag[RANGED_ETAG_MAX]; /* or generation: what tells versions apart; "" when there is
				       none */
	char encoding[16];
};

struct ranged {
	/* Sends it, with g->version. 0; 1: 416, nothing from there on; -1 with *err. */
	int (*request)(void *store, const struct bucket_get *g, struct ranged_part *p,
		       struct err *err);
	void *store;
	atomic_bool *no_ranges; /* the server ignores ranges: noted, and asked before */
};
/* All of them, on `threads` threads; returns when each has been told how it ended. */
void ranged_get_many(const struct ranged *store, unsigned threads, struct bucket_get *const *v,
		     size_t n);

#endif
