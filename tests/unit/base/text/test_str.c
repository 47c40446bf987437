#include <stdio.h>
#include <string.h>
#include "base/text/str.h"
#include "unit.h"

static void test_empty(void **state)
{
	struct str s = { 0 };
	_cleanup_(freep) char *taken = str_take(&s);

	assert_string_equal(taken, "");
	assert_null(s.s);
	str_addn(&s, NULL, 0);
	assert_string_equal(s.s, "");
	str_deinit(&s);
	str_deinit(&s);
}

/* Random appends of every kind against a flat buffer. */
static void test_random(void **state)
{
	static char model[200000];

	for (unsigned seed = 1; seed <= 50; seed++) {
		_cleanup_(str_deinit) struct str s = { 0 };
		size_t len = 0;

		srand(seed);
		for (int i = 0; i < 500; i++) {
			char piece[300];
			size_t n = (size_t)(rand() % 150);

			memset(piece, 'a' + rand() % 26, sizeof(piece));
			piece[n] = '\0';
			switch (rand() % 4) {
			case 0:
				str_add(&s, piece);
				break;
			case 1:
				str_addn(&s, piece, n);
				break;
			case 2:
				str_addf(&s, "%s", piece);
				break;
			case 3:
				str_addc(&s, piece[0] ? piece[0] : 'z');
				piece[0] = s.s[s.len - 1];
				n = 1;
				break;
			}
			memcpy(model + len, piece, n);
			len += n;
			assert_int_equal(s.len, len);
			assert_int_equal(s.s[s.len], 0);
		}
		assert_memory_equal(s.s, model, len);
		str_reset(&s);
		assert_int_equal(s.len, 0);
		assert_string_equal(s.s, "");
	}
}

/* printf results of every length around the growth steps. */
static void test_format_lengths(void **state)
{
	for (int n = 0; n < 600; n++) {
		_cleanup_(str_deinit) struct str s = { 0 };

		str_addf(&s, "%*d", n, 7);
		assert_int_equal(s.len, n ? n : 1);
		assert_int_equal(s.s[s.len - 1], '7');
		str_addf(&s, "%s", "");
		assert_int_equal(s.len, n ? n : 1);
	}
}

static void test_binary(void **state)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	str_add_field(&s, "a\0b", 3);
	str_add_u64(&s, 0x0102030405060708ULL);
	str_add_u32(&s, 0xfffefdfcU);
	assert_int_equal(s.len, 4 + 3 + 8 + 4);
	assert_memory_equal(s.s, "\3\0\0\0a\0b\10\7\6\5\4\3\2\1\xfc\xfd\xfe\xff", s.len);
}

static void test_compare(void **state)
{
	assert_true(str_eq(NULL, NULL));
	assert_false(str_eq(NULL, ""));
	assert_false(str_eq("", NULL));
	assert_true(str_eq("a", "a"));
	assert_true(str_len_without("a/b//", '/') == 3 && str_len_without("//", '/') == 0 &&
		    str_len_without("a", '/') == 1 && str_len_without("", '/') == 0);
	assert_true(str_has_prefix("abc", "ab") && str_has_prefix("abc", "") &&
		    !str_has_prefix("ab", "abc"));
	assert_true(str_has_suffix("abc", "bc") && str_has_suffix("abc", "") &&
		    !str_has_suffix("bc", "abc"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_empty),          cmocka_unit_test(test_random),
		cmocka_unit_test(test_format_lengths), cmocka_unit_test(test_binary),
		cmocka_unit_test(test_compare),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
