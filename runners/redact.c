#include <string.h>
#include "base/mem.h"
#include "runners/redact.h"

struct redactor {
	VEC(char *) values; /* longest first */
	size_t longest;
	struct str held; /* end of the stream so far that may be the beginning of a value */
};

static void add_value(struct redactor *r, const char *s, size_t n)
{
	size_t i;

	if (n < REDACT_MIN)
		return;
	VEC_PUSH(&r->values, NULL);
	for (i = r->values.n - 1; i && strlen(r->values.v[i - 1]) < n; i--)
		r->values.v[i] = r->values.v[i - 1];
	r->values.v[i] = xstrndup(s, n);
	r->longest = MAX(r->longest, n);
}

struct redactor *redactor_new(const char *const *values, size_t n)
{
	struct redactor *r = xcalloc(1, sizeof(*r));

	for (size_t i = 0; i < n; i++)
		for (const char *s = values[i]; *s;) {
			size_t len = strcspn(s, "\r\n");

			add_value(r, s, len);
			s += len;
			s += strspn(s, "\r\n");
		}
	return r;
}

void redactor_free(struct redactor *r)
{
	if (!r)
		return;
	for (size_t i = 0; i < r->values.n; i++)
		free(r->values.v[i]);
	VEC_FREE(&r->values);
	str_deinit(&r->held);
	free(r);
}

/* Length of the value that begins at s; 0 none; *ret_maybe when the bytes end before that can be told. */
static size_t value_at(const struct redactor *r, const char *s, size_t n, bool *ret_maybe)
{
	for (size_t i = 0; i < r->values.n; i++) {
		size_t len = strlen(r->values.v[i]);

		if (n >= len && memcmp(s, r->values.v[i], len) == 0)
			return *ret_maybe ? 0 : len;
		if (n < len && memcmp(s, r->values.v[i], n) == 0)
			*ret_maybe = true;
	}
	return 0;
}

void redactor_feed(struct redactor *r, const char *bytes, size_t n, bool end, struct str *out)
{
	size_t at = 0;

	str_addn(&r->held, bytes, n);
	while (at < r->held.len) {
		bool maybe = false;
		size_t len = value_at(r, r->held.s + at, r->held.len - at, &maybe);

		if (maybe && !end)
			break; /* a longer value may still come: wait for the rest */
		if (maybe) {
			maybe = false;
			for (size_t i = 0; i < r->values.n && !len; i++) {
				size_t l = strlen(r->values.v[i]);

				if (r->held.len - at >= l && memcmp(r->held.s + at, r->values.v[i], l) == 0)
					len = l;
			}
		}
		if (len)
			str_add(out, "***");
		else
			str_addc(out, r->held.s[at]);
		at += len ? len : 1;
	}
	if (at)
		memmove(r->held.s, r->held.s + at, r->held.len - at);
	r->held.len -= at;
}
