#include <string.h>
#include "base/text/text.h"
#include "cli/render/table.h"
#include "unit.h"

static void test_cut(void **state)
{
	static const struct {
		const char *in;
		size_t columns;
		const char *want;
	} cases[] = {
		{ "abc", 5, "abc  " },     { "abcdefgh", 5, "ab…gh" },
		{ "abcdefgh", 4, "a…gh" }, { "abcdefgh", 1, "…" },
		{ "abcdefgh", 0, "" },     { "日本語日本語", 7, "日…語  " },
		{ "äöüäöü", 5, "äö…öü" },
	};
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(str_deinit) struct str s = { 0 };
		str_add(&s, "");
		table_add_cut(&s, cases[i].in, cases[i].columns, true);
		assert_int_equal(text_width(s.s, s.len), cases[i].columns);
		assert_string_equal(s.s, cases[i].want);
	}
}

/* Whatever the text, the result has the width that was asked for. */
static void test_cut_random(void **state)
{
	static const char *const pieces[] = { "a", "ü", "日", "e\xcc\x81", "🗿", "[", "=0.1" };
	unsigned seed = 3;

	for (int round = 0; round < 5000; round++) {
		_cleanup_(str_deinit) struct str in = { 0 }, out = { 0 };
		size_t columns = (size_t)rand_r(&seed) % 20;

		str_add(&in, "");
		str_add(&out, "");
		for (int n = rand_r(&seed) % 20; n > 0; n--)
			str_add(&in, pieces[(size_t)rand_r(&seed) % ARRAY_LEN(pieces)]);
		table_add_cut(&out, in.s, columns, rand_r(&seed) % 2);
		assert_int_equal(text_width(out.s, out.len), columns);
		assert_true(text_is_utf8(out.s, out.len));
	}
}

static struct table *sample(void)
{
	struct table *t = table_new();

	table_column(t, "run", TABLE_CUT);
	table_column(t, "tasks", TABLE_RIGHT);
	table_column(t, "state", 0);
	table_cell(t, STYLE_BOLD, "%s", "digits-7kq2m");
	table_cell(t, STYLE_PLAIN, "%d", 8);
	table_cell(t, STYLE_GREEN, "%s", "succeeded");
	table_cell(t, STYLE_PLAIN, "%s", "a-very-long-name-of-a-run");
	table_cell(t, STYLE_PLAIN, "%d", 12345);
	table_cell(t, STYLE_RED, "%s", "bad\x1b[31m\n");
	return t;
}

static void test_render(void **state)
{
	_cleanup_(table_freep) struct table *t = sample();
	_cleanup_(str_deinit) struct str s = { 0 };

	assert_int_equal(table_rows(t), 2);
	table_render(t, 0, false, &s);
	assert_string_equal(s.s, "run                        tasks  state\n"
				 "digits-7kq2m                   8  succeeded\n"
				 "a-very-long-name-of-a-run  12345  bad\\e[31m\\n\n");
}

static void test_render_narrow(void **state)
{
	_cleanup_(table_freep) struct table *t = sample();
	_cleanup_(str_deinit) struct str s = { 0 };

	table_render(t, 36, false, &s);
	assert_string_equal(s.s, "run               tasks  state\n"
				 "digits-7kq2m          8  succeeded\n"
				 "a-very-…of-a-run  12345  bad\\e[31m\\n\n");
}

static void test_render_color(void **state)
{
	_cleanup_(table_freep) struct table *t = table_new();
	_cleanup_(str_deinit) struct str s = { 0 };

	table_column(t, "", 0);
	table_column(t, "", 0);
	table_cell(t, STYLE_GREEN, "%s", "a");
	table_render(t, 0, true, &s); /* the row isn't complete */
	assert_string_equal(s.s, "\033[32ma\033[0m\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut),          cmocka_unit_test(test_cut_random),
		cmocka_unit_test(test_render),       cmocka_unit_test(test_render_narrow),
		cmocka_unit_test(test_render_color),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
