/* engine/cli/help/man.c — man pages in man(7) roff, from the table of commands.
 *
 * Every text of the table goes through roff_text(), which escapes a backslash, a dash that must
 * stay one, quotes, and a dot at the start of a line. Text of this file's own is roff already. Long
 * texts are broken into short source lines, which roff fills again.
 *
 * MAN_DATE is changed by hand when the text changes, so that the same source gives the same pages.
 */
#include <ctype.h>
#include <string.h>
#include "cli/help/answers.h"
#include "cli/help/help.h"

#define MAN_DATE "2026-11-24" /* of the last change of the text */

static void roff_text(struct str *out, const char *s)
{
	bool line_start = out->len == 0 || out->s[out->len - 1] == '\n';

	for (; *s; s++) {
		if (line_start && (*s == '.' || *s == '\''))
			str_add(out, "\\&");
		if (*s == '\\')
			str_add(out, "\\e");
		else if (*s == '-')
			str_add(out, "\\-");
		else if (*s == '\'')
			str_add(out, "\\(aq");
		else if (*s == '`')
			str_add(out, "\\(ga");
		else
			str_addc(out, *s);
		line_start = *s == '\n';
	}
}

static void font(struct str *out, char f, const char *s)
{
	str_addf(out, "\\f%c", f);
	roff_text(out, s);
	str_add(out, "\\fR");
}

/* The same in lines of at most about 80 characters; a source line that begins with a space starts a
 * new line of output. */
static void roff_lines(struct str *out, const char *s)
{
	while (*s) {
		size_t n = strcspn(s, "\n"), cut = n;
		_cleanup_(freep) char *line = NULL;

		if (n > 72)
			for (cut = 72; cut > 0 && s[cut] != ' '; cut--)
				;
		if (cut == 0)
			cut = n;
		line = xstrndup(s, cut);
		roff_text(out, line);
		str_addc(out, '\n');
		s += cut;
		s += *s == ' ' || *s == '\n';
	}
}

static void add_item(struct str *out, const char *name, const char *text)
{
	str_add(out, ".TP\n");
	font(out, 'B', name);
	str_addc(out, '\n');
	roff_lines(out, text);
}

static void add_option(void *arg, const struct cli_option *o)
{
	struct str *out = arg;
	char letter[3] = { '-', o->letter, 0 };
	_cleanup_(freep) char *name = xasprintf("--%s", o->name);

	str_add(out, ".TP\n");
	if (o->letter) {
		font(out, 'B', letter);
		str_add(out, ", ");
	}
	font(out, 'B', name);
	if (o->arg) {
		str_add(out, o->bare ? " [" : " ");
		font(out, 'I', o->arg);
		str_add(out, o->bare ? "]" : "");
	}
	str_addc(out, '\n');
	roff_lines(out, o->help);
}

/* Separated by empty lines. */
static void add_paragraphs(struct str *out, const char *text)
{
	for (const char *s = text; *s;) {
		const char *end = strstr(s, "\n\n");
		size_t n = end ? (size_t)(end - s) : strlen(s);
		_cleanup_(freep) char *paragraph = xstrndup(s, n);

		roff_lines(out, paragraph);
		str_add(out, end ? ".PP\n" : "");
		s += n + (end ? 2 : 0);
	}
}

const struct cli_exit_code help_usual_exit_codes[] = {
	{ 0, "done" },
	{ 2, "wrong usage" },
	{ 3, "the pipeline or the configuration is invalid" },
	{ 4, "the environment: store, disk, database, or what was asked for doesn't exist" },
	{ 0 }
};

static void add_command(struct str *out, const struct cli_command *c, const char *name)
{
	_cleanup_(freep) char *words = xasprintf("cairn %s", name);

	str_add(out, ".SH NAME\ncairn");
	for (const char *p = name; *p; p++)
		str_add(out, p == name ? "\\-" : ""), str_addc(out, *p == ' ' ? '-' : *p);
	str_add(out, " \\- ");
	roff_text(out, c->summary);
	str_addc(out, '\n');
	str_add(out, ".SH SYNOPSIS\n");
	font(out, 'B', words);
	if (!c->run) {
		str_addc(out, ' ');
		font(out, 'I', "SUBCOMMAND");
	} else {
		str_add(out, " [\\fIOPTION\\fR]...");
	}
	if (c->operands && *c->operands) {
		str_addc(out, ' ');
		font(out, 'I', c->operands);
	}
	str_addc(out, '\n');
	str_add(out, ".SH DESCRIPTION\n");
	add_paragraphs(out, c->description ? c->description : c->summary);
	if (c->subcommands)
		str_add(out, ".SH SUBCOMMANDS\n");
	for (const struct cli_command *s = c->subcommands; s && s->name; s++)
		add_item(out, s->name, s->summary);
	str_add(out, ".SH OPTIONS\n");
	help_each_option(c, add_option, out);
	if (c->json) {
		_cleanup_(str_deinit) struct str shapes = { 0 };

		str_add(out, ".SH JSON\n");
		answers_add_shapes(&shapes, c->json);
		add_paragraphs(out, shapes.s);
	}
	str_add(out, ".SH EXIT STATUS\n");
	for (const struct cli_exit_code *e = c->exit_codes ? c->exit_codes : help_usual_exit_codes;
	     e->when; e++) {
		str_addf(out, ".TP\n%d\n", e->code);
		roff_lines(out, e->when);
	}
	str_add(out, ".SH EXAMPLES\n");
	for (const struct cli_example *e = c->examples; e->line; e++)
		add_item(out, e->line, *e->what ? e->what : "the usual use");
	str_add(out, ".SH SEE ALSO\n\\fBcairn\\fR(1)\n");
}

static void add_overview(struct str *out)
{
	static const struct cli_option version = { 0, "version", NULL, "print the version" };

	str_add(out, ".SH NAME\ncairn \\- run pipelines, and pay only for what changed\n"
		     ".SH SYNOPSIS\n\\fBcairn\\fR [\\fIOPTION\\fR]... \\fICOMMAND\\fR "
		     "[\\fIARGUMENT\\fR]...\n"
		     ".SH DESCRIPTION\nRuns preprocess\\-train\\-evaluate pipelines from YAML, "
		     "keeps every output\nunder the digest of its content, and records which "
		     "content came from which.\n"
		     ".SH COMMANDS\n");
	for (const struct cli_command *c = cli_commands; c->name; c++) {
		str_addf(out, ".TP\n\\fBcairn\\-%s\\fR(1)\n", c->name);
		roff_lines(out, c->summary);
	}
	str_add(out, ".SH OPTIONS\n");
	help_each_option(NULL, add_option, out);
	add_option(out, &version);
	str_add(out, ".SH ENVIRONMENT\n"
		     ".TP\nNO_COLOR\nset and not empty: no colour\n"
		     ".TP\nCLICOLOR_FORCE\nset and not 0: colour also where there is no terminal\n"
		     ".TP\nCOLUMNS, LINES\nsize of the terminal, when it can't be asked\n"
		     ".TP\nCAIRN_SECRET_NAME\nthe secret NAME of steps that ask for it\n"
		     ".SH FILES\n"
		     ".TP\ncairn.yaml\nconfiguration of the project; its directory is the "
		     "project's root\n"
		     ".TP\npipeline.yaml\nthe pipeline that commands take when none is named\n"
		     ".TP\n\\&.cairn/\nstate of the project: store, database, logs\n");
}

void man_add(struct str *out, const struct cli_command *command, const struct cli_command *parent)
{
	_cleanup_(str_deinit) struct str name = { 0 };

	str_add(&name, "");
	if (command)
		help_add_name(&name, command, parent);
	str_add(out, command ? ".TH CAIRN-" : ".TH CAIRN");
	for (const char *c = name.s; *c; c++)
		str_addc(out, (char)(*c == ' ' ? '-' : toupper((unsigned char)*c)));
	str_add(out, " 1 \"" MAN_DATE "\" \"cairn " CAIRN_VERSION "\" \"Cairn\"\n");
	if (command)
		add_command(out, command, name.s);
	else
		add_overview(out);
}

void man_add_all(struct str *out)
{
	man_add(out, NULL, NULL);
	for (const struct cli_command *c = cli_commands; c->name; c++) {
		man_add(out, c, NULL);
		for (const struct cli_command *s = c->subcommands; s && s->name; s++)
			man_add(out, s, c);
	}
}
