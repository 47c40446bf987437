/* `cairn run`. */
#include "cli/execution.h"
#include "cli/schedules.h"
#include "serve/occasion.h"

/* Somebody has run it, or is about to: two cron daemons that call us are no mistake. A start that has no run yet may be our own: a server's. */
static int has_fired(struct cli *cli, struct db *db, const struct occasion *oc, const char *path, bool *ret, struct err *err)
{
	struct firing f;
	int r = record_firing(db, path, oc->decl->name, oc->nominal_ns, cli->arena, &f, err);

	*ret = r > 0 && f.state != FIRING_MISSED && (f.state != FIRING_STARTED || f.run) && (f.state != FIRING_WAITING || f.server);
	if (*ret)
		cli_note(cli, "%s has fired for %s already (%s)%s%s", oc->decl->name, oc->times.time, firing_state_name(f.state), f.run ? ": run " : "",
			 f.run ? f.run : "");
	return r < 0 ? -1 : 0;
}

/* 1 there is nothing to do. */
static int as_scheduled(struct cli *cli, const struct pipeline *p, const char *text, struct run_options *o, struct err *err)
{
	const char *path = schedules_path(cli, p);
	struct occasion *oc = arena_alloc(cli->arena, sizeof(*oc));
	bool fired = false;
	struct db *db;

	if (!path)
		return err_set(err, ERR_INVALID, "%s is not in the project", p->path);
	if (cli_db(cli, DB_WRITE, &db, err) < 0 || occasion_parse(p, text, path, db, schedules_now(), cli->arena, oc, err) < 0 ||
	    occasion_options(oc, cli->arena, o, err) < 0)
		return -1;
	if (!oc->explicit_time && has_fired(cli, db, oc, path, &fired, err) < 0)
		return -1;
	return fired;
}

int cmd_run(struct cli *cli, const struct cli_args *args)
{
	struct session_operands op = session_operands(cli, args);
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	const char *schedule = cli_value(args, "schedule");
	struct err err = { 0 };
	struct run_options o;
	struct run_row row;
	uint64_t jobs = 0;
	int r;

	if (session_options(cli, args, &op, &o, &err) < 0 || cli_uint(args, "jobs", 1, 10000, &jobs, &err) < 0 || cli_pipeline(cli, op.pipeline, &p, &err) < 0)
		return cli_fail(cli, &err);
	o.jobs = (unsigned)jobs;
	o.keep_going = cli_flag(args, "keep-going");
	o.keep_workspace = cli_flag(args, "keep-workspace");
	o.shell_step = cli_value(args, "shell");
	r = schedule ? as_scheduled(cli, p, schedule, &o, &err) : 0;
	if (r)
		return r < 0 ? cli_fail(cli, &err) : CLI_OK;
	return execution_run(cli, p, &o, &row);
}
