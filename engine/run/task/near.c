/* engine/run/task/near.c — on which nodes of a cluster an attempt's large inputs lie already.
 *
 * Where nodes keep what their pods have fetched (`kubernetes: {cache: {host_path: …}}`), an attempt
 * starts soonest on a node where an earlier one has read the same content. The database says where
 * that was in earlier runs, asked once for each content; the attempts of this run are added as they
 * end. The runner makes a preference of it, and no more: a node may have gone, and a cache forgets.
 *
 * A retry has none, because its node may be why it is one. Neither has a step over several nodes:
 * its pods need room beside each other.
 *
 * Everything but the maps is in the caller's arena, and stays as long as that.
 */
#include "run/task/near.h"
#include <stdlib.h>
#include "base/map.h"
#include "record/rows/attempts.h"
#include "run/internal.h"

/* Below this a fetch takes less than a pod's start. A tree counts as large, because its size isn't
 * known without reading it. */
#define LARGE_BYTES (16 * MIB)
/* So many contents are asked for and remembered, in a few MiB; later ones give no hint. */
#define CONTENTS_MAX 10000

struct holders {
	const char *nodes[RUNNER_NEAR_MAX]; /* the newest first */
	size_t n;
};
struct near {
	struct db *db;
	struct arena *arena;
	const char *on;       /* options of a run on this cluster */
	struct map *contents; /* digest → struct holders * */
	struct map *names;    /* node → its name, once */
};

static bool is_large(const struct content_id *id)
{
	return id->kind == CONTENT_TREE || (content_is_file(id) && id->size_bytes >= LARGE_BYTES);
}

struct near *near_new(const struct config *c, struct db *db, const struct run_cluster *cluster,
		      struct arena *arena)
{
	const struct run_options on = { .cluster = cluster };
	struct near *n;

	if (!c->kubernetes.cache.host_path)
		return NULL;
	n = arena_alloc(arena, sizeof(*n));
	*n = (struct near){ .db = db,
			    .arena = arena,
			    .on = options_to_json(&on, arena),
			    .contents = map_new(),
			    .names = map_new() };
	return n;
}

static void put_first(struct near *n, struct holders *h, const char *node)
{
	const char **name = (const char **)map_slot_str(n->names, node);
	size_t i = 0;

	if (!*name)
		*name = arena_strdup(n->arena, node);
	while (i < h->n && h->nodes[i] != *name)
		i++;
	if (i == h->n && h->n < RUNNER_NEAR_MAX)
		h->n++;
	memmove(h->nodes + 1, h->nodes, MIN(i, h->n - 1) * sizeof(*h->nodes));
	h->nodes[0] = *name;
}

/* NULL: nothing is known of it. */
static struct holders *holders_of(struct near *n, const struct content_id *id)
{
	struct holders **slot;
	const char *nodes[RUNNER_NEAR_MAX];
	size_t n_nodes = 0;

	if (map_len(n->contents) >= CONTENTS_MAX &&
	    !map_has(n->contents, id->digest.b, DIGEST_BYTES))
		return NULL;
	slot = (struct holders **)map_slot(n->contents, id->digest.b, DIGEST_BYTES, NULL);
	if (*slot)
		return *slot;
	*slot = arena_alloc(n->arena, sizeof(**slot));
	/* Without an answer there is no hint. */
	if (record_readers(n->db, id, n->on, n->arena, nodes, ARRAY_LEN(nodes), &n_nodes, NULL) < 0)
		n_nodes = 0;
	while (n_nodes-- > 0)
		put_first(n, *slot, nodes[n_nodes]);
	return *slot;
}

static void count(struct runner_near *near, size_t *n, const char *node)
{
	size_t i = 0;

	while (i < *n && near[i].node != node)
		i++;
	if (i == *n)
		near[(*n)++] = (struct runner_near){ .node = node };
	near[i].weight++;
}

static int heavier_first(const void *x, const void *y)
{
	const struct runner_near *a = x, *b = y;

	return (a->weight < b->weight) - (a->weight > b->weight);
}

void near_fill(struct near *n, struct arena *arena, struct runner_attempt *a)
{
	struct runner_near *near;
	size_t n_nodes = 0, n_large = 0;

	if (!n || a->on.gang.nodes > 1 || a->number > 1)
		return;
	near = arena_alloc(arena, (a->n_inputs * RUNNER_NEAR_MAX + 1) * sizeof(*near));
	for (size_t i = 0; i < a->n_inputs; i++) {
		const struct holders *h =
			is_large(&a->inputs[i].id) ? holders_of(n, &a->inputs[i].id) : NULL;

		n_large += is_large(&a->inputs[i].id);
		for (size_t k = 0; h && k < h->n; k++)
			count(near, &n_nodes, h->nodes[k]);
	}
	qsort(near, n_nodes, sizeof(*near), heavier_first);
	for (size_t i = 0; i < n_nodes; i++)
		near[i].weight = (uint32_t)(near[i].weight * 100 / n_large);
	a->on.near = near;
	a->on.n_near = MIN(n_nodes, (size_t)RUNNER_NEAR_MAX);
}

void near_learn(struct near *n, const struct runner_attempt *a, const char *node)
{
	for (size_t i = 0; n && node && a->on.gang.nodes <= 1 && i < a->n_inputs; i++) {
		struct holders *h =
			is_large(&a->inputs[i].id) ? holders_of(n, &a->inputs[i].id) : NULL;

		if (h)
			put_first(n, h, node);
	}
}

void near_free(struct near *n)
{
	if (!n)
		return;
	map_free(n->contents);
	map_free(n->names);
}
