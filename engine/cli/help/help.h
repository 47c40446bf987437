/* engine/cli/help/help.h — help, man pages and completion, all made from the table of commands.c.
 */
#ifndef CAIRN_CLI_HELP_HELP_H
#define CAIRN_CLI_HELP_HELP_H

#include "cli/cli.h"

/* Prints the help of a command (parent: the command that it is a subcommand of, or NULL). command
 * NULL: prints the list of all. To cli->out, as wide as the terminal, at most 100 columns. Returns
 * CLI_OK. */
int help_print(struct cli *cli, const struct cli_command *command,
	       const struct cli_command *parent);
/* Likewise, the reference of `${{ }}`. */
int help_print_expressions(struct cli *cli);
extern const char help_about_expressions[];
/* Writes the reference (Markdown) of the pipeline file, cairn.yaml, expressions, commands and exit
 * codes to files in `dir`, which is made: docs/reference/. */
int help_write_reference(const char *dir, struct err *err);
/* Of commands without their own; ends with a `when` of NULL. */
extern const struct cli_exit_code help_usual_exit_codes[];
/* Calls fn for every option of a command, its own first. */
void help_each_option(const struct cli_command *c,
		      void (*fn)(void *arg, const struct cli_option *o), void *arg);
/* "run", "store gc" */
void help_add_name(struct str *out, const struct cli_command *c, const struct cli_command *parent);

/* Writes man(7) roff of one command, of cairn itself (command NULL), or of all. */
void man_add(struct str *out, const struct cli_command *command, const struct cli_command *parent);
void man_add_all(struct str *out);

/* Writes a completion script. shell: bash, zsh, fish. */
void help_add_completion(struct str *out, const char *shell);

/* The names that `cairn names KIND` prints for this, or NULL: it isn't such names. */
struct help_names {
	const char *kind;
	bool files; /* a file may stand there, too */
	bool open;  /* text follows a name: no blank */
};
const struct help_names *help_names(enum cli_completion what);

#endif
