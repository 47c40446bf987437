/* engine/model/source.c — places inside of scalars: line and column of each byte of a scalar's
 * text.
 *
 * A scalar's text differs from the file: quotes, escapes, folded lines and the indentation of
 * blocks are gone. A cursor walks the file (`p`) and the text (`at`) side by side, from the node's
 * start, and so knows where each byte of the text came from. It follows the rules of YAML 1.2
 * chapters 7 and 8 as libyaml applies them. When file and text don't match, the cursor is `lost`
 * and gives the node's own place: a wrong column is worse than a coarse one. A cursor only goes
 * forward, as the parser of expressions does.
 *
 * The index finds a line and column (in characters) in the file. It has line starts, and the number
 * of characters before each. For lines that aren't ASCII it also has the number of characters up to
 * every BLOCK bytes, so that long lines cost no more than short ones.
 */
#include <string.h>
#include "base/text/text.h"
#include "model/internal.h"

#define BLOCK 512

struct source_index {
	const char *bytes;
	size_t len;
	uint32_t *line_start; /* byte offsets; the last one is the file's length */
	uint32_t *line_chars; /* characters before each of them */
	size_t n_lines;
	uint32_t *chars; /* characters before byte i * BLOCK */
};

static bool is_continuation(char c)
{
	return ((unsigned char)c & 0xc0) == 0x80;
}

/* Bytes of the line break at p (LF, CR, CRLF, and the others of YAML 1.1), 0 when there is none. */
static size_t break_len(const char *p, const char *end)
{
	if (p == end)
		return 0;
	if (*p == '\n')
		return 1;
	if (*p == '\r')
		return p + 1 < end && p[1] == '\n' ? 2 : 1;
	if (end - p >= 2 && memcmp(p, "\xc2\x85", 2) == 0)
		return 2;
	if (end - p >= 3 &&
	    (memcmp(p, "\xe2\x80\xa8", 3) == 0 || memcmp(p, "\xe2\x80\xa9", 3) == 0))
		return 3;
	return 0;
}

/* Characters before byte `offset`. */
static uint32_t chars_before(const struct source_index *ix, size_t offset)
{
	uint32_t n = ix->chars[offset / BLOCK];

	for (size_t i = offset / BLOCK * BLOCK; i < offset; i++)
		n += !is_continuation(ix->bytes[i]);
	return n;
}

struct source_index *source_index_new(const char *bytes, size_t len, struct arena *arena)
{
	struct source_index *ix = arena_alloc(arena, sizeof(*ix));
	const char *end = bytes + len, *p = bytes;
	VEC(uint32_t) lines = { 0 };
	uint32_t chars = 0;

	ix->bytes = bytes;
	ix->len = len;
	ix->chars = arena_alloc(arena, (len / BLOCK + 1) * sizeof(*ix->chars));
	for (size_t block = 0; block <= len / BLOCK; block++) {
		ix->chars[block] = chars;
		for (size_t i = block * BLOCK; i < MIN(len, (block + 1) * BLOCK); i++)
			chars += !is_continuation(bytes[i]);
	}
	VEC_PUSH(&lines, (uint32_t)(p - bytes));
	while (p < end) {
		size_t n = (unsigned char)*p > '\r' && (unsigned char)*p < 0xc2 ? 0
										: break_len(p, end);

		p += n ? n : 1;
		if (n)
			VEC_PUSH(&lines, (uint32_t)(p - bytes));
	}
	ix->n_lines = lines.n;
	VEC_PUSH(&lines, (uint32_t)len);
	ix->line_start = arena_memdup(arena, lines.v, lines.n * sizeof(*lines.v));
	ix->line_chars = arena_alloc(arena, lines.n * sizeof(*lines.v));
	for (size_t i = 0; i < lines.n; i++)
		ix->line_chars[i] = chars_before(ix, lines.v[i]);
	VEC_FREE(&lines);
	return ix;
}

/* The byte at which character `wanted` of the file starts. */
static size_t offset_of_char(const struct source_index *ix, uint32_t wanted)
{
	size_t lo = 0, hi = ix->len / BLOCK, i;
	uint32_t n;

	while (lo < hi) {
		size_t mid = (lo + hi + 1) / 2;

		if (ix->chars[mid] <= wanted)
			lo = mid;
		else
			hi = mid - 1;
	}
	n = ix->chars[lo];
	for (i = lo * BLOCK; i < ix->len && (n < wanted || is_continuation(ix->bytes[i])); i++)
		n += !is_continuation(ix->bytes[i]);
	return i;
}

static const char *locate(const struct source_index *ix, int line, int col)
{
	uint32_t start, bytes, chars;

	if (line < 1 || col < 1 || (size_t)line > ix->n_lines)
		return NULL;
	start = ix->line_start[line - 1];
	bytes = ix->line_start[line] - start;
	chars = ix->line_chars[line] - ix->line_chars[line - 1];
	if (bytes == chars && (uint32_t)col <= bytes)
		return ix->bytes + start + col - 1;
	return ix->bytes + offset_of_char(ix, ix->line_chars[line - 1] + (uint32_t)col - 1);
}

/* The walk. */

static const char *file_end(const struct source_cursor *c)
{
	return c->index->bytes + c->index->len;
}

/* Steps over one character, or one line break, of the file. */
static void step(struct source_cursor *c)
{
	size_t n = break_len(c->p, file_end(c));

	if (c->p == file_end(c)) {
		c->lost = true;
	} else if (n) {
		c->p += n;
		c->line++;
		c->col = 1;
	} else {
		do
			c->p++;
		while (c->p < file_end(c) && is_continuation(*c->p));
		c->col++;
	}
}

static bool at_blank(const struct source_cursor *c)
{
	return c->p < file_end(c) && (*c->p == ' ' || *c->p == '\t');
}

static bool at_break(const struct source_cursor *c)
{
	return break_len(c->p, file_end(c)) > 0;
}

/* Goes from the indicator to the first line of the block's text, and notes that line's
 * indentation. */
static void enter_block(struct source_cursor *c)
{
	const char *text = c->node->text, *p;
	size_t spaces = 0, own = 0;

	while (!c->lost && !at_break(c))
		step(c);
	if (!c->lost)
		step(c);
	for (p = c->p; p < file_end(c);) { /* the first line that isn't blank has the indentation */
		size_t n = break_len(p, file_end(c));

		if (n) {
			p += n;
			spaces = 0;
		} else if (*p == ' ') {
			p++;
			spaces++;
		} else {
			break;
		}
	}
	while (*text == '\n')
		text++;
	while (text[own] == ' ')
		own++;
	c->block_indent = spaces > own ? spaces - own : 0;
}

static void skip_block_indent(struct source_cursor *c)
{
	for (size_t i = 0; i < c->block_indent && c->p < file_end(c) && *c->p == ' '; i++)
		step(c);
}

void source_cursor_init(struct source_cursor *c, const struct source_index *index,
			const struct yaml_node *node)
{
	*c = (struct source_cursor){
		.index = index, .node = node, .line = node->line, .col = node->col
	};
	c->p = index ? locate(index, node->line, node->col) : NULL;
	if (!c->p || c->p >= file_end(c)) {
		c->lost = true;
		return;
	}
	if (node->style == YAML_STYLE_PLAIN)
		return;
	c->quote = *c->p;
	if (c->quote == '|' || c->quote == '>') {
		enter_block(c);
		skip_block_indent(c);
	} else if (c->quote == '"' || c->quote == '\'') {
		step(c);
	} else {
		c->lost = true;
	}
}

/* Steps over a line break in a flow scalar and the blanks around it. In the text that is a space,
 * or one \n fewer than there are breaks. */
static bool over_fold(struct source_cursor *c)
{
	const char *p = c->p, *text = c->node->text;
	size_t breaks = 0;

	while (p < file_end(c) && (*p == ' ' || *p == '\t'))
		p++;
	if (break_len(p, file_end(c)) == 0)
		return false;
	while (at_blank(c) || at_break(c)) {
		breaks += at_break(c);
		step(c);
	}
	if (breaks == 1 && text[c->at] == ' ')
		c->at++;
	else
		for (; breaks > 1 && text[c->at] == '\n'; breaks--)
			c->at++;
	return true;
}

/* Steps over an escape in double quotes. */
static void over_escape(struct source_cursor *c)
{
	size_t digits = 0;
	uint32_t codepoint = 0;

	step(c);
	if (at_break(c)) { /* the text continues in the next line, without its blanks */
		step(c);
		while (at_blank(c))
			step(c);
		return;
	}
	if (c->p < file_end(c))
		digits = *c->p == 'x' ? 2 : *c->p == 'u' ? 4 : *c->p == 'U' ? 8 : 0;
	if (c->p < file_end(c))
		codepoint = *c->p == '_' || *c->p == 'N'   ? 0x85
			    : *c->p == 'L' || *c->p == 'P' ? 0x2028
							   : 0;
	step(c);
	for (; digits && !c->lost; digits--) {
		char d = *c->p;

		codepoint = codepoint * 16 + (uint32_t)(d <= '9' ? d - '0' : (d | 32) - 'a' + 10);
		step(c);
	}
	c->at += codepoint < 0x80 ? 1 : codepoint < 0x800 ? 2 : codepoint < 0x10000 ? 3 : 4;
}

static void over_char(struct source_cursor *c)
{
	uint32_t codepoint;
	char t = c->node->text[c->at];
	size_t n;

	if (t >= ' ' && t == *c->p) { /* almost always */
		c->p++;
		c->col++;
		c->at++;
		return;
	}
	n = text_utf8_decode(c->node->text + c->at, c->node->len - c->at, &codepoint);
	if (n == 0 || (size_t)(file_end(c) - c->p) < n ||
	    memcmp(c->p, c->node->text + c->at, n) != 0) {
		c->lost = true;
		return;
	}
	step(c);
	c->at += n;
}

static void advance_flow(struct source_cursor *c)
{
	char t = c->node->text[c->at];

	if (c->quote == '"' && *c->p == '\\') {
		over_escape(c);
	} else if ((t != ' ' && t != '\n') || !over_fold(c)) {
		if (c->quote == '\'' && *c->p == '\'')
			step(c);
		over_char(c);
	}
}

static void advance_block(struct source_cursor *c)
{
	char t = c->node->text[c->at];

	if (!at_break(c)) {
		over_char(c);
		return;
	}
	if (t != '\n' && (c->quote == '|' || t != ' ')) {
		c->lost = true;
		return;
	}
	if (c->quote == '|' || t == ' ') {
		c->at++;
		step(c);
		skip_block_indent(c);
		return;
	}
	while (c->node->text[c->at] == '\n')
		c->at++;
	while (at_break(c)) {
		step(c);
		skip_block_indent(c);
	}
}

void source_cursor_seek(struct source_cursor *c, size_t offset, int *ret_line, int *ret_col)
{
	offset = MIN(offset, c->node->len);
	while (!c->lost && c->at < offset && c->p < file_end(c)) {
		if (c->quote == '|' || c->quote == '>')
			advance_block(c);
		else
			advance_flow(c);
	}
	*ret_line = c->lost ? c->node->line : c->line;
	*ret_col = c->lost ? c->node->col : c->col;
}
