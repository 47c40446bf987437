/* engine/model/step/settings.c — settings of a step whose values may be expressions: image,
 * resources, timeout, retries, the places of a concurrency group.
 *
 * A plain value is read into the step when the file is read. An expression is kept
 * (step->settings). When resolve.c has found its references, setting_check() checks its type, and
 * with the values that the file itself has (defaults of params, values of an axis) the value too.
 * The planner evaluates it for each task, and step_settle() makes that task's step of the values.
 *
 * Both ways end in read_one(): a value of an expression becomes a scalar node at the expression's
 * place, so that a wrong one has the same message as in the file. Text becomes a quoted scalar,
 * which is never a number.
 *
 * None of these settings is part of the key, except the image's digest on a cluster, and resources
 * with `key: {resources: true}`: of the task's own values then.
 */
#include <assert.h>
#include "model/read.h"
#include "model/step/placement.h"

static const struct {
	const char *name;
	enum expr_type types[2]; /* of its value */
} settings[STEP_SETTINGS] = {
	[SETTING_IMAGE] = { "image", { TYPE_STRING } },
	[SETTING_CPU] = { "cpu", { TYPE_NUMBER, TYPE_STRING } },
	[SETTING_MEMORY] = { "memory", { TYPE_STRING, TYPE_NUMBER } },
	[SETTING_GPU] = { "gpu", { TYPE_NUMBER } },
	[SETTING_GPU_TYPE] = { "gpu_type", { TYPE_STRING } },
	[SETTING_SHM] = { "shm", { TYPE_STRING, TYPE_NUMBER } },
	[SETTING_DISK] = { "disk", { TYPE_STRING, TYPE_NUMBER } },
	[SETTING_TIMEOUT] = { "timeout", { TYPE_STRING } },
	[SETTING_RETRY] = { "max", { TYPE_NUMBER } },
	[SETTING_PLACES] = { "max", { TYPE_NUMBER } },
};

/* What settings are read into. */
struct settled {
	struct step_policy *policy;
	struct step_machine *machine;
	json_t *placement; /* becomes machine->place.json */
};

/* One plain value. */
static void read_one(const struct doc *d, enum step_setting which, const struct yaml_node *n,
		     const struct settled *to)
{
	const struct yaml_node key = { .kind = YAML_KIND_SCALAR,
				       .line = n->line,
				       .col = n->col,
				       .text = settings[which].name,
				       .len = strlen(settings[which].name) };
	int64_t v;

	switch (which) {
	case SETTING_IMAGE:
		if (doc_check_image_name(d, n))
			to->machine->place.image = doc_text(d, n);
		break;
	case SETTING_CPU:
		read_cpu(d, n, "", &to->machine->resources.cpu_milli);
		break;
	case SETTING_MEMORY:
		read_memory(d, n, "", &to->machine->resources.memory_bytes);
		break;
	case SETTING_GPU:
		if (read_count(d, n, "`gpu`", 0, 1024, &v))
			to->machine->resources.gpus = (uint32_t)v;
		break;
	case SETTING_GPU_TYPE:
	case SETTING_SHM:
	case SETTING_DISK:
		placement_read_resource(d, &key, n, to->placement);
		break;
	case SETTING_TIMEOUT:
		if (!read_duration(d, n, "`timeout`", &v))
			break;
		if (v == 0)
			doc_error(d, n, "`timeout` must be more than 0; leave it out for none");
		to->policy->timeout_ns = v;
		break;
	case SETTING_RETRY:
		if (!read_count(d, n, "`max`", 0, RETRY_MAX, &v))
			break;
		for (int c = FAILURE_FAILED; c < FAILURE_CANCELLED; c++)
			if (to->policy->retry.budget[c] == RETRY_AS_MAX)
				to->policy->retry.budget[c] = (uint32_t)v;
		break;
	case SETTING_PLACES:
		if (read_count(d, n, "`max`", 1, 1000000, &v))
			to->policy->concurrency.max = (uint32_t)v;
		break;
	case STEP_SETTINGS:
		assert(false);
	}
}

void setting_read(struct reader *r, enum step_setting which, const struct yaml_node *n,
		  json_t *placement)
{
	struct step_parts *p = r->b->parts;

	p->settings[which] = NULL;
	if (which == SETTING_IMAGE)
		p->machine.place.image = NULL; /* of the defaults */
	if (n->kind == YAML_KIND_SCALAR && template_text_has_expr(n->text, n->len))
		p->settings[which] = read_template(r->d, n);
	else
		read_one(r->d, which, n, &(struct settled){ &p->policy, &p->machine, placement });
}

void resources_check(const struct doc *d, const struct yaml_node *n, const struct step *s,
		     const json_t *placement)
{
	uint64_t shm = (uint64_t)json_integer_value(json_object_get(placement, "shm_bytes"));
	const struct yaml_node *type = n->kind == YAML_KIND_MAP ? yaml_get(n, "gpu_type") : n,
			       *size = n->kind == YAML_KIND_MAP ? yaml_get(n, "shm") : n;
	const struct expr_template *const *t = s->settings;

	if (!t[SETTING_GPU] && (json_object_get(placement, "gpu_type") || t[SETTING_GPU_TYPE]) &&
	    s->machine->resources.gpus == 0)
		doc_error(d, type, "`gpu_type` goes with `gpu`: how many of them");
	if (!t[SETTING_SHM] && !t[SETTING_MEMORY] && s->machine->resources.memory_bytes &&
	    shm > s->machine->resources.memory_bytes)
		doc_error(d, size, "`shm` is a part of `memory`, and more than it");
}

/* Values of expressions. */

/* 0, or -1 after a report. */
static int read_value_of(const struct doc *d, enum step_setting which,
			 const struct expr_template *t, const struct value *v,
			 const struct settled *to)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct yaml_node n = { .kind = YAML_KIND_SCALAR,
			       .style = v->type == VALUE_STRING ? YAML_STYLE_QUOTED
								: YAML_STYLE_PLAIN,
			       .line = t->line,
			       .col = t->col };
	size_t errors = diag_errors(d->l->diags);

	str_add(&text, "");
	value_add_text(&text, v);
	n.text = text.s;
	n.len = text.len;
	if (v->type == VALUE_LIST || v->type == VALUE_BOOL || v->type == VALUE_NULL)
		doc_error(d, &n, "`%s` must be %s, not %s", settings[which].name,
			  expr_type_name(settings[which].types[0]), value_type_phrase(v->type));
	else
		read_one(d, which, &n, to);
	return diag_errors(d->l->diags) > errors ? -1 : 0;
}

bool step_has_settings(const struct step *s)
{
	for (int i = 0; i < STEP_SETTINGS; i++)
		if (s->settings[i])
			return true;
	return false;
}

int step_settle(const struct step *s, const struct value *values, struct arena *arena,
		struct step *ret, struct err *err)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(arena_freep) struct arena *scratch = arena_new();
	_cleanup_(str_deinit) struct str text = { 0 };
	static const struct expr_template *const no_settings[STEP_SETTINGS];
	struct loader l = { .arena = arena, .scratch = scratch, .diags = diags };
	json_t *placement =
		s->machine->place.json ? json_loads(s->machine->place.json, 0, NULL) : NULL;
	struct settled to = { arena_memdup(arena, s->policy, sizeof(*s->policy)),
			      arena_memdup(arena, s->machine, sizeof(*s->machine)),
			      placement ? placement : json_object() };
	struct step out = *s;

	for (int i = 0; i < STEP_SETTINGS; i++) {
		const struct expr_template *t = s->settings[i];
		struct doc d = { .l = &l, .file = t ? t->file : NULL };

		if (t)
			read_value_of(&d, i, t, &values[i], &to);
	}
	out.policy = to.policy;
	out.machine = to.machine;
	out.settings = no_settings;
	if (diag_errors(diags) == 0) {
		struct doc d = { .l = &l, .file = s->pos.file };

		resources_check(&d, &(struct yaml_node){ .line = s->pos.line, .col = s->pos.col },
				&out, to.placement);
	}
	json_add_canonical(&text, to.placement);
	to.machine->place.json =
		json_object_size(to.placement) ? arena_strdup(arena, text.s) : NULL;
	json_decref(to.placement);
	if (diag_errors(diags))
		return diag_to_err(diags, s->pos.file, err);
	*ret = out;
	return 0;
}

/* Checks when the file is read. */

/* Checks one possible value: 0, or -1 after a report. */
static int check_value(const struct doc *d, enum step_setting which, const struct expr_template *t,
		       const struct value *v)
{
	struct step_policy policy = { 0 };
	struct step_machine machine = { 0 };
	struct settled to = { &policy, &machine, json_object() };
	int r = read_value_of(d, which, t, v, &to);

	json_decref(to.placement);
	return r;
}

struct setting_uses {
	struct loader *l;
	const struct step *s;
	const struct expr_template *at;
	enum step_setting which;
	uint32_t axis; /* the last one that it uses, from 1 */
	size_t n_axes;
	bool item, refused;
};

static void note_setting_ref(void *arg, const struct ref *ref)
{
	struct setting_uses *u = arg;
	const struct step *s = u->s;
	const struct step_local *local =
		ref->kind == REF_LOCAL ? &s->program.locals[ref->index] : NULL;
	bool is_item = ref->kind >= REF_ITEM && ref->kind <= REF_ITEM_VALUE;

	u->item |= is_item;
	if (ref->kind == REF_MATRIX && u->axis != ref->index + 1) {
		u->axis = ref->index + 1;
		u->n_axes++;
	}
	if (local && local->value)
		template_refs(local->value, note_setting_ref, u);
	if (u->refused || ref->kind == REF_BROKEN)
		return;
	u->refused = (ref->kind != REF_PARAM && ref->kind != REF_LOCAL && ref->kind != REF_MATRIX &&
		      ref->kind != REF_SCHEDULE && !is_item) ||
		     (is_item && u->which == SETTING_IMAGE && s->tasks->each &&
		      !each_is_known(s->tasks->each));
	if (u->refused)
		diag_error(
			u->l->diags, u->at->file, u->at->line, u->at->col,
			is_item ? "`%s` can't use an `item` that is a file, or that a step "
				  "makes: images become digests when a run starts"
				: "`%s` can't use this param: what the step gives for it is known "
				  "only when other steps have ended",
			settings[u->which].name);
}

/* A value that the file itself has: the default of a param, the n-th value of an axis or item.
 * 1: there is none. */
struct setting_case {
	const struct loader *l;
	const struct step *s;
	size_t n;
	struct arena *arena;
};

static int value_in_file(void *arg, const struct ref *ref, struct value *ret, struct err *err)
{
	struct setting_case *c = arg;
	const struct step *s = c->s;
	const struct param_decl *decl = NULL;
	const struct step_local *local;
	struct expr_scope scope = { .resolve = value_in_file, .arg = c };

	switch (ref->kind) {
	case REF_PARAM:
		decl = &c->l->params.v[ref->index];
		break;
	case REF_LOCAL:
		local = &s->program.locals[ref->index];
		if (local->value)
			return template_eval(local->value, &scope, c->arena, ret, err);
		decl = local->decl;
		break;
	case REF_MATRIX: {
		const struct matrix_axis *a = &s->tasks->matrix.axes[ref->index];

		if (c->n < a->n_values)
			*ret = a->values[c->n];
		else if (c->n - a->n_values < s->tasks->matrix.n_include)
			*ret = s->tasks->matrix.include[c->n - a->n_values].by_axis[ref->index];
		else
			return 1;
		return 0;
	}
	case REF_ITEM:
		if (!s->tasks->each || !s->tasks->each->values || c->n >= s->tasks->each->n_values)
			return 1;
		*ret = s->tasks->each->values[c->n];
		return 0;
	default:
		return 1;
	}
	*ret = decl->def;
	return decl->has_default ? 0 : 1;
}

/* Checks the value of a setting for each value of the one axis, or of the items, that it uses. */
static void check_values(const struct setting_uses *u)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct doc d = { .l = u->l, .file = u->at->file };
	struct setting_case c = { .l = u->l, .s = u->s, .arena = arena };
	struct expr_scope scope = { .resolve = value_in_file, .arg = &c };
	size_t n = 1;

	if (u->n_axes > 1)
		return; /* the planner checks all combinations */
	if (u->axis)
		n = u->s->tasks->matrix.axes[u->axis - 1].n_values + u->s->tasks->matrix.n_include;
	else if (u->item)
		n = u->s->tasks->each->values ? u->s->tasks->each->n_values : 0;
	for (c.n = 0; c.n < n; c.n++) {
		struct value v; /* the planner reports what can't be evaluated */
		int r = template_eval(u->at, &scope, arena, &v, NULL);

		if (r < 0 || (r == 0 && check_value(&d, u->which, u->at, &v) < 0))
			return;
	}
}

void setting_check(struct loader *l, const struct step *s, enum step_setting which,
		   enum expr_type t)
{
	struct setting_uses uses = { .l = l, .s = s, .which = which, .at = s->settings[which] };
	const enum expr_type *types = settings[which].types;

	if (t != TYPE_ANY && t != types[0] && (!types[1] || t != types[1])) {
		diag_error(l->diags, uses.at->file, uses.at->line, uses.at->col,
			   "`%s` must be %s, not %s", settings[which].name,
			   expr_type_name(types[0]), expr_type_name(t));
		return;
	}
	template_refs(uses.at, note_setting_ref, &uses);
	if (!uses.refused)
		check_values(&uses);
}
