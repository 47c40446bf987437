/* base/table/csv.h: what is read, what is refused, and that fields that were written come back. */
#include <string.h>
#include "base/mem.h"
#include "base/table/csv.h"
#include "unit.h"

/* Rows as "a|b\nc|d\n", with the line in front of each. */
static int show(const char *text, size_t n, char separator, struct str *out, struct err *err)
{
	const struct csv_field *f;
	struct csv *c;
	size_t k;
	int r;

	str_add(out, "");
	if (csv_open("t.csv", text, n, separator, &c, err) < 0)
		return -1;
	while ((r = csv_next(c, &f, &k, err)) > 0) {
		str_addf(out, "%d:", (int)csv_line(c));
		for (size_t i = 0; i < k; i++) {
			str_add(out, i ? "|" : "");
			str_add(out, f[i].quoted ? "'" : "");
			str_addn(out, f[i].s, f[i].n);
		}
		str_addc(out, '\n');
	}
	csv_free(c);
	return r;
}

static const struct {
	const char *text, *want;
} good[] = {
	{ "", "" },
	{ "a", "1:a\n" },
	{ "a,b\n1,2\n", "1:a|b\n2:1|2\n" },
	{ "a,b\r\n1,2\r\n", "1:a|b\n2:1|2\n" },
	{ "a,b\n1,2", "1:a|b\n2:1|2\n" },
	{ "\xef\xbb\xbf"
	  "a,b\n",
	  "1:a|b\n" },
	{ ",\n,\n", "1:|\n2:|\n" },
	{ "a,b\n\"x,y\",\"p\nq\"\n1,2\n", "1:a|b\n2:'x,y|'p\nq\n4:1|2\n" },
	{ "\"\"\"\",\"a\"\"b\"\"\"\n", "1:'\"|'a\"b\"\n" },
	{ "a,b\n1,2\n\n\r\n\n", "1:a|b\n2:1|2\n" },
	{ "a\n\nb\n", "1:a\n2:\n3:b\n" },
	{ "a\nb\n\n", "1:a\n2:b\n3:\n" },
	{ "5\" disk,x\r\n", "1:5\" disk|x\n" },
	{ "a\rb,c\n", "1:a\rb|c\n" },
	{ "\"a\"", "1:'a\n" },
};

static void reads(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		_cleanup_(str_deinit) struct str s = { 0 };
		struct err err = { 0 };

		assert_int_equal(show(good[i].text, strlen(good[i].text), ',', &s, &err), 0);
		assert_string_equal(s.s, good[i].want);
	}
}

static const struct {
	const char *text;
	size_t n;
	const char *want;
} bad[] = {
	{ "a,b\n1\n", 6, "t.csv:2: 1 field, but the first row has 2" },
	{ "a,b\n1,2,3\n", 10, "t.csv:2: more than 2 fields, which the first row has" },
	{ "a,b\n\n1,2\n", 9, "t.csv:2: 1 field, but the first row has 2" },
	{ "a,b\n\"1\n,2\n", 10, "t.csv:2: a quote that is never closed" },
	{ "a,b\n\"1\"x,2\n", 11, "t.csv:2: text behind a closing quote" },
	{ "a,b\n1,\0\n", 8, "t.csv:2: a NUL byte; is it a text file?" },
	{ "a,\"b\n\0\"\n", 8, "t.csv:2: a NUL byte; is it a text file?" },
};

static void refuses(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(str_deinit) struct str s = { 0 };
		struct err err = { 0 };

		assert_int_equal(show(bad[i].text, bad[i].n, ',', &s, &err), -1);
		assert_int_equal(err.code, ERR_INVALID);
		assert_string_equal(err.msg, bad[i].want);
	}
}

static void separators(void **state)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	struct err err = { 0 };

	assert_int_equal(show("a\tb,c\n", 6, '\t', &s, &err), 0);
	assert_string_equal(s.s, "1:a|b,c\n");
	assert_int_equal(show("a\n", 2, '"', &s, &err), -1);
}

static uint32_t state_of;
static uint32_t next_random(void)
{
	return state_of = state_of * 1664525 + 1013904223, state_of >> 16;
}

/* Random fields of awkward bytes, written by the rules of RFC 4180, come back. */
static void round_trip(void **state)
{
	static const char bytes[] = "ab\"\",,\n\r x";

	state_of = 1;
	for (int round = 0; round < 3000; round++) {
		_cleanup_(str_deinit) struct str text = { 0 }, want = { 0 };
		size_t columns = 2 + next_random() % 4, rows = next_random() % 6;
		const struct csv_field *f;
		struct err err = { 0 };
		struct csv *c;
		size_t k, at = 0;

		str_add(&text, "");
		str_add(&want, "");
		for (size_t i = 0; i < rows * columns; i++) {
			size_t len = next_random() % 5;

			str_addc(&text, '"');
			for (size_t b = 0; b < len; b++) {
				char ch = bytes[next_random() % (sizeof(bytes) - 1)];

				str_addc(&want, ch);
				str_add(&text, ch == '"' ? "\"" : "");
				str_addc(&text, ch);
			}
			str_addc(&want, '\0');
			str_add(&text, (i + 1) % columns   ? "\","
				       : next_random() % 2 ? "\"\n"
							   : "\"\r\n");
		}
		assert_int_equal(csv_open("t", text.s, text.len, ',', &c, &err), 0);
		for (size_t i = 0; i < rows; i++) {
			assert_int_equal(csv_next(c, &f, &k, &err), 1);
			assert_int_equal(k, columns);
			for (size_t j = 0; j < k; j++) {
				assert_memory_equal(f[j].s, want.s + at, f[j].n);
				at += f[j].n;
				assert_int_equal(want.s[at++], 0);
			}
		}
		assert_int_equal(csv_next(c, &f, &k, &err), 0);
		csv_free(c);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads),
		cmocka_unit_test(refuses),
		cmocka_unit_test(separators),
		cmocka_unit_test(round_trip),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
