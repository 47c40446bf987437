/* engine/model/cache/codec.c — a model as bytes and back.
 *
 * One visitor both encodes and decodes: each function describes the parts of a struct once, so that
 * the two directions can't diverge. When it encodes, it only reads the model (the casts away from
 * const are for decoding). When it decodes, it checks every count against the bytes that are left
 * and every enum and index against its range, and the first violation fails the whole. Each item of
 * an array takes a known minimum of bytes (ITEM_*), so that hostile counts can't claim much memory.
 *
 * Format: the bytes that decoding will allocate (u64), then the pipeline. Numbers are LEB128
 * varints (signed ones zigzag), doubles 8 bytes, strings a length + 1 (0: NULL), the bytes and a
 * NUL; decoded strings point into the input. File names and the params of step files are written at
 * their first use, and later uses are numbers. The shapes of all steps come before their bodies,
 * since references point both ways. A step has bits for what it has (HAS_*). Parts that steps share
 * are numbered as file names are (c_shared()).
 *
 * Decoding allocates everything at once (take_pool()). Increase MODEL_CACHE_FORMAT with any change
 * of the format or of what a model means. cache.c has the files and their checksum.
 */
#include "model/cache/codec.h"

#include <sys/mman.h>
#include "model/shell/shell.h"

/* Declarations. */

static void c_param(struct codec *c, struct param_decl *d)
{
	c_name(c, &d->name);
	c_str(c, &d->help);
	C_ENUM(c, d->type, VALUE_LIST + 1);
	C_BOOL(c, d->has_default);
	if (d->has_default)
		c_value(c, &d->def);
	if (d->has_default && d->def.type != d->type)
		codec_fail(c);
	C_BOOL(c, d->has_min);
	C_BOOL(c, d->has_max);
	c_f64(c, &d->min);
	c_f64(c, &d->max);
	C_ARRAY(c, d->choices, d->n_choices, ITEM_VALUE, c_value);
	c_pos(c, &d->pos);
}

/* It becomes the name of a directory. */
static void c_root(struct codec *c, const char **root)
{
	c_str(c, root);
	if (*root && (!**root || external_root_len(*root) != strlen(*root)))
		codec_fail(c);
}

static void c_input(struct codec *c, struct input_decl *in)
{
	c_name(c, &in->name);
	C_ENUM(c, in->origin, INPUT_VOLUME + 1);
	c_name(c, &in->uri);
	c_str(c, &in->pin);
	if (!in->pin == (in->origin == INPUT_VOLUME))
		codec_fail(c);
	C_ENUM(c, in->mode, INPUT_LINK + 1);
	c_str(c, &in->access.endpoint);
	c_str(c, &in->access.region);
	c_str(c, &in->access.profile);
	C_BOOL(c, in->access.anonymous);
	C_BOOL(c, in->must_be_dir);
	c_root(c, &in->root);
	c_str(c, &in->taken_from);
	C_ENUM(c, in->taken_kind, CONTENT_KIND_MAX + 1);
	c_pos(c, &in->pos);
}

static void c_notify_metric(struct codec *c, struct notify_metric *m)
{
	c_name(c, &m->metric);
	C_ENUM(c, m->op, COMPARE_OPS);
	C_BOOL(c, m->last);
	c_f64(c, &m->bound);
	c_name(c, &m->text);
}

static void c_notify(struct codec *c, struct notify_decl *t)
{
	C_ENUM(c, t->kind, NOTIFY_EMAIL + 1);
	C_MAX(c, t->on, 2 * NOTIFY_APPROVAL - 1);
	C_ARRAY(c, t->metrics, t->n_metrics, ITEM_ANY, c_notify_metric);
	c_str(c, &t->command);
	c_str(c, &t->url);
	c_str(c, &t->secret);
	C_ARRAY(c, t->to, t->n_to, ITEM_ANY, c_name);
	c_str(c, &t->from);
	c_pos(c, &t->pos);
}

static void c_watched(struct codec *c, uint32_t *input)
{
	uint64_t v = c_max(c, *input, c->pl->n_inputs ? c->pl->n_inputs - 1 : 0);

	if (c->decoding)
		*input = (uint32_t)v;
	if (c->pl->n_inputs == 0)
		codec_fail(c);
}

static void c_schedule(struct codec *c, struct schedule_decl *s)
{
	c_name(c, &s->name);
	c_str(c, &s->cron);
	c_str(c, &s->on.pipeline);
	c_str(c, &s->on.state);
	c_str(c, &s->on.webhook);
	c_str(c, &s->on.secret);
	c_pos(c, &s->on.pos);
	c_name(c, &s->timezone);
	c_name(c, &s->overlap);
	c_name(c, &s->catch_up);
	c_name(c, &s->dst);
	c_i64(c, &s->catch_up_window_ns);
	c_i64(c, &s->jitter_ns);
	c_i64(c, &s->start_ns);
	c_i64(c, &s->end_ns);
	C_ARRAY(c, s->on_change, s->n_on_change, ITEM_ANY, c_watched);
	c_i64(c, &s->poll_ns);
	C_U32(c, s->retry_max);
	c_i64(c, &s->retry_min_ns);
	c_i64(c, &s->retry_max_ns);
	c_i64(c, &s->alert_after_ns);
	C_ARRAY(c, s->notify, s->n_notify, ITEM_ANY, c_notify);
	C_ARRAY(c, s->params, s->n_params, ITEM_NAMED, c_named_template);
	c_pos(c, &s->pos);
}

static void c_sweep_param(struct codec *c, struct sweep_param *s)
{
	C_ENUM(c, s->param, c->pl->n_params);
	C_ARRAY(c, s->values, s->n_values, ITEM_VALUE, c_value);
	c_f64(c, &s->min);
	c_f64(c, &s->max);
	C_BOOL(c, s->log);
}

/* Comes after the steps, which the objective names. */
static void c_sweep(struct codec *c, struct sweep_decl *s)
{
	if (c->pl->n_params == 0 || c->pl->n_steps == 0) {
		codec_fail(c);
		return;
	}
	c_name(c, &s->name);
	C_ARRAY(c, s->params, s->n_params, ITEM_ANY, c_sweep_param);
	c_name(c, &s->objective);
	C_ENUM(c, s->step, c->pl->n_steps);
	c_name(c, &s->metric);
	C_BOOL(c, s->maximize);
	C_ENUM(c, s->search, SWEEP_SEARCHES);
	C_U32(c, s->trials);
	c_u64(c, &s->seed);
	C_U32(c, s->parallel);
	C_U32(c, s->max_failures);
	C_U32(c, s->early_stop.trials);
	c_u64(c, &s->early_stop.after);
	C_ENUM(c, s->rungs.param, c->pl->n_params);
	c_i64(c, &s->rungs.min);
	c_i64(c, &s->rungs.max);
	C_U32(c, s->rungs.factor);
	c_pos(c, &s->pos);
}

/* Steps. */

/* The params of a step file are written once, at the first step that uses it. */
static void c_shared_params(struct codec *c, struct step *s)
{
	struct shared_params sp = { s->program.n_locals ? s->program.locals[0].decl : NULL,
				    s->program.n_locals };
	bool is_new = false;
	uint64_t n = 0;

	if (!c->decoding) {
		n = codec_number_of(c, sp.v, &is_new);
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
	s->program.n_locals = sp.n;
	s->program.locals = arena_alloc(c->arena, sp.n * sizeof(*s->program.locals));
	for (size_t i = 0; i < sp.n; i++)
		((struct step_local *)MUTABLE(s->program.locals))[i].decl = &sp.v[i];
}

static void c_shape(struct codec *c, struct step *s)
{
	bool has_file = s->program.n_locals > 0;

	c_name(c, &s->name);
	c_count(c, &s->n_inputs, ITEM_IO);
	c_count(c, &s->n_outputs, ITEM_IO);
	C_BOOL(c, has_file);
	if (has_file)
		c_shared_params(c, s);
}

static void c_then(struct codec *c, struct step_input *in)
{
	struct step_input *then = c_alloc(c, in->then, 1, sizeof(*then));

	if (c->decoding)
		then->name = in->name;
	c_ref(c, &then->from);
	c_template(c, &then->subpath);
	c_pos(c, &then->pos);
	if (then->from.kind != REF_STEP_OUTPUT || then->from.step != c->s->index)
		codec_fail(c);
	in->then = then;
}

static void c_step_input(struct codec *c, struct step_input *in)
{
	bool has_then = in->then != NULL;

	c_name(c, &in->name);
	c_ref(c, &in->from);
	C_BOOL(c, has_then);
	if (has_then)
		c_then(c, in);
	if (in->from.kind != REF_PIPELINE_INPUT && in->from.kind != REF_STEP_OUTPUT &&
	    in->from.kind != REF_ITEM)
		codec_fail(c);
	c_template(c, &in->subpath);
	c_pos(c, &in->pos);
}

static void c_step_output(struct codec *c, struct step_output *o)
{
	c_name(c, &o->name);
	c_name(c, &o->path);
	C_BOOL(c, o->is_dir);
	C_BOOL(c, o->temp);
	c_template(c, &o->export);
	c_pos(c, &o->pos);
}

static void c_axis(struct codec *c, struct matrix_axis *a)
{
	c_name(c, &a->name);
	C_ARRAY(c, a->values, a->n_values, ITEM_VALUE, c_value);
	c_template(c, &a->list);
	if (a->values && a->list)
		codec_fail(c);
	if (c->decoding && !a->values && !a->list) /* all values come from `include` */
		a->values = arena_alloc(c->arena, sizeof(*a->values));
}

static void c_rule(struct codec *c, struct matrix_rule *rule)
{
	C_ITEMS(c, rule->by_axis, c->s->tasks->matrix.n_axes, ITEM_VALUE, c_value);
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
		if (e->is_list ? e->from.kind != REF_PARAM && e->from.kind != REF_STEP_VALUE
			       : (!e->glob || (e->from.kind != REF_PIPELINE_INPUT &&
					       e->from.kind != REF_STEP_OUTPUT)))
			codec_fail(c);
	}
	if (literal && !e->is_list)
		codec_fail(c);
	if (!c->decoding)
		return;
	if (literal && !e->values)
		e->values =
			arena_alloc(c->arena, sizeof(*e->values)); /* an empty list isn't NULL */
	*each = e;
}

static void c_repeat(struct codec *c, const struct step_repeat **repeat)
{
	struct step_repeat *r = c_alloc(c, *repeat, 1, sizeof(*r));

	*repeat = r; /* references to the step itself are allowed from here on */
	c_condition(c, &r->until);
	C_MAX(c, r->max, REPEAT_MAX);
	c_pos(c, &r->pos);
	if (r->max == 0)
		codec_fail(c);
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
	C_BOOL(c, d->values);
	C_BOOL(c, d->metrics);
	C_BOOL(c, d->order);
	C_BOOL(c, d->state);
	C_ARRAY(c, d->shared, d->n_shared, ITEM_PART, c_pair);
	c_pos(c, &d->pos);
	if (!c->decoding || c->failed)
		return;
	if (d->step >= c->pl->n_steps || c->needed[d->step] == c->s->index + 1) {
		codec_fail(c);
		return;
	}
	c->needed[d->step] = c->s->index + 1; /* axes_fit() checks `shared` */
}

static void c_gate(struct codec *c, struct gate_rule *g)
{
	c_name(c, &g->metric);
	C_ENUM(c, g->op, COMPARE_OPS);
	c_f64(c, &g->bound);
	c_name(c, &g->text);
	c_pos(c, &g->pos);
}

static void c_tolerance(struct codec *c, struct tolerance_rule *t)
{
	c_name(c, &t->metric);
	c_f64(c, &t->bound);
	C_BOOL(c, t->relative);
	c_pos(c, &t->pos);
}

static void c_with_at(struct codec *c, struct with_node *w, unsigned depth)
{
	C_ENUM(c, w->kind, WITH_MAP + 1);
	if (w->kind == WITH_SCALAR) {
		c_template1(c, &w->scalar);
		return;
	}
	if (depth > YAML_DEPTH_MAX) {
		codec_fail(c);
		return;
	}
	c_count(c, &w->n, ITEM_PART);
	if (w->kind == WITH_MAP)
		C_ITEMS(c, w->keys, w->n, ITEM_ANY, c_name);
	w->children = c_new(c, w->children, w->n * sizeof(*w));
	for (size_t i = 0; i < w->n && !c->failed; i++)
		c_with_at(c, &w->children[i], depth + 1);
}

/* Parts that steps share. */

/* A part gets a number where it comes first; later it is that number. One that refers to something
 * of its step (an input, an axis) was checked against that step, and gets none. `visit` is of its
 * type. */
static const void *c_shared(struct codec *c, const void *part, size_t bytes,
			    void (*visit)(struct codec *c, void *part))
{
	void **slot = c->decoding ? NULL : map_slot(c->part_numbers, &part, sizeof(part), NULL);
	uint64_t n = slot && *slot ? (uint64_t)(uintptr_t)*slot - 1 : c->parts.n;

	n = c_max(c, n, c->parts.n);
	if (n < c->parts.n && !c->failed) {
		if (c->parts.v[n].visit == visit)
			return c->parts.v[n].part;
		codec_fail(c);
	}
	part = c_new(c, part, bytes);
	c->refers_to_step = false;
	visit(c, MUTABLE(part));
	c->has_own_parts |= c->refers_to_step;
	if (c->refers_to_step)
		return part;
	VEC_PUSH(&c->parts, ((struct shared_part){ part, visit }));
	if (slot)
		*map_slot(c->part_numbers, &part, sizeof(part), NULL) =
			(void *)(uintptr_t)c->parts.n;
	return part;
}

static void visit_reads(struct codec *c, void *part)
{
	struct step_reads *r = part;

	C_ARRAY(c, r->env, r->n_env, ITEM_NAMED, c_named_template);
	C_ARRAY(c, r->code, r->n_code, ITEM_ANY, c_name);
	C_ARRAY(c, r->secrets, r->n_secrets, ITEM_ANY, c_name);
	C_ARRAY(c, r->tools, r->n_tools, ITEM_ANY, c_name);
	C_ARRAY(c, r->env_files, r->n_env_files, ITEM_ANY, c_name);
	c_str(c, &r->environment);
	C_BOOL(c, r->no_imports);
}

static void visit_tasks(struct codec *c, void *part)
{
	struct step_tasks *t = part;
	bool has_each = t->each != NULL, has_repeat = t->repeat != NULL;

	c->s->tasks = t; /* its own references point here */
	C_ARRAY(c, t->matrix.axes, t->matrix.n_axes, ITEM_ANY, c_axis);
	if (t->matrix.n_axes > MATRIX_AXES_MAX)
		codec_fail(c);
	C_ARRAY(c, t->matrix.include, t->matrix.n_include, ITEM_ANY, c_rule);
	C_ARRAY(c, t->matrix.exclude, t->matrix.n_exclude, ITEM_ANY, c_rule);
	C_BOOL(c, has_each);
	if (has_each)
		c_each(c, &t->each);
	C_BOOL(c, has_repeat);
	if (has_repeat)
		c_repeat(c, &t->repeat);
	if (t->each && (t->repeat || t->matrix.n_axes))
		codec_fail(c);
}

static void visit_keyed(struct codec *c, void *part)
{
	struct step_keyed *k = part;

	c_str(c, &k->salt);
	c_template(c, &k->seed);
	C_BOOL(c, k->resources);
}

static void visit_policy(struct codec *c, void *part)
{
	struct step_policy *p = part;

	c_i64(c, &p->timeout_ns);
	for (int i = 0; i < FAILURE_CLASSES; i++)
		C_U32(c, p->retry.budget[i]);
	c_i64(c, &p->retry.backoff_min_ns);
	c_i64(c, &p->retry.backoff_max_ns);
	c_f64(c, &p->retry.oom_memory_factor);
	c_template(c, &p->concurrency.group);
	C_U32(c, p->concurrency.max);
	C_BOOL(c, p->fail_fast);
	C_BOOL(c, p->continue_on_error);
}

static void visit_machine(struct codec *c, void *part)
{
	struct step_machine *m = part;

	C_U32(c, m->resources.cpu_milli);
	c_u64(c, &m->resources.memory_bytes);
	C_U32(c, m->resources.gpus);
	c_str(c, &m->distributed.framework);
	C_U32(c, m->distributed.nodes);
	C_U32(c, m->distributed.min_nodes);
	C_U32(c, m->distributed.procs_per_node);
	C_U32(c, m->distributed.servers);
	c_str(c, &m->place.image);
	c_str(c, &m->place.json);
	C_U32(c, m->place.pack);
	C_MAX(c, m->sandbox.strictness, STRICTNESS_STRICT);
	C_MAX(c, m->sandbox.network, NETWORK_NONE);
	C_BOOL(c, m->copies);
}

static void visit_measured(struct codec *c, void *part)
{
	struct step_measured *m = part;

	c_str(c, &m->metrics);
	c_str(c, &m->values);
	c_str(c, &m->series);
	C_ARRAY(c, m->gates, m->n_gates, ITEM_GATE, c_gate);
	C_ARRAY(c, m->tolerances, m->n_tolerances, ITEM_TOLERANCE, c_tolerance);
}

static void visit_settings(struct codec *c, void *part)
{
	const struct expr_template **settings = part;

	for (int i = 0; i < STEP_SETTINGS; i++)
		c_template(c, &settings[i]);
}

static bool same_parts(const struct step *a, const struct step *b)
{
	return a->reads == b->reads && a->tasks == b->tasks && a->keyed == b->keyed &&
	       a->policy == b->policy && a->machine == b->machine && a->measured == b->measured &&
	       a->settings == b->settings;
}

static void take_parts(struct step *s, const struct step *from)
{
	s->reads = from->reads;
	s->tasks = from->tasks;
	s->keyed = from->keyed;
	s->policy = from->policy;
	s->machine = from->machine;
	s->measured = from->measured;
	s->settings = from->settings;
}

#define C_SHARED(c, pointer, visit) \
	(pointer) = c_shared((c), (pointer), sizeof(*(pointer)), (visit))

static void c_parts(struct codec *c, struct step *s)
{
	c->has_own_parts = false;
	C_SHARED(c, s->tasks, visit_tasks); /* first: others refer to its axes, and to items */
	C_SHARED(c, s->reads, visit_reads);
	C_SHARED(c, s->keyed, visit_keyed);
	C_SHARED(c, s->policy, visit_policy);
	C_SHARED(c, s->machine, visit_machine);
	C_SHARED(c, s->measured, visit_measured);
	s->settings =
		c_shared(c, s->settings, STEP_SETTINGS * sizeof(*s->settings), visit_settings);
}

/* What a step has besides its shape. Most steps have little, and absent parts take no bytes. */
enum {
	HAS_DEPS = 1 << 0,
	HAS_RUN = 1 << 1,
	IS_CACHED = 1 << 2,
	HAS_PARTS = 1 << 3,   /* unless it has those of the step before it in the file */
	HAS_PLACES = 1 << 4,  /* likewise */
	HAS_SHELL = 1 << 5,   /* likewise */
	HAS_BUILTIN = 1 << 6, /* next to a command when it launches that */
	HAS_STEP_FILE = 1 << 7,
	HAS_TEXTS = 1 << 8, /* description, root, checkpoint */
	HAS_CONDITION = 1 << 9,
	HAS_APPROVE = 1 << 10,
	IS_FINALLY = 1 << 11,
	HAS_ALL = (1 << 12) - 1,
};

static size_t n_places(const struct step_program *p)
{
	size_t n = 0;

	for (size_t i = 0; i < p->run->n_parts; i++)
		n += p->run->parts[i].expr != NULL;
	return n;
}

static bool same_places(const struct codec *c, const struct step_program *p)
{
	size_t n = n_places(p);
	bool same = n == c->n_places;

	for (size_t i = 0; i < n && same; i++) {
		const struct shell_place *a = &c->places[i], *b = &p->places[i];

		same = a->kind == b->kind && a->after_name == b->after_name &&
		       a->in_pattern == b->in_pattern && a->first == b->first &&
		       a->redirected == b->redirected && a->code == b->code &&
		       a->glued == b->glued && str_eq(a->why, b->why) && str_eq(a->end, b->end);
	}
	return same;
}

static unsigned what_it_has(const struct codec *c, const struct step *s)
{
	const struct step *before = s->index ? s - 1 : NULL;
	unsigned has = 0;

	has |= s->n_deps ? HAS_DEPS : 0;
	has |= s->program.run ? HAS_RUN : 0;
	has |= s->cache ? IS_CACHED : 0;
	has |= !before || c->has_own_parts || !same_parts(before, s) ? HAS_PARTS : 0;
	has |= s->program.run && !same_places(c, &s->program) ? HAS_PLACES : 0;
	has |= !before || strcmp(before->program.shell, s->program.shell) != 0 ? HAS_SHELL : 0;
	has |= s->program.builtin || s->program.with ? HAS_BUILTIN : 0;
	has |= s->program.step_file ? HAS_STEP_FILE : 0;
	has |= s->description || s->root || s->checkpoint ? HAS_TEXTS : 0;
	has |= s->condition ? HAS_CONDITION : 0;
	has |= s->approve ? HAS_APPROVE : 0;
	has |= s->finally ? IS_FINALLY : 0;
	return has;
}

static void c_approve(struct codec *c, const struct step_approve **a)
{
	struct step_approve *v = c_new(c, *a, sizeof(*v));

	*a = v;
	c_template(c, &v->message);
	C_ARRAY(c, v->by, v->n_by, ITEM_ANY, c_name);
	C_BOOL(c, v->at_limit);
}

/* How values are written in the command: one place for each of its expressions. */
static void c_places(struct codec *c, struct step_program *p, bool as_before)
{
	const size_t n = n_places(p);
	struct shell_place *v;

	if (as_before && c->decoding) {
		if (n != c->n_places)
			codec_fail(c);
		p->places = c->places;
	}
	if (as_before)
		return;
	v = c_alloc(c, p->places, c_fits(c, n, ITEM_ANY) ? n : 0, sizeof(*v));
	for (size_t i = 0; i < n && !c->failed; i++) {
		C_ENUM(c, v[i].kind, SHELL_TEXT + 1);
		C_BOOL(c, v[i].after_name);
		C_BOOL(c, v[i].in_pattern);
		C_BOOL(c, v[i].first);
		C_BOOL(c, v[i].redirected);
		if (v[i].kind == SHELL_HERE)
			c_name(c, &v[i].end);
		if (v[i].kind != SHELL_TEXT)
			continue;
		c_name(c, &v[i].why);
		C_BOOL(c, v[i].code);
		C_BOOL(c, v[i].glued);
	}
	p->places = c->places = v;
	c->n_places = n;
}

static void c_program(struct codec *c, struct step *s, unsigned has)
{
	bool has_with = s->program.with != NULL;

	if (has & HAS_RUN) {
		c_template1(c, &s->program.run);
		if (!c->failed)
			c_places(c, &s->program, !(has & HAS_PLACES));
	}
	if (has & HAS_SHELL)
		c_name(c, &s->program.shell);
	else if (c->decoding)
		s->program.shell = s->index ? s[-1].program.shell : "";
	if (has & HAS_BUILTIN) {
		c_name(c, &s->program.builtin);
		C_BOOL(c, has_with);
		if (has_with) {
			s->program.with = c_new(c, s->program.with, sizeof(*s->program.with));
			c_with_at(c, MUTABLE(s->program.with), 0);
		}
	}
	if (has & HAS_STEP_FILE)
		c_name(c, &s->program.step_file);
	for (size_t i = 0; i < s->program.n_locals; i++)
		c_template(c, &((struct step_local *)MUTABLE(s->program.locals))[i].value);
	if (has & HAS_TEXTS) {
		c_str(c, &s->description);
		c_root(c, &s->root);
		c_str(c, &s->checkpoint);
	}
	if (has & HAS_CONDITION)
		c_condition(c, &s->condition);
	if (has & HAS_APPROVE)
		c_approve(c, &s->approve);
}

static void c_step(struct codec *c, struct step *s)
{
	unsigned has;

	c->s = s;
	if (c->decoding)
		s->index = (uint32_t)(s - c->pl->steps);
	has = (unsigned)c_max(c, c->decoding ? 0 : what_it_has(c, s), HAS_ALL);
	if (c->decoding) {
		s->cache = has & IS_CACHED;
		s->finally = has & IS_FINALLY;
	}
	c_pos(c, &s->pos);
	if (has & HAS_DEPS) /* before the references that are checked against them */
		C_ARRAY(c, s->deps, s->n_deps, ITEM_DEP, c_dep);
	if (has & HAS_PARTS)
		c_parts(c, s);
	else if (s->index == 0 || c->has_own_parts)
		codec_fail(c);
	else if (c->decoding)
		take_parts(s, s - 1);
	if (!c->failed) {
		C_ITEMS(c, s->outputs, s->n_outputs, ITEM_IO, c_step_output);
		C_ITEMS(c, s->inputs, s->n_inputs, ITEM_IO, c_step_input);
		c_program(c, s, has);
	}
	c->s = NULL;
}

/* Only now all steps have their axes. */
static bool axes_fit(const struct pipeline *p, const struct step *s, const struct step_dep *d)
{
	for (size_t i = 0; i < d->n_shared; i++)
		if (d->shared[i].mine >= s->tasks->matrix.n_axes ||
		    d->shared[i].theirs >= p->steps[d->step].tasks->matrix.n_axes)
			return false;
	return true;
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
			codec_fail(c); /* a step stands twice */
		place[order[i]] = (uint32_t)i + 1;
	}
	for (size_t i = 0; i < p->n_steps && !c->failed; i++)
		for (size_t k = 0; k < p->steps[i].n_deps; k++)
			if (place[p->steps[i].deps[k].step] >= place[i] ||
			    !axes_fit(p, &p->steps[i], &p->steps[i].deps[k]))
				codec_fail(c);
}

static void c_given(struct codec *c, struct given_param *g)
{
	c_template(c, &g->value);
	c_name(c, &g->by);
}

static void c_params(struct codec *c, struct pipeline *p)
{
	size_t n = pipeline_n_values(p);

	C_ARRAY(c, p->params, n, ITEM_PARAM, c_param);
	C_ARRAY(c, p->given, p->n_given, ITEM_NAMED, c_given);
	if (!c->decoding)
		return;
	if (p->n_given > n)
		codec_fail(c);
	else
		p->n_params = n - p->n_given;
}

static void c_pipeline(struct codec *c, struct pipeline *p)
{
	c_name(c, &p->name);
	c_str(c, &p->description);
	c_name(c, &p->path);
	for (size_t i = 0; i < DIGEST_BYTES; i++)
		C_ENUM(c, p->digest.b[i], 256);
	C_ARRAY(c, p->files, p->n_files, ITEM_ANY, c_name);
	c_params(c, p);
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
	if (!c->failed)
		C_ARRAY(c, p->sweeps, p->n_sweeps, ITEM_ANY, c_sweep);
	if (!c->failed)
		C_ARRAY(c, p->notify, p->n_notify, ITEM_ANY, c_notify);
	for (size_t i = 0; p->n_sweeps && i < DIGEST_BYTES; i++)
		C_ENUM(c, p->core_digest.b[i], 256);
}

bool model_encode(const struct pipeline *p, struct str *out)
{
	_cleanup_(arena_freep) struct arena *scratch = arena_new();
	struct codec c = { .out = out,
			   .arena = scratch,
			   .pl = MUTABLE(p),
			   .seen = map_new(),
			   .part_numbers = map_new() };

	size_t at = out->len;

	str_add_u64(out, 0);
	c_pipeline(&c, MUTABLE(p));
	memcpy(out->s + at, &(uint64_t){ c.pool_bytes }, 8);
	map_free(c.seen);
	map_free(c.part_numbers);
	VEC_FREE(&c.files);
	VEC_FREE(&c.shared);
	VEC_FREE(&c.parts);
	return !c.failed;
}

#define POOL_FACTOR \
	64 /* limit of memory of a model / bytes of its encoding: a larger claim is refused */

/* Takes all memory at once and faults its pages in with one call: faulting them one by one takes
 * longer than decoding. */
static void take_pool(struct codec *c)
{
	uint64_t bytes = 0;
	uintptr_t first, last;

	if (c->end - c->p < 8) {
		codec_fail(c);
		return;
	}
	memcpy(&bytes, c->p, 8);
	c->p += 8;
	if (bytes > (uint64_t)(c->end - c->p) * POOL_FACTOR) {
		codec_fail(c);
		return;
	}
	c->pool = arena_alloc(c->arena, bytes);
	c->pool_bytes = bytes;
	first = ((uintptr_t)c->pool + 4095) & ~(uintptr_t)4095;
	last = ((uintptr_t)c->pool + bytes) & ~(uintptr_t)4095;
	if (last > first)
		madvise((void *)first, last - first,
			MADV_POPULATE_WRITE); /* fails harmlessly on older kernels */
}

bool model_decode(const char *bytes, size_t len, struct arena *arena, struct pipeline **ret)
{
	struct pipeline *p = arena_alloc(arena, sizeof(*p));
	struct codec c = {
		.decoding = true, .p = bytes, .end = bytes + len, .arena = arena, .pl = p
	};
	bool ok;

	p->arena = arena;
	take_pool(&c);
	c_pipeline(&c, p);
	ok = !c.failed && c.p == c.end;
	VEC_FREE(&c.files);
	VEC_FREE(&c.shared);
	VEC_FREE(&c.parts);
	if (ok)
		*ret = p;
	return ok;
}
