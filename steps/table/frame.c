/* steps/table/frame.c — files, their formats, and their division into blocks of whole rows.
 *
 * frame_open() maps all files (map_all()), detects the format of the first and compares the others
 * with it (open_parts()), cuts each into blocks (cut()), counts the rows of all blocks on all
 * threads (count_block()), and gives each block its first row and line (place_blocks()). When cells
 * are read, threads work on separate blocks.
 *
 * In a CSV without quotes every line end is the end of a row, so its blocks can be found without
 * reading the text before. The same always holds for JSON lines. A CSV file with quotes is one
 * block.
 *
 * Invariants: blocks are in the order of the rows; `row` of a block is the sum of `rows` before it;
 * all blocks together have t->rows rows. After frame_open() only `relied`, `bad`, `n_bad` and the
 * arena change.
 *
 * The caller's thread owns the table; other threads see it only inside step_parallel().
 * frame_read.c reads cells. The caller decides which columns are wanted.
 */
#include <dirent.h>
#include <fcntl.h>
#include <float.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include "base/macros.h"
#include "base/os/fs.h"
#include "base/table/csv.h"
#include "steps/step.h"
#include "steps/table/frame_internal.h"
#include "steps/table/jsonl.h"

#define BLOCK_BYTES (4 * MIB) /* enough blocks to share out, few enough dictionaries to merge */
#define BLOCK_ITEMS (256 * KIB)
#define PARTS_MAX   10000

/* Files. */

static int map_part(struct frame *t, const char *path, struct err *err)
{
	struct mapped m;
	struct part *p;

	if (mapped_open(&m, path, MAP_POPULATE, err) < 0)
		return -1;
	p = VEC_ADD(&t->parts);
	*p = (struct part){ .path = xstrdup(path),
			    .bytes = m,
			    .text = m.text,
			    .size = m.n,
			    .end = m.n,
			    .body_line = 1 };
	return 0;
}

static int by_path(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static int map_all(struct frame *t, const char *path, struct err *err)
{
	VEC(char *) files = { 0 };
	size_t len = strlen(path);
	struct dirent *e;
	struct stat st;
	DIR *d;
	int r;

	if (stat(path, &st) < 0)
		return err_errno(err, "cannot read %s", path);
	if (!S_ISDIR(st.st_mode))
		return map_part(t, path, err);
	while (len > 1 && path[len - 1] == '/')
		len--;
	path = arena_strndup(t->arena, path, len);
	d = opendir(path);
	if (!d)
		return err_errno(err, "cannot read %s", path);
	while ((r = fs_next(d, path, &e, err)) == 1 && files.n <= PARTS_MAX)
		if (*e->d_name != '.')
			VEC_PUSH(&files, arena_printf(t->arena, "%s/%s", path, e->d_name));
	closedir(d);
	if (r >= 0 && files.n > PARTS_MAX)
		r = err_set(err, ERR_TOO_LARGE, "%s: more than %d files", path, PARTS_MAX);
	else if (r >= 0 && files.n == 0)
		r = err_set(err, ERR_INVALID, "%s: a directory without files", path);
	if (r == 0)
		qsort(files.v, files.n, sizeof(*files.v), by_path);
	for (size_t i = 0; i < files.n && r == 0; i++)
		r = map_part(t, files.v[i], err);
	VEC_FREE(&files);
	return r;
}

/* Formats. */

static enum frame_format format_of(const struct part *p)
{
	const char *at = p->text, *end = p->text + p->size, *line;

	if (p->size >= 6 && memcmp(at, "\x93NUMPY", 6) == 0)
		return FRAME_NPY;
	if (p->size >= 3 && memcmp(at, "\xef\xbb\xbf", 3) == 0)
		at += 3;
	while (at < end && strchr(" \t\r\n", *at) && *at)
		at++;
	if (at < end && *at == '{')
		return FRAME_JSONL;
	line = memchr(at, '\n', (size_t)(end - at));
	line = line ? line : end;
	return memchr(at, '\t', (size_t)(line - at)) && !memchr(at, ',', (size_t)(line - at))
		       ? FRAME_TSV
		       : FRAME_CSV;
}

static int add_name(struct frame *t, const char *s, size_t n, bool first, size_t i, struct err *err)
{
	char *name = arena_strndup(t->arena, s, n);

	if (!first)
		return i < t->names.n && strcmp(t->names.v[i], name) == 0
			       ? 0
			       : err_set(err, ERR_INVALID, "other columns than in %s",
					 t->parts.v[0].path);
	for (size_t k = 0; k < t->names.n; k++)
		if (strcmp(t->names.v[k], name) == 0)
			return err_set(err, ERR_INVALID, "the column `%.60s` is there twice", name);
	VEC_PUSH(&t->names, name);
	return 0;
}

/* The columns of a CSV are the fields of its first row. */
static int open_csv(struct frame *t, struct part *p, bool first, struct err *err)
{
	const char *nul = memchr(p->text, '\0', p->size);
	const struct csv_field *f;
	struct csv *c;
	size_t n;
	int r;

	if (nul)
		return err_set(err, ERR_INVALID, "%s: a NUL byte at offset %zu; is it a text file?",
			       p->path, (size_t)(nul - p->text));
	p->quotes = memchr(p->text, '"', p->size);
	if (csv_open(p->path, p->text, p->size, frame_separator(t), &c, err) < 0)
		return -1;
	r = csv_next(c, &f, &n, err);
	if (r == 0)
		r = err_set(err, ERR_INVALID, "%s is empty: its first line must name the columns",
			    p->path);
	for (size_t i = 0; i < n && r > 0; i++)
		if (add_name(t, f[i].s, f[i].n, first, i, err) < 0)
			r = err_wrap(err, "%s", p->path);
	if (r > 0 && n != t->names.n)
		r = err_set(err, ERR_INVALID, "%s: other columns than in %s", p->path,
			    t->parts.v[0].path);
	if (r > 0) {
		const char *end = p->quotes ? NULL : memchr(p->text, '\n', p->size);

		p->body = end ? (size_t)(end + 1 - p->text) : p->size;
		p->body_line = 2;
	}
	/* Empty lines at the end are no rows, but in a table of one column they could be values. */
	while (r > 0 && n > 1 && p->end > p->body &&
	       (p->text[p->end - 1] == '\n' || p->text[p->end - 1] == '\r'))
		p->end--;
	csv_free(c);
	return r < 0 ? -1 : 0;
}

static int open_jsonl(struct frame *t, struct part *p, bool first, struct err *err)
{
	const struct jsonl_member *m;
	struct jsonl *j;
	size_t n = 0;
	int r = 0;

	if (first) {
		j = jsonl_new(p->path, p->text, p->size, 1);
		r = jsonl_next(j, &m, &n, err);
		for (size_t i = 0; i < n && r > 0; i++)
			VEC_PUSH(&t->names, arena_strndup(t->arena, m[i].key, m[i].key_n));
		jsonl_free(j);
	}
	while (p->end && strchr(" \t\r\n", p->text[p->end - 1]) && p->text[p->end - 1])
		p->end--;
	return r < 0 ? -1 : 0;
}

static int open_npy(struct frame *t, struct part *p, struct err *err)
{
	const struct npy *a = &t->parts.v[0].npy;

	if (npy_open(p->path, p->text, p->size, &p->npy, err) < 0)
		return -1;
	if (p->npy.kind != a->kind || p->npy.columns != a->columns ||
	    p->npy.dimensions != a->dimensions)
		return err_set(err, ERR_INVALID,
			       "%s: another type or another number of columns than %s", p->path,
			       t->parts.v[0].path);
	return 0;
}

static int open_parts(struct frame *t, struct err *err)
{
	t->format = format_of(&t->parts.v[0]);
	for (size_t i = 0; i < t->parts.n; i++) {
		struct part *p = &t->parts.v[i];

		if (format_of(p) != t->format && p->size)
			return err_set(err, ERR_INVALID, "%s has another format than %s", p->path,
				       t->parts.v[0].path);
		if (t->format == FRAME_NPY     ? open_npy(t, p, err) < 0
		    : t->format == FRAME_JSONL ? open_jsonl(t, p, i == 0, err) < 0
					       : open_csv(t, p, i == 0, err) < 0)
			return -1;
	}
	return 0;
}

/* Blocks. */

static void add_block(struct frame *t, const struct part *p, size_t from, size_t to)
{
	VEC_PUSH(&t->blocks, ((struct block){ .part = p, .from = from, .to = to }));
}

static void cut(struct frame *t, const struct part *p)
{
	size_t from = t->format == FRAME_NPY ? 0 : p->body,
	       end = t->format == FRAME_NPY ? p->npy.rows : p->end;
	size_t step = t->format == FRAME_NPY ? MAX(BLOCK_ITEMS / p->npy.columns, 1) : BLOCK_BYTES;

	if (p->quotes) {
		add_block(t, p, 0, p->size);
		return;
	}
	while (from < end) {
		size_t to = MIN(end, from + step);
		const char *line = NULL;

		if (t->format != FRAME_NPY && to < end) {
			line = memchr(p->text + to - 1, '\n', end - to + 1);
			to = line ? (size_t)(line + 1 - p->text) : end;
		}
		add_block(t, p, from, to);
		from = to;
	}
}

static size_t count_lines(const char *p, size_t n)
{
	const uint64_t ones = 0x0101010101010101ULL, low = 0x7f7f7f7f7f7f7f7fULL;
	size_t lines = 0;
	uint64_t v;

	for (; n >= 8; p += 8, n -= 8) {
		memcpy(&v, p, 8);
		v ^= ones * '\n';
		lines += (size_t)__builtin_popcountll(~(((v & low) + low) | v | low));
	}
	for (; n; p++, n--)
		lines += *p == '\n';
	return lines;
}

static size_t count_objects(const char *p, size_t n)
{
	size_t objects = 0;

	for (const char *end = p + n; p < end;) {
		const char *line = memchr(p, '\n', (size_t)(end - p));

		line = line ? line : end;
		while (p < line && strchr(" \t\r", *p) && *p)
			p++;
		objects += p < line;
		p = line + (line < end);
	}
	return objects;
}

static int count_quoted(const struct frame *t, struct block *b, struct err *err)
{
	const struct csv_field *f;
	struct csv *c;
	size_t n;
	int r;

	if (csv_open(b->part->path, b->part->text, b->part->size, frame_separator(t), &c, err) < 0)
		return -1;
	while ((r = csv_next(c, &f, &n, err)) > 0)
		b->rows++;
	csv_free(c);
	b->rows -= r == 0;
	return r;
}

static int count_block(void *arg, size_t i, struct err *err)
{
	const struct frame *t = arg;
	struct block *b = &t->blocks.v[i];
	const char *p = b->part->text + b->from;
	size_t n = b->to - b->from;

	if (b->part->quotes)
		return count_quoted(t, b, err);
	if (t->format == FRAME_NPY) {
		b->rows = n;
		return 0;
	}
	b->first_line =
		count_lines(p, n) + (n && p[n - 1] != '\n'); /* for now, the number of lines */
	b->rows = t->format == FRAME_JSONL ? count_objects(p, n) : b->first_line;
	return 0;
}

static int place_blocks(struct frame *t, struct err *err)
{
	const struct part *part = NULL;
	uint64_t line = 0;

	for (size_t i = 0; i < t->blocks.n; i++) {
		struct block *b = &t->blocks.v[i];
		uint64_t lines = b->first_line;

		if (b->part != part)
			line = b->part->body_line;
		part = b->part;
		b->first_line = line;
		line += lines;
		b->row = t->rows;
		t->rows += b->rows;
		if (t->rows > FRAME_ROWS_MAX)
			return err_set(err, ERR_TOO_LARGE, "%s: more than %u rows",
				       t->parts.v[0].path, FRAME_ROWS_MAX);
	}
	return 0;
}

int frame_open(const char *path, unsigned threads, struct frame **ret, struct err *err)
{
	struct frame *t = xcalloc(1, sizeof(*t));

	t->arena = arena_new();
	t->threads = threads;
	if (map_all(t, path, err) < 0 || open_parts(t, err) < 0)
		goto fail;
	for (size_t i = 0; i < t->parts.n; i++)
		cut(t, &t->parts.v[i]);
	if (step_parallel(threads, t->blocks.n, count_block, t, err) < 0 ||
	    place_blocks(t, err) < 0)
		goto fail;
	*ret = t;
	return 0;
fail:
	frame_free(t);
	return -1;
}

void frame_free(struct frame *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->parts.n; i++) {
		mapped_close(&t->parts.v[i].bytes);
		free(t->parts.v[i].path);
	}
	VEC_FREE(&t->parts);
	VEC_FREE(&t->blocks);
	VEC_FREE(&t->names);
	VEC_FREE(&t->relied);
	arena_free(t->arena);
	free(t->bad);
	free(t);
}

/* Facts. */

enum frame_format frame_format(const struct frame *t)
{
	return t->format;
}

size_t frame_rows(const struct frame *t)
{
	return t->rows;
}

const char *const *frame_names(const struct frame *t, size_t *ret_n)
{
	*ret_n = t->names.n;
	return t->names.v;
}

bool frame_has(struct frame *t, const char *name)
{
	for (size_t i = 0; i < t->names.n; i++)
		if (strcmp(t->names.v[i], name) == 0)
			return true;
	frame_rely(t, name);
	return false;
}

void frame_rely(struct frame *t, const char *pattern)
{
	VEC_PUSH(&t->relied, arena_strdup(t->arena, pattern));
}

bool frame_matches(const char *pattern, const char *name, size_t n)
{
	const char *star = strchr(pattern, '*');
	size_t head = star ? (size_t)(star - pattern) : strlen(pattern),
	       tail = star ? strlen(star + 1) : 0;

	return (star ? n > head + tail : n == head) && memcmp(name, pattern, head) == 0 &&
	       (!tail || memcmp(name + n - tail, star + 1, tail) == 0);
}

char frame_npy_kind(const struct frame *t, size_t *ret_columns, unsigned *ret_dimensions)
{
	const struct npy *a = &t->parts.v[0].npy;

	*ret_columns = a->columns;
	*ret_dimensions = a->dimensions;
	return a->kind;
}

double frame_epsilon(const struct frame *t)
{
	const struct npy *a = &t->parts.v[0].npy;

	if (t->format != FRAME_NPY || a->kind != 'f' || a->item_bytes == 8)
		return DBL_EPSILON;
	return a->item_bytes == 4 ? FLT_EPSILON : 0x1p-10; /* float16: 10 bits of fraction */
}

const uint8_t *frame_bad(const struct frame *t, size_t *ret_n)
{
	*ret_n = t->n_bad;
	return t->n_bad ? t->bad : NULL;
}

void column_deinit(struct column *c)
{
	if (!c->lent)
		free(c->numbers);
	free(c->codes);
	free(c->slices);
	dict_deinit(&c->texts);
	c->numbers = NULL;
	c->codes = NULL;
	c->slices = NULL;
}
