/* engine/model/expr/parse.c — from text to templates: recursive descent with one token of
 * look-ahead.
 *
 *	or      = and { "||" and }
 *	and     = compare { "&&" compare }
 *	compare = sum [ ("==" | "!=" | "<" | "<=" | ">" | ">=") sum ]
 *	sum     = product { ("+" | "-") product }
 *	product = unary { ("*" | "/" | "//" | "%") unary }
 *	unary   = ("!" | "-") unary | primary
 *	primary = "(" or ")" | "[" [ or { "," or } ] "]"
 *	        | name "(" [ or { "," or } ] ")" | reference | literal
 *	reference = name { "." part | "['" text "']" }
 *	literal = integer | decimal | 'text' | "text" | true | false | null
 *
 * A name may hold `-`, so `a-b` is a name and `a - b` a difference. A quote inside of text is
 * doubled. `$${{` is the text `${{`. After an error, reading continues after the next `}}`, so that
 * each expression of a text gets its own message; only the first problem of an expression is
 * reported. Tokens are read left to right once, which is what the source cursor needs.
 *
 * Nodes go to the arena of the model. parse_unary() counts the depth, up to EXPR_DEPTH_MAX, which
 * bounds every later recursion over the expression; a chain of && or ||, of + and -, of * and / is
 * one node. References keep their text (REF_UNRESOLVED): resolve.c finds their meaning, check.c the
 * types.
 */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text/text.h"
#include "model/internal.h"

enum token_kind { TOK_END, TOK_NAME, TOK_INT, TOK_FLOAT, TOK_TEXT, TOK_OP, TOK_CLOSE, TOK_BAD };

struct token {
	enum token_kind kind;
	const char *start;
	size_t len;
	char op[3]; /* TOK_OP */
	struct value value;
	int line, col;
};

struct parser {
	struct expr_source *src;
	const char *p, *end;
	struct token tok;
	bool after_operand; /* what was read last ends one: `-` subtracts then */
	unsigned depth;
	bool failed;
};

static struct expr *parse_or(struct parser *ps);

static bool is_name_start(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_name_char(char c)
{
	return is_name_start(c) || is_digit(c) || c == '-';
}

static void place_of(struct expr_source *src, const char *p, int *ret_line, int *ret_col)
{
	*ret_line = src->line;
	*ret_col = src->col;
	if (src->cursor)
		source_cursor_seek(src->cursor, (size_t)(p - src->text), ret_line, ret_col);
}

/* Only the first problem of an expression is reported: later ones follow from it and would
 * confuse. */
static void *fail(struct parser *ps, int line, int col, const char *fmt, ...) _printf_(4, 5);
static void *fail(struct parser *ps, int line, int col, const char *fmt, ...)
{
	va_list ap;

	if (!ps->failed) {
		va_start(ap, fmt);
		diag_addv(ps->src->diags, DIAG_ERROR, ps->src->file, line, col, fmt, ap);
		va_end(ap);
	}
	ps->failed = true;
	return NULL;
}

/* What other languages call a function, or write instead of one. */
static const struct {
	const char *theirs, *ours;
} words_of_peers[] = {
	{ "len", "count(list)" },
	{ "length", "count(list)" },
	{ "size", "count(list)" },
	{ "in", "contains(list, item)" },
	{ "includes", "contains(list, item)" },
	{ "startswith", "starts_with(text, part)" },
	{ "startsWith", "starts_with(text, part)" },
	{ "hasPrefix", "starts_with(text, part)" },
	{ "endswith", "ends_with(text, part)" },
	{ "endsWith", "ends_with(text, part)" },
	{ "hasSuffix", "ends_with(text, part)" },
	{ "avg", "mean(list)" },
	{ "average", "mean(list)" },
	{ "if", "choose(condition, a, b)" },
	{ "iif", "choose(condition, a, b)" },
	{ "ternary", "choose(condition, a, b)" },
	{ "?", "choose(condition, a, b)" },
	{ "failure", "failed()" },
	{ "cancelled", "failed()" },
	{ "concat", "join(list, separator), or texts one behind the other: ${{ a }}${{ b }}" },
	{ "format", "join(list, separator), or texts one behind the other: ${{ a }}${{ b }}" },
	{ "success", "nothing: a step runs only if those that it needs succeeded" },
	{ "coalesce", "default(value, other)" },
	{ "orElse", "default(value, other)" },
};

static const char *our_form(const struct token *t)
{
	for (size_t i = 0; i < ARRAY_LEN(words_of_peers); i++)
		if (t->len == strlen(words_of_peers[i].theirs) &&
		    memcmp(t->start, words_of_peers[i].theirs, t->len) == 0)
			return words_of_peers[i].ours;
	return NULL;
}

static void *fail_here(struct parser *ps, const char *wanted)
{
	const struct token *t = &ps->tok;

	if (our_form(t))
		return fail(ps, t->line, t->col, "`%.*s` is no operator: write %s", (int)t->len,
			    t->start, our_form(t));
	if (t->kind == TOK_CLOSE || t->kind == TOK_END)
		return fail(ps, t->line, t->col, "the expression ends too early: %s is missing",
			    wanted);
	return fail(ps, t->line, t->col, "expected %s, not `%.*s`", wanted, (int)MIN(t->len, 40),
		    t->start);
}

/* Tokens. */

static void read_number(struct parser *ps)
{
	struct token *t = &ps->tok;
	const char *p = ps->p + (*ps->p == '-');
	char text[64];
	bool is_float = false;

	while (p < ps->end && (is_name_start(*p) || is_digit(*p) || *p == '.' ||
			       ((*p == '+' || *p == '-') && (p[-1] == 'e' || p[-1] == 'E')))) {
		is_float |= *p == '.' || *p == 'e' || *p == 'E';
		p++;
	}
	t->len = (size_t)(p - ps->p);
	ps->p = p;
	t->kind = is_float ? TOK_FLOAT : TOK_INT;
	snprintf(text, sizeof(text), "%.*s", (int)MIN(t->len, sizeof(text) - 1), t->start);
	t->value.type = is_float ? VALUE_FLOAT : VALUE_INT;
	if (t->len >= sizeof(text) ||
	    (is_float ? !text_parse_double(text, &t->value.f) || !isfinite(t->value.f)
		      : !text_parse_int(text, &t->value.i))) {
		t->kind = TOK_BAD;
		fail(ps, t->line, t->col, "`%.40s` is not a number", text);
	}
}

static void read_text(struct parser *ps)
{
	struct token *t = &ps->tok;
	const char *end = value_parse_quoted(ps->p, ps->end, ps->src->arena, &t->value);

	t->kind = end ? TOK_TEXT : TOK_BAD;
	t->len = end ? (size_t)(end - t->start) : 1;
	if (!end)
		fail(ps, t->line, t->col, "this text has no closing %c", *t->start);
	ps->p = end ? end : ps->end;
}

static void read_op(struct parser *ps)
{
	static const char *const ops[] = { "==", "!=", "<=", ">=", "&&", "||", "//",
					   "<",  ">",  "!",  "(",  ")",  "[",  "]",
					   ",",  ".",  "+",  "-",  "*",  "/",  "%" };
	struct token *t = &ps->tok;
	uint32_t c;

	for (size_t i = 0; i < ARRAY_LEN(ops); i++) {
		size_t n = strlen(ops[i]);

		if ((size_t)(ps->end - ps->p) >= n && memcmp(ps->p, ops[i], n) == 0) {
			t->kind = TOK_OP;
			t->len = n;
			memcpy(t->op, ops[i], n + 1);
			ps->p += n;
			return;
		}
	}
	t->kind = TOK_BAD;
	t->len = MAX(text_utf8_decode(ps->p, (size_t)(ps->end - ps->p), &c), 1);
	ps->p += t->len;
	if (our_form(t))
		fail(ps, t->line, t->col, "`%.*s` is no operator: write %s", (int)t->len, t->start,
		     our_form(t));
	else if (*t->start == '=')
		fail(ps, t->line, t->col, "`=` compares nothing: write `==`");
	else if (*t->start == '&' || *t->start == '|')
		fail(ps, t->line, t->col, "write `%c%c`", *t->start, *t->start);
	else
		fail(ps, t->line, t->col, "`%.*s` means nothing in an expression", (int)t->len,
		     t->start);
}

static void next(struct parser *ps)
{
	struct token *t = &ps->tok;

	ps->after_operand = t->kind == TOK_NAME || t->kind == TOK_INT || t->kind == TOK_FLOAT ||
			    t->kind == TOK_TEXT ||
			    (t->kind == TOK_OP && (*t->op == ')' || *t->op == ']'));
	while (ps->p < ps->end && memchr(" \t\n\r", *ps->p, 4))
		ps->p++;
	*t = (struct token){ .start = ps->p };
	place_of(ps->src, ps->p, &t->line, &t->col);
	if (ps->p == ps->end) {
		t->kind = TOK_END;
	} else if (ps->p + 1 < ps->end && ps->p[0] == '}' && ps->p[1] == '}') {
		t->kind = TOK_CLOSE;
		t->len = 2;
		ps->p += 2;
	} else if (is_name_start(*ps->p)) {
		t->kind = TOK_NAME;
		while (ps->p < ps->end && is_name_char(*ps->p))
			ps->p++;
		t->len = (size_t)(ps->p - t->start);
	} else if (is_digit(*ps->p) || (*ps->p == '-' && !ps->after_operand &&
					ps->p + 1 < ps->end && is_digit(ps->p[1]))) {
		read_number(ps);
	} else if (*ps->p == '\'' || *ps->p == '"') {
		read_text(ps);
	} else {
		read_op(ps);
	}
}

static bool is_op(const struct parser *ps, const char *op)
{
	return ps->tok.kind == TOK_OP && strcmp(ps->tok.op, op) == 0;
}

static bool is_word(const struct token *t, const char *word)
{
	return t->kind == TOK_NAME && t->len == strlen(word) && memcmp(t->start, word, t->len) == 0;
}

/* Nodes. */

static struct expr *new_node(struct parser *ps, enum expr_kind kind, int line, int col)
{
	struct expr *e = arena_alloc(ps->src->arena, sizeof(*e));

	e->kind = (uint8_t)kind;
	e->line = line;
	e->col = col;
	e->file = ps->src->file;
	return e;
}

typedef VEC(struct expr *) expr_vec;

static struct expr *with_args(struct parser *ps, struct expr *e, expr_vec *args)
{
	e->n_args = (uint32_t)args->n;
	e->args = arena_memdup(ps->src->arena, args->n ? (void *)args->v : "",
			       args->n * sizeof(*args->v));
	return e;
}

/* Reads `or { "," or }` up to and including `close`. */
static bool parse_args(struct parser *ps, const char *close, expr_vec *args)
{
	if (is_op(ps, close)) {
		next(ps);
		return true;
	}
	for (;;) {
		struct expr *arg = parse_or(ps);

		if (!arg)
			return false;
		if (args->n == EXPR_ARGS_MAX)
			return fail(ps, ps->tok.line, ps->tok.col, "more than %d items",
				    EXPR_ARGS_MAX);
		VEC_PUSH(args, arg);
		if (is_op(ps, close)) {
			next(ps);
			return true;
		}
		if (!is_op(ps, ","))
			return fail_here(ps, close[0] == ')' ? "`,` or `)`" : "`,` or `]`");
		next(ps);
	}
}

static struct expr *parse_call(struct parser *ps, const struct token *name)
{
	const struct expr_func_info *f = NULL;
	_cleanup_(str_deinit) struct str hint = { 0 };
	const char *names[EXPR_FUNCS];
	struct expr *e = NULL;
	expr_vec args = { 0 };
	char word[41];

	for (size_t i = 0; i < EXPR_FUNCS; i++) {
		names[i] = expr_funcs[i].name;
		if (is_word(name, names[i]))
			f = &expr_funcs[i];
	}
	if (!f) {
		snprintf(word, sizeof(word), "%.*s", (int)MIN(name->len, 40), name->start);
		if (our_form(name))
			return fail(ps, name->line, name->col,
				    "there is no function `%s`: write %s", word, our_form(name));
		text_add_suggestion(&hint, word, names, EXPR_FUNCS);
		return fail(ps, name->line, name->col, "there is no function `%s`%s", word,
			    hint.s ? hint.s : "");
	}
	next(ps); /* ( */
	if (parse_args(ps, ")", &args)) {
		if (args.n < f->min_args || args.n > f->max_args) {
			fail(ps, name->line, name->col, "%s() takes %s%u argument%s, not %zu",
			     f->name, f->max_args > f->min_args ? "at least " : "", f->min_args,
			     f->min_args == 1 ? "" : "s", args.n);
		} else {
			e = with_args(ps, new_node(ps, EXPR_CALL, name->line, name->col), &args);
			e->op = (uint8_t)(f - expr_funcs);
		}
	}
	VEC_FREE(&args);
	return e;
}

/* Reads the rest of `a.b['c d']`, as a dotted name. */
static struct expr *parse_ref(struct parser *ps, const struct token *first)
{
	struct expr *e = new_node(ps, EXPR_REF, first->line, first->col);
	struct str name = { 0 };

	str_addn(&name, first->start, first->len);
	for (;;) {
		bool bracket = is_op(ps, "[");
		const char *part = ps->p;

		if (!bracket && !is_op(ps, "."))
			break;
		if (bracket) {
			next(ps);
			if (ps->tok.kind != TOK_TEXT || *ps->tok.value.s == '\0') {
				fail_here(ps, "a name in quotes");
				break;
			}
			str_addf(&name, ".%s", ps->tok.value.s);
			next(ps);
			if (!is_op(ps, "]")) {
				fail_here(ps, "`]`");
				break;
			}
		} else {
			/* Read here, and not as a token, since a part may begin with a digit. */
			while (ps->p < ps->end && is_name_char(*ps->p))
				ps->p++;
			if (ps->p == part) {
				next(ps);
				fail_here(ps, "a name behind the dot");
				break;
			}
			str_addc(&name, '.');
			str_addn(&name, part, (size_t)(ps->p - part));
			ps->tok.kind = TOK_NAME;
		}
		next(ps);
	}
	e->ref = (struct ref){ .kind = REF_UNRESOLVED,
			       .name = arena_strndup(ps->src->arena, name.s, name.len),
			       .line = e->line,
			       .col = e->col };
	str_deinit(&name);
	return ps->failed ? NULL : e;
}

static struct expr *parse_const(struct parser *ps, const struct value *v)
{
	struct expr *e = new_node(ps, EXPR_CONST, ps->tok.line, ps->tok.col);

	e->value = *v;
	next(ps);
	return e;
}

static struct expr *parse_name(struct parser *ps)
{
	struct token name = ps->tok;

	if (is_word(&name, "true") || is_word(&name, "false"))
		return parse_const(ps,
				   &(struct value){ .type = VALUE_BOOL, .b = *name.start == 't' });
	if (is_word(&name, "null"))
		return parse_const(ps, &(struct value){ .type = VALUE_NULL });
	if (is_word(&name, "and") || is_word(&name, "or") || is_word(&name, "not"))
		return fail(ps, name.line, name.col, "write `%s` for `%.*s`",
			    *name.start == 'a'   ? "&&"
			    : *name.start == 'o' ? "||"
						 : "!",
			    (int)name.len, name.start);
	next(ps);
	return is_op(ps, "(") ? parse_call(ps, &name) : parse_ref(ps, &name);
}

static struct expr *parse_list(struct parser *ps)
{
	struct expr *e = new_node(ps, EXPR_LIST, ps->tok.line, ps->tok.col);
	expr_vec items = { 0 };
	bool ok;

	next(ps);
	ok = parse_args(ps, "]", &items);
	if (ok)
		with_args(ps, e, &items);
	VEC_FREE(&items);
	return ok ? e : NULL;
}

static struct expr *parse_primary(struct parser *ps)
{
	struct expr *e;

	switch (ps->tok.kind) {
	case TOK_INT:
	case TOK_FLOAT:
	case TOK_TEXT:
		return parse_const(ps, &ps->tok.value);
	case TOK_NAME:
		return parse_name(ps);
	case TOK_OP:
		if (is_op(ps, "["))
			return parse_list(ps);
		if (!is_op(ps, "("))
			break;
		next(ps);
		e = parse_or(ps);
		if (e && !is_op(ps, ")"))
			return fail_here(ps, "`)`");
		if (e)
			next(ps);
		return e;
	default:
		break;
	}
	return fail_here(ps, "a value");
}

static struct expr *parse_unary(struct parser *ps)
{
	struct expr *e, *operand = NULL;

	if (++ps->depth > EXPR_DEPTH_MAX) {
		operand = fail(ps, ps->tok.line, ps->tok.col, "more than %d levels of parentheses",
			       EXPR_DEPTH_MAX);
	} else if (!is_op(ps, "!") && !is_op(ps, "-")) {
		operand = parse_primary(ps);
	} else {
		e = new_node(ps, is_op(ps, "!") ? EXPR_NOT : EXPR_CALC, ps->tok.line, ps->tok.col);
		next(ps);
		operand = parse_unary(ps);
		if (operand) {
			if (e->kind == EXPR_CALC)
				operand->calc = CALC_SUB;
			e->args = arena_memdup(ps->src->arena, &operand, sizeof(operand));
			e->n_args = 1;
			operand = e;
		}
	}
	ps->depth--;
	return operand;
}

static bool calc_parse(const struct token *t, bool product, enum calc_op *ret)
{
	static const struct {
		const char *text;
		bool product;
	} ops[CALC_OPS] = {
		[CALC_ADD] = { "+", false }, [CALC_SUB] = { "-", false },
		[CALC_MUL] = { "*", true },  [CALC_DIV] = { "/", true },
		[CALC_MOD] = { "%", true },  [CALC_FLOOR_DIV] = { "//", true },
	};

	for (*ret = 0; *ret < CALC_OPS; ++*ret)
		if (t->kind == TOK_OP && ops[*ret].product == product &&
		    str_eq(t->op, ops[*ret].text))
			return true;
	return false;
}

/* `product`: a chain of * / // %; else of + and -, whose operands are such chains. */
static struct expr *parse_calc(struct parser *ps, bool product)
{
	int line = ps->tok.line, col = ps->tok.col;
	struct expr *first = product ? parse_unary(ps) : parse_calc(ps, true), *e = first;
	expr_vec args = { 0 };
	enum calc_op op;

	while (e && calc_parse(&ps->tok, product, &op)) {
		if (!args.n)
			VEC_PUSH(&args, first);
		next(ps);
		e = product ? parse_unary(ps) : parse_calc(ps, true);
		if (!e)
			break;
		e->calc = (uint8_t)op;
		if (args.n == EXPR_ARGS_MAX)
			e = fail(ps, ps->tok.line, ps->tok.col, "more than %d numbers in a row",
				 EXPR_ARGS_MAX);
		VEC_PUSH(&args, e);
	}
	if (e && args.n)
		e = with_args(ps, new_node(ps, EXPR_CALC, line, col), &args);
	VEC_FREE(&args);
	return e;
}

static struct expr *parse_compare(struct parser *ps)
{
	struct expr *e, *pair[2];
	enum compare_op op;

	pair[0] = parse_calc(ps, false);
	if (!pair[0] || ps->tok.kind != TOK_OP || !compare_parse(ps->tok.op, &op))
		return pair[0];
	e = new_node(ps, EXPR_COMPARE, ps->tok.line, ps->tok.col);
	next(ps);
	pair[1] = parse_calc(ps, false);
	if (!pair[1])
		return NULL;
	if (ps->tok.kind == TOK_OP && compare_parse(ps->tok.op, &(enum compare_op){ 0 }))
		return fail(ps, ps->tok.line, ps->tok.col,
			    "comparisons can't be chained: write `a < b && b < c`");
	e->op = (uint8_t)op;
	e->n_args = 2;
	e->args = arena_memdup(ps->src->arena, pair, sizeof(pair));
	return e;
}

static struct expr *parse_chain(struct parser *ps, enum expr_kind kind, const char *op,
				struct expr *(*operand)(struct parser *ps))
{
	int line = ps->tok.line, col = ps->tok.col;
	struct expr *e = operand(ps);
	expr_vec args = { 0 };

	if (!e || !is_op(ps, op))
		return e;
	VEC_PUSH(&args, e);
	while (e && is_op(ps, op)) {
		next(ps);
		e = operand(ps);
		if (args.n == EXPR_ARGS_MAX)
			e = fail(ps, ps->tok.line, ps->tok.col, "more than %d operands of %s",
				 EXPR_ARGS_MAX, op);
		VEC_PUSH(&args, e);
	}
	if (e)
		e = with_args(ps, new_node(ps, kind, line, col), &args);
	VEC_FREE(&args);
	return e;
}

static struct expr *parse_and(struct parser *ps)
{
	return parse_chain(ps, EXPR_AND, "&&", parse_compare);
}

static struct expr *parse_or(struct parser *ps)
{
	return parse_chain(ps, EXPR_OR, "||", parse_and);
}

/* Templates. */

/* Reads the expression that starts after `${{` at `open`; *ret_next points behind its `}}`. */
static struct expr *parse_expression(struct expr_source *src, const char *open,
				     const char **ret_next)
{
	struct parser ps = { .src = src, .p = open + 3, .end = src->text + src->len };
	struct expr *e = NULL;
	const char *close;
	int line, col;

	place_of(src, open, &line, &col);
	close = memmem(ps.p, (size_t)(ps.end - ps.p), "}}", 2);
	if (!close) {
		diag_error(src->diags, src->file, line, col, "`${{` has no closing `}}`");
		*ret_next = ps.end;
		return NULL;
	}
	next(&ps);
	if (ps.tok.kind == TOK_CLOSE)
		fail(&ps, line, col, "the expression is empty");
	else
		e = parse_or(&ps);
	if (e && ps.tok.kind != TOK_CLOSE)
		e = ps.tok.kind == TOK_BAD ? NULL : fail_here(&ps, "an operator or `}}`");
	*ret_next = e ? ps.p : close + 2;
	return ps.failed ? NULL : e;
}

bool template_text_has_expr(const char *text, size_t len)
{
	return memmem(text, len, "${{", 3) != NULL;
}

static struct expr_template *new_template(struct arena *arena, const char *file, int line, int col)
{
	struct expr_template *t = arena_alloc(arena, sizeof(*t));

	t->file = file;
	t->line = line;
	t->col = col;
	return t;
}

typedef VEC(struct expr_part) part_vec;

static void flush_text(part_vec *parts, struct str *text, struct arena *arena)
{
	if (text->len)
		VEC_PUSH(parts,
			 ((struct expr_part){ .text = arena_strndup(arena, text->s, text->len),
					      .len = text->len }));
	str_reset(text);
}

/* Other engines write `{{ params.lr }}`. Here that is plain text, perhaps of a template in the
 * user's own language, so only what begins as one of our references gets a warning. */
static void warn_of_bare_braces(struct expr_source *src)
{
	static const char *const roots[] = { "params.", "inputs.", "outputs.",
					     "steps.",  "matrix.", "item." };
	const char *p = src->text, *end = p + src->len, *open;

	for (; (open = memmem(p, (size_t)(end - p), "{{", 2)); p = open + 2) {
		const char *at = open + 2, *name, *close;
		int line, col;

		while (at < end && *at == ' ')
			at++;
		for (name = at;
		     at < end && ((*at >= 'a' && *at <= 'z') || *at == '.' || *at == '_');)
			at++;
		close = memmem(at, (size_t)(end - at), "}}", 2);
		if ((open > src->text && open[-1] == '$') || !close)
			continue;
		for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
			size_t n = strlen(roots[i]);

			if ((size_t)(at - name) < n || memcmp(name, roots[i], n) != 0)
				continue;
			place_of(src, open, &line, &col);
			diag_warning(src->diags, src->file, line, col,
				     "`{{` without `$` is plain text: write ${{ %.*s }} for the "
				     "value",
				     (int)(at - name), name);
		}
	}
}

struct expr_template *template_parse(struct expr_source *src)
{
	struct expr_template *t = new_template(src->arena, src->file, src->line, src->col);
	const char *p = src->text, *end = p + src->len, *open;
	struct str text = { 0 };
	part_vec parts = { 0 };

	warn_of_bare_braces(src);
	while ((open = memmem(p, (size_t)(end - p), "${{", 3))) {
		struct expr *e;

		if (open > p && open[-1] == '$') {
			str_addn(&text, p, (size_t)(open - 1 - p));
			str_add(&text, "${{");
			p = open + 3;
			continue;
		}
		str_addn(&text, p, (size_t)(open - p));
		e = parse_expression(src, open, &p);
		if (!e)
			continue;
		flush_text(&parts, &text, src->arena);
		VEC_PUSH(&parts, ((struct expr_part){ .expr = e }));
	}
	str_addn(&text, p, (size_t)(end - p));
	flush_text(&parts, &text, src->arena);
	t->n_parts = parts.n;
	t->parts = arena_memdup(src->arena, parts.n ? (void *)parts.v : "",
				parts.n * sizeof(*parts.v));
	VEC_FREE(&parts);
	str_deinit(&text);
	return t;
}

struct expr_template *template_of_value(const struct value *v, const char *file, int line, int col,
					struct arena *arena)
{
	struct expr_template *t = new_template(arena, file, line, col);
	struct expr *e = arena_alloc(arena, sizeof(*e));

	*e = (struct expr){
		.kind = EXPR_CONST, .line = line, .col = col, .file = file, .value = *v
	};
	t->n_parts = 1;
	t->parts = arena_alloc(arena, sizeof(*t->parts));
	t->parts[0].expr = e;
	return t;
}
