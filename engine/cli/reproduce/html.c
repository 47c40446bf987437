/* engine/cli/reproduce/html.c — a reproduction as one HTML page.
 *
 * It has the parts of the text form in the same order: verdict, first divergence, what was
 * different around it, all tasks. Sentences come from text.c, so that both forms say the same.
 *
 * Invariant: every text from outside goes through page_add_text().
 */
#include <string.h>
#include "base/os/fs.h"
#include "base/text/text.h"
#include "cli/cli.h"
#include "cli/graph/graph.h"
#include "cli/render/page.h"
#include "cli/reproduce/reproduction.h"
#include "record/facts.h"

static void add_span(struct str *out, enum cli_style style_, const char *s)
{
	str_addf(out, "<span class=\"%s\">",
		 style_ == STYLE_GREEN    ? "good"
		 : style_ == STYLE_CYAN   ? "near"
		 : style_ == STYLE_RED    ? "bad"
		 : style_ == STYLE_YELLOW ? "warn"
					  : "dim");
	page_add_text(out, s);
	str_add(out, "</span>");
}

static void add_tile(struct str *out, size_t n, const char *what, const char *cls)
{
	str_addf(out, "<div class=\"tile\"><b class=\"%s\">%zu</b><span>%s</span></div>\n",
		 n ? cls : "dim", n, what);
}

static void add_head(struct str *out, struct cli *cli, const struct reproduction *r)
{
	char hex[DIGEST_HEX_MAX];
	_cleanup_(freep) char *title =
		xasprintf("%s: %s", r->was.pipeline, compare_verdict_name(r->verdict));

	page_begin(out, title);
	str_add(out, "<h1>");
	page_add_text(out, r->was.pipeline);
	str_add(out, ": ");
	add_span(out, reproduced_verdict_style(r->verdict), compare_verdict_name(r->verdict));
	str_add(out, "</h1>\n<p class=\"sub\">");
	page_add_text(out, reproduction_summary(cli, r));
	str_addf(out, "<br>run hash <code>%s</code><br>", digest_hex(&r->original, hex));
	page_add_text(out, r->was.id);
	str_add(out, " of ");
	text_add_time(out, r->was.started_ns, 0);
	str_add(out, ", run again as ");
	page_add_text(out, r->is.id);
	str_add(out, " at ");
	text_add_time(out, r->is.started_ns, 0);
	str_addf(out, "; %s</p>\n<div class=\"tiles\">\n",
		 r->mode == REPRODUCE_CHAINED
			 ? "chained: each task was given what was made now"
			 : "isolated: each task was given the inputs on record");
	add_tile(out, reproduction_count(r, REPRODUCED), "reproduced", "good");
	add_tile(out, reproduction_count(r, DIVERGED), "diverged", "bad");
	add_tile(out, reproduction_count(r, NOT_COMPARABLE), "not comparable", "warn");
	if (reproduction_count(r, NOT_SELECTED))
		add_tile(out, reproduction_count(r, NOT_SELECTED), "not selected", "dim");
	str_add(out, "</div>\n");
}

static void add_results(struct str *out, struct cli *cli, const struct reproduced_task *t,
			const char *tag, bool all)
{
	for (size_t i = 0; i < t->n_outputs; i++) {
		const struct reproduced_output *o = &t->outputs[i];

		if (!all && o->result.verdict == VERDICT_IDENTICAL)
			continue;
		str_addf(out, "<%s>", tag);
		page_add_text(out, o->name);
		str_add(out, " ");
		add_span(out, reproduced_verdict_style(o->result.verdict),
			 reproduced_output_text(cli, o));
		str_addf(out, "</%s>", tag);
	}
	for (size_t i = 0; i < t->n_metrics; i++) {
		const struct reproduced_metric *m = &t->metrics[i];

		if (!all && m->verdict == VERDICT_IDENTICAL)
			continue;
		str_addf(out, "<%s>metric ", tag);
		page_add_text(out, m->name);
		str_add(out, " ");
		add_span(out, reproduced_verdict_style(m->verdict), reproduced_metric_text(cli, m));
		str_addf(out, "</%s>", tag);
	}
}

static void add_environment(struct str *out, const struct reproduction *r)
{
	if (!r->n_environment) {
		str_add(out, "<p class=\"dim\">Nothing that is on record was different around "
			     "it.</p>\n");
		return;
	}
	str_add(out,
		"<div class=\"box\"><table><tr><th>around it</th><th>was</th><th>is</th></tr>\n");
	for (size_t i = 0; i < r->n_environment; i++) {
		const char *const cells[] = { r->environment[i].what, r->environment[i].was,
					      r->environment[i].is };

		str_add(out, "<tr>");
		for (size_t k = 0; k < ARRAY_LEN(cells); k++) {
			str_add(out, "<td>");
			page_add_text(out, cells[k]);
			str_add(out, "</td>");
		}
		str_add(out, "</tr>\n");
	}
	str_add(out, "</table></div>\n");
}

static void add_duration(struct str *out, int64_t ns)
{
	str_add(out, "<td class=\"num\">");
	if (ns)
		text_add_duration(out, ns);
	str_add(out, "</td>");
}

static void add_tasks(struct str *out, struct cli *cli, const struct reproduction *r)
{
	str_add(out,
		"<h2>Tasks</h2>\n<div class=\"box\"><table><tr><th>task</th><th></th><th>outputs "
		"and metrics</th><th class=\"num\">was</th><th class=\"num\">is</th></tr>\n");
	for (size_t i = 0; i < r->n_tasks; i++) {
		const struct reproduced_task *t = &r->tasks[i];

		str_add(out, "<tr><td>");
		page_add_text(out, t->task);
		str_add(out, "</td><td class=\"verdict\">");
		add_span(out, reproduce_verdict_style(t->verdict),
			 reproduce_verdict_name(t->verdict));
		if (t->after_divergence)
			str_add(out, "<br><span class=\"dim\">follows another</span>");
		str_add(out, "</td><td>");
		if (t->why) {
			str_add(out, "<div>");
			page_add_text(out, t->why);
			str_add(out, "</div>");
		}
		add_results(out, cli, t, "div", true);
		str_add(out, "</td>");
		add_duration(out, t->was_duration_ns);
		add_duration(out, t->duration_ns);
		str_add(out, "</tr>\n");
	}
	str_add(out, "</table></div>\n");
	page_end(out);
}

int reproduction_write_html(struct cli *cli, const struct reproduction *r, const char *path,
			    struct err *err)
{
	_cleanup_(str_deinit) struct str out = { 0 };

	add_head(&out, cli, r);
	if (r->first < r->n_tasks) {
		const struct reproduced_task *t = &r->tasks[r->first];

		str_add(&out, "<h2>First divergence: ");
		page_add_text(&out, t->task);
		str_add(&out, "</h2>\n<div class=\"box first\">");
		if (t->why) {
			str_add(&out, "<p>");
			page_add_text(&out, t->why);
			str_add(&out, "</p>");
		}
		add_results(&out, cli, t, "p", false);
		str_add(&out, "</div>\n");
	}
	str_add(&out, "<h2>What was different around it</h2>\n");
	add_environment(&out, r);
	add_tasks(&out, cli, r);
	return fs_write_atomic(path, out.s, out.len, err) < 0 ? err_wrap(err, "writing the report")
							      : 0;
}
