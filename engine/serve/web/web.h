/* engine/serve/web/web.h — HTTP/1.1 for the daemon: connections, their limits, access, and the form
 * of answers. Their content comes from serve/api/.
 *
 * route() gets a request as soon as its headers have arrived. It may answer (404, 405, 401), and
 * may not wait; the answer is sent when the body has come, which is dropped then. When the body is
 * complete, handle() runs on one of WEB_THREADS threads that may wait. Requests that route() marks
 * as health have a thread of their own. None may touch what the loop owns.
 *
 * Limits, each with the status for a client that exceeds it: headers 32 KiB (431, or 414), body
 * WEB_BODY_MAX (413), headers and body within WEB_REQUEST_S seconds (408), connections
 * WEB_CONNECTIONS_MAX or half of the descriptors (503), streams that follow WEB_STREAMS_MAX (503).
 *
 * Who may ask what is decided elsewhere (serve/access/); this is the transport, with TLS if it has
 * a certificate.
 */
#ifndef CAIRN_SERVE_WEB_WEB_H
#define CAIRN_SERVE_WEB_WEB_H

#include "base/mem.h"
#include "base/os/loop.h"
#include "base/text/json.h"
#include "serve/web/listen.h"
#include "serve/web/peer.h"

#define WEB_IO_THREADS      2 /* for each listener; they only move bytes */
#define WEB_THREADS         4
#define WEB_BODY_MAX        (1 * MIB)
#define WEB_REQUEST_S       15
#define WEB_ANSWER_S        600 /* time to read an answer that is not a stream */
#define WEB_CONNECTIONS_MAX 1024
#define WEB_STREAMS_MAX     512
#define WEB_SLOW_S          30
#define WEB_PARAMS_MAX      32
#define WEB_CAPTURES_MAX    4
#define WEB_HEADERS_MAX     8
#define WEB_TOKEN_MIN       16

enum { WEB_STREAM_WAIT = 0, WEB_STREAM_END = -1, WEB_STREAM_FAILED = -2 };

/* The trailer that says why a body ends early, for clients that send `TE: trailers` (RFC 9110, 6.5
 * and 10.1.4). For other clients the connection breaks off, so that they don't take the body for
 * complete. */
#define WEB_PROBLEM_TRAILER "Cairn-Problem"
#define WEB_PROBLEM_MAX     1000

/* A body that comes piece by piece. read: the number of bytes, or one of the above; WAIT: call
 * again later. It runs on a thread of the server's. why: the reason once it has FAILED; NULL:
 * unknown. The function may be NULL; it may not wait. */
struct web_stream {
	ssize_t (*read)(void *arg, char *buf, size_t max);
	const char *(*why)(void *arg);
	/* Whether read() would give something; may be NULL. Cheap; any thread, none in read(). */
	bool (*is_ready)(void *arg);
	/* For streams to many readers, with is_ready(): gives bytes like read(), or 0, and never
	 * waits. The threads that move bytes call it; read() is then called only every few seconds.
	 * May be NULL. */
	ssize_t (*take)(void *arg, char *buf, size_t max);
	void (*free)(void *arg);
	void *arg;
	bool follows;    /* may WAIT for hours */
	bool drops_slow; /* a client that takes nothing for WEB_SLOW_S is cut off */
};

/* A part of a file as the body. */
struct web_file {
	int fd; /* the server's from then on */
	uint64_t at, n;
};

struct web_param {
	const char *name, *value;
};

/* What an answer's headers say. */
struct web_head {
	const char *allow, *location; /* or NULL */
	const char *etag;             /* NULL: of a digest of `out` */
	const char *cache, *policy;   /* NULL: nothing is kept, nothing is loaded */
	bool shared;                  /* pages of other origins may embed the answer */
	unsigned retry_after_s;
};

struct web_exchange {
	/* the request */
	const char *method, *path; /* HEAD is GET here */
	struct web_param params[WEB_PARAMS_MAX];
	size_t n_params;
	const char *content_type; /* or NULL */
	struct str body;
	struct arena *arena;   /* freed with the exchange */
	struct caller *caller; /* who asks (serve/access/access.h); or NULL */
	/* set by route() */
	const void *route;
	bool health; /* from machines that act when no answer comes: never queued behind others */
	const char *captures[WEB_CAPTURES_MAX];
	/* the answer; status 0: none yet */
	unsigned status;
	const char *type; /* NULL: application/json */
	struct str out;
	const void *bytes; /* instead of `out`: n_bytes that live as long as the process; or NULL */
	size_t n_bytes;
	struct web_file file; /* instead of both; without `n` and `fd`: none */
	struct web_head head;
	struct web_param headers[WEB_HEADERS_MAX]; /* web_add_header() */
	size_t n_headers;
	struct web_stream stream; /* instead of `out` when read is set */
};

struct web_options {
	struct listener *listeners; /* open; the server's when web_new() succeeds */
	size_t n_listeners;
	const char *tls_cert, *tls_key; /* files, for all but Unix sockets; or NULL */
	void (*route)(void *arg, struct web_exchange *x);
	void (*handle)(void *arg, struct web_exchange *x);
	void *arg;
};

struct web;
/* Block signals for the loop before this call. */
int web_new(struct loop *l, const struct web_options *o, struct web **ret, struct err *err);
/* Ends streams, answers requests in progress, closes. Handlers may still run: nothing that they
 * wait for may wait for the caller. NULL is fine. */
void web_free(struct web *w);

struct web_peer {
	struct peer_name name;
	bool local, is_unix; /* of the listener */
};
/* For route() and handle(). */
const struct web_peer *web_peer(struct web_exchange *x);
/* The user of the process at the other end, if it is on this machine and known. Kept for the
 * connection: to find it may mean to read a list of all connections. */
bool web_peer_uid(struct web_exchange *x, uid_t *ret);
bool web_is_secure(struct web_exchange *x); /* the connection has TLS */
/* Reads certificate and key again. 0 also when there are none. */
int web_reload(struct web *w, struct err *err);

/* Set the answer. The first one stays. */
void web_answer_json(struct web_exchange *x, unsigned status, json_t *j); /* takes the reference */
/* RFC 9457: {"type": "about:blank", "title", "status", "detail"}. */
void web_problem(struct web_exchange *x, unsigned status, const char *fmt, ...) _printf_(3, 4);
/* 404, 400, 409, 503 or 500, as the error's code says. */
void web_problem_err(struct web_exchange *x, const struct err *err);
const char *web_param(const struct web_exchange *x, const char *name); /* or NULL */
/* A header of the request, the first of that name; or NULL. For route() and handle(). */
const char *web_header(struct web_exchange *x, const char *name);
/* One more header of the answer. Both texts live as long as the exchange. */
void web_add_header(struct web_exchange *x, const char *name, const char *value);

struct web_counts {
	uint64_t requests[600];        /* by status */
	uint64_t connections, streams; /* open now */
	uint64_t connections_total, timeouts;
	int64_t busy_ns; /* spent in handlers */
};
void web_counts(struct web *w, struct web_counts *ret); /* any thread */

#endif
