#include <assert.h>
#include "run/internal.h"

static void join(struct task *t, struct task_list *to, struct task *before, struct task *after)
{
	t->on = to;
	t->before = before;
	t->after = after;
	*(before ? &before->after : &to->first) = t;
	*(after ? &after->before : &to->last) = t;
	to->n++;
}

static void leave(struct task *t)
{
	*(t->before ? &t->before->after : &t->on->first) = t->after;
	*(t->after ? &t->after->before : &t->on->last) = t->before;
	t->on->n--;
}

struct task *task_of(struct run *r, struct plan_task *plan)
{
	struct task_list *planned = &r->tasks.in[PHASE_PLANNED];

	if (!plan->task) {
		plan->task = arena_alloc(r->arena, sizeof(*plan->task));
		plan->task->run = r;
		plan->task->plan = plan;
		join(plan->task, planned, planned->last, NULL);
		r->tasks.n++;
	}
	return plan->task;
}

void task_move(struct task *t, struct task_list *to)
{
	leave(t);
	join(t, to, to->last, NULL);
}

void task_move_to_front(struct task *t, struct task_list *to)
{
	leave(t);
	join(t, to, NULL, to->first);
}

void task_set_phase(struct task *t, enum task_phase phase)
{
	assert(phase != PHASE_BEHIND &&
	       phase != PHASE_IN_LINE); /* their lists belong to tasks and groups */
	task_move(t, &t->run->tasks.in[phase]);
}

struct task_history *task_history_of(struct task *t)
{
	if (!t->history) {
		t->history = arena_alloc(t->run->arena, sizeof(*t->history));
		t->history->memory_factor = 1;
	}
	return t->history;
}

void task_wait_behind(struct task *t, struct task *first)
{
	assert(t != first);
	if (!first->behind) {
		first->behind = arena_alloc(t->run->arena, sizeof(*first->behind));
		first->behind->phase = PHASE_BEHIND;
	}
	task_move(t, first->behind);
}

struct runner_result *attempt_ended(struct attempt *a, const struct runner_result *result)
{
	return a->result = arena_memdup(a->arena, result, sizeof(*result));
}

void attempt_free(struct attempt *a)
{
	if (!a)
		return;
	str_deinit(&a->command.key_record);
	free(a->label);
	arena_free(a->arena);
	free(a);
}

static size_t check_list(const struct task_list *l)
{
	size_t n = 0, behind = 0;

	for (const struct task *t = l->first; t; t = t->after, n++) {
		const bool has_attempt = l->phase == PHASE_BEGUN || l->phase == PHASE_RUNNING ||
					 l->phase == PHASE_ENDED;

		assert(t->on == l && t->plan->task == t);
		assert(t->before ? t->before->after == t : l->first == t);
		assert(t->after ? t->after->before == t : l->last == t);
		assert(l->phase == PHASE_PLANNED || t->plan->state == TASK_TAKEN);
		assert(has_attempt == (t->attempt != NULL));
		assert(!t->has_group_place || has_attempt);
		assert(!t->has_lease || has_attempt);
		assert(!t->called || l->phase == PHASE_READY);
		behind += t->behind ? check_list(t->behind) : 0;
	}
	assert(n == l->n);
	return n + behind;
}

/* Tasks that the check may look at in each turn, on average. */
#define CHECKED_EACH_TURN 64

void task_check_all(struct run *r)
{
	size_t n = 0;

	r->tasks.unchecked += CHECKED_EACH_TURN;
	if (r->tasks.unchecked < r->tasks.n)
		return;
	r->tasks.unchecked = 0;
	for (size_t i = 0; i < PHASES; i++)
		n += check_list(&r->tasks.in[i]);
	for (size_t i = 0; i < map_len(r->tasks.groups); i++) {
		struct group *g = map_at(r->tasks.groups, i, NULL, NULL);

		group_check(r, g);
		n += check_list(group_line(g));
	}
	assert(n == r->tasks.n);
}
