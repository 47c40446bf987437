/* Cron rules: which are rules, where the others go wrong, and which times they name. */
#include "unit.h"

#include <string.h>
#include "base/text/text.h"
#include "model/schedule/cron.h"

static const char *const good[] = {
	"* * * * *",
	"0 3 * * *",
	"*/15 * * * *",
	"0-30/10 8-18 * * mon-fri",
	"5/10 * * * *",
	"0 0 1,15 * *",
	"0 0 L * *",
	"0 0 * * 5L",
	"0 0 * * friL",
	"0 0 * * tue#2",
	"0 0 * * 7",
	"0 0 29 2 *",
	"0 0 30 2 mon",
	"0 0 31 1-6 *",
	"0\t0  1 JAN SUN",
	" 0 0 * * * ",
	"0 0 L-3,15 * ?",
	"0 0 ? * fri-sun",
	"* * * * */2",
	"@every 10m",
	"@every 1s",
	"@daily",
	"@hourly",
	"@weekly",
	"@monthly",
	"@yearly",
	"@annually",
	"@midnight",
	"0 0 1 jan,feb,DEC *",
};

static const struct {
	const char *rule;
	size_t offset;
	const char *want;
} bad_rules[] = {
	{ "", 0, "a rule has 5 fields (minute, hour, day, month, day of the week), not 0" },
	{ "* * * *", 7, "a rule has 5 fields (minute, hour, day, month, day of the week), not 4" },
	{ "* * * * * *", 10,
	  "a rule has 5 fields (minute, hour, day, month, day of the week); there are more" },
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
	{ "* * * * 5#6", 9,
	  "day of the week `#6`: behind # stands which one of the month: 1 to 5" },
	{ "* * 5#1 * *", 5,
	  "day of the month `#1`: this isn't a number, a range (1-5), a step (*/10) or a list "
	  "(1,15)" },
	{ "1x * * * *", 1,
	  "minute `x`: this isn't a number, a range (1-5), a step (*/10) or a list (1,15)" },
	{ "-1 * * * *", 0, "minute `-1`: a number is needed" },
	{ "0 0 30 2 *", 0, "there is no such day: the rule would never fire" },
	{ "0 0 31 2,4,6,9,11 *", 0, "there is no such day: the rule would never fire" },
	{ "@reboot", 0, "`@reboot` is not a rule" },
	{ "0 0 30 feb ?", 0, "there is no such day: the rule would never fire" },
	{ "0 0 L-29 2 *", 0, "there is no such day: the rule would never fire" },
	{ "0 0 L-31 * *", 5,
	  "day of the month `-31`: behind L- stands how many days before the last one: 0 to 30" },
	{ "0 ? * * *", 2, "hour `?`: a number is needed" },
	{ "@every 10", 0, "@every: `10` is not a duration like 500ms, 10s, 5m, 1h30m or 2d" },
	{ "@every 1500ms", 0, "`@every 1500ms`: whole seconds are needed, from 1s to 366d" },
	{ "@every 400d", 0, "`@every 400d`: whole seconds are needed, from 1s to 366d" },
	{ "999999999999 * * * *", 0, "minute `999999999999`: a number is needed" },
};

static void test_good(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct err err = { 0 };
		struct cron cron;
		size_t offset;

		if (cron_parse(good[i], &cron, &offset, &err) < 0)
			fail_msg("`%s` at %zu: %s", good[i], offset, err.msg);
	}
}

static void test_bad(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad_rules); i++) {
		struct err err = { 0 };
		struct cron cron;
		size_t offset = 99;

		assert_int_equal(cron_parse(bad_rules[i].rule, &cron, &offset, &err), -1);
		assert_string_equal(err.msg, bad_rules[i].want);
		assert_int_equal(offset, bad_rules[i].offset);
	}
}

/* The first times at or after 2026-01-01T00:00 of a clock without a zone. 2026-01-01 is a Thursday.
 */
static const struct {
	const char *rule, *want;
} times[] = {
	{ "0 3 * * *", "2026-01-01T03:00 2026-01-02T03:00 2026-01-03T03:00" },
	{ "*/25 8 * * *", "2026-01-01T08:00 2026-01-01T08:25 2026-01-01T08:50" },
	{ "5/10 23 31 * *", "2026-01-31T23:05 2026-01-31T23:15 2026-01-31T23:25" },
	{ "0 0 L * *", "2026-01-31T00:00 2026-02-28T00:00 2026-03-31T00:00" },
	{ "0 0 L-3 * *", "2026-01-28T00:00 2026-02-25T00:00 2026-03-28T00:00" },
	{ "0 0 L,L-27 2 *", "2026-02-01T00:00 2026-02-28T00:00 2027-02-01T00:00" },
	{ "0 12 * * 5L", "2026-01-30T12:00 2026-02-27T12:00 2026-03-27T12:00" },
	{ "0 12 * * mon#2", "2026-01-12T12:00 2026-02-09T12:00 2026-03-09T12:00" },
	{ "0 12 * * mon#5", "2026-03-30T12:00 2026-06-29T12:00 2026-08-31T12:00" },
	{ "0 0 13 * fri", "2026-01-02T00:00 2026-01-09T00:00 2026-01-13T00:00" }, /* either day */
	{ "0 0 */13 * fri",
	  "2026-02-27T00:00 2026-03-27T00:00 2026-05-01T00:00" }, /* a star: both */
	{ "0 0 * * fri-sun", "2026-01-02T00:00 2026-01-03T00:00 2026-01-04T00:00" },
	{ "0 0 * * sun-sun", "2026-01-04T00:00 2026-01-11T00:00 2026-01-18T00:00" },
	{ "0 0 * * 0-0", "2026-01-04T00:00 2026-01-11T00:00 2026-01-18T00:00" },
	{ "0 0 * * SUN-0", "2026-01-04T00:00 2026-01-11T00:00 2026-01-18T00:00" },
	{ "0 0 * * 0-SUN/5", "2026-01-04T00:00 2026-01-11T00:00 2026-01-18T00:00" },
	{ "0 0 * * 7-0", "2026-01-04T00:00 2026-01-11T00:00 2026-01-18T00:00" },
	{ "0 0 * * 0-7", "2026-01-01T00:00 2026-01-02T00:00 2026-01-03T00:00" },
	{ "0 0 * * sat-sun/2", "2026-01-03T00:00 2026-01-10T00:00 2026-01-17T00:00" },
	{ "0 0 * * thu/3",
	  "2026-01-01T00:00 2026-01-08T00:00 2026-01-15T00:00" }, /* not Sunday, too */
	{ "0 0 ? * 7", "2026-01-04T00:00 2026-01-11T00:00 2026-01-18T00:00" },
	{ "0 0 29 2 *", "2028-02-29T00:00 2032-02-29T00:00 2036-02-29T00:00" },
	{ "@weekly", "2026-01-04T00:00 2026-01-11T00:00 2026-01-18T00:00" },
	{ "@yearly", "2026-01-01T00:00 2027-01-01T00:00 2028-01-01T00:00" },
};

static void test_times(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(times); i++) {
		struct str got = { 0 };
		struct cron cron;
		size_t offset;
		int64_t t = 1767225600; /* 2026-01-01 */

		assert_int_equal(cron_parse(times[i].rule, &cron, &offset, NULL), 0);
		for (int k = 0; k < 3; k++, t++) {
			assert_int_equal(cron_next(&cron, t, 9214646400, &t), 0);
			if (k)
				str_addc(&got, ' ');
			text_add_time(&got, t * NS_PER_S, 0);
			got.s[got.len -= 4] = '\0'; /* without seconds and Z */
		}
		assert_string_equal(got.s, times[i].want);
		str_deinit(&got);
	}
}

static void test_limit(void **state)
{
	struct cron cron;
	size_t offset;
	int64_t t;

	assert_int_equal(cron_parse("0 0 29 2 *", &cron, &offset, NULL), 0);
	assert_int_equal(cron_next(&cron, 1767225600, 1835395200, &t),
			 1); /* the limit is that very moment */
	assert_int_equal(cron_next(&cron, 1767225600, 1835395201, &t), 0);
	assert_int_equal(cron_next(&cron, -4000000000, 0, &t), 0); /* before 1970 */
	assert_int_equal(t, -3971116800);                          /* 1844-02-29 */
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_good), cmocka_unit_test(test_bad),
					    cmocka_unit_test(test_times),
					    cmocka_unit_test(test_limit) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
