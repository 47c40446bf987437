/* `cairn resume`. */
#include "cli/reproduce/reproduce.h"
#include "cli/run/foreign.h"
#include "run/project/cluster.h"

/* *id: NULL becomes the newest run that can be resumed. Sets the runner that its attempts used, and
 * the cluster, as it was called at the run's start; unless --on names another one. */
static int choose_runner(struct cli *cli, const char **id, struct err *err)
{
	struct run_row *rows, row;
	const struct run_cluster *where;
	const char *runner, *on;
	struct db *db;
	size_t n;

	if (cli_db(cli, DB_WRITE, &db, err) < 0)
		return -1;
	if (!*id) {
		if (record_resumable(db, cli->arena, &rows, &n, err) < 0)
			return -1;
		if (n == 0)
			return err_set(err, ERR_NOT_FOUND,
				       "no run is waiting to be resumed; `cairn runs` lists all");
		*id = rows[0].id;
	}
	if (record_find_run(db, *id, cli->arena, &row, err) < 0)
		return -1;
	runner = run_durable_runner(row.options_json, cli->arena);
	if (!runner)
		return 0;
	where = run_cluster_of(row.options_json, cli->arena);
	on = where && where->name ? where->name : runner;
	if (!cli->runner_option)
		cli->runner_option = on;
	/* Another one is run_resume()'s to refuse. */
	if (!str_eq(cli->runner_option, on))
		return 0;
	return where ? cluster_of_run(cli->config, where, err)
		     : config_choose_runner(cli->config, on, err);
}

int cmd_resume(struct cli *cli, const struct cli_args *args)
{
	const char *id = cli_operand(args, 0);
	struct reproduction *rep = NULL;
	struct run_row row = { 0 };
	struct err err = { 0 };
	struct execution e;
	uint64_t jobs = 0;
	int result = cli_uint(args, "jobs", 1, 10000, &jobs, &err);

	if (result < 0 || choose_runner(cli, &id, &err) < 0)
		return cli_fail(cli, &err);
	result = execution_open(&e, cli, &err);
	if (result == 0 && record_find_run(e.s.db, id, cli->arena, &row, &err) < 0)
		result = -1;
	if (result == 0 && !foreign_is_own(&row))
		result = foreign_check(cli, args, e.s.store, &row, &(struct reproduce_options){ 0 },
				       &err);
	row = (struct run_row){ 0 };
	if (result == 0)
		result = run_resume(&e.ctx, id, (unsigned)jobs, cli->arena, &row, &rep, &err);
	return reproduce_conclude(cli, &e, result, &row, rep, NULL, &err);
}
