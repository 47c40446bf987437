/* runners/image/challenge.c — WWW-Authenticate, scanned by hand (RFC 9110, 11.6.1).
 *
 * It reads header lines one by one. In a value, commas separate both challenges and parameters;
 * scan() recognises a parameter by the "=" after its name. A challenge is complete when the next
 * scheme begins, and the best one so far is kept. Pure functions; a syntax error ends the line.
 */
#include <string.h>
#include <strings.h>
#include "base/mem.h"
#include "runners/image/registry_internal.h"

#define VALUE_MAX 2048

struct scanner {
	const char *at, *end;
	struct arena *arena;
};

static bool is_token_char(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       (c && strchr("!#$%&'*+-.^_`|~", c));
}

static void skip(struct scanner *s, const char *set)
{
	while (s->at < s->end && *s->at && strchr(set, *s->at))
		s->at++;
}

/* A word; its length is 0 when there is none. */
static size_t word(struct scanner *s, const char **ret)
{
	*ret = s->at;
	while (s->at < s->end && is_token_char(*s->at))
		s->at++;
	return (size_t)(s->at - *ret);
}

/* A word, or quoted text with backslash escapes. NULL: it doesn't end, or is too long. */
static const char *value(struct scanner *s)
{
	_cleanup_(str_deinit) struct str out = { 0 };
	const char *w;
	size_t n;

	if (s->at == s->end || *s->at != '"') {
		n = word(s, &w);
		return n <= VALUE_MAX ? arena_strndup(s->arena, w, n) : NULL;
	}
	for (s->at++; s->at < s->end && *s->at != '"'; s->at++) {
		if (*s->at == '\\' && s->at + 1 < s->end)
			s->at++;
		str_addc(&out, *s->at);
	}
	if (s->at == s->end || out.len > VALUE_MAX || (out.len && strlen(out.s) != out.len))
		return NULL;
	s->at++;
	return arena_strdup(s->arena, out.len ? out.s : "");
}

static bool is(const char *w, size_t n, const char *name)
{
	return strlen(name) == n && strncasecmp(w, name, n) == 0;
}

static void set_param(struct auth_challenge *c, const char *name, size_t n, const char *text)
{
	if (is(name, n, "realm"))
		c->realm = text;
	else if (is(name, n, "service"))
		c->service = text;
	else if (is(name, n, "scope"))
		c->scope = text;
	else if (is(name, n, "error"))
		c->error = text;
}

static void offer(const struct auth_challenge *c, struct auth_challenge *best)
{
	if (c->scheme > best->scheme && (c->scheme != AUTH_BEARER || c->realm))
		*best = *c;
}

/* One header's value: commas separate challenges, and the parameters of each. A word before "=" is
 * a parameter, any other a scheme. */
static void scan(struct scanner *s, struct auth_challenge *best)
{
	struct auth_challenge c = { AUTH_NONE };

	for (;;) {
		const char *w;
		size_t n;

		skip(s, " \t,");
		n = word(s, &w);
		if (n == 0)
			break;
		skip(s, " \t");
		if (s->at < s->end && *s->at == '=') {
			const char *text;

			s->at++;
			skip(s, " \t=");
			text = value(s);
			if (!text)
				break;
			set_param(&c, w, n, text);
			continue;
		}
		offer(&c, best);
		c = (struct auth_challenge){ is(w, n, "Bearer")  ? AUTH_BEARER
					     : is(w, n, "Basic") ? AUTH_BASIC
								 : AUTH_NONE };
	}
	offer(&c, best);
}

void registry_challenge_parse(const char *headers, size_t n, struct arena *arena,
			      struct auth_challenge *ret)
{
	static const char name[] = "www-authenticate:";
	const char *end = headers + n;

	*ret = (struct auth_challenge){ AUTH_NONE };
	for (const char *line = headers; line < end;) {
		const char *eol = memchr(line, '\n', (size_t)(end - line));
		struct scanner s = { line + sizeof(name) - 1, eol ? eol : end, arena };

		if ((size_t)(s.end - line) >= sizeof(name) - 1 &&
		    strncasecmp(line, name, sizeof(name) - 1) == 0)
			scan(&s, ret);
		line = s.end + 1;
	}
}
