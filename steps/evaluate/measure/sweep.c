/* steps/evaluate/measure/sweep.c — one class against the others: one pass over the rows by falling
 * score.
 *
 * Rows of one score are handled together, as a tie (advance()). Pairs are counted twice, as
 * integers, so that half of a tie is a whole number. Curves keep at most CURVE_POINTS + 2 points: a
 * point too near to the last one is dropped (struct thinner), except the ends.
 */
#include "steps/evaluate/measure/sweep.h"
#include "steps/evaluate/measure/meter.h"

/* Distance along both axes together: so a monotone curve never has more points than fit. */
#define STEP (2.0 / (CURVE_POINTS - 12))

/* Points too near to the last one are dropped, except the ends. */
struct thinner {
	struct curve *c;
	double x, y; /* of the last point seen, perhaps not kept */
	double step;
	bool pending;
};

static void keep(struct thinner *t, double x, double y)
{
	struct curve *c = t->c;

	/* Precision may go up and down many times: keep every second point. */
	if (c->n == ARRAY_LEN(c->x)) {
		for (size_t i = 1; i < c->n / 2; i++) {
			c->x[i] = c->x[i * 2];
			c->y[i] = c->y[i * 2];
		}
		c->n /= 2;
		t->step *= 2;
	}
	c->x[c->n] = x;
	c->y[c->n++] = y;
	t->pending = false;
}

static void see(struct thinner *t, double x, double y)
{
	const struct curve *c = t->c;

	t->pending = true;
	t->x = x;
	t->y = y;
	if (c->n == 0 || fabs(x - c->x[c->n - 1]) + fabs(y - c->y[c->n - 1]) >= t->step)
		keep(t, x, y);
}

static void count_all(const struct ranked *order, size_t n, const uint32_t *w, struct sweep *s)
{
	uint64_t total = 0;

	s->positives = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t k = weight(w, order[i].row);

		total += k;
		s->positives += order[i].code == s->class ? k : 0;
	}
	s->negatives = total - s->positives;
}

struct going {
	struct sweep *s;
	struct thinner roc, pr;
	uint64_t tp, fp, twice; /* twice the correctly ordered pairs */
	struct sum precision;
};

/* After a tie of `p` positives and `n` negatives. */
static inline void advance(struct going *g, uint64_t p, uint64_t n)
{
	struct sweep *s = g->s;

	g->twice += n * (2 * g->tp + p);
	g->tp += p;
	g->fp += n;
	if (p)
		sum_add(&g->precision, (double)p * ((double)g->tp / (double)(g->tp + g->fp)));
	if (s->roc && s->positives && s->negatives && p + n)
		see(&g->roc, (double)g->fp / (double)s->negatives,
		    (double)g->tp / (double)s->positives);
	if (s->pr && s->positives && p + n)
		see(&g->pr, (double)g->tp / (double)s->positives,
		    (double)g->tp / (double)(g->tp + g->fp));
}

void sweep(const struct ranked *order, size_t n, const uint32_t *w, struct sweep *s)
{
	struct going g = { .s = s,
			   .roc = { .c = s->roc, .step = STEP },
			   .pr = { .c = s->pr, .step = STEP } };

	count_all(order, n, w, s);
	if (s->roc) {
		s->roc->n = 0;
		see(&g.roc, 0, 0);
	}
	if (s->pr)
		s->pr->n = 0;
	for (size_t i = 0, j; i < n; i = j) {
		uint64_t p = 0, all = 0;

		for (j = i; j < n && order[j].key == order[i].key; j++) {
			uint64_t k = weight(w, order[j].row);

			all += k;
			p += order[j].code == s->class ? k : 0;
		}
		for (size_t k = i; s->pairs && k < j; k++)
			if (order[k].code != s->class)
				s->pairs[order[k].code] += weight(w, order[k].row) * (2 * g.tp + p);
		advance(&g, p, all - p);
	}
	if (s->roc && g.roc.pending)
		keep(&g.roc, g.roc.x, g.roc.y);
	if (s->pr && g.pr.pending)
		keep(&g.pr, g.pr.x, g.pr.y);
	s->roc_auc = s->positives && s->negatives
			     ? (double)g.twice / (2 * (double)s->positives * (double)s->negatives)
			     : 0;
	s->pr_auc = s->positives ? sum_value(&g.precision) / (double)s->positives : 0;
}
