/* engine/cli/command_table.h — macros for entries of the table of commands, and options that
 * several commands share. */
#ifndef CAIRN_CLI_COMMAND_TABLE_H
#define CAIRN_CLI_COMMAND_TABLE_H

#include "cli/options.h"

/* clang-format off */
#define OPTIONS(...) .options = (const struct cli_option[]){ __VA_ARGS__, { 0 } }
#define EXAMPLES(...) .examples = (const struct cli_example[]){ __VA_ARGS__, { 0 } }
#define EXIT_CODES(...) .exit_codes = (const struct cli_exit_code[]){ __VA_ARGS__, { 0 } }

/* Options that several commands share. */
#define OPT_PARAMS \
	{ 'p', "param", "NAME=VALUE", "set a param of the pipeline", .repeats = true, \
	  .complete = COMPLETE_PARAM }, \
	{ 'P', "params-file", "FILE", "set params from a YAML file; -p wins over it", \
	  .repeats = true, .complete = COMPLETE_YAML }
#define OPT_SELECT \
	{ 0, "from", "STEP", "run STEP and every step after it; earlier steps must be cached", \
	  .complete = COMPLETE_STEP }, \
	{ 0, "until", "STEP", "run every step up to and including STEP", \
	  .complete = COMPLETE_STEP }, \
	{ 'f', "force", "STEP", \
	  "execute STEP even if it is cached; without a value: all selected steps", \
	  .bare = "*", .repeats = true, .complete = COMPLETE_STEP }
#define OPT_STORE \
	{ 0, "store", "URI", "store content at URI (default: `store` in cairn.yaml)", \
	  .complete = COMPLETE_DIR }
#define OPT_CACHE \
	{ 0, "cache", "MODE", \
	  "use of the shared cache: read-write, read-only (fetch results, send none; " \
	  "not on Kubernetes) or off (also when the store can't be reached)", \
	  .choices = "read-write|read-only|off", .complete = COMPLETE_CHOICE }
#define OPT_ON \
	{ 0, "on", "RUNNER", \
	  "where tasks run: local, kubernetes, or a cluster of `kubernetes.contexts` (default: " \
	  "cairn.yaml)", \
	  .complete = COMPLETE_RUNNER }
#define OPT_SERVER \
	{ 0, "server", "URL", \
	  "ask the `cairn serve` at URL (without a value: the one of CAIRN_SERVER or cairn.yaml)", \
	  .bare = "" }, \
	{ 0, "project", "NAME", "with --server: the project, if it serves several" }, \
	{ 0, "token-file", "FILE", "the server's token, one line (or CAIRN_SERVE_TOKEN)", \
	  .complete = COMPLETE_FILE }
#define OPT_JOBS \
	{ 'j', "jobs", "N", "run at most N tasks at once (default: one per CPU, or cairn.yaml)" }
#define OPT_TRUST { 0, "trust", NULL, "execute a run that another project began" }
#define OPT_SECRET { 0, "secret", "NAME", "give such a run the secret NAME", .repeats = true }
#define OPT_RUN \
	{ 'r', "run", "RUN", "run id, run hash or a prefix of one (default: the newest run)", \
	  .complete = COMPLETE_RUN }
/* clang-format on */

extern const struct cli_command schedule_commands[];

#endif
