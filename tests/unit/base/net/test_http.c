#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include "base/crypto/digest.h"
#include "core/seeds.h"
#include "unit/base/net/http_server.h"

/* Text. */

static void escapes(void **state)
{
	static const struct {
		const char *in;
		bool slash;
		const char *want;
	} rows[] = {
		{ "", false, "" },
		{ "aZ09-._~", false, "aZ09-._~" },
		{ "a/b c", true, "a/b%20c" },
		{ "a/b c", false, "a%2Fb%20c" },
		{ "+&=?#%\n\x7f", false, "%2B%26%3D%3F%23%25%0A%7F" },
		{ "\xc3\xa9*'", true, "%C3%A9%2A%27" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct str out = { 0 };

		http_escape(&out, rows[i].in, strlen(rows[i].in), rows[i].slash);
		assert_string_equal(out.s ? out.s : "", rows[i].want);
		str_deinit(&out);
	}
}

static void headers_are_found(void **state)
{
	struct http_request r = { 0 };

	assert_header(&r, "ETag", NULL);
	str_add(&r.reply.headers, "ETag: \"one\"\r\nX-Empty:\r\nX: a\r\n etag: folded\r\nx:\tb "
				  "\r\nContent-Length : 1\r\nETags: no\r\netag:\"two\"\r\n");
	assert_header(&r, "etag", "\"two\"");
	assert_header(&r, "X-EMPTY", "");
	assert_header(&r, "X", "b");
	assert_header(&r, "Content-Length", NULL);
	assert_header(&r, "nothing", NULL);
	http_request_deinit(&r);
}

/* Good days. */

static void answers_come_whole(void **state)
{
	struct http_client *c = client((struct http_options){ 0 });

	for (size_t n = 0; n < 300000; n = n * 3 + 1) {
		_cleanup_(freep) char *path = xasprintf("/bytes/%zu", n), *u = url(path);
		struct http_request r = request("GET", u), h = request("HEAD", u);

		assert_int_equal(http_do(c, &r, NULL), 0);
		assert_status(&r, 200);
		assert_pattern(&r.reply.body, n);
		assert_int_equal(r.reply.body_bytes, n);
		assert_true(r.reply.duration_ns > 0);
		assert_int_equal(http_do(c, &h, NULL), 0);
		assert_status(&h, 200);
		assert_int_equal(h.reply.body.len, 0);
		http_request_deinit(&r);
		http_request_deinit(&h);
	}
	http_client_free(c);
}

struct taken {
	struct str bytes;
	size_t stop_at;
};

static int take(void *arg, const void *bytes, size_t n, struct err *err)
{
	struct taken *t = arg;

	str_addn(&t->bytes, bytes, n);
	if (t->stop_at && t->bytes.len >= t->stop_at)
		return err_set(err, ERR_NO_SPACE, "the disk is full");
	return 0;
}

static void sinks(void **state)
{
	struct http_client *c = client((struct http_options){ 0 });
	_cleanup_(freep) char *big = url("/bytes/3000001"), *missing = url("/nothing");
	struct taken t = { 0 };
	struct http_request r = request("GET", big);

	r.sink = take;
	r.arg = &t;
	r.max_bytes = 3000001;
	http_do(c, &r, NULL);
	assert_status(&r, 200);
	assert_pattern(&t.bytes, 3000001);
	assert_int_equal(r.reply.body.len, 0);
	assert_int_equal(r.reply.body_bytes, 3000001);
	http_request_deinit(&r);

	r = request("GET", big); /* one byte too many */
	r.sink = take;
	r.arg = &t;
	r.max_bytes = 3000000;
	str_reset(&t.bytes);
	http_do(c, &r, NULL);
	assert_error(&r, ERR_TOO_LARGE, "over 3000000 bytes");
	assert_int_equal(t.bytes.len, 0);
	http_request_deinit(&r);

	r = request("GET", big); /* the sink's own error */
	r.sink = take;
	r.arg = &t;
	r.max_bytes = 4000000;
	t.stop_at = 100000;
	http_do(c, &r, NULL);
	assert_error(&r, ERR_NO_SPACE, "/bytes/3000001: the disk is full");
	http_request_deinit(&r);

	r = request("GET", missing); /* what isn't 2xx is no content */
	r.sink = take;
	r.arg = &t;
	str_reset(&t.bytes);
	http_do(c, &r, NULL);
	assert_status(&r, 404);
	assert_string_equal(r.reply.body.s, "nothing here");
	assert_int_equal(t.bytes.len, 0);
	http_request_deinit(&r);
	str_deinit(&t.bytes);
	http_client_free(c);
}

/* Pieces of a size, on the thread that asked. */
struct pieces {
	struct taken taken;
	pthread_t caller;
	size_t piece, n, short_ones;
	bool slow;
};

static int take_piece(void *arg, const void *bytes, size_t n, struct err *err)
{
	struct pieces *p = arg;

	assert_true(pthread_equal(pthread_self(), p->caller));
	p->n++;
	p->short_ones += n != p->piece;
	if (p->slow)
		sched_yield();
	return take(&p->taken, bytes, n, err);
}

static void *get_pieces(void *arg)
{
	_cleanup_(freep) char *big = url("/bytes/3000001");
	/* Each piece is handed from thread to thread, which takes long on a busy machine. */
	size_t piece = seeds_quick() ? 32 * KIB : 4 * KIB;
	struct pieces p = { .caller = pthread_self(), .piece = piece, .slow = true };
	struct http_request r = request("GET", big);

	r.sink = take_piece;
	r.piece_bytes = p.piece;
	r.arg = &p;
	r.max_bytes = 3000001;
	http_do(arg, &r, NULL);
	assert_status(&r, 200);
	assert_pattern(&p.taken.bytes, 3000001);
	assert_int_equal(p.n, 3000001 / piece + 1);
	assert_int_equal(p.short_ones, 1);
	http_request_deinit(&r);
	str_deinit(&p.taken.bytes);
	return NULL;
}

static void sinks_of_pieces(void **state)
{
	static const char *const bad[] = { "/bytes/3000001", "/bytes/3000001", "/nothing" };
	struct http_client *c = client((struct http_options){ 0 });
	pthread_t threads[8];

	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		assert_int_equal(pthread_create(&threads[i], NULL, get_pieces, c), 0);
	for (size_t i = 0; i < ARRAY_LEN(threads); i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(freep) char *from = url(bad[i]);
		struct pieces p = { .caller = pthread_self(), .piece = 1000000 };
		struct http_request r = request("GET", from);

		p.taken.stop_at = i == 0 ? 1000000 : 3000001; /* the first piece, or the last */
		r.sink = take_piece;
		r.piece_bytes = p.piece;
		r.arg = &p;
		r.max_bytes = 4000000;
		http_do(c, &r, NULL);
		if (i < 2) {
			assert_error(&r, ERR_NO_SPACE, "/bytes/3000001: the disk is full");
			assert_int_equal(p.n, i == 0 ? 1 : 4);
		} else { /* what isn't 2xx is no content */
			assert_status(&r, 404);
			assert_string_equal(r.reply.body.s, "nothing here");
			assert_int_equal(p.n, 0);
		}
		http_request_deinit(&r);
		str_deinit(&p.taken.bytes);
	}
	http_client_free(c);
}

/* What /sink says that it got. */
static void assert_received(const struct http_request *r, const void *bytes, size_t n)
{
	struct digest sum;
	char hex[DIGEST_HEX_MAX];
	_cleanup_(freep) char *want = NULL;

	digest_bytes(bytes, n, &sum);
	want = xasprintf("[%zu, \"%s\"]", n, digest_hex(&sum, hex));
	assert_status(r, 200);
	assert_string_equal(r->reply.body.s, want);
}

static int temporary_file(const void *bytes, size_t n)
{
	char path[] = "/tmp/cairn-http-body.XXXXXX";
	int fd = mkostemp(path, O_CLOEXEC);

	assert_true(fd >= 0);
	unlink(path);
	assert_int_equal(write(fd, bytes, n), (ssize_t)n);
	return fd;
}

static void bodies_are_sent(void **state)
{
	static const size_t sizes[] = { 0, 1, 65536, 65537, 2000003 };
	struct http_client *c = client((struct http_options){ 0 });
	_cleanup_(freep) char *u = url("/sink"), *bytes = xmalloc(3000000);
	_cleanup_(fd_closep) int fd = -1;

	for (size_t i = 0; i < 3000000; i++)
		bytes[i] = (char)(i * 7 + (i >> 9));
	fd = temporary_file(bytes, 3000000);
	for (size_t i = 0; i < ARRAY_LEN(sizes); i++) {
		static const char *const methods[] = { "PUT", "POST", "PATCH", "DELETE" };
		struct http_request m = request(methods[i % 4], u), f = request("PUT", u);

		m.body = bytes;
		m.body_len = f.body_len = sizes[i];
		f.body_fd = fd;
		f.body_offset = 12345;
		m.expect_continue = i % 2;
		http_do(c, &m, NULL);
		assert_received(&m, bytes, sizes[i]);
		http_do(c, &f, NULL);
		assert_received(&f, bytes + 12345, sizes[i]);
		http_request_deinit(&m);
		http_request_deinit(&f);
	}
	http_client_free(c);
}

static void bodies_that_cannot_be_read(void **state)
{
	struct http_client *c = client((struct http_options){ 0 });
	_cleanup_(freep) char *u = url("/sink");
	_cleanup_(fd_closep) int fd = temporary_file("0123456789", 10),
				 dir = open("/", O_RDONLY | O_CLOEXEC);
	struct http_request r = request("PUT", u);

	r.body_fd = fd;
	r.body_offset = 5;
	r.body_len = 6;
	http_do(c, &r, NULL);
	assert_error(&r, ERR_CHANGED, "/sink: what is to be sent has become shorter");
	http_request_deinit(&r);
	r = request("PUT", u);
	r.body_fd = dir;
	r.body_len = 6;
	http_do(c, &r, NULL);
	assert_error(&r, ERR_IO, "cannot read what is to be sent");
	assert_int_equal(r.err.sys, EISDIR);
	http_request_deinit(&r);
	http_client_free(c);
}

static void headers_are_sent(void **state)
{
	static const char *const headers[] = { "X-One: 1",
					       "x-empty:",
					       "X-Two:   2  ",
					       "Host: other.example",
					       "Authorization: secret",
					       NULL };
	struct http_client *c = client((struct http_options){ .user_agent = "tester/1" });
	_cleanup_(freep) char *u = xasprintf("http://127.0.0.1:%d/echo/../echo?a=%%2f&b",
					     server.http),
			      *plain = url("/echo");
	struct http_request r = request("GET", u);

	(void)plain;
	r.headers = headers;
	http_do(c, &r, NULL);
	assert_status(&r, 404); /* the path goes out as it is: there is no /echo/../echo */
	http_request_deinit(&r);
	r = request("GET", plain);
	r.headers = headers;
	http_do(c, &r, NULL);
	assert_status(&r, 200);
	assert_true(strstr(r.reply.body.s, "GET /echo?" SECRET " HTTP/1.1\r\n") == r.reply.body.s);
	assert_non_null(strstr(r.reply.body.s, "\r\nX-One: 1\r\n"));
	assert_non_null(strstr(r.reply.body.s, "\r\nx-empty:\r\n"));
	assert_non_null(strstr(r.reply.body.s, "\r\nHost: other.example\r\n"));
	assert_non_null(strstr(r.reply.body.s, "\r\nUser-Agent: tester/1\r\n"));
	assert_null(strstr(r.reply.body.s, "Expect"));
	assert_null(strstr(r.reply.body.s, "Accept-Encoding"));
	http_request_deinit(&r);
	http_client_free(c);
}

static void bad_requests(void **state)
{
	static const char *const split[] = { "X-A: b\r\nX-Evil: secret-seekrit", NULL },
				 *const nameless[] = { ": seekrit", NULL };
	static const char *const no_colon[] = { "seekrit", NULL };
	static const struct {
		const char *method, *url;
		const char *const *headers;
		const char *words;
	} rows[] = {
		{ "GET", "http://127.0.0.1:1/?" SECRET, split,
		  "control character in the header X-A" },
		{ "GET", "http://127.0.0.1:1/?" SECRET, nameless, "header without a name" },
		{ "GET", "http://127.0.0.1:1/?" SECRET, no_colon, "header without a name" },
		{ "GET", "ftp://127.0.0.1/?" SECRET, NULL, "not an http:// or https:// URL" },
		{ "GET", "file:///etc/passwd?" SECRET, NULL, "not an http:// or https:// URL" },
		{ "GET", "", NULL, "not an http:// or https:// URL" },
		{ "GET", "http://?" SECRET, NULL, "not a URL" },
		{ "GET", "http://127.0.0.1:99999/?" SECRET, NULL, "not a URL" },
		{ "GET", "http://127.0.0.1:1/a b?" SECRET, NULL, "not a URL" },
		{ "GET", "http://user:seekrit@127.0.0.1:1/", NULL,
		  "GET 127.0.0.1:1/: a user name in the URL" },
		{ "", "http://127.0.0.1:1/?" SECRET, NULL, "not a method" },
		{ "GET /x HTTP/1.1\r\nA:", "http://127.0.0.1:1/?" SECRET, NULL, "not a method" },
	};
	struct http_client *c = client((struct http_options){ 0 });

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_request r = request(rows[i].method, rows[i].url);

		r.headers = rows[i].headers;
		assert_int_equal(http_do(c, &r, NULL), -1);
		assert_error(&r, ERR_INVALID, rows[i].words);
		http_request_deinit(&r);
	}
	http_client_free(c);
}

/* They are no headers, and the other way round. */
static void trailers(void **state)
{
	static const struct {
		const char *day, *value;
	} cases[] = { { "chunked-trailer", "two" }, { "chunked", NULL }, { "flip", NULL } };
	struct http_client *c = client((struct http_options){ 0 });

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(freep) char *path = xasprintf("/day/%s", cases[i].day), *u = url(path);
		struct http_request r = request("GET", u);
		const char *v;
		size_t n = 0;

		assert_int_equal(http_do(c, &r, NULL), 0);
		v = http_trailer(&r, "X-Trailer", &n);
		assert_int_equal(v != NULL, cases[i].value != NULL);
		if (v) {
			assert_int_equal(n, strlen(cases[i].value));
			assert_memory_equal(v, cases[i].value, n);
		}
		assert_null(http_header(&r, "X-Trailer", &n));
		assert_null(http_trailer(&r, "Content-Type", &n));
		http_request_deinit(&r);
	}
	http_client_free(c);
}

static void no_continue(void **state)
{
	struct http_client *c = client((struct http_options){ 0 });
	_cleanup_(freep) char *u = url("/day/no-continue");
	struct http_request r = request("PUT", u);

	r.body = "hello";
	r.body_len = 5;
	r.expect_continue = true;
	http_do(c, &r, NULL);
	assert_status(&r, 200);
	http_request_deinit(&r);
	http_client_free(c);
}

static void kept_connections(void **state)
{
	struct http_client *c = client((struct http_options){ 0 });
	_cleanup_(freep) char *u = url("/bytes/5"), *closes = url("/day/closes"),
			      *resets = url("/day/resets-after");
	long first = 0, now;
	size_t n;

	for (int i = 0; i < 3; i++) { /* kept; not kept on request */
		struct http_request r = request("GET", u);

		r.fresh_connection = i == 2;
		http_do(c, &r, NULL);
		assert_status(&r, 200);
		now = atol(http_header(&r, "X-Connection", &n));
		if (i == 0)
			first = now;
		else
			assert_int_equal(now == first, i == 1);
		http_request_deinit(&r);
	}
	for (int i = 0; i < 40; i++) { /* closed by the server between requests, without a word */
		struct http_request r = request(i % 4 < 2 ? "GET" : "PUT", i % 2 ? resets : closes);

		if (i % 4 >= 2) {
			r.body = "hello";
			r.body_len = 5;
		}
		http_do(c, &r, NULL);
		assert_status(&r, 200);
		http_request_deinit(&r);
	}
	http_client_free(c);
}

/* TLS. */

static void certificates(void **state)
{
	const struct {
		int port;
		const char *ca;
		enum err_code code;
		const char *words;
	} rows[] = {
		{ server.https, server.ca, 0, NULL },
		{ server.self_signed, server.ca, ERR_INVALID, "self" },
		{ server.wrong_name, server.ca, ERR_INVALID, "127.0.0.1" },
		{ server.expired, server.ca, ERR_INVALID, "expired" },
		{ server.https, "/dev/null", ERR_INVALID, "" },
		{ server.https, "/nonexistent/ca.pem", ERR_INVALID,
		  "trusted certificates cannot be read" },
		{ server.http, server.ca, ERR_IO,
		  "timeout" }, /* speaks no TLS, and waits for more */
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct http_client *c = client((struct http_options){
			.ca_file = rows[i].ca,
			.connect_timeout_ns = rows[i].code == ERR_IO ? SECOND / 10 : 0 });
		_cleanup_(freep) char *u =
			xasprintf("https://127.0.0.1:%d/bytes/100000?" SECRET, rows[i].port);
		struct http_request r = request("GET", u);

		http_do(c, &r, NULL);
		if (rows[i].code)
			assert_error(&r, rows[i].code, rows[i].words);
		else
			assert_pattern(&r.reply.body, 100000);
		http_request_deinit(&r);
		http_client_free(c);
	}
}

/* Proxies. */

static void ask(struct http_options o, const char *u, struct http_request *r)
{
	struct http_client *c;

	o.ca_file = server.ca;
	assert_int_equal(http_client_new(&o, &c, NULL), 0);
	*r = request("GET", u);
	http_do(c, r, NULL);
	http_client_free(c);
}

static void proxies(void **state)
{
	_cleanup_(freep) char *proxy = xasprintf("http://user:seekrit@127.0.0.1:%d", server.http);
	_cleanup_(freep) char *dead = xasprintf("http://user:seekrit@127.0.0.1:%d", server.refused),
			      *direct = url("/bytes/9");
	struct http_request r;

	ask((struct http_options){ .proxy = proxy }, "http://nowhere.invalid/echo?" SECRET, &r);
	assert_status(&r, 200);
	assert_non_null(
		strstr(r.reply.body.s, "GET http://nowhere.invalid/echo?" SECRET " HTTP/1.1\r\n"));
	assert_non_null(strstr(r.reply.body.s, "Proxy-Authorization: Basic "));
	http_request_deinit(&r);
	ask((struct http_options){ .proxy = proxy }, "https://localhost/bytes/1000?" SECRET,
	    &r); /* a tunnel, and TLS to the end of it */
	assert_status(&r, 200);
	assert_pattern(&r.reply.body, 1000);
	assert_header(&r, "Proxy-Agent", NULL);
	http_request_deinit(&r);
	ask((struct http_options){ .proxy = proxy }, "https://elsewhere.invalid/bytes/1?" SECRET,
	    &r);
	assert_error(&r, ERR_INVALID, "elsewhere.invalid");
	ask((struct http_options){ .proxy = dead }, direct, &r);
	assert_error(&r, ERR_IO, "Failed to connect");

	setenv("HTTP_PROXY", proxy, 1);
	setenv("https_proxy", dead, 1);
	ask((struct http_options){ 0 }, "http://nowhere.invalid/bytes/9", &r);
	assert_status(&r, 200);
	http_request_deinit(&r);
	ask((struct http_options){ 0 }, "https://localhost/bytes/9", &r);
	assert_error(&r, ERR_IO, "Failed to connect");
	setenv("HTTP_PROXY", dead, 1);
	ask((struct http_options){ .proxy = "" }, direct,
	    &r); /* none, whatever the environment says */
	assert_status(&r, 200);
	http_request_deinit(&r);
	setenv("NO_PROXY", "example.org,127.0.0.1", 1);
	ask((struct http_options){ 0 }, direct, &r);
	assert_status(&r, 200);
	http_request_deinit(&r);
	ask((struct http_options){ .proxy = proxy }, direct, &r); /* the option is for all */
	assert_status(&r, 200);
	http_request_deinit(&r);
	unsetenv("HTTP_PROXY");
	unsetenv("https_proxy");
	unsetenv("NO_PROXY");
}

/* Many. */

struct thread {
	struct http_client *c;
	unsigned n, parallel, failed;
	size_t size;
};

static void *many(void *arg)
{
	struct thread *t = arg;
	_cleanup_(freep) char *path = xasprintf("/bytes/%zu", t->size), *u = url(path);
	struct http_request *v = xcalloc(t->n, sizeof(*v)), **p = xcalloc(t->n, sizeof(*p));

	for (unsigned i = 0; i < t->n; i++) {
		v[i] = request("GET", u);
		p[i] = &v[i];
	}
	http_run(t->c, p, t->n, t->parallel, NULL, NULL);
	for (unsigned i = 0; i < t->n; i++) {
		t->failed +=
			v[i].err.code || v[i].reply.status != 200 || v[i].reply.body.len != t->size;
		http_request_deinit(&v[i]);
	}
	free(v);
	free(p);
	return NULL;
}

static void thousand_in_parallel(void **state)
{
	struct thread t = { .c = client((struct http_options){ .max_connections = 1000 }),
			    .n = 1000,
			    .size = 4096 };

	many(&t);
	assert_int_equal(t.failed, 0);
	http_client_free(t.c);
}

static void several_threads(void **state)
{
	struct http_client *c = client((struct http_options){ .max_connections = 16 });
	struct thread v[8];
	pthread_t threads[ARRAY_LEN(v)];

	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		v[i] = (struct thread){
			.c = c, .n = 60, .parallel = (unsigned)i, .size = 1000 * i + 1
		};
		assert_int_equal(pthread_create(&threads[i], NULL, many, &v[i]), 0);
	}
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		pthread_join(threads[i], NULL);
		assert_int_equal(v[i].failed, 0);
	}
	http_client_free(c);
}

/* More hosts than connections: kept ones make way. */
static void few_connections_many_hosts(void **state)
{
	struct http_client *c = client((struct http_options){ .max_connections = 2 });
	struct http_request v[30], *p[30];

	for (int i = 0; i < 30; i++) {
		static const char *const hosts[] = { "http://127.0.0.1", "http://localhost",
						     "https://localhost", "https://127.0.0.1",
						     "http://127.0.0.2" };
		int host = i % 5;

		v[i] = request("GET",
			       xasprintf("%s:%d/bytes/70000", hosts[host],
					 host == 2 || host == 3 ? server.https : server.http));
		p[i] = &v[i];
	}
	http_run(c, p, 30, 0, NULL, NULL);
	for (int i = 0; i < 30; i++) {
		if (i % 5 == 4)
			assert_error(&v[i], ERR_IO, "127.0.0.2"); /* nobody listens there */
		else
			assert_pattern(&v[i].reply.body, 70000);
		http_request_deinit(&v[i]);
		free((char *)v[i].url);
	}
	http_client_free(c);
}

struct chain {
	struct http_request *v;
	unsigned n, given, ended, wrong;
};

static struct http_request *next_of_chain(void *arg, struct http_request *ended)
{
	struct chain *chain = arg;

	chain->ended++;
	chain->wrong += ended->reply.status != (ended->err.code ? 0 : 200);
	return chain->given < chain->n ? &chain->v[chain->given++] : NULL;
}

static void more_keeps_the_queue_full(void **state)
{
	struct http_client *c = client((struct http_options){ 0 });
	_cleanup_(freep) char *u = url("/bytes/100");
	struct http_request v[50], *first[] = { &v[0], &v[1], &v[2] };
	struct chain chain = { .v = v, .n = ARRAY_LEN(v), .given = 3 };

	for (size_t i = 0; i < ARRAY_LEN(v); i++)
		v[i] = request(i % 7 == 3 ? "" : "GET", u); /* some are wrong from the start */
	http_run(c, first, 3, 2, next_of_chain, &chain);
	assert_int_equal(chain.ended, ARRAY_LEN(v));
	assert_int_equal(chain.wrong, 0);
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		assert_int_equal(v[i].err.code, i % 7 == 3 ? ERR_INVALID : 0);
		http_request_deinit(&v[i]);
	}
	http_run(c, NULL, 0, 0, next_of_chain, &chain);
	assert_int_equal(chain.ended, ARRAY_LEN(v));
	http_client_free(c);
}

/* The first piece of an answer has come: the other thread may cancel. */
static int tell(void *arg, const void *bytes, size_t n, struct err *err)
{
	return write(*(int *)arg, "x", 1) == 1 ? 0 : -1;
}

static void *cancel_when_told(void *arg)
{
	struct thread *t = arg;
	char c;

	t->failed = read((int)t->n, &c, 1) != 1;
	http_cancel(t->c);
	return NULL;
}

static void cancelling(void **state)
{
	struct http_client *c = client((struct http_options){ .max_connections = 6 });
	_cleanup_(freep) char *hold = url("/day/hold-start"), *drip = url("/day/endless-body"),
			      *good = url("/bytes/1");
	struct http_request v[20], *p[20];
	struct thread t = { .c = c };
	pthread_t thread;
	int pipes[2];

	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	t.n = (unsigned)pipes[0];
	for (size_t i = 0; i < 20; i++) {
		v[i] = request("GET", i == 5 ? drip : hold);
		p[i] = &v[i];
	}
	fcntl(pipes[1], F_SETPIPE_SZ, 1 << 20);
	v[5].sink = tell;
	v[5].arg = &pipes[1];
	v[5].max_bytes = UINT64_MAX;
	assert_int_equal(pthread_create(&thread, NULL, cancel_when_told, &t), 0);
	http_run(c, p, 20, 0, NULL, NULL);
	pthread_join(thread, NULL);
	assert_int_equal(t.failed, 0);
	for (size_t i = 0; i < 20; i++) {
		assert_error(&v[i], ERR_CANCELLED, i < 6 ? "GET 127.0.0.1:" : "cancelled");
		http_request_deinit(&v[i]);
	}
	v[0] = request("GET", good);
	http_do(c, &v[0], NULL);
	assert_error(&v[0], ERR_CANCELLED, "cancelled");
	http_request_deinit(&v[0]);
	close(pipes[0]);
	close(pipes[1]);
	http_client_free(c);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(escapes),
		cmocka_unit_test(headers_are_found),
		cmocka_unit_test(answers_come_whole),
		cmocka_unit_test(sinks),
		cmocka_unit_test(sinks_of_pieces),
		cmocka_unit_test(bodies_are_sent),
		cmocka_unit_test(bodies_that_cannot_be_read),
		cmocka_unit_test(headers_are_sent),
		cmocka_unit_test(bad_requests),
		cmocka_unit_test(trailers),
		cmocka_unit_test(no_continue),
		cmocka_unit_test(kept_connections),
		cmocka_unit_test(certificates),
		cmocka_unit_test(proxies),
		cmocka_unit_test(thousand_in_parallel),
		cmocka_unit_test(several_threads),
		cmocka_unit_test(few_connections_many_hosts),
		cmocka_unit_test(more_keeps_the_queue_full),
		cmocka_unit_test(cancelling),
	};

	signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests(tests, start_server, stop_server);
}
