/* engine/plan/code/scan_python.c — finds import statements without Python.
 *
 * next_token() cuts the text by Python's lexical rules: comments, strings (also f-strings with
 * strings inside their fields, as in Python 3.12), lines joined by a backslash or by brackets. A
 * statement begins at a logical line, after `;`, or after a `:` outside brackets, so that `try:
 * import a` counts. `import` and `from` are read only there; `yield from x` and `x.import` never
 * stand there.
 *
 * Each byte is read once, except for the letters before a quote. Fields of f-strings nest by
 * recursion, at most NEST_MAX deep; a file that nests deeper isn't read further, as Python itself
 * refuses it.
 */
#include <stdbool.h>
#include <string.h>
#include "base/macros.h"
#include "plan/code/scan.h"

#define NEST_MAX 100

enum token { TOKEN_END, TOKEN_LINE, TOKEN_NAME, TOKEN_OTHER };

struct scanner {
	const char *at, *end;
	unsigned line, brackets;
	/* The token that was read last. */
	enum token token;
	const char *text;
	size_t len;
	unsigned token_line;
};

/* Letters of other alphabets are bytes from 0x80 on in every encoding. */
static bool is_name_byte(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
	       c == '_' || (unsigned char)c >= 0x80;
}

static bool is_line_end(char c)
{
	return c == '\n' || c == '\r';
}

/* Skips a line's end; "\r\n" is one. */
static void skip_line_end(struct scanner *s)
{
	s->at += *s->at == '\r' && s->at + 1 < s->end && s->at[1] == '\n' ? 2 : 1;
	s->line++;
}

static void skip_comment(struct scanner *s)
{
	while (s->at < s->end && !is_line_end(*s->at))
		s->at++;
}

/* How a string begins. */
struct quotes {
	char quote;
	bool triple, format;
};

static bool at_quotes(const struct scanner *s, const struct quotes *q)
{
	return *s->at == q->quote && (!q->triple || (s->end - s->at >= 3 && s->at[1] == q->quote &&
						     s->at[2] == q->quote));
}

/* Skips a backslash and the character it escapes. In raw strings the backslash stays in the text,
 * but still keeps a quote from ending them. Before a brace it does nothing. */
static void skip_escape(struct scanner *s, const struct quotes *q)
{
	s->at++;
	if (s->at == s->end || (q->format && (*s->at == '{' || *s->at == '}')))
		return;
	if (is_line_end(*s->at))
		skip_line_end(s);
	else
		s->at++;
}

static void skip_string(struct scanner *s, struct quotes q, unsigned nest);

/* Skips a string, from its quote on; its prefix has n letters. */
static void skip_literal(struct scanner *s, const char *prefix, size_t n, unsigned nest)
{
	struct quotes q = { .quote = *s->at };
	bool is_prefix = n <= 2;

	for (size_t i = 0; i < n && is_prefix; i++) {
		is_prefix = memchr("rRbBuUfFtT", prefix[i], 10) != NULL;
		q.format |= memchr("fFtT", prefix[i], 4) != NULL;
	}
	q.format &= is_prefix;
	q.triple = s->end - s->at >= 3 && s->at[1] == q.quote && s->at[2] == q.quote;
	s->at += q.triple ? 3 : 1;
	skip_string(s, q, nest);
}

/* Skips a field of an f-string, from after its `{` to after its `}`: an expression with strings and
 * brackets, then maybe a colon and text, which may hold fields again. */
static void skip_field(struct scanner *s, const struct quotes *q, unsigned nest)
{
	unsigned brackets = 0;
	bool spec = false;
	const char *name = NULL;

	if (nest >= NEST_MAX)
		s->at = s->end;
	while (s->at < s->end) {
		char c = *s->at;

		if (spec && (at_quotes(s, q) || (is_line_end(c) && !q->triple)))
			return; /* never closed: the string ends here */
		if (!spec && is_name_byte(c)) {
			for (name = s->at; s->at < s->end && is_name_byte(*s->at);)
				s->at++;
			if (s->at < s->end && (*s->at == '"' || *s->at == '\''))
				skip_literal(s, name, (size_t)(s->at - name), nest + 1);
			continue;
		}
		if (!spec && (c == '"' || c == '\'')) {
			skip_literal(s, s->at, 0, nest + 1);
			continue;
		}
		if (!spec && c == '#') {
			skip_comment(s);
			continue;
		}
		if (is_line_end(c)) {
			skip_line_end(s);
			continue;
		}
		s->at++;
		if (c == '}' && !brackets)
			return;
		if (spec && c == '{')
			skip_field(s, q, nest + 1);
		else if (spec)
			continue;
		else if (c == '(' || c == '[' || c == '{')
			brackets++;
		else if (c == ')' || c == ']' || c == '}')
			brackets -= brackets > 0;
		else if (c == ':' && !brackets)
			spec = true;
	}
}

static void skip_string(struct scanner *s, struct quotes q, unsigned nest)
{
	while (s->at < s->end) {
		if (at_quotes(s, &q)) {
			s->at += q.triple ? 3 : 1;
			return;
		}
		if (*s->at == '\\') {
			skip_escape(s, &q);
		} else if (is_line_end(*s->at)) {
			if (!q.triple)
				return; /* never closed: the next line starts a new statement */
			skip_line_end(s);
		} else if (q.format && *s->at == '{') {
			s->at++;
			if (s->at < s->end && *s->at == '{')
				s->at++;
			else
				skip_field(s, &q, nest);
		} else {
			s->at++;
		}
	}
}

static bool skip_joined_line(struct scanner *s)
{
	if (*s->at != '\\' || s->at + 1 == s->end || !is_line_end(s->at[1]))
		return false;
	s->at++;
	skip_line_end(s);
	return true;
}

static enum token next_token(struct scanner *s)
{
	for (;;) {
		if (s->at == s->end)
			return s->token = TOKEN_END;
		if (*s->at == ' ' || *s->at == '\t' || *s->at == '\f')
			s->at++;
		else if (*s->at == '#')
			skip_comment(s);
		else if (is_line_end(*s->at) && s->brackets)
			skip_line_end(s);
		else if (!skip_joined_line(s))
			break;
	}
	s->text = s->at;
	s->token_line = s->line;
	s->token = TOKEN_OTHER;
	if (is_line_end(*s->at)) {
		skip_line_end(s);
		return s->token = TOKEN_LINE;
	}
	while (s->at < s->end && is_name_byte(*s->at))
		s->at++;
	s->len = (size_t)(s->at - s->text);
	if (s->at < s->end && (*s->at == '"' || *s->at == '\'')) {
		skip_literal(s, s->text, s->len, 0);
		return s->token;
	}
	if (s->len)
		return s->token = TOKEN_NAME;
	s->len = 1;
	s->at++;
	if (*s->text == '(' || *s->text == '[' || *s->text == '{')
		s->brackets++;
	else if (*s->text == ')' || *s->text == ']' || *s->text == '}')
		s->brackets -= s->brackets > 0;
	return s->token;
}

static bool is_name(const struct scanner *s, const char *name)
{
	return s->token == TOKEN_NAME && s->len == strlen(name) &&
	       memcmp(s->text, name, s->len) == 0;
}

static bool is_sign(const struct scanner *s, char c)
{
	return s->token == TOKEN_OTHER && s->len == 1 && *s->text == c;
}

/* "a.b", put together from its parts; blanks may stand between them. */
struct dotted {
	char text[SCAN_NAME_MAX + 1];
	size_t len;
	bool bad; /* too long, or it ends in a dot */
};

static void add_part(struct dotted *d, const struct scanner *s)
{
	if (d->len + s->len + 1 > SCAN_NAME_MAX) {
		d->bad = true;
		return;
	}
	if (d->len)
		d->text[d->len++] = '.';
	memcpy(d->text + d->len, s->text, s->len);
	d->len += s->len;
}

/* Reads from its first name on, and the token after it. */
static void read_dotted(struct scanner *s, struct dotted *d)
{
	d->len = 0;
	d->bad = s->token != TOKEN_NAME;
	while (s->token == TOKEN_NAME) {
		add_part(d, s);
		if (next_token(s) == TOKEN_OTHER && is_sign(s, '.'))
			d->bad |= next_token(s) != TOKEN_NAME;
		else
			break;
	}
	d->text[d->len] = '\0';
}

/* Skips `as other`, and a comma: whether another name follows. */
static bool goes_on(struct scanner *s)
{
	if (is_name(s, "as")) {
		next_token(s);
		next_token(s);
	}
	if (!is_sign(s, ','))
		return false;
	next_token(s);
	return true;
}

typedef void (*import_fn)(void *arg, const struct scan_import *import);

/* Reads on after `import`. */
static void read_import(struct scanner *s, unsigned line, import_fn fn, void *arg)
{
	struct dotted d;

	next_token(s);
	do {
		read_dotted(s, &d);
		if (!d.bad)
			fn(arg, &(struct scan_import){ .module = d.text, .line = line });
	} while (goes_on(s) && s->token == TOKEN_NAME);
}

/* Reads on after `from`. */
static void read_from(struct scanner *s, unsigned line, import_fn fn, void *arg)
{
	struct scan_import import = { .module = "", .line = line };
	struct dotted module = { 0 }, name;

	while (next_token(s) == TOKEN_OTHER && is_sign(s, '.'))
		import.level++;
	if (!is_name(s, "import"))
		read_dotted(s, &module);
	import.module = module.text;
	if (module.bad || !is_name(s, "import") || (!module.len && !import.level))
		return;
	next_token(s);
	if (is_sign(s, '*')) {
		import.name = "*";
		fn(arg, &import);
		return;
	}
	if (is_sign(s, '('))
		next_token(s);
	while (s->token == TOKEN_NAME) {
		name.len = 0;
		name.bad = false;
		add_part(&name, s);
		name.text[name.len] = '\0';
		import.name = name.text;
		if (!name.bad)
			fn(arg, &import);
		next_token(s);
		if (!goes_on(s))
			break;
	}
}

void scan_python(const char *bytes, size_t n, import_fn fn, void *arg)
{
	struct scanner s = { .at = bytes, .end = bytes + n, .line = 1 };
	bool begins = true;

	if (n >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
		s.at += 3;
	next_token(&s);
	while (s.token != TOKEN_END) {
		unsigned line = s.token_line;

		if (begins && is_name(&s, "import")) {
			read_import(&s, line, fn, arg);
		} else if (begins && is_name(&s, "from")) {
			read_from(&s, line, fn, arg);
		} else {
			begins = s.token == TOKEN_LINE ||
				 (!s.brackets && (is_sign(&s, ';') || is_sign(&s, ':')));
			next_token(&s);
			continue;
		}
		begins = false; /* the token that ended the statement is handled next */
	}
}
