/* cli/cli.h — what every command is made of.
 *
 * commands.c holds one table: each command with its options, operands, examples, exit codes and
 * JSON shape. Parsing, help, man pages and completion are made from it and from nothing else. A
 * command is a function
 *
 *	int cmd_NAME(struct cli *cli, const struct cli_args *args);
 *
 * in cmd_NAME.c, or beside its like (cmd_store.c, cmd_schedule_change.c). It returns the exit code
 * (design section 4): CLI_OK, CLI_TASK_FAILED, … or what cli_fail() gives. The command line was
 * checked against the table before: unknown options, missing or too many operands and wrong choices
 * were exit 2 already. The form of a command is
 *
 *	struct err err = { 0 };
 *	struct db *db;
 *
 *	if (cli_db(cli, DB_READ, &db, &err) < 0)
 *		return cli_fail(cli, &err);
 *
 * Facts go to cli->out, everything else (errors, warnings, progress, notices) to cli->err. All text
 * that came from outside goes through cli_text() or text_add_printable() before it is printed. One
 * thread.
 */
#ifndef CAIRN_CLI_CLI_H
#define CAIRN_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>
#include "base/mem.h"
#include "base/text/json.h"
#include "cli/options.h"
#include "model/config.h"
#include "model/pipeline.h"
#include "record/rows/runs.h"
#include "storage/local/statcache.h"
#include "storage/store.h"

enum cli_exit {
	CLI_OK = 0,
	CLI_TASK_FAILED =
		1, /* also: a check that was asked for found something (store verify, doctor) */
	CLI_USAGE = 2,
	CLI_INVALID = 3,
	CLI_ENVIRONMENT = 4,
	CLI_INTERRUPTED = 130,
};

struct cli {
	FILE *out, *err;
	bool tty_out, tty_err; /* is it a terminal that can move its cursor (TERM isn't dumb)? */
	bool color_out, color_err; /* --color, NO_COLOR, CLICOLOR_FORCE */
	bool utf8;                 /* box-drawing characters and "…" are fine; else ASCII */
	bool json;                 /* --json */
	int verbosity;             /* -1 for -q, 0, 1 for -v, 2 for -vv */
	struct arena *arena;       /* lives as long as the command */
	const struct cli_command *command;
	const char *store_option, *runner_option,
		*cache_option; /* --store, --on and --cache, or NULL */

	/* Opened on first use by the functions below; closed by cli_deinit(). */
	struct config *config;
	struct db *db;
	bool db_writable;
	struct store *store;
};

/* Life, for main.c and tests. */

/* Reads the environment (NO_COLOR, TERM, LANG …) and asks what the streams are. */
void cli_init(struct cli *cli, FILE *out, FILE *err);
void cli_deinit(struct cli *cli);
/* The whole program: parses, runs the command, flushes. Returns the exit code. */
int cli_main(struct cli *cli, int argc, char **argv);

/* Surroundings. */

/* Each opens on first use and lends; -1 with *err otherwise. */

/* cairn.yaml and where the project is, from the working directory upward. ERR_INVALID: what is
 * wrong with the file was printed to cli->err. */
int cli_config(struct cli *cli, const struct config **ret, struct err *err);
/* DB_READ: ERR_NOT_FOUND when there is no database, since nothing was run in this project yet.
 * DB_WRITE makes one. DB_WRITE after DB_READ reopens it: earlier handles are gone. */
int cli_db(struct cli *cli, enum db_open_flags flags, struct db **ret, struct err *err);
/* create: make an absent one, and reach a shared one; else ERR_NOT_FOUND. Only the call that opens
 * the store looks at `create`. */
int cli_store(struct cli *cli, bool create, struct store **ret, struct err *err);
/* Path of the program that runs, and of the built-in steps' program, which lies beside it; in
 * cli->arena. */
const char *cli_program(struct cli *cli);
const char *cli_steps_program(struct cli *cli);
/* `path` as the user typed it (NULL: pipeline.yaml in the working directory). Prints every error
 * and warning, with the line of the file under it, to cli->err. The caller frees *ret
 * (pipeline_freep). */
int cli_pipeline(struct cli *cli, const char *path, struct pipeline **ret, struct err *err);
/* For commands that take `[PIPELINE] [STEP…]`: is this operand a pipeline file? It is one if it
 * ends in .yaml or .yml, or if it is an existing file whose name no step can have: a file `train`
 * doesn't hide the step `train`. */
bool cli_is_pipeline_path(const char *operand);
/* Params of the command line in the right order: files of -P first, then -p NAME=VALUE. Strings in
 * cli->arena. Needs options "param" and "params-file" in the command's table. */
int cli_params(struct cli *cli, const struct cli_args *args, struct param_override **ret,
	       size_t *ret_n, struct err *err);

/* Output. */

/* Prints `cairn: <message>` to cli->err, once, and returns the exit code of the error. */
int cli_fail(struct cli *cli, const struct err *err);
/* The same for wrong usage that the table can't detect; the message ends with the command's
 * `--help`. Returns CLI_USAGE. */
int cli_usage_error(struct cli *cli, const char *fmt, ...) _printf_(2, 3);
void cli_warn(struct cli *cli, const char *fmt, ...) _printf_(2, 3); /* `cairn: warning: …` */
void cli_note(struct cli *cli, const char *fmt, ...)
	_printf_(2, 3); /* a line on cli->err; nothing with -q */
void cli_printf(struct cli *cli, const char *fmt, ...) _printf_(2, 3); /* to cli->out */
/* Adds text of ours. Without UTF-8 its few signs ("…", "→", "·", "—") become ASCII. The functions
 * above and tables do this themselves. */
void cli_add_signs(struct str *out, const char *s, size_t n, bool utf8);

/* Prints what a program printed, in pieces that may be cut anywhere. A terminal gets its colours,
 * and everything else that a terminal obeys is made visible; any other output gets the bytes. A log
 * begins as { 0 }; cli_end_log() prints the beginning of a character that was never completed. */
#define CLI_LOG_HELD 40 /* bytes: a sequence that sets colours isn't longer */
struct cli_log {
	char held[CLI_LOG_HELD]; /* of the end of the last piece: the beginning of something */
	size_t n_held;
	char colour[2 * CLI_LOG_HELD]; /* that is set: between pieces the terminal is ours */
	size_t n_colour;
};
void cli_print_log(struct cli *cli, struct cli_log *l, const char *bytes, size_t n);
void cli_end_log(struct cli *cli, struct cli_log *l);
/* All diagnostics to cli->err: `file:line:col: message`, the line of the file, a caret. Relative
 * file names are below the working directory. With -q errors only. */
void cli_print_diags(struct cli *cli, struct diag_list *diags);

/* What a command made, to the file at `path` (atomically), or to cli->out for "-". */
int cli_write_to(struct cli *cli, const char *path, const struct str *s, struct err *err);
/* One JSON document, indented, keys sorted. Takes the reference. A command that succeeds prints
 * exactly one, an object; its shape stands in the table. */
void cli_print_json(struct cli *cli, json_t *j);

/* `s` made printable, in cli->arena; NULL gives "-". */
const char *cli_text(struct cli *cli, const char *s);
/* `normal_ns`, or the duration in the environment variable `name`, which tests set so that hours
 * become seconds. Not for users. */
int64_t cli_test_duration(const char *name, int64_t normal_ns);
const char *cli_duration(struct cli *cli, int64_t ns); /* text_add_duration, in cli->arena */
const char *cli_bytes(struct cli *cli, uint64_t n);
const char *cli_ago(struct cli *cli, int64_t wall_ns);         /* "3 minutes ago" */
const char *cli_hash(struct cli *cli, const struct digest *d); /* first 12 hex digits */

enum cli_style {
	STYLE_PLAIN,
	STYLE_BOLD,
	STYLE_DIM,
	STYLE_RED,
	STYLE_GREEN,
	STYLE_YELLOW,
	STYLE_BLUE,
	STYLE_MAGENTA,
	STYLE_CYAN
};
/* The escape sequence, or "" when there is no colour on cli->out. STYLE_PLAIN ends any. */
const char *cli_style(const struct cli *cli, enum cli_style s);
const char *cli_style_err(const struct cli *cli, enum cli_style s);
/* Escape sequence by itself, for drawings that go to either. */
const char *cli_style_escape(enum cli_style s);
/* One colour per state, everywhere: running blue, succeeded green, failed red, cancelled and
 * interrupted yellow. */
enum cli_style cli_state_style(const char *state); /* of a run or an attempt, as facts name it */
/* A member of facts that are JSON: its text, made printable, or NULL when it has none; its number,
 * or 0. In cli->arena. */
const char *cli_member(struct cli *cli, const json_t *o, const char *key);
int64_t cli_member_int(const json_t *o, const char *key);
const char *cli_short_hash(struct cli *cli, const char *hash); /* of "sha256:<hex>" */

/* Columns and lines of the terminal behind the stream (COLUMNS and LINES first, which must be
 * 1–10,000); 80 × 24 when unknown. */
void cli_terminal_size(FILE *stream, unsigned *ret_columns, unsigned *ret_lines);

/* The commands. */

#define CLI_COMMAND(name) int cmd_##name(struct cli *cli, const struct cli_args *args)
CLI_COMMAND(init);
CLI_COMMAND(check);
CLI_COMMAND(plan);
CLI_COMMAND(run);
CLI_COMMAND(resume);
CLI_COMMAND(status);
CLI_COMMAND(logs);
CLI_COMMAND(cancel);
CLI_COMMAND(runs);
CLI_COMMAND(why);
CLI_COMMAND(graph);
CLI_COMMAND(metrics);
CLI_COMMAND(diff);
CLI_COMMAND(lineage);
CLI_COMMAND(get);
CLI_COMMAND(tag);
CLI_COMMAND(reproduce);
CLI_COMMAND(export);
CLI_COMMAND(schedule_list);
CLI_COMMAND(schedule_next);
CLI_COMMAND(schedule_notices);
CLI_COMMAND(schedule_pause);
CLI_COMMAND(schedule_resume);
CLI_COMMAND(schedule_trigger);
CLI_COMMAND(schedule_history);
CLI_COMMAND(schedule_backfill);
CLI_COMMAND(schedule_write);
CLI_COMMAND(serve);
CLI_COMMAND(secret_set);
CLI_COMMAND(secret_list);
CLI_COMMAND(secret_rm);
CLI_COMMAND(store_verify);
CLI_COMMAND(store_gc);
CLI_COMMAND(store_stat);
CLI_COMMAND(store_push);
CLI_COMMAND(store_pull);
CLI_COMMAND(store_probe);
CLI_COMMAND(store_reindex);
CLI_COMMAND(doctor);
CLI_COMMAND(image);
CLI_COMMAND(step);
CLI_COMMAND(pod);
CLI_COMMAND(version);
CLI_COMMAND(help);
CLI_COMMAND(man);
CLI_COMMAND(completion);

#endif
