/* `cairn diff`: two runs side by side. */
#include "base/map.h"
#include "cli/facts.h"
#include "cli/table.h"

struct side {
	struct run_row run;
	json_t *params;
	struct run_input_row *pins; /* inputs, code, tools */
	size_t n_pins;
	struct facts_task *tasks;
	size_t n_tasks;
};

struct diff {
	struct cli *cli;
	bool all;
	struct side a, b;
	struct table *table;
	json_t *params, *code, *inputs, *tasks, *metrics;
};

static int load_side(struct cli *cli, struct db *db, struct side *s, struct err *err)
{
	s->params = s->run.params_json ? json_loads(s->run.params_json, 0, NULL) : NULL;
	if (!s->params)
		s->params = json_object();
	if (record_run_inputs(db, s->run.rowid, cli->arena, &s->pins, &s->n_pins, err) < 0)
		return -1;
	return facts_tasks(cli, db, &s->run, &s->tasks, &s->n_tasks, err);
}

static void row(struct diff *d, const char *what, const char *name, const char *a, const char *b)
{
	bool same = str_eq(a, b);

	if (same && !d->all)
		return;
	table_cell(d->table, STYLE_DIM, "%s", what);
	table_cell(d->table, STYLE_PLAIN, "%s", name);
	table_cell(d->table, same ? STYLE_DIM : STYLE_RED, "%s", a ? a : "-");
	table_cell(d->table, same ? STYLE_DIM : STYLE_GREEN, "%s", b ? b : "-");
}

static void note(struct diff *d, json_t *list, const char *key, const char *name, json_t *a, json_t *b)
{
	if (d->all || !json_equal(a, b)) {
		json_t *o = json_pack("{s:o, s:O, s:O}", key, json_name(name, strlen(name)), "a", a, "b", b);

		json_array_append_new(list, o);
	}
	json_decref(a);
	json_decref(b);
}

static const char *json_text(struct diff *d, json_t *v)
{
	struct str out = { 0 };
	const char *s;

	if (!v)
		return NULL;
	json_add_canonical(&out, v);
	s = arena_strndup(d->cli->arena, out.s, out.len);
	str_deinit(&out);
	return s;
}

static json_t *or_null(json_t *v)
{
	return v ? json_incref(v) : json_null();
}

static void diff_param(struct diff *d, const char *name)
{
	json_t *a = json_object_get(d->a.params, name), *b = json_object_get(d->b.params, name);

	row(d, "param", name, json_text(d, a), json_text(d, b));
	note(d, d->params, "name", name, or_null(a), or_null(b));
}

static void diff_params(struct diff *d)
{
	const char *name;
	json_t *v;

	json_object_foreach (d->a.params, name, v)
		diff_param(d, name);
	json_object_foreach (d->b.params, name, v)
		if (!json_object_get(d->a.params, name))
			diff_param(d, name);
}

/* --- content -------------------------------------------------------------------------------------------------------------------- */

static const char *short_id(struct diff *d, const struct content_id *id)
{
	return id && id->kind ? cli_hash(d->cli, &id->digest) : NULL;
}

static json_t *full_id(const struct content_id *id)
{
	char hex[DIGEST_HEX_MAX];

	return id && id->kind ? json_sprintf("sha256:%s", digest_hex(&id->digest, hex)) : json_null();
}

static const struct content_id *pin(const struct side *s, const char *name)
{
	for (size_t i = 0; i < s->n_pins; i++)
		if (str_eq(s->pins[i].name, name))
			return &s->pins[i].id;
	return NULL;
}

static void diff_pin(struct diff *d, const char *name)
{
	const struct content_id *a = pin(&d->a, name), *b = pin(&d->b, name);
	const char *colon = strchr(name, ':');
	bool code = str_has_prefix(name, "code:");

	row(d, arena_strndup(d->cli->arena, name, colon ? (size_t)(colon - name) : strlen(name)), colon ? colon + 1 : name, short_id(d, a), short_id(d, b));
	note(d, code ? d->code : d->inputs, "name", colon ? colon + 1 : name, full_id(a), full_id(b));
}

static void diff_pins(struct diff *d)
{
	for (size_t i = 0; i < d->a.n_pins; i++)
		diff_pin(d, d->a.pins[i].name);
	for (size_t i = 0; i < d->b.n_pins; i++)
		if (!pin(&d->a, d->b.pins[i].name))
			diff_pin(d, d->b.pins[i].name);
}

/* --- tasks ---------------------------------------------------------------------------------------------------------------------- */

static const char *state_text(const struct facts_task *t)
{
	static const char *const names[] = { [RESULT_SUCCEEDED] = "succeeded", [RESULT_FAILED] = "failed", [RESULT_SKIPPED] = "skipped", [RESULT_BLOCKED] = "blocked" };

	return t ? names[t->state] : NULL;
}

static const struct content_id *output(const struct facts_task *t, const char *name)
{
	for (size_t i = 0; t && i < t->n_outputs; i++)
		if (str_eq(t->outputs[i].name, name))
			return &t->outputs[i].id;
	return NULL;
}

static void diff_outputs(struct diff *d, const char *task, const struct facts_task *a, const struct facts_task *b)
{
	const struct facts_task *t = a ? a : b;

	for (size_t i = 0; i < t->n_outputs; i++) {
		const char *name = arena_printf(d->cli->arena, "%s/%s", task, t->outputs[i].name);
		const struct content_id *ia = output(a, t->outputs[i].name), *ib = output(b, t->outputs[i].name);

		row(d, "output", name, short_id(d, ia), short_id(d, ib));
		note(d, d->tasks, "output", name, full_id(ia), full_id(ib));
	}
}

static const struct metric_value *metric(const struct facts_task *t, const char *name)
{
	for (size_t i = 0; t && i < t->n_metrics; i++)
		if (str_eq(t->metrics[i].name, name))
			return &t->metrics[i];
	return NULL;
}

static void diff_metric(struct diff *d, const char *task, const char *name, const struct metric_value *a, const struct metric_value *b)
{
	const char *full = arena_printf(d->cli->arena, "%s %s", task, name);
	json_t *o;

	row(d, "metric", full, a ? arena_printf(d->cli->arena, "%.10g", a->value) : NULL, b ? arena_printf(d->cli->arena, "%.10g", b->value) : NULL);
	if (!d->all && a && b && a->value == b->value)
		return;
	o = json_object();
	json_object_set_new(o, "task", json_name(task, strlen(task)));
	json_object_set_new(o, "name", json_name(name, strlen(name)));
	json_object_set_new(o, "a", a ? json_real(a->value) : json_null());
	json_object_set_new(o, "b", b ? json_real(b->value) : json_null());
	json_array_append_new(d->metrics, o);
}

static void diff_task(struct diff *d, const char *task, const struct facts_task *a, const struct facts_task *b)
{
	const char *sa = state_text(a), *sb = state_text(b);

	row(d, "task", task, sa, sb);
	note(d, d->tasks, "task", task, sa ? json_string(sa) : json_null(), sb ? json_string(sb) : json_null());
	diff_outputs(d, task, a, b);
	for (size_t i = 0; a && i < a->n_metrics; i++)
		diff_metric(d, task, a->metrics[i].name, &a->metrics[i], metric(b, a->metrics[i].name));
	for (size_t i = 0; b && i < b->n_metrics; i++)
		if (!metric(a, b->metrics[i].name))
			diff_metric(d, task, b->metrics[i].name, NULL, &b->metrics[i]);
}

static void diff_tasks(struct diff *d)
{
	_cleanup_(map_freep) struct map *in_a = map_new(), *in_b = map_new();

	for (size_t i = 0; i < d->b.n_tasks; i++)
		*map_slot_str(in_b, d->b.tasks[i].task) = &d->b.tasks[i];
	for (size_t i = 0; i < d->a.n_tasks; i++) {
		*map_slot_str(in_a, d->a.tasks[i].task) = &d->a.tasks[i];
		diff_task(d, d->a.tasks[i].task, &d->a.tasks[i], map_get_str(in_b, d->a.tasks[i].task));
	}
	for (size_t i = 0; i < d->b.n_tasks; i++)
		if (!map_get_str(in_a, d->b.tasks[i].task))
			diff_task(d, d->b.tasks[i].task, NULL, &d->b.tasks[i]);
}

/* --- the two runs ------------------------------------------------------------------------------------------------------------------ */

/* None: the newest two; one: it and the run of the same pipeline before it. */
static int find_runs(struct cli *cli, struct db *db, const struct cli_args *args, struct run_row *a, struct run_row *b, struct err *err)
{
	struct run_filter f = { .any_state = true, .limit = 0 };
	struct run_row *rows;
	size_t n;

	if (args->n_operands == 2)
		return record_find_run(db, args->operands[0], cli->arena, a, err) < 0 ? -1 : record_find_run(db, args->operands[1], cli->arena, b, err);
	if (record_find_run(db, args->n_operands ? args->operands[0] : "last", cli->arena, b, err) < 0)
		return -1;
	f.pipeline = b->pipeline;
	if (record_list_runs(db, &f, cli->arena, &rows, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (rows[i].rowid < b->rowid) {
			*a = rows[i];
			return 0;
		}
	return err_set(err, ERR_NOT_FOUND, "run %s is the first of pipeline %s: there is none to hold it against", b->id, b->pipeline);
}

static void print(struct diff *d)
{
	struct cli *cli = d->cli;

	if (cli->json) {
		cli_print_json(cli, json_pack("{s:s, s:s, s:O, s:O, s:O, s:O, s:O}", "a", d->a.run.id, "b", d->b.run.id, "params", d->params, "code", d->code,
					      "inputs", d->inputs, "tasks", d->tasks, "metrics", d->metrics));
		return;
	}
	if (table_rows(d->table))
		table_print(d->table, cli);
	else
		cli_printf(cli, "%s and %s are the same in params, code, inputs, outputs and metrics\n", d->a.run.id, d->b.run.id);
}

int cmd_diff(struct cli *cli, const struct cli_args *args)
{
	struct diff d = { .cli = cli, .all = cli_flag(args, "all"), .table = table_new() };
	struct err err = { 0 };
	struct db *db;
	int r = cli_db(cli, DB_READ, &db, &err);

	json_t **const lists[] = { &d.params, &d.code, &d.inputs, &d.tasks, &d.metrics };

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		*lists[i] = json_array();
	if (r == 0)
		r = find_runs(cli, db, args, &d.a.run, &d.b.run, &err);
	if (r == 0 && load_side(cli, db, &d.a, &err) == 0 && load_side(cli, db, &d.b, &err) == 0) {
		table_column(d.table, "", 0);
		table_column(d.table, "", TABLE_CUT);
		table_column(d.table, d.a.run.id, 0);
		table_column(d.table, d.b.run.id, 0);
		diff_params(&d);
		diff_pins(&d);
		diff_tasks(&d);
		print(&d);
	} else {
		r = -1;
	}
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		json_decref(*lists[i]);
	json_decref(d.a.params);
	json_decref(d.b.params);
	table_free(d.table);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}
