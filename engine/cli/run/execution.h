/* cli/run/execution.h — what `run` and `resume` share: surroundings with a progress display, and
 * the run's end as text, JSON and exit code. */
#ifndef CAIRN_CLI_RUN_EXECUTION_H
#define CAIRN_CLI_RUN_EXECUTION_H

#include "cli/progress/progress.h"
#include "cli/session.h"

struct execution {
	struct session s;
	struct progress *progress;
	struct run_context ctx;
};

int execution_open(struct execution *e, struct cli *cli, struct err *err);
void execution_close(struct execution *e);
/* Closes everything, also when execution_open() failed, and gives the exit code. `row` has an id
 * when a run came to be. */
int execution_conclude(struct cli *cli, struct execution *e, int result, const struct run_row *row,
		       const struct err *err);

/* Opens, and runs `p` to its end; execution_conclude() follows, also when this failed. */
int execution_begin(struct execution *e, struct cli *cli, const struct pipeline *p,
		    const struct run_options *o, struct run_row *row, struct err *err);
/* All of it: opens, runs `p` to its end, concludes. *row has an id when a run came to be. Returns
 * the exit code. */
int execution_run(struct cli *cli, const struct pipeline *p, const struct run_options *o,
		  struct run_row *row);

#endif
