/* engine/cli/run/stranger.h — runs that this project didn't begin: what comes out of a store is
 * whatever somebody wrote there.
 *
 * Reading such a run is safe; executing it gives its author the rights of whoever does. So it is
 * shown first, wants --trust, and gets no secret that isn't named by --secret.
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

/* 0: the command line allows to execute it. ERR_INVALID otherwise; what it would execute has been
 * shown. `o`: which steps. */
int stranger_check(struct cli *cli, const struct cli_args *args, struct store *s,
		   const struct run_row *row, const struct reproduce_options *o, struct err *err);

#endif
