/* train: which lines are metrics, and what is in them. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/text/text.h"
#include "steps/train/gang.h"
#include "unit.h"

static void add(void *arg, const char *name, double v)
{
	struct str *s = arg;

	str_addf(s, "%s%s=", s->len ? " " : "", name);
	text_add_double(s, v);
}

static const struct {
	const char *line, *want; /* NULL: not a line of metrics */
} cases[] = {
	{ "loss=0.5", "loss=0.5" },
	{ "  loss=0.5\tacc=1e-3  step=7 \r", "loss=0.5 acc=0.001 step=7" },
	{ "loss=0.5, acc=0.25; lr=1,", "loss=0.5 acc=0.25 lr=1" },
	{ "val/acc@1=3 a.b-c_d=4", "val/acc@1=3 a.b-c_d=4" },
	{ "loss=nan acc=-inf up=Infinity x=NaN", "loss=nan acc=-inf up=inf x=nan" },
	{ "epoch 3: loss=0.5", NULL },
	{ "loss=0.5 done", NULL },
	{ "loss=", NULL },
	{ "=3", NULL },
	{ "3=4", NULL },
	{ "loss=0x10", NULL },
	{ "loss=1=2", NULL },
	{ "", NULL },
	{ "   ", NULL },
	{ "{\"loss\": 0.5, \"step\": 3}", "loss=0.5 step=3" },
	{ "{\"loss\": 0.5, \"who\": \"me\", \"val\": {\"acc\": 1, \"by\": {\"class\": 2}}, \"l\": "
	  "[1]}",
	  "loss=0.5 val.acc=1 val.by.class=2" },
	{ "{\"loss\": NaN, \"note\": \"NaN \\\"NaN\", \"up\": -Infinity}", "loss=nan up=nan" },
	{ "{\"loss\": null, \"step\": 1}", "loss=nan step=1" },
	{ "{\"loss\": null}", NULL },
	{ "{\"who\": \"me\"}", NULL },
	{ "{\"loss\": 0.5", NULL },
	{ "{\"loss\": 0.5} x", NULL },
	{ "{NaN}", NULL },
	{ "{'loss': 0.5}", NULL },
	{ "[1, 2]", NULL },
};

static void test_lines(void **state)
{
	assert_false(gang_metrics_of_line("a\0b=1", 5, add, NULL)); /* a NUL is part of no name */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct str got = { 0 };
		/* In memory of its own size: nothing behind the line may be read. */
		char *line = xmalloc(strlen(cases[i].line) + (cases[i].line[0] == '\0'));
		bool is;

		memcpy(line, cases[i].line, strlen(cases[i].line));
		str_add(&got, "");
		is = gang_metrics_of_line(line, strlen(cases[i].line), add, &got);
		if (is != (cases[i].want != NULL) ||
		    strcmp(got.s, cases[i].want ? cases[i].want : "") != 0)
			fail_msg("`%s`: `%s`, not `%s`", cases[i].line, is ? got.s : "(none)",
				 cases[i].want ? cases[i].want : "(none)");
		str_deinit(&got);
		free(line);
	}
}

static void test_long_names_and_depth(void **state)
{
	struct str line = { 0 }, got = { 0 };

	for (int i = 0; i < 200; i++)
		str_addc(&line, 'a');
	str_add(&line, "=1");
	assert_false(gang_metrics_of_line(line.s, line.len, add, &got));
	str_reset(&line);
	for (int i = 0; i < 1000; i++)
		str_add(&line, "{\"a\":");
	str_add(&line, "1");
	for (int i = 0; i < 1000; i++)
		str_add(&line, "}");
	assert_false(gang_metrics_of_line(line.s, line.len, add, &got));
	str_deinit(&line);
	str_deinit(&got);
}

/* A name that holds a secret is no metric; the others of its line are. */
static void test_secrets(void **state)
{
	static const char *const lines[] = {
		"loss=0.5 hush-1=2 a/hush-1.b=3 acc=1",
		"{\"loss\": 0.5, \"x\": {\"a hush-1\": 2}, \"acc\": 1}"
	};

	setenv("CAIRN_SECRETS", "NONE TOKEN SHORT", 1);
	setenv("TOKEN", "hush-1", 1);
	setenv("SHORT", "ss", 1);
	for (size_t i = 0; i < ARRAY_LEN(lines); i++) {
		_cleanup_(str_deinit) struct str got = { 0 };

		assert_true(gang_metrics_of_line(lines[i], strlen(lines[i]), add, &got));
		assert_string_equal(got.s, "loss=0.5 acc=1");
	}
	unsetenv("CAIRN_SECRETS");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_lines),
					    cmocka_unit_test(test_secrets),
					    cmocka_unit_test(test_long_names_and_depth) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
