/* engine/cli/past/cmd_status.c — `cairn status`: one run, its attempts, its exports.
 *
 * read_status() reads the facts from this project's database, server_status() (serve/follow.c) from
 * a server. Both return the same JSON, which `--json` prints and from which the tables for people
 * are made. People see attempts that still run or failed; successful ones, and tasks that weren't
 * executed (run/view/tasks.c), are only counted, unless -v.
 *
 * Whether an engine lives is in no column: run_is_left() and facts_engine_died() look at the
 * process, so an attempt without an end isn't called running when its engine is dead.
 *
 * Invariant: data from a server may be hostile; cli_member() makes its text printable.
 */
#include "base/text/text.h"
#include "cli/named.h"
#include "cli/past/past.h"
#include "cli/render/table.h"
#include "cli/serve/server.h"
#include "run/handover/served.h"
#include "run/run.h"
#include "run/view/tasks.h"

static const char *printable(struct cli *cli, const json_t *o, const char *key)
{
	const char *s = cli_member(cli, o, key);

	return s ? s : "?";
}

/* `next`: what happens next to a run that hasn't ended; NULL: nothing is left to do. */
static void print_run(struct cli *cli, const json_t *run, const char *next)
{
	const json_t *c = json_object_get(run, "counts");
	const char *state = printable(cli, run, "state"), *hash = cli_member(cli, run, "hash"),
		   *started = json_string_value(json_object_get(run, "started")),
		   *message = cli_member(cli, run, "message"),
		   *waiting = cli_member(cli, run, "waiting");
	int64_t took_ns = cli_member_int(run, "duration_ns"), started_ns = 0;

	cli_printf(cli, "%s%s%s %s%s%s", cli_style(cli, STYLE_BOLD), printable(cli, run, "id"),
		   cli_style(cli, STYLE_PLAIN), cli_style(cli, cli_state_style(state)), state,
		   cli_style(cli, STYLE_PLAIN));
	if (started && text_parse_time(started, &started_ns, NULL) == 0)
		cli_printf(cli, ", started %s", cli_ago(cli, started_ns));
	if (took_ns)
		cli_printf(cli, ", took %s", cli_duration(cli, took_ns));
	cli_printf(cli, "\n");
	if (hash)
		cli_printf(cli, "  run hash %s\n", cli_short_hash(cli, hash));
	if (took_ns)
		cli_printf(cli,
			   "  %lld task%s: %lld executed, %lld hit%s, %lld failed, %lld skipped, "
			   "%lld blocked\n",
			   (long long)cli_member_int(c, "total"),
			   cli_member_int(c, "total") == 1 ? "" : "s",
			   (long long)cli_member_int(c, "executed"),
			   (long long)cli_member_int(c, "hits"),
			   cli_member_int(c, "hits") == 1 ? "" : "s",
			   (long long)cli_member_int(c, "failed"),
			   (long long)cli_member_int(c, "skipped"),
			   (long long)cli_member_int(c, "blocked"));
	if (message)
		cli_printf(cli, "  %s\n", message);
	if (waiting)
		cli_printf(cli, "  %s\n", waiting);
	if (cli_cause(cli, run))
		cli_printf(cli, "  %s\n", cli_cause(cli, run));
	if (next)
		cli_printf(cli, "  %s\n", next);
}

/* Why it failed, waits or ran, and from which checkpoints it continued. */
static const char *remark(struct cli *cli, const json_t *a)
{
	static const char *const keys[] = { "message", "waiting", "reason" };
	const json_t *continues = json_object_get(a, "continues");
	_cleanup_(str_deinit) struct str out = { 0 };
	const char *text = NULL;

	for (size_t i = 0; !text && i < ARRAY_LEN(keys); i++)
		text = cli_member(cli, a, keys[i]);
	str_add(&out, text ? text : "");
	for (size_t i = 0; i < json_array_size(continues); i++)
		str_addf(&out, "%s%lld",
			 i         ? " "
			 : out.len ? "; went on from the checkpoint of attempt "
				   : "went on from the checkpoint of attempt ",
			 (long long)json_integer_value(json_array_get(continues, i)));
	return arena_strndup(cli->arena, out.s, out.len);
}

/* Prints attempts that still run or failed. Counts the successful ones, unless -v. */
static void print_attempts(struct cli *cli, const json_t *attempts, bool ended)
{
	_cleanup_(table_freep) struct table *t = table_new();
	size_t i, done = 0;
	json_t *a;

	table_column(t, "", 0);
	table_column(t, "task", TABLE_CUT);
	table_column(t, "took", TABLE_RIGHT);
	table_column(t, "", TABLE_CUT);
	json_array_foreach(attempts, i, a)
	{
		const char *state = printable(cli, a, "state"),
			   *failure = cli_member(cli, a, "failure");
		bool well = str_eq(state, "succeeded");

		done += well;
		if (well && cli->verbosity < 1)
			continue;
		table_cell(t, cli_state_style(state), "%s", failure ? failure : state);
		table_cell(t, STYLE_PLAIN, "%s%s", printable(cli, a, "task"),
			   cli_member_int(a, "attempt") > 1 ? " (again)" : "");
		table_cell(t, STYLE_PLAIN, "%s",
			   cli_duration(cli, cli_member_int(a, "duration_ns")));
		table_cell(t, STYLE_DIM, "%s", remark(cli, a));
	}
	if (!ended)
		cli_printf(cli, "  %zu attempts ended well so far\n", done);
	if (table_rows(t))
		table_print(t, cli);
}

static void print_spared(struct cli *cli, const json_t *tasks)
{
	_cleanup_(table_freep) struct table *t = table_new();
	size_t i;
	json_t *s;

	table_column(t, "", 0);
	table_column(t, "not executed", TABLE_CUT);
	table_column(t, "", TABLE_CUT);
	json_array_foreach(tasks, i, s)
	{
		const char *state = printable(cli, s, "state"),
			   *made_by = cli_member(cli, s, "made_by"),
			   *reason = cli_member(cli, s, "reason");

		table_cell(t, str_eq(state, "hit") ? STYLE_CYAN : STYLE_DIM, "%s", state);
		table_cell(t, STYLE_PLAIN, "%s", printable(cli, s, "task"));
		table_cell(t, STYLE_DIM, "%s%s", made_by ? "made by run " : "",
			   made_by  ? made_by
			   : reason ? reason
				    : "");
	}
	if (table_rows(t))
		table_print(t, cli);
}

static void print_exports(struct cli *cli, const json_t *exports)
{
	_cleanup_(table_freep) struct table *t = table_new();
	size_t i;
	json_t *e;

	table_column(t, "", 0);
	table_column(t, "export of", TABLE_CUT);
	table_column(t, "to", TABLE_CUT);
	json_array_foreach(exports, i, e)
	{
		const char *state = printable(cli, e, "state");

		table_cell(t, str_eq(state, "failed") ? STYLE_RED : STYLE_GREEN, "%s", state);
		table_cell(t, STYLE_PLAIN, "%s %s", printable(cli, e, "task"),
			   printable(cli, e, "output"));
		table_cell(t, STYLE_DIM, "%s", printable(cli, e, "uri"));
	}
	if (table_rows(t))
		table_print(t, cli);
}

/* The tasks of an ended run that weren't executed in it. */
static int read_spared(struct cli *cli, struct db *db, const struct run_row *run, json_t **ret,
		       struct err *err)
{
	_cleanup_(view_freep) struct run_view *v = NULL;
	const struct config *config;
	struct store *store;

	*ret = NULL;
	if (!run->results.kind)
		return *ret = json_array(), 0;
	if (cli_config(cli, &config, err) < 0 || cli_store(cli, false, &store, err) < 0 ||
	    view_open(db, store, config->state_dir, run, &v, err) < 0)
		return -1;
	return view_spared_json(v, db, ret, err);
}

/* Reads from this project's database what `--json` prints, and what happens next to the run. */
static int read_status(struct cli *cli, const struct cli_args *args, json_t **ret,
		       const char **ret_next, struct err *err)
{
	struct attempt_row *attempts;
	struct run_row run;
	json_t *exports, *tasks, *spared;
	struct db *db;
	size_t n;

	if (server_unused(args, err) < 0 || cli_db(cli, DB_READ, &db, err) < 0 ||
	    named_run(cli, db, cli_operand(args, 0), &run, err) < 0 ||
	    record_run_attempts(db, run.rowid, cli->arena, &attempts, &n, err) < 0 ||
	    facts_exports(db, &run, cli->arena, &exports, err) < 0)
		return -1;
	if (!cli->json && cli->verbosity < 1)
		spared = json_array();
	else if (read_spared(cli, db, &run, &spared, err) < 0)
		return json_decref(exports), -1;
	tasks = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(tasks, facts_attempt(&attempts[i], run_is_left(&run)));
	*ret = json_pack("{s:o, s:o, s:o, s:o}", "run", facts_named_run(db, &run, cli->arena),
			 "tasks", tasks, "not_executed", spared, "exports", exports);
	*ret_next = NULL;
	if (run.state == RUN_INTERRUPTED && run_is_served(&run))
		*ret_next = arena_printf(
			cli->arena,
			"it waits: `cairn serve` goes on with it by itself; cairn resume %s does "
			"now",
			run.id);
	else if (facts_engine_died(&run) || run.state == RUN_INTERRUPTED)
		*ret_next = arena_printf(
			cli->arena, "its %s: cairn resume %s goes on",
			run.state == RUN_INTERRUPTED ? "run was stopped" : "engine died", run.id);
	return 0;
}

int cmd_status(struct cli *cli, const struct cli_args *args)
{
	_cleanup_(json_decrefp) json_t *status = NULL;
	const char *next, *state;
	struct err err = { 0 };
	const json_t *run;
	int r = cli_flag(args, "server") ? server_status(cli, args, &status, &next, &err)
					 : read_status(cli, args, &status, &next, &err);

	if (r < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		cli_print_json(cli, "cairn.status/1", json_incref(status));
		return CLI_OK;
	}
	run = json_object_get(status, "run");
	state = json_string_value(json_object_get(run, "state"));
	print_run(cli, run, next);
	print_attempts(cli, json_object_get(status, "tasks"),
		       !str_eq(state, "running") && !str_eq(state, "died"));
	print_spared(cli, json_object_get(status, "not_executed"));
	print_exports(cli, json_object_get(status, "exports"));
	return CLI_OK;
}
