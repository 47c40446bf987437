/* engine/base/text/text.c — characters, suggestions, and quoting for shells, terminals and XML.
 * (Quantities: quantity.c; times: time.c; widths: width.c.)
 *
 * Only text_utf8_decode() decodes UTF-8, so there is one definition of well-formed. A suggestion is
 * the candidate with the smallest edit distance in three rows on the stack. Length and a set of the
 * characters exclude most candidates before the distance is computed, so that an error message
 * stays cheap with thousands of names.
 *
 * text_is_hostile() says which characters must be escaped for a terminal.
 */
#include "base/text/text.h"
#include "base/text/hostile.h"

#include <assert.h>
#include <string.h>

/* UTF-8. */

/* Unicode 15, table 3-7: the second byte's range depends on the first. */
static size_t sequence_length(unsigned char first, unsigned char *lo, unsigned char *hi)
{
	*lo = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
	*hi = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
	if (first >= 0xc2 && first <= 0xdf)
		return 2;
	if (first >= 0xe0 && first <= 0xef)
		return 3;
	if (first >= 0xf0 && first <= 0xf4)
		return 4;
	return 0;
}

size_t text_utf8_decode(const char *s, size_t n, uint32_t *ret_codepoint)
{
	const unsigned char *u = (const unsigned char *)s;
	unsigned char lo, hi;
	uint32_t cp;
	size_t len;

	if (n == 0)
		return 0;
	if (u[0] < 0x80) {
		*ret_codepoint = u[0];
		return 1;
	}
	len = sequence_length(u[0], &lo, &hi);
	if (len == 0 || len > n || u[1] < lo || u[1] > hi)
		return 0;
	cp = u[0] & (0x7fU >> len);
	for (size_t i = 1; i < len; i++) {
		if ((u[i] & 0xc0) != 0x80)
			return 0;
		cp = cp << 6 | (u[i] & 0x3f);
	}
	*ret_codepoint = cp;
	return len;
}

bool text_is_utf8(const char *s, size_t n)
{
	uint32_t cp;

	for (size_t i = 0, len; i < n; i += len) {
		uint64_t word;

		if (n - i >= 8 && (memcpy(&word, s + i, 8), (word & 0x8080808080808080ULL) == 0)) {
			len = 8;
			continue;
		}
		len = text_utf8_decode(s + i, n - i, &cp);
		if (len == 0)
			return false;
	}
	return true;
}

/* Suggestions. */

#define WORD_MAX_BYTES                                                                       \
	64     /* longer words are rarely mistyped by only a letter or two, so no suggestion \
		*/
#define EDIT 2 /* cost of an edit; a difference of case or of - and _ costs half */

static char fold(char c)
{
	if (c >= 'A' && c <= 'Z')
		return (char)(c - 'A' + 'a');
	return c == '_' ? '-' : c;
}

/* The set of characters, folded into 64 bits. An edit adds at most one new character.
 */
static uint64_t characters_of(const char *s, size_t n)
{
	uint64_t set = 0;

	for (size_t i = 0; i < n; i++)
		set |= 1ULL << ((unsigned char)fold(s[i]) & 63);
	return set;
}

/* Optimal string alignment (Damerau-Levenshtein where no substring is edited twice), in three rows.
 * If the distance is over `limit`, returns any number over it. */
static unsigned distance(const char *a, size_t na, const char *b, size_t nb, unsigned limit)
{
	unsigned rows[3][WORD_MAX_BYTES + 1];

	for (size_t j = 0; j <= nb; j++)
		rows[0][j] = (unsigned)j * EDIT;
	for (size_t i = 1; i <= na; i++) {
		unsigned *row = rows[i % 3], *up = rows[(i + 2) % 3], *up2 = rows[(i + 1) % 3];
		unsigned best = row[0] = (unsigned)i * EDIT;

		for (size_t j = 1; j <= nb; j++) {
			char x = a[i - 1], y = b[j - 1];
			unsigned d = up[j - 1] + (x == y ? 0 : fold(x) == fold(y) ? 1 : EDIT);

			d = MIN(d, up[j] + EDIT);
			d = MIN(d, row[j - 1] + EDIT);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d = MIN(d, up2[j - 2] + EDIT);
			row[j] = d;
			best = MIN(best, d);
		}
		if (best > limit + EDIT) /* a swap may still reach back over one row */
			return best;
	}
	return rows[na % 3][nb];
}

bool text_is_one_of(const char *word, const char *const *words, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (word && strcmp(word, words[i]) == 0)
			return true;
	return false;
}

static bool differs_in_case_only(const char *a, const char *b, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (fold(a[i]) != fold(b[i]))
			return false;
	return true;
}

const char *text_nearest(const char *word, const char *const *candidates, size_t n)
{
	size_t len = strlen(word);
	uint64_t set = characters_of(word, MIN(len, (size_t)WORD_MAX_BYTES));
	const char *best = NULL;
	unsigned best_cost = (unsigned)-1;

	if (len == 0 || len > WORD_MAX_BYTES)
		return NULL;
	for (size_t i = 0; i < n && best_cost > 0; i++) {
		size_t clen = strlen(candidates[i]), gap = clen > len ? clen - len : len - clen;
		unsigned edits = (unsigned)(MAX(clen, len) / 3), limit = edits * EDIT, cost;

		/* near at any length */
		if (clen == len && differs_in_case_only(word, candidates[i], len))
			limit = (unsigned)len;
		else if (clen == 0 || clen > WORD_MAX_BYTES || gap > edits ||
			 (unsigned)__builtin_popcountll(set & ~characters_of(candidates[i], clen)) >
				 edits)
			continue;
		cost = distance(word, len, candidates[i], clen, limit);
		if (cost <= limit && cost < best_cost) {
			best = candidates[i];
			best_cost = cost;
		}
	}
	return best;
}

void text_add_suggestion(struct str *out, const char *word, const char *const *candidates, size_t n)
{
	const char *near = text_nearest(word, candidates, n);

	if (near)
		str_addf(out, " (did you mean `%s`?)", near);
}

void text_add_names(struct str *out, const char *const *names, size_t n, size_t max)
{
	for (size_t i = 0; i < MIN(n, max); i++) {
		str_add(out, i ? ", " : "");
		text_add_printable(out, names[i], strlen(names[i]));
	}
	str_add(out, n > max ? ", …" : "");
}

/* Quoting. */

void text_add_shell_quoted(struct str *out, const char *s)
{
	static const char safe[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./,:@%+=";

	if (*s && *s != '=' && !s[strspn(s, safe)]) { /* zsh expands =word */
		str_add(out, s);
		return;
	}
	str_addc(out, '\'');
	for (; *s; s++) {
		if (*s == '\'')
			str_add(out, "'\\''");
		else
			str_addc(out, *s);
	}
	str_addc(out, '\'');
}

bool text_is_hostile(uint32_t cp)
{
	return cp < 0x20 || (cp >= 0x7f && cp < 0xa0) || cp == 0x61c || cp == 0x200e ||
	       cp == 0x200f || (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069) ||
	       cp == 0xfeff || (cp >= 0xfff9 && cp <= 0xfffb) || (cp >= 0xe0000 && cp <= 0xe007f) ||
	       (cp & 0xfffe) == 0xfffe || (cp >= 0xfdd0 && cp <= 0xfdef);
}

static void add_escaped(struct str *out, uint32_t cp)
{
	static const struct {
		char c, letter;
	} short_forms[] = { { '\n', 'n' }, { '\t', 't' }, { '\r', 'r' }, { 0x1b, 'e' } };

	for (size_t i = 0; i < ARRAY_LEN(short_forms); i++) {
		if (cp == (uint32_t)short_forms[i].c) {
			str_addf(out, "\\%c", short_forms[i].letter);
			return;
		}
	}
	str_addf(out, cp < 0x80 ? "\\x%02x" : cp < 0x10000 ? "\\u%04x" : "\\U%08x", cp);
}

void text_add_printable(struct str *out, const char *s, size_t n)
{
	for (size_t i = 0, len; i < n; i += len) {
		uint32_t cp;

		len = text_utf8_decode(s + i, n - i, &cp);
		if (len == 0) {
			str_addf(out, "\\x%02x", (unsigned char)s[i]);
			len = 1;
		} else if (text_is_hostile(cp)) {
			add_escaped(out, cp);
		} else {
			str_addn(out, s + i, len);
		}
	}
}

void text_add_xml(struct str *out, const char *s, size_t n)
{
	_cleanup_(str_deinit) struct str plain = { 0 };

	text_add_printable(&plain, s, n);
	for (size_t i = 0; i < plain.len; i++) {
		char c = plain.s[i];
		const char *entity = c == '<'    ? "&lt;"
				     : c == '>'  ? "&gt;"
				     : c == '&'  ? "&amp;"
				     : c == '"'  ? "&quot;"
				     : c == '\'' ? "&#39;"
						 : NULL;

		if (entity)
			str_add(out, entity);
		else
			str_addc(out, c);
	}
}

const char *text_volume_path(const char *uri)
{
	const char *digest = str_has_prefix(uri, "image://") ? strstr(uri, "@sha256:") : NULL;
	const char *name = strstr(uri, "://");

	assert(name);
	return strchrnul(digest ? digest : name + 3, '/');
}

void text_hide(char *text, const char *secret)
{
	size_t len = secret ? strlen(secret) : 0;

	for (char *p = text; len && *p; p++) {
		size_t n = 0;

		while (n < len && p[n] == secret[n])
			n++;
		if (n == len || (n >= 8 && p[n] == '\0'))
			memset(p, '*', n);
	}
}
