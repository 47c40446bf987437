/* engine/plan/absent.c — results on record whose content is gone from the store.
 *
 * Keys take only ids, so such a task is a hit as long as nobody needs its bytes
 * (plan_task.absent). When a task that depends on it must be executed, it is revived: it becomes
 * ready again, and the task waits for it (plan.waits, one list per producer). A result that then
 * differs gives that task another key; what was a hit with the old bytes stays one.
 *
 * Steps whose bytes planning itself reads (`each` over them, a path below them), and steps that
 * nothing depends on (they are what the pipeline is for), are never hits without content.
 *
 * Invariant: a revived task is counted in its step's `n_ended` only after its second end;
 * `n_absent` only grows, and while it is 0 nothing here costs anything.
 */
#include "plan/internal.h"

static bool reads_bytes(const struct step *s, uint32_t needed)
{
	if (s->each && s->each->from.kind == REF_STEP_OUTPUT && s->each->from.step == needed)
		return true;
	for (size_t i = 0; i < s->n_inputs; i++)
		if (s->inputs[i].subpath && s->inputs[i].from.kind == REF_STEP_OUTPUT &&
		    s->inputs[i].from.step == needed)
			return true;
	return false;
}

bool absent_may_stay(const struct plan *p, const struct plan_task *t)
{
	const struct plan_step *s = &p->steps[t->step];
	bool used = false;

	for (size_t i = 0; i < s->dependents.n; i++) {
		const struct plan_step *d = &p->steps[s->dependents.v[i].step];

		if (reads_bytes(d->decl, t->step))
			return false;
		used |= d->selected && d->decl->deps[s->dependents.v[i].dep].data;
	}
	return used;
}

/* Whether tasks of that step may be executed yet: those that haven't ended, and absent ones that
 * such tasks may come to need. */
static bool may_be_executed(const struct plan *p, const struct plan_step *s, const bool *wanted)
{
	bool absent = false;

	if (!s->expanded || s->n_ended < s->n_tasks)
		return true;
	for (size_t i = 0; i < s->n_tasks && !absent; i++)
		absent = s->tasks[i].absent;
	for (size_t i = 0; i < s->dependents.n && absent; i++) {
		const struct plan_step *d = &p->steps[s->dependents.v[i].step];

		if (wanted[s->dependents.v[i].step] && d->decl->deps[s->dependents.v[i].dep].data)
			return true;
	}
	return false;
}

void plan_may_return(const struct plan *p, bool *ret_steps)
{
	_cleanup_(freep) bool *executed = xcalloc(p->n_steps + 1, sizeof(bool));

	for (size_t i = p->n_steps; i-- > 0;) {
		uint32_t at = p->ctx.pipeline->order[i];
		const struct plan_step *s = &p->steps[at];

		executed[at] = s->selected && may_be_executed(p, s, executed);
		ret_steps[at] = false;
		for (size_t k = 0; k < s->dependents.n; k++)
			ret_steps[at] |= executed[s->dependents.v[k].step] &&
					 p->steps[s->dependents.v[k].step]
						 .decl->deps[s->dependents.v[k].dep]
						 .data;
	}
}

static void revive(struct plan *p, struct plan_task *t)
{
	if (t->state == TASK_STATE_HIT) {
		p->counts.hits--;
		p->counts.saved_ns -= t->duration_ns;
	} else {
		p->counts.executed--;
	}
	p->steps[t->step].n_ended--;
	t->absent = false;
	t->revived = true;
	t->miss = MISS_BLOBS_GONE;
}

static int wait_for(struct plan *p, struct plan_task *producer, struct plan_task *waiter,
		    struct err *err)
{
	VEC_PUSH(&p->waits, ((struct plan_wait){ waiter, producer->last_wait }));
	producer->last_wait = (uint32_t)p->waits.n;
	waiter->pending++;
	if (!producer->absent)
		return 0; /* revived already */
	revive(p, producer);
	return plan_make_ready(p, producer, err); /* which may itself need what is gone */
}

/* Marks the producers of what `t` reads whose content is gone. */
static int find_absent(struct plan *p, const struct plan_task *t, struct err *err)
{
	struct plan_step *s = &p->steps[t->step];

	for (size_t i = 0; i < s->decl->n_deps; i++) {
		struct plan_dep *d = &s->deps[i];
		uint32_t g = dep_group_of(d, t);

		for (size_t k = 0; d->decl->data && k < dep_group_size(p, d, g); k++) {
			struct plan_task *producer = dep_group_task(p, d, g, k);
			size_t n = p->steps[producer->step].decl->n_outputs;
			_cleanup_(freep) bool *present = xcalloc(n + 1, sizeof(*present));
			bool complete = true;

			if ((producer->state != TASK_STATE_HIT &&
			     producer->state != TASK_STATE_DONE) ||
			    producer->absent)
				continue;
			if (content_complete(p->ctx.store, producer->outputs, n, present, err) < 0)
				return -1;
			for (size_t o = 0; o < n; o++)
				complete &= present[o];
			producer->absent = !complete;
			p->n_absent += !complete;
		}
	}
	return 0;
}

int plan_give_back(struct plan *p, struct plan_task *t, struct err *err)
{
	return find_absent(p, t, err) < 0 ? -1 : plan_make_ready(p, t, err);
}

int absent_needed(struct plan *p, struct plan_task *t, struct err *err)
{
	struct plan_step *s = &p->steps[t->step];

	for (size_t i = 0; i < s->decl->n_deps && p->n_absent; i++) {
		struct plan_dep *d = &s->deps[i];
		uint32_t g;

		if (!d->decl->data)
			continue;
		g = dep_group_of(d, t);
		for (size_t k = 0; k < dep_group_size(p, d, g); k++) {
			struct plan_task *producer = dep_group_task(p, d, g, k);

			if ((producer->absent ||
			     (producer->revived && !task_state_ended(producer->state))) &&
			    wait_for(p, producer, t, err) < 0)
				return -1;
		}
	}
	if (t->pending)
		t->state = TASK_WAITING;
	return t->pending > 0;
}

void absent_returned(struct plan *p, struct plan_task *t)
{
	uint32_t first = 0, before;

	for (uint32_t at = t->last_wait; at; at = before) { /* the first that waited comes first */
		before = p->waits.v[at - 1].next;
		p->waits.v[at - 1].next = first;
		first = at;
	}
	t->last_wait = 0;
	for (; first; first = p->waits.v[first - 1].next) {
		struct plan_task *waiter = p->waits.v[first - 1].waiter;

		waiter->need_failed |=
			t->state == TASK_STATE_FAILED || t->state == TASK_STATE_BLOCKED;
		if (--waiter->pending == 0)
			queue_push(&p->wave, waiter); /* its key may be another now */
	}
	t->revived = false;
}
