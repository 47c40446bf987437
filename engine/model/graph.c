/* engine/model/graph.c — the order of steps, and cycles.
 *
 * Kahn's algorithm with a heap: of the steps that could come next, the one that stands first in the
 * file does. O((V + E) log V). The order depends only on the file.
 *
 * Steps that are left over lie on cycles or after them. An iterative depth-first search finds the
 * cycles, even in a chain of 100,000 steps. A back edge closes a cycle; it is reported unless one
 * of its steps is on a reported cycle (`reported`), and at most CYCLES_SHOWN times. The input is
 * the folded deps of resolve.c.
 */
#include "model/read.h"

#define CYCLE_NAMES_MAX 12 /* of a longer cycle, the first and the last ones are shown */
#define CYCLES_SHOWN    10

struct graph {
	struct loader *l;
	uint32_t *pending;            /* needed steps that aren't ordered yet */
	uint32_t *start, *dependents; /* of step i: dependents[start[i]] … */
	uint32_t *heap;
	size_t n_heap;
};

static void heap_push(struct graph *g, uint32_t v)
{
	size_t i = g->n_heap++;

	while (i && g->heap[(i - 1) / 2] > v) {
		g->heap[i] = g->heap[(i - 1) / 2];
		i = (i - 1) / 2;
	}
	g->heap[i] = v;
}

static uint32_t heap_pop(struct graph *g)
{
	uint32_t top = g->heap[0], last = g->heap[--g->n_heap];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < g->n_heap) {
		if (child + 1 < g->n_heap && g->heap[child + 1] < g->heap[child])
			child++;
		if (g->heap[child] >= last)
			break;
		g->heap[i] = g->heap[child];
		i = child;
	}
	g->heap[i] = last;
	return top;
}

static void find_dependents(struct graph *g)
{
	size_t n = g->l->n_steps, edges = 0;
	uint32_t *fill;

	g->start = arena_alloc(g->l->scratch, (n + 1) * sizeof(*g->start));
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < g->l->steps[i].n_deps; k++, edges++)
			g->start[g->l->steps[i].deps[k].step + 1]++;
	for (size_t i = 0; i < n; i++)
		g->start[i + 1] += g->start[i];
	g->dependents = arena_alloc(g->l->scratch, edges * sizeof(*g->dependents));
	fill = arena_memdup(g->l->scratch, g->start, (n + 1) * sizeof(*fill));
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < g->l->steps[i].n_deps; k++)
			g->dependents[fill[g->l->steps[i].deps[k].step]++] = (uint32_t)i;
}

/* Cycles. */

/* `path` holds a cycle's steps: each needs the next, the last one needs the first. The message
 * begins with the step that comes first in the file. */
static void report_cycle(struct loader *l, const uint32_t *path, size_t n)
{
	struct str text = { 0 };
	const struct step *first;
	size_t from = 0, k = 0;

	for (size_t i = 1; i < n; i++)
		if (path[i] < path[from])
			from = i;
	first = &l->steps[path[from]];
	for (size_t i = 0; i < n; i++) {
		if (n > CYCLE_NAMES_MAX && i == CYCLE_NAMES_MAX - 2) {
			str_addf(&text, "… (%zu more) -> ", n - CYCLE_NAMES_MAX + 1);
			i = n - 1;
		}
		str_addf(&text, "%s -> ", l->steps[path[(from + i) % n]].name);
	}
	str_add(&text, first->name);
	while (first->deps[k].step != path[(from + 1) % n])
		k++;
	doc_error_at(l->diags, &first->deps[k].pos, "steps form a cycle: %s", text.s);
	str_deinit(&text);
}

enum colour { WHITE, GREY, BLACK };
struct search {
	uint8_t *colour;
	bool *reported; /* lies on a cycle that was reported */
	uint32_t *path,
		*next; /* steps from the root of the search, and the dep of each that comes next */
	uint32_t *place; /* index of a grey step in `path` */
	size_t depth, n_reported;
};

static void found_back_edge(struct loader *l, struct search *s, uint32_t to)
{
	const uint32_t *cycle = &s->path[s->place[to]];
	size_t n = s->depth - s->place[to];

	for (size_t i = 0; i < n; i++)
		if (s->reported[cycle[i]])
			return;
	if (s->n_reported++ < CYCLES_SHOWN)
		report_cycle(l, cycle, n);
	for (size_t i = 0; i < n; i++)
		s->reported[cycle[i]] = true;
}

static void search_push(struct search *s, uint32_t v)
{
	s->colour[v] = GREY;
	s->place[v] = (uint32_t)s->depth;
	s->next[s->depth] = 0;
	s->path[s->depth++] = v;
}

static void search_from(struct loader *l, struct search *s, uint32_t root)
{
	search_push(s, root);
	while (s->depth) {
		const struct step *step = &l->steps[s->path[s->depth - 1]];
		uint32_t k = s->next[s->depth - 1]++, to;

		if (k == step->n_deps) {
			s->colour[step->index] = BLACK;
			s->depth--;
			continue;
		}
		to = step->deps[k].step;
		if (s->colour[to] == GREY)
			found_back_edge(l, s, to);
		else if (s->colour[to] == WHITE)
			search_push(s, to);
	}
}

static void report_cycles(struct graph *g)
{
	struct arena *a = g->l->scratch;
	size_t n = g->l->n_steps;
	struct search s = { .colour = arena_alloc(a, n),
			    .reported = arena_alloc(a, n * sizeof(bool)) };

	s.path = arena_alloc(a, n * sizeof(*s.path));
	s.next = arena_alloc(a, n * sizeof(*s.next));
	s.place = arena_alloc(a, n * sizeof(*s.place));
	for (size_t i = 0; i < n; i++)
		if (g->pending[i] == 0)
			s.colour[i] = BLACK;
	for (size_t i = 0; i < n; i++)
		if (s.colour[i] == WHITE)
			search_from(g->l, &s, (uint32_t)i);
}

void loader_order_steps(struct loader *l)
{
	struct graph g = { .l = l };
	uint32_t *order = arena_alloc(l->arena, l->n_steps * sizeof(*order));
	size_t n = 0;

	find_dependents(&g);
	g.pending = arena_alloc(l->scratch, l->n_steps * sizeof(*g.pending));
	g.heap = arena_alloc(l->scratch, l->n_steps * sizeof(*g.heap));
	for (size_t i = 0; i < l->n_steps; i++) {
		g.pending[i] = (uint32_t)l->steps[i].n_deps;
		if (g.pending[i] == 0)
			heap_push(&g, (uint32_t)i);
	}
	while (g.n_heap) {
		uint32_t v = heap_pop(&g);

		order[n++] = v;
		for (uint32_t k = g.start[v]; k < g.start[v + 1]; k++)
			if (--g.pending[g.dependents[k]] == 0)
				heap_push(&g, g.dependents[k]);
	}
	if (n < l->n_steps)
		report_cycles(&g);
	l->p->order = order;
}
