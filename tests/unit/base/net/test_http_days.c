/* Bad days: what a client makes of servers that reset, stall, lie or never answer. */
#include "core/seeds.h"
#include "unit/base/net/http_server.h"

static const struct day {
	const char *name;
	enum err_code code; /* 0: an answer of this status */
	long status;
	const char *words;
} days[] = {
	{ "reset-accept", ERR_IO, 0, "reset" },
	{ "reset-start", ERR_IO, 0, "reset" },
	{ "reset-status", ERR_IO, 0, "reset" },
	{ "reset-headers", ERR_IO, 0, "reset" },
	{ "reset-body", ERR_IO, 0, "reset" },
	{ "reset-end", ERR_IO, 0, "reset" },
	{ "close-start", ERR_IO, 0, "Empty reply" },
	{ "close-status", ERR_IO, 0, "" },
	{ "close-headers", ERR_IO, 0, "ended in the answer's headers" },
	{ "close-body", ERR_IO, 0, "500 bytes remaining" },
	{ "close-end", ERR_IO, 0, "1 bytes remaining" },
	{ "length-over", ERR_IO, 0, "too slow" },
	{ "length-over-close", ERR_IO, 0, "1000 bytes remaining" },
	{ "length-under", 0, 200, NULL },
	{ "length-negative", ERR_INVALID, 0, "not HTTP" },
	{ "length-words", ERR_INVALID, 0, "not HTTP" },
	{ "length-huge", ERR_TOO_LARGE, 0, "over 1048576 bytes" },
	{ "length-twice", ERR_INVALID, 0, "two lengths" },
	{ "length-none", 0, 200, NULL },
	{ "length-none-reset", ERR_IO, 0, "reset" },
	{ "chunked", 0, 200, NULL },
	{ "chunked-garbage", ERR_IO, 0, "chunked" },
	{ "chunked-huge", ERR_IO, 0, "chunked" },
	{ "chunked-no-end", ERR_IO, 0, "outstanding" },
	{ "chunked-trailer", 0, 200, NULL },
	{ "chunked-trailers", ERR_TOO_LARGE, 0, "over 256 KiB" },
	{ "endless-headers", ERR_TOO_LARGE, 0, "over 256 KiB" },
	{ "endless-header", ERR_TOO_LARGE, 0, "too long" },
	{ "endless-body", ERR_TOO_LARGE, 0, "over 1048576 bytes" },
	{ "endless-error", ERR_TOO_LARGE, 0, "over 1048576 bytes" },
	{ "endless-continue", ERR_TOO_LARGE, 0, "over 256 KiB" },
	{ "loris-headers", ERR_IO, 0, "too slow" },
	{ "loris-body", ERR_IO, 0, "too slow" },
	{ "hold-start", ERR_IO, 0, "too slow" },
	{ "hold-headers", ERR_IO, 0, "too slow" },
	{ "hold-body", ERR_IO, 0, "too slow" },
	{ "hold-read", ERR_IO, 0, "too slow" },
	{ "early-403", 0, 403, NULL },
	{ "closes", 0, 200, NULL },
	{ "resets-after", 0, 200, NULL },
	{ "redirect", 0, 301, NULL },
	{ "slow-down", 0, 503, NULL },
	{ "error-200", 0, 200, NULL },
	{ "not-http", ERR_INVALID, 0, "not HTTP" },
	{ "http09", ERR_INVALID, 0, "not HTTP" },
	{ "nul-header", ERR_INVALID, 0, "not HTTP" },
	{ "bad-status", ERR_INVALID, 0, "not HTTP" },
	{ "no-colon", ERR_INVALID, 0, "not HTTP" },
	{ "folded", 0, 200, NULL },
	{ "bare-lf", 0, 200, NULL },
	{ "switching", ERR_IO, 0, "" },
	{ "gzip", 0, 200, NULL },
	{ "flip", 0, 200, NULL },
};

static void assert_day(const struct day *d, const struct http_request *r)
{
	if (d->code)
		assert_error(r, d->code, d->words);
	else
		assert_status(r, d->status);
	assert_true(r->reply.headers.len <= HTTP_HEADERS_MAX);
	assert_true(r->reply.body.cap <= 4 * MIB);
	assert_true(r->reply.duration_ns < 60 * SECOND);
}

static void bad_days_one_by_one(void **state)
{
	struct http_client *c = client((struct http_options){ .stall_timeout_ns = SECOND / 5 });

	for (size_t i = 0; i < ARRAY_LEN(days); i++) {
		_cleanup_(freep) char *path = xasprintf("/day/%s", days[i].name), *u = url(path);
		struct http_request r = request("GET", u);

		http_do(c, &r, NULL);
		assert_day(&days[i], &r);
		http_request_deinit(&r);
	}
	http_client_free(c);
}

/* Each day a few times, all at once. */
static void bad_days_all_at_once(void **state)
{
	enum { TIMES = 3, N = TIMES * ARRAY_LEN(days) };
	/* The stall is longer: a slow machine under sanitizers is no bad day. */
	struct http_client *c = client((struct http_options){
		.stall_timeout_ns = (seeds_quick() ? 2 : 3) * SECOND, .max_connections = 200 });
	struct http_request v[N], *p[N];

	for (size_t i = 0; i < N; i++) {
		_cleanup_(freep) char *path = xasprintf("/day/%s", days[i / TIMES].name);

		v[i] = request("GET", url(path));
		p[i] = &v[i];
	}
	http_run(c, p, N, 0, NULL, NULL);
	for (size_t i = 0; i < N; i++) {
		assert_day(&days[i / TIMES], &v[i]);
		http_request_deinit(&v[i]);
		free((char *)v[i].url);
	}
	http_client_free(c);
}

/* With a large body on the way: an answer, or ERR_IO where it was cut off. */
static void bad_days_of_uploads(void **state)
{
	static const struct day rows[] = {
		{ "reset-accept", ERR_IO, 0, "" },
		{ "hold-read", ERR_IO, 0, "too slow" },
		{ "reset-start", ERR_IO, 0, "reset" },
		{ "close-headers", ERR_IO, 0, "ended" },
		{ "slow-down", 0, 503, NULL },
		{ "error-200", 0, 200, NULL },
		{ "redirect", 0, 301, NULL },
		{ "refuse-continue", 0, 417, NULL },
		{ "closes", 0, 200, NULL },
		{ "hold-start", ERR_IO, 0, "too slow" },
	};
	struct http_client *c = client((struct http_options){ .stall_timeout_ns = SECOND / 5 });
	_cleanup_(freep) char *bytes = xcalloc(1, 16 * MIB);

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(freep) char *path = xasprintf("/day/%s", rows[i].name), *u = url(path);
		struct http_request r = request("PUT", u);

		r.body = bytes;
		r.body_len = 16 * MIB;
		r.expect_continue = str_eq(rows[i].name, "refuse-continue");
		http_do(c, &r, NULL);
		assert_day(&rows[i], &r);
		http_request_deinit(&r);
	}
	http_client_free(c);
}

/* 100 Continue that never comes: the body goes all the same. */
static void unreachable(void **state)
{
	struct http_client *c = client((struct http_options){ .connect_timeout_ns = SECOND / 10 });
	_cleanup_(freep) char *refused = xasprintf("http://127.0.0.1:%d/x?" SECRET, server.refused);
	_cleanup_(freep) char *silent = xasprintf("https://127.0.0.1:%d/x?" SECRET, server.silent),
			      *hold = url("/day/hold-start");
	struct http_request r = request("GET", refused);

	http_do(c, &r, NULL);
	assert_error(&r, ERR_IO, "Failed to connect to 127.0.0.1");
	r = request("GET", "http://nowhere.invalid/x?" SECRET);
	http_do(c, &r, NULL);
	assert_error(&r, ERR_IO, "GET nowhere.invalid/x: ");
	r = request("GET", silent); /* connects, but TLS never begins */
	http_do(c, &r, NULL);
	assert_error(&r, ERR_IO, "timeout");
	assert_true(r.reply.duration_ns >= SECOND / 10);
	r = request("GET", hold); /* the whole request's own limit */
	r.timeout_ns = SECOND / 10;
	http_do(c, &r, NULL);
	assert_error(&r, ERR_IO, "timed out");
	r = request("GET", hold); /* its own patience; the client's is 30 s */
	r.stall_timeout_ns = SECOND / 10;
	http_do(c, &r, NULL);
	assert_error(&r, ERR_IO, "too slow: 0 bytes in ");
	assert_true(r.reply.duration_ns < 3 * SECOND);
	http_client_free(c);
}

static void bad_days_over_tls(void **state)
{
	static const struct day rows[] = {
		{ "reset-start", ERR_IO, 0, "" },   { "close-start", ERR_IO, 0, "" },
		{ "close-headers", ERR_IO, 0, "" }, { "close-body", ERR_IO, 0, "" },
		{ "reset-end", ERR_IO, 0, "" },     { "hold-body", ERR_IO, 0, "too slow" },
		{ "closes", 0, 200, NULL },         { "closes", 0, 200, NULL },
		{ "not-http", ERR_INVALID, 0, "" },
	};
	struct http_client *c = client((struct http_options){ .stall_timeout_ns = SECOND / 5 });

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(freep) char *u = xasprintf("https://localhost:%d/day/%s?" SECRET,
						     server.https, rows[i].name);
		struct http_request r = request("GET", u);

		http_do(c, &r, NULL);
		assert_day(&rows[i], &r);
		http_request_deinit(&r);
	}
	http_client_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_days_one_by_one), cmocka_unit_test(bad_days_all_at_once),
		cmocka_unit_test(bad_days_of_uploads), cmocka_unit_test(bad_days_over_tls),
		cmocka_unit_test(unreachable),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
