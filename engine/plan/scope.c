/* engine/plan/scope.c — values of references, for one task.
 *
 * Expressions of a task are evaluated with scope_resolve() (model/expr/expr.h). It is called only
 * when all that the task needs has ended, so no value is unknown: it returns 0 or an error, never
 * 1. A metric or value of several tasks becomes a list. A `values` file is read once (plan.values).
 * A param of a step file is evaluated in the step that uses the file, and then checked against its
 * declaration.
 *
 * References to content have no value; inputs.c handles them. While a step has no tasks yet
 * (expand.c), a scope has only the step, and refuses values of a matrix or an item.
 */
#include <math.h>
#include "plan/internal.h"
#include "plan/values.h"

static int text_value(struct value *ret, const char *s)
{
	*ret = (struct value){ .type = VALUE_STRING, .s = s };
	return 0;
}

static int not_here(const struct ref *ref, struct err *err)
{
	return err_set(err, ERR_INVALID, "%d:%d: this reference can't be used here", ref->line,
		       ref->col);
}

static int find_metric(struct task_scope *sc, const struct ref *ref, const struct plan_task *t,
		       struct value *ret, struct err *err)
{
	for (uint32_t i = 0; i < t->n_metrics; i++)
		if (str_eq(t->metrics[i].name, ref->name)) {
			double v = t->metrics[i].value;

			*ret = (struct value){ .type = VALUE_FLOAT, .f = v };
			/* So that `steps.x.metrics.epochs == 5` reads as written. */
			if (v == floor(v) && fabs(v) < 9007199254740992.0)
				*ret = (struct value){ .type = VALUE_INT, .i = (int64_t)v };
			return 0;
		}
	plan_task_label(sc->plan, t, &sc->plan->scratch);
	return err_set(err, ERR_NOT_FOUND,
		       "`steps.%s.metrics.%s`: task %s gave no metric of that name",
		       sc->plan->steps[ref->step].decl->name, ref->name, sc->plan->scratch.s);
}

/* In the order of the pipeline and of each step's tasks. */
static int by_place(const void *a, const void *b)
{
	const struct plan_task *x = *(const struct plan_task *const *)a,
			       *y = *(const struct plan_task *const *)b;

	return x->step != y->step ? (x->step > y->step) - (x->step < y->step)
				  : (x->index > y->index) - (x->index < y->index);
}

/* What `if` sees of a step: the worst end of its tasks that this one waits for. */
static const char *state_word(const struct plan_task *t)
{
	switch ((enum task_state)t->state) {
	case TASK_STATE_FAILED:
		return "failed";
	case TASK_STATE_BLOCKED:
		return t->cancelled ? "cancelled" : "blocked";
	case TASK_STATE_SKIPPED:
	case TASK_STATE_UNSELECTED:
		return "skipped";
	default:
		return "succeeded";
	}
}

static int state_value(struct task_scope *sc, const struct ref *ref, struct value *ret,
		       struct err *err)
{
	static const char *const worst_first[] = { "failed", "cancelled", "blocked", "succeeded",
						   "skipped" };
	struct plan *p = sc->plan;
	struct plan_dep *d = plan_dep_on(p, &p->steps[sc->task->step], ref->step);
	size_t worst = ARRAY_LEN(worst_first) - 1;
	uint32_t g;

	if (!d)
		return not_here(ref, err);
	g = dep_group_of(d, sc->task);
	for (size_t i = 0; i < dep_group_size(p, d, g); i++)
		while (worst > 0) {
			size_t k = 0;

			while (!str_eq(worst_first[k], state_word(dep_group_task(p, d, g, i))))
				k++;
			if (k >= worst)
				break;
			worst = k;
		}
	return text_value(ret, worst_first[worst]);
}

/* The tasks that failed, of those that this one waits for, directly or through others: the same
 * ones whenever it is asked. */
static int failed_value(struct task_scope *sc, struct value *ret)
{
	struct plan *p = sc->plan;
	_cleanup_(map_freep) struct map *seen = map_new();
	VEC(const struct plan_task *) todo = { 0 };
	VEC(const struct plan_task *) failed = { 0 };
	struct value *v;
	const bool all = p->steps[sc->task->step].decl->finally;

	for (size_t i = 0; all && i < p->n_steps; i++)
		for (size_t k = 0; !p->steps[i].decl->finally && k < p->steps[i].n_tasks; k++)
			if (p->steps[i].tasks[k].state == TASK_STATE_FAILED &&
			    !task_tolerated(p, &p->steps[i].tasks[k]))
				VEC_PUSH(&failed, &p->steps[i].tasks[k]);
	if (!all)
		VEC_PUSH(&todo, sc->task);
	while (todo.n) {
		const struct plan_task *t = todo.v[--todo.n];
		struct plan_step *s = &p->steps[t->step];

		if (t != sc->task && t->state == TASK_STATE_FAILED && !task_tolerated(p, t))
			VEC_PUSH(&failed, t);
		for (size_t i = 0; i < s->decl->n_deps; i++) {
			struct plan_dep *d = &s->deps[i];
			uint32_t g = dep_group_of(d, t);

			for (size_t k = 0; k < dep_group_size(p, d, g); k++) {
				const struct plan_task *u = dep_group_task(p, d, g, k);
				void **slot = map_slot(seen, &u, sizeof(u), NULL);

				if (!*slot)
					VEC_PUSH(&todo, u);
				*slot = seen;
			}
		}
	}
	if (failed.n)
		qsort(failed.v, failed.n, sizeof(*failed.v), by_place);
	v = arena_alloc(sc->arena, (failed.n + 1) * sizeof(*v));
	for (size_t i = 0; i < failed.n; i++) {
		plan_task_label(p, failed.v[i], &p->scratch);
		text_value(&v[i], arena_strdup(sc->arena, p->scratch.s));
	}
	*ret = (struct value){ .type = VALUE_LIST, .list = { v, failed.n } };
	VEC_FREE(&todo);
	VEC_FREE(&failed);
	return 0;
}

/* What the task wrote to its `values` file. */
static int read_values(struct plan *p, const struct plan_task *t, uint32_t output,
		       const struct value **ret, struct err *err)
{
	const struct content_id *id = t->outputs ? &t->outputs[output] : NULL;
	_cleanup_(str_deinit) struct str text = { 0 };
	struct value *v;
	void **slot = NULL;

	if (!p->values)
		p->values = map_new();
	if (id && id->kind != CONTENT_NONE) {
		slot = map_slot(p->values, &id->digest, sizeof(id->digest), NULL);
		*ret = *slot;
		if (*ret)
			return 0;
	}
	plan_task_label(p, t, &p->scratch);
	if (!id || id->kind == CONTENT_NONE)
		return err_set(err, ERR_INVALID, "task %s gave no values, since it %s",
			       p->scratch.s,
			       t->state == TASK_STATE_SKIPPED ? "was skipped" : "did not succeed");
	v = arena_alloc(p->arena, sizeof(*v));
	if (content_read(p->ctx.store, id, VALUES_MAX_BYTES, &text, err) < 0)
		return err_wrap(err, "values of task %s", p->scratch.s);
	if (values_parse("values", text.len ? text.s : "", text.len, p->arena, v, err) < 0)
		return err_wrap(err, "task %s", p->scratch.s);
	*slot = v;
	*ret = v;
	return 0;
}

static int find_value(struct task_scope *sc, const struct ref *ref, const struct plan_task *t,
		      struct value *ret, struct err *err)
{
	struct plan *p = sc->plan;
	const struct value *values = NULL, *found;

	if (read_values(p, t, ref->index, &values, err) < 0 ||
	    values_at(values, ref->name, &found, err) < 0) {
		plan_task_label(p, t, &p->scratch);
		return err_wrap(err, "`steps.%s.values.%s`%s%s", p->steps[ref->step].decl->name,
				ref->name, values ? ": values of task " : "",
				values ? p->scratch.s : "");
	}
	*ret = *found;
	return 0;
}

/* What `find` finds in the task that this one needs; a list where it needs several of that step. */
static int value_of_step(struct task_scope *sc, const struct ref *ref,
			 int (*find)(struct task_scope *sc, const struct ref *ref,
				     const struct plan_task *t, struct value *ret, struct err *err),
			 struct value *ret, struct err *err)
{
	struct plan *p = sc->plan;
	struct plan_dep *d = plan_dep_on(p, &p->steps[sc->task->step], ref->step);
	uint32_t g;
	size_t n, used = 0;
	struct value *v;

	if (ref->step == sc->task->step) /* in `until`: of the round that it judges */
		return find(sc, ref, sc->task, ret, err);
	if (!d)
		return not_here(ref, err);
	g = dep_group_of(d, sc->task);
	if (!dep_gathers(p, d))
		return find(sc, ref, dep_single(p, d, g), ret, err);
	n = dep_group_size(p, d, g);
	v = arena_alloc(sc->arena, (n + 1) * sizeof(*v));
	for (size_t i = 0; i < n; i++) {
		const struct plan_task *t = dep_group_task(p, d, g, i);

		if (task_left_out(p, t))
			continue;
		if (find(sc, ref, t, &v[used], err) < 0)
			return -1;
		used++;
	}
	*ret = (struct value){ .type = VALUE_LIST, .list = { v, used } };
	return 0;
}

static int local_value(struct task_scope *sc, const struct ref *ref, struct value *ret,
		       struct err *err)
{
	const struct step *s = sc->plan->steps[sc->task->step].decl;
	const struct step_local *l = &s->program.locals[ref->index];
	struct expr_scope es = { .resolve = scope_resolve, .arg = sc };
	int r;

	if (!l->value) {
		*ret = l->decl->def;
		return 0;
	}
	r = template_eval(l->value, &es, sc->arena, ret, err);
	if (r == 0 && ret->type == VALUE_STRING && l->decl->type != VALUE_STRING)
		r = value_parse(l->decl->type, ret->s, sc->arena, ret, err);
	if (r == 0) {
		struct value given = *ret;

		r = param_check_value(l->decl, &given, ret, err);
	}
	return r < 0 ? err_wrap(err, "step `%s`, with.%s", s->name, l->decl->name) : r;
}

static int item_value(struct task_scope *sc, const struct ref *ref, struct value *ret)
{
	const struct plan_item *item = &sc->plan->steps[sc->task->step].fan->items[sc->task->index];
	const char *base = strrchr(item->path, '/');
	const char *name = item->value ? item->path : base ? base + 1 : item->path;
	const char *dot = strrchr(name, '.');

	switch (ref->kind) {
	case REF_ITEM:
		if (item->value) {
			*ret = *item->value;
			return 0;
		}
		return text_value(ret, item->path);
	case REF_ITEM_PATH:
		return text_value(ret, item->path);
	case REF_ITEM_STEM:
		return text_value(ret, dot && dot != name ? arena_strndup(sc->arena, name,
									  (size_t)(dot - name))
							  : name);
	default:
		return text_value(ret, name);
	}
}

/* A member of an item that is an object. */
static int item_member(struct task_scope *sc, const struct ref *ref, struct value *ret,
		       struct err *err)
{
	const struct plan_item *it = &sc->plan->steps[sc->task->step].fan->items[sc->task->index];
	struct ref text = *ref;
	const struct value *found;

	text.kind = str_eq(ref->name, "name")   ? REF_ITEM_NAME
		    : str_eq(ref->name, "path") ? REF_ITEM_PATH
		    : str_eq(ref->name, "stem") ? REF_ITEM_STEM
						: REF_ITEM_VALUE;
	if ((!it->value || it->value->type != VALUE_OBJECT) && text.kind != REF_ITEM_VALUE)
		return item_value(sc, &text, ret);
	if (!it->value)
		return not_here(ref, err);
	if (it->value->type != VALUE_OBJECT && it->value->type != VALUE_LIST)
		return err_set(err, ERR_INVALID, "`item.%s`: item `%s` is %s and has no members",
			       ref->name, it->path, value_type_phrase(it->value->type));
	if (values_at(it->value, ref->name, &found, err) < 0)
		return err_wrap(err, "`item.%s`: item `%s`", ref->name, it->path);
	*ret = *found;
	return 0;
}

int plan_schedule_value(const struct schedule_times *t, const struct ref *ref, struct value *ret,
			struct err *err)
{
	const char *const texts[] = { t ? t->time : NULL, t ? t->name : NULL,
				      t ? t->interval_start : NULL, t ? t->interval_end : NULL,
				      t ? t->run : NULL };

	if (!t)
		return err_set(err, ERR_NOT_FOUND,
			       "`schedule.%s` has a value only in runs of a schedule: `cairn run "
			       "--schedule NAME[@TIME]`",
			       ref->name);
	if (ref->index < ARRAY_LEN(texts) && !texts[ref->index])
		return err_set(err, ERR_NOT_FOUND,
			       "`schedule.%s` has a value only in a run that another run caused "
			       "(`on: {pipeline: …}`)",
			       ref->name);
	return ref->index < ARRAY_LEN(texts) ? text_value(ret, texts[ref->index])
					     : not_here(ref, err);
}

int scope_resolve(void *arg, const struct ref *ref, struct value *ret, struct err *err)
{
	struct task_scope *sc = arg;
	struct plan_step *s = &sc->plan->steps[sc->task->step];

	switch (ref->kind) {
	case REF_PARAM:
		*ret = sc->plan->ctx.params[ref->index];
		return 0;
	case REF_LOCAL:
		return local_value(sc, ref, ret, err);
	case REF_INPUT:
		return ref->index < sc->n_inputs ? text_value(ret, sc->inputs[ref->index].path)
						 : not_here(ref, err);
	case REF_OUTPUT:
		return text_value(ret, s->decl->outputs[ref->index].path);
	case REF_MATRIX:
		if (!s->fan->axis_index)
			return not_here(ref, err);
		*ret = s->fan->axes[ref->index].v
			       [s->fan->axis_index[sc->task->loop * s->decl->tasks->matrix.n_axes +
						   ref->index]];
		return 0;
	case REF_ITEM:
	case REF_ITEM_NAME:
	case REF_ITEM_PATH:
	case REF_ITEM_STEM:
		return s->fan->items ? item_value(sc, ref, ret) : not_here(ref, err);
	case REF_STEP_METRIC:
		return value_of_step(sc, ref, find_metric, ret, err);
	case REF_STEP_VALUE:
		return value_of_step(sc, ref, find_value, ret, err);
	case REF_ITEM_VALUE:
		return s->fan->items ? item_member(sc, ref, ret, err) : not_here(ref, err);
	case REF_STEP_STATE:
		return state_value(sc, ref, ret, err);
	case REF_RUN_STATE:
		return sc->plan->ordinary.run_state ? text_value(ret, sc->plan->ordinary.run_state)
						    : not_here(ref, err);
	case REF_FAILED_TASKS:
		return failed_value(sc, ret);
	case REF_RUN_ID:
		return sc->plan->ctx.run_id && *sc->plan->ctx.run_id
			       ? text_value(ret, *sc->plan->ctx.run_id)
			       : err_set(err, ERR_INVALID, "`run.id` has a value only in a run");
	case REF_ROUND:
		*ret = (struct value){ .type = VALUE_INT, .i = sc->task->round };
		return 0;
	case REF_SCHEDULE:
		return plan_schedule_value(sc->plan->ctx.schedule, ref, ret, err);
	default:
		return not_here(ref, err);
	}
}

int plan_task_export(struct plan *p, const struct plan_task *t, size_t output, struct arena *arena,
		     const char **ret, struct err *err)
{
	const struct step *s = p->steps[t->step].decl;
	struct task_scope sc = { .plan = p, .task = t, .arena = arena };
	struct expr_scope es = { .resolve = scope_resolve, .arg = &sc };
	_cleanup_(str_deinit) struct str text = { 0 };

	*ret = NULL;
	if (!s->outputs[output].export)
		return 0;
	if (template_render(s->outputs[output].export, &es, arena, &text, err) != 0)
		return err_wrap(err, "where to export `%s` of step `%s`", s->outputs[output].name,
				s->name);
	*ret = arena_strdup(arena, text.s ? text.s : "");
	return 0;
}

int scope_until(struct plan *p, const struct plan_task *t, bool *ret, struct err *err)
{
	const struct step *s = p->steps[t->step].decl;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct task_scope sc = { .plan = p, .task = t, .arena = arena };
	struct expr_scope es = { .resolve = scope_resolve, .arg = &sc };
	struct value v;

	if (expr_eval(s->tasks->repeat->until, &es, arena, &v, err) != 0)
		return err_wrap(err, "`until` of step `%s`", s->name);
	if (v.type != VALUE_BOOL)
		return err_set(err, ERR_INVALID,
			       "%s:%d: `until` of step `%s` must be true or false, not %s",
			       s->tasks->repeat->pos.file, s->tasks->repeat->pos.line, s->name,
			       value_type_name(v.type));
	*ret = v.b;
	return 0;
}

int scope_condition(struct plan *p, const struct plan_task *t, bool *ret, struct err *err)
{
	const struct step *s = p->steps[t->step].decl;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct task_scope sc = { .plan = p, .task = t, .arena = arena };
	struct expr_scope es = { .resolve = scope_resolve,
				 .arg = &sc,
				 .any_failed =
					 t->need_failed ||
					 (s->finally && str_eq(p->ordinary.run_state, "failed")) };
	struct value v;

	if (expr_eval(s->condition, &es, arena, &v, err) < 0)
		return err_wrap(err, "`if` of step `%s`", s->name);
	if (v.type != VALUE_BOOL)
		return err_set(err, ERR_INVALID,
			       "%s:%d: `if` of step `%s` must be true or false, not %s",
			       s->pos.file, s->pos.line, s->name, value_type_name(v.type));
	*ret = v.b;
	return 0;
}
