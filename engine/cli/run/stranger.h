/* cli/run/stranger.h — runs that this project didn't begin: anybody who may write to the store may
 * have written them.
 *
 * Reading such a run is safe. Executing it gives its author the rights of the user who does. So it
 * is shown first, needs --trust, and gets only the secrets that --secret names.
 */
#ifndef CAIRN_CLI_RUN_STRANGER_H
#define CAIRN_CLI_RUN_STRANGER_H

#include "cli/cli.h"
#include "run/reproduce/reproduce.h"

/* Did a process with this database begin the run, or take it over from whoever has its server's
 * token? Rows that came from manifests name no host. */
static inline bool stranger_is_own(const struct run_row *row)
{
	return row->engine.host != NULL;
}

/* 0: the command line allows executing it. ERR_INVALID otherwise: what it would execute has been
 * shown. `o`: which steps. */
int stranger_check(struct cli *cli, const struct cli_args *args, struct store *s,
		   const struct run_row *row, const struct reproduce_options *o, struct err *err);

#endif
