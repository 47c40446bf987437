/* How a value is written where it stands: as a variable for the shell, as text for people and keys.
 */
#include <assert.h>
#include <string.h>
#include "base/text/str.h"
#include "model/shell/words.h"

bool shell_plain_word(const char *s, size_t n)
{
	static const char safe[] =
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-";
	size_t i = 0;

	while (i < n && s[i] && strchr(safe, s[i]))
		i++;
	return n > 0 && i == n;
}

bool shell_names_variable(const char *text, size_t n)
{
	const char *at = text, *end = text + n;
	size_t len = strlen(SHELL_VARIABLE);

	while ((at = memmem(at, (size_t)(end - at), SHELL_VARIABLE, len)) && (at += len) < end)
		if (*at >= '0' && *at <= '9')
			return true;
	return false;
}

static void add_escaped(struct str *out, const char *s, size_t n, const char *special)
{
	for (size_t i = 0; i < n; i++) {
		if (strchr(special, s[i]))
			str_addc(out, '\\');
		str_addc(out, s[i]);
	}
}

/* Writes text between single quotes, which the caller adds. */
static void add_single(struct str *out, const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (s[i] == '\'')
			str_add(out, "'\\''");
		else
			str_addc(out, s[i]);
}

static void add_quoted(struct str *out, const char *s, size_t n)
{
	str_addc(out, '\'');
	add_single(out, s, n);
	str_addc(out, '\'');
}

/* Whether it can stand there without quotes. */
static bool stands_alone(const struct shell_place *p, const char *s, size_t n)
{
	if (!shell_plain_word(s, n) || p->after_name || p->in_pattern)
		return false;
	if (p->redirected && strspn(s, "0123456789") == n)
		return false;
	return !p->first || (memchr(s, '/', n) && !memchr(s, '=', n));
}

/* Inside double quotes or a here-document: text that would extend a name before it, or end the
 * here-document, is written as a variable. */
static bool needs_name(const struct shell_place *p, const char *s, size_t n)
{
	if (p->after_name && (n == 0 || shell_name_char(s[0])))
		return true;
	return p->kind == SHELL_HERE &&
	       (memchr(s, '\n', n) || memchr(s, '\t', n) || memmem(p->end, strlen(p->end), s, n));
}

void shell_add_literal(struct str *out, const struct shell_place *place, const char *s, size_t n,
		       uint32_t number)
{
	switch (place->kind) {
	case SHELL_BARE:
	case SHELL_ONE:
		if (stands_alone(place, s, n))
			str_addn(out, s, n);
		else
			add_quoted(out, s, n);
		break;
	case SHELL_DOUBLE:
	case SHELL_HERE:
		if (!needs_name(place, s, n)) {
			add_escaped(out, s, n, place->kind == SHELL_HERE ? "\\$`" : "\\$`\"");
			break;
		}
		str_addf(out, "${" SHELL_VARIABLE "%u=", number);
		add_quoted(out, s, n);
		str_addc(out, '}');
		break;
	case SHELL_SINGLE:
		add_single(out, s, n);
		break;
	case SHELL_COMMENT:
		for (size_t i = 0; i < n; i++)
			str_addc(out, s[i] == '\n' ? ' ' : s[i]);
		break;
	case SHELL_TEXT:
		str_addn(out, s, n);
	}
}

void shell_add_variable(struct str *out, enum shell_place_kind kind, uint32_t number)
{
	static const char *const around[][2] = {
		[SHELL_BARE] = { "\"", "\"" }, [SHELL_ONE] = { "\"", "\"" },
		[SHELL_DOUBLE] = { "", "" },   [SHELL_SINGLE] = { "'\"", "\"'" },
		[SHELL_HERE] = { "", "" },
	};

	assert(kind < ARRAY_LEN(around));
	str_addf(out, "%s${" SHELL_VARIABLE "%u}%s", around[kind][0], number, around[kind][1]);
}
