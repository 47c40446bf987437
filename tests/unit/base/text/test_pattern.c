#include <string.h>
#include "base/macros.h"
#include "base/text/pattern.h"
#include "unit.h"

static const struct {
	const char *pattern, *line;
	bool any_case;
	int want;
} rows[] = {
	{ "loss", "epoch 3 loss 0.5", false, 1 },
	{ "LOSS", "epoch 3 loss 0.5", false, 0 },
	{ "LOSS", "epoch 3 loss 0.5", true, 1 },
	{ "GRÖSSE", "größe: grösse", true, 1 },
	{ "", "", false, 1 },
	{ "^$", "x", false, 0 },
	{ "0\\.5$", "loss 0.5", false, 1 },
	{ "0\\.5$", "loss 0.55", false, 0 },
	{ "loss \\d+\\.\\d{2,3}\\b", "loss 10.125 ", false, 1 },
	{ "^..$", "ä", false, 0 },
	{ "rank (3|5)\\]", "\xff\xfe[rank 5]\xff", false, 1 }, /* not UTF-8 */
};

static void test_table(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(pattern_freep) struct pattern *p = NULL;

		assert_int_equal(pattern_new(rows[i].pattern, rows[i].any_case, &p, NULL), 0);
		for (int again = 0; again < 2; again++)
			if (pattern_matches(p, rows[i].line, strlen(rows[i].line), NULL) !=
			    rows[i].want)
				fail_msg("/%s/ and \"%s\"", rows[i].pattern, rows[i].line);
	}
}

static const struct {
	const char *pattern, *says;
} bad[] = {
	{ "(a", "missing closing parenthesis, at byte 3" },
	{ "*a", "quantifier does not follow a repeatable item, at byte 1" },
	{ "\\C", "is disabled" },
	{ "((a{200}){200}){200}", "too large" },
	{ "((((((((((((((((((((((((((((((((((((((((((((((((((((x"
	  "))))))))))))))))))))))))))))))))))))))))))))))))))))",
	  "too deeply nested" },
};

static void test_bad(void **state)
{
	char text[2000];

	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct pattern *p = NULL;
		struct err err = { 0 };

		assert_int_equal(pattern_new(bad[i].pattern, false, &p, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		if (!strstr(err.msg, bad[i].says))
			fail_msg("/%s/: %s", bad[i].pattern, err.msg);
	}
	memset(text, 'a', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	assert_int_equal(pattern_new(text, false, &(struct pattern *){ NULL }, NULL), -1);
}

/* It would try for longer than anybody waits; and the same pattern is fine on what it suits. */
static void test_bounded(void **state)
{
	_cleanup_(pattern_freep) struct pattern *p = NULL;
	struct err err = { 0 };
	char line[5000];

	assert_int_equal(pattern_new("^(a|aa)+$", false, &p, NULL), 0);
	memset(line, 'a', sizeof(line));
	line[sizeof(line) - 1] = 'b';
	assert_int_equal(pattern_matches(p, line, sizeof(line), &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
	assert_non_null(strstr(err.msg, "limit"));
	assert_int_equal(pattern_matches(p, line, 20, NULL), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
