#include <stdlib.h>
#include <string.h>
#include "base/macros.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/help/help.h"
#include "unit.h"

/* A command line as words, and what must come out: command, options in order, operands; or the
 * error. */
static const struct {
	const char *words, *want;
} cases[] = {
	{ "run", "run" },
	{ "run a.yaml train", "run | a.yaml train" },
	{ "run -j4", "run jobs=4" },
	{ "run -j 4 a.yaml", "run jobs=4 | a.yaml" },
	{ "run --jobs=4 --jobs 5", "run jobs=4 jobs=5" },
	{ "run -kqj 3", "run keep-going= quiet= jobs=3" },
	{ "run -p a=b -pc=d --param e=f", "run param=a=b param=c=d param=e=f" },
	{ "run -- -x --json", "run | -x --json" },
	{ "run - x", "run | - x" },
	{ "run --param=", "run param=" },
	{ "run --force", "run force=*" },
	{ "run --force=a --force b", "run force=a force=b" },
	{ "run --force -k x", "run force=* keep-going= | x" },
	{ "run --force p.yaml b", "run force=* | p.yaml b" },
	{ "run --force -- b", "run force=* | b" },
	{ "run -kf", "run keep-going= force=*" },
	{ "run -fa -f b", "run force=a force=b" },
	{ "run --on kubernetes --store /x", "run on=kubernetes store=/x" },
	{ "run --on cluster", "run on=cluster" },
	{ "run --on", "error: --on needs a value: --on RUNNER" },
	{ "-v run -v", "run verbose= verbose=" },
	{ "-C dir run", "run directory=dir" },
	{ "-Cdir run", "run directory=dir" },
	{ "-vC dir run", "run verbose= directory=dir" },
	{ "--directory dir run x", "run directory=dir | x" },
	{ "--color never run", "run color=never" },
	{ "store gc -n", "store gc dry-run=" },
	{ "store -v gc --keep 3d", "store gc verbose= keep=3d" },
	{ "-C d store -C e gc", "store gc directory=d directory=e" },
	{ "run store gc", "run | store gc" },
	{ "-- run", "run" },
	{ "run --help --nonsense", "error: unknown option `--nonsense`" },
	{ "run --help a b", "help run help= | a b" },
	{ "store --help", "help store help=" },
	{ "store", "error: `cairn store` needs a subcommand; see `cairn store --help`" },
	{ "store gcc",
	  "error: unknown command `store gcc` (did you mean `gc`?); see `cairn store --help`" },
	{ "rnu", "error: unknown command `rnu` (did you mean `run`?); see `cairn --help`" },
	{ "a.yaml", "error: unknown command `a.yaml` (did you mean `cairn run a.yaml`?); see "
		    "`cairn --help`" },
	{ "run --job 3", "error: unknown option `--job` (did you mean `--jobs`?)" },
	{ "run --jobs", "error: --jobs needs a value: --jobs N" },
	{ "run -j", "error: -j needs a value: -j N" },
	{ "run -x", "error: unknown option `-x`" },
	{ "run --keep-going=yes", "error: --keep-going takes no value" },
	{ "run --color=red", "error: --color must be auto, always or never, not `red`" },
	{ "version --jobs 3", "error: unknown option `--jobs`" },
	{ "logs --json", "error: unknown option `--json`" },
	{ "version --jsn", "error: unknown option `--jsn` (did you mean `--json`?)" },
	{ "version x", "error: unexpected `x`; see `cairn version --help`" },
	{ "get", "error: an operand is missing: cairn get WHAT" },
	{ "completion csh",
	  "error: SHELL must be bash, zsh or fish, not `csh` (did you mean `zsh`?)" },
	{ "--version", "version" },
	{ "-q", "error: a command is missing; see `cairn --help`" },
	{ "--jobs 3 run", "error: unknown command `3`; see `cairn --help`" },
};

static void render(const struct cli_args *a, struct str *out)
{
	if (a->help)
		str_add(out, "help ");
	if (a->version)
		str_add(out, "version");
	if (a->command)
		help_add_name(out, a->command, a->parent);
	for (size_t i = 0; i < a->n_given; i++)
		str_addf(out, " %s=%s", a->given[i].option->name, a->given[i].value);
	for (size_t i = 0; i < a->n_operands; i++)
		str_addf(out, "%s%s", i ? " " : " | ", a->operands[i]);
}

static int parse(const char *line, struct cli_args *ret, char **ret_copy, struct err *err)
{
	static char *argv[32];
	int argc = 1;

	argv[0] = (char *)(uintptr_t) "cairn";
	*ret_copy = xstrdup(line);
	for (char *rest, *w = strtok_r(*ret_copy, " ", &rest); w; w = strtok_r(NULL, " ", &rest))
		argv[argc++] = w;
	argv[argc] = NULL;
	return cli_parse(argc, argv, ret, err);
}

static void test_table(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(str_deinit) struct str got = { 0 };
		_cleanup_(freep) char *copy = NULL;
		struct err err = { 0 };
		struct cli_args a;

		if (parse(cases[i].words, &a, &copy, &err) < 0) {
			assert_int_equal(err.code, ERR_USAGE);
			str_addf(&got, "error: %s", err.msg);
		} else {
			render(&a, &got);
		}
		assert_string_equal(got.s, cases[i].want);
		cli_args_deinit(&a);
	}
}

static void test_values(void **state)
{
	_cleanup_(freep) char *copy = NULL;
	struct err err = { 0 };
	struct cli_args a;
	uint64_t n = 7;
	int64_t ns = 9;
	struct arena *arena = arena_new();
	const char *const *v;
	size_t n_values;

	assert_int_equal(parse("run -p a=1 -j 3 -p b=2 --jobs=5", &a, &copy, &err), 0);
	assert_int_equal(cli_count(&a, "param"), 2);
	assert_string_equal(cli_value(&a, "param"), "b=2");
	assert_string_equal(cli_value_at(&a, "param", 0), "a=1");
	assert_null(cli_value(&a, "from"));
	assert_false(cli_flag(&a, "keep-going"));
	v = cli_values(&a, "param", arena, &n_values);
	assert_int_equal(n_values, 2);
	assert_string_equal(v[1], "b=2");
	arena_free(arena);
	assert_int_equal(cli_uint(&a, "jobs", 1, 100, &n, &err), 0);
	assert_int_equal(n, 5);
	assert_int_equal(cli_uint(&a, "jobs", 1, 4, &n, &err), -1);
	assert_string_equal(err.msg, "--jobs must be a whole number from 1 to 4, not `5`");
	cli_args_deinit(&a);
	free(TAKE_PTR(copy));

	assert_int_equal(parse("store gc --keep 2d --grace x --keep-runs -3", &a, &copy, &err), 0);
	assert_int_equal(cli_duration_value(&a, "keep", &ns, &err), 0);
	assert_int_equal(ns, 2 * 86400 * NS_PER_S);
	assert_int_equal(cli_duration_value(&a, "grace", &ns, &err), -1);
	assert_int_equal(err.code, ERR_USAGE);
	assert_int_equal(cli_uint(&a, "keep-runs", 0, 9, &n, &err), -1);
	cli_args_deinit(&a);
}

/* Every entry of the table is whole and consistent: this is what help, man pages and completions
 * rely on. */
static void check_command(const struct cli_command *c, const struct cli_command *parent)
{
	bool letters[128] = { 0 };

	assert_non_null(c->summary);
	assert_non_null(c->examples);
	assert_non_null(c->examples[0].line);
	assert_non_null(c->description);
	assert_true(c->run || c->subcommands);
	if (c->run)
		assert_true(c->operands && c->min <= c->max && (c->max > 0) == (*c->operands != 0));
	assert_int_equal(c->complete == COMPLETE_CHOICE, c->operand_choices != NULL);
	for (const struct cli_option *o = cli_global_options; o->name; o++)
		letters[(int)o->letter] = o->letter != 0;
	for (const struct cli_option *o = c->options; o && o->name; o++) {
		assert_false(letters[(int)o->letter]); /* no letter twice, none of the program's */
		letters[(int)o->letter] = o->letter != 0;
		assert_non_null(o->help);
		assert_int_equal(o->complete == COMPLETE_CHOICE, o->choices != NULL);
		assert_true(o->arg || (!o->choices && o->complete == COMPLETE_NONE));
		assert_string_not_equal(o->name, "json");
		for (const struct cli_option *p = c->options; p != o; p++)
			assert_string_not_equal(p->name, o->name);
	}
	for (const struct cli_example *e = c->examples; e->line; e++)
		assert_non_null(e->what);
	for (const struct cli_command *s = c->subcommands; s && s->name; s++)
		check_command(s, c);
}

static void test_commands_are_whole(void **state)
{
	size_t n = 0;

	for (const struct cli_command *c = cli_commands; c->name; c++, n++)
		check_command(c, NULL);
	assert_true(n >= 20);
}

/* The examples of the table are command lines that the table itself accepts. */
static void check_examples(const struct cli_command *c)
{
	for (const struct cli_example *e = c->examples; e->line; e++) {
		_cleanup_(freep) char *line = NULL, *copy = NULL;
		struct err err = { 0 };
		struct cli_args a;

		assert_true(str_has_prefix(e->line, "cairn "));
		line = xstrndup(e->line + 6, strcspn(e->line + 6, "<>|'"));
		if (strchr(e->line, '\''))
			continue; /* quoting is the shell's */
		if (parse(line, &a, &copy, &err) < 0)
			fail_msg("%s: %s", e->line, err.msg);
		cli_args_deinit(&a);
	}
	for (const struct cli_command *s = c->subcommands; s && s->name; s++)
		check_examples(s);
}

static void test_examples_parse(void **state)
{
	for (const struct cli_command *c = cli_commands; c->name; c++)
		check_examples(c);
}

/* Random words never crash it, and an error always says something. */
static void test_random(void **state)
{
	static const char *const words[] = {
		"run",     "store",        "gc",     "-j",     "-j3",    "--jobs",  "--jobs=",
		"=",       "--",           "-",      "-C",     "--json", "-vv",     "-xyz",
		"--=",     "---",          "secret", "set",    "x",      "--param", "-p",
		"--color", "--color=auto", "help",   "--help", "\xff"
	};
	unsigned seed = 1;

	for (int round = 0; round < 20000; round++) {
		char *argv[8] = { (char *)(uintptr_t) "cairn" };
		int argc = 1 + rand_r(&seed) % 7;
		struct err err = { 0 };
		struct cli_args a;

		for (int i = 1; i < argc; i++)
			argv[i] =
				(char *)(uintptr_t)words[(size_t)rand_r(&seed) % ARRAY_LEN(words)];
		if (cli_parse(argc, argv, &a, &err) < 0)
			assert_true(err.code == ERR_USAGE && err.msg[0]);
		else
			assert_true(a.command || a.help || a.version);
		cli_args_deinit(&a);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_table),
		cmocka_unit_test(test_values),
		cmocka_unit_test(test_commands_are_whole),
		cmocka_unit_test(test_examples_parse),
		cmocka_unit_test(test_random),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
