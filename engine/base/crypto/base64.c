#include "base/crypto/base64.h"
#include <string.h>

static void add(struct str *out, const unsigned char *in, size_t n, const char *digits, bool pad)
{
	str_reserve(out, (n + 2) / 3 * 4);
	for (size_t i = 0; i < n; i += 3) {
		size_t have = MIN(n - i, (size_t)3);
		uint32_t v = (uint32_t)in[i] << 16 | (have > 1 ? (uint32_t)in[i + 1] << 8 : 0) |
			     (have > 2 ? in[i + 2] : 0);

		for (size_t k = 0; k < 4; k++) {
			if (k <= have)
				str_addc(out, digits[v >> (18 - 6 * k) & 63]);
			else if (pad)
				str_addc(out, '=');
		}
	}
}

void base64_add(struct str *out, const void *bytes, size_t n)
{
	add(out, bytes, n, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/",
	    true);
}

void base64_add_url(struct str *out, const void *bytes, size_t n)
{
	add(out, bytes, n, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_",
	    false);
}

static int value_of(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int base64_decode(struct str *out, const char *text, size_t n, struct err *err)
{
	size_t digits = 0, pads = 0;
	uint32_t v = 0;

	str_reserve(out, n / 4 * 3);
	for (size_t i = 0; i < n; i++) {
		int d = value_of(text[i]);

		if (memchr(" \n\r\t", text[i], 4))
			continue;
		if (text[i] == '=' && (digits + pads) % 4 >= 2) {
			pads++;
			continue;
		}
		if (d < 0 || pads)
			return err_set(err, ERR_INVALID, "not base64");
		v = v << 6 | (uint32_t)d;
		if (++digits % 4 == 0)
			str_addn(out, (char[]){ (char)(v >> 16), (char)(v >> 8), (char)v }, 3);
	}
	if ((digits + pads) % 4 || pads > 2)
		return err_set(err, ERR_INVALID, "base64 that is cut short");
	if (v & (digits % 4 == 3 ? 3 : digits % 4 == 2 ? 15 : 0))
		return err_set(err, ERR_INVALID, "base64 with bits behind its last byte");
	if (digits % 4)
		str_addn(out, (char[]){ (char)(v >> (digits % 4 == 3 ? 10 : 4)), (char)(v >> 2) },
			 digits % 4 - 1);
	return 0;
}
