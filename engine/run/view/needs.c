/* engine/run/view/needs.c — needs of tasks, from the pipeline and from labels.
 *
 * A label is `step[axis=value,axis=value,round=3]` (plan/label.c). The values of the axes that two
 * steps share make a text; tasks with equal texts belong together. The names of the axes are known,
 * so a value may hold commas.
 *
 * view_needs() handles each dependency of a step once: the latest end of what is needed, by that
 * text, and then the step's tasks. So it is linear in tasks and dependencies.
 *
 * Threads: any. Not here: what a task read (record/rows/attempts.h).
 */
#include "run/view/needs.h"
#include <string.h>

/* Labels. */

/* Finds the value of this axis in a task's label. False: the label isn't one of this step. */
static bool axis_value(const struct step *s, const char *label, uint32_t axis, const char **ret,
		       size_t *ret_n)
{
	const char *at = strchr(label, '['), *end = at ? at + strlen(at) - 1 : NULL;

	for (uint32_t i = 0; at && i <= axis; i++) {
		const char *name = s->tasks->matrix.axes[i].name, *next = end;
		_cleanup_(freep) char *mark = NULL;

		at++;
		if (!str_has_prefix(at, name) || at[strlen(name)] != '=')
			return false;
		at += strlen(name) + 1;
		if (i + 1 < s->tasks->matrix.n_axes)
			mark = xasprintf(",%s=", s->tasks->matrix.axes[i + 1].name);
		else if (s->tasks->repeat)
			mark = xstrdup(",round=");
		if (mark)
			next = strstr(at, mark);
		if (!next)
			return false;
		*ret = at;
		*ret_n = (size_t)(next - at);
		at = next;
	}
	return at != NULL;
}

/* What tells which tasks of two steps belong together: of the needed task (`theirs`), or of the one
 * that needs it. "" when the steps share no axis. */
static const char *pairing(const struct step *s, const struct step_dep *d, bool theirs,
			   const char *label, struct str *out)
{
	str_reset(out);
	str_add(out, "");
	for (size_t i = 0; i < d->n_shared; i++) {
		const char *value;
		size_t n;

		if (axis_value(s, label, theirs ? d->shared[i].theirs : d->shared[i].mine, &value,
			       &n))
			str_addn(out, value, n);
		str_addc(out, ',');
	}
	return out->s;
}

/* The label without its round. */
static size_t loop_len(const char *label)
{
	const char *round = strstr(label, "round=");

	for (const char *next = round; next; next = strstr(next + 1, "round="))
		round = next;
	return round ? (size_t)(round - label) : strlen(label);
}

/* When tasks could begin. */

static int64_t end_of(const struct view_task *t)
{
	return t->n_attempts ? t->ended_ns : 0;
}

static void take(struct view_need *n, const struct view_task *needed)
{
	if (needed && end_of(needed) > n->ready_ns)
		*n = (struct view_need){ needed, end_of(needed) };
}

static void take_dep(const struct run_view *v, const struct view_step *s, const struct step_dep *d,
		     struct view_need *needs)
{
	_cleanup_(map_freep) struct map *latest = map_new();
	_cleanup_(str_deinit) struct str key = { 0 };
	const struct step *of = &v->pipeline->steps[d->step];
	const struct view_step *from = view_find_step(v, of->name);

	for (size_t i = 0; from && i < from->n; i++) {
		const struct view_task *t = &v->tasks[from->first + i];
		void **slot = map_slot_str(latest, pairing(of, d, true, t->name, &key));

		if (!*slot || end_of(t) > end_of(*slot))
			*slot = (void *)(uintptr_t)t;
	}
	for (size_t i = 0; i < s->n; i++)
		take(&needs[s->first + i],
		     map_get_str(latest,
				 pairing(s->decl, d, false, v->tasks[s->first + i].name, &key)));
}

/* A round needs the one before it. */
static void take_rounds(const struct run_view *v, const struct view_step *s,
			struct view_need *needs)
{
	_cleanup_(map_freep) struct map *before = map_new();

	for (size_t i = 0; i < s->n; i++) {
		const struct view_task *t = &v->tasks[s->first + i];
		void **slot = map_slot(before, t->name, loop_len(t->name), NULL);

		take(&needs[s->first + i], *slot);
		*slot = (void *)(uintptr_t)t;
	}
}

/* Steps of `finally` begin after all others. */
static void take_all(const struct run_view *v, const struct view_step *s, struct view_need *needs)
{
	struct view_need last = { 0 };

	for (size_t i = 0; i < v->n_tasks; i++)
		if (!v->steps[v->tasks[i].step].decl || !v->steps[v->tasks[i].step].decl->finally)
			take(&last, &v->tasks[i]);
	for (size_t i = 0; i < s->n; i++)
		take(&needs[s->first + i], last.last);
}

struct view_need *view_needs(const struct run_view *v, struct arena *arena)
{
	struct view_need *needs = arena_alloc(arena, (v->n_tasks + 1) * sizeof(*needs));

	for (size_t i = 0; i < v->n_tasks; i++)
		needs[i].ready_ns = v->run.started_ns;
	for (size_t i = 0; i < v->n_steps; i++) {
		const struct view_step *s = &v->steps[i];

		for (size_t k = 0; s->decl && k < s->decl->n_deps; k++)
			take_dep(v, s, &s->decl->deps[k], needs);
		if (s->decl && s->decl->tasks->repeat)
			take_rounds(v, s, needs);
		if (s->decl && s->decl->finally)
			take_all(v, s, needs);
	}
	return needs;
}

size_t view_critical(const struct run_view *v, const struct view_need *needs, struct arena *arena,
		     const struct view_task *const **ret)
{
	VEC(const struct view_task *) path = { 0 };
	const struct view_task *last = NULL;
	size_t n;

	for (size_t i = 0; i < v->n_tasks; i++) {
		const struct view_task *t = &v->tasks[i];

		/* A task that still runs decides, if there is one: it ends after all others. */
		if (t->n_attempts &&
		    (!last || (end_of(last) && (!end_of(t) || end_of(t) > end_of(last)))))
			last = t;
	}
	while (last && path.n < v->n_steps + v->n_tasks) {
		VEC_PUSH(&path, last);
		last = needs[last - v->tasks].last;
	}
	VEC_TO_ARENA(&path, arena, (const struct view_task ***)ret, &n);
	return n;
}

/* Neighbours. */

struct neighbours {
	VEC(const struct view_task *) v;
	size_t max, all;
};

static void add_matching(const struct run_view *v, const struct view_step *of,
			 const struct step_dep *d, bool theirs, const char *key,
			 struct neighbours *n)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	for (size_t i = 0; i < of->n; i++) {
		const struct view_task *t = &v->tasks[of->first + i];

		if (str_eq(pairing(of->decl, d, theirs, t->name, &text), key) && n->all++ < n->max)
			VEC_PUSH(&n->v, t);
	}
}

static void add_neighbours(const struct run_view *v, const struct view_task *t, bool down,
			   struct neighbours *n)
{
	const struct view_step *mine = &v->steps[t->step];
	_cleanup_(str_deinit) struct str key = { 0 };

	for (size_t i = 0; !down && i < mine->decl->n_deps; i++) {
		const struct step_dep *d = &mine->decl->deps[i];
		const struct view_step *of = view_find_step(v, v->pipeline->steps[d->step].name);

		if (of && of->decl)
			add_matching(v, of, d, true, pairing(mine->decl, d, false, t->name, &key),
				     n);
	}
	for (size_t i = 0; down && i < v->n_steps; i++)
		for (size_t k = 0; v->steps[i].decl && k < v->steps[i].decl->n_deps; k++) {
			const struct step_dep *d = &v->steps[i].decl->deps[k];

			if (d->step == mine->decl->index)
				add_matching(v, &v->steps[i], d, false,
					     pairing(mine->decl, d, true, t->name, &key), n);
		}
}

size_t view_neighbours(const struct run_view *v, const struct view_task *t, bool down, size_t max,
		       struct arena *arena, const struct view_task *const **ret, size_t *ret_all)
{
	struct neighbours n = { .max = max };
	size_t n_ret;

	if (v->steps[t->step].decl)
		add_neighbours(v, t, down, &n);
	*ret_all = n.all;
	VEC_TO_ARENA(&n.v, arena, (const struct view_task ***)ret, &n_ret);
	return n_ret;
}
