/* engine/serve/api/content/rows.c — a file as a table: CSV, TSV, JSON lines, NPY.
 *
 * The first PREVIEW_MAX bytes are read into memory; of a longer file `total` is unknown, and the
 * table ends with its last whole line there. The readers are those of the steps (base/table/).
 *
 * Invariants: cells are cut at CELL_MAX bytes, a row at COLUMNS_MAX cells, a page at ROWS_MAX rows.
 * What isn't a table gets a problem that says where.
 *
 * Threads: the pool's.
 */
#include <string.h>
#include "base/map.h"
#include "base/os/fs.h"
#include "base/table/csv.h"
#include "base/table/npy.h"
#include "base/text/text.h"
#include "record/facts.h"
#include "serve/api/content/content.h"
#include "serve/api/log.h"

#define ROWS_MAX    1000
#define COLUMNS_MAX 1000

struct page {
	struct api *a;
	const char *bytes;
	size_t n;
	bool whole; /* all of the file is in `bytes` */
	uint64_t from, limit;
	json_t *columns, *rows;
	uint64_t total;
	struct err err;
};

static json_t *column_json(json_t *name, const char *type)
{
	return json_pack("{s:o, s:s}", "name", name, "type", type);
}

/* CSV. */

static json_t *cell(const char *s, size_t n)
{
	return api_lossy_text(s, MIN(n, CELL_MAX));
}

static bool is_number(const char *s, size_t n)
{
	_cleanup_(freep) char *copy = n < 64 ? xstrndup(s, n) : NULL;
	double v;

	return copy && text_parse_double(copy, &v);
}

static bool has_number(const struct csv_field *f, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (is_number(f[i].s, f[i].n))
			return true;
	return false;
}

/* A first row without a number is the header. */
static bool csv_columns(struct page *p, const struct csv_field *f, size_t n)
{
	bool header = !has_number(f, n);

	for (size_t i = 0; i < MIN(n, COLUMNS_MAX); i++)
		json_array_append_new(p->columns, column_json(header ? cell(f[i].s, f[i].n)
								     : json_sprintf("%zu", i + 1),
							      "number"));
	return header;
}

static void add_csv_row(struct page *p, const struct csv_field *f, size_t n)
{
	json_t *row = json_array();

	for (size_t i = 0; i < MIN(n, COLUMNS_MAX); i++) {
		json_array_append_new(row, cell(f[i].s, f[i].n));
		if (f[i].n && !is_number(f[i].s, f[i].n))
			json_object_set_new(json_array_get(p->columns, i), "type",
					    json_string("text"));
	}
	json_array_append_new(p->rows, row);
}

static int csv_page(struct page *p, char separator)
{
	const struct csv_field *f;
	struct csv *c;
	size_t n;
	int r;

	if (csv_open("the table", p->bytes, p->n, separator, &c, &p->err) < 0)
		return -1;
	for (bool first = true; (r = csv_next(c, &f, &n, &p->err)) > 0; first = false) {
		if (first && csv_columns(p, f, n))
			continue;
		if (p->total >= p->from && p->total - p->from < p->limit)
			add_csv_row(p, f, n);
		p->total++;
	}
	csv_free(c);
	return r;
}

/* JSON lines. */

static json_t *json_cell(const json_t *v)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	if (!v || json_is_null(v))
		return json_null();
	if (json_is_number(v) || json_is_boolean(v))
		return json_incref((json_t *)(uintptr_t)v);
	if (json_is_string(v))
		return cell(json_string_value(v), json_string_length(v));
	json_add_canonical(&text, v);
	return cell(text.s, text.len);
}

/* Which column a key is; a new one is added while there is room. */
static size_t key_column(struct page *p, struct map *keys, const char *key, const json_t *v)
{
	void **slot = map_slot_str(keys, key);
	size_t i = (size_t)(uintptr_t)*slot;
	const char *type = json_is_number(v) ? "number" : json_is_boolean(v) ? "boolean" : "text";

	if (!i && json_array_size(p->columns) < COLUMNS_MAX) {
		json_array_append_new(p->columns, column_json(cell(key, strlen(key)), type));
		i = json_array_size(p->columns);
		*slot = (void *)(uintptr_t)i;
	}
	return i;
}

static int add_json_row(struct page *p, struct map *keys, const char *line, size_t n)
{
	_cleanup_(json_decrefp) json_t *o = NULL;
	json_t *row = json_array(), *v;
	const char *key;

	json_array_append_new(p->rows, row);
	if (json_parse("the table", line, n, &o, &p->err) < 0)
		return -1;
	if (!json_is_object(o))
		json_array_append_new(row, json_cell(o));
	json_object_foreach(o, key, v)
	{
		size_t i = key_column(p, keys, key, v);

		while (i && json_array_size(row) < i)
			json_array_append_new(row, json_null());
		if (i)
			json_array_set_new(row, i - 1, json_cell(v));
	}
	return 0;
}

static int jsonl_page(struct page *p)
{
	_cleanup_(map_freep) struct map *keys = map_new();
	size_t i;
	json_t *row;
	int r = 0;

	for (const char *at = p->bytes, *end = at + p->n; at < end && r == 0;) {
		const char *eol = memchr(at, '\n', (size_t)(end - at));
		size_t n = eol ? (size_t)(eol - at) : (size_t)(end - at);

		if (n && strspn(at, " \t\r") < n) {
			if (p->total >= p->from && p->total - p->from < p->limit)
				r = add_json_row(p, keys, at, n);
			p->total++;
		}
		at += n + (eol != NULL);
	}
	if (json_array_size(p->columns) == 0)
		json_array_append_new(p->columns, column_json(json_string("value"), "text"));
	json_array_foreach(p->rows, i,
			   row) while (json_array_size(row) < json_array_size(p->columns))
		json_array_append_new(row, json_null());
	return r;
}

/* NPY. */

static json_t *npy_cell(const struct npy *a, size_t row, size_t column)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	int64_t i;

	if (a->kind == 'f')
		return facts_number(npy_number(a, row, column));
	if (a->kind == 'b' && npy_integer(a, row, column, &i))
		return json_boolean(i != 0);
	if ((a->kind == 'i' || a->kind == 'u') && npy_integer(a, row, column, &i))
		return json_integer(i);
	str_add(&text, "");
	return npy_text(a, row, column, &text) ? cell(text.s, text.len) : json_null();
}

static int npy_page(struct page *p)
{
	struct npy a;

	if (!p->whole)
		return err_set(&p->err, ERR_TOO_LARGE,
			       "an array of more than %d MiB isn't shown; its bytes are",
			       (int)(PREVIEW_MAX / MIB));
	if (npy_open("the array", p->bytes, p->n, &a, &p->err) < 0)
		return -1;
	for (size_t i = 0; i < MIN(a.columns, COLUMNS_MAX); i++)
		json_array_append_new(p->columns, column_json(json_sprintf("%zu", i),
							      strchr("SU", a.kind) ? "text"
							      : a.kind == 'b'      ? "boolean"
										   : "number"));
	for (uint64_t r = p->from; r < a.rows && r - p->from < p->limit; r++) {
		json_t *row = json_array();

		for (size_t i = 0; i < MIN(a.columns, COLUMNS_MAX); i++)
			json_array_append_new(row, npy_cell(&a, (size_t)r, i));
		json_array_append_new(p->rows, row);
	}
	p->total = a.rows;
	return 0;
}

/* Which. */

static int make_page(struct page *p, const char *name)
{
	const char *eol = memchr(p->bytes, '\n', p->n);
	size_t first = eol ? (size_t)(eol - p->bytes) : p->n;

	if (p->n >= 6 && memcmp(p->bytes, "\x93NUMPY", 6) == 0)
		return npy_page(p);
	if (str_has_suffix(name, ".jsonl") || str_has_suffix(name, ".ndjson") ||
	    (p->n && p->bytes[0] == '{'))
		return jsonl_page(p);
	return csv_page(p,
			str_has_suffix(name, ".tsv") || memchr(p->bytes, '\t', first) ? '\t' : ',');
}

void api_content_table(struct api *a)
{
	struct page p = { .a = a, .limit = API_LIMIT_DEFAULT };
	_cleanup_(freep) char *buf = NULL;
	struct content_named c;
	uint64_t size;
	ssize_t n;
	int fd;

	if (!api_uint(a, "offset", 0, API_CURSOR_MAX, &p.from) ||
	    !api_uint(a, "limit", 1, ROWS_MAX, &p.limit) || !api_content_open(a, &c, &fd, &size))
		return;
	buf = xmalloc(MIN(size, PREVIEW_MAX) + 1);
	n = fs_read_at(fd, buf, MIN(size, PREVIEW_MAX), 0);
	close(fd);
	p.bytes = buf;
	p.n = (size_t)MAX(n, 0);
	p.whole = p.n == size;
	buf[p.n] = '\0';
	while (!p.whole && p.n && buf[p.n - 1] != '\n')
		p.n--;
	p.columns = json_array();
	p.rows = json_array();
	if (make_page(&p, c.name) < 0)
		web_problem(a->x, 422, "it can't be shown as a table: %s", p.err.msg);
	else
		web_answer_json(a->x, 200,
				json_pack("{s:O, s:O, s:o, s:b}", "columns", p.columns, "rows",
					  p.rows, "total",
					  p.whole ? json_integer((json_int_t)p.total) : json_null(),
					  "truncated", !p.whole));
	json_decref(p.columns);
	json_decref(p.rows);
}
