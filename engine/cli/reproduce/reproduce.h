/* engine/cli/reproduce/reproduce.h — shared by `reproduce`, `resume` and `run --twice`: the end of
 * a reproduction, on record and as text, JSON and exit code. */
#ifndef CAIRN_CLI_REPRODUCE_REPRODUCE_H
#define CAIRN_CLI_REPRODUCE_REPRODUCE_H

#include "cli/run/execution.h"
#include "run/reproduce/reproduce.h"

/* Added to the exit codes of every command (design section 4). Outputs that are equal only after a
 * normalisation aren't the same bytes. */
enum { REPRODUCE_TOLERATED = 10, REPRODUCE_DIFFERENT = 11, REPRODUCE_UNKNOWN = 12 };

/* Like execution_conclude(), for a run that may be a reproduction: with `rep` NULL, one that was
 * stopped. */
int reproduce_conclude(struct cli *cli, struct execution *e, int result, const struct run_row *row,
		       const struct reproduction *rep, const char *html, const struct err *err);

#endif
