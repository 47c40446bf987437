/* engine/base/net/http_text.c — the text of requests and answers: escapes, headers, dates,
 * redirects, and whether a request is worth another try.
 *
 * Headers are kept as they came, "Name: value\r\n" each, and looked up in place (find_value()): few
 * are ever asked for. Of several with one name the last counts. They are hostile input; values are
 * cut at their line. libcurl parses dates and URLs; a date that is later than any server's clock
 * counts as none.
 *
 * Pure, but for http_ca_file(), which looks for files; any thread.
 */
#include "base/net/http.h"

#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>
#include "base/net/http_internal.h"

#define DATE_MAX_S 7258118400 /* the year 2200: no server's clock is later */

const char *http_ca_file(void)
{
	static const char *const files[] = {
		"/etc/ssl/certs/ca-certificates.crt",                /* Debian, Ubuntu, Arch */
		"/etc/pki/ca-trust/extracted/pem/tls-ca-bundle.pem", /* Fedora */
		"/etc/pki/tls/certs/ca-bundle.crt",                  /* RHEL, Amazon */
		"/etc/ssl/ca-bundle.pem",                            /* SUSE */
		"/etc/ssl/cert.pem",                                 /* Alpine */
	};

	for (size_t i = 0; i < ARRAY_LEN(files); i++)
		if (access(files[i], R_OK) == 0)
			return files[i];
	return NULL;
}

static bool is_unreserved(unsigned char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
	       c == '-' || c == '.' || c == '_' || c == '~';
}

void http_escape(struct str *out, const char *s, size_t n, bool keep_slash)
{
	static const char hex[] = "0123456789ABCDEF";

	str_reserve(out, n);
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)s[i];

		if (is_unreserved(c) || (c == '/' && keep_slash)) {
			str_addc(out, (char)c);
		} else {
			char piece[3] = { '%', hex[c >> 4], hex[c & 15] };

			str_addn(out, piece, sizeof(piece));
		}
	}
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static const char *find_value(const struct str *fields, const char *name, size_t *ret_len)
{
	const char *line = fields->s ? fields->s : "", *end = line + fields->len, *found = NULL;
	size_t name_len = strlen(name);

	while (line < end) {
		const char *stop = memchr(line, '\n', (size_t)(end - line)), *value, *last;

		if (!stop)
			stop = end;
		if ((size_t)(stop - line) > name_len && line[name_len] == ':' &&
		    strncasecmp(line, name, name_len) == 0) {
			value = line + name_len + 1;
			last = stop;
			while (value < last && is_blank(*value))
				value++;
			while (last > value && is_blank(last[-1]))
				last--;
			found = value;
			*ret_len = (size_t)(last - value);
		}
		line = stop < end ? stop + 1 : end;
	}
	return found;
}

bool http_is_transient(const struct http_request *r)
{
	long s = r->reply.status;

	if (r->err.code)
		return r->err.code == ERR_IO &&
		       !r->err.sys; /* a failed local call (a full disk) fails again */
	return s == 408 || s == 429 ||
	       (s >= 500 && s != 501 && s != 505 && s != 507); /* those refuse the request itself */
}

bool http_is_redirect(long status)
{
	return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

const char *http_header(const struct http_request *r, const char *name, size_t *ret_len)
{
	return find_value(&r->reply.headers, name, ret_len);
}

char *http_location(const struct http_request *r, const char *url, size_t max)
{
	_cleanup_(freep) char *location = NULL;
	const struct curl_api *api;
	char *found = NULL, *ret = NULL;
	const char *v;
	CURLU *u;
	size_t n;

	v = http_header(r, "Location", &n);
	if (!v || n == 0 || n > max || memchr(v, '\0', n) || curl_api_get(&api, NULL) < 0)
		return NULL;
	location = xstrndup(v, n);
	u = api->url();
	if (u && api->url_set(u, CURLUPART_URL, url, 0) == CURLUE_OK &&
	    api->url_set(u, CURLUPART_URL, location, 0) == CURLUE_OK &&
	    api->url_get(u, CURLUPART_URL, &found, 0) == CURLUE_OK && strlen(found) <= max)
		ret = xstrdup(found);
	api->free(found);
	api->url_cleanup(u);
	return ret;
}

bool http_parse_date(const char *s, size_t n, int64_t *ret_ns)
{
	const struct curl_api *api;
	char copy[40];
	time_t t;

	if (n >= sizeof(copy) || curl_api_get(&api, NULL) < 0)
		return false;
	memcpy(copy, s, n);
	copy[n] = '\0';
	t = api->getdate(copy, NULL);
	if (t < 0 || t >= DATE_MAX_S)
		return false;
	*ret_ns = (int64_t)t * NS_PER_S;
	return true;
}

const char *http_trailer(const struct http_request *r, const char *name, size_t *ret_len)
{
	return find_value(&r->reply.trailers, name, ret_len);
}

void http_add_place(struct str *out, const char *method, const char *url)
{
	const char *authority = strstr(url, "://"), *at;
	size_t n;

	authority = authority ? authority + 3 : url;
	n = strcspn(authority, "/?#");
	at = memrchr(authority, '@', n);
	if (at) {
		n -= (size_t)(at + 1 - authority);
		authority = at + 1;
	}
	n += strcspn(authority + n, "?#");
	str_addf(out, "%s ", method);
	str_addn(out, authority, n);
}
