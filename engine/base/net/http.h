/* engine/base/net/http.h — HTTP requests, many at once, on one thread of libcurl's multi interface.
 *
 * libcurl is loaded when the first client is made (dlopen): commands that need no network don't pay
 * for it. A client owns a thread that talks; http_run() may be called from any thread and returns
 * when all of its requests have ended. Nothing is followed, retried or decoded unless it is said
 * here: whoever signs requests must see each answer. The one exception: a request that meets a kept
 * connection which the server closes before any byte of an answer goes out again on a new one.
 *
 * What comes back is hostile: headers, bodies and times are bounded. A request has ended in one of
 * two ways: an answer (any status, `err` unset), or an error: ERR_IO for what may go better another
 * time (resolve, connect, reset, cut short, too slow), ERR_INVALID for what won't (a certificate
 * that doesn't verify, an answer that is no HTTP, a bad URL), ERR_TOO_LARGE, ERR_CANCELLED; or what
 * the sink or reading the body set (ERR_CHANGED when the file has become shorter). Messages name
 * method, host and path, never a query, a header or a proxy's credentials. An answer that announces
 * too little is cut there, and one without a length ends where the connection does: whoever needs
 * all bytes checks a digest. An answer that a server gives before it has read the request, closing,
 * can be lost to the reset that follows (ERR_IO).
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
			      (or in lower case) of the environment */
	unsigned max_connections;   /* open at once, over all hosts; 0: 64 */
	int64_t connect_timeout_ns; /* 0: 10 s */
	int64_t stall_timeout_ns; /* fewer than 1 KiB/s for so long is a dead connection; 0: 30 s */
	const char *user_agent;   /* NULL: cairn/VERSION */
	/* TLS; all copied. PEM text; the last two together. */
	const char *ca_pem;             /* only these sign servers, in place of ca_file */
	const char *cert_pem, *key_pem; /* who we are */
	const char *server_name; /* the name that certificates must have, and that is asked for,
				    when it isn't the URL's host */
	bool insecure;           /* certificates aren't looked at */
};

struct http_client;
/* ERR_UNSUPPORTED when libcurl isn't there, with the package's name. */
int http_client_new(const struct http_options *o, struct http_client **ret, struct err *err);
void http_client_free(struct http_client *c); /* NULL is fine; no request may be under way */

struct http_request {
	/* asked; all borrowed until the request has ended */
	const char *method; /* "GET", "PUT", … */
	const char *url;
	const char *const *headers; /* "Name: value", NULL-terminated; or NULL. Control characters
				       are ERR_INVALID */
	const void *body;           /* or NULL */
	size_t body_len;
	int body_fd; /* instead: body_len bytes from body_offset of this file; -1: none */
	uint64_t body_offset;
	bool expect_continue; /* wait for 100 Continue before a large body (stores that redirect) */
	uint64_t max_bytes; /* of the body of a 2xx answer, sink or not; more is ERR_TOO_LARGE. 0: 1
			       MiB; of other answers always 1 MiB */
	/* The answer's body: into `reply.body`, or, if `sink` is set and the status is 2xx, piece
	 * by piece there, when reply.status and reply.headers are known (on the client's thread; -1
	 * with *err ends the request). */
	int (*sink)(void *arg, const void *bytes, size_t n, struct err *err);
	/* Not 0: the sink is called on the thread that called http_run(), with so many bytes at
	 * once (the last time with fewer), while the client's thread receives more. For much that
	 * is to be hashed and written. Bytes of an answer that is cut short may be left out. */
	size_t piece_bytes;
	int64_t timeout_ns;       /* for the whole request; 0: none (the stall timeout holds) */
	int64_t stall_timeout_ns; /* 0: the client's. For answers that the server takes long to find
				   */
	int64_t quiet_timeout_ns; /* instead of the stall timeouts: no byte at all for so long; for
				     answers that trickle by nature. 0: those hold */
	bool fresh_connection;    /* don't reuse one: after failures */
	void *arg;                /* the sink's */

	/* answered */
	struct {
		long status;
		struct str headers; /* as they came, "Name: value\r\n" each; without the status line
				       and 1xx answers */
		struct str trailers; /* likewise, behind a chunked body */
		struct str body;
		uint64_t body_bytes;    /* also those that went to the sink */
		int64_t retry_after_ns; /* for so long the server asks to be left alone
					   (Retry-After: seconds, or a date); 0: it doesn't say */
		int64_t duration_ns;
	} reply;
	struct err err;
};
void http_request_deinit(struct http_request *r); /* what was answered */
/* Value of a header of the answer, the last of that name (any case), or NULL. Lent. */
const char *http_header(const struct http_request *r, const char *name, size_t *ret_len);
/* Whether a request that ended so is worth another try: status 408, 429, 5xx but 501, 505, 507;
 * ERR_IO of the network, but not of a system call that failed here (a disk, a file). */
bool http_is_transient(const struct http_request *r);
bool http_is_redirect(long status); /* to what Location says */
/* Where the answer's Location leads, seen from `url`, which was asked: a whole URL, at most `max`
 * bytes, which the caller frees. NULL: it has none, or none that is a URL. Whether to go there is
 * the caller's to judge. */
char *http_location(const struct http_request *r, const char *url, size_t max);
/* Unix time of an HTTP date ("Fri, 24 May 2013 00:00:00 GMT"); false when it is none. */
bool http_parse_date(const char *s, size_t n, int64_t *ret_ns);
const char *http_trailer(const struct http_request *r, const char *name, size_t *ret_len);

/* Runs them all, at most `parallel` at once (0: as many as the client may). Each says for itself
 * how it ended. `more`, if set, is called on the client's thread whenever one has ended, also by
 * cancelling, and may give another request to run (or NULL): so a queue stays full. With n = 0 it
 * is never called. Requests are fresh: `reply` and `err` zero. Not to be called from a sink or
 * `more`. */
void http_run(struct http_client *c, struct http_request *const *v, size_t n, unsigned parallel,
	      struct http_request *(*more)(void *arg, struct http_request *ended), void *arg);
/* One; 0 when there is an answer, whatever its status. */
int http_do(struct http_client *c, struct http_request *r, struct err *err);
/* From any thread: requests under way end with ERR_CANCELLED, and so do later ones. */
void http_cancel(struct http_client *c);

/* Percent-encodes for a path (slashes stay) or a query (they don't): all but A-Z a-z 0-9 - . _ ~
 * (RFC 3986). */
void http_escape(struct str *out, const char *s, size_t n, bool keep_slash);

#endif
