/* engine/base/net/http.h — HTTP requests, many at once, on one thread of libcurl's multi interface.
 *
 * libcurl is loaded when the first client is made: commands that need no network don't pay
 * for it. A client owns a thread that does the transfers. Any thread may call http_run(), which
 * returns when all of its requests have ended. No redirect is followed and no request retried or
 * decoded, except as documented here, because callers that sign requests must see each answer. One
 * exception: when the server closes a reused connection before any byte of an answer, the request
 * is sent again on a new one.
 *
 * Answers are hostile: headers, bodies and times are limited. A request ends with an answer (any
 * status, `err` unset) or with an error: ERR_IO for transient failures (resolve, connect, reset,
 * cut short, too slow), ERR_INVALID for permanent ones (a certificate that doesn't verify, an
 * answer that isn't HTTP, a bad URL), ERR_TOO_LARGE, ERR_CANCELLED, or the error that the sink or
 * reading the body set (ERR_CHANGED when the file has become shorter). Messages name method, host
 * and path, never a query, a header or a proxy's credentials. An answer is cut at its announced
 * length, and one without a length ends with the connection, so a caller that needs all bytes must
 * check a digest. If a server answers and closes before it has read the request, the following
 * reset may lose the answer (ERR_IO).
 */
#ifndef CAIRN_BASE_NET_HTTP_H
#define CAIRN_BASE_NET_HTTP_H

#include <stdbool.h>
#include "base/err.h"
#include "base/text/str.h"

#define HTTP_HEADERS_MAX (256 * KIB)

struct http_options {
	const char *ca_file; /* PEM; NULL: the system's (or SSL_CERT_FILE) */
	const char *proxy; /* for all; "": none; NULL: HTTPS_PROXY, HTTP_PROXY, ALL_PROXY, NO_PROXY
			      (or lower case) in the environment */
	unsigned max_connections;   /* open at once, over all hosts; 0: 64 */
	int64_t connect_timeout_ns; /* 0: 10 s */
	/* A connection with less than 1 KiB/s for this long is dead; 0: 30 s. */
	int64_t stall_timeout_ns;
	const char *user_agent; /* NULL: cairn/VERSION */
	/* TLS; all strings are copied. PEM text; cert_pem and key_pem only together. */
	const char *ca_pem;             /* the only CAs, instead of ca_file */
	const char *cert_pem, *key_pem; /* the client certificate */
	/* Name in the server's certificate and in SNI, if it isn't the URL's host. */
	const char *server_name;
	bool insecure; /* certificates aren't verified */
};

struct http_client;
/* ERR_UNSUPPORTED when libcurl isn't there, with the package's name. */
int http_client_new(const struct http_options *o, struct http_client **ret, struct err *err);
void http_client_free(struct http_client *c); /* NULL is fine; no request may be running */

struct http_reply {
	long status;
	struct str headers;  /* as received, "Name: value\r\n" each; without the status line
				and 1xx answers */
	struct str trailers; /* the same, after a chunked body */
	struct str body;
	uint64_t body_bytes; /* including those that went to the sink */
	/* The pause that the server asks for (Retry-After: seconds, or a date); 0: none. */
	int64_t retry_after_ns;
	int64_t duration_ns;
	bool unconnected; /* nobody listens there, or the name is unknown */
};

struct http_request {
	/* input; all borrowed until the request has ended */
	const char *method; /* "GET", "PUT", … */
	const char *url;
	const char *const *headers; /* "Name: value", NULL-terminated; or NULL. Control characters
				       are ERR_INVALID */
	const void *body;           /* or NULL */
	size_t body_len;
	int body_fd; /* instead: body_len bytes from body_offset of this file; -1: none */
	uint64_t body_offset;
	bool expect_continue; /* wait for 100 Continue before a large body (stores that redirect) */
	/* Most bytes of a 2xx answer's body, with or without a sink; more is ERR_TOO_LARGE. 0: 1
	 * MiB. Other answers: always 1 MiB. */
	uint64_t max_bytes;
	/* Receives the body of a 2xx answer piece by piece; other bodies, and all without a sink,
	 * go to `reply.body`. reply.status and reply.headers are set before. Runs on the client's
	 * thread; -1 with *err ends the request. */
	int (*sink)(void *arg, const void *bytes, size_t n, struct err *err);
	/* Not 0: the sink runs on the thread that called http_run(), with this many bytes at once
	 * (fewer at the end), while the client's thread receives more. For large bodies that are
	 * hashed and written. If the answer is cut short, the sink may not get the last bytes. */
	size_t piece_bytes;
	int64_t timeout_ns;       /* for the whole request; 0: none (the stall timeout holds) */
	int64_t stall_timeout_ns; /* 0: the client's. For answers that take the server long */
	/* Replaces the stall timeouts: no byte at all for this long; for answers that trickle. 0:
	 * the stall timeouts apply. */
	int64_t quiet_timeout_ns;
	bool fresh_connection; /* don't reuse a connection: after failures */
	void *arg;             /* the sink's */

	struct http_reply reply;
	struct err err;
};
void http_request_deinit(struct http_request *r); /* frees the reply */
/* Value of the answer's last header of that name (any case), or NULL. Borrowed. */
const char *http_header(const struct http_request *r, const char *name, size_t *ret_len);
/* Tells whether the request is worth another try: status 408, 429, 5xx except 501, 505, 507; ERR_IO
 * of the network, but not of a local system call (a disk, a file). */
bool http_is_transient(const struct http_request *r);
bool http_is_redirect(long status); /* to the Location header */
/* Resolves the answer's Location against the requested `url`: an absolute URL of at most `max`
 * bytes, which the caller frees. NULL: no Location, or no valid URL. The caller decides whether to
 * follow it. */
char *http_location(const struct http_request *r, const char *url, size_t max);
/* Unix time of an HTTP date ("Fri, 24 May 2013 00:00:00 GMT"); false when invalid. */
bool http_parse_date(const char *s, size_t n, int64_t *ret_ns);
const char *http_trailer(const struct http_request *r, const char *name, size_t *ret_len);

/* Runs all, at most `parallel` at once (0: the client's limit). Each request has its own result.
 * `more`, if set, is called on the client's thread whenever a request has ended, also when
 * cancelled, and may return another request to run (or NULL), so that a queue stays full. With n =
 * 0 it is never called. `reply` and `err` of each request must be zero. Don't call this from a sink
 * or `more`. */
void http_run(struct http_client *c, struct http_request *const *v, size_t n, unsigned parallel,
	      struct http_request *(*more)(void *arg, struct http_request *ended), void *arg);
/* Runs one request; 0 when there is an answer, whatever its status. */
int http_do(struct http_client *c, struct http_request *r, struct err *err);
/* From any thread: running requests end with ERR_CANCELLED, and so do later ones. */
void http_cancel(struct http_client *c);

/* This machine's file of CA certificates, where one of the usual distributions has it; or NULL. */
const char *http_ca_file(void);

/* Percent-encodes for a path (slashes stay) or a query (slashes are encoded): all but A-Z a-z 0-9 -
 * . _ ~ (RFC 3986). */
void http_escape(struct str *out, const char *s, size_t n, bool keep_slash);

#endif
