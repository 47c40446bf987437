/* engine/cli/run/execution.h — shared by `run` and `resume`: a session with a progress display, and
 * the run's end as text, JSON and exit code. */
#ifndef CAIRN_CLI_RUN_EXECUTION_H
#define CAIRN_CLI_RUN_EXECUTION_H

#include "cli/progress/progress.h"
#include "cli/run/notices.h"
#include "cli/session.h"

struct execution {
	struct session s;
	struct progress *progress;
	struct notices *notices;
	struct run_context ctx;
};

int execution_open(struct execution *e, struct cli *cli, struct err *err);
void execution_close(struct execution *e);
/* Closes everything, even if execution_open() failed, and returns the exit code. `row` has an id
 * when a run was created. */
int execution_conclude(struct cli *cli, struct execution *e, int result, const struct run_row *row,
		       const struct err *err);

/* Opens, and runs `p` to its end. Call execution_conclude() even if it failed. */
int execution_begin(struct execution *e, struct cli *cli, const struct pipeline *p,
		    const struct run_options *o, struct run_row *row, struct err *err);
/* Does all of it: opens, runs `p` to its end, concludes. *row has an id when a run was created.
 * Returns the exit code. */
int execution_run(struct cli *cli, const struct pipeline *p, const struct run_options *o,
		  struct run_row *row);

#endif
