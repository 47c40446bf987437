/* storage/bucket/s3/client.c — sends a request to S3: URL, headers, signature, retries and
 * corrections.
 *
 * A try ends in one of four ways: done; refused for good; retried after a wait (transient,
 * throttled); or retried at once, because the answer corrected our region, clock or credentials. A
 * call makes at most CORRECTIONS_MAX such corrections, so that no server can keep us in a loop.
 *
 * The body is hashed once per call, and again when the server reports wrong bytes. Each try has its
 * own `struct attempt`, because date, region and credentials may have changed; the request borrows
 * from it. A refused HEAD has no body with a reason, so learn_why() sends a GET of one byte.
 *
 * s->lock guards region, skew_ns and settled. Callers send from many threads; transfer.c limits how
 * many requests run. error.c explains refusals.
 */
#include "storage/bucket/s3/client.h"

#include <stdio.h>
#include <strings.h>
#include "base/text/text.h"

#define CORRECTIONS_MAX 4
#define HASH_PIECE      (256 * KIB)
#define EXPECT_BYTES                                                                         \
	MIB /* bodies this large wait for 100 Continue until a request has succeeded on this \
	       bucket */

long s3_status(const struct s3_call *c)
{
	return c->reply.err.code ? 0 : c->reply.reply.status;
}

void s3_call_deinit(struct s3_call *c)
{
	http_request_deinit(&c->reply);
}

/* Building a request. */

/* One try: everything that the request borrows. */
struct attempt {
	struct credentials who;
	char *region;
	int64_t time_ns;
	struct str host, path, url, authorization;
	VEC(char *) lines;
	VEC(const char *) headers;
};

static void attempt_deinit(struct attempt *a)
{
	credentials_deinit(&a->who);
	free(a->region);
	str_deinit(&a->host);
	str_deinit(&a->path);
	str_deinit(&a->url);
	str_wipe(&a->authorization);
	for (size_t i = 0; i < a->lines.n; i++)
		free(a->lines.v[i]);
	VEC_FREE(&a->lines);
	VEC_FREE(&a->headers);
}

static void make_url(struct s3 *s, const struct s3_call *c, struct attempt *a)
{
	if (s->virtual_host)
		str_addf(&a->host, "%s.", s->base.name);
	if (s->aws)
		str_addf(&a->host, "s3.%s.%s", a->region,
			 str_has_prefix(a->region, "cn-") ? "amazonaws.com.cn" : "amazonaws.com");
	else
		str_add(&a->host, s->host);
	str_addf(&a->path, "%s/", s->base_path ? s->base_path : "");
	if (!s->virtual_host) {
		http_escape(&a->path, s->base.name, strlen(s->base.name), false);
		if (c->key)
			str_addc(&a->path, '/');
	}
	if (c->key)
		http_escape(&a->path, c->key, strlen(c->key), true);
	str_addf(&a->url, "%s://%s%s%s%s", s->scheme, a->host.s, a->path.s, c->query ? "?" : "",
		 c->query ? c->query : "");
}

static void add_line(struct attempt *a, const char *name, const char *value)
{
	VEC_PUSH(&a->lines, xasprintf("%s: %s", name, value));
}

static void sign(const struct s3_call *c, struct attempt *a, const char *hash)
{
	struct sigv4_header h[SIGV4_HEADERS_MAX];
	char date[SIGV4_DATE_BYTES];
	size_t n = 0;

	sigv4_date(a->time_ns, date);
	h[n++] = (struct sigv4_header){ "host", a->host.s };
	h[n++] = (struct sigv4_header){ "x-amz-content-sha256", hash };
	h[n++] = (struct sigv4_header){ "x-amz-date", date };
	if (a->who.token)
		h[n++] = (struct sigv4_header){ "x-amz-security-token", a->who.token };
	for (size_t i = 0; i < c->n_headers; i++)
		h[n++] = c->headers[i];
	if (a->who.key_id) {
		struct sigv4_request q = { .method = c->method,
					   .path = a->path.s,
					   .query = c->query,
					   .headers = h,
					   .n_headers = n,
					   .payload_hash = hash,
					   .region = a->region,
					   .service = "s3",
					   .key_id = a->who.key_id,
					   .secret = a->who.secret,
					   .time_ns = a->time_ns };

		sigv4_authorization(&q, &a->authorization);
		add_line(a, "Authorization", a->authorization.s);
		for (size_t i = 1; i < n; i++)
			add_line(a, h[i].name, h[i].value);
	} else {
		for (size_t i = 0; i < c->n_headers; i++)
			add_line(a, c->headers[i].name, c->headers[i].value);
	}
	for (size_t i = 0; i < a->lines.n; i++)
		VEC_PUSH(&a->headers, a->lines.v[i]);
	VEC_PUSH(&a->headers, NULL);
}

static int make_attempt(struct s3 *s, const struct s3_call *c, const char *hash,
			const char *refused_key_id, struct attempt *a, struct err *err)
{
	struct clock *clock = clock_system();

	if (s->chain && credentials_get(s->chain, refused_key_id, &a->who, err) < 0)
		return -1;
	if (s->plain && a->who.token) /* an eavesdropper could use the token; a signature alone is
					 useless to him */
		return err_set(
			err, ERR_INVALID,
			"the endpoint http://%s must be https: requests carry a session token",
			s->host);
	pthread_mutex_lock(&s->lock);
	a->region = xstrdup(s->region);
	a->time_ns = clock->wall_ns(clock) - s->skew_ns;
	pthread_mutex_unlock(&s->lock);
	make_url(s, c, a);
	sign(c, a, hash);
	return 0;
}

static int hash_body(const struct s3_call *c, char hex[DIGEST_HEX_MAX], struct err *err)
{
	struct digester *d = digester_new();
	struct digest digest;
	int r = 0;

	if (c->body_fd >= 0) {
		_cleanup_(freep) char *piece = xmalloc(HASH_PIECE);

		for (uint64_t done = 0; done < c->body_len && r == 0;) {
			ssize_t n = pread(c->body_fd, piece, MIN(HASH_PIECE, c->body_len - done),
					  (off_t)(c->body_offset + done));

			if (n > 0)
				digester_update(d, piece, (size_t)n);
			else
				r = n < 0 ? err_errno(err, "reading what is sent")
					  : err_set(err, ERR_CHANGED,
						    "the file got shorter while it was sent");
			done += n > 0 ? (uint64_t)n : 0;
		}
	} else if (c->body_len) {
		digester_update(d, c->body, c->body_len);
	}
	digester_final(d, &digest);
	digester_free(d);
	if (c->wrong_hash)
		digest.b[0] ^= 1;
	digest_hex(&digest, hex);
	return r;
}

/* What an answer means. */

static bool code_is(const struct s3_call *c, const char *const *codes)
{
	for (; *codes; codes++)
		if (str_eq(*codes, c->error.code))
			return true;
	return false;
}

bool s3_code_transient(const char *code)
{
	static const char *const codes[] = {
		"SlowDown",
		"SlowDownRead",
		"SlowDownWrite",
		"ServiceUnavailable",
		"InternalError",
		"InternalErrors",
		"RequestTimeout",
		"Throttling",
		"ThrottlingException",
		"RequestLimitExceeded",
		"RequestThrottled",
		"BandwidthLimitExceeded",
		"OperationAborted",
		"ConditionalRequestConflict",
		"Busy",
		"TooManyRequests",
		"IncompleteBody",
		"XAmzContentSHA256Mismatch",
		"BadDigest",
		"ServerBusy",
		"XMinioServerNotInitialized",
		NULL,
	};

	for (const char *const *p = codes; *p; p++)
		if (str_eq(*p, code))
			return true;
	return false;
}

/* Takes the bucket's region from the answer, if it differs. */
static bool correct_region(struct s3 *s, const struct s3_call *c, const char *used)
{
	_cleanup_(freep) char *header = transfer_header(&c->reply, "x-amz-bucket-region", 64);
	const char *named = header && *header ? header : c->error.region;
	bool changed;

	if (!*named || strspn(named, "abcdefghijklmnopqrstuvwxyz0123456789-") != strlen(named) ||
	    str_eq(named, used))
		return false;
	pthread_mutex_lock(&s->lock);
	changed = !str_eq(s->region, named);
	if (changed) {
		free(s->region);
		s->region = xstrdup(named);
	}
	pthread_mutex_unlock(&s->lock);
	return true;
}

static bool correct_clock(struct s3 *s, const struct s3_call *c, int64_t signed_ns)
{
	struct clock *clock = clock_system();

	/* Within a minute of the signed time: the clock isn't the reason. */
	if (!c->server_ns || llabs(c->server_ns - signed_ns) < 60 * NS_PER_S)
		return false;
	pthread_mutex_lock(&s->lock);
	s->skew_ns = clock->wall_ns(clock) - c->server_ns;
	pthread_mutex_unlock(&s->lock);
	return true;
}

enum verdict { DONE, REFUSED, WAIT, AGAIN, AGAIN_CREDENTIALS };

static enum verdict judge_refusal(struct s3 *s, struct s3_call *c, const struct attempt *a)
{
	static const char *const clock_codes[] = { "RequestTimeTooSkewed", "RequestExpired", NULL };
	static const char *const old_codes[] = { "ExpiredToken",         "ExpiredTokenException",
						 "TokenRefreshRequired", "InvalidToken",
						 "InvalidAccessKeyId",   NULL };
	static const char *const region_codes[] = { "AuthorizationHeaderMalformed",
						    "PermanentRedirect",
						    "TemporaryRedirect",
						    "Redirect",
						    "IllegalLocationConstraintException",
						    "InvalidRegion",
						    NULL };
	long status = s3_status(c);

	if (status == 301 || status == 307 || status == 400 || code_is(c, region_codes))
		if (correct_region(s, c, a->region))
			return AGAIN;
	if (code_is(c, clock_codes) && correct_clock(s, c, a->time_ns))
		return AGAIN;
	if (c->wrong_hash && status < 500)
		return REFUSED;
	if (code_is(c, old_codes) && a->who.key_id)
		return AGAIN_CREDENTIALS;
	if (s3_code_transient(c->error.code) ||
	    (!c->error.code[0] && http_is_transient(&c->reply)) ||
	    (status >= 500 && status != 501 && status != 507))
		return WAIT;
	return REFUSED;
}

static enum verdict judge(struct s3 *s, struct s3_call *c, const struct attempt *a)
{
	long status = s3_status(c);
	const char *date;
	size_t n;

	memset(&c->error, 0, sizeof(c->error));
	if (c->reply.err.code)
		return http_is_transient(&c->reply) ? WAIT : REFUSED;
	date = http_header(&c->reply, "Date", &n);
	if (!date || !http_parse_date(date, n, &c->server_ns))
		c->server_ns = 0;
	if (status >= 200 && status < 300) {
		if ((c->error_in_200 || !str_eq(c->method, "GET")) &&
		    xml_read_error(c->reply.reply.body.s, c->reply.reply.body.len, &c->error))
			return s3_code_transient(c->error.code) ? WAIT : REFUSED;
		if (c->check && c->check(c->arg, &c->reply, &c->reply.err) < 0)
			return WAIT;
		return DONE;
	}
	xml_read_error(c->reply.reply.body.s, c->reply.reply.body.len, &c->error);
	return judge_refusal(s, c, a);
}

/* A HEAD has no body. The same request as a GET of one byte tells why it was refused. */
static void learn_why(struct s3 *s, struct s3_call *c, const struct attempt *a)
{
	struct s3_call get = { .method = "GET",
			       .key = c->key,
			       .query = c->query,
			       .body_fd = -1,
			       .headers = (struct sigv4_header[]){ { "range", "bytes=0-0" } },
			       .n_headers = 1 };
	struct attempt again = { .region = xstrdup(a->region), .time_ns = a->time_ns };
	char hash[DIGEST_HEX_MAX];
	struct err ignored = { 0 };

	if (hash_body(&get, hash, &ignored) == 0) {
		if (a->who.key_id)
			credentials_copy(&again.who, &a->who);
		make_url(s, &get, &again);
		sign(&get, &again, hash);
		get.reply = (struct http_request){ .method = "GET",
						   .url = again.url.s,
						   .headers = again.headers.v,
						   .body_fd = -1,
						   .max_bytes = MIB };
		if (http_do(s->http, &get.reply, &ignored) == 0 &&
		    get.reply.reply.status == c->reply.reply.status)
			xml_read_error(get.reply.reply.body.s, get.reply.reply.body.len, &c->error);
	}
	s3_call_deinit(&get);
	attempt_deinit(&again);
}

/* Sending. */

static void set_request(struct s3 *s, struct s3_call *c, const struct attempt *a)
{
	bool settled;

	pthread_mutex_lock(&s->lock);
	settled = s->settled;
	pthread_mutex_unlock(&s->lock);
	http_request_deinit(&c->reply);
	c->reply = (struct http_request){
		.method = c->method,
		.url = a->url.s,
		.headers = a->headers.v,
		.body = c->body_fd >= 0 ? NULL : c->body,
		.body_len = c->body_len,
		.body_fd = c->body_fd,
		.body_offset = c->body_offset,
		.expect_continue = !settled && c->body_len >= EXPECT_BYTES,
		.max_bytes = c->max_bytes,
		.sink = c->sink,
		.piece_bytes = c->piece_bytes,
		.arg = c->arg,
		.fresh_connection = c->tries > 0 && c->reply.err.code,
	};
}

static void note_settled(struct s3 *s)
{
	pthread_mutex_lock(&s->lock);
	s->settled = true;
	pthread_mutex_unlock(&s->lock);
}

/* Until a request has succeeded, also asks for the reason of a 404: versitygw answers so when it
 * doesn't know our access key. */
static bool wants_reason(struct s3 *s, const struct s3_call *c)
{
	long status = s3_status(c);
	bool settled;

	pthread_mutex_lock(&s->lock);
	settled = s->settled;
	pthread_mutex_unlock(&s->lock);
	return status == 400 || status == 403 || (status == 404 && !settled);
}

/* One try. The request borrows from `a`, which this frees. */
static enum verdict try_once(struct s3 *s, struct s3_call *c, struct attempt *a)
{
	enum verdict v;

	if (c->rewind)
		c->rewind(c->arg);
	set_request(s, c, a);
	transfer_begin(s->transfer);
	http_do(s->http, &c->reply, NULL);
	if (s3_status(c))
		atomic_store(&s->base.answered, true);
	v = judge(s, c, a);
	transfer_end(s->transfer, v == DONE ? TRANSFER_FINE
				  : v == WAIT && transfer_throttled(s3_status(c))
					  ? TRANSFER_THROTTLED
					  : TRANSFER_FAILED);
	if (v == REFUSED && str_eq(c->method, "HEAD") && wants_reason(s, c)) {
		learn_why(s, c, a);
		v = judge_refusal(s, c, a);
		if (str_eq(c->error.code, "NoSuchKey"))
			note_settled(s);
	}
	if (v == WAIT && (c->reply.err.code || s3_status(c) >= 500))
		c->maybe_applied = true;
	if (v == DONE)
		note_settled(s);
	c->reply.url = NULL;
	c->reply.headers = NULL;
	c->tries++;
	return v;
}

int s3_send(struct s3 *s, struct s3_call *c, struct err *err)
{
	_cleanup_(freep) char *refused = NULL;
	char hash[DIGEST_HEX_MAX];
	unsigned corrections = 0;

	c->tries = 0;
	c->maybe_applied = false;
	if (hash_body(c, hash, err) < 0)
		return -1;
	for (;;) {
		struct attempt a = { 0 };
		enum verdict v;

		if (bucket_may_put(c->may, c->may_arg, c->key, err) < 0)
			return -1;
		if (make_attempt(s, c, hash, refused, &a, err) < 0) {
			attempt_deinit(&a);
			return -1;
		}
		v = try_once(s, c, &a);
		free(refused);
		text_hide(c->error.message, a.who.token);
		text_hide(c->error.message,
			  a.who.secret); /* the secret isn't sent, but the server may know it */
		refused = v == AGAIN_CREDENTIALS ? xstrdup(a.who.key_id) : NULL;
		attempt_deinit(&a);
		if (v == DONE)
			return 0;
		if (v == REFUSED || (v != WAIT && ++corrections > CORRECTIONS_MAX))
			return s3_error(s, c, err);
		if (v == WAIT && (!bucket_may_retry(&s->base, c->tries, &c->reply) ||
				  !transfer_retry(s->transfer, c->tries, &c->reply)))
			return s3_error(s, c, err);
		if (v == WAIT &&
		    (str_eq(c->error.code, "BadDigest") ||
		     str_eq(c->error.code, "XAmzContentSHA256Mismatch")) &&
		    hash_body(c, hash, err) < 0)
			return -1;
	}
}
