/* engine/plan/past/absent.c — results on record whose content is gone from the store.
 *
 * Keys need only ids, so such a task is a hit as long as no task needs its bytes
 * (plan_task.absent). When a task that depends on it must be executed, the absent one is revived:
 * it becomes ready again, and the other waits for it (plan.absent, one list per producer). If its
 * result then differs, the waiting task gets another key; what was a hit with the old bytes stays
 * one.
 *
 * Two kinds of steps are never hits without content: those whose bytes planning itself reads
 * (`each` over them, a path below them, values in them), and those that nothing depends on (they
 * are what the pipeline is for).
 *
 * Invariant: a revived task is counted in its step's `n_ended` only after its second end;
 * `absent.n` only grows, and while it is 0 nothing here costs anything.
 */
#include <assert.h>
#include "plan/internal.h"

static bool is_at(const struct ref *ref, enum ref_kind kind, uint32_t which)
{
	return ref->kind == kind && (kind == REF_STEP_OUTPUT ? ref->step : ref->index) == which;
}

bool plan_reads_bytes(const struct step *s, enum ref_kind kind, uint32_t which)
{
	assert(kind == REF_STEP_OUTPUT || kind == REF_PIPELINE_INPUT);
	if (s->tasks->each && is_at(&s->tasks->each->from, kind, which))
		return true;
	for (size_t i = 0; i < s->n_deps && kind == REF_STEP_OUTPUT; i++)
		if (s->deps[i].values && s->deps[i].step == which)
			return true;
	for (size_t i = 0; i < s->n_inputs; i++)
		if (s->inputs[i].subpath && is_at(&s->inputs[i].from, kind, which))
			return true;
	return false;
}

bool absent_may_stay(struct plan *p, const struct plan_task *t, const struct lookup_hit *hit)
{
	const struct plan_step *s = &p->steps[t->step];
	bool used = false, last = true;
	struct err why = { 0 };

	if (s->decl->tasks->repeat &&
	    (round_until_reads_values(s->decl) ||
	     plan_judge_round(p, t, hit->outputs, hit->metrics, hit->n_metrics, &last, &why) < 0))
		return false;
	if (!last) /* only the next round can read it */
		return !round_reads_itself(s->decl, true);
	for (size_t i = 0; i < s->n_dependents; i++) {
		const struct plan_step *d = &p->steps[s->dependents[i].step];

		if (plan_reads_bytes(d->decl, REF_STEP_OUTPUT, t->step))
			return false;
		used |= d->selected && d->decl->deps[s->dependents[i].dep].data;
	}
	return used;
}

/* Whether one of these steps reads what this one makes. */
static bool has_reader(const struct plan *p, const struct plan_step *s, const bool *steps)
{
	for (size_t i = 0; i < s->n_dependents; i++) {
		struct plan_dependent d = s->dependents[i];

		if (steps[d.step] && p->steps[d.step].decl->deps[d.dep].data)
			return true;
	}
	return false;
}

/* Whether tasks of that step may yet be executed: those that haven't ended, and absent ones that
 * such tasks may need. */
static bool may_be_executed(const struct plan *p, const struct plan_step *s, const bool *wanted)
{
	bool absent = false;

	if (!s->expanded || s->n_ended < s->n_tasks)
		return true;
	for (size_t i = 0; i < s->n_tasks && !absent; i++)
		absent = s->tasks[i].absent;
	return absent && has_reader(p, s, wanted);
}

void plan_may_return(const struct plan *p, bool *ret_steps)
{
	_cleanup_(freep) bool *executed = xcalloc(p->n_steps + 1, sizeof(bool));

	for (size_t i = p->n_steps; i-- > 0;) {
		uint32_t at = p->ctx.pipeline->order[i];
		const struct plan_step *s = &p->steps[at];

		executed[at] = s->selected && may_be_executed(p, s, executed);
		ret_steps[at] = has_reader(p, s, executed) ||
				(executed[at] && round_reads_itself(s->decl, false));
	}
}

/* Makes a hit whose content is gone run again. */
static int revive(struct plan *p, struct plan_task *t, struct err *err)
{
	assert(t->state == TASK_STATE_HIT || t->state == TASK_STATE_DONE);
	if (t->state == TASK_STATE_HIT) {
		p->counts.hits--;
		p->counts.saved_ns -= t->duration_ns;
	} else {
		p->counts.executed--;
	}
	p->steps[t->step].n_ended--;
	if (!p->steps[t->step].decl->finally)
		p->ordinary.open++;
	t->absent = false;
	t->revived = true;
	t->miss = MISS_BLOBS_GONE;
	return plan_make_ready(p, t, err);
}

/* Whether the content of what it made is still there. */
static int look_for(struct plan *p, struct plan_task *producer, struct err *err)
{
	size_t n = p->steps[producer->step].decl->n_outputs;
	_cleanup_(freep) bool *present = xcalloc(n + 1, sizeof(*present));
	bool complete = true;

	if ((producer->state != TASK_STATE_HIT && producer->state != TASK_STATE_DONE) ||
	    producer->absent)
		return 0;
	if (content_complete(p->ctx.store, producer->outputs, n, present, err) < 0)
		return -1;
	for (size_t o = 0; o < n; o++)
		complete &= present[o];
	producer->absent = !complete;
	p->absent.n += !complete;
	return 0;
}

/* Marks the producers of the content that `t` reads and that is gone. */
static int find_absent(struct plan *p, const struct plan_task *t, struct err *err)
{
	struct plan_step *s = &p->steps[t->step];
	struct plan_task *before = plan_round_before(p, t);

	if (before && look_for(p, before, err) < 0)
		return -1;
	for (size_t i = 0; i < s->decl->n_deps; i++) {
		struct plan_dep *d = &s->deps[i];
		uint32_t g = dep_group_of(d, t);

		for (size_t k = 0; d->decl->data && k < dep_group_size(p, d, g); k++)
			if (look_for(p, dep_group_task(p, d, g, k), err) < 0)
				return -1;
	}
	return 0;
}

int plan_give_back(struct plan *p, struct plan_task *t, struct err *err)
{
	assert(t->state == TASK_TAKEN);
	return find_absent(p, t, err) < 0 ? -1 : plan_make_ready(p, t, err);
}

static int wait_for(struct plan *p, struct plan_task *t, struct plan_task *producer,
		    struct err *err)
{
	bool begun = producer->revived && !task_state_ended(producer->state);

	if (!producer->absent && !begun)
		return 0;
	VEC_PUSH(&p->absent.waits, ((struct plan_wait){ t, producer->last_wait }));
	producer->last_wait = (uint32_t)p->absent.waits.n;
	t->pending++;
	/* A producer may itself need content that is gone. */
	return producer->absent ? revive(p, producer, err) : 0;
}

int absent_needed(struct plan *p, struct plan_task *t, struct err *err)
{
	struct plan_step *s = &p->steps[t->step];
	struct plan_task *before = plan_round_before(p, t);

	if (before && wait_for(p, t, before, err) < 0)
		return -1;
	for (size_t i = 0; i < s->decl->n_deps && p->absent.n; i++) {
		struct plan_dep *d = &s->deps[i];
		uint32_t g;

		if (!d->decl->data)
			continue;
		g = dep_group_of(d, t);
		for (size_t k = 0; k < dep_group_size(p, d, g); k++)
			if (wait_for(p, t, dep_group_task(p, d, g, k), err) < 0)
				return -1;
	}
	if (t->pending)
		t->state = TASK_WAITING;
	return t->pending > 0;
}

void absent_returned(struct plan *p, struct plan_task *t)
{
	uint32_t first = 0, before;

	for (uint32_t at = t->last_wait; at; at = before) { /* the first that waited comes first */
		before = p->absent.waits.v[at - 1].next;
		p->absent.waits.v[at - 1].next = first;
		first = at;
	}
	t->last_wait = 0;
	for (; first; first = p->absent.waits.v[first - 1].next) {
		struct plan_task *waiter = p->absent.waits.v[first - 1].waiter;

		waiter->need_failed |= task_went_wrong(p, t);
		if (--waiter->pending == 0)
			queue_push(&p->to_key, waiter); /* its key may have changed */
	}
	t->revived = false;
}
