/* Durations, sizes, cpus, numbers and times of base/text/text.h. */
#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include "base/text/text.h"
#include "unit.h"

#define S   NS_PER_S
#define BAD INT64_MIN

static const struct {
	const char *text;
	int64_t ns;
} durations[] = {
	{ "0", 0 },
	{ "0s", 0 },
	{ "10s", 10 * S },
	{ "5m", 300 * S },
	{ "1h30m", 5400 * S },
	{ "500ms", S / 2 },
	{ "2d", 172800 * S },
	{ "1.5h", 5400 * S },
	{ "0.25s", S / 4 },
	{ "1d2h3m4s5ms6us7ns", 93784005006007 },
	{ "250us", 250000 },
	{ "1ns", 1 },
	{ "106751d", 106751LL * 86400 * S },
	{ "0.000000001s", 1 },
	{ "", BAD },
	{ "s", BAD },
	{ "10", BAD },
	{ "-5s", BAD },
	{ "+5s", BAD },
	{ "5 s", BAD },
	{ " 5s", BAD },
	{ "5s ", BAD },
	{ "5m5m", BAD },
	{ "5s1m", BAD },
	{ "1h30", BAD },
	{ "5x", BAD },
	{ "5S", BAD },
	{ "1.s", BAD },
	{ ".5s", BAD },
	{ "1..5s", BAD },
	{ "106752d", BAD },
	{ "99999999999999999999s", BAD },
	{ "1.5ns", BAD },
	{ "0.0000000001s", BAD },
	{ "1e3s", BAD },
	{ "2 hours", BAD },
	{ "9223372036854775807ns", INT64_MAX },
	{ "9223372036854775808ns", BAD },
};

static void test_parse_duration(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(durations); i++) {
		struct err err = { 0 };
		int64_t ns = BAD;
		int r = text_parse_duration(durations[i].text, &ns, &err);

		if (ns != durations[i].ns || r != (durations[i].ns == BAD ? -1 : 0))
			fail_msg("`%s`: %ld", durations[i].text, (long)ns);
		assert_int_equal(err.code, r < 0 ? ERR_INVALID : ERR_NONE);
	}
}

static void test_duration_range(void **state)
{
	int64_t lo, hi;
	struct err err = { 0 };

	assert_int_equal(text_parse_duration_range("10s..5m", &lo, &hi, &err), 0);
	assert_true(lo == 10 * S && hi == 300 * S);
	assert_int_equal(text_parse_duration_range("7s", &lo, &hi, &err), 0);
	assert_true(lo == 7 * S && hi == 7 * S);
	static const char *const bad[] = {
		"5m..10s",
		"..5m",
		"5m..",
		"..",
		"1s...2s",
		"1s..2s..3s",
		"",
		"a..b",
		"0000000000000000000000000000000000000000000000000000000000000000001s..2s"
	};

	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		assert_int_equal(text_parse_duration_range(bad[i], &lo, &hi, &err), -1);
}

static void test_add_duration(void **state)
{
	static const struct {
		int64_t ns;
		const char *want;
	} cases[] = {
		{ 0, "0s" },
		{ 999, "999ns" },
		{ 85000, "85us" },
		{ 12 * NS_PER_MS, "12ms" },
		{ S - 1, "999ms" },
		{ 2400 * NS_PER_MS, "2.4s" },
		{ 10 * S - 1, "9.9s" },
		{ 43 * S, "43s" },
		{ 65 * S, "1m05s" },
		{ 3599 * S, "59m59s" },
		{ 5400 * S, "1h30m" },
		{ 86399 * S, "23h59m" },
		{ 51 * 3600 * S, "2d3h" },
		{ -2400 * NS_PER_MS, "-2.4s" },
		{ INT64_MIN, "-106751d23h" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(str_deinit) struct str s = { 0 };

		text_add_duration(&s, cases[i].ns);
		assert_string_equal(s.s, cases[i].want);
	}
}

static int64_t random_int64(void)
{
	int64_t v = 0;

	for (int i = 0; i < 5; i++)
		v = (int64_t)((uint64_t)v << 13 ^ (uint64_t)rand());
	return v;
}

static void test_duration_exact_round_trip(void **state)
{
	srand(5);
	for (int i = 0; i < 20000; i++) {
		_cleanup_(str_deinit) struct str s = { 0 };
		int64_t ns = (int64_t)((uint64_t)random_int64() >> (rand() % 63 + 1)), back = -1;

		text_add_duration_exact(&s, ns);
		assert_int_equal(text_parse_duration(s.s, &back, NULL), 0);
		assert_int_equal(back, ns);
	}
}

static void test_bytes(void **state)
{
	static const struct {
		const char *text;
		int64_t want;
	} cases[] = {
		{ "0", 0 },
		{ "1048576", 1048576 },
		{ "1Gi", (int64_t)GIB },
		{ "500Mi", 500 * (int64_t)MIB },
		{ "2G", 2000000000 },
		{ "128K", 128000 },
		{ "128k", 128000 },
		{ "128Ki", 131072 },
		{ "1.5Gi", 1610612736 },
		{ "5M", 5000000 },
		{ "1T", 1000000000000 },
		{ "1Pi", 1LL << 50 },
		{ "10B", 10 },
		{ "1KiB", 1024 },
		{ "1kB", 1000 },
		{ "0.5Ki", 512 },
		{ "", BAD },
		{ "Gi", BAD },
		{ "1.5", BAD },
		{ "-1", BAD },
		{ "1 Gi", BAD },
		{ "8GG", BAD },
		{ "1gi", BAD },
		{ "1Gb", BAD },
		{ "1Bi", BAD },
		{ "99999P", BAD },
		{ "1e9", BAD },
		{ "8191Pi", 8191LL << 50 },
		{ "8192Pi", BAD },
		{ "1i", BAD },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint64_t n = (uint64_t)BAD;
		int r = text_parse_bytes(cases[i].text, &n, NULL);

		if ((int64_t)n != cases[i].want || r != (cases[i].want == BAD ? -1 : 0))
			fail_msg("`%s`: %ld", cases[i].text, (long)n);
	}
}

static void test_add_bytes(void **state)
{
	static const struct {
		uint64_t n;
		const char *want;
	} cases[] = {
		{ 0, "0 B" },
		{ 812, "812 B" },
		{ 1023, "1023 B" },
		{ 1024, "1.0 KiB" },
		{ 1536, "1.5 KiB" },
		{ 16 * MIB, "16 MiB" },
		{ 2 * GIB, "2.0 GiB" },
		{ MIB - 1, "1.0 MiB" },
		{ 10239, "10 KiB" },
		{ 1023 * KIB, "1023 KiB" },
		{ UINT64_MAX, "16 EiB" },
		{ 10 * GIB - 1, "10 GiB" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(str_deinit) struct str s = { 0 };

		text_add_bytes(&s, cases[i].n);
		assert_string_equal(s.s, cases[i].want);
	}
}

static void test_cpu(void **state)
{
	static const struct {
		const char *text;
		int64_t want;
	} cases[] = {
		{ "2", 2000 },      { "0.5", 500 },    { "500m", 500 },
		{ "0", 0 },         { "1.234", 1234 }, { "1000000", 1000000000 },
		{ "0.001", 1 },     { "", BAD },       { "m", BAD },
		{ "-1", BAD },      { "1.2345", BAD }, { "0.5m", BAD },
		{ "1000001", BAD }, { "2 cpus", BAD }, { "1e3", BAD },
		{ "1mm", BAD },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		uint32_t milli = 77;
		int r = text_parse_cpu(cases[i].text, &milli, NULL);

		if (r != (cases[i].want == BAD ? -1 : 0) ||
		    milli != (cases[i].want == BAD ? 77 : cases[i].want))
			fail_msg("`%s`: %u", cases[i].text, milli);
	}
}

static void test_count(void **state)
{
	static const struct {
		uint64_t n;
		const char *want;
	} cases[] = { { 0, "0" },
		      { 999, "999" },
		      { 1000, "1,000" },
		      { 1234567, "1,234,567" },
		      { UINT64_MAX, "18,446,744,073,709,551,615" } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(str_deinit) struct str s = { 0 };

		text_add_count(&s, cases[i].n);
		assert_string_equal(s.s, cases[i].want);
	}
}

static void test_double_text(void **state)
{
	static const struct {
		double v;
		const char *want;
	} cases[] = {
		{ 0.1, "0.1" },           { 7, "7" },
		{ 100, "100" },           { 1e-7, "1e-07" },
		{ 1e20, "1e+20" },        { 0.30000000000000004, "0.30000000000000004" },
		{ -0.0, "-0" },           { 5e-324, "5e-324" },
		{ 123456.5, "123456.5" }, { 1.0 / 3, "0.3333333333333333" },
		{ INFINITY, "inf" },      { -INFINITY, "-inf" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(str_deinit) struct str s = { 0 };

		text_add_double(&s, cases[i].v);
		assert_string_equal(s.s, cases[i].want);
	}
}

/* Random bit patterns: the text reads back as the same double, also in a locale with a decimal
 * comma. */
static void test_double_round_trip(void **state)
{
	const char *old = setlocale(LC_NUMERIC, "de_DE.UTF-8"); /* where it is installed */

	srand(9);
	for (int i = 0; i < 20000; i++) {
		_cleanup_(str_deinit) struct str s = { 0 };
		int64_t bits = random_int64();
		double v, back;

		memcpy(&v, &bits, sizeof(v));
		if (!isfinite(v))
			continue;
		text_add_double(&s, v);
		assert_true(text_parse_double(s.s, &back));
		assert_memory_equal(&v, &back, sizeof(v));
	}
	if (old)
		setlocale(LC_NUMERIC, "C");
}

static void test_parse_numbers(void **state)
{
	static const char *const bad_doubles[] = { "",    " 1",    "1 ",     "0x1p3", "inf",
						   "nan", "1e999", "-1e999", "1e",    "--1",
						   ".",   "1.2.3", "e5",     "1,5",   "+" };
	static const char *const bad_ints[] = { "",
						"-",
						"+",
						" 1",
						"1 ",
						"1.0",
						"0x1",
						"9223372036854775808",
						"-9223372036854775809",
						"1e3" };
	double d;
	int64_t i;

	for (size_t k = 0; k < ARRAY_LEN(bad_doubles); k++)
		if (text_parse_double(bad_doubles[k], &d))
			fail_msg("`%s`", bad_doubles[k]);
	for (size_t k = 0; k < ARRAY_LEN(bad_ints); k++)
		if (text_parse_int(bad_ints[k], &i))
			fail_msg("`%s`", bad_ints[k]);
	assert_true(text_parse_double("-.5e1", &d) && d == -5);
	assert_true(text_parse_double("1e-400", &d) && d == 0);
	assert_true(text_parse_int("-9223372036854775808", &i) && i == INT64_MIN);
	assert_true(text_parse_int("+007", &i) && i == 7);
}

static void test_time_table(void **state)
{
	static const struct {
		const char *text;
		int64_t seconds; /* BAD: an error */
	} cases[] = {
		{ "1970-01-01", 0 },
		{ "1970-01-01T00:00:00Z", 0 },
		{ "2025-03-01T12:00:00Z", 1740830400 },
		{ "2025-03-01 12:00Z", 1740830400 },
		{ "2025-03-01T14:00:00+02:00", 1740830400 },
		{ "2025-03-01T06:30:00-05:30", 1740830400 },
		{ "2024-02-29", 1709164800 },
		{ "2000-02-29", 951782400 },
		{ "1969-12-31T23:59:59Z", -1 },
		{ "1678-01-01", -9214560000 },
		{ "2261-12-31", 9214560000 },
		{ "2023-02-29", BAD },
		{ "1900-02-29", BAD },
		{ "2025-13-01", BAD },
		{ "2025-00-01", BAD },
		{ "2025-04-31", BAD },
		{ "2025-03-01T24:00:00Z", BAD },
		{ "2025-03-01T12:60:00Z", BAD },
		{ "2025-03-01T12:00:00", BAD },
		{ "2025-03-01T12:00:00.Z", BAD },
		{ "2025-03-01T12:00:00.1234567890Z", BAD },
		{ "2025-03-01T12:00:00Zx", BAD },
		{ "2025-03-01Z", BAD },
		{ "25-03-01", BAD },
		{ "9999-01-01", BAD },
		{ "0001-01-01", BAD },
		{ "", BAD },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int64_t ns = BAD;
		int r = text_parse_time(cases[i].text, &ns, NULL);

		if (r != (cases[i].seconds == BAD ? -1 : 0) ||
		    ns != (cases[i].seconds == BAD ? BAD : cases[i].seconds * S))
			fail_msg("`%s`: %ld", cases[i].text, (long)(ns / S));
	}
}

/* Against the C library's calendar, over the whole range. */
static void test_time_random(void **state)
{
	srand(13);
	for (int i = 0; i < 20000; i++) {
		_cleanup_(str_deinit) struct str s = { 0 };
		int64_t ns = random_int64(), back;
		time_t t = (time_t)(ns / S - (ns % S < 0));
		char want[64];
		struct tm tm;

		if (ns / S < -9214560000 || ns / S >= 9214646400)
			continue;
		gmtime_r(&t, &tm);
		strftime(want, sizeof(want), "%Y-%m-%dT%H:%M:%S", &tm);
		text_add_time(&s, ns, 9);
		assert_memory_equal(s.s, want, 19);
		assert_int_equal(text_parse_time(s.s, &back, NULL), 0);
		assert_int_equal(back, ns);
	}
}

static void test_time_digits(void **state)
{
	static const struct {
		int digits;
		const char *want;
	} cases[] = { { 0, "2025-03-01T12:00:00Z" },
		      { 3, "2025-03-01T12:00:00.123Z" },
		      { 6, "2025-03-01T12:00:00.123999Z" } };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(str_deinit) struct str s = { 0 };

		text_add_time(&s, 1740830400 * S + 123999999, cases[i].digits);
		assert_string_equal(s.s, cases[i].want);
	}
}

static void test_relative(void **state)
{
	static const struct {
		int64_t ago_s;
		const char *want;
	} cases[] = {
		{ 0, "just now" },
		{ 4, "just now" },
		{ 12, "12 seconds ago" },
		{ 60, "1 minute ago" },
		{ 200, "3 minutes ago" },
		{ 3600, "1 hour ago" },
		{ 2 * 86400, "2 days ago" },
		{ 45 * 86400, "1 month ago" },
		{ 800 * 86400, "2 years ago" },
		{ -300, "in 5 minutes" },
		{ -1, "just now" },
	};
	const int64_t now = 1740830400 * S;
	_cleanup_(str_deinit) struct str extreme = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(str_deinit) struct str s = { 0 };

		text_add_relative(&s, now - cases[i].ago_s * S, now);
		assert_string_equal(s.s, cases[i].want);
	}
	text_add_relative(&extreme, INT64_MIN, INT64_MAX);
	assert_string_equal(extreme.s, "584 years ago");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parse_duration),
		cmocka_unit_test(test_duration_range),
		cmocka_unit_test(test_add_duration),
		cmocka_unit_test(test_duration_exact_round_trip),
		cmocka_unit_test(test_bytes),
		cmocka_unit_test(test_add_bytes),
		cmocka_unit_test(test_cpu),
		cmocka_unit_test(test_count),
		cmocka_unit_test(test_double_text),
		cmocka_unit_test(test_double_round_trip),
		cmocka_unit_test(test_parse_numbers),
		cmocka_unit_test(test_time_table),
		cmocka_unit_test(test_time_random),
		cmocka_unit_test(test_time_digits),
		cmocka_unit_test(test_relative),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
