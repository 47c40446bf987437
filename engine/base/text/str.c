/* engine/base/text/str.c — bytes that grow at their end.
 *
 * Invariants: `s` is NULL, or holds `cap` bytes with a NUL at `len`. So len < cap, and the bytes
 * are a C string wherever they hold no NUL. The capacity doubles, except that a first request for
 * much gets just that. What doesn't fit into memory ends the program (mem.c).
 *
 * Not here: encodings (text.c).
 */
#include "base/text/str.h"

#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/mem.h"

void str_deinit(struct str *s)
{
	free(s->s);
	*s = (struct str){ 0 };
}

void str_wipe(struct str *s)
{
	if (s->s)
		explicit_bzero(s->s, s->cap);
	str_deinit(s);
}

void str_reset(struct str *s)
{
	s->len = 0;
	if (s->s)
		s->s[0] = '\0';
}

#define EXACT_FROM (64 * KIB)

void str_reserve(struct str *s, size_t extra)
{
	size_t need, cap;

	if (__builtin_add_overflow(s->len, extra, &need) ||
	    __builtin_add_overflow(need, (size_t)1, &need))
		mem_die(SIZE_MAX);
	if (need <= s->cap)
		return;
	cap = s->cap ? s->cap : need >= EXACT_FROM ? need : 32;
	while (cap < need)
		cap = cap > SIZE_MAX / 2 ? need : cap * 2;
	s->s = xrealloc(s->s, cap);
	s->cap = cap;
	s->s[s->len] = '\0';
}

void str_addn(struct str *s, const void *bytes, size_t n)
{
	if (n >= s->cap - s->len) /* records are made of many small parts: mostly they fit */
		str_reserve(s, n);
	if (n)
		memcpy(s->s + s->len, bytes, n);
	s->len += n;
	s->s[s->len] = '\0';
}

void str_add(struct str *s, const char *text)
{
	str_addn(s, text, strlen(text));
}

void str_addc(struct str *s, char c)
{
	str_addn(s, &c, 1);
}

void str_addv(struct str *s, const char *fmt, va_list ap)
{
	va_list again;
	int n;

	va_copy(again, ap);
	str_reserve(s, 64);
	n = vsnprintf(s->s + s->len, s->cap - s->len, fmt, ap);
	if (n >= 0 && (size_t)n >= s->cap - s->len) {
		str_reserve(s, (size_t)n);
		n = vsnprintf(s->s + s->len, s->cap - s->len, fmt, again);
	}
	va_end(again);
	if (n < 0) /* only a broken multibyte conversion or ENOMEM inside printf */
		mem_die(0);
	s->len += (size_t)n;
}

void str_addf(struct str *s, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	str_addv(s, fmt, ap);
	va_end(ap);
}

char *str_take(struct str *s)
{
	char *p = s->s ? s->s : xstrdup("");

	*s = (struct str){ 0 };
	return p;
}

void str_add_u32(struct str *s, uint32_t v)
{
	unsigned char b[4];

	for (size_t i = 0; i < sizeof(b); i++)
		b[i] = (unsigned char)(v >> (8 * i));
	str_addn(s, b, sizeof(b));
}

void str_add_u64(struct str *s, uint64_t v)
{
	str_add_u32(s, (uint32_t)v);
	str_add_u32(s, (uint32_t)(v >> 32));
}

void str_add_field(struct str *s, const void *bytes, size_t n)
{
	if (n > UINT32_MAX) /* fields are bounded long before this */
		mem_die(n);
	str_add_u32(s, (uint32_t)n);
	str_addn(s, bytes, n);
}

bool str_eq(const char *a, const char *b)
{
	if (!a || !b)
		return a == b;
	return strcmp(a, b) == 0;
}

bool str_has_prefix(const char *s, const char *prefix)
{
	return strncmp(s, prefix, strlen(prefix)) == 0;
}

bool str_has_suffix(const char *s, const char *suffix)
{
	size_t n = strlen(s), m = strlen(suffix);

	return n >= m && memcmp(s + n - m, suffix, m) == 0;
}

size_t str_len_without(const char *s, char last)
{
	size_t n = strlen(s);

	while (n && s[n - 1] == last)
		n--;
	return n;
}
