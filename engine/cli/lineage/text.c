/* engine/cli/lineage/text.c — lineage as an indented tree.
 *
 * The walk is recursive and alternates: show_content() prints a content and goes to the attempts
 * that made or read it, show_attempt() prints an attempt and goes to what it read or made. Upward
 * only the oldest attempt that made the bytes is followed, since others made the same again.
 * Downward all are followed.
 *
 * `level` counts indents, so a step away is two levels. Each attempt is unfolded once (`shown`);
 * where it appears again the line says "(above)", which also ends cycles. FAN_MAX bounds what is
 * printed at one place.
 *
 * With --down a table of what is affected follows; it is made from the whole graph (draw.c,
 * facts.c).
 *
 * What it doesn't do: find the content or attempt where the question begins (cmd_lineage.c).
 */
#include "base/map.h"
#include "cli/lineage/lineage.h"
#include "cli/render/table.h"

#define FAN_MAX        50 /* what a person can follow on a screen; drawings show more */
#define AFFECTED_SHOWN 200

struct tree {
	struct cli *cli;
	struct db *db;
	const struct lineage_question *q;
	struct map *shown; /* attempt id */
};

static int show_content(struct tree *t, const struct run_row *reader, const char *name,
			const struct content_id *id, unsigned level, struct err *err);

static int show_io(struct tree *t, const struct attempt_row *a, const struct run_row *run,
		   unsigned level, struct err *err)
{
	struct named_content *v;
	struct cached_result made;
	size_t n;

	if (t->q->direction == LINEAGE_UP) {
		if (record_inputs(t->db, a->id, t->cli->arena, &v, &n, err) < 0)
			return -1;
	} else {
		if (record_outputs(t->db, a->id, t->cli->arena, &made, err) < 0)
			return -1;
		v = made.outputs;
		n = made.n_outputs;
	}
	for (size_t i = 0; i < n && i < FAN_MAX; i++)
		if (show_content(t, run, v[i].name, &v[i].id, level, err) < 0)
			return -1;
	if (n > FAN_MAX)
		cli_printf(t->cli, "%*s… and %zu more\n", (int)level * 2, "", n - FAN_MAX);
	return 0;
}

/* "params lr=0.1 seed=7 · code sha256:12ab… · commit 1a2b3c (dirty)": what decided the result
 * besides its inputs. */
static int show_facts(struct tree *t, const struct attempt_row *a, const struct run_row *run,
		      unsigned level, struct err *err)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	struct lineage_facts f;
	const char *name;
	json_t *v;

	if (lineage_facts_read(t->cli, t->db, &a->key, &f, err) < 0)
		return -1;
	json_object_foreach(f.params, name, v)
		str_addf(&s, "%s%s=%s", s.len ? " " : "params ", name, json_string_value(v));
	json_object_foreach(f.tools, name, v)
		str_addf(&s, "%stool %s: %s", s.len ? " · " : "", name, json_string_value(v));
	if (f.builtin)
		str_addf(&s, "%sstep %s", s.len ? " · " : "", f.builtin);
	if (f.has_code)
		str_addf(&s, "%scode sha256:%s", s.len ? " · " : "",
			 cli_hash(t->cli, &f.code.digest));
	if (run->git.commit && !f.builtin)
		str_addf(&s, "%scommit %.12s%s", s.len ? " · " : "", run->git.commit,
			 run->git.dirty ? " (dirty)" : "");
	if (s.len)
		cli_printf(t->cli, "%*s%s%s%s\n", (int)level * 2, "", cli_style(t->cli, STYLE_DIM),
			   cli_text(t->cli, s.s), cli_style(t->cli, STYLE_PLAIN));
	lineage_facts_deinit(&f);
	return 0;
}

static int show_attempt(struct tree *t, int64_t id, unsigned level, struct err *err)
{
	struct attempt_row a = { 0 };
	struct run_row run = { 0 };
	bool is_new;

	if (record_attempt(t->db, id, t->cli->arena, &a, &run, err) < 0)
		return -1;
	*map_slot(t->shown, &id, sizeof(id), &is_new) = t;
	cli_printf(t->cli, "%*s%s %s%s%s in %s, %s%s\n", (int)level * 2, "",
		   t->q->direction == LINEAGE_UP ? "made by" : "read by",
		   cli_style(t->cli, STYLE_BOLD), cli_text(t->cli, a.task),
		   cli_style(t->cli, STYLE_PLAIN), cli_text(t->cli, run.id),
		   cli_ago(t->cli, a.started_ns), is_new ? "" : " (above)");
	if (!is_new)
		return 0;
	if (t->q->direction == LINEAGE_UP && show_facts(t, &a, &run, level + 1, err) < 0)
		return -1;
	return show_io(t, &a, &run, level + 1, err);
}

static int show_content(struct tree *t, const struct run_row *reader, const char *name,
			const struct content_id *id, unsigned level, struct err *err)
{
	struct lineage_origin origin;
	struct attempt_row *a;
	size_t n;
	int r = reader ? lineage_find_origin(t->db, reader, id, t->cli->arena, &origin, err)
		       : lineage_find_any_origin(t->db, id, t->cli->arena, &origin, err);

	if (r < 0)
		return -1;
	cli_printf(t->cli, "%*s%s%s%s %ssha256:%s%s %s", (int)level * 2, "",
		   cli_style(t->cli, STYLE_CYAN), cli_text(t->cli, name),
		   cli_style(t->cli, STYLE_PLAIN), cli_style(t->cli, STYLE_DIM),
		   cli_hash(t->cli, &id->digest), cli_style(t->cli, STYLE_PLAIN),
		   id->kind == CONTENT_TREE ? "directory" : cli_bytes(t->cli, id->size_bytes));
	if (r > 0 && t->q->direction == LINEAGE_UP)
		cli_printf(t->cli, ", input %s: %s", cli_text(t->cli, origin.input),
			   cli_text(t->cli, origin.uri));
	else if (level == 0 && t->q->member_of)
		cli_printf(t->cli, ", which holds %s as %s", cli_text(t->cli, t->q->name),
			   cli_text(t->cli, t->q->member_of));
	cli_printf(t->cli, "\n");
	if (level / 2 >= t->q->depth)
		return 0;
	if (lineage_neighbours(t->db, id, t->q->direction, FAN_MAX + 1, t->cli->arena, &a, &n,
			       err) < 0)
		return -1;
	if (level == 0 && n == 0 && r == 0)
		cli_printf(t->cli, "  %s\n",
			   t->q->direction == LINEAGE_UP ? "no run on record made it"
							 : "no run on record read it");
	/* Upwards, the bytes came from the first attempt that made them. Others made the same
	 * again. */
	for (size_t i = 0; i < n && i < FAN_MAX && (t->q->direction == LINEAGE_DOWN || i == 0); i++)
		if (show_attempt(t, a[i].id, level + 1, err) < 0)
			return -1;
	if (n > FAN_MAX && t->q->direction == LINEAGE_DOWN)
		cli_printf(t->cli, "%*s… and more: see --json\n", (int)level * 2 + 2, "");
	return 0;
}

static int show_affected(struct tree *t, struct err *err)
{
	struct affected *v;
	struct lineage_graph g;
	struct table *table;
	size_t n;
	int r = lineage_build(t->cli, t->db, t->q, &g, err);

	if (r == 0)
		r = lineage_affected(t->cli, t->db, &g, &v, &n, err);
	if (r == 0 && n == 0)
		cli_printf(t->cli, "nothing was made of it\n");
	if (r == 0 && n) {
		table = table_new();
		table_column(table, "run", 0);
		table_column(table, "output", TABLE_CUT);
		table_column(table, "content", 0);
		table_column(table, "names", TABLE_CUT);
		for (size_t i = 0; i < n && i < AFFECTED_SHOWN; i++) {
			table_cell(table, STYLE_PLAIN, "%s",
				   v[i].attempt->run ? v[i].attempt->run->id : "-");
			table_cell(table, STYLE_BOLD, "%s/%s", v[i].attempt->attempt.task,
				   v[i].output);
			table_cell(table, STYLE_DIM, "sha256:%s",
				   cli_hash(t->cli, &v[i].id->digest));
			table_cell(table, STYLE_YELLOW, "%s", v[i].tags);
		}
		cli_printf(t->cli, "\naffected: %zu output%s%s\n", n, n == 1 ? "" : "s",
			   g.truncated ? ", and more" : "");
		table_print(table, t->cli);
		if (n > AFFECTED_SHOWN)
			cli_printf(t->cli, "… and %zu more: see --json\n", n - AFFECTED_SHOWN);
		table_free(table);
	}
	lineage_graph_deinit(&g);
	return r;
}

int lineage_print_text(struct cli *cli, struct db *db, const struct lineage_question *q,
		       struct err *err)
{
	struct tree t = { .cli = cli, .db = db, .q = q, .shown = map_new() };
	int r;

	if (q->what.kind == WHAT_METRIC)
		cli_printf(cli, "%s = %.10g\n", cli_text(cli, q->what.metric), q->what.value);
	if (q->attempt)
		r = show_attempt(&t, q->attempt, q->what.kind == WHAT_METRIC, err);
	else
		r = show_content(&t, NULL, q->member_of ? "directory" : q->name, &q->id, 0, err);
	if (r == 0 && q->direction == LINEAGE_DOWN)
		r = show_affected(&t, err);
	map_free(t.shown);
	return r;
}
