/* engine/cli/run/cmd_plan.c — `cairn plan`: what a run would do.
 *
 * Makes the plan without executing anything and prints its tasks in the order of the DAG. Hits are
 * only counted unless --all is given; others get a line with the reason (planned.c) and the median
 * time of past attempts. A step that isn't expanded yet is one line, `step[…]`.
 *
 * With -v it also lists which files of the project are in each step's code, and why; and the
 * environments of steps, and whether they are made.
 *
 * A hit whose content is gone counts as waiting if a step that would run reads it
 * (plan_may_return()). Everything is read in one snapshot of the database.
 */
#include <assert.h>
#include "base/text/text.h"
#include "cli/run/planned.h"
#include "run/task/environment.h"

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

static void show(struct planned *pl, const struct plan_task *t, const char *step, bool known,
		 int64_t median)
{
	static const struct digest none;
	char hex[DIGEST_HEX_MAX];

	if (pl->tasks) {
		json_t *o = json_object();

		json_object_set_new(o, "task", json_name(pl->label.s, pl->label.len));
		json_object_set_new(o, "step", json_string(step));
		json_object_set_new(o, "state", json_string(planned_word(t->state)));
		json_object_set_new(o, "key",
				    digest_eq(&t->key, &none)
					    ? json_null()
					    : json_string(digest_hex(&t->key, hex)));
		json_object_set_new(o, "reason",
				    pl->reason.len ? json_name(pl->reason.s, pl->reason.len)
						   : json_null());
		json_object_set_new(o, "estimate_ns", known ? json_integer(median) : json_null());
		json_array_append_new(pl->tasks, o);
		return;
	}
	if (t->state == TASK_STATE_HIT && !pl->all)
		return;
	table_cell(pl->table, planned_style(t->state), "%s", planned_word(t->state));
	table_cell(pl->table, STYLE_PLAIN, "%s", pl->label.s);
	table_cell(pl->table, STYLE_DIM, "%s",
		   known && (t->state == TASK_READY || t->state == TASK_WAITING)
			   ? cli_duration(pl->cli, median)
			   : "");
	table_cell(pl->table, STYLE_PLAIN, "%s", pl->reason.len ? pl->reason.s : "");
}

static int add_step(struct planned *pl, size_t step, const bool *read_yet, struct err *err)
{
	const char *name = pl->p->steps[step].name;
	/* Nobody knows how long a person takes. */
	bool open = (!plan_step_expanded(pl->plan, step) || plan_step_left(pl->plan, step)) &&
		    !pl->p->steps[step].approve;
	int64_t median = 0;
	int known = open ? record_step_duration(pl->s->db, pl->p->name, name, &median, err) : 0;

	if (known < 0)
		return -1;
	if (!plan_step_expanded(pl->plan, step) && !plan_step_selected(pl->plan, step))
		return 0;
	if (!plan_step_expanded(pl->plan, step)) {
		const struct plan_task t = { .step = (uint32_t)step, .state = TASK_WAITING };

		str_reset(&pl->label);
		str_addf(&pl->label, "%s[…]", name);
		str_reset(&pl->reason);
		planned_reason_of_others(pl, &t, &pl->reason);
		count(pl, &t, known > 0, median);
		show(pl, &t, name, known > 0, median);
		return 0;
	}
	for (size_t i = 0; i < plan_n_tasks(pl->plan, step); i++) {
		struct plan_task shown = *plan_task_at(pl->plan, step, i), *t = &shown;

		if (t->absent && read_yet[step])
			t->state = TASK_WAITING;
		if (t->state == TASK_STATE_UNSELECTED ||
		    (t->state == TASK_WAITING && t->unselected))
			continue;
		plan_task_label(pl->plan, t, &pl->label);
		count(pl, t, known > 0, median);
		/* A hit that isn't shown must cost nothing more. */
		if (t->state == TASK_STATE_HIT && !pl->all && !pl->tasks)
			continue;
		if (planned_reason(pl, t, err) < 0)
			return -1;
		show(pl, t, name, known > 0, median);
	}
	return 0;
}

static const char *word_of(enum plan_code_why why)
{
	static const char *const words[] = { [PLAN_CODE_DECLARED] = "declared",
					     [PLAN_CODE_NAMED] = "named",
					     [PLAN_CODE_IMPORTED] = "imported",
					     [PLAN_CODE_SOURCED] = "sourced",
					     [PLAN_CODE_ENV_FILE] = "env_file" };

	assert(why < ARRAY_LEN(words));
	return words[why];
}

static json_t *code_json(const struct planned *pl)
{
	json_t *list = json_array();

	for (size_t i = 0; i < pl->p->n_steps; i++) {
		const struct plan_code_file *f;
		size_t n;

		f = plan_step_code_files(pl->plan, i, &n);
		for (size_t k = 0; k < n; k++) {
			json_t *o = json_object();

			json_object_set_new(o, "step", json_string(pl->p->steps[i].name));
			json_object_set_new(o, "path", json_name(f[k].path, strlen(f[k].path)));
			json_object_set_new(o, "why", json_string(word_of(f[k].why)));
			json_object_set_new(o, "by",
					    f[k].by ? json_name(f[k].by, strlen(f[k].by))
						    : json_null());
			json_object_set_new(o, "line",
					    f[k].by ? json_integer(f[k].line) : json_null());
			json_array_append_new(list, o);
		}
	}
	return list;
}

static void print_code(const struct planned *pl, size_t step)
{
	struct cli *cli = pl->cli;
	size_t n;
	const struct plan_code_file *f = plan_step_code_files(pl->plan, step, &n);

	if (n)
		cli_printf(cli, "\ncode of %s\n", pl->p->steps[step].name);
	for (size_t i = 0; i < n; i++) {
		cli_printf(cli, "  %s: ", cli_text(cli, f[i].path));
		if (f[i].by)
			cli_printf(cli, "%s by %s:%u\n", word_of(f[i].why), cli_text(cli, f[i].by),
				   f[i].line);
		else
			cli_printf(cli, "%s\n",
				   f[i].why == PLAN_CODE_NAMED      ? "named in the command"
				   : f[i].why == PLAN_CODE_DECLARED ? "in `code`"
								    : "in `env_file`");
	}
}

/* *ret_tool: what is missing when it is "no tool". */
static const char *state_of(const struct planned *pl, const struct plan_environment *e,
			    const char **ret_tool)
{
	_cleanup_(freep) char *dir = environment_dir(pl->s->config, e), *tool = NULL;

	if (pl->s->images)
		return "in the image";
	if (environment_is_whole(dir))
		return "made";
	tool = lock_tool(e->kind, ret_tool);
	return tool ? "not made" : "no tool";
}

static json_t *environments_json(const struct planned *pl)
{
	json_t *list = json_array();

	for (size_t i = 0; i < pl->p->n_steps; i++) {
		const struct plan_environment *e = plan_step_environment(pl->plan, i);
		const char *tool;
		json_t *o;

		if (!e)
			continue;
		o = json_object();
		json_object_set_new(o, "step", json_string(pl->p->steps[i].name));
		json_object_set_new(o, "path", json_name(e->path, strlen(e->path)));
		json_object_set_new(o, "kind", json_string(lock_kind_name(e->kind)));
		json_object_set_new(o, "state", json_string(state_of(pl, e, &tool)));
		json_array_append_new(list, o);
	}
	return list;
}

static void print_environments(const struct planned *pl)
{
	bool first = true;

	for (size_t i = 0; i < pl->p->n_steps; i++) {
		const struct plan_environment *e = plan_step_environment(pl->plan, pl->p->order[i]);

		const char *tool = NULL, *state;

		if (!e)
			continue;
		state = state_of(pl, e, &tool);
		cli_printf(pl->cli, "%s  %s: %s (%s), ", first ? "\nenvironments\n" : "",
			   pl->p->steps[pl->p->order[i]].name, cli_text(pl->cli, e->path),
			   lock_kind_name(e->kind));
		if (str_eq(state, "no tool"))
			cli_printf(pl->cli, "not made, and %s isn't on PATH\n", tool);
		else
			cli_printf(pl->cli, "%s\n", state);
		first = false;
	}
}

static void print_plan(struct planned *pl)
{
	struct cli *cli = pl->cli;

	if (cli->json) {
		json_t *o = json_object();

		json_object_set_new(o, "pipeline", json_string(pl->p->name));
		json_object_set_new(o, "tasks", pl->tasks);
		json_object_set_new(
			o, "counts",
			json_pack("{s:I, s:I, s:I, s:I}", "total",
				  (json_int_t)(pl->hits + pl->run + pl->waiting + pl->skipped),
				  "hits", (json_int_t)pl->hits, "run", (json_int_t)pl->run,
				  "waiting", (json_int_t)pl->waiting));
		json_object_set_new(o, "estimate_ns",
				    pl->estimate_known ? json_integer(pl->estimate_ns)
						       : json_null());
		if (cli->verbosity > 0) {
			json_object_set_new(o, "code", code_json(pl));
			json_object_set_new(o, "environments", environments_json(pl));
		}
		cli_print_json(cli, "cairn.plan/1", o);
		return;
	}
	if (table_rows(pl->table))
		table_print(pl->table, cli);
	cli_printf(cli, "%s%llu hit%s, %llu to run, %llu waiting",
		   table_rows(pl->table) ? "\n" : "", (unsigned long long)pl->hits,
		   pl->hits == 1 ? "" : "s", (unsigned long long)pl->run,
		   (unsigned long long)pl->waiting);
	if (pl->run + pl->waiting && pl->estimate_known)
		cli_printf(cli, "; about %s of work by past runs",
			   cli_duration(cli, pl->estimate_ns));
	cli_printf(cli, "\n");
	for (size_t i = 0; i < pl->p->n_steps && cli->verbosity > 0; i++)
		print_code(pl, pl->p->order[i]);
	if (cli->verbosity > 0)
		print_environments(pl);
}

int cmd_plan(struct cli *cli, const struct cli_args *args)
{
	struct session_operands op = session_operands(args);
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	_cleanup_(plan_freep) struct plan *plan = NULL;
	struct err err = { 0 };
	bool counts_only = !cli_flag(args, "all") && !cli->json && cli->verbosity <= 0;
	struct run_options o;
	struct session s;
	struct planned pl;
	bool *read_yet;
	int r = 0;

	if (session_options(cli, args, &op, &o, &err) < 0 ||
	    (counts_only && plan_selects_all(&o.select) &&
	     session_look_ahead(cli, op.pipeline, false, &err) < 0) ||
	    cli_pipeline(cli, op.pipeline, &p, &err) < 0)
		return cli_fail(cli, &err);
	r = session_open(&s, cli, false, &err);
	s.plan_may_stand = counts_only;
	if (r < 0 || session_plan(&s, cli, p, &o, &plan, &err) < 0) {
		session_close(&s);
		return cli_fail(cli, &err);
	}
	planned_open(&pl, cli, &s, plan, p);
	if (plan_stands(plan)) {
		struct run_counts c;

		plan_count(plan, &c);
		pl.hits = c.hits;
	}
	pl.all = cli_flag(args, "all");
	read_yet = arena_alloc(cli->arena, (p->n_steps + 1) * sizeof(*read_yet));
	plan_may_return(plan, read_yet);
	db_snapshot(s.db);
	for (size_t i = 0; i < p->n_steps && r == 0; i++)
		r = add_step(&pl, p->order[i], read_yet, &err);
	db_snapshot_end(s.db);
	if (r == 0)
		print_plan(&pl);
	if (r == 0 && pl.run + pl.waiting)
		r = session_store_answered(&s, &err);
	planned_close(&pl);
	session_close(&s);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}
