/* engine/record/lineage/graph.c — the walk over lineage, breadth first, and its JSON.
 *
 * `pending.now` holds the contents of this step of the walk, `pending.next` those of the following
 * one. step_from() queries the attempts next to one content; add_io() adds everything that such an
 * attempt read and made. Only contents in the direction of the walk are queued; the walk doesn't
 * continue from the others. A step of `depth` leads from a content through its attempts to their
 * contents.
 *
 * Invariants: `index` gives each key one node, and `walked` queues each content once, so the walk
 * ends for any graph. Node 0 is the start. `nodes` moves when it grows: nodes are named by index,
 * and no pointer into it is kept across node_of(). Each run and its pins are read once (`runs`); a
 * node's `run` is the `row` of a struct known_run. More than `attempts_max` attempts set
 * `truncated`; the end of `depth` doesn't.
 *
 * Threads: the thread of the handle. Not here: the queries (lineage.c), drawing (cli/).
 */
#include "record/lineage/graph.h"
#include <assert.h>
#include "record/facts.h"

/* A run, read once and not for each content that its attempts read. */
struct known_run {
	struct run_row row;
	struct run_input_row *pins;
	size_t n_pins;
};

struct pending {
	VEC(uint32_t) now, next; /* nodes to continue from */
};

void lineage_graph_init(struct lineage_graph *g, enum lineage_direction direction,
			struct arena *arena)
{
	*g = (struct lineage_graph){ .arena = arena,
				     .direction = direction,
				     .attempts_max = LINEAGE_ATTEMPTS_MAX,
				     .index = map_new(),
				     .runs = map_new() };
}

void lineage_graph_deinit(struct lineage_graph *g)
{
	VEC_FREE(&g->nodes);
	VEC_FREE(&g->edges);
	map_free(g->index);
	map_free(g->runs);
	g->index = g->runs = NULL;
}

/* Nodes. */

static uint32_t node_of(struct lineage_graph *g, const char *key, bool *ret_new)
{
	void **slot = map_slot(g->index, key, strlen(key), ret_new);
	struct lineage_node *n;

	if (!*ret_new)
		return (uint32_t)((uintptr_t)*slot - 1);
	n = VEC_ADD(&g->nodes);
	n->key = key;
	*slot = (void *)(uintptr_t)g->nodes.n;
	return (uint32_t)(g->nodes.n - 1);
}

static uint32_t add_content(struct lineage_graph *g, const struct content_id *id, const char *name,
			    bool *ret_new)
{
	char hex[DIGEST_HEX_MAX];
	uint32_t at = node_of(g, arena_printf(g->arena, "sha256:%s", digest_hex(&id->digest, hex)),
			      ret_new);

	if (*ret_new) {
		g->nodes.v[at].id = *id;
		g->nodes.v[at].name = name;
	}
	return at;
}

static int run_of(struct lineage_graph *g, struct db *db, int64_t attempt, struct attempt_row *ret,
		  const struct run_row **ret_run, struct err *err)
{
	struct run_row row = { 0 };
	void **slot;
	bool is_new;
	int r = record_attempt(db, attempt, g->arena, ret, &row, err);

	if (r <= 0)
		return r;
	slot = map_slot(g->runs, &ret->run, sizeof(ret->run), &is_new);
	if (is_new) {
		struct known_run known = { .row = row };

		if (record_run_inputs(db, row.rowid, g->arena, &known.pins, &known.n_pins, err) < 0)
			return -1;
		*slot = arena_memdup(g->arena, &known, sizeof(known));
	}
	*ret_run = &((struct known_run *)*slot)->row;
	return 1;
}

/* 1: the node is new, and *ret is its index. */
static int add_attempt(struct lineage_graph *g, struct db *db, int64_t id, uint32_t *ret,
		       struct err *err)
{
	struct attempt_row row = { 0 };
	const struct run_row *run = NULL;
	bool is_new;
	int r;

	*ret = node_of(g, arena_printf(g->arena, "attempt:%lld", (long long)id), &is_new);
	if (!is_new)
		return 0;
	r = run_of(g, db, id, &row, &run, err);
	if (r < 0)
		return -1;
	g->nodes.v[*ret].is_attempt = true;
	g->nodes.v[*ret].attempt = row;
	g->nodes.v[*ret].run = run;
	g->nodes.v[*ret].name = row.task;
	return 1;
}

static void add_edge(struct lineage_graph *g, uint32_t from, uint32_t to, const char *name)
{
	struct lineage_edge e = { from, to, name };

	VEC_PUSH(&g->edges, e);
}

static bool origin_in(const struct run_input_row *pins, size_t n, const struct run_row *run,
		      const struct content_id *id, struct lineage_origin *ret)
{
	for (size_t i = 0; i < n; i++)
		if (str_has_prefix(pins[i].name, "input:") && content_id_eq(&pins[i].id, id)) {
			*ret = (struct lineage_origin){ pins[i].name + strlen("input:"),
							pins[i].origin, run->id };
			return true;
		}
	return false;
}

int lineage_find_origin(struct db *db, const struct run_row *run, const struct content_id *id,
			struct arena *arena, struct lineage_origin *ret, struct err *err)
{
	struct run_input_row *pins;
	size_t n;

	if (!run || record_run_inputs(db, run->rowid, arena, &pins, &n, err) < 0)
		return run ? -1 : 0;
	return origin_in(pins, n, run, id, ret);
}

int lineage_find_any_origin(struct db *db, const struct content_id *id, struct arena *arena,
			    struct lineage_origin *ret, struct err *err)
{
	struct attempt_row *a, row;
	struct run_row run;
	size_t n;
	int r;

	if (lineage_neighbours(db, id, LINEAGE_DOWN, 1, arena, &a, &n, err) < 0)
		return -1;
	if (n == 0)
		return 0;
	r = record_attempt(db, a[0].id, arena, &row, &run, err);
	return r <= 0 ? r : lineage_find_origin(db, &run, id, arena, ret, err);
}

/* The walk. */

static void go_on(struct lineage_graph *g, uint32_t content, struct pending *p)
{
	if (!g->nodes.v[content].walked)
		VEC_PUSH(&p->next, content);
	g->nodes.v[content].walked = true;
}

/* Adds everything that an attempt read and made; p->next gets the contents to continue from. */
static int add_io(struct lineage_graph *g, struct db *db, uint32_t node, struct pending *p,
		  struct err *err)
{
	const struct run_row *run = g->nodes.v[node].run;
	int64_t attempt = g->nodes.v[node].attempt.id;
	struct named_content *inputs;
	struct cached_result made;
	bool is_new;
	size_t n;

	if (record_inputs(db, attempt, g->arena, &inputs, &n, err) < 0 ||
	    record_outputs(db, attempt, g->arena, &made, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		uint32_t at = add_content(g, &inputs[i].id, inputs[i].name, &is_new);
		struct lineage_node *c = &g->nodes.v[at];

		add_edge(g, at, node, inputs[i].name);
		if (!c->has_origin && run) {
			const struct known_run *known =
				CONTAINER_OF(run, const struct known_run, row);

			c->has_origin = origin_in(known->pins, known->n_pins, run, &inputs[i].id,
						  &c->origin);
		}
		if (g->direction == LINEAGE_UP)
			go_on(g, at, p);
	}
	for (size_t i = 0; i < made.n_outputs; i++) {
		uint32_t at = add_content(g, &made.outputs[i].id, made.outputs[i].name, &is_new);

		add_edge(g, node, at, made.outputs[i].name);
		if (g->direction == LINEAGE_DOWN)
			go_on(g, at, p);
	}
	return 0;
}

static int step_from(struct lineage_graph *g, struct db *db, uint32_t content, size_t *n_attempts,
		     struct pending *p, struct err *err)
{
	struct content_id id = g->nodes.v[content].id;
	struct attempt_row *a;
	uint32_t node;
	size_t n;
	int r;

	if (lineage_neighbours(db, &id, g->direction, g->attempts_max + 1, g->arena, &a, &n, err) <
	    0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (*n_attempts >= g->attempts_max) {
			g->truncated = true;
			return 0;
		}
		r = add_attempt(g, db, a[i].id, &node, err);
		if (r < 0 || (r > 0 && add_io(g, db, node, p, err) < 0))
			return -1;
		*n_attempts += r > 0;
	}
	return 0;
}

/* Step by step: a content that is met again leads nowhere new. */
static int walk(struct lineage_graph *g, struct db *db, struct pending *p, uint64_t depth,
		struct err *err)
{
	size_t n_attempts = 0;
	int r = 0;

	for (uint64_t step = 0; r == 0 && step < depth && p->next.n; step++) {
		__auto_type swap = p->now;

		p->now = p->next;
		p->next = swap;
		p->next.n = 0;
		for (size_t i = 0; r == 0 && i < p->now.n; i++)
			r = step_from(g, db, p->now.v[i], &n_attempts, p, err);
	}
	VEC_FREE(&p->now);
	VEC_FREE(&p->next);
	return r;
}

int lineage_graph_of_content(struct lineage_graph *g, struct db *db, const struct content_id *id,
			     const char *name, uint64_t depth, struct err *err)
{
	struct pending p = { 0 };
	struct lineage_node *root;
	bool is_new;
	int r;

	go_on(g, add_content(g, id, name, &is_new), &p);
	root = &g->nodes.v[0];
	r = lineage_find_any_origin(db, id, g->arena, &root->origin, err);
	if (r < 0) {
		VEC_FREE(&p.next);
		return -1;
	}
	root->has_origin = r > 0;
	return walk(g, db, &p, depth, err);
}

int lineage_graph_of_attempt(struct lineage_graph *g, struct db *db, int64_t attempt,
			     uint64_t depth, struct err *err)
{
	struct pending p = { 0 };
	uint32_t node;

	assert(depth > 0);
	if (add_attempt(g, db, attempt, &node, err) < 0 || add_io(g, db, node, &p, err) < 0) {
		VEC_FREE(&p.next);
		return -1;
	}
	return walk(g, db, &p, depth - 1, err);
}

/* JSON. */

static json_t *content_json(const struct lineage_node *n)
{
	json_t *origin =
		n->has_origin
			? json_pack("{s:o, s:o, s:o}", "input", facts_text(n->origin.input), "uri",
				    facts_text(n->origin.uri), "run", facts_text(n->origin.run))
			: json_null();

	return json_pack("{s:s, s:s, s:o, s:s, s:I, s:o}", "id", n->key, "kind", "artifact", "name",
			 facts_text(n->name), "content", content_kind_name(n->id.kind), "size",
			 (json_int_t)n->id.size_bytes, "origin", origin);
}

static json_t *attempt_json(const struct lineage_node *n)
{
	const struct attempt_row *a = &n->attempt;
	json_t *o = json_object();
	char hex[DIGEST_HEX_MAX];

	json_object_set_new(o, "id", json_string(n->key));
	json_object_set_new(o, "kind", json_string("attempt"));
	json_object_set_new(o, "task", facts_text(a->task));
	json_object_set_new(o, "step", facts_text(a->step));
	json_object_set_new(o, "run", facts_text(n->run ? n->run->id : NULL));
	json_object_set_new(o, "pipeline", facts_text(n->run ? n->run->pipeline : NULL));
	json_object_set_new(o, "hash",
			    n->run && n->run->has_hash ? json_string(digest_hex(&n->run->hash, hex))
						       : json_null());
	json_object_set_new(o, "key", json_string(digest_hex(&a->key, hex)));
	json_object_set_new(o, "started", facts_time(a->started_ns));
	json_object_set_new(o, "git_commit", facts_text(n->run ? n->run->git.commit : NULL));
	json_object_set_new(o, "git_dirty", json_boolean(n->run && n->run->git.dirty));
	return o;
}

json_t *lineage_graph_json(const struct lineage_graph *g,
			   void (*more)(void *arg, const struct lineage_node *attempt, json_t *o),
			   void *arg)
{
	json_t *nodes = json_array(), *edges = json_array();

	for (size_t i = 0; i < g->nodes.n; i++) {
		const struct lineage_node *n = &g->nodes.v[i];
		json_t *o = n->is_attempt ? attempt_json(n) : content_json(n);

		if (n->is_attempt && more)
			more(arg, n, o);
		json_array_append_new(nodes, o);
	}
	for (size_t i = 0; i < g->edges.n; i++) {
		const struct lineage_edge *e = &g->edges.v[i];

		json_array_append_new(
			edges, json_pack("{s:s, s:s, s:o}", "from", g->nodes.v[e->from].key, "to",
					 g->nodes.v[e->to].key, "name", facts_text(e->name)));
	}
	return json_pack("{s:s?, s:b, s:o, s:o}", "artifact", g->nodes.n ? g->nodes.v[0].key : NULL,
			 "truncated", g->truncated, "nodes", nodes, "edges", edges);
}
