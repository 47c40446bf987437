/* engine/cli/past/cmd_metrics.c — `cairn metrics`: a line for each task that has metrics, a column
 * for each metric.
 *
 * Runs are gathered first: the named ones, or add_newest() page by page until `limit` of them had
 * something to show. Conditions of --filter and --step are applied to each task, so that `lines`
 * holds only what is shown. Columns are chosen when all lines are known.
 *
 * Values of a task's matrix count as params of its line. Lines are sorted (--sort), then chosen:
 * --pareto keeps the front, --per the first of each group.
 *
 * Columns: first the metrics that an option names, then those without a dot in their name, a run's
 * last steps first; as many as fit the terminal. --all takes every one. Params are shown where the
 * lines differ in them.
 *
 * With --plot, --svg or --tensorboard (`series`) the lines are tasks that have a series, and
 * metrics_series.c continues.
 *
 * Invariants: `names` holds every metric of every line, so that the number of hidden ones is right.
 * A line owns a reference to its run's params. A run whose results are gone is left out with a
 * note; for a named run that is an error.
 *
 * Threads: one. What it doesn't do: compare the params and inputs of runs (cmd_diff.c).
 */
#include <math.h>
#include "base/map.h"
#include "base/os/fs.h"
#include "base/text/text.h"
#include "cli/named.h"
#include "cli/past/series.h"
#include "cli/render/page.h"
#include "cli/render/table.h"
#include "record/run_query.h"

struct line {
	const struct run_row *run;
	const struct facts_task *task;
	json_t *params; /* of the run */
	json_t *values; /* params, and the values of the task's matrix, which win */
};

struct metrics {
	struct cli *cli;
	VEC(struct line) lines;
	struct map *names;         /* of all metrics */
	VEC(const char *) columns; /* metrics that are shown */
	size_t n_hidden;           /* metrics that aren't shown */
	VEC(const char *) params;  /* params that are shown */
	bool series;               /* over steps, instead of the last values */
};

static bool metric_of(const struct line *l, const char *name, double *ret)
{
	for (size_t i = 0; i < l->task->n_metrics; i++)
		if (str_eq(l->task->metrics[i].name, name)) {
			*ret = l->task->metrics[i].value;
			return true;
		}
	return false;
}

/* The value of a metric, or of a param that is a number. */
static bool number_of(const struct line *l, const char *name, double *ret)
{
	json_t *p = json_object_get(l->values, name);

	if (metric_of(l, name, ret))
		return true;
	if (!json_is_number(p))
		return false;
	*ret = json_number_value(p);
	return true;
}

static const char *param_text(struct metrics *m, const struct line *l, const char *name)
{
	struct str out = { 0 };
	json_t *v = json_object_get(l->values, name);
	const char *s;

	if (!v)
		return "";
	if (json_is_string(v))
		return json_string_value(v);
	json_add_canonical(&out, v);
	s = arena_strndup(m->cli->arena, out.s, out.len);
	str_deinit(&out);
	return s;
}

static void drop_line(struct line *l)
{
	json_decref(l->params);
	json_decref(l->values);
}

/* Applies --filter and --step: 1 the line passes, 0 it doesn't, -1 a condition is malformed. */
static int passes(struct metrics *m, const struct line *l, const struct cli_args *args,
		  struct err *err)
{
	for (unsigned i = 0; i < cli_count(args, "filter"); i++) {
		struct run_condition c;
		double have;

		if (run_condition_parse(cli_value_at(args, "filter", i), m->cli->arena, &c, err) <
		    0)
			return err_wrap(err, "--filter");
		if (c.is_number
			    ? !number_of(l, c.name, &have) || !compare_numbers(c.op, have, c.number)
			    : !json_object_get(l->values, c.name) ||
				      !compare_order(c.op,
						     strcmp(param_text(m, l, c.name), c.text)))
			return 0;
	}
	for (unsigned i = 0; i < cli_count(args, "step"); i++)
		if (step_name_is_in(l->task->step, cli_value_at(args, "step", i)))
			return 1;
	return cli_count(args, "step") == 0;
}

/* Gathering. */

/* The length of "fold=" at `p`, or 0. */
static size_t axis_length(const char *p)
{
	size_t n = strspn(p, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-");

	return n && p[n] == '=' ? n + 1 : 0;
}

static json_t *value_of_text(const char *text, size_t n)
{
	_cleanup_(freep) char *copy = xstrndup(text, n);
	int64_t i;
	double d;

	if (text_parse_int(copy, &i))
		return json_integer((json_int_t)i);
	return text_parse_double(copy, &d) && isfinite(d) ? json_real(d) : facts_text(copy);
}

/* A task's name has the values of its matrix: "train[fold=0,lr=0.1]". A comma belongs to a value
 * unless an axis follows it. */
static json_t *values_of(const json_t *params, const char *task)
{
	json_t *values = params ? json_copy((json_t *)(uintptr_t)params) : json_object();
	const char *at = strchr(task, '['), *end = task + strlen(task) - 1;

	for (at = at && *end == ']' ? at + 1 : end; at < end;) {
		size_t n = axis_length(at);
		const char *value = at + n, *next = value;

		if (!n)
			break;
		while (next < end && !(*next == ',' && axis_length(next + 1)))
			next++;
		json_object_setn_new(values, at, n - 1,
				     value_of_text(value, (size_t)(next - value)));
		at = next + 1;
	}
	return values;
}

static int add_run(struct metrics *m, struct db *db, const struct run_row *run,
		   const struct cli_args *args, struct err *err)
{
	json_t *params = run->params_json ? json_loads(run->params_json, 0, NULL) : NULL;
	struct facts_task *tasks;
	size_t n;

	/* A run whose table is gone from the store has nothing to show. That is an error only for a
	 * run that was named. */
	if (named_run_tasks(m->cli, db, run, &tasks, &n, err) < 0) {
		bool gone = err->code == ERR_NOT_FOUND || err->code == ERR_CORRUPT;

		json_decref(params);
		if (!gone || args->n_operands)
			return -1;
		cli_note(m->cli, "%s is left out: %s", run->id, err->msg);
		*err = (struct err){ 0 };
		return 0;
	}
	for (size_t i = 0; i < n; i++) {
		struct line l = { run, &tasks[i], params ? json_incref(params) : json_object(),
				  values_of(params, tasks[i].task) };
		int pass = (m->series ? series_is_there(&tasks[i]) : tasks[i].n_metrics > 0)
				   ? passes(m, &l, args, err)
				   : 0;

		if (pass <= 0) {
			drop_line(&l);
			if (pass < 0) {
				json_decref(params);
				return -1;
			}
			continue;
		}
		VEC_PUSH(&m->lines, l);
		for (size_t k = 0; k < tasks[i].n_metrics; k++)
			*map_slot_str(m->names, tasks[i].metrics[k].name) = m;
	}
	json_decref(params);
	return 0;
}

/* Adds the newest runs, a page at a time, until `limit` of them had something to show. */
static int add_newest(struct metrics *m, struct db *db, const struct cli_args *args,
		      struct err *err)
{
	struct run_query q = { .pipeline = cli_value(args, "pipeline"), .paged = true };
	uint64_t limit = 20, shown = 0;
	struct run_row *runs;
	size_t n;

	if (cli_uint(args, "limit", 0, UINT32_MAX, &limit, err) < 0)
		return -1;
	q.limit = limit;
	do {
		if (record_query_runs(db, &q, m->cli->arena, &runs, &n, err) < 0)
			return -1;
		for (size_t i = 0; i < n && (!limit || shown < limit); i++) {
			size_t lines = m->lines.n;

			q.before = runs[i].rowid;
			if (add_run(m, db, &runs[i], args, err) < 0)
				return -1;
			shown += m->lines.n > lines;
		}
	} while (limit && shown < limit && n == limit);
	return 0;
}

/* Considers all lines: a param that only some runs have differs, too. */
static void choose_params(struct metrics *m, bool all)
{
	_cleanup_(map_freep) struct map *seen = map_new();
	const char *name;
	json_t *v;

	for (size_t from = 0; from < m->lines.n; from++)
		json_object_foreach(m->lines.v[from].values, name, v)
		{
			bool differs = all;

			if (map_has(seen, name, strlen(name)))
				continue;
			*map_slot_str(seen, name) = m;
			for (size_t i = 0; i < m->lines.n && !differs; i++)
				differs =
					!json_equal(v, json_object_get(m->lines.v[i].values, name));
			if (differs)
				VEC_PUSH(&m->params, name);
		}
}

/* Which metrics. */

/* A gap of two and at least this much for a number. */
#define COLUMN_LEAST 9
/* What identifies a line comes first: a run's id and the task. */
#define COLUMNS_BEFORE 44

static bool is_named(const struct cli_args *args, const char *name)
{
	const char *sort = cli_value(args, "sort");

	for (unsigned i = 0; i < cli_count(args, "pareto"); i++) {
		const char *front = cli_value_at(args, "pareto", i);

		if (str_eq(front + (*front == '-'), name))
			return true;
	}
	for (unsigned i = 0; i < cli_count(args, "metric"); i++)
		if (str_eq(cli_value_at(args, "metric", i), name))
			return true;
	for (unsigned i = 0; i < cli_count(args, "filter"); i++)
		if (strncmp(cli_value_at(args, "filter", i), name, strlen(name)) == 0 &&
		    strchr("<>=!", cli_value_at(args, "filter", i)[strlen(name)]))
			return true;
	return sort && str_eq(sort + (*sort == '-'), name);
}

static void add_columns(struct metrics *m, const struct cli_args *args, bool named)
{
	bool all = cli_flag(args, "all"), chosen = cli_count(args, "metric") > 0;

	for (size_t from = 0, to = 0; from < m->lines.n; from = to) {
		while (to < m->lines.n && m->lines.v[to].run == m->lines.v[from].run)
			to++;
		for (size_t i = to;
		     i-- > from;) /* a run's last steps first: they are its purpose */
			for (size_t k = 0; k < m->lines.v[i].task->n_metrics; k++) {
				const char *name = m->lines.v[i].task->metrics[k].name;
				size_t at = 0;

				while (at < m->columns.n && !str_eq(m->columns.v[at], name))
					at++;
				if (at == m->columns.n && is_named(args, name) == named &&
				    (named || all || (!chosen && !strchr(name, '.'))))
					VEC_PUSH(&m->columns, name);
			}
	}
}

/* Without --all: metrics that the user names, then metrics without a dot, as many as fit the
 * terminal. */
static void choose_columns(struct metrics *m, const struct cli_args *args)
{
	unsigned width = 0, used = COLUMNS_BEFORE, rows;

	add_columns(m, args, true);
	add_columns(m, args, false);
	if (isatty(fileno(m->cli->out)) && !cli_flag(args, "all"))
		cli_terminal_size(m->cli->out, &width, &rows);
	for (size_t i = 0; width && i < m->columns.n; i++) {
		used += (unsigned)MAX(strlen(m->columns.v[i]) + 2, COLUMN_LEAST);
		if (used > width && i > 0 && !is_named(args, m->columns.v[i]))
			m->columns.n = i;
	}
	m->n_hidden = map_len(m->names) - MIN(m->columns.n, map_len(m->names));
}

static bool has_column(const struct metrics *m, const struct line *l)
{
	double v;

	for (size_t i = 0; i < m->columns.n; i++)
		if (metric_of(l, m->columns.v[i], &v))
			return true;
	return false;
}

/* Showing. */

struct sorted {
	struct line line;
	double key; /* NAN: it has none */
	size_t place;
	bool down;
};

/* Stable; lines without this number come last. */
static int by_key(const void *a, const void *b)
{
	const struct sorted *x = a, *y = b;

	if (isnan(x->key) != isnan(y->key))
		return isnan(x->key) ? 1 : -1;
	if (!isnan(x->key) && x->key != y->key)
		return (x->key < y->key) != x->down ? -1 : 1;
	return x->place < y->place ? -1 : 1;
}

static bool is_known(const struct metrics *m, const char *name)
{
	bool known = m->lines.n == 0 || map_get_str(m->names, name) != NULL;

	for (size_t i = 0; i < m->lines.n && !known; i++)
		known = json_object_get(m->lines.v[i].values, name) != NULL;
	return known;
}

static int unknown(const char *option, const char *name, struct err *err)
{
	return err_set(err, ERR_NOT_FOUND,
		       "--%s: none of these tasks has a metric, a param or a matrix value `%s`",
		       option, name);
}

static int sort_lines(struct metrics *m, const char *by, struct err *err)
{
	_cleanup_(freep) struct sorted *v = xcalloc(m->lines.n + 1, sizeof(*v));
	bool down = by[0] == '-';

	by += down;
	if (!is_known(m, by))
		return unknown("sort", by, err);
	for (size_t i = 0; i < m->lines.n; i++) {
		v[i] = (struct sorted){ m->lines.v[i], NAN, i, down };
		number_of(&m->lines.v[i], by, &v[i].key);
	}
	qsort(v, m->lines.n, sizeof(*v), by_key);
	for (size_t i = 0; i < m->lines.n; i++)
		m->lines.v[i] = v[i].line;
	return 0;
}

/* Choosing lines. */

static void add_group_part(struct metrics *m, const struct line *l, const char *name,
			   struct str *out)
{
	const char *text = param_text(m, l, name);
	double v;

	if (!*text && metric_of(l, name, &v))
		str_addf(out, "%.17g", v);
	str_add_field(out, text, strlen(text));
}

/* --per: of the lines with the same values only the first one, which is the best by --sort. */
static int keep_first(struct metrics *m, const struct cli_args *args, struct err *err)
{
	_cleanup_(map_freep) struct map *seen = map_new();
	size_t kept = 0;

	for (unsigned k = 0; k < cli_count(args, "per"); k++)
		if (!is_known(m, cli_value_at(args, "per", k)))
			return unknown("per", cli_value_at(args, "per", k), err);
	for (size_t i = 0; i < m->lines.n; i++) {
		_cleanup_(str_deinit) struct str group = { 0 };
		void **slot;

		for (unsigned k = 0; k < cli_count(args, "per"); k++)
			add_group_part(m, &m->lines.v[i], cli_value_at(args, "per", k), &group);
		slot = map_slot(seen, group.s, group.len, NULL);
		if (*slot) {
			drop_line(&m->lines.v[i]);
			continue;
		}
		*slot = m;
		m->lines.v[kept++] = m->lines.v[i];
	}
	m->lines.n = kept;
	return 0;
}

/* Whether `a` is at least as good as `b` in everything, and better in something. */
static bool beats(const double *a, const double *b, unsigned n)
{
	bool better = false;

	for (unsigned k = 0; k < n; k++) {
		if (a[k] > b[k])
			return false;
		better |= a[k] < b[k];
	}
	return better;
}

/* --pareto: lines that no other one beats. Each is compared with the front so far only: what a line
 * outside of it beats, one of the front beats, too. */
static int keep_front(struct metrics *m, const struct cli_args *args, struct err *err)
{
	unsigned n = cli_count(args, "pareto");
	_cleanup_(freep) double *v = xcalloc(m->lines.n * n + 1, sizeof(*v));
	_cleanup_(freep) bool *out = xcalloc(m->lines.n + 1, sizeof(*out));
	VEC(size_t) front = { 0 };
	size_t kept = 0;

	for (unsigned k = 0; k < n; k++) {
		const char *name = cli_value_at(args, "pareto", k);
		bool down = name[0] == '-';

		if (!is_known(m, name + down)) {
			VEC_FREE(&front);
			return unknown("pareto", name + down, err);
		}
		for (size_t i = 0; i < m->lines.n; i++) {
			double x = NAN;

			number_of(&m->lines.v[i], name + down, &x);
			out[i] |= isnan(x); /* what lacks one of them can't be compared */
			v[i * n + k] = down ? -x : x;
		}
	}
	for (size_t i = 0; i < m->lines.n; i++) {
		size_t stay = 0;

		for (size_t f = 0; f < front.n && !out[i]; f++)
			out[i] = beats(&v[front.v[f] * n], &v[i * n], n);
		if (out[i])
			continue;
		for (size_t f = 0; f < front.n; f++) {
			out[front.v[f]] = beats(&v[i * n], &v[front.v[f] * n], n);
			if (!out[front.v[f]])
				front.v[stay++] = front.v[f];
		}
		front.n = stay;
		VEC_PUSH(&front, i);
	}
	for (size_t i = 0; i < m->lines.n; i++) {
		if (out[i])
			drop_line(&m->lines.v[i]);
		else
			m->lines.v[kept++] = m->lines.v[i];
	}
	m->lines.n = kept;
	VEC_FREE(&front);
	return 0;
}

static void add_cells(struct metrics *m, struct table *t, const struct line *l)
{
	table_cell(t, STYLE_BOLD, "%s", l->run->id);
	table_cell(t, STYLE_PLAIN, "%s", l->task->task);
	for (size_t i = 0; i < m->params.n; i++)
		table_cell(t, STYLE_CYAN, "%s", param_text(m, l, m->params.v[i]));
	for (size_t i = 0; i < m->columns.n; i++) {
		struct str text = { 0 };
		double v;

		str_add(&text, "");
		if (metric_of(l, m->columns.v[i], &v))
			str_addf(&text, "%.6g", v);
		table_cell(t, STYLE_PLAIN, "%s", text.s);
		str_deinit(&text);
	}
}

static int write_page(struct metrics *m, struct table *t, const char *path, struct err *err)
{
	_cleanup_(str_deinit) struct str out = { 0 };

	page_begin(&out, "cairn metrics");
	str_add(&out, "<h1>Metrics</h1>\n");
	table_add_html(t, &out);
	page_end(&out);
	if (str_eq(path, "-")) {
		fwrite(out.s, 1, out.len, m->cli->out);
		return 0;
	}
	return fs_write_atomic(path, out.s, out.len, err);
}

static int show_table(struct metrics *m, const char *html, struct err *err)
{
	int r = 0;
	_cleanup_(table_freep) struct table *t = table_new();

	table_column(t, "run", 0);
	table_column(t, "task", TABLE_CUT);
	for (size_t i = 0; i < m->params.n; i++)
		table_column(t, m->params.v[i], 0);
	for (size_t i = 0; i < m->columns.n; i++)
		table_column(t, m->columns.v[i], TABLE_RIGHT);
	for (size_t i = 0; i < m->lines.n; i++)
		if (has_column(m, &m->lines.v[i]))
			add_cells(m, t, &m->lines.v[i]);
	if (html)
		r = write_page(m, t, html, err);
	else if (m->columns.n)
		table_print(t, m->cli);
	else
		cli_note(m->cli, "no run has metrics that were asked for");
	if (m->n_hidden)
		cli_note(m->cli, "%zu more metric%s: --all, or --metric NAME", m->n_hidden,
			 m->n_hidden == 1 ? "" : "s");
	return r;
}

static void print_json(struct metrics *m)
{
	_cleanup_(map_freep) struct map *seen = map_new(); /* sorted lines mix the runs */
	json_t *runs = json_array();

	for (size_t i = 0; i < m->lines.n; i++) {
		const struct line *l = &m->lines.v[i];
		json_t *o = map_get_str(seen, l->run->id);

		if (!o) {
			*map_slot_str(seen, l->run->id) = o = json_object();
			json_object_set_new(o, "id", json_string(l->run->id));
			json_object_set_new(o, "started", facts_time(l->run->started_ns));
			json_object_set_new(o, "state", json_string(facts_state(l->run)));
			json_object_set(o, "params", l->params);
			json_object_set_new(o, "metrics", json_object());
			json_array_append_new(runs, o);
		}
		json_object_set_new(json_object_get(o, "metrics"), l->task->task,
				    facts_metrics(l->task));
	}
	cli_print_json(m->cli, "cairn.metrics/1", json_pack("{s:o}", "runs", runs));
}

int cmd_metrics(struct cli *cli, const struct cli_args *args)
{
	struct metrics m = { .cli = cli, .names = map_new(), .series = metrics_wants_series(args) };
	struct err err = { 0 };
	struct db *db;
	int r;

	if (m.series && cli_value(args, "html")) {
		map_free(m.names);
		return cli_usage_error(cli, "--html writes the table; a plot is written by --svg");
	}
	r = cli_db(cli, DB_READ, &db, &err);

	if (r == 0 && args->n_operands == 0)
		r = add_newest(&m, db, args, &err);
	for (size_t i = 0; r == 0 && i < args->n_operands; i++) {
		struct run_row *run = arena_alloc(cli->arena, sizeof(*run));

		r = record_find_run(db, args->operands[i], cli->arena, run, &err);
		if (r == 0)
			r = add_run(&m, db, run, args, &err);
	}
	if (r == 0 && cli_value(args, "sort"))
		r = sort_lines(&m, cli_value(args, "sort"), &err);
	if (r == 0 && cli_count(args, "pareto"))
		r = keep_front(&m, args, &err);
	if (r == 0 && cli_count(args, "per"))
		r = keep_first(&m, args, &err);
	if (r == 0 && m.series) {
		struct metrics_source *v = arena_alloc(cli->arena, (m.lines.n + 1) * sizeof(*v));

		for (size_t i = 0; i < m.lines.n; i++)
			v[i] = (struct metrics_source){ m.lines.v[i].run, m.lines.v[i].task };
		r = metrics_show_series(cli, args, v, m.lines.n, &err);
	} else if (r == 0) {
		choose_params(&m, cli_flag(args, "all"));
		choose_columns(&m, args);
		if (!cli->json || cli_value(args, "html"))
			r = show_table(&m, cli_value(args, "html"), &err);
		if (cli->json && r == 0)
			print_json(&m);
	}
	for (size_t i = 0; i < m.lines.n; i++)
		drop_line(&m.lines.v[i]);
	VEC_FREE(&m.lines);
	VEC_FREE(&m.params);
	VEC_FREE(&m.columns);
	map_free(m.names);
	return r < 0 ? cli_fail(cli, &err) : CLI_OK;
}
