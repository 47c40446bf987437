/* `cairn status`. */
#include "cli/facts.h"
#include "cli/server.h"
#include "cli/table.h"
#include "record/outside.h"

/* What it copied out, or couldn't. */
struct exports {
	struct export_row *v;
	size_t n;
};

static json_t *json_exports(const struct exports *x)
{
	json_t *out = json_array();

	for (size_t i = 0; i < x->n; i++) {
		const struct export_row *e = &x->v[i];
		json_t *j = json_pack("{s:o, s:o, s:o, s:s}", "task", json_name(e->task, strlen(e->task)), "output", json_name(e->output, strlen(e->output)), "uri",
				      json_name(e->uri, strlen(e->uri)), "state", e->message ? "failed" : "exported");

		if (e->message)
			json_object_set_new(j, "message", json_name(e->message, strlen(e->message)));
		json_array_append_new(out, j);
	}
	return out;
}

static void print_exports(struct cli *cli, const struct exports *x)
{
	_cleanup_(table_freep) struct table *t = table_new();

	table_column(t, "", 0);
	table_column(t, "export of", TABLE_CUT);
	table_column(t, "to", TABLE_CUT);
	for (size_t i = 0; i < x->n; i++) {
		table_cell(t, x->v[i].message ? STYLE_RED : STYLE_GREEN, "%s", x->v[i].message ? "failed" : "exported");
		table_cell(t, STYLE_PLAIN, "%s %s", x->v[i].task, x->v[i].output);
		table_cell(t, STYLE_DIM, "%s", x->v[i].uri);
	}
	if (table_rows(t))
		table_print(t, cli);
}

static void print_json(struct cli *cli, const struct run_row *run, const struct attempt_row *a, size_t n, const struct exports *x)
{
	json_t *tasks = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(tasks, facts_attempt(&a[i], facts_engine_died(run)));
	cli_print_json(cli, json_pack("{s:o, s:o, s:o}", "run", facts_run(run), "tasks", tasks, "exports", json_exports(x)));
}

static void print_head(struct cli *cli, const struct run_row *r)
{
	const struct run_counts *c = &r->counts;

	cli_printf(cli, "%s%s%s %s%s%s, started %s", cli_style(cli, STYLE_BOLD), r->id, cli_style(cli, STYLE_PLAIN),
		   cli_style(cli, facts_engine_died(r) ? STYLE_RED : cli_run_state_style(r->state)), facts_state(r), cli_style(cli, STYLE_PLAIN),
		   cli_ago(cli, r->started_ns));
	if (r->ended_ns)
		cli_printf(cli, ", took %s", cli_duration(cli, r->ended_ns - r->started_ns));
	cli_printf(cli, "\n");
	if (r->has_hash)
		cli_printf(cli, "  run hash %s\n", cli_hash(cli, &r->hash));
	if (r->ended_ns)
		cli_printf(cli, "  %llu tasks: %llu executed, %llu hits, %llu failed, %llu skipped, %llu blocked\n", (unsigned long long)c->total,
			   (unsigned long long)c->executed, (unsigned long long)c->hits, (unsigned long long)c->failed, (unsigned long long)c->skipped,
			   (unsigned long long)c->blocked);
	if (r->message)
		cli_printf(cli, "  %s\n", cli_text(cli, r->message));
	if (facts_engine_died(r) || r->state == RUN_INTERRUPTED)
		cli_printf(cli, "  its %s: cairn resume %s goes on\n", r->state == RUN_INTERRUPTED ? "run was stopped" : "engine died", r->id);
}

static const char *remark(struct cli *cli, const struct attempt_row *a)
{
	const char *text = a->message ? a->message : a->waiting ? a->waiting : a->reason ? a->reason : "";

	if (!a->continues)
		return text;
	return arena_printf(cli->arena, "%s%swent on from the checkpoint of attempt%s %s", text, *text ? "; " : "", strchr(a->continues, ' ') ? "s" : "",
			    a->continues);
}

/* What goes on, and what failed last; of what went well only the number. */
static void print_attempts(struct cli *cli, const struct run_row *run, const struct attempt_row *a, size_t n)
{
	_cleanup_(table_freep) struct table *t = table_new();
	size_t done = 0;

	table_column(t, "", 0);
	table_column(t, "task", TABLE_CUT);
	table_column(t, "took", TABLE_RIGHT);
	table_column(t, "", TABLE_CUT);
	for (size_t i = 0; i < n; i++) {
		bool well = a[i].ended_ns && a[i].failure == FAILURE_NONE;

		done += well;
		if (well && cli->verbosity < 1)
			continue;
		table_cell(t, well ? STYLE_GREEN : a[i].ended_ns ? STYLE_RED : STYLE_BLUE, "%s",
			   a[i].failure != FAILURE_NONE ? failure_class_name(a[i].failure) : facts_attempt_state(&a[i], facts_engine_died(run)));
		table_cell(t, STYLE_PLAIN, "%s%s", a[i].task, a[i].number > 1 ? " (again)" : "");
		table_cell(t, STYLE_PLAIN, "%s", cli_duration(cli, facts_attempt_duration(&a[i])));
		table_cell(t, STYLE_DIM, "%s", remark(cli, &a[i]));
	}
	if (!run->ended_ns)
		cli_printf(cli, "  %zu attempts ended well so far\n", done);
	if (table_rows(t))
		table_print(t, cli);
}

int cmd_status(struct cli *cli, const struct cli_args *args)
{
	struct attempt_row *attempts;
	struct exports x;
	struct run_row run;
	struct err err = { 0 };
	struct db *db;
	size_t n;

	if (cli_flag(args, "server"))
		return server_status(cli, args);
	if (server_unused(args, &err) < 0 || cli_db(cli, DB_READ, &db, &err) < 0 || facts_find_run(cli, db, cli_operand(args, 0), &run, &err) < 0 ||
	    record_run_attempts(db, run.rowid, cli->arena, &attempts, &n, &err) < 0 ||
	    record_run_exports(db, run.rowid, cli->arena, &x.v, &x.n, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		print_json(cli, &run, attempts, n, &x);
		return CLI_OK;
	}
	print_head(cli, &run);
	print_attempts(cli, &run, attempts, n);
	print_exports(cli, &x);
	return CLI_OK;
}
