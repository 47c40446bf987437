/* storage/bucket/gcs/client.c — sends a request to Google Cloud Storage with token and retries,
 * explains errors, and opens a bucket.
 *
 * gcs_send() repeats try_once() until judge() says that it is done or refused. After a 401 it gets
 * one new token; after throttled and failed requests it waits as transfer.h says. `maybe_applied`
 * notes that an earlier try may have had its effect, for requests that aren't idempotent. A token
 * that the server echoes is hidden from messages.
 *
 * Every request carries a token, so an endpoint without TLS is refused unless it is this machine.
 * An emulator (STORAGE_EMULATOR_HOST) gets no token. Objects are in object.c, uploads in put.c,
 * tokens in token.c.
 */
#include "storage/bucket/gcs/client.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include "base/crypto/trust.h"
#include "base/os/fs.h"
#include "base/text/json.h"
#include "base/text/text.h"

#define HEADERS_MAX 8

long gcs_status(const struct gcs_call *c)
{
	return c->reply.err.code ? 0 : c->reply.reply.status;
}

void gcs_call_deinit(struct gcs_call *c)
{
	http_request_deinit(&c->reply);
}

void gcs_object_url(const struct gcs *g, const char *key, struct str *out)
{
	str_addf(out, "%s/storage/v1/b/", g->endpoint);
	http_escape(out, g->base.name, strlen(g->base.name), false);
	str_add(out, "/o");
	if (key) {
		str_addc(out, '/');
		http_escape(out, key, strlen(key), false);
	}
}

void gcs_add_param(struct str *url, const char *name, const char *value)
{
	str_addf(url, "%c%s=", strchr(url->s, '?') ? '&' : '?', name);
	http_escape(url, value, strlen(value), false);
}

/* Answers. */

static void copy_printable(char *out, size_t size, const char *text)
{
	struct str s = { 0 };

	text_add_printable(&s, text, strnlen(text, size / 4)); /* one byte becomes at most four */
	snprintf(out, size, "%s", s.s ? s.s : "");
	str_deinit(&s);
}

/* {"error": {"code": 403, "message": "…", "errors": [{"reason": "…"}]}} */
static void read_error(struct gcs_call *c)
{
	const struct str *body = &c->reply.reply.body;
	json_t *j = NULL, *e, *first;
	const char *message = "", *reason = "";

	memset(&c->error, 0, sizeof(c->error));
	if (!body->len || json_parse("error", body->s, body->len, &j, NULL) < 0)
		return;
	e = json_object_get(j, "error");
	first = json_array_get(json_object_get(e, "errors"), 0);
	if (json_is_object(e))
		json_get_str_opt(e, "message", "", &message, NULL);
	if (json_is_object(first))
		json_get_str_opt(first, "reason", "", &reason, NULL);
	copy_printable(c->error.message, sizeof(c->error.message), message);
	copy_printable(c->error.reason, sizeof(c->error.reason), reason);
	json_decref(j);
}

static int say(const struct gcs *g, const struct gcs_call *c, enum err_code kind, const char *text,
	       struct err *err)
{
	const char *key = c->key ? c->key : "";

	if (c->error.message[0])
		return err_set(err, kind, "gs://%s/%s: %s (status %ld: %s)", g->base.name, key,
			       text, c->reply.reply.status, c->error.message);
	return err_set(err, kind, "gs://%s/%s: %s (status %ld)", g->base.name, key, text,
		       c->reply.reply.status);
}

int gcs_error(const struct gcs *g, const struct gcs_call *c, struct err *err)
{
	if (c->reply.err.code) {
		if (err)
			*err = c->reply.err;
		return err_wrap(err, "gs://%s/%s", g->base.name, c->key ? c->key : "");
	}
	switch (c->reply.reply.status) {
	case 401:
		return say(g, c, ERR_INVALID,
			   "the credentials are refused: check GOOGLE_APPLICATION_CREDENTIALS, or "
			   "run `gcloud auth application-default login`",
			   err);
	case 403:
		if (strstr(c->error.reason, "uota") || strstr(c->error.reason, "storageLimit"))
			return say(g, c, ERR_NO_SPACE, "a quota is used up", err);
		if (!g->tokens)
			return say(g, c, ERR_INVALID, "this isn't public: credentials are needed",
				   err);
		return str_eq(c->method, "GET")
			       ? say(g, c, ERR_INVALID, "these credentials may not read here", err)
			       : say(g, c, ERR_READ_ONLY, "these credentials may not write here",
				     err);
	case 404:
		return say(g, c, ERR_NOT_FOUND,
			   c->key ? "it doesn't exist"
				  : "the bucket doesn't exist: check its name, or make it",
			   err);
	case 412:
	case 304:
		return say(g, c, ERR_CHANGED, "another version has taken its place", err);
	case 413:
		return say(g, c, ERR_TOO_LARGE, "the object is larger than the server accepts",
			   err);
	default:
		return http_is_transient(&c->reply)
			       ? say(g, c, ERR_IO, "the server fails, also after several tries",
				     err)
			       : say(g, c, ERR_INVALID, "the server refuses the request", err);
	}
}

/* Sending. */

enum verdict { DONE, REFUSED, WAIT, AGAIN_TOKEN };

static bool rate_limited(const struct gcs_call *c)
{
	return str_eq(c->error.reason, "rateLimitExceeded") ||
	       str_eq(c->error.reason, "userRateLimitExceeded");
}

static enum verdict judge(struct gcs *g, struct gcs_call *c)
{
	long status = gcs_status(c);
	size_t n;
	const char *date;

	if (c->reply.err.code)
		return http_is_transient(&c->reply) ? WAIT : REFUSED;
	date = http_header(&c->reply, "Date", &n);
	if (!date || !http_parse_date(date, n, &c->server_ns))
		c->server_ns = 0;
	if ((status >= 200 && status < 300) || (status == 308 && c->accept_308)) {
		if (status < 300 && c->check && c->check(c->arg, &c->reply, &c->reply.err) < 0)
			return WAIT;
		return DONE;
	}
	read_error(c);
	if (status == 401 && g->tokens)
		return AGAIN_TOKEN;
	return http_is_transient(&c->reply) || rate_limited(c) ? WAIT : REFUSED;
}

static void set_request(struct gcs_call *c, const char *authorization,
			const char *headers[HEADERS_MAX])
{
	bool failed = c->reply.err.code != ERR_NONE;
	size_t n = 0;

	if (authorization)
		headers[n++] = authorization;
	for (const char *const *p = c->headers; p && *p && n < HEADERS_MAX - 1; p++)
		headers[n++] = *p;
	headers[n] = NULL;
	http_request_deinit(&c->reply);
	c->reply = (struct http_request){
		.method = c->method,
		.url = c->url,
		.headers = headers,
		.body = c->body_fd >= 0 ? NULL : c->body,
		.body_len = c->body_len,
		.body_fd = c->body_fd,
		.body_offset = c->body_offset,
		.max_bytes = c->max_bytes,
		.sink = c->sink,
		.piece_bytes = c->piece_bytes,
		.arg = c->arg,
		.fresh_connection = failed,
	};
}

static enum verdict try_once(struct gcs *g, struct gcs_call *c, const char *token)
{
	_cleanup_(freep) char *authorization =
		token ? xasprintf("Authorization: Bearer %s", token) : NULL;
	const char *headers[HEADERS_MAX];
	enum verdict v;

	if (c->rewind)
		c->rewind(c->arg);
	set_request(c, authorization, headers);
	transfer_begin(g->transfer);
	http_do(g->http, &c->reply, NULL);
	if (gcs_status(c))
		atomic_store(&g->base.answered, true);
	v = judge(g, c);
	transfer_end(g->transfer,
		     v == DONE ? TRANSFER_FINE
		     : v == WAIT && (transfer_throttled(gcs_status(c)) || rate_limited(c))
			     ? TRANSFER_THROTTLED
			     : TRANSFER_FAILED);
	if (v == WAIT && (c->reply.err.code || gcs_status(c) >= 500))
		c->maybe_applied = true;
	c->reply.url = NULL;
	c->reply.headers = NULL;
	c->tries++;
	if (authorization)
		OPENSSL_cleanse(authorization, strlen(authorization));
	return v;
}

int gcs_send(struct gcs *g, struct gcs_call *c, struct err *err)
{
	_cleanup_(freep) char *refused = NULL;

	c->tries = 0;
	c->maybe_applied = false;
	for (;;) {
		_cleanup_(freep) char *token = NULL;
		enum verdict v;

		if (bucket_may_put(c->may, c->may_arg, c->key, err) < 0)
			return -1;
		if (g->tokens && token_get(g->tokens, refused, &token, err) < 0)
			return -1;
		v = try_once(g, c, token);
		text_hide(c->error.message, token);
		text_hide(c->error.reason, token);
		if (v == DONE)
			return 0;
		if (v == REFUSED || c->once || (v == AGAIN_TOKEN && refused))
			return gcs_error(g, c, err);
		if (v == AGAIN_TOKEN)
			refused = TAKE_PTR(token);
		else if (!bucket_may_retry(&g->base, c->tries, &c->reply) ||
			 !transfer_retry(g->transfer, c->tries, &c->reply))
			return gcs_error(g, c, err);
	}
}

/* Objects. */

int gcs_read_object(const json_t *j, struct gcs_object *ret, struct err *err)
{
	const char *size, *updated, *type;
	int64_t n;

	*ret = (struct gcs_object){ 0 };
	if (!json_is_object(j))
		return err_set(err, ERR_CORRUPT, "an object's resource is no JSON object");
	if (json_get_str(j, "name", &ret->name, err) < 0 ||
	    json_get_str_opt(j, "size", "0", &size, err) < 0 ||
	    json_get_str_opt(j, "etag", "", &ret->etag, err) < 0 ||
	    json_get_str_opt(j, "generation", "", &ret->generation, err) < 0 ||
	    json_get_str_opt(j, "updated", NULL, &updated, err) < 0 ||
	    json_get_str_opt(j, "crc32c", NULL, &ret->crc32c, err) < 0)
		return err_wrap(err, "an object's resource");
	if (!text_parse_int(size, &n) || n < 0)
		return err_set(err, ERR_CORRUPT, "an object's size is no number");
	ret->size = (uint64_t)n;
	ret->encoding = json_string_value(
		json_object_get(json_object_get(j, "metadata"), GCS_ENCODING_KEY));
	type = json_string_value(json_object_get(j, "contentType"));
	if (!ret->encoding)
		ret->encoding = type && str_has_prefix(type, GCS_ENCODED_TYPE)
					? type + strlen(GCS_ENCODED_TYPE)
					: "";
	return updated ? text_parse_time(updated, &ret->mtime_ns, err) : 0;
}

/* Opening. */

static int fetch(void *arg, struct http_request *r, struct err *err)
{
	struct gcs *g = arg;

	return http_do(str_has_prefix(r->url, "http://") ? g->near : g->http, r, err);
}

static void gcs_free(struct bucket *b)
{
	struct gcs *g = CONTAINER_OF(b, struct gcs, base);

	free(g->uploads_dir);
	http_client_free(g->http);
	http_client_free(g->near);
	transfer_free(g->transfer);
	token_source_free(g->tokens);
	free(g->endpoint);
	free(g);
}

static const struct bucket_ops gcs_ops = {
	.put_many = gcs_put_many,
	.get_many = gcs_get_many,
	.head_many = gcs_head_many,
	.head = gcs_head,
	.delete_many = gcs_delete_many,
	.delete_if = gcs_delete_if,
	.list = gcs_list,
	.abort_stale = gcs_abort_stale,
	.probe = gcs_probe,
	.free = gcs_free,
};

static int set_endpoint(struct gcs *g, const struct bucket_options *o, struct err *err)
{
	const char *emulator = getenv("STORAGE_EMULATOR_HOST"),
		   *v = o->endpoint && *o->endpoint ? o->endpoint : NULL;

	if (!v && emulator && *emulator) {
		v = emulator;
		g->emulator = true;
	}
	if (!v)
		g->endpoint = xstrdup("https://storage"
				      "."
				      "googleapis.com");
	else if (strstr(v, "://"))
		g->endpoint = xstrdup(v);
	else
		g->endpoint = xasprintf("http://%s", v);
	while (str_has_suffix(g->endpoint, "/"))
		g->endpoint[strlen(g->endpoint) - 1] = '\0';
	if ((!str_has_prefix(g->endpoint, "http://") && !str_has_prefix(g->endpoint, "https://")) ||
	    strpbrk(g->endpoint, "@?# \t\r\n"))
		return err_set(err, ERR_INVALID,
			       "the endpoint of Google Cloud Storage must be http:// or https://, "
			       "a host, and perhaps a port and a path");
	return 0;
}

static int set_up(struct gcs *g, const struct bucket_options *o, struct err *err)
{
	struct http_options far = { .ca_file = o->ca_file, .max_connections = o->max_connections };
	struct http_options near = { .proxy = "",
				     .max_connections = 2,
				     .connect_timeout_ns = 2 * NS_PER_S };
	struct token_options to = { .fetch = fetch, .arg = g };

	if (set_endpoint(g, o, err) < 0 || http_client_new(&far, &g->http, err) < 0 ||
	    http_client_new(&near, &g->near, err) < 0)
		return -1;
	g->uploads_dir = o->uploads_dir ? xstrdup(o->uploads_dir) : NULL;
	g->transfer = transfer_new(o->max_connections, o->tries);
	if (!o->anonymous && !g->emulator)
		g->tokens = token_source_new(&to);
	if (g->tokens && o->endpoint && *o->endpoint && !o->endpoint_given &&
	    trust_check_endpoint(o->endpoint, err) < 0)
		return -1;
	/* Every request carries a token: plain http only to this machine. */
	if (g->tokens && str_has_prefix(g->endpoint, "http://") && !trust_is_loopback(g->endpoint))
		return err_set(err, ERR_INVALID,
			       "the endpoint %s must be https: requests carry a token",
			       g->endpoint);
	return 0;
}

int bucket_gcs_open(const char *uri, const struct bucket_options *o, struct bucket **ret,
		    struct err *err)
{
	struct gcs *g = xcalloc(1, sizeof(*g));

	g->base.ops = &gcs_ops;
	if (bucket_base_init(&g->base, uri, "gs://", err) < 0 || set_up(g, o, err) < 0) {
		bucket_base_deinit(&g->base);
		gcs_free(&g->base);
		return err_wrap(err, "%s", uri);
	}
	*ret = &g->base;
	return 0;
}
