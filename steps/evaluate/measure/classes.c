/* steps/evaluate/measure/classes.c — the classes of a classification, and each row's class as a
 * number.
 *
 * The classes are those in the settings (classes_list(), before the columns are wanted), else those
 * of the prob_* columns, else the texts of labels and predictions in matched rows, sorted (as
 * numbers if all are integers). If the data shows only some of them, complete_range() and
 * complete_pair() add those that are certain: classes 0 … K-1 for K columns, the other one of a
 * usual pair.
 *
 * Then the codes of the columns, which are numbers of texts, are replaced in place by numbers of
 * classes (recode()). So recoding happens once a column, after matching. A text that is no class is
 * an error, or drops its row in all sources.
 *
 * classes_apply() fills truth and predictions. Without a predicted class the scores decide: the
 * threshold for two classes and one score (or if a threshold was given), else the largest score,
 * the first of equal ones. All threads work on blocks of rows, each writing its own rows.
 */
#include "steps/evaluate/measure/classes.h"
#include <string.h>
#include "base/text/str.h"
#include "base/text/text.h"

#define BLOCK (64 * KIB)
#define NONE  UINT32_MAX

/* The set of classes. */

static bool as_integer(const char *s, int64_t *ret)
{
	return text_parse_int(s, ret) &&
	       (*s == '-' ? s[1] != '0' : *s != '+' && (*s != '0' || !s[1]));
}

static int by_integer(const void *a, const void *b)
{
	int64_t x = 0, y = 0;

	as_integer(*(char *const *)a, &x);
	as_integer(*(char *const *)b, &y);
	return x < y ? -1 : x > y;
}

static int by_bytes(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool all_integers(const struct data *d)
{
	int64_t v;

	for (size_t i = 0; i < d->n_classes; i++)
		if (!as_integer(d->classes[i], &v))
			return false;
	return true;
}

/* Adds the texts of a column that occur in matched rows. */
static void collect(struct dict *all, const struct source *s, const struct column *c, size_t n)
{
	uint8_t *used;

	if (!c)
		return;
	used = xcalloc(c->texts.texts.n + 1, 1);
	for (size_t i = 0; i < n; i++)
		used[c->codes[source_row(s, i)]] = 1;
	for (size_t k = 0; k < c->texts.texts.n; k++)
		if (used[k])
			dict_code(all, c->texts.texts.v[k].s, c->texts.texts.v[k].n);
	free(used);
}

static int found_classes(struct data *d, const struct dict *all, struct err *err)
{
	if (all->texts.n > CLASSES_MAX)
		return err_set(err, ERR_TOO_LARGE, "more than %d classes; is this a regression?",
			       CLASSES_MAX);
	d->n_classes = all->texts.n;
	d->classes = arena_alloc(d->arena, (d->n_classes + 1) * sizeof(char *));
	for (size_t i = 0; i < d->n_classes; i++)
		d->classes[i] = arena_strdup(d->arena, all->texts.v[i].s);
	if (d->n_classes)
		qsort(d->classes, d->n_classes, sizeof(*d->classes),
		      all_integers(d) ? by_integer : by_bytes);
	return 0;
}

static int given_classes(struct data *d, const char *what, const char *const *names, size_t n,
			 struct err *err)
{
	d->n_classes = n;
	d->classes = arena_alloc(d->arena, (n + 1) * sizeof(char *));
	for (size_t i = 0; i < n; i++) {
		d->classes[i] = arena_strdup(d->arena, names[i]);
		if (!text_is_utf8(names[i], strlen(names[i])))
			return err_set(err, ERR_INVALID,
				       "%s: the name of class %zu is not text in UTF-8", what,
				       i + 1);
		for (size_t k = 0; k < i; k++)
			if (strcmp(d->classes[i], d->classes[k]) == 0)
				return err_set(err, ERR_INVALID,
					       "%s: the class `%.60s` is there twice", what,
					       names[i]);
	}
	return 0;
}

/* A class in the settings: text, an integer or a truth value; NULL for anything else. */
static const char *class_name(struct arena *arena, const json_t *v)
{
	if (json_is_integer(v))
		return arena_printf(arena, "%lld", (long long)json_integer_value(v));
	return json_is_boolean(v) ? (json_is_true(v) ? "true" : "false") : json_string_value(v);
}

int classes_list(struct step_args *a, struct data *d, struct err *err)
{
	const json_t *list = step_value(a->with, "classes");
	const char **names = arena_alloc(d->arena, json_array_size(list) * sizeof(*names));
	const json_t *item;
	size_t i;

	json_array_foreach(list, i, item)
	{
		names[i] = class_name(d->arena, item);
		if (!names[i])
			return err_set(err, ERR_INVALID,
				       "classes[%zu] must be text or an integer, not %s", i,
				       json_describe(item));
	}
	d->named = json_array_size(list);
	return d->named ? given_classes(d, "classes", names, json_array_size(list), err) : 0;
}

/* One class was found, but there must be two: adds the other one of a usual pair. */
static void complete_pair(struct data *d)
{
	static const char *const pairs[][2] = { { "0", "1" },
						{ "false", "true" },
						{ "False", "True" },
						{ "-1", "1" },
						{ "no", "yes" } };

	for (size_t i = 0; i < ARRAY_LEN(pairs) && d->n_classes == 1; i++)
		for (int k = 0; k < 2 && d->n_classes == 1; k++)
			if (strcmp(d->classes[0], pairs[i][k]) == 0) {
				d->classes = arena_alloc(d->arena, 2 * sizeof(char *));
				d->classes[0] = arena_strdup(d->arena, pairs[i][0]);
				d->classes[1] = arena_strdup(d->arena, pairs[i][1]);
				d->n_classes = 2;
			}
}

/* K columns whose classes are all among 0 … K-1: column k is class k, even if some class doesn't
 * occur. */
static void complete_range(struct data *d, size_t width)
{
	int64_t first = 0, last = 0;

	if (d->n_classes >= width || !d->n_classes || !all_integers(d))
		return;
	as_integer(d->classes[0], &first);
	as_integer(d->classes[d->n_classes - 1], &last);
	if (first < 0 || last >= (int64_t)width || width > CLASSES_MAX)
		return;
	d->classes = arena_alloc(d->arena, width * sizeof(char *));
	for (size_t i = 0; i < width; i++)
		d->classes[i] = arena_printf(d->arena, "%zu", i);
	d->n_classes = width;
}

static int check_width(struct data *d, const struct source *s, struct err *err)
{
	size_t width = s && s->scores ? s->scores->width : 0;

	if (!width || !d->n || width == d->n_classes)
		return 0;
	if (width > 1)
		return err_set(err, ERR_INVALID,
			       "%s has %zu scores a row, but there are %zu classes; list them in "
			       "the columns' order by `classes`",
			       s->path, width, d->n_classes);
	if (d->n_classes == 1)
		return err_set(err, ERR_INVALID,
			       "%s has one score a row, and only the class `%.60s` occurs; name "
			       "both by `classes`",
			       s->path, d->classes[0]);
	return d->n_classes == 2 ? 0
				 : err_set(err, ERR_INVALID,
					   "%s has one score a row, but there are %zu classes: "
					   "each of them needs a score",
					   s->path, d->n_classes);
}

static int find_positive(struct step_args *a, struct data *d, struct err *err)
{
	const json_t *v = step_value(a->with, "positive");
	const char *name = class_name(d->arena, v);

	d->positive = d->n_classes == 2 ? 1 : 0;
	if (!v || !d->n)
		return 0;
	if (!name)
		return err_set(err, ERR_INVALID, "positive must be text or an integer, not %s",
			       json_describe(v));
	for (size_t i = 0; i < d->n_classes; i++)
		if (strcmp(d->classes[i], name) == 0) {
			d->positive = i;
			return d->n_classes == 2 ? 0
						 : err_set(err, ERR_INVALID,
							   "positive: needs exactly two classes; "
							   "there are %zu",
							   d->n_classes);
		}
	return err_set(err, ERR_INVALID, "positive: there is no class `%.60s`", name);
}

/* Rows. */

/* Turns codes of the column into classes. `keep`: NULL if rows aren't left out. */
static int recode(const struct data *d, const struct source *s, struct column *c, uint8_t *keep,
		  struct err *err)
{
	uint32_t *class_of;
	int r = 0;

	if (!c)
		return 0;
	class_of = xmalloc((c->texts.texts.n + 1) * sizeof(*class_of));
	for (size_t k = 0; k < c->texts.texts.n; k++) {
		class_of[k] = NONE;
		for (size_t i = 0; i < d->n_classes; i++)
			if (strcmp(d->classes[i], c->texts.texts.v[k].s) == 0)
				class_of[k] = (uint32_t)i;
	}
	for (size_t i = 0; i < d->n && r == 0; i++) {
		uint32_t *code = &c->codes[source_row(s, i)];
		uint32_t class = class_of[*code];

		if (class != NONE)
			*code = class;
		else if (keep)
			keep[i] = 0;
		else
			r = err_set(
				err, ERR_INVALID,
				"%s: row %zu: `%.60s` is `%.60s`, which is none of the classes%s",
				s->path, source_row(s, i) + 1, c->names[0],
				c->texts.texts.v[*code].s,
				d->named ? ""
					 : " that the labels and the predictions have; name all by "
					   "`classes`");
	}
	free(class_of);
	return r;
}

int classes_resolve(struct step_args *a, struct data *d, struct inputs *in, struct err *err)
{
	struct source *model = &in->model, *baseline = in->baseline.path ? &in->baseline : NULL;
	_cleanup_(freep) uint8_t *keep = NULL;
	struct dict texts = { 0 };
	int r = 0;

	if (!d->named && model->score_classes) {
		r = given_classes(d, model->path, model->score_classes, model->scores->n_names,
				  err);
		d->named = true;
	} else if (!d->named) {
		collect(&texts, in->truth, in->truth->label, d->n);
		collect(&texts, model, model->prediction, d->n);
		r = found_classes(d, &texts, err);
		if (r == 0 && model->scores && model->scores->width > 1)
			complete_range(d, model->scores->width);
		complete_pair(d);
		/* A model's metrics must not depend on the baseline: when they are those of two
		 * classes, or when the model's scores give the number of classes, a baseline adds
		 * no class. */
		if (r == 0 && baseline && d->n_classes != 2 && !model->scores) {
			collect(&texts, baseline, baseline->prediction, d->n);
			r = found_classes(d, &texts, err);
			complete_pair(d);
		}
	}
	dict_deinit(&texts);
	if (r < 0 || check_width(d, model, err) < 0 || check_width(d, baseline, err) < 0 ||
	    find_positive(a, d, err) < 0)
		return -1;
	if (in->skip)
		keep = memset(xmalloc(MAX(d->n, 1)), 1, d->n);
	if (recode(d, in->truth, in->truth->label, keep, err) < 0 ||
	    recode(d, model, model->prediction, keep, err) < 0 ||
	    (baseline && recode(d, baseline, baseline->prediction, keep, err) < 0))
		return -1;
	if (keep && memchr(keep, 0, d->n))
		source_keep(in, keep, &d->n);
	return 0;
}

/* Predictions from scores. */

struct deciding {
	const struct data *d;
	struct side *s;
};

static int decide_block(void *arg, size_t b, struct err *err)
{
	const struct deciding *x = arg;
	const struct data *d = x->d;
	const struct side *s = x->s;

	for (size_t i = b * BLOCK; i < MIN((b + 1) * BLOCK, d->n); i++) {
		size_t best = 0;

		if (d->n_classes == 2 && (s->width == 1 || d->thresholded)) {
			bool yes =
				side_score(s, i, s->width == 2 ? d->positive : 0) >= d->threshold;

			s->predicted[i] = (uint32_t)(yes ? d->positive : 1 - d->positive);
			continue;
		}
		for (size_t k = 1; k < s->width; k++)
			if (side_score(s, i, k) > side_score(s, i, best))
				best = k;
		s->predicted[i] = (uint32_t)best;
	}
	return 0;
}

static void predictions(struct data *d, struct source *s, struct side *side, unsigned threads)
{
	struct deciding x = { d, side };

	if (s->prediction) {
		side->predicted = source_take_codes(s, s->prediction, d->n);
		return;
	}
	side->predicted = xcalloc(MAX(d->n, 1), sizeof(uint32_t));
	if (side->scores)
		step_parallel(threads, (d->n + BLOCK - 1) / BLOCK, decide_block, &x, NULL);
}

void classes_apply(struct data *d, struct inputs *in, unsigned threads)
{
	d->truth = source_take_codes(in->truth, in->truth->label, d->n);
	predictions(d, &in->model, &d->model, threads);
	if (in->baseline.path)
		predictions(d, &in->baseline, &d->baseline, threads);
}
