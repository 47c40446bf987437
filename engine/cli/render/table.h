/* engine/cli/render/table.h — aligned columns for people.
 *
 * 	struct table *t = table_new();
 * 	table_column(t, "run", 0);
 * 	table_column(t, "time", TABLE_RIGHT);
 * 	table_cell(t, STYLE_PLAIN, "%s", run.id);	// row by row, left to right
 * 	table_cell(t, STYLE_DIM, "%s", "2.4s");
 * 	table_print(t, cli);
 * 	table_free(t);
 *
 * Cells are made printable; widths are counted in columns of the terminal. On a terminal, columns
 * with TABLE_CUT are narrowed (widest first, cut in the middle) until a row fits; elsewhere nothing
 * is cut. Headings are dim; none are printed when all are "".
 */
#ifndef CAIRN_CLI_RENDER_TABLE_H
#define CAIRN_CLI_RENDER_TABLE_H

#include "cli/cli.h"

enum table_flags { TABLE_LEFT = 0, TABLE_RIGHT = 1 << 0, TABLE_CUT = 1 << 1 };

struct table;
struct table *table_new(void);
void table_free(struct table *t); /* NULL is fine */
static inline void table_freep(struct table **t)
{
	table_free(*t);
}
void table_column(struct table *t, const char *heading,
		  int flags); /* call it for all columns before the first cell */
void table_cell(struct table *t, enum cli_style style, const char *fmt, ...) _printf_(3, 4);
size_t table_rows(const struct table *t); /* complete ones */
/* Prints to cli->out. Incomplete rows are filled with empty cells. */
void table_print(struct table *t, const struct cli *cli);
/* Prints to a string. columns: 0 cuts nothing. color: with escape sequences. */
void table_render(struct table *t, unsigned columns, bool color, struct str *out);

/* The same as <table> of HTML: cells are escaped, and nothing is cut. */
void table_add_html(struct table *t, struct str *out);

/* Writes `s` (printable) in exactly `columns` columns: filled with spaces, or cut in the middle
 * ("train[fold=…,lr=0.1]"). */
void table_add_cut(struct str *out, const char *s, size_t columns, bool utf8);

#endif
