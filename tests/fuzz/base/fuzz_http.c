/* Headers of an answer, a name and a URL: a value is found only where the headers have it, and
 * messages show neither a query nor a user. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include "base/net/http_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_headers(const char *name, const char *headers, size_t n)
{
	struct http_request r = { 0 };
	const char *value;
	size_t len = 0;

	str_addn(&r.reply.headers, headers, n);
	value = http_header(&r, name, &len);
	if (value) {
		assert(value >= r.reply.headers.s && value + len <= r.reply.headers.s + n);
		assert(!memchr(value, '\n', len));
		assert(value > r.reply.headers.s + strlen(name));
	}
	http_request_deinit(&r);
}

static void check_place(const char *url)
{
	struct str place = { 0 };

	http_add_place(&place, "GET", url);
	assert(!strchr(place.s, '?') && !strchr(place.s, '#'));
	assert(!memchr(place.s + 4, '@', strcspn(place.s + 4, "/")));
	str_deinit(&place);
}

static void check_escape(const char *s, size_t n)
{
	struct str out = { 0 };
	size_t i = 0, at = 0;

	http_escape(&out, s, n, false);
	for (; i < n; i++, at++) {
		unsigned v = (unsigned char)out.s[at];

		if (v == '%') {
			char hex[3] = { out.s[at + 1], out.s[at + 2], 0 };

			v = (unsigned)strtoul(hex, NULL, 16);
			at += 2;
		}
		assert(v == (unsigned char)s[i]);
	}
	assert(at == out.len);
	str_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *rest;
	size_t n;

	memcpy(text, data, size);
	text[size] = '\0';
	n = strlen(text);
	rest = n < size ? text + n + 1 : text + n;
	check_headers(text, rest, size - (size_t)(rest - text));
	check_place(text);
	check_escape((const char *)data, size);
	free(text);
	return 0;
}
