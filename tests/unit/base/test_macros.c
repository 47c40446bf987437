/* MIN and MAX: each argument once, whatever they stand in; the common type of both. */
#include "base/macros.h"
#include "unit.h"

static int calls;

static int counted(int v)
{
	calls++;
	return v;
}

static void test_each_argument_once(void **state)
{
	int i = 0;

	calls = 0;
	assert_int_equal(MIN(counted(3), counted(2)), 2);
	assert_int_equal(calls, 2);
	assert_int_equal(MAX(MIN(counted(3), counted(2)), MAX(counted(1), counted(7))), 7);
	assert_int_equal(calls, 6);
	assert_int_equal(MIN(i++, 5), 0);
	assert_int_equal(MAX(++i, 1), 2);
	assert_int_equal(i, 2);
}

static void test_in_the_common_type(void **state)
{
	uint8_t small = 200;
	double d = 0.5;

	assert_int_equal(sizeof(MIN(small, (uint64_t)1)), 8);
	assert_true(MAX(small + 100, 250) == 300);
	assert_true(MIN(UINT64_MAX, UINT64_C(1) << 40) == UINT64_C(1) << 40);
	assert_true(MAX(INT64_MIN, (int64_t)-1) == -1);
	assert_true(MAX(d, 0) > 0.4);
	assert_true(MIN(d, 1) < 0.6);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_argument_once),
					    cmocka_unit_test(test_in_the_common_type) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
