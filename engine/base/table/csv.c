/* engine/base/table/csv.c — rows of CSV, each in one pass.
 *
 * A field is a slice of the text, unless it has doubled quotes. Then it is copied to `own`, whose
 * memory may move while the row grows. So its place is kept as an offset in `own_at` (LENT: the
 * field lies in the text), and csv_next() makes pointers of the offsets when the row is complete.
 *
 * `fields` and `own_at` have the same length. `line` is the line on which the last row began,
 * `next_line` the one that comes next; a quoted field may span several. The first row decides how
 * many fields all rows have.
 *
 * The callers handle header rows, types of cells and UTF-8 (frame.c, steps/shard/source_table.c).
 * frame_read.c reads files without quotes by a faster loop of its own, which must agree with this
 * one.
 */
#include "base/table/csv.h"
#include <string.h>
#include "base/macros.h"
#include "base/mem.h"

/* Fields of a first row: a text with more is probably no CSV, and each costs 40 bytes. */
#define FIELDS_MAX 65536
#define LENT       SIZE_MAX

struct csv {
	const char *what, *at, *end;
	char separator;
	VEC(struct csv_field) fields;
	VEC(size_t) own_at; /* by field: its offset in `own`, or LENT */
	struct str own;
	size_t columns; /* of the first row; 0: unknown yet */
	uint64_t line, next_line;
};

int csv_open(const char *what, const char *text, size_t n, char separator, struct csv **ret,
	     struct err *err)
{
	struct csv *c;

	if (separator == '"' || separator == '\n' || separator == '\r' || separator == '\0')
		return err_set(err, ERR_USAGE,
			       "%s: a quote, a line end or a NUL can't separate fields", what);
	c = xcalloc(1, sizeof(*c));
	*c = (struct csv){
		.what = what, .at = text, .end = text + n, .separator = separator, .next_line = 1
	};
	if (n >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0)
		c->at += 3;
	*ret = c;
	return 0;
}

void csv_free(struct csv *c)
{
	if (!c)
		return;
	VEC_FREE(&c->fields);
	VEC_FREE(&c->own_at);
	str_deinit(&c->own);
	free(c);
}

uint64_t csv_line(const struct csv *c)
{
	return c->line;
}

static void push(struct csv *c, const char *s, size_t n, bool quoted, size_t own_at)
{
	VEC_PUSH(&c->fields, ((struct csv_field){ s, n, quoted }));
	VEC_PUSH(&c->own_at, own_at);
}

/* Length of the line end at c->at: 0 when there is none. */
static size_t line_end(const struct csv *c)
{
	if (c->at < c->end && *c->at == '\n')
		return 1;
	return c->end - c->at >= 2 && c->at[0] == '\r' && c->at[1] == '\n' ? 2 : 0;
}

static int bare(struct csv *c, struct err *err)
{
	const char *p = c->at;
	size_t n;

	while (p < c->end && *p != c->separator && *p != '\n' && *p)
		p++;
	if (p < c->end && !*p)
		return err_set(err, ERR_INVALID, "%s:%llu: a NUL byte; is it a text file?", c->what,
			       (unsigned long long)c->next_line);
	n = (size_t)(p - c->at);
	if (n && p < c->end && *p == '\n' && p[-1] == '\r')
		n--;
	push(c, c->at, n, false, LENT);
	c->at += n;
	return 0;
}

/* c->at is after the opening quote. */
static int quoted(struct csv *c, struct err *err)
{
	const char *from = c->at, *p = from;
	size_t own_at = LENT;
	unsigned long long opened = c->next_line;

	for (;; p++) {
		while (p < c->end && *p != '"' && *p) {
			c->next_line += *p == '\n';
			p++;
		}
		if (p == c->end)
			return err_set(err, ERR_INVALID, "%s:%llu: a quote that is never closed",
				       c->what, opened);
		if (!*p)
			return err_set(err, ERR_INVALID, "%s:%llu: a NUL byte; is it a text file?",
				       c->what, (unsigned long long)c->next_line);
		if (c->end - p < 2 || p[1] != '"')
			break;
		if (own_at == LENT)
			own_at = c->own.len;
		str_addn(&c->own, from, (size_t)(p + 1 - from));
		from = ++p + 1;
	}
	if (own_at == LENT) {
		push(c, from, (size_t)(p - from), true, LENT);
	} else {
		str_addn(&c->own, from, (size_t)(p - from));
		push(c, NULL, c->own.len - own_at, true, own_at);
	}
	c->at = p + 1;
	if (c->at < c->end && *c->at != c->separator && !line_end(c))
		return err_set(err, ERR_INVALID, "%s:%llu: text behind a closing quote", c->what,
			       (unsigned long long)c->next_line);
	return 0;
}

static int row(struct csv *c, struct err *err)
{
	for (;;) {
		if (c->fields.n >= (c->columns ? c->columns : FIELDS_MAX))
			return c->columns
				       ? err_set(err, ERR_INVALID,
						 "%s:%llu: more than %zu fields, which the first "
						 "row has",
						 c->what, (unsigned long long)c->line, c->columns)
				       : err_set(err, ERR_INVALID, "%s:%llu: more than %d fields",
						 c->what, (unsigned long long)c->line, FIELDS_MAX);
		if (c->at < c->end && *c->at == '"') {
			c->at++;
			if (quoted(c, err) < 0)
				return -1;
		} else if (bare(c, err) < 0) {
			return -1;
		}
		if (c->at == c->end || *c->at != c->separator)
			break;
		c->at++;
	}
	c->at += line_end(c);
	c->next_line++;
	return 0;
}

int csv_next(struct csv *c, const struct csv_field **ret, size_t *ret_n, struct err *err)
{
	const char *p = c->at;

	c->fields.n = c->own_at.n = 0;
	str_reset(&c->own);
	/* If only empty lines are left, the table ends. In a table of one column each of them would
	 * be an empty value, so there only the last line end is ignored. */
	while (c->columns != 1 && p < c->end &&
	       (*p == '\n' || (*p == '\r' && c->end - p >= 2 && p[1] == '\n')))
		p++;
	if (p == c->end)
		return 0;
	c->line = c->next_line;
	if (row(c, err) < 0)
		return -1;
	if (c->columns && c->fields.n != c->columns)
		return err_set(err, ERR_INVALID, "%s:%llu: %zu field%s, but the first row has %zu",
			       c->what, (unsigned long long)c->line, c->fields.n,
			       c->fields.n == 1 ? "" : "s", c->columns);
	c->columns = c->fields.n;
	for (size_t i = 0; i < c->fields.n; i++)
		if (c->own_at.v[i] != LENT)
			c->fields.v[i].s = c->own.s + c->own_at.v[i];
	*ret = c->fields.v;
	*ret_n = c->fields.n;
	return 1;
}
