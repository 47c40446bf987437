/* engine/base/net/http_internal.h — shared by the files of the HTTP client: libcurl's functions
 * (http_curl.c), one transfer (http_transfer.c), the event sources of a client's thread
 * (http_events.c), texts (http_text.c). http.c has the client, its thread and the batches.
 *
 * A transfer belongs to its client's thread from http_transfer_setup() to http_transfer_end(). Only
 * pieces for a sink, and http_events_wake(), cross threads.
 */
#ifndef CAIRN_BASE_NET_HTTP_INTERNAL_H
#define CAIRN_BASE_NET_HTTP_INTERNAL_H

#include <curl/curl.h>
#include <pthread.h>
#include <stdatomic.h>
#include "base/mem.h"
#include "base/net/http.h"

/* The functions of libcurl that we call, without "curl_". */
#define CURL_FUNCTIONS(X)      \
	X(global_init)         \
	X(version_info)        \
	X(easy_init)           \
	X(easy_cleanup)        \
	X(easy_setopt)         \
	X(easy_getinfo)        \
	X(easy_perform)        \
	X(easy_strerror)       \
	X(slist_append)        \
	X(slist_free_all)      \
	X(getdate)             \
	X(url)                 \
	X(url_cleanup)         \
	X(url_get)             \
	X(url_set)             \
	X(free)                \
	X(multi_init)          \
	X(multi_cleanup)       \
	X(multi_setopt)        \
	X(multi_add_handle)    \
	X(multi_remove_handle) \
	X(multi_info_read)     \
	X(multi_assign)        \
	X(multi_socket_action)

#define CURL_MEMBER(name) typeof(&curl_##name) name;
struct curl_api {
	CURL_FUNCTIONS(CURL_MEMBER)
};

/* Loads libcurl once for the process; ERR_UNSUPPORTED when it isn't there or is too old. It is
 * never unloaded. */
int curl_api_get(const struct curl_api **ret, struct err *err);

struct http_batch;

/* Bytes of an answer on their way to a sink on another thread (http_request.piece_bytes). */
struct http_piece {
	struct http_piece *following;
	struct http_request *r;
	size_t n, room;
	char bytes[];
};

struct http_transfer {
	const struct curl_api *api;
	const struct http_settings *settings;
	struct http_batch *batch;
	struct http_request *r;
	CURL *easy;
	struct curl_slist *headers, *connect_to;
	size_t index;          /* in the client's list of running transfers */
	uint64_t sent;         /* of the request's body */
	uint64_t header_bytes; /* also those of 1xx answers */
	uint64_t limit;        /* of the answer's body */
	bool headers_whole;    /* the empty line after the headers has come */
	bool body_begun, to_sink;
	int64_t started_ns;
	int64_t window_ns; /* when the count was `window_bytes` */
	uint64_t window_bytes;
	struct http_piece *piece; /* being filled; or NULL */
	char why[CURL_ERROR_SIZE];
};

/* A client's settings for all requests; copies. NULL: not set. */
struct http_settings {
	char *ca_file, *user_agent;
	char *proxy_http, *proxy_https; /* "": none */
	char *no_proxy;
	char *ca_pem, *cert_pem, *key_pem, *server_name;
	bool insecure;
	long connect_timeout_ms;
	int64_t stall_timeout_ns;
};

/* http.c: queues bytes for the sink on the caller's thread; waits while the sink is far behind. -1:
 * the sink takes no more.
 */
int http_pieces_add(struct http_transfer *t, const char *bytes, size_t n);

/* Makes a handle with the settings common to all requests. NULL: out of memory. */
CURL *http_easy_new(const struct curl_api *api, const struct http_settings *s);
/* Prepares the transfer (api, settings, r, easy are set) for its request; errors of the request go
 * to r->err. */
int http_transfer_setup(struct http_transfer *t);
/* Tells whether the transfer met a dead reused connection before any answer, and may be sent twice.
 * If so, it is ready to be sent on a new connection. */
bool http_transfer_again(struct http_transfer *t, CURLcode code);
/* Sets the request's answer or error from libcurl's result. Releases all of the transfer but its
 * handle. */
void http_transfer_end(struct http_transfer *t, CURLcode code);
/* How long the transfer may stall: its request's patience, else its client's. */
int64_t http_transfer_stall_ns(const struct http_transfer *t);
/* Tells whether less than 1 KiB/s moved during that time (nothing at all, with a quiet timeout).
 * Call it a few times in it. */
bool http_transfer_stalled(struct http_transfer *t, int64_t now_ns);

/* The event sources of a client's thread. */
struct http_events {
	const struct curl_api *api;
	CURLM *multi;
	int epoll, wake;
	int64_t timer_ns; /* when libcurl wants to be called; -1: never */
};
int http_events_init(struct http_events *e, const struct curl_api *api, CURLM *multi,
		     struct err *err);
void http_events_deinit(struct http_events *e); /* after the multi handle */
void http_events_wake(struct http_events *e);   /* any thread */
/* Waits at most max_ms until something is ready, and lets libcurl handle it. */
void http_events_turn(struct http_events *e, int max_ms);

/* "GET host/path" for messages: no user, no query. */
void http_add_place(struct str *out, const char *method, const char *url);

#endif
