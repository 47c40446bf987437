#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/text/text.h"
#include "unit.h"

static const struct {
	const char *bytes;
	size_t len; /* of the first character, 0: none */
	uint32_t cp;
} utf8_cases[] = {
	{ "a", 1, 'a' },
	{ "\xc3\xa9", 2, 0xe9 },
	{ "\xe2\x82\xac", 3, 0x20ac },
	{ "\xf0\x9f\x98\x80", 4, 0x1f600 },
	{ "\xf4\x8f\xbf\xbf", 4, 0x10ffff },
	{ "\xed\x9f\xbf", 3, 0xd7ff },
	{ "\xc0\xaf", 0, 0 },         /* overlong */
	{ "\xe0\x80\xaf", 0, 0 },     /* overlong */
	{ "\xf0\x80\x80\xaf", 0, 0 }, /* overlong */
	{ "\xed\xa0\x80", 0, 0 },     /* surrogate */
	{ "\xf4\x90\x80\x80", 0, 0 }, /* over U+10FFFF */
	{ "\xf5\x80\x80\x80", 0, 0 },
	{ "\x80", 0, 0 },
	{ "\xff", 0, 0 },
	{ "\xe2\x82", 0, 0 }, /* cut off */
	{ "\xe2\x28\xa1", 0, 0 },
};

static void test_utf8_table(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(utf8_cases); i++) {
		size_t n = strlen(utf8_cases[i].bytes);
		uint32_t cp = 0;

		assert_int_equal(text_utf8_decode(utf8_cases[i].bytes, n, &cp), utf8_cases[i].len);
		assert_int_equal(cp, utf8_cases[i].cp);
		assert_int_equal(text_is_utf8(utf8_cases[i].bytes, n), utf8_cases[i].len != 0);
	}
}

/* Every code point, encoded by the definition, comes back; every one is refused with its last byte
 * missing. */
static void test_utf8_all(void **state)
{
	for (uint32_t c = 1; c <= 0x10ffff; c++) {
		char b[4];
		uint32_t cp;
		size_t n = 0;

		if (c < 0x80) {
			b[n++] = (char)c;
		} else if (c < 0x800) {
			b[n++] = (char)(0xc0 | c >> 6);
		} else if (c < 0x10000) {
			b[n++] = (char)(0xe0 | c >> 12);
			b[n++] = (char)(0x80 | (c >> 6 & 63));
		} else {
			b[n++] = (char)(0xf0 | c >> 18);
			b[n++] = (char)(0x80 | (c >> 12 & 63));
			b[n++] = (char)(0x80 | (c >> 6 & 63));
		}
		if (c >= 0x80)
			b[n++] = (char)(0x80 | (c & 63));
		if (c >= 0xd800 && c < 0xe000) {
			assert_int_equal(text_utf8_decode(b, n, &cp), 0);
			continue;
		}
		assert_int_equal(text_utf8_decode(b, n, &cp), n);
		assert_int_equal(cp, c);
		assert_int_equal(text_utf8_decode(b, n - 1, &cp), 0);
	}
}

static void test_utf8_long(void **state)
{
	char buf[100];

	memset(buf, 'a', sizeof(buf));
	assert_true(text_is_utf8(buf, sizeof(buf)));
	for (size_t i = 0; i < sizeof(buf); i++) {
		buf[i] = (char)0x80;
		assert_false(text_is_utf8(buf, sizeof(buf)));
		buf[i] = 'a';
	}
	assert_true(text_is_utf8("", 0));
}

static void test_nearest(void **state)
{
	static const char *const keys[] = { "run",    "uses", "timeout", "inputs",    "outputs",
					    "memory", "lr",   "cpu",     "max_depth", "FOO_BAR" };
	static const struct {
		const char *word, *want;
	} cases[] = {
		{ "timeuot", "timeout" },
		{ "timeot", "timeout" },
		{ "tiemout", "timeout" },
		{ "output", "outputs" },
		{ "input", "inputs" },
		{ "Memory", "memory" },
		{ "MEMORY", "memory" },
		{ "max-depth", "max_depth" },
		{ "rnu", "run" },
		{ "rn", "run" },
		{ "use", "uses" },
		{ "LR", "lr" },
		{ "foo-bar", "FOO_BAR" },
		{ "run", "run" },
		{ "", NULL },
		{ "x", NULL },
		{ "zzzzzz", NULL },
		{ "lx", NULL },
		{ "banana", NULL },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *got = text_nearest(cases[i].word, keys, ARRAY_LEN(keys));

		if (!str_eq(got, cases[i].want))
			fail_msg("%s: %s, not %s", cases[i].word, got ? got : "(none)",
				 cases[i].want ? cases[i].want : "(none)");
	}
	assert_null(text_nearest("run", keys, 0));
}

static void test_nearest_bounds(void **state)
{
	char longer[200], other[200];
	const char *candidates[] = { other, "" };

	memset(longer, 'q', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	memcpy(other, longer, sizeof(other));
	other[3] = 'x';
	assert_null(text_nearest(longer, candidates, 2));
	other[64] = longer[64] = '\0';
	assert_ptr_equal(text_nearest(longer, candidates, 2), other);
}

/* Distances by the textbook recursion, on short words over a small alphabet. */
static unsigned naive(const char *a, size_t n, const char *b, size_t m)
{
	unsigned best;

	if (n == 0 || m == 0)
		return (unsigned)(n + m);
	best = naive(a, n - 1, b, m - 1) + (a[n - 1] != b[m - 1]);
	best = MIN(best, naive(a, n - 1, b, m) + 1);
	best = MIN(best, naive(a, n, b, m - 1) + 1);
	if (n > 1 && m > 1 && a[n - 1] == b[m - 2] && a[n - 2] == b[m - 1])
		best = MIN(best, naive(a, n - 2, b, m - 2) + 1);
	return best;
}

static void test_nearest_random(void **state)
{
	srand(7);
	for (int round = 0; round < 1500; round++) {
		char a[8], b[8];
		const char *candidate = b;
		size_t n = (size_t)(rand() % 6 + 1), m = (size_t)(rand() % 6 + 1);

		for (size_t i = 0; i < n; i++)
			a[i] = (char)('a' + rand() % 3);
		for (size_t i = 0; i < m; i++)
			b[i] = (char)('a' + rand() % 3);
		a[n] = b[m] = '\0';
		assert_int_equal(text_nearest(a, &candidate, 1) != NULL,
				 naive(a, n, b, m) <= MAX(n, m) / 3);
	}
}

static void test_suggestion(void **state)
{
	static const char *const keys[] = { "timeout" };
	_cleanup_(str_deinit) struct str s = { 0 };

	text_add_suggestion(&s, "nothing-like-it", keys, 1);
	assert_int_equal(s.len, 0);
	text_add_suggestion(&s, "timeuot", keys, 1);
	assert_string_equal(s.s, " (did you mean `timeout`?)");
}

static void test_shell_quoting(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "plain-1.2/x:y@z", "plain-1.2/x:y@z" },
		{ "", "''" },
		{ "a b", "'a b'" },
		{ "it's", "'it'\\''s'" },
		{ "$HOME", "'$HOME'" },
		{ "a\nb", "'a\nb'" },
		{ "~", "'~'" },
		{ "=ls", "'=ls'" },
		{ "a=b", "a=b" },
		{ "*", "'*'" },
		{ "\xff", "'\xff'" },
		{ "'", "''\\'''" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(str_deinit) struct str s = { 0 };

		text_add_shell_quoted(&s, cases[i].in);
		assert_string_equal(s.s, cases[i].want);
	}
}

/* What sh makes of the quoted text is the text. */
static void test_shell_agrees(void **state)
{
	srand(3);
	for (int round = 0; round < 40; round++) {
		_cleanup_(str_deinit) struct str s = { 0 };
		char text[20] = { 0 }, back[64] = { 0 };
		FILE *f;

		for (int i = 0; i < 15; i++)
			text[i] = (char)(rand() % 255 + 1);
		str_add(&s, "printf %s ");
		text_add_shell_quoted(&s, text);
		f = popen(s.s, "r");
		assert_non_null(f);
		assert_int_equal(fread(back, 1, sizeof(back) - 1, f), strlen(text));
		pclose(f);
		assert_string_equal(back, text);
	}
}

static void test_printable(void **state)
{
	static const struct {
		const char *in, *want;
	} cases[] = {
		{ "plain caf\xc3\xa9", "plain caf\xc3\xa9" },
		{ "a\nb\tc\rd\x1b[31m", "a\\nb\\tc\\rd\\e[31m" },
		{ "\x01\x7f", "\\x01\\x7f" },
		{ "\xff\xfe", "\\xff\\xfe" },
		{ "\xc2\x9b", "\\u009b" },
		{ "\xe2\x80\xae"
		  "exe",
		  "\\u202eexe" },
		{ "\xf3\xa0\x81\x81", "\\U000e0041" },
		{ "\xef\xbf\xbe\xef\xb7\x90\xf4\x8f\xbf\xbf\xef\xbf\xbd",
		  "\\ufffe\\ufdd0\\U0010ffff\xef\xbf\xbd" },
		{ "back\\slash", "back\\slash" },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(str_deinit) struct str s = { 0 };

		text_add_printable(&s, cases[i].in, strlen(cases[i].in));
		assert_string_equal(s.s, cases[i].want);
	}
}

static void test_width(void **state)
{
	static const struct {
		const char *in;
		size_t want;
	} cases[] = {
		{ "", 0 },
		{ "abc", 3 },
		{ "caf\xc3\xa9", 4 },
		{ "cafe\xcc\x81", 4 },                         /* combining acute */
		{ "\xe6\xbc\xa2\xe5\xad\x97", 4 },             /* CJK */
		{ "\xf0\x9f\x98\x80", 2 },                     /* emoji */
		{ "\xe1\x84\x92\xe1\x85\xa1\xe1\x86\xab", 2 }, /* Hangul Jamo */
		{ "a\xe2\x80\x8b"
		  "b",
		  2 },                 /* zero width space */
		{ "\xef\xbc\xa1", 2 }, /* fullwidth A */
		{ "\xc2\xad", 1 },     /* soft hyphen */
		{ "\n", 0 },
	};

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		assert_int_equal(text_width(cases[i].in, strlen(cases[i].in)), cases[i].want);
}

/* Printable text is safe, whatever goes in. */
static void test_hostile_random(void **state)
{
	srand(11);
	for (int round = 0; round < 3000; round++) {
		_cleanup_(str_deinit) struct str p = { 0 };
		char in[40];
		size_t n = (size_t)(rand() % 39);

		for (size_t i = 0; i < n; i++)
			in[i] = (char)(rand() % 3 ? rand() % 255 + 1 : 0xe2 - rand() % 3);
		in[n] = '\0';
		text_add_printable(&p, in, n);
		assert_true(text_is_utf8(p.s ? p.s : "", p.len));
		for (size_t i = 0; i < p.len; i++)
			assert_true((unsigned char)p.s[i] >= 0x20 && p.s[i] != 0x7f);
	}
}

static void test_volume_path(void **state)
{
	static const char *const rows[][2] = {
		{ "claim://data", "" },
		{ "claim://data/", "/" },
		{ "claim://data/a/b.tar", "/a/b.tar" },
		{ "claim://data/a@sha256:b.csv", "/a@sha256:b.csv" },
		{ "image://host:5000/team/x@sha256:0123", "" },
		{ "image://host:5000/team/x@sha256:0123/en/a", "/en/a" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++)
		assert_string_equal(text_volume_path(rows[i][0]), rows[i][1]);
}

static void test_hide(void **state)
{
	static const struct {
		const char *text, *secret, *want;
	} rows[] = {
		{ "no secret here", "hunter2hunter2", "no secret here" },
		{ "it is hunter2hunter2.", "hunter2hunter2", "it is **************." },
		{ "hunter2hunter2hunter2hunter2", "hunter2hunter2",
		  "****************************" },
		{ "cut off: hunter2hu", "hunter2hunter2", "cut off: *********" },
		{ "cut off: hunter2", "hunter2hunter2", "cut off: hunter2" }, /* says too little */
		{ "hunter2hu, not at the end", "hunter2hunter2", "hunter2hu, not at the end" },
		{ "short ab", "ab", "short **" },
		{ "", "x", "" },
		{ "text", "", "text" },
		{ "text", NULL, "text" },
	};

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		char text[64];

		snprintf(text, sizeof(text), "%s", rows[i].text);
		text_hide(text, rows[i].secret);
		assert_string_equal(text, rows[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_utf8_table),     cmocka_unit_test(test_utf8_all),
		cmocka_unit_test(test_utf8_long),      cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_nearest_bounds), cmocka_unit_test(test_nearest_random),
		cmocka_unit_test(test_suggestion),     cmocka_unit_test(test_shell_quoting),
		cmocka_unit_test(test_shell_agrees),   cmocka_unit_test(test_printable),
		cmocka_unit_test(test_width),          cmocka_unit_test(test_hide),
		cmocka_unit_test(test_volume_path),    cmocka_unit_test(test_hostile_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
