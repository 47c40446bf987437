/* runners/redact_forms.c — the forms in which a secret may appear in a log.
 *
 * redact_forms() gives each line of the value as it is, percent-encoded, inside a JSON string, and
 * in base64; a value of several lines in base64 as a whole, too. Programs differ in what they
 * escape, so each encoding is written in the few ways that are in use (`ways`). Most values are
 * letters and digits, which neither percent-encoding nor JSON changes: both are skipped for them. A
 * form longer than REDACT_PIECE is cut into pieces of about equal length (add()). A form may be
 * given twice; redactor_new() drops the second.
 *
 * It is also part of process 1 in pods, so it uses only memory and strings. It has no state;
 * redact.c does the search.
 */
#include <string.h>
#include "base/mem.h"
#include "runners/redact.h"

#define LETTERS_AND_DIGITS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
/* Characters that no text encoding changes. */
#define PLAIN LETTERS_AND_DIGITS "-._"

struct forms {
	redact_form_fn add;
	void *arg;
	struct str text; /* the form that is being built */
};

static void add(struct forms *f, const char *s, size_t n)
{
	size_t pieces = (n + REDACT_PIECE - 1) / REDACT_PIECE, from = 0;

	if (n < REDACT_MIN)
		return;
	for (size_t i = 0; i < pieces; i++) {
		size_t to = n * (i + 1) / pieces;

		f->add(f->arg, s + from, to - from);
		from = to;
	}
}

static void add_made(struct forms *f)
{
	add(f, f->text.s, f->text.len);
	str_reset(&f->text);
}

/* base64 (RFC 4648) */

static unsigned char byte_at(const char *s, size_t n, size_t before, size_t i)
{
	return i >= before && i < before + n ? (unsigned char)s[i - before] : 0;
}

/* Encodes `before` zeros, the value, and zeros up to the end of a group of three. */
static void make_base64(struct forms *f, const char *s, size_t n, size_t before,
			const char *last_two)
{
	char alphabet[] = LETTERS_AND_DIGITS "__";

	memcpy(alphabet + 62, last_two, 2);
	str_reset(&f->text);
	for (size_t i = 0; i < before + n; i += 3) {
		unsigned v = byte_at(s, n, before, i) << 16 | byte_at(s, n, before, i + 1) << 8 |
			     byte_at(s, n, before, i + 2);

		str_addn(&f->text,
			 (char[]){ alphabet[v >> 18], alphabet[v >> 12 & 63], alphabet[v >> 6 & 63],
				   alphabet[v & 63] },
			 4);
	}
}

/* Breaks lines as base64 and PEM do when they encode the value alone. */
static void add_wrapped(struct forms *f, const char *s, size_t n, size_t width)
{
	size_t len = (8 * n + 5) / 6;

	if (len <= width)
		return;
	make_base64(f, s, n, 0, "+/");
	for (size_t at = 0; at < len; at += width)
		add(f, f->text.s + at, MIN(width, len - at));
}

static void add_base64(struct forms *f, const char *s, size_t n)
{
	static const char *const last_two[] = { "+/", "-_" };

	for (size_t way = 0; way < 3 * ARRAY_LEN(last_two); way++) {
		size_t before = way % 3, from = (8 * before + 5) / 6, bits = 8 * (before + n);

		make_base64(f, s, n, before, last_two[way / 3]);
		add(f, f->text.s + from,
		    bits / 6 - from); /* the characters that depend on the value alone */
		if (bits % 6)         /* and the one with its last bits, if nothing follows */
			add(f, f->text.s + from, bits / 6 + 1 - from);
	}
	add_wrapped(f, s, n, 64);
	add_wrapped(f, s, n, 76);
}

/* percent-encoding (RFC 3986) */

static void add_percent(struct forms *f, const char *s, size_t n)
{
	/* The characters that stay unchanged in: RFC 3986 (unreserved), Python's quote(),
	 * encodeURIComponent(), encodeURI(), and forms (HTML, Python). */
	static const struct {
		const char *kept;
		bool plus; /* a space is `+` */
	} ways[] = { { "-._~" },       { "-._~/" },     { "-._~!'()*" }, { "-._~!'()*;,/?:@&=+$#" },
		     { "*-._", true }, { "-._~", true } };
	static const char *const digits[] = { "0123456789ABCDEF", "0123456789abcdef" };

	if (strspn(s, PLAIN) >= n)
		return;
	for (size_t way = 0; way < ARRAY_LEN(ways) * ARRAY_LEN(digits); way++) {
		const char *hex = digits[way % 2], *kept = ways[way / 2].kept;

		for (size_t i = 0; i < n; i++) {
			unsigned char c = (unsigned char)s[i];

			if (strchr(LETTERS_AND_DIGITS, s[i]) || strchr(kept, s[i]))
				str_addc(&f->text, s[i]);
			else if (c == ' ' && ways[way / 2].plus)
				str_addc(&f->text, '+');
			else
				str_addn(&f->text, (char[]){ '%', hex[c >> 4], hex[c & 15] }, 3);
		}
		add_made(f);
	}
}

/* JSON (RFC 8259) */

/* The UTF-8 character at s, and its length; an invalid byte counts as a character. */
static uint32_t character_at(const char *s, size_t n, size_t *ret_len)
{
	const unsigned char *b = (const unsigned char *)s;
	size_t len = b[0] >= 0xf0 && b[0] < 0xf8   ? 4
		     : b[0] >= 0xe0 && b[0] < 0xf0 ? 3
		     : b[0] >= 0xc2 && b[0] < 0xe0 ? 2
						   : 1;
	uint32_t c = len == 1 ? b[0] : b[0] & (0x7fu >> len);

	for (size_t i = 1; i < len; i++) {
		if (i >= n || (b[i] & 0xc0) != 0x80) {
			*ret_len = 1;
			return b[0];
		}
		c = c << 6 | (b[i] & 0x3fu);
	}
	*ret_len = len;
	return c;
}

static void add_unit(struct str *out, uint32_t unit, const char *hex)
{
	str_addn(out,
		 (char[]){ '\\', 'u', hex[unit >> 12 & 15], hex[unit >> 8 & 15],
			   hex[unit >> 4 & 15], hex[unit & 15] },
		 6);
}

static void add_json(struct forms *f, const char *s, size_t n)
{
	/* The characters that are escaped besides the required ones: none, those of HTML (Go), all
	 * but ASCII (Python). */
	static const struct {
		const char *escaped;
		bool slash, ascii;
	} ways[] = { { "" },
		     { "", true },
		     { "<>&" },
		     { "<>&'+" },
		     { "", false, true },
		     { "", true, true },
		     { "<>&", false, true } };
	static const char *const digits[] = { "0123456789abcdef", "0123456789ABCDEF" };
	static const char shorts[] = "\bb\ff\nn\rr\tt\"\"\\\\";

	if (strspn(s, PLAIN) >= n)
		return;
	for (size_t way = 0; way < ARRAY_LEN(ways) * ARRAY_LEN(digits); way++) {
		const char *hex = digits[way % 2], *escaped = ways[way / 2].escaped;
		bool slash = ways[way / 2].slash, ascii = ways[way / 2].ascii;
		size_t len;

		for (size_t i = 0; i < n; i += len) {
			uint32_t c = character_at(s + i, n - i, &len);
			const char *short_form = NULL;
			bool must;

			for (size_t k = 0; shorts[k] && c < 128; k += 2)
				if (shorts[k] == (char)c)
					short_form = &shorts[k + 1];
			must = c > 127 ? ascii : c < 0x20 || strchr(escaped, (char)c);
			if (short_form || (c == '/' && slash)) {
				char two[] = { '\\', short_form ? *short_form : '/' };

				str_addn(&f->text, two, 2);
			} else if (must && c > 0xffff) {
				add_unit(&f->text, 0xd800 + ((c - 0x10000) >> 10), hex);
				add_unit(&f->text, 0xdc00 + ((c - 0x10000) & 0x3ff), hex);
			} else if (must) {
				add_unit(&f->text, c, hex);
			} else {
				str_addn(&f->text, s + i, len);
			}
		}
		add_made(f);
	}
}

/* The next line; *s moves behind it. */
static size_t next_line(const char **s, const char *end, const char **ret)
{
	while (*s < end && (**s == '\n' || **s == '\r'))
		(*s)++;
	*ret = *s;
	while (*s < end && **s != '\n' && **s != '\r')
		(*s)++;
	return (size_t)(*s - *ret);
}

bool redact_can_mask(const char *value, size_t n)
{
	const char *line, *end = value + n;
	size_t len;

	while ((len = next_line(&value, end, &line)) > 0)
		if (len >= REDACT_MIN)
			return true;
	return false;
}

void redact_forms(const char *value, size_t n, redact_form_fn add_form, void *arg)
{
	struct forms f = { .add = add_form, .arg = arg };
	const char *line, *at = value, *end = value + n;
	size_t len;

	/* Its encodings aren't searched for either: the base64 of "no" is in half of all logs. */
	if (!redact_can_mask(value, n))
		return;
	while ((len = next_line(&at, end, &line)) > 0) {
		if (len < REDACT_MIN)
			continue;
		add(&f, line, len);
		add_percent(&f, line, len);
		add_json(&f, line, len);
		add_base64(&f, line, len);
	}
	while (n && (value[n - 1] == '\n' || value[n - 1] == '\r'))
		n--;
	if (memchr(value, '\n', n) || memchr(value, '\r', n))
		add_base64(&f, value, n); /* with its line ends */
	str_wipe(&f.text);
}
