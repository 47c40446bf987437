/* JSON written as YAML reads back as the same JSON, whatever is in it. */
#include <string.h>
#include "base/text/yaml_json.h"
#include "unit.h"

static json_t *read_back(const struct str *text)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(yaml_tree_freep) struct yaml_tree *t = NULL;
	_cleanup_(str_deinit) struct str said = { 0 };
	struct err err = { 0 };

	if (yaml_tree_parse("f", text->s, text->len, diags, &t, &err) < 0) {
		diag_render(diags, &said);
		fail_msg("%s\n%s", text->s, said.s);
	}
	return yaml_to_json(t->root);
}

static void check(const json_t *j)
{
	struct str text = { 0 };
	json_t *back;

	yaml_add_json(&text, j);
	back = read_back(&text);
	if (!json_equal(j, back))
		fail_msg("%s", text.s);
	json_decref(back);
	str_deinit(&text);
}

static uint64_t state_ = 1;

static unsigned rnd(unsigned n)
{
	state_ = state_ * 6364136223846793005ULL + 1442695040888963407ULL;
	return (unsigned)((state_ >> 33) % n);
}

static json_t *random_text(void)
{
	static const char *const words[] = { "",
					     "true",
					     "No",
					     "null",
					     "~",
					     "1",
					     "1e3",
					     "0x1",
					     "1:30",
					     "a: b",
					     "- a",
					     "# c",
					     "a #b",
					     "a:",
					     "*x",
					     "&x",
					     "!t",
					     "%d",
					     "@x",
					     "`x`",
					     "{a}",
					     "[a]",
					     "a, b",
					     "'",
					     "\"",
					     "\\",
					     "a\nb",
					     "a\nb\n",
					     " a\nb",
					     "a\n\n\n",
					     "\n",
					     "\t",
					     " a",
					     "a ",
					     "…",
					     "日本",
					     "\x01",
					     "\x7f",
					     "$(X)",
					     "---",
					     "...",
					     "<<",
					     "=",
					     "yes",
					     "2026-01-01",
					     "/usr/bin/x",
					     "a/b:c@sha256:0",
					     "--flag",
					     "a\r\nb",
					     "\u2028x" };
	struct str s = { 0 };
	json_t *j;

	for (unsigned n = rnd(3) + 1; n; n--)
		str_add(&s, words[rnd(ARRAY_LEN(words))]);
	str_add(&s, "");
	j = json_stringn(s.s, s.len);
	str_deinit(&s);
	return j;
}

static json_t *random_value(unsigned depth)
{
	json_t *j;

	switch (rnd(depth ? 8 : 6)) {
	case 0:
		return json_integer((json_int_t)rnd(1000) - 500);
	case 1:
		return json_boolean(rnd(2));
	case 2:
		return json_null();
	case 3:
		return json_real(rnd(1000) / 8.0 + 0.0625);
	case 6:
		j = json_array();
		for (unsigned n = rnd(4); n; n--)
			json_array_append_new(j, random_value(depth - 1));
		return j;
	case 7:
		j = json_object();
		for (unsigned n = rnd(4); n; n--) {
			json_t *key = random_text();

			json_object_set_new(j, json_string_value(key), random_value(depth - 1));
			json_decref(key);
		}
		return j;
	default:
		return random_text();
	}
}

static void test_random(void **state)
{
	for (unsigned i = 0; i < 20000; i++) {
		json_t *j = random_value(4);

		check(j);
		json_decref(j);
	}
}

static void test_plain_where_it_can_be(void **state)
{
	json_t *j = json_pack("{s:s, s:s, s:[s, s], s:{}, s:[]}", "image", "registry.test/a:1",
			      "quoted", "yes", "list", "/usr/bin/x", "2", "map", "none");
	struct str text = { 0 };

	yaml_add_json(&text, j);
	assert_string_equal(text.s, "image: registry.test/a:1\nquoted: \"yes\"\nlist:\n- "
				    "/usr/bin/x\n- \"2\"\nmap: {}\nnone: []\n");
	str_deinit(&text);
	json_decref(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_random),
					    cmocka_unit_test(test_plain_where_it_can_be) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
