/* engine/run/approve.c — tasks that wait for a person (a step with `approve`).
 *
 * Such a task has an attempt like any other, but no runner and no slot: approve_describe() writes
 * the question, approve_wait() lets it be RUNNING, and look_for_answers() reads its row a few times
 * a second until the row has an answer (record/rows/approvals.h), which ends the attempt. At its
 * time limit the engine writes the answer itself; whichever is first counts.
 *
 * The question and the answer are in the database only. So an engine may die: the next one takes
 * the attempt up as it stands (earlier.c), with an answer that was given meanwhile. A reproduction
 * asks nobody: it takes the recorded answer of the run that it repeats.
 *
 * Invariant: no attempt succeeds here without an answer that is on record and that says so.
 * Threads: the loop's. Not here: who may answer, and how (record, cli, serve).
 */
#include <assert.h>
#include "base/text/text.h"
#include "run/internal.h"

#define LOOK_NS (500 * NS_PER_MS)

/* What is asked. */

static const char *waits_for(struct run *r, const struct attempt *a)
{
	_cleanup_(str_deinit) struct str out = { 0 }, task = { 0 };

	text_add_shell_quoted(&task, a->label);
	str_addf(&out, "waiting for approval: %s (cairn approve %s %s)", a->label, r->row.id,
		 task.s);
	if (a->asks->message)
		str_addf(&out, ": %s", a->asks->message);
	return arena_strndup(a->arena, out.s, out.len);
}

/* Answers of the run that is repeated, by task. */
static int note_answer(void *arg, const struct attempt_record *rec, struct err *err)
{
	struct run *r = arg;
	struct approval a;

	if (!rec->row.approval || !approval_parse(rec->row.approval, r->arena, &a) ||
	    a.answer == APPROVAL_OPEN)
		return 0;
	*map_slot_str(r->approvals.past, rec->row.task) =
		arena_memdup(r->arena, &a, sizeof(a)); /* the last one counts */
	return 0;
}

int approve_recorded(struct run *r, const char *task, const struct approval **ret, struct err *err)
{
	if (!r->approvals.past) {
		r->approvals.past = map_new();
		if (manifest_each_attempt(r->ctx->store, &r->past->manifest.attempts_blob,
					  note_answer, r, err) < 0)
			return -1;
	}
	*ret = map_get_str(r->approvals.past, task);
	return *ret != NULL;
}

int approve_describe(struct run *r, struct attempt *a, struct err *err)
{
	const struct step_approve *s = a->step->approve;
	const struct approval *recorded = NULL;
	struct approval *asks = arena_alloc(a->arena, sizeof(*asks));

	a->asks = asks;
	if (a->taken_up) {
		if (!approval_parse(a->row.approval, a->arena, asks))
			return err_set(err, ERR_CORRUPT, "what %s asks can't be read", a->label);
		a->waiting_for = a->reported = waits_for(r, a);
		return 0;
	}
	*asks = (struct approval){ .message = s->message ? a->command.script : NULL,
				   .by = s->by,
				   .n_by = s->n_by,
				   .until_ns =
					   a->step->policy->timeout_ns
						   ? a->row.started_ns + a->step->policy->timeout_ns
						   : 0,
				   .at_limit = s->at_limit };
	if (asks->message && strlen(asks->message) > APPROVAL_TEXT_MAX)
		asks->message = arena_strndup(a->arena, asks->message, APPROVAL_TEXT_MAX);
	if (r->past && approve_recorded(r, a->label, &recorded, err) < 0)
		return -1;
	if (recorded) {
		asks->until_ns = recorded->until_ns;
		asks->answer = recorded->answer;
		asks->who = recorded->who;
		asks->way = recorded->way;
		asks->said = recorded->said;
		asks->at_ns = recorded->at_ns;
	}
	a->row.approval = approval_encode(asks, a->arena);
	if (asks->answer == APPROVAL_OPEN)
		a->waiting_for = a->reported = waits_for(r, a);
	return 0;
}

/* Waiting. */

/* For `cairn logs`. Without it, the answer is still in the attempt's row. */
static void keep_log(struct run *r, struct attempt *a, const struct approval *p)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err ignored = { 0 };

	if (p->message)
		str_addf(&text, "%s\n", p->message);
	if (p->at_ns)
		text_add_time(&text, p->at_ns, 0);
	str_addf(&text, " %s%s%s%s\n", approval_text(p, a->arena), p->who ? " (" : "",
		 p->who ? p->way : "", p->who ? ")" : "");
	if (content_put_bytes(r->ctx->store, text.s, text.len, &a->result->log, &ignored) < 0 ||
	    store_sync(r->ctx->store, &ignored) < 0)
		a->result->log = (struct content_id){ 0 };
}

static void end_as(struct task *t, const struct approval *p)
{
	struct run *r = t->run;
	struct attempt *a = t->attempt;
	const bool approved = p->answer == APPROVAL_APPROVED;

	assert(p->answer != APPROVAL_OPEN);
	a->said = approval_text(p, a->arena);
	attempt_ended(a, &(struct runner_result){
				 .failure = approved ? FAILURE_NONE
					    : p->who ? FAILURE_FAILED
						     : FAILURE_TIMEOUT,
				 .exit_status = approved ? 0 : -1,
				 .started_ns = a->row.started_ns,
				 .ended_ns = run_wall_ns(r),
				 .outputs = arena_alloc(a->arena, sizeof(struct content_id)) });
	if (!approved)
		err_set(&a->result->err, ERR_FAILED, "%s", a->said);
	keep_log(r, a, p);
	a->waiting_for = NULL;
	task_set_phase(t, PHASE_ENDED);
	r->wake = true;
}

static int end_at_limit(struct run *r, struct attempt *a, struct approval *ret, struct err *err)
{
	int result;

	if (db_begin(r->ctx->db, err) < 0)
		return -1;
	result = record_approval_end(r->ctx->db, a->row.id, run_wall_ns(r), a->arena, ret, err);
	return db_finish(r->ctx->db, MIN(result, 0), err);
}

/* An answer that came first is read, whatever the time. */
static int look_at(struct task *t, struct err *err)
{
	struct run *r = t->run;
	struct attempt *a = t->attempt;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct approval now;
	int found = record_approval(r->ctx->db, a->row.id, arena, &now, err);

	if (found < 0)
		return -1;
	if (found == 0)
		return err_set(err, ERR_CORRUPT, "the record of what %s asks is gone", a->label);
	if (now.answer == APPROVAL_OPEN && now.until_ns && run_wall_ns(r) >= now.until_ns &&
	    end_at_limit(r, a, &now, err) < 0)
		return -1;
	if (now.answer != APPROVAL_OPEN)
		end_as(t, &now);
	return 0;
}

static void look_again_at(struct run *r, int64_t delay_ns);

static void look_for_answers(void *arg)
{
	struct run *r = arg;
	int64_t wait_ns = LOOK_NS;
	bool left = false;
	struct task *next;

	r->approvals.timer = NULL;
	if (r->end.done)
		return;
	for (struct task *t = r->tasks.in[PHASE_RUNNING].first; t; t = next) {
		next = t->after;
		if (!t->attempt->step->approve)
			continue;
		if (look_at(t, &r->end.fatal) < 0) {
			r->end.done = true;
			return;
		}
		if (task_phase(t) != PHASE_RUNNING)
			continue;
		left = true;
		if (t->attempt->asks->until_ns)
			wait_ns = MIN(wait_ns,
				      MAX(t->attempt->asks->until_ns - run_wall_ns(r), NS_PER_MS));
	}
	if (left)
		look_again_at(r, wait_ns);
}

static void look_again_at(struct run *r, int64_t delay_ns)
{
	if (!r->approvals.timer)
		r->approvals.timer = loop_add_timer(r->ctx->loop, run_mono_ns(r) + delay_ns,
						    look_for_answers, r);
}

void approve_wait(struct task *t)
{
	struct run *r = t->run;
	struct attempt *a = t->attempt;

	task_set_phase(t, PHASE_RUNNING);
	if (run_notices_of(r) && !a->taken_up)
		run_notices_of(r)->committed(run_notices_of(r)->arg);
	if (a->waiting_for)
		OBSERVE(r, waiting, a->given.id, a->label, a->waiting_for);
	/* It may have been answered while no engine lived. */
	if (a->taken_up || r->past)
		loop_remove(r->ctx->loop, TAKE_PTR(r->approvals.timer));
	look_again_at(r, a->taken_up || r->past ? 0 : LOOK_NS);
}

void approve_cancel(struct task *t)
{
	struct run *r = t->run;
	struct attempt *a = t->attempt;

	attempt_ended(a, &(struct runner_result){ .failure = FAILURE_CANCELLED,
						  .exit_status = -1,
						  .started_ns = a->row.started_ns,
						  .ended_ns = run_wall_ns(r) });
	err_set(&a->result->err, ERR_CANCELLED, "the run was stopped before an answer came");
	task_set_phase(t, PHASE_ENDED);
	r->wake = true;
}
