/* engine/cli/cli.c — from main() to a command and back; errors, warnings, notices.
 *
 * cli_main() parses the command line, applies the options of the program, calls the function that
 * the table names, and flushes. cli_init() finds once, from the environment, what the two streams
 * can do: colour, UTF-8, a cursor that moves.
 *
 * Everything to cli->err goes through say() or cli_note(), or with --json through
 * render/problems.c. Both flush cli->out first, so that the two streams keep their order where they
 * share a terminal. say() makes its text printable; callers
 * of cli_note() must do that themselves.
 *
 * Only finish_output() knows whether output was written: a full disk turns success into
 * CLI_ENVIRONMENT. A reader that closed its pipe is no error.
 *
 * Invariants: an error is printed once, by the command that gives up (cli_fail()). After any
 * command, one warning counts the records that were ignored because their signature isn't trusted.
 *
 * Threads: one. What it doesn't do: parse (options.c), open project, database or store (context.c),
 * format facts (render/output.c).
 */
#include "cli/cli.h"
#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include "base/text/text.h"
#include "cli/help/help.h"
#include "plan/plan.h"
#include "storage/signature.h"

/* Streams. */

static bool is_terminal(FILE *f)
{
	const char *term = getenv("TERM");
	int fd = fileno(f);

	return fd >= 0 && isatty(fd) && term && *term && strcmp(term, "dumb") != 0;
}

/* no-color.org and bixense.com/clicolors: NO_COLOR forbids colour, CLICOLOR_FORCE always wants it;
 * otherwise only terminals get it. */
static bool wants_color(bool tty)
{
	const char *force = getenv("CLICOLOR_FORCE"), *no = getenv("NO_COLOR");

	if (no && *no)
		return false;
	if (force && *force && strcmp(force, "0") != 0)
		return true;
	return tty && !str_eq(getenv("CLICOLOR"), "0");
}

void cli_init(struct cli *cli, FILE *out, FILE *err)
{
	/* By the locale's name: setlocale() would read files, almost always for the same answer. */
	static const char *const names[] = { "LC_ALL", "LC_CTYPE", "LANG" };
	const char *locale = NULL;

	for (size_t i = 0; i < ARRAY_LEN(names) && !(locale && *locale); i++)
		locale = getenv(names[i]);
	*cli = (struct cli){ .out = out, .err = err };
	cli->tty_out = is_terminal(out);
	cli->tty_err = is_terminal(err);
	cli->color_out = wants_color(cli->tty_out);
	cli->color_err = wants_color(cli->tty_err);
	cli->utf8 = locale && (strcasestr(locale, "utf-8") || strcasestr(locale, "utf8"));
	cli->arena = arena_new();
}

void cli_deinit(struct cli *cli)
{
	plan_ahead_free(cli->ahead);
	db_close(cli->db);
	store_free(cli->store);
	config_free(cli->config);
	json_decref(cli->errors);
	json_decref(cli->warnings);
	arena_free(cli->arena);
	*cli = (struct cli){ 0 };
}

/* Errors. */

static void say(struct cli *cli, enum cli_style style, const char *kind, const char *text)
{
	_cleanup_(str_deinit) struct str s = { 0 }, shown = { 0 };

	if (cli->json && style == STYLE_RED) {
		cli_add_error_text(cli, text);
		return;
	}
	if (cli->json) {
		cli_add_finding(cli, &(struct diag){ .severity = DIAG_WARNING, .message = text });
		return;
	}
	fflush(cli->out);
	cli_add_signs(&shown, text, strlen(text), cli->utf8);
	text_add_printable(&s, shown.s ? shown.s : "", shown.len);
	fprintf(cli->err, "%scairn:%s %s%s\n", cli_style_err(cli, style),
		cli_style_err(cli, STYLE_PLAIN), kind, s.s ? s.s : "");
}

int cli_fail(struct cli *cli, const struct err *err)
{
	assert(err->code != ERR_NONE); /* else a failure would be exit 0 */
	if (!cli->printed_errors || err->code != ERR_INVALID)
		say(cli, STYLE_RED, "", err->msg);
	cli->printed_errors = false;
	return err_exit_code(err);
}

int cli_usage_error(struct cli *cli, const char *fmt, ...)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	va_list ap;

	va_start(ap, fmt);
	str_addv(&s, fmt, ap);
	va_end(ap);
	if (cli->command)
		str_addf(&s, "; see `cairn %s%s%s --help`", CLI_PARENT(cli->parent),
			 cli->command->name);
	say(cli, STYLE_RED, "", s.s ? s.s : "");
	return CLI_USAGE;
}

void cli_warn(struct cli *cli, const char *fmt, ...)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	va_list ap;

	va_start(ap, fmt);
	str_addv(&s, fmt, ap);
	va_end(ap);
	say(cli, STYLE_YELLOW, "warning: ", s.s ? s.s : "");
}

_printf_(3, 0) static void print_text(const struct cli *cli, FILE *to, const char *fmt, va_list ap)
{
	_cleanup_(str_deinit) struct str s = { 0 }, shown = { 0 };

	if (cli->utf8) {
		vfprintf(to, fmt, ap);
		return;
	}
	str_addv(&s, fmt, ap);
	cli_add_signs(&shown, s.s, s.len, false);
	fwrite(shown.s, 1, shown.len, to);
}

void cli_note(struct cli *cli, const char *fmt, ...)
{
	va_list ap;

	if (cli->verbosity < 0 || cli->json)
		return;
	fflush(cli->out);
	va_start(ap, fmt);
	print_text(cli, cli->err, fmt, ap);
	va_end(ap);
	fputc('\n', cli->err);
}

void cli_printf(struct cli *cli, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	print_text(cli, cli->out, fmt, ap);
	va_end(ap);
}

/* Running the command. */

static int apply_globals(struct cli *cli, const struct cli_args *a, struct err *err)
{
	for (size_t i = 0; i < a->n_given; i++) /* first: the others may be errors */
		cli->json |= a->given[i].option == &cli_json_option;
	for (size_t i = 0; i < a->n_given; i++) {
		const struct cli_option *o = a->given[i].option;
		const char *v = a->given[i].value;

		if (strcmp(o->name, "quiet") == 0)
			cli->verbosity = -1;
		else if (strcmp(o->name, "verbose") == 0)
			cli->verbosity = MAX(cli->verbosity, 0) + 1;
		else if (strcmp(o->name, "store") == 0)
			cli->store_option = v;
		else if (strcmp(o->name, "cache") == 0)
			cli->cache_option = v;
		else if (strcmp(o->name, "on") == 0)
			cli->runner_option = v;
		else if (strcmp(o->name, "color") == 0 && strcmp(v, "auto") != 0)
			cli->color_out = cli->color_err = strcmp(v, "always") == 0;
		else if (strcmp(o->name, "directory") == 0 && chdir(v) < 0)
			return err_errno(err, "cannot work in %s", v);
	}
	return 0;
}

/* Only now is it known whether the output was written: a full disk must not look like success. */
static int flush_output(struct cli *cli, int code)
{
	bool bad = ferror(cli->out);

	if (fflush(cli->out) == EOF)
		bad = true;
	if (bad && errno == EPIPE)
		return code; /* the reader closed the pipe */
	if (bad) {
		struct err err = { 0 };
		err_errno(&err, "cannot write to standard output");
		cli_fail(cli, &err);
		return code ? code : CLI_ENVIRONMENT;
	}
	return code;
}

static int finish_output(struct cli *cli, int code)
{
	code = flush_output(cli, code);
	cli_print_findings(cli, code);
	return code;
}

/* A wrong command line is told in JSON as well, if it asks for it. */
static bool asks_for_json(const struct cli_args *args, int argc, char **argv)
{
	for (int i = 1; i < argc && strcmp(argv[i], "--") != 0; i++)
		if (strcmp(argv[i], "--json") == 0)
			return !args->command || !args->command->raw;
	return false;
}

static int run_command(struct cli *cli, const struct cli_args *args)
{
	struct err err = { 0 };

	cli->command = args->command;
	cli->parent = args->parent;
	if (args->help)
		return help_print(cli, args->command, args->parent);
	if (apply_globals(cli, args, &err) < 0)
		return cli_fail(cli, &err);
	if (args->version)
		return cmd_version(cli, args);
	if (args->command->ignores_sigpipe)
		signal(SIGPIPE, SIG_IGN); /* lint: signal because ignoring needs no handler */
	return args->command->run(cli, args);
}

int cli_main(struct cli *cli, int argc, char **argv)
{
	struct cli_args args;
	struct err err = { 0 };
	size_t ignored;
	int code;

	if (argc <= 1) {
		help_print(cli, NULL, NULL);
		return finish_output(cli, CLI_USAGE);
	}
	if (cli_parse(argc, argv, &args, &err) < 0) {
		cli->json = asks_for_json(&args, argc, argv);
		code = cli_fail(cli, &err);
	} else {
		code = run_command(cli, &args);
	}
	cli_args_deinit(&args);
	ignored = cli->store ? signature_n_ignored(cli->store) : 0;
	if (ignored)
		cli_warn(cli,
			 "%zu %s of %s %s as absent: no writer signed %s whom "
			 "~/.config/cairn/trust names",
			 ignored, ignored == 1 ? "record" : "records", store_uri(cli->store),
			 ignored == 1 ? "counts" : "count", ignored == 1 ? "it" : "them");
	return finish_output(cli, code);
}
