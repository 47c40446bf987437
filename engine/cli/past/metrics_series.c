/* engine/cli/past/metrics_series.c — `cairn metrics` over steps: a plot for each metric, with a
 * line for each task that has it.
 *
 * load_all() reads the series of the tasks that cmd_metrics.c chose, choose_metrics() picks the
 * metrics of --plot, make_plots() makes one struct plot a metric, one line a task. Then each form
 * takes what it needs: plots for terminal and SVG; the series themselves for JSON and TensorBoard.
 *
 * Without operands and without --limit only the run that comes first is loaded; event files are
 * written for all.
 *
 * Invariants: points and names live in cli->arena, plots only point to them. A task without a
 * series is skipped; when none has one, that is an error.
 *
 * What it doesn't do: parse series (run/view/series.c), scale and draw (plot/).
 */
#include <math.h>
#include <stdio.h>
#include "base/map.h"
#include "base/os/fs.h"
#include "base/text/text.h"
#include "cli/past/series.h"
#include "cli/plot/plot.h"

#define ROWS_PREFERRED    14
#define COLUMNS_ELSEWHERE 80 /* where the output isn't a terminal */

struct chosen {
	struct cli *cli;
	const struct cli_args *args;
	VEC(struct series) series;
	struct map *names; /* the names of the metrics that are shown */
	VEC(struct plot) plots;
};

bool metrics_wants_series(const struct cli_args *args)
{
	return cli_flag(args, "plot") || cli_flag(args, "svg") || cli_flag(args, "tensorboard");
}

static bool wants_metric(const struct cli_args *args, const char *name)
{
	for (unsigned i = 0; i < cli_count(args, "plot"); i++)
		if (str_eq(cli_value_at(args, "plot", i), "*") ||
		    str_eq(cli_value_at(args, "plot", i), name))
			return true;
	return cli_count(args, "plot") == 0;
}

/* Choosing. */

/* The newest run older than that one, whatever --sort puts first. NULL: there is none. */
static const struct run_row *newest_before(const struct metrics_source *v, size_t n, int64_t rowid)
{
	const struct run_row *newest = NULL;

	for (size_t i = 0; i < n; i++)
		if (v[i].run->rowid < rowid && (!newest || v[i].run->rowid > newest->rowid))
			newest = v[i].run;
	return newest;
}

/* run: load only its series; NULL: those of all. */
static int load(struct chosen *c, const struct metrics_source *v, size_t n,
		const struct run_row *run, struct err *err)
{
	struct store *store;

	if (cli_store(c->cli, false, &store, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct series s;
		struct err why = { 0 };
		int r;

		if (run && v[i].run->rowid != run->rowid)
			continue;
		r = series_load(store, v[i].run, v[i].task, c->cli->arena, &s, &why);
		if (r < 0 && why.code != ERR_INVALID) {
			err_pass(err, &why);
			return err_wrap(err, "the series of %s in %s", v[i].task->task,
					v[i].run->id);
		}
		if (r < 0)
			cli_warn(c->cli, "%s in %s is left out: %s", v[i].task->task, v[i].run->id,
				 why.msg);
		if (r > 0)
			VEC_PUSH(&c->series, s);
	}
	return 0;
}

static int load_all(struct chosen *c, const struct metrics_source *v, size_t n, struct err *err)
{
	bool only_newest = c->args->n_operands == 0 && !cli_value(c->args, "limit") &&
			   !cli_flag(c->args, "tensorboard");
	const struct run_row *run = only_newest ? newest_before(v, n, INT64_MAX) : NULL;
	int r = load(c, v, n, run, err);

	while (r == 0 && c->series.n == 0 && run && (run = newest_before(v, n, run->rowid)))
		r = load(c, v, n, run, err);
	if (r < 0)
		return -1;
	return c->series.n ? 0
			   : err_set(err, ERR_NOT_FOUND,
				     "no run has metrics over steps: `series: FILE` on a step "
				     "names the "
				     "file that it writes them to; `uses: train` and `distributed` "
				     "leave them anyway");
}

static int choose_metrics(struct chosen *c, struct err *err)
{
	_cleanup_(str_deinit) struct str known = { 0 };
	_cleanup_(map_freep) struct map *seen = map_new();

	for (size_t i = 0; i < c->series.n; i++)
		for (size_t k = 0; k < c->series.v[i].n_metrics; k++) {
			const char *name = c->series.v[i].metrics[k].name;

			if (!map_has(seen, name, strlen(name)))
				str_addf(&known, "%s%s", known.len ? ", " : "", name);
			*map_slot_str(seen, name) = c;
			if (wants_metric(c->args, name))
				*map_slot_str(c->names, name) = c;
		}
	if (map_len(c->names))
		return 0;
	return err_set(err, ERR_NOT_FOUND, "no such metric over steps; there %s: %s",
		       map_len(seen) == 1 ? "is" : "are", known.len ? known.s : "none");
}

static const struct series_metric *metric_of(const struct series *s, const char *name)
{
	for (size_t i = 0; i < s->n_metrics; i++)
		if (str_eq(s->metrics[i].name, name))
			return &s->metrics[i];
	return NULL;
}

static const char *label_of(struct chosen *c, const struct series *s)
{
	for (size_t i = 0; i < c->series.n; i++)
		if (!str_eq(c->series.v[i].run, s->run))
			return arena_printf(c->cli->arena, "%s %s", s->run, s->task);
	return s->task;
}

static void make_plots(struct chosen *c)
{
	for (size_t i = 0; i < map_len(c->names); i++) {
		const void *name;
		size_t len, n = 0;
		struct plot_line *lines = arena_alloc(c->cli->arena, c->series.n * sizeof(*lines));
		struct plot p = { .lines = lines };

		map_at(c->names, i, &name, &len);
		p.title = arena_strndup(c->cli->arena, name, len);
		for (size_t k = 0; k < c->series.n; k++) {
			const struct series_metric *m = metric_of(&c->series.v[k], p.title);

			if (m)
				lines[n++] = (struct plot_line){ label_of(c, &c->series.v[k]), m->v,
								 m->n };
		}
		p.n = n;
		VEC_PUSH(&c->plots, p);
	}
}

/* Showing. */

static void print_plots(struct chosen *c)
{
	_cleanup_(str_deinit) struct str out = { 0 };
	struct plot_text_options o = { .columns = COLUMNS_ELSEWHERE,
				       .rows = ROWS_PREFERRED,
				       .utf8 = c->cli->utf8,
				       .color = c->cli->color_out };
	unsigned lines = 24;

	if (c->cli->tty_out || getenv("COLUMNS"))
		cli_terminal_size(c->cli->out, &o.columns, &lines);
	o.rows = MIN(o.rows, lines > 8 ? lines - 5 : 3);
	for (size_t i = 0; i < c->plots.n; i++) {
		if (i)
			str_addc(&out, '\n');
		plot_add_text(&out, &c->plots.v[i], &o);
	}
	fwrite(out.s, 1, out.len, c->cli->out);
}

static void print_json(struct chosen *c)
{
	json_t *all = json_array();

	for (size_t i = 0; i < c->series.n; i++)
		for (size_t k = 0; k < c->series.v[i].n_metrics; k++) {
			const struct series_metric *m = &c->series.v[i].metrics[k];
			json_t *points = json_array(), *o = json_object();

			for (size_t p = 0; p < m->n; p++) {
				json_t *pair = json_array();

				json_array_append_new(pair, facts_number(m->v[p].x));
				json_array_append_new(pair, facts_number(m->v[p].y));
				json_array_append_new(points, pair);
			}
			json_object_set_new(o, "run", facts_text(c->series.v[i].run));
			json_object_set_new(o, "task", facts_text(c->series.v[i].task));
			json_object_set_new(o, "metric", facts_text(m->name));
			json_object_set_new(o, "points", points);
			if (map_has(c->names, m->name, strlen(m->name)))
				json_array_append(all, o);
			json_decref(o);
		}
	cli_print_json(c->cli, "cairn.series/1", json_pack("{s:o}", "series", all));
}

static int show(struct chosen *c, struct err *err)
{
	const char *svg = cli_value(c->args, "svg"), *dir = cli_value(c->args, "tensorboard");

	make_plots(c);
	if (dir && tensorboard_write(dir, c->series.v, c->series.n, err) < 0)
		return -1;
	if (dir)
		cli_note(c->cli, "%zu event file%s in %s", c->series.n, c->series.n == 1 ? "" : "s",
			 dir);
	if (svg) {
		_cleanup_(str_deinit) struct str out = { 0 };

		plot_add_svg(&out, c->plots.v, c->plots.n);
		if (cli_write_to(c->cli, svg, &out, err) < 0)
			return -1;
	}
	if (c->cli->json)
		print_json(c);
	else if (!svg && !dir)
		print_plots(c);
	return 0;
}

int metrics_show_series(struct cli *cli, const struct cli_args *args,
			const struct metrics_source *v, size_t n, struct err *err)
{
	struct chosen c = { .cli = cli, .args = args, .names = map_new() };
	int r = load_all(&c, v, n, err) < 0 || choose_metrics(&c, err) < 0 || show(&c, err) < 0 ? -1
												: 0;

	VEC_FREE(&c.series);
	VEC_FREE(&c.plots);
	map_free(c.names);
	return r;
}
