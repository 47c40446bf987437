/* steps/normalise/normalise.c — tells formats by their first bytes; helpers that all of them
 * share. */
#include "steps/normalise/normalise.h"
#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/text/text.h"

#define SHOWN_MAX 120

static bool is_gzip(struct span s)
{
	return s.n >= 18 && memcmp(s.p, "\x1f\x8b\x08", 3) == 0;
}

static bool is_zstd(struct span s)
{
	return s.n >= 9 && memcmp(s.p, "\x28\xb5\x2f\xfd", 4) == 0;
}

static bool is_tar(struct span s)
{
	return s.n >= 512 && memcmp(s.p + 257, "ustar", 5) == 0;
}

static bool is_zip(struct span s)
{
	return s.n >= 22 && (memcmp(s.p, "PK\3\4", 4) == 0 || memcmp(s.p, "PK\5\6", 4) == 0);
}

static bool is_png(struct span s)
{
	return s.n >= 8 && memcmp(s.p, "\x89PNG\r\n\x1a\n", 8) == 0;
}

static bool is_npy(struct span s)
{
	return s.n >= 10 && memcmp(s.p, "\x93NUMPY", 6) == 0;
}

static bool is_json(struct span s)
{
	size_t i = 0;

	while (i < s.n && i < 4096 && strchr(" \t\r\n", s.p[i]) && s.p[i])
		i++;
	return i < s.n && (s.p[i] == '{' || s.p[i] == '[');
}

static const struct format {
	const char *name;
	bool (*is)(struct span s);
	int (*compare)(struct normalise_job *j, struct span a, struct span b,
		       struct normalised *ret, struct err *err);
} formats[] = {
	{ "gzip", is_gzip, normalise_gzip }, { "zstd", is_zstd, normalise_zstd },
	{ "tar", is_tar, normalise_tar },    { "zip", is_zip, normalise_zip },
	{ "png", is_png, normalise_png },    { "npy", is_npy, normalise_npy },
	{ "json", is_json, normalise_json },
};

void normalise_spans(struct normalise_job *j, struct span a, struct span b, struct normalised *ret)
{
	struct err err = { 0 };
	size_t i = 0;

	*ret = (struct normalised){ 0 };
	while (i < ARRAY_LEN(formats) && !(formats[i].is(a) && formats[i].is(b)))
		i++;
	if (i == ARRAY_LEN(formats) || j->depth >= NORMALISE_DEPTH_MAX)
		return;
	j->depth++;
	if (formats[i].compare(j, a, b, ret, &err) < 0)
		*ret = (struct normalised){ .detail = arena_printf(
						    j->arena, "%s: %s", formats[i].name,
						    normalise_text(j, err.msg, strlen(err.msg))) };
	j->depth--;
}

size_t normalise_differs_at(struct span a, struct span b)
{
	size_t n = MIN(a.n, b.n), at = 0;

	while (n - at >= 4096 && memcmp(a.p + at, b.p + at, 4096) == 0)
		at += 4096;
	while (at < n && a.p[at] == b.p[at])
		at++;
	return at;
}

const char *normalise_difference(struct normalise_job *j, struct span a, struct span b)
{
	size_t at = normalise_differs_at(a, b);

	if (at < a.n && at < b.n)
		return arena_printf(j->arena, "byte %zu: 0x%02x → 0x%02x", at, a.p[at], b.p[at]);
	return arena_printf(j->arena, "%zu bytes → %zu bytes", a.n, b.n);
}

bool normalise_same_bytes(const struct str *a, const struct str *b)
{
	return a->len == b->len && (!a->len || memcmp(a->s, b->s, a->len) == 0);
}

const char *normalise_text(struct normalise_job *j, const char *s, size_t n)
{
	_cleanup_(str_deinit) struct str out = { 0 };
	bool cut = n > SHOWN_MAX;

	/* Don't cut a character in its middle. */
	if (cut)
		for (n = SHOWN_MAX; n > SHOWN_MAX - 4 && ((unsigned char)s[n] & 0xc0) == 0x80; n--)
			;
	text_add_printable(&out, s, n);
	if (cut)
		str_add(&out, "…");
	return arena_strndup(j->arena, out.len ? out.s : "", out.len);
}
