/* engine/plan/rounds.c — loops: the rounds of a step with `repeat`.
 *
 * When a step expands, it gets the first round of each loop: one, or one for each combination of
 * its matrix. A round that ends well is judged, and unless `until` holds, the next one is added
 * behind the step's tasks and goes into `to_key` at once: what its step needs has ended already.
 * So rounds on record are followed as far as they go, and a changed `until` executes only further
 * ones.
 *
 * Other steps wait for loops: their groups (expand.c) hold first rounds, which stand for the
 * loop's newest round wherever a task is asked for. Only the last round tells dependents of its
 * end. plan_step.tasks has room for all rounds from the start, so that no task ever moves.
 *
 * A round that is made again since its content was gone (past/absent.c) adds none. In a replay,
 * the rounds are those on record.
 */
#include <assert.h>
#include "plan/internal.h"

bool round_reads_itself(const struct step *s, bool below)
{
	for (size_t i = 0; s->tasks->repeat && i < s->n_inputs; i++)
		if (s->inputs[i].then && (!below || s->inputs[i].then->subpath))
			return true;
	return false;
}

static void note_values(void *arg, const struct ref *ref)
{
	*(bool *)arg |= ref->kind == REF_STEP_VALUE;
}

bool round_until_reads_values(const struct step *s)
{
	struct expr_part part = { .expr = s->tasks->repeat->until };
	bool found = false;

	template_refs(&(struct expr_template){ .n_parts = 1, .parts = &part }, note_values, &found);
	return found;
}

struct plan_task *plan_round_before(const struct plan *p, const struct plan_task *t)
{
	const struct plan_step *s = &p->steps[t->step];

	return t->round > 1 && round_reads_itself(s->decl, false) ? &s->tasks[t->before] : NULL;
}

bool plan_is_last_round(const struct plan *p, const struct plan_task *t)
{
	const struct plan_step *s = &p->steps[t->step];

	return !s->fan->newest || s->fan->newest[t->loop] == t->index;
}

int plan_make_rounds(struct plan *p, struct plan_step *s, struct err *err)
{
	const struct step_repeat *r = s->decl->tasks->repeat;
	size_t most = s->n_loops * (r ? r->max : 1);

	if (r && most > PLAN_MAX_FAN_OUT)
		return err_set(err, ERR_TOO_LARGE,
			       "%s:%d:%d: the rounds of step `%s` could be more than %d tasks: "
			       "lower `max`",
			       r->pos.file, r->pos.line, r->pos.col, s->decl->name,
			       PLAN_MAX_FAN_OUT);
	s->tasks = arena_alloc(p->arena, MAX(most, 1) * sizeof(*s->tasks));
	if (!r)
		return 0;
	s->fan->newest = arena_alloc(p->arena, (s->n_loops + 1) * sizeof(*s->fan->newest));
	for (size_t i = 0; i < s->n_loops; i++)
		s->fan->newest[i] = (uint32_t)i;
	return 0;
}

int plan_judge_round(struct plan *p, const struct plan_task *t, const struct content_id *outputs,
		     const struct metric_value *metrics, size_t n_metrics, bool *ret_last,
		     struct err *err)
{
	const struct step_repeat *r = p->steps[t->step].decl->tasks->repeat;
	struct plan_task judged = *t;

	*ret_last = true;
	if (!r)
		return 0;
	judged.outputs = (struct content_id *)(uintptr_t)outputs;
	judged.metrics = (struct metric_value *)(uintptr_t)metrics;
	judged.n_metrics = (uint32_t)n_metrics;
	if (scope_until(p, &judged, ret_last, err) < 0)
		return -1;
	if (*ret_last || !plan_is_last_round(p, t))
		return 0;
	if (t->round >= r->max)
		return err_set(err, ERR_FAILED,
			       "`until` still doesn't hold after %u round%s, and `max` of `repeat` "
			       "allows no more",
			       t->round, t->round == 1 ? "" : "s");
	if (t->revived) /* other steps have gone on with it */
		return err_set(err, ERR_FAILED,
			       "it was the last round; its content was gone, and when it was made "
			       "again, `until` did not hold");
	return 0;
}

int plan_next_round(struct plan *p, struct plan_task *t, struct err *err)
{
	struct plan_step *s = &p->steps[t->step];
	struct plan_task next = { .step = t->step,
				  .index = (uint32_t)s->n_tasks,
				  .round = t->round + 1,
				  .before = t->index,
				  .loop = t->loop };
	bool last = t->round >= s->decl->tasks->repeat->max;

	assert(t->outputs || !s->decl->n_outputs);
	if (!plan_is_last_round(p, t))
		return 0;
	if (p->replay)
		last |= !replay_has(p, &next);
	else if (plan_judge_round(p, t, t->outputs, t->metrics, t->n_metrics, &last, err) < 0)
		return -1;
	if (last)
		return 0;
	next.forced = plan_is_forced(p, &next);
	s->fan->newest[t->loop] = next.index;
	s->tasks[s->n_tasks] = next;
	queue_push(&p->to_key, &s->tasks[s->n_tasks++]);
	p->counts.total++;
	plan_count_open(p, s->decl, 1);
	return 0;
}
