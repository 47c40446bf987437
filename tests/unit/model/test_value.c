/* Values: equality, text, canonical bytes, reading. */
#include "unit.h"

#include <math.h>
#include <string.h>
#include "model/expr/value.h"

static const struct value items[] = { { VALUE_INT, { .i = 1 } },
				      { VALUE_STRING, { .s = "b c" } },
				      { VALUE_BOOL, { .b = true } } };

static const struct {
	struct value v;
	const char *text, *json;
} shown[] = {
	{ { VALUE_NULL, { 0 } }, "", "null" },
	{ { VALUE_BOOL, { .b = true } }, "true", "true" },
	{ { VALUE_BOOL, { .b = false } }, "false", "false" },
	{ { VALUE_INT, { .i = INT64_MIN } }, "-9223372036854775808", "-9223372036854775808" },
	{ { VALUE_FLOAT, { .f = 0.1 } }, "0.1", "0.1" },
	{ { VALUE_FLOAT, { .f = 7 } }, "7", "7.0" },
	{ { VALUE_FLOAT, { .f = 10 } }, "10", "10.0" },
	{ { VALUE_FLOAT, { .f = 1500 } }, "1500", "1500.0" },
	{ { VALUE_FLOAT, { .f = 1e20 } }, "1e+20", "1e+20" },
	{ { VALUE_FLOAT, { .f = 1e-7 } }, "1e-07", "1e-07" },
	{ { VALUE_STRING, { .s = "a\"b\n" } }, "a\"b\n", "\"a\\\"b\\n\"" },
	{ { VALUE_LIST, { .list = { items, 3 } } }, "1 b c true", "[1,\"b c\",true]" },
	{ { VALUE_LIST, { .list = { items, 0 } } }, "", "[]" },
	{ { VALUE_FLOAT, { .f = INFINITY } }, "inf", "null" },
};

static void test_shown(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(shown); i++) {
		struct str s = { 0 };

		str_add(&s, "");
		value_add_text(&s, &shown[i].v);
		assert_string_equal(s.s, shown[i].text);
		str_reset(&s);
		value_add_json(&s, &shown[i].v);
		assert_string_equal(s.s, shown[i].json);
		str_deinit(&s);
	}
}

static void test_equality(void **state)
{
	struct value one = { VALUE_INT, { .i = 1 } }, onef = { VALUE_FLOAT, { .f = 1 } },
		     text = { VALUE_STRING, { .s = "1" } };
	struct value big = { VALUE_INT, { .i = (1LL << 53) + 1 } },
		     bigf = { VALUE_FLOAT, { .f = 9007199254740992.0 } };
	struct value nan_v = { VALUE_FLOAT, { .f = NAN } };
	struct value list = { VALUE_LIST, { .list = { items, 3 } } },
		     shorter = { VALUE_LIST, { .list = { items, 2 } } };

	assert_true(value_eq(&one, &onef));
	assert_false(value_eq(&one, &text));
	assert_false(value_eq(&big, &bigf));
	assert_int_equal(value_compare_numbers(&big, &bigf), 1);
	assert_false(value_eq(&nan_v, &nan_v));
	assert_true(value_eq(&list, &list));
	assert_false(value_eq(&list, &shorter));
}

static bool same_canonical(const struct value *a, const struct value *b)
{
	struct str x = { 0 }, y = { 0 };
	bool same;

	value_add_canonical(&x, a);
	value_add_canonical(&y, b);
	same = x.len == y.len && memcmp(x.s, y.s, x.len) == 0;
	str_deinit(&x);
	str_deinit(&y);
	return same;
}

static void test_canonical(void **state)
{
	struct value zero = { VALUE_FLOAT, { .f = 0.0 } }, minus = { VALUE_FLOAT, { .f = -0.0 } };
	struct value a[] = { { VALUE_STRING, { .s = "ab" } }, { VALUE_STRING, { .s = "c" } } };
	struct value b[] = { { VALUE_STRING, { .s = "a" } }, { VALUE_STRING, { .s = "bc" } } };
	struct value la = { VALUE_LIST, { .list = { a, 2 } } },
		     lb = { VALUE_LIST, { .list = { b, 2 } } };

	assert_true(same_canonical(&zero, &minus));
	assert_false(same_canonical(&la, &lb));
	for (size_t i = 0; i < ARRAY_LEN(shown); i++)
		for (size_t k = 0; k < ARRAY_LEN(shown); k++)
			assert_int_equal(same_canonical(&shown[i].v, &shown[k].v), i == k);
	assert_false(same_canonical(&(struct value){ VALUE_INT, { .i = 1 } },
				    &(struct value){ VALUE_FLOAT, { .f = 1 } }));
}

static const struct {
	enum value_type type;
	const char *text;
	const char *want; /* JSON, or the message with a ! in front */
} texts[] = {
	{ VALUE_INT, "42", "42" },
	{ VALUE_INT, "-1", "-1" },
	{ VALUE_INT, "1.0", "!must be an integer, not `1.0`" },
	{ VALUE_INT, "9223372036854775808", "!must be an integer, not `9223372036854775808`" },
	{ VALUE_INT, "", "!must be an integer, not ``" },
	{ VALUE_FLOAT, "0.1", "0.1" },
	{ VALUE_FLOAT, "3", "3.0" },
	{ VALUE_FLOAT, "nan", "!must be a number, not `nan`" },
	{ VALUE_FLOAT, "1e999", "!must be a number, not `1e999`" },
	{ VALUE_BOOL, "true", "true" },
	{ VALUE_BOOL, "yes", "!must be true or false, not `yes`" },
	{ VALUE_STRING, "", "\"\"" },
	{ VALUE_STRING, "1.10", "\"1.10\"" },
	{ VALUE_LIST, "1,2,3", "[1,2,3]" },
	{ VALUE_LIST, "[1, 2.5, a b, true, null, '7', \"x,]y\", 'it''s']",
	  "[1,2.5,\"a b\",true,null,\"7\",\"x,]y\",\"it's\"]" },
	{ VALUE_LIST, "[]", "[]" },
	{ VALUE_LIST, "", "[]" },
	{ VALUE_LIST, "a", "[\"a\"]" },
	{ VALUE_LIST, "a,", "!must be a list like [1, 2, 3], not `a,`" },
	{ VALUE_LIST, "'a", "!must be a list like [1, 2, 3], not `'a`" },
	{ VALUE_LIST, "'a' b", "!must be a list like [1, 2, 3], not `'a' b`" },
	{ VALUE_LIST, "[,]", "!must be a list like [1, 2, 3], not `[,]`" },
	{ VALUE_LIST, "[1, ]", "!must be a list like [1, 2, 3], not `[1, ]`" },
	{ VALUE_LIST, "1,  ", "!must be a list like [1, 2, 3], not `1,  `" },
	{ VALUE_LIST, "1, , 2", "!must be a list like [1, 2, 3], not `1, , 2`" },
	{ VALUE_LIST, "[ 1 , '' ]", "[1,\"\"]" },
};

static void test_read(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct arena *arena = arena_new();
		struct err err = { 0 };
		struct value v;
		struct str s = { 0 };

		if (value_parse(texts[i].type, texts[i].text, arena, &v, &err) < 0)
			str_addf(&s, "!%s", err.msg);
		else
			value_add_json(&s, &v);
		assert_string_equal(s.s, texts[i].want);
		str_deinit(&s);
		arena_free(arena);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shown),
		cmocka_unit_test(test_equality),
		cmocka_unit_test(test_canonical),
		cmocka_unit_test(test_read),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
