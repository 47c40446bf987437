#include <string.h>
#include "base/diag.h"
#include "unit.h"

static void assert_rendered(struct diag_list *l, const char *want)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	diag_render(l, &s);
	assert_string_equal(s.s ? s.s : "", want);
}

static void test_sorted(void **state)
{
	_cleanup_(diag_list_freep) struct diag_list *l = diag_list_new();
	char name[] = "a.yaml";

	assert_rendered(l, "");
	diag_error(l, name, 7, 2, "late %d", 1);
	diag_warning(l, "b.yaml", 1, 1, "other");
	diag_warning(l, name, 3, 9, "unused");
	diag_error(l, name, 3, 9, "wrong");
	diag_error(l, name, 3, 10, "later");
	diag_error(l, name, 0, 0, "whole");
	name[0] = 'z'; /* the list has its own copy */
	assert_rendered(l, "a.yaml: whole\n"
			   "a.yaml:3:9: wrong\n"
			   "a.yaml:3:9: warning: unused\n"
			   "a.yaml:3:10: later\n"
			   "a.yaml:7:2: late 1\n"
			   "b.yaml:1:1: warning: other\n");
	assert_int_equal(diag_errors(l), 4);
	assert_int_equal(diag_warnings(l), 2);
	assert_int_equal(diag_len(l), 6);
	assert_string_equal(diag_at(l, 1)->message, "wrong");
	assert_null(diag_at(l, 6));
}

static void test_same_once(void **state)
{
	_cleanup_(diag_list_freep) struct diag_list *l = diag_list_new();

	for (int i = 0; i < 3; i++)
		diag_error(l, "f", 1, 1, "twice");
	diag_warning(l, "f", 1, 1, "twice");
	diag_error(l, "g", 1, 1, "twice");
	diag_error(l, "f", 1, 2, "twice");
	assert_int_equal(diag_errors(l), 3);
	assert_int_equal(diag_warnings(l), 1);
}

static void test_bounded(void **state)
{
	_cleanup_(diag_list_freep) struct diag_list *l = diag_list_new();
	_cleanup_(str_deinit) struct str s = { 0 };

	for (int i = 0; i < DIAG_MAX + 12; i++)
		diag_error(l, "f", 1000 - i, 1, "error %d", i);
	for (int i = 0; i < DIAG_MAX + 1; i++)
		diag_warning(l, "f", 2000 + i, 1, "warning %d", i);
	assert_int_equal(diag_len(l), 2 * DIAG_MAX);
	assert_int_equal(diag_errors(l), DIAG_MAX + 12);
	diag_render(l, &s);
	assert_true(str_has_suffix(s.s, "\nand 12 more errors\nand 1 more warning\n"));
	assert_true(str_has_prefix(s.s, "f:901:1: error 99\n"));
}

static void test_hostile_text(void **state)
{
	_cleanup_(diag_list_freep) struct diag_list *l = diag_list_new();
	char big[5000];

	memset(big, 'x', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	diag_error(l, "f\n\x1b.yaml", 1, 1, "key `%s`", "a\n\xff");
	assert_rendered(l, "f\\n\\e.yaml:1:1: key `a\\n\\xff`\n");
	diag_error(l, "f", 1, 1, "%s", big);
	assert_true(strlen(diag_at(l, 1)->message) < 1100);
	diag_error(l, "f", 2, 1, "%s", "");
	assert_string_equal(diag_at(l, 2)->message, "");
}

static void test_to_err(void **state)
{
	_cleanup_(diag_list_freep) struct diag_list *l = diag_list_new();
	struct err err = { 0 };

	diag_warning(l, "f", 1, 1, "unused");
	diag_error(l, "f", 2, 5, "wrong");
	assert_int_equal(diag_to_err(l, "f", &err), -1);
	assert_string_equal(err.msg, "f:2:5: wrong");
	assert_int_equal(err.code, ERR_INVALID);
	diag_error(l, "f", 3, 5, "wrong");
	diag_to_err(l, "f", &err);
	assert_string_equal(err.msg, "f: 2 errors");
	diag_list_free(NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sorted),  cmocka_unit_test(test_same_once),
		cmocka_unit_test(test_bounded), cmocka_unit_test(test_hostile_text),
		cmocka_unit_test(test_to_err),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
