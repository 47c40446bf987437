/* storage/bucket/gcs/client.h — one bucket of Google Cloud Storage, over its JSON API with bearer
 * tokens. Only storage/bucket/gcs includes it. */
#ifndef CAIRN_STORAGE_BUCKET_GCS_CLIENT_H
#define CAIRN_STORAGE_BUCKET_GCS_CLIENT_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include "storage/bucket/gcs/token.h"
#include "storage/bucket/internal.h"
#include "storage/bucket/transfer.h"
#include "storage/content/content.h"

#define GCS_ENCODING_KEY "cairn-encoding"
/* Not every answer with an object's bytes has its custom metadata, but each has its type. */
#define GCS_ENCODED_TYPE "application/x-cairn+"

struct gcs {
	struct bucket base;
	struct http_client *http, *near; /* near: the metadata server, without a proxy */
	struct transfer *transfer;
	struct token_source *tokens; /* NULL: anonymous, or an emulator */
	char *endpoint;              /* without a slash at its end */
	char *uploads_dir;           /* or NULL */
	bool emulator;
	atomic_bool no_ranges;
};

struct gcs_error {
	char reason[64], message[512]; /* printable; "" where there is none */
};

struct gcs_call {
	const char *method;
	const char *url;            /* whole */
	const char *const *headers; /* besides Authorization; NULL-terminated; or NULL; at most 6 */
	const void *body;
	size_t body_len;
	int body_fd; /* -1: none */
	uint64_t body_offset;
	uint64_t max_bytes;
	int (*sink)(void *arg, const void *bytes, size_t n, struct err *err);
	size_t piece_bytes; /* as in http.h */
	void (*rewind)(void *arg);
	int (*check)(void *arg, const struct http_request *r, struct err *err);
	void *arg;
	const char *key;        /* for messages; or NULL */
	bool (*may)(void *arg); /* of a put: asked before each try */
	void *may_arg;
	bool once;       /* no retries: the caller judges a failure */
	bool accept_308; /* a chunk of a resumable upload */

	struct http_request reply;
	struct gcs_error error;
	unsigned tries;
	bool maybe_applied;
	int64_t server_ns;
};
int gcs_send(struct gcs *g, struct gcs_call *c, struct err *err); /* 0: 2xx (or 308) */
void gcs_call_deinit(struct gcs_call *c);
long gcs_status(const struct gcs_call *c);
int gcs_error(const struct gcs *g, const struct gcs_call *c, struct err *err);

/* "ENDPOINT/storage/v1/b/BUCKET/o", then "/KEY" unless it is NULL. */
void gcs_object_url(const struct gcs *g, const char *key, struct str *out);
void gcs_add_param(struct str *url, const char *name, const char *value);

/* An object's resource. Strings are borrowed from j. */
struct gcs_object {
	const char *name, *etag, *generation, *encoding;
	uint64_t size;
	int64_t mtime_ns;
	const char *crc32c; /* base64, or NULL */
};
int gcs_read_object(const json_t *j, struct gcs_object *ret, struct err *err);

/* True when this address is on the service's own host. Uploads go to no other host. */
bool gcs_same_host(const struct gcs *g, const char *url);
int gcs_put_many(struct bucket *b, struct bucket_put *const *v, size_t n, struct err *err);
int gcs_get_many(struct bucket *b, struct bucket_get *const *v, size_t n, struct err *err);
int gcs_head_many(struct bucket *b, const char *const *keys, size_t n, bool *ret_there,
		  uint64_t *ret_sizes, struct err *err);
int gcs_head(struct bucket *b, const char *key, struct bucket_object *ret, struct str *strings,
	     struct err *err);
int gcs_delete_many(struct bucket *b, const char *const *keys, size_t n, struct err *err);
int gcs_delete_if(struct bucket *b, const char *key, const char *version, struct err *err);
int gcs_list(struct bucket *b, const struct bucket_listing *l, struct err *err);
int gcs_abort_stale(struct bucket *b, int64_t before_ns, uint64_t *ret_n, struct err *err);
int gcs_probe(struct bucket *b, struct bucket_abilities *ret, struct err *err);
/* Fetches an object's resource. The caller decrefs *ret_json, which owns the strings. */
int gcs_resource(struct gcs *g, const char *key, struct gcs_object *ret, json_t **ret_json,
		 struct err *err);
/* 0; 1: it is another version now, or gone; -1 */
int gcs_delete(struct gcs *g, const char *key, const char *generation, struct err *err);

#endif
