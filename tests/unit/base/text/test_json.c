#include <math.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "unit.h"

static json_t *parse(const char *text)
{
	struct err err = { 0 };
	json_t *j = NULL;

	if (json_parse("t", text, strlen(text), &j, &err) < 0)
		fail_msg("`%s`: %s", text, err.msg);
	return j;
}

static const struct {
	const char *in, *want;
} canonical[] = {
	{ "{}", "{}" },
	{ " [ ] ", "[]" },
	{ "{\"b\": 1, \"a\": [true, false, null], \"B\": {\"z\": 1, \"y\": 2}}",
	  "{\"B\":{\"y\":2,\"z\":1},\"a\":[true,false,null],\"b\":1}" },
	{ "[1, 1.0, 0.1, 1e2, -0, -0.0, 1e300, 0.30000000000000004]",
	  "[1,1.0,0.1,100.0,0,-0.0,1e+300,0.30000000000000004]" },
	{ "[9223372036854775807, -9223372036854775808]",
	  "[9223372036854775807,-9223372036854775808]" },
	{ "\"a\\\"b\\\\c\\/\\n\\t\\b\\f\\r\\u0001\\u00e9\\ud83d\\ude00\"",
	  "\"a\\\"b\\\\c/\\n\\t\\b\\f\\r\\u0001\xc3\xa9\xf0\x9f\x98\x80\"" },
	{ "{\"\xc3\xa9\": 1, \"z\": 2, \"\xf0\x9f\x98\x80\": 3, \"\xef\xbf\xbd\": 4}",
	  "{\"z\":2,\"\xc3\xa9\":1,\"\xef\xbf\xbd\":4,\"\xf0\x9f\x98\x80\":3}" },
	{ "5", "5" },
	{ "null", "null" },
	{ "\"\x7f\"", "\"\x7f\"" },
};

static void test_canonical(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(canonical); i++) {
		_cleanup_(json_decrefp) json_t *j = parse(canonical[i].in), *again = NULL;
		_cleanup_(str_deinit) struct str s = { 0 }, t = { 0 };

		json_add_canonical(&s, j);
		assert_string_equal(s.s, canonical[i].want);
		again = parse(s.s);
		json_add_canonical(&t, again);
		assert_string_equal(t.s, s.s);
	}
}

/* The order in which keys were set doesn't show. */
static void test_canonical_order(void **state)
{
	_cleanup_(str_deinit) struct str first = { 0 };

	srand(17);
	for (int round = 0; round < 200; round++) {
		_cleanup_(json_decrefp) json_t *j = json_object();
		_cleanup_(str_deinit) struct str s = { 0 };
		int start = rand() % 50;

		for (int i = 0; i < 50; i++) {
			char key[16];

			snprintf(key, sizeof(key), "k%d", (start + i * 7) % 50);
			json_object_set_new(j, key, json_integer((start + i * 7) % 50));
		}
		json_add_canonical(&s, j);
		if (round == 0)
			str_add(&first, s.s);
		assert_string_equal(s.s, first.s);
	}
}

static void test_reals_round_trip(void **state)
{
	srand(19);
	for (int i = 0; i < 3000; i++) {
		_cleanup_(json_decrefp) json_t *j = NULL, *back = NULL;
		_cleanup_(str_deinit) struct str s = { 0 };
		uint64_t bits = (uint64_t)rand() << 42 ^ (uint64_t)rand() << 21 ^ (uint64_t)rand();
		double v, w;

		memcpy(&v, &bits, sizeof(v));
		if (!isfinite(v))
			continue;
		j = json_real(v);
		json_add_canonical(&s, j);
		if (json_parse("t", s.s, s.len, &back, NULL) < 0)
			fail_msg("%s", s.s);
		assert_true(json_is_real(back));
		w = json_real_value(back);
		assert_memory_equal(&v, &w, sizeof(v));
	}
}

static void test_string_of_any_bytes(void **state)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	json_add_string(&s, "a\xff\0b\xc3", 5);
	assert_string_equal(s.s, "\"a\xef\xbf\xbd\\u0000b\xef\xbf\xbd\"");
}

static const struct {
	const char *in, *want;
} bad[] = {
	{ "", "t:1:1: " },
	{ "{\"a\": 1, \"a\": 2}", "t:1:" },
	{ "[1,\n 2,\n x]", "t:3:2: " },
	{ "[\"\\u0000\"]", "t:1:" },
	{ "{\"\\u0000\": 1}", "t:1:" },
	{ "[\"\xff\"]", "t:1:" },
	{ "[1] x", "t:1:" },
	{ "[99999999999999999999]", "t:1:" },
	{ "[1e999]", "t:1:" },
	{ "[NaN]", "t:1:" },
	{ "['a']", "t:1:" },
	{ "[1,]", "t:1:" },
	{ "]]]]", "t:1:" },
	{ "{1: 2}", "t:1:" },
};

static void test_bad(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err err = { 0 };
		json_t *j = NULL;

		assert_int_equal(json_parse("t", bad[i].in, strlen(bad[i].in), &j, &err), -1);
		assert_null(j);
		assert_int_equal(err.code, ERR_INVALID);
		if (!str_has_prefix(err.msg, bad[i].want))
			fail_msg("`%s`: %s", bad[i].in, err.msg);
	}
}

static void test_depth(void **state)
{
	for (int depth = JSON_DEPTH_MAX; depth <= JSON_DEPTH_MAX + 1; depth++) {
		_cleanup_(str_deinit) struct str s = { 0 };
		_cleanup_(json_decrefp) json_t *j = NULL;

		str_add(&s, "[\"[[[[\\\"[[\",");
		for (int i = 1; i < depth; i++)
			str_addc(&s, '[');
		for (int i = 1; i < depth; i++)
			str_addc(&s, ']');
		str_addc(&s, ']');
		assert_int_equal(json_parse("t", s.s, s.len, &j, NULL),
				 depth <= JSON_DEPTH_MAX ? 0 : -1);
	}
}

static void test_getters(void **state)
{
	_cleanup_(json_decrefp) json_t *o =
		parse("{\"s\": \"x\", \"i\": -5, \"u\": 5, \"r\": 1.5, \"b\": true, \"a\": [1], "
		      "\"o\": {}, \"n\": null}");
	struct err err = { 0 };
	const char *s;
	int64_t i;
	uint64_t u;
	double r;
	bool b;
	json_t *a;

	assert_true(json_get_str(o, "s", &s, &err) == 0 && strcmp(s, "x") == 0);
	assert_true(json_get_int(o, "i", &i, &err) == 0 && i == -5);
	assert_true(json_get_uint(o, "u", &u, &err) == 0 && u == 5);
	assert_true(json_get_real_opt(o, "r", 0, &r, &err) == 0 && r == 1.5);
	assert_true(json_get_real_opt(o, "i", 0, &r, &err) == 0 && r == -5);
	assert_true(json_get_bool(o, "b", &b, &err) == 0 && b);
	assert_true(json_get_array(o, "a", &a, &err) == 0 && json_array_size(a) == 1);
	assert_true(json_get_object(o, "o", &a, &err) == 0 && json_is_object(a));
	assert_int_equal(err.code, ERR_NONE);

	assert_int_equal(json_get_str(o, "missing", &s, &err), -1);
	assert_string_equal(err.msg, "`missing` is missing");
	assert_int_equal(json_get_str(o, "a", &s, &err), -1);
	assert_string_equal(err.msg, "`a` must be a string, not an array");
	assert_int_equal(json_get_int(o, "r", &i, &err), -1);
	assert_string_equal(err.msg, "`r` must be an integer, not a number");
	assert_int_equal(json_get_uint(o, "i", &u, &err), -1);
	assert_string_equal(err.msg, "`i` must not be negative");
	assert_int_equal(json_get_bool(o, "n", &b, &err), -1);
	assert_string_equal(err.msg, "`n` must be true or false, not null");
	assert_int_equal(json_get_str(json_object_get(o, "a"), "x", &s, &err), -1);
	assert_string_equal(err.msg, "must be an object");
	assert_int_equal(json_get_str(NULL, "x", &s, &err), -1);
	assert_int_equal(err.code, ERR_INVALID);
}

static void test_optional_getters(void **state)
{
	_cleanup_(json_decrefp) json_t *o = parse("{\"s\": \"x\", \"n\": null, \"i\": 3}");
	const char *s;
	int64_t i;
	double r;
	bool b;

	assert_true(json_get_str_opt(o, "s", "d", &s, NULL) == 0 && strcmp(s, "x") == 0);
	assert_true(json_get_str_opt(o, "n", "d", &s, NULL) == 0 && strcmp(s, "d") == 0);
	assert_true(json_get_str_opt(o, "zz", NULL, &s, NULL) == 0 && s == NULL);
	assert_true(json_get_int_opt(o, "zz", 7, &i, NULL) == 0 && i == 7);
	assert_true(json_get_int_opt(o, "i", 7, &i, NULL) == 0 && i == 3);
	assert_true(json_get_real_opt(o, "zz", 0.5, &r, NULL) == 0 && r == 0.5);
	assert_true(json_get_bool_opt(o, "zz", true, &b, NULL) == 0 && b);
	assert_int_equal(json_get_bool_opt(o, "i", true, &b, NULL), -1);
	assert_int_equal(json_get_int_opt(o, "s", 0, &i, NULL), -1);
	assert_int_equal(json_get_str_opt(NULL, "s", "d", &s, NULL), -1);
}

static void test_names(void **state)
{
	static const struct {
		const char *raw, *text;
	} cases[] = {
		{ "plain", "plain" }, { "caf\xc3\xa9", "caf\xc3\xa9" }, { "a\\b", "a\\\\b" },
		{ "\xff", "\\xff" },  { "a\xc3(", "a\\xc3(" },          { "\\xff", "\\\\xff" },
		{ "", "" },           { "new\nline", "new\nline" },
	};
	static const char *const wrong[] = { "\\",    "\\x", "\\xf", "\\xFF",
					     "\\x41", "\\n", "a\\",  "\\xc3\\xa9" };

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(str_deinit) struct str text = { 0 }, raw = { 0 };

		json_name_encode(&text, cases[i].raw, strlen(cases[i].raw));
		assert_string_equal(text.s ? text.s : "", cases[i].text);
		assert_int_equal(json_name_decode(&raw, cases[i].text, NULL), 0);
		assert_string_equal(raw.s ? raw.s : "", cases[i].raw);
	}
	for (size_t i = 0; i < ARRAY_LEN(wrong); i++) {
		_cleanup_(str_deinit) struct str raw = { 0 };

		str_add(&raw, "kept");
		if (json_name_decode(&raw, wrong[i], NULL) == 0)
			fail_msg("`%s`", wrong[i]);
		assert_string_equal(raw.s, "kept");
	}
}

static void test_names_random(void **state)
{
	srand(23);
	for (int round = 0; round < 3000; round++) {
		_cleanup_(str_deinit) struct str text = { 0 }, back = { 0 };
		_cleanup_(json_decrefp) json_t *j = NULL;
		char raw[24];
		size_t n = (size_t)rand() % sizeof(raw);

		for (size_t i = 0; i < n; i++)
			raw[i] = (char)(rand() % 4 ? "\\x41f\xc3\xa9\xe6\xbc\xa2\0"[rand() % 12]
						   : rand());
		json_name_encode(&text, raw, n);
		assert_true(text_is_utf8(text.s ? text.s : "", text.len));
		assert_int_equal(json_name_decode(&back, text.s ? text.s : "", NULL), 0);
		assert_int_equal(back.len, n);
		assert_memory_equal(back.s ? back.s : "", raw, n);
		j = json_name(raw, n);
		assert_non_null(j);
		assert_string_equal(json_string_value(j), text.s ? text.s : "");
	}
}

static void test_files(void **state)
{
	char dir[TEST_DIR_MAX];
	_cleanup_(freep) char *path = NULL;
	_cleanup_(json_decrefp) json_t *j = parse("{\"b\": [0.1, {}], \"a\": []}"), *back = NULL;
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err err = { 0 };

	test_dir(dir, sizeof(dir), "json");
	path = fs_join(dir, "x.json");
	assert_int_equal(json_write_file(path, j, true, &err), 0);
	assert_int_equal(fs_read_file(path, 1000, &text, &err), 0);
	assert_string_equal(text.s, "{\n  \"a\": [],\n  \"b\": [\n    0.1,\n    {}\n  ]\n}\n");
	assert_int_equal(json_write_file(path, j, false, &err), 0);
	assert_int_equal(json_read_file(path, 0, &back, &err), 0);
	assert_true(json_equal(j, back));
	json_decref(back);
	back = NULL;
	assert_int_equal(json_read_file(path, 5, &back, &err), -1);
	assert_int_equal(err.code, ERR_TOO_LARGE);
	assert_int_equal(fs_write_atomic(path, "[\n,]", 4, &err), 0);
	assert_int_equal(json_read_file(path, 0, &back, &err), -1);
	assert_non_null(strstr(err.msg, "x.json:2:1: "));
	assert_int_equal(fs_remove_tree(dir, &err), 0);
	assert_int_equal(json_read_file(path, 0, &back, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_canonical),
		cmocka_unit_test(test_canonical_order),
		cmocka_unit_test(test_reals_round_trip),
		cmocka_unit_test(test_string_of_any_bytes),
		cmocka_unit_test(test_bad),
		cmocka_unit_test(test_depth),
		cmocka_unit_test(test_getters),
		cmocka_unit_test(test_optional_getters),
		cmocka_unit_test(test_names),
		cmocka_unit_test(test_names_random),
		cmocka_unit_test(test_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
