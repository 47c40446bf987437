/* storage/bucket/bucket.h — object storage as a flat space of names under a prefix: the common
 * interface of S3 and GCS.
 *
 * A bucket is opened from s3://BUCKET/PREFIX or gs://BUCKET/PREFIX. Any thread may call any
 * function; a call returns when it is done. Batch calls work on many objects in parallel over one
 * HTTP client. The number of connections follows what the server accepts (fewer after 503 SlowDown,
 * later more again). Transient failures are retried (full jitter, a budget shared by the bucket);
 * expired credentials are renewed; a wrong clock is corrected from the server's date. Keys are
 * relative to the prefix. Error messages never contain a credential.
 *
 * Errors: ERR_NOT_FOUND (object or bucket; the message says which), ERR_EXISTS, ERR_READ_ONLY (403
 * on a write), ERR_INVALID (credentials missing or refused, wrong region; the message says what to
 * do), ERR_NO_SPACE (quota), ERR_CORRUPT (bytes don't match), ERR_IO (failed after all retries),
 * ERR_CHANGED (a precondition on a version failed).
 */
#ifndef CAIRN_STORAGE_BUCKET_BUCKET_H
#define CAIRN_STORAGE_BUCKET_BUCKET_H

#include "base/crypto/digest.h"
#include "base/net/http.h"

struct bucket;

struct bucket_options {
	/* S3: NULL: AWS (or AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL); GCS: NULL: Google (or
	 * STORAGE_EMULATOR_HOST). */
	const char *endpoint;
	/* The caller vouches for the endpoint, such as a pod's environment. Else the user must
	 * trust it (base/crypto/trust.h) before it gets credentials. */
	bool endpoint_given;
	const char *region;  /* NULL: environment, profile, or found by redirect */
	const char *profile; /* NULL: AWS_PROFILE, or default */
	enum { BUCKET_STYLE_AUTO, BUCKET_STYLE_PATH, BUCKET_STYLE_VIRTUAL } style;
	const char *ca_file;
	/* Absolute path: remembers uploads that can't be listed, to resume them after a crash;
	 * NULL: none. */
	const char *uploads_dir;
	unsigned max_connections; /* 0: 64 */
	bool anonymous;           /* unsigned requests: public data */
	/* Tries per request with transient failures; 0: AWS_MAX_ATTEMPTS (S3), or 10. */
	unsigned tries;
	/* Tries per request while nobody listens at the endpoint, and nobody ever did, so that a
	 * wrong or dead one is told at once; 0: as `tries`. */
	unsigned first_tries;
};
int bucket_open(const char *uri, const struct bucket_options *o, struct bucket **ret,
		struct err *err);
void bucket_free(struct bucket *b);
const char *bucket_uri(const struct bucket *b);
/* True once the server has answered at all, even with an error. */
bool bucket_has_answered(const struct bucket *b);

struct bucket_object {
	const char *key; /* borrowed during the call */
	uint64_t size;
	int64_t mtime_ns;     /* the server's */
	const char *version;  /* version id or generation; "" when the store has no versions */
	const char *etag;     /* as given, quotes included */
	const char *encoding; /* ours: "zstd", or "" (x-amz-meta-cairn-encoding); only set by
				 bucket_head and bucket_get */
};

/* One. */

struct bucket_put {
	const char *key;
	const void *bytes; /* or: */
	int fd;            /* `size` bytes from `offset`; -1: bytes */
	uint64_t offset, size;
	/* Result 1 when the object exists; stores that ignore the condition overwrite it with the
	 * same bytes. */
	bool if_absent;
	const char *encoding;     /* or NULL */
	const char *content_type; /* or NULL */
	/* Called before each try, also before retries; false ends the put with ERR_CHANGED. For a
	 * write that is allowed only while a condition holds, such as a lease: the machine may
	 * sleep between two tries. NULL: always. */
	bool (*may)(void *arg);
	void *may_arg;
	/* output. 0: written, 1: existed, -1: err is set */
	int result;
	struct err err;
};
struct bucket_get {
	const char *key;
	const char *version;   /* or NULL: the newest; with an ETag in quotes: If-Match */
	uint64_t offset, size; /* size UINT64_MAX: to the end */
	/* Destination: a file from file_offset on (written in place), or memory. */
	int fd; /* -1: `body` */
	uint64_t file_offset;
	uint64_t
		max_bytes; /* 0: `size`; or BUCKET_BODY_MAX in memory, CONTENT_BLOB_MAX in a file */
	/* For a file that holds only this object: hashes the bytes as they arrive (unless they have
	 * an encoding), and truncates the file to the object's size. */
	bool hash;
	bool flush; /* with `hash`: starts to write them to the disk, for a sync that follows */
	/* answered */
	struct str body;
	char encoding[16];
	uint64_t n;
	/* True: `digest` is the blob digest (content.h) of the n bytes. False: not hashed, also for
	 * blobs too large for parts of CONTENT_PART_BYTES. */
	bool hashed;
	struct digest digest;
	int result;
	struct err err;
};

int bucket_head(struct bucket *b, const char *key, struct bucket_object *ret, struct str *strings,
		struct err *err); /* ERR_NOT_FOUND */
/* Batches: each item has its own result. Objects larger than 16 MiB are sent as multipart uploads
 * (GCS: resumable uploads), which resume one of the same key that was cut off. They are fetched in
 * ranges. All of it runs in parallel. Returns -1 only when nothing could be tried (no
 * credentials). */
int bucket_put_many(struct bucket *b, struct bucket_put *const *v, size_t n, struct err *err);
int bucket_get_many(struct bucket *b, struct bucket_get *const *v, size_t n, struct err *err);
/* One of them. -1: it failed, too. A put returns 1 if the object existed. */
int bucket_put(struct bucket *b, struct bucket_put *p, struct err *err);
int bucket_get(struct bucket *b, struct bucket_get *g, struct err *err);
int bucket_head_many(struct bucket *b, const char *const *keys, size_t n, bool *ret_there,
		     uint64_t *ret_sizes, struct err *err);
int bucket_delete_many(struct bucket *b, const char *const *keys, size_t n,
		       struct err *err); /* no error for absent ones */
/* Deletes the object only if it is still this version (generation, version id, ETag). 1: it
 * isn't. */
int bucket_delete_if(struct bucket *b, const char *key, const char *version, struct err *err);

typedef int bucket_list_fn(void *arg, const struct bucket_object *o);
/* Lists objects whose key begins with `prefix`, in order, after the key `start_after` (or NULL).
 * delimiter: 0, or '/': then common prefixes are given as objects of size 0 whose key ends in '/'.
 * fn returns 0 to continue. Streams, page by page. */
int bucket_list(struct bucket *b, const char *prefix, const char *start_after, char delimiter,
		bucket_list_fn *fn, void *arg, struct err *err);
/* Aborts multipart uploads that began before `before_ns` and never ended. */
int bucket_abort_stale(struct bucket *b, int64_t before_ns, uint64_t *ret_n, struct err *err);

/* What a store can do. */

struct bucket_abilities {
	bool if_absent;   /* create-if-absent works (tried with a probe object) */
	bool checks_body; /* a body that doesn't match its signed digest is refused */
	bool delete_if;
	bool ranges;           /* ranges of an object can be read */
	int64_t clock_skew_ns; /* ours minus the server's */
};
int bucket_probe(struct bucket *b, struct bucket_abilities *ret, struct err *err);

#endif
