/* Which steps and tasks a command line asks for: targets, --from, --until, --force. A step that
 * uses a pipeline means all of that one's steps. */
#include "base/text/text.h"
#include "plan/internal.h"

/* "train" or "train[fold=0]" → step; "sub" → the steps of the pipeline that it uses. */
static int find_steps(const struct plan *p, const char *what, const char *name,
		      const struct step **ret, size_t *ret_n, struct err *err)
{
	const struct pipeline *pl = p->ctx.pipeline;
	_cleanup_(freep) char *step = xstrndup(name, strcspn(name, "["));
	_cleanup_(freep) const char **names = NULL;
	_cleanup_(str_deinit) struct str hint = { 0 };

	*ret = pipeline_find_steps(pl, step, ret_n);
	if (*ret && (!strchr(name, '[') || str_eq((*ret)->name, step)))
		return 0;
	names = xcalloc(pl->n_steps + 1, sizeof(*names));
	for (size_t i = 0; i < pl->n_steps; i++)
		names[i] = pl->steps[i].name;
	text_add_suggestion(&hint, step, names, pl->n_steps);
	return err_set(err, ERR_INVALID, "%s: no step `%s` in %s%s", what, step, pl->path,
		       hint.s ? hint.s : "");
}

static struct plan_named *named(struct plan *p, const struct step *s)
{
	struct plan_step *ps = &p->steps[s->index];

	if (!ps->named)
		ps->named = arena_alloc(p->arena, sizeof(*ps->named));
	return ps->named;
}

static void add_name(struct task_names *t, const char *label)
{
	t->v = xreallocarray(t->v, t->n + 1, sizeof(*t->v));
	t->v[t->n++] = label;
}

/* For --from and --until, which name whole steps. */
static int find_whole_steps(const struct plan *p, const char *what, const char *name,
			    const struct step **ret, size_t *ret_n, struct err *err)
{
	if (strchr(name, '['))
		return err_set(err, ERR_INVALID, "%s takes a step, and `%s` is one of its tasks",
			       what, name);
	return find_steps(p, what, name, ret, ret_n, err);
}

static int select_targets(struct plan *p, bool *selected, struct err *err)
{
	const struct plan_options *o = &p->options;

	for (size_t i = 0; i < o->select.n_targets; i++) {
		const struct step *s;
		size_t n;

		if (find_steps(p, "target", o->select.targets[i], &s, &n, err) < 0)
			return -1;
		if (strchr(o->select.targets[i], '['))
			add_name(&named(p, s)->only, o->select.targets[i]);
		memset(&selected[s->index], true, n);
	}
	if (o->select.until) {
		const struct step *s;
		size_t n;

		if (find_whole_steps(p, "--until", o->select.until, &s, &n, err) < 0)
			return -1;
		memset(&selected[s->index], true, n);
	}
	/* What `finally` does to the world isn't made again by a reproduction. */
	for (size_t i = 0; !o->select.n_targets && !o->select.until && i < p->n_steps; i++)
		selected[i] = !(p->ctx.again && p->steps[i].decl->finally);
	for (size_t i = p->n_steps; i-- > 0;) { /* and the steps they need */
		const struct step *s = p->steps[p->ctx.pipeline->order[i]].decl;

		for (size_t d = 0; d < s->n_deps && selected[s->index]; d++)
			selected[s->deps[d].step] = true;
	}
	return 0;
}

/* Keeps `from` and what comes after it; steps that these need from before are only looked up. */
static int select_from(struct plan *p, bool *selected, struct err *err)
{
	const struct pipeline *pl = p->ctx.pipeline;
	_cleanup_(freep) bool *after = xcalloc(p->n_steps + 1, sizeof(bool));
	const struct step *from;
	size_t n;

	if (find_whole_steps(p, "--from", p->options.select.from, &from, &n, err) < 0)
		return -1;
	memset(&after[from->index], true, n);
	for (size_t i = 0; i < pl->n_steps; i++) {
		const struct step *s = &pl->steps[pl->order[i]];

		after[s->index] |= s->finally;
		for (size_t d = 0; d < s->n_deps; d++)
			after[s->index] |= after[s->deps[d].step];
	}
	for (size_t i = 0; i < p->n_steps; i++)
		if (!after[i])
			p->steps[i].lookup_only = selected[i];
	return 0;
}

static int select_forced(struct plan *p, struct err *err)
{
	for (size_t i = 0; i < p->options.select.n_force; i++) {
		const struct step *s;
		size_t n;

		if (str_eq(p->options.select.force[i], "*")) {
			for (size_t k = 0; k < p->n_steps; k++)
				p->steps[k].forced = true;
			continue;
		}
		if (find_steps(p, "--force", p->options.select.force[i], &s, &n, err) < 0)
			return -1;
		if (strchr(p->options.select.force[i], '['))
			add_name(&named(p, s)->forced, p->options.select.force[i]);
		for (size_t k = 0; k < n && !strchr(p->options.select.force[i], '['); k++)
			p->steps[s->index + k].forced = true;
	}
	return 0;
}

int plan_select_tasks(struct plan *p, struct err *err)
{
	_cleanup_(freep) bool *selected = xcalloc(p->n_steps + 1, sizeof(bool));

	if (select_targets(p, selected, err) < 0)
		return -1;
	if (p->options.select.from && select_from(p, selected, err) < 0)
		return -1;
	for (size_t i = 0; i < p->n_steps; i++) {
		p->steps[i].selected = selected[i];
		/* A step that another selected step needs is needed whole. */
		for (size_t d = 0; selected[i] && d < p->steps[i].decl->n_deps; d++)
			p->steps[p->steps[i].decl->deps[d].step].whole = true;
	}
	return select_forced(p, err);
}
