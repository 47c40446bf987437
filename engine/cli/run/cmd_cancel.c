/* `cairn cancel`. */
#include "cli/render/facts.h"
#include "cli/serve/server.h"
#include "run/cancel.h"

/* The run has no engine that could be asked, but its Jobs on a cluster go on. */
static int cancel_jobs(struct cli *cli, struct db *db, const struct run_row *r, struct err *err)
{
	const struct config *config;
	size_t n = 0;

	if (cli_config(cli, &config, err) < 0 || run_cancel_jobs(config, db, r, &n, err) < 0)
		return -1;
	if (!cli->json)
		cli_printf(cli, "%s: cancelled; %zu Job%s deleted\n", r->id, n, n == 1 ? "" : "s");
	return 0;
}

static int cancel(struct cli *cli, struct db *db, const struct run_row *r, bool now,
		  struct err *err)
{
	if (run_has_only_jobs(r))
		return cancel_jobs(cli, db, r, err);
	if (run_cancel(db, r, now, err) < 0)
		return -1;
	if (!cli->json)
		cli_printf(cli, "%s: asked to stop\n", r->id);
	return 0;
}

/* Runs that have a living engine. */
static int find_running(struct cli *cli, struct db *db, struct run_row **ret, size_t *ret_n,
			struct err *err)
{
	size_t n, kept = 0;

	if (record_running(db, cli->arena, ret, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (!facts_engine_died(&(*ret)[i]))
			(*ret)[kept++] = (*ret)[i];
	*ret_n = kept;
	return 0;
}

int cmd_cancel(struct cli *cli, const struct cli_args *args)
{
	size_t n = args->n_operands;
	struct err err = { 0 };
	struct run_row *rows;
	struct db *db;
	json_t *done;
	int r;

	if (cli_flag(args, "server"))
		return server_cancel(cli, args);
	done = json_array();
	r = server_unused(args, &err);
	if (r == 0)
		r = cli_db(cli, DB_WRITE, &db, &err);
	if (r == 0 && n == 0) {
		r = find_running(cli, db, &rows, &n, &err);
		if (r == 0 && n != 1)
			r = n ? err_set(&err, ERR_INVALID,
					"%zu runs are running: name one (`cairn runs --state "
					"running`)",
					n)
			      : err_set(&err, ERR_NOT_FOUND, "no run is running");
	} else if (r == 0) {
		rows = arena_alloc(cli->arena, n * sizeof(*rows));
		for (size_t i = 0; i < n && r == 0; i++)
			r = record_find_run(db, args->operands[i], cli->arena, &rows[i], &err);
	}
	for (size_t i = 0; r == 0 && i < n; i++) {
		r = cancel(cli, db, &rows[i], cli_flag(args, "now"), &err);
		if (r == 0)
			json_array_append_new(done, json_string(rows[i].id));
	}
	if (r < 0) {
		json_decref(done);
		return cli_fail(cli, &err);
	}
	if (cli->json)
		cli_print_json(cli, json_pack("{s:o}", "cancelled", done));
	else
		json_decref(done);
	return CLI_OK;
}
