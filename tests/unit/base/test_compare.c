#include <math.h>
#include <string.h>
#include "base/compare.h"
#include "base/mem.h"
#include "unit.h"

static const struct {
	const char *text;
	size_t n; /* 0: no operator */
	enum compare_op op;
	bool less, same, more, nan; /* what holds */
} rows[] = {
	{ "==", 2, COMPARE_EQ, false, true, false, false },
	{ "!= 3", 2, COMPARE_NE, true, false, true, true },
	{ "<", 1, COMPARE_LT, true, false, false, false },
	{ "<=", 2, COMPARE_LE, true, true, false, false },
	{ ">0.9", 1, COMPARE_GT, false, false, true, false },
	{ ">=", 2, COMPARE_GE, false, true, true, false },
	{ "", 0 },
	{ "=", 0 },
	{ "!", 0 },
	{ " >", 0 },
	{ "x<", 0 },
};

static void test_all(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		enum compare_op op = COMPARE_OPS;

		assert_int_equal(compare_parse(rows[i].text, &op), rows[i].n);
		if (!rows[i].n) {
			assert_int_equal(op, COMPARE_OPS);
			continue;
		}
		assert_int_equal(op, rows[i].op);
		assert_int_equal(compare_numbers(op, -0.5, 0.25), rows[i].less);
		assert_int_equal(compare_numbers(op, 7, 7), rows[i].same);
		assert_int_equal(compare_numbers(op, 1e300, -INFINITY), rows[i].more);
		assert_int_equal(compare_numbers(op, NAN, 1), rows[i].nan);
		assert_int_equal(compare_numbers(op, 1, NAN), rows[i].nan);
		assert_int_equal(compare_order(op, -9), rows[i].less);
		assert_int_equal(compare_order(op, 0), rows[i].same);
		assert_int_equal(compare_order(op, 9), rows[i].more);
	}
}

static void test_same(void **state)
{
	assert_true(compare_same(0.1, 0.1) && compare_same(NAN, NAN) && compare_same(-0.0, 0.0));
	assert_false(compare_same(0.1, 0.2) || compare_same(NAN, 1) || compare_same(1, NAN));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_all),
					    cmocka_unit_test(test_same) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
