/* engine/model/cache/codec_base.c — the parts of models: numbers, strings, arrays, positions,
 * values, references, expressions, templates. The design and the format are in codec.c.
 *
 * Each c_* function goes both ways: it appends to `out` when it encodes and takes from `p` when it
 * decodes. codec_fail() moves `p` to the end, so that everything after it reads as 0, "" or empty,
 * and loops stop at `failed`.
 *
 * Decoded data is used only after a check here: a count fits the bytes that are left (c_fits()), an
 * enum is in its range, a reference points at something that exists and at a step that this one
 * depends on (c_ref_to()), a call has as many arguments as its function takes, and recursion has a
 * limit. File names are numbered in the order of their first use (c_file()).
 */
#include "model/cache/codec.h"

#define VALUE_DEPTH_MAX 2 /* lists hold scalars */

void codec_fail(struct codec *c)
{
	c->failed = true;
	c->p = c->end;
}

/* Numbers and strings. */

static void put_u64(struct codec *c, uint64_t v)
{
	unsigned char buf[10];
	size_t n = 0;

	do {
		buf[n] = (unsigned char)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
		n++;
		v >>= 7;
	} while (v);
	str_addn(c->out, buf, n);
}

static uint64_t get_u64_long(struct codec *c)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64; shift += 7) {
		unsigned char b;

		if (c->p == c->end)
			break;
		b = (unsigned char)*c->p++;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			return v;
	}
	codec_fail(c);
	return 0;
}

static inline uint64_t get_u64(struct codec *c)
{
	if (c->p < c->end && !(*c->p & 0x80)) /* most numbers are small */
		return (uint64_t)*c->p++;
	return get_u64_long(c);
}

void c_u64(struct codec *c, uint64_t *v)
{
	if (c->decoding)
		*v = get_u64(c);
	else
		put_u64(c, *v);
}

void c_i64(struct codec *c, int64_t *v)
{
	uint64_t z = ((uint64_t)*v << 1) ^ (uint64_t)(*v >> 63);

	if (!c->decoding) {
		put_u64(c, z);
		return;
	}
	z = get_u64(c);
	*v = (int64_t)(z >> 1) ^ -(int64_t)(z & 1);
}

/* A number of at most `max`. */
uint64_t c_max(struct codec *c, uint64_t v, uint64_t max)
{
	c_u64(c, &v);
	if (v > max) {
		codec_fail(c);
		return 0;
	}
	return v;
}

void c_f64(struct codec *c, double *v)
{
	if (!c->decoding) {
		str_addn(c->out, v, sizeof(*v));
	} else if ((size_t)(c->end - c->p) < sizeof(*v)) {
		codec_fail(c);
	} else {
		memcpy(v, c->p, sizeof(*v));
		c->p += sizeof(*v);
	}
}

void c_str(struct codec *c, const char **s)
{
	uint64_t n;

	if (!c->decoding) {
		n = *s ? strlen(*s) : 0;
		put_u64(c, *s ? n + 1 : 0);
		if (*s)
			str_addn(c->out, *s, n + 1);
		return;
	}
	n = get_u64(c);
	*s = NULL;
	if (n == 0)
		return;
	if (n > (size_t)(c->end - c->p) || c->p[n - 1] != '\0') {
		codec_fail(c);
		return;
	}
	*s = c->p;
	c->p += n;
}

/* A string that is never NULL. */
void c_name(struct codec *c, const char **s)
{
	c_str(c, s);
	if (!*s) {
		*s = "";
		codec_fail(c);
	}
}

static void c_place(struct codec *c, int *line, int *col)
{
	C_MAX(c, *line, INT32_MAX);
	C_MAX(c, *col, INT32_MAX);
}

bool c_fits(struct codec *c, uint64_t n, size_t item_bytes)
{
	if (!c->decoding || n <= (size_t)(c->end - c->p) / item_bytes)
		return true;
	codec_fail(c);
	return false;
}

void c_count(struct codec *c, size_t *n, size_t item_bytes)
{
	uint64_t v = *n;

	c_u64(c, &v);
	if (c->decoding)
		*n = c_fits(c, v, item_bytes) ? (size_t)v : 0;
}

void *c_new(struct codec *c, const void *old, size_t bytes)
{
	size_t rounded = (bytes + 7) & ~(size_t)7; /* nothing in a model is aligned to more */
	void *p = c->pool;

	if (!c->decoding) {
		c->pool_bytes += rounded;
		return MUTABLE(old);
	}
	if (rounded > c->pool_bytes)
		return arena_alloc(c->arena, bytes);
	c->pool += rounded;
	c->pool_bytes -= rounded;
	return p;
}

void *c_alloc(struct codec *c, const void *old, size_t n, size_t size)
{
	return c->decoding && n == 0 ? NULL : c_new(c, old, n * size);
}

uint32_t codec_number_of(struct codec *c, const void *p, bool *ret_new)
{
	void **slot = map_slot(c->seen, &p, sizeof(p), ret_new);

	return (uint32_t)(uintptr_t)*slot;
}

static void c_file(struct codec *c, const char **file)
{
	bool is_new = false;
	uint64_t n;

	if (!c->decoding) {
		if (*file != c->last_file || !*file) {
			c->last_number = codec_number_of(c, *file, &is_new);
			c->last_file = *file;
		}
		if (is_new) {
			VEC_PUSH(&c->files, *file);
			*map_slot(c->seen, file, sizeof(*file), NULL) = (void *)(c->files.n - 1);
			c->last_number = (uint32_t)c->files.n - 1;
		}
		put_u64(c, c->last_number);
		if (is_new)
			c_str(c, file);
		return;
	}
	n = c_max(c, 0, c->files.n);
	if (n == c->files.n && !c->failed) {
		c_name(c, file);
		VEC_PUSH(&c->files, *file);
	}
	*file = c->failed ? "" : c->files.v[n];
}

void c_pos(struct codec *c, struct pos *pos)
{
	c_file(c, &pos->file);
	c_place(c, &pos->line, &pos->col);
}

/* Values and expressions. */

static void c_value_at(struct codec *c, struct value *v, unsigned depth)
{
	struct value *items;

	C_ENUM(c, v->type, VALUE_LIST + 1);
	switch (v->type) {
	case VALUE_NULL:
		break;
	case VALUE_BOOL:
		C_BOOL(c, v->b);
		break;
	case VALUE_INT:
		c_i64(c, &v->i);
		break;
	case VALUE_FLOAT:
		c_f64(c, &v->f);
		break;
	case VALUE_STRING:
		c_name(c, &v->s);
		break;
	case VALUE_LIST:
		if (depth == VALUE_DEPTH_MAX)
			codec_fail(c);
		c_count(c, &v->list.n, ITEM_VALUE);
		items = c_alloc(c, v->list.v, v->list.n, sizeof(*v));
		if (c->decoding)
			v->list.v = items;
		for (size_t i = 0; i < v->list.n && !c->failed; i++)
			c_value_at(c, &items[i], depth + 1);
		break;
	case VALUE_OBJECT: /* a model has none */
		codec_fail(c);
		break;
	}
}

void c_value(struct codec *c, struct value *v)
{
	c_value_at(c, v, 1);
}

/* The number of things that a reference of this kind can point at. */
static size_t ref_limit(const struct codec *c, const struct ref *r)
{
	const struct step *s = c->s;

	switch (r->kind) {
	case REF_PARAM:
		return pipeline_n_values(c->pl);
	case REF_PIPELINE_INPUT:
		return c->pl->n_inputs;
	case REF_STEP_OUTPUT:
	case REF_STEP_VALUE:
		return c->pl->steps[r->step].n_outputs;
	case REF_LOCAL:
		return s ? s->program.n_locals : 0;
	case REF_INPUT:
		return s ? s->n_inputs : 0;
	case REF_OUTPUT:
		return s ? s->n_outputs : 0;
	case REF_MATRIX:
		return s ? s->tasks->matrix.n_axes : 0;
	case REF_SCHEDULE:
		return 5;
	default:
		return 1;
	}
}

/* A reference without its position. */
static void c_ref_to(struct codec *c, struct ref *r)
{
	C_ENUM(c, r->kind, REF_KINDS);
	C_U32(c, r->step);
	C_U32(c, r->index);
	c_name(c, &r->name);
	c->refers_to_step |= r->kind != REF_PARAM && r->kind != REF_PIPELINE_INPUT;
	if (!c->decoding || c->failed)
		return;
	if (r->kind >= REF_STEP_OUTPUT && r->kind <= REF_STEP_STATE) {
		if (!c->s || r->step >= c->pl->n_steps ||
		    (c->needed[r->step] != c->s->index + 1 &&
		     !(c->s->tasks->repeat && r->step == c->s->index)))
			codec_fail(c);
	} else if (r->kind >= REF_ITEM && r->kind <= REF_ITEM_VALUE &&
		   (!c->s || !c->s->tasks->each)) {
		codec_fail(c);
	} else if (r->kind == REF_ROUND && (!c->s || !c->s->tasks->repeat)) {
		codec_fail(c);
	}
	if (!c->failed && r->index >= ref_limit(c, r))
		codec_fail(c);
}

void c_ref(struct codec *c, struct ref *r)
{
	c_ref_to(c, r);
	c_place(c, &r->line, &r->col);
}

static void c_expr_at(struct codec *c, struct expr *e, unsigned depth);

static bool args_fit(const struct expr *e)
{
	switch ((enum expr_kind)e->kind) {
	case EXPR_NOT:
		return e->n_args == 1;
	case EXPR_CALC:
		return e->n_args >= 1;
	case EXPR_COMPARE:
		return e->n_args == 2 && e->op < COMPARE_OPS;
	case EXPR_CALL:
		return e->op < EXPR_FUNCS && e->n_args >= expr_funcs[e->op].min_args &&
		       e->n_args <= expr_funcs[e->op].max_args;
	default:
		return true;
	}
}

/* A parenthesis costs at most two chains of conditions, a comparison, two chains of numbers and a
 * unary node: one level in the parser is at most 6 levels here. */
static void c_expr_at(struct codec *c, struct expr *e, unsigned depth)
{
	size_t n;

	C_ENUM(c, e->kind, EXPR_KINDS);
	C_ENUM(c, e->op, 256);
	C_ENUM(c, e->calc, CALC_OPS);
	c_place(c, &e->line, &e->col);
	if (c->decoding)
		e->file = c->file;
	if (e->kind == EXPR_CONST) {
		c_value(c, &e->value);
		return;
	}
	if (e->kind == EXPR_REF) {
		c_ref_to(c, &e->ref); /* its position is the expression's */
		if (c->decoding) {
			e->ref.line = e->line;
			e->ref.col = e->col;
		}
		return;
	}
	n = e->n_args;
	c_count(c, &n, ITEM_ARG);
	if (n > EXPR_ARGS_MAX || depth > 6 * EXPR_DEPTH_MAX) {
		codec_fail(c);
		n = 0;
	}
	e->n_args = (uint32_t)n;
	e->args = c_new(c, e->args, n * sizeof(struct expr *));
	for (size_t i = 0; i < n && !c->failed; i++) {
		const char *file = c->decoding ? NULL : e->args[i]->file, *around = c->file;

		e->args[i] = c_new(c, e->args[i], sizeof(struct expr));
		if (e->kind == EXPR_AND) { /* conditions of a using step and of its inner step */
			c_file(c, &file);
			c->file = file;
		}
		c_expr_at(c, e->args[i], depth + 1);
		c->file = around;
	}
	if (!c->failed && !args_fit(e))
		codec_fail(c);
}

static void c_part(struct codec *c, struct expr_part *part)
{
	bool is_expr = part->expr != NULL;

	C_BOOL(c, is_expr);
	if (is_expr) {
		part->expr = c_new(c, part->expr, sizeof(struct expr));
		c_expr_at(c, MUTABLE(part->expr), 0);
		return;
	}
	c_name(c, &part->text);
	if (c->decoding)
		part->len = strlen(part->text);
}

void c_template(struct codec *c, const struct expr_template **t)
{
	bool is = *t != NULL;
	struct expr_template *m;

	C_BOOL(c, is);
	if (!is)
		return;
	m = c_new(c, *t, sizeof(*m));
	*t = m;
	c_file(c, &m->file);
	c_place(c, &m->line, &m->col);
	c->file = m->file;
	C_ARRAY(c, m->parts, m->n_parts, ITEM_PART, c_part);
}

void c_template1(struct codec *c, const struct expr_template **t)
{
	c_template(c, t);
	if (!*t)
		codec_fail(c);
}

void c_named_template(struct codec *c, struct named_template *t)
{
	c_name(c, &t->name);
	c_template1(c, &t->value);
	c_pos(c, &t->pos);
}

void c_condition(struct codec *c, const struct expr **e)
{
	const char *file = c->decoding ? NULL : (*e)->file;

	*e = c_new(c, *e, sizeof(struct expr));
	c_file(c, &file);
	c->file = file;
	c_expr_at(c, MUTABLE(*e), 0);
}
