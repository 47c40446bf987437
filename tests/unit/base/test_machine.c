#include <string.h>
#include <sys/utsname.h>
#include "base/os/machine.h"
#include "unit.h"

static void test_letters(void **state)
{
	char last[RANDOM_LETTERS + 1] = "";
	int same = 0;

	for (int i = 0; i < 1000; i++) {
		char now[RANDOM_LETTERS + 1];

		random_letters(now);
		assert_int_equal(strlen(now), RANDOM_LETTERS);
		assert_int_equal(strspn(now, RANDOM_ALPHABET), RANDOM_LETTERS);
		same += strcmp(now, last) == 0;
		strcpy(last, now); /* lint: strcpy fits */
	}
	assert_true(same < 5);
}

/* Every byte is filled, however many, and none behind them. */
static void test_bytes(void **state)
{
	uint8_t all[300], seen[300] = { 0 };

	for (size_t round = 0; round < 64; round++) {
		memset(all, 0, sizeof(all));
		random_bytes(all, 299);
		assert_int_equal(all[299], 0);
		for (size_t i = 0; i < 299; i++)
			seen[i] |= all[i];
	}
	assert_null(memchr(seen, 0, 299));
	assert_true(random_u64() != random_u64());
}

static void test_name(void **state)
{
	char name[MACHINE_NAME_BYTES];
	struct utsname is;

	assert_int_equal(uname(&is), 0);
	assert_string_equal(machine_name(name), is.nodename);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_letters),
					    cmocka_unit_test(test_bytes),
					    cmocka_unit_test(test_name) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
