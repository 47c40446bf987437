/* engine/base/text/yaml.c — the strict subset, on libyaml's event API.
 *
 * Events build nodes bottom-up on a stack of open collections (`frames`); `members` holds the nodes
 * of all of them. libyaml has no notion of duplicate keys, expansion or the 1.1 booleans; those
 * rules are here. Each collection knows how many nodes a walk of it meets (`met`) and its `height`,
 * so that aliases of aliases are stopped before they multiply. An anchor is usable only after its
 * collection is closed, so there are no cycles.
 *
 * Nodes and text are in the tree's arena. Maps with more than INDEX_FROM keys get a hash index,
 * which is freed with the tree. A semantic error is noted and building continues; an error of
 * syntax, depth or expansion, or a second document, ends it. The type of a scalar is decided on use
 * (yaml_scalar_type()), not while building.
 */
#include "base/text/yaml.h"
#include <assert.h>
#include <errno.h>
#include <math.h>
#include <string.h>
#include <yaml.h>
#include "base/map.h"
#include "base/os/fs.h"
#include "base/text/text.h"

/* Below this a scan is faster than hashing, and most maps of a pipeline are small. */
#define INDEX_FROM 16

struct yaml_private {
	VEC(struct map *) indexes; /* to be freed with the tree */
};

/* A collection's `internal` points to this. */
struct extra {
	struct map *index; /* key → place + 1; NULL in small maps */
	uint64_t met;      /* nodes that a walk of it meets, itself included */
};

/* A collection that is open: its members so far. */
struct frame {
	struct yaml_node *node;
	size_t first; /* in builder.members */
	const char *anchor;
	uint64_t met;
	uint8_t height;
};

struct builder {
	struct yaml_tree *tree;
	struct diag_list *diags;
	const char *bytes;
	size_t len;
	VEC(struct frame) frames;
	VEC(struct yaml_node *) members;
	struct map *anchors;
};

static void fail_at(struct builder *b, int line, int col, const char *fmt, ...) _printf_(4, 5);
static void fail_at(struct builder *b, int line, int col, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	diag_addv(b->diags, DIAG_ERROR, b->tree->file, line, col, fmt, ap);
	va_end(ap);
}

/* Scalars. */

static bool yaml11_bool(const char *s)
{
	static const char *const words[] = { "yes", "Yes", "YES", "no",  "No",  "NO",
					     "on",  "On",  "ON",  "off", "Off", "OFF" };

	/* Called for every plain scalar, so the first letter is checked first. */
	return strchr("yYnNoO", *s) && text_is_one_of(s, words, ARRAY_LEN(words));
}

/* YAML 1.2.2, 10.3.2: [-+]?[0-9]+ | 0o[0-7]+ | 0x[0-9a-fA-F]+ */
static bool is_core_int(const char *s)
{
	if (s[0] == '0' && s[1] == 'o')
		return s[2] && s[2 + strspn(s + 2, "01234567")] == '\0';
	if (s[0] == '0' && s[1] == 'x')
		return s[2] && s[2 + strspn(s + 2, "0123456789abcdefABCDEF")] == '\0';
	s += *s == '-' || *s == '+';
	return *s && s[strspn(s, "0123456789")] == '\0';
}

/* [-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?, and the infinities and not-a-number. */
static bool is_core_float(const char *s)
{
	static const char *const special[] = { ".inf", ".Inf", ".INF" }, *const nan[] = { ".nan",
											  ".NaN",
											  ".NAN" };
	size_t before, after = 0;

	if (text_is_one_of(s, nan, ARRAY_LEN(nan)))
		return true;
	s += *s == '-' || *s == '+';
	if (text_is_one_of(s, special, ARRAY_LEN(special)))
		return true;
	before = strspn(s, "0123456789");
	s += before;
	if (*s == '.') {
		after = strspn(s + 1, "0123456789");
		s += 1 + after;
	}
	if (before + after == 0)
		return false;
	if (*s == 'e' || *s == 'E') {
		s += 1 + (s[1] == '-' || s[1] == '+');
		if (!*s)
			return false;
		s += strspn(s, "0123456789");
	}
	return *s == '\0';
}

enum yaml_type yaml_scalar_type(const struct yaml_node *n)
{
	static const char *const nulls[] = { "", "~", "null", "Null", "NULL" };
	static const char *const bools[] = { "true", "True", "TRUE", "false", "False", "FALSE" };

	assert(n->kind == YAML_KIND_SCALAR);
	if (n->style != YAML_STYLE_PLAIN)
		return YAML_TYPE_STRING;
	if (text_is_one_of(n->text, nulls, ARRAY_LEN(nulls)))
		return YAML_TYPE_NULL;
	if (text_is_one_of(n->text, bools, ARRAY_LEN(bools)))
		return YAML_TYPE_BOOL;
	if (is_core_int(n->text))
		return YAML_TYPE_INT;
	return is_core_float(n->text) ? YAML_TYPE_FLOAT : YAML_TYPE_STRING;
}

bool yaml_is_null(const struct yaml_node *n)
{
	return n->kind == YAML_KIND_SCALAR && yaml_scalar_type(n) == YAML_TYPE_NULL;
}

bool yaml_as_bool(const struct yaml_node *n, bool *ret)
{
	if (n->kind != YAML_KIND_SCALAR || yaml_scalar_type(n) != YAML_TYPE_BOOL)
		return false;
	*ret = n->text[0] == 't' || n->text[0] == 'T';
	return true;
}

bool yaml_as_int(const struct yaml_node *n, int64_t *ret)
{
	bool octal, hex;
	char *end;

	if (n->kind != YAML_KIND_SCALAR || yaml_scalar_type(n) != YAML_TYPE_INT)
		return false;
	octal = n->text[0] == '0' && n->text[1] == 'o';
	hex = n->text[0] == '0' && n->text[1] == 'x';
	errno = 0;
	*ret = strtoll(octal || hex ? n->text + 2 : n->text, &end, octal ? 8 : hex ? 16 : 10);
	return errno == 0;
}

bool yaml_as_float(const struct yaml_node *n, double *ret)
{
	enum yaml_type type = n->kind == YAML_KIND_SCALAR ? yaml_scalar_type(n) : YAML_TYPE_NULL;
	const char *s;
	int64_t i;

	if (type != YAML_TYPE_INT && type != YAML_TYPE_FLOAT)
		return false;
	if (yaml_as_int(n, &i)) {
		*ret = (double)i;
		return true;
	}
	s = n->text + (n->text[0] == '-' || n->text[0] == '+');
	if (s[0] == '.' && (s[1] == 'i' || s[1] == 'I'))
		*ret = n->text[0] == '-' ? -INFINITY : INFINITY;
	else if (s[0] == '.' && (s[1] == 'n' || s[1] == 'N'))
		*ret = NAN;
	else
		return text_parse_double(n->text,
					 ret); /* false for 1e999 and for 0x… over 64 bits */
	return true;
}

const char *yaml_describe(const struct yaml_node *n)
{
	if (n->kind != YAML_KIND_SCALAR)
		return n->kind == YAML_KIND_MAP ? "a mapping" : "a list";
	switch (yaml_scalar_type(n)) {
	case YAML_TYPE_NULL:
		return "nothing";
	case YAML_TYPE_BOOL:
		return "true or false";
	case YAML_TYPE_INT:
		return "an integer";
	case YAML_TYPE_FLOAT:
		return "a number";
	default:
		return "text";
	}
}

/* Maps. */

const struct yaml_pair *yaml_find(const struct yaml_node *map, const char *key, size_t len)
{
	struct map *index;

	if (!map || map->kind != YAML_KIND_MAP)
		return NULL;
	index = ((const struct extra *)map->internal)->index;
	if (index) {
		void *at = map_get(index, key, len);

		return at ? &map->pairs[(uintptr_t)at - 1] : NULL;
	}
	for (size_t i = 0; i < map->len; i++)
		if (map->pairs[i].key->len == len && memcmp(map->pairs[i].key->text, key, len) == 0)
			return &map->pairs[i];
	return NULL;
}

struct yaml_node *yaml_get(const struct yaml_node *map, const char *key)
{
	const struct yaml_pair *p = yaml_find(map, key, strlen(key));

	return p ? p->value : NULL;
}

/* Building. */

static struct yaml_node *new_node(struct builder *b, enum yaml_kind kind, const yaml_event_t *e)
{
	struct yaml_node *n = arena_alloc(b->tree->arena, sizeof(*n));

	n->kind = (uint8_t)kind;
	n->line = (int)e->start_mark.line + 1;
	n->col = (int)e->start_mark.column + 1;
	n->height = 1;
	b->tree->n_nodes++;
	return n;
}

static void check_tag(struct builder *b, const struct yaml_node *n, const yaml_char_t *tag)
{
	if (tag)
		fail_at(b, n->line, n->col,
			"tags like `%s` are not part of the YAML that is read here; leave it out",
			(const char *)tag);
}

/* Adds a finished node to the open collection, or makes it the root. */
static int add_node(struct builder *b, struct yaml_node *n)
{
	struct frame *f;

	if (b->frames.n == 0) {
		b->tree->root = n;
		return 0;
	}
	f = &b->frames.v[b->frames.n - 1];
	f->met += n->kind == YAML_KIND_SCALAR ? 1 : ((const struct extra *)n->internal)->met;
	f->height = MAX(f->height, n->height + 1);
	VEC_PUSH(&b->members, n);
	if (f->height + b->frames.n - 1 > YAML_DEPTH_MAX) {
		fail_at(b, n->line, n->col, "nested deeper than %d levels", YAML_DEPTH_MAX);
		return -1;
	}
	/* Compared with the nodes written so far, with room for small files. */
	if (f->met > (uint64_t)YAML_EXPANSION_MAX * (b->tree->n_nodes + 10)) {
		fail_at(b, n->line, n->col, "aliases multiply this file more than %d times",
			YAML_EXPANSION_MAX);
		return -1;
	}
	return 0;
}

static void set_anchor(struct builder *b, const char *anchor, struct yaml_node *n)
{
	if (anchor)
		*map_slot_str(b->anchors, anchor) = n;
}

/* `on:` is a word of pipelines, as of other tools' files. As a key it can't be meant as true. */
static bool is_key_on(const struct builder *b, const char *text)
{
	const struct frame *f = b->frames.n ? &b->frames.v[b->frames.n - 1] : NULL;

	return f && f->node->kind == YAML_KIND_MAP && (b->members.n - f->first) % 2 == 0 &&
	       strcmp(text, "on") == 0;
}

static int on_scalar(struct builder *b, const yaml_event_t *e)
{
	struct yaml_node *n = new_node(b, YAML_KIND_SCALAR, e);
	yaml_scalar_style_t style = e->data.scalar.style;

	n->style = style == YAML_PLAIN_SCALAR_STYLE ? YAML_STYLE_PLAIN
		   : style == YAML_LITERAL_SCALAR_STYLE || style == YAML_FOLDED_SCALAR_STYLE
			   ? YAML_STYLE_BLOCK
			   : YAML_STYLE_QUOTED;
	n->text = arena_strndup(b->tree->arena, (const char *)e->data.scalar.value,
				e->data.scalar.length);
	n->len = strlen(n->text);
	check_tag(b, n, e->data.scalar.tag);
	if (n->len != e->data.scalar.length)
		fail_at(b, n->line, n->col, "a NUL character can't stand in text");
	else if (n->style == YAML_STYLE_PLAIN && yaml11_bool(n->text) && !is_key_on(b, n->text))
		fail_at(b, n->line, n->col,
			"`%s` reads as true or false in older YAML: write true or false, or quote "
			"it for text",
			n->text);
	set_anchor(b, (const char *)e->data.scalar.anchor, n);
	return add_node(b, n);
}

static int on_alias(struct builder *b, const yaml_event_t *e)
{
	const char *name = (const char *)e->data.alias.anchor;
	struct yaml_node *n = map_get_str(b->anchors, name);
	bool is_open = false;

	if (n)
		return add_node(b, n);
	/* A placeholder, so that later errors are found too. */
	n = new_node(b, YAML_KIND_SCALAR, e);
	n->text = "";
	for (size_t i = 0; i < b->frames.n; i++)
		is_open |= str_eq(b->frames.v[i].anchor, name);
	if (is_open)
		fail_at(b, n->line, n->col, "`*%s` stands inside of what it names", name);
	else
		fail_at(b, n->line, n->col, "`*%s` names nothing: no `&%s` before it", name, name);
	return add_node(b, n);
}

static int open_collection(struct builder *b, enum yaml_kind kind, const yaml_event_t *e,
			   const yaml_char_t *anchor, const yaml_char_t *tag, bool flow)
{
	struct frame f = {
		.node = new_node(b, kind, e), .first = b->members.n, .met = 1, .height = 1
	};

	f.node->is_flow = flow;
	f.anchor = anchor ? arena_strdup(b->tree->arena, (const char *)anchor) : NULL;
	check_tag(b, f.node, tag);
	if (b->frames.n >= YAML_DEPTH_MAX) {
		fail_at(b, f.node->line, f.node->col, "nested deeper than %d levels",
			YAML_DEPTH_MAX);
		return -1;
	}
	if (anchor) /* hides an earlier anchor of that name */
		*map_slot_str(b->anchors, f.anchor) = NULL;
	VEC_PUSH(&b->frames, f);
	return 0;
}

/* False when the pair must be left out. */
static bool check_key(struct builder *b, const struct yaml_node *k)
{
	if (k->kind != YAML_KIND_SCALAR) {
		fail_at(b, k->line, k->col, "a key must be text, not %s%s", yaml_describe(k),
			k->is_flow
				? "; quote values that begin with `{` or `[`, such as \"${{ … }}\""
				: "");
		return false;
	}
	if (k->style == YAML_STYLE_PLAIN && strcmp(k->text, "<<") == 0)
		fail_at(b, k->line, k->col,
			"merge keys (`<<`) are not part of the YAML that is read here; use an "
			"alias for a whole value");
	return true;
}

static void close_map(struct builder *b, const struct frame *f, struct extra *extra)
{
	struct yaml_node *n = f->node;
	size_t count = b->members.n - f->first;
	struct yaml_node **m = count ? b->members.v + f->first : NULL;

	n->pairs = arena_alloc(b->tree->arena, (count / 2 + 1) * sizeof(*n->pairs));
	for (size_t i = 0; i + 1 < count; i += 2)
		if (check_key(b, m[i]))
			n->pairs[n->len++] = (struct yaml_pair){ m[i], m[i + 1] };
	if (n->len > INDEX_FROM) {
		extra->index = map_new();
		VEC_PUSH(&b->tree->priv->indexes, extra->index);
	}
	for (size_t i = 0; i < n->len && extra->index; i++) {
		const struct yaml_node *k = n->pairs[i].key;
		void **slot = map_slot(extra->index, k->text, k->len, NULL);

		if (!*slot)
			*slot = (void *)(uintptr_t)(i + 1);
	}
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *k = n->pairs[i].key;
		const struct yaml_pair *first = yaml_find(n, k->text, k->len);

		if (first != &n->pairs[i])
			fail_at(b, k->line, k->col, "`%s` is given twice; the first is at line %d",
				k->text, first->key->line);
	}
}

static int close_collection(struct builder *b)
{
	struct frame f = b->frames.v[--b->frames.n];
	struct extra *extra = arena_alloc(b->tree->arena, sizeof(*extra));
	struct yaml_node *n = f.node;

	n->height = f.height;
	n->internal = extra;
	extra->met = f.met;
	if (n->kind == YAML_KIND_MAP) {
		close_map(b, &f, extra);
	} else {
		n->len = b->members.n - f.first;
		n->items = n->len ? arena_memdup(b->tree->arena, b->members.v + f.first,
						 n->len * sizeof(*n->items))
				  : NULL;
	}
	b->members.n = f.first;
	set_anchor(b, f.anchor, n);
	return add_node(b, n);
}

/* 1 at the end of the stream, 0 to continue, -1 when continuing makes no sense. */
static int on_event(struct builder *b, const yaml_event_t *e)
{
	switch (e->type) {
	case YAML_STREAM_END_EVENT:
		return 1;
	case YAML_DOCUMENT_START_EVENT:
		if (b->tree->root) {
			fail_at(b, (int)e->start_mark.line + 1, (int)e->start_mark.column + 1,
				"a second document begins here; a file holds one");
			return -1;
		}
		return 0;
	case YAML_SCALAR_EVENT:
		return on_scalar(b, e);
	case YAML_ALIAS_EVENT:
		return on_alias(b, e);
	case YAML_MAPPING_START_EVENT:
		return open_collection(b, YAML_KIND_MAP, e, e->data.mapping_start.anchor,
				       e->data.mapping_start.tag,
				       e->data.mapping_start.style == YAML_FLOW_MAPPING_STYLE);
	case YAML_SEQUENCE_START_EVENT:
		return open_collection(b, YAML_KIND_SEQ, e, e->data.sequence_start.anchor,
				       e->data.sequence_start.tag,
				       e->data.sequence_start.style == YAML_FLOW_SEQUENCE_STYLE);
	case YAML_MAPPING_END_EVENT:
	case YAML_SEQUENCE_END_EVENT:
		return close_collection(b);
	default:
		return 0;
	}
}

/* The bytes of one line (counted from 0) without its end; empty when there is no such line. */
static const char *line_at(const struct builder *b, size_t line, size_t *ret_len)
{
	const char *at = b->bytes, *end = b->bytes + b->len, *eol;

	for (; line && at < end; line--) {
		eol = memchr(at, '\n', (size_t)(end - at));
		at = eol ? eol + 1 : end;
	}
	eol = at < end ? memchr(at, '\n', (size_t)(end - at)) : NULL;
	*ret_len = (size_t)((eol ? eol : end) - at);
	return at;
}

/* libyaml's problems in words for people who don't know its grammar, with the usual cause. `begin`:
 * the place is where the thing began, not where the parser gave up. */
static const struct {
	const char *problem, *words;
	bool begin;
} syntax_words[] = {
	{ "did not find expected ',' or '}'", "a `,` or `}` is missing before this", false },
	{ "did not find expected ',' or ']'", "a `,` or `]` is missing before this", false },
	{ "found unexpected end of stream", "these quotes aren't closed", true },
	{ "found character that cannot start any token",
	  "a plain value can't begin with this character: quote the value", false },
	{ "found a tab character that violates indentation", "indent with spaces, not with tabs",
	  false },
	{ "found unknown escape character",
	  "double quotes have no such escape: double the backslash, or use single quotes", false },
	{ "could not find expected ':'", "this is no `key: value`, as the lines around it are",
	  true },
	{ "block sequence entries are not allowed in this context",
	  "a list can't begin here: begin each item on a line of its own", false },
	{ "did not find expected '-' indicator",
	  "this is no item of the list above: begin it with `- `, below the others", false },
	{ "did not find expected alphabetic or numeric character",
	  "`*` and `&` begin the name of an anchor: quote the value", true },
	{ "did not find expected node content", "a value is missing before this", false },
};

struct place {
	const char *line; /* of the file */
	size_t len, at;   /* at: byte of the mark in it */
};

static struct place place_at(const struct builder *b, const yaml_mark_t *mark)
{
	struct place p = { 0 };
	uint32_t cp;

	p.line = line_at(b, mark->line, &p.len);
	for (size_t i = 0; i < mark->column && p.at < p.len; i++) {
		size_t n = text_utf8_decode(p.line + p.at, p.len - p.at, &cp);

		p.at += n ? n : 1;
	}
	return p;
}

static bool only_indent_before(const struct place *p)
{
	for (size_t i = 0; i < p->at; i++)
		if (p->line[i] != ' ')
			return false;
	return true;
}

/* The two problems that have two usual causes; the text before the place tells which. */
static const char *words_by_place(const char *problem, const struct place *p)
{
	if (str_eq(problem, "mapping values are not allowed in this context"))
		return memmem(p->line, p->at, ": ", 2)
			       ? "a plain value can't have `: ` in it: quote the value, or write "
				 "it as a block below `|`"
			       : "a key can't stand here: it is indented like no key above it, or "
				 "a "
				 "`:` is missing above";
	if (str_eq(problem, "did not find expected key"))
		return only_indent_before(p)
			       ? "this line is indented like no key above it"
			       : "nothing can follow a value in quotes or brackets: quote the "
				 "whole value";
	return NULL;
}

static void on_problem(struct builder *b, const yaml_parser_t *parser)
{
	const yaml_mark_t *mark = &parser->problem_mark;
	const char *what = parser->problem ? parser->problem : "not YAML", *advice = "";
	struct place p = place_at(b, mark);
	const char *words = words_by_place(what, &p);

	for (size_t i = 0; i < ARRAY_LEN(syntax_words); i++)
		if (str_eq(what, syntax_words[i].problem)) {
			words = syntax_words[i].words;
			if (syntax_words[i].begin && parser->context)
				mark = &parser->context_mark;
		}
	if (p.at < p.len && p.line[p.at] == '\t')
		words = "indent with spaces, not with tabs";
	else if (memmem(p.line, p.len, "${{", 3))
		advice = "; quote values with ${{ }} inside of { } or [ ]";
	if (words)
		fail_at(b, (int)mark->line + 1, (int)mark->column + 1, "%s%s", words, advice);
	else
		fail_at(b, (int)mark->line + 1, (int)mark->column + 1, "%s%s%s%s",
			parser->context ? parser->context : "", parser->context ? ": " : "", what,
			advice);
}

/* libyaml's reader gives only the number of bytes read, perhaps including the start of a malformed
 * character. */
static void on_reader_error(struct builder *b, const yaml_parser_t *p, const char *what)
{
	int line = 1, col = 1;
	size_t n;

	for (size_t i = 0; i < p->problem_offset && i < b->len; i += n) {
		uint32_t cp;

		n = text_utf8_decode(b->bytes + i, b->len - i, &cp);
		if (n == 0)
			break;
		col = cp == '\n' ? 1 : col + 1;
		line += cp == '\n';
	}
	fail_at(b, line, col, "the file must be UTF-8 text: %s", what);
}

static void on_syntax_error(struct builder *b, const yaml_parser_t *p)
{
	const char *what = p->problem ? p->problem : "not YAML";

	if (p->error == YAML_READER_ERROR)
		on_reader_error(b, p, what);
	else
		on_problem(b, p);
}

static void parse_events(struct builder *b)
{
	yaml_parser_t parser;
	int r = 0;

	if (!yaml_parser_initialize(&parser))
		mem_die(sizeof(parser));
	yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(&parser, (const unsigned char *)b->bytes, b->len);
	while (r == 0) {
		yaml_event_t e;

		if (!yaml_parser_parse(&parser, &e)) {
			if (parser.error == YAML_MEMORY_ERROR)
				mem_die(b->len);
			on_syntax_error(b, &parser);
			break;
		}
		r = on_event(b, &e);
		yaml_event_delete(&e);
	}
	yaml_parser_delete(&parser);
}

int yaml_tree_parse(const char *file, const char *bytes, size_t len, struct diag_list *diags,
		    struct yaml_tree **ret, struct err *err)
{
	_cleanup_(yaml_tree_freep) struct yaml_tree *t = xcalloc(1, sizeof(*t));
	size_t bom = len >= 3 && len <= YAML_FILE_MAX && memcmp(bytes, "\xef\xbb\xbf", 3) == 0
			     ? 3
			     : 0; /* libyaml would count it as a column */
	struct builder b = { .tree = t, .diags = diags, .bytes = bytes + bom, .len = len - bom };
	size_t errors_before = diag_errors(diags);

	t->arena = arena_new();
	t->priv = arena_alloc(t->arena, sizeof(*t->priv));
	t->file = arena_strdup(t->arena, file);
	if (len > YAML_FILE_MAX)
		return err_set(err, ERR_TOO_LARGE, "%s is larger than %llu MiB", file,
			       (unsigned long long)(YAML_FILE_MAX / MIB));
	b.anchors = map_new();
	parse_events(&b);
	map_free(b.anchors);
	VEC_FREE(&b.frames);
	VEC_FREE(&b.members);
	if (diag_errors(diags) > errors_before)
		return diag_to_err(diags, file, err);
	if (!t->root) {
		t->root = arena_alloc(t->arena, sizeof(*t->root));
		*t->root = (struct yaml_node){
			.kind = YAML_KIND_SCALAR, .line = 1, .col = 1, .height = 1, .text = ""
		};
	}
	*ret = TAKE_PTR(t);
	return 0;
}

int yaml_tree_load(const char *path, struct diag_list *diags, struct yaml_tree **ret,
		   struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	if (fs_read_file(path, YAML_FILE_MAX, &text, err) < 0)
		return -1;
	return yaml_tree_parse(path, text.len ? text.s : "", text.len, diags, ret, err);
}

void yaml_tree_free(struct yaml_tree *t)
{
	if (!t)
		return;
	for (size_t i = 0; i < t->priv->indexes.n; i++)
		map_free(t->priv->indexes.v[i]);
	VEC_FREE(&t->priv->indexes);
	arena_free(t->arena);
	free(t);
}
