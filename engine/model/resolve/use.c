/* engine/model/resolve/use.c — references across the border of a used pipeline (model/use.c
 * has the design).
 *
 * A using step and the `outputs` of a pipeline are steps that aren't in the model. They are
 * resolved as such, each on its side of the border, and the deps that they collect are dropped: a
 * step of the model gets the dep when one of its references stands for theirs. resolve_all() calls,
 * in this order: resolve_offers() from the innermost use to the outermost, resolve_using() the
 * other way, resolve_inherited_conditions() for each step, resolve_needs_of_used() at the end,
 * since which steps end a pipeline depends on the deps in it.
 */
#include "model/resolve/internal.h"

/* What crosses the border of a used pipeline (model/use.c) was resolved before, on its other side.
 */
bool resolver_stand_for(struct resolver *rs, struct ref *ref, const struct step_input *in)
{
	*ref = (struct ref){ .kind = in->from.kind,
			     .step = in->from.step,
			     .index = in->from.index,
			     .name = in->from.name,
			     .line = ref->line,
			     .col = ref->col };
	if (ref->kind == REF_STEP_OUTPUT) {
		resolver_add_dep(rs, ref->step, &in->pos)->data = true;
		rs->l->builds[ref->step].output_used[ref->index] = true;
	}
	rs->below = in->subpath;
	return ref->kind != REF_BROKEN;
}

/* What the pipeline that a step uses offers. */
bool resolve_offer(struct resolver *rs, struct ref *ref, const struct dotted *d,
		   const struct use *use)
{
	const struct step *s = use->broken ? NULL : use->offers->s;
	_cleanup_(freep) const char **names = NULL;
	bool metrics = strcmp(d->second, "metrics") == 0;
	size_t n;

	if (use->broken)
		ref->kind = REF_BROKEN;
	if (use->broken)
		return false;
	if (!d->rest || (!metrics && strcmp(d->second, "outputs") != 0))
		return resolver_fail(
			rs, ref,
			"step `%s` uses a pipeline: it has `outputs` and `metrics`, not `%s`",
			d->first, d->second);
	n = metrics ? use->n_metrics : s->n_inputs;
	names = xcalloc(n, sizeof(*names));
	for (size_t i = 0; i < n; i++)
		names[i] = metrics ? use->metrics[i].name : s->inputs[i].name;
	if (!metrics && rs->place != AT_FROM && rs->place != AT_EACH)
		return resolver_fail(rs, ref,
				     "content of another step comes as an input: add `inputs: {%s: "
				     "\"${{ steps.%s.outputs.%s }}\"}` and use ${{ inputs.%s }}",
				     d->rest, d->first, d->rest, d->rest);
	if (metrics && rs->place != AT_IF && rs->place != AT_COMMAND && rs->place != AT_UNTIL)
		return resolver_fail(rs, ref, "metrics can be used in `if` and in commands only");
	for (size_t i = 0; !metrics && i < s->n_inputs; i++)
		if (strcmp(s->inputs[i].name, d->rest) == 0)
			return resolver_stand_for(rs, ref, &s->inputs[i]);
	for (size_t i = 0; metrics && i < use->n_metrics; i++) {
		const struct offered_metric *m = &use->metrics[i];

		if (strcmp(m->name, d->rest) != 0)
			continue;
		*ref = (struct ref){ .kind = m->ref.kind,
				     .step = m->ref.step,
				     .name = m->ref.name,
				     .line = ref->line,
				     .col = ref->col };
		if (ref->kind == REF_STEP_METRIC)
			resolver_add_dep(rs, ref->step, &m->pos)->metrics = true;
		return ref->kind != REF_BROKEN;
	}
	return resolver_fail(
		rs, ref,
		"`%s`, which step `%s` uses, offers no %s `%s`%s: it says so at its top, "
		"`%s: {%s: …}`",
		use->doc->file, d->first, metrics ? "metric" : "output", d->rest,
		loader_suggest(rs->l, d->rest, names, n), d->second, d->rest);
}

static void note_needed(void *arg, const struct ref *ref)
{
	struct resolver *rs = arg;

	if (ref->kind == REF_STEP_METRIC)
		resolver_add_dep(rs, ref->step, &(struct pos){ rs->file, ref->line, ref->col })
			->metrics = true;
	if (ref->kind == REF_STEP_VALUE) {
		struct step_dep *dep = resolver_add_dep(
			rs, ref->step, &(struct pos){ rs->file, ref->line, ref->col });

		dep->data = dep->values = true;
	}
	if (ref->kind == REF_STEP_STATE)
		resolver_add_dep(rs, ref->step, &(struct pos){ rs->file, ref->line, ref->col })
			->state = true;
}

/* `if` of the steps that use this step's pipeline, and of those that use theirs, holds for it too.
 * It comes first, so that what it excludes isn't looked at. */
void resolve_inherited_conditions(struct resolver *rs)
{
	struct expr *all, **args;
	uint32_t n = rs->s->condition != NULL;

	for (const struct use *use = rs->b->use; use->by; use = use->parent)
		n += use->by->s->condition != NULL;
	if (n == (rs->s->condition != NULL))
		return;
	args = arena_alloc(rs->l->arena, n * sizeof(struct expr *));
	all = arena_alloc(rs->l->arena, sizeof(*all));
	if (rs->s->condition)
		args[n - 1] = (struct expr *)(uintptr_t)rs->s->condition;
	*all = (struct expr){ .kind = EXPR_AND, .n_args = n, .args = args };
	n -= rs->s->condition != NULL;
	for (const struct use *use = rs->b->use; use->by; use = use->parent) {
		const struct expr *e = use->by->s->condition;
		const struct expr_part part = { .expr = e };

		if (!e)
			continue;
		rs->file = e->file;
		template_refs(
			&(struct expr_template){ .n_parts = 1, .parts = (struct expr_part *)&part },
			note_needed, rs);
		args[--n] = (struct expr *)(uintptr_t)e;
	}
	all->file = args[0]->file;
	all->line = args[0]->line;
	all->col = args[0]->col;
	rs->s->condition = all->n_args == 1 ? args[0] : all;
}

/* A step that isn't in the model: its references are resolved for the steps that they stand for.
 * `number` tells it from others of its kind. */
static void begin_outside(struct resolver *rs, struct build *b, uint32_t number)
{
	resolver_begin(rs, b);
	b->s->index = (uint32_t)rs->l->n_steps + number;
	resolve_inputs(rs);
}

void resolve_offers(struct resolver *rs, struct use *use, uint32_t number)
{
	struct step *s = use->offers->s;

	begin_outside(rs, use->offers, number);
	for (size_t i = 0; i < s->n_inputs; i++)
		if (s->inputs[i].from.kind == REF_PIPELINE_INPUT)
			doc_error_at(rs->l->diags, &s->inputs[i].pos,
				     "an output of a pipeline is one of a step: \"${{ "
				     "steps.STEP.outputs.NAME }}\"");
	for (size_t i = 0; i < use->n_metrics; i++) {
		resolver_enter(rs, AT_IF, use->doc->file);
		resolve_ref(rs, &use->metrics[i].ref);
		if (use->metrics[i].ref.kind == REF_STEP_METRIC ||
		    use->metrics[i].ref.kind == REF_BROKEN)
			continue;
		doc_error_at(rs->l->diags, &use->metrics[i].pos,
			     "a metric of a pipeline is one of a step: \"${{ "
			     "steps.STEP.metrics.NAME }}\"");
		use->metrics[i].ref.kind = REF_BROKEN;
	}
}

void resolve_using(struct resolver *rs, struct use *use, uint32_t number)
{
	begin_outside(rs, use->by, number);
	resolve_locals(rs, AT_GIVEN);
	resolve_condition(rs);
	for (size_t i = 0; i < use->by->needs.n; i++) {
		const struct need *need = &use->by->needs.v[i];

		if (!map_get_str(rs->l->names.steps, need->name))
			doc_error_at(rs->l->diags, &need->pos,
				     "step `%s` needs `%s`, which does not exist%s", rs->s->name,
				     need->name,
				     doc_suggest_key(rs->l, need->name, rs->l->names.steps));
	}
}

/* Continues with a step whose deps are known but for `needs`. */
static void begin_again(struct resolver *rs, struct build *b)
{
	resolver_begin(rs, b);
	for (size_t i = 0; i < b->deps.n; i++) {
		rs->mark[b->deps.v[i].step] = b->s->index + 1;
		rs->mark_dep[b->deps.v[i].step] = (uint32_t)i;
	}
}

/* Needing a used pipeline is needing the steps that end it: those whose end doesn't follow from the
 * success of another one. What runs after a failure shows nothing about the step before it. */
static void need_used(struct resolver *rs, const struct use *use, const struct pos *pos)
{
	struct loader *l = rs->l;
	size_t n = use->end_step - use->first_step;
	_cleanup_(freep) bool *follows = xcalloc(n, sizeof(*follows));

	for (uint32_t i = use->first_step; i < use->end_step; i++) {
		const struct build *b = &l->builds[i];
		bool handles = b->s->condition && expr_handles_failure(b->s->condition);

		for (size_t k = 0; k < b->deps.n && !handles; k++) {
			const struct step_dep *d = &b->deps.v[k];

			if (d->step >= use->first_step && d->step < use->end_step &&
			    (d->data || d->metrics || d->order))
				follows[d->step - use->first_step] = true;
		}
	}
	for (uint32_t i = use->first_step; i < use->end_step; i++)
		if (!follows[i - use->first_step])
			resolver_add_dep(rs, i, pos)->order = true;
}

/* `needs` of one step, for this one, as its own (own) or as that of a step that uses its
 * pipeline. */
static void need_all(struct resolver *rs, const struct build *of, bool own)
{
	for (size_t i = 0; i < of->needs.n; i++) {
		const struct need *need = &of->needs.v[i];
		uintptr_t found = (uintptr_t)map_get_str(of->use->names.steps, need->name);

		if (found & USE_BIT)
			need_used(rs, rs->l->uses.v[found & ~USE_BIT], &need->pos);
		else if (found && !own)
			resolver_add_dep(rs, (uint32_t)(found - 1), &need->pos)->order = true;
	}
}

/* From the innermost pipelines to the outermost one, since which steps end a pipeline depends on
 * the `needs` in it. */
void resolve_needs_of_used(struct resolver *rs)
{
	struct loader *l = rs->l;
	unsigned deepest = 0;

	for (size_t i = 0; i < l->uses.n; i++)
		deepest = MAX(deepest, l->uses.v[i]->depth);
	for (unsigned depth = deepest + 1; depth-- > 0 && deepest;)
		for (size_t i = 0; i < l->n_steps; i++) {
			struct build *b = &l->builds[i];
			const struct use *use = b->use;

			if (use->depth < depth)
				continue;
			while (use->depth > depth + 1)
				use = use->parent;
			if (use->depth == depth && !b->needs.n)
				continue;
			if (use->depth > depth && !use->by->needs.n)
				continue;
			begin_again(rs, b);
			need_all(rs, use->depth == depth ? b : use->by, use->depth == depth);
		}
}
