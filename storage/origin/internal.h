/* storage/origin/internal.h — shared by the files of this folder. Only they include it. */
#ifndef CAIRN_STORAGE_ORIGIN_INTERNAL_H
#define CAIRN_STORAGE_ORIGIN_INTERNAL_H

#include "base/map.h"
#include "base/mem.h"
#include "storage/bucket/bucket.h"
#include "storage/internal.h"
#include "storage/origin/origin.h"

struct origins;
void origins_free(struct origins *o); /* NULL is fine */

/* Finds the bucket and the key. The store owns the bucket, `arena` the key. */
int origin_locate(struct store *s, const char *uri, const char *options, struct arena *arena,
		  struct bucket **ret, const char **ret_key, struct err *err);
bool origin_in_bucket(const char *uri); /* not http */

/* The store that keeps fetched bytes: the local directory, not the shared store. */
struct store *origin_cache(struct store *s);
struct origin_sink {
	struct store *store;
	uint64_t fetched; /* output, added to: objects that weren't known */
};
/* Fetches into to->store, and remembers; version "" can't be remembered. */
int origin_fetch_into(struct store *s, struct origin_sink *to, const struct reference *refs,
		      size_t n, struct content_id *ret, struct err *err);

/* https.c: one host as a bucket that knows head and get. A key is the URL after the host:
 * "/path?query". */
int bucket_https_open(const char *uri, const struct bucket_options *o, struct bucket **ret,
		      struct err *err);

/* origin/memo.c: which bytes a version gave. One file beside the objects; damaged entries count as
 * absent. */
struct origin_memo;
struct origin_memo *origin_memo_open(const char *path); /* NULL: only in memory */
void origin_memo_free(struct origin_memo *m);
bool origin_memo_get(struct origin_memo *m, const struct digest *record, struct content_id *ret);
/* n entries in one write. */
void origin_memo_put(struct origin_memo *m, const struct digest *records,
		     const struct content_id *blobs, size_t n);
struct origin_memo *origin_memo_of(struct store *s);

#endif
