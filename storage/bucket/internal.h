/* storage/bucket/internal.h — the interface of the kinds of object storage; bucket.c dispatches to
 * them. Only this folder includes it. */
#ifndef CAIRN_STORAGE_BUCKET_INTERNAL_H
#define CAIRN_STORAGE_BUCKET_INTERNAL_H

#include <stdatomic.h>
#include "base/mem.h"
#include "storage/bucket/bucket.h"
#include "storage/limits.h"

struct bucket_listing {
	const char *prefix, *start_after; /* start_after: or NULL */
	char delimiter;                   /* 0: none */
	bucket_list_fn *fn;
	void *arg;
};

/* Meanings, threads and errors as in bucket.h. Keys are full keys: bucket.c adds the prefix, and
 * removes it from what list gives. */
struct bucket_ops {
	int (*put_many)(struct bucket *b, struct bucket_put *const *v, size_t n, struct err *err);
	int (*get_many)(struct bucket *b, struct bucket_get *const *v, size_t n, struct err *err);
	int (*head_many)(struct bucket *b, const char *const *keys, size_t n, bool *ret_there,
			 uint64_t *ret_sizes, struct err *err);
	int (*head)(struct bucket *b, const char *key, struct bucket_object *ret,
		    struct str *strings, struct err *err);
	int (*delete_many)(struct bucket *b, const char *const *keys, size_t n, struct err *err);
	int (*delete_if)(struct bucket *b, const char *key, const char *version, struct err *err);
	int (*list)(struct bucket *b, const struct bucket_listing *l, struct err *err);
	int (*abort_stale)(struct bucket *b, int64_t before_ns, uint64_t *ret_n, struct err *err);
	int (*probe)(struct bucket *b, struct bucket_abilities *ret, struct err *err);
	void (*free)(struct bucket *b);
};

struct bucket {
	const struct bucket_ops *ops;
	char *uri, *name, *prefix; /* prefix: "" or with a slash at its end */
	unsigned first_tries;      /* see bucket_options */
	atomic_bool answered;
};

/* Whether a request that was sent `tries` times may be sent again. */
static inline bool bucket_may_retry(const struct bucket *b, unsigned tries,
				    const struct http_request *answer)
{
	return !b->first_tries || tries < b->first_tries || !answer->reply.unconnected ||
	       atomic_load(&b->answered);
}

/* Parses the URI; ERR_INVALID. A kind's `free` releases only its own fields, and the struct.
 */
int bucket_base_init(struct bucket *b, const char *uri, const char *scheme, struct err *err);
void bucket_base_deinit(struct bucket *b);

/* The most bytes that a get takes. A get into a file isn't limited by memory. */
static inline uint64_t bucket_get_limit(const struct bucket_get *g)
{
	if (g->max_bytes || g->size != UINT64_MAX)
		return g->max_bytes ? g->max_bytes : g->size;
	return g->fd < 0 ? BUCKET_BODY_MAX : CONTENT_BLOB_MAX;
}

static inline int bucket_may_put(bool (*may)(void *arg), void *arg, const char *key,
				 struct err *err)
{
	return may && !may(arg)
		       ? err_set(err, ERR_CHANGED,
				 "writing %s came too late: what it relied on holds no more", key)
		       : 0;
}

/* A unique key, to probe what a server can do. The caller frees. */
char *bucket_probe_key(const struct bucket *b);

/* Adds a text of a bucket_object; returns its offset, because `strings` may be reallocated. */
static inline size_t bucket_add_string(struct str *strings, const char *s)
{
	size_t at = strings->len;

	str_addn(strings, s, strlen(s) + 1);
	return at;
}

int bucket_s3_open(const char *uri, const struct bucket_options *o, struct bucket **ret,
		   struct err *err);
int bucket_gcs_open(const char *uri, const struct bucket_options *o, struct bucket **ret,
		    struct err *err);
/* For tests: objects in memory, shared by all buckets of one `mem-bucket://NAME`.
 * bucket_memory_faults() injects faults. bucket.c sets uri, name and prefix. */
int bucket_memory_open(const char *uri, struct bucket **ret, struct err *err);

#endif
