/* engine/cli/render/table.c — aligned columns.
 *
 * Cells are kept as printable text, row by row in one list; a cell's column is its index modulo the
 * number of columns. So widths are known when all cells are there, and printing is one pass. fit()
 * narrows the widest column that may be cut, one terminal column at a time, down to CUT_MIN.
 *
 * Widths are columns of the terminal, not bytes: a wide character takes two, a combining mark none.
 * add_middle_cut() keeps whole characters and fills what is left with spaces.
 */
#include "cli/render/table.h"
#include <assert.h>
#include <stdarg.h>
#include <string.h>
#include "base/mem.h"
#include "base/text/text.h"
#include "cli/render/page.h"

#define GAP     2 /* between columns */
#define CUT_MIN 8 /* a column that may be cut keeps this much */

struct cell {
	char *text;
	size_t width;
	enum cli_style style;
};

struct column {
	char *heading;
	int flags;
	size_t width;
};

struct table {
	VEC(struct column) columns;
	VEC(struct cell) cells;
	bool ascii; /* cuts are marked with ASCII */
};

struct table *table_new(void)
{
	return xcalloc(1, sizeof(struct table));
}

void table_free(struct table *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->columns.n; i++)
		free(t->columns.v[i].heading);
	for (size_t i = 0; i < t->cells.n; i++)
		free(t->cells.v[i].text);
	VEC_FREE(&t->columns);
	VEC_FREE(&t->cells);
	free(t);
}

static char *printable(const char *s, size_t n)
{
	struct str p = { 0 };

	text_add_printable(&p, s, n);
	return str_take(&p);
}

void table_column(struct table *t, const char *heading, int flags)
{
	struct column c = { printable(heading, strlen(heading)), flags, 0 };

	assert(t->cells.n == 0);
	c.width = text_width(c.heading, strlen(c.heading));
	VEC_PUSH(&t->columns, c);
}

void table_cell(struct table *t, enum cli_style style, const char *fmt, ...)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	struct cell c = { .style = style };
	struct column *column;
	va_list ap;

	assert(t->columns.n);
	column = &t->columns.v[t->cells.n % t->columns.n];
	va_start(ap, fmt);
	str_addv(&s, fmt, ap);
	va_end(ap);
	c.text = printable(s.s ? s.s : "", s.len);
	c.width = text_width(c.text, strlen(c.text));
	column->width = MAX(column->width, c.width);
	VEC_PUSH(&t->cells, c);
}

size_t table_rows(const struct table *t)
{
	return t->columns.n ? t->cells.n / t->columns.n : 0;
}

/* Narrows the widest column that may be cut, until a row fits or no column can be narrowed. */
static void fit(const struct table *t, size_t *widths, unsigned columns)
{
	size_t total = 0;

	for (size_t i = 0; i < t->columns.n; i++)
		total += widths[i] + (i ? GAP : 0);
	while (total > columns) {
		size_t widest = SIZE_MAX;
		for (size_t i = 0; i < t->columns.n; i++)
			if ((t->columns.v[i].flags & TABLE_CUT) && widths[i] > CUT_MIN &&
			    (widest == SIZE_MAX || widths[i] > widths[widest]))
				widest = i;
		if (widest == SIZE_MAX)
			return;
		widths[widest]--;
		total--;
	}
}

static size_t char_len(const char *s, size_t n)
{
	uint32_t cp;

	return MAX(text_utf8_decode(s, n, &cp), (size_t)1);
}

/* Keeps first and last characters, with the mark between them. Leaves out a wide character that
 * doesn't fit, and fills with spaces. */
static void add_middle_cut(struct str *out, const char *s, size_t columns, const char *mark)
{
	size_t n = strlen(s), head = columns ? (columns - 1) / 2 : 0,
	       tail = columns ? columns - 1 - head : 0, used = 0, i = 0;
	size_t rest = text_width(s, n);

	if (columns == 0)
		return;
	while (i < n && used + text_width(s + i, char_len(s + i, n - i)) <= head) {
		size_t len = char_len(s + i, n - i);
		used += text_width(s + i, len);
		i += len;
	}
	str_addn(out, s, i);
	str_add(out, mark);
	for (rest -= used; i < n && rest > tail; i += char_len(s + i, n - i))
		rest -= text_width(s + i, char_len(s + i, n - i));
	while (i < n && text_width(s + i, char_len(s + i, n - i)) ==
				0) /* combining marks of a character that was cut away */
		i += char_len(s + i, n - i);
	str_addn(out, s + i, n - i);
	str_addf(out, "%*s", (int)(columns - 1 - used - rest), "");
}

void table_add_cut(struct str *out, const char *s, size_t columns, bool utf8)
{
	size_t width = text_width(s, strlen(s));

	if (width > columns) {
		add_middle_cut(out, s, columns, utf8 ? "…" : "~");
		return;
	}
	str_add(out, s);
	str_addf(out, "%*s", (int)(columns - width), "");
}

/* Adds the cell of column `at`, `width` wide, and the gap before it. No line ends in blanks. */
static void add_cell(struct str *out, const struct table *t, size_t at, size_t width,
		     const struct cell *cell, bool color)
{
	bool right = t->columns.v[at].flags & TABLE_RIGHT, last = at + 1 == t->columns.n;
	size_t pad = cell->width < width ? width - cell->width : 0;

	color &= cell->style != STYLE_PLAIN && *cell->text;
	str_addf(out, "%*s%s", (int)((at ? GAP : 0) + (right ? pad : 0)), "",
		 color ? cli_style_escape(cell->style) : "");
	if (cell->width > width)
		add_middle_cut(out, cell->text, width, t->ascii ? "~" : "…");
	else
		str_add(out, cell->text);
	str_addf(out, "%s%*s", color ? cli_style_escape(STYLE_PLAIN) : "",
		 right || last ? 0 : (int)pad, "");
	if (!last)
		return;
	while (out->len && out->s[out->len - 1] == ' ') /* the row ends in empty cells */
		out->s[--out->len] = '\0';
	str_addc(out, '\n');
}

void table_render(struct table *t, unsigned columns, bool color, struct str *out)
{
	size_t n = t->columns.n;
	_cleanup_(freep) size_t *widths = xcalloc(n + 1, sizeof(*widths));
	bool headed = false;

	if (!n)
		return;
	while (t->cells.n % n)
		table_cell(t, STYLE_PLAIN, "%s", "");
	for (size_t i = 0; i < n; i++)
		widths[i] = t->columns.v[i].width;
	if (columns)
		fit(t, widths, columns);
	for (size_t i = 0; i < n; i++)
		headed |= *t->columns.v[i].heading != 0;
	for (size_t i = 0; i < n && headed; i++) {
		char *text = t->columns.v[i].heading;
		const struct cell c = { text, text_width(text, strlen(text)), STYLE_DIM };

		add_cell(out, t, i, widths[i], &c, color);
	}
	for (size_t i = 0; i < t->cells.n; i++)
		add_cell(out, t, i % n, widths[i % n], &t->cells.v[i], color);
}

void table_add_html(struct table *t, struct str *out)
{
	size_t n = t->columns.n;

	str_add(out, "<div class=\"box\"><table><tr>");
	for (size_t i = 0; i < n; i++) {
		str_add(out, t->columns.v[i].flags & TABLE_RIGHT ? "<th class=\"num\">" : "<th>");
		page_add_text(out, t->columns.v[i].heading);
		str_add(out, "</th>");
	}
	for (size_t i = 0; i < t->cells.n; i++) {
		str_add(out, i % n == 0 ? "</tr>\n<tr>" : "");
		str_add(out,
			t->columns.v[i % n].flags & TABLE_RIGHT ? "<td class=\"num\">" : "<td>");
		page_add_text(out, t->cells.v[i].text);
		str_add(out, "</td>");
	}
	str_add(out, "</tr>\n</table></div>\n");
}

void table_print(struct table *t, const struct cli *cli)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	unsigned columns = 0, lines;

	t->ascii = !cli->utf8;
	/* Cells are converted to ASCII before widths are counted. */
	for (size_t i = 0; t->ascii && i < t->cells.n; i++) {
		struct cell *c = &t->cells.v[i];
		struct column *column = &t->columns.v[i % t->columns.n];
		struct str text = { 0 };

		str_add(&text, "");
		cli_add_signs(&text, c->text, strlen(c->text), false);
		free(c->text);
		c->text = str_take(&text);
		c->width = text_width(c->text, strlen(c->text));
		column->width = MAX(column->width, c->width);
	}
	if (cli->tty_out)
		cli_terminal_size(cli->out, &columns, &lines);
	table_render(t, columns, cli->color_out, &s);
	if (s.len)
		fwrite(s.s, 1, s.len, cli->out);
}
