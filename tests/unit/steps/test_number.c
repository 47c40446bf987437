/* steps/table/number.h: the same double as strtod gives, bit for bit, whichever way was taken; and
 * nothing that is no number. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "core/seeds.h"
#include "steps/table/number.h"
#include "unit.h"

static void check(const char *text)
{
	double got = 1, want = strtod(text, NULL);

	if (!number_parse(text, strlen(text), &got) || memcmp(&got, &want, sizeof(got)) != 0)
		fail_msg("`%s` is %.17g, not %.17g", text, got, want);
}

static void known(void **state)
{
	static const char *const texts[] = {
		"0",
		"-0",
		"1",
		"+1",
		"-1.5",
		".5",
		"5.",
		"00012",
		"1e5",
		"1E+5",
		"1e-5",
		"123456789012345678",
		"9007199254740993",
		"9007199254740992.999",
		"1e22",
		"1e23",
		"1e27",
		"1e28",
		"1e-27",
		"1e-28",
		"18446744073709551615",
		"9999999999999999999",
		"99999999999999999999",
		"0.1",
		"0.3",
		"2.2250738585072011e-308",
		"4.9406564584124654e-324",
		"2.4703282292062327e-324",
		"1.7976931348623157e308",
		"1e309",
		"-1e999",
		"1e-999",
		"0.000000000000000000000000000000000000001",
		"8.988465674311579e307",
		"1e99999999999999999999",
		"0e99999999999999999999",
		"1.00000000000000011102230246251565404236316680908203125",
		"1.00000000000000011102230246251565404236316680908203126",
		"1.00000000000000011102230246251565404236316680908203124",
		"inf",
		"-Infinity",
	};
	double v;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		check(texts[i]);
	assert_true(number_parse("NaN", 3, &v) && isnan(v));
}

static void no_number(void **state)
{
	static const char *const texts[] = {
		"",   "-",   ".",    "e5",  "-.",  "1e", "1e+",   " 1",
		"1 ", "1,5", "0x10", "1_0", "--1", "in", "1.2.3", "+-1"
	};
	double v;

	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_false(number_parse(texts[i], strlen(texts[i]), &v));
	assert_int_equal(number_prefix("1e+,2", 5, &v), 1);
	assert_int_equal(number_prefix("-2.50,7", 7, &v), 5);
	assert_int_equal(number_prefix("12345", 3, &v), 3);
	assert_true(v == 123);
}

static uint64_t random_state = 88172645463325252ULL;
static uint64_t next_random(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	return random_state ^= random_state << 17;
}

/* As programs print them, and half-way between two doubles, where rounding is hardest. */
static void random_numbers(void **state)
{
	char text[1200];

	for (int i = 0; i < 300000; i += (int)seeds_stride(10)) {
		uint64_t bits = next_random();
		double v, next;

		memcpy(&v, &bits, sizeof(v));
		if (!isfinite(v))
			continue;
		if (i % 3 == 0)
			v = ldexp((double)(bits >> 11), -53);
		snprintf(text, sizeof(text), "%.*g", (int)(bits % 20), v);
		check(text);
		snprintf(text, sizeof(text), "%.*f", (int)(bits % 22),
			 ldexp((double)(bits >> 20), -40));
		check(text);
		next = nextafter(fabs(fmod(v, 1e6)), 1e7);
		snprintf(text, sizeof(text), "%.19Lg",
			 ((long double)fabs(fmod(v, 1e6)) + (long double)next) / 2);
		check(text);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(known), cmocka_unit_test(no_number),
					    cmocka_unit_test(random_numbers) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
