/* engine/cli/help/completion.c — completion scripts for bash, zsh and fish, from the table of
 * commands.
 *
 * Each shell gets a function that finds the command in the words so far and, per command, its
 * options, their values, and its operands. The three parts of this file have the same structure: an
 * action for each enum cli_completion, a line for each option, a block for each command, and the
 * frame around them.
 *
 * Names of runs, steps, params and the like aren't in the script: it asks the program (`cairn
 * names`, names.c) with the words before the cursor. That prints only names that need no quoting.
 *
 * Invariant: text of the table is quoted for the shell that reads it (zsh_text(), fish_text());
 * names of commands and options need no quotes.
 */
#include <assert.h>
#include <string.h>
#include "cli/help/help.h"

/* Calls fn for every command that can be run, and for those that have subcommands. */
static void each_command(void (*fn)(struct str *out, const struct cli_command *c,
				    const struct cli_command *parent),
			 struct str *out)
{
	for (const struct cli_command *c = cli_commands; c->name; c++) {
		fn(out, c, NULL);
		for (const struct cli_command *s = c->subcommands; s && s->name; s++)
			fn(out, s, c);
	}
}

static void add_names(struct str *out, const struct cli_command *table, const char *separator)
{
	for (const struct cli_command *c = table; c->name; c++)
		str_addf(out, "%s%s", c == table ? "" : separator, c->name);
}

/* Names of the commands that have subcommands. */
static void add_parents(struct str *out, const char *separator)
{
	bool first = true;

	for (const struct cli_command *c = cli_commands; c->name; c++) {
		if (!c->subcommands)
			continue;
		str_addf(out, "%s%s", first ? "" : separator, c->name);
		first = false;
	}
}

/* Options of the program that take a value: "-C|--directory|--color". */
static void add_global_values(struct str *out, const char *separator)
{
	bool first = true;

	for (const struct cli_option *o = cli_global_options; o->name; o++) {
		if (!o->arg)
			continue;
		if (o->letter)
			str_addf(out, "%s-%c", first ? "" : separator, o->letter), first = false;
		str_addf(out, "%s--%s", first ? "" : separator, o->name);
		first = false;
	}
}

static void add_choices(struct str *out, const char *choices)
{
	for (; *choices; choices++)
		str_addc(out, *choices == '|' ? ' ' : *choices);
}

static void add_replaced(struct str *out, const char *s, const char *from, const char *const *to)
{
	for (; *s; s++) {
		const char *p = strchr(from, *s);
		if (p)
			str_add(out, to[p - from]);
		else
			str_addc(out, *s);
	}
}

/* Bash. */

static void bash_action(struct str *out, enum cli_completion what, const char *choices)
{
	const struct help_names *names = help_names(what);

	switch (what) {
	case COMPLETE_FILE:
	case COMPLETE_YAML:
		str_add(out, "_cairn_files -f");
		break;
	case COMPLETE_DIR:
		str_add(out, "_cairn_files -d");
		break;
	case COMPLETE_COMMAND:
		str_add(out, "COMPREPLY=($(compgen -W '");
		add_names(out, cli_commands, " ");
		str_add(out, "' -- \"$cur\"))");
		break;
	case COMPLETE_CHOICE:
		str_add(out, "COMPREPLY=($(compgen -W '");
		add_choices(out, choices);
		str_add(out, "' -- \"$cur\"))");
		break;
	case COMPLETE_NONE:
		str_addc(out, ':');
		break;
	default:
		str_addf(out, "_cairn_names %s", names->kind);
		if (names->open)
			str_add(out, "; compopt -o nospace");
		if (names->files)
			str_add(out, "; _cairn_files -f");
		break;
	}
}

static void bash_option_value(void *arg, const struct cli_option *o)
{
	struct str *out = arg;

	if (!o->arg)
		return;
	str_add(out, "\t\t");
	if (o->letter)
		str_addf(out, "-%c|", o->letter);
	str_addf(out, "--%s) ", o->name);
	bash_action(out, o->complete, o->choices);
	str_add(out, "; return ;;\n");
}

static void bash_option_word(void *arg, const struct cli_option *o)
{
	struct str *out = arg;

	if (o->letter)
		str_addf(out, "-%c ", o->letter);
	str_addf(out, "--%s ", o->name);
}

static void bash_command(struct str *out, const struct cli_command *c,
			 const struct cli_command *parent)
{
	str_add(out, "\t'");
	help_add_name(out, c, parent);
	str_add(out, "')\n\t\tcase $prev in\n");
	help_each_option(c, bash_option_value, out);
	str_add(out, "\t\tesac\n\t\twords='");
	help_each_option(c, bash_option_word, out);
	str_add(out, "'\n\t\t[[ $cur == -* ]] || { ");
	if (!c->run) {
		str_add(out, "COMPREPLY=($(compgen -W '");
		add_names(out, c->subcommands, " ");
		str_add(out, "' -- \"$cur\"))");
	} else {
		bash_action(out, c->complete, c->operand_choices);
	}
	str_add(out, "; return; }\n\t\t;;\n");
}

static void add_bash(struct str *out)
{
	str_add(out, "# bash completion of cairn\n"
		     "_cairn_names() {\n"
		     "\tlocal name\n"
		     "\twhile IFS= read -r name; do\n"
		     "\t\t[[ $name != \"$cur\"* ]] || COMPREPLY+=(\"$name\")\n"
		     "\tdone < <(cairn names \"$1\" \"${COMP_WORDS[@]:1:COMP_CWORD-1}\" "
		     "2>/dev/null)\n"
		     "}\n"
		     "_cairn_files() {\n"
		     "\tlocal name\n"
		     "\tcompopt -o filenames\n"
		     "\twhile IFS= read -r name; do\n"
		     "\t\tCOMPREPLY+=(\"$name\")\n"
		     "\tdone < <(compgen \"$1\" -- \"$cur\")\n"
		     "}\n"
		     "_cairn() {\n"
		     "\tlocal cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD-1]} "
		     "command='' words='' i\n"
		     "\t[[ $cur == = ]] && cur=''\n"
		     "\t[[ $prev == = ]] && prev=${COMP_WORDS[COMP_CWORD-2]}\n"
		     "\tfor ((i = 1; i < COMP_CWORD; i++)); do\n"
		     "\t\tcase ${COMP_WORDS[i]} in\n"
		     "\t\t");
	add_global_values(out, "|");
	str_add(out, ") ((i++)) ;;\n"
		     "\t\t-*) ;;\n"
		     "\t\t*)\n"
		     "\t\t\tcommand=${command:+$command }${COMP_WORDS[i]}\n"
		     "\t\t\tcase $command in ");
	add_parents(out, "|");
	str_add(out, ") ;; *) break ;; esac\n"
		     "\t\t\t;;\n"
		     "\t\tesac\n"
		     "\tdone\n"
		     "\tCOMPREPLY=()\n"
		     "\tcase $command in\n"
		     "\t'')\n\t\tcase $prev in\n");
	help_each_option(NULL, bash_option_value, out);
	str_add(out, "\t\tesac\n\t\twords='");
	help_each_option(NULL, bash_option_word, out);
	str_add(out, "--version'\n\t\t[[ $cur == -* ]] || words='");
	add_names(out, cli_commands, " ");
	str_add(out, "'\n\t\t;;\n");
	each_command(bash_command, out);
	str_add(out, "\tesac\n"
		     "\tCOMPREPLY=($(compgen -W \"$words\" -- \"$cur\"))\n"
		     "}\n"
		     "complete -F _cairn cairn\n");
}

/* Zsh. */

static void zsh_text(struct str *out, const char *s)
{
	static const char *const to[] = { "\\[", "\\]", "\\:", "'\\''", "\\\\" };

	add_replaced(out, s, "[]:'\\", to);
}

static void zsh_action(struct str *out, enum cli_completion what, const char *choices)
{
	static const char *const actions[] = { [COMPLETE_FILE] = "_files",
					       [COMPLETE_YAML] = "_files",
					       [COMPLETE_DIR] = "_files -/",
					       [COMPLETE_COMMAND] = "_cairn_commands",
					       [COMPLETE_NONE] = " " };
	const struct help_names *names = help_names(what);

	if (names) {
		str_addf(out, "{_cairn_names %s%s%s}", names->kind, names->open ? " -S \"\"" : "",
			 names->files ? "; _files" : "");
	} else if (what == COMPLETE_CHOICE) {
		str_addc(out, '(');
		add_choices(out, choices);
		str_addc(out, ')');
	} else {
		str_add(out, actions[what]);
	}
}

static void zsh_option(void *arg, const struct cli_option *o)
{
	struct str *out = arg;

	str_add(out, " \\\n\t\t\t");
	if (o->repeats)
		str_add(out, "'*'");
	else if (o->letter)
		str_addf(out, "'(-%c --%s)'", o->letter, o->name);
	if (o->letter)
		str_addf(out, "{-%c%s,--%s%s}'[", o->letter, o->arg ? "+" : "", o->name,
			 o->arg ? "=" : "");
	else
		str_addf(out, "'--%s%s[", o->name, o->arg ? "=" : "");
	zsh_text(out, o->help);
	str_addc(out, ']');
	if (o->arg) {
		str_add(out, o->bare ? "::" : ":");
		zsh_text(out, o->arg);
		str_addc(out, ':');
		zsh_action(out, o->complete, o->choices);
	}
	str_addc(out, '\'');
}

static void zsh_names(struct str *out, const struct cli_command *table)
{
	for (; table->name; table++) {
		str_addf(out, " '%s:", table->name);
		zsh_text(out, table->summary);
		str_addc(out, '\'');
	}
}

static void zsh_command(struct str *out, const struct cli_command *c,
			const struct cli_command *parent)
{
	str_add(out, "\t\t'");
	help_add_name(out, c, parent);
	str_add(out, "')\n");
	if (!c->run) {
		str_add(out, "\t\t\tlocal -a subcommands\n\t\t\tsubcommands=(");
		zsh_names(out, c->subcommands);
		str_add(out, ")\n");
	}
	str_add(out, "\t\t\t_arguments -s -S");
	help_each_option(c, zsh_option, out);
	if (!c->run) {
		str_add(out, " \\\n\t\t\t'*:subcommand:{_describe subcommand subcommands}'");
	} else if (c->max > 0) {
		str_add(out, " \\\n\t\t\t'*:");
		zsh_text(out, c->operands);
		str_addc(out, ':');
		zsh_action(out, c->complete, c->operand_choices);
		str_addc(out, '\'');
	}
	str_add(out, "\n\t\t\t;;\n");
}

static void add_zsh(struct str *out)
{
	str_add(out, "#compdef cairn\n"
		     "# zsh completion of cairn\n"
		     "_cairn_names() { local kind=$1; shift; local -a names; "
		     "names=(${(f)\"$(cairn names $kind \"${(@)typed}\" 2>/dev/null)\"}); "
		     "compadd \"$@\" -a names; }\n"
		     "_cairn_commands() {\n\tlocal -a commands\n\tcommands=(");
	zsh_names(out, cli_commands);
	str_add(out, ")\n\t_describe command commands\n}\n"
		     "_cairn() {\n"
		     "\tlocal curcontext=$curcontext state line command\n"
		     "\tlocal -a typed\n"
		     "\ttyped=(\"${(@Q)words[2,CURRENT-1]}\")\n"
		     "\t_arguments -C -s -S");
	help_each_option(NULL, zsh_option, out);
	str_add(out, " \\\n\t\t\t'--version[print the version]' \\\n"
		     "\t\t'1:command:_cairn_commands' '*::argument:->arguments'\n"
		     "\t[[ $state == arguments ]] || return\n"
		     "\tcommand=$words[1]\n"
		     "\tcase $command in ");
	add_parents(out, "|");
	str_add(out, ")\n"
		     "\t\tif (( CURRENT > 2 )) && [[ $words[2] != -* ]]; then\n"
		     "\t\t\tcommand+=\" $words[2]\"\n"
		     "\t\t\tshift words\n"
		     "\t\t\t(( CURRENT-- ))\n"
		     "\t\tfi\n"
		     "\tesac\n"
		     "\tcase $command in\n");
	each_command(zsh_command, out);
	str_add(out, "\tesac\n"
		     "}\n"
		     "if [[ $funcstack[1] == _cairn ]]; then _cairn \"$@\"; else compdef _cairn "
		     "cairn; fi\n");
}

/* Fish. */

static void fish_text(struct str *out, const char *s)
{
	static const char *const to[] = { "\\'", "\\\\" };

	str_addc(out, '\'');
	add_replaced(out, s, "'\\", to);
	str_addc(out, '\'');
}

static void fish_action(struct str *out, enum cli_completion what, const char *choices)
{
	const struct help_names *names = help_names(what);

	switch (what) {
	case COMPLETE_FILE:
	case COMPLETE_YAML:
		str_add(out, " -F");
		break;
	case COMPLETE_DIR:
		str_add(out, " -f -a '(__fish_complete_directories)'");
		break;
	case COMPLETE_COMMAND:
		str_add(out, " -f -a '");
		add_names(out, cli_commands, " ");
		str_addc(out, '\'');
		break;
	case COMPLETE_CHOICE:
		str_add(out, " -f -a '");
		add_choices(out, choices);
		str_addc(out, '\'');
		break;
	case COMPLETE_NONE:
		str_add(out, " -f");
		break;
	default:
		str_addf(out, "%s -a '(__cairn_names %s)'", names->files ? "" : " -f", names->kind);
		break;
	}
}

struct fish_line {
	struct str *out;
	const char *condition;
};

static void fish_option(void *arg, const struct cli_option *o)
{
	struct fish_line *l = arg;

	str_addf(l->out, "complete -c cairn -n '%s'", l->condition);
	if (o->letter)
		str_addf(l->out, " -s %c", o->letter);
	str_addf(l->out, " -l %s", o->name);
	if (o->arg) {
		str_add(l->out, o->bare ? "" : " -r");
		fish_action(l->out, o->complete, o->choices);
	}
	str_add(l->out, " -d ");
	fish_text(l->out, o->help);
	str_addc(l->out, '\n');
}

static void fish_names(struct str *out, const struct cli_command *table, const char *condition)
{
	for (; table->name; table++) {
		str_addf(out, "complete -c cairn -n '%s' -f -a %s -d ", condition, table->name);
		fish_text(out, table->summary);
		str_addc(out, '\n');
	}
}

static void fish_command(struct str *out, const struct cli_command *c,
			 const struct cli_command *parent)
{
	_cleanup_(str_deinit) struct str condition = { 0 };
	struct fish_line line = { out };

	str_add(&condition, "__cairn_at ");
	help_add_name(&condition, c, parent);
	line.condition = condition.s;
	if (c->subcommands)
		fish_names(out, c->subcommands, condition.s);
	if (c->run) {
		str_addf(out, "complete -c cairn -n '%s'", condition.s);
		fish_action(out, c->complete, c->operand_choices);
		str_addc(out, '\n');
	}
	help_each_option(c, fish_option, &line);
}

static void add_fish(struct str *out)
{
	struct fish_line top = { out, "__cairn_at" };

	str_add(out, "# fish completion of cairn\n"
		     "function __cairn_names\n"
		     "\tcairn names $argv[1] (commandline -opc)[2..-1] 2>/dev/null\n"
		     "end\n"
		     "# Are the words so far this command, and no deeper one?\n"
		     "function __cairn_at\n"
		     "\tset --local skip 0\n\tset --local found\n"
		     "\tfor word in (commandline -opc)[2..-1]\n"
		     "\t\tif test $skip = 1\n\t\t\tset skip 0\n\t\t\tcontinue\n\t\tend\n"
		     "\t\tswitch $word\n\t\t\tcase ");
	add_global_values(out, " ");
	str_add(out, "\n\t\t\t\tset skip 1\n"
		     "\t\t\tcase '-*'\n"
		     "\t\t\tcase '*'\n"
		     "\t\t\t\tset --append found $word\n"
		     "\t\t\t\tcontains -- \"$found\" ");
	add_parents(out, " ");
	str_add(out, "; or break\n"
		     "\t\tend\n\tend\n"
		     "\ttest \"$found\" = \"$argv\"\n"
		     "end\n");
	fish_names(out, cli_commands, "__cairn_at");
	help_each_option(NULL, fish_option, &top);
	str_add(out, "complete -c cairn -n '__cairn_at' -l version -d 'print the version'\n");
	each_command(fish_command, out);
}

void help_add_completion(struct str *out, const char *shell)
{
	if (strcmp(shell, "bash") == 0)
		add_bash(out);
	else if (strcmp(shell, "zsh") == 0)
		add_zsh(out);
	else {
		assert(strcmp(shell, "fish") == 0);
		add_fish(out);
	}
}
