/* engine/cli/run/cmd_run.c — `cairn run`: what the command line and, for a trial of a sweep or a
 * schedule's firing, the environment say of a new run.
 *
 * A run of its own goes through execution.c. --dry-run, --detach and --twice go on in files of
 * theirs. What a sweep says (SWEEP_TRIAL_VARIABLE, SWEEP_STOP_VARIABLE) counts only if it can be
 * read: anybody may set a variable.
 */
#include "base/text/text.h"
#include "cli/reproduce/reproduce.h"
#include "cli/run/dry_run.h"
#include "cli/run/execution.h"
#include "cli/run/sweep/sweep.h"
#include "cli/serve/schedules.h"
#include "cli/serve/server.h"
#include "serve/notify/occurrence.h"

/* 1 there is nothing to do: another process has run this firing, or is about to. That is no error:
 * two cron daemons may call us. When a firing has started and has no run yet, a server may have
 * started this process for it. */
static int as_scheduled(struct cli *cli, const struct pipeline *p, const char *text,
			struct run_options *o, struct err *err)
{
	const char *path = schedules_path(cli, p);
	struct occurrence *oc = arena_alloc(cli->arena, sizeof(*oc));
	struct firing f;
	struct db *db;
	int r;

	if (!path)
		return err_set(err, ERR_INVALID, "%s is not in the project", p->path);
	if (cli_db(cli, DB_WRITE, &db, err) < 0 ||
	    occurrence_parse(p, text, &(struct occurrence_record){ db, path }, schedules_now(),
			     cli->arena, oc, err) < 0 ||
	    occurrence_options(oc, cli->arena, o, err) < 0)
		return -1;
	if (oc->explicit_time)
		return 0;
	r = record_firing(db, path, oc->decl->name, oc->nominal_ns, cli->arena, &f, err);
	if (r <= 0 || f.state == FIRING_MISSED || (f.state == FIRING_STARTED && !f.run) ||
	    (f.state == FIRING_WAITING && !f.server))
		return MIN(r, 0);
	cli_note(cli, "%s has fired for %s already (%s)%s%s", oc->decl->name, oc->times.time,
		 firing_state_name(f.state), f.run ? ": run " : "", f.run ? f.run : "");
	return 1;
}

/* The tasks that this run executed, from its attempts. */
static int executed(struct cli *cli, struct db *db, const struct run_row *row,
		    struct reproduce_options *ret, struct err *err)
{
	struct attempt_row *rows;
	const char **only;
	size_t n;

	if (record_run_attempts(db, row->rowid, cli->arena, &rows, &n, err) < 0)
		return -1;
	only = arena_alloc(cli->arena, (n + 1) * sizeof(*only));
	for (size_t i = 0; i < n; i++)
		if (rows[i].ended_ns &&
		    (rows[i].failure == FAILURE_NONE || rows[i].failure == FAILURE_GATE))
			only[ret->n_only++] = rows[i].task;
	ret->only = only;
	return 0;
}

/* Executes each task again with the same inputs. A task that gives another result isn't
 * deterministic. */
static int run_twice(struct cli *cli, struct execution *e, const struct run_row *first,
		     unsigned jobs)
{
	struct reproduce_options o = { .jobs = jobs };
	struct reproduction *rep = NULL;
	struct run_row row = { 0 };
	struct err err = { 0 };
	int code, result = executed(cli, e->s.db, first, &o, &err);

	if (result == 0 && o.n_only == 0) {
		cli_note(cli, "nothing was executed, so nothing was executed twice (--force "
			      "executes what is on record, too)");
		return execution_conclude(cli, e, 0, first, &err);
	}
	execution_close(e); /* the first run's display is finished */
	if (result == 0)
		result = execution_open(e, cli, &err);
	if (result == 0)
		result = run_reproduce(&e->ctx, &first->hash, &o, cli->arena, &row, &rep, &err);
	code = reproduce_conclude(cli, e, result, &row, rep, NULL, &err);
	return code == CLI_OK && first->state != RUN_SUCCEEDED ? CLI_TASK_FAILED : code;
}

/* `cairn sweep` starts us for a trial: "NAME ID NUMBER". */
static void read_trial(struct cli *cli, struct run_trial *ret)
{
	const char *text = getenv(SWEEP_TRIAL_VARIABLE), *id = text ? strchr(text, ' ') : NULL,
		   *number = id ? strchr(id + 1, ' ') : NULL;
	int64_t n;

	if (!number || !text_parse_int(number + 1, &n) || n < 1 || n > SWEEP_TRIALS_MAX * 2)
		return;
	*ret = (struct run_trial){ arena_strndup(cli->arena, text, (size_t)(id - text)),
				   arena_strndup(cli->arena, id + 1, (size_t)(number - id - 1)),
				   (uint32_t)n };
}

static void read_early_stop(struct cli *cli, struct early_stop *ret)
{
	const char *text = getenv(SWEEP_STOP_VARIABLE), *step, *metric;
	_cleanup_(json_decrefp) json_t *j = text ? json_loads(text, 0, NULL) : NULL;
	struct early_stop_point *v;
	json_t *points, *p;
	int maximize;
	size_t i;

	if (!j || json_unpack(j, "[s, s, b, o]", &step, &metric, &maximize, &points) < 0)
		return;
	v = arena_alloc(cli->arena, (json_array_size(points) + 1) * sizeof(*v));
	json_array_foreach(points, i, p) v[i] =
		(struct early_stop_point){ json_number_value(json_array_get(p, 0)),
					   json_number_value(json_array_get(p, 1)) };
	*ret = (struct early_stop){ .step = arena_strdup(cli->arena, step),
				    .metric = arena_strdup(cli->arena, metric),
				    .maximize = maximize,
				    .points = v,
				    .n = json_array_size(points) };
}

/* Whether this command plans the whole pipeline, and then runs it. */
static bool runs_whole(const struct cli_args *args, const struct run_options *o)
{
	return plan_selects_all(&o->select) && !cli_value(args, "schedule") &&
	       !cli_value(args, "dry-run") && !cli_value(args, "shell") &&
	       !cli_flag(args, "detach");
}

int cmd_run(struct cli *cli, const struct cli_args *args)
{
	struct session_operands op = session_operands(args);
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	const char *schedule = cli_value(args, "schedule");
	struct err err = { 0 };
	struct run_options o;
	struct execution e;
	struct run_row row;
	uint64_t jobs = 0;
	int r;

	if (session_options(cli, args, &op, &o, &err) < 0 ||
	    cli_uint(args, "jobs", 1, 10000, &jobs, &err) < 0 ||
	    (runs_whole(args, &o) && session_look_ahead(cli, op.pipeline, true, &err) < 0) ||
	    cli_pipeline(cli, op.pipeline, &p, &err) < 0)
		return cli_fail(cli, &err);
	o.jobs = (unsigned)jobs;
	o.keep_going = cli_flag(args, "keep-going");
	o.keep_workspace = cli_flag(args, "keep-workspace");
	o.audit = cli_values(args, "audit", cli->arena, &o.n_audit);
	o.shell_step = cli_value(args, "shell");
	read_trial(cli, &o.trial);
	if (o.trial.sweep)
		read_early_stop(cli, &o.stop);
	o.served = !schedule && getenv("CAIRN_SERVED");
	if (cli_value(args, "dry-run"))
		return dry_run(cli, args, p, &o);
	if (cli_value(args, "output"))
		return cli_usage_error(cli, "--output goes with --dry-run");
	if (cli_flag(args, "detach"))
		return server_run(cli, args, p, &o);
	if (cli_flag(args, "server"))
		return cli_usage_error(cli, "--server goes with --detach");
	if (server_unused(args, &err) < 0)
		return cli_fail(cli, &err);
	r = schedule ? as_scheduled(cli, p, schedule, &o, &err) : 0;
	if (r)
		return r < 0 ? cli_fail(cli, &err) : CLI_OK;
	r = execution_begin(&e, cli, p, &o, &row, &err);
	if (r == 0 && cli_flag(args, "twice") &&
	    (row.state == RUN_SUCCEEDED || row.state == RUN_FAILED))
		return run_twice(cli, &e, &row, o.jobs);
	return execution_conclude(cli, &e, r, &row, &err);
}
