/* engine/cli/serve/cmd_schedule_change.c — `cairn schedule pause`, `resume`, `trigger` and
 * `backfill`.
 *
 * All of them change rows: a server of the project sees them within seconds. `pause` and `resume`
 * change the schedule's row. `trigger` and `backfill` leave a waiting firing for the server
 * (leave_to_server()); without a server, or with --here, this process executes the run
 * (run_here()).
 *
 * `backfill` lists the nominal times first, at most BACKFILL_MAX, and then takes them oldest first.
 * A time that has succeeded or is under way is skipped, so the command can be repeated. With --json
 * the runs print no answers, because a command prints one.
 *
 * Invariants: leave_to_server() claims a firing by its schedule and nominal time in one
 * transaction, so that each time is left once. A firing that failed is left once more, by a
 * backfill only.
 *
 * Threads: one; a run has its loop. What it doesn't do: fire by the clock (engine/serve/schedule/).
 */
#include <string.h>
#include "base/text/text.h"
#include "cli/cli.h"
#include "cli/run/execution.h"
#include "cli/serve/schedules.h"
#include "record/facts.h"
#include "serve/notify/occurrence.h"

/* Commits a write transaction, or rolls it back. */
static int conclude(struct db *db, int result, struct err *err)
{
	if (result >= 0)
		return db_commit(db, err);
	db_rollback(db);
	return -1;
}

/* Pause and resume. */

static int set_paused(struct cli *cli, const struct schedule_entry *e, bool paused,
		      bool *ret_changed, struct err *err)
{
	struct schedule_row row;
	struct db *db;
	int r;

	if (cli_db(cli, DB_WRITE, &db, err) < 0 || db_begin(db, err) < 0)
		return -1;
	r = record_schedule(db, e->path, e->decl->name, cli->arena, &row, err);
	if (r >= 0) {
		*ret_changed = paused == (row.paused_ns == 0);
		schedule_row_pause(&row, paused, schedules_now());
		r = record_schedule_put(db, &row, err);
	}
	return conclude(db, r, err);
}

static int pause_or_resume(struct cli *cli, const struct cli_args *args, bool paused)
{
	json_t *names = json_array();
	struct schedule_list all;
	struct err err = { 0 };
	int code = CLI_OK;

	if (schedules_open(cli, NULL, 0, &all, &err) < 0)
		code = cli_fail(cli, &err);
	for (size_t i = 0; i < args->n_operands && code == CLI_OK; i++) {
		const struct schedule_entry *e;
		bool changed = false;

		if (schedules_find(cli, &all, args->operands[i], &e, &err) < 0 ||
		    set_paused(cli, e, paused, &changed, &err) < 0) {
			code = cli_fail(cli, &err);
			break;
		}
		if (!cli->json)
			cli_note(cli, "%s %s", cli_text(cli, args->operands[i]),
				 !changed ? (paused ? "is paused already" : "isn't paused")
				 : paused ? "is paused: nothing fires, and missed times aren't "
					    "made up for"
					  : "goes on with its next time");
		json_array_append_new(
			names, json_pack("{s:o, s:o, s:b}", "pipeline", facts_text(e->path), "name",
					 facts_text(e->decl->name), "changed", changed));
	}
	if (cli->json && code == CLI_OK)
		cli_print_json(cli, "cairn.schedule-pause/1",
			       json_pack("{s:O, s:b}", "schedules", names, "paused", paused));
	json_decref(names);
	schedules_close(&all);
	return code;
}

int cmd_schedule_pause(struct cli *cli, const struct cli_args *args)
{
	return pause_or_resume(cli, args, true);
}

int cmd_schedule_resume(struct cli *cli, const struct cli_args *args)
{
	return pause_or_resume(cli, args, false);
}

/* For a server. */

/* *ret: the id of a server that will execute it; NULL: this process does. */
static int server_for(struct cli *cli, const struct cli_args *args, const char **ret,
		      struct err *err)
{
	struct db *db;

	*ret = NULL;
	if (cli_flag(args, "here"))
		return 0;
	return cli_db(cli, DB_WRITE, &db, err) < 0 ||
			       record_server_any(db, schedules_now(), cli->arena, ret, err) < 0
		       ? -1
		       : 0;
}

/* Adds a firing that waits for the first server that sees it. 1: added. 0: it has fired already, or
 * waits. */
static int leave_to_server(struct cli *cli, const struct schedule_entry *e, int64_t nominal,
			   enum firing_cause cause, struct err *err)
{
	struct firing f = { .path = e->path,
			    .schedule = e->decl->name,
			    .nominal_ns = nominal,
			    .cause = cause,
			    .state = FIRING_WAITING,
			    .claimed_ns = schedules_now() };
	struct firing old;
	struct db *db;
	int r;

	if (cli_db(cli, DB_WRITE, &db, err) < 0 || db_begin(db, err) < 0)
		return -1;
	r = record_firing_claim(db, &f, err);
	if (r == 0 && cause == FIRING_BACKFILL) {
		r = record_firing(db, e->path, e->decl->name, nominal, cli->arena, &old, err);
		if (r > 0 && old.state > FIRING_SUCCEEDED) { /* it didn't succeed: once more */
			f.number = old.number;
			r = record_firing_update(db, &f, err) < 0 ? -1 : 1;
		} else if (r > 0) {
			r = 0;
		}
	}
	return conclude(db, r, err) < 0 ? -1 : r;
}

/* Here. */

static int run_here(struct cli *cli, const struct cli_args *args, const struct schedule_entry *e,
		    int64_t nominal, enum firing_cause cause, struct run_row *ret_row)
{
	struct run_options o = { 0 };
	struct param_override *overrides = NULL;
	struct occurrence oc;
	struct err err = { 0 };
	struct db *db;

	if ((cause == FIRING_MANUAL &&
	     cli_params(cli, args, &overrides, &o.n_overrides, &err) < 0) ||
	    cli_db(cli, DB_WRITE, &db, &err) < 0 ||
	    occurrence_of(e->decl, &(struct occurrence_record){ db, e->path }, nominal, cli->arena,
			  &oc, &err) < 0)
		return cli_fail(cli, &err);
	o.overrides = overrides;
	if (occurrence_options(&oc, cli->arena, &o, &err) < 0)
		return cli_fail(cli, &err);
	o.firing.cause = cause;
	o.firing.again = true;
	return execution_run(cli, e->pipeline, &o, ret_row);
}

int cmd_schedule_trigger(struct cli *cli, const struct cli_args *args)
{
	int64_t now = schedules_now();
	const struct schedule_entry *e;
	struct schedule_list all;
	struct err err = { 0 };
	struct run_row row;
	const char *server;
	int code = CLI_OK;

	if (schedules_open(cli, NULL, 0, &all, &err) < 0 ||
	    schedules_find(cli, &all, args->operands[0], &e, &err) < 0 ||
	    server_for(cli, args, &server, &err) < 0) {
		code = cli_fail(cli, &err);
	} else if (server && cli_count(args, "param") + cli_count(args, "params-file")) {
		code = cli_usage_error(cli, "params can only be set with --here: a server runs the "
					    "schedule as it stands in its file");
	} else if (!server) {
		code = run_here(cli, args, e, now, FIRING_MANUAL, &row);
	} else if (leave_to_server(cli, e, now, FIRING_MANUAL, &err) < 0) {
		code = cli_fail(cli, &err);
	} else {
		if (cli->json)
			cli_print_json(cli, "cairn.schedule-trigger/1",
				       json_pack("{s:o, s:o, s:o, s:s}", "pipeline",
						 facts_text(e->path), "schedule",
						 facts_text(e->decl->name), "time", facts_time(now),
						 "server", server));
		else
			cli_note(cli,
				 "the server %s starts it; `cairn schedule history %s` shows what "
				 "comes of it",
				 cli_text(cli, server), e->decl->name);
	}
	schedules_close(&all);
	return code;
}

/* Backfill. */

#define BACKFILL_MAX 10000

struct backfill {
	const struct schedule_entry *e;
	const char *server;
	int64_t *times;
	size_t n, n_done;
	json_t *firings;
};

static int nominal_times(struct cli *cli, struct backfill *b, const char *range, struct err *err)
{
	const char *dots = strstr(range, "..");
	int64_t from, to;

	if (!dots)
		return err_set(err, ERR_USAGE, "`%.60s` is not a range like 2026-03-01..2026-03-08",
			       range);
	if (text_parse_time(arena_strndup(cli->arena, range, (size_t)(dots - range)), &from, err) <
		    0 ||
	    text_parse_time(dots + 2, &to, err) < 0)
		return -1;
	if (to < from)
		return err_set(err, ERR_USAGE, "`%.60s` goes backwards", range);
	if (!b->e->decl->cron)
		return err_set(err, ERR_INVALID,
			       "schedule %s has no cron rule: there are no times to make up for",
			       b->e->decl->name);
	b->times = arena_alloc(cli->arena, BACKFILL_MAX * sizeof(*b->times));
	for (int64_t t = calendar_next(&b->e->calendar, from - 1); t != CALENDAR_NEVER && t <= to;
	     t = calendar_next(&b->e->calendar, t)) {
		if (b->n == BACKFILL_MAX)
			return err_set(err, ERR_TOO_LARGE,
				       "there are more than %d times in %s: take a shorter range",
				       BACKFILL_MAX, range);
		b->times[b->n++] = t;
	}
	return 0;
}

static void note_time(struct cli *cli, struct backfill *b, int64_t nominal, const char *what,
		      const char *run)
{
	struct str name = { 0 };

	json_array_append_new(b->firings, json_pack("{s:o, s:s, s:o}", "time", facts_time(nominal),
						    "state", what, "run", facts_text(run)));
	firing_add_name(&name, b->e->decl->name, nominal);
	if (!cli->json)
		cli_printf(cli, "%s  %s%s%s\n", name.s, what, run ? "  " : "", run ? run : "");
	str_deinit(&name);
}

static int backfill_one(struct cli *cli, const struct cli_args *args, struct backfill *b,
			int64_t nominal)
{
	struct err err = { 0 };
	struct firing f;
	struct run_row row = { 0 };
	struct db *db;
	int code;

	if (schedules_db(cli, &db, NULL) == 0 && db &&
	    record_firing(db, b->e->path, b->e->decl->name, nominal, cli->arena, &f, NULL) > 0 &&
	    f.state <= FIRING_SUCCEEDED) {
		note_time(cli, b, nominal,
			  f.state == FIRING_SUCCEEDED ? "done already" : "under way already",
			  f.run);
		return CLI_OK;
	}
	b->n_done++;
	if (cli_flag(args, "dry-run")) {
		note_time(cli, b, nominal, "to be run", NULL);
		return CLI_OK;
	}
	if (b->server) {
		if (leave_to_server(cli, b->e, nominal, FIRING_BACKFILL, &err) < 0)
			return cli_fail(cli, &err);
		note_time(cli, b, nominal, "waiting", NULL);
		return CLI_OK;
	}
	cli->inside = true; /* one document for all of them */
	code = run_here(cli, args, b->e, nominal, FIRING_BACKFILL, &row);
	cli->inside = false;
	note_time(cli, b, nominal, row.id ? run_state_name(row.state) : "failed", row.id);
	return code;
}

int cmd_schedule_backfill(struct cli *cli, const struct cli_args *args)
{
	struct backfill b = { .firings = json_array() };
	struct schedule_list all;
	struct err err = { 0 };
	int code = CLI_OK;

	if (schedules_open(cli, NULL, 0, &all, &err) < 0 ||
	    schedules_find(cli, &all, args->operands[0], &b.e, &err) < 0 ||
	    nominal_times(cli, &b, args->operands[1], &err) < 0 ||
	    server_for(cli, args, &b.server, &err) < 0)
		code = cli_fail(cli, &err);
	/* With --keep-going, a failure still decides the exit code. */
	for (size_t i = 0; i < b.n && (code == CLI_OK ||
				       (code == CLI_TASK_FAILED && cli_flag(args, "keep-going")));
	     i++) {
		int one = backfill_one(cli, args, &b, b.times[i]);

		code = one == CLI_OK ? code : one;
	}
	if (cli->json && json_array_size(b.firings) + (code == CLI_OK))
		cli_print_json(cli, "cairn.schedule-backfill/1",
			       json_pack("{s:o, s:o, s:O, s:o}", "pipeline", facts_text(b.e->path),
					 "schedule", facts_text(b.e->decl->name), "firings",
					 b.firings, "server", facts_text(b.server)));
	else if (code == CLI_OK && b.n == 0)
		cli_note(cli, "the schedule has no time in that range");
	json_decref(b.firings);
	schedules_close(&all);
	return code;
}
