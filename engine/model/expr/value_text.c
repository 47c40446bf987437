/* Canonical values back to text, for messages that say what changed. Malformed bytes give "?". */
#include <string.h>
#include "model/expr/value.h"

/* Deeper lists than any param can have. */
#define DEPTH_MAX 64

struct reader {
	const uint8_t *at, *end;
};

static bool take_uint(struct reader *r, size_t n, uint64_t *ret)
{
	if ((size_t)(r->end - r->at) < n)
		return false;
	*ret = 0;
	for (size_t i = n; i-- > 0;)
		*ret = *ret << 8 | r->at[i];
	r->at += n;
	return true;
}

static bool add_value(struct reader *r, struct str *out, int depth)
{
	struct value v;
	uint64_t n;
	uint8_t tag;

	if (r->at == r->end || depth > DEPTH_MAX)
		return false;
	tag = *r->at++;
	switch (tag) {
	case 'n':
		str_add(out, "null");
		return true;
	case 'b':
		if (!take_uint(r, 1, &n))
			return false;
		str_add(out, n ? "true" : "false");
		return true;
	case 'i':
	case 'f':
		if (!take_uint(r, 8, &n))
			return false;
		v.type = tag == 'i' ? VALUE_INT : VALUE_FLOAT;
		if (tag == 'i')
			v.i = (int64_t)n;
		else
			memcpy(&v.f, &n, sizeof(n));
		value_add_text(out, &v);
		return true;
	case 's':
		if (!take_uint(r, 4, &n) || (uint64_t)(r->end - r->at) < n)
			return false;
		str_addn(out, r->at, n);
		r->at += n;
		return true;
	case 'l':
		if (!take_uint(r, 4, &n))
			return false;
		str_addc(out, '[');
		for (uint64_t i = 0; i < n; i++) {
			if (i)
				str_add(out, ", ");
			if (!add_value(r, out, depth + 1))
				return false;
		}
		str_addc(out, ']');
		return true;
	case 'o':
		if (!take_uint(r, 4, &n))
			return false;
		str_addc(out, '{');
		for (uint64_t i = 0; i < n; i++) {
			uint64_t len;

			if (!take_uint(r, 4, &len) || (uint64_t)(r->end - r->at) < len)
				return false;
			str_addf(out, "%s%.*s: ", i ? ", " : "", (int)len, (const char *)r->at);
			r->at += len;
			if (!add_value(r, out, depth + 1))
				return false;
		}
		str_addc(out, '}');
		return true;
	default:
		return false;
	}
}

void value_canonical_text(const void *canonical, size_t n, struct str *out)
{
	struct reader r = { canonical, (const uint8_t *)canonical + n };
	size_t len = out->len;

	str_addn(out, "", 0);
	if (add_value(&r, out, 0) && r.at == r.end)
		return;
	out->len = len;
	str_add(out, "?");
}
