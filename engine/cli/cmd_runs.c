/* `cairn runs`. */
#include "cli/facts.h"
#include "cli/table.h"

static void parse_state(const char *word, struct run_filter *f)
{
	f->any_state = word == NULL;
	f->state = RUN_RUNNING; /* "died" too: what the database has of such a run */
	for (int s = RUN_RUNNING; word && s <= RUN_INTERRUPTED; s++)
		if (str_eq(word, run_state_name((enum run_state)s)))
			f->state = (enum run_state)s;
}

/* Whether an engine lives no query can tell: all that say they run are looked at, and there are never many. */
static int list(struct cli *cli, struct db *db, const char *state, struct run_filter *f, struct run_row **ret, size_t *ret_n, struct err *err)
{
	uint64_t limit = f->limit;
	size_t n, kept = 0;

	parse_state(state, f);
	if (!f->any_state && f->state == RUN_RUNNING)
		f->limit = 0;
	if (record_list_runs(db, f, cli->arena, ret, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n && (!limit || kept < limit); i++)
		if (!state || str_eq(facts_state(&(*ret)[i]), state))
			(*ret)[kept++] = (*ret)[i];
	*ret_n = kept;
	return 0;
}

static void add_row(struct cli *cli, struct table *t, const struct run_row *r)
{
	const struct run_counts *c = &r->counts;

	table_cell(t, STYLE_BOLD, "%s", r->id);
	table_cell(t, STYLE_DIM, "%s", r->has_hash ? cli_hash(cli, &r->hash) : "");
	table_cell(t, facts_engine_died(r) ? STYLE_RED : cli_run_state_style(r->state), "%s", facts_state(r));
	table_cell(t, STYLE_PLAIN, "%s", cli_ago(cli, r->started_ns));
	table_cell(t, STYLE_PLAIN, "%s", r->ended_ns ? cli_duration(cli, r->ended_ns - r->started_ns) : "");
	table_cell(t, STYLE_PLAIN, "%llu", (unsigned long long)c->executed);
	table_cell(t, STYLE_PLAIN, "%llu", (unsigned long long)c->hits);
	table_cell(t, STYLE_RED, "%s", r->message ? r->message : "");
}

static void print_table(struct cli *cli, const struct run_row *rows, size_t n)
{
	_cleanup_(table_freep) struct table *t = table_new();

	table_column(t, "run", 0);
	table_column(t, "hash", 0);
	table_column(t, "state", 0);
	table_column(t, "started", 0);
	table_column(t, "took", TABLE_RIGHT);
	table_column(t, "executed", TABLE_RIGHT);
	table_column(t, "hits", TABLE_RIGHT);
	table_column(t, "", TABLE_CUT);
	for (size_t i = 0; i < n; i++)
		add_row(cli, t, &rows[i]);
	table_print(t, cli);
}

static void print_nondeterminism(struct cli *cli, struct db *db)
{
	struct nondeterminism_row *rows;
	size_t n;

	if (record_nondeterminism(db, cli->arena, &rows, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		cli_printf(cli, "%snondeterministic%s: %s gave %llu different results under one key\n", cli_style(cli, STYLE_YELLOW), cli_style(cli, STYLE_PLAIN),
			   cli_text(cli, rows[i].task), (unsigned long long)rows[i].n_results);
}

int cmd_runs(struct cli *cli, const struct cli_args *args)
{
	struct run_filter f = { .pipeline = cli_value(args, "pipeline"), .limit = 20 };
	struct run_row *rows;
	struct err err = { 0 };
	struct db *db;
	size_t n;

	if (cli_uint(args, "limit", 0, UINT32_MAX, &f.limit, &err) < 0 || cli_db(cli, DB_READ, &db, &err) < 0 ||
	    list(cli, db, cli_value(args, "state"), &f, &rows, &n, &err) < 0)
		return cli_fail(cli, &err);
	if (cli->json) {
		json_t *runs = json_array();

		for (size_t i = 0; i < n; i++)
			json_array_append_new(runs, facts_run(&rows[i]));
		cli_print_json(cli, json_pack("{s:o}", "runs", runs));
		return CLI_OK;
	}
	print_table(cli, rows, n);
	print_nondeterminism(cli, db);
	return CLI_OK;
}
