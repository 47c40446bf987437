/* storage/bucket/s3/client.h — one bucket of S3: its address, our credentials, and signed requests
 * with retries. Only storage/bucket/s3 includes it. */
#ifndef CAIRN_STORAGE_BUCKET_S3_CLIENT_H
#define CAIRN_STORAGE_BUCKET_S3_CLIENT_H

#include <pthread.h>
#include <stdatomic.h>
#include "storage/bucket/internal.h"
#include "storage/bucket/s3/credentials.h"
#include "storage/bucket/s3/sigv4.h"
#include "storage/bucket/s3/xml.h"
#include "storage/bucket/transfer.h"
#include "storage/internal.h"

#define S3_ENCODING_HEADER "x-amz-meta-cairn-encoding"
#define S3_SINGLE_MAX      CONTENT_PART_BYTES /* larger ones are sent in parts */

struct s3 {
	struct bucket base;
	struct http_client *http;
	struct http_client *near; /* for metadata services: no proxy, short timeouts */
	struct transfer *transfer;
	struct credentials_chain *chain; /* NULL: anonymous */
	bool aws, virtual_host;
	bool plain; /* http to another machine */
	const char *scheme;
	/* Of a custom endpoint; NULL for AWS, where the region determines the host. */
	char *host, *base_path;

	pthread_mutex_t lock; /* guards the fields below */
	char *region;
	int64_t skew_ns; /* ours minus the server's */
	bool settled;    /* a request succeeded: region and credentials are right */

	atomic_bool no_if_absent, no_multi_delete, no_ranges; /* learned from answers */
};

/* One request. Strings are borrowed until it has ended. */
struct s3_call {
	const char *method;
	const char *key;                    /* full key; NULL: the bucket */
	const char *query;                  /* encoded; or NULL */
	const struct sigv4_header *headers; /* besides those that signing adds */
	size_t n_headers;
	const void *body;
	size_t body_len;
	int body_fd; /* -1: none */
	uint64_t body_offset;
	uint64_t max_bytes; /* of the answer */
	int (*sink)(void *arg, const void *bytes, size_t n, struct err *err);
	size_t piece_bytes;        /* as in http.h */
	void (*rewind)(void *arg); /* before each try */
	int (*check)(void *arg, const struct http_request *r,
		     struct err *err); /* called for a 2xx answer; -1: treat it as cut short */
	void *arg;
	/* Of a GET: a 200 may hold an error, because it doesn't read an object; always so for other
	 * methods. */
	bool error_in_200;
	bool (*may)(void *arg); /* of a put: asked before each try */
	void *may_arg;
	bool wrong_hash; /* for the probe: the payload doesn't match what is signed */

	/* answered */
	struct http_request reply;
	struct xml_error error;
	unsigned tries;     /* tries made */
	bool maybe_applied; /* an earlier try without an answer may have had its effect */
	int64_t server_ns;  /* Date of the answer, or 0 */
};
/* 0: a 2xx answer. -1: anything else, explained in *err; s3_status() gives the status (0: no
 * answer). Retries as in storage/bucket/transfer.h; corrects region, clock and credentials. */
int s3_send(struct s3 *s, struct s3_call *c, struct err *err);
void s3_call_deinit(struct s3_call *c);
long s3_status(const struct s3_call *c);
/* error.c: what a refused request means, and what to do. Sets *err, returns -1. */
int s3_error(const struct s3 *s, const struct s3_call *c, struct err *err);
/* True when `code` is worth another try. */
bool s3_code_transient(const char *code);

/* The functions of struct bucket_ops (bucket/internal.h). */
int s3_put_many(struct bucket *b, struct bucket_put *const *v, size_t n, struct err *err);
int s3_get_many(struct bucket *b, struct bucket_get *const *v, size_t n, struct err *err);
int s3_head_many(struct bucket *b, const char *const *keys, size_t n, bool *ret_there,
		 uint64_t *ret_sizes, struct err *err);
int s3_head(struct bucket *b, const char *key, struct bucket_object *ret, struct str *strings,
	    struct err *err);
int s3_delete_many(struct bucket *b, const char *const *keys, size_t n, struct err *err);
int s3_delete_if(struct bucket *b, const char *key, const char *version, struct err *err);
int s3_list(struct bucket *b, const struct bucket_listing *l, struct err *err);
int s3_abort_stale(struct bucket *b, int64_t before_ns, uint64_t *ret_n, struct err *err);
int s3_probe(struct bucket *b, struct bucket_abilities *ret, struct err *err);

/* put.c */
/* Checks credentials once for a batch, so that the error isn't repeated for every object. */
int s3_check_credentials(struct s3 *s, struct err *err);
int s3_put_headers(const struct s3 *s, const struct bucket_put *p, struct sigv4_header h[4],
		   bool creating);
/* A `check` of PUT and HEAD: fails when the answer doesn't come from object storage. */
int s3_check_etag(void *arg, const struct http_request *r, struct err *err);
/* multipart.c: an object larger than S3_SINGLE_MAX; sets p->result when all is done. */
void s3_upload_begin(struct s3 *s, struct bucket_put *p, struct work_queue *q);
int s3_delete(struct s3 *s, const char *key, const char *query, const struct sigv4_header *h,
	      struct err *err);
/* Uploads that haven't ended, of keys that begin with `prefix`. */
struct s3_upload_info {
	const char *key, *id;
	int64_t begun_ns;
};
typedef int s3_upload_fn(void *arg, const struct s3_upload_info *u, struct err *err);
int s3_list_uploads(struct s3 *s, const char *prefix, s3_upload_fn *fn, void *arg, struct err *err);

#endif
