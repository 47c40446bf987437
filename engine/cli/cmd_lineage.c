/* `cairn lineage`: content and the attempts that made it or were made from it, as a tree or as a graph in JSON. */
#include <fcntl.h>
#include "base/map.h"
#include "cli/facts.h"
#include "record/lineage.h"
#include "storage/content.h"

/* What a person can follow on a screen; --json goes further. */
#define ATTEMPTS_MAX 100000
#define FAN_MAX 50

struct lineage {
	struct cli *cli;
	struct db *db;
	enum lineage_direction direction;
	uint64_t depth;
	struct map *shown; /* attempt id */
	json_t *nodes, *edges;
	struct map *known; /* nodes by id text */
};

static const char *id_text(struct lineage *l, const struct content_id *id)
{
	char hex[DIGEST_HEX_MAX];

	return arena_printf(l->cli->arena, "sha256:%s", digest_hex(&id->digest, hex));
}

/* --- as a tree ------------------------------------------------------------------------------------------------------------------------- */

static int show_content(struct lineage *l, const char *name, const struct content_id *id, unsigned level, struct err *err);

static int show_io(struct lineage *l, const struct attempt_row *a, unsigned level, struct err *err)
{
	struct named_content *v;
	struct cached_result made;
	size_t n;

	if (l->direction == LINEAGE_UP) {
		if (record_inputs(l->db, a->id, l->cli->arena, &v, &n, err) < 0)
			return -1;
	} else {
		if (record_outputs(l->db, a->id, l->cli->arena, &made, err) < 0)
			return -1;
		v = made.outputs;
		n = made.n_outputs;
	}
	for (size_t i = 0; i < n && i < FAN_MAX; i++)
		if (show_content(l, v[i].name, &v[i].id, level, err) < 0)
			return -1;
	if (n > FAN_MAX)
		cli_printf(l->cli, "%*s… and %zu more\n", (int)level * 2, "", n - FAN_MAX);
	return 0;
}

static int show_attempt(struct lineage *l, const struct attempt_row *a, unsigned level, struct err *err)
{
	const char *run = record_run_id(l->db, a->run, l->cli->arena);
	bool is_new;

	*map_slot(l->shown, &a->id, sizeof(a->id), &is_new) = l;
	cli_printf(l->cli, "%*s%s %s%s%s in %s, %s%s\n", (int)level * 2, "", l->direction == LINEAGE_UP ? "made by" : "read by", cli_style(l->cli, STYLE_BOLD),
		   cli_text(l->cli, a->task), cli_style(l->cli, STYLE_PLAIN), cli_text(l->cli, run), cli_ago(l->cli, a->started_ns), is_new ? "" : " (above)");
	return is_new && level / 2 < l->depth ? show_io(l, a, level + 1, err) : 0;
}

static int show_content(struct lineage *l, const char *name, const struct content_id *id, unsigned level, struct err *err)
{
	struct attempt_row *a;
	size_t n;

	cli_printf(l->cli, "%*s%s%s%s %s%.19s%s %s\n", (int)level * 2, "", cli_style(l->cli, STYLE_CYAN), cli_text(l->cli, name), cli_style(l->cli, STYLE_PLAIN),
		   cli_style(l->cli, STYLE_DIM), id_text(l, id), cli_style(l->cli, STYLE_PLAIN), id->kind == CONTENT_TREE ? "directory" : cli_bytes(l->cli, id->size_bytes));
	if (lineage_neighbours(l->db, id, l->direction, FAN_MAX, l->cli->arena, &a, &n, err) < 0)
		return -1;
	/* Up: the first attempt that made these bytes is where they came from; others made the same again. */
	for (size_t i = 0; i < n && (l->direction == LINEAGE_DOWN || i == 0); i++)
		if (show_attempt(l, &a[i], level + 1, err) < 0)
			return -1;
	return 0;
}

/* --- as a graph -------------------------------------------------------------------------------------------------------------------------- */

static void add_artifact(struct lineage *l, const struct content_id *id)
{
	const char *text = id_text(l, id);
	bool is_new;

	*map_slot(l->known, text, strlen(text), &is_new) = l;
	if (is_new)
		json_array_append_new(l->nodes, json_pack("{s:s, s:s, s:s, s:I}", "id", text, "kind", "artifact", "content", id->kind == CONTENT_TREE ? "tree" : "blob",
							  "size", (json_int_t)id->size_bytes));
}

static void add_edges(struct lineage *l, const char *attempt, const struct named_content *v, size_t n, bool made)
{
	for (size_t i = 0; i < n; i++) {
		const char *id = id_text(l, &v[i].id);

		add_artifact(l, &v[i].id);
		json_array_append_new(l->edges, json_pack("{s:s, s:s, s:o}", "from", made ? attempt : id, "to", made ? id : attempt, "name",
							  json_name(v[i].name, strlen(v[i].name))));
	}
}

static int add_attempt(struct lineage *l, const struct attempt_row *a, struct err *err)
{
	const char *id = arena_printf(l->cli->arena, "attempt:%lld", (long long)a->id), *run = record_run_id(l->db, a->run, l->cli->arena);
	struct named_content *inputs;
	struct cached_result made;
	size_t n;

	if (record_inputs(l->db, a->id, l->cli->arena, &inputs, &n, err) < 0 || record_outputs(l->db, a->id, l->cli->arena, &made, err) < 0)
		return -1;
	json_array_append_new(l->nodes, json_pack("{s:s, s:s, s:o, s:o, s:o}", "id", id, "kind", "attempt", "task", facts_text(a->task), "run", facts_text(run),
						  "started", facts_time(a->started_ns)));
	add_edges(l, id, inputs, n, false);
	add_edges(l, id, made.outputs, made.n_outputs, true);
	return 0;
}

static int print_json(struct lineage *l, const struct content_id *id, struct err *err)
{
	struct attempt_row *a;
	size_t n;
	int r = lineage_closure(l->db, id, l->direction, ATTEMPTS_MAX, l->cli->arena, &a, &n, err);

	l->nodes = json_array();
	l->edges = json_array();
	add_artifact(l, id);
	for (size_t i = 0; r == 0 && i < n; i++)
		r = add_attempt(l, &a[i], err);
	if (r < 0) {
		json_decref(l->nodes);
		json_decref(l->edges);
		return -1;
	}
	cli_print_json(l->cli, json_pack("{s:s, s:o, s:o}", "artifact", id_text(l, id), "nodes", l->nodes, "edges", l->edges));
	return 0;
}

/* --- what is meant --------------------------------------------------------------------------------------------------------------------------- */

static int find(struct lineage *l, const struct cli_args *args, struct content_id *ret, struct err *err)
{
	const char *what = cli_operand(args, 0);
	const struct content_put_options hash = { .flags = CONTENT_PUT_HASH_ONLY };
	const struct named_content *output;
	const struct facts_task *task;
	struct facts_task *tasks;
	struct run_row run;
	struct err not_an_output = { 0 };
	struct store *s;
	size_t n;

	if (str_has_prefix(what, "sha256:"))
		return lineage_find(l->db, what, ret, err);
	if (access(what, F_OK) == 0)
		return cli_store(l->cli, false, &s, err) < 0 ? -1 : content_put_at(s, AT_FDCWD, what, &hash, ret, err);
	if (facts_find_run(l->cli, l->db, cli_value(args, "run"), &run, err) < 0 || facts_tasks(l->cli, l->db, &run, &tasks, &n, err) < 0)
		return -1;
	if (facts_find_output(l->cli, tasks, n, what, &task, &output, &not_an_output) == 0) {
		*ret = output->id;
		return 0;
	}
	if (not_an_output.code == ERR_NOT_FOUND && lineage_find(l->db, what, ret, NULL) == 0)
		return 0;
	return err_set(err, not_an_output.code, "%s; nor is it a file or a content id", not_an_output.msg);
}

int cmd_lineage(struct cli *cli, const struct cli_args *args)
{
	struct lineage l = { .cli = cli, .direction = cli_flag(args, "down") ? LINEAGE_DOWN : LINEAGE_UP, .depth = 100 };
	struct content_id id;
	struct err err = { 0 };
	int r = cli_uint(args, "depth", 1, 10000, &l.depth, &err);

	l.shown = map_new();
	l.known = map_new();
	if (r == 0)
		r = cli_db(cli, DB_READ, &l.db, &err);
	if (r == 0)
		r = find(&l, args, &id, &err);
	if (r == 0)
		r = cli->json ? print_json(&l, &id, &err) : show_content(&l, cli_operand(args, 0), &id, 0, &err);
	map_free(l.shown);
	map_free(l.known);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}
