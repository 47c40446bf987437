/* `cairn plan` and `cairn why`: what a run would do, and for what reason. */
#include "base/text.h"
#include "cli/session.h"
#include "cli/table.h"

struct planned {
	struct cli *cli;
	struct session *s;
	struct plan *plan;
	const struct pipeline *p;
	json_t *tasks; /* --json */
	struct table *table;
	bool all;
	struct str label, reason;
	uint64_t hits, run, waiting, skipped;
	int64_t estimate_ns;
	bool estimate_known;
};

static const char *state_word(enum task_state s)
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

static enum cli_style state_style(enum task_state s)
{
	return s == TASK_STATE_HIT ? STYLE_GREEN : s == TASK_READY ? STYLE_BLUE : s == TASK_STATE_FAILED || s == TASK_STATE_BLOCKED ? STYLE_RED : STYLE_DIM;
}

/* What a waiting task waits for, or why a skipped one is. */
static void reason_of_others(const struct planned *pl, const struct plan_task *t, struct str *out)
{
	const struct step *s = &pl->p->steps[t->step];

	switch ((enum task_state)t->state) {
	case TASK_STATE_SKIPPED:
		str_add(out, t->need_skipped ? "what it needs is skipped" : "its `if` is false");
		break;
	case TASK_STATE_FAILED:
		str_add(out, "its result on record fails the gate");
		break;
	case TASK_STATE_BLOCKED:
		str_add(out, "something it needs failed");
		break;
	case TASK_STATE_HIT:
		break;
	default:
		str_add(out, "needs ");
		for (size_t i = 0, n = 0; i < s->n_deps; i++)
			if (plan_step_left(pl->plan, s->deps[i].step) || !plan_step_expanded(pl->plan, s->deps[i].step))
				str_addf(out, "%s%s", n++ ? ", " : "", pl->p->steps[s->deps[i].step].name);
	}
}

static int task_reason(struct planned *pl, const struct plan_task *t, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = NULL;
	struct task_command c;
	int r;

	str_reset(&pl->reason);
	if (t->state != TASK_READY) {
		reason_of_others(pl, t, &pl->reason);
		return 0;
	}
	arena = arena_new();
	if (plan_task_command(pl->plan, t, arena, &c, err) < 0)
		return -1;
	r = plan_task_reason(pl->plan, t, &c.key_record, &pl->reason, err);
	str_deinit(&c.key_record);
	return r;
}

static void count(struct planned *pl, const struct plan_task *t, bool known, int64_t median)
{
	switch ((enum task_state)t->state) {
	case TASK_STATE_HIT:
		pl->hits++;
		return;
	case TASK_READY:
		pl->run++;
		break;
	case TASK_WAITING:
		pl->waiting++;
		break;
	default:
		pl->skipped++;
		return;
	}
	pl->estimate_known &= known;
	pl->estimate_ns += known ? median : 0;
}

static void show(struct planned *pl, const struct plan_task *t, const char *step, bool known, int64_t median)
{
	static const struct digest none;
	char hex[DIGEST_HEX_MAX];

	if (pl->tasks) {
		json_t *o = json_object();

		json_object_set_new(o, "task", json_name(pl->label.s, pl->label.len));
		json_object_set_new(o, "step", json_string(step));
		json_object_set_new(o, "state", json_string(state_word(t->state)));
		json_object_set_new(o, "key", digest_eq(&t->key, &none) ? json_null() : json_string(digest_hex(&t->key, hex)));
		json_object_set_new(o, "reason", pl->reason.len ? json_name(pl->reason.s, pl->reason.len) : json_null());
		json_object_set_new(o, "estimate_ns", known ? json_integer(median) : json_null());
		json_array_append_new(pl->tasks, o);
		return;
	}
	if (t->state == TASK_STATE_HIT && !pl->all)
		return;
	table_cell(pl->table, state_style(t->state), "%s", state_word(t->state));
	table_cell(pl->table, STYLE_PLAIN, "%s", pl->label.s);
	table_cell(pl->table, STYLE_DIM, "%s", known && (t->state == TASK_READY || t->state == TASK_WAITING) ? cli_duration(pl->cli, median) : "");
	table_cell(pl->table, STYLE_PLAIN, "%s", pl->reason.len ? pl->reason.s : "");
}

static int add_unexpanded(struct planned *pl, size_t step, bool known, int64_t median)
{
	struct plan_task t = { .step = (uint32_t)step, .state = TASK_WAITING };

	str_reset(&pl->label);
	str_addf(&pl->label, "%s[…]", pl->p->steps[step].name);
	str_reset(&pl->reason);
	reason_of_others(pl, &t, &pl->reason);
	count(pl, &t, known, median);
	show(pl, &t, pl->p->steps[step].name, known, median);
	return 0;
}

static int add_step(struct planned *pl, size_t step, struct err *err)
{
	const char *name = pl->p->steps[step].name;
	int64_t median = 0;
	int known = record_step_duration(pl->s->db, pl->p->name, name, &median, err);

	if (known < 0)
		return -1;
	if (!plan_step_expanded(pl->plan, step))
		return add_unexpanded(pl, step, known > 0, median);
	for (size_t i = 0; i < plan_n_tasks(pl->plan, step); i++) {
		const struct plan_task *t = plan_task_at(pl->plan, step, i);

		if (t->state == TASK_STATE_UNSELECTED)
			continue;
		plan_task_label(pl->plan, t, &pl->label);
		count(pl, t, known > 0, median);
		/* A hit that isn't shown costs nothing more. */
		if (t->state == TASK_STATE_HIT && !pl->all && !pl->tasks)
			continue;
		if (task_reason(pl, t, err) < 0)
			return -1;
		show(pl, t, name, known > 0, median);
	}
	return 0;
}

static void print_plan(struct planned *pl)
{
	struct cli *cli = pl->cli;

	if (cli->json) {
		json_t *o = json_object();

		json_object_set_new(o, "pipeline", json_string(pl->p->name));
		json_object_set_new(o, "tasks", pl->tasks);
		json_object_set_new(o, "counts", json_pack("{s:I, s:I, s:I, s:I}", "total", (json_int_t)(pl->hits + pl->run + pl->waiting + pl->skipped),
							    "hits", (json_int_t)pl->hits, "run", (json_int_t)pl->run, "waiting", (json_int_t)pl->waiting));
		json_object_set_new(o, "estimate_ns", pl->estimate_known ? json_integer(pl->estimate_ns) : json_null());
		cli_print_json(cli, o);
		return;
	}
	if (table_rows(pl->table))
		table_print(pl->table, cli);
	cli_printf(cli, "%s%llu hit%s, %llu to run, %llu waiting", table_rows(pl->table) ? "\n" : "", (unsigned long long)pl->hits, pl->hits == 1 ? "" : "s",
		   (unsigned long long)pl->run, (unsigned long long)pl->waiting);
	if (pl->run + pl->waiting && pl->estimate_known)
		cli_printf(cli, "; about %s of work by past runs", cli_duration(cli, pl->estimate_ns));
	cli_printf(cli, "\n");
}

static int planned_open(struct planned *pl, struct cli *cli, struct session *s, struct plan *plan, const struct pipeline *p)
{
	*pl = (struct planned){ .cli = cli, .s = s, .plan = plan, .p = p, .estimate_known = true };
	pl->tasks = cli->json ? json_array() : NULL;
	pl->table = table_new();
	table_column(pl->table, "", 0);
	table_column(pl->table, "task", TABLE_CUT);
	table_column(pl->table, "about", TABLE_RIGHT);
	table_column(pl->table, "why", TABLE_CUT);
	return 0;
}

static void planned_close(struct planned *pl)
{
	table_free(pl->table);
	str_deinit(&pl->label);
	str_deinit(&pl->reason);
}

int cmd_plan(struct cli *cli, const struct cli_args *args)
{
	struct session_operands op = session_operands(cli, args);
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	_cleanup_(plan_freep) struct plan *plan = NULL;
	struct err err = { 0 };
	struct run_options o;
	struct session s;
	struct planned pl;
	int r = 0;

	if (session_options(cli, args, &op, &o, &err) < 0 || cli_pipeline(cli, op.pipeline, &p, &err) < 0)
		return cli_fail(cli, &err);
	if (session_open(&s, cli, false, &err) < 0 || session_plan(&s, cli, p, &o, &plan, &err) < 0) {
		session_close(&s);
		return cli_fail(cli, &err);
	}
	planned_open(&pl, cli, &s, plan, p);
	pl.all = cli_flag(args, "all");
	for (size_t i = 0; i < p->n_steps && r == 0; i++)
		r = add_step(&pl, p->order[i], &err);
	if (r == 0)
		print_plan(&pl);
	planned_close(&pl);
	session_close(&s);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}

/* --- why ------------------------------------------------------------------------------------------------------------------ */

static bool named(const struct session_operands *op, const char *label, const char *step)
{
	for (size_t i = 0; i < op->n_steps; i++)
		if (str_eq(op->steps[i], label) || str_eq(op->steps[i], step))
			return true;
	return false;
}

static json_t *why_json(const char *task, const char *step, const char *state, const char *key, const char *reason)
{
	json_t *o = json_object(), *causes = json_array();

	while (reason && *reason) {
		size_t n = strcspn(reason, ";");

		json_array_append_new(causes, json_name(reason, n));
		reason += n;
		reason += strspn(reason, "; ");
	}
	json_object_set_new(o, "task", json_name(task, strlen(task)));
	json_object_set_new(o, "step", json_string(step));
	json_object_set_new(o, "state", json_string(state));
	json_object_set_new(o, "key", key ? json_string(key) : json_null());
	json_object_set_new(o, "causes", causes);
	return o;
}

static void why_line(struct cli *cli, json_t *list, const char *task, const char *step, const char *state, const struct digest *key, const char *reason)
{
	char hex[DIGEST_HEX_MAX];

	if (list)
		json_array_append_new(list, why_json(task, step, state, key ? digest_hex(key, hex) : NULL, reason));
	else
		cli_printf(cli, "%s: %s%s%s\n", cli_text(cli, task), state, reason && *reason ? ": " : "", reason && *reason ? cli_text(cli, reason) : "");
}

/* Why it ran in a past run: what was recorded when it started. */
static int why_in_run(struct cli *cli, const struct session_operands *op, const char *run, json_t *list, struct err *err)
{
	struct attempt_row *attempts;
	struct run_row row;
	struct db *db;
	size_t n, found = 0;

	if (cli_db(cli, DB_READ, &db, err) < 0 || record_find_run(db, run, cli->arena, &row, err) < 0 ||
	    record_run_attempts(db, row.rowid, cli->arena, &attempts, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (!named(op, attempts[i].task, attempts[i].step))
			continue;
		why_line(cli, list, attempts[i].task, attempts[i].step, "ran", &attempts[i].key, attempts[i].reason);
		found++;
	}
	if (found == 0)
		return err_set(err, ERR_NOT_FOUND, "run %s executed no task of that name: it was a hit, or isn't in the pipeline", row.id);
	return 0;
}

static int why_now(struct cli *cli, struct planned *pl, const struct session_operands *op, struct err *err)
{
	size_t found = 0;

	for (size_t s = 0; s < pl->p->n_steps; s++) {
		const char *step = pl->p->steps[s].name;

		for (size_t i = 0; plan_step_expanded(pl->plan, s) && i < plan_n_tasks(pl->plan, s); i++) {
			const struct plan_task *t = plan_task_at(pl->plan, s, i);

			plan_task_label(pl->plan, t, &pl->label);
			if (!named(op, pl->label.s, step))
				continue;
			if (task_reason(pl, t, err) < 0)
				return -1;
			if (t->state == TASK_STATE_HIT)
				str_add(&pl->reason, "nothing changed since its result was recorded");
			why_line(cli, pl->tasks, pl->label.s, step, t->state == TASK_READY ? "would run" : state_word(t->state),
				 t->state == TASK_READY || t->state == TASK_STATE_HIT ? &t->key : NULL, pl->reason.s);
			found++;
		}
		if (!plan_step_expanded(pl->plan, s) && named(op, step, step)) {
			why_line(cli, pl->tasks, step, step, "waiting", NULL, "its items are known when what it ranges over has run");
			found++;
		}
	}
	return found ? 0 : err_set(err, ERR_NOT_FOUND, "the pipeline %s has no such task", pl->p->path);
}

static int why_planned(struct cli *cli, const struct cli_args *args, const struct session_operands *op, json_t *list, struct err *err)
{
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	_cleanup_(plan_freep) struct plan *plan = NULL;
	struct run_options o = { 0 };
	struct param_override *overrides;
	const char **targets = arena_alloc(cli->arena, (op->n_steps + 1) * sizeof(*targets));
	struct session s = { .leases_fd = -1 };
	struct planned pl;
	int r;

	if (cli_params(cli, args, &overrides, &o.n_overrides, err) < 0 || cli_pipeline(cli, op->pipeline, &p, err) < 0)
		return -1;
	o.overrides = overrides;
	for (size_t i = 0; i < op->n_steps; i++) /* whole steps: a task's needs are needed either way */
		targets[i] = arena_strndup(cli->arena, op->steps[i], strcspn(op->steps[i], "["));
	o.targets = targets;
	o.n_targets = op->n_steps;
	r = session_open(&s, cli, false, err);
	if (r == 0)
		r = session_plan(&s, cli, p, &o, &plan, err);
	if (r == 0) {
		planned_open(&pl, cli, &s, plan, p);
		json_decref(pl.tasks);
		pl.tasks = list;
		r = why_now(cli, &pl, op, err);
		planned_close(&pl);
	}
	session_close(&s);
	return r;
}

int cmd_why(struct cli *cli, const struct cli_args *args)
{
	struct session_operands op = session_operands(cli, args);
	const char *run = cli_value(args, "run");
	json_t *list = cli->json ? json_array() : NULL;
	struct err err = { 0 };
	int r;

	if (op.n_steps == 0)
		return cli_usage_error(cli, "name a step or a task");
	r = run ? why_in_run(cli, &op, run, list, &err) : why_planned(cli, args, &op, list, &err);
	if (r < 0) {
		json_decref(list);
		return cli_fail(cli, &err);
	}
	if (list)
		cli_print_json(cli, json_pack("{s:o}", "tasks", list));
	return CLI_OK;
}
