/* `cairn run`. */
#include "cli/execution.h"

int cmd_run(struct cli *cli, const struct cli_args *args)
{
	struct session_operands op = session_operands(cli, args);
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	struct run_row row = { 0 };
	struct err err = { 0 };
	struct run_options o;
	struct execution e;
	uint64_t jobs = 0;
	int result;

	if (session_options(cli, args, &op, &o, &err) < 0 || cli_uint(args, "jobs", 1, 10000, &jobs, &err) < 0 || cli_pipeline(cli, op.pipeline, &p, &err) < 0)
		return cli_fail(cli, &err);
	o.jobs = (unsigned)jobs;
	o.keep_going = cli_flag(args, "keep-going");
	o.keep_workspace = cli_flag(args, "keep-workspace");
	o.shell_step = cli_value(args, "shell");
	result = execution_open(&e, cli, &err);
	for (size_t i = 0; result == 0 && i < p->n_steps; i++)
		if (p->steps[i].metrics)
			progress_has_metrics(e.progress);
	if (result == 0 && o.shell_step)
		progress_plain(e.progress); /* the terminal is the shell's */
	if (result == 0)
		result = run_start(&e.ctx, p, &o, cli->arena, &row, &err);
	return execution_conclude(cli, &e, result, &row, &err);
}
