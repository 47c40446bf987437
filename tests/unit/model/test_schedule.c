/* Cron rules: which are rules, and where the others go wrong. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include <string.h>
#include "model/read.h"

static const char *const good[] = {
	"* * * * *", "0 3 * * *", "*/15 * * * *", "0-30/10 8-18 * * mon-fri", "5/10 * * * *", "0 0 1,15 * *", "0 0 L * *", "0 0 * * 5L",
	"0 0 * * friL", "0 0 * * tue#2", "0 0 * * 7", "0 0 29 2 *", "0 0 30 2 mon", "0 0 31 1-6 *", "0\t0  1 JAN SUN", " 0 0 * * * ",
	"@daily", "@hourly", "@weekly", "@monthly", "@yearly", "@annually", "@midnight", "0 0 1 jan,feb,DEC *",
};

static const struct {
	const char *rule;
	size_t offset;
	const char *want;
} bad_rules[] = {
	{ "", 0, "a rule has 5 fields (minute, hour, day, month, day of the week), not 0" },
	{ "* * * *", 7, "a rule has 5 fields (minute, hour, day, month, day of the week), not 4" },
	{ "* * * * * *", 10, "a rule has 5 fields (minute, hour, day, month, day of the week); there are more" },
	{ "60 * * * *", 0, "minute `60`: must be from 0 to 59" },
	{ "* 24 * * *", 2, "hour `24`: must be from 0 to 23" },
	{ "* * 0 * *", 4, "day of the month `0`: must be from 1 to 31" },
	{ "* * * 13 *", 6, "month `13`: must be from 1 to 12" },
	{ "* * * * 8", 8, "day of the week `8`: must be from 0 to 7" },
	{ "* * * janu *", 6, "month `janu`: a number or a name such as JAN or MON is needed" },
	{ "5-1 * * * *", 3, "minute: the range goes backwards" },
	{ "*/0 * * * *", 2, "minute `0`: the number behind / is out of range" },
	{ "*/60 * * * *", 2, "minute `60`: the number behind / is out of range" },
	{ "1,,2 * * * *", 2, "minute: a number is needed" },
	{ "1- * * * *", 2, "minute: a number is needed" },
	{ "L * * * *", 0, "minute `L`: a number is needed" },
	{ "* * * * L", 8, "day of the week `L`: a number or a name such as JAN or MON is needed" },
	{ "* * * * 5#6", 9, "day of the week `#6`: behind # stands which one of the month: 1 to 5" },
	{ "* * 5#1 * *", 5, "day of the month `#1`: this isn't a number, a range (1-5), a step (*/10) or a list (1,15)" },
	{ "1x * * * *", 1, "minute `x`: this isn't a number, a range (1-5), a step (*/10) or a list (1,15)" },
	{ "-1 * * * *", 0, "minute `-1`: a number is needed" },
	{ "0 0 30 2 *", 0, "there is no such day: the rule would never fire" },
	{ "0 0 31 2,4,6,9,11 *", 0, "there is no such day: the rule would never fire" },
	{ "@reboot", 0, "`@reboot` is not a rule" },
	{ "999999999999 * * * *", 0, "minute `999999999999`: a number is needed" },
};

static void test_good(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct err err = { 0 };
		size_t offset;

		if (cron_check(good[i], &offset, &err) < 0)
			fail_msg("`%s` at %zu: %s", good[i], offset, err.msg);
	}
}

static void test_bad(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_rules); i++) {
		struct err err = { 0 };
		size_t offset = 99;

		assert_int_equal(cron_check(bad_rules[i].rule, &offset, &err), -1);
		assert_string_equal(err.msg, bad_rules[i].want);
		assert_int_equal(offset, bad_rules[i].offset);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_good), cmocka_unit_test(test_bad) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
