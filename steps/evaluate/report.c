/* steps/evaluate/report.c — the report's files: metrics.json, a file for each plot, report.html,
 * summary.md.
 *
 * The HTML contains everything: style, plots, numbers. It loads nothing and runs no script. One
 * add_*() function appends each section, or nothing if there is nothing to show; html() and
 * markdown() give their order. Text from outside is escaped by plot_escape() in HTML and by
 * add_markdown() in tables.
 *
 * Each file is written atomically. Numbers for people have few digits (add_number()); metrics.json
 * has the exact ones, from results_json.c. Plots are drawn twice, once into their file and once
 * into the page. One thread.
 */
#include <math.h>
#include <string.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "steps/evaluate/plot.h"

#define CLASSES_LISTED 200

struct plot {
	const char *file;
	bool (*draw)(struct str *out, const struct results *r);
};

static const struct plot plots[] = {
	{ "confusion.svg", plot_confusion },
	{ "roc.svg", plot_roc },
	{ "pr.svg", plot_pr },
	{ "calibration.svg", plot_calibration },
	{ "histogram.svg", plot_histogram },
};

/* Numbers for people. */

static void add_number(struct str *out, double v)
{
	if (!isfinite(v))
		str_add(out, "–");
	else if (v == floor(v) && fabs(v) < 1e15 && fabs(v) > 1)
		str_addf(out, "%.0f", v);
	else if (fabs(v) >= 1000 || (fabs(v) < 0.001 && v != 0))
		str_addf(out, "%.4g", v);
	else
		str_addf(out, "%.4f", v);
}

static void add_cells(struct str *out, const double *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		str_add(out, "<td>");
		add_number(out, v[i]);
		str_add(out, "</td>");
	}
}

static void add_interval(struct str *out, const struct interval *i)
{
	if (!isfinite(i->low))
		return;
	add_number(out, i->low);
	str_add(out, " … ");
	add_number(out, i->high);
}

/* HTML. */

static const char style[] =
	"body{margin:0;background:#f5f7fa;color:#1f2933;font:15px/1.5 "
	"system-ui,-apple-system,'Segoe "
	"UI',Helvetica,Arial,sans-serif}main{max-width:1080px;margin:0 auto;padding:32px 20px "
	"64px}h1{font-size:26px;margin:0 0 2px}h2{font-size:18px;margin:36px 0 "
	"12px}.sub{color:#616e7c;margin:0 0 "
	"24px}.tiles{display:flex;flex-wrap:wrap;gap:12px}.tile{background:#fff;border:1px solid "
	"#e4e7eb;border-radius:10px;padding:12px 18px;min-width:130px}.tile "
	"b{display:block;font-size:26px;font-weight:600;font-variant-numeric:tabular-nums}.tile "
	"span{color:#616e7c;font-size:13px}.tile "
	"small{display:block;color:#7b8794;font-variant-numeric:tabular-nums}.box{background:#fff;"
	"border:1px solid #e4e7eb;border-radius:10px;padding:6px "
	"14px;overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:"
	"tabular-nums}th{text-align:right;font-weight:500;color:#616e7c;font-size:13px}th:first-"
	"child,td:first-child{text-align:left;overflow-wrap:anywhere}td,th{padding:5px "
	"10px;border-bottom:1px solid #f0f2f5;text-align:right}tr:last-child "
	"td{border-bottom:0}.plots{display:grid;grid-template-columns:repeat(auto-fit,minmax(min("
	"460px,100%),1fr));gap:14px}.plots "
	".box{padding:6px}svg{max-width:100%;height:auto;display:block}.good{color:#0a7f5a}.bad{"
	"color:#b2182b}.note{color:#616e7c;font-size:13px}code{font-size:13px}";

static void open_html(struct str *out, const struct results *r)
{
	str_add(out, "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta "
		     "name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n<title>");
	plot_escape(out, r->title, 200);
	str_addf(out, "</title>\n<style>%s</style>\n<main>\n<h1>", style);
	plot_escape(out, r->title, 200);
	str_addf(out, "</h1>\n<p class=\"sub\">%s · ", task_name(r->d->task));
	text_add_count(out, r->d->n);
	str_add(out, r->d->n == 1 ? " row" : " rows");
	if (r->d->task == TASK_CLASSIFICATION)
		str_addf(out, " · %zu classes", r->d->n_classes);
	if (r->d->task == TASK_CLASSIFICATION && r->d->n_classes == 2) {
		str_add(out, " · positive: ");
		plot_escape(out, r->d->classes[r->d->positive], 60);
	}
	if (r->d->rows_skipped) {
		str_add(out, " · ");
		text_add_count(out, r->d->rows_skipped);
		str_add(out, " skipped");
	}
	str_add(out, "</p>\n");
}

static const char *const headline[][8] = {
	{ "accuracy", "balanced_accuracy", "f1_macro", "roc_auc", "roc_auc_ovr", "pr_auc",
	  "log_loss", "ece" },
	{ "mae", "rmse", "r2", "median_absolute_error", "max_error" },
	{ "ndcg", "ndcg_at_10", "mrr", "map", "queries" },
};

static void add_tiles(struct str *out, const struct results *r)
{
	str_add(out, "<div class=\"tiles\">\n");
	for (size_t k = 0; k < ARRAY_LEN(headline[0]); k++)
		for (size_t i = 0; i < r->m.n; i++) {
			if (!str_eq(headline[r->d->task][k], r->m.v[i].name) || r->m.v[i].why)
				continue;
			str_addf(out, "<div class=\"tile\"><span>%s</span><b>", r->m.v[i].name);
			add_number(out, r->m.v[i].v);
			str_add(out, "</b><small>");
			if (r->intervals)
				add_interval(out, &r->intervals->model[i]);
			str_add(out, "</small></div>\n");
		}
	str_add(out, "</div>\n");
}

static void add_plots(struct str *out, const struct results *r)
{
	str_add(out, "<h2>Plots</h2>\n<div class=\"plots\">\n");
	for (size_t i = 0; i < ARRAY_LEN(plots); i++) {
		_cleanup_(str_deinit) struct str s = { 0 };

		if (plots[i].draw(&s, r))
			str_addf(out, "<div class=\"box\">%s</div>\n", s.s);
	}
	str_add(out, "</div>\n");
}

static double of_baseline(const struct results *r, size_t i)
{
	const struct measure *m = measures_get(&r->b, r->m.v[i].name);

	return m ? m->v : NAN;
}

static void add_metrics(struct str *out, const struct results *r)
{
	str_add(out, "<h2>Metrics</h2>\n<div class=\"box\"><table>\n<tr><th>metric<th>value");
	if (r->intervals)
		str_addf(out, "<th>%.4g%% interval", 100 * r->resampling.confidence);
	if (r->baseline)
		str_addf(out, "<th>baseline<th>difference%s",
			 r->intervals ? "<th>its interval<th>p" : "");
	str_add(out, "</tr>\n");
	for (size_t i = 0; i < r->m.n; i++) {
		str_addf(out, "<tr><td>%s</td>", r->m.v[i].name);
		add_cells(out, &r->m.v[i].v, 1);
		if (r->intervals) {
			str_add(out, "<td>");
			add_interval(out, &r->intervals->model[i]);
			str_add(out, "</td>");
		}
		if (r->baseline) {
			double base = of_baseline(r, i);

			add_cells(out, (const double[]){ base, r->m.v[i].v - base }, 2);
		}
		if (r->baseline && r->intervals) {
			str_add(out, "<td>");
			add_interval(out, &r->intervals->difference[i]);
			str_add(out, "</td>");
			add_cells(out, &r->intervals->p[i], 1);
		}
		str_add(out, "</tr>\n");
	}
	str_add(out, "</table></div>\n");
	if (r->intervals)
		str_addf(out,
			 "<p class=\"note\">Intervals: percentiles of %zu bootstrap resamples, "
			 "seed %llu.</p>\n",
			 r->resampling.resamples, (unsigned long long)r->resampling.seed);
}

static void add_test(struct str *out, const struct results *r)
{
	const struct comparison *c = &r->comparison;

	if (!c->test)
		return;
	str_addf(out, "<p><b>Against the baseline.</b> %s: ", c->test);
	if (c->why)
		str_addf(out, "no p-value, %s.", c->why);
	else {
		str_add(out, "p = ");
		add_number(out, c->p);
		str_add(out, ".");
	}
	if (r->d->task == TASK_CLASSIFICATION)
		str_addf(out, " Only this model is right on %llu rows, only the baseline on %llu.",
			 (unsigned long long)c->only_model, (unsigned long long)c->only_baseline);
	str_add(out, "</p>\n");
}

static void add_classes(struct str *out, const struct results *r)
{
	bool areas = r->d->model.scores;

	if (!r->classes || !r->d->n_classes)
		return;
	str_addf(out,
		 "<h2>Classes</h2>\n<div "
		 "class=\"box\"><table>\n<tr><th>class<th>precision<th>recall<th>F1%s<th>rows<th>"
		 "predicted</tr>\n",
		 areas ? "<th>ROC AUC<th>PR AUC" : "");
	for (size_t i = 0; i < r->d->n_classes && i < CLASSES_LISTED; i++) {
		const struct class_measures *c = &r->classes[i];
		double v[] = { c->precision, c->recall, c->f1, c->roc_auc, c->pr_auc };

		str_add(out, "<tr><td>");
		plot_escape(out, r->d->classes[i], 80);
		str_add(out, "</td>");
		add_cells(out, v, areas ? 5 : 3);
		str_add(out, "<td>");
		text_add_count(out, c->support);
		str_add(out, "</td><td>");
		text_add_count(out, c->predicted);
		str_add(out, "</td></tr>\n");
	}
	str_add(out, "</table></div>\n");
	if (r->d->n_classes > CLASSES_LISTED)
		str_addf(out,
			 "<p class=\"note\">The first %d of %zu classes; metrics.json has "
			 "all.</p>\n",
			 CLASSES_LISTED, r->d->n_classes);
}

/* Only the main metrics: people compare them across the slices. */
static bool is_headline(const struct results *r, const char *name)
{
	for (size_t k = 0; k < ARRAY_LEN(headline[0]); k++)
		if (str_eq(headline[r->d->task][k], name))
			return true;
	return false;
}

static void add_slice_table(struct str *out, const struct results *r, size_t from, size_t to)
{
	str_add(out, "<h2>By ");
	plot_escape(out, r->slices.v[from].column, 80);
	str_addf(out, "</h2>\n<div class=\"box\"><table>\n<tr><th>value<th>%s",
		 r->d->task == TASK_RANKING ? "queries" : "rows");
	for (size_t i = 0; i < r->m.n; i++)
		if (is_headline(r, r->m.v[i].name))
			str_addf(out, "<th>%s", r->m.v[i].name);
	str_add(out, "</tr>\n");
	for (size_t s = from; s < to; s++) {
		str_add(out, "<tr><td>");
		plot_escape(out, *r->slices.v[s].value ? r->slices.v[s].value : "(empty)", 80);
		str_add(out, "</td><td>");
		text_add_count(out, r->slices.v[s].units);
		str_add(out, "</td>");
		for (size_t i = 0; i < r->m.n; i++)
			if (is_headline(r, r->m.v[i].name))
				add_cells(out, &r->slices.v[s].model.v[i].v, 1);
		str_add(out, "</tr>\n");
	}
	str_add(out, "</table></div>\n");
}

static void add_slices(struct str *out, const struct results *r)
{
	for (size_t from = 0, to; from < r->slices.n; from = to) {
		for (to = from;
		     to < r->slices.n && r->slices.v[to].column == r->slices.v[from].column; to++)
			;
		add_slice_table(out, r, from, to);
	}
}

static void add_undefined(struct str *out, const json_t *full)
{
	const json_t *all = json_object_get(full, "undefined");
	const char *name;
	json_t *why;

	if (!json_object_size(all))
		return;
	str_add(out, "<h2>Not defined</h2>\n<div class=\"box\"><table>\n");
	json_object_foreach((json_t *)(uintptr_t)all, name, why)
	{
		str_add(out, "<tr><td>");
		plot_escape(out, name, 120);
		str_add(out, "</td><td>");
		plot_escape(out, json_string_value(why), 300);
		str_add(out, "</td></tr>\n");
	}
	str_add(out, "</table></div>\n");
}

static void html(struct str *out, const struct results *r, const json_t *full)
{
	open_html(out, r);
	add_tiles(out, r);
	add_plots(out, r);
	add_metrics(out, r);
	add_test(out, r);
	add_classes(out, r);
	add_slices(out, r);
	add_undefined(out, full);
	str_add(out, "</main>\n</html>\n");
}

/* Markdown. */

/* Escapes text for a cell of a table: characters that end it or are markup. */
static void add_markdown(struct str *out, const char *s)
{
	for (; *s; s++) {
		if (strchr("\\`*_{}[]<>|#~!&", *s))
			str_addc(out, '\\');
		str_addc(out, (unsigned char)*s < 32 ? ' ' : *s);
	}
}

static void markdown(struct str *out, const struct results *r)
{
	str_add(out, "# ");
	add_markdown(out, r->title);
	str_addf(out, "\n\n%s, ", task_name(r->d->task));
	text_add_count(out, r->d->n);
	str_add(out, " rows");
	if (r->d->rows_skipped) {
		str_add(out, ", ");
		text_add_count(out, r->d->rows_skipped);
		str_add(out, " skipped");
	}
	str_addf(out, "\n\n| metric | value |%s%s\n| --- | ---: |%s%s\n",
		 r->intervals ? " interval |" : "", r->baseline ? " baseline | difference |" : "",
		 r->intervals ? " ---: |" : "", r->baseline ? " ---: | ---: |" : "");
	for (size_t i = 0; i < r->m.n; i++) {
		str_addf(out, "| %s | ", r->m.v[i].name);
		add_number(out, r->m.v[i].v);
		str_add(out, " |");
		if (r->intervals) {
			str_addc(out, ' ');
			add_interval(out, &r->intervals->model[i]);
			str_add(out, " |");
		}
		if (r->baseline) {
			str_addc(out, ' ');
			add_number(out, of_baseline(r, i));
			str_add(out, " | ");
			add_number(out, r->m.v[i].v - of_baseline(r, i));
			str_add(out, " |");
		}
		str_addc(out, '\n');
	}
	for (size_t i = 0; r->classes && i < r->d->n_classes && i < CLASSES_LISTED; i++) {
		const struct class_measures *c = &r->classes[i];
		double v[] = { c->precision, c->recall, c->f1 };

		str_add(out, i ? "| "
			       : "\n| class | precision | recall | F1 | rows |\n| --- | ---: | "
				 "---: | ---: | ---: |\n| ");
		add_markdown(out, r->d->classes[i]);
		for (size_t k = 0; k < ARRAY_LEN(v); k++) {
			str_add(out, " | ");
			add_number(out, v[k]);
		}
		str_addf(out, " | %llu |\n", (unsigned long long)c->support);
	}
}

/* Files. */

static int write_text(const char *dir, const char *name, const struct str *s, struct err *err)
{
	_cleanup_(freep) char *path = fs_join(dir, name);

	return fs_write_atomic(path, s->s, s->len, err);
}

int results_write(const char *dir, const struct results *r, const json_t *full, struct err *err)
{
	_cleanup_(freep) char *path = fs_join(dir, "metrics.json");
	_cleanup_(str_deinit) struct str page = { 0 }, summary = { 0 };

	if (fs_mkdir_p(dir, err) < 0 || json_write_file(path, full, true, err) < 0)
		return -1;
	for (size_t i = 0; i < ARRAY_LEN(plots); i++) {
		_cleanup_(str_deinit) struct str s = { 0 };

		if (plots[i].draw(&s, r) && write_text(dir, plots[i].file, &s, err) < 0)
			return -1;
	}
	html(&page, r, full);
	markdown(&summary, r);
	return write_text(dir, "report.html", &page, err) < 0 ||
			       write_text(dir, "summary.md", &summary, err) < 0
		       ? -1
		       : 0;
}
