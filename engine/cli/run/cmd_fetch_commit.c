/* `cairn fetch-commit URL COMMIT DIR`: what run/uses/uses.c runs. Its answer is its exit status,
 * and on failure one line on standard output. */
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "cli/cli.h"
#include "run/uses/uses.h"

int cmd_fetch_commit(struct cli *cli, const struct cli_args *args)
{
	struct err err = { 0 };

	/* Whoever was killed while it waits for us wants nothing any more. */
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (uses_fetch_commit(args->operands[0], args->operands[1], args->operands[2], &err) == 0)
		return CLI_OK;
	fprintf(cli->out, "%s\n", err.msg);
	return CLI_ENVIRONMENT;
}
