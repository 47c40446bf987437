/* engine/run/group.c — concurrency groups: at most `max` tasks of a group at once, over all engines
 * of the project.
 *
 * A group has places. Each place is a lock on a byte of the project's lease file. We keep a list of
 * our own places, since a process's own locks don't keep it out. A task that finds no place stands
 * in line and costs nothing until it is called. As many tasks are called as there are places that
 * aren't ours and for which no task was called yet. A called task that doesn't take a place (it is
 * a hit, or this machine has no room) gives its turn to the next one.
 *
 * Nobody reports when another engine's place comes free. The first task in line is called again
 * after a while (start_recheck), or when one of our places comes free.
 *
 * Invariant: while a task stands in line, our places and the called tasks add up to the first
 * task's `max`, or the group is full elsewhere and a timer runs.
 *
 * Threads: the loop's; other engines meet it only at the locks. Not here: leases on keys and room
 * on this machine (start.c, slots.c).
 */
#include <assert.h>
#include "base/os/fs.h"
#include "run/internal.h"

/* Lock bytes of each group, from an offset that its name gives. A larger `max` is cut to it. */
#define PLACES 4096u

struct group {
	uint64_t base;
	uint64_t ours[PLACES / 64];
	uint32_t n_ours, n_called;
	bool full_elsewhere;
	struct task_list line;
};

static uint32_t places_of(const struct task *t)
{
	return MIN(plan_task_step(t->run->plan, t->plan)->policy->concurrency.max, PLACES);
}

static struct group *group_named(struct run *r, const char *name)
{
	struct group **slot = (struct group **)map_slot_str(r->tasks.groups, name), *g = *slot;
	struct digest d;

	if (g)
		return g;
	g = *slot = arena_alloc(r->arena, sizeof(*g));
	g->line.phase = PHASE_IN_LINE;
	digest_bytes(name, strlen(name), &d);
	memcpy(&g->base, d.b, sizeof(g->base));
	g->base &= FS_LOCK_OFFSET_MAX & ~(uint64_t)(PLACES - 1);
	return g;
}

struct task_list *group_line(struct group *g)
{
	return &g->line;
}

void group_check(struct run *r, const struct group *g)
{
	const struct task *first = g->line.first;

	assert(!g->full_elsewhere || r->tasks.look_again);
	assert(!first || g->full_elsewhere || g->n_ours + g->n_called >= places_of(first));
}

static void call(struct group *g)
{
	struct task *t;

	while (!g->full_elsewhere && (t = g->line.first) &&
	       g->n_ours + g->n_called < places_of(t)) {
		task_set_phase(t, PHASE_READY);
		t->called = t->was_called = true;
		g->n_called++;
	}
}

bool group_admits(struct task *t)
{
	const struct step *s = &t->run->pipeline->steps[t->plan->step];
	const char *name = s->policy->concurrency.group
				   ? template_literal(s->policy->concurrency.group)
				   : NULL;
	struct group *g = t->group;

	if (!g && name)
		g = t->group = group_named(t->run, name);
	if (!g || t->called)
		return true;
	if (t->was_called ? g->n_ours < places_of(t)
			  : !g->line.first && g->n_ours + g->n_called < places_of(t))
		return true;
	task_move(t, &g->line);
	return false;
}

void group_turn_over(struct task *t)
{
	if (!t->called)
		return;
	t->called = false;
	t->group->n_called--;
	call(t->group);
}

int group_enter(struct task *t, const char *name, struct err *err)
{
	const int leases_fd = t->run->ctx->leases_fd;
	struct group *g = name ? group_named(t->run, name) : NULL;

	assert(!t->has_group_place);
	if (t->group != g) { /* the name is known only now, or has changed */
		group_turn_over(t);
		t->group = g;
		t->was_called = false;
		if (g && !group_admits(t))
			return 0;
	}
	for (uint32_t i = 0; g && i < places_of(t) && g->n_ours < places_of(t); i++) {
		int busy;

		if (g->ours[i / 64] >> (i % 64) & 1)
			continue;
		busy = leases_fd < 0 ? 0 : fs_lock_range_try(leases_fd, g->base + i, err);
		if (busy < 0)
			return -1;
		if (busy)
			continue;
		g->ours[i / 64] |= UINT64_C(1) << (i % 64);
		g->n_ours++;
		t->group_place = i;
		t->has_group_place = true;
		t->was_called = false;
		return 1;
	}
	if (!g)
		return 1;
	g->full_elsewhere = g->n_ours < places_of(t);
	if (g->full_elsewhere)
		start_recheck(t->run);
	task_move_to_front(t, &g->line);
	return 0;
}

void group_leave(struct task *t)
{
	struct group *g = t->group;

	if (!t->has_group_place)
		return;
	t->has_group_place = false;
	g->ours[t->group_place / 64] &= ~(UINT64_C(1) << (t->group_place % 64));
	g->n_ours--;
	if (t->run->ctx->leases_fd >= 0)
		fs_unlock_range(t->run->ctx->leases_fd, g->base + t->group_place);
	g->full_elsewhere = false;
	call(g);
}

void group_recheck_all(struct run *r)
{
	for (size_t i = 0; i < map_len(r->tasks.groups); i++) {
		struct group *g = map_at(r->tasks.groups, i, NULL, NULL);

		g->full_elsewhere = false;
		call(g);
	}
}
