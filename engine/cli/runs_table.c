#include "cli/runs_table.h"

struct table *runs_table_new(void)
{
	struct table *t = table_new();

	table_column(t, "run", 0);
	table_column(t, "hash", 0);
	table_column(t, "state", 0);
	table_column(t, "started", 0);
	table_column(t, "took", TABLE_RIGHT);
	table_column(t, "executed", TABLE_RIGHT);
	table_column(t, "hits", TABLE_RIGHT);
	table_column(t, "", TABLE_CUT);
	return t;
}

static enum cli_style style_of(const char *state)
{
	for (int s = RUN_RUNNING; s <= RUN_INTERRUPTED; s++)
		if (str_eq(state, run_state_name((enum run_state)s)))
			return cli_run_state_style((enum run_state)s);
	return STYLE_RED; /* died */
}

void runs_table_add(struct table *t, struct cli *cli, const struct runs_line *l)
{
	table_cell(t, STYLE_BOLD, "%s", l->id);
	table_cell(t, STYLE_DIM, "%s", l->hash);
	table_cell(t, style_of(l->state), "%s", l->state);
	table_cell(t, STYLE_PLAIN, "%s", l->started_ns ? cli_ago(cli, l->started_ns) : "");
	table_cell(t, STYLE_PLAIN, "%s", l->took_ns ? cli_duration(cli, l->took_ns) : "");
	table_cell(t, STYLE_PLAIN, "%llu", (unsigned long long)l->executed);
	table_cell(t, STYLE_PLAIN, "%llu", (unsigned long long)l->hits);
	table_cell(t, l->message ? STYLE_RED : STYLE_CYAN, "%s%s%s", l->names, *l->names && l->message ? ": " : "", l->message ? l->message : "");
}
