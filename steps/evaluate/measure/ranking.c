/* steps/evaluate/measure/ranking.c — the meter of a ranking: NDCG, MRR, MAP, by query.
 *
 * Rows compete within their query. NDCG is scikit-learn's: gain by label, discount 1/log2(rank +
 * 1), ties by their mean gain (F. McSherry and M. Najork, 2008). For MRR and MAP, labels above 0
 * are relevant, and a tie counts at its worst: all its rows have the rank of its last. A query
 * without a relevant row counts as 0.
 *
 * Everything is computed once, by ranking_prepare(): group() sorts the rows by query, and one
 * thread measures each query into its own place of the arrays. ranking_measure() only takes
 * weighted means over queries, in their order.
 *
 * Labels are 0 or more: data.c has checked them.
 */
#include <string.h>
#include "steps/evaluate/measure/meter.h"

struct item {
	double score, gain;
};

struct queries {
	struct meter *m;
	uint64_t *starts; /* by query: its first item; one more at the end */
	struct item *items;
	double *discounts; /* sums of the first r ranks' discounts */
};

static int by_score(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return x->score > y->score ? -1 : x->score < y->score;
}

static int by_gain(const void *a, const void *b)
{
	const struct item *x = a, *y = b;

	return x->gain > y->gain ? -1 : x->gain < y->gain;
}

/* Over the first `cut` ranks of items by falling score. */
static double dcg(const struct queries *q, const struct item *v, size_t n, size_t cut)
{
	struct sum sum = { 0 };

	for (size_t i = 0, j; i < n && i < cut; i = j) {
		struct sum gain = { 0 };

		for (j = i; j < n && v[j].score == v[i].score; j++)
			sum_add(&gain, q->m->o.exponential_gain ? exp2(v[j].gain) - 1 : v[j].gain);
		sum_add(&sum, sum_value(&gain) / (double)(j - i) *
				      (q->discounts[MIN(j, cut)] - q->discounts[i]));
	}
	return sum_value(&sum);
}

static void precision(struct meter *m, size_t query, const struct item *v, size_t n)
{
	struct sum sum = { 0 };
	size_t relevant = 0;

	for (size_t i = 0, j; i < n; i = j) {
		size_t here = 0;

		for (j = i; j < n && v[j].score == v[i].score; j++)
			here += v[j].gain > 0;
		if (here && !relevant)
			m->rr[query] = 1 / (double)j;
		relevant += here;
		sum_add(&sum, (double)here * (double)relevant / (double)j);
	}
	m->has_relevant[query] = relevant > 0;
	m->ap[query] = relevant ? sum_value(&sum) / (double)relevant : 0;
}

static int rank_query(void *arg, size_t query, struct err *err)
{
	const struct queries *q = arg;
	struct meter *m = q->m;
	struct item *v = q->items + q->starts[query];
	size_t n = q->starts[query + 1] - q->starts[query];
	double ideal;

	if (n == 0)
		return 0;
	qsort(v, n, sizeof(*v), by_score);
	precision(m, query, v, n);
	for (size_t c = 0; c <= m->o.n_cuts; c++)
		m->ndcg[c][query] = dcg(q, v, n, c ? m->o.cuts[c - 1] : n);
	qsort(v, n, sizeof(*v), by_gain);
	for (size_t i = 0; i < n; i++)
		v[i].score = -(double)i; /* no ties: within equal gains the order doesn't matter */
	for (size_t c = 0; c <= m->o.n_cuts; c++) {
		ideal = dcg(q, v, n, c ? m->o.cuts[c - 1] : n);
		m->ndcg[c][query] = ideal > 0 ? m->ndcg[c][query] / ideal : 0;
	}
	m->negative[query] = -m->ndcg[0][query];
	return 0;
}

static void group(struct queries *q)
{
	const struct data *d = q->m->d;
	uint64_t *at;

	q->starts = xcalloc(d->n_queries + 2, sizeof(*q->starts));
	q->items = xmalloc(MAX(d->n, 1) * sizeof(*q->items));
	for (size_t i = 0; i < d->n; i++)
		q->starts[d->query[i] + 1]++;
	for (size_t k = 0; k < d->n_queries; k++)
		q->starts[k + 1] += q->starts[k];
	at = xmalloc((d->n_queries + 1) * sizeof(*at));
	memcpy(at, q->starts, (d->n_queries + 1) * sizeof(*at));
	for (size_t i = 0; i < d->n; i++)
		q->items[at[d->query[i]]++] =
			(struct item){ side_score(q->m->s, i, 0), d->target[i] };
	free(at);
}

static double *room(size_t n)
{
	return xcalloc(MAX(n, 1), sizeof(double));
}

void ranking_prepare(struct meter *m)
{
	struct queries q = { .m = m };
	size_t longest = 0, n = m->d->n_queries;
	struct sum sum = { 0 };

	for (size_t c = 0; c <= m->o.n_cuts; c++)
		m->ndcg[c] = room(n);
	for (size_t c = 0; c < m->o.n_cuts; c++)
		m->names[c] = arena_printf(m->arena, "ndcg_at_%zu", m->o.cuts[c]);
	m->rr = room(n);
	m->ap = room(n);
	m->negative = room(n);
	m->has_relevant = xcalloc(MAX(n, 1), 1);
	group(&q);
	for (size_t k = 0; k < n; k++)
		longest = MAX(longest, q.starts[k + 1] - q.starts[k]);
	q.discounts = room(longest + 1);
	for (size_t r = 0; r < longest; r++) {
		sum_add(&sum, 1 / log2((double)r + 2));
		q.discounts[r + 1] = sum_value(&sum);
	}
	step_parallel(m->o.threads, n, rank_query, &q, NULL);
	free(q.starts);
	free(q.items);
	free(q.discounts);
}

static double mean(const struct meter *m, const double *v, const uint32_t *w, uint64_t total)
{
	struct sum sum = { 0 };

	for (size_t i = 0; i < m->units; i++)
		sum_add(&sum, (double)weight(w, i) * v[i]);
	return sum_value(&sum) / (double)MAX(total, 1);
}

void ranking_measure(const struct meter *m, const uint32_t *w, unsigned threads,
		     struct measures *ret)
{
	uint64_t total = 0, without = 0;
	const char *why;

	for (size_t i = 0; i < m->units; i++) {
		total += weight(w, i);
		without += m->has_relevant[i] ? 0 : weight(w, i);
	}
	why = total ? NULL : "there are no queries";
	measures_add(ret, "ndcg", mean(m, m->ndcg[0], w, total), why);
	for (size_t c = 0; c < m->o.n_cuts; c++)
		measures_add(ret, m->names[c], mean(m, m->ndcg[c + 1], w, total), why);
	measures_add(ret, "mrr", mean(m, m->rr, w, total), why);
	measures_add(ret, "map", mean(m, m->ap, w, total), why);
	measures_add(ret, "queries", (double)total, NULL);
	measures_add(ret, "queries_without_relevant", (double)without, NULL);
}
