/* engine/cli/plot/text.c — a plot of characters.
 *
 * Lines are drawn into a canvas of characters, each with 2 × 4 dots (Braille) or one. Braille is
 * used where one line is drawn or colours tell the lines apart; otherwise each line has a letter,
 * which needs neither UTF-8 nor colours. Where lines cross, a character gets the colour or letter
 * of the line that was drawn last.
 *
 * Invariant: a value that isn't finite is a gap: the line begins again after it. Sizes that are too
 * small are raised (COLUMNS_MIN, ROWS_MIN).
 */
#include "base/text/text.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/mem.h"
#include "cli/cli.h"
#include "cli/plot/plot.h"

#define LABEL_COLUMNS 10 /* of the values next to the picture */
#define COLUMNS_MIN   10
#define ROWS_MIN      3

struct canvas {
	const struct plot_text_options *o;
	unsigned columns, rows;  /* characters */
	unsigned dots_x, dots_y; /* of one character */
	unsigned char *dots;     /* one byte per character: which of its dots are set */
	unsigned char *line;     /* the last line drawn there, from 1 */
};

static const enum cli_style colors[] = { STYLE_BLUE,    STYLE_YELLOW, STYLE_GREEN,
					 STYLE_MAGENTA, STYLE_CYAN,   STYLE_RED };

static enum cli_style color_of(size_t line)
{
	return colors[line % ARRAY_LEN(colors)];
}

static char letter_of(size_t line, size_t n)
{
	return n == 1 ? '*' : (char)('a' + line % 26);
}

static bool has_dots(const struct canvas *c)
{
	return c->dots_y > 1;
}

/* Lines. */

static void set(struct canvas *c, long x, long y, size_t line)
{
	/* Unicode 16.0, block Braille Patterns: dots 1 2 3 7 are the left column, 4 5 6 8 the right
	 * one. */
	static const unsigned char bits[2][4] = { { 0x01, 0x02, 0x04, 0x40 },
						  { 0x08, 0x10, 0x20, 0x80 } };
	size_t at = (size_t)(y / c->dots_y) * c->columns + (size_t)(x / c->dots_x);

	c->dots[at] |= has_dots(c) ? bits[x % c->dots_x][y % c->dots_y] : 1;
	c->line[at] = (unsigned char)(1 + line % 250);
}

/* Bresenham's line. */
static void draw(struct canvas *c, long x, long y, long to_x, long to_y, size_t line)
{
	long dx = labs(to_x - x), dy = -labs(to_y - y), sx = x < to_x ? 1 : -1,
	     sy = y < to_y ? 1 : -1, e = dx + dy;

	for (;;) {
		long twice = 2 * e;

		set(c, x, y, line);
		if (x == to_x && y == to_y)
			return;
		if (twice >= dy) {
			e += dy;
			x += sx;
		}
		if (twice <= dx) {
			e += dx;
			y += sy;
		}
	}
}

static void draw_line(struct canvas *c, const struct plot_line *l, size_t line,
		      const struct plot_range *xs, const struct plot_range *ys)
{
	long w = (long)(c->columns * c->dots_x) - 1, h = (long)(c->rows * c->dots_y) - 1,
	     before_x = -1, before_y = -1;

	for (size_t i = 0; i < l->n; i++) {
		long x, y;

		if (!isfinite(l->v[i].x) || !isfinite(l->v[i].y)) {
			before_x = -1;
			continue;
		}
		x = lround(plot_place(xs, l->v[i].x) * (double)w);
		y = h - lround(plot_place(ys, l->v[i].y) * (double)h);
		draw(c, before_x < 0 ? x : before_x, before_x < 0 ? y : before_y, x, y, line);
		before_x = x;
		before_y = y;
	}
}

/* Characters. */

static void add_cell(struct str *out, const struct canvas *c, size_t at, size_t n_lines)
{
	unsigned code = 0x2800u + c->dots[at];
	size_t line = c->line[at] ? c->line[at] - 1u : 0;

	if (!c->dots[at]) {
		str_addc(out, ' ');
		return;
	}
	if (c->o->color)
		str_add(out, cli_style_escape(color_of(line)));
	if (has_dots(c))
		str_addf(out, "%c%c%c", (char)(0xE0 | code >> 12),
			 (char)(0x80 | (code >> 6 & 0x3F)), (char)(0x80 | (code & 0x3F)));
	else
		str_addc(out, letter_of(line, n_lines));
	if (c->o->color)
		str_add(out, cli_style_escape(STYLE_PLAIN));
}

static void add_rows(struct str *out, const struct canvas *c, const struct plot *p,
		     const struct plot_range *ys)
{
	for (unsigned row = 0; row < c->rows; row++) {
		size_t end = c->columns;

		char number[32] = "";

		if (row == 0 || row == c->rows - 1 || row == (c->rows - 1) / 2) {
			/* max - min may be more than a double holds */
			double t = (double)row / (c->rows - 1), v = ys->max * (1 - t) + ys->min * t;

			snprintf(number, sizeof(number), "%.4g", v);
			if (strlen(number) > LABEL_COLUMNS)
				snprintf(number, sizeof(number), "%.3g", v);
		}
		str_addf(out, "%*s", LABEL_COLUMNS, number);
		str_add(out, c->o->utf8 ? " ┤" : " |");
		while (end && !c->dots[row * c->columns + end - 1])
			end--;
		for (size_t x = 0; x < end; x++)
			add_cell(out, c, row * c->columns + x, p->n);
		str_addc(out, '\n');
	}
}

static void add_x_axis(struct str *out, const struct canvas *c, const struct plot_range *xs)
{
	char from[32], to[32];
	int gap;

	str_addf(out, "%*s %s", LABEL_COLUMNS, "", c->o->utf8 ? "└" : "+");
	for (unsigned i = 0; i < c->columns; i++)
		str_add(out, c->o->utf8 ? "─" : "-");
	snprintf(from, sizeof(from), "%.6g", xs->min);
	snprintf(to, sizeof(to), "%.6g", xs->max);
	gap = (int)c->columns - (int)strlen(from) - (int)strlen(to);
	str_addf(out, "\n%*s  %s%*s%s\n", LABEL_COLUMNS, "", from, MAX(gap, 1), "", to);
}

static void add_legend(struct str *out, const struct canvas *c, const struct plot *p)
{
	for (size_t i = 0; i < p->n; i++) {
		str_addf(out, "%*s  %s", LABEL_COLUMNS, "",
			 c->o->color ? cli_style_escape(color_of(i)) : "");
		if (has_dots(c))
			str_add(out, "━━");
		else
			str_addc(out, letter_of(i, p->n));
		str_addf(out, "%s ", c->o->color ? cli_style_escape(STYLE_PLAIN) : "");
		text_add_printable(out, p->lines[i].label, strlen(p->lines[i].label));
		str_addc(out, '\n');
	}
}

void plot_add_text(struct str *out, const struct plot *p, const struct plot_text_options *o)
{
	bool dots = o->utf8 && (o->color || p->n == 1);
	struct canvas c = { .o = o,
			    .columns = MAX(o->columns, LABEL_COLUMNS + 2 + COLUMNS_MIN) -
				       LABEL_COLUMNS - 2,
			    .rows = MAX(o->rows, ROWS_MIN),
			    .dots_x = dots ? 2 : 1,
			    .dots_y = dots ? 4 : 1 };
	struct plot_range xs, ys;

	str_addf(out, "%*s  %s", LABEL_COLUMNS, "", o->color ? cli_style_escape(STYLE_BOLD) : "");
	text_add_printable(out, p->title, strlen(p->title));
	str_addf(out, "%s\n", o->color ? cli_style_escape(STYLE_PLAIN) : "");
	if (!plot_range_of(p, PLOT_X, &xs) || !plot_range_of(p, PLOT_Y, &ys)) {
		str_addf(out, "%*s  no finite value\n", LABEL_COLUMNS, "");
		return;
	}
	c.dots = xcalloc((size_t)c.columns * c.rows, 1);
	c.line = xcalloc((size_t)c.columns * c.rows, 1);
	for (size_t i = 0; i < p->n; i++)
		draw_line(&c, &p->lines[i], i, &xs, &ys);
	add_rows(out, &c, p, &ys);
	add_x_axis(out, &c, &xs);
	add_legend(out, &c, p);
	free(c.dots);
	free(c.line);
}
