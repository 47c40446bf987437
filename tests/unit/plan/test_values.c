/* `values` files: what is read, what is refused and why, and finding values by their path; then
 * random objects against a naive model. */
#include <math.h>
#include <string.h>
#include "core/fixture.h"
#include "core/seeds.h"
#include "plan/values.h"
#include "unit.h"

/* The value at `path` as JSON; "!message" for an error. */
static void look(struct str *out, const char *json, const char *path)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct err err = { 0 };
	const struct value *found;
	struct value v;

	str_reset(out);
	if (values_parse("v", json, strlen(json), arena, &v, &err) < 0 ||
	    values_at(&v, path, &found, &err) < 0)
		str_addf(out, "!%s", err.msg);
	else
		value_add_json(out, found);
}

static void test_found(void **state)
{
	static const char *const rows[][3] = {
		{ "{\"a\": 1}", "a", "1" },
		{ "{\"a\": -0}", "a", "0" },
		{ "{\"a\": 1.5e2}", "a", "150.0" },
		{ "{\"a\": 0.1}", "a", "0.1" },
		{ "{\"a\": 0.10000000000000001}", "a", "0.1" },
		{ "{\"a\": 0.1000000000000000055511151231257827021181583404541015625}", "a",
		  "0.1" },
		{ "{\"a\": 0.30000000000000004}", "a", "0.30000000000000004" },
		{ "{\"a\": 9223372036854775807}", "a", "9223372036854775807" },
		{ "{\"a\": -9223372036854775808}", "a", "-9223372036854775808" },
		{ "{\"a\": 5e-324}", "a", "5e-324" },
		{ "{\"a\": 0.000e99}", "a", "0.0" },
		{ "{\"a\": 100e-2}", "a", "1.0" },
		{ "{\"a\": \"12345678901234567890 \\\" 1e999\"}", "a",
		  "\"12345678901234567890 \\\" 1e999\"" },
		{ "{\"a\": null}", "a", "null" },
		{ "{\"a\": true}", "a", "true" },
		{ "{\"a\": []}", "a", "[]" },
		{ "{\"z\": 1, \"a\": {\"z\": [1, \"x\"], \"b\": {}}}", "a",
		  "{\"b\":{},\"z\":[1,\"x\"]}" },
		{ "{\"a\": {\"z\": [1, \"x\"]}}", "a.z.1", "\"x\"" },
		{ "{\"a\": [[{\"b\": 7}]]}", "a.0.0.b", "7" },
		{ "{\"a\": {\"7\": 8}}", "a.7", "8" },
		{ "{\"a.b\": 1, \"a\": {\"b\": 2, \"c\": 3}}", "a.b", "1" },
		{ "{\"a.b\": 1, \"a\": {\"b\": 2, \"c\": 3}}", "a.c", "3" },
		{ "{\"gr\xc3\xb6\xc3\x9f"
		  "e\": 1}",
		  "gr\xc3\xb6\xc3\x9f"
		  "e",
		  "1" },
		{ "{\"top-5 acc\": 1}", "top-5 acc", "1" },
	};
	struct str out = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		look(&out, rows[i][0], rows[i][1]);
		assert_string_equal(out.s, rows[i][2]);
	}
	str_deinit(&out);
}

static void test_refused(void **state)
{
	static const char *const rows[][3] = {
		{ "", "a", "!v:1:1:" },
		{ "[1]", "a", "it must be a JSON object, {\"name\": value}, not an array" },
		{ "3", "a", "not an integer" },
		{ "{\"a\": NaN}", "a", "!v:1:" },
		{ "{\"a\": Infinity}", "a", "!v:1:" },
		{ "{\"a\": 1, \"a\": 2}", "a", "duplicate object key" },
		{ "{\"a\": {\"b\": 1, \"b\": 1}}", "a", "duplicate object key" },
		{ "{\"a\": 1} x", "a", "!v:1:" },
		{ "{\"a\": 1,}", "a", "!v:1:" },
		{ "{'a': 1}", "a", "!v:1:" },
		{ "{\"a\": 01}", "a", "!v:1:" },
		{ "{\"a\": \"\xff\"}", "a", "!v:1:" },
		{ "{\"a\": \"\\u0000\"}", "a", "!v:1:" },
		{ "{\"a\": \"\\ud800\"}", "a", "!v:1:" },
		{ "{\n\"a\": 9223372036854775808}", "a",
		  "!v, line 2: the number 9223372036854775808 doesn't fit 64 bits" },
		{ "{\"a\": 1e999}", "a", "doesn't fit" },
		{ "{\"a\": 1e-999}", "a", "doesn't fit" },
		{ "{\"a\": 1e99999999999999999999}", "a", "doesn't fit" },
		{ "{\"a\": -1e-99999999999999999999}", "a", "doesn't fit" },
		{ "{\"a\": 0.12345678901234567891}", "a", "doesn't fit" },
		{ "{\"a\": 12345678901234567890.0}", "a", "doesn't fit" },
		{ "{\"a\": 1, \"b\": 2}", "c", "!there is no `c`, but `a`, `b`" },
		{ "{}", "c", "!there is no `c`, but nothing at all" },
		{ "{\"a\": {\"b\": 2}}", "a.c", "!there is no `a.c`: `a` has `b`" },
		{ "{\"a\": {\"b\": 2}}", "a.b.c", "!there is no `a.b.c`: `a.b` is an int" },
		{ "{\"a\": [1, 2]}", "a.2",
		  "!there is no `a.2`: `a` is a list of 2, its items are 0 to 1" },
		{ "{\"a\": [1, 2]}", "a.x", "!there is no `a.x`: `a` is a list of 2" },
		{ "{\"a\": [1, 2]}", "a.99999999999999999999", "!there is no" },
		{ "{\"a\": [1, 2]}", "a.-1", "!there is no" },
	};
	struct str out = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		look(&out, rows[i][0], rows[i][1]);
		if (out.s[0] != '!' || !strstr(out.s, rows[i][2]))
			fail_msg("%s\n%s says %s, not %s", rows[i][0], rows[i][1], out.s,
				 rows[i][2]);
	}
	str_deinit(&out);
}

static void test_limits(void **state)
{
	struct str json = { 0 }, out = { 0 };

	for (int over = 0; over < 2; over++) {
		str_reset(&json);
		str_add(&json, "{\"a\": [0");
		for (int i = 1; i < VALUES_MAX_ITEMS + over; i++)
			str_addf(&json, ",%d", i);
		str_add(&json, "]}");
		look(&out, json.s, "a.9999");
		assert_non_null(strstr(out.s, over ? "a list of 10001 members" : "9999"));
		str_reset(&json);
		str_add(&json, "{\"a\": ");
		for (int i = 1; i < VALUES_MAX_DEPTH + over; i++)
			str_addc(&json, '[');
		for (int i = 1; i < VALUES_MAX_DEPTH + over; i++)
			str_addc(&json, ']');
		str_addc(&json, '}');
		look(&out, json.s, "a");
		assert_non_null(strstr(out.s, over ? "deeper in one another than 16" : "[[["));
		str_reset(&json);
		str_add(&json, "{\"a\": \"");
		while (json.len < VALUES_MAX_BYTES - 2 + (size_t)over)
			str_addc(&json, 'x');
		str_add(&json, "\"}");
		look(&out, json.s, "a");
		assert_int_equal(out.s[0], over ? '!' : '"');
	}
	str_reset(&json);
	for (int i = 0; i < 100000; i++)
		str_add(&json, "[");
	look(&out, json.s, "a");
	assert_non_null(strstr(out.s, "nested deeper"));
	str_deinit(&json);
	str_deinit(&out);
}

/* A random value, written as JSON twice: as a program might write it, and as the model expects it.
 * Every leaf is added to `paths` with its expected JSON. */
struct made {
	uint64_t seed;
	struct str json;
	struct str path;
	VEC(char *) paths;
	VEC(char *) wants;
};

static void make(struct made *m, unsigned depth)
{
	unsigned kind = pick(&m->seed, depth > 5 ? 5 : 7), n = pick(&m->seed, 4);
	size_t start = m->json.len, len = m->path.len;
	double f;

	switch (kind) {
	case 0:
		str_addf(&m->json, "%lld", (long long)m->seed);
		break;
	case 1: /* any double, with as many digits as it takes */
		memcpy(&f, &m->seed, sizeof(f));
		str_addf(&m->json, "%.17g", isfinite(f) ? f : 0.5);
		if (!strpbrk(m->json.s + start, ".e"))
			str_add(&m->json, ".0");
		break;
	case 2:
		str_add(&m->json, n ? "true" : "null");
		break;
	case 3:
	case 4:
		json_add_string(&m->json, "a \"b\" 1e999 \xc3\xbc", 10 + n);
		break;
	default:
		str_addc(&m->json, kind == 5 ? '[' : '{');
		for (unsigned i = 0; i < n; i++) {
			str_add(&m->json, i ? " , " : "");
			if (kind == 6)
				str_addf(&m->json, "\"k%u\" :", i);
			str_addf(&m->path, kind == 6 ? "%sk%u" : "%s%u", len ? "." : "", i);
			make(m, depth + 1);
			m->path.len = len;
			m->path.s[len] = '\0';
		}
		str_addc(&m->json, kind == 5 ? ']' : '}');
		return;
	}
	if (len) {
		VEC_PUSH(&m->paths, xstrdup(m->path.s));
		VEC_PUSH(&m->wants, xstrdup(m->json.s + start));
	}
}

static void test_random(void **state)
{
	struct seeds seeds = seeds_of(0, 3000);

	for (uint64_t seed = seeds.from; seed < seeds.to; seed++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		struct made m = { .seed = mix(seed, 5) };
		struct value v, again;
		struct str text = { 0 };
		struct err err = { 0 };

		str_add(&m.path, "");
		str_add(&m.json, "{");
		for (unsigned i = 0; i < 3; i++) {
			str_addf(&m.json, "%s\"m%u\":", i ? "," : "", i);
			str_reset(&m.path);
			str_addf(&m.path, "m%u", i);
			make(&m, 2);
		}
		str_add(&m.json, "}");
		if (values_parse("v", m.json.s, m.json.len, arena, &v, &err) < 0)
			fail_msg("seed %llu: %s\n%s", (unsigned long long)seed, err.msg, m.json.s);
		for (size_t i = 0; i < m.paths.n; i++) {
			const struct value *found;
			_cleanup_(json_decrefp) json_t *want = NULL, *got = NULL;

			assert_int_equal(values_at(&v, m.paths.v[i], &found, &err), 0);
			str_reset(&text);
			value_add_json(&text, found);
			assert_int_equal(
				json_parse("w", m.wants.v[i], strlen(m.wants.v[i]), &want, &err),
				0);
			assert_int_equal(json_parse("g", text.s, text.len, &got, &err), 0);
			if (!json_equal(want, got))
				fail_msg("seed %llu, %s: %s is not %s", (unsigned long long)seed,
					 m.paths.v[i], text.s, m.wants.v[i]);
			free(m.paths.v[i]);
			free(m.wants.v[i]);
		}
		/* What it is written as reads back as the same. */
		str_reset(&text);
		value_add_json(&text, &v);
		assert_int_equal(values_parse("v", text.s, text.len, arena, &again, &err), 0);
		assert_true(value_eq(&v, &again));
		str_deinit(&text);
		str_deinit(&m.json);
		str_deinit(&m.path);
		VEC_FREE(&m.paths);
		VEC_FREE(&m.wants);
	}
}

static void test_secret(void **state)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	static const char json[] = "{\"a\": [{\"b\": \"x hunter2 y\"}], \"caf\\u00e9\": 1}";
	struct value v;

	assert_int_equal(values_parse("v", json, strlen(json), arena, &v, NULL), 0);
	assert_true(values_hold(&v, "hunter2"));
	assert_true(values_hold(&v, "caf\xc3\xa9")); /* escaped in the file */
	assert_false(values_hold(&v, "hunter3"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_found),  cmocka_unit_test(test_refused),
		cmocka_unit_test(test_limits), cmocka_unit_test(test_random),
		cmocka_unit_test(test_secret),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
