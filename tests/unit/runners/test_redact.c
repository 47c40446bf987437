/* runners/redact: values across every split of the stream, against a naive model. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "base/mem.h"
#include "runners/redact.h"

static uint32_t next(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

/* The whole text at once: at each place the longest value that begins there. */
static void naive(const char *const *values, size_t n, const char *text, struct str *ret)
{
	str_reset(ret);
	while (*text) {
		size_t longest = 0;

		for (size_t i = 0; i < n; i++)
			if (strlen(values[i]) >= REDACT_MIN && strlen(values[i]) > longest && strncmp(text, values[i], strlen(values[i])) == 0)
				longest = strlen(values[i]);
		if (longest)
			str_add(ret, "***");
		else
			str_addc(ret, *text);
		text += longest ? longest : 1;
	}
}

static void feed_split(const char *const *values, size_t n, const char *text, size_t a, size_t b, struct str *ret)
{
	struct redactor *r = redactor_new(values, n);
	size_t len = strlen(text);

	str_reset(ret);
	redactor_feed(r, text, a, false, ret);
	redactor_feed(r, text + a, b - a, false, ret);
	redactor_feed(r, text + b, len - b, false, ret);
	redactor_feed(r, "", 0, true, ret);
	redactor_free(r);
}

static const struct {
	const char *values[3], *text, *want;
} cases[] = {
	{ { "geheim" }, "x geheim y", "x *** y" },
	{ { "geheim" }, "gehei", "gehei" },
	{ { "geheim" }, "gegeheimheim", "ge***heim" },
	{ { "geheim", "geheimnis" }, "geheimnis geheim geheimni", "*** *** ***ni" },
	{ { "abab" }, "abababab ababa", "****** ***a" },
	{ { "abc" }, "abc", "abc" }, /* too short: would hit ordinary text */
	{ { "line one\nline two" }, "say line two, then line one.", "say ***, then ***." },
	{ { "schlüssel" }, "der schlüssel\n", "der ***\n" },
};

static void every_split_gives_the_same(void **state)
{
	_cleanup_(str_deinit) struct str got = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t n = 0, len = strlen(cases[i].text);

		while (n < 3 && cases[i].values[n])
			n++;
		for (size_t a = 0; a <= len; a++)
			for (size_t b = a; b <= len; b++) {
				feed_split(cases[i].values, n, cases[i].text, a, b, &got);
				assert_string_equal(got.s, cases[i].want);
			}
	}
}

static void fill(char *to, size_t n, uint32_t *seed)
{
	for (size_t i = 0; i < n; i++)
		to[i] = "ab"[next(seed) % 2];
	to[n] = '\0';
}

static void random_streams_are_the_models(void **state)
{
	_cleanup_(str_deinit) struct str got = { 0 }, want = { 0 };

	for (uint32_t round = 0; round < 3000; round++) {
		uint32_t seed = round;
		char v[3][12], text[64];
		const char *values[3] = { v[0], v[1], v[2] };
		size_t a, b, n;

		for (size_t i = 0; i < 3; i++)
			fill(v[i], next(&seed) % 11, &seed);
		n = next(&seed) % 60 + 1;
		fill(text, n, &seed);
		a = next(&seed) % (n + 1);
		b = a + next(&seed) % (n - a + 1);
		feed_split(values, 3, text, a, b, &got);
		naive(values, 3, text, &want);
		assert_string_equal(got.s, want.s);
	}
}

static void memory_is_bounded_by_the_longest_value(void **state)
{
	const char *values[] = { "0123456789" };
	_cleanup_(str_deinit) struct str got = { 0 };
	struct redactor *r = redactor_new(values, 1);

	for (size_t i = 1; i <= 1000; i++) {
		redactor_feed(r, "01234", 5, false, &got);
		assert_true(got.len + 10 > 5 * i);
	}
	redactor_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_split_gives_the_same),
		cmocka_unit_test(random_streams_are_the_models),
		cmocka_unit_test(memory_is_bounded_by_the_longest_value),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
