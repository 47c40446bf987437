#include <regex.h>
#include <string.h>
#include "base/mem.h"
#include "base/text/pattern.h"
#include "base/text/str.h"
#include "unit.h"

static const struct {
	const char *pattern, *line;
	bool any_case, want;
} rows[] = {
	{ "loss", "epoch 3 loss 0.5", false, true },
	{ "LOSS", "epoch 3 loss 0.5", false, false },
	{ "LOSS", "epoch 3 loss 0.5", true, true },
	{ "[L-O]oss", "loss", true, true },
	{ "", "anything", false, true },
	{ "", "", false, true },
	{ "^$", "", false, true },
	{ "^$", "x", false, false },
	{ "^epoch", "epoch 3", false, true },
	{ "^epoch", "an epoch", false, false },
	{ "0\\.5$", "loss 0.5", false, true },
	{ "0\\.5$", "loss 0.55", false, false },
	{ "x$|y", "ay b", false, true },
	{ "loss [0-9]+\\.\\d{2,3}\\b?", "", false, false }, /* \b is refused: see below */
	{ "loss \\d+\\.\\d{2,3}$", "loss 10.125", false, true },
	{ "loss \\d+\\.\\d{2,3}$", "loss 10.1", false, false },
	{ "a{0}b", "b", false, true },
	{ "^a{2}$", "aaa", false, false },
	{ "^(ab|c)*d$", "abcabd", false, true },
	{ "^(ab|c)*d$", "aabd", false, false },
	{ "^(a|)$", "", false, true },
	{ "(a*)*b", "aaab", false, true },
	{ "^.$", "ä", false, true },
	{ "^..$", "ä", false, false },
	{ "^.$", "\xff", false, true },
	{ "^[^a]\\W$", "äö", false, true },
	{ "ä|ö", "Größe", false, true },
	{ "[^a-z ]", "only small", false, false },
	{ "[]x]", "]", false, true },
	{ "[a\\]]", "]", false, true },
	{ "\\w+\\s\\W", "word +", false, true },
	{ "\\t", "a\tb", false, true },
	{ "(?:ab){2}", "xababx", false, true },
	{ "rank (3|5)\\]", "[rank 5]", false, true },
};

static void test_table(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pattern_freep) struct pattern *p = NULL;
		struct err err = { 0 };

		if (strstr(rows[i].pattern, "\\b")) {
			assert_int_equal(pattern_new(rows[i].pattern, false, &p, &err), -1);
			continue;
		}
		assert_int_equal(pattern_new(rows[i].pattern, rows[i].any_case, &p, &err), 0);
		for (int again = 0; again < 2; again++)
			if (pattern_matches(p, rows[i].line, strlen(rows[i].line)) != rows[i].want)
				fail_msg("/%s/ and \"%s\"", rows[i].pattern, rows[i].line);
	}
}

static const struct {
	const char *pattern, *says;
} bad[] = {
	{ "*a", "nothing to repeat at character 1" },
	{ "a|+", "nothing to repeat at character 3" },
	{ "(a", "no ) for a ( at character 3" },
	{ "a)", "a ) without its ( at character 2" },
	{ "[a", "no ] for the [ at character 3" },
	{ "[z-a]", "a range that ends before it begins at character 5" },
	{ "[ä]", "only ASCII" },
	{ "a\\", "nothing behind the backslash at character 3" },
	{ "\\1", "unknown escape at character 2" },
	{ "\\q", "unknown escape" },
	{ "(?=a)", "only ?: can be behind a (" },
	{ "a{x}", "no {n}" },
	{ "a{3,2}", "no {n}" },
	{ "a{201}", "no {n}" },
	{ "((a{200}){200}){200}", "too large" },
	{ "(((){200}){200}){200}", "too large" },
};

static void test_bad(void **state)
{
	char deep[300] = "";

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct pattern *p = NULL;
		struct err err = { 0 };

		assert_int_equal(pattern_new(bad[i].pattern, false, &p, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		if (!strstr(err.msg, bad[i].says))
			fail_msg("/%s/: %s", bad[i].pattern, err.msg);
	}
	memset(deep, '(', 60);
	memset(deep + 60, ')', 60);
	assert_int_equal(pattern_new(deep, false, &(struct pattern *){ NULL }, NULL), -1);
}

/* The same as the C library's, for patterns that both understand. */
static void test_model(void **state)
{
	static const char *const parts[] = { "a", "b", ".", "[ab]", "[^a]", "(", ")", "|",    "*",
					     "+", "?", "^", "$",    "{2}",  "c", "a", "{1,3}" };
	uint64_t x = 7, compared = 0;

	for (int round = 0; round < 20000; round++) {
		_cleanup_(str_deinit) struct str text = { 0 };
		_cleanup_(pattern_freep) struct pattern *p = NULL;
		regex_t posix;

		for (int i = 0; i < 1 + round % 9; i++) {
			x = x * 6364136223846793005ULL + 1442695040888963407ULL;
			str_add(&text, parts[(x >> 33) % ARRAY_LEN(parts)]);
		}
		/* What POSIX leaves open, or reads in another way. */
		if (strstr(text.s, "()") || strstr(text.s, "(|") || strstr(text.s, "|)") ||
		    strstr(text.s, "||") || text.s[0] == '|' || text.s[text.len - 1] == '|' ||
		    strstr(text.s, "^*") || strstr(text.s, "^+") || strstr(text.s, "^?") ||
		    strstr(text.s, "^{") || pattern_new(text.s, false, &p, NULL) < 0 ||
		    regcomp(&posix, text.s, REG_EXTENDED | REG_NOSUB) != 0)
			continue;
		for (unsigned line = 0; line < 40; line++) {
			char buf[8] = "";
			unsigned n = line % 6;

			for (unsigned k = 0; k < n; k++)
				buf[k] = (char)('a' + (line * 31 + k * 17 + (line >> k)) % 3);
			if (pattern_matches(p, buf, n) != (regexec(&posix, buf, 0, NULL, 0) == 0))
				fail_msg("/%s/ and \"%s\"", text.s, buf);
			compared++;
		}
		regfree(&posix);
	}
	assert_true(compared > 100000);
}

/* More states than are kept, and a pattern that backtracking would never end with. */
static void test_bounded(void **state)
{
	_cleanup_(pattern_freep) struct pattern *many = NULL, *nested = NULL;
	char line[4000];
	uint64_t x = 3;

	assert_int_equal(pattern_new("a[ab]{12}c$", false, &many, NULL), 0);
	assert_int_equal(pattern_new("^(a*)*(a|aa)*b$", false, &nested, NULL), 0);
	for (size_t i = 0; i < sizeof(line); i++) {
		x = x * 6364136223846793005ULL + 1442695040888963407ULL;
		line[i] = x >> 40 & 1 ? 'a' : 'b';
	}
	assert_false(pattern_matches(many, line, sizeof(line)));
	line[sizeof(line) - 14] = 'a';
	line[sizeof(line) - 1] = 'c';
	assert_true(pattern_matches(many, line, sizeof(line)));
	memset(line, 'a', sizeof(line));
	assert_false(pattern_matches(nested, line, sizeof(line)));
	line[sizeof(line) - 1] = 'b';
	assert_true(pattern_matches(nested, line, sizeof(line)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_model),
		cmocka_unit_test(test_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
