/* `cairn approve`: the answer to a step that waits for a person. The run's engine finds it in the
 * database by itself. */
#include "base/time/clock.h"
#include "cli/cli.h"
#include "cli/serve/server.h"
#include "record/facts.h"
#include "record/rows/approvals.h"

int cmd_approve(struct cli *cli, const struct cli_args *args)
{
	struct approval_given g = { .task = args->operands[1],
				    .approved = !cli_flag(args, "refuse"),
				    .way = "cli",
				    .said = cli_value(args, "message") };
	struct attempt_row a;
	struct approval now;
	struct err err = { 0 };
	struct run_row run;
	struct db *db;

	if (cli_flag(args, "server"))
		return server_approve(cli, args);
	g.who = cli_author(cli);
	g.at_ns = clock_wall_ns();
	if (server_unused(args, &err) < 0 || cli_db(cli, DB_WRITE, &db, &err) < 0 ||
	    record_find_run(db, args->operands[0], cli->arena, &run, &err) < 0 ||
	    record_approval_give(db, &run, &g, cli->arena, &a, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		cli_print_json(cli, "cairn.approve/1",
			       json_pack("{s:o, s:o, s:o}", "run", facts_text(run.id), "task",
					 facts_text(a.task), "approval",
					 json_loads(a.approval, 0, NULL)));
		return CLI_OK;
	}
	if (approval_parse(a.approval, cli->arena, &now))
		cli_printf(cli, "%s of %s: %s\n", cli_text(cli, a.task), run.id,
			   cli_text(cli, approval_text(&now, cli->arena)));
	if (facts_engine_died(&run))
		cli_printf(cli, "  its engine died: cairn resume %s goes on\n", run.id);
	return CLI_OK;
}
