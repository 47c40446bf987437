/* steps/evaluate/measure/measure.c — meters by task: shared by classification.c, regression.c and
 * ranking.c.
 *
 * The data's task decides which of the three prepares and measures. meter_blocks() cuts rows into
 * blocks of a fixed size, so that partial sums, joined in order, don't depend on the threads.
 */
#include <string.h>
#include "steps/evaluate/measure/meter.h"

const struct measure *measures_get(const struct measures *m, const char *name)
{
	for (size_t i = 0; i < m->n; i++)
		if (strcmp(m->v[i].name, name) == 0)
			return &m->v[i];
	return NULL;
}

double measures_difference(const struct measures *a, const struct measures *b, const char *name)
{
	const struct measure *x = measures_get(a, name), *y = measures_get(b, name);

	return x && y ? x->v - y->v : NAN;
}

struct blocks {
	void (*fn)(void *arg, size_t from, size_t to, void *partial);
	void *arg;
	size_t n, size;
	char *partials;
};

static int run_block(void *arg, size_t i, struct err *err)
{
	struct blocks *b = arg;

	b->fn(b->arg, i * METER_BLOCK, MIN((i + 1) * METER_BLOCK, b->n), b->partials + i * b->size);
	return 0;
}

void *meter_blocks(size_t n, unsigned threads, size_t size,
		   void (*fn)(void *arg, size_t from, size_t to, void *partial), void *arg,
		   size_t *ret_n)
{
	size_t blocks = (n + METER_BLOCK - 1) / METER_BLOCK;
	struct blocks b = { fn, arg, n, size, xcalloc(MAX(blocks, 1), MAX(size, 1)) };

	step_parallel(threads, blocks, run_block, &b, NULL);
	*ret_n = blocks;
	return b.partials;
}

struct meter *meter_new(const struct data *d, const struct side *s, const struct meter_options *o)
{
	struct meter *m = xcalloc(1, sizeof(*m));

	assert(o->bins >= 1 && o->bins <= BINS_MAX && o->n_cuts <= CUTS_MAX);
	*m = (struct meter){ .d = d,
			     .s = s,
			     .o = *o,
			     .arena = arena_new(),
			     .units = d->task == TASK_RANKING ? d->n_queries : d->n };
	if (d->task == TASK_CLASSIFICATION)
		classification_prepare(m);
	else if (d->task == TASK_REGRESSION)
		regression_prepare(m);
	else
		ranking_prepare(m);
	return m;
}

void meter_free(struct meter *m)
{
	if (!m)
		return;
	for (size_t i = 0; i < m->n_orders; i++)
		free(m->orders[i]);
	free(m->orders);
	free(m->loss);
	free(m->brier);
	free(m->confidence);
	free(m->bin);
	free(m->right);
	free(m->rank);
	free(m->error);
	free(m->size);
	free(m->by_error);
	free(m->by_size);
	for (size_t i = 0; i <= CUTS_MAX; i++)
		free(m->ndcg[i]);
	free(m->rr);
	free(m->ap);
	free(m->negative);
	free(m->has_relevant);
	arena_free(m->arena);
	free(m);
}

size_t meter_units(const struct meter *m)
{
	return m->units;
}

void meter_measure(const struct meter *m, const uint32_t *w, unsigned threads, struct measures *ret)
{
	ret->n = 0;
	if (m->d->task == TASK_CLASSIFICATION)
		classification_measure(m, w, threads, ret);
	else if (m->d->task == TASK_REGRESSION)
		regression_measure(m, w, threads, ret);
	else
		ranking_measure(m, w, threads, ret);
}

const double *meter_losses(const struct meter *m)
{
	return m->d->task == TASK_REGRESSION ? m->size
	       : m->d->task == TASK_RANKING  ? m->negative
					     : NULL;
}

const struct ranked *meter_errors(const struct meter *m)
{
	return m->by_error;
}
