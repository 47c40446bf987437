/* `cairn cancel`. */
#include "cli/cli.h"
#include "cli/serve/server.h"
#include "record/facts.h"
#include "run/cancel.h"
#include "run/reproduce/reproduce.h"

/* The named runs, or the only run that has a living engine. */
static int find_runs(struct cli *cli, struct db *db, const struct cli_args *args,
		     struct run_row **ret, size_t *ret_n, struct err *err)
{
	size_t n, kept = 0;

	*ret_n = args->n_operands;
	*ret = arena_alloc(cli->arena, (*ret_n + 1) * sizeof(**ret));
	for (size_t i = 0; i < args->n_operands; i++)
		if (record_find_run(db, args->operands[i], cli->arena, &(*ret)[i], err) < 0)
			return -1;
	if (args->n_operands)
		return 0;
	if (record_running(db, cli->arena, ret, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (!facts_engine_died(&(*ret)[i]))
			(*ret)[kept++] = (*ret)[i];
	*ret_n = kept;
	if (kept == 0)
		return err_set(err, ERR_NOT_FOUND, "no run is running");
	return kept == 1 ? 0
			 : err_set(err, ERR_INVALID,
				   "%zu runs are running: name one (`cairn runs --state running`)",
				   kept);
}

/* Only an engine executes steps, also those of `finally`. False also when the pipeline isn't known.
 */
static bool has_finally(struct cli *cli, const struct run_row *r)
{
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	struct store *s;
	bool any = false;

	if (cli_store(cli, false, &s, NULL) < 0 ||
	    pipeline_files_load(s, &r->pipeline_blob, r->path, &p, NULL) < 0)
		return false;
	for (size_t i = 0; i < p->n_steps; i++)
		any |= p->steps[i].finally;
	return any;
}

static int cancel(struct cli *cli, struct db *db, const struct run_row *r, bool now,
		  struct err *err)
{
	const struct config *config;
	size_t n = 0;

	if (!run_has_only_jobs(r)) {
		if (run_cancel(db, r, now, err) < 0)
			return -1;
		if (!cli->json)
			cli_printf(cli, "%s: asked to stop\n", r->id);
		return 0;
	}
	/* No engine answered, but its Jobs on a cluster still run. */
	if (cli_config(cli, &config, err) < 0 || run_cancel_jobs(config, db, r, &n, err) < 0)
		return -1;
	if (!cli->json)
		cli_printf(cli, "%s: cancelled; %zu Job%s deleted\n", r->id, n, n == 1 ? "" : "s");
	if (has_finally(cli, r))
		cli_warn(cli,
			 "no engine was there to execute the steps of `finally`: `cairn resume %s` "
			 "goes on with the run, and executes them at its end",
			 r->id);
	return 0;
}

int cmd_cancel(struct cli *cli, const struct cli_args *args)
{
	_cleanup_(json_decrefp) json_t *done = NULL;
	struct err err = { 0 };
	struct run_row *rows;
	struct db *db;
	size_t n;

	if (cli_flag(args, "server"))
		return server_cancel(cli, args);
	if (server_unused(args, &err) < 0 || cli_db(cli, DB_WRITE, &db, &err) < 0 ||
	    find_runs(cli, db, args, &rows, &n, &err) < 0)
		return cli_fail(cli, &err);
	done = json_array();
	for (size_t i = 0; i < n; i++) {
		if (cancel(cli, db, &rows[i], cli_flag(args, "now"), &err) < 0)
			return cli_fail(cli, &err);
		json_array_append_new(done, json_string(rows[i].id));
	}
	if (cli->json)
		cli_print_json(cli, "cairn.cancel/1", json_pack("{s:O}", "cancelled", done));
	return CLI_OK;
}
