/* engine/model/resolve/resolve.c — every text of every step: its references become indices
 * (reference.c), its expressions get their types checked, and steps learn which steps they need.
 *
 * A step's deps are complete when resolve_all() ends; graph.c orders the steps by them. What
 * crosses the border of a used pipeline (model/use.c) is resolved on its own side of it first:
 * offers from the inside out, what using steps give from the outside in.
 *
 * Values in commands: a value may stand only where the shell can name a variable
 * (model/shell/shell.h), or where is_inert() shows that it can't be code. across.c checks what only
 * all steps together show.
 */
#include <assert.h>
#include "model/resolve/internal.h"
#include "model/shell/shell.h"

static void resolve_template(struct resolver *rs, const struct expr_template *t, enum place place)
{
	struct expr_check ctx = { .type_of = resolver_type_of, .arg = rs, .diags = rs->l->diags };

	if (!t || (t->n_parts == 1 && !t->parts[0].expr))
		return;
	resolver_enter(rs, place, t->file);
	template_refs_mut(t, resolve_ref, rs);
	template_check(t, &ctx);
}

static enum expr_type type_of_template(struct resolver *rs, const struct expr_template *t,
				       enum place place)
{
	_cleanup_(diag_list_freep) struct diag_list *quiet = diag_list_new();
	struct expr_check ctx = { .type_of = resolver_type_of, .arg = rs, .diags = quiet };
	const struct expr *single = template_single(t);

	resolver_enter(rs, place, t->file);
	return single ? expr_check(single, &ctx) : TYPE_STRING;
}

/* One step. */

static void resolve_axes(struct resolver *rs)
{
	for (size_t i = 0; i < rs->s->tasks->matrix.n_axes; i++) {
		const struct matrix_axis *a = &rs->s->tasks->matrix.axes[i];
		enum expr_type t;

		if (!a->list)
			continue;
		resolve_template(rs, a->list, AT_AXIS);
		t = type_of_template(rs, a->list, AT_AXIS);
		if (t != TYPE_LIST && t != TYPE_ANY && template_single(a->list))
			diag_error(rs->l->diags, a->list->file, a->list->line, a->list->col,
				   "matrix axis `%s` needs a list, not %s", a->name,
				   expr_type_name(t));
	}
}

/* A single file has no members and nothing below it. */
static bool is_single_file(const struct resolver *rs, const struct ref *ref)
{
	const struct step *t;

	if (ref->kind != REF_STEP_OUTPUT)
		return false;
	t = &rs->l->steps[ref->step];
	return !t->outputs[ref->index].is_dir && !resolver_gathers(rs, t);
}

static void resolve_each(struct resolver *rs)
{
	struct each_decl *e = (struct each_decl *)(uintptr_t)rs->s->tasks->each;

	if (!e || e->from.kind != REF_UNRESOLVED)
		return;
	resolver_enter(rs, AT_EACH, rs->b->doc->file);
	rs->below = NULL;
	resolve_ref(rs, &e->from);
	if (rs->below) {
		resolver_fail(
			rs, &e->from,
			"`each` can't range over this input: what is given for it is a path below "
			"a "
			"reference (%s:%d); let a step give exactly these files",
			rs->below->file, rs->below->line);
		return;
	}
	if (e->from.kind == REF_PARAM || e->from.kind == REF_STEP_VALUE) {
		bool param = e->from.kind == REF_PARAM;

		e->is_list = true;
		if (param && rs->l->params.v[e->from.index].type != VALUE_LIST)
			resolver_fail(rs, &e->from, "`each` needs a list; param `%s` is %s",
				      e->from.name,
				      value_type_phrase(rs->l->params.v[e->from.index].type));
		else if (e->glob)
			resolver_fail(rs, &e->from,
				      "%s `%s` is a list of values: nothing can stand behind it",
				      param ? "param" : "value", e->from.name);
		return;
	}
	if (is_single_file(rs, &e->from))
		resolver_fail(
			rs, &e->from,
			"output `%s` of step `%s` is a file; `each` needs a directory (a path "
			"that ends in /)",
			e->from.name, rs->l->steps[e->from.step].name);
	if (!e->glob)
		e->glob = "*";
}

/* A path below what a reference stands for, and one below that. */
static const struct expr_template *join_paths(struct loader *l, const struct expr_template *first,
					      const struct expr_template *second)
{
	struct expr_template *t = arena_memdup(l->arena, first, sizeof(*t));

	if (!second)
		return first;
	t->n_parts = first->n_parts + second->n_parts;
	t->parts = arena_alloc(l->arena, t->n_parts * sizeof(*t->parts));
	memcpy(t->parts, first->parts, first->n_parts * sizeof(*t->parts));
	memcpy(t->parts + first->n_parts, second->parts, second->n_parts * sizeof(*t->parts));
	return t;
}

/* What the round before made. */
static void resolve_then(struct resolver *rs, struct step_input *in)
{
	resolver_enter(rs, AT_THEN, rs->b->doc->file);
	resolve_ref(rs, &in->from);
	if (in->subpath && is_single_file(rs, &in->from))
		resolver_fail(rs, &in->from,
			      "output `%s` of step `%s` is a file: there is nothing below it",
			      in->from.name, rs->s->name);
	resolve_template(rs, in->subpath, AT_PATH);
}

void resolve_inputs(struct resolver *rs)
{
	struct step_input *inputs = (struct step_input *)(uintptr_t)rs->s->inputs;
	const struct expr_template *below;

	for (size_t i = 0; i < rs->s->n_inputs; i++) {
		resolver_enter(rs, AT_FROM, rs->b->doc->file);
		rs->below = NULL;
		resolve_ref(rs, &inputs[i].from);
		below = rs->below;
		if (inputs[i].subpath && is_single_file(rs, &inputs[i].from))
			resolver_fail(
				rs, &inputs[i].from,
				"output `%s` of step `%s` is a file: there is nothing below it",
				inputs[i].from.name, rs->l->steps[inputs[i].from.step].name);
		resolve_template(rs, inputs[i].subpath, AT_PATH);
		if (below)
			inputs[i].subpath = join_paths(rs->l, below, inputs[i].subpath);
		if (inputs[i].then)
			resolve_then(rs, (struct step_input *)(uintptr_t)inputs[i].then);
	}
}

static void resolve_with(struct resolver *rs, const struct with_node *w)
{
	if (w->kind == WITH_SCALAR)
		resolve_template(rs, w->scalar, AT_COMMAND);
	for (size_t i = 0; i < w->n; i++)
		resolve_with(rs, &w->children[i]);
}

/* Checks what `with` gives to the params of a step file or a pipeline, as far as the type is
 * known. */
void resolve_locals(struct resolver *rs, enum place place)
{
	for (size_t i = 0; i < rs->s->program.n_locals; i++) {
		const struct step_local *local = &rs->s->program.locals[i];
		enum expr_type t, wanted = expr_type_of_value(local->decl->type);

		if (!local->value || local->value->n_parts == 0)
			continue;
		resolve_template(rs, local->value, place);
		t = type_of_template(rs, local->value, place);
		if (t != TYPE_ANY && t != wanted)
			diag_error(rs->l->diags, local->value->file, local->value->line,
				   local->value->col, "param `%s` of `%s` must be %s, not %s",
				   local->decl->name, doc_name(&rs->b->file->doc),
				   expr_type_name(wanted), expr_type_name(t));
	}
}

static void resolve_bool(struct resolver *rs, const struct expr *read, enum place place,
			 const char *what)
{
	struct expr *e = (struct expr *)(uintptr_t)read;
	struct expr_check ctx = { .type_of = resolver_type_of,
				  .arg = rs,
				  .diags = rs->l->diags,
				  .in_if = place == AT_IF };
	enum expr_type t;

	if (!e)
		return;
	resolver_enter(rs, place, e->file);
	expr_refs_mut(e, resolve_ref, rs);
	t = expr_check(e, &ctx);
	if (t != TYPE_ANY && t != TYPE_BOOL)
		diag_error(rs->l->diags, e->file, e->line, e->col,
			   "%s must be true or false, not %s", what, expr_type_name(t));
}

void resolve_condition(struct resolver *rs)
{
	resolve_bool(rs, rs->s->condition, AT_IF, "`if`");
}

/* Settings: image, resources, timeout, … (step/settings.c). */

static void resolve_settings(struct resolver *rs, enum place place)
{
	for (int i = 0; i < STEP_SETTINGS; i++) {
		const struct expr_template *t = rs->s->settings[i];
		size_t errors = diag_errors(rs->l->diags);

		if (!t || (rs->b && t == rs->b->use->defaults.settings[i]))
			continue; /* none, or checked already */
		resolve_template(rs, t, place);
		if (diag_errors(rs->l->diags) == errors)
			setting_check(rs->l, rs->s, i, type_of_template(rs, t, place));
	}
}

struct export_uses {
	uint64_t axes;
	bool item, local; /* the value of a step file's param isn't followed */
};

static void note_use(void *arg, const struct ref *ref)
{
	struct export_uses *u = arg;

	u->item |= ref->kind >= REF_ITEM && ref->kind <= REF_ITEM_VALUE;
	u->local |= ref->kind == REF_LOCAL;
	if (ref->kind == REF_MATRIX && ref->index < 64)
		u->axes |= 1ULL << ref->index;
}

/* Refuses tasks of one step that would all export to one place. */
static void check_export(struct resolver *rs, const struct step_output *o)
{
	const struct step *s = rs->s;
	struct export_uses uses = { 0 };

	template_refs(o->export, note_use, &uses);
	if (uses.local)
		return;
	if (s->tasks->each && !uses.item)
		doc_error_at(
			rs->l->diags, &o->pos,
			"all tasks of step `%s` would export `%s` to one place: put ${{ item.name "
			"}} into it",
			s->name, o->name);
	for (uint32_t i = 0; i < s->tasks->matrix.n_axes; i++)
		if (i < 64 && !(uses.axes & 1ULL << i))
			doc_error_at(rs->l->diags, &o->pos,
				     "several tasks of step `%s` would export `%s` to one place: "
				     "put ${{ matrix.%s }} into it",
				     s->name, o->name, s->tasks->matrix.axes[i].name);
}

/* Values in commands. */

static bool inert_values(const struct value *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].type == VALUE_LIST ||
		    (v[i].type == VALUE_STRING && !shell_plain_word(v[i].s, strlen(v[i].s))))
			return false;
	return n > 0;
}

static bool inert_axis(const struct step *s, size_t axis)
{
	const struct matrix_axis *a = &s->tasks->matrix.axes[axis];

	for (size_t i = 0; i < s->tasks->matrix.n_include; i++)
		if (s->tasks->matrix.include[i].by_axis[axis].type != VALUE_NULL &&
		    !inert_values(&s->tasks->matrix.include[i].by_axis[axis], 1))
			return false;
	if (a->values && a->n_values == 0) /* all come from `include` */
		return s->tasks->matrix.n_include > 0;
	return a->values && inert_values(a->values, a->n_values);
}

/* Whether its value can only be a number, true, false, or a plain word that the file spells out. */
static bool is_inert(struct resolver *rs, const struct expr *e)
{
	const struct param_decl *param = NULL;
	const struct step *s = rs->s;
	_cleanup_(diag_list_freep) struct diag_list *quiet = diag_list_new();
	enum expr_type t = expr_check(
		e, &(struct expr_check){ .type_of = resolver_type_of, .arg = rs, .diags = quiet });

	if (t == TYPE_NUMBER || t == TYPE_BOOL)
		return true;
	if (e->kind == EXPR_REF && e->ref.kind == REF_BROKEN) /* already reported */
		return true;
	if (e->kind == EXPR_CONST)
		return inert_values(&e->value, 1);
	if (e->kind == EXPR_CALL && e->op == FUNC_CHOOSE)
		return is_inert(rs, e->args[1]) && is_inert(rs, e->args[2]);
	if (e->kind != EXPR_REF)
		return false;
	switch (e->ref.kind) {
	case REF_STEP_STATE:
	case REF_RUN_STATE:
	case REF_INPUT: /* inputs/NAME, with an ending of letters and digits */
		return true;
	case REF_OUTPUT:
		return shell_plain_word(s->outputs[e->ref.index].path,
					strlen(s->outputs[e->ref.index].path));
	case REF_MATRIX:
		return inert_axis(s, e->ref.index);
	case REF_PARAM:
		param = &rs->l->params.v[e->ref.index];
		break;
	case REF_LOCAL:
		param = rs->b->file->params + e->ref.index;
		break;
	default:
		return false;
	}
	return param->choices && inert_values(param->choices, param->n_choices);
}

/* A command that names a place in the project by its absolute path reads it without the key
 * knowing. */
static void warn_of_project_paths(struct resolver *rs, const struct expr_template *run)
{
	const char *root = rs->l->root;
	size_t n = root ? strlen(root) : 0;

	for (size_t i = 0; i < run->n_parts && n > 1; i++) {
		const char *text = run->parts[i].text,
			   *found = text ? memmem(text, run->parts[i].len, root, n) : NULL;

		if (!found ||
		    (found + n < text + run->parts[i].len && !strchr("/ \t\n\"';)", found[n])))
			continue;
		diag_warning(rs->l->diags, run->file, run->line, run->col,
			     "step `%s` names the project's directory in its command. What it "
			     "reads there is not part of its key, so an edit doesn't run it again: "
			     "declare it in `inputs` or `code`",
			     rs->s->name);
		return;
	}
}

/* A value reaches the shell as a variable that the command names. Where no variable can be named,
 * only text that is never code may stand. */
static void check_command_places(struct resolver *rs, const struct expr_template *run)
{
	const struct shell_place *place =
		shell_places(run, str_eq(rs->s->program.shell, "bash"), rs->l->arena);

	rs->s->program.places = place;
	for (size_t i = 0; i < run->n_parts; i++) {
		const struct expr_part *part = &run->parts[i];
		const struct expr *e = part->expr;

		if (!e && shell_names_variable(part->text, part->len))
			diag_error(rs->l->diags, run->file, run->line, run->col,
				   "names that begin with " SHELL_VARIABLE
				   " and a digit are Cairn's own: choose another");
		else if (e && place->kind == SHELL_TEXT && (place->glued || !is_inert(rs, e)))
			diag_error(rs->l->diags, e->file, e->line, e->col,
				   "a value can't stand here: %s; %s", place->why,
				   place->code ? "give it by `env: {NAME: \"${{ … }}\"}` and "
						 "let the program read NAME from there"
					       : "set a variable on a line of its own, "
						 "NAME=${{ … }}, and use \"$NAME\" here");
		if (e)
			place++; /* NULL for a command without any */
	}
}

void resolver_begin(struct resolver *rs, struct build *b)
{
	use_enter(rs->l, b->use);
	rs->b = b;
	rs->s = b->s;
}

static void resolve_build(struct resolver *rs, struct build *b)
{
	struct step *s = b->s;

	resolver_begin(rs, b);
	resolve_axes(rs);
	resolve_each(rs);
	resolve_inputs(rs);
	resolve_template(rs, s->program.run, AT_COMMAND);
	if (s->program.run) {
		check_command_places(rs, s->program.run);
		warn_of_project_paths(rs, s->program.run);
	}
	if (s->approve)
		resolve_template(rs, s->approve->message, AT_COMMAND);
	for (size_t i = 0; i < s->reads->n_env; i++)
		resolve_template(rs, s->reads->env[i].value, AT_COMMAND);
	if (s->program.with)
		resolve_with(rs, s->program.with);
	resolve_locals(rs, AT_COMMAND);
	resolve_template(rs, s->keyed->seed, AT_COMMAND);
	resolve_template(rs, s->policy->concurrency.group, AT_COMMAND);
	resolve_settings(rs, AT_SETTING);
	for (size_t i = 0; i < s->n_outputs; i++)
		if (s->outputs[i].export) {
			resolve_template(rs, s->outputs[i].export, AT_EXPORT);
			check_export(rs, &s->outputs[i]);
		}
	resolve_condition(rs);
	if (s->tasks->repeat)
		resolve_bool(rs, s->tasks->repeat->until, AT_UNTIL, "`until`");
	resolve_inherited_conditions(rs);
	for (size_t i = 0; i < b->needs.n; i++) {
		const struct need *need = &b->needs.v[i];
		uintptr_t found = (uintptr_t)map_get_str(rs->l->names.steps, need->name);

		if (found & USE_BIT)
			continue; /* need_used() */
		else if (found)
			resolver_add_dep(rs, (uint32_t)(found - 1), &need->pos)->order = true;
		else
			doc_error_at(rs->l->diags, &need->pos,
				     "step `%s` needs `%s`, which does not exist%s", s->name,
				     need->name,
				     doc_suggest_key(rs->l, need->name, rs->l->names.steps));
	}
}

void resolve_defaults(struct loader *l, struct use *use)
{
	struct step *s = &use->defaults;
	struct resolver rs = { .l = l, .s = s };

	for (size_t i = 0; i < s->reads->n_env; i++)
		resolve_template(&rs, s->reads->env[i].value, AT_DEFAULTS);
	resolve_template(&rs, s->keyed->seed, AT_DEFAULTS);
	resolve_template(&rs, s->policy->concurrency.group, AT_DEFAULTS);
	resolve_settings(&rs, AT_DEFAULTS);
}

void resolve_schedule_params(struct loader *l, struct schedule_decl *s)
{
	struct resolver rs = { .l = l, .s = &l->uses.v[0]->defaults, .schedule = s };

	for (size_t i = 0; i < s->n_params; i++)
		resolve_template(&rs, s->params[i].value, AT_SCHEDULE);
}

void resolve_all(struct loader *l)
{
	struct resolver rs = { .l = l };

	rs.mark = arena_alloc(l->scratch, l->n_steps * sizeof(*rs.mark));
	rs.mark_dep = arena_alloc(l->scratch, l->n_steps * sizeof(*rs.mark_dep));
	for (size_t i = 0; i < l->n_steps; i++)
		l->builds[i].output_used = arena_alloc(l->scratch, l->steps[i].n_outputs);
	/* Offers of inner pipelines first, since those of outer ones may be made of them. What
	 * steps give goes the other way. */
	for (size_t i = l->uses.n; i-- > 0;)
		if (!l->uses.v[i]->broken)
			resolve_offers(&rs, l->uses.v[i], (uint32_t)i);
	for (size_t i = 1; i < l->uses.n; i++)
		if (!l->uses.v[i]->broken)
			resolve_using(&rs, l->uses.v[i], (uint32_t)(l->uses.n + i));
	for (size_t i = 0; i < l->n_steps; i++)
		resolve_build(&rs, &l->builds[i]);
	resolve_needs_of_used(&rs);
	for (size_t i = 0; i < l->n_steps; i++) {
		const struct build *b = &l->builds[i];

		b->s->deps = arena_memdup(l->arena, b->deps.n ? (void *)b->deps.v : "",
					  b->deps.n * sizeof(*b->deps.v));
		b->s->n_deps = b->deps.n;
	}
	resolve_check_exports(l);
	resolve_check_temp(l);
	if (diag_errors(l->diags) == 0)
		resolve_warn_unused(l);
}
