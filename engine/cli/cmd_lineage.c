/* `cairn lineage`: content and the attempts that made it or were made from it, as a tree, or as a graph in JSON or DOT. */
#include <fcntl.h>
#include "base/map.h"
#include "cli/facts.h"
#include "cli/graph.h"
#include "record/lineage.h"
#include "storage/content.h"

/* What a person can follow on a screen; graphs go further. */
#define ATTEMPTS_MAX 100000
#define FAN_MAX 50
#define DEPTH_MAX 10000

struct lineage {
	struct cli *cli;
	struct db *db;
	enum lineage_direction direction;
	uint64_t depth; /* DEPTH_MAX: all */
	struct map *shown; /* attempt id */
	json_t *nodes, *edges; /* or NULL: as DOT */
	struct str dot;
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
	return is_new ? show_io(l, a, level + 1, err) : 0;
}

static int show_content(struct lineage *l, const char *name, const struct content_id *id, unsigned level, struct err *err)
{
	struct attempt_row *a;
	size_t n;

	cli_printf(l->cli, "%*s%s%s%s %s%.19s%s %s\n", (int)level * 2, "", cli_style(l->cli, STYLE_CYAN), cli_text(l->cli, name), cli_style(l->cli, STYLE_PLAIN),
		   cli_style(l->cli, STYLE_DIM), id_text(l, id), cli_style(l->cli, STYLE_PLAIN), id->kind == CONTENT_TREE ? "directory" : cli_bytes(l->cli, id->size_bytes));
	if (level / 2 >= l->depth)
		return 0;
	if (lineage_neighbours(l->db, id, l->direction, FAN_MAX, l->cli->arena, &a, &n, err) < 0)
		return -1;
	/* Up: the first attempt that made these bytes is where they came from; others made the same again. */
	for (size_t i = 0; i < n && (l->direction == LINEAGE_DOWN || i == 0); i++)
		if (show_attempt(l, &a[i], level + 1, err) < 0)
			return -1;
	return 0;
}

/* --- as a graph -------------------------------------------------------------------------------------------------------------------------- */

static void dot_node(struct lineage *l, const char *id, const char *label, const char *more)
{
	str_add(&l->dot, "  ");
	graph_add_dot_string(&l->dot, id);
	str_add(&l->dot, " [label=");
	graph_add_dot_string(&l->dot, label);
	str_addf(&l->dot, "%s];\n", more);
}

static void dot_edge(struct lineage *l, const char *from, const char *to, const char *label)
{
	str_add(&l->dot, "  ");
	graph_add_dot_string(&l->dot, from);
	str_add(&l->dot, " -> ");
	graph_add_dot_string(&l->dot, to);
	str_add(&l->dot, " [label=");
	graph_add_dot_string(&l->dot, label);
	str_add(&l->dot, "];\n");
}

static void add_artifact(struct lineage *l, const struct content_id *id)
{
	const char *text = id_text(l, id), *size = id->kind == CONTENT_TREE ? "directory" : cli_bytes(l->cli, id->size_bytes);
	bool is_new;

	*map_slot(l->known, text, strlen(text), &is_new) = l;
	if (!is_new)
		return;
	if (!l->nodes)
		dot_node(l, text, arena_printf(l->cli->arena, "%.19s %s", text, size), ", shape=note");
	else
		json_array_append_new(l->nodes, json_pack("{s:s, s:s, s:s, s:I}", "id", text, "kind", "artifact", "content", content_kind_name(id->kind),
							  "size", (json_int_t)id->size_bytes));
}

static void add_edges(struct lineage *l, const char *attempt, const struct named_content *v, size_t n, bool made)
{
	for (size_t i = 0; i < n; i++) {
		const char *id = id_text(l, &v[i].id), *from = made ? attempt : id, *to = made ? id : attempt;

		add_artifact(l, &v[i].id);
		if (!l->nodes)
			dot_edge(l, from, to, v[i].name);
		else
			json_array_append_new(l->edges, json_pack("{s:s, s:s, s:o}", "from", from, "to", to, "name", json_name(v[i].name, strlen(v[i].name))));
	}
}

/* *ret_next: where the walk goes on from here. */
static int add_attempt(struct lineage *l, const struct attempt_row *a, struct named_content **ret_next, size_t *ret_n, struct err *err)
{
	const char *id = arena_printf(l->cli->arena, "attempt:%lld", (long long)a->id), *run = record_run_id(l->db, a->run, l->cli->arena);
	struct named_content *inputs;
	struct cached_result made;
	size_t n;

	if (record_inputs(l->db, a->id, l->cli->arena, &inputs, &n, err) < 0 || record_outputs(l->db, a->id, l->cli->arena, &made, err) < 0)
		return -1;
	if (!l->nodes)
		dot_node(l, id, arena_printf(l->cli->arena, "%s in %s", a->task, run ? run : "?"), "");
	else
		json_array_append_new(l->nodes, json_pack("{s:s, s:s, s:o, s:o, s:o}", "id", id, "kind", "attempt", "task", facts_text(a->task), "run", facts_text(run),
							  "started", facts_time(a->started_ns)));
	add_edges(l, id, inputs, n, false);
	add_edges(l, id, made.outputs, made.n_outputs, true);
	*ret_next = l->direction == LINEAGE_UP ? inputs : made.outputs;
	*ret_n = l->direction == LINEAGE_UP ? n : made.n_outputs;
	return 0;
}

static int add_all(struct lineage *l, const struct content_id *id, struct err *err)
{
	struct named_content *next;
	struct attempt_row *a;
	size_t n, n_next;

	if (lineage_closure(l->db, id, l->direction, ATTEMPTS_MAX, l->cli->arena, &a, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (add_attempt(l, &a[i], &next, &n_next, err) < 0)
			return -1;
	return 0;
}

struct contents {
	struct content_id *v;
	size_t n, cap;
};

/* The attempts next to one content, those that weren't met before; what they lead to goes into `next`. */
static int add_step(struct lineage *l, const struct content_id *id, struct contents *next, struct err *err)
{
	struct attempt_row *a;
	size_t n;

	if (lineage_neighbours(l->db, id, l->direction, ATTEMPTS_MAX, l->cli->arena, &a, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n && map_len(l->shown) < ATTEMPTS_MAX; i++) {
		struct named_content *v;
		size_t n_v;
		bool is_new;

		*map_slot(l->shown, &a[i].id, sizeof(a[i].id), &is_new) = l;
		if (!is_new)
			continue;
		if (add_attempt(l, &a[i], &v, &n_v, err) < 0)
			return -1;
		for (size_t k = 0; k < n_v; k++)
			VEC_PUSH(next, v[k].id);
	}
	return 0;
}

/* Step by step; content that is met again leads to no new attempt. */
static int add_steps(struct lineage *l, const struct content_id *id, struct err *err)
{
	struct contents now = { 0 }, next = { 0 }, swap;
	int r = 0;

	VEC_PUSH(&now, *id);
	for (uint64_t step = 0; r == 0 && step < l->depth && now.n; step++) {
		next.n = 0;
		for (size_t i = 0; r == 0 && i < now.n; i++)
			r = add_step(l, &now.v[i], &next, err);
		swap = now;
		now = next;
		next = swap;
	}
	VEC_FREE(&now);
	VEC_FREE(&next);
	return r;
}

static int print_graph(struct lineage *l, const struct content_id *id, bool dot, struct err *err)
{
	int r;

	if (dot) {
		str_add(&l->dot, "digraph ");
		graph_add_dot_string(&l->dot, id_text(l, id));
		str_add(&l->dot, " {\n  node [shape=box, style=rounded, fontname=\"sans-serif\"];\n");
	} else {
		l->nodes = json_array();
		l->edges = json_array();
	}
	add_artifact(l, id);
	r = l->depth < DEPTH_MAX ? add_steps(l, id, err) : add_all(l, id, err);
	if (r == 0 && dot)
		cli_printf(l->cli, "%s}\n", l->dot.s);
	else if (r == 0)
		cli_print_json(l->cli, json_pack("{s:s, s:O, s:O}", "artifact", id_text(l, id), "nodes", l->nodes, "edges", l->edges));
	json_decref(l->nodes);
	json_decref(l->edges);
	str_deinit(&l->dot);
	return r;
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
	struct lineage l = { .cli = cli, .direction = cli_flag(args, "down") ? LINEAGE_DOWN : LINEAGE_UP, .depth = DEPTH_MAX };
	bool dot = cli_flag(args, "dot");
	struct content_id id;
	struct err err = { 0 };
	int r = cli_uint(args, "depth", 1, DEPTH_MAX, &l.depth, &err);

	if (r == 0 && dot && cli->json)
		r = err_set(&err, ERR_USAGE, "--dot and --json are two forms of one graph: choose one");
	l.shown = map_new();
	l.known = map_new();
	if (r == 0)
		r = cli_db(cli, DB_READ, &l.db, &err);
	if (r == 0)
		r = find(&l, args, &id, &err);
	if (r == 0)
		r = dot || cli->json ? print_graph(&l, &id, dot, &err) : show_content(&l, cli_operand(args, 0), &id, 0, &err);
	map_free(l.shown);
	map_free(l.known);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}
