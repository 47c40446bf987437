#include <errno.h>
#include <string.h>
#include "base/err.h"
#include "base/text/text.h"
#include "unit.h"

static void test_set_and_wrap(void **state)
{
	struct err e = { 0 };

	assert_int_equal(err_set(&e, ERR_CORRUPT, "blob %d", 7), -1);
	assert_int_equal(err_wrap(&e, "reading %s", "x"), -1);
	assert_string_equal(e.msg, "reading x: blob 7");
	assert_int_equal(e.code, ERR_CORRUPT);
	assert_int_equal(e.sys, 0);
}

static void test_null_is_fine(void **state)
{
	errno = ENOSPC;
	assert_int_equal(err_set(NULL, ERR_IO, "x"), -1);
	assert_int_equal(err_errno(NULL, "x"), -1);
	assert_int_equal(err_wrap(NULL, "x"), -1);
	assert_int_equal(errno, ENOSPC);
}

static void test_errno_kinds(void **state)
{
	static const struct {
		int sys;
		enum err_code code;
	} cases[] = {
		{ ENOSPC, ERR_NO_SPACE }, { EDQUOT, ERR_NO_SPACE }, { ENOENT, ERR_NOT_FOUND },
		{ EIO, ERR_IO },          { EACCES, ERR_IO },       { EROFS, ERR_IO },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct err e = { 0 };

		errno = cases[i].sys;
		assert_int_equal(err_errno(&e, "cannot open %s", "f"), -1);
		assert_int_equal(errno, cases[i].sys);
		assert_int_equal(e.code, cases[i].code);
		assert_int_equal(e.sys, cases[i].sys);
	}
}

static void test_errno_text(void **state)
{
	struct err e = { 0 };

	errno = ENOENT;
	err_errno(&e, "cannot open %s", "f");
	assert_string_equal(e.msg, "cannot open f: No such file or directory");
	errno = 9999;
	err_errno(&e, "x");
	assert_string_equal(e.msg, "x: error 9999");
}

static void test_hostile_text(void **state)
{
	struct err e = { 0 };

	err_set(&e, ERR_IO, "%s", "a\nb\x1b[2J\xff\xc3\xa9\tc\xc2\x9b");
	assert_string_equal(e.msg, "a\\nb\\x1b[2J\\xff\xc3\xa9 c\\xc2\\x9b");
	err_set(&e, ERR_IO, "%s", "gpj.\xe2\x80\xaetxt");
	assert_string_equal(e.msg, "gpj.\\xe2\\x80\\xaetxt");
	err_set(&e, ERR_IO, "%s", "a\nb\x1b[2J\xff\xc3\xa9\tc\xc2\x9b");
	err_wrap(&e, "in");
	assert_string_equal(e.msg, "in: a\\nb\\x1b[2J\\xff\xc3\xa9 c\\xc2\\x9b");
}

/* Every length around the bound, with characters of every width at the cut: valid UTF-8, the end
 * marked, the start kept. */
static void test_cut(void **state)
{
	static const char *const fillers[] = { "x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80",
					       "\n" };

	for (size_t f = 0; f < ARRAY_LEN(fillers); f++) {
		for (size_t n = sizeof(((struct err *)0)->msg) / strlen(fillers[f]) - 8,
			    end = n + 16;
		     n < end; n++) {
			struct str text = { 0 };
			struct err e = { 0 };

			str_add(&text, "start ");
			for (size_t i = 0; i < n; i++)
				str_add(&text, fillers[f]);
			err_set(&e, ERR_IO, "%s", text.s);
			assert_true(strlen(e.msg) < sizeof(e.msg));
			assert_true(text_is_utf8(e.msg, strlen(e.msg)));
			assert_true(str_has_prefix(e.msg, "start "));
			if (*fillers[f] != '\n' && text.len < sizeof(e.msg))
				assert_string_equal(e.msg, text.s);
			else
				assert_true(str_has_suffix(e.msg, "\xe2\x80\xa6"));
			str_deinit(&text);
		}
	}
}

static void test_wrap_of_full_message(void **state)
{
	char big[3000];
	struct err e = { 0 };

	memset(big, 'y', sizeof(big));
	big[sizeof(big) - 1] = '\0';
	err_set(&e, ERR_IO, "%s", big);
	err_wrap(&e, "context");
	assert_true(str_has_prefix(e.msg, "context: yyy"));
	err_wrap(&e, "%s", big);
	assert_true(str_has_suffix(e.msg, "y\xe2\x80\xa6"));
}

static void test_exit_codes(void **state)
{
	static const struct {
		enum err_code code;
		int exit;
	} cases[] = {
		{ ERR_NONE, 0 },        { ERR_USAGE, 2 },       { ERR_INVALID, 3 },
		{ ERR_NOT_FOUND, 4 },   { ERR_EXISTS, 4 },      { ERR_CORRUPT, 4 },
		{ ERR_IO, 4 },          { ERR_NO_SPACE, 4 },    { ERR_READ_ONLY, 4 },
		{ ERR_CHANGED, 4 },     { ERR_BUSY, 4 },        { ERR_NEWER, 4 },
		{ ERR_FAILED, 1 },      { ERR_UNSUPPORTED, 3 }, { ERR_TOO_LARGE, 3 },
		{ ERR_CANCELLED, 130 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(err_exit_code(&(struct err){ .code = cases[i].code }),
				 cases[i].exit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_set_and_wrap),         cmocka_unit_test(test_null_is_fine),
		cmocka_unit_test(test_errno_kinds),          cmocka_unit_test(test_errno_text),
		cmocka_unit_test(test_hostile_text),         cmocka_unit_test(test_cut),
		cmocka_unit_test(test_wrap_of_full_message), cmocka_unit_test(test_exit_codes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
