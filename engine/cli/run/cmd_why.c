/* engine/cli/run/cmd_why.c — `cairn why`: the reason why a task runs, or ran.
 *
 * With --run the reason is on record: it was written when the attempt started. Otherwise a plan is
 * made for the named steps and everything that they need, and planned.c explains why each named
 * task would run. Tasks are named by label or step; the plan is made for whole steps.
 *
 * When a shared store didn't answer, that alone may make a task seem to need a run. The reason is
 * printed anyway, and an error follows (`unsure`).
 */
#include "cli/run/planned.h"
#include "record/facts.h"

static bool named(const struct session_operands *op, const char *label, const char *step)
{
	for (size_t i = 0; i < op->n_steps; i++)
		if (str_eq(op->steps[i], label) || step_name_is_in(step, op->steps[i]))
			return true;
	return false;
}

struct why {
	const char *task, *step, *state;
	const struct digest *key; /* NULL: not known */
	const char *reason;       /* or NULL */
};

/* Adds it to `list`; prints it when there is none. */
static void say_why(struct cli *cli, json_t *list, const struct why *w)
{
	const char *reason = w->reason ? w->reason : "";
	char hex[DIGEST_HEX_MAX];

	if (!list) {
		cli_printf(cli, "%s: %s%s%s\n", cli_text(cli, w->task), w->state,
			   *reason ? ": " : "", *reason ? cli_text(cli, reason) : "");
		return;
	}
	json_array_append_new(list, json_pack("{s:o, s:s, s:s, s:s?, s:o}", "task",
					      json_name(w->task, strlen(w->task)), "step", w->step,
					      "state", w->state, "key",
					      w->key ? digest_hex(w->key, hex) : NULL, "causes",
					      facts_causes(reason)));
}

/* Why it ran in a past run, as recorded when it started. */
static int why_in_run(struct cli *cli, const struct session_operands *op, const char *run,
		      json_t *list, struct err *err)
{
	struct attempt_row *attempts;
	struct run_row row;
	struct db *db;
	size_t n, found = 0;

	if (cli_db(cli, DB_READ, &db, err) < 0 ||
	    record_find_run(db, run, cli->arena, &row, err) < 0 ||
	    record_run_attempts(db, row.rowid, cli->arena, &attempts, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (!named(op, attempts[i].task, attempts[i].step))
			continue;
		say_why(cli, list,
			&(struct why){ .task = attempts[i].task,
				       .step = attempts[i].step,
				       .state = "ran",
				       .key = &attempts[i].key,
				       .reason = attempts[i].reason });
		found++;
	}
	if (found == 0)
		return err_set(err, ERR_NOT_FOUND,
			       "run %s executed no task of that name; `cairn status -v %s` lists "
			       "hits, skipped and blocked tasks with the reason",
			       row.id, row.id);
	return 0;
}

static int why_now(struct cli *cli, struct planned *pl, const struct session_operands *op,
		   struct err *err)
{
	size_t found = 0;

	for (size_t s = 0; s < pl->p->n_steps; s++) {
		const char *step = pl->p->steps[s].name;

		for (size_t i = 0; plan_step_expanded(pl->plan, s) && i < plan_n_tasks(pl->plan, s);
		     i++) {
			const struct plan_task *t = plan_task_at(pl->plan, s, i);

			plan_task_label(pl->plan, t, &pl->label);
			if (!named(op, pl->label.s, step))
				continue;
			if (planned_reason(pl, t, err) < 0)
				return -1;
			if (t->state == TASK_STATE_HIT)
				str_add(&pl->reason,
					"nothing changed since its result was recorded");
			say_why(cli, pl->tasks,
				&(struct why){
					.task = pl->label.s,
					.step = step,
					.state = t->state == TASK_READY ? "would run"
									: planned_word(t->state),
					.key = t->state == TASK_READY || t->state == TASK_STATE_HIT
						       ? &t->key
						       : NULL,
					.reason = pl->reason.s });
			found++;
		}
		if (!plan_step_expanded(pl->plan, s) && named(op, step, step)) {
			say_why(cli, pl->tasks,
				&(struct why){ .task = step,
					       .step = step,
					       .state = "waiting",
					       .reason = "its items are known when what it ranges "
							 "over has run" });
			found++;
		}
	}
	return found ? 0
		     : err_set(err, ERR_NOT_FOUND, "the pipeline %s has no such task", pl->p->path);
}

static int why_planned(struct cli *cli, const struct cli_args *args,
		       const struct session_operands *op, json_t *list, bool *ret_unsure,
		       struct err *err)
{
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	_cleanup_(plan_freep) struct plan *plan = NULL;
	struct run_options o = { 0 };
	struct param_override *overrides;
	const char **targets = arena_alloc(cli->arena, (op->n_steps + 1) * sizeof(*targets));
	struct session s = { .leases_fd = -1 };
	struct planned pl;
	int r;

	if (cli_params(cli, args, &overrides, &o.n_overrides, err) < 0 ||
	    cli_pipeline(cli, op->pipeline, &p, err) < 0)
		return -1;
	o.overrides = overrides;
	for (size_t i = 0; i < op->n_steps;
	     i++) /* whole steps: a single task needs the same steps */
		targets[i] = arena_strndup(cli->arena, op->steps[i], strcspn(op->steps[i], "["));
	o.select.targets = targets;
	o.select.n_targets = op->n_steps;
	r = session_open(&s, cli, false, err);
	if (r == 0)
		r = session_plan(&s, cli, p, &o, &plan, err);
	if (r == 0) {
		planned_open(&pl, cli, &s, plan, p);
		json_decref(pl.tasks);
		pl.tasks = list;
		r = why_now(cli, &pl, op, err);
		planned_close(&pl);
		*ret_unsure = r == 0 && session_store_answered(&s, err) < 0;
	}
	session_close(&s);
	return r;
}

int cmd_why(struct cli *cli, const struct cli_args *args)
{
	struct session_operands op = session_operands(args);
	const char *run = cli_value(args, "run");
	json_t *list = cli->json ? json_array() : NULL;
	struct err err = { 0 };
	bool unsure = false; /* the reason may be wrong because the store didn't answer */
	int r;

	if (op.n_steps == 0)
		return cli_usage_error(cli, "name a step or a task");
	r = run ? why_in_run(cli, &op, run, list, &err)
		: why_planned(cli, args, &op, list, &unsure, &err);
	if (r < 0) {
		json_decref(list);
		return cli_fail(cli, &err);
	}
	if (list)
		cli_print_json(cli, "cairn.why/1", json_pack("{s:o}", "tasks", list));
	return unsure ? cli_fail(cli, &err) : CLI_OK;
}
