/* engine/cli/run/dry_run.h — `cairn run --dry-run`: the objects that a cluster would get for the
 * tasks that would be executed, as far as they are known before anything runs. */
#ifndef CAIRN_CLI_RUN_DRY_RUN_H
#define CAIRN_CLI_RUN_DRY_RUN_H

#include "cli/session.h"

/* Prints them (`--output`: yaml or json) and returns the exit code. `--dry-run=server`: asks the
 * cluster how it would create or refuse each; no object is created. Tasks on record have no
 * objects. */
int dry_run(struct cli *cli, const struct cli_args *args, const struct pipeline *p,
	    const struct run_options *o);

#endif
