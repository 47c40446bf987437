/* engine/plan/expand.c — steps become tasks: matrix combinations, items of `each`, and how tasks
 * wait for tasks.
 *
 * A step is expanded once all steps that it needs are (so that its dependencies can be counted)
 * and, for `each` over a step's output or value, once that step has ended. Invariant: a task's
 * `pending` is the number of its step's deps whose group still has tasks that haven't ended;
 * past/absent.c adds one for each revived task that it waits for.
 *
 * Tasks are matched by the values that they have on shared axes. number_groups() puts the needed
 * step's tasks into numbered groups, find_groups() finds the group of each task of this step, and
 * make_csr() makes lists by group of both. So waiting costs a counter per group, not an edge per
 * pair of tasks.
 *
 * Where `each` has nothing to range over, since its source failed, was skipped or is not selected,
 * one task stands in for all (stands_in); it ends at once and is never executed. plan.c ends tasks
 * and makes keys.
 */
#include <assert.h>
#include "plan/internal.h"

#define EXAMPLES 3 /* members that an error names */

static int axis_values(struct plan *p, struct plan_step *s, size_t axis, struct err *err)
{
	const struct matrix_axis *a = &s->decl->tasks->matrix.axes[axis];
	struct task_scope scope = { .plan = p,
				    .arena = p->arena,
				    .task = &(struct plan_task){ .step = s->decl->index } };
	struct expr_scope es = { .resolve = scope_resolve, .arg = &scope };
	struct value v;

	if (!a->list) {
		s->fan->axes[axis].v = a->values;
		s->fan->axes[axis].n = a->n_values;
		return 0;
	}
	if (template_eval(a->list, &es, p->arena, &v, err) != 0)
		return err_wrap(err, "step `%s`, matrix.%s", s->decl->name, a->name);
	if (v.type != VALUE_LIST)
		return err_set(err, ERR_INVALID,
			       "%s:%d:%d: matrix.%s of step `%s` must be a list, not %s",
			       a->list->file, a->list->line, a->list->col, a->name, s->decl->name,
			       value_type_name(v.type));
	s->fan->axes[axis].v = v.list.v;
	s->fan->axes[axis].n = v.list.n;
	return 0;
}

static bool excluded(const struct plan_step *s, const uint32_t *at)
{
	for (size_t i = 0; i < s->decl->tasks->matrix.n_exclude; i++) {
		const struct value *rule = s->decl->tasks->matrix.exclude[i].by_axis;
		bool matches = true;

		for (size_t a = 0; a < s->decl->tasks->matrix.n_axes && matches; a++)
			matches = rule[a].type == VALUE_NULL ||
				  value_eq(&rule[a], &s->fan->axes[a].v[at[a]]);
		if (matches)
			return true;
	}
	return false;
}

/* An included combination may have values that the axis doesn't list: they are added to the
 * axis. */
static uint32_t axis_index_of(struct plan *p, struct plan_step *s, size_t axis,
			      const struct value *v)
{
	struct value *grown;

	for (size_t i = 0; i < s->fan->axes[axis].n; i++)
		if (value_eq(&s->fan->axes[axis].v[i], v))
			return (uint32_t)i;
	if (s->fan->axes[axis].n == s->fan->axes[axis].cap || !s->fan->axes[axis].grown) {
		s->fan->axes[axis].cap = 2 * s->fan->axes[axis].n + 8;
		grown = arena_alloc(p->arena, s->fan->axes[axis].cap * sizeof(*grown));
		if (s->fan->axes[axis].n)
			memcpy(grown, s->fan->axes[axis].v, s->fan->axes[axis].n * sizeof(*grown));
		s->fan->axes[axis].v = s->fan->axes[axis].grown = grown;
	}
	s->fan->axes[axis].grown[s->fan->axes[axis].n] = *v;
	return (uint32_t)s->fan->axes[axis].n++;
}

/* Labels tell tasks apart, on record and in gathered directories, where "a/b" and "a_b" would be
 * the same. */
static int check_names(const struct plan_step *s, const char *what, const struct value *v, size_t n,
		       struct err *err)
{
	_cleanup_(map_freep) struct map *seen = map_new();
	_cleanup_(str_deinit) struct str name = { 0 }, first = { 0 }, second = { 0 };

	for (size_t i = 0; i < n; i++) {
		void **slot;

		str_reset(&name);
		label_add_value(&name, &v[i]);
		slot = map_slot_str(seen, name.s);
		if (!*slot) {
			*slot = (void *)(uintptr_t)(i + 1);
			continue;
		}
		value_add_text(&first, &v[(uintptr_t)*slot - 1]);
		value_add_text(&second, &v[i]);
		return err_set(err, ERR_INVALID,
			       "%s:%d:%d: %s of step `%s` lists `%.100s` and `%.100s`, whose tasks "
			       "would both be named `%s`; make them differ",
			       s->decl->pos.file, s->decl->pos.line, s->decl->pos.col, what,
			       s->decl->name, first.len ? first.s : "", second.len ? second.s : "",
			       name.s);
	}
	return 0;
}

static int check_fan_out(const struct plan_step *s, const char *what, size_t n, struct err *err)
{
	if (n <= PLAN_MAX_FAN_OUT)
		return 0;
	return err_set(err, ERR_TOO_LARGE, "%s:%d:%d: %s of step `%s` makes more than %d tasks",
		       s->decl->pos.file, s->decl->pos.line, s->decl->pos.col, what, s->decl->name,
		       PLAN_MAX_FAN_OUT);
}

/* All combinations without the excluded ones, the last axis fastest; then the included ones that
 * aren't there yet. */
static int expand_matrix(struct plan *p, struct plan_step *s, struct err *err)
{
	size_t n_axes = s->decl->tasks->matrix.n_axes, product = 1;
	VEC(uint32_t) index = { 0 };
	_cleanup_(freep) uint32_t *at = xcalloc(n_axes, sizeof(*at)),
				  *n_own = xcalloc(n_axes, sizeof(*n_own));
	_cleanup_(map_freep) struct map *included = map_new();

	s->fan->axes = arena_alloc(p->arena, n_axes * sizeof(*s->fan->axes));
	for (size_t a = 0; a < n_axes; a++) {
		if (axis_values(p, s, a, err) < 0)
			return -1;
		if (__builtin_mul_overflow(product, s->fan->axes[a].n, &product) ||
		    product > PLAN_MAX_FAN_OUT)
			return check_fan_out(s, "the matrix", SIZE_MAX, err);
		n_own[a] = (uint32_t)s->fan->axes[a].n;
	}
	for (size_t i = 0; i < product; i++) {
		if (!excluded(s, at))
			for (size_t a = 0; a < n_axes; a++)
				VEC_PUSH(&index, at[a]);
		for (size_t a = n_axes; a-- > 0;) {
			if (++at[a] < s->fan->axes[a].n)
				break;
			at[a] = 0;
		}
	}
	for (size_t i = 0; i < s->decl->tasks->matrix.n_include; i++) {
		bool is_new = false, in_product = true;

		for (size_t a = 0; a < n_axes; a++) {
			at[a] = axis_index_of(p, s, a,
					      &s->decl->tasks->matrix.include[i].by_axis[a]);
			in_product &=
				at[a] < n_own[a]; /* values that includes add come after those */
		}
		if (!in_product || excluded(s, at))
			map_slot(included, at, n_axes * sizeof(*at), &is_new);
		for (size_t a = 0; a < n_axes && is_new; a++)
			VEC_PUSH(&index, at[a]);
	}
	s->fan->axis_index = index.v;
	s->n_tasks = (uint32_t)(index.n / n_axes);
	if (check_fan_out(s, "the matrix", s->n_tasks, err) < 0)
		return -1;
	for (size_t a = 0; a < n_axes; a++) {
		_cleanup_(freep) char *what =
			xasprintf("matrix.%s", s->decl->tasks->matrix.axes[a].name);

		if (check_names(s, what, s->fan->axes[a].v, s->fan->axes[a].n, err) < 0)
			return -1;
	}
	return 0;
}

static int items_of_list(struct plan *p, struct plan_step *s, struct err *err)
{
	const struct each_decl *e = s->decl->tasks->each;
	struct value v = { .type = VALUE_LIST, .list = { e->values, e->n_values } };
	struct str text = { 0 };

	if (!e->values) {
		struct task_scope scope = { .plan = p,
					    .arena = p->arena,
					    .task = &(struct plan_task){ .step = s->decl->index } };

		if (scope_resolve(&scope, &e->from, &v, err) != 0)
			return err_wrap(err, "%s:%d:%d: `each` of step `%s`", s->decl->pos.file,
					s->decl->pos.line, s->decl->pos.col, s->decl->name);
	}
	if (v.type != VALUE_LIST)
		return err_set(err, ERR_INVALID,
			       "%s:%d:%d: `each` of step `%s` must range over a list or over files "
			       "(\"${{ … }}/*\"), not %s",
			       s->decl->pos.file, s->decl->pos.line, s->decl->pos.col,
			       s->decl->name, value_type_name(v.type));
	if (check_fan_out(s, "`each`", v.list.n, err) < 0 ||
	    check_names(s, "`each`", v.list.v, v.list.n, err) < 0)
		return -1;
	s->fan->items = arena_alloc(p->arena, (v.list.n + 1) * sizeof(*s->fan->items));
	for (size_t i = 0; i < v.list.n; i++) {
		str_reset(&text);
		label_add_value(&text, &v.list.v[i]);
		s->fan->items[i] = (struct plan_item){ .path = arena_strdup(p->arena, text.s),
						       .value = &v.list.v[i] };
	}
	s->n_tasks = (uint32_t)v.list.n;
	str_deinit(&text);
	return 0;
}

static int each_tree(struct plan *p, struct plan_step *s, struct content_id *ret, struct err *err)
{
	const struct ref *from = &s->decl->tasks->each->from;
	struct task_scope scope = { .plan = p,
				    .arena = p->arena,
				    .task = &(struct plan_task){ .step = s->decl->index } };

	if (from->kind == REF_PIPELINE_INPUT) {
		*ret = p->pins.input_ids[from->index];
		return 0;
	}
	return scope_content(&scope, from, ret, err);
}

/* A pattern that matches nothing is nearly always a mistake, and a run without these tasks would
 * look like a success. Only an empty directory that a step made has no items for a good reason. A
 * run that is made again did as it did. */
static int check_matched(struct plan *p, const struct plan_step *s, const struct content_id *tree,
			 struct err *err)
{
	const struct each_decl *e = s->decl->tasks->each;
	_cleanup_(str_deinit) struct str there = { 0 };
	struct tree_match *all;
	size_t n;

	if (p->ctx.again || p->ctx.recorded)
		return 0;
	if (tree_glob(p->ctx.store, tree, "*", p->arena, &all, &n, err) < 0)
		return err_wrap(err, "expanding `each` of step `%s`", s->decl->name);
	if (n == 0 && e->from.kind == REF_STEP_OUTPUT)
		return 0;
	for (size_t i = 0; i < MIN(n, (size_t)EXAMPLES); i++)
		str_addf(&there, "%s%s", i ? ", " : "", all[i].path);
	if (n > EXAMPLES)
		str_addf(&there, " and %zu more", n - EXAMPLES);
	return err_set(err, ERR_INVALID,
		       "%s:%d:%d: `each` of step `%s`: `%s` matches nothing in %s `%s`, %s%s",
		       s->decl->pos.file, s->decl->pos.line, s->decl->pos.col, s->decl->name,
		       e->glob, e->from.kind == REF_PIPELINE_INPUT ? "input" : "output",
		       e->from.name, n ? "which has " : "which is empty", there.s ? there.s : "");
}

static int items_of_tree(struct plan *p, struct plan_step *s, struct err *err)
{
	const struct each_decl *e = s->decl->tasks->each;
	struct tree_match *m;
	struct content_id tree;
	size_t n;

	if (each_tree(p, s, &tree, err) < 0)
		return -1;
	if (tree.kind != CONTENT_TREE)
		return err_set(
			err, ERR_INVALID,
			"%s:%d:%d: `each` of step `%s` ranges over a file; it needs a directory",
			s->decl->pos.file, s->decl->pos.line, s->decl->pos.col, s->decl->name);
	if (tree_glob(p->ctx.store, &tree, e->glob, p->arena, &m, &n, err) < 0)
		return err_wrap(err, "expanding `each` of step `%s`", s->decl->name);
	if (check_fan_out(s, "`each`", n, err) < 0 ||
	    (n == 0 && check_matched(p, s, &tree, err) < 0))
		return -1;
	s->fan->items = arena_alloc(p->arena, (n + 1) * sizeof(*s->fan->items));
	for (size_t i = 0; i < n; i++) {
		if (m[i].entry.kind == TREE_SYMLINK)
			return err_set(err, ERR_INVALID,
				       "`each` of step `%s`: `%s` is a symbolic link; only files "
				       "and directories can be items",
				       s->decl->name, m[i].path);
		if (tree_entry_resolve(p->ctx.store, &m[i].entry, err) < 0)
			return -1;
		s->fan->items[i] = (struct plan_item){ .path = m[i].path, .id = m[i].entry.id };
	}
	s->n_tasks = (uint32_t)n;
	return 0;
}

/* Groups. */

bool dep_gathers(const struct plan *p, const struct plan_dep *d)
{
	const struct step *needed = p->steps[d->decl->step].decl;

	return needed->tasks->each || d->decl->n_shared < needed->tasks->matrix.n_axes;
}

uint32_t dep_group_of_upstream(const struct plan_dep *d, const struct plan_task *needed)
{
	return d->match ? d->match->up_group[needed->loop] : 0;
}

/* Numbers groups in the order in which they appear among the needed tasks, by the values that these
 * have on the shared axes. So there are never more groups than tasks, however large the axes'
 * product is. */
static void number_groups(struct plan *p, const struct plan_step *u, struct plan_dep *d,
			  struct map *group_of_values)
{
	size_t n = d->decl->n_shared;
	_cleanup_(freep) uint32_t *values = xcalloc(n, sizeof(*values));

	d->match->up_group = arena_alloc(p->arena, (u->n_loops + 1) * sizeof(uint32_t));
	d->n_groups = 0;
	for (size_t t = 0; t < u->n_loops; t++) {
		void **slot;

		for (size_t i = 0; i < n; i++)
			values[i] = u->fan->axis_index[t * u->decl->tasks->matrix.n_axes +
						       d->decl->shared[i].theirs];
		slot = map_slot(group_of_values, values, n * sizeof(*values), NULL);
		if (!*slot)
			*slot = (void *)(uintptr_t)++d->n_groups;
		d->match->up_group[t] = (uint32_t)(uintptr_t)*slot - 1;
	}
}

/* For each value of this step's axis, its index in the needed step's axis; that axis's number of
 * values when it lacks the value. */
static uint32_t *their_values(const struct plan_step *s, const struct plan_step *u,
			      const struct axis_pair *pair)
{
	size_t n_mine = s->fan->axes[pair->mine].n, n_theirs = u->fan->axes[pair->theirs].n;
	const struct value *mine = s->fan->axes[pair->mine].v,
			   *theirs = u->fan->axes[pair->theirs].v;
	uint32_t *of = xcalloc(n_mine + 1, sizeof(*of));

	for (size_t i = 0; i < n_mine; i++) {
		size_t k = i;

		/* Usually both lists are the same, in the same order. */
		if (k >= n_theirs || !value_eq(&theirs[k], &mine[i]))
			for (k = 0; k < n_theirs && !value_eq(&theirs[k], &mine[i]); k++)
				;
		of[i] = (uint32_t)k;
	}
	return of;
}

/* The group of each task; n_groups (one past the last) when no needed task has its values. */
static void find_groups(struct plan *p, const struct plan_step *s, const struct plan_step *u,
			struct plan_dep *d, const struct map *group_of_values)
{
	size_t n = d->decl->n_shared;
	_cleanup_(freep) uint32_t *values = xcalloc(n, sizeof(*values));
	uint32_t **theirs = xcalloc(n, sizeof(*theirs));

	for (size_t i = 0; i < n; i++)
		theirs[i] = their_values(s, u, &d->decl->shared[i]);
	d->match->down_group = arena_alloc(p->arena, (s->n_tasks + 1) * sizeof(uint32_t));
	for (size_t t = 0; t < s->n_tasks; t++) {
		uintptr_t group;

		for (size_t i = 0; i < n; i++)
			values[i] = theirs[i][s->fan->axis_index[t * s->decl->tasks->matrix.n_axes +
								 d->decl->shared[i].mine]];
		group = (uintptr_t)map_get(group_of_values, values, n * sizeof(*values));
		d->match->down_group[t] = group ? (uint32_t)group - 1 : d->n_groups;
	}
	for (size_t i = 0; i < n; i++)
		free(theirs[i]);
	free(theirs);
}

/* group_of[i] for i < n → start (n_groups + 1 places) and members sorted by group. */
static void make_csr(struct plan *p, const uint32_t *group_of, size_t n, uint32_t n_groups,
		     uint32_t **ret_start, uint32_t **ret_members)
{
	uint32_t *start = arena_alloc(p->arena, (n_groups + 2) * sizeof(*start));
	uint32_t *members = arena_alloc(p->arena, (n + 1) * sizeof(*members));

	for (size_t i = 0; i < n; i++)
		start[group_of[i] + 2]++;
	for (uint32_t g = 0; g < n_groups; g++)
		start[g + 2] += start[g + 1];
	for (size_t i = 0; i < n; i++)
		members[start[group_of[i] + 1]++] = (uint32_t)i;
	*ret_start = start;
	*ret_members = members;
}

static int build_shared_dep(struct plan *p, struct plan_step *s, struct plan_dep *d,
			    struct err *err)
{
	struct plan_step *u = &p->steps[d->decl->step];
	_cleanup_(map_freep) struct map *group_of_values = map_new();
	struct dep_match *m = d->match = arena_alloc(p->arena, sizeof(*m));

	number_groups(p, u, d, group_of_values);
	find_groups(p, s, u, d, group_of_values);
	make_csr(p, m->up_group, u->n_loops, d->n_groups, &m->up_start, &m->up_tasks);
	for (size_t i = 0; i < s->n_tasks; i++) {
		if (m->down_group[i] == d->n_groups) {
			plan_task_label(p, &s->tasks[i], &p->scratch);
			return err_set(err, ERR_INVALID,
				       "%s:%d:%d: `%s` needs step `%s` for the same matrix values, "
				       "but that step has no such task",
				       d->decl->pos.file, d->decl->pos.line, d->decl->pos.col,
				       p->scratch.s, u->decl->name);
		}
	}
	make_csr(p, m->down_group, s->n_tasks, d->n_groups, &m->down_start, &m->down_tasks);
	return 0;
}

static void count_remaining(struct plan *p, struct plan_step *s, struct plan_dep *d)
{
	struct plan_step *u = &p->steps[d->decl->step];
	_cleanup_(freep) uint32_t *ended = xcalloc(d->n_groups, sizeof(*ended));
	_cleanup_(freep) uint32_t *skipped = xcalloc(d->n_groups, sizeof(*skipped));

	for (size_t i = 0; i < u->n_loops; i++) {
		const struct plan_task *needed = plan_newest(u, i);
		uint32_t g = dep_group_of_upstream(d, needed);

		ended[g] += needed->reported; /* also counts one that is revived: a task that needs
					     its bytes waits for it separately */
		skipped[g] += task_left_out(p, needed);
		d->groups[g].failed |= task_went_wrong(p, needed);
	}
	for (uint32_t g = 0; g < d->n_groups; g++) {
		uint32_t size = (uint32_t)dep_group_size(p, d, g);

		d->groups[g].remaining = size - ended[g];
		d->groups[g].skipped = size > 0 && skipped[g] == size;
	}
}

static int build_dep(struct plan *p, struct plan_step *s, size_t i, struct err *err)
{
	struct plan_dep *d = &s->deps[i];

	d->n_groups = 1;
	if (d->decl->n_shared && build_shared_dep(p, s, d, err) < 0)
		return -1;
	d->groups = arena_alloc(p->arena, d->n_groups * sizeof(*d->groups));
	count_remaining(p, s, d);
	for (size_t t = 0; t < s->n_tasks; t++) {
		const struct dep_group *g = &d->groups[dep_group_of(d, &s->tasks[t])];

		if (g->remaining) {
			s->tasks[t].pending++;
		} else {
			s->tasks[t].need_failed |= g->failed;
			s->tasks[t].need_skipped |=
				g->skipped && (d->decl->data || d->decl->metrics);
		}
	}
	return 0;
}

uint32_t dep_group_of(const struct plan_dep *d, const struct plan_task *t)
{
	return d->match ? d->match->down_group[t->loop] : 0;
}

size_t dep_group_size(const struct plan *p, const struct plan_dep *d, uint32_t group)
{
	const struct dep_match *m = d->match;

	return m ? m->up_start[group + 1] - m->up_start[group] : p->steps[d->decl->step].n_loops;
}

struct plan_task *dep_group_task(const struct plan *p, const struct plan_dep *d, uint32_t group,
				 size_t i)
{
	const struct plan_step *u = &p->steps[d->decl->step];

	return plan_newest(u, d->match ? d->match->up_tasks[d->match->up_start[group] + i] : i);
}

struct plan_task *dep_single(const struct plan *p, const struct plan_dep *d, uint32_t group)
{
	return dep_group_task(p, d, group, 0);
}

struct plan_dep *plan_dep_on(const struct plan *p, struct plan_step *s, uint32_t needed)
{
	for (size_t i = 0; i < s->decl->n_deps; i++)
		if (s->deps[i].decl->step == needed)
			return &s->deps[i];
	return NULL;
}

/* One step. */

static bool expandable(const struct plan *p, const struct plan_step *s)
{
	const struct each_decl *e = s->decl->tasks->each;

	for (size_t i = 0; i < s->decl->n_deps; i++)
		if (!p->steps[s->decl->deps[i].step].expanded)
			return false;
	if (e && each_is_made(e)) {
		const struct plan_step *u = &p->steps[e->from.step];

		return u->n_ended == u->n_tasks;
	}
	return true;
}

/* Whether the source of an `each` failed, was skipped or isn't selected. Then its members are
 * unknown: one task stands for all of them, ends at once and says why. Where several tasks make the
 * source, skipped ones have no members in it, and the others do. */
static bool each_source_lost(const struct plan *p, const struct plan_step *s,
			     struct plan_task *stand_in)
{
	const struct each_decl *e = s->decl->tasks->each;
	const struct plan_step *u;
	size_t n_skipped = 0;

	if (!e || !each_is_made(e))
		return false;
	u = &p->steps[e->from.step];
	for (size_t i = 0; i < u->n_tasks; i++) {
		enum task_state st = u->tasks[i].state;

		stand_in->need_failed |= task_went_wrong(p, &u->tasks[i]);
		n_skipped += task_left_out(p, &u->tasks[i]);
		stand_in->unselected |= st == TASK_STATE_UNSELECTED;
	}
	stand_in->need_skipped = n_skipped && n_skipped == u->n_tasks;
	return stand_in->need_failed || stand_in->need_skipped || stand_in->unselected;
}

static bool is_named(struct plan *p, const struct task_names *names, const struct plan_task *t)
{
	if (names->n)
		plan_task_label(p, t, &p->scratch);
	for (size_t i = 0; i < names->n; i++)
		if (str_eq(names->v[i], p->scratch.s))
			return true;
	return false;
}

/* A target names a loop, --force a loop or one of its rounds. */
static bool is_loop_named(struct plan *p, const struct task_names *names, const struct plan_task *t)
{
	if (names->n)
		plan_loop_label(p, t, &p->scratch);
	for (size_t i = 0; i < names->n; i++)
		if (str_eq(names->v[i], p->scratch.s))
			return true;
	return false;
}

/* "train[round=3]" → "train"; "train[fold=0,round=3]" → "train[fold=0]". A copy of a name that is
 * none of a round. */
static char *loop_of_name(const struct step *s, const char *name)
{
	const char *at = strstr(name, "round=");
	char *end = NULL;
	unsigned long round = at ? strtoul(at + strlen("round="), &end, 10) : 0;

	if (!s->tasks->repeat || !at || at == name || (at[-1] != '[' && at[-1] != ',') ||
	    !str_eq(end, "]") || round < 1 || round > s->tasks->repeat->max)
		return xstrdup(name);
	return xasprintf("%.*s%s", (int)(at - name) - 1, name, at[-1] == ',' ? "]" : "");
}

/* Refuses a name that matches no task: otherwise nothing would run, and that would look like
 * success. */
static int check_labels(struct plan *p, const struct plan_step *s, const char *what,
			const struct task_names *names, struct err *err)
{
	_cleanup_(map_freep) struct map *labels = names->n ? map_new() : NULL;

	for (size_t i = 0; i < s->n_tasks && names->n; i++) {
		plan_loop_label(p, &s->tasks[i], &p->scratch);
		*map_slot_str(labels, p->scratch.s) = labels;
	}
	for (size_t i = 0; i < names->n; i++) {
		_cleanup_(freep) char *loop = loop_of_name(s->decl, names->v[i]);

		if (map_get_str(labels, names == &s->named->only ? names->v[i] : loop))
			continue;
		if (names == &s->named->only && map_get_str(labels, loop))
			return err_set(err, ERR_INVALID,
				       "%s: %s is one round of a loop, and needs those before it; "
				       "name the loop: %s",
				       what, names->v[i], loop);
		if (s->n_tasks == 0)
			return err_set(err, ERR_INVALID, "%s: no task `%s`: step `%s` has none",
				       what, names->v[i], s->decl->name);
		plan_loop_label(p, &s->tasks[0], &p->scratch);
		return err_set(err, ERR_INVALID, "%s: step `%s` has no task `%s`; %s %s", what,
			       s->decl->name, names->v[i],
			       s->n_tasks == 1 ? "its only one is" : "the first of its tasks is",
			       p->scratch.s);
	}
	return 0;
}

bool plan_is_forced(struct plan *p, const struct plan_task *t)
{
	const struct plan_step *s = &p->steps[t->step];

	return s->forced || (s->named && (is_named(p, &s->named->forced, t) ||
					  is_loop_named(p, &s->named->forced, t)));
}

static void only_stand_in(struct plan *p, struct plan_step *s)
{
	s->stands_in = true;
	s->n_tasks = 1;
	s->fan->items = arena_alloc(p->arena, sizeof(*s->fan->items));
	s->fan->items[0].path = "*";
}

int plan_fan_out(struct plan *p, struct plan_step *s, struct err *err)
{
	int r = 0;

	assert(!s->expanded && (!s->decl->tasks->each || each_is_known(s->decl->tasks->each)));
	if (s->fanned)
		return 0;
	s->n_tasks = 1;
	if (s->decl->tasks->matrix.n_axes)
		r = expand_matrix(p, s, err);
	else if (s->decl->tasks->each)
		r = items_of_list(p, s, err);
	s->n_fanned = s->n_tasks;
	s->n_tasks = 0; /* there are none yet */
	s->fanned = r == 0;
	return r;
}

static int expand_items(struct plan *p, struct plan_step *s, struct plan_task *stand_in,
			struct err *err)
{
	int (*expand)(struct plan * p, struct plan_step * s, struct err * err);
	struct err why = { 0 };

	if (!s->decl->tasks->each || each_is_known(s->decl->tasks->each)) {
		if (plan_fan_out(p, s, err) < 0)
			return -1;
		s->n_tasks = s->n_fanned;
		return 0;
	}
	if (each_source_lost(p, s, stand_in) || !s->selected) {
		only_stand_in(p, s);
		return 0;
	}
	expand = s->decl->tasks->each->is_list ? items_of_list : items_of_tree;
	if (!p->ctx.again)
		return expand(p, s, err);
	if (expand(p, s, &why) == 0)
		return 0;
	plan_mark_lost(p, s->decl->name, why.msg);
	if (p->replay) {
		replay_items(p, s); /* by name: the results on record are used */
		return 0;
	}
	stand_in->need_failed = true; /* its items are unknown: one task stands for all */
	only_stand_in(p, s);
	return 0;
}

int plan_expand_step(struct plan *p, uint32_t step, struct err *err)
{
	struct plan_step *s = &p->steps[step];
	struct plan_task stand_in = { 0 };

	if (s->expanded)
		return 0;
	if (!expandable(p, s))
		return 1;
	s->deps = arena_alloc(p->arena, s->decl->n_deps * sizeof(*s->deps));
	for (size_t i = 0; i < s->decl->n_deps; i++)
		s->deps[i] = (struct plan_dep){ .decl = &s->decl->deps[i], .n_groups = 1 };
	if (expand_items(p, s, &stand_in, err) < 0 || plan_settle(p, s, s->n_tasks, err) < 0 ||
	    plan_take_image_pins(p, s, err) < 0)
		return -1;
	s->n_loops = s->n_tasks;
	if (plan_make_rounds(p, s, err) < 0)
		return -1;
	for (size_t i = 0; i < s->n_tasks; i++) {
		struct plan_task *t = &s->tasks[i];

		t->step = s->decl->index;
		t->index = t->loop = (uint32_t)i;
		t->round = s->decl->tasks->repeat != NULL;
		t->forced = plan_is_forced(p, t);
		t->unselected = !s->selected || (s->named && s->named->only.n && !s->whole &&
						 !is_loop_named(p, &s->named->only, t));
	}
	p->counts.total += s->n_tasks;
	plan_count_open(p, s->decl, (int64_t)s->n_tasks - 1);
	s->expanded = true;
	p->n_expanded++;
	p->ordinary.n_expanded += !s->decl->finally;
	if (!s->stands_in && s->named &&
	    (check_labels(p, s, "target", &s->named->only, err) < 0 ||
	     check_labels(p, s, "--force", &s->named->forced, err) < 0))
		return -1;
	for (size_t i = 0; i < s->decl->n_deps; i++)
		if (build_dep(p, s, i, err) < 0)
			return -1;
	for (size_t i = 0; i < s->n_tasks; i++) {
		s->tasks[i].need_failed |= stand_in.need_failed;
		s->tasks[i].need_skipped |= stand_in.need_skipped;
		s->tasks[i].unselected |= stand_in.unselected;
		s->tasks[i].pending +=
			s->decl->finally && !p->ordinary.run_state; /* begin_finally() */
		if (s->tasks[i].pending == 0)
			queue_push(&p->to_key, &s->tasks[i]);
	}
	return 0;
}
