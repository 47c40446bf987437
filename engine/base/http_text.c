#include "base/http.h"

#include <string.h>
#include <strings.h>
#include "base/http_internal.h"

static bool is_unreserved(unsigned char c)
{
	return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '.' || c == '_' || c == '~';
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
		if ((size_t)(stop - line) > name_len && line[name_len] == ':' && strncasecmp(line, name, name_len) == 0) {
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

const char *http_header(const struct http_request *r, const char *name, size_t *ret_len)
{
	return find_value(&r->reply.headers, name, ret_len);
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
