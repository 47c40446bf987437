/* engine/base/net/http_transfer.c — one request on one libcurl handle: its setup, its callbacks,
 * its result.
 *
 * All of it runs on the client's thread. Handles are reused. http_transfer_setup() sets every
 * option that differs between requests; CURLOPT_HTTPGET comes first because it undoes what an
 * earlier upload or HEAD left. http_easy_new() sets the common options once.
 *
 * A callback sets its error in `r->err`, which wins over libcurl's. Otherwise class_of() maps
 * libcurl's code to an error. The callbacks limit sizes: headers, trailers and 1xx answers
 * together, and the body. http_transfer_stalled() detects a stall by libcurl's byte counters.
 *
 * Messages name method, host and path. A query can hold a signature, headers and proxies hold
 * credentials: libcurl's own text is used only for error classes whose text never contains them.
 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include "base/net/http_internal.h"
#include "base/time/clock.h"

#define BUFFER_BYTES      524288L /* of a socket's reads and writes: fewer, larger system calls */
#define SMALL_ANSWER      (64 * KIB) /* answers up to this size take a small buffer */
#define SMALL_BUFFER      65536L
#define RETRY_AFTER_MAX_S 86400
#define ANSWER_MAX_DEFAULT \
	MIB /* also the limit for bodies with an error status, whatever max_bytes */
#define RESERVE_MAX         (16 * MIB) /* most bytes reserved for an announced length */
#define STALL_BYTES_PER_S   1024
#define CONTINUE_TIMEOUT_MS 1000L /* then the body goes without 100 Continue (RFC 9110, 10.1.1) */

/* Callbacks. */

/* Sockets that the steps we start don't inherit. */
static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
	return socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
}

static size_t on_body_read(char *buf, size_t size, size_t n, void *arg)
{
	struct http_transfer *t = arg;
	struct http_request *r = t->r;
	uint64_t left = r->body_len - t->sent;
	size_t want = (size_t)MIN((uint64_t)(size * n), left);
	ssize_t got = (ssize_t)want;

	if (r->body) {
		memcpy(buf, (const char *)r->body + t->sent, want);
	} else if (want) {
		do
			got = pread(r->body_fd, buf, want, (off_t)(r->body_offset + t->sent));
		while (got < 0 && errno == EINTR);
		if (got < 0)
			err_errno(&r->err, "cannot read what is to be sent");
		else if (got == 0)
			err_set(&r->err, ERR_CHANGED, "what is to be sent has become shorter");
		if (got <= 0)
			return CURL_READFUNC_ABORT;
	}
	t->sent += (uint64_t)got;
	return (size_t)got;
}

/* A reused connection was dead: libcurl starts again on a new one. */
static int on_body_seek(void *arg, curl_off_t offset, int origin)
{
	struct http_transfer *t = arg;

	if (origin != SEEK_SET || offset < 0 || (uint64_t)offset > t->r->body_len)
		return CURL_SEEKFUNC_FAIL;
	t->sent = (uint64_t)offset;
	return CURL_SEEKFUNC_OK;
}

/* Refuses two different lengths: readers would disagree where the answer ends (RFC 9110, 8.6). */
static int check_length(struct http_transfer *t, const char *line, size_t len)
{
	static const char name[] = "content-length:";
	const char *value = line + sizeof(name) - 1, *before;
	size_t before_len;

	if (len < sizeof(name) || strncasecmp(line, name, sizeof(name) - 1) != 0)
		return 0;
	before = http_header(t->r, "content-length", &before_len);
	while (value < line + len && (*value == ' ' || *value == '\t'))
		value++;
	if (before &&
	    (before_len != (size_t)(line + len - value) || memcmp(before, value, before_len) != 0))
		return err_set(&t->r->err, ERR_INVALID, "the answer has two lengths");
	return 0;
}

/* Adds the line without its line end. */
static void add_field(struct str *fields, const char *line, size_t len)
{
	if (len == 0)
		return;
	str_addn(fields, line, len);
	str_addn(fields, "\r\n", 2);
}

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
	struct http_transfer *t = arg;
	struct str *headers = &t->r->reply.headers;
	size_t len = size * n;
	bool trails = t->body_begun ||
		      (t->headers_whole && strncasecmp(line, "HTTP/", MIN(len, 5u)) != 0);

	t->header_bytes += len;
	if (t->header_bytes > HTTP_HEADERS_MAX) {
		err_set(&t->r->err, ERR_TOO_LARGE, "the answer's headers are over %llu KiB",
			HTTP_HEADERS_MAX / KIB);
		return 0;
	}
	if (!trails && len >= 5 &&
	    strncasecmp(line, "HTTP/", 5) == 0) { /* a new answer after a 1xx */
		str_reset(headers);
		t->headers_whole = false;
		return len;
	}
	while (len && (line[len - 1] == '\n' || line[len - 1] == '\r' || line[len - 1] == ' '))
		len--;
	if (trails) {
		add_field(&t->r->reply.trailers, line, len);
		return size * n;
	}
	if (check_length(t, line, len) < 0)
		return 0;
	add_field(headers, line, len);
	t->headers_whole = !len;
	return size * n;
}

static int too_large(struct http_transfer *t)
{
	return err_set(&t->r->err, ERR_TOO_LARGE, "the answer is over %llu bytes",
		       (unsigned long long)t->limit);
}

static int begin_body(struct http_transfer *t)
{
	struct http_request *r = t->r;
	curl_off_t announced = -1;
	long status = 0;
	bool good;

	t->api->easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	t->api->easy_getinfo(t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &announced);
	r->reply.status = status; /* the sink may read it */
	good = status >= 200 && status < 300;
	t->body_begun = true;
	t->to_sink = good && r->sink;
	t->limit = good && r->max_bytes ? r->max_bytes : ANSWER_MAX_DEFAULT;
	if (announced > 0 && (uint64_t)announced > t->limit)
		return too_large(t);
	if (!t->to_sink && announced > 0)
		str_reserve(&r->reply.body,
			    (size_t)MIN((uint64_t)announced, MIN(t->limit, RESERVE_MAX)));
	return 0;
}

static size_t on_body_write(char *bytes, size_t size, size_t n, void *arg)
{
	struct http_transfer *t = arg;
	struct http_request *r = t->r;
	size_t len = size * n;

	if (!t->body_begun && begin_body(t) < 0)
		return len + 1;
	if (len > t->limit - r->reply.body_bytes) {
		too_large(t);
		return len + 1;
	}
	r->reply.body_bytes += len;
	if (!t->to_sink) {
		str_addn(&r->reply.body, bytes, len);
	} else if (r->piece_bytes) {
		if (http_pieces_add(t, bytes, len) < 0)
			return len + 1;
	} else if (r->sink(r->arg, bytes, len, &r->err) < 0) {
		if (!r->err.code)
			err_set(&r->err, ERR_IO, "the answer cannot be taken");
		return len + 1;
	}
	return len;
}

/* Setup. */

/* easy_setopt() is variadic; these functions fix the types. */
static void set_long(const struct curl_api *api, CURL *easy, CURLoption option, long value)
{
	api->easy_setopt(easy, option, value);
}

static void set_text(const struct curl_api *api, CURL *easy, CURLoption option, const char *value)
{
	api->easy_setopt(easy, option, value);
}

static void set_pointer(const struct curl_api *api, CURL *easy, CURLoption option, void *value)
{
	api->easy_setopt(easy, option, value);
}

static void set_blob(const struct curl_api *api, CURL *easy, CURLoption option, char *text)
{
	struct curl_blob blob = {
		.data = text, .len = strlen(text), .flags = CURL_BLOB_NOCOPY
	}; /* the client's settings outlive its handles */

	api->easy_setopt(easy, option, &blob);
}

CURL *http_easy_new(const struct curl_api *api, const struct http_settings *s)
{
	CURL *easy = api->easy_init();

	if (!easy)
		return NULL;
	api->easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, open_socket);
	api->easy_setopt(easy, CURLOPT_READFUNCTION, on_body_read);
	api->easy_setopt(easy, CURLOPT_SEEKFUNCTION, on_body_seek);
	api->easy_setopt(easy, CURLOPT_HEADERFUNCTION, on_header);
	api->easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_body_write);
	set_long(api, easy, CURLOPT_NOSIGNAL, 1);
	set_long(api, easy, CURLOPT_HTTP_VERSION, CURL_HTTP_VERSION_1_1);
	set_long(api, easy, CURLOPT_SSLVERSION, CURL_SSLVERSION_TLSv1_2);
	set_text(api, easy, CURLOPT_PROTOCOLS_STR, "http,https");
	set_long(api, easy, CURLOPT_DISALLOW_USERNAME_IN_URL, 1);
	set_long(api, easy, CURLOPT_FOLLOWLOCATION, 0);
	set_long(api, easy, CURLOPT_PATH_AS_IS, 1);
	set_long(api, easy, CURLOPT_HTTP_CONTENT_DECODING, 0);
	set_long(api, easy, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1);
	set_long(api, easy, CURLOPT_TCP_KEEPALIVE, 1);
	set_long(api, easy, CURLOPT_DNS_SHUFFLE_ADDRESSES, 1);
	set_long(api, easy, CURLOPT_QUICK_EXIT, 1); /* don't wait for a resolver that hangs */
	set_long(api, easy, CURLOPT_CONNECTTIMEOUT_MS, s->connect_timeout_ms);
	set_long(api, easy, CURLOPT_EXPECT_100_TIMEOUT_MS, CONTINUE_TIMEOUT_MS);
	set_text(api, easy, CURLOPT_USERAGENT, s->user_agent);
	set_text(api, easy, CURLOPT_NOPROXY, s->no_proxy);
	if (s->ca_pem)
		set_blob(api, easy, CURLOPT_CAINFO_BLOB, s->ca_pem);
	else if (s->ca_file)
		set_text(api, easy, CURLOPT_CAINFO, s->ca_file);
	if (s->cert_pem && s->key_pem) {
		set_blob(api, easy, CURLOPT_SSLCERT_BLOB, s->cert_pem);
		set_blob(api, easy, CURLOPT_SSLKEY_BLOB, s->key_pem);
	}
	if (s->insecure) {
		set_long(api, easy, CURLOPT_SSL_VERIFYPEER, 0);
		set_long(api, easy, CURLOPT_SSL_VERIFYHOST, 0);
	}
	return easy;
}

static int add_header(struct http_transfer *t, const char *line)
{
	struct curl_slist *list = t->api->slist_append(t->headers, line);

	if (!list)
		mem_die(strlen(line));
	t->headers = list;
	return 0;
}

/* To libcurl, "Name:" means to leave a header out, and "Name;" an empty one. */
static int add_request_header(struct http_transfer *t, const char *line)
{
	size_t name = strcspn(line, ":"), n = strlen(line);
	_cleanup_(freep) char *empty = NULL;

	for (size_t i = 0; i < n; i++)
		if ((unsigned char)line[i] < 0x20 && line[i] != '\t')
			return err_set(&t->r->err, ERR_INVALID,
				       "a control character in the header %.*s",
				       (int)MIN(strcspn(line, ":\r\n"), 64u), line);
	if (!name || !line[name])
		return err_set(&t->r->err, ERR_INVALID, "a header without a name");
	if (line[name + 1 + strspn(line + name + 1, " \t")] != '\0')
		return add_header(t, line);
	empty = xasprintf("%.*s;", (int)name, line);
	return add_header(t, empty);
}

static void set_method(struct http_transfer *t)
{
	const struct http_request *r = t->r;
	bool head = str_eq(r->method, "HEAD"), get = str_eq(r->method, "GET");
	bool upload = r->body_len || str_eq(r->method, "PUT") || str_eq(r->method, "POST") ||
		      str_eq(r->method, "PATCH");

	set_long(t->api, t->easy, CURLOPT_HTTPGET, 1);
	if (upload) {
		set_long(t->api, t->easy, CURLOPT_UPLOAD, 1);
		t->api->easy_setopt(t->easy, CURLOPT_INFILESIZE_LARGE, (curl_off_t)r->body_len);
	} else if (head) {
		set_long(t->api, t->easy, CURLOPT_NOBODY, 1);
	}
	set_text(t->api, t->easy, CURLOPT_CUSTOMREQUEST,
		 !upload && (head || get) ? NULL : r->method);
}

static long to_ms(int64_t ns)
{
	return ns <= 0 ? 0 : (long)MIN((ns + NS_PER_MS - 1) / NS_PER_MS, (int64_t)INT32_MAX);
}

/* Puts the certificate's name into the URL, and connects to the host of the original URL. */
static void set_server_name(struct http_transfer *t)
{
	const char *authority = t->r->url + 8, *colon; /* behind https:// */
	size_t n = strcspn(authority, "/?#"), host;
	_cleanup_(freep) char *url = NULL, *to = NULL;

	colon = authority[0] == '[' ? memchr(authority, ']', n) : NULL;
	colon = memchr(colon ? colon : authority, ':',
		       n - (colon ? (size_t)(colon - authority) : 0));
	host = colon ? (size_t)(colon - authority) : n;
	url = xasprintf("https://%s%s", t->settings->server_name, authority + host);
	to = xasprintf("::%.*s:%s%.*s", (int)host, authority, colon ? "" : "443",
		       colon ? (int)(n - host - 1) : 0, colon ? colon + 1 : "");
	t->connect_to = t->api->slist_append(NULL, to);
	if (!t->connect_to)
		mem_die(strlen(to));
	t->api->easy_setopt(t->easy, CURLOPT_CONNECT_TO, t->connect_to);
	set_text(t->api, t->easy, CURLOPT_URL, url);
}

int http_transfer_setup(struct http_transfer *t)
{
	const struct http_request *r = t->r;
	CURL *easy = t->easy;
	bool tls = strncasecmp(r->url, "https:", 6) == 0;

	if (!r->method[0] || r->method[strspn(r->method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")])
		return err_set(&t->r->err, ERR_INVALID, "not a method of HTTP");
	if (!tls && strncasecmp(r->url, "http:", 5) != 0)
		return err_set(&t->r->err, ERR_INVALID, "not an http:// or https:// URL");
	for (size_t i = 0; r->headers && r->headers[i]; i++)
		if (add_request_header(t, r->headers[i]) < 0)
			return -1;
	/* We decide about Expect, not libcurl by its own idea of a large body. */
	add_header(t, r->expect_continue && r->body_len ? "Expect: 100-continue" : "Expect:");
	t->api->easy_setopt(easy, CURLOPT_HTTPHEADER, t->headers);
	set_method(t);
	set_long(t->api, easy, CURLOPT_BUFFERSIZE,
		 (r->max_bytes ? r->max_bytes : ANSWER_MAX_DEFAULT) <= SMALL_ANSWER ? SMALL_BUFFER
										    : BUFFER_BYTES);
	set_long(t->api, easy, CURLOPT_UPLOAD_BUFFERSIZE,
		 r->body_len <= SMALL_ANSWER ? SMALL_BUFFER : BUFFER_BYTES);
	set_text(t->api, easy, CURLOPT_URL, r->url);
	set_pointer(t->api, easy, CURLOPT_CONNECT_TO, NULL);
	if (tls && t->settings->server_name)
		set_server_name(t);
	set_text(t->api, easy, CURLOPT_PROXY,
		 tls ? t->settings->proxy_https : t->settings->proxy_http);
	set_long(t->api, easy, CURLOPT_TIMEOUT_MS, to_ms(r->timeout_ns));
	set_long(t->api, easy, CURLOPT_FRESH_CONNECT, r->fresh_connection);
	set_pointer(t->api, easy, CURLOPT_PRIVATE, t);
	set_pointer(t->api, easy, CURLOPT_READDATA, t);
	set_pointer(t->api, easy, CURLOPT_SEEKDATA, t);
	set_pointer(t->api, easy, CURLOPT_HEADERDATA, t);
	set_pointer(t->api, easy, CURLOPT_WRITEDATA, t);
	set_pointer(t->api, easy, CURLOPT_ERRORBUFFER, t->why);
	t->started_ns = t->window_ns = clock_mono_ns();
	return 0;
}

/* Result. */

static enum err_code class_of(CURLcode code)
{
	switch (code) {
	case CURLE_URL_MALFORMAT:
	case CURLE_UNSUPPORTED_PROTOCOL: /* also an HTTP/0.9 answer */
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_ISSUER_ERROR:
	case CURLE_SSL_INVALIDCERTSTATUS:
	case CURLE_LOGIN_DENIED: /* a user in the URL */
		return ERR_INVALID;
	case CURLE_OUT_OF_MEMORY: /* libcurl's code for a header line over its limit */
		return ERR_TOO_LARGE;
	default:
		return ERR_IO;
	}
}

/* libcurl's own text if it can hold only hosts, ports and times; else its general text for the
 * code. */
static const char *words_of(const struct http_transfer *t, CURLcode code)
{
	switch (code) {
	case CURLE_COULDNT_RESOLVE_HOST:
	case CURLE_COULDNT_RESOLVE_PROXY:
	case CURLE_COULDNT_CONNECT:
	case CURLE_OPERATION_TIMEDOUT:
	case CURLE_SSL_CONNECT_ERROR:
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_PARTIAL_FILE:
	case CURLE_SEND_ERROR:
	case CURLE_RECV_ERROR:
	case CURLE_GOT_NOTHING:
		if (t->why[0])
			return t->why;
		break;
	case CURLE_URL_MALFORMAT:
		return "not a URL";
	case CURLE_LOGIN_DENIED:
		return "a user name in the URL is not taken";
	case CURLE_UNSUPPORTED_PROTOCOL:
	case CURLE_WEIRD_SERVER_REPLY:
		return "the answer is not HTTP";
	case CURLE_OUT_OF_MEMORY:
		return "a line of the answer's headers is too long";
	case CURLE_SSL_CACERT_BADFILE:
		return "the file of trusted certificates cannot be read";
	default:
		break;
	}
	return t->api->easy_strerror(code);
}

/* libcurl retries by itself when a read finds the connection closed, but not when a write does. */
bool http_transfer_again(struct http_transfer *t, CURLcode code)
{
	long connects = 1;

	if (code != CURLE_SEND_ERROR && code != CURLE_RECV_ERROR && code != CURLE_GOT_NOTHING)
		return false;
	t->api->easy_getinfo(t->easy, CURLINFO_NUM_CONNECTS, &connects);
	if (connects > 0 || t->header_bytes || t->r->err.code || str_eq(t->r->method, "POST") ||
	    str_eq(t->r->method, "PATCH"))
		return false;
	t->sent = 0;
	set_long(t->api, t->easy, CURLOPT_FRESH_CONNECT, 1);
	return true;
}

static bool is_unconnected(const struct http_transfer *t, CURLcode code)
{
	curl_off_t connected_us = 0;

	if (code == CURLE_OPERATION_TIMEDOUT)
		t->api->easy_getinfo(t->easy, CURLINFO_CONNECT_TIME_T, &connected_us);
	return code == CURLE_COULDNT_RESOLVE_HOST || code == CURLE_COULDNT_RESOLVE_PROXY ||
	       code == CURLE_COULDNT_CONNECT || (code == CURLE_OPERATION_TIMEDOUT && !connected_us);
}

void http_transfer_end(struct http_transfer *t, CURLcode code)
{
	struct http_request *r = t->r;

	if (t->started_ns) { /* else the handle still has what its last request left */
		curl_off_t wait_s = 0;

		if (!t->body_begun) /* a sink on another thread may be reading it */
			t->api->easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &r->reply.status);
		t->api->easy_getinfo(t->easy, CURLINFO_RETRY_AFTER, &wait_s);
		r->reply.retry_after_ns = MIN(MAX(wait_s, 0), RETRY_AFTER_MAX_S) * NS_PER_S;
		r->reply.duration_ns = clock_mono_ns() - t->started_ns;
		r->reply.unconnected = is_unconnected(t, code);
	}
	if (code == CURLE_OK && !t->headers_whole) /* libcurl accepts a connection that ends within
						      the headers as a complete answer */
		err_set(&r->err, ERR_IO, "the connection ended in the answer's headers");
	if (r->err.code || code != CURLE_OK) {
		_cleanup_(str_deinit) struct str place = { 0 };

		http_add_place(&place, r->method, r->url);
		if (r->err.code)
			err_wrap(&r->err, "%s", place.s);
		else
			err_set(&r->err, class_of(code), "%s: %s", place.s, words_of(t, code));
	}
	t->api->slist_free_all(t->headers);
	t->api->slist_free_all(t->connect_to);
	t->headers = t->connect_to = NULL;
}

/* The bytes moved so far. Upload counts what the socket took, so that a slow link with a large
 * buffer doesn't look stalled. */
static uint64_t moved(struct http_transfer *t)
{
	curl_off_t up = 0, down = 0;

	t->api->easy_getinfo(t->easy, CURLINFO_SIZE_UPLOAD_T, &up);
	t->api->easy_getinfo(t->easy, CURLINFO_SIZE_DOWNLOAD_T, &down);
	return (uint64_t)up + (uint64_t)down + t->header_bytes;
}

static bool is_silent(struct http_transfer *t, int64_t now_ns)
{
	uint64_t bytes = moved(t);

	if (bytes != t->window_bytes) {
		t->window_ns = now_ns;
		t->window_bytes = bytes;
	}
	if (now_ns - t->window_ns < http_transfer_stall_ns(t))
		return false;
	err_set(&t->r->err, ERR_IO, "silent for %.1f s",
		(double)(now_ns - t->window_ns) / NS_PER_S);
	return true;
}

int64_t http_transfer_stall_ns(const struct http_transfer *t)
{
	if (t->r->quiet_timeout_ns)
		return t->r->quiet_timeout_ns;
	return t->r->stall_timeout_ns ? t->r->stall_timeout_ns : t->settings->stall_timeout_ns;
}

bool http_transfer_stalled(struct http_transfer *t, int64_t now_ns)
{
	int64_t limit = http_transfer_stall_ns(t);
	curl_off_t connected_us = 0;
	uint64_t bytes;

	t->api->easy_getinfo(t->easy, CURLINFO_PRETRANSFER_TIME_T, &connected_us);
	if (!connected_us) { /* resolving and connecting have their own timeout */
		t->window_ns = now_ns;
		return false;
	}
	if (t->r->quiet_timeout_ns)
		return is_silent(t, now_ns);
	if (now_ns - t->window_ns < limit)
		return false;
	bytes = moved(t);
	if (bytes - t->window_bytes <
	    MAX((uint64_t)(limit / NS_PER_MS) * STALL_BYTES_PER_S / 1000, 1u)) {
		err_set(&t->r->err, ERR_IO, "too slow: %llu bytes in %.1f s",
			(unsigned long long)(bytes - t->window_bytes),
			(double)(now_ns - t->window_ns) / NS_PER_S);
		return true;
	}
	t->window_ns = now_ns;
	t->window_bytes = bytes;
	return false;
}
