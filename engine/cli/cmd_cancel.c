/* `cairn cancel`: the request goes into the database, then the engine is told to look. */
#include <errno.h>
#include <signal.h>
#include "base/process.h"
#include "cli/facts.h"

static int request(struct db *db, const struct run_row *r, bool now, struct err *err)
{
	if (db_begin(db, err) < 0)
		return -1;
	if (record_run_request_cancel(db, r->rowid, now, err) < 0) {
		db_rollback(db);
		return -1;
	}
	return db_commit(db, err);
}

/* The number could be another process's by now: its start time tells. A row can say anything: kill(0) and kill(-1) reach far more than an
 * engine, and a process that isn't there "started" at 0. An engine that can't be told finds the request by itself, or is gone. */
static int signal_engine(const struct run_row *r, bool now)
{
	if (r->pid <= 1 || r->pid_start == 0 || process_start_time(r->pid) != r->pid_start)
		return 0;
	if (kill(r->pid, SIGTERM) == 0 && (!now || kill(r->pid, SIGINT) == 0))
		return 0;
	return errno == EPERM ? -1 : 0;
}

static int cancel(struct cli *cli, struct db *db, const struct run_row *r, bool now, struct err *err)
{
	if (r->state != RUN_RUNNING)
		return err_set(err, ERR_INVALID, "run %s is not running: it is %s", r->id, facts_state(r));
	if (record_run_engine(r) == RUN_ENGINE_ELSEWHERE)
		return err_set(err, ERR_INVALID,
			       "no engine of this machine has run %s: it was started on %s; cancel it there, or, if that machine is gone, cairn resume %s takes it up here",
			       r->id, r->host ? r->host : "another one", r->id);
	if (facts_engine_died(r))
		return err_set(err, ERR_INVALID, "the engine of run %s died: there is nothing to stop; cairn resume %s goes on", r->id, r->id);
	if (request(db, r, now, err) < 0)
		return -1;
	if (signal_engine(r, now) < 0)
		return err_errno(err, "cannot signal the engine of run %s (process %d)", r->id, r->pid);
	if (!cli->json)
		cli_printf(cli, "%s: asked to stop\n", r->id);
	return 0;
}

/* Those whose engine lives. */
static int find_running(struct cli *cli, struct db *db, struct run_row **ret, size_t *ret_n, struct err *err)
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
	json_t *done = json_array();
	struct err err = { 0 };
	struct run_row *rows;
	struct db *db;
	size_t n = args->n_operands;
	int r = cli_db(cli, DB_WRITE, &db, &err);

	if (r == 0 && n == 0) {
		r = find_running(cli, db, &rows, &n, &err);
		if (r == 0 && n != 1)
			r = n ? err_set(&err, ERR_INVALID, "%zu runs are running: name one (`cairn runs --state running`)", n) :
				err_set(&err, ERR_NOT_FOUND, "no run is running");
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
