/* engine/plan/code/scan_shell.c — finds the files that a shell script sources, without a shell.
 *
 * Words are cut as POSIX says: quotes, backslashes, comments, here-documents, operators. A word in
 * which the shell expands something isn't literal, so it is no path. Where a command may begin, the
 * scanner looks for `.` and `source`, and reports the literal word after them.
 *
 * Command substitutions are read like subshells, since their parentheses are operators like any
 * others; inside double quotes only their quotes are followed. Arithmetic is skipped, because its
 * `<<` opens no here-document. At most HERE_MAX here-documents may begin in one line; further ones
 * aren't skipped, and are read as commands.
 */
#include <stdbool.h>
#include <string.h>
#include "base/macros.h"
#include "plan/code/scan.h"

#define HERE_MAX 8
/* Expressions are shorter. A failed search up to here isn't repeated. */
#define ARITHMETIC_MAX 4096

struct word {
	char text[SCAN_NAME_MAX + 1];
	size_t len;
	bool literal; /* the shell expands nothing in it */
	bool quoted;  /* some of it was in quotes */
};

struct here {
	char end[SCAN_NAME_MAX + 1];
	bool tabs; /* <<- : tabs at the beginning of lines are ignored */
};

struct scanner {
	const char *at, *end;
	unsigned line;
	struct here here[HERE_MAX];
	unsigned n_here;
	const char *no_arithmetic; /* before here, no arithmetic that was begun is closed */
};

static char peek(const struct scanner *s, size_t ahead)
{
	return (size_t)(s->end - s->at) > ahead ? s->at[ahead] : '\0';
}

static void take(struct scanner *s)
{
	s->line += *s->at == '\n';
	s->at++;
}

static void add_byte(struct word *w, char c)
{
	if (w->len == SCAN_NAME_MAX || c == '\0')
		w->literal = false;
	else
		w->text[w->len++] = c;
}

/* Reads from after the quote to after the next one. */
static void read_single(struct scanner *s, struct word *w)
{
	for (; s->at < s->end && *s->at != '\''; take(s))
		add_byte(w, *s->at);
	if (s->at < s->end)
		take(s);
}

static void read_double(struct scanner *s, struct word *w)
{
	for (; s->at < s->end && *s->at != '"'; take(s)) {
		if (*s->at == '$' || *s->at == '`')
			w->literal = false;
		if (*s->at == '\\' && s->at + 1 < s->end && strchr("$`\"\\\n", s->at[1])) {
			take(s);
			if (*s->at == '\n')
				continue;
		}
		add_byte(w, *s->at);
	}
	if (s->at < s->end)
		take(s);
}

/* Skips $(( … )) or (( … )), from after its opening parentheses. False where they don't close on
 * what may be one expression: then they are two subshells. */
static bool skip_arithmetic(struct scanner *s)
{
	unsigned open = 2;
	const char *at = s->at;

	if (at < s->no_arithmetic)
		return false;
	for (; at < s->end && at - s->at < ARITHMETIC_MAX; at++) {
		open += *at == '(';
		open -= *at == ')';
		if (open == 0 && at[-1] != ')')
			break;
		if (open == 0) {
			while (s->at <= at)
				take(s);
			return true;
		}
	}
	s->no_arithmetic = at;
	return false;
}

/* Reads a word; leaves the character that ends it. */
static void read_word(struct scanner *s, struct word *w)
{
	w->len = 0;
	w->literal = true;
	w->quoted = false;
	while (s->at < s->end && (*s->at == '\0' || !strchr(" \t\n\r;&|()<>", *s->at))) {
		char c = *s->at;

		take(s);
		if (c == '\'' || c == '"') {
			w->quoted = true;
			if (c == '"')
				read_double(s, w);
			else
				read_single(s, w);
		} else if (c == '\\' && s->at < s->end) {
			w->quoted = true;
			if (*s->at != '\n')
				add_byte(w, *s->at);
			take(s);
		} else {
			w->literal &= !strchr("$`*?[~", c);
			add_byte(w, c);
			if (c == '$' && peek(s, 0) == '(' && peek(s, 1) == '(') {
				s->at += 2;
				if (!skip_arithmetic(s))
					s->at -= 2;
			}
		}
	}
	w->text[w->len] = '\0';
}

/* At << : the next word ends a text that begins on the next line. */
static void read_here(struct scanner *s)
{
	struct word w;
	bool tabs;

	s->at += 2;
	if (peek(s, 0) == '<') { /* <<< takes a word */
		s->at++;
		return;
	}
	tabs = peek(s, 0) == '-';
	s->at += tabs;
	while (peek(s, 0) == ' ' || peek(s, 0) == '\t')
		s->at++;
	read_word(s, &w);
	if (!w.len || s->n_here == HERE_MAX)
		return;
	s->here[s->n_here].tabs = tabs;
	memcpy(s->here[s->n_here++].end, w.text, w.len + 1);
}

/* At the beginning of a line: skips the here-documents that begin there. */
static void skip_heres(struct scanner *s)
{
	for (unsigned i = 0; i < s->n_here; i++) {
		const char *end = s->here[i].end;
		bool found = false;

		while (s->at < s->end && !found) {
			const char *next = memchr(s->at, '\n', (size_t)(s->end - s->at));
			const char *stop = next ? next : s->end, *from = s->at;

			while (s->here[i].tabs && from < stop && *from == '\t')
				from++;
			found = (size_t)(stop - from) == strlen(end) &&
				memcmp(from, end, strlen(end)) == 0;
			s->at = next ? next + 1 : s->end;
			s->line += next != NULL;
		}
	}
	s->n_here = 0;
}

static bool word_is_one_of(const struct word *w, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n && w->literal; i++)
		if (strcmp(w->text, names[i]) == 0)
			return true;
	return false;
}

void scan_shell(const char *bytes, size_t n, void (*fn)(void *arg, const char *path, unsigned line),
		void *arg)
{
	/* After these words another command begins. */
	static const char *const before[] = { "if", "then", "else", "elif", "while",   "until",
					      "do", "!",    "time", "{",    "builtin", "command" };
	static const char *const sourcing[] = { ".", "source" };
	struct scanner s = { .at = bytes, .end = bytes + n, .line = 1 };
	enum { COMMAND, PATH, ARGUMENTS } expected = COMMAND;
	struct word w;

	while (s.at < s.end) {
		char c = *s.at;
		unsigned line = s.line;

		if (c == '\n') {
			take(&s);
			skip_heres(&s);
			expected = COMMAND;
		} else if (c == ' ' || c == '\t' || c == '\r') {
			s.at++;
		} else if (c == '\\' && peek(&s, 1) == '\n') {
			s.at++;
			take(&s);
		} else if (c == '#') {
			while (s.at < s.end && *s.at != '\n')
				s.at++;
		} else if (c == '<' && peek(&s, 1) == '<') {
			read_here(&s);
		} else if (c != '\0' && strchr(";&|()<>", c)) {
			s.at++;
			if (c == '(' && peek(&s, 0) == '(') {
				s.at++;
				if (!skip_arithmetic(&s))
					s.at--;
			}
			expected = c == '<' || c == '>' ? ARGUMENTS : COMMAND;
		} else {
			bool assigns;

			read_word(&s, &w);
			assigns = w.len && *w.text != '=' && memchr(w.text, '=', w.len);
			if (expected == PATH && w.literal && w.len)
				fn(arg, w.text, line);
			if (expected != COMMAND)
				expected = ARGUMENTS;
			else if (word_is_one_of(&w, sourcing, ARRAY_LEN(sourcing)))
				expected = PATH;
			else if (!assigns && !word_is_one_of(&w, before, ARRAY_LEN(before)))
				expected = ARGUMENTS;
		}
	}
}
