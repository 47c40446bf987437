/* steps/evaluate/data.c — which columns of which input are wanted, and the arrays made of them.
 *
 * load() opens the inputs (predictions, labels, baseline), decides on columns (want_*()), reads
 * each table once (frame_read()), matches the rows (source_match()), drops or refuses rows that the
 * task can't use (check_gains(), classes_resolve()), and gathers the matched rows into arrays of
 * struct data (gather(), classes_apply()).
 *
 * Columns must be wanted before anything is read, since a table is read once. So names decide:
 * settings first, else `prediction` and `score`; an array (NPY) has one column, whose type decides
 * its meaning. The classes listed in the settings, or those of the model's prob_* columns, give the
 * order of the score columns, also for the baseline.
 *
 * If all rows matched in place, arrays move out of the columns, and scores of an NPY may stay in
 * the mapped file: they are `lent`, and the tables live as long as struct data. Otherwise they are
 * copied row by row.
 *
 * One thread; frame.c and classes.c use several inside. Rows are counted here (rows_read,
 * rows_skipped). Nothing is measured.
 */
#include <assert.h>
#include <string.h>
#include "base/text/str.h"
#include "steps/evaluate/measure/classes.h"

#define SLICE_COLUMNS_MAX 32

struct loading {
	struct step_args *a;
	struct data *d;
	struct inputs in;
	struct column *slices[SLICE_COLUMNS_MAX + 1]; /* NULL behind the last one */
	struct source *slice_of[SLICE_COLUMNS_MAX], *query_of;
};

const char *task_name(enum task t)
{
	static const char *const names[] = { "classification", "regression", "ranking" };

	assert(t < ARRAY_LEN(names));
	return names[t];
}

/* Wanted columns. */

static int open_source(struct loading *l, struct source *s, const char *name, size_t i,
		       struct err *err)
{
	const struct step_port *p = step_input(l->a, name);

	if (!p)
		return 0;
	s->path = p->path;
	if (frame_open(p->path, l->a->threads, &l->d->tables[i], err) < 0)
		return -1;
	s->table = l->d->tables[i];
	l->in.all[l->in.n++] = s;
	return 0;
}

static struct column *want(struct loading *l, struct source *s, enum column_kind kind,
			   const char *name)
{
	return source_want(s, l->d->arena, kind, &name, 1);
}

static bool is_npy(const struct source *s)
{
	return frame_format(s->table) == FRAME_NPY;
}

/* An array is one column: its type decides whether it holds scores or classes. */
static void want_npy_prediction(struct loading *l, struct source *s)
{
	unsigned dimensions;
	size_t columns;

	if (l->d->task == TASK_CLASSIFICATION &&
	    frame_npy_kind(s->table, &columns, &dimensions) != 'f') {
		s->prediction = want(l, s, COLUMN_CODES, "prediction");
		s->prediction->codes_max = CLASSES_MAX;
	} else {
		s->scores = want(l, s, COLUMN_NUMBERS,
				 l->d->task == TASK_REGRESSION ? "prediction" : "score");
	}
}

static int want_classes(struct loading *l, struct source *s, struct err *err)
{
	const char *name = step_text(l->a->with, "prediction");
	const json_t *score = step_value(l->a->with, "score");
	bool listed = l->d->named;
	struct class_order order = { listed ? (const char *const *)l->d->classes
					    : l->in.model.score_classes,
				     listed ? l->d->n_classes : 0, !listed };

	if (!listed &&
	    l->in.model.score_classes) /* a baseline's columns are in the model's order */
		order.n = l->in.model.scores->n_names;
	if (name || frame_has(s->table, "prediction")) {
		s->prediction = want(l, s, COLUMN_CODES, name ? name : "prediction");
		s->prediction->codes_max = CLASSES_MAX;
	}
	if (json_array_size(score) ? source_want_scores(s, l->d->arena, score,
							order.names ? &order : NULL, err) < 0
				   : 0)
		return -1;
	if (!s->scores && frame_has(s->table, "score"))
		s->scores = want(l, s, COLUMN_NUMBERS, "score");
	if (s->scores || s->prediction || !frame_rows(s->table))
		return 0;
	return err_set(err, ERR_INVALID,
		       "%s has neither a column `prediction` nor `score`; name yours by "
		       "`prediction` or `score`",
		       s->path);
}

static int want_prediction(struct loading *l, struct source *s, struct err *err)
{
	const json_t *score = step_value(l->a->with, "score");
	const char *name;

	if (is_npy(s)) {
		want_npy_prediction(l, s);
		return 0;
	}
	if (l->d->task == TASK_CLASSIFICATION)
		return want_classes(l, s, err);
	if (json_array_size(score) > 1 || (l->d->task == TASK_REGRESSION && json_array_size(score)))
		return err_set(err, ERR_INVALID, "score: %s",
			       l->d->task == TASK_REGRESSION
				       ? "regression has none; `prediction` names the column"
				       : "ranking wants one column");
	name = l->d->task == TASK_REGRESSION ? step_text(l->a->with, "prediction")
					     : json_string_value(json_array_get(score, 0));
	s->scores = want(l, s, COLUMN_NUMBERS,
			 name                            ? name
			 : l->d->task == TASK_REGRESSION ? "prediction"
							 : "score");
	return 0;
}

static int want_label(struct loading *l, struct err *err)
{
	const char *name = step_text(l->a->with, "label");
	struct source *s = l->in.truth;

	if (l->in.truth == &l->in.model && is_npy(s))
		return err_set(err, ERR_USAGE,
			       "%s is an array of predictions; give the labels by -i labels=FILE",
			       s->path);
	if (l->in.truth == &l->in.model && frame_format(s->table) != FRAME_JSONL &&
	    !frame_has(s->table, name))
		return err_set(err, ERR_INVALID,
			       "%s has no column `%.60s`: name the labels' column by `label`, or "
			       "give -i labels=FILE",
			       s->path, name);
	s->label =
		want(l, s, l->d->task == TASK_CLASSIFICATION ? COLUMN_CODES : COLUMN_NUMBERS, name);
	s->label->codes_max = CLASSES_MAX;
	return 0;
}

/* A column besides the scores and labels, which `setting` names. An array (NPY) is a single column
 * without a name and can't have one. */
static struct column *want_named(struct loading *l, struct source *s, const char *setting,
				 enum column_kind kind, const char *name, struct err *err)
{
	if (!is_npy(s))
		return want(l, s, kind, name);
	err_set(err, ERR_INVALID, "%s: %s is an array, which has no column `%.60s`", setting,
		s->path, name);
	return NULL;
}

/* The labels' table if it has the column, else the predictions'. */
static struct source *source_with(struct loading *l, const char *name)
{
	return l->in.labels.path && frame_has(l->in.labels.table, name) ? &l->in.labels
									: &l->in.model;
}

static int want_others(struct loading *l, struct err *err)
{
	const char *query = step_text(l->a->with, "query");
	const json_t *slices = step_value(l->a->with, "slices"), *item;
	size_t i;

	if (l->d->task == TASK_RANKING) {
		if (!query)
			return err_set(err, ERR_INVALID,
				       "ranking: `query` must name the column that says which rows "
				       "are ranked together");
		l->query_of = source_with(l, query);
		l->query_of->query = want_named(l, l->query_of, "query", COLUMN_CODES, query, err);
		if (!l->query_of->query)
			return -1;
	}
	json_array_foreach(slices, i, item)
	{
		const char *name = json_string_value(item);

		assert(i < SLICE_COLUMNS_MAX); /* the spec's limit */
		l->slice_of[i] = source_with(l, name);
		l->slices[i] = want_named(l, l->slice_of[i], "slices", COLUMN_CODES, name, err);
		if (!l->slices[i])
			return -1;
		l->slices[i]->codes_max = SLICES_MAX;
		l->slices[i]->may_be_empty = true;
	}
	return 0;
}

/* Arrays. */

static void gather_scores(const struct source *s, struct column *c, size_t n, struct side *ret)
{
	ret->width = c->width;
	ret->row_stride = c->row_stride;
	ret->column_stride = c->column_stride;
	if (!s->rows) {
		ret->lent = c->lent;
		ret->scores = TAKE_PTR(c->numbers);
		return;
	}
	ret->scores = xmalloc(MAX(n * c->width, 1) * sizeof(double));
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < c->width; k++)
			ret->scores[i * c->width + k] =
				c->numbers[s->rows[i] * c->row_stride + k * c->column_stride];
	ret->row_stride = c->width;
	ret->column_stride = 1;
}

/* Numbers queries without gaps, even if all rows of one were left out. */
static size_t renumber(uint32_t *codes, size_t n, size_t n_codes)
{
	uint32_t *number = xcalloc(MAX(n_codes, 1), sizeof(*number)), next = 0;

	for (size_t i = 0; i < n; i++) {
		if (!number[codes[i]])
			number[codes[i]] = ++next;
		codes[i] = number[codes[i]] - 1;
	}
	free(number);
	return next;
}

static void gather(struct loading *l)
{
	struct data *d = l->d;

	for (size_t i = 0; l->slices[i]; i++) {
		struct slice_column *s = VEC_ADD(&d->slices);

		s->name = l->slices[i]->names[0];
		s->codes = source_take_codes(l->slice_of[i], l->slices[i], d->n);
		s->values = l->slices[i]->texts;
		l->slices[i]->texts = (struct dict){ 0 };
	}
	if (l->query_of) {
		d->query = source_take_codes(l->query_of, l->query_of->query, d->n);
		d->n_queries = renumber(d->query, d->n, l->query_of->query->texts.texts.n);
	}
	if (d->task != TASK_CLASSIFICATION) {
		const struct column *c = l->in.truth->label;

		assert(c->width == 1);
		d->target = xmalloc(MAX(d->n, 1) * sizeof(*d->target));
		for (size_t i = 0; i < d->n; i++)
			d->target[i] = c->numbers[source_row(l->in.truth, i) * c->row_stride];
	}
	for (int i = 0; i < 2; i++) {
		struct source *s = i ? &l->in.baseline : &l->in.model;
		struct side *side = i ? &d->baseline : &d->model;

		side->file = s->path;
		side->epsilon = s->path ? frame_epsilon(s->table) : 0;
		if (s->path && s->scores)
			gather_scores(s, s->scores, d->n, side);
	}
}

/* Regression and ranking need exactly one number a row, in predictions and in labels: gather()
 * would ignore all but the first. (Classes always have one text a row, and classes_resolve() checks
 * the number of scores.) */
static int check_widths(const struct loading *l, struct err *err)
{
	if (l->d->task == TASK_CLASSIFICATION)
		return 0;
	for (size_t i = 0; i < l->in.n; i++)
		for (size_t k = 0; k < l->in.all[i]->n; k++) {
			const struct column *c = &l->in.all[i]->columns[k];

			if (c->kind == COLUMN_NUMBERS && c->width != 1)
				return err_set(
					err, ERR_INVALID,
					"%s has %zu numbers a row; %s wants one (it reads `%.60s`)",
					l->in.all[i]->path, c->width, task_name(l->d->task),
					c->names[0]);
		}
	return 0;
}

/* Gains come from the labels, and can't be negative. */
static int check_gains(struct loading *l, struct err *err)
{
	const struct column *c = l->in.truth->label;
	uint8_t *keep = memset(xmalloc(MAX(l->d->n, 1)), 1, l->d->n);
	bool drop = false;
	int r = 0;

	for (size_t i = 0; i < l->d->n && r == 0; i++) {
		size_t row = source_row(l->in.truth, i);

		if (c->numbers[row * c->row_stride] >= 0)
			continue;
		drop = true;
		keep[i] = 0;
		if (!l->in.skip)
			r = err_set(err, ERR_INVALID,
				    "%s: row %zu: `%.60s` is negative; ranking wants a relevance "
				    "of 0 or more",
				    l->in.truth->path, row + 1, c->names[0]);
	}
	if (r == 0 && drop)
		source_keep(&l->in, keep, &l->d->n);
	free(keep);
	return r;
}

static int load(struct loading *l, struct err *err)
{
	const char *id = step_text(l->a->with, "id");
	struct inputs *in = &l->in;
	struct data *d = l->d;
	uint64_t unmatched;

	if (open_source(l, &in->model, "predictions", 0, err) < 0 ||
	    open_source(l, &in->labels, "labels", 1, err) < 0 ||
	    open_source(l, &in->baseline, "baseline", 2, err) < 0)
		return -1;
	in->truth = in->labels.path ? &in->labels : &in->model;
	if (d->task == TASK_CLASSIFICATION && classes_list(l->a, d, err) < 0)
		return -1;
	if (want_prediction(l, &in->model, err) < 0 || want_label(l, err) < 0 ||
	    want_others(l, err) < 0)
		return -1;
	for (size_t i = 0; i < in->n && id; i++) {
		in->all[i]->id = want_named(l, in->all[i], "id", COLUMN_TEXTS, id, err);
		if (!in->all[i]->id)
			return -1;
	}
	if (in->baseline.path && want_prediction(l, &in->baseline, err) < 0)
		return -1;
	for (size_t i = 0; i < in->n; i++) {
		struct source *s = in->all[i];

		if (frame_read(s->table, s->columns, s->n, in->skip, err) < 0)
			return -1;
	}
	if (source_match(in, &d->n, &unmatched, err) < 0 || check_widths(l, err) < 0)
		return -1;
	if (d->task == TASK_RANKING && check_gains(l, err) < 0)
		return -1;
	if (d->task == TASK_CLASSIFICATION && classes_resolve(l->a, d, in, err) < 0)
		return -1;
	d->rows_read = frame_rows(in->model.table) + unmatched;
	d->rows_skipped = d->rows_read - d->n;
	gather(l);
	if (d->task == TASK_CLASSIFICATION)
		classes_apply(d, in, l->a->threads);
	return 0;
}

int data_load(struct step_args *a, struct data *ret, struct err *err)
{
	struct loading *l = xcalloc(1, sizeof(*l));
	int r;

	*ret = (struct data){ .task = (enum task)step_choice(a, "task"), .arena = arena_new() };
	ret->thresholded = step_value(a->with, "threshold") != NULL;
	ret->threshold = ret->thresholded ? step_float(a->with, "threshold") : 0.5;
	*l = (struct loading){ .a = a, .d = ret, .in.skip = step_choice(a, "on_bad") == 1 };
	r = load(l, err);
	source_deinit(&l->in.model);
	source_deinit(&l->in.labels);
	source_deinit(&l->in.baseline);
	free(l);
	return r;
}

static void side_deinit(struct side *s)
{
	free(s->predicted);
	if (!s->lent)
		free(s->scores);
}

void data_deinit(struct data *d)
{
	side_deinit(&d->model);
	side_deinit(&d->baseline);
	for (size_t i = 0; i < d->slices.n; i++) {
		free(d->slices.v[i].codes);
		dict_deinit(&d->slices.v[i].values);
	}
	VEC_FREE(&d->slices);
	free(d->truth);
	free(d->target);
	free(d->query);
	for (size_t i = 0; i < ARRAY_LEN(d->tables); i++)
		frame_free(d->tables[i]);
	arena_free(d->arena);
	*d = (struct data){ 0 };
}
