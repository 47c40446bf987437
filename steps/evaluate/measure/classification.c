/* steps/evaluate/measure/classification.c — the meter of a classification.
 *
 * classification_prepare() computes once what doesn't depend on weights: the order of rows by each
 * score column (m->orders), and by row the loss, Brier score, confidence, bin and rank of the true
 * class. classification_measure() then passes over the rows with their weights: the confusion
 * matrix and metrics from it, areas by sweep(), top-k, and probabilities.
 *
 * Counts are exact integers: metrics from the confusion matrix and areas under ROC curves are exact
 * up to the last rounding. Sums of doubles go by blocks that are joined in order (meter_blocks(),
 * struct sum), so they don't depend on the threads.
 *
 * Scores are probabilities when they lie within 0 and 1 and sum to 1 (why_no_probabilities()). If
 * not, loss and calibration are undefined, and two score columns are ranked by their difference.
 * Each undefined metric has its reason (`why`). The set and order of metrics depends on the data
 * and the side only, never on the weights.
 *
 * A meter doesn't change once it is prepared: any number of threads measure with it. One exception:
 * add_areas() allocates the text of a reason in the arena when `w` is NULL, which only one thread
 * passes at a time.
 */
#include <string.h>
#include "steps/evaluate/measure/meter.h"
#include "steps/evaluate/measure/sweep.h"

#define SUM_TOLERANCE 1e-5 /* for a row's sum: 32-bit softmax is off by 1e-7 a class */
/* With more classes, counting on several threads takes too much memory. */
#define COUNT_CLASSES_MAX 256

/* By row. */

struct row_check {
	uint64_t outside, unsummed; /* first row of each kind, + 1 */
};

static bool is_binary(const struct meter *m)
{
	return m->d->n_classes == 2;
}

/* With two classes, the column of the positive one's score. */
static size_t positive_column(const struct meter *m)
{
	return m->s->width == 2 ? m->d->positive : 0;
}

static void check_block(void *arg, size_t from, size_t to, void *partial)
{
	const struct meter *m = arg;
	struct row_check *c = partial;

	for (size_t i = from; i < to; i++) {
		double sum = 0;
		bool inside = true;

		for (size_t k = 0; k < m->s->width; k++) {
			double v = side_score(m->s, i, k);

			inside &= v >= 0 && v <= 1;
			sum += v;
		}
		if (!inside && !c->outside)
			c->outside = i + 1;
		if (m->s->width > 1 && fabs(sum - 1) > SUM_TOLERANCE && !c->unsummed)
			c->unsummed = i + 1;
	}
}

/* NULL when the scores are probabilities. */
static const char *why_no_probabilities(struct meter *m)
{
	const char *why = NULL;
	size_t n;
	struct row_check *v = meter_blocks(m->d->n, m->o.threads, sizeof(*v), check_block, m, &n);

	for (size_t i = 0; i < n && !why; i++)
		if (v[i].outside)
			why = arena_printf(m->arena,
					   "the scores are no probabilities: row %llu has one "
					   "outside of 0 to 1",
					   (unsigned long long)v[i].outside);
	for (size_t i = 0; i < n && !why; i++)
		if (v[i].unsummed)
			why = arena_printf(
				m->arena,
				"the scores are no probabilities: those of row %llu don't sum to 1",
				(unsigned long long)v[i].unsummed);
	free(v);
	return why;
}

/* Instead of the logarithm of 0, uses that of the epsilon of the scores' type, as scikit-learn
 * does. */
static inline double clipped(const struct meter *m, double p)
{
	double least = m->s->epsilon;

	return p < least ? least : p > 1 - least ? 1 - least : p;
}

static uint8_t bin_of(const struct meter *m, double p)
{
	return (uint8_t)MIN((size_t)(p * (double)m->o.bins), m->o.bins - 1);
}

static void binary_row(struct meter *m, size_t i, size_t column)
{
	double p = side_score(m->s, i, column), c = clipped(m, p);
	bool yes = m->d->truth[i] == m->d->positive;

	m->loss[i] = -log(yes ? c : 1 - c);
	m->brier[i] = yes ? (1 - p) * (1 - p) : p * p;
	m->confidence[i] = p;
	m->bin[i] = bin_of(m, p);
	m->right[i] = yes;
}

static void multi_row(struct meter *m, size_t i)
{
	size_t truth = m->d->truth[i], best = 0;
	struct sum brier = { 0 };
	double total = 0;

	for (size_t k = 0; k < m->s->width; k++) {
		double p = side_score(m->s, i, k), miss = p - (k == truth);

		total += clipped(m, p);
		sum_add(&brier, miss * miss);
		if (p > side_score(m->s, i, best))
			best = k;
	}
	m->loss[i] = -log(clipped(m, side_score(m->s, i, truth)) / total);
	m->brier[i] = sum_value(&brier);
	m->confidence[i] = side_score(m->s, i, best);
	m->bin[i] = bin_of(m, m->confidence[i]);
	m->right[i] = best == truth;
}

static void probabilities_block(void *arg, size_t from, size_t to, void *partial)
{
	struct meter *m = arg;

	for (size_t i = from; i < to; i++)
		if (is_binary(m))
			binary_row(m, i, positive_column(m));
		else
			multi_row(m, i);
}

/* Among equal scores the last column comes first, as in scikit-learn. */
static void ranks_block(void *arg, size_t from, size_t to, void *partial)
{
	struct meter *m = arg;

	for (size_t i = from; i < to; i++) {
		size_t truth = m->d->truth[i];
		double own = side_score(m->s, i, truth);
		uint32_t before = 0;

		for (size_t k = 0; k < m->s->width; k++) {
			double v = side_score(m->s, i, k);

			before += v > own || (v == own && k > truth);
		}
		m->rank[i] = before;
	}
}

/* When two scores aren't probabilities (logits, votes), their difference separates the classes. It
 * is halved, so that it can't overflow. */
static struct ranked *order_by_difference(const struct meter *m)
{
	size_t yes = m->d->positive;
	double *v = xmalloc(MAX(m->d->n, 1) * sizeof(*v));
	struct ranked *order;

	for (size_t i = 0; i < m->d->n; i++)
		v[i] = side_score(m->s, i, yes) / 2 - side_score(m->s, i, 1 - yes) / 2;
	order = ranked_order(v, 1, m->d->truth, m->d->n, m->o.threads);
	free(v);
	return order;
}

static void prepare_orders(struct meter *m)
{
	m->n_orders = is_binary(m) ? 1 : m->s->width;
	m->orders = xcalloc(m->n_orders, sizeof(*m->orders));
	for (size_t k = 0; k < m->n_orders; k++) {
		size_t column = is_binary(m) ? positive_column(m) : k;

		if (is_binary(m) && m->s->width == 2 && m->why_not) {
			m->orders[k] = order_by_difference(m);
			continue;
		}
		m->orders[k] = ranked_order(m->s->scores + column * m->s->column_stride,
					    m->s->row_stride, m->d->truth, m->d->n, m->o.threads);
	}
}

void classification_prepare(struct meter *m)
{
	size_t n = MAX(m->d->n, 1), blocks;

	for (size_t c = 0; c < m->o.n_cuts; c++)
		m->names[c] = arena_printf(m->arena, "top_%zu_accuracy", m->o.cuts[c]);
	m->why_not = m->s->scores ? NULL : "there are no scores, only predicted classes";
	/* Without rows the number of columns may differ from that of classes. */
	if (!m->s->scores || m->d->n_classes < 2 || !m->d->n)
		return;
	m->why_not = why_no_probabilities(m);
	prepare_orders(m);
	if (!is_binary(m)) {
		m->rank = xmalloc(n * sizeof(*m->rank));
		free(meter_blocks(m->d->n, m->o.threads, 0, ranks_block, m, &blocks));
	}
	if (m->why_not)
		return;
	m->loss = xmalloc(n * sizeof(double));
	m->brier = xmalloc(n * sizeof(double));
	m->confidence = xmalloc(n * sizeof(double));
	m->bin = xmalloc(n);
	m->right = xmalloc(n);
	free(meter_blocks(m->d->n, m->o.threads, 0, probabilities_block, m, &blocks));
}

/* The confusion matrix. */

struct counting {
	const struct meter *m;
	const uint32_t *w;
	unsigned ranges;
	uint64_t *counts; /* one matrix per range */
};

static int count_range(void *arg, size_t r, struct err *err)
{
	const struct counting *c = arg;
	const struct data *d = c->m->d;
	const uint32_t *predicted = c->m->s->predicted;
	uint64_t *to = c->counts + r * d->n_classes * d->n_classes;

	for (size_t i = d->n * r / c->ranges; i < d->n * (r + 1) / c->ranges; i++)
		to[d->truth[i] * d->n_classes + predicted[i]] += weight(c->w, i);
	return 0;
}

void meter_confusion(const struct meter *m, const uint32_t *w, unsigned threads, uint64_t *ret)
{
	size_t cells = m->d->n_classes * m->d->n_classes;
	struct counting c = { m, w, m->d->n_classes > COUNT_CLASSES_MAX ? 1 : threads, NULL };

	c.counts = xcalloc(MAX(cells * c.ranges, 1), sizeof(uint64_t));
	step_parallel(threads, c.ranges, count_range, &c, NULL);
	memset(ret, 0, cells * sizeof(*ret));
	for (size_t r = 0; r < c.ranges; r++)
		for (size_t i = 0; i < cells; i++)
			ret[i] += c.counts[r * cells + i];
	free(c.counts);
}

static double ratio(uint64_t a, uint64_t b)
{
	return b ? (double)a / (double)b : NAN;
}

static double or_zero(double v)
{
	return isnan(v) ? 0 : v;
}

static void from_confusion(const struct meter *m, const uint64_t *confusion,
			   struct class_measures *ret)
{
	size_t k = m->d->n_classes;

	for (size_t c = 0; c < k; c++) {
		struct class_measures *x = &ret[c];
		uint64_t hit = confusion[c * k + c];

		*x = (struct class_measures){ .roc_auc = NAN, .pr_auc = NAN };
		for (size_t i = 0; i < k; i++) {
			x->support += confusion[c * k + i];
			x->predicted += confusion[i * k + c];
		}
		x->precision = ratio(hit, x->predicted);
		x->recall = ratio(hit, x->support);
		x->f1 = ratio(2 * hit, x->support + x->predicted);
	}
}

void meter_classes(const struct meter *m, const uint64_t *confusion, struct class_measures *ret)
{
	from_confusion(m, confusion, ret);
	for (size_t c = 0; c < m->d->n_classes && m->n_orders; c++) {
		struct sweep s = { .class = (uint32_t)(is_binary(m) ? m->d->positive : c) };

		if (is_binary(m) && c != m->d->positive)
			continue;
		sweep(m->orders[is_binary(m) ? 0 : c], m->d->n, NULL, &s);
		if (s.positives && s.negatives)
			ret[c].roc_auc = s.roc_auc;
		if (s.positives)
			ret[c].pr_auc = s.pr_auc;
	}
}

/* Measures. */

/* (R. Matthews; the form for several classes by J. Gorodkin, 2004.) 0 where one side is constant.
 */
static double correlation(const struct class_measures *v, size_t k, uint64_t right, uint64_t n)
{
	double s = (double)n, c = (double)right * s, pp = 0, tt = 0;
	struct sum pt = { 0 }, p2 = { 0 }, t2 = { 0 };

	for (size_t i = 0; i < k; i++) {
		double p = (double)v[i].predicted, t = (double)v[i].support;

		sum_add(&pt, p * t);
		sum_add(&p2, p * p);
		sum_add(&t2, t * t);
	}
	pp = s * s - sum_value(&p2);
	tt = s * s - sum_value(&t2);
	return pp > 0 && tt > 0 ? (c - sum_value(&pt)) / sqrt(pp) / sqrt(tt) : 0;
}

/* A class that isn't named in advance counts in the averages of rows in which it occurs or is
 * predicted, as in scikit-learn. These rows may be a slice, or a resample. */
static void add_averages(const struct meter *m, const struct class_measures *v, uint64_t n,
			 const char *why, struct measures *ret)
{
	struct sum p = { 0 }, r = { 0 }, f = { 0 }, wp = { 0 }, wr = { 0 }, wf = { 0 };
	double classes, rows = (double)MAX(n, 1);
	size_t averaged = 0;

	for (size_t i = 0; i < m->d->n_classes; i++) {
		double w = (double)v[i].support;

		averaged += m->d->named || v[i].support || v[i].predicted;
		sum_add(&p, or_zero(v[i].precision));
		sum_add(&r, or_zero(v[i].recall));
		sum_add(&f, or_zero(v[i].f1));
		sum_add(&wp, w * or_zero(v[i].precision));
		sum_add(&wr, w * or_zero(v[i].recall));
		sum_add(&wf, w * or_zero(v[i].f1));
	}
	classes = (double)MAX(averaged, 1);
	measures_add(ret, "precision_macro", sum_value(&p) / classes, why);
	measures_add(ret, "recall_macro", sum_value(&r) / classes, why);
	measures_add(ret, "f1_macro", sum_value(&f) / classes, why);
	measures_add(ret, "precision_weighted", sum_value(&wp) / rows, why);
	measures_add(ret, "recall_weighted", sum_value(&wr) / rows, why);
	measures_add(ret, "f1_weighted", sum_value(&wf) / rows, why);
}

static void add_positive(const struct class_measures *x, const char *why, struct measures *ret)
{
	measures_add(ret, "precision", x->precision,
		     why            ? why
		     : x->predicted ? NULL
				    : "the positive class was never predicted");
	measures_add(ret, "recall", x->recall,
		     why          ? why
		     : x->support ? NULL
				  : "no row is of the positive class");
	measures_add(ret, "f1", x->f1,
		     why ? why
		     : x->support + x->predicted
			     ? NULL
			     : "the positive class neither occurs nor was predicted");
}

static void add_confusion(const struct meter *m, const uint32_t *w, unsigned threads,
			  struct measures *ret, uint64_t *ret_rows)
{
	size_t k = m->d->n_classes, present = 0;
	uint64_t *confusion = xcalloc(MAX(k * k, 1), sizeof(*confusion)), right = 0, n = 0;
	struct class_measures *v = xcalloc(MAX(k, 1), sizeof(*v));
	struct sum recalls = { 0 };
	const char *why;

	meter_confusion(m, w, threads, confusion);
	from_confusion(m, confusion, v);
	for (size_t i = 0; i < k; i++) {
		right += confusion[i * k + i];
		n += v[i].support;
		present += v[i].support > 0;
		sum_add(&recalls, or_zero(v[i].recall));
	}
	why = n ? NULL : "there are no rows";
	measures_add(ret, "accuracy", (double)right / (double)MAX(n, 1), why);
	measures_add(ret, "balanced_accuracy", sum_value(&recalls) / (double)MAX(present, 1), why);
	if (is_binary(m))
		add_positive(&v[m->d->positive], why, ret);
	add_averages(m, v, n, why, ret);
	/* Each row has one class: micro precision and recall are the same. */
	measures_add(ret, "f1_micro", (double)right / (double)MAX(n, 1), why);
	measures_add(ret, "mcc", correlation(v, k, right, n), why);
	*ret_rows = n;
	free(confusion);
	free(v);
}

static void add_binary_areas(const struct meter *m, const uint32_t *w, const char *why,
			     struct measures *ret)
{
	struct sweep s = { .class = (uint32_t)m->d->positive };

	if (!why)
		sweep(m->orders[0], m->d->n, w, &s);
	measures_add(ret, "roc_auc", s.roc_auc,
		     why                          ? why
		     : s.positives && s.negatives ? NULL
						  : "only one class is in the labels");
	measures_add(ret, "pr_auc", s.pr_auc,
		     why           ? why
		     : s.positives ? NULL
				   : "no row is of the positive class");
}

/* Mean over pairs of classes that occur: the area for telling one from the other (D. J. Hand and R.
 * J. Till, 2001). */
static double one_vs_one(const uint64_t *pairs, const uint64_t *support, size_t k)
{
	struct sum sum = { 0 };
	uint64_t n = 0;

	for (size_t a = 0; a < k; a++)
		for (size_t b = 0; b < k; b++)
			if (a != b && support[a] && support[b]) {
				sum_add(&sum, (double)pairs[a * k + b] / (2 * (double)support[a] *
									  (double)support[b]));
				n++;
			}
	return sum_value(&sum) / (double)MAX(n, 1);
}

static void add_areas(const struct meter *m, const uint32_t *w, const char *why,
		      struct measures *ret)
{
	size_t k = m->d->n_classes, present = 0;
	uint64_t *pairs = xcalloc(MAX(k * k, 1), sizeof(*pairs)),
		 *support = xcalloc(MAX(k, 1), sizeof(*support)), rows = 0;
	struct sum ovr = { 0 }, weighted = { 0 }, pr = { 0 };
	const char *missing = NULL; /* a class without rows */
	const char *single = why, *each;

	for (size_t c = 0; c < k && !why; c++) {
		struct sweep s = { .class = (uint32_t)c, .pairs = pairs + c * k };

		sweep(m->orders[c], m->d->n, w, &s);
		support[c] = s.positives;
		rows += s.positives;
		present += s.positives > 0;
		sum_add(&ovr, s.roc_auc);
		sum_add(&weighted, s.roc_auc * (double)s.positives);
		sum_add(&pr, s.pr_auc);
		if (!s.positives && !missing)
			missing = w ? "a class has no rows"
				    : arena_printf(m->arena, "no row is of the class `%.200s`",
						   m->d->classes[c]);
	}
	if (!why && present < 2)
		single = "only one class is in the labels";
	each = single ? single : missing;
	measures_add(ret, "roc_auc_ovr", sum_value(&ovr) / (double)MAX(k, 1), each);
	measures_add(ret, "roc_auc_ovr_weighted", sum_value(&weighted) / (double)MAX(rows, 1),
		     each);
	measures_add(ret, "roc_auc_ovo", single ? 0 : one_vs_one(pairs, support, k), single);
	measures_add(ret, "pr_auc", sum_value(&pr) / (double)MAX(k, 1), why ? why : missing);
	free(pairs);
	free(support);
}

struct top_part {
	uint64_t hits[CUTS_MAX];
};

struct probability_part {
	struct sum loss, brier;
	struct {
		uint64_t n, right;
		struct sum confidence;
	} bins[BINS_MAX];
};

struct rows_pass {
	const struct meter *m;
	const uint32_t *w;
};

static void top_block(void *arg, size_t from, size_t to, void *partial)
{
	const struct rows_pass *x = arg;
	struct top_part *p = partial;

	for (size_t i = from; i < to; i++)
		for (size_t c = 0; c < x->m->o.n_cuts; c++)
			p->hits[c] += x->m->rank[i] < x->m->o.cuts[c] ? weight(x->w, i) : 0;
}

static void add_top(const struct meter *m, const uint32_t *w, unsigned threads, uint64_t rows,
		    const char *why, struct measures *ret)
{
	struct rows_pass x = { m, w };
	uint64_t hits[CUTS_MAX] = { 0 };
	size_t n = 0;
	struct top_part *v =
		m->rank ? meter_blocks(m->d->n, threads, sizeof(*v), top_block, &x, &n) : NULL;

	for (size_t i = 0; i < n; i++)
		for (size_t c = 0; c < m->o.n_cuts; c++)
			hits[c] += v[i].hits[c];
	for (size_t c = 0; c < m->o.n_cuts; c++)
		if (m->o.cuts[c] < m->d->n_classes)
			measures_add(ret, m->names[c], (double)hits[c] / (double)MAX(rows, 1), why);
	free(v);
}

static void probability_block(void *arg, size_t from, size_t to, void *partial)
{
	const struct rows_pass *x = arg;
	const struct meter *m = x->m;
	struct probability_part *p = partial;

	for (size_t i = from; i < to; i++) {
		uint64_t k = weight(x->w, i);
		double w = (double)k;

		if (!k)
			continue;
		sum_add(&p->loss, w * m->loss[i]);
		sum_add(&p->brier, w * m->brier[i]);
		p->bins[m->bin[i]].n += k;
		p->bins[m->bin[i]].right += m->right[i] ? k : 0;
		sum_add(&p->bins[m->bin[i]].confidence, w * m->confidence[i]);
	}
}

static void probability_sums(const struct meter *m, const uint32_t *w, unsigned threads,
			     struct probability_part *all)
{
	struct rows_pass x = { m, w };
	size_t n;
	struct probability_part *v =
		meter_blocks(m->d->n, threads, sizeof(*v), probability_block, &x, &n);

	for (size_t i = 0; i < n; i++) {
		sum_join(&all->loss, &v[i].loss);
		sum_join(&all->brier, &v[i].brier);
		for (size_t b = 0; b < m->o.bins; b++) {
			all->bins[b].n += v[i].bins[b].n;
			all->bins[b].right += v[i].bins[b].right;
			sum_join(&all->bins[b].confidence, &v[i].bins[b].confidence);
		}
	}
	free(v);
}

static void add_probabilities(const struct meter *m, const uint32_t *w, unsigned threads,
			      uint64_t rows, const char *why, struct measures *ret)
{
	struct probability_part *all = xcalloc(1, sizeof(*all));
	struct sum ece = { 0 };
	double n = (double)MAX(rows, 1);

	if (!why)
		why = m->why_not;
	if (!why)
		probability_sums(m, w, threads, all);
	for (size_t b = 0; b < m->o.bins; b++)
		sum_add(&ece,
			fabs(sum_value(&all->bins[b].confidence) - (double)all->bins[b].right));
	measures_add(ret, "log_loss", sum_value(&all->loss) / n, why);
	measures_add(ret, "brier", sum_value(&all->brier) / n, why);
	measures_add(ret, "ece", sum_value(&ece) / n, why);
	free(all);
}

void classification_measure(const struct meter *m, const uint32_t *w, unsigned threads,
			    struct measures *ret)
{
	const char *why = NULL;
	uint64_t rows;

	add_confusion(m, w, threads, ret, &rows);
	if (!m->s->scores)
		return;
	if (!rows)
		why = "there are no rows";
	else if (!m->n_orders)
		why = "there is only one class";
	if (m->d->n_classes <= 2) {
		add_binary_areas(m, w, why, ret);
	} else {
		add_areas(m, w, why, ret);
		add_top(m, w, threads, rows, why, ret);
	}
	add_probabilities(m, w, threads, rows, why, ret);
}

/* For the report. */

bool meter_curves(const struct meter *m, size_t class, struct curve *roc, struct curve *pr)
{
	struct sweep s = { .class = (uint32_t) class, .roc = roc, .pr = pr };

	if (!m->n_orders || (is_binary(m) && class != m->d->positive))
		return false;
	sweep(m->orders[is_binary(m) ? 0 : class], m->d->n, NULL, &s);
	return s.positives && s.negatives;
}

bool meter_bins(const struct meter *m, struct bin *ret)
{
	struct probability_part *all;

	if (!m->loss)
		return false;
	all = xcalloc(1, sizeof(*all));
	probability_sums(m, NULL, m->o.threads, all);
	for (size_t b = 0; b < m->o.bins; b++)
		ret[b] = (struct bin){ all->bins[b].n, all->bins[b].right,
				       sum_value(&all->bins[b].confidence) /
					       (double)MAX(all->bins[b].n, 1) };
	free(all);
	return true;
}
