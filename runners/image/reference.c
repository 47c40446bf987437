/* runners/image/reference.c — names of images, as defined by github.com/distribution/reference:
 * [host[:port]/]path[:tag][@digest].
 *
 * image_ref_parse() cuts from the end: the digest after `@`, then the tag after the last colon that
 * no slash follows, then host and path. A hand-written scanner checks each part (is_path_part(),
 * is_host(), is_tag()), because the C library's character classes depend on the locale. The default
 * host is docker.io, and `library/` its default directory. Pure functions; results are in the
 * caller's arena.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "base/crypto/digest.h"
#include "base/text/text.h"
#include "runners/image/registry.h"

#define NAME_MAX_BYTES 255 /* of a host; of a path, with the default `library/` */
#define TAG_MAX_BYTES  128
#define DEFAULT_HOST   "docker.io"

/* Not the C library's, which depend on the locale. */
static bool is_lower(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9');
}

static bool is_word(char c)
{
	return is_lower(c) || (c >= 'A' && c <= 'Z') || c == '_';
}

/* [a-z0-9]+ between single dots, one or two underscores, any number of dashes. */
static bool is_path_part(const char *s, size_t n)
{
	size_t i = 0;

	while (i < n) {
		size_t word = i, mark;

		while (i < n && is_lower(s[i]))
			i++;
		if (i == word)
			return false;
		if (i == n)
			return true;
		for (mark = i; i < n && s[i] == s[mark] && strchr("._-", s[i]); i++)
			;
		if (i == mark || (s[mark] == '.' && i - mark > 1) ||
		    (s[mark] == '_' && i - mark > 2))
			return false;
	}
	return false;
}

static bool is_path(const char *s, size_t n)
{
	const char *end = s + n;

	for (;;) {
		const char *slash = memchr(s, '/', (size_t)(end - s));

		if (!is_path_part(s, (size_t)((slash ? slash : end) - s)))
			return false;
		if (!slash)
			return true;
		s = slash + 1;
	}
}

static bool is_port(const char *s, size_t n)
{
	unsigned port = 0;

	if (n == 0 || n > 5)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (s[i] < '0' || s[i] > '9')
			return false;
		port = port * 10 + (unsigned)(s[i] - '0');
	}
	return port > 0 && port <= 65535;
}

/* Letters, digits and dashes between dots; or an IPv6 address in brackets; then perhaps a port. */
static bool is_host(const char *s, size_t n)
{
	const char *end = s + n, *host_end = *s == '[' ? memchr(s, ']', n) : memchr(s, ':', n),
		   *colon;

	if (*s == '[') {
		if (!host_end || host_end == s + 1 ||
		    strspn(s + 1, "0123456789abcdefABCDEF:.") != (size_t)(host_end - s - 1))
			return false;
		colon = host_end + 1 < end ? host_end + 1 : NULL;
	} else {
		colon = host_end;
		host_end = colon ? colon : end;
		for (const char *c = s; c < host_end; c++) {
			bool edge = c == s || c[-1] == '.' || c + 1 == host_end || c[1] == '.';

			if (*c == '.' ? edge && (c == s || c[-1] == '.' || c + 1 == host_end)
				      : !((is_word(*c) && *c != '_') || (*c == '-' && !edge)))
				return false;
		}
		if (host_end == s)
			return false;
	}
	return !colon || (*colon == ':' && is_port(colon + 1, (size_t)(end - colon - 1)));
}

static bool is_tag(const char *s, size_t n)
{
	if (n == 0 || n > TAG_MAX_BYTES || !is_word(*s))
		return false;
	for (size_t i = 1; i < n; i++)
		if (!is_word(s[i]) && s[i] != '.' && s[i] != '-')
			return false;
	return true;
}

/* Whether the first part is a host: not in "team/train", but in "localhost/train", "a.b/train" and
 * "a:5000/train". */
static bool names_host(const char *s, size_t n)
{
	if (memchr(s, '.', n) || memchr(s, ':', n) || *s == '[' ||
	    (n == 9 && memcmp(s, "localhost", 9) == 0))
		return true;
	for (size_t i = 0; i < n; i++)
		if (s[i] >= 'A' && s[i] <= 'Z')
			return true;
	return false;
}

static int not_one(const char *text, const char *why, struct err *err)
{
	_cleanup_(str_deinit) struct str shown = { 0 };

	text_add_printable(&shown, text, strnlen(text, 300));
	return err_set(err, ERR_INVALID, "`%s` is not the name of an image: %s",
		       shown.len ? shown.s : "", why);
}

static int parse_digest(const char *text, const char *at, struct arena *arena, const char **ret,
			struct err *err)
{
	struct digest d;
	char hex[DIGEST_HEX_MAX];

	if (!str_has_prefix(at, "sha256:"))
		return not_one(text, "its digest must be sha256:…", err);
	if (strlen(at) != 7 + 64 || strspn(at + 7, "0123456789abcdef") != 64 ||
	    digest_parse(at, &d, NULL) < 0)
		return not_one(text, "sha256: takes 64 hexadecimal digits in lower case", err);
	*ret = arena_printf(arena, "sha256:%s", digest_hex(&d, hex));
	return 0;
}

static int parse_name(const char *text, size_t n, struct arena *arena, struct image_ref *ret,
		      struct err *err)
{
	const char *slash = memchr(text, '/', n), *path = text;
	const char *host = DEFAULT_HOST;

	if (n == 0)
		return not_one(text, "it is empty", err);
	if (slash && slash > text && names_host(text, (size_t)(slash - text))) {
		if (slash - text > NAME_MAX_BYTES || !is_host(text, (size_t)(slash - text)))
			return not_one(text, "what is before the first slash is not a host", err);
		host = arena_strndup(arena, text, (size_t)(slash - text));
		path = slash + 1;
	}
	n -= (size_t)(path - text);
	if (!is_path(path, n))
		return not_one(text,
			       "its path may have lower-case letters, digits and single separators "
			       "between them",
			       err);
	if (str_eq(host, "index.docker.io"))
		host = DEFAULT_HOST;
	ret->host = host;
	ret->path = str_eq(host, DEFAULT_HOST) && !memchr(path, '/', n)
			    ? arena_printf(arena, "library/%.*s", (int)n, path)
			    : arena_strndup(arena, path, n);
	return strlen(ret->path) <= NAME_MAX_BYTES
		       ? 0
		       : not_one(text, "its path has more than 255 bytes", err);
}

int image_ref_parse(const char *text, struct arena *arena, struct image_ref *ret, struct err *err)
{
	struct image_ref r = { NULL };
	const char *at = strchr(text, '@'), *end = at ? at : text + strlen(text),
		   *colon = memrchr(text, ':', (size_t)(end - text));

	if (at && parse_digest(text, at + 1, arena, &r.digest, err) < 0)
		return -1;
	if (colon && memchr(colon, '/', (size_t)(end - colon)))
		colon = NULL; /* it precedes a port */
	if (colon && !is_tag(colon + 1, (size_t)(end - colon - 1)))
		return not_one(text, "what is behind the colon is not a tag", err);
	if (colon)
		r.tag = arena_strndup(arena, colon + 1, (size_t)(end - colon - 1));
	if (parse_name(text, (size_t)((colon ? colon : end) - text), arena, &r, err) < 0)
		return -1;
	if (!r.tag && !r.digest)
		r.tag = "latest";
	*ret = r;
	return 0;
}

void image_ref_add(struct str *out, const struct image_ref *r)
{
	assert(r->host && r->path);
	str_addf(out, "%s/%s", r->host, r->path);
	if (r->tag)
		str_addf(out, ":%s", r->tag);
	if (r->digest)
		str_addf(out, "@%s", r->digest);
}
