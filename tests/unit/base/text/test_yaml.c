#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text/yaml.h"
#include "unit.h"

static struct yaml_tree *parse(const char *text)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(str_deinit) struct str out = { 0 };
	struct yaml_tree *t = NULL;
	struct err err = { 0 };

	if (yaml_tree_parse("f", text, strlen(text), diags, &t, &err) < 0) {
		diag_render(diags, &out);
		fail_msg("`%s`: %s", text, out.s);
	}
	return t;
}

/* A tree as one line, to compare: {k:v,...} [a,...] plain 'quoted' |block. */
static void dump(const struct yaml_node *n, struct str *out)
{
	static const char *const mark[] = { "", "'", "|" };

	if (n->kind == YAML_KIND_SCALAR) {
		str_addf(out, "%s%s", mark[n->style], n->text);
		return;
	}
	str_addc(out, n->kind == YAML_KIND_MAP ? '{' : '[');
	for (size_t i = 0; i < n->len; i++) {
		if (i)
			str_addc(out, ',');
		if (n->kind == YAML_KIND_MAP) {
			dump(n->pairs[i].key, out);
			str_addc(out, ':');
		}
		dump(n->kind == YAML_KIND_MAP ? n->pairs[i].value : n->items[i], out);
	}
	str_addc(out, n->kind == YAML_KIND_MAP ? '}' : ']');
}

static const struct {
	const char *yaml, *want;
} good[] = {
	{ "a: 1\nb: [x, 'y', \"z\"]\n", "{a:1,b:[x,'y,'z]}" },
	{ "", "" },
	{ "# nothing\n", "" },
	{ "---\na: 1\n...\n", "{a:1}" },
	{ "%YAML 1.2\n---\na\n", "a" },
	{ "a:\n", "{a:}" },
	{ "run: |\n  one\n  two\nfold: >-\n  x\n  y\n", "{run:|one\ntwo\n,fold:|x y}" },
	{ "- 1\n- - 2\n  - 3\n- {}\n- []\n", "[1,[2,3],{},[]]" },
	{ "a: &x {k: 1}\nb: *x\nc: [*x, *x]\n", "{a:{k:1},b:{k:1},c:[{k:1},{k:1}]}" },
	{ "a: &x 1\nb: &x 2\nc: *x\n", "{a:1,b:2,c:2}" },
	{ "run: python x.py ${{ inputs.data }} --n ${{ params.n }}\n",
	  "{run:python x.py ${{ inputs.data }} --n ${{ params.n }}}" },
	{ "{data: \"${{ inputs.raw }}\"}", "{data:'${{ inputs.raw }}}" },
	{ "a: 'yes'\nb: \"on\"\nc: y\n", "{a:'yes,b:'on,c:y}" },
	{ "on: 1\na: {on: {b: c}}\n", "{on:1,a:{on:{b:c}}}" }, /* a key, as in other tools' files */
	{ "'<<': 1\n", "{'<<:1}" },
	{ "\"no\": 1\n", "{'no:1}" },
	{ "\xef\xbb\xbf"
	  "a: 1\n",
	  "{a:1}" },
	{ "a: 1\r\nb: 2\r\n", "{a:1,b:2}" },
	{ "k\xc3\xa9: \xe6\xbc\xa2\n", "{k\xc3\xa9:\xe6\xbc\xa2}" },
	{ "a: \"x\\ty\\u00e9\"\n", "{a:'x\ty\xc3\xa9}" },
	{ "a: 12:30\nurl: http://x/y#z\n", "{a:12:30,url:http://x/y#z}" },
	{ "? a\n: 1\n", "{a:1}" },
};

static void test_good(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		_cleanup_(yaml_tree_freep) struct yaml_tree *t = parse(good[i].yaml);
		_cleanup_(str_deinit) struct str out = { 0 };

		dump(t->root, &out);
		assert_string_equal(out.s ? out.s : "", good[i].want);
		assert_string_equal(t->file, "f");
	}
}

static const struct {
	const char *yaml, *want;
} bad[] = {
	{ "a: 1\nb: 2\na: 3\n", "f:3:1: `a` is given twice; the first is at line 1\n" },
	{ "{a: 1, 'a': 2}", "f:1:8: `a` is given twice; the first is at line 1\n" },
	{ "a: 1\na: 2\na: 3\n", "f:2:1: `a` is given twice; the first is at line 1\n"
				"f:3:1: `a` is given twice; the first is at line 1\n" },
	{ "a: !!str 1\n", "f:1:4: tags like `tag:yaml.org,2002:str` are not part of the YAML that "
			  "is read here; leave it out\n" },
	{ "a: !x [1]\nb: !y {}\n",
	  "f:1:4: tags like `!x` are not part of the YAML that is read here; leave it out\n"
	  "f:2:4: tags like `!y` are not part of the YAML that is read here; leave it out\n" },
	{ "a: &x {k: 1}\nb:\n  <<: *x\n", "f:3:3: merge keys (`<<`) are not part of the YAML that "
					  "is read here; use an alias for a whole value\n" },
	{ "a: yes\nb: Off\n", "f:1:4: `yes` reads as true or false in older YAML: write true or "
			      "false, or quote it for text\n"
			      "f:2:4: `Off` reads as true or false in older YAML: write true or "
			      "false, or quote it for text\n" },
	{ "On: 1\n", "f:1:1: `On` reads as true or false in older YAML: write true or false, or "
		     "quote it for text\n" },
	{ "a: 1\n---\nb: 2\n", "f:2:1: a second document begins here; a file holds one\n" },
	{ "[a]: 1\n", "f:1:1: a key must be text, not a list; quote values that begin with `{` or "
		      "`[`, such as \"${{ … }}\"\n" },
	{ "a: {{ x }}\n", "f:1:5: a key must be text, not a mapping; quote values that begin with "
			  "`{` or `[`, such as \"${{ … }}\"\n" },
	{ "? - a\n: 1\n", "f:1:3: a key must be text, not a list\n" },
	{ "a: on\n? - on\n: 1\n", "f:1:4: `on` reads as true or false in older YAML: write true or "
				  "false, or quote it for text\n"
				  "f:2:3: a key must be text, not a list\n"
				  "f:2:5: `on` reads as true or false in older YAML: write true or "
				  "false, or quote it for text\n" },
	{ "a: *x\nb: yes\n", "f:1:4: `*x` names nothing: no `&x` before it\n"
			     "f:2:4: `yes` reads as true or false in older YAML: write true or "
			     "false, or quote it for text\n" },
	{ "a: &x [1, *x]\n", "f:1:11: `*x` stands inside of what it names\n" },
	{ "a: &x {b: &y [*x]}\n", "f:1:15: `*x` stands inside of what it names\n" },
	{ "a: \"x\\0y\"\n", "f:1:4: a NUL character can't stand in text\n" },
	{ "\"a\\0b\": 1\n\"a\\0c\": 2\n", "f:1:1: a NUL character can't stand in text\n"
					  "f:2:1: a NUL character can't stand in text\n"
					  "f:2:1: `a` is given twice; the first is at line 1\n" },
	{ "a: b\xff\n", "f:1:5: the file must be UTF-8 text: invalid leading UTF-8 octet\n" },
	{ "a: 1\n\xc3\xa9: \xc3(\n",
	  "f:2:4: the file must be UTF-8 text: invalid trailing UTF-8 octet\n" },
	{ "a: x\x01\n",
	  "f:1:5: the file must be UTF-8 text: control characters are not allowed\n" },
	{ "a: {data: ${{ inputs.raw }}}\n",
	  "f:1:12: a `,` or `}` is missing before this; quote values with ${{ }} inside of { } or "
	  "[ ]\n" },
	{ "a: [x-${{ inputs.raw }}]\n",
	  "f:1:8: a `,` or `]` is missing before this; quote values with ${{ }} inside of { } or "
	  "[ ]\n" },
	{ "a:\n\t- x\n", "f:2:1: indent with spaces, not with tabs\n" },
	{ "a: [1, 2\n", "f:2:1: a `,` or `]` is missing before this\n" },
	{ "a: 1\n b: 2\n", "f:2:3: a key can't stand here: it is indented like no key above it, or "
			   "a `:` is missing above\n" },
	{ "a: echo b: c\n",
	  "f:1:10: a plain value can't have `: ` in it: quote the value, or write "
	  "it as a block below `|`\n" },
	{ "a:\n    b: 1\n   c: 2\n", "f:3:4: this line is indented like no key above it\n" },
	{ "a: 'b' c\n", "f:1:8: nothing can follow a value in quotes or brackets: quote the whole "
			"value\n" },
	{ "a: \"b\nc: 1\n", "f:1:4: these quotes aren't closed\n" },
	{ "a: @b\n", "f:1:4: a plain value can't begin with this character: quote the value\n" },
	{ "a: \"\\d\"\n", "f:1:5: double quotes have no such escape: double the backslash, or use "
			  "single quotes\n" },
	{ "a: 1\nb\n", "f:2:1: this is no `key: value`, as the lines around it are\n" },
	{ "a: - b\n", "f:1:4: a list can't begin here: begin each item on a line of its own\n" },
	{ "a: *.txt\n", "f:1:4: `*` and `&` begin the name of an anchor: quote the value\n" },
	{ "\xef\xbb\xbf"
	  "yes",
	  "f:1:1: `yes` reads as true or false in older YAML: write true or false, or quote it for "
	  "text\n" },
	{ "\xff\xfe"
	  "a\0:\0",
	  "f:1:1: the file must be UTF-8 text: invalid leading UTF-8 octet\n" },
};

static void test_bad(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
		_cleanup_(str_deinit) struct str out = { 0 };
		struct yaml_tree *t = NULL;
		struct err err = { 0 };

		assert_int_equal(
			yaml_tree_parse("f", bad[i].yaml, strlen(bad[i].yaml), diags, &t, &err),
			-1);
		assert_null(t);
		assert_int_equal(err.code, ERR_INVALID);
		diag_render(diags, &out);
		if (strcmp(out.s, bad[i].want) != 0)
			fail_msg("`%s` gives\n%snot\n%s", bad[i].yaml, out.s, bad[i].want);
	}
}

static void test_nul_byte_in_file(void **state)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	struct yaml_tree *t = NULL;

	assert_int_equal(yaml_tree_parse("f", "a: b\0c\n", 7, diags, &t, NULL), -1);
	assert_int_equal(diag_at(diags, 0)->col, 5);
}

static void test_places(void **state)
{
	_cleanup_(yaml_tree_freep) struct yaml_tree *t =
		parse("a: 1\n\xc3\xa9\xe6\xbc\xa2: {k: 'v', l: [x, \"y\"]}\nb: |\n  text\n");
	struct yaml_node *m = t->root->pairs[1].value, *v = yaml_get(m, "k"), *l = yaml_get(m, "l");

	assert_true(m->line == 2 && m->col == 5 && m->is_flow && m->height == 3);
	assert_true(v->line == 2 && v->col == 9 && v->style == YAML_STYLE_QUOTED);
	assert_true(l->items[1]->line == 2 && l->items[1]->col == 21);
	assert_true(yaml_get(t->root, "b")->line == 3 &&
		    yaml_get(t->root, "b")->style == YAML_STYLE_BLOCK);
	assert_true(t->root->line == 1 && t->root->col == 1 && !t->root->is_flow);
}

static const struct {
	const char *text;
	enum yaml_type type;
} scalars[] = {
	{ "null", YAML_TYPE_NULL },
	{ "~", YAML_TYPE_NULL },
	{ "Null", YAML_TYPE_NULL },
	{ "true", YAML_TYPE_BOOL },
	{ "FALSE", YAML_TYPE_BOOL },
	{ "tRue", YAML_TYPE_STRING },
	{ "0", YAML_TYPE_INT },
	{ "-12", YAML_TYPE_INT },
	{ "+3", YAML_TYPE_INT },
	{ "007", YAML_TYPE_INT },
	{ "0x1F", YAML_TYPE_INT },
	{ "0o17", YAML_TYPE_INT },
	{ "0o8", YAML_TYPE_STRING },
	{ "-0x1", YAML_TYPE_STRING },
	{ "0x", YAML_TYPE_STRING },
	{ "1.", YAML_TYPE_FLOAT },
	{ ".5", YAML_TYPE_FLOAT },
	{ "1e3", YAML_TYPE_FLOAT },
	{ "-1.5E-3", YAML_TYPE_FLOAT },
	{ ".", YAML_TYPE_STRING },
	{ "1e", YAML_TYPE_STRING },
	{ "1e+", YAML_TYPE_STRING },
	{ ".inf", YAML_TYPE_FLOAT },
	{ "-.Inf", YAML_TYPE_FLOAT },
	{ ".NaN", YAML_TYPE_FLOAT },
	{ "-.nan", YAML_TYPE_STRING },
	{ "inf", YAML_TYPE_STRING },
	{ "1_000", YAML_TYPE_STRING },
	{ "12:30", YAML_TYPE_STRING },
	{ "1.2.3", YAML_TYPE_STRING },
	{ "+", YAML_TYPE_STRING },
	{ "+.", YAML_TYPE_STRING },
	{ "e3", YAML_TYPE_STRING },
	{ "'1'", YAML_TYPE_STRING },
	{ "\"true\"", YAML_TYPE_STRING },
	{ "''", YAML_TYPE_STRING },
	{ "2025-03-01", YAML_TYPE_STRING },
	{ "y", YAML_TYPE_STRING },
	{ "1e999", YAML_TYPE_FLOAT },
};

static void test_types(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(scalars); i++) {
		_cleanup_(str_deinit) struct str text = { 0 };
		_cleanup_(yaml_tree_freep) struct yaml_tree *t = NULL;
		struct yaml_node *n;

		str_addf(&text, "k: %s\n", scalars[i].text);
		t = parse(text.s);
		n = yaml_get(t->root, "k");
		if (yaml_scalar_type(n) != scalars[i].type)
			fail_msg("`%s` is %s", scalars[i].text, yaml_describe(n));
	}
}

static void test_values(void **state)
{
	_cleanup_(yaml_tree_freep) struct yaml_tree *t =
		parse("[0x1F, 0o17, -9223372036854775808, 9223372036854775808, 1.5, .5e1, -.inf, "
		      ".nan, True, 'x', [], 1e999, 007]");
	struct yaml_node **v = t->root->items;
	int64_t i = 77;
	double f = 77;
	bool b = false;

	assert_true(yaml_as_int(v[0], &i) && i == 31);
	assert_true(yaml_as_int(v[1], &i) && i == 15);
	assert_true(yaml_as_int(v[2], &i) && i == INT64_MIN);
	assert_false(yaml_as_int(v[3], &i));
	assert_true(yaml_as_float(v[3], &f) && f == 9223372036854775808.0);
	assert_true(yaml_as_float(v[4], &f) && f == 1.5);
	assert_true(yaml_as_float(v[5], &f) && f == 5);
	assert_true(yaml_as_float(v[6], &f) && f == -INFINITY);
	assert_true(yaml_as_float(v[7], &f) && isnan(f));
	assert_true(yaml_as_bool(v[8], &b) && b);
	assert_true(yaml_as_float(v[0], &f) && f == 31);
	assert_true(yaml_as_int(v[12], &i) && i == 7);
	f = 77;
	assert_false(yaml_as_float(v[9], &f) || yaml_as_float(v[10], &f) ||
		     yaml_as_float(v[11], &f));
	assert_false(yaml_as_int(v[4], &i) || yaml_as_int(v[9], &i) || yaml_as_int(v[10], &i) ||
		     yaml_as_bool(v[9], &b) || yaml_as_bool(v[10], &b));
	assert_true(f == 77 && i == 7);
	assert_false(yaml_is_null(v[10]));
}

static void test_find(void **state)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	_cleanup_(yaml_tree_freep) struct yaml_tree *t = NULL;
	char key[32];

	for (int n = 0; n < 40; n++) { /* both sides of where an index begins */
		yaml_tree_freep(&t);
		str_reset(&text);
		str_add(&text, "{");
		for (int i = 0; i < n; i++)
			str_addf(&text, "k%d: %d,", i, i);
		str_add(&text, "}");
		t = parse(text.s);
		for (int i = 0; i < n; i++) {
			snprintf(key, sizeof(key), "k%d", i);
			assert_string_equal(yaml_get(t->root, key)->text, key + 1);
		}
		assert_null(yaml_get(t->root, "k"));
		assert_null(yaml_get(t->root, "k40"));
	}
	assert_null(yaml_get(NULL, "k"));
	assert_null(yaml_get(t->root->pairs[0].value, "k"));
}

static void test_duplicates_in_large_map(void **state)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(str_deinit) struct str text = { 0 };
	struct yaml_tree *t = NULL;

	for (int i = 0; i < 1000; i++)
		str_addf(&text, "k%d: 1\n", i == 900 ? 17 : i);
	assert_int_equal(yaml_tree_parse("f", text.s, text.len, diags, &t, NULL), -1);
	assert_int_equal(diag_errors(diags), 1);
	assert_int_equal(diag_at(diags, 0)->line, 901);
}

static int parse_error(const struct str *text, const char *needle)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(yaml_tree_freep) struct yaml_tree *t = NULL;
	_cleanup_(str_deinit) struct str out = { 0 };
	int r = yaml_tree_parse("f", text->s, text->len, diags, &t, NULL);

	diag_render(diags, &out);
	if (r < 0 && !strstr(out.s, needle))
		fail_msg("%s", out.s);
	return r;
}

static void nested(struct str *out, int depth)
{
	str_reset(out);
	for (int i = 1; i < depth; i++)
		str_addc(out, '[');
	str_addc(out, 'x');
	for (int i = 1; i < depth; i++)
		str_addc(out, ']');
}

static void test_depth(void **state)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	nested(&text, YAML_DEPTH_MAX);
	assert_int_equal(parse_error(&text, ""), 0);
	nested(&text, YAML_DEPTH_MAX + 1);
	assert_int_equal(parse_error(&text, "nested deeper than 64 levels"), -1);
	nested(&text, 100000);
	assert_int_equal(parse_error(&text, "nested deeper than 64 levels"), -1);
}

/* Depth that aliases add up: each level is one deeper than what it names. */
static void test_depth_by_aliases(void **state)
{
	for (int n = YAML_DEPTH_MAX - 4; n <= YAML_DEPTH_MAX + 2; n++) {
		_cleanup_(str_deinit) struct str text = { 0 };

		str_add(&text, "a0: &a0 x\n"); /* height 1, in a map: 2 levels */
		for (int i = 1; i <= n - 2; i++)
			str_addf(&text, "a%d: &a%d [*a%d]\n", i, i, i - 1);
		assert_int_equal(parse_error(&text, "nested deeper than 64 levels"),
				 n <= YAML_DEPTH_MAX ? 0 : -1);
	}
}

static void test_expansion(void **state)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	/* 10^9 nodes from ten lines */
	str_add(&text, "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n");
	for (int i = 1; i < 9; i++) {
		str_addf(&text, "a%d: &a%d [", i, i);
		for (int k = 0; k < 10; k++)
			str_addf(&text, "*a%d,", i - 1);
		str_add(&text, "]\n");
	}
	assert_int_equal(parse_error(&text, "aliases multiply this file more than 100 times"), -1);

	/* doubling, to beyond 2^64 */
	str_reset(&text);
	str_add(&text, "a0: &a0 [x]\n");
	for (int i = 1; i < 60; i++)
		str_addf(&text, "a%d: &a%d {k: *a%d, l: *a%d}\n", i, i, i - 1, i - 1);
	assert_int_equal(parse_error(&text, "aliases multiply this file more than 100 times"), -1);

	/* ordinary use: a shared block in every one of 50 steps */
	str_reset(&text);
	str_add(&text, "d: &d {a: 1, b: 2, c: [1, 2, 3]}\n");
	for (int i = 0; i < 50; i++)
		str_addf(&text, "s%d: *d\n", i);
	assert_int_equal(parse_error(&text, ""), 0);
}

static void test_alias_is_the_node(void **state)
{
	_cleanup_(yaml_tree_freep) struct yaml_tree *t = parse("a: &x [1]\nb: *x\n");

	assert_ptr_equal(yaml_get(t->root, "a"), yaml_get(t->root, "b"));
	assert_int_equal(t->n_nodes, 5);
}

static void test_many_errors(void **state)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(str_deinit) struct str text = { 0 }, out = { 0 };
	struct yaml_tree *t = NULL;
	struct err err = { 0 };

	for (int i = 0; i < 1000; i++)
		str_addf(&text, "- yes\n");
	assert_int_equal(yaml_tree_parse("f", text.s, text.len, diags, &t, &err), -1);
	diag_render(diags, &out);
	assert_true(str_has_suffix(out.s, "\nand 900 more errors\n"));
	assert_string_equal(err.msg, "f: 1000 errors");
}

/* What was wrong before in the same list doesn't make this file wrong. */
static void test_list_in_use(void **state)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(yaml_tree_freep) struct yaml_tree *t = NULL;

	diag_error(diags, "other", 1, 1, "wrong");
	assert_int_equal(yaml_tree_parse("f", "a: 1", 4, diags, &t, NULL), 0);
}

static void test_too_large_and_missing(void **state)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	struct yaml_tree *t = NULL;
	struct err err = { 0 };

	assert_int_equal(yaml_tree_parse("f", "", YAML_FILE_MAX + 1, diags, &t, &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
	assert_int_equal(yaml_tree_load("/nonexistent/x.yaml", diags, &t, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	assert_int_equal(yaml_tree_load("/", diags, &t, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	yaml_tree_free(NULL);
}

/* Random byte edits of a real file: never a crash, never an error without a place, never a tree
 * with an error. */
static void test_mutations(void **state)
{
	static const char seed_text[] = "pipeline: x\nparams: {lr: {type: float, default: "
					"0.01}}\nsteps:\n  a: &a\n    run: |\n      x\n"
					"    inputs: {d: \"${{ inputs.raw }}\"}\n  b: *a\n";
	static const char alphabet[] = "{}[]:,&*!|>'\"%@`#-? \n\tyes\xff\xc3";

	srand(21);
	for (int round = 0; round < 4000; round++) {
		_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
		_cleanup_(yaml_tree_freep) struct yaml_tree *t = NULL;
		char text[sizeof(seed_text)];
		size_t len = sizeof(seed_text) - 1 - (size_t)(rand() % 20);

		memcpy(text, seed_text, sizeof(text));
		for (int k = rand() % 4; k >= 0; k--)
			text[(size_t)rand() % len] =
				alphabet[(size_t)rand() % (sizeof(alphabet) - 1)];
		if (yaml_tree_parse("f", text, len, diags, &t, NULL) == 0) {
			assert_int_equal(diag_errors(diags), 0);
			continue;
		}
		assert_null(t);
		assert_true(diag_len(diags) > 0 && diag_at(diags, 0)->line > 0 &&
			    diag_at(diags, 0)->col > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_good),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_nul_byte_in_file),
		cmocka_unit_test(test_places),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_find),
		cmocka_unit_test(test_duplicates_in_large_map),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_depth_by_aliases),
		cmocka_unit_test(test_expansion),
		cmocka_unit_test(test_alias_is_the_node),
		cmocka_unit_test(test_many_errors),
		cmocka_unit_test(test_list_in_use),
		cmocka_unit_test(test_too_large_and_missing),
		cmocka_unit_test(test_mutations),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
