/* engine/cli/run/foreign.h — runs that this project didn't begin: anyone who may write to the store
 * may have written them.
 *
 * Reading such a run is safe. Executing it gives its author the rights of the current user. So the
 * command shows it first, requires --trust, and passes only the secrets that --secret names.
 */
#ifndef CAIRN_CLI_RUN_FOREIGN_H
#define CAIRN_CLI_RUN_FOREIGN_H

#include "cli/cli.h"
#include "run/reproduce/reproduce.h"

/* Whether a process with this database began the run, or took it over from someone with its
 * server's token. Rows that came from manifests name no host. */
static inline bool foreign_is_own(const struct run_row *row)
{
	return row->engine.host != NULL;
}

/* 0: the command line allows executing it. ERR_INVALID otherwise: the steps were shown. `o`: the
 * chosen steps. */
int foreign_check(struct cli *cli, const struct cli_args *args, struct store *s,
		  const struct run_row *row, const struct reproduce_options *o, struct err *err);

#endif
