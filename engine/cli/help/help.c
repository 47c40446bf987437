/* engine/cli/help/help.c — help for the terminal, from the table of commands.
 *
 * A page is built in one string and written at once. It has two columns: options or names to the
 * left, wrapped words to the right, at most WIDTH_MAX wide. The left column is measured first, over
 * those entries that aren't longer than LEFT_MAX; a longer one gets its text on the next line.
 *
 * wrap() counts columns of the terminal, not bytes, and keeps words whole.
 *
 * What it doesn't do: man pages (man.c) and completion (completion.c), which go through the same
 * table with help_each_option().
 */
#include "cli/help/help.h"
#include <string.h>
#include "base/text/text.h"
#include "cli/help/answers.h"
#include "model/expr/expr.h"

#define WIDTH_MAX 100 /* longer lines are hard to read */
#define LEFT_MAX  30  /* the text of a longer option starts on the next line */

struct page {
	struct cli *cli;
	struct str out;
	unsigned width;
	size_t left; /* columns of the left side */
};

static void heading(struct page *p, const char *text)
{
	str_addf(&p->out, "\n%s%s%s\n", cli_style(p->cli, STYLE_BOLD), text,
		 cli_style(p->cli, STYLE_PLAIN));
}

/* Wraps the words of `text`, from column `at` on; following lines are indented. A line that begins
 * with a space is kept. */
static void wrap(struct page *p, const char *text, size_t indent, size_t at)
{
	while (*text) {
		size_t line = strcspn(text, "\n"), i = 0;

		while (i < line) {
			size_t gap = strspn(text + i, " "), word = strcspn(text + i + gap, " \n");
			const char *from = text + i + gap;

			if (word == 0)
				break;
			i += gap + word;
			if (at > indent && at + gap + text_width(from, word) > p->width) {
				str_addf(&p->out, "\n%*s", (int)indent, "");
				at = indent;
				gap = 0;
			}
			str_addf(&p->out, "%*s%.*s", (int)gap, "", (int)word, from);
			at += gap + text_width(from, word);
		}
		text += line;
		if (*text == '\n') {
			text++;
			str_addf(&p->out, "\n%*s", *text && *text != '\n' ? (int)indent : 0, "");
			at = indent;
		}
	}
	str_addc(&p->out, '\n');
}

/* Options. */

void help_each_option(const struct cli_command *c,
		      void (*fn)(void *arg, const struct cli_option *o), void *arg)
{
	for (const struct cli_option *o = c ? c->options : NULL; o && o->name; o++)
		fn(arg, o);
	if (c && c->json)
		fn(arg, &cli_json_option);
	for (const struct cli_option *o = cli_global_options; o->name; o++)
		fn(arg, o);
}

static void add_option_left(struct str *s, const struct cli_option *o)
{
	if (o->letter)
		str_addf(s, "  -%c, --%s", o->letter, o->name);
	else
		str_addf(s, "      --%s", o->name);
	if (o->arg)
		str_addf(s, o->bare ? " [%s]" : " %s", o->arg);
}

static void measure_option(void *arg, const struct cli_option *o)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	struct page *p = arg;

	add_option_left(&s, o);
	if (s.len + 2 > p->left && s.len + 2 <= LEFT_MAX)
		p->left = s.len + 2;
}

static void left_and_right(struct page *p, const char *left, size_t left_len, const char *right)
{
	size_t at = left_len;

	str_addn(&p->out, left, left_len);
	if (at + 2 > p->left) {
		str_addc(&p->out, '\n');
		at = 0;
	}
	str_addf(&p->out, "%*s", (int)(p->left - at), "");
	wrap(p, right, p->left, p->left);
}

static void print_option(void *arg, const struct cli_option *o)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	struct page *p = arg;

	add_option_left(&s, o);
	left_and_right(p, s.s, s.len, o->help);
}

static void print_names(struct page *p, const struct cli_command *table, size_t left)
{
	p->left = left;
	for (const struct cli_command *c = table; c->name; c++) {
		_cleanup_(freep) char *name = xasprintf("  %s", c->name);
		left_and_right(p, name, strlen(name), c->summary);
	}
}

/* One command. */

void help_add_name(struct str *out, const struct cli_command *c, const struct cli_command *parent)
{
	str_addf(out, "%s%s%s", CLI_PARENT(parent), c->name);
}

static void add_json_shapes(struct page *p, const char *names)
{
	_cleanup_(str_deinit) struct str shapes = { 0 };

	answers_add_shapes(&shapes, names);
	str_add(&p->out, "  ");
	wrap(p, shapes.s, 2, 2);
}

static void print_command(struct page *p, const struct cli_command *c,
			  const struct cli_command *parent)
{
	str_add(&p->out, "Usage: cairn ");
	help_add_name(&p->out, c, parent);
	str_add(&p->out, c->run ? " [OPTION]..." : " SUBCOMMAND");
	if (c->run && *c->operands)
		str_addf(&p->out, " %s", c->operands);
	str_add(&p->out, "\n\n");
	wrap(p, c->summary, 0, 0);
	if (c->description) {
		str_addc(&p->out, '\n');
		wrap(p, c->description, 0, 0);
	}
	if (c->subcommands) {
		heading(p, "Subcommands");
		print_names(p, c->subcommands, 12);
	}
	heading(p, "Options");
	p->left = 0;
	help_each_option(c, measure_option, p);
	help_each_option(c, print_option, p);
	if (c->json) {
		heading(p, "JSON");
		add_json_shapes(p, c->json);
	}
	if (c->exit_codes)
		heading(p, "Exit codes");
	for (const struct cli_exit_code *e = c->exit_codes; e && e->when; e++) {
		str_addf(&p->out, "  %-5d", e->code);
		wrap(p, e->when, 7, 7);
	}
	heading(p, c->examples[1].line ? "Examples" : "Example");
	for (const struct cli_example *e = c->examples; e->line; e++) {
		if (*e->what)
			str_addf(&p->out, "  %s# %s%s\n", cli_style(p->cli, STYLE_DIM), e->what,
				 cli_style(p->cli, STYLE_PLAIN));
		str_addf(&p->out, "  %s\n", e->line);
	}
}

/* All commands. */

static void print_overview(struct page *p)
{
	str_add(&p->out, "Usage: cairn [OPTION]... COMMAND [ARGUMENT]...\n\n");
	wrap(p,
	     "Runs preprocess-train-evaluate pipelines from YAML, and pays only for what changed.",
	     0, 0);
	heading(p, "Commands");
	print_names(p, cli_commands, 14);
	heading(p, "Options");
	p->left = 0;
	help_each_option(NULL, measure_option, p);
	help_each_option(NULL, print_option, p);
	str_addf(&p->out, "      --version%*s", (int)(p->left - 15), "");
	wrap(p, "print the version", p->left, p->left);
	str_addc(&p->out, '\n');
	wrap(p,
	     "Begin with `cairn init`, then `cairn run`. `cairn COMMAND --help` explains a "
	     "command, with examples.",
	     0, 0);
}

static struct page page_begin(struct cli *cli)
{
	struct page p = { .cli = cli };
	unsigned lines;

	cli_terminal_size(cli->out, &p.width, &lines);
	p.width = MIN(MAX(p.width, 50u), WIDTH_MAX);
	return p;
}

static int page_end(struct page *p)
{
	fwrite(p->out.s, 1, p->out.len, p->cli->out);
	str_deinit(&p->out);
	return CLI_OK;
}

int help_print(struct cli *cli, const struct cli_command *command, const struct cli_command *parent)
{
	struct page p = page_begin(cli);

	if (command)
		print_command(&p, command, parent);
	else
		print_overview(&p);
	return page_end(&p);
}

const char help_about_expressions[] =
	"`${{ ... }}` in a pipeline is an expression. In a command its value is a variable of the "
	"shell, never text of the script. `$${{` is the text `${{`. A value that is one expression "
	"keeps its type.";

int help_print_expressions(struct cli *cli)
{
	struct arena *arena = arena_new();
	struct page p = page_begin(cli);
	struct expr_help_row row, last = { .section = "" };

	wrap(&p, help_about_expressions, 0, 0);
	p.left = LEFT_MAX;
	for (size_t i = 0; expr_help(i, arena, &row); i++, last = row) {
		_cleanup_(freep) char *form = xasprintf("  %s", row.form);

		if (!str_eq(row.section, last.section))
			heading(&p, row.section);
		left_and_right(&p, form, strlen(form), row.help);
	}
	arena_free(arena);
	return page_end(&p);
}
