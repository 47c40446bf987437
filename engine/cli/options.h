/* engine/cli/options.h — the option table, and the result of parsing a command line with it.
 *
 * Accepted: `--opt=value`, `--opt value`, `-o value`, `-ovalue`, `-abc` for flags, options and
 * operands in any order, `--` before operands that begin with a dash; a lone `-` is an operand. The
 * options of the program (-C, -q, -v, --color, --help) may stand before or after the command;
 * --json is an option of every command whose table entry documents a JSON shape. Long names can't
 * be abbreviated: a script must not change its meaning when an option is added.
 */
#ifndef CAIRN_CLI_OPTIONS_H
#define CAIRN_CLI_OPTIONS_H

#include <stdbool.h>
#include "base/err.h"
#include "base/text/str.h"

struct arena;
struct cli;
struct cli_args;

/* What a shell completes at this place. */
enum cli_completion {
	COMPLETE_NONE,
	COMPLETE_FILE,
	COMPLETE_YAML,
	COMPLETE_DIR,
	COMPLETE_COMMAND,
	COMPLETE_CHOICE,
	/* Names that `cairn names` prints (help/names.c). */
	COMPLETE_RUN, /* or a tag */
	COMPLETE_STEP,
	COMPLETE_PIPELINE_STEP, /* or a pipeline file */
	COMPLETE_PARAM,
	COMPLETE_SWEEP,
	COMPLETE_PIPELINE_SWEEP,
	COMPLETE_OUTPUT,
	COMPLETE_TAG,
	COMPLETE_APPROVAL, /* a run, then what waits in it */
	COMPLETE_BUILTIN,
	COMPLETE_RUNNER
};

struct cli_option {
	char letter;         /* short form, 0: none */
	const char *name;    /* long form, never NULL */
	const char *arg;     /* name of its argument: "N"; NULL: a flag */
	const char *help;    /* one line, lower case, no full stop */
	const char *choices; /* "auto|always|never": any other value is exit 2; or NULL */
	/* Its value when none follows: at the end, before an option or a pipeline file; or NULL: it
	 * needs a value. */
	const char *bare;
	bool repeats; /* every use counts; otherwise the last one does */
	enum cli_completion complete;
};

struct cli_example {
	const char *line; /* "cairn run -p lr=0.1" */
	const char *what; /* "with another learning rate" */
};

struct cli_exit_code {
	int code;
	const char *when;
};

struct cli_command {
	const char *name;
	const char *summary;  /* one line for the list of commands */
	const char *operands; /* "[PIPELINE] [STEP...]"; "" for none */
	unsigned min, max;    /* number of operands; CLI_ANY */
	/* Paragraphs, separated by an empty line; lines that begin with a space are kept unchanged.
	 */
	const char *description;
	const struct cli_option *options;   /* ends with a name of NULL; or NULL */
	const struct cli_example *examples; /* ends with a line of NULL; at least one */
	const struct cli_exit_code
		*exit_codes; /* ends with a when of NULL; or NULL: the usual ones */
	const char *json;    /* the shape that --json prints, or NULL: the command has no --json */
	/* Ends with a name of NULL; or NULL. A command that has them can't be run itself, unless it
	 * has `run`: then the first word behind it decides. */
	const struct cli_command *subcommands;
	/* The subcommand that is meant when one of its options stands in its place: `cairn schedule
	 * --to X`; or NULL. */
	const char *bare;
	enum cli_completion complete; /* operands */
	const char *operand_choices; /* for COMPLETE_CHOICE: "bash|zsh|fish"; any other is exit 2 */
	bool raw;             /* everything after its name, even --help, is for another program */
	bool ignores_sigpipe; /* keeps running when no program reads its output */
	int (*run)(struct cli *cli, const struct cli_args *args);
};
#define CLI_ANY 65536u

/* For "%s%s": the name of the command that another is a subcommand of, and a space. NULL: nothing.
 */
#define CLI_PARENT(parent) (parent) ? (parent)->name : "", (parent) ? " " : ""

extern const struct cli_command cli_commands[]; /* in the order of help; ends with a name of NULL */
/* For programs of ours, not for people: not in any list, manual page or completion. */
extern const struct cli_command cli_hidden_commands[];
extern const struct cli_option cli_global_options[];
extern const struct cli_option cli_json_option;

/* The command of `table` with this name ("gc" in the subcommands of "store"). NULL when unknown. */
const struct cli_command *cli_find_command(const struct cli_command *table, const char *name);

struct cli_args {
	const struct cli_command *command, *parent; /* parent: "store" of "store gc", else NULL */
	const char **operands;                      /* n_operands of them and a NULL */
	size_t n_operands;
	struct cli_given {
		const struct cli_option *option;
		const char *value; /* "" for a flag */
	} * given;                 /* in the order of the command line */
	size_t n_given;
	bool help;    /* --help was there: operands weren't checked */
	bool version; /* --version before any command */
};

/* argv[0] is skipped. ERR_USAGE with the nearest known name in the message. Deinit *ret even after
 * an error: then its command is set if it was recognised. Strings are argv's. */
int cli_parse(int argc, char **argv, struct cli_args *ret, struct err *err);
void cli_args_deinit(struct cli_args *args);

/* The options given. `name` must be in the table: any other name is a programming error and
 * aborts. */

unsigned cli_count(const struct cli_args *args, const char *name); /* how often */
static inline bool cli_flag(const struct cli_args *args, const char *name)
{
	return cli_count(args, name) > 0;
}
const char *cli_value(const struct cli_args *args, const char *name); /* the last value, or NULL */
const char *cli_value_at(const struct cli_args *args, const char *name,
			 unsigned i); /* for a repeating option: i < cli_count() */
/* All values of a repeating option, an array in `arena`. */
const char *const *cli_values(const struct cli_args *args, const char *name, struct arena *arena,
			      size_t *ret_n);
/* The last value as the place of a directory that is to be made: without slashes at its end, which
 * people and shells write. In `arena`; NULL when the option wasn't given. */
const char *cli_new_dir(const struct cli_args *args, const char *name, struct arena *arena);
/* A whole number in [min, max]; *ret is unchanged when the option wasn't given. ERR_USAGE. */
int cli_uint(const struct cli_args *args, const char *name, uint64_t min, uint64_t max,
	     uint64_t *ret, struct err *err);
/* "30s", "2h", "7d". ERR_USAGE. */
int cli_duration_value(const struct cli_args *args, const char *name, int64_t *ret_ns,
		       struct err *err);
static inline const char *cli_operand(const struct cli_args *args, size_t i)
{
	return i < args->n_operands ? args->operands[i] : NULL;
}

#endif
