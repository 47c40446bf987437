/* What a script asks for, by its text: imports of Python, files that a shell sources. */
#include <string.h>
#include "base/mem.h"
#include "base/text/str.h"
#include "plan/code/scan.h"
#include "unit.h"

/* "1:a.b", "2:..m.x" (from ..m import x), separated by blanks. */
static void note_import(void *arg, const struct scan_import *i)
{
	struct str *out = arg;

	str_addf(out, "%s%u:", out->len ? " " : "", i->line);
	for (unsigned k = 0; k < i->level; k++)
		str_addc(out, '.');
	str_add(out, i->module);
	if (i->name)
		str_addf(out, "|%s", i->name);
}

static void note_source(void *arg, const char *path, unsigned line)
{
	struct str *out = arg;

	str_addf(out, "%s%u:%s", out->len ? " " : "", line, path);
}

struct row {
	const char *text, *want;
};

static const struct row python[] = {
	{ "", "" },
	{ "import a", "1:a" },
	{ "\xef\xbb\xbfimport a", "1:a" },
	{ "import a.b.c as d, e\nimport f", "1:a.b.c 1:e 2:f" },
	{ "import a . b", "1:a.b" },
	{ "import a\\\n.b, \\\r\n c", "1:a.b 1:c" },
	{ "from a import b", "1:a|b" },
	{ "from a.b import c as d, e", "1:a.b|c 1:a.b|e" },
	{ "from a import (b,\n  c as d, # two\n  e,\n)\nimport f", "1:a|b 1:a|c 1:a|e 5:f" },
	{ "from a import *", "1:a|*" },
	{ "from . import a", "1:.|a" },
	{ "from .a import b", "1:.a|b" },
	{ "from ... a . b import c", "1:...a.b|c" },
	{ "from .... import x", "1:....|x" },
	{ "from.import a", "1:.|a" },
	/* Where a statement may begin. */
	{ "x = 1; import a; from b import c", "1:a 1:b|c" },
	{ "def f():\n\timport a\n\treturn a", "2:a" },
	{ "try: import a\nexcept ImportError: import b\nelse: import c", "1:a 2:b 3:c" },
	{ "if x[1:2]: import a", "1:a" },
	{ "class A: from b import c", "1:b|c" },
	{ "with a as b, (\n c): import d", "2:d" },
	{ "if TYPE_CHECKING:\n    from a import B", "2:a|B" },
	/* Where none does. */
	{ "def g():\n  yield from a\n  raise X from b", "" },
	{ "x = {1: import_a, 2: 3}\nimportant = 1\nfrom_a = 2", "" },
	{ "f(x, # import a\n  y)", "" },
	{ "# import a\nimport b # import c", "2:b" },
	{ "f(\nimport a\n)", "" },
	{ "x.import a", "" },
	{ "lambda: (0,\n import_)", "" },
	/* Strings. */
	{ "'''\nimport a\n'''\nimport b", "4:b" },
	{ "\"\"\"\nimport a\n\\\"\"\"\nimport b\n\"\"\"\nimport c", "6:c" },
	{ "'import a'; import b", "1:b" },
	{ "x = 'it\\'s'; import a", "1:a" },
	{ "x = r'\\'; import a'; import b", "1:b" },
	{ "x = rb'''\\''''; import a", "1:a" },
	{ "x = 'never closed\nimport a", "2:a" },
	{ "x = 'joined \\\nimport a'; import b", "2:b" },
	{ "print'a';import b", "1:b" },
	{ "x = ''; import a; y = ''''''; import b", "1:a 1:b" },
	/* Strings with fields, which have strings and brackets of their own. */
	{ "x = f'{a}'; import b", "1:b" },
	{ "x = f'{a[\"k\"]:>{w}.{p}}}} {{'; import b", "1:b" },
	{ "x = f'{d['k']}; import a'; import b", "1:b" },
	{ "x = f'{f'{f'{1}'}'}'; import a", "1:a" },
	{ "x = f'''{\n'''\nimport a\n'''\n}\nimport b\n'''\nimport c", "8:c" },
	{ "x = f'{x:(>10}'; import a", "1:a" },
	{ "x = f'{ {1: 2}[1] }'; import a", "1:a" },
	{ "x = f'\\{x}'; import a", "1:a" },
	{ "x = rf'\\d{3}\\''; import a", "1:a" },
	{ "x = f'\\N{LATIN SMALL LETTER A}'; import a", "1:a" },
	{ "x = f'{x # }'\n}'; import a", "2:a" },
	{ "x = b'{'; import a", "1:a" },
	{ "x = F\"{y!r:^{'5'}}\"; import a", "1:a" },
	/* Names of other alphabets, other encodings, other line ends. */
	{ "import größe.b", "1:größe.b" },
	{ "import gr\xf6\xdf\x65", "1:gr\xf6\xdf\x65" },
	{ "import a\rimport b\r\nimport c\n", "1:a 2:b 3:c" },
	{ "\f import a", "1:a" },
	/* What Python refuses gives something, and what follows is read. */
	{ "import\nimport a", "2:a" },
	{ "import 'a'\nimport b", "2:b" },
	{ "import a.\nimport b", "2:b" },
	{ "from import a\nimport b", "2:b" },
	{ "from a\nimport b", "2:b" },
	{ "from a import\nimport b", "2:b" },
	{ "import a b\nimport c", "1:a 2:c" },
	{ "from a import (b", "1:a|b" },
	{ ")]}\nimport a", "2:a" },
	{ "import a,", "1:a" },
	{ "\\", "" },
	{ "f'{", "" },
	{ "f'{x:", "" },
};

static const struct row shell[] = {
	{ "", "" },
	{ ". ./a.sh", "1:./a.sh" },
	{ "source lib/a.sh arg", "1:lib/a.sh" },
	{ "set -e\n. 'a b.sh'; source \"c.sh\"", "2:a b.sh 2:c.sh" },
	{ ". a\\ b.sh", "1:a b.sh" },
	{ "if true; then . a; else . b; fi && . c || . d | . e & . f", "1:a 1:b 1:c 1:d 1:e 1:f" },
	{ "( . a ); { . b; }; f() { . c; }", "1:a 1:b 1:c" },
	{ "case x in\na) . b ;;\nesac", "2:b" },
	{ "X=1 . a", "1:a" },
	{ ". \\\n  a", "2:a" },
	{ "\t! . a\nwhile . b; do . c; done", "1:a 2:b 2:c" },
	/* Not literal. */
	{ ". \"$DIR/a\"; . $a; . `x`; . ~/a; . *.sh; . $(echo a)", "" },
	{ ". '$a'", "1:$a" },
	/* No command. */
	{ "echo . a; echo source b", "" },
	{ "# . a\nx#y\n. b # . c", "3:b" },
	{ "echo 'it\n. a\n'; . b", "3:b" },
	{ "echo \"$(cat \"$f\")\"\n. a", "2:a" },
	{ "./a.sh\n.a b\nsources c", "" },
	{ "echo >. a", "" },
	{ "..  a", "" },
	/* Here-documents. */
	{ "cat <<EOF\n. a\nit's\nEOF\n. b", "5:b" },
	{ "cat <<-'E F'\n. a\n\tE F\n. b", "4:b" },
	{ "cat <<A <<\\B; . x\n. a\nA\n. b\nB\n. c", "1:x 6:c" },
	{ "cat <<<EOF\n. a", "2:a" },
	{ "cat <<EOF\n. a", "" },
	{ "x=$((1 << 2))\n. a", "2:a" },
	{ "(( x = 1 << 2 ))\n. a\n2\n. b", "2:a 4:b" },
	{ "((true); . a)", "1:a" },
	{ ".", "" },
	{ ". '", "" },
};

static void check(const struct row *rows, size_t n, bool is_python)
{
	for (size_t i = 0; i < n; i++) {
		struct str got = { 0 };
		/* In memory that ends where the text does. */
		size_t len = strlen(rows[i].text);
		char *bytes = xmalloc(len + !len);

		memcpy(bytes, rows[i].text, len);
		str_add(&got, "");
		if (is_python)
			scan_python(bytes, len, note_import, &got);
		else
			scan_shell(bytes, len, note_source, &got);
		if (strcmp(got.s, rows[i].want) != 0)
			print_message("of: %s\n", rows[i].text);
		assert_string_equal(got.s, rows[i].want);
		str_deinit(&got);
		free(bytes);
	}
}

static void test_python(void **state)
{
	check(python, ARRAY_LEN(python), true);
}

static void test_shell(void **state)
{
	check(shell, ARRAY_LEN(shell), false);
}

/* A name of the longest length is told, one more is no file's. */
static void test_names(void **state)
{
	for (size_t n = SCAN_NAME_MAX - 1; n <= SCAN_NAME_MAX + 1; n++) {
		struct str text = { 0 }, got = { 0 };

		str_add(&text, "import ");
		for (size_t i = 0; i < n; i++)
			str_addc(&text, 'a');
		str_add(&text, "\nimport b");
		str_add(&got, "");
		scan_python(text.s, text.len, note_import, &got);
		assert_int_equal(got.len, n > SCAN_NAME_MAX - 1 ? 3 : n + 6);
		memcpy(text.s, "source ", 7);
		str_reset(&got);
		scan_shell(text.s, text.len, note_source, &got);
		assert_int_equal(got.len, n > SCAN_NAME_MAX ? 0 : n + 2);
		str_deinit(&text);
		str_deinit(&got);
	}
}

/* Bytes in the wrong place: NUL, and nesting without end. */
static void test_hostile(void **state)
{
	static const char nul[] = "import a\0import b\nimport c\n. a\0b\n. d";
	struct str text = { 0 }, got = { 0 };

	str_add(&got, "");
	scan_python(nul, sizeof(nul) - 1, note_import, &got);
	assert_string_equal(got.s, "1:a 2:c");
	str_reset(&got);
	scan_shell(nul, sizeof(nul) - 1, note_source, &got);
	assert_string_equal(got.s, "4:d");
	for (size_t i = 0; i < 1000000; i++)
		str_add(&text, i % 2 ? "f'{" : "f\"{");
	scan_python(text.s, text.len, note_import, &got);
	str_reset(&text);
	for (size_t i = 0; i < 1000000; i++)
		str_add(&text, "((");
	scan_shell(text.s, text.len, note_source, &got);
	scan_python(text.s, text.len, note_import, &got);
	assert_string_equal(got.s, "4:d");
	str_deinit(&text);
	str_deinit(&got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_python),
		cmocka_unit_test(test_shell),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_hostile),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
