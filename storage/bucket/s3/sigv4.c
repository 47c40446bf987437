/* storage/bucket/s3/sigv4.c — computes AWS Signature Version 4.
 *
 * Three steps, as AWS's document has them: the canonical request, the string to sign (its digest,
 * with date and scope), and the signature by a chain of HMACs from the secret. The scope is in the
 * string to sign and in the header, so add_scope() is for both.
 *
 * Nothing is kept between calls. The secret is copied once, in add_signature(), and wiped there.
 */
#include "storage/bucket/s3/sigv4.h"

#include <assert.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include "base/mem.h"
#include "base/net/http.h"
#include "base/text/text.h"

#define ALGORITHM "AWS4-HMAC-SHA256"
#define DAY_LEN   8 /* of 20130524T000000Z */

void sigv4_add_hex(struct str *out, const uint8_t *bytes, size_t n)
{
	static const char hex[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		str_addc(out, hex[bytes[i] >> 4]);
		str_addc(out, hex[bytes[i] & 15]);
	}
}

bool sigv4_split_endpoint(const char *url, const char **ret_scheme, char **ret_host,
			  char **ret_path)
{
	bool tls = str_has_prefix(url, "https://");
	const char *rest = tls                              ? url + strlen("https://")
			   : str_has_prefix(url, "http://") ? url + strlen("http://")
							    : NULL;
	const char *usual = tls ? ":443" : ":80";
	size_t host_n, path_n;

	if (!rest || !*rest || *rest == '/' || strpbrk(rest, "@?# \t\r\n"))
		return false;
	host_n = strcspn(rest, "/");
	path_n = strlen(rest + host_n);
	while (path_n && rest[host_n + path_n - 1] == '/')
		path_n--;
	*ret_scheme = tls ? "https" : "http";
	*ret_path = xstrndup(rest + host_n, path_n);
	*ret_host = xstrndup(rest, host_n);
	for (char *p = *ret_host; *p; p++)
		if (*p >= 'A' && *p <= 'Z')
			*p = (char)(*p + 32);
	if (str_has_suffix(*ret_host, usual))
		(*ret_host)[strlen(*ret_host) - strlen(usual)] = '\0';
	return true;
}

void sigv4_date(int64_t time_ns, char out[SIGV4_DATE_BYTES])
{
	struct str s = { 0 };
	size_t n = 0;

	text_add_time(&s, time_ns, 0); /* 2013-05-24T00:00:00Z */
	for (const char *p = s.s; *p && n < SIGV4_DATE_BYTES - 1; p++)
		if (*p != '-' && *p != ':')
			out[n++] = *p;
	out[n] = '\0';
	assert(n == SIGV4_DATE_BYTES - 1);
	str_deinit(&s);
}

/* The canonical request. */

struct piece {
	const char *s;
	size_t n;
};

static int compare_bytes(const char *a, size_t an, const char *b, size_t bn)
{
	int c = memcmp(a, b, MIN(an, bn));

	return c ? c : (an > bn) - (an < bn);
}

/* By name (before the '='), then by value. */
static int compare_params(const void *x, const void *y)
{
	const struct piece *a = x, *b = y;
	const char *ae = memchr(a->s, '=', a->n), *be = memchr(b->s, '=', b->n);
	size_t an = ae ? (size_t)(ae - a->s) : a->n, bn = be ? (size_t)(be - b->s) : b->n;
	int c = compare_bytes(a->s, an, b->s, bn);

	return c ? c : compare_bytes(a->s + an, a->n - an, b->s + bn, b->n - bn);
}

static void add_query(struct str *out, const char *query)
{
	VEC(struct piece) v = { 0 };

	for (const char *p = query ? query : ""; *p;) {
		size_t n = strcspn(p, "&");

		if (n)
			VEC_PUSH(&v, ((struct piece){ p, n }));
		p += n + (p[n] == '&');
	}
	if (v.n)
		qsort(v.v, v.n, sizeof(*v.v), compare_params);
	for (size_t i = 0; i < v.n; i++) {
		if (i)
			str_addc(out, '&');
		str_addn(out, v.v[i].s, v.v[i].n);
		if (!memchr(v.v[i].s, '=', v.v[i].n))
			str_addc(out, '=');
	}
	VEC_FREE(&v);
}

static int compare_headers(const void *x, const void *y)
{
	const struct sigv4_header *a = x, *b = y;

	return strcmp(a->name, b->name);
}

static size_t sorted_headers(const struct sigv4_request *r, struct sigv4_header *out)
{
	assert(r->n_headers <= SIGV4_HEADERS_MAX);
	for (size_t i = 0; i < r->n_headers; i++)
		out[i] = r->headers[i];
	qsort(out, r->n_headers, sizeof(*out), compare_headers);
	return r->n_headers;
}

/* Trims blanks at both ends, and replaces several in a row with one. */
static void add_trimmed(struct str *out, const char *s)
{
	size_t n = strlen(s);

	while (n && (s[n - 1] == ' ' || s[n - 1] == '\t'))
		n--;
	while (n && (*s == ' ' || *s == '\t'))
		s++, n--;
	for (size_t i = 0; i < n; i++)
		if (!(s[i] == ' ' && i && s[i - 1] == ' '))
			str_addc(out, s[i]);
}

static void add_signed_names(struct str *out, const struct sigv4_request *r)
{
	struct sigv4_header h[SIGV4_HEADERS_MAX];
	size_t n = sorted_headers(r, h);

	for (size_t i = 0; i < n; i++)
		if (i == 0 || strcmp(h[i].name, h[i - 1].name) != 0)
			str_addf(out, "%s%s", i ? ";" : "", h[i].name);
}

/* Headers of one name become one line, with comma-separated values in the order in which they are
 * sent. */
static void add_headers(struct str *out, const struct sigv4_request *r)
{
	struct sigv4_header h[SIGV4_HEADERS_MAX];
	size_t n = sorted_headers(r, h);

	for (size_t i = 0; i < n; i++) {
		bool same = i && strcmp(h[i].name, h[i - 1].name) == 0;

		if (i && !same)
			str_addc(out, '\n');
		if (same)
			str_addc(out, ',');
		else
			str_addf(out, "%s:", h[i].name);
		add_trimmed(out, h[i].value);
	}
	str_addc(out, '\n');
}

void sigv4_canonical(const struct sigv4_request *r, struct str *out)
{
	str_addf(out, "%s\n", r->method);
	if (str_eq(r->service, "s3"))
		str_add(out, r->path);
	else
		http_escape(out, r->path, strlen(r->path), true);
	str_addc(out, '\n');
	add_query(out, r->query);
	str_addc(out, '\n');
	add_headers(out, r);
	str_addc(out, '\n');
	add_signed_names(out, r);
	str_addf(out, "\n%s", r->payload_hash);
}

/* The signature. */

static void add_scope(struct str *out, const struct sigv4_request *r, const char *date)
{
	str_addf(out, "%.*s/%s/%s/aws4_request", DAY_LEN, date, r->region, r->service);
}

static void sigv4_string_to_sign(const struct sigv4_request *r, struct str *out)
{
	struct str canonical = { 0 };
	char date[SIGV4_DATE_BYTES], hex[DIGEST_HEX_MAX];
	struct digest d;

	sigv4_date(r->time_ns, date);
	sigv4_canonical(r, &canonical);
	digest_bytes(canonical.s, canonical.len, &d);
	str_addf(out, ALGORITHM "\n%s\n", date);
	add_scope(out, r, date);
	str_addf(out, "\n%s", digest_hex(&d, hex));
	str_deinit(&canonical);
}

static void add_signature(const struct sigv4_request *r, struct str *out)
{
	struct str s = { 0 };
	char date[SIGV4_DATE_BYTES];
	struct digest k, k2;
	char *first = xasprintf("AWS4%s", r->secret);

	sigv4_date(r->time_ns, date);
	sigv4_string_to_sign(r, &s);
	digest_hmac(first, strlen(first), date, DAY_LEN, &k);
	digest_hmac(k.b, DIGEST_BYTES, r->region, strlen(r->region), &k2);
	digest_hmac(k2.b, DIGEST_BYTES, r->service, strlen(r->service), &k);
	digest_hmac(k.b, DIGEST_BYTES, "aws4_request", strlen("aws4_request"), &k2);
	digest_hmac(k2.b, DIGEST_BYTES, s.s, s.len, &k);
	sigv4_add_hex(out, k.b, DIGEST_BYTES);
	OPENSSL_cleanse(first, strlen(first));
	free(first);
	str_deinit(&s);
}

void sigv4_authorization(const struct sigv4_request *r, struct str *out)
{
	char date[SIGV4_DATE_BYTES];

	sigv4_date(r->time_ns, date);
	str_addf(out, ALGORITHM " Credential=%s/", r->key_id);
	add_scope(out, r, date);
	str_add(out, ",SignedHeaders=");
	add_signed_names(out, r);
	str_add(out, ",Signature=");
	add_signature(r, out);
}
