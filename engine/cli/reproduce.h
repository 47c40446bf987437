/* cli/reproduce.h — what `reproduce`, `resume` and `run --twice` share: the end of a reproduction, on record and as text, JSON and exit code. */
#ifndef CAIRN_CLI_REPRODUCE_H
#define CAIRN_CLI_REPRODUCE_H

#include "cli/execution.h"
#include "run/reproduce.h"

/* Beside those of every command (design section 4). What is the same only after a normalisation isn't the same bytes. */
enum { REPRODUCE_TOLERATED = 10, REPRODUCE_DIFFERENT = 11, REPRODUCE_UNKNOWN = 12 };
int reproduce_exit_code(const struct reproduction *r);

/* Puts the report into the store and on record, where it keeps both runs, and prints it: text, or JSON with --json; and the page, when `html` isn't NULL. */
int reproduce_tell(struct cli *cli, const struct reproduction *r, const char *html, struct err *err);
/* As execution_conclude(), for a run that may be a reproduction: `rep` NULL is one that was stopped. */
int reproduce_conclude(struct cli *cli, struct execution *e, int result, const struct run_row *row, const struct reproduction *rep, const char *html,
		       const struct err *err);

#endif
