/* storage/bucket/s3/sigv4.h — AWS Signature Version 4: the Authorization header.
 *
 * Pure: no clock, no environment, no network. The caller gives the time, and must send exactly what
 * was signed: this path and query, and all of these headers. (AWS: "Signature Version 4 signing
 * process"; S3 signs the path as it is sent, other services encode it a second time.)
 */
#ifndef CAIRN_STORAGE_BUCKET_S3_SIGV4_H
#define CAIRN_STORAGE_BUCKET_S3_SIGV4_H

#include "base/crypto/digest.h"
#include "base/text/str.h"

#define SIGV4_UNSIGNED    "UNSIGNED-PAYLOAD"
#define SIGV4_HEADERS_MAX 24 /* we never send more */

struct sigv4_header {
	const char *name; /* lower case */
	const char *value;
};

struct sigv4_request {
	const char *method;
	const char *path;  /* percent-encoded, as sent; begins with '/' */
	const char *query; /* percent-encoded, as sent, in any order; "" or NULL: none. A parameter
			      without a value is signed as `name=` */
	const struct sigv4_header *headers; /* all signed headers, including host and x-amz-date */
	size_t n_headers;
	const char *payload_hash; /* hex, or SIGV4_UNSIGNED */

	const char *region, *service; /* "s3", "sts" */
	const char *key_id, *secret;
	int64_t time_ns; /* Unix; must match x-amz-date */
};

/* 20130524T000000Z, the format of x-amz-date; out has 17 bytes. */
#define SIGV4_DATE_BYTES 17
void sigv4_date(int64_t time_ns, char out[SIGV4_DATE_BYTES]);

/* Splits http[s]://HOST[:PORT][/PATH]: no user, query or fragment. *ret_scheme: "http" or "https".
 * *ret_host: as signed and sent: in lower case, without a default port. *ret_path: the prefix of
 * all paths, without a slash at its end; "" for none. The caller frees the last two. False for
 * other URLs. */
bool sigv4_split_endpoint(const char *url, const char **ret_scheme, char **ret_host,
			  char **ret_path);

/* Appends the value of the Authorization header. */
void sigv4_authorization(const struct sigv4_request *r, struct str *out);

/* The canonical request, for tests and to debug a refused signature. */
void sigv4_canonical(const struct sigv4_request *r, struct str *out);

/* Lower-case hex of n bytes, appended. */
void sigv4_add_hex(struct str *out, const uint8_t *bytes, size_t n);

#endif
