/* storage/origin/internal.h — what the files about origins share. Only this folder includes it. */
#ifndef CAIRN_STORAGE_ORIGIN_INTERNAL_H
#define CAIRN_STORAGE_ORIGIN_INTERNAL_H

#include "base/map.h"
#include "base/mem.h"
#include "storage/bucket/bucket.h"
#include "storage/internal.h"
#include "storage/origin/origin.h"

struct origins;
void origins_free(struct origins *o); /* NULL is fine */

/* Which bucket, and under which key. Both lent: the bucket by the store, the key by `arena`. */
int origin_locate(struct store *s, const char *uri, const char *options, struct arena *arena,
		  struct bucket **ret, const char **ret_key, struct err *err);
bool origin_in_bucket(const char *uri); /* not http */

/* The store that bytes are kept in which belong to nobody: not the shared one. */
struct store *origin_cache(struct store *s);
struct origin_sink {
	struct store *store;
	uint64_t fetched; /* answered, added to what is there: objects that weren't known */
};
/* Fetches into to->store, and remembers; version "" can't be remembered. */
int origin_fetch_into(struct store *s, struct origin_sink *to, const struct reference *refs,
		      size_t n, struct content_id *ret, struct err *err);

/* https.c: one host as a bucket that knows head and get. Keys are what follows the host:
 * "/path?query". */
int bucket_https_open(const char *uri, const struct bucket_options *o, struct bucket **ret,
		      struct err *err);

/* origin/memo.c: which bytes a version gave. One file beside the objects; entries that don't check
 * are as if they weren't there. */
struct origin_memo;
struct origin_memo *origin_memo_open(const char *path); /* NULL: only in memory */
void origin_memo_free(struct origin_memo *m);
bool origin_memo_get(struct origin_memo *m, const struct digest *record, struct content_id *ret);
/* Of n at once, so that they are one write. */
void origin_memo_put(struct origin_memo *m, const struct digest *records,
		     const struct content_id *blobs, size_t n);
struct origin_memo *origin_memo_of(struct store *s);

#endif
