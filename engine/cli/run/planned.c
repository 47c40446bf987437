#include "cli/run/planned.h"
#include <assert.h>

const char *planned_word(enum task_state s)
{
	switch (s) {
	case TASK_STATE_HIT:
		return "hit";
	case TASK_READY:
		return "run";
	case TASK_STATE_SKIPPED:
		return "skipped";
	case TASK_STATE_FAILED:
	case TASK_STATE_BLOCKED:
		return "blocked";
	default:
		return "waiting";
	}
}

enum cli_style planned_style(enum task_state s)
{
	return s == TASK_STATE_HIT                                 ? STYLE_GREEN
	       : s == TASK_READY                                   ? STYLE_BLUE
	       : s == TASK_STATE_FAILED || s == TASK_STATE_BLOCKED ? STYLE_RED
								   : STYLE_DIM;
}

/* Writes what a waiting task waits for, or why a task is skipped. */
void planned_reason_of_others(const struct planned *pl, const struct plan_task *t, struct str *out)
{
	const struct step *s = &pl->p->steps[t->step];

	switch ((enum task_state)t->state) {
	case TASK_STATE_SKIPPED:
		str_add(out, t->need_skipped ? "what it needs is skipped" : "its `if` is false");
		break;
	case TASK_STATE_FAILED:
		str_add(out, s->tasks->repeat && t->round == s->tasks->repeat->max
				     ? "its result on record fails the gate, or `until` after "
				       "`max` rounds"
				     : "its result on record fails the gate");
		break;
	case TASK_STATE_BLOCKED:
		str_add(out, "something it needs failed");
		break;
	case TASK_STATE_HIT:
		break;
	default:
		if (t->absent) {
			str_add(out, "its content is gone from the store: executed if something "
				     "that reads it is");
			break;
		}
		str_add(out, s->finally ? "begins when all of `steps` have ended" : "needs ");
		for (size_t i = 0, n = 0; i < s->n_deps && !s->finally; i++)
			if (plan_step_left(pl->plan, s->deps[i].step) ||
			    !plan_step_expanded(pl->plan, s->deps[i].step))
				str_addf(out, "%s%s", n++ ? ", " : "",
					 pl->p->steps[s->deps[i].step].name);
	}
}

int planned_reason(struct planned *pl, const struct plan_task *t, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = NULL;
	const struct step_repeat *repeat = pl->p->steps[t->step].tasks->repeat;
	struct task_command c;
	int r;

	assert(t->step < pl->p->n_steps);
	str_reset(&pl->reason);
	if (t->state != TASK_READY) {
		planned_reason_of_others(pl, t, &pl->reason);
		return 0;
	}
	arena = arena_new();
	if (plan_task_command(pl->plan, t, arena, &c, err) < 0)
		return -1;
	r = plan_task_reason(pl->plan, t, &c.key_record, &pl->reason, err);
	str_deinit(&c.key_record);
	if (repeat && t->round < repeat->max && plan_is_last_round(pl->plan, t))
		str_addf(&pl->reason, "; at most %u more round%s", repeat->max - t->round,
			 repeat->max - t->round == 1 ? "" : "s");
	return r;
}

void planned_open(struct planned *pl, struct cli *cli, struct session *s, struct plan *plan,
		  const struct pipeline *p)
{
	*pl = (struct planned){ .cli = cli, .s = s, .plan = plan, .p = p, .estimate_known = true };
	pl->tasks = cli->json ? json_array() : NULL;
	pl->table = table_new();
	table_column(pl->table, "", 0);
	table_column(pl->table, "task", TABLE_CUT);
	table_column(pl->table, "about", TABLE_RIGHT);
	table_column(pl->table, "why", TABLE_CUT);
}

void planned_close(struct planned *pl)
{
	table_free(pl->table);
	str_deinit(&pl->label);
	str_deinit(&pl->reason);
}
