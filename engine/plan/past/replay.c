/* engine/plan/past/replay.c — a plan whose tasks get the recorded results of a past run.
 *
 * First all tasks end as they did then. They do so in waves like any plan's, so that steps expand,
 * conditions hold and inputs are gathered exactly as they were (end_as_recorded()). Then the chosen
 * tasks become ready, all at once: none waits for another, because each reads recorded outputs.
 * replay_goes() tells the two halves apart.
 *
 * A task's `outputs` and `metrics` stay the recorded ones to the end; what it gives now is kept
 * besides, in replay.made. Once replay.goes is set, the plan counts only executed tasks, and
 * plan_end_task() doesn't notify dependents.
 *
 * A task that can't be made again, because its content or its step's items are gone, is lost: it
 * ends as BLOCKED and plan_lost() says why. engine/cli/reproduce reports what differs between then
 * and now.
 */
#include <assert.h>
#include "plan/internal.h"

struct replay {
	bool goes;
	struct map *recorded; /* task's label → struct result_entry * */
	struct map *made;     /* struct plan_task * → struct task_result * */
	struct map *only, *skip;
};

static struct map *set_of(const char *const *names, size_t n)
{
	struct map *m = map_new();

	for (size_t i = 0; i < n; i++)
		*map_slot_str(m, names[i]) = m;
	return m;
}

void replay_new(struct plan *p)
{
	struct replay *r = p->replay = xcalloc(1, sizeof(*r));
	struct results_cursor c;
	struct result_entry e;

	assert(p->ctx.recorded);
	r->recorded = map_new();
	r->made = map_new();
	r->only = set_of(p->options.only, p->options.n_only);
	r->skip = set_of(p->options.skip, p->options.n_skip);
	results_first(p->ctx.recorded, &c);
	while (results_next(&c, &e))
		*map_slot_str(r->recorded, e.task) = arena_memdup(p->arena, &e, sizeof(e));
}

void replay_free(struct plan *p)
{
	struct replay *r = p->replay;

	if (!r)
		return;
	map_free(r->recorded);
	map_free(r->made);
	map_free(r->only);
	map_free(r->skip);
	free(r);
}

bool replay_goes(const struct plan *p)
{
	return p->replay && p->replay->goes;
}

void replay_items(struct plan *p, struct plan_step *s)
{
	size_t prefix = strlen(s->decl->name) + 1;
	VEC(struct plan_item) items = { 0 };
	struct results_cursor c;
	struct result_entry e;

	if (results_seek_step(p->ctx.recorded, s->decl->name, &c))
		while (results_next(&c, &e) && str_eq(e.step, s->decl->name)) {
			size_t len = strlen(e.task);

			if (len > prefix && e.task[len - 1] == ']')
				VEC_PUSH(&items,
					 ((struct plan_item){
						 .path = arena_strndup(p->arena, e.task + prefix,
								       len - prefix - 1) }));
		}
	s->n_tasks = (uint32_t)items.n;
	VEC_TO_ARENA(&items, p->arena, &s->fan->items, &(size_t){ 0 });
}

static void end_as_recorded(struct plan *p, struct plan_task *t)
{
	_cleanup_(freep) struct named_content *named = NULL;
	enum task_state state = TASK_STATE_FAILED;
	const struct result_entry *e;
	bool shaped;

	plan_task_label(p, t, &p->scratch);
	e = t->unselected ? NULL : map_get_str(p->replay->recorded, p->scratch.s);
	if (!e || e->state == RESULT_SKIPPED || e->state == RESULT_BLOCKED) {
		plan_end_task(p, t,
			      !e                           ? TASK_STATE_UNSELECTED
			      : e->state == RESULT_SKIPPED ? TASK_STATE_SKIPPED
							   : TASK_STATE_BLOCKED);
		return;
	}
	named = xcalloc(e->n_outputs + 1, sizeof(*named));
	for (size_t i = 0; i < e->n_outputs; i++) {
		named[i].name = results_output_name(p->ctx.recorded, e, i);
		results_output(e, i, &named[i].id);
	}
	shaped = lookup_order_outputs(p, p->steps[t->step].decl, named, e->n_outputs, &t->outputs);
	t->n_metrics = (uint32_t)e->n_metrics;
	t->metrics = arena_alloc(p->arena, (e->n_metrics + 1) * sizeof(*t->metrics));
	for (size_t i = 0; i < e->n_metrics; i++)
		results_metric(e, i, &t->metrics[i]);
	if (e->state == RESULT_SUCCEEDED)
		state = shaped ? TASK_STATE_HIT : TASK_STATE_BLOCKED;
	if (state == TASK_STATE_BLOCKED)
		plan_mark_lost(p, e->task,
			       "its outputs on record aren't those that the step declares");
	plan_end_task(p, t, state);
}

bool replay_has(struct plan *p, const struct plan_task *t)
{
	plan_task_label(p, t, &p->scratch);
	return map_get_str(p->replay->recorded, p->scratch.s) != NULL;
}

static bool chosen(struct plan *p, const struct plan_task *t)
{
	const struct replay *r = p->replay;
	const char *step = p->steps[t->step].decl->name;

	if (t->state != TASK_STATE_HIT && t->state != TASK_STATE_FAILED)
		return false;
	plan_task_label(p, t, &p->scratch);
	if (map_get_str(r->skip, step) || map_get_str(r->skip, p->scratch.s))
		return false;
	return map_len(r->only) == 0 || map_get_str(r->only, step) ||
	       map_get_str(r->only, p->scratch.s);
}

void replay_end(struct plan *p, const struct plan_task *t, const struct task_result *made)
{
	struct task_result *m = arena_memdup(p->arena, made, sizeof(*made));
	size_t n = p->steps[t->step].decl->n_outputs;
	struct metric_value *metrics =
		arena_alloc(p->arena, (made->n_metrics + 1) * sizeof(*metrics));

	if (made->outputs)
		m->outputs = n ? arena_memdup(p->arena, made->outputs, n * sizeof(*made->outputs))
			       : arena_alloc(p->arena, sizeof(*made->outputs));
	for (size_t i = 0; i < made->n_metrics; i++)
		metrics[i] = (struct metric_value){ arena_strdup(p->arena, made->metrics[i].name),
						    made->metrics[i].value };
	m->metrics = metrics;
	*map_slot(p->replay->made, &t, sizeof(t), NULL) = m;
}

bool replay_result(const struct plan *p, const struct plan_task *t, struct task_result *ret)
{
	const struct task_result *m = map_get(p->replay->made, &t, sizeof(t));

	if (m) {
		*ret = *m;
		return true;
	}
	*ret = (struct task_result){ .state = (enum task_state)t->state };
	return t->state == TASK_STATE_SKIPPED || t->state == TASK_STATE_BLOCKED;
}

struct plan_task *plan_pending_need(const struct plan *p, const struct plan_task *t)
{
	const struct plan_step *s = &p->steps[t->step];
	struct plan_task *before = plan_round_before(p, t);

	if (before && !task_state_ended(before->state))
		return before;
	for (size_t i = 0; i < s->decl->n_deps; i++) {
		const struct plan_dep *d = &s->deps[i];
		uint32_t g = dep_group_of(d, t);

		for (size_t k = 0; k < dep_group_size(p, d, g); k++)
			if (!task_state_ended(dep_group_task(p, d, g, k)->state))
				return dep_group_task(p, d, g, k);
	}
	return NULL;
}

/* The task becomes ready, is lost, or has already ended in this run before its engine died. */
static int start_again(struct plan *p, struct plan_task *t, struct arena *arena, struct err *err)
{
	struct lookup_hit hit = { 0 };
	struct task_result made = { .state = TASK_STATE_DONE };
	const char *lost = plan_lost(p, p->steps[t->step].decl->name);
	struct err why = { 0 };

	p->counts.total++;
	p->steps[t->step].n_ended--;
	t->forced = true;
	t->miss = MISS_FORCED;
	if (lost || plan_task_key(p, t, arena, &why) < 0) {
		plan_lose(p, t, lost ? lost : why.msg);
		return 0;
	}
	if (p->ctx.db && lookup_this_run(p, t, &hit, err) < 0)
		return -1;
	if (!hit.found) {
		t->state = TASK_READY;
		queue_push(&p->ready, t);
		return 0;
	}
	made.outputs = hit.outputs;
	made.metrics = hit.metrics;
	made.n_metrics = hit.n_metrics;
	made.duration_ns = hit.duration_ns;
	made.attempt = hit.attempt;
	replay_end(p, t, &made);
	plan_end_task(p, t, TASK_STATE_DONE);
	return 0;
}

int replay_resolve(struct plan *p, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = NULL;
	struct plan_task *t;

	if (p->replay->goes)
		return 0;
	while (p->to_key.n || p->expand_again) {
		p->expand_again = false;
		if (plan_expand_all(p, err) < 0)
			return -1;
		while ((t = queue_pop(&p->to_key)))
			end_as_recorded(p, t);
	}
	p->counts = (struct run_counts){ 0 };
	p->replay->goes = true;
	arena = arena_new();
	for (size_t i = 0; i < p->n_steps; i++) {
		struct plan_step *s = &p->steps[p->ctx.pipeline->order[i]];

		for (size_t k = 0; k < s->n_tasks; k++)
			if (chosen(p, &s->tasks[k]) && start_again(p, &s->tasks[k], arena, err) < 0)
				return -1;
	}
	return 0;
}
