/* engine/cli/cli.h — the common parts of all commands.
 *
 * commands.c holds one table: each command with its options, operands, examples, exit codes and
 * JSON shape. Parsing, help, man pages and completion are made only from it. A command is a
 * function
 *
 * 	int cmd_NAME(struct cli *cli, const struct cli_args *args);
 *
 * in cmd_NAME.c, or next to similar ones (cmd_store.c, cmd_schedule_change.c). It returns the exit
 * code (design section 4): CLI_OK, CLI_TASK_FAILED, … or the result of cli_fail(). The command line
 * has passed the checks of the table: unknown options, missing or too many operands and wrong
 * choices have already ended with exit 2. The form of a command is
 *
 * 	struct err err = { 0 };
 * 	struct db *db;
 *
 * 	if (cli_db(cli, DB_READ, &db, &err) < 0)
 * 		return cli_fail(cli, &err);
 *
 * Facts go to cli->out, everything else (errors, warnings, progress, notices) to cli->err. All text
 * from outside goes through cli_text() or text_add_printable() before it is printed. One thread.
 */
#ifndef CAIRN_CLI_CLI_H
#define CAIRN_CLI_CLI_H

#include <stdbool.h>
#include <stdio.h>
#include "base/mem.h"
#include "base/text/json.h"
#include "cli/options.h"
#include "model/config/config.h"
#include "model/pipeline.h"
#include "record/rows/runs.h"
#include "storage/local/statcache.h"
#include "storage/store.h"

enum cli_exit {
	CLI_OK = 0,
	CLI_TASK_FAILED = 1, /* also: a requested check found something (store verify, doctor) */
	CLI_USAGE = 2,
	CLI_INVALID = 3,
	CLI_ENVIRONMENT = 4,
	CLI_INTERRUPTED = 130,
};

struct cli {
	FILE *out, *err;
	bool tty_out, tty_err;     /* it is a terminal that can move its cursor (TERM isn't dumb) */
	bool color_out, color_err; /* --color, NO_COLOR, CLICOLOR_FORCE */
	bool utf8;                 /* box-drawing characters and "…" may be printed; else ASCII */
	bool json;           /* --json; then cli->err gets one document at the end, or nothing */
	int verbosity;       /* -1 for -q, 0, 1 for -v, 2 for -vv */
	struct arena *arena; /* lives as long as the command */
	const struct cli_command *command, *parent; /* parent: "store" of "store gc", else NULL */
	const char *store_option, *runner_option,
		*cache_option; /* --store, --on and --cache, or NULL */

	/* Opened at first use by the functions below; closed by cli_deinit(). */
	struct config *config;
	struct db *db;
	bool db_writable;
	struct store *store;
	struct plan_ahead *ahead; /* session_look_ahead(); NULL: nothing was begun */

	/* With --json. */
	json_t *errors, *warnings; /* until the end (cli_print_findings); NULL: none */
	bool inside; /* this run is a part of what the command does: no answer of it */
	/* Those of a file are in `errors`, so the sum of them is no other one. */
	bool printed_errors;
};

/* Life cycle, for main.c and tests. */

/* Reads the environment (NO_COLOR, TERM, LANG …) and tests what the streams are. */
void cli_init(struct cli *cli, FILE *out, FILE *err);
void cli_deinit(struct cli *cli);
/* The whole program: parses, runs the command, flushes. Returns the exit code. */
int cli_main(struct cli *cli, int argc, char **argv);

/* Configuration, database, store, pipeline. */

/* Each opens at first use and lends; -1 with *err otherwise. */

/* cairn.yaml and the project's location, searched from the working directory upward. ERR_INVALID:
 * the file's errors were printed to cli->err. */
int cli_config(struct cli *cli, const struct config **ret, struct err *err);
/* DB_READ: ERR_NOT_FOUND when there is no database, because nothing has run in this project yet.
 * DB_WRITE makes one. DB_WRITE after DB_READ reopens it: earlier handles are closed. */
int cli_db(struct cli *cli, enum db_open_flags flags, struct db **ret, struct err *err);
/* create: make a missing store, and connect to a shared one; else ERR_NOT_FOUND. Only the call that
 * opens the store looks at `create`. */
int cli_store(struct cli *cli, bool create, struct store **ret, struct err *err);
/* Who uses this program, as it is recorded: "ada@host". */
const char *cli_author(struct cli *cli);
/* Path of the running program, and of the built-in steps' program next to it; in cli->arena. */
const char *cli_program(struct cli *cli);
const char *cli_steps_program(struct cli *cli);
/* `path` as the user typed it (NULL: pipeline.yaml in the working directory). Prints every error
 * and warning, each with its line of the file, to cli->err. The caller frees *ret
 * (pipeline_freep). */
int cli_pipeline(struct cli *cli, const char *path, struct pipeline **ret, struct err *err);
/* What a pipeline may use from elsewhere, for `o`: a fetch is told in a note. `uses` lives as long
 * as `o`. */
struct uses;
void cli_uses(struct cli *cli, const struct config *config, struct uses *uses,
	      struct pipeline_load_options *o);
/* For commands that take `[PIPELINE] [STEP…]`: whether this operand is a pipeline file. It is one
 * if it ends in .yaml or .yml, or if it is an existing file whose name no step can have: a file
 * `train` doesn't hide the step `train`. */
bool cli_is_pipeline_path(const char *operand);
/* Params of the command line in the right order: files of -P first, then -p NAME=VALUE. Strings in
 * cli->arena. Needs options "param" and "params-file" in the command's table. */
int cli_params(struct cli *cli, const struct cli_args *args, struct param_override **ret,
	       size_t *ret_n, struct err *err);

/* Output. */

/* Prints `cairn: <message>` to cli->err, once, and returns the exit code of the error. With --json
 * this and the next two add to the document that cli->err gets at the end. */
int cli_fail(struct cli *cli, const struct err *err);
/* The same for wrong usage that the table can't detect; the message ends with the command's
 * `--help`. Returns CLI_USAGE. */
int cli_usage_error(struct cli *cli, const char *fmt, ...) _printf_(2, 3);
void cli_warn(struct cli *cli, const char *fmt, ...) _printf_(2, 3); /* `cairn: warning: …` */
void cli_note(struct cli *cli, const char *fmt, ...)
	_printf_(2, 3); /* a line on cli->err; nothing with -q or --json */
void cli_printf(struct cli *cli, const char *fmt, ...) _printf_(2, 3); /* to cli->out */
/* Adds text of the program's own. Without UTF-8 its few signs ("…", "→", "·", "—") become ASCII.
 * The functions above and tables call it themselves. */
void cli_add_signs(struct str *out, const char *s, size_t n, bool utf8);

/* Prints a program's output, in pieces that may be cut anywhere. On a terminal, colours pass, and
 * everything else that a terminal obeys is made visible; any other output gets the bytes unchanged.
 * A log begins as { 0 }; cli_end_log() prints the beginning of a character that was never
 * completed. */
#define CLI_LOG_HELD 40 /* bytes: a colour sequence isn't longer */
struct cli_log {
	/* The end of the last piece, which may begin a sequence or character. */
	char held[CLI_LOG_HELD];
	size_t n_held;
	char colour[2 *
		    CLI_LOG_HELD]; /* the colour in effect: between pieces the terminal is ours */
	size_t n_colour;
};
void cli_print_log(struct cli *cli, struct cli_log *l, const char *bytes, size_t n);
void cli_end_log(struct cli *cli, struct cli_log *l);
/* Prints all diagnostics to cli->err: `file:line:col: message`, the line of the file, a caret.
 * Relative file names are below the working directory. With -q errors only. */
void cli_print_diags(struct cli *cli, struct diag_list *diags);

/* Errors and warnings for programs: {"severity", "message", "file", "line", "column", "hint"}. */
json_t *cli_finding(const struct diag *d);
#define CLI_FINDINGS_MAX 1000 /* of a kind in a document */
void cli_add_finding(struct cli *cli, const struct diag *d);
/* An error's text, perhaps with its place: "file:line:column: message". */
void cli_add_error_text(struct cli *cli, const char *text);
/* Writes the document, if there are findings. */
void cli_print_findings(struct cli *cli, int code);

/* Writes a command's result to the file at `path` (atomically), or to cli->out for "-". */
int cli_write_to(struct cli *cli, const char *path, const struct str *s, struct err *err);
/* Prints one JSON document, indented, keys sorted. Takes the reference. A command that succeeds
 * prints exactly one, an object. `schema` names its description in answers.json, which the
 * command's table entry lists; NULL: the document has a form of another program (Kubernetes
 * objects). */
void cli_print_json(struct cli *cli, const char *schema, json_t *j);

/* `s` made printable, in cli->arena; NULL gives "-". */
const char *cli_text(struct cli *cli, const char *s);
/* `normal_ns`, or the duration in the environment variable `name`, with which tests turn hours into
 * seconds. Not for users. */
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
/* The escape sequence, or "" when cli->out has no colour. STYLE_PLAIN ends every style. */
const char *cli_style(const struct cli *cli, enum cli_style s);
const char *cli_style_err(const struct cli *cli, enum cli_style s);
/* The escape sequence itself, for drawings that go to either stream. */
const char *cli_style_escape(enum cli_style s);
/* Each state has the same colour everywhere: running blue, succeeded green, failed red, cancelled
 * and interrupted yellow. */
enum cli_style cli_state_style(const char *state); /* of a run or an attempt, as in the facts */
/* A member of facts in JSON: its text, made printable, or NULL; its number, or 0. In cli->arena. */
const char *cli_member(struct cli *cli, const json_t *o, const char *key);
int64_t cli_member_int(const json_t *o, const char *key);
const char *cli_short_hash(struct cli *cli, const char *hash); /* of "sha256:<hex>" */
/* Of a run's facts: "caused by run train-k3v9x"; NULL when no event caused it. */
const char *cli_cause(struct cli *cli, const json_t *run);

/* Columns and lines of the terminal at the stream (from COLUMNS and LINES if set, which must be
 * 1–10,000); 80 × 24 when unknown. */
void cli_terminal_size(FILE *stream, unsigned *ret_columns, unsigned *ret_lines);

/* The commands. */

#define CLI_COMMAND(name) int cmd_##name(struct cli *cli, const struct cli_args *args)
CLI_COMMAND(init);
CLI_COMMAND(import);
CLI_COMMAND(check);
CLI_COMMAND(plan);
CLI_COMMAND(run);
CLI_COMMAND(resume);
CLI_COMMAND(sweep);
CLI_COMMAND(status);
CLI_COMMAND(logs);
CLI_COMMAND(cancel);
CLI_COMMAND(approve);
CLI_COMMAND(runs);
CLI_COMMAND(why);
CLI_COMMAND(graph);
CLI_COMMAND(metrics);
CLI_COMMAND(diff);
CLI_COMMAND(lineage);
CLI_COMMAND(get);
CLI_COMMAND(report);
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
CLI_COMMAND(serve_token);
CLI_COMMAND(ui);
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
CLI_COMMAND(schema);
CLI_COMMAND(completion);
CLI_COMMAND(names);
CLI_COMMAND(fetch_commit);

#endif
