/* engine/model/shell/shell.c — reads a script as sh and bash do, as far as that decides how a value
 * must be written.
 *
 * Invariant: a place gets another kind than SHELL_TEXT only if every construct before it was
 * followed with certainty. lose() gives up on the rest of the script. `refuse` is set while a
 * construct lasts in which no variable can be named. sh and bash are treated differently where they
 * differ; where implementations of sh differ, the rest of the script is lost.
 *
 * The script is one array of bytes in which a NUL stands for each place (a literal NUL loses
 * everything). Functions leave the reader after what they have read; each place is reported
 * exactly once, in order. Recursion is bounded by DEPTH_MAX. commands() reads to the end of the
 * script or of a substitution; words.c handles the words of a command.
 *
 * It doesn't check that the script is valid. Where a shell reports an error, any reading will do.
 */
#include "model/shell/words.h"

#include <assert.h>
#include <string.h>
#include "base/mem.h"
#include "base/text/str.h"

#define DEPTH_MAX 32

struct reader_of_shell {
	const char *s;
	size_t n, i;
	bool bash;
	int depth;
	const char *refuse; /* why places are SHELL_TEXT at the moment */
	bool refuse_code;
	bool in_here;     /* inside of an expansion in a here-document */
	size_t n_waiting; /* here-documents of surrounding commands whose text hasn't come yet */
	struct arena *arena;
	struct shell_place *places; /* one for each NUL, in order */
	size_t n_places;
};

static const char in_code[] = "it would become part of a program's text";
static const char in_arithmetic[] = "arithmetic reads a value as an expression";

static void commands(struct reader_of_shell *r, char end);
static void dollar(struct reader_of_shell *r, const struct command_state *c, bool quoted);

/* Places. */

/* Whether $NAME ends right before the place. It may also be text in quotes; the careful answer does
 * no harm then. */
static bool after_name(const struct reader_of_shell *r)
{
	size_t k = r->i;

	while (k > 0 && shell_name_char(r->s[k - 1]))
		k--;
	return k > 0 && k < r->i && r->s[k - 1] == '$';
}

static struct shell_place *give(struct reader_of_shell *r, enum shell_place_kind kind,
				const char *why, bool code)
{
	struct shell_place *p = &r->places[r->n_places++];

	*p = (struct shell_place){
		.kind = kind, .why = why, .code = code, .after_name = after_name(r)
	};
	p->redirected = r->i + 1 < r->n && (r->s[r->i + 1] == '<' || r->s[r->i + 1] == '>');
	p->glued = kind == SHELL_TEXT &&
		   (p->after_name || p->redirected || (r->i > 0 && strchr("~{,", r->s[r->i - 1])));
	r->i++;
	return p;
}

/* At a place. */
static struct shell_place *place(struct reader_of_shell *r, enum shell_place_kind kind)
{
	return r->refuse ? give(r, SHELL_TEXT, r->refuse, r->refuse_code)
			 : give(r, kind, NULL, false);
}

static void place_refused(struct reader_of_shell *r, const char *why, bool code)
{
	give(r, SHELL_TEXT, why, code);
}

/* A place inside of quotes that every shell ends in the same way. */
static void place_as_it_stands(struct reader_of_shell *r, const char *why)
{
	give(r, SHELL_TEXT, why, true)->glued = false;
}

/* Nothing is certain from here on. */
static void lose(struct reader_of_shell *r, const char *why)
{
	while (r->i < r->n)
		if (!r->s[r->i])
			give(r, SHELL_TEXT, why, false);
		else
			r->i++;
}

static char at(const struct reader_of_shell *r, size_t ahead)
{
	return r->i + ahead < r->n ? r->s[r->i + ahead] : '\n';
}

static bool more(const struct reader_of_shell *r)
{
	return r->i < r->n;
}

static bool looking_at(const struct reader_of_shell *r, const char *text)
{
	size_t n = strlen(text);

	return r->n - r->i >= n && memcmp(r->s + r->i, text, n) == 0;
}

/* A line ends inside of quotes or of a nested command. Shells disagree on where a waiting
 * here-document's text begins then. */
static bool newline_inside(struct reader_of_shell *r)
{
	if (r->n_waiting == 0 && !r->in_here)
		return true;
	lose(r, "a here-document begins on a line that goes on inside of quotes or of $( )");
	return false;
}

/* Reads a backslash and what it escapes. */
static void escape(struct reader_of_shell *r)
{
	r->i++;
	if (!more(r))
		return;
	if (!r->s[r->i])
		place_refused(r, "a backslash stands before it", false);
	else if (r->s[r->i] != '\n' || newline_inside(r))
		r->i++;
}

/* A place outside of all quotes, or one inside of this command's double quotes. */
static void place_in_word(struct reader_of_shell *r, struct command_state *c,
			  enum shell_place_kind kind)
{
	size_t name;
	bool value = !c->named && shell_assigns(c, &name);
	struct shell_place *p;

	if (c->conditional)
		place_refused(r, "[[ ]] may read a value as an expression; [ ] doesn't", true);
	else if (c->subscript)
		place_refused(r,
			      "an unquoted [ stands before it in the same word, and a subscript is "
			      "read as an expression",
			      true);
	else if (shell_word_is_code(c))
		place_refused(r, in_code, true);
	else {
		p = place(r, kind == SHELL_BARE && (c->target || value) ? SHELL_ONE : kind);
		p->in_pattern = c->pattern;
		p->first = !c->named && !c->target && !value;
	}
	c->in_word = c->opaque = true;
}

/* Ends the word being read, if there is one. False when the rest is uncertain because of it. */
static bool end_word(struct reader_of_shell *r, struct command_state *c)
{
	const char *why = shell_end_word(c, r->bash);

	if (why)
		lose(r, why);
	return !why;
}

/* Quotes and expansions. */

static void single_quotes(struct reader_of_shell *r, struct command_state *c)
{
	const char *start = r->s + ++r->i, *end = memchr(start, '\'', r->n - r->i);
	size_t n = end ? (size_t)(end - start) : r->n - r->i;

	if (!end)
		lose(r, "the quotes around it have no end");
	while (more(r) && r->i < (size_t)(start - r->s) + n) {
		char ch = r->s[r->i];

		if (!ch && n == 1)
			place_in_word(r, c, SHELL_SINGLE);
		else if (!ch)
			place_as_it_stands(r, "it stands among other text in single quotes");
		else if (ch == '\n' && !newline_inside(r))
			return;
		else {
			shell_add_to_word(c, ch);
			r->i++;
		}
	}
	r->i += more(r);
	c->in_word = true;
}

static void double_quotes(struct reader_of_shell *r, struct command_state *c)
{
	r->i++;
	c->in_word = true;
	while (more(r)) {
		char ch = r->s[r->i];

		if (!ch) {
			place_in_word(r, c, SHELL_DOUBLE);
		} else if (ch == '"') {
			r->i++;
			return;
		} else if (ch == '\\') {
			c->opaque = true;
			escape(r);
		} else if (ch == '$' || ch == '`') {
			c->opaque = true;
			dollar(r, c, true);
		} else if (ch != '\n' || newline_inside(r)) {
			shell_add_to_word(c, ch);
			r->i++;
		}
	}
}

/* Reads `…`: it ends at the first ` without a backslash, unless quotes inside make some shell end
 * it elsewhere.
 */
static void backquotes(struct reader_of_shell *r)
{
	unsigned single = 0, twice = 0;

	for (r->i++; more(r);) {
		char ch = r->s[r->i];

		if (!ch) {
			place_refused(r, "backquotes have rules of their own; $( ) hasn't", false);
		} else if (ch == '\\') {
			escape(r);
		} else if (ch == '`') {
			r->i++;
			break;
		} else if (ch == '#' || (ch == '$' && at(r, 1) == '{')) {
			lose(r, "it stands behind backquotes that can't be followed; $( ) can");
		} else if (ch != '\n' || newline_inside(r)) {
			single += ch == '\'';
			twice += ch == '"';
			r->i++;
		}
	}
	if (single % 2 || twice % 2)
		lose(r, "it stands behind backquotes that can't be followed; $( ) can");
}

/* $(( )) and (( )): `r` is after the opening. */
static void arithmetic(struct reader_of_shell *r, const struct command_state *c)
{
	const char *refused = r->refuse;
	int depth = 2;

	r->refuse = in_arithmetic;
	while (more(r) && depth) {
		char ch = r->s[r->i];

		if (!ch) {
			place_refused(r, in_arithmetic, true);
		} else if (ch == '$') {
			dollar(r, c, true);
		} else if (strchr("'\"`\\", ch) || (ch == '\n' && (r->n_waiting || r->in_here)) ||
			   (ch == ')' && depth == 2 && at(r, 1) != ')')) {
			lose(r, "it stands behind (( that can't be followed");
		} else {
			depth += ch == '(' ? 1 : ch == ')' ? -1 : 0;
			r->i++;
		}
	}
	r->refuse = refused;
}

/* ${ }: `r` is after the opening. When quotes surround it, quotes inside mean different things to
 * different shells. */
static void braces(struct reader_of_shell *r, const struct command_state *c, bool quoted)
{
	const char *refused = r->refuse;
	bool refused_code = r->refuse_code;
	struct command_state inner = { 0 };

	r->refuse = "it stands inside of ${ }";
	r->refuse_code = false;
	while (more(r) && r->s[r->i] != '}') {
		char ch = r->s[r->i];

		if (!ch)
			place(r, SHELL_BARE);
		else if (ch == '$' && (at(r, 1) == '(' || at(r, 1) == '{'))
			dollar(r, c, quoted);
		else if ((ch == '\'' || ch == '"') && !quoted && ch == '"')
			double_quotes(r, &inner);
		else if (ch == '\'' && !quoted)
			single_quotes(r, &inner);
		else if (strchr("'\"`", ch))
			lose(r, "it stands behind ${ } with quotes inside that can't be followed");
		else if (ch == '\\')
			escape(r);
		else if (ch != '\n' || newline_inside(r))
			r->i++;
	}
	r->i += more(r);
	r->refuse = refused;
	r->refuse_code = refused_code;
}

/* $'…' exists only in bash. Other shells read a dollar and a string, which is the same only without
 * backslashes. */
static void dollar_quotes(struct reader_of_shell *r)
{
	for (r->i += 2; more(r) && r->s[r->i] != '\'';) {
		if (!r->s[r->i])
			place_refused(r, "$' ' takes no variable", false);
		else if (r->s[r->i] == '\\' && !r->bash)
			lose(r, "it stands behind $' ', which not every sh knows");
		else if (r->s[r->i] == '\\')
			escape(r);
		else if (r->s[r->i] != '\n' || newline_inside(r))
			r->i++;
	}
	r->i += more(r);
}

static void substitution(struct reader_of_shell *r)
{
	const bool in_here = r->in_here;

	if (++r->depth > DEPTH_MAX)
		lose(r, "it is nested too deeply");
	commands(r, ')');
	r->depth--;
	r->in_here = in_here;
}

/* At a dollar or a backquote. quoted: inside of double quotes or a here-document. */
static void dollar(struct reader_of_shell *r, const struct command_state *c, bool quoted)
{
	if (r->s[r->i] == '`') {
		backquotes(r);
		return;
	}
	switch (at(r, 1)) {
	case '(':
		r->i += 2;
		if (more(r) && r->s[r->i] == '(') {
			r->i++;
			arithmetic(r, c);
		} else {
			substitution(r);
		}
		return;
	case '{':
		r->i += 2;
		if (++r->depth > DEPTH_MAX)
			lose(r, "it is nested too deeply");
		braces(r, c, quoted);
		r->depth--;
		return;
	case '[':
		lose(r, "it stands behind $[, which not every shell knows");
		return;
	case '\'':
		if (quoted)
			r->i++;
		else
			dollar_quotes(r);
		return;
	case '"':
		if (quoted)
			r->i++;
		else
			lose(r, "it stands behind $\" \", which not every sh knows");
		return;
	case 0:
		r->i++;
		if (more(r))
			place_refused(r, "a dollar stands before it", false);
		return;
	default:
		r->i++;
		if (more(r) && strchr("#$?!@*-0123456789", r->s[r->i]))
			r->i++;
		else
			while (more(r) && shell_name_char(r->s[r->i]))
				r->i++;
	}
}

/* Here-documents. */

/* Reads on after <<. False when its end word can't be determined. */
static bool here_operator(struct reader_of_shell *r, struct command_state *c)
{
	struct here_document *h = &c->here[c->n_here];
	static const char why[] = "the end of a here-document before it isn't a plain word";
	char quote = 0;

	if (c->n_here == HERE_MAX || r->in_here) {
		lose(r, why);
		return false;
	}
	*h = (struct here_document){ .tabs = at(r, 0) == '-' };
	r->i += h->tabs;
	while (more(r) && (r->s[r->i] == ' ' || r->s[r->i] == '\t'))
		r->i++;
	for (; more(r) && (quote || !strchr(" \t\n;&|()<>", r->s[r->i] ? r->s[r->i] : 'x'));
	     r->i++) {
		char ch = r->s[r->i];

		if (quote && ch == quote) {
			quote = 0;
		} else if (!quote && (ch == '\'' || ch == '"')) {
			quote = ch;
			h->quoted = true;
		} else if (!ch || ch == '$' || ch == '`' || ch == '\n' ||
			   (ch == '\\' && (quote || at(r, 1) == '\n' || !at(r, 1))) ||
			   h->len == sizeof(h->text) - 1) {
			lose(r, why);
			return false;
		} else {
			if (ch == '\\') {
				h->quoted = true;
				ch = at(r, 1);
				r->i++;
			}
			h->text[h->len++] = ch;
		}
	}
	if (h->len == 0 || quote) {
		lose(r, why);
		return false;
	}
	c->n_here++;
	return true;
}

/* Whether the line at `i` ends the here-document. */
static bool ends_here(const struct reader_of_shell *r, const struct here_document *h, size_t i,
		      size_t *ret_next)
{
	while (h->tabs && i < r->n && r->s[i] == '\t')
		i++;
	if (r->n - i < h->len || memcmp(r->s + i, h->text, h->len) != 0 ||
	    (i + h->len < r->n && r->s[i + h->len] != '\n'))
		return false;
	*ret_next = i + h->len + (i + h->len < r->n);
	return true;
}

static void here_line(struct reader_of_shell *r, struct command_state *c,
		      const struct here_document *h)
{
	size_t ignored;

	while (more(r) && r->s[r->i] != '\n') {
		char ch = r->s[r->i];

		if (!ch && h->quoted) {
			place_as_it_stands(r, "the end of the here-document around it is quoted, "
					      "so that its text is taken as it stands");
		} else if (!ch) {
			place(r, SHELL_HERE)->end = arena_strdup(r->arena, h->text);
		} else if (!h->quoted && ch == '\\') {
			if (at(r, 1) == '\n' && r->i + 1 < r->n) {
				r->i += 2;
				if (ends_here(r, h, r->i, &ignored))
					lose(r,
					     "a here-document before it ends behind a backslash");
			} else {
				escape(r);
			}
		} else if (!h->quoted && (ch == '$' || ch == '`')) {
			const char *refused = r->refuse;

			r->in_here = true;
			r->refuse = "it stands inside of an expansion in a here-document";
			dollar(r, c, true);
			r->refuse = refused;
			r->in_here = false;
		} else {
			r->i++;
		}
	}
	r->i += more(r);
}

/* Reads the texts, from after the newline that ends the line with the operators. */
static void here_documents(struct reader_of_shell *r, struct command_state *c)
{
	for (size_t k = 0; k < c->n_here; k++) {
		struct here_document *h = &c->here[k];

		while (more(r) && !ends_here(r, h, r->i, &r->i))
			here_line(r, c, h);
	}
	c->n_here = 0;
}

/* Commands. */

static void comment(struct reader_of_shell *r)
{
	while (more(r) && r->s[r->i] != '\n') {
		if (r->s[r->i]) {
			r->i++;
		} else {
			give(r, SHELL_COMMENT, NULL, false);
		}
	}
}

/* Reads < or >, with all that belongs to the operator. */
static void redirection(struct reader_of_shell *r, struct command_state *c)
{
	char ch = r->s[r->i];

	/* "2>", "{log}>": the descriptor, not a word of the command. */
	if (c->in_word && !c->opaque && c->len &&
	    (strspn(c->word, "0123456789") >= c->len || c->word[0] == '{')) {
		c->in_word = c->subscript = c->pattern = false;
		c->len = 0;
	}
	if (!end_word(r, c))
		return;
	if (looking_at(r, "<<<")) {
		r->i += 3;
		if (!r->bash)
			lose(r, "it stands behind <<<, which not every sh knows");
	} else if (looking_at(r, "<<")) {
		r->i += 2;
		here_operator(r, c);
		return;
	} else if (at(r, 1) == '(' && r->bash) {
		r->i += 2;
		c->in_word = c->opaque = true;
		substitution(r);
		return;
	} else {
		r->i++;
		while (more(r) && (r->s[r->i] == '&' || r->s[r->i] == '|' || r->s[r->i] == '>') &&
		       (ch == '>' || r->s[r->i] != '|'))
			r->i++;
	}
	c->target = true;
}

/* An opening parenthesis: a subshell, (( )), an array, a function. */
static void parenthesis(struct reader_of_shell *r, struct command_state *c)
{
	bool after_equals = r->i > 0 && r->s[r->i - 1] == '=';
	size_t k = r->i + 1;

	if (c->in_word && after_equals && r->bash && !c->opaque) {
		c->parens++;
		r->i++;
		c->in_word = false;
		c->len = 0;
		c->named = true;
		return;
	}
	while (k < r->n && r->s[k] == ' ')
		k++;
	if (k < r->n && r->s[k] == ')' && (c->in_word || c->named)) {
		r->i = k + 1;
		if (end_word(r, c))
			shell_end_command(c);
		return;
	}
	if (c->in_word || (c->conditional && !c->in_word)) {
		lose(r, "it stands behind a parenthesis that can't be followed");
		return;
	}
	if (at(r, 1) == '(' && r->bash) {
		r->i += 2;
		arithmetic(r, c);
		return;
	}
	if (at(r, 1) == '(') {
		lose(r, "it stands behind ((, which not every sh knows");
		return;
	}
	c->parens++;
	r->i++;
	shell_end_command(c);
}

/* A regular expression has separate rules up to the end of [[ ]]. */
static void regular_expression(struct reader_of_shell *r, struct command_state *c)
{
	while (more(r) && !looking_at(r, "]]")) {
		if (!r->s[r->i])
			place_refused(r, "[[ ]] may read a value as an expression; [ ] doesn't",
				      true);
		else if (strchr("'\"\\`#\n<", r->s[r->i]) || looking_at(r, "$("))
			lose(r, "it stands behind =~ with quotes or signs that can't be followed");
		else
			r->i++;
	}
	c->len = 0;
	c->in_word = false;
}

/* At a ) of commands. True when it ends them. */
static bool closing(struct reader_of_shell *r, struct command_state *c, char end)
{
	if (!end_word(r, c))
		return true;
	if (end && c->parens == 0) {
		if (c->n_here)
			lose(r, "a here-document before it begins inside of $( ) and ends outside");
		r->i += more(r);
		return true;
	}
	r->i++;
	c->parens -= c->parens > 0;
	shell_end_command(c);
	return false;
}

/* Reads what stands between commands and after words. */
static void separator(struct reader_of_shell *r, struct command_state *c, size_t waiting_around)
{
	char ch = r->s[r->i];
	bool regular = c->conditional && c->len == 2 && memcmp(c->word, "=~", 2) == 0;

	r->i++;
	if (!end_word(r, c))
		return;
	if (regular)
		regular_expression(r, c);
	if (ch == ' ' || ch == '\t' || (ch == '&' && r->bash && more(r) && r->s[r->i] == '>'))
		return;
	if (!c->conditional)
		shell_end_command(c);
	if (ch != '\n')
		return;
	r->n_waiting = waiting_around;
	if (newline_inside(r))
		here_documents(r, c);
}

/* Reads to the end of the script, or to the ) that ends a substitution. */
static void commands(struct reader_of_shell *r, char end)
{
	struct command_state *c = xcalloc(1, sizeof(*c));
	const size_t around = r->n_waiting;

	while (more(r)) {
		char ch = r->s[r->i];

		r->n_waiting = around + c->n_here;
		if (!ch) {
			place_in_word(r, c, SHELL_BARE);
		} else if (ch == '\\' && at(r, 1) == '\n') {
			escape(r);
		} else if (ch == '\\') {
			shell_add_to_word(c, at(r, 1));
			escape(r);
		} else if (ch == '\'') {
			single_quotes(r, c);
		} else if (ch == '"') {
			double_quotes(r, c);
		} else if (ch == '$' || ch == '`') {
			c->in_word = c->opaque = true;
			dollar(r, c, false);
		} else if (ch == '#' && !c->in_word) {
			comment(r);
		} else if (strchr(" \t\n;|&", ch)) {
			separator(r, c, around);
		} else if (ch == '<' || ch == '>') {
			redirection(r, c);
		} else if (ch == '(') {
			parenthesis(r, c);
		} else if (ch == ')') {
			if (closing(r, c, end))
				break;
		} else {
			if (ch == '[' &&
			    (c->in_word || !strchr(" \t\n[", at(r, 1) ? at(r, 1) : 'x')))
				c->subscript = true;
			c->pattern |= ch == '~' || ch == '{';
			shell_add_to_word(c, ch);
			r->i++;
		}
		if (c->has_case && end)
			lose(r, "`case` inside of $( ) can't be followed");
	}
	r->n_waiting = around;
	free(c);
}

const struct shell_place *shell_places(const struct expr_template *script, bool bash,
				       struct arena *arena)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	size_t n = 0;
	bool literal_nul = false;
	struct reader_of_shell r = { .bash = bash, .arena = arena };

	for (size_t i = 0; i < script->n_parts; i++) {
		const struct expr_part *part = &script->parts[i];

		if (part->expr) {
			str_addc(&text, 0);
			n++;
		} else {
			str_addn(&text, part->text, part->len);
			literal_nul |= memchr(part->text, 0, part->len) != NULL;
		}
	}
	if (n == 0)
		return NULL;
	r.s = text.s;
	r.n = text.len;
	r.places = arena_alloc(arena, n * sizeof(*r.places));
	if (!literal_nul) {
		commands(&r, 0);
		assert(r.n_places == n);
	}
	for (size_t i = 0; i < n && literal_nul; i++)
		r.places[i] = (struct shell_place){ .kind = SHELL_TEXT,
						    .why = "the script holds a NUL byte" };
	return r.places;
}
