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
 * The loop's thread. Everything but the maps is in the run's arena, and stays as long as the run.
 */
#include <stdlib.h>
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
	struct map *contents; /* digest → struct holders * */
	struct map *names;    /* node → its name, once */
};

static bool is_large(const struct content_id *id)
{
	return id->kind == CONTENT_TREE || (content_is_file(id) && id->size_bytes >= LARGE_BYTES);
}

static bool is_of_use(const struct run *r, const struct attempt *a)
{
	return r->ctx->runner->ops->durable && r->ctx->config->kubernetes.cache.host_path &&
	       a->given.on.gang.nodes <= 1;
}

static void put_first(struct run *r, struct holders *h, const char *node)
{
	const char **name = (const char **)map_slot_str(r->near->names, node);
	size_t i = 0;

	if (!*name)
		*name = arena_strdup(r->arena, node);
	while (i < h->n && h->nodes[i] != *name)
		i++;
	if (i == h->n && h->n < RUNNER_NEAR_MAX)
		h->n++;
	memmove(h->nodes + 1, h->nodes, MIN(i, h->n - 1) * sizeof(*h->nodes));
	h->nodes[0] = *name;
}

/* NULL: nothing is known of it. */
static struct holders *holders_of(struct run *r, const struct content_id *id)
{
	struct holders **slot;
	const char *nodes[RUNNER_NEAR_MAX];
	size_t n = 0;

	if (!r->near) {
		r->near = arena_alloc(r->arena, sizeof(*r->near));
		r->near->contents = map_new();
		r->near->names = map_new();
	}
	if (map_len(r->near->contents) >= CONTENTS_MAX &&
	    !map_has(r->near->contents, id->digest.b, DIGEST_BYTES))
		return NULL;
	slot = (struct holders **)map_slot(r->near->contents, id->digest.b, DIGEST_BYTES, NULL);
	if (*slot)
		return *slot;
	*slot = arena_alloc(r->arena, sizeof(**slot));
	/* Without an answer there is no hint. */
	if (record_readers(r->ctx->db, id, r->row.options_json, r->arena, nodes, ARRAY_LEN(nodes),
			   &n, NULL) < 0)
		n = 0;
	while (n-- > 0)
		put_first(r, *slot, nodes[n]);
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

void near_fill(struct run *r, struct attempt *a)
{
	const struct runner_attempt *given = &a->given;
	struct runner_near *near;
	size_t n = 0, n_large = 0;

	if (!is_of_use(r, a) || given->number > 1)
		return;
	near = arena_alloc(a->arena, (given->n_inputs * RUNNER_NEAR_MAX + 1) * sizeof(*near));
	for (size_t i = 0; i < given->n_inputs; i++) {
		const struct holders *h =
			is_large(&given->inputs[i].id) ? holders_of(r, &given->inputs[i].id) : NULL;

		n_large += is_large(&given->inputs[i].id);
		for (size_t k = 0; h && k < h->n; k++)
			count(near, &n, h->nodes[k]);
	}
	qsort(near, n, sizeof(*near), heavier_first);
	for (size_t i = 0; i < n; i++)
		near[i].weight = (uint32_t)(near[i].weight * 100 / n_large);
	a->given.on.near = near;
	a->given.on.n_near = MIN(n, (size_t)RUNNER_NEAR_MAX);
}

void near_learn(struct run *r, const struct attempt *a)
{
	for (size_t i = 0; is_of_use(r, a) && a->result.node && i < a->given.n_inputs; i++) {
		const struct content_id *id = &a->given.inputs[i].id;
		struct holders *h = is_large(id) ? holders_of(r, id) : NULL;

		if (h)
			put_first(r, h, a->result.node);
	}
}

void near_free(struct run *r)
{
	if (!r->near)
		return;
	map_free(r->near->contents);
	map_free(r->near->names);
}
