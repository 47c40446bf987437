/* engine/cli/graph/build.c — from a pipeline to a graph.
 *
 * A node is a step with its number of tasks or, with `tasks`, each task of a matrix or list whose
 * values are known. A step that ranges over content is known only when it runs, and stays one node
 * (`unknown`).
 *
 * build() works out every step's tasks first: combinations of the axes without the excluded ones,
 * then included ones that aren't there yet. Values come from the pipeline and from defaults of
 * params, nothing else. Then steps are added in their order, each after the inputs that it reads
 * and before its edges. So nodes are in topological order, which layout.c needs.
 *
 * An edge joins two tasks only when they agree on the axes that both steps share (`shared` of a
 * struct step_dep).
 *
 * Invariants: `first_node` of a step is set before anything refers to it. Numbers are bounded
 * before memory is: COUNT_MAX combinations, GRAPH_TASKS_MAX nodes, GRAPH_EDGES_MAX edges.
 *
 * Threads: any; it touches only its arguments. What it doesn't do: look results up.
 * engine/plan/expand.c expands for a run, with overrides and content.
 */
#include <string.h>
#include "base/map.h"
#include "cli/graph/graph.h"

#define COUNT_MAX (1 << 20)

struct axis {
	const struct value *v;
	size_t n;
};

struct expanded {
	struct axis *axes;
	uint32_t *index;           /* n_tasks × n_axes */
	size_t n_tasks;            /* 1 when there is no fan-out */
	bool unknown;              /* only a run can tell */
	const struct value *items; /* of each over a list */
	uint32_t first_node;
};

struct build {
	const struct pipeline *p;
	struct value *params;
	struct arena *arena;
	struct expanded *steps;
	VEC(struct graph_node) nodes;
	VEC(struct graph_edge) edges;
	uint32_t *input_node; /* UINT32_MAX: unused */
	bool tasks;
};

/* Params have their defaults; every other value is unknown. */
static int resolve_default(void *arg, const struct ref *ref, struct value *ret, struct err *err)
{
	const struct build *b = arg;

	if (ref->kind != REF_PARAM || b->params[ref->index].type == VALUE_NULL)
		return 1;
	*ret = b->params[ref->index];
	return 0;
}

/* VALUE_NULL: unknown. Those of used pipelines are made from those that stand before them. */
static void take_defaults(struct build *b)
{
	const struct pipeline *p = b->p;
	struct expr_scope scope = { .resolve = resolve_default, .arg = b };

	b->params = arena_alloc(b->arena, (pipeline_n_values(p) + 1) * sizeof(*b->params));
	for (size_t i = 0; i < pipeline_n_values(p); i++) {
		const struct expr_template *t =
			i < p->n_params ? NULL : p->given[i - p->n_params].value;

		if (t && template_eval(t, &scope, b->arena, &b->params[i], NULL) != 0)
			b->params[i] = (struct value){ .type = VALUE_NULL };
		else if (!t && p->params[i].has_default)
			b->params[i] = p->params[i].def;
	}
}

static bool excluded(const struct step *s, const struct axis *axes, const uint32_t *at)
{
	for (size_t i = 0; i < s->tasks->matrix.n_exclude; i++) {
		const struct value *only = s->tasks->matrix.exclude[i].by_axis;
		size_t a = 0;

		while (a < s->tasks->matrix.n_axes &&
		       (only[a].type == VALUE_NULL || value_eq(&only[a], &axes[a].v[at[a]])))
			a++;
		if (a == s->tasks->matrix.n_axes)
			return true;
	}
	return false;
}

/* An included combination may have a value that its axis doesn't list. */
static uint32_t value_index(struct build *b, struct axis *axis, const struct value *v)
{
	struct value *grown;

	for (size_t i = 0; i < axis->n; i++)
		if (value_eq(&axis->v[i], v))
			return (uint32_t)i;
	grown = arena_alloc(b->arena, (axis->n + 1) * sizeof(*grown));
	if (axis->n)
		memcpy(grown, axis->v, axis->n * sizeof(*grown));
	grown[axis->n] = *v;
	axis->v = grown;
	return (uint32_t)axis->n++;
}

static bool step_axes(struct build *b, const struct step *s, struct expanded *x,
		      size_t *ret_product)
{
	struct expr_scope scope = { .resolve = resolve_default, .arg = b };
	size_t product = 1;

	x->axes = arena_alloc(b->arena, s->tasks->matrix.n_axes * sizeof(*x->axes));
	for (size_t a = 0; a < s->tasks->matrix.n_axes; a++) {
		const struct matrix_axis *axis = &s->tasks->matrix.axes[a];
		struct value v = { .type = VALUE_LIST, .list = { axis->values, axis->n_values } };

		if (axis->list && (template_eval(axis->list, &scope, b->arena, &v, NULL) != 0 ||
				   v.type != VALUE_LIST))
			return false;
		x->axes[a] = (struct axis){ v.list.v, v.list.n };
		if (__builtin_mul_overflow(product, x->axes[a].n, &product) || product > COUNT_MAX)
			return false;
	}
	*ret_product = product;
	return true;
}

/* All combinations except excluded ones, then included ones that aren't there yet. */
static void expand_matrix(struct build *b, const struct step *s, struct expanded *x)
{
	uint32_t *at = arena_alloc(b->arena, s->tasks->matrix.n_axes * sizeof(*at));
	VEC(uint32_t) index = { 0 };
	size_t product;

	if (!step_axes(b, s, x, &product)) {
		x->unknown = true;
		return;
	}
	for (size_t i = 0; i < product; i++) {
		for (size_t a = 0; a < s->tasks->matrix.n_axes && !excluded(s, x->axes, at); a++)
			VEC_PUSH(&index, at[a]);
		for (size_t a = s->tasks->matrix.n_axes; a-- > 0;) {
			if (++at[a] < x->axes[a].n)
				break;
			at[a] = 0;
		}
	}
	for (size_t i = 0; i < s->tasks->matrix.n_include; i++) {
		bool there = false;

		for (size_t a = 0; a < s->tasks->matrix.n_axes; a++)
			at[a] = value_index(b, &x->axes[a],
					    &s->tasks->matrix.include[i].by_axis[a]);
		for (size_t k = 0; k < index.n && !there; k += s->tasks->matrix.n_axes)
			there = memcmp(&index.v[k], at, s->tasks->matrix.n_axes * sizeof(*at)) == 0;
		for (size_t a = 0; a < s->tasks->matrix.n_axes && !there; a++)
			VEC_PUSH(&index, at[a]);
	}
	x->index = arena_memdup(b->arena, index.v ? index.v : at, index.n * sizeof(*index.v));
	x->n_tasks = index.n / s->tasks->matrix.n_axes;
	VEC_FREE(&index);
}

static void expand_each(struct build *b, const struct step *s, struct expanded *x)
{
	const struct each_decl *e = s->tasks->each;
	struct value v = { .type = VALUE_LIST, .list = { e->values, e->n_values } };

	if (!e->values &&
	    (!e->is_list || resolve_default(b, &e->from, &v, NULL) != 0 || v.type != VALUE_LIST)) {
		x->unknown = true;
		return;
	}
	x->items = v.list.v;
	x->n_tasks = v.list.n;
}

/* Nodes. */

static const char *task_name(struct build *b, const struct step *s, const struct expanded *x,
			     size_t task)
{
	struct str name = { 0 };
	const char *kept;

	str_addf(&name, "%s[", s->name);
	for (size_t a = 0; a < s->tasks->matrix.n_axes && x->index; a++) {
		str_addf(&name, "%s%s=", a ? "," : "", s->tasks->matrix.axes[a].name);
		value_add_text(&name, &x->axes[a].v[x->index[task * s->tasks->matrix.n_axes + a]]);
	}
	if (x->items)
		value_add_text(&name, &x->items[task]);
	str_addc(&name, ']');
	kept = arena_strndup(b->arena, name.s, name.len);
	str_deinit(&name);
	return kept;
}

static bool is_split(const struct build *b, const struct step *s, const struct expanded *x)
{
	return b->tasks && !x->unknown && (s->tasks->matrix.n_axes || s->tasks->each);
}

static int add_step(struct build *b, const struct step *s, struct err *err)
{
	struct expanded *x = &b->steps[s->index];
	size_t n = is_split(b, s, x) ? x->n_tasks : 1;

	x->first_node = (uint32_t)b->nodes.n;
	if (b->tasks && b->nodes.n + n > GRAPH_TASKS_MAX)
		return err_set(
			err, ERR_TOO_LARGE,
			"more than %d tasks can't be drawn; leave out --tasks to draw the steps",
			GRAPH_TASKS_MAX);
	for (size_t i = 0; i < n; i++) {
		struct graph_node node = { .name = s->name,
					   .step = s->name,
					   .asks = s->approve,
					   .tasks = x->unknown ? -1 : (int64_t)x->n_tasks };
		if (is_split(b, s, x)) {
			node.name = task_name(b, s, x, i);
			node.tasks = 1;
		}
		if (s->tasks->repeat) /* how many rounds there are, only a run can tell */
			node.tasks = -1;
		VEC_PUSH(&b->nodes, node);
	}
	return 0;
}

static void add_input(struct build *b, size_t input)
{
	struct graph_node node = { .name = b->p->inputs[input].name, .tasks = 1, .is_input = true };

	if (b->input_node[input] != UINT32_MAX)
		return;
	b->input_node[input] = (uint32_t)b->nodes.n;
	VEC_PUSH(&b->nodes, node);
}

/* Edges. */

static int add_edge(struct build *b, uint32_t from, uint32_t to, enum graph_edge_kind kind,
		    struct err *err)
{
	struct graph_edge e = { from, to, kind };

	if (b->edges.n >= GRAPH_EDGES_MAX)
		return err_set(err, ERR_TOO_LARGE, "more than %d edges can't be drawn",
			       GRAPH_EDGES_MAX);
	VEC_PUSH(&b->edges, e);
	return 0;
}

static bool tasks_match(const struct build *b, const struct step_dep *d, const struct step *needed,
			size_t theirs, const struct step *s, size_t mine)
{
	const struct expanded *x = &b->steps[needed->index], *y = &b->steps[s->index];

	for (size_t i = 0; i < d->n_shared; i++) {
		size_t a = d->shared[i].theirs, c = d->shared[i].mine;
		if (!value_eq(&x->axes[a].v[x->index[theirs * needed->tasks->matrix.n_axes + a]],
			      &y->axes[c].v[y->index[mine * s->tasks->matrix.n_axes + c]]))
			return false;
	}
	return true;
}

static int add_dep(struct build *b, const struct step *s, const struct step_dep *d, struct err *err)
{
	const struct step *needed = &b->p->steps[d->step];
	const struct expanded *x = &b->steps[d->step], *y = &b->steps[s->index];
	bool both = is_split(b, needed, x) && is_split(b, s, y);
	size_t n = is_split(b, needed, x) ? x->n_tasks : 1, m = is_split(b, s, y) ? y->n_tasks : 1;
	enum graph_edge_kind kind = d->data ? GRAPH_DATA : d->metrics ? GRAPH_METRICS : GRAPH_ORDER;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < m; k++)
			if ((!both || tasks_match(b, d, needed, i, s, k)) &&
			    add_edge(b, x->first_node + (uint32_t)i, y->first_node + (uint32_t)k,
				     kind, err) < 0)
				return -1;
	return 0;
}

/* A step of `finally` begins after the last of `steps`: an edge from each that no other waits for.
 */
static int add_finally_edges(struct build *b, const struct step *s, struct err *err)
{
	_cleanup_(freep) bool *drawn = xcalloc(b->p->n_steps + 1, sizeof(*drawn));

	for (size_t i = 0; i < b->p->n_steps; i++)
		for (size_t k = 0; k < b->p->steps[i].n_deps; k++)
			if (!b->p->steps[i].finally || i == s->index)
				drawn[b->p->steps[i].deps[k].step] = true;
	for (uint32_t i = 0; i < b->p->n_steps; i++) {
		struct step_dep d = { .step = i, .order = true };

		if (!b->p->steps[i].finally && !drawn[i] && add_dep(b, s, &d, err) < 0)
			return -1;
	}
	return 0;
}

static int add_input_edges(struct build *b, const struct step *s, struct err *err)
{
	const struct expanded *x = &b->steps[s->index];
	size_t m = is_split(b, s, x) ? x->n_tasks : 1;

	for (size_t i = 0; i < b->p->n_inputs; i++) {
		bool used = s->tasks->each && !s->tasks->each->values &&
			    s->tasks->each->from.kind == REF_PIPELINE_INPUT &&
			    s->tasks->each->from.index == i;
		for (size_t k = 0; k < s->n_inputs; k++)
			used |= s->inputs[k].from.kind == REF_PIPELINE_INPUT &&
				s->inputs[k].from.index == i;
		for (size_t k = 0; k < m && used; k++)
			if (add_edge(b, b->input_node[i], x->first_node + (uint32_t)k, GRAPH_DATA,
				     err) < 0)
				return -1;
	}
	return 0;
}

static int build(struct build *b, struct err *err)
{
	const struct pipeline *p = b->p;

	for (size_t i = 0; i < p->n_steps; i++) {
		b->steps[i].n_tasks = 1;
		if (p->steps[i].tasks->each)
			expand_each(b, &p->steps[i], &b->steps[i]);
		else if (p->steps[i].tasks->matrix.n_axes)
			expand_matrix(b, &p->steps[i], &b->steps[i]);
	}
	for (size_t i = 0; i < p->n_steps; i++) {
		const struct step *s = &p->steps[p->order[i]];

		for (size_t k = 0; k < s->n_inputs; k++)
			if (s->inputs[k].from.kind == REF_PIPELINE_INPUT)
				add_input(b, s->inputs[k].from.index);
		if (s->tasks->each && !s->tasks->each->values &&
		    s->tasks->each->from.kind == REF_PIPELINE_INPUT)
			add_input(b, s->tasks->each->from.index);
		if (add_step(b, s, err) < 0 || add_input_edges(b, s, err) < 0)
			return -1;
		for (size_t k = 0; k < s->n_deps; k++)
			if (add_dep(b, s, &s->deps[k], err) < 0)
				return -1;
		if (s->finally && add_finally_edges(b, s, err) < 0)
			return -1;
	}
	return 0;
}

int graph_from_pipeline(const struct pipeline *p, bool tasks, struct arena *arena,
			struct graph *ret, struct err *err)
{
	struct build b = { .p = p, .arena = arena, .tasks = tasks };
	int r;

	take_defaults(&b);
	b.steps = arena_alloc(arena, (p->n_steps + 1) * sizeof(*b.steps));
	b.input_node = arena_alloc(arena, (p->n_inputs + 1) * sizeof(*b.input_node));
	memset(b.input_node, 0xff, p->n_inputs * sizeof(*b.input_node));
	r = build(&b, err);
	if (r == 0)
		*ret = (struct graph){
			.name = p->name,
			.nodes = arena_memdup(arena, b.nodes.v ? (void *)b.nodes.v : "",
					      b.nodes.n * sizeof(*b.nodes.v)),
			.n_nodes = b.nodes.n,
			.edges = arena_memdup(arena, b.edges.v ? (void *)b.edges.v : "",
					      b.edges.n * sizeof(*b.edges.v)),
			.n_edges = b.edges.n
		};
	VEC_FREE(&b.nodes);
	VEC_FREE(&b.edges);
	return r;
}
