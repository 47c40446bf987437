/* What an earlier engine of this run left: attempts without an end.
 *
 * Those of a runner on this machine died with their engine. Those of a durable one go on: each is taken up under its own id when its task is to be executed again, and
 * closed when it isn't: its task has come to a result otherwise, has another key now, or the run has ended. */
#include "run/internal.h"

/* It isn't the task's failure and costs no retry. */
static int close_as(struct run *r, struct attempt_row *a, enum failure_class class, const char *why, struct err *err)
{
	struct clock *c = loop_clock(r->ctx->loop);

	a->ended_ns = c->wall_ns(c);
	a->failure = class;
	a->exit_status = -1;
	a->message = why;
	return record_attempt_end(r->ctx->db, a, err);
}

static int close_lost(struct run *r, struct attempt_row *a, struct err *err)
{
	struct runner_attempt gone = { .id = (uint64_t)a->id, .task = a->task, .run_id = r->row.id };

	if (r->ctx->runner->ops->adopt(r->ctx->runner, &gone, err) < 0)
		return -1;
	return close_as(r, a, FAILURE_LOST, "the engine that ran it died", err);
}

/* Of two open ones of a task, the later is the one that goes on. */
static int keep_open(struct run *r, struct attempt_row *a, struct err *err)
{
	struct attempt_row **slot = (struct attempt_row **)map_slot_str(r->earlier_open, a->task), *before = *slot;

	*slot = a;
	if (!before)
		return 0;
	VEC_PUSH(&r->settled, (uint64_t)before->id);
	return close_as(r, before, FAILURE_CANCELLED, "a later attempt took its place", err);
}

static void forget(struct run *r, uint64_t id)
{
	const struct runner_ops *ops = r->ctx->runner->ops;

	if (ops->forget)
		ops->forget(r->ctx->runner, id);
}

/* After the rows that say so are committed. */
static void forget_settled(struct run *r)
{
	for (size_t i = 0; i < r->settled.n; i++)
		forget(r, r->settled.v[i]);
	r->settled.n = 0;
}

/* Commits, or undoes what failed. */
static int end_transaction(struct run *r, int result, struct err *err)
{
	if (result < 0) {
		db_rollback(r->ctx->db);
		return -1;
	}
	if (db_commit(r->ctx->db, err) < 0)
		return -1;
	forget_settled(r);
	return 0;
}

/* Before anything of it is submitted or forgotten, a durable runner hears that there were attempts: what they left is to be found first. */
static int tell_durable(struct run *r, struct err *err)
{
	const struct runner_ops *ops = r->ctx->runner->ops;
	const struct attempt_row *last = r->n_earlier ? &r->earlier[r->n_earlier - 1] : NULL;

	if (!ops->durable || !last)
		return 0;
	return MIN(ops->adopt(r->ctx->runner, &(struct runner_attempt){ .id = (uint64_t)last->id, .task = last->task, .run_id = r->row.id }, err), 0);
}

static void note_past(struct run *r, const struct attempt_row *a)
{
	struct task_past **slot = (struct task_past **)map_slot_str(r->earlier_past, a->task), *p = *slot;

	if (!p)
		p = *slot = arena_alloc(r->arena, sizeof(*p));
	p->last = MAX(p->last, a->number);
	if (a->ended_ns == 0)
		return;
	if (str_eq(a->reason, REASON_RESUMED))
		memset(p->failures, 0, sizeof(p->failures));
	p->failures[a->failure]++;
	p->ended = a;
}

/* Of several that take a run up at once the first one has it: what was read of it before the transaction began may be old. */
static int still_ours_to_take(struct run *r, const struct run_row *seen, struct err *err)
{
	struct run_row now;

	if (record_find_run_named(r->ctx->db, seen->id, r->arena, &now, err) <= 0)
		return err && err->code ? -1 : err_set(err, ERR_NOT_FOUND, "run %s is not on record any more", seen->id);
	if (record_run_engine(&now) == RUN_ENGINE_LIVES)
		return err_set(err, ERR_BUSY, "run %s was taken up by another process (%d) at the same moment; `cairn status %s` shows it", now.id, now.pid, now.id);
	if (now.state != seen->state || now.pid != seen->pid || now.pid_start != seen->pid_start || now.ended_ns != seen->ended_ns)
		return err_set(err, ERR_BUSY, "run %s was taken up by another process meanwhile, and is %s now; `cairn status %s` shows it", now.id,
			       run_state_name(now.state), now.id);
	return 0;
}

int earlier_take_up(struct run *r, const struct run_row *seen, struct err *err)
{
	int result;

	if (db_begin(r->ctx->db, err) < 0)
		return -1;
	result = still_ours_to_take(r, seen, err);
	if (result == 0)
		result = record_run_attempts(r->ctx->db, r->row.rowid, r->arena, &r->earlier, &r->n_earlier, err);
	if (result == 0)
		result = tell_durable(r, err);
	for (size_t i = 0; i < r->n_earlier && result == 0; i++) {
		struct attempt_row *a = &r->earlier[i];

		if (r->ctx->runner->ops->durable)
			note_past(r, a);
		if (a->ended_ns && !a->workspace)
			forget(r, (uint64_t)a->id);
		if (a->ended_ns == 0)
			result = r->ctx->runner->ops->durable ? keep_open(r, a, err) : close_lost(r, a, err);
		else if (a->failure == FAILURE_NONE)
			*map_slot_str(r->earlier_done, a->task) = a;
	}
	if (result == 0)
		result = record_run_update(r->ctx->db, &r->row, err);
	if (result == 0 && r->row.cancel_requested && !r->interrupted)
		result = record_run_forget_cancel(r->ctx->db, r->row.rowid, err);
	return end_transaction(r, result, err);
}

struct attempt_row *earlier_row(struct run *r, const struct active *a)
{
	struct attempt_row *row = map_get_str(r->earlier_open, a->label);

	if (!row)
		return NULL;
	*map_slot_str(r->earlier_open, a->label) = NULL;
	if (digest_eq(&row->key, &a->task->key))
		return row;
	VEC_PUSH(&r->to_close, row);
	return NULL;
}

int earlier_close_changed(struct run *r, struct attempt_row *row, struct err *err)
{
	VEC_PUSH(&r->settled, (uint64_t)row->id);
	return close_as(r, row, FAILURE_CANCELLED, "what its task reads has changed since", err);
}

unsigned earlier_number(const struct run *r, const char *task)
{
	const struct task_past *p = map_get_str(r->earlier_past, task);

	return p ? p->last : 0;
}

/* Of classes that are never tried again nothing is known here: those tasks' results, if they have any, are found as results are. */
static bool is_spent(const struct retry_policy *policy, const struct task_past *p)
{
	enum failure_class f = p->ended ? p->ended->failure : FAILURE_NONE;

	return f != FAILURE_NONE && f != FAILURE_CANCELLED && f != FAILURE_GATE && p->failures[f] > policy->budget[f];
}

int earlier_history(struct run *r, struct plan_task *t, const struct attempt_row **ret)
{
	const struct retry_policy *policy = &r->pipeline->steps[t->step].retry;
	_cleanup_(str_deinit) struct str label = { 0 };
	const struct task_past *p;
	struct task_history *h;

	if (!r->goes_on || map_len(r->earlier_past) == 0)
		return 0;
	plan_task_label(r->plan, t, &label);
	p = map_get_str(r->earlier_past, label.s);
	if (!p)
		return 0;
	h = history_of(r, t, true);
	memcpy(h->failures, p->failures, sizeof(h->failures));
	h->attempts = p->last;
	for (uint32_t i = 0; i < MIN(h->failures[FAILURE_OOM], policy->budget[FAILURE_OOM]) && policy->oom_memory_factor > 1; i++)
		h->memory_factor *= policy->oom_memory_factor;
	*ret = p->ended;
	return is_spent(policy, p) && !map_get_str(r->earlier_open, label.s);
}

static bool had_failed(const struct run *r, const struct task_past *p)
{
	const char *step = p->ended ? p->ended->step : NULL;

	for (size_t i = 0; step && i < r->pipeline->n_steps; i++)
		if (str_eq(r->pipeline->steps[i].name, step))
			return is_spent(&r->pipeline->steps[i].retry, p) && !map_get_str(r->earlier_open, p->ended->task);
	return false;
}

bool earlier_stands(const struct run *r, const char *task)
{
	const struct task_past *p = map_get_str(r->earlier_past, task);

	return map_get_str(r->earlier_open, task) || (r->goes_on && p && had_failed(r, p));
}

bool earlier_failed(const struct run *r)
{
	for (size_t i = 0; r->goes_on && i < map_len(r->earlier_past); i++)
		if (had_failed(r, map_at(r->earlier_past, i, NULL, NULL)))
			return true;
	return false;
}

int earlier_close(struct run *r, struct err *err)
{
	int result = 0;

	if (map_len(r->earlier_open) == 0)
		return 0;
	if (db_begin(r->ctx->db, err) < 0)
		return -1;
	for (size_t i = 0; i < map_len(r->earlier_open) && result == 0; i++) {
		struct attempt_row *a = map_at(r->earlier_open, i, NULL, NULL);

		if (!a)
			continue;
		VEC_PUSH(&r->settled, (uint64_t)a->id);
		result = close_as(r, a, FAILURE_CANCELLED, r->interrupted ? "stopped on request" : "its task came to a result without it", err);
	}
	return end_transaction(r, result, err);
}
