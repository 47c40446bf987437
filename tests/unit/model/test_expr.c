/* Expressions and templates: values, what isn't known yet, errors and their places. */
#include "unit.h"

#include <string.h>
#include "model/internal.h"

struct fixture {
	struct arena *arena;
	struct diag_list *diags;
};

static struct expr_template *parse(struct fixture *f, const char *text)
{
	struct expr_source src = { .file = "f",
				   .text = text,
				   .len = strlen(text),
				   .line = 1,
				   .col = 1,
				   .arena = f->arena,
				   .diags = f->diags };

	return template_parse(&src);
}

/* What the references of the tests are. */
static int resolve(void *arg, const struct ref *ref, struct value *ret, struct err *err)
{
	static const struct value list[] = { { VALUE_INT, { .i = 3 } },
					     { VALUE_FLOAT, { .f = 1.5 } },
					     { VALUE_INT, { .i = 2 } } };
	static const struct value words[] = { { VALUE_STRING, { .s = "a" } },
					      { VALUE_STRING, { .s = "b" } } };

	if (strcmp(ref->name, "later") == 0)
		return 1;
	if (strcmp(ref->name, "broken") == 0)
		return err_set(err, ERR_IO, "no such luck");
	if (strcmp(ref->name, "missing") == 0)
		return err_set(err, ERR_NOT_FOUND, "there is no such name");
	if (strcmp(ref->name, "params.n") == 0)
		*ret = (struct value){ VALUE_INT, { .i = 5 } };
	else if (strcmp(ref->name, "params.opt") == 0)
		*ret = (struct value){ VALUE_STRING, { .s = "adam" } };
	else if (strcmp(ref->name, "list") == 0)
		*ret = (struct value){ VALUE_LIST, { .list = { list, 3 } } };
	else if (strcmp(ref->name, "words") == 0)
		*ret = (struct value){ VALUE_LIST, { .list = { words, 2 } } };
	else if (strcmp(ref->name, "empty") == 0)
		*ret = (struct value){ VALUE_LIST, { .list = { list, 0 } } };
	else
		*ret = (struct value){ VALUE_STRING, { .s = ref->name } };
	return 0;
}

/* The value as JSON; "?" for not known yet; "!message" for an error of evaluation. */
static void evaluate(struct fixture *f, const char *text, bool any_failed, struct str *out)
{
	struct expr_scope scope = { .resolve = resolve, .any_failed = any_failed };
	struct err err = { 0 };
	struct value v;
	int r = template_eval(parse(f, text), &scope, f->arena, &v, &err);

	if (r == 0)
		value_add_json(out, &v);
	else if (r == 1)
		str_addc(out, '?');
	else
		str_addf(out, "!%s", err.msg);
}

static const struct {
	const char *expr, *want;
} values[] = {
	{ "1", "1" },
	{ "-1.5e3", "-1500.0" },
	{ "'it''s'", "\"it's\"" },
	{ "\"a\"\"b\"", "\"a\\\"b\"" },
	{ "'}}'", "\"}}\"" },
	{ "true", "true" },
	{ "null", "null" },
	{ "[1, 'a', true]", "[1,\"a\",true]" },
	{ "[]", "[]" },
	{ "params.n", "5" },
	{ "steps.a-b.metrics.val.loss", "\"steps.a-b.metrics.val.loss\"" },
	{ "steps.a.metrics['top-5 acc']", "\"steps.a.metrics.top-5 acc\"" },
	{ "steps.a.metrics.5", "\"steps.a.metrics.5\"" },
	{ "1 + 2 * 3", "7" },
	{ "(1 + 2) * 3", "9" },
	{ "10 - 2 - 3", "5" },
	{ "1 -2", "-1" },
	{ "3-1", "2" },
	{ "params.n -1", "4" },
	{ "params.n-1", "\"params.n-1\"" },
	{ "-params.n + 1", "-4" },
	{ "--3 - -params.n", "8" },
	{ "2 * -3", "-6" },
	{ "[1 -1, -1]", "[0,-1]" },
	{ "7 / 2", "3.5" },
	{ "6 / 2", "3.0" },
	{ "7 // 2", "3" },
	{ "-7 // 2", "-4" },
	{ "7 // -2", "-4" },
	{ "-6 // 2", "-3" },
	{ "7 % 3", "1" },
	{ "-7 % 3", "2" },
	{ "7 % -3", "-2" },
	{ "-7 // -1", "7" },
	{ "-9223372036854775808 % -1", "0" },
	{ "7.5 // 2", "3.0" },
	{ "-7.5 % 2", "0.5" },
	{ "2 * 0.5", "1.0" },
	{ "8 / 2 / 2 * 3", "6.0" },
	{ "1 + 1 == 2 && 2 * 2 > 3", "true" },
	{ "max(1 + 1, 1)", "2" },
	{ "later * 2", "?" },
	{ "1e308 - -1e308", "!f:1:1: the result is too large" },
	{ "9223372036854775807 + 1", "!f:1:1: the result is no integer of 64 bits" },
	{ "-9223372036854775808 // -1", "!f:1:1: the result is no integer of 64 bits" },
	{ "-(-9223372036854775808)", "!f:1:1: the result is no integer of 64 bits" },
	{ "1 / 0", "!f:1:1: division by zero" },
	{ "1 % 0.0", "!f:1:1: division by zero" },
	{ "1 // (1 - 1)", "!f:1:1: division by zero" },
	{ "params.opt + 1", "!f:1:1: a number is needed here, not a string" },
	{ "1 == 1.0", "true" },
	{ "1 == '1'", "false" },
	{ "1 != 2", "true" },
	{ "1 < 2", "true" },
	{ "2 <= 2 && 2 >= 2", "true" },
	{ "'a' < 'b'", "true" },
	{ "!true || !false", "true" },
	{ "!(1 > 2)", "true" },
	{ "true || false && false", "true" },
	{ "(true || false) && false", "false" },
	{ "params.n > 4 && params.opt == 'adam'", "true" },
	{ "min(list)", "1.5" },
	{ "max(list)", "3" },
	{ "max(1, 2, params.n)", "5" },
	{ "mean(list)", "2.1666666666666665" },
	{ "sum(list)", "6.5" },
	{ "sum(1, 2)", "3" },
	{ "sum(9223372036854775807, 1)", "9.223372036854776e+18" },
	{ "sum(empty)", "0" },
	{ "count(list)", "3" },
	{ "count(empty)", "0" },
	{ "contains(words, 'b')", "true" },
	{ "contains(words, 'c')", "false" },
	{ "contains('abc', 'bc')", "true" },
	{ "starts_with(params.opt, 'ad')", "true" },
	{ "ends_with('x.tar', '.tar')", "true" },
	{ "ends_with('r', '.tar')", "false" },
	{ "join(words, '-')", "\"a-b\"" },
	{ "json(words)", "\"[\\\"a\\\",\\\"b\\\"]\"" },
	{ "json('a')", "\"\\\"a\\\"\"" },
	{ "json(1.0)", "\"1.0\"" },
	{ "json(true)", "\"true\"" },
	{ "json(null)", "\"null\"" },
	{ "json(later)", "?" },
	{ "choose(params.n > 1, 'many', 'one')", "\"many\"" },
	{ "choose(true, 1, later)", "1" },
	{ "choose(later, 1, 2)", "?" },
	{ "default(params.n, 1)", "5" },
	{ "default(missing, 1)", "1" },
	{ "default(null, 'x')", "\"x\"" },
	{ "default(missing + 1, 2) > 1", "true" },
	{ "default(default(missing, null), [])", "[]" },
	{ "default(params.n, broken)", "5" },
	{ "default(later, 1)", "?" },
	{ "default(missing, later)", "?" },
	{ "default(missing, missing)", "!f:1:1: there is no such name" },
	{ "default(broken, 1)", "!f:1:1: no such luck" },
	{ "default(1 / 0, 1)", "!f:1:1: division by zero" },
	{ "always()", "true" },
	{ "later", "?" },
	{ "later > 1", "?" },
	{ "!later", "?" },
	{ "later && false", "false" },
	{ "later || true", "true" },
	{ "later && true", "?" },
	{ "min(1, later)", "?" },
	{ "1 < 'a'", "!f:1:1: an int and a string can't be put in order" },
	{ "words < 1", "!f:1:1: a list and an int can't be put in order" },
	{ "1 && true", "!f:1:1: true or false is needed here, not an int" },
	{ "!'x'", "!f:1:1: true or false is needed here, not a string" },
	{ "min(empty)", "!f:1:1: min() of an empty list has no value" },
	{ "mean(words)", "!f:1:1: mean() needs numbers, not a string" },
	{ "count(1)", "!f:1:1: count() needs a list, not an int" },
	{ "join(1, ',')", "!f:1:1: join() needs a list and a separator" },
	{ "broken", "!f:1:1: no such luck" },
	{ "false && broken", "false" },
};

static void test_values(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(values); i++) {
		struct fixture f = { arena_new(), diag_list_new() };
		struct str text = { 0 }, got = { 0 };

		str_addf(&text, "${{ %s }}", values[i].expr);
		evaluate(&f, text.s, false, &got);
		if (diag_errors(f.diags))
			fail_msg("%s: %s", values[i].expr, diag_at(f.diags, 0)->message);
		assert_string_equal(got.s, values[i].want);
		str_deinit(&text);
		str_deinit(&got);
		diag_list_free(f.diags);
		arena_free(f.arena);
	}
}

static void test_failed(void **state)
{
	struct fixture f = { arena_new(), diag_list_new() };
	struct str got = { 0 };

	evaluate(&f, "${{ failed() }}", false, &got);
	evaluate(&f, "${{ failed() }}", true, &got);
	assert_string_equal(got.s, "falsetrue");
	assert_true(
		expr_handles_failure(template_single(parse(&f, "${{ params.x && !failed() }}"))));
	assert_true(expr_handles_failure(template_single(parse(&f, "${{ always() }}"))));
	assert_false(
		expr_handles_failure(template_single(parse(&f, "${{ params.x == 'failed()' }}"))));
	str_deinit(&got);
	diag_list_free(f.diags);
	arena_free(f.arena);
}

static const struct {
	const char *text, *want; /* rendered; "?" not known */
} templates[] = {
	{ "plain", "plain" },
	{ "", "" },
	{ "a ${{ params.n }} b${{params.opt}}", "a 5 badam" },
	{ "${{ list }}", "3 1.5 2" },
	{ "$${{ x }}", "${{ x }}" },
	{ "$$${{ x }}", "$${{ x }}" },
	{ "a $${{ ${{ params.n }}", "a ${{ 5" },
	{ "${ {{ }}", "${ {{ }}" },
	{ "${{ 1 }}${{ 2 }}", "12" },
	{ "x ${{ later }}", "?" },
	{ "${{\n  params.n\n}}", "5" },
};

static void test_templates(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(templates); i++) {
		struct fixture f = { arena_new(), diag_list_new() };
		struct expr_scope scope = { .resolve = resolve };
		struct str got = { 0 };
		struct expr_template *t = parse(&f, templates[i].text);
		int r;

		str_add(&got, "before:");
		r = template_render(t, &scope, f.arena, &got, NULL);
		assert_int_equal(diag_errors(f.diags), 0);
		if (r == 1)
			str_addc(&got, '?');
		assert_string_equal(got.s + 7, templates[i].want);
		assert_int_equal(template_literal(t) != NULL,
				 strstr(templates[i].text, "${{") == NULL ||
					 strstr(templates[i].text, "{ x }}") != NULL);
		str_deinit(&got);
		diag_list_free(f.diags);
		arena_free(f.arena);
	}
}

static const struct {
	const char *text, *want; /* all messages */
} bad_texts[] = {
	{ "${{ }}", "f:1:1: the expression is empty\n" },
	{ "a ${{ 1", "f:1:1: `${{` has no closing `}}`\n" },
	{ "${{ 1 + }}", "f:1:1: the expression ends too early: a value is missing\n" },
	{ "${{ * 2 }}", "f:1:1: expected a value, not `*`\n" },
	{ "${{ 2 ** 3 }}", "f:1:1: expected a value, not `*`\n" },
	{ "${{ 1 +- }}", "f:1:1: the expression ends too early: a value is missing\n" },
	{ "${{ a = b }}", "f:1:1: `=` compares nothing: write `==`\n" },
	{ "${{ a & b }}", "f:1:1: write `&&`\n" },
	{ "${{ a and b }}", "f:1:1: expected an operator or `}}`, not `and`\n" },
	{ "${{ not a }}", "f:1:1: write `!` for `not`\n" },
	{ "${{ 1 < 2 < 3 }}", "f:1:1: comparisons can't be chained: write `a < b && b < c`\n" },
	{ "${{ len(a) > 1 }}", "f:1:1: there is no function `len`: write count(list)\n" },
	{ "${{ startswith(a, 'b') }}",
	  "f:1:1: there is no function `startswith`: write starts_with(text, part)\n" },
	{ "${{ coalesce(a, 1) }}",
	  "f:1:1: there is no function `coalesce`: write default(value, other)\n" },
	{ "${{ default(1) }}", "f:1:1: default() takes 2 arguments, not 1\n" },
	{ "${{ 'a' in list }}", "f:1:1: `in` is no operator: write contains(list, item)\n" },
	{ "${{ a ? 1 : 2 }}", "f:1:1: `?` is no operator: write choose(condition, a, b)\n" },
	{ "${{ 1 if a else 2 }}", "f:1:1: `if` is no operator: write choose(condition, a, b)\n" },
	{ "${{ mni(1) }}", "f:1:1: there is no function `mni` (did you mean `min`?)\n" },
	{ "${{ contains(1) }}", "f:1:1: contains() takes 2 arguments, not 1\n" },
	{ "${{ min() }}", "f:1:1: min() takes at least 1 argument, not 0\n" },
	{ "${{ (1 }}", "f:1:1: the expression ends too early: `)` is missing\n" },
	{ "${{ [1, }}", "f:1:1: the expression ends too early: a value is missing\n" },
	{ "${{ 'abc }}", "f:1:1: this text has no closing '\n" },
	{ "${{ 1a }}", "f:1:1: `1a` is not a number\n" },
	{ "${{ 99999999999999999999 }}", "f:1:1: `99999999999999999999` is not a number\n" },
	{ "${{ params. }}",
	  "f:1:1: the expression ends too early: a name behind the dot is missing\n" },
	{ "${{ params[1] }}", "f:1:1: expected a name in quotes, not `1`\n" },
	{ "${{ 1 2 }}", "f:1:1: expected an operator or `}}`, not `2`\n" },
	{ "${{ \xc3\xa4 }}", "f:1:1: `\xc3\xa4` means nothing in an expression\n" },
	{ "${{ 1 || }}", "f:1:1: the expression ends too early: a value is missing\n" },
};

static void test_errors(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_texts); i++) {
		struct fixture f = { arena_new(), diag_list_new() };
		struct str got = { 0 };

		parse(&f, bad_texts[i].text);
		diag_render(f.diags, &got);
		assert_string_equal(got.s, bad_texts[i].want);
		str_deinit(&got);
		diag_list_free(f.diags);
		arena_free(f.arena);
	}
}

/* Deep nesting is an error, not a crash; long chains are neither. */
static void test_limits(void **state)
{
	struct fixture f = { arena_new(), diag_list_new() };
	struct str text = { 0 }, got = { 0 };

	str_add(&text, "${{ ");
	for (int i = 0; i < 100000; i++)
		str_addc(&text, '(');
	str_add(&text, "1 }}");
	parse(&f, text.s);
	assert_int_equal(diag_errors(f.diags), 1);
	assert_non_null(strstr(diag_at(f.diags, 0)->message, "levels of parentheses"));

	str_reset(&text);
	str_add(&text, "${{ true");
	for (int i = 1; i < EXPR_ARGS_MAX; i++)
		str_add(&text, " && true");
	str_add(&text, " }}");
	evaluate(&f, text.s, false, &got);
	assert_string_equal(got.s, "true");
	assert_int_equal(diag_errors(f.diags), 1);

	str_reset(&text);
	str_add(&text, "${{ ");
	for (int i = 0; i < 60; i++)
		str_addc(&text, '!');
	str_add(&text, "true }}");
	str_reset(&got);
	evaluate(&f, text.s, false, &got);
	assert_string_equal(got.s, "true");
	str_deinit(&text);
	str_deinit(&got);
	diag_list_free(f.diags);
	arena_free(f.arena);
}

/* Places inside of YAML scalars. */

/* Each `@` in the scalar marks a byte; its place must be the `@` in the file. */
static const char *const scalars[] = {
	"k: a @ b\n",
	"k: '@ it''s @ x'\n",
	"k: \"\\t\\\"@\\u00e4 \\x41@ \\U0001F600@\"\n",
	"k: \xc3\xa4\xc3\xb6 @\n",
	"k: |\n  line @ one\n    two @\n\n  three @\n",
	"k: >\n  folded @ text\n  goes @ on\n\n  par @\n    more @\n  less @\n",
	"k: >-\n\n\n  @ x\n",
	"k: |2\n    indented @\n  not @\n",
	"k: plain @ text\n  over @ lines\n\n  and @ more\n",
	"k: \"quoted @\n  over @ \\\n  lines @\n\n\n  x @\"\n",
	"k: 'single\n\n  lines @\n  x @'\n",
	"- {a: 1, k: x @ y}\n",
	"a: b\r\nk: x @\r\n",
	"k: \"a\\\n   b@\\n@\\_@\\L@\"\n",
};

static const struct yaml_node *find_scalar(const struct yaml_node *root)
{
	if (root->kind == YAML_KIND_SEQ)
		root = root->items[0];
	return yaml_get(root, "k");
}

static void check_scalar(const char *file)
{
	struct fixture f = { arena_new(), diag_list_new() };
	struct yaml_tree *tree = NULL;
	struct source_index *ix = source_index_new(file, strlen(file), f.arena);
	struct source_cursor c;
	const struct yaml_node *n;
	size_t marks = 0;
	int line, col, want_line = 1, want_col = 1;
	const char *p = file;

	assert_int_equal(yaml_tree_parse("f", file, strlen(file), f.diags, &tree, NULL), 0);
	n = find_scalar(tree->root);
	source_cursor_init(&c, ix, n);
	for (size_t i = 0; i < n->len; i++) {
		if (n->text[i] != '@')
			continue;
		for (; *p && *p != '@'; p++) {
			if (*p == '\n')
				want_line++, want_col = 1;
			else if ((*p & 0xc0) != 0x80 && *p != '\r')
				want_col++;
		}
		source_cursor_seek(&c, i, &line, &col);
		if (c.lost || line != want_line || col != want_col)
			fail_msg("in <<%s>> mark %zu is at %d:%d, not %d:%d%s", file, marks,
				 want_line, want_col, line, col, c.lost ? " (lost)" : "");
		p++;
		want_col++;
		marks++;
	}
	assert_true(marks > 0);
	yaml_tree_free(tree);
	diag_list_free(f.diags);
	arena_free(f.arena);
}

static void test_places(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(scalars); i++)
		check_scalar(scalars[i]);
}

/* A long line with wide characters: every column must be found, from the index alone. */
static void test_long_line(void **state)
{
	struct str file = { 0 };

	str_add(&file, "{");
	for (int i = 0; i < 3000; i++)
		str_addf(&file, "\xc3\xa4%d: \xe2\x82\xac, ", i);
	str_add(&file, "k: 'x @ y'}\n");
	check_scalar(file.s);
	str_deinit(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values),    cmocka_unit_test(test_failed),
		cmocka_unit_test(test_templates), cmocka_unit_test(test_errors),
		cmocka_unit_test(test_limits),    cmocka_unit_test(test_places),
		cmocka_unit_test(test_long_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
