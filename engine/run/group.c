/* Concurrency groups: at most `max` tasks of a name at once, over all engines of the project.
 *
 * A group has places, each of which is a lock on a byte of the project's file of leases; which of them are ours is kept here, since a process's own
 * locks don't keep it out. Who finds no place stands in line and costs nothing more until a place is given back, which wakes the first one. Where places
 * are another engine's, nobody tells us when they come free: then one task of the group, the prober, is tried again every while (start_later).
 *
 * Invariant: while somebody stands in line, a place is ours, or there is a prober, or one that was woken is among the ready or parked tasks. So a woken
 * task that comes to something else than a place (a hit, a failure, too few slots) wakes the next one.
 */
#include "base/fs.h"
#include "run/internal.h"

/* Locks after the first one of a group's name. More places than that are not told apart from as many. */
#define PLACES 4096u

struct group {
	uint64_t base;
	uint64_t ours[PLACES / 64];
	uint32_t n_ours;
	const struct plan_task *prober;
	VEC(struct plan_task *) line;
	size_t head; /* of the line: those before it have left */
};

static uint32_t places_of(const struct step *s)
{
	return MIN(s->concurrency.max, PLACES);
}

static struct group *group_named(struct run *r, const char *name)
{
	struct group **slot = (struct group **)map_slot_str(r->groups, name), *g = *slot;
	struct digest d;

	if (g)
		return g;
	g = *slot = xcalloc(1, sizeof(*g));
	digest_bytes(name, strlen(name), &d);
	memcpy(&g->base, d.b, sizeof(g->base));
	g->base &= FS_LOCK_OFFSET_MAX & ~(uint64_t)(PLACES - 1);
	return g;
}

void groups_free(struct run *r)
{
	for (size_t i = 0; i < map_len(r->groups); i++) {
		struct group *g = map_at(r->groups, i, NULL, NULL);

		VEC_FREE(&g->line);
		free(g);
	}
	map_free(r->groups);
	map_free(r->group_of_task);
}

static void stand_in_line(struct run *r, struct group *g, struct plan_task *t)
{
	*map_slot(r->group_of_task, &t, sizeof(t), NULL) = g;
	VEC_PUSH(&g->line, t);
	r->n_in_line++;
}

static void wake_first(struct run *r, struct group *g)
{
	if (g->head == g->line.n)
		return;
	plan_requeue(r->plan, g->line.v[g->head++]);
	r->n_in_line--;
	if (g->head < g->line.n)
		return;
	g->line.n = g->head = 0;
}

struct group *group_before(struct run *r, struct plan_task *t, bool *ret_waits)
{
	const struct step *s = &r->pipeline->steps[t->step];
	struct group *g = map_get(r->group_of_task, &t, sizeof(t));
	const char *name = s->concurrency.group ? template_literal(s->concurrency.group) : NULL;
	bool waited = g != NULL;

	*ret_waits = false;
	if (g && g->prober == t)
		g->prober = NULL;
	if (!g && name)
		g = group_named(r, name);
	/* Who comes new goes behind those that wait. */
	if (g && (g->n_ours >= places_of(s) || (!waited && g->head < g->line.n))) {
		stand_in_line(r, g, t);
		*ret_waits = true;
	}
	return waited ? g : NULL;
}

void group_after(struct run *r, struct group *g, const struct plan_task *t, bool has_place)
{
	/* One that stands in line again was put there for the want of a place: nobody else would find one. */
	if (!g || g->prober == t || (g->line.n > g->head && g->line.v[g->line.n - 1] == t))
		return;
	/* It left its turn to the next one; or there may be more places than ours, of an engine that has ended. */
	if (!has_place || g->n_ours < places_of(&r->pipeline->steps[t->step]))
		wake_first(r, g);
}

int group_enter(struct run *r, struct active *a, struct err *err)
{
	bool others_hold = false;
	struct group *g;

	if (!a->command.concurrency_group)
		return 1;
	g = group_named(r, a->command.concurrency_group);
	for (uint32_t i = 0; i < places_of(a->step) && g->n_ours < places_of(a->step); i++) {
		int busy;

		if (g->ours[i / 64] >> (i % 64) & 1)
			continue;
		busy = r->ctx->leases_fd < 0 ? 0 : fs_lock_range_try(r->ctx->leases_fd, g->base + i, err);
		if (busy < 0)
			return -1;
		others_hold |= busy > 0;
		if (busy)
			continue;
		g->ours[i / 64] |= UINT64_C(1) << (i % 64);
		g->n_ours++;
		a->group = g;
		a->group_place = i;
		return 1;
	}
	if (!others_hold || g->prober) {
		stand_in_line(r, g, a->task);
		return 0;
	}
	*map_slot(r->group_of_task, &a->task, sizeof(a->task), NULL) = g;
	g->prober = a->task;
	return start_later(r, a->task);
}

static struct group *give_back(struct active *a)
{
	struct group *g = TAKE_PTR(a->group);

	if (!g)
		return NULL;
	g->ours[a->group_place / 64] &= ~(UINT64_C(1) << (a->group_place % 64));
	g->n_ours--;
	if (a->run->ctx->leases_fd >= 0)
		fs_unlock_range(a->run->ctx->leases_fd, g->base + a->group_place);
	return g;
}

void group_leave(struct active *a)
{
	struct group *g = give_back(a);

	if (g)
		wake_first(a->run, g);
}

void group_take_back(struct active *a)
{
	give_back(a);
}

void groups_stop(struct run *r)
{
	for (size_t i = 0; i < map_len(r->groups); i++) {
		struct group *g = map_at(r->groups, i, NULL, NULL);
		const size_t n = g->line.n;

		if (g->prober && g->prober->state != TASK_RUNNING)
			g->prober = NULL;
		for (size_t k = g->head; k < n; k++, r->n_in_line--)
			if (may_go_on(r, g->line.v[k]))
				plan_requeue(r->plan, g->line.v[k]);
			else
				plan_task_end(r->plan, g->line.v[k], TASK_STATE_BLOCKED, NULL, NULL, 0, 0, 0);
		g->line.n = g->head = 0;
	}
}
