/* storage/bucket/https.c — files at https URLs, as a bucket with only get and head. A bucket is one
 * host; its keys are paths with queries.
 *
 * The version is the ETag, or else the date of the last change. Redirects are followed, at most
 * REDIRECTS_MAX, and never from https to http. If HEAD fails (unknown to the server, or a signature
 * for GET only), a GET of the first byte does instead.
 *
 * Gets go through ranged.c, retries through transfer.c. The other entries of the table are NULL:
 * origin/ calls nothing else of such a bucket (origin_in_bucket()).
 */
#include <stdio.h>
#include <stdlib.h>
#include "base/crypto/trust.h"
#include "base/mem.h"
#include "storage/bucket/internal.h"
#include "storage/bucket/ranged.h"
#include "storage/origin/internal.h"

#define REDIRECTS_MAX 10
#define URL_MAX       (8 * KIB)
#define CONNECTIONS   16 /* public servers dislike more from one client */
#define LAST_MODIFIED "last-modified:"

struct https {
	struct bucket base;
	struct http_client *http;
	struct transfer *transfer;
	atomic_bool no_ranges;
};

static struct https *https_of(struct bucket *b)
{
	return CONTAINER_OF(b, struct https, base);
}

/* URLs. */

static bool is_allowed(const char *url, bool from_https)
{
	return str_has_prefix(url, "https://") ||
	       (!from_https && str_has_prefix(url, "http://") && trust_is_loopback(url));
}

/* One request. */

struct https_call {
	const char *method, *key;
	const char *headers[4]; /* NULL-terminated */
	uint64_t max_bytes;
	int (*sink)(void *arg, const void *bytes, size_t n, struct err *err);
	size_t piece_bytes;
	void (*rewind)(void *arg);
	int (*check)(void *arg, const struct http_request *r, struct err *err);
	void *arg;
	bool enough; /* the sink stopped on purpose: no failure */
	struct http_request reply;
};

static void clear(struct https_call *c)
{
	http_request_deinit(&c->reply);
	memset(&c->reply, 0, sizeof(c->reply));
}

/* Sends the call to `start` and follows redirects. 0: the reply is no redirect, or reply.err is
 * set. */
static int send_along(struct https *h, struct https_call *c, const char *start, struct err *err)
{
	_cleanup_(freep) char *url = xstrdup(start);

	for (int i = 0; i <= REDIRECTS_MAX; i++) {
		char *next;

		clear(c);
		if (c->rewind)
			c->rewind(c->arg);
		c->reply.method = c->method;
		c->reply.url = url;
		c->reply.headers = c->headers;
		c->reply.body_fd = -1;
		c->reply.max_bytes = c->max_bytes;
		c->reply.sink = c->sink;
		c->reply.piece_bytes = c->piece_bytes;
		c->reply.arg = c->arg;
		http_do(h->http, &c->reply, NULL);
		if (c->enough && c->reply.err.code == ERR_CANCELLED)
			c->reply.err.code = ERR_NONE;
		next = c->reply.err.code || !http_is_redirect(c->reply.reply.status)
			       ? NULL
			       : http_location(&c->reply, url, URL_MAX);
		c->reply.url = NULL; /* `url` is freed soon */
		if (!next)
			return 0;
		if (!is_allowed(next, str_has_prefix(url, "https://"))) {
			free(next);
			return err_set(err, ERR_INVALID,
				       "it is redirected to an address that isn't https");
		}
		free(url);
		url = next;
	}
	return err_set(err, ERR_INVALID, "it is redirected again and again");
}

static int refused(const struct https_call *c, struct err *err)
{
	long s = c->reply.reply.status;

	if (c->reply.err.code)
		return err_pass(err, &c->reply.err);
	if (s == 404 || s == 410)
		return err_set(err, ERR_NOT_FOUND, "it does not exist (%ld)", s);
	if (s == 412)
		return err_set(err, ERR_CHANGED, "another version has taken its place");
	if (s == 401 || s == 403)
		return err_set(err, ERR_INVALID, "access is refused (%ld)", s);
	return err_set(err, http_is_transient(&c->reply) ? ERR_IO : ERR_INVALID,
		       "the server answered %ld", s);
}

/* 0: a 2xx answer; 1: 416; -1 */
static int send_call(struct https *h, struct https_call *c, struct err *err)
{
	_cleanup_(freep) char *url = xasprintf("%s%s", h->base.uri, c->key);
	int r;

	for (unsigned tries = 1;; tries++) {
		bool cut = false, transient;

		transfer_begin(h->transfer);
		r = send_along(h, c, url, err);
		transient = r == 0 && http_is_transient(&c->reply);
		if (r == 0 && !c->reply.err.code && c->reply.reply.status / 100 == 2 && c->check)
			cut = c->check(c->arg, &c->reply, err) < 0;
		transfer_end(h->transfer, transfer_throttled(c->reply.reply.status)
						  ? TRANSFER_THROTTLED
					  : transient || cut ? TRANSFER_FAILED
							     : TRANSFER_FINE);
		if (r < 0)
			return -1;
		if (!transient && !cut)
			break;
		if (!transfer_retry(h->transfer, tries, &c->reply))
			return cut ? -1 : refused(c, err);
	}
	if (!c->reply.err.code && c->reply.reply.status == 416)
		return 1;
	return c->reply.err.code || c->reply.reply.status / 100 != 2 ? refused(c, err) : 0;
}

/* Versions. */

/* "" when the server gives neither. */
static void version_of(const struct http_request *r, char out[RANGED_ETAG_MAX])
{
	_cleanup_(freep) char *etag = transfer_header(r, "ETag", RANGED_ETAG_MAX - 1);
	_cleanup_(freep) char *date =
		etag ? NULL
		     : transfer_header(r, "Last-Modified",
				       RANGED_ETAG_MAX - 1 - strlen(LAST_MODIFIED));

	if (etag)
		snprintf(out, RANGED_ETAG_MAX, "%s", etag);
	else if (date)
		snprintf(out, RANGED_ETAG_MAX, LAST_MODIFIED "%s", date);
	else
		out[0] = '\0';
}

/* The version as a condition that the server can check; NULL for a weak ETag. */
static char *condition(const char *version)
{
	if (!version || !*version || str_has_prefix(version, "W/"))
		return NULL;
	if (str_has_prefix(version, LAST_MODIFIED))
		return xasprintf("If-Unmodified-Since: %s", version + strlen(LAST_MODIFIED));
	return xasprintf("If-Match: %s", version);
}

/* Get. */

static int request(void *store, const struct bucket_get *g, struct ranged_part *p, struct err *err)
{
	struct https_call c = { .method = "GET",
				.key = g->key,
				.max_bytes = UINT64_MAX,
				.sink = p->sink,
				.piece_bytes = p->piece_bytes,
				.rewind = p->rewind,
				.check = p->check,
				.arg = p };
	_cleanup_(freep) char *range = p->range ? xasprintf("Range: %s", p->range) : NULL,
			      *match = condition(g->version);
	size_t n = 0;
	int r;

	c.headers[n++] = "Accept-Encoding: identity";
	if (range)
		c.headers[n++] = range;
	if (match)
		c.headers[n++] = match;
	p->reply = &c.reply;
	r = send_call(store, &c, err);
	if (r == 0) {
		version_of(&c.reply, p->etag);
		if (g->version && *g->version && !str_eq(g->version, p->etag))
			r = err_set(err, ERR_CHANGED, "another version has taken its place");
	}
	clear(&c);
	return r;
}

static int https_get_many(struct bucket *b, struct bucket_get *const *v, size_t n, struct err *err)
{
	struct https *h = https_of(b);
	struct ranged ranged = { .request = request, .store = h, .no_ranges = &h->no_ranges };

	ranged_get_many(&ranged, transfer_threads(h->transfer), v, n);
	return 0;
}

/* Head. */

static int stop_here(void *arg, const void *bytes, size_t n, struct err *err)
{
	return err_set(err, ERR_CANCELLED, "that is enough");
}

static uint64_t size_of(const struct http_request *r, bool part)
{
	_cleanup_(freep) char *range = part ? transfer_header(r, "Content-Range", 128) : NULL;
	uint64_t first, last, total;

	if (range && transfer_parse_range(range, &first, &last, &total))
		return total;
	return (part && r->reply.status == 206) || !transfer_length(r, &total) ? UINT64_MAX : total;
}

static int https_head(struct bucket *b, const char *key, struct bucket_object *ret,
		      struct str *strings, struct err *err)
{
	struct https_call c = { .method = "HEAD",
				.key = key,
				.headers = { "Accept-Encoding: identity" } };
	char version[RANGED_ETAG_MAX];
	struct err e = { 0 };
	int r = send_call(https_of(b), &c, &e);
	size_t empty, at;
	long status = c.reply.reply.status;
	bool again = r < 0 && !c.reply.err.code &&
		     (status == 400 || status == 403 || status == 405 || status == 501);

	if (again) {
		clear(&c);
		c = (struct https_call){ .method = "GET",
					 .key = key,
					 .headers = { "Accept-Encoding: identity",
						      "Range: bytes=0-0" },
					 .sink = stop_here,
					 .enough = true,
					 .max_bytes = UINT64_MAX };
		r = send_call(https_of(b), &c, &e);
	}
	if (r == 0 || (r == 1 && again)) { /* 416: the object is empty */
		version_of(&c.reply, version);
		empty = bucket_add_string(strings, "");
		at = bucket_add_string(strings, version);
		*ret = (struct bucket_object){ .key = key,
					       .size = r ? 0 : size_of(&c.reply, again),
					       .etag = strings->s + at };
		ret->version = ret->encoding = strings->s + empty;
	}
	clear(&c);
	return r < 0 ? err_pass(err, &e) : 0;
}

/* Life. */

static void https_free(struct bucket *b)
{
	struct https *h = https_of(b);

	http_client_free(h->http);
	transfer_free(h->transfer);
	free(h);
}

static const struct bucket_ops https_ops = { .get_many = https_get_many,
					     .head = https_head,
					     .free = https_free };

int bucket_https_open(const char *uri, const struct bucket_options *o, struct bucket **ret,
		      struct err *err)
{
	struct http_options ho = { .max_connections = CONNECTIONS };
	struct https *h;

	if (!is_allowed(uri, false))
		return err_set(err, ERR_INVALID,
			       "only https:// is fetched from other machines; http:// from this "
			       "one alone");
	h = xcalloc(1, sizeof(*h));
	if (http_client_new(&ho, &h->http, err) < 0) {
		free(h);
		return -1;
	}
	h->transfer = transfer_new(CONNECTIONS, o->tries);
	h->base = (struct bucket){
		.ops = &https_ops, .uri = xstrdup(uri), .name = xstrdup(uri), .prefix = xstrdup("")
	};
	*ret = &h->base;
	return 0;
}
