/* engine/cli/past/cmd_diff.c — `cairn diff`: why two runs differ, then the two side by side.
 *
 * Both sides are loaded whole: params, pins, tasks with outputs and metrics. compare() goes through
 * them once and fills the table and the JSON lists together: row() adds a line for people, note()
 * an object. Both leave out what is the same, unless --all.
 *
 * explain() asks run/view/cause.c about each task that differs, in the order of the first run's
 * tasks, which is that of the DAG. So the first cause that didn't come from another task
 * (CAUSE_MADE) is where the difference began. People see SENTENCES_SHOWN sentences; JSON has all.
 *
 * Without two operands the second run is the given or newest one, and the first is the run of the
 * same pipeline before it.
 *
 * Threads: one. What it doesn't do: find causes (run/view/cause.c); read bytes of content. Contents
 * are compared by their ids.
 */
#include "base/compare.h"
#include "base/map.h"
#include "cli/named.h"
#include "cli/render/table.h"
#include "cli/what.h"
#include "record/run_query.h"
#include "run/view/cause.h"

#define SENTENCES_SHOWN 20

struct side {
	struct cause_side is;
	json_t *params;
};

struct diff {
	struct cli *cli;
	bool all;
	struct side a, b;
	struct table *table;
	json_t *params, *code, *inputs, *tasks, *metrics, *because;
	struct causes causes;
	struct str sentences;
	size_t n_sentences;
	const char *first; /* where the first difference began, as text; or NULL */
	json_t *first_json;
};

static int load_side(struct cli *cli, struct db *db, struct side *s, struct err *err)
{
	s->params = s->is.run.params_json ? json_loads(s->is.run.params_json, 0, NULL) : NULL;
	if (!s->params)
		s->params = json_object();
	if (record_run_inputs(db, s->is.run.rowid, cli->arena, &s->is.pins, &s->is.n_pins, err) < 0)
		return -1;
	return named_run_tasks(cli, db, &s->is.run, &s->is.tasks, &s->is.n_tasks, err);
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

static void note(struct diff *d, json_t *list, const char *key, const char *name, json_t *a,
		 json_t *b)
{
	if (d->all || !json_equal(a, b)) {
		json_t *o = json_pack("{s:o, s:O, s:O}", key, json_name(name, strlen(name)), "a", a,
				      "b", b);

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

/* Content. */

static const char *short_id(struct diff *d, const struct content_id *id)
{
	return id && id->kind ? cli_hash(d->cli, &id->digest) : NULL;
}

static const struct content_id *pin(const struct side *s, const char *name)
{
	for (size_t i = 0; i < s->is.n_pins; i++)
		if (str_eq(s->is.pins[i].name, name))
			return &s->is.pins[i].id;
	return NULL;
}

static void diff_pin(struct diff *d, const char *name)
{
	const struct content_id *a = pin(&d->a, name), *b = pin(&d->b, name);
	const char *colon = strchr(name, ':');
	bool code = str_has_prefix(name, "code:");

	row(d, arena_strndup(d->cli->arena, name, colon ? (size_t)(colon - name) : strlen(name)),
	    colon ? colon + 1 : name, short_id(d, a), short_id(d, b));
	note(d, code ? d->code : d->inputs, "name", colon ? colon + 1 : name, facts_id(a),
	     facts_id(b));
}

/* Tasks. */

/* What one or both tasks have under a name: a content id or a metric's value. */
struct pair {
	const char *name;
	const void *a, *b;
};
typedef VEC(struct pair) pair_list;

static void add_to_pair(pair_list *v, const char *name, const void *a, const void *b)
{
	for (size_t i = 0; i < v->n; i++)
		if (str_eq(v->v[i].name, name)) {
			v->v[i].b = b;
			return;
		}
	VEC_PUSH(v, ((struct pair){ name, a, b }));
}

static pair_list outputs_of(const struct facts_task *a, const struct facts_task *b)
{
	pair_list v = { 0 };

	for (size_t i = 0; a && i < a->n_outputs; i++)
		add_to_pair(&v, a->outputs[i].name, &a->outputs[i].id, NULL);
	for (size_t i = 0; b && i < b->n_outputs; i++)
		add_to_pair(&v, b->outputs[i].name, NULL, &b->outputs[i].id);
	return v;
}

static pair_list metrics_of(const struct facts_task *a, const struct facts_task *b)
{
	pair_list v = { 0 };

	for (size_t i = 0; a && i < a->n_metrics; i++)
		add_to_pair(&v, a->metrics[i].name, &a->metrics[i], NULL);
	for (size_t i = 0; b && i < b->n_metrics; i++)
		add_to_pair(&v, b->metrics[i].name, NULL, &b->metrics[i]);
	return v;
}

static void diff_task(struct diff *d, const char *task, const struct facts_task *a,
		      const struct facts_task *b)
{
	const char *sa = a ? facts_result_state(a->state) : NULL,
		   *sb = b ? facts_result_state(b->state) : NULL;
	pair_list outputs = outputs_of(a, b), metrics = metrics_of(a, b);

	row(d, "task", task, sa, sb);
	note(d, d->tasks, "task", task, sa ? json_string(sa) : json_null(),
	     sb ? json_string(sb) : json_null());
	for (size_t i = 0; i < outputs.n; i++) {
		const struct pair *p = &outputs.v[i];
		const char *full = arena_printf(d->cli->arena, "%s/%s", task, p->name);

		row(d, "output", full, short_id(d, p->a), short_id(d, p->b));
		note(d, d->tasks, "output", full, facts_id(p->a), facts_id(p->b));
	}
	for (size_t i = 0; i < metrics.n; i++) {
		const struct pair *p = &metrics.v[i];
		const struct metric_value *ma = p->a, *mb = p->b;

		row(d, "metric", arena_printf(d->cli->arena, "%s %s", task, p->name),
		    ma ? arena_printf(d->cli->arena, "%.10g", ma->value) : NULL,
		    mb ? arena_printf(d->cli->arena, "%.10g", mb->value) : NULL);
		if (!d->all && ma && mb && compare_same(ma->value, mb->value))
			continue;
		json_array_append_new(d->metrics,
				      json_pack("{s:o, s:o, s:o, s:o}", "task",
						json_name(task, strlen(task)), "name",
						json_name(p->name, strlen(p->name)), "a",
						ma ? facts_number(ma->value) : json_null(), "b",
						mb ? facts_number(mb->value) : json_null()));
	}
	VEC_FREE(&outputs);
	VEC_FREE(&metrics);
}

/* Explanations. */

static int explain_task(struct diff *d, const struct facts_task *a, const struct facts_task *b,
			struct err *err)
{
	const char *task = a ? a->task : b->task;
	const struct explanation *e;
	json_t *o;
	int r = causes_explain(&d->causes, a, b, &o, &e, err);

	if (r <= 0)
		return r;
	json_array_append_new(d->because, o);
	if (d->n_sentences++ < SENTENCES_SHOWN)
		str_addf(&d->sentences, "%s\n", json_string_value(json_object_get(o, "sentence")));
	for (size_t i = 0; i < e->n && !d->first; i++) {
		if (e->v[i].kind == CAUSE_MADE)
			continue;
		d->first =
			arena_printf(d->cli->arena, "%s, in %s",
				     cause_text(d->cli->arena, &e->v[i]), cli_text(d->cli, task));
		d->first_json = cause_json(task, &e->v[i]);
	}
	return 0;
}

static int explain(struct diff *d, struct err *err)
{
	int r = 0;

	for (size_t i = 0; r == 0 && i < d->a.is.n_tasks; i++)
		r = explain_task(d, &d->a.is.tasks[i],
				 map_get_str(d->b.is.by_name, d->a.is.tasks[i].task), err);
	for (size_t i = 0; r == 0 && i < d->b.is.n_tasks; i++)
		if (!map_get_str(d->a.is.by_name, d->b.is.tasks[i].task))
			r = explain_task(d, NULL, &d->b.is.tasks[i], err);
	return r;
}

/* The two runs. */

static int find_run(struct cli *cli, struct db *db, const char *text, struct run_row *ret,
		    struct err *err)
{
	struct what w;

	if (what_find(cli, db, text, WHAT_RUN, NULL, &w, err) < 0)
		return -1;
	*ret = w.run;
	return 0;
}

/* Finds one run, or the newest without an operand, and the run of the same pipeline before it. */
static int find_runs(struct cli *cli, struct db *db, const struct cli_args *args, struct run_row *a,
		     struct run_row *b, struct err *err)
{
	struct run_query before = { .paged = true, .limit = 1 };
	struct run_row *rows;
	size_t n;

	if (args->n_operands == 2)
		return find_run(cli, db, args->operands[0], a, err) < 0
			       ? -1
			       : find_run(cli, db, args->operands[1], b, err);
	if (find_run(cli, db, args->n_operands ? args->operands[0] : "last", b, err) < 0)
		return -1;
	before.pipeline = b->pipeline;
	before.before = b->rowid;
	if (record_query_runs(db, &before, cli->arena, &rows, &n, err) < 0)
		return -1;
	if (n == 0)
		return err_set(
			err, ERR_NOT_FOUND,
			"run %s is the first of pipeline %s: there is none to compare it with",
			b->id, b->pipeline);
	*a = rows[0];
	return 0;
}

static void print(struct diff *d)
{
	struct cli *cli = d->cli;

	if (cli->json) {
		json_t *j = json_pack("{s:s, s:s, s:O, s:O, s:O, s:O, s:O, s:O}", "a",
				      d->a.is.run.id, "b", d->b.is.run.id, "params", d->params,
				      "code", d->code, "inputs", d->inputs, "tasks", d->tasks,
				      "metrics", d->metrics, "because", d->because);

		json_object_set_new(j, "first", or_null(d->first_json));
		cli_print_json(cli, "cairn.diff/1", j);
		return;
	}
	if (d->first)
		cli_printf(cli, "%sfirst difference:%s %s\n\n%s", cli_style(cli, STYLE_BOLD),
			   cli_style(cli, STYLE_PLAIN), d->first, d->sentences.s);
	if (d->n_sentences > SENTENCES_SHOWN)
		cli_printf(cli, "… and %zu more: see --json\n", d->n_sentences - SENTENCES_SHOWN);
	if (d->first)
		cli_printf(cli, "\n");
	if (table_rows(d->table))
		table_print(d->table, cli);
	else
		cli_printf(cli,
			   "%s and %s are the same in params, code, inputs, outputs and metrics\n",
			   d->a.is.run.id, d->b.is.run.id);
}

static void compare(struct diff *d)
{
	const char *name;
	json_t *v;

	table_column(d->table, "", 0);
	table_column(d->table, "", TABLE_CUT);
	table_column(d->table, d->a.is.run.id, 0);
	table_column(d->table, d->b.is.run.id, 0);
	json_object_foreach(d->a.params, name, v) diff_param(d, name);
	json_object_foreach(d->b.params, name, v) if (!json_object_get(d->a.params, name))
		diff_param(d, name);
	for (size_t i = 0; i < d->a.is.n_pins; i++)
		diff_pin(d, d->a.is.pins[i].name);
	for (size_t i = 0; i < d->b.is.n_pins; i++)
		if (!pin(&d->a, d->b.is.pins[i].name))
			diff_pin(d, d->b.is.pins[i].name);
	for (size_t i = 0; i < d->a.is.n_tasks; i++)
		diff_task(d, d->a.is.tasks[i].task, &d->a.is.tasks[i],
			  map_get_str(d->b.is.by_name, d->a.is.tasks[i].task));
	for (size_t i = 0; i < d->b.is.n_tasks; i++)
		if (!map_get_str(d->a.is.by_name, d->b.is.tasks[i].task))
			diff_task(d, d->b.is.tasks[i].task, NULL, &d->b.is.tasks[i]);
}

int cmd_diff(struct cli *cli, const struct cli_args *args)
{
	struct diff d = { .cli = cli, .all = cli_flag(args, "all"), .table = table_new() };
	json_t **const lists[] = {
		&d.params, &d.code, &d.inputs, &d.tasks, &d.metrics, &d.because
	};
	struct err err = { 0 };
	struct store *store;
	struct db *db;
	int r = cli_db(cli, DB_READ, &db, &err);

	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		*lists[i] = json_array();
	if (r == 0)
		r = find_runs(cli, db, args, &d.a.is.run, &d.b.is.run, &err);
	if (cli_store(cli, false, &store, NULL) < 0)
		store = NULL;
	if (r == 0 && (load_side(cli, db, &d.a, &err) < 0 || load_side(cli, db, &d.b, &err) < 0 ||
		       causes_open(&d.causes, cli->arena, db, store, &d.a.is, &d.b.is, &err) < 0))
		r = -1;
	if (r == 0) {
		compare(&d);
		r = explain(&d, &err);
	}
	if (r == 0)
		print(&d);
	causes_close(&d.causes);
	for (size_t i = 0; i < ARRAY_LEN(lists); i++)
		json_decref(*lists[i]);
	json_decref(d.first_json);
	json_decref(d.a.params);
	json_decref(d.b.params);
	str_deinit(&d.sentences);
	table_free(d.table);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}
