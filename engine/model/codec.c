/* One visitor both encodes and decodes: each function says once what a thing consists of, so that the two can't part. When
 * it encodes, it only reads the model (the casts away from const are for decoding); when it decodes, every count is held
 * against the bytes that are left, every enum and index against its range, and the first violation fails the whole. Each
 * item of an array is known to take some bytes at least (ITEM_*), so that hostile counts can't ask for much memory.
 *
 * Numbers are LEB128 varints (signed ones zigzag), doubles 8 bytes, strings a length + 1 (0: NULL), the bytes and a NUL;
 * decoded strings point into the input. File names and the params of step files are written where they first occur and
 * are numbers from then on. The shapes of all steps come before their bodies, since references point both ways. */
#include "model/cache.h"

#define VALUE_DEPTH_MAX 2 /* lists hold scalars */

struct shared_params {
	const struct param_decl *v;
	size_t n;
};

struct codec {
	bool decoding, failed;
	struct str *out;
	const char *p, *end;
	struct arena *arena;
	struct pipeline *pl;
	struct step *s;	   /* whose parts are visited; NULL outside of steps */
	const char *file;  /* of the template or expression that is visited */
	uint32_t *needed;  /* per step: the step (index + 1) that has it among its deps */
	VEC(const char *) files;
	VEC(struct shared_params) shared;
	struct map *seen; /* pointer → number + 1, for both tables */
	const char *last_file;
	uint32_t last_number;
};

#define MUTABLE(p) ((void *)(uintptr_t)(p))

static void fail(struct codec *c)
{
	c->failed = true;
	c->p = c->end;
}

/* --- numbers and strings -------------------------------------------------------------------------------------------- */

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
	fail(c);
	return 0;
}

static inline uint64_t get_u64(struct codec *c)
{
	if (c->p < c->end && !(*c->p & 0x80)) /* most numbers are small */
		return (uint64_t)*c->p++;
	return get_u64_long(c);
}

static void c_u64(struct codec *c, uint64_t *v)
{
	if (c->decoding)
		*v = get_u64(c);
	else
		put_u64(c, *v);
}

static void c_i64(struct codec *c, int64_t *v)
{
	uint64_t z = ((uint64_t)*v << 1) ^ (uint64_t)(*v >> 63);

	if (!c->decoding) {
		put_u64(c, z);
		return;
	}
	z = get_u64(c);
	*v = (int64_t)(z >> 1) ^ -(int64_t)(z & 1);
}

/* At most `max`. */
static uint64_t c_max(struct codec *c, uint64_t v, uint64_t max)
{
	c_u64(c, &v);
	if (v > max) {
		fail(c);
		return 0;
	}
	return v;
}

#define C_MAX(c, field, max)                                                  \
	do {                                                                  \
		uint64_t _max = c_max((c), (uint64_t)(field), (max));         \
		if ((c)->decoding)                                            \
			(field) = (__typeof__(field))_max;                    \
	} while (0)
#define C_U32(c, field) C_MAX(c, field, UINT32_MAX)
#define C_BOOL(c, field) C_MAX(c, field, 1)
#define C_ENUM(c, field, n) C_MAX(c, field, (n)-1)

static void c_f64(struct codec *c, double *v)
{
	if (!c->decoding) {
		str_addn(c->out, v, sizeof(*v));
	} else if ((size_t)(c->end - c->p) < sizeof(*v)) {
		fail(c);
	} else {
		memcpy(v, c->p, sizeof(*v));
		c->p += sizeof(*v);
	}
}

static void c_str(struct codec *c, const char **s)
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
		fail(c);
		return;
	}
	*s = c->p;
	c->p += n;
}

/* One that is never NULL. */
static void c_name(struct codec *c, const char **s)
{
	c_str(c, s);
	if (!*s) {
		*s = "";
		fail(c);
	}
}

static void c_place(struct codec *c, int *line, int *col)
{
	C_MAX(c, *line, INT32_MAX);
	C_MAX(c, *col, INT32_MAX);
}

/* The fewest bytes that one of them takes; less than it really is does no harm. */
enum { ITEM_ANY = 1, ITEM_VALUE = 1, ITEM_PART = 2, ITEM_ARG = 4, ITEM_NAMED = 6, ITEM_IO = 6, ITEM_DEP = 6, ITEM_GATE = 14, ITEM_PARAM = 20,
       ITEM_STEP = 10 };

static bool c_fits(struct codec *c, uint64_t n, size_t item_bytes)
{
	if (!c->decoding || n <= (size_t)(c->end - c->p) / item_bytes)
		return true;
	fail(c);
	return false;
}

static void c_count(struct codec *c, size_t *n, size_t item_bytes)
{
	uint64_t v = *n;

	c_u64(c, &v);
	if (c->decoding)
		*n = c_fits(c, v, item_bytes) ? (size_t)v : 0;
}

/* Fresh memory is written to before it is read: reading first would cost a second page fault for each page. */
static void *c_fresh(struct codec *c, size_t bytes)
{
	volatile char *p = arena_alloc(c->arena, bytes);

	for (size_t i = 0; i < bytes; i += 4096)
		p[i] = 0;
	if (bytes)
		p[bytes - 1] = 0;
	return MUTABLE(p);
}

static void *c_alloc(struct codec *c, const void *old, size_t n, size_t size)
{
	return c->decoding ? (n ? c_fresh(c, n * size) : NULL) : MUTABLE(old);
}

/* The items of an array whose length is known. */
#define C_ITEMS(c, ptr, n, item_bytes, visit)                                                          \
	do {                                                                                           \
		size_t _n = c_fits((c), (n), (item_bytes)) ? (n) : 0;                                  \
		char *_v = c_alloc((c), (ptr), _n, sizeof(*(ptr)));                                    \
		if ((c)->decoding)                                                                     \
			(ptr) = (void *)_v;                                                            \
		for (size_t _i = 0; _i < _n && !(c)->failed; _i++)                                     \
			visit((c), (void *)(_v + _i * sizeof(*(ptr))));                                \
	} while (0)

#define C_ARRAY(c, ptr, n, item_bytes, visit)           \
	do {                                            \
		c_count(c, &(n), (item_bytes));         \
		C_ITEMS(c, ptr, n, item_bytes, visit);  \
	} while (0)

static uint32_t number_of(struct codec *c, const void *p, bool *ret_new)
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
			c->last_number = number_of(c, *file, &is_new);
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

static void c_pos(struct codec *c, struct pos *pos)
{
	c_file(c, &pos->file);
	c_place(c, &pos->line, &pos->col);
}

/* --- values and expressions ----------------------------------------------------------------------------------------- */

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
			fail(c);
		c_count(c, &v->list.n, ITEM_VALUE);
		items = c_alloc(c, v->list.v, v->list.n, sizeof(*v));
		if (c->decoding)
			v->list.v = items;
		for (size_t i = 0; i < v->list.n && !c->failed; i++)
			c_value_at(c, &items[i], depth + 1);
		break;
	}
}

static void c_value(struct codec *c, struct value *v)
{
	c_value_at(c, v, 1);
}

/* How many things a reference of this kind can point at. */
static size_t ref_limit(const struct codec *c, const struct ref *r)
{
	const struct step *s = c->s;

	switch (r->kind) {
	case REF_PARAM:
		return c->pl->n_params;
	case REF_PIPELINE_INPUT:
		return c->pl->n_inputs;
	case REF_STEP_OUTPUT:
		return c->pl->steps[r->step].n_outputs;
	case REF_LOCAL:
		return s ? s->n_locals : 0;
	case REF_INPUT:
		return s ? s->n_inputs : 0;
	case REF_OUTPUT:
		return s ? s->n_outputs : 0;
	case REF_MATRIX:
		return s ? s->n_axes : 0;
	case REF_SCHEDULE:
		return 4;
	default:
		return 1;
	}
}

/* Without its place. */
static void c_ref_to(struct codec *c, struct ref *r)
{
	C_ENUM(c, r->kind, REF_SCHEDULE + 1);
	C_U32(c, r->step);
	C_U32(c, r->index);
	c_name(c, &r->name);
	if (!c->decoding || c->failed)
		return;
	if (r->kind == REF_STEP_OUTPUT || r->kind == REF_STEP_METRIC) {
		if (!c->s || r->step >= c->pl->n_steps || c->needed[r->step] != c->s->index + 1)
			fail(c);
	} else if (r->kind >= REF_ITEM && r->kind <= REF_ITEM_STEM && (!c->s || !c->s->each)) {
		fail(c);
	}
	if (!c->failed && r->index >= ref_limit(c, r))
		fail(c);
}

static void c_ref(struct codec *c, struct ref *r)
{
	c_ref_to(c, r);
	c_place(c, &r->line, &r->col);
}

static void c_expr_at(struct codec *c, struct expr *e, unsigned depth);

static void c_args(struct codec *c, struct expr *e, unsigned depth)
{
	size_t n = e->n_args;

	c_count(c, &n, ITEM_ARG);
	if (n > EXPR_ARGS_MAX) {
		fail(c);
		n = 0;
	}
	if (c->decoding) {
		e->n_args = (uint32_t)n;
		e->args = c_fresh(c, n * sizeof(struct expr *));
	}
	for (size_t i = 0; i < n && !c->failed; i++) {
		if (c->decoding)
			e->args[i] = c_fresh(c, sizeof(struct expr));
		c_expr_at(c, e->args[i], depth + 1);
	}
}

static bool args_fit(const struct expr *e)
{
	switch ((enum expr_kind)e->kind) {
	case EXPR_NOT:
		return e->n_args == 1;
	case EXPR_COMPARE:
		return e->n_args == 2 && e->op < COMPARE_OPS;
	case EXPR_CALL:
		return e->op < EXPR_FUNCS && e->n_args >= expr_funcs[e->op].min_args && e->n_args <= expr_funcs[e->op].max_args;
	default:
		return true;
	}
}

/* A parenthesis costs a chain, a comparison and a unary node at most: 4 levels here for one there. */
static void c_expr_at(struct codec *c, struct expr *e, unsigned depth)
{
	C_ENUM(c, e->kind, EXPR_KINDS);
	C_ENUM(c, e->op, 256);
	c_place(c, &e->line, &e->col);
	if (c->decoding)
		e->file = c->file;
	if (e->kind == EXPR_CONST)
		c_value(c, &e->value);
	else if (e->kind == EXPR_REF)
		c_ref_to(c, &e->ref); /* its place is the expression's */
	else if (depth > 4 * EXPR_DEPTH_MAX)
		fail(c);
	else
		c_args(c, e, depth);
	if (c->decoding && e->kind == EXPR_REF) {
		e->ref.line = e->line;
		e->ref.col = e->col;
	}
	if (!c->failed && e->kind != EXPR_CONST && e->kind != EXPR_REF && !args_fit(e))
		fail(c);
}

static void c_part(struct codec *c, struct expr_part *part)
{
	bool is_expr = part->expr != NULL;

	C_BOOL(c, is_expr);
	if (is_expr) {
		if (c->decoding)
			part->expr = c_fresh(c, sizeof(struct expr));
		c_expr_at(c, MUTABLE(part->expr), 0);
		return;
	}
	c_name(c, &part->text);
	if (c->decoding)
		part->len = strlen(part->text);
}

static void c_template(struct codec *c, const struct expr_template **t)
{
	bool is = *t != NULL;
	struct expr_template *m;

	C_BOOL(c, is);
	if (!is)
		return;
	m = c_alloc(c, *t, 1, sizeof(*m));
	if (c->decoding)
		*t = m;
	c_file(c, &m->file);
	c_place(c, &m->line, &m->col);
	c->file = m->file;
	C_ARRAY(c, m->parts, m->n_parts, ITEM_PART, c_part);
}

static void c_template1(struct codec *c, const struct expr_template **t)
{
	c_template(c, t);
	if (!*t)
		fail(c);
}

static void c_named_template(struct codec *c, struct named_template *t)
{
	c_name(c, &t->name);
	c_template1(c, &t->value);
	c_pos(c, &t->pos);
}

static void c_condition(struct codec *c, const struct expr **e)
{
	const char *file = c->decoding ? NULL : (*e)->file;

	if (c->decoding)
		*e = arena_alloc(c->arena, sizeof(struct expr));
	c_file(c, &file);
	c->file = file;
	c_expr_at(c, MUTABLE(*e), 0);
}

/* --- declarations --------------------------------------------------------------------------------------------------- */

static void c_param(struct codec *c, struct param_decl *d)
{
	c_name(c, &d->name);
	c_str(c, &d->help);
	C_ENUM(c, d->type, VALUE_LIST + 1);
	C_BOOL(c, d->has_default);
	if (d->has_default)
		c_value(c, &d->def);
	if (d->has_default && d->def.type != d->type)
		fail(c);
	C_BOOL(c, d->has_min);
	C_BOOL(c, d->has_max);
	c_f64(c, &d->min);
	c_f64(c, &d->max);
	C_ARRAY(c, d->choices, d->n_choices, ITEM_VALUE, c_value);
	c_pos(c, &d->pos);
}

static void c_input(struct codec *c, struct input_decl *in)
{
	c_name(c, &in->name);
	C_ENUM(c, in->origin, INPUT_ARTIFACT + 1);
	c_name(c, &in->uri);
	C_BOOL(c, in->by_reference);
	C_BOOL(c, in->optional_dir);
	c_pos(c, &in->pos);
}

static void c_schedule(struct codec *c, struct schedule_decl *s)
{
	c_name(c, &s->name);
	c_name(c, &s->cron);
	c_name(c, &s->timezone);
	c_name(c, &s->overlap);
	c_name(c, &s->catch_up);
	c_name(c, &s->dst);
	c_i64(c, &s->catch_up_window_ns);
	C_ARRAY(c, s->params, s->n_params, ITEM_NAMED, c_named_template);
	c_pos(c, &s->pos);
}

/* --- steps ---------------------------------------------------------------------------------------------------------- */

/* The params of a step file are written once, where a step that uses it comes first. */
static void c_shared_params(struct codec *c, struct step *s)
{
	struct shared_params sp = { s->n_locals ? s->locals[0].decl : NULL, s->n_locals };
	bool is_new = false;
	uint64_t n = 0;

	if (!c->decoding) {
		n = number_of(c, sp.v, &is_new);
		if (is_new) {
			n = c->shared.n;
			*map_slot(c->seen, &sp.v, sizeof(sp.v), NULL) = (void *)(uintptr_t)n;
			VEC_PUSH(&c->shared, sp);
		}
	}
	n = c_max(c, n, c->shared.n);
	if (c->decoding)
		is_new = n == c->shared.n;
	if (is_new && !c->failed) {
		C_ARRAY(c, sp.v, sp.n, ITEM_PARAM, c_param);
		if (c->decoding)
			VEC_PUSH(&c->shared, sp);
	}
	if (!c->decoding || c->failed)
		return;
	sp = c->shared.v[n];
	s->n_locals = sp.n;
	s->locals = arena_alloc(c->arena, sp.n * sizeof(*s->locals));
	for (size_t i = 0; i < sp.n; i++)
		((struct step_local *)MUTABLE(s->locals))[i].decl = &sp.v[i];
}

static void c_shape(struct codec *c, struct step *s)
{
	bool has_file = s->n_locals > 0;

	c_name(c, &s->name);
	c_count(c, &s->n_inputs, ITEM_IO);
	c_count(c, &s->n_outputs, ITEM_IO);
	c_count(c, &s->n_axes, ITEM_ANY);
	if (s->n_axes > MATRIX_AXES_MAX)
		fail(c);
	C_BOOL(c, has_file);
	if (has_file)
		c_shared_params(c, s);
}

static void c_step_input(struct codec *c, struct step_input *in)
{
	c_name(c, &in->name);
	c_ref(c, &in->from);
	if (in->from.kind != REF_PIPELINE_INPUT && in->from.kind != REF_STEP_OUTPUT && in->from.kind != REF_ITEM)
		fail(c);
	c_template(c, &in->subpath);
	c_pos(c, &in->pos);
}

static void c_step_output(struct codec *c, struct step_output *o)
{
	c_name(c, &o->name);
	c_name(c, &o->path);
	C_BOOL(c, o->is_dir);
	c_str(c, &o->export_uri);
	c_pos(c, &o->pos);
}

static void c_axis(struct codec *c, struct matrix_axis *a)
{
	c_name(c, &a->name);
	C_ARRAY(c, a->values, a->n_values, ITEM_VALUE, c_value);
	c_template(c, &a->list);
	if (!a->values == !a->list)
		fail(c);
}

static void c_rule(struct codec *c, struct matrix_rule *rule)
{
	C_ITEMS(c, rule->by_axis, c->s->n_axes, ITEM_VALUE, c_value);
}

static void c_each(struct codec *c, const struct each_decl **each)
{
	struct each_decl *e;
	bool literal;

	e = c_alloc(c, *each, 1, sizeof(*e));
	literal = e->values != NULL;
	C_BOOL(c, e->is_list);
	C_BOOL(c, literal);
	if (literal) {
		C_ARRAY(c, e->values, e->n_values, ITEM_VALUE, c_value);
	} else {
		c_ref(c, &e->from);
		c_str(c, &e->glob);
		if (e->is_list ? e->from.kind != REF_PARAM : (!e->glob || (e->from.kind != REF_PIPELINE_INPUT && e->from.kind != REF_STEP_OUTPUT)))
			fail(c);
	}
	if (literal && !e->is_list)
		fail(c);
	if (!c->decoding)
		return;
	if (literal && !e->values)
		e->values = arena_alloc(c->arena, sizeof(*e->values)); /* an empty list is a list all the same */
	*each = e;
}

static void c_pair(struct codec *c, struct axis_pair *pair)
{
	C_U32(c, pair->mine);
	C_U32(c, pair->theirs);
}

static void c_dep(struct codec *c, struct step_dep *d)
{
	C_U32(c, d->step);
	C_BOOL(c, d->data);
	C_BOOL(c, d->metrics);
	C_BOOL(c, d->order);
	C_ARRAY(c, d->shared, d->n_shared, ITEM_PART, c_pair);
	c_pos(c, &d->pos);
	if (!c->decoding || c->failed)
		return;
	if (d->step >= c->pl->n_steps || c->needed[d->step] == c->s->index + 1) {
		fail(c);
		return;
	}
	c->needed[d->step] = c->s->index + 1;
	for (size_t i = 0; i < d->n_shared; i++)
		if (d->shared[i].mine >= c->s->n_axes || d->shared[i].theirs >= c->pl->steps[d->step].n_axes)
			fail(c);
}

static void c_gate(struct codec *c, struct gate_rule *g)
{
	c_name(c, &g->metric);
	C_ENUM(c, g->op, GATE_NE + 1);
	c_f64(c, &g->bound);
	c_name(c, &g->text);
	c_pos(c, &g->pos);
}

static void c_with_at(struct codec *c, struct with_node *w, unsigned depth)
{
	C_ENUM(c, w->kind, WITH_MAP + 1);
	if (w->kind == WITH_SCALAR) {
		c_template1(c, &w->scalar);
		return;
	}
	if (depth > YAML_DEPTH_MAX) {
		fail(c);
		return;
	}
	c_count(c, &w->n, ITEM_PART);
	if (w->kind == WITH_MAP)
		C_ITEMS(c, w->keys, w->n, ITEM_ANY, c_name);
	if (c->decoding)
		w->children = arena_alloc(c->arena, w->n * sizeof(*w));
	for (size_t i = 0; i < w->n && !c->failed; i++)
		c_with_at(c, &w->children[i], depth + 1);
}

static void c_with(struct codec *c, const struct with_node **w)
{
	bool is = *w != NULL;

	C_BOOL(c, is);
	if (!is)
		return;
	if (c->decoding)
		*w = arena_alloc(c->arena, sizeof(**w));
	c_with_at(c, MUTABLE(*w), 0);
}

static void c_retry(struct codec *c, struct retry_policy *r)
{
	for (int i = 0; i < FAILURE_CLASSES; i++)
		C_U32(c, r->budget[i]);
	c_i64(c, &r->backoff_min_ns);
	c_i64(c, &r->backoff_max_ns);
	c_f64(c, &r->oom_memory_factor);
}

/* What a step has beside its shape: most have little, and what they don't have costs nothing. */
enum {
	HAS_DEPS = 1 << 0,
	HAS_RULES = 1 << 1,
	HAS_EACH = 1 << 2,
	HAS_RUN = 1 << 3,
	HAS_STEP_FILE = 1 << 4,
	HAS_ENV = 1 << 5,
	HAS_LISTS = 1 << 6, /* code, secrets, tools */
	HAS_FILES = 1 << 7, /* metrics, checkpoint */
	HAS_PLACE = 1 << 8, /* image, description, volumes */
	HAS_CONDITION = 1 << 9,
	HAS_POLICY = 1 << 10, /* other than the step before it in the file */
	HAS_ALL = (1 << 11) - 1,
};

static bool same_policy(const struct step *a, const struct step *b)
{
	return a->cache == b->cache && !a->salt && !b->salt && !a->seed && !b->seed && a->key_resources == b->key_resources &&
	       a->timeout_ns == b->timeout_ns && memcmp(&a->retry, &b->retry, sizeof(a->retry)) == 0 && a->n_gates == 0 && b->n_gates == 0 &&
	       a->resources.cpu_milli == b->resources.cpu_milli && a->resources.memory_bytes == b->resources.memory_bytes &&
	       a->resources.gpus == b->resources.gpus && !a->concurrency.group && !b->concurrency.group &&
	       a->concurrency.max == b->concurrency.max && !a->distributed.framework && !b->distributed.framework &&
	       a->distributed.nodes == b->distributed.nodes && a->distributed.procs_per_node == b->distributed.procs_per_node &&
	       a->spot == b->spot && a->pack == b->pack && strcmp(a->shell, b->shell) == 0;
}

static void copy_policy(struct step *s, const struct step *from)
{
	s->cache = from->cache;
	s->key_resources = from->key_resources;
	s->timeout_ns = from->timeout_ns;
	s->retry = from->retry;
	s->resources = from->resources;
	s->concurrency.max = from->concurrency.max;
	s->distributed = from->distributed;
	s->spot = from->spot;
	s->pack = from->pack;
	s->shell = from->shell;
}

static unsigned what_it_has(const struct step *s)
{
	unsigned has = 0;

	has |= s->n_deps ? HAS_DEPS : 0;
	has |= s->n_include || s->n_exclude ? HAS_RULES : 0;
	has |= s->each ? HAS_EACH : 0;
	has |= s->run ? HAS_RUN : 0;
	has |= s->step_file ? HAS_STEP_FILE : 0;
	has |= s->n_env ? HAS_ENV : 0;
	has |= s->n_code || s->n_secrets || s->n_tools ? HAS_LISTS : 0;
	has |= s->metrics || s->checkpoint ? HAS_FILES : 0;
	has |= s->image || s->description || s->volumes_json ? HAS_PLACE : 0;
	has |= s->condition ? HAS_CONDITION : 0;
	has |= s->index == 0 || !same_policy(s - 1, s) ? HAS_POLICY : 0;
	return has;
}

static void c_policy(struct codec *c, struct step *s)
{
	c_name(c, &s->shell);
	C_BOOL(c, s->cache);
	c_str(c, &s->salt);
	c_template(c, &s->seed);
	C_BOOL(c, s->key_resources);
	c_i64(c, &s->timeout_ns);
	c_retry(c, &s->retry);
	C_ARRAY(c, s->gates, s->n_gates, ITEM_GATE, c_gate);
	C_U32(c, s->resources.cpu_milli);
	c_u64(c, &s->resources.memory_bytes);
	C_U32(c, s->resources.gpus);
	c_template(c, &s->concurrency.group);
	C_U32(c, s->concurrency.max);
	c_str(c, &s->distributed.framework);
	C_U32(c, s->distributed.nodes);
	C_U32(c, s->distributed.procs_per_node);
	C_BOOL(c, s->spot);
	C_BOOL(c, s->pack);
}

static void c_program(struct codec *c, struct step *s, unsigned has)
{
	if (has & HAS_RUN) {
		c_template1(c, &s->run);
	} else {
		c_name(c, &s->builtin);
		c_with(c, &s->with);
	}
	if (has & HAS_STEP_FILE)
		c_name(c, &s->step_file);
	for (size_t i = 0; i < s->n_locals; i++)
		c_template(c, &((struct step_local *)MUTABLE(s->locals))[i].value);
	if (has & HAS_ENV)
		C_ARRAY(c, s->env, s->n_env, ITEM_NAMED, c_named_template);
	if (has & HAS_LISTS) {
		C_ARRAY(c, s->code, s->n_code, ITEM_ANY, c_name);
		C_ARRAY(c, s->secrets, s->n_secrets, ITEM_ANY, c_name);
		C_ARRAY(c, s->tools, s->n_tools, ITEM_ANY, c_name);
	}
	if (has & HAS_FILES) {
		c_str(c, &s->metrics);
		c_str(c, &s->checkpoint);
	}
	if (has & HAS_PLACE) {
		c_str(c, &s->image);
		c_str(c, &s->description);
		c_str(c, &s->volumes_json);
	}
	if (has & HAS_CONDITION)
		c_condition(c, &s->condition);
}

static void c_step(struct codec *c, struct step *s)
{
	unsigned has;

	c->s = s;
	if (c->decoding)
		s->index = (uint32_t)(s - c->pl->steps);
	has = (unsigned)c_max(c, c->decoding ? 0 : what_it_has(s), HAS_ALL);
	c_pos(c, &s->pos);
	if (has & HAS_DEPS) /* before the references that need them */
		C_ARRAY(c, s->deps, s->n_deps, ITEM_DEP, c_dep);
	C_ITEMS(c, s->axes, s->n_axes, ITEM_ANY, c_axis);
	if (has & HAS_RULES) {
		C_ARRAY(c, s->include, s->n_include, ITEM_ANY, c_rule);
		C_ARRAY(c, s->exclude, s->n_exclude, ITEM_ANY, c_rule);
	}
	if (has & HAS_EACH)
		c_each(c, &s->each);
	C_ITEMS(c, s->outputs, s->n_outputs, ITEM_IO, c_step_output);
	C_ITEMS(c, s->inputs, s->n_inputs, ITEM_IO, c_step_input);
	c_program(c, s, has);
	if (has & HAS_POLICY)
		c_policy(c, s);
	else if (s->index == 0)
		fail(c);
	else if (c->decoding)
		copy_policy(s, s - 1);
	c->s = NULL;
}

static void c_order(struct codec *c, struct pipeline *p)
{
	uint32_t *order = c_alloc(c, p->order, p->n_steps, sizeof(*order)), *place;

	for (size_t i = 0; i < p->n_steps; i++)
		C_ENUM(c, order[i], p->n_steps);
	if (!c->decoding || c->failed)
		return;
	p->order = order;
	place = arena_alloc(c->arena, p->n_steps * sizeof(*place));
	for (size_t i = 0; i < p->n_steps; i++) {
		if (place[order[i]])
			fail(c); /* twice in it */
		place[order[i]] = (uint32_t)i + 1;
	}
	for (size_t i = 0; i < p->n_steps && !c->failed; i++)
		for (size_t k = 0; k < p->steps[i].n_deps; k++)
			if (place[p->steps[i].deps[k].step] >= place[i])
				fail(c);
}

static void c_pipeline(struct codec *c, struct pipeline *p)
{
	c_name(c, &p->name);
	c_str(c, &p->description);
	c_name(c, &p->path);
	for (size_t i = 0; i < DIGEST_BYTES; i++)
		C_ENUM(c, p->digest.b[i], 256);
	C_ARRAY(c, p->files, p->n_files, ITEM_ANY, c_name);
	C_ARRAY(c, p->params, p->n_params, ITEM_PARAM, c_param);
	C_ARRAY(c, p->inputs, p->n_inputs, ITEM_IO, c_input);
	c_count(c, &p->n_steps, ITEM_STEP);
	c->needed = arena_alloc(c->arena, p->n_steps * sizeof(*c->needed));
	C_ITEMS(c, p->steps, p->n_steps, ITEM_ANY, c_shape);
	for (size_t i = 0; i < p->n_steps && !c->failed; i++)
		c_step(c, MUTABLE(&p->steps[i]));
	if (!c->failed)
		c_order(c, p);
	if (!c->failed)
		C_ARRAY(c, p->schedules, p->n_schedules, ITEM_GATE, c_schedule);
}

bool model_encode(const struct pipeline *p, struct str *out)
{
	_cleanup_(arena_freep) struct arena *scratch = arena_new();
	struct codec c = { .out = out, .arena = scratch, .pl = MUTABLE(p), .seen = map_new() };

	c_pipeline(&c, MUTABLE(p));
	map_free(c.seen);
	VEC_FREE(&c.files);
	VEC_FREE(&c.shared);
	return !c.failed;
}

bool model_decode(const char *bytes, size_t len, struct arena *arena, struct pipeline **ret)
{
	struct pipeline *p = arena_alloc(arena, sizeof(*p));
	struct codec c = { .decoding = true, .p = bytes, .end = bytes + len, .arena = arena, .pl = p };
	bool ok;

	p->arena = arena;
	c_pipeline(&c, p);
	ok = !c.failed && c.p == c.end;
	VEC_FREE(&c.files);
	VEC_FREE(&c.shared);
	if (ok)
		*ret = p;
	return ok;
}
