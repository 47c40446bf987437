/* runners/redact: values and their forms, however the stream is cut, against a naive model. */
#include <string.h>
#include "base/crypto/base64.h"
#include "unit.h"
#include "unit/runners/redact_model.h"

static uint32_t next(uint32_t *seed)
{
	*seed = *seed * 1664525u + 1013904223u;
	return *seed >> 8;
}

static void feed_split(struct redactor *r, const char *text, size_t a, size_t b, struct str *ret)
{
	size_t len = strlen(text);

	str_reset(ret);
	str_add(ret, "");
	redactor_feed(r, text, a, false, ret);
	redactor_feed(r, text + a, b - a, false, ret);
	redactor_feed(r, text + b, len - b, false, ret);
	redactor_feed(r, "", 0, true, ret);
}

static const struct {
	const char *values[4], *text, *want;
} cases[] = {
	{ { "geheim" }, "x geheim y", "x *** y" },
	{ { "geheim" }, "gehei", "gehei" },
	{ { "geheim" }, "gegeheimheim", "ge***heim" },
	{ { "geheim", "geheimnis" }, "geheimnis geheim geheimni", "*** *** ***ni" },
	/* No end of a secret stays where two overlap. */
	{ { "abab" }, "abababab ababa abaab", "*** ***a abaab" },
	{ { "abcde", "defgh" }, "abcdefgh abcdefg", "*** ***fg" },
	{ { "bcde", "abcdefgh" }, "abcdefgh abcdefg", "*** a***fg" },
	{ { "geheim" }, "geheimgeheim", "***" },
	{ { "abc" }, "abc YWJj", "abc YWJj" }, /* too short: would hit ordinary text */
	{ { "line one\nline two\r\nx" },
	  "say line two, then line one.\nx",
	  "say ***, then ***.\nx" },
	{ { "schlüssel" }, "der schlüssel\n", "der ***\n" },
	{ { "" }, "all of it", "all of it" },
	/* base64: alone, behind `user:` (at each of three places), with something behind it, the
	 * URL's alphabet. */
	{ { "hunter22" }, "aHVudGVyMjI= aHVudGVyMjI", "***= ***" },
	{ { "hunter22" }, "dXNlcjpodW50ZXIyMg==", "dXNlcjp***==" },
	{ { "hunter22" }, "dTpodW50ZXIyMg== dXM6aHVudGVyMjI=", "dTp***== dXM6***=" },
	{ { "hunter22" }, "dXNlOmh1bnRlcjIyOng=", "dXNlOm***Ong=" },
	{ { "\xfb\xff\xfe?\?>" }, "+//+Pz8+ -__-Pz8-", "*** ***" },
	{ { "two\nlines" }, "dHdvCmxpbmVz", "***" },
	/* Percent-encoding as Python, curl, browsers and forms do it. */
	{ { "p@ss w/rd" },
	  "p%40ss%20w%2Frd p%40ss%20w%2frd p%40ss%20w/rd p%40ss+w%2Frd",
	  "*** *** *** ***" },
	{ { "a(b)!c d" }, "a(b)!c%20d a%28b%29%21c%20d", "*** ***" },
	/* JSON as C, Python (ASCII only) and Go (safe in HTML) write it. */
	{ { "a\"b\\c/d" }, "a\\\"b\\\\c/d a\\\"b\\\\c\\/d", "*** ***" },
	{ { "k\xc3\xa9y\xf0\x9f\x94\x91" },
	  "k\\u00e9y\\ud83d\\udd11 k\\u00E9y\\uD83D\\uDD11",
	  "*** ***" },
	{ { "a<b&c\td" }, "a\\u003cb\\u0026c\\td a\\u003Cb\\u0026c\\td a<b&c\\td", "*** *** ***" },
};

static size_t count(const char *const *values, size_t most)
{
	size_t n = 0;

	while (n < most && values[n])
		n++;
	return n;
}

static void every_split_gives_the_same(void **state)
{
	_cleanup_(str_deinit) struct str got = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		size_t len = strlen(cases[i].text);
		struct redactor *r = redactor_new(cases[i].values, count(cases[i].values, 4));

		for (size_t a = 0; a <= len; a++)
			for (size_t b = a; b <= len; b++) {
				feed_split(r, cases[i].text, a, b, &got);
				assert_string_equal(got.s, cases[i].want);
			}
		redactor_free(r);
	}
}

/* Of few letters, so that secrets overlap, nest and begin one another. */
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
		char v[3][120], text[300];
		const char *values[3] = { v[0], v[1], v[2] };
		size_t a, b, n;
		struct redactor *r;

		for (size_t i = 0; i < 3; i++)
			fill(v[i], next(&seed) % (round % 10 ? 11 : 119), &seed);
		n = next(&seed) % 290 + 1;
		fill(text, n, &seed);
		if (n > 150) /* one that is long enough to be cut into pieces */
			memcpy(text + n - 140, v[0], strlen(v[0]));
		a = next(&seed) % (n + 1);
		b = a + next(&seed) % (n - a + 1);
		r = redactor_new(values, 3);
		feed_split(r, text, a, b, &got);
		redact_model(values, 3, text, n, &want);
		assert_string_equal(got.s, want.s);
		redactor_free(r);
	}
}

/* With any bytes around it, in any of the three places: but for the characters at its two edges,
 * which hold bits of the neighbours too, nothing of its base64 is left. */
static void no_base64_of_it_is_left(void **state)
{
	_cleanup_(str_deinit) struct str plain = { 0 }, text = { 0 }, got = { 0 };
	static const char secret[] = "s3cr?t/>~ of 80 bytes and more, so that it is cut into "
				     "pieces: 0123456789 0123456789.";
	struct redactor *r = redactor_new((const char *const[]){ secret }, 1);

	for (size_t before = 0; before < 6; before++)
		for (size_t behind = 0; behind < 6; behind++)
			for (int url = 0; url < 2; url++) {
				str_reset(&plain);
				str_addn(&plain, "uvwxyz", before);
				str_add(&plain, secret);
				str_addn(&plain, "UVWXYZ", behind);
				str_reset(&text);
				(url ? base64_add_url : base64_add)(&text, plain.s, plain.len);
				feed_split(r, text.s, 1, 2, &got);
				assert_in_range(got.len, 3,
						strlen(REDACT_MASK) + (before * 8 + 5) / 6 +
							(behind * 8 + 5) / 6 + 3);
				assert_non_null(strstr(got.s, REDACT_MASK));
			}
	redactor_free(r);
}

static void broken_lines_of_base64(void **state)
{
	_cleanup_(str_deinit) struct str key = { 0 }, text = { 0 }, lines = { 0 }, got = { 0 };
	static const size_t widths[] = { 64, 76 };
	const char *want = "***\n***\n***\n***\n***\n***\n";
	struct redactor *r;

	for (int i = 0; i < 20; i++)
		str_addf(&key, "line %d of the key\n", i * 7919);
	r = redactor_new((const char *const[]){ key.s }, 1);
	base64_add(&text, key.s,
		   key.len - 1); /* as `base64 <file`, where the file ends without a line end */
	for (size_t w = 0; w < ARRAY_LEN(widths); w++) {
		str_reset(&lines);
		for (size_t at = 0; at < text.len; at += widths[w])
			str_addf(&lines, "%.*s\n", (int)widths[w], text.s + at);
		feed_split(r, lines.s, 5, 100, &got);
		assert_true(got.len >= 5 * 4);
		for (const char *c = got.s; *c; c++) /* but for the padding of the last line */
			assert_non_null(strchr("*=\n", *c));
		assert_memory_equal(got.s, want, 16);
	}
	redactor_free(r);
}

static void what_can_be_masked(void **state)
{
	assert_true(redact_can_mask("abcd", 4));
	assert_true(redact_can_mask("ab\nabcd\n", 8));
	assert_false(redact_can_mask("abc", 3));
	assert_false(redact_can_mask("abc\nabc\r\nabc", 12));
	assert_false(redact_can_mask("", 0));
}

static void no_more_is_held_than_a_piece(void **state)
{
	static const char secret[] = "0123456789";
	char text[1000];
	_cleanup_(str_deinit) struct str got = { 0 };
	struct redactor *r = redactor_new((const char *const[]){ secret }, 1);

	for (size_t i = 1; i <= 1000; i++) {
		redactor_feed(r, "01234", 5, false, &got);
		assert_int_equal(got.len, 5 * i - 5);
	}
	redactor_free(r);

	/* What can't begin a secret isn't held at all; of a long one, at most a piece is. */
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	r = redactor_new((const char *const[]){ text }, 1);
	str_reset(&got);
	redactor_feed(r, "Password: ", 10, false, &got);
	assert_int_equal(got.len, 10);
	for (size_t i = 0; i < 200; i++)
		redactor_feed(r, "y", 1, false, &got);
	assert_int_equal(got.len, 210);
	redactor_feed(r, text, REDACT_PIECE, false, &got);
	assert_int_equal(got.len, 213);
	redactor_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_split_gives_the_same),
		cmocka_unit_test(random_streams_are_the_models),
		cmocka_unit_test(no_base64_of_it_is_left),
		cmocka_unit_test(broken_lines_of_base64),
		cmocka_unit_test(what_can_be_masked),
		cmocka_unit_test(no_more_is_held_than_a_piece),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
