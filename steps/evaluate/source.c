/* steps/evaluate/source.c — one input: its wanted columns, and its rows matched with those of the
 * others.
 *
 * source_want() adds a column, source_want_scores() those of the scores, by names or by one pattern
 * whose star stands for classes. Pointers into `columns` stay valid, since it is an array of fixed
 * size.
 *
 * Matching works on row numbers only. `rows` gives for each matched row the row of this table; NULL
 * is the identity, for inputs in the same order. source_match() goes by position, or by id:
 * match_by_id() follows the order of the first source, and join() finds its rows in each other one
 * with a dictionary of ids. source_keep() drops matched rows from all sources alike, so they always
 * have the same number.
 *
 * With `skip`, rows without a partner are dropped and counted, else the first is an error. A
 * duplicate id is an error in any order of the rows. If all inputs have the same ids in the same
 * order (same_ids()), the rows stay as they are. Bad rows (frame_bad()) are dropped last, by
 * drop_bad().
 *
 * One thread. steps/table/ reads the cells; data.c and classes.c know what the columns mean.
 */
#include "steps/evaluate/source.h"
#include <assert.h>
#include <string.h>
#include "base/text/str.h"

struct column *source_want(struct source *s, struct arena *arena, enum column_kind kind,
			   const char *const *names, size_t n)
{
	struct column *c = &s->columns[s->n++];
	const char **copy = arena_alloc(arena, MAX(n, 1) * sizeof(*copy));

	assert(s->n <= SOURCE_COLUMNS_MAX);
	for (size_t i = 0; i < n; i++)
		copy[i] = arena_strdup(arena, names[i]);
	*c = (struct column){ .names = copy, .n_names = n, .kind = kind, .codes_max = UINT32_MAX };
	return c;
}

/* Scores. */

struct names {
	VEC(const char *) names, classes;
	bool pattern;
};

static int add_pattern(struct names *v, const struct source *s, struct arena *arena,
		       const char *pattern, struct err *err)
{
	const char *star = strchr(pattern, '*'), *tail = star + 1;
	size_t n, head = (size_t)(star - pattern), before = v->names.n;
	const char *const *have = frame_names(s->table, &n);

	if (strchr(tail, '*'))
		return err_set(err, ERR_INVALID, "score: `%.60s` has more than one `*`", pattern);
	for (size_t i = 0; i < n; i++)
		if (frame_matches(pattern, have[i], strlen(have[i]))) {
			VEC_PUSH(&v->names, have[i]);
			VEC_PUSH(&v->classes, arena_strndup(arena, have[i] + head,
							    strlen(have[i]) - head - strlen(tail)));
		}
	frame_rely(s->table, pattern);
	v->pattern = true;
	return v->names.n > before
		       ? 0
		       : err_set(err, ERR_INVALID, "%s has no column that matches `%.60s`", s->path,
				 pattern);
}

/* Assigns the k-th column to the k-th class. */
static int order_pattern(struct names *v, const struct source *s, const struct class_order *order,
			 struct err *err)
{
	const char **sorted = xcalloc(MAX(order->n, 1), sizeof(*sorted));
	size_t found = 0;
	int r = 0;

	for (size_t i = 0; i < order->n; i++)
		for (size_t k = 0; k < v->classes.n && !sorted[i]; k++)
			if (strcmp(v->classes.v[k], order->names[i]) == 0) {
				sorted[i] = v->names.v[k];
				found++;
			}
	if (found == order->n && v->names.n == order->n) {
		memcpy(v->names.v, sorted, order->n * sizeof(*sorted));
		memcpy(v->classes.v, order->names, order->n * sizeof(*sorted));
	} else if (found || order->must) {
		r = err_set(err, ERR_INVALID,
			    "%s: %zu columns match `score`, and %zu of them belong to the %zu "
			    "classes; each class needs one",
			    s->path, v->classes.n, found, order->n);
	}
	free(sorted);
	return r;
}

int source_want_scores(struct source *s, struct arena *arena, const json_t *score,
		       const struct class_order *order, struct err *err)
{
	struct names v = { 0 };
	const json_t *item;
	size_t i;
	int r = 0;

	json_array_foreach(score, i, item)
	{
		const char *name = json_string_value(item);

		if (r < 0 || !strchr(name, '*'))
			VEC_PUSH(&v.names, name);
		else
			r = add_pattern(&v, s, arena, name, err);
	}
	if (r == 0 && v.pattern && v.classes.n != v.names.n)
		r = err_set(err, ERR_INVALID,
			    "score: give names or one pattern with `*`, not both");
	if (r == 0 && v.pattern && order)
		r = order_pattern(&v, s, order, err);
	if (r == 0 && v.names.n > CLASSES_MAX)
		r = err_set(err, ERR_TOO_LARGE, "score: %zu columns; at most %d", v.names.n,
			    CLASSES_MAX);
	if (r == 0 && v.names.n) {
		s->scores = source_want(s, arena, COLUMN_NUMBERS, v.names.v, v.names.n);
		if (v.pattern)
			s->score_classes = arena_memdup(arena, v.classes.v,
							v.classes.n * sizeof(*v.classes.v));
	}
	VEC_FREE(&v.names);
	VEC_FREE(&v.classes);
	return r;
}

uint32_t *source_take_codes(const struct source *s, struct column *c, size_t n)
{
	uint32_t *v;

	assert(c->codes);
	if (!s->rows)
		return TAKE_PTR(c->codes);
	v = xmalloc(MAX(n, 1) * sizeof(*v));
	for (size_t i = 0; i < n; i++)
		v[i] = c->codes[s->rows[i]];
	return v;
}

void source_deinit(struct source *s)
{
	for (size_t i = 0; i < s->n; i++)
		column_deinit(&s->columns[i]);
	free(s->rows);
	s->rows = NULL;
	s->n = 0;
}

/* Matching. */

void source_keep(struct inputs *in, const uint8_t *keep, size_t *n)
{
	size_t kept = 0;

	for (size_t k = 0; k < in->n; k++) {
		uint32_t *rows = xmalloc(MAX(*n, 1) * sizeof(*rows));

		kept = 0;
		for (size_t i = 0; i < *n; i++)
			if (keep[i])
				rows[kept++] = (uint32_t)source_row(in->all[k], i);
		free(in->all[k]->rows);
		in->all[k]->rows = rows;
	}
	*n = kept;
}

/* Drops rows that any source has marked as bad. */
static void drop_bad(struct inputs *in, size_t *n)
{
	uint8_t *keep = NULL;

	for (size_t k = 0; k < in->n; k++) {
		size_t n_bad;
		const uint8_t *bad = frame_bad(in->all[k]->table, &n_bad);

		if (!bad)
			continue;
		if (!keep)
			keep = memset(xmalloc(MAX(*n, 1)), 1, *n);
		for (size_t i = 0; i < *n; i++)
			keep[i] &= !bad[source_row(in->all[k], i)];
	}
	if (keep)
		source_keep(in, keep, n);
	free(keep);
}

static bool same_ids(const struct inputs *in, size_t n)
{
	for (size_t k = 1; k < in->n; k++) {
		if (frame_rows(in->all[k]->table) != n)
			return false;
		for (size_t i = 0; i < n; i++) {
			const struct slice *a = &in->all[0]->id->slices[i],
					   *b = &in->all[k]->id->slices[i];

			if (a->n != b->n || (a->n && memcmp(a->s, b->s, a->n) != 0))
				return false;
		}
	}
	return true;
}

/* Indexes the ids of a source, which must be unique; bad rows have none. */
static int index_ids(const struct source *s, struct dict *ret, uint32_t **ret_row, struct err *err)
{
	size_t n = frame_rows(s->table), n_bad;
	const uint8_t *bad = frame_bad(s->table, &n_bad);
	uint32_t *row = xmalloc(MAX(n, 1) * sizeof(*row));

	*ret_row = row;
	for (size_t i = 0; i < n; i++) {
		const struct slice *id = &s->id->slices[i];
		size_t known = ret->texts.n;
		uint32_t code;

		if (bad && bad[i])
			continue;
		code = dict_code(ret, id->s, id->n);
		if (code < known)
			return err_set(err, ERR_INVALID,
				       "%s: the id `%.*s` is there twice, in rows %u and %zu",
				       s->path, (int)MIN(id->n, 60), id->s, row[code] + 1, i + 1);
		row[code] = (uint32_t)i;
	}
	return 0;
}

static int missing_id(const struct source *in, const struct source *of, size_t row, struct err *err)
{
	const struct slice *id = &of->id->slices[row];

	return err_set(err, ERR_INVALID,
		       "%s has no row with the id `%.*s`, which is in row %zu of %s", in->path,
		       (int)MIN(id->n, 60), id->s, row + 1, of->path);
}

/* Finds a row of `to` for each of the first source's n rows; clears rows without one in `keep`.
 * *ret_left: the number of good rows of `to` that match none of them. */
static int join(struct inputs *in, struct source *to, size_t n, uint8_t *keep, uint64_t *ret_left,
		struct err *err)
{
	const struct source *from = in->all[0];
	size_t total = frame_rows(to->table), n_bad, n_from_bad, used = 0;
	const uint8_t *bad = frame_bad(to->table, &n_bad),
		      *from_bad = frame_bad(from->table, &n_from_bad);
	uint8_t *seen = xcalloc(MAX(total, 1), 1);
	uint32_t *row = NULL;
	struct dict ids = { 0 };
	int r = index_ids(to, &ids, &row, err);

	to->rows = xcalloc(MAX(n, 1), sizeof(*to->rows));
	for (size_t i = 0; i < n && r == 0; i++) {
		const struct slice *id = &from->id->slices[i];
		int64_t code = from_bad && from_bad[i] ? -1 : dict_find(&ids, id->s, id->n);

		if (code < 0 && !in->skip)
			r = missing_id(to, from, i, err);
		else if (code < 0)
			keep[i] = 0;
		else if (seen[row[code]]++)
			r = err_set(err, ERR_INVALID,
				    "%s: the id `%.*s` is there twice, the second time in row %zu",
				    from->path, (int)MIN(id->n, 60), id->s, i + 1);
		else
			to->rows[i] = row[code], used++;
	}
	*ret_left = 0;
	for (size_t i = 0; i < total && r == 0 && used < total; i++) {
		if (seen[i] || (bad && bad[i]))
			continue;
		++*ret_left;
		if (!in->skip)
			r = missing_id(from, to, i, err);
	}
	dict_deinit(&ids);
	free(row);
	free(seen);
	return r;
}

static int match_by_id(struct inputs *in, size_t *n, uint64_t *ret_unmatched, struct err *err)
{
	uint64_t left = 0;
	uint8_t *keep;
	int r = 0;

	if (same_ids(in, *n)) { /* still looks for duplicate ids, which would identify no row */
		_cleanup_(freep) uint32_t *row = NULL;
		struct dict ids = { 0 };

		r = index_ids(in->all[0], &ids, &row, err);
		dict_deinit(&ids);
		return r;
	}
	keep = memset(xmalloc(MAX(*n, 1)), 1, *n);
	for (size_t k = 1; k < in->n && r == 0; k++) {
		r = join(in, in->all[k], *n, keep, &left, err);
		*ret_unmatched = MAX(*ret_unmatched, left);
	}
	if (r == 0)
		source_keep(in, keep, n);
	free(keep);
	return r;
}

int source_match(struct inputs *in, size_t *ret_n, uint64_t *ret_unmatched, struct err *err)
{
	const struct source *first = in->all[0];
	size_t n = frame_rows(first->table);

	*ret_unmatched = 0;
	if (in->n > 1 && first->id) {
		if (match_by_id(in, &n, ret_unmatched, err) < 0)
			return -1;
	} else {
		for (size_t k = 1; k < in->n; k++)
			if (frame_rows(in->all[k]->table) != n)
				return err_set(
					err, ERR_INVALID,
					"%s has %zu rows, %s has %zu; both need the same number, "
					"unless `id` names a column that matches them",
					first->path, n, in->all[k]->path,
					frame_rows(in->all[k]->table));
	}
	drop_bad(in, &n);
	*ret_n = n;
	return 0;
}
