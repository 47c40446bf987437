/* storage/bucket/bucket.h — object storage as a flat space of names under a prefix: what S3 and GCS
 * have in common.
 *
 * A bucket is opened from s3://BUCKET/PREFIX or gs://BUCKET/PREFIX. Every call may come from any
 * thread and returns when it is done; the batch calls work on many objects at once, over one HTTP
 * client, with as many connections as the server takes (fewer after 503 SlowDown, more again after
 * a while). Transient failures are retried (full jitter, a budget shared by the bucket); expired
 * credentials are renewed; a wrong clock is corrected from the server's date. Keys are relative to
 * the prefix. No credential is ever in an error message.
 *
 * Errors: ERR_NOT_FOUND (object, or bucket: the message says which), ERR_EXISTS, ERR_READ_ONLY (403
 * on writing), ERR_INVALID (credentials missing or refused, wrong region: what to do), ERR_NO_SPACE
 * (quota), ERR_CORRUPT (bytes that don't match), ERR_IO (given up after retries), ERR_CHANGED (a
 * precondition on a version failed).
 */
#ifndef CAIRN_STORAGE_BUCKET_BUCKET_H
#define CAIRN_STORAGE_BUCKET_BUCKET_H

#include "base/crypto/digest.h"
#include "base/net/http.h"

struct bucket;

struct bucket_options {
	const char *endpoint; /* S3: NULL: AWS (or AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL); GCS:
				 NULL: Google (or STORAGE_EMULATOR_HOST) */
	bool endpoint_given;  /* by who started this process, as a pod's environment is: else the
				 user must trust it (base/crypto/trust.h) before it is shown
				 credentials */
	const char *region;   /* NULL: environment, profile, or found by redirect */
	const char *profile;  /* NULL: AWS_PROFILE, or default */
	enum { BUCKET_STYLE_AUTO, BUCKET_STYLE_PATH, BUCKET_STYLE_VIRTUAL } style;
	const char *ca_file;
	const char *uploads_dir;  /* absolute: where uploads that can't be listed are remembered, to
				     go on after a crash; NULL: nowhere */
	unsigned max_connections; /* 0: 64 */
	bool anonymous;           /* unsigned requests: public data */
	unsigned tries; /* of one request that fails transiently; 0: AWS_MAX_ATTEMPTS (S3), or 10 */
};
int bucket_open(const char *uri, const struct bucket_options *o, struct bucket **ret,
		struct err *err);
void bucket_free(struct bucket *b);
const char *bucket_uri(const struct bucket *b);
/* True when a server at its address has answered so far, whatever it said. */
bool bucket_has_answered(const struct bucket *b);

struct bucket_object {
	const char *key; /* lent for the call */
	uint64_t size;
	int64_t mtime_ns;     /* the server's */
	const char *version;  /* version id or generation; "" when the store keeps none */
	const char *etag;     /* as given, quotes included */
	const char *encoding; /* our own: "zstd", or "" (x-amz-meta-cairn-encoding); only from
				 bucket_head and bucket_get */
};

/* One. */

struct bucket_put {
	const char *key;
	const void *bytes; /* or: */
	int fd;            /* `size` bytes from `offset`; -1: bytes */
	uint64_t offset, size;
	bool if_absent; /* 1 is returned when it is there already; stores that ignore it overwrite
			   with the same bytes */
	const char *encoding;     /* or NULL */
	const char *content_type; /* or NULL */
	/* Asked before each try, a repeated one too: false ends it with ERR_CHANGED. For what may
	 * be written only as long as something holds, which a machine that sleeps between two tries
	 * can't know. NULL: always. */
	bool (*may)(void *arg);
	void *may_arg;
	/* answered: 0 written, 1 was there, -1 with err */
	int result;
	struct err err;
};
struct bucket_get {
	const char *key;
	const char *version;   /* or NULL: the newest; with an ETag in quotes: If-Match */
	uint64_t offset, size; /* size UINT64_MAX: to the end */
	/* Where the bytes go: a file from file_offset on (written in place), or memory. */
	int fd; /* -1: `body` */
	uint64_t file_offset;
	uint64_t
		max_bytes; /* 0: `size`; or BUCKET_BODY_MAX in memory, CONTENT_BLOB_MAX in a file */
	/* What goes to a file that is this object's alone: hash it while it arrives (but not what
	 * has an encoding), begin to write it to the disk, and let the file end where it ends. */
	bool hash;
	/* answered */
	struct str body;
	char encoding[16];
	uint64_t n;
	/* The digest of the blob (content.h) that the n bytes are. False: they were not hashed; so
	 * are more than parts of CONTENT_PART_BYTES can hold. */
	bool hashed;
	struct digest digest;
	int result;
	struct err err;
};

int bucket_head(struct bucket *b, const char *key, struct bucket_object *ret, struct str *strings,
		struct err *err); /* ERR_NOT_FOUND */
/* Batches: each says for itself how it ended. Objects larger than 16 MiB go up as multipart uploads
 * (resumed when an earlier one of the same key was cut off: GCS by resumable upload), and come down
 * in ranges, all in parallel. Returns -1 only when nothing could be tried (no credentials). */
int bucket_put_many(struct bucket *b, struct bucket_put *const *v, size_t n, struct err *err);
int bucket_get_many(struct bucket *b, struct bucket_get *const *v, size_t n, struct err *err);
int bucket_head_many(struct bucket *b, const char *const *keys, size_t n, bool *ret_there,
		     uint64_t *ret_sizes, struct err *err);
int bucket_delete_many(struct bucket *b, const char *const *keys, size_t n,
		       struct err *err); /* absent ones are fine */
/* Deletes it only if it is still this version (generation, version id, ETag). 1: it isn't. */
int bucket_delete_if(struct bucket *b, const char *key, const char *version, struct err *err);

typedef int bucket_list_fn(void *arg, const struct bucket_object *o);
/* All objects whose key begins with `prefix`, in order, from after `start_after` (or NULL).
 * delimiter: 0, or '/': common prefixes come as objects of size 0 whose key ends in it. fn returns
 * 0 to go on. Streams, page by page. */
int bucket_list(struct bucket *b, const char *prefix, const char *start_after, char delimiter,
		bucket_list_fn *fn, void *arg, struct err *err);
/* Multipart uploads that were begun before `before_ns` and never ended: aborted. */
int bucket_abort_stale(struct bucket *b, int64_t before_ns, uint64_t *ret_n, struct err *err);

/* What a store can do. */

struct bucket_abilities {
	bool if_absent;   /* create-if-absent is honoured (tried with a probe object) */
	bool checks_body; /* a body that doesn't match its signed digest is refused */
	bool delete_if;
	bool ranges;           /* a part of an object can be had */
	int64_t clock_skew_ns; /* ours minus the server's */
};
int bucket_probe(struct bucket *b, struct bucket_abilities *ret, struct err *err);

#endif
