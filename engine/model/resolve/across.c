/* engine/model/resolve/across.c — what only all steps together show, when their references are
 * resolved: declarations that nothing uses, outputs that would be exported to one place, and
 * outputs that would be exported into what the pipeline reads.
 *
 * Unused params, inputs and outputs are warned about only when there is no error, since something
 * that looks unused may be what the error is about. Places of exports that depend on values are
 * checked when tasks have their values. */
#include "base/os/fs.h"
#include "model/read.h"

/* Unused declarations. */

/* Whether the next round of its step reads it. */
static bool is_handed_on(const struct step *s, size_t output)
{
	for (size_t i = 0; i < s->n_inputs; i++)
		if (s->inputs[i].then && s->inputs[i].then->from.index == output)
			return true;
	return false;
}

/* A plan looks into content that is listed or read in part, so it has to be there in each run. */
static void warn_of_parts(struct loader *l, const struct step *s, size_t output)
{
	for (size_t i = 0; i < l->n_steps; i++) {
		const struct step *reader = &l->steps[i];
		const struct ref *each = reader->tasks->each ? &reader->tasks->each->from : NULL;
		bool parts = each && each->kind == REF_STEP_OUTPUT && each->step == s->index &&
			     each->index == output;

		for (size_t k = 0; k < reader->n_inputs; k++) {
			const struct step_input *in = &reader->inputs[k];

			parts |= in->subpath && in->from.kind == REF_STEP_OUTPUT &&
				 in->from.step == s->index && in->from.index == output;
		}
		if (parts)
			diag_warn_at(l->diags, &s->outputs[output].pos,
				     "output `%s` of step `%s` is `temp`, but step `%s` reads a "
				     "part of it or is fanned out over it: to see that nothing "
				     "changed, its content is made again after each `cairn store "
				     "gc`",
				     s->outputs[output].name, s->name, reader->name);
	}
}

/* Freed content of a step that nothing reads would be made again in each run. */
void resolve_check_temp(struct loader *l)
{
	for (size_t i = 0; i < l->n_steps; i++)
		for (size_t k = 0; k < l->steps[i].n_outputs; k++) {
			const struct step_output *o = &l->steps[i].outputs[k];

			if (o->temp)
				warn_of_parts(l, &l->steps[i], k);
			if (o->temp && !l->builds[i].output_used[k] &&
			    !is_handed_on(&l->steps[i], k))
				doc_error_at(l->diags, &o->pos,
					     "output `%s` of step `%s` is `temp`, and no step uses "
					     "it: only content that other steps read can be "
					     "temporary",
					     o->name, l->steps[i].name);
		}
}

void resolve_warn_unused(struct loader *l)
{
	for (size_t i = 0; i < l->params.n; i++)
		if (!l->param_used[i])
			diag_warn_at(l->diags, &l->params.v[i].pos, "param `%s` is used nowhere",
				     l->params.v[i].name);
	for (size_t i = 0; i < l->n_declared_inputs; i++)
		if (!l->input_used[i])
			diag_warn_at(l->diags, &l->inputs.v[i].pos, "input `%s` is used by no step",
				     fs_basename(l->inputs.v[i].name));
	/* Tasks that differ only in such an axis have one key. */
	for (size_t i = 0; i < l->n_steps; i++) {
		const struct step *s = l->builds[i].s;
		uint64_t used = l->builds[i].axes_used;

		for (size_t k = 0; k < s->n_deps; k++)
			for (size_t a = 0; a < s->deps[k].n_shared; a++)
				used |= 1ULL << s->deps[k].shared[a].mine;
		for (size_t a = 0; a < s->tasks->matrix.n_axes && s->cache; a++)
			if (!(used >> a & 1) && s->tasks->matrix.axes[a].n_values > 1)
				diag_warn_at(l->diags, &s->pos,
					     "axis `%s` of step `%s` is used nowhere in it: its "
					     "tasks do the same, so only one of them is executed",
					     s->tasks->matrix.axes[a].name, s->name);
	}
	for (size_t i = 0; i < l->n_steps; i++) {
		const struct step *s = l->builds[i].s;

		if (s->tasks->repeat && s->cache && !l->builds[i].round_used &&
		    s->tasks->repeat->max > 1)
			diag_warn_at(l->diags, &s->tasks->repeat->pos,
				     "each round of step `%s` does the same, so only the first one "
				     "is executed: hand on a state (`then`), use ${{ round }}, or "
				     "say `cache: false`",
				     s->name);
	}
	/* The outputs of a last step are what the pipeline is for. An unused output next to used
	 * ones was probably forgotten. */
	for (size_t i = 0; i < l->n_steps; i++) {
		const struct build *b = &l->builds[i];
		bool some = false;

		for (size_t k = 0; k < b->s->n_outputs; k++)
			some |= b->output_used[k];
		for (size_t k = 0; some && k < b->s->n_outputs; k++) {
			const struct step_output *o = &b->s->outputs[k];
			bool plotted = strcmp(o->name, STEP_SERIES_OUTPUT) == 0;

			if (!b->output_used[k] && !o->export && !plotted && !is_handed_on(b->s, k))
				diag_warn_at(l->diags, &o->pos,
					     "output `%s` of step `%s` is used by no step", o->name,
					     b->s->name);
		}
	}
}

/* What is known of a place in the project: all of it (*ret_whole), or the directory that it lies
 * in. Caller frees; NULL: the place is elsewhere. */
static char *known_place(const struct step_output *o, bool *ret_whole)
{
	const char *whole = template_literal(o->export), *end;
	_cleanup_(freep) char *text = NULL;

	if (!export_place_is_path(whole ? whole : o->export->parts[0].text))
		return NULL;
	*ret_whole = whole != NULL;
	if (whole && str_has_suffix(whole, "/") && !o->is_dir)
		text = xasprintf("%s%s", whole, fs_basename(o->path));
	else if (whole)
		text = xstrdup(whole);
	else if ((end = memrchr(o->export->parts[0].text, '/', o->export->parts[0].len)))
		text = xstrndup(o->export->parts[0].text, (size_t)(end - o->export->parts[0].text));
	return fs_normalise(text ? text : "");
}

struct reading {
	struct loader *l;
	const struct step *s;
	const struct step_output *o;
};

/* An export that changes what the next run reads would make each run execute steps again. */
static void is_read(const struct reading *r, const char *what, const char *path)
{
	if (!str_eq(path, "."))
		doc_error_at(
			r->l->diags, &r->o->pos,
			"output `%s` of step `%s` is exported to where %s `%s` is: the next run "
			"would read it; export to another place",
			r->o->name, r->s->name, what, path);
	else
		diag_warn_at(
			r->l->diags, &r->o->pos,
			"output `%s` of step `%s` is exported into the project, and all of the "
			"project is %s: the next run reads it, unless `ignore` in cairn.yaml "
			"names its folder",
			r->o->name, r->s->name, what);
}

static void check_what_is_read(const struct reading *r)
{
	const struct loader *l = r->l;
	bool whole;
	_cleanup_(freep) char *place = known_place(r->o, &whole);
	const struct input_decl *in =
		place ? export_place_meets(l->inputs.v, l->inputs.n, place, whole) : NULL;

	if (in)
		is_read(r, "an input", in->uri);
	for (size_t i = 0; place && !in && i < l->n_steps; i++)
		for (size_t k = 0; k < l->steps[i].reads->n_code; k++) {
			const char *code = l->steps[i].reads->code[k];

			if (fs_is_inside(code, place) || (whole && fs_is_inside(place, code))) {
				is_read(r, "code", code);
				return;
			}
		}
}

/* Refuses equal constant places of different outputs. Other places are known only when tasks have
 * their values. */
void resolve_check_exports(struct loader *l)
{
	_cleanup_(map_freep) struct map *places = map_new();

	for (size_t i = 0; i < l->n_steps; i++)
		for (size_t k = 0; k < l->steps[i].n_outputs; k++) {
			const struct step_output *o = &l->steps[i].outputs[k], *other;
			const char *text = o->export ? template_literal(o->export) : NULL;
			void **slot;

			if (!o->path) /* refused */
				continue;
			if (o->export)
				check_what_is_read(&(struct reading){ l, &l->steps[i], o });
			if (!text)
				continue;
			slot = map_slot(places, text, strlen(text) - str_has_suffix(text, "/"),
					NULL);
			other = *slot;
			if (other)
				doc_error_at(
					l->diags, &o->pos,
					"output `%s` of step `%s` is exported to where line %d "
					"exports `%s` already",
					o->name, l->steps[i].name, other->pos.line, other->name);
			*slot = (void *)o;
		}
}
