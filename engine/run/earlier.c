/* engine/run/earlier.c — attempts without an end that an earlier engine of this run left.
 *
 * Attempts of a runner on this machine died with their engine. Attempts of a durable runner go on.
 * Such an attempt is taken up under its own id when its task is to be executed again. Otherwise it
 * is closed: its task got a result in another way, its key changed, or the run has ended. Attempts
 * that wait for a person go on with any runner.
 *
 * earlier_adopt() reads all attempts of the run once and sorts them into maps by task: `open` (no
 * end yet), `done` (succeeded), `past` (how often it failed; of a durable runner only).
 *
 * Invariants: when several engines take a run up at once, one wins: the transaction that claims the
 * row compares it with `seen`. The runner is called outside of transactions. An engine that dies in
 * between leaves attempts without an end to the next engine. A durable runner adopts an attempt
 * (adopt()) before anything is submitted or forgotten. The runner forgets an attempt only after its
 * end is committed (commit_and_forget()). Failures count since a user last started or resumed the
 * run (REASON_RESUMED).
 *
 * Threads: the loop's. Not here: submitting attempts that go on (start.c).
 */
#include <assert.h>
#include "run/internal.h"

/* The task didn't fail, so this costs no retry. */
static int close_as(struct run *r, struct attempt_row *a, enum failure_class class, const char *why,
		    struct err *err)
{
	a->ended_ns = run_wall_ns(r);
	a->failure = class;
	a->exit_status = -1;
	a->message = why;
	return record_attempt_end(r->ctx->db, a, err);
}

static int adopt(struct run *r, const struct attempt_row *a, struct err *err)
{
	const struct runner_attempt gone = { .id = (uint64_t)a->id,
					     .task = a->task,
					     .run_id = r->row.id };

	return MIN(r->ctx->runner->ops->adopt(r->ctx->runner, &gone, err), 0);
}

/* When a task has two open attempts, the later one goes on. */
static int keep_open(struct run *r, struct attempt_row *a, struct err *err)
{
	struct attempt_row **slot = (struct attempt_row **)map_slot_str(r->earlier.open, a->task),
			   *before = *slot;

	*slot = a;
	if (!before)
		return 0;
	VEC_PUSH(&r->journal.settled, (uint64_t)before->id);
	return close_as(r, before, FAILURE_CANCELLED, "a later attempt took its place", err);
}

static void forget(struct run *r, uint64_t id)
{
	const struct runner_ops *ops = r->ctx->runner->ops;

	if (ops->forget)
		ops->forget(r->ctx->runner, id);
}

static int commit_and_forget(struct run *r, int (*write)(struct run *r, struct err *err),
			     struct err *err)
{
	if (run_in_transaction(r, write, err) < 0)
		return -1;
	for (size_t i = 0; i < r->journal.settled.n; i++)
		forget(r, r->journal.settled.v[i]);
	r->journal.settled.n = 0;
	return 0;
}

static void note_past(struct run *r, const struct attempt_row *a)
{
	struct task_past **slot = (struct task_past **)map_slot_str(r->earlier.past, a->task),
			 *p = *slot;

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

/* When several engines take a run up at once, the first one gets it. The row that was read before
 * the transaction may be old. */
static int still_ours_to_take(struct run *r, struct err *err)
{
	const struct run_row *seen = r->earlier.seen;
	struct run_row now;

	if (record_run_by_id(r->ctx->db, seen->id, r->arena, &now, err) <= 0)
		return err && err->code ? -1
					: err_set(err, ERR_NOT_FOUND,
						  "run %s is not on record any more", seen->id);
	if (record_run_engine(&now) == RUN_ENGINE_LIVES)
		return err_set(err, ERR_BUSY,
			       "run %s was taken up by another process (%d) at the same moment; "
			       "`cairn status %s` shows it",
			       now.id, now.engine.pid, now.id);
	if (now.state != seen->state || now.engine.pid != seen->engine.pid ||
	    now.engine.start != seen->engine.start || now.ended_ns != seen->ended_ns)
		return err_set(err, ERR_BUSY,
			       "run %s was taken up by another process meanwhile, and is %s now; "
			       "`cairn status %s` shows it",
			       now.id, run_state_name(now.state), now.id);
	return 0;
}

/* Whether it goes on without an engine. */
static bool goes_on(const struct run *r, const struct attempt_row *a)
{
	return r->ctx->runner->ops->durable || a->approval;
}

/* From here on the run is ours. */
static int write_claim(struct run *r, struct err *err)
{
	const bool durable = r->ctx->runner->ops->durable;

	if (still_ours_to_take(r, err) < 0 ||
	    record_run_attempts(r->ctx->db, r->row.rowid, r->arena, &r->earlier.attempts,
				&r->earlier.n, err) < 0)
		return -1;
	for (size_t i = 0; i < r->earlier.n; i++) {
		struct attempt_row *a = &r->earlier.attempts[i];

		if (durable)
			note_past(r, a);
		if (a->ended_ns && a->failure == FAILURE_NONE)
			*map_slot_str(r->earlier.done, a->task) = a;
		if (a->ended_ns == 0 && goes_on(r, a) && keep_open(r, a, err) < 0)
			return -1;
	}
	if (record_run_update(r->ctx->db, &r->row, err) < 0)
		return -1;
	return r->row.cancel_requested && !r->end.interrupted
		       ? record_run_forget_cancel(r->ctx->db, r->row.rowid, err)
		       : 0;
}

static int write_lost(struct run *r, struct err *err)
{
	for (size_t i = 0; i < r->earlier.n; i++)
		if (r->earlier.attempts[i].ended_ns == 0 && !goes_on(r, &r->earlier.attempts[i]) &&
		    close_as(r, &r->earlier.attempts[i], FAILURE_LOST,
			     "the engine that ran it died", err) < 0)
			return -1;
	return 0;
}

/* NULL: its pipeline has changed since. */
static const struct step *step_of(const struct run *r, const struct attempt_row *a)
{
	assert(r->earlier.steps);
	return map_get_str(r->earlier.steps, a->step);
}

/* A durable runner must adopt the earlier attempts before anything is submitted or forgotten, so
 * that it first finds what they left. Any other runner ends what is left of each attempt. */
int earlier_adopt(struct run *r, struct err *err)
{
	const bool durable = r->ctx->runner->ops->durable;
	const struct attempt_row *v;

	assert(r->earlier.seen && !r->earlier.steps);
	r->earlier.steps = pipeline_steps_by_name(r->pipeline);
	if (run_in_transaction(r, write_claim, err) < 0)
		return -1;
	v = r->earlier.attempts;
	if (durable && r->earlier.n && adopt(r, &v[r->earlier.n - 1], err) < 0)
		return -1;
	for (size_t i = 0; i < r->earlier.n; i++) {
		const struct step *s = step_of(r, &v[i]);

		if (s && !s->finally)
			r->earlier.newest_before_end = MAX(r->earlier.newest_before_end, v[i].id);
		if (v[i].ended_ns && !v[i].workspace)
			forget(r, (uint64_t)v[i].id);
		if (v[i].ended_ns == 0 && !goes_on(r, &v[i]) && adopt(r, &v[i], err) < 0)
			return -1;
	}
	return commit_and_forget(r, write_lost, err);
}

struct attempt_row *earlier_row(struct run *r, const struct attempt *a)
{
	struct attempt_row *row = map_get_str(r->earlier.open, a->label);

	if (!row)
		return NULL;
	*map_slot_str(r->earlier.open, a->label) = NULL;
	if (digest_eq(&row->key, &a->task->plan->key))
		return row;
	VEC_PUSH(&r->journal.to_close, row);
	return NULL;
}

int earlier_close_changed(struct run *r, struct attempt_row *row, struct err *err)
{
	VEC_PUSH(&r->journal.settled, (uint64_t)row->id);
	return close_as(r, row, FAILURE_CANCELLED, "what its task reads has changed since", err);
}

bool earlier_acts_again(const struct run *r, const struct attempt_row *a)
{
	const struct step *s = step_of(r, a);

	if (!s || !s->finally)
		return false;
	/* Or that end came, and a user resumed the run. */
	return r->earlier.seen->state != RUN_RUNNING || r->earlier.newest_before_end > a->id;
}

unsigned earlier_number(const struct run *r, const char *task)
{
	const struct task_past *p = map_get_str(r->earlier.past, task);

	return p ? p->last : 0;
}

/* Failures of classes that are never retried don't count here: the results of those tasks, if any,
 * are found like other results. */
static bool is_spent(const struct retry_policy *policy, const struct task_past *p)
{
	enum failure_class f = p->ended ? p->ended->failure : FAILURE_NONE;

	return f != FAILURE_NONE && f != FAILURE_CANCELLED && f != FAILURE_GATE &&
	       p->failures[f] > policy->budget[f];
}

int earlier_history(struct task *t, const struct attempt_row **ret)
{
	struct run *r = t->run;
	const struct retry_policy *policy = &plan_task_step(r->plan, t->plan)->policy->retry;
	_cleanup_(str_deinit) struct str label = { 0 };
	const struct task_past *p;
	struct task_history *h;

	if (!r->earlier.goes_on || map_len(r->earlier.past) == 0)
		return 0;
	plan_task_label(r->plan, t->plan, &label);
	p = map_get_str(r->earlier.past, label.s);
	if (!p)
		return 0;
	h = task_history_of(t);
	memcpy(h->failures, p->failures, sizeof(h->failures));
	h->attempts = p->last;
	for (uint32_t i = 0; i < MIN(h->failures[FAILURE_OOM], policy->budget[FAILURE_OOM]) &&
			     policy->oom_memory_factor > 1;
	     i++)
		h->memory_factor *= policy->oom_memory_factor;
	*ret = p->ended;
	return is_spent(policy, p) && !map_get_str(r->earlier.open, label.s);
}

static bool had_failed(const struct run *r, const struct task_past *p)
{
	const struct step *s = p->ended ? step_of(r, p->ended) : NULL;

	return s && is_spent(&s->policy->retry, p) && !map_get_str(r->earlier.open, p->ended->task);
}

bool earlier_stands(const struct run *r, const char *task)
{
	const struct task_past *p = map_get_str(r->earlier.past, task);

	return map_get_str(r->earlier.open, task) || (r->earlier.goes_on && p && had_failed(r, p));
}

bool earlier_failed(const struct run *r)
{
	for (size_t i = 0; r->earlier.goes_on && i < map_len(r->earlier.past); i++) {
		const struct task_past *p = map_at(r->earlier.past, i, NULL, NULL);
		const struct step *s = p->ended ? step_of(r, p->ended) : NULL;

		if (s && s->policy->fail_fast && !s->policy->continue_on_error && had_failed(r, p))
			return true;
	}
	return false;
}

static int write_closed(struct run *r, struct err *err)
{
	for (size_t i = 0; i < map_len(r->earlier.open); i++) {
		struct attempt_row *a = map_at(r->earlier.open, i, NULL, NULL);

		if (!a)
			continue;
		*map_slot_str(r->earlier.open, a->task) = NULL;
		VEC_PUSH(&r->journal.settled, (uint64_t)a->id);
		if (close_as(r, a, FAILURE_CANCELLED,
			     r->end.interrupted ? "stopped on request"
						: "its task has a result already",
			     err) < 0)
			return -1;
	}
	return 0;
}

int earlier_close(struct run *r, struct err *err)
{
	return map_len(r->earlier.open) == 0 ? 0 : commit_and_forget(r, write_closed, err);
}
