/* steps/table/frame_read.c — reads cells: from blocks of a table into the arrays of columns.
 *
 * frame_read() finds where each field goes (find_fields()) and allocates whole columns
 * (make_room()). One thread reads each block into the block's own rows of them. So threads write to
 * disjoint parts of the arrays and of t->bad, and need no lock. Only texts that can't be lent are
 * copied under reading.lock, into the table's arena.
 *
 * Texts that become codes go through a separate dictionary per block (block.texts). merge() joins
 * the dictionaries in the order of the blocks and recodes the rows, so that codes don't depend on
 * which thread was first.
 *
 * An unusable cell marks its row in t->bad when bad rows are skipped, else it is an error
 * (bad_cell()). The other cells of such a row hold whatever was read, or zero.
 *
 * Lines of a CSV without quotes are read by read_line(), which parses a number in place; quoted
 * files go through csv.c, JSON lines through jsonl.c. An NPY of float64 in one file isn't copied:
 * its column lends the mapped bytes (`lent`).
 *
 * Rows aren't matched with another table or dropped here: steps/evaluate/source.c does both.
 */
#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "base/macros.h"
#include "base/table/csv.h"
#include "base/text/text.h"
#include "steps/step.h"
#include "steps/table/frame_internal.h"
#include "steps/table/jsonl.h"
#include "steps/table/number.h"

/* Bytes of one text: a class, a slice, a query. A longer text is probably another column's. */
#define CODE_TEXT_MAX 1024
#define DISTINCT_MAX  100000000u

/* Where the n-th field of a row goes: a chain, since two columns may want the same field. */
struct target {
	struct column *column;
	size_t index; /* index among the column's fields */
	struct target *next;
};

struct reading {
	struct frame *t;
	struct column *columns;
	size_t n;
	struct target **fields; /* for CSV: by field, NULL for unwanted ones */
	bool skip;
	pthread_mutex_t lock; /* of t->arena */
};

/* One cell. */

struct where {
	struct reading *r;
	struct block *b;
	uint64_t line;
	size_t row;
	struct err *err;
};

/* 0: the row is left out; -1: an error. */
static int bad_cell(const struct where *w, const char *name, const char *what, const char *s,
		    size_t n)
{
	_cleanup_(str_deinit) struct str shown = { 0 };

	if (w->r->skip) {
		w->r->t->bad[w->row] = 1;
		return 0;
	}
	str_add(&shown, "");
	text_add_printable(&shown, s, MIN(n, 40));
	return err_set(w->err, ERR_INVALID, "%s:%llu: `%.60s` %s%s%s", w->b->part->path,
		       (unsigned long long)w->line, name, what, n ? ": " : "", n ? shown.s : "");
}

static void trim(const char **s, size_t *n)
{
	while (*n && (**s == ' ' || **s == '\t'))
		(*s)++, (*n)--;
	while (*n && ((*s)[*n - 1] == ' ' || (*s)[*n - 1] == '\t'))
		(*n)--;
}

static int put_number(const struct where *w, struct column *c, size_t k, double v, const char *s,
		      size_t n)
{
	if (__builtin_expect(!isfinite(v), 0))
		return bad_cell(w, c->names[MIN(k, c->n_names - 1)], "is not a finite number", s,
				n);
	c->numbers[w->row * c->width + k] = v;
	return 0;
}

static int read_number(const struct where *w, struct column *c, size_t k, const char *s, size_t n)
{
	double v;

	trim(&s, &n);
	if (n == 0)
		return bad_cell(w, c->names[MIN(k, c->n_names - 1)], "is empty", "", 0);
	if (!number_parse(s, n, &v))
		return bad_cell(w, c->names[MIN(k, c->n_names - 1)], "is not a number", s, n);
	return put_number(w, c, k, v, s, n);
}

static int read_code(const struct where *w, struct column *c, const char *s, size_t n)
{
	struct dict *d = &w->b->texts[c - w->r->columns];

	trim(&s, &n);
	if (n == 0 && !c->may_be_empty)
		return bad_cell(w, c->names[0], "is empty", "", 0);
	if (n > CODE_TEXT_MAX)
		return bad_cell(w, c->names[0], "is longer than 1,024 bytes", s, n);
	c->codes[w->row] = dict_code(d, s, n);
	if (d->texts.n > c->codes_max)
		return err_set(
			w->err, ERR_TOO_LARGE, "%s:%llu: `%.60s` has more than %u different values",
			w->b->part->path, (unsigned long long)w->line, c->names[0], c->codes_max);
	return 0;
}

static int read_text(const struct where *w, struct column *c, const char *s, size_t n, bool lent)
{
	if (n == 0)
		return bad_cell(w, c->names[0], "is empty", "", 0);
	if (!lent) {
		char *copy;

		pthread_mutex_lock(&w->r->lock);
		copy = arena_alloc(w->r->t->arena, n + 1);
		pthread_mutex_unlock(&w->r->lock);
		memcpy(copy, s, n);
		s = copy;
	}
	c->slices[w->row] = (struct slice){ s, n };
	return 0;
}

static int read_cell(const struct where *w, const struct target *to, const char *s, size_t n,
		     bool lent)
{
	int r = 0;

	for (; to && r == 0; to = to->next)
		r = to->column->kind == COLUMN_NUMBERS ? read_number(w, to->column, to->index, s, n)
		    : to->column->kind == COLUMN_CODES ? read_code(w, to->column, s, n)
						       : read_text(w, to->column, s, n, lent);
	return r;
}

/* Rows were counted when the table was opened, and the columns' arrays have that length. If the
 * text has another number of rows now, it was changed meanwhile. */
static int wrong_rows(const struct where *w)
{
	return err_set(w->err, ERR_CHANGED, "%s changed while it was read", w->b->part->path);
}

/* CSV. */

/* Reads one line without quotes; moves *at behind it. */
static int read_line(const struct where *w, const char **at, const char *end, char separator)
{
	size_t columns = w->r->t->names.n, i = 0;
	const char *p = *at;

	for (;; p++, i++) {
		const struct target *to = i < columns ? w->r->fields[i] : NULL;
		const char *from = p, *stop;
		double v;

		/* The fast path: a number right up to the separator. */
		if (to && !to->next && to->column->kind == COLUMN_NUMBERS) {
			p += number_prefix(p, (size_t)(end - p), &v);
			if (p > from && (p == end || *p == separator || *p == '\n')) {
				if (put_number(w, to->column, to->index, v, from,
					       (size_t)(p - from)) < 0)
					return -1;
				goto next;
			}
		}
		while (p < end && *p != separator && *p != '\n')
			p++;
		stop = p;
		if (stop > from && (stop == end || *stop == '\n') && stop[-1] == '\r')
			stop--;
		if (to && read_cell(w, to, from, (size_t)(stop - from), true) < 0)
			return -1;
	next:
		if (p == end || *p == '\n')
			break;
	}
	*at = p + (p < end);
	if (i + 1 != columns)
		return err_set(w->err, ERR_INVALID,
			       "%s:%llu: %zu field%s, but the first row has %zu", w->b->part->path,
			       (unsigned long long)w->line, i + 1, i ? "s" : "", columns);
	return 0;
}

static int read_lines(struct reading *r, struct block *b, struct err *err)
{
	const char *p = b->part->text + b->from, *end = b->part->text + b->to;
	struct where w = { r, b, b->first_line, b->row, err };
	char separator = frame_separator(r->t);

	for (size_t i = 0; i < b->rows; i++, w.line++, w.row++)
		if (read_line(&w, &p, end, separator) < 0)
			return -1;
	return 0;
}

static int read_quoted(struct reading *r, struct block *b, struct err *err)
{
	struct where w = { r, b, 0, b->row, err };
	const struct part *p = b->part;
	const struct csv_field *f;
	struct csv *c;
	size_t n;
	int got;

	if (csv_open(p->path, p->text, p->size, frame_separator(r->t), &c, err) < 0)
		return -1;
	got = csv_next(c, &f, &n, err);
	while (got > 0 && (got = csv_next(c, &f, &n, err)) > 0) {
		w.line = csv_line(c);
		if (w.row == b->row + b->rows || n != r->t->names.n)
			got = wrong_rows(&w);
		for (size_t i = 0; i < n && got > 0; i++)
			if (r->fields[i] &&
			    read_cell(&w, r->fields[i], f[i].s, f[i].n,
				      f[i].s >= p->text && f[i].s <= p->text + p->size) < 0)
				got = -1;
		w.row++;
	}
	csv_free(c);
	return got == 0 && w.row != b->row + b->rows ? wrong_rows(&w) : got;
}

/* JSON lines. */

static int read_array(const struct where *w, struct column *c, const struct jsonl_member *m)
{
	double *to = c->numbers + w->row * c->width;
	int64_t n = jsonl_numbers(m, to, c->width);

	if (n < 0)
		return bad_cell(w, c->names[0], "is not a list of numbers", m->s, m->n);
	if ((size_t)n != c->width)
		return bad_cell(w, c->names[0],
				"has another number of values than in the first line", m->s, m->n);
	for (size_t k = 0; k < c->width; k++)
		if (!isfinite(to[k]))
			return bad_cell(w, c->names[0], "is not a finite number", m->s, m->n);
	return 0;
}

static int read_member(const struct where *w, struct column *c, size_t k,
		       const struct jsonl_member *m, const struct part *p)
{
	bool lent = m && m->s >= p->text && m->s <= p->text + p->size;

	if (!m || m->kind == JSONL_NULL)
		return c->kind == COLUMN_CODES && c->may_be_empty
			       ? read_code(w, c, "", 0)
			       : bad_cell(w, c->names[k], "is missing", "", 0);
	if (c->kind == COLUMN_NUMBERS && m->kind == JSONL_ARRAY && c->n_names == 1)
		return read_array(w, c, m);
	if (m->kind == JSONL_ARRAY || m->kind == JSONL_OBJECT)
		return bad_cell(w, c->names[k], "is neither text nor a number", m->s, m->n);
	if (c->kind == COLUMN_NUMBERS && c->width != c->n_names)
		return bad_cell(w, c->names[k], "is not a list as in the first line", m->s, m->n);
	if (c->kind == COLUMN_NUMBERS)
		return m->kind == JSONL_NUMBER
			       ? read_number(w, c, k, m->s, m->n)
			       : bad_cell(w, c->names[k], "is not a number", m->s, m->n);
	return c->kind == COLUMN_CODES ? read_code(w, c, m->s, m->n)
				       : read_text(w, c, m->s, m->n, lent);
}

static bool has_key(const struct jsonl_member *m, const char *name)
{
	return strlen(name) == m->key_n && memcmp(name, m->key, m->key_n) == 0;
}

/* Refuses keys that the first line lacks, if columns were chosen by such keys. */
static int check_keys(const struct where *w, const struct jsonl_member *m, size_t n)
{
	const struct frame *t = w->r->t;

	for (size_t i = 0; i < n && t->relied.n; i++) {
		size_t k = 0;

		/* Usually all lines have the same keys in the same order. */
		if (i < t->names.n && has_key(&m[i], t->names.v[i]))
			continue;
		while (k < t->names.n && !has_key(&m[i], t->names.v[k]))
			k++;
		for (size_t j = 0; k == t->names.n && j < t->relied.n; j++)
			if (frame_matches(t->relied.v[j], m[i].key, m[i].key_n))
				return err_set(w->err, ERR_INVALID,
					       "%s:%llu: `%.*s` is here, but not in the first "
					       "line: every line must have it, or none",
					       w->b->part->path, (unsigned long long)w->line,
					       (int)MIN(m[i].key_n, 60), m[i].key);
	}
	return 0;
}

static int read_objects(struct reading *r, struct block *b, struct err *err)
{
	struct jsonl *j =
		jsonl_new(b->part->path, b->part->text + b->from, b->to - b->from, b->first_line);
	struct where w = { r, b, 0, b->row, err };
	const struct jsonl_member *m;
	size_t n;
	int got = 1;

	while (got > 0 && (got = jsonl_next(j, &m, &n, err)) > 0) {
		w.line = jsonl_line(j);
		if (w.row == b->row + b->rows)
			got = wrong_rows(&w);
		else if (check_keys(&w, m, n) < 0)
			got = -1;
		for (size_t i = 0; i < r->n && got > 0; i++)
			for (size_t k = 0; k < r->columns[i].n_names && got > 0; k++)
				if (read_member(&w, &r->columns[i], k,
						jsonl_find(m, n, r->columns[i].names[k]),
						b->part) < 0)
					got = -1;
		w.row++;
	}
	jsonl_free(j);
	return got == 0 && w.row != b->row + b->rows ? wrong_rows(&w) : got;
}

/* A field may hold one number, or a list: the first line that has the field decides which, and the
 * list's length. */
static int find_width(struct frame *t, struct column *c, struct err *err)
{
	const struct part *p = &t->parts.v[0];
	const struct jsonl_member *m = NULL;
	struct err ignored = { 0 }; /* a broken line is reported when all lines are read */
	struct jsonl *j;
	size_t n;
	int64_t width = 1;

	c->width = c->n_names;
	if (t->format != FRAME_JSONL || c->n_names != 1 || !t->rows)
		return 0;
	j = jsonl_new(p->path, p->text, p->size, 1);
	while (jsonl_next(j, &m, &n, &ignored) > 0) {
		m = jsonl_find(m, n, c->names[0]);
		if (!m || m->kind == JSONL_NULL)
			continue;
		width = m->kind == JSONL_ARRAY ? jsonl_numbers(m, NULL, 0) : 1;
		break;
	}
	jsonl_free(j);
	if (width < 1)
		return err_set(err, ERR_INVALID,
			       "%s: the first value of `%.60s` is not a list of numbers", p->path,
			       c->names[0]);
	c->width = (size_t)width;
	return 0;
}

/* NPY. */

/* One array is one column. Its rows have no lines, so errors name the row, from 1. Columns are read
 * one after the other, each from the block's first row: so a row's place is computed from its
 * number, and no column continues where another one ended. */
static struct where npy_row(struct reading *r, struct block *b, size_t i, struct err *err)
{
	assert(i < b->rows);
	return (struct where){ r, b, b->from + i + 1, b->row + i, err };
}

static int read_npy_numbers(const struct where *w, struct column *c, const struct npy *a,
			    size_t row)
{
	for (size_t k = 0; k < c->width; k++) {
		double v = npy_number(a, row, k);

		if (!isfinite(v)) {
			if (bad_cell(w, "the row", "holds what is not a finite number", "", 0) < 0)
				return -1;
		} else if (!c->lent) {
			c->numbers[w->row * c->width + k] = v;
		}
	}
	return 0;
}

static int read_npy_text(const struct where *w, struct column *c, const struct npy *a, size_t row,
			 struct str *text)
{
	str_reset(text);
	if (a->kind == 'f' && !isfinite(npy_number(a, row, 0)))
		return bad_cell(w, "the row", "holds what is not a finite number", "", 0);
	if (!npy_text(a, row, 0, text))
		return bad_cell(w, "the row", "holds what is not a character", "", 0);
	return c->kind == COLUMN_CODES ? read_code(w, c, text->s ? text->s : "", text->len)
				       : read_text(w, c, text->s ? text->s : "", text->len, false);
}

/* Turns small integers, the usual class labels, into codes without making a text of each. */
static int read_npy_texts(struct reading *r, struct block *b, struct column *c, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	const struct npy *a = &b->part->npy;
	uint32_t known[1024] = { 0 }; /* code + 1 */
	int64_t v;

	if (a->columns != 1)
		return err_set(err, ERR_INVALID, "%s has %zu columns; one was expected",
			       b->part->path, a->columns);
	for (size_t i = 0; i < b->rows; i++) {
		const struct where w = npy_row(r, b, i, err);
		bool small = strchr("biu", a->kind) && c->kind == COLUMN_CODES &&
			     npy_integer(a, b->from + i, 0, &v) && v >= 0 && v < 1024;

		if (small && known[v]) {
			c->codes[w.row] = known[v] - 1;
			continue;
		}
		if (read_npy_text(&w, c, a, b->from + i, &text) < 0)
			return -1;
		if (small)
			known[v] = c->codes[w.row] + 1;
	}
	return 0;
}

static int read_npy(struct reading *r, struct block *b, struct err *err)
{
	const struct npy *a = &b->part->npy;

	for (size_t i = 0; i < r->n; i++) {
		struct column *c = &r->columns[i];

		if (c->kind != COLUMN_NUMBERS) {
			if (read_npy_texts(r, b, c, err) < 0)
				return -1;
			continue;
		}
		if (a->kind == 'S' || a->kind == 'U')
			return err_set(err, ERR_INVALID, "%s holds text, not numbers",
				       b->part->path);
		for (size_t row = 0; row < b->rows; row++) {
			const struct where w = npy_row(r, b, row, err);

			if (read_npy_numbers(&w, c, a, b->from + row) < 0)
				return -1;
		}
	}
	return 0;
}

/* The whole table. */

static int read_block(void *arg, size_t i, struct err *err)
{
	struct reading *r = arg;
	struct block *b = &r->t->blocks.v[i];

	if (r->t->format == FRAME_NPY)
		return read_npy(r, b, err);
	if (r->t->format == FRAME_JSONL)
		return read_objects(r, b, err);
	return b->part->quotes ? read_quoted(r, b, err) : read_lines(r, b, err);
}

static int find_fields(struct reading *r, struct arena *arena, struct err *err)
{
	struct frame *t = r->t;

	r->fields = arena_alloc(arena, (t->names.n + 1) * sizeof(struct target *));
	for (size_t i = 0; i < r->n; i++)
		for (size_t k = 0; k < r->columns[i].n_names && t->format != FRAME_NPY; k++) {
			const char *name = r->columns[i].names[k];
			struct target *to = arena_alloc(arena, sizeof(*to));
			size_t f = 0;

			while (f < t->names.n && strcmp(t->names.v[f], name) != 0)
				f++;
			if (f == t->names.n &&
			    (t->format != FRAME_JSONL ||
			     (t->names.n && !r->skip && !r->columns[i].may_be_empty))) {
				_cleanup_(str_deinit) struct str s = { 0 };

				str_add(&s, "");
				text_add_suggestion(&s, name, t->names.v, t->names.n);
				return err_set(err, ERR_INVALID, "%s has no column `%.60s`%s",
					       t->parts.v[0].path, name, s.s);
			}
			*to = (struct target){ &r->columns[i], k, r->fields[f] };
			r->fields[f] = to;
		}
	return 0;
}

static int make_room(struct reading *r, struct err *err)
{
	struct frame *t = r->t;
	const struct npy *a = &t->parts.v[0].npy;
	bool lend = t->format == FRAME_NPY && t->parts.n == 1 && a->kind == 'f' &&
		    a->item_bytes == 8 && !a->swap && (uintptr_t)a->data % 8 == 0;
	size_t rows = MAX(t->rows, 1), cells, bytes = 0;

	for (size_t i = 0; i < t->parts.n; i++)
		bytes += t->parts.v[i].size; /* each number takes at least one byte */
	for (size_t i = 0; i < r->n; i++) {
		struct column *c = &r->columns[i];

		if (c->kind == COLUMN_CODES)
			c->codes = xcalloc(rows, sizeof(*c->codes));
		else if (c->kind == COLUMN_TEXTS)
			c->slices = xcalloc(rows, sizeof(*c->slices));
		if (c->kind != COLUMN_NUMBERS)
			continue;
		if (t->format == FRAME_NPY)
			c->width = a->columns;
		else if (find_width(t, c, err) < 0)
			return -1;
		c->row_stride = c->width;
		c->column_stride = 1;
		c->lent = lend;
		if (lend) {
			c->numbers = (double *)(uintptr_t)a->data;
			c->row_stride = a->row_stride;
			c->column_stride = a->column_stride;
			continue;
		}
		if (__builtin_mul_overflow(rows, c->width, &cells) ||
		    (t->format != FRAME_NPY && cells > bytes + c->width))
			return err_set(err, ERR_INVALID,
				       "%s: `%.60s` is a list of %zu numbers in the first line, "
				       "but not in all",
				       t->parts.v[0].path, c->names[0], c->width);
		c->numbers = xcalloc(cells, sizeof(double)); /* a bad row leaves zero */
	}
	for (size_t i = 0; i < t->blocks.n; i++)
		t->blocks.v[i].texts = xcalloc(r->n, sizeof(struct dict));
	if (r->skip && !t->bad)
		t->bad = xcalloc(rows, 1);
	return 0;
}

/* Shortens "3.0" to "3": pandas writes a column of integers with a gap in that form. */
static size_t without_zeros(const struct dict_text *x)
{
	size_t n = x->n, digits = 0;

	while (n && x->s[n - 1] == '0')
		n--;
	if (!n || x->s[n - 1] != '.' || n == x->n)
		return x->n;
	for (size_t i = x->s[0] == '-'; i < n - 1; i++, digits++)
		if (x->s[i] < '0' || x->s[i] > '9')
			return x->n;
	return digits ? n - 1 : x->n;
}

static int merge_texts(struct reading *r, size_t i, struct err *err)
{
	struct column *c = &r->columns[i];

	for (size_t k = 0; k < r->t->blocks.n; k++) {
		struct block *b = &r->t->blocks.v[k];
		struct dict *d = &b->texts[i];

		b->recode[i] = xcalloc(d->texts.n + 1, sizeof(uint32_t));
		for (size_t j = 0; j < d->texts.n; j++) {
			const struct dict_text *x = &d->texts.v[j];

			if (!text_is_utf8(x->s, x->n) || memchr(x->s, '\0', x->n))
				return err_set(err, ERR_INVALID,
					       "%s: `%.60s` holds what is not text in UTF-8",
					       b->part->path, c->names[0]);
			b->recode[i][j] = dict_code(&c->texts, x->s, without_zeros(x));
		}
		if (c->texts.texts.n > MIN(c->codes_max, DISTINCT_MAX))
			return err_set(err, ERR_TOO_LARGE,
				       "%s: `%.60s` has more than %u different values",
				       b->part->path, c->names[0], c->codes_max);
	}
	return 0;
}

static int recode_block(void *arg, size_t k, struct err *err)
{
	struct reading *r = arg;
	struct block *b = &r->t->blocks.v[k];

	for (size_t i = 0; i < r->n; i++)
		if (r->columns[i].kind == COLUMN_CODES && b->texts[i].texts.n)
			for (size_t row = b->row; row < b->row + b->rows; row++)
				r->columns[i].codes[row] = b->recode[i][r->columns[i].codes[row]];
	return 0;
}

static int merge(struct reading *r, struct err *err)
{
	for (size_t k = 0; k < r->t->blocks.n; k++)
		r->t->blocks.v[k].recode = xcalloc(r->n, sizeof(uint32_t *));
	for (size_t i = 0; i < r->n; i++)
		if (r->columns[i].kind == COLUMN_CODES && merge_texts(r, i, err) < 0)
			return -1;
	return step_parallel(r->t->threads, r->t->blocks.n, recode_block, r, err);
}

static void clear_blocks(struct reading *r)
{
	for (size_t k = 0; k < r->t->blocks.n; k++) {
		struct block *b = &r->t->blocks.v[k];

		for (size_t i = 0; i < r->n; i++) {
			if (b->texts)
				dict_deinit(&b->texts[i]);
			if (b->recode)
				free(b->recode[i]);
		}
		free(b->texts);
		free(b->recode);
		b->texts = NULL;
		b->recode = NULL;
	}
}

int frame_read(struct frame *t, struct column *columns, size_t n, bool skip_bad, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct reading r = { .t = t,
			     .columns = columns,
			     .n = n,
			     .skip = skip_bad,
			     .lock = PTHREAD_MUTEX_INITIALIZER };
	int ret = -1;

	for (size_t i = 0; i < n; i++)
		assert(columns[i].n_names &&
		       (columns[i].n_names == 1 || columns[i].kind == COLUMN_NUMBERS));
	if (find_fields(&r, arena, err) == 0 && make_room(&r, err) == 0 &&
	    step_parallel(t->threads, t->blocks.n, read_block, &r, err) == 0)
		ret = merge(&r, err);
	clear_blocks(&r);
	t->n_bad = 0;
	for (size_t i = 0; t->bad && i < t->rows; i++)
		t->n_bad += t->bad[i];
	return ret;
}
