/* engine/cli/reproduce/text.c — a reproduction as text, and the sentences that all three forms
 * share.
 *
 * The first half gives names, styles and sentences of verdicts; json.c and html.c use them, too.
 * The second half prints: the verdict, the first divergence with what was different around it, then
 * a table of tasks. Tasks that weren't selected are left out.
 *
 * Invariant: names and values of the record go through cli_text() or a table cell before they are
 * printed.
 */
#include "base/text/text.h"
#include <assert.h>
#include "cli/cli.h"
#include "cli/render/table.h"
#include "cli/reproduce/reproduction.h"
#include "record/facts.h"

/* Words. */

const char *reproduce_verdict_name(enum reproduce_verdict v)
{
	static const char *const names[] = { [REPRODUCED] = "reproduced",
					     [DIVERGED] = "diverged",
					     [NOT_COMPARABLE] = "not comparable",
					     [NOT_SELECTED] = "not selected" };

	assert(v < ARRAY_LEN(names));
	return names[v];
}

enum cli_style reproduce_verdict_style(enum reproduce_verdict v)
{
	return v == REPRODUCED       ? STYLE_GREEN
	       : v == DIVERGED       ? STYLE_RED
	       : v == NOT_COMPARABLE ? STYLE_YELLOW
				     : STYLE_DIM;
}

enum cli_style reproduced_verdict_style(enum compare_verdict v)
{
	return v == VERDICT_IDENTICAL   ? STYLE_GREEN
	       : v <= VERDICT_TOLERATED ? STYLE_CYAN
	       : v == VERDICT_UNKNOWN   ? STYLE_YELLOW
					: STYLE_RED;
}

size_t reproduction_count(const struct reproduction *r, enum reproduce_verdict v)
{
	size_t n = 0;

	for (size_t i = 0; i < r->n_tasks; i++)
		n += r->tasks[i].verdict == v;
	return n;
}

const char *reproduced_output_text(struct cli *cli, const struct reproduced_output *o)
{
	const struct compare_result *c = &o->result;
	_cleanup_(str_deinit) struct str s = { 0 };

	str_add(&s, compare_verdict_name(c->verdict));
	if (c->verdict == VERDICT_NORMALISED)
		str_addf(&s, " (%s)", cli_text(cli, c->normaliser));
	if (c->verdict != VERDICT_IDENTICAL && c->path && *c->path)
		str_addf(&s, ": %s", cli_text(cli, c->path));
	if (c->verdict == VERDICT_DIFFERENT && c->has_offset)
		str_addf(&s, " at byte %llu", (unsigned long long)c->offset);
	if (c->verdict != VERDICT_IDENTICAL && c->detail)
		str_addf(&s, ": %s", cli_text(cli, c->detail));
	if (c->n_different + c->n_missing + c->n_extra > 1)
		str_addf(&s, " (and %llu more of %llu files)",
			 (unsigned long long)(c->n_different + c->n_missing + c->n_extra - 1),
			 (unsigned long long)c->n_files);
	return arena_strndup(cli->arena, s.s, s.len);
}

const char *reproduced_metric_text(struct cli *cli, const struct reproduced_metric *m)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	if (m->had)
		text_add_double(&s, m->was);
	else
		str_add(&s, "none");
	if (m->verdict != VERDICT_IDENTICAL) {
		str_add(&s, " → ");
		if (m->has)
			text_add_double(&s, m->is);
		else
			str_add(&s, "none");
	}
	if (m->verdict == VERDICT_TOLERATED) {
		str_add(&s, ", within the tolerance of ");
		text_add_double(&s, m->tolerance);
	} else if (m->verdict == VERDICT_DIFFERENT && m->tolerance > 0) {
		str_add(&s, ", beyond the tolerance of ");
		text_add_double(&s, m->tolerance);
	}
	return arena_strndup(cli->arena, s.s, s.len);
}

const char *reproduction_summary(struct cli *cli, const struct reproduction *r)
{
	size_t diverged = reproduction_count(r, DIVERGED),
	       unknown = reproduction_count(r, NOT_COMPARABLE),
	       ran = r->n_tasks - reproduction_count(r, NOT_SELECTED);
	const char *first = r->first < r->n_tasks ? cli_text(cli, r->tasks[r->first].task) : NULL;

	if (diverged && first)
		return arena_printf(cli->arena,
				    "%s diverged first; %zu of %zu tasks gave something else",
				    first, diverged, ran);
	if (diverged)
		return arena_printf(cli->arena, "%zu of %zu tasks gave something else", diverged,
				    ran);
	if (unknown)
		return arena_printf(cli->arena, "%zu of %zu tasks could not be compared", unknown,
				    ran);
	if (r->verdict == VERDICT_IDENTICAL)
		return "every output is the same bytes";
	if (r->verdict == VERDICT_NORMALISED)
		return "the same, but some outputs only after a normalisation";
	if (r->verdict == VERDICT_TOLERATED)
		return "the same within the declared tolerance";
	return arena_printf(cli->arena, "%s", compare_verdict_name(r->verdict));
}

/* The page. */

static void print_outputs(struct cli *cli, const struct reproduced_task *t, bool all)
{
	for (size_t i = 0; i < t->n_outputs; i++) {
		const struct reproduced_output *o = &t->outputs[i];

		if (all || o->result.verdict != VERDICT_IDENTICAL)
			cli_printf(cli, "  %s%s%s %s\n",
				   cli_style(cli, reproduced_verdict_style(o->result.verdict)),
				   cli_text(cli, o->name), cli_style(cli, STYLE_PLAIN),
				   reproduced_output_text(cli, o));
	}
	for (size_t i = 0; i < t->n_metrics; i++) {
		const struct reproduced_metric *m = &t->metrics[i];

		if (all || m->verdict != VERDICT_IDENTICAL)
			cli_printf(cli, "  %smetric %s%s %s\n",
				   cli_style(cli, reproduced_verdict_style(m->verdict)),
				   cli_text(cli, m->name), cli_style(cli, STYLE_PLAIN),
				   reproduced_metric_text(cli, m));
	}
}

static void print_environment(struct cli *cli, const struct reproduction *r, const char *indent)
{
	for (size_t i = 0; i < r->n_environment; i++)
		cli_printf(cli, "%s%s: %s → %s\n", indent, cli_text(cli, r->environment[i].what),
			   cli_text(cli, r->environment[i].was),
			   cli_text(cli, r->environment[i].is));
}

/* "3 identical", or the names of outputs that aren't. */
static const char *outputs_text(struct cli *cli, const struct reproduced_task *t)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	size_t same = 0;

	for (size_t i = 0; i < t->n_outputs; i++)
		if (t->outputs[i].result.verdict == VERDICT_IDENTICAL)
			same++;
		else
			str_addf(&s, "%s%s: %s", s.len ? "; " : "", t->outputs[i].name,
				 reproduced_output_text(cli, &t->outputs[i]));
	for (size_t i = 0; i < t->n_metrics; i++)
		if (t->metrics[i].verdict != VERDICT_IDENTICAL)
			str_addf(&s, "%smetric %s: %s", s.len ? "; " : "", t->metrics[i].name,
				 reproduced_metric_text(cli, &t->metrics[i]));
	if (same)
		str_addf(&s, "%s%zu identical", s.len ? "; " : "", same);
	return s.len ? arena_strndup(cli->arena, s.s, s.len) : "";
}

static void print_tasks(struct cli *cli, const struct reproduction *r)
{
	struct table *t = table_new();

	table_column(t, "task", TABLE_CUT);
	table_column(t, "", 0);
	table_column(t, "was", TABLE_RIGHT);
	table_column(t, "is", TABLE_RIGHT);
	table_column(t, "outputs", TABLE_CUT);
	for (size_t i = 0; i < r->n_tasks; i++) {
		const struct reproduced_task *one = &r->tasks[i];

		if (one->verdict == NOT_SELECTED)
			continue;
		table_cell(t, STYLE_PLAIN, "%s", one->task);
		table_cell(t, reproduce_verdict_style(one->verdict), "%s%s",
			   reproduce_verdict_name(one->verdict),
			   one->after_divergence ? " (follows)" : "");
		table_cell(t, STYLE_DIM, "%s",
			   one->was_duration_ns ? cli_duration(cli, one->was_duration_ns) : "");
		table_cell(t, STYLE_DIM, "%s",
			   one->duration_ns ? cli_duration(cli, one->duration_ns) : "");
		table_cell(t, STYLE_PLAIN, "%s", one->why ? one->why : outputs_text(cli, one));
	}
	cli_printf(cli, "\n");
	table_print(t, cli);
	table_free(t);
}

void reproduction_print(struct cli *cli, const struct reproduction *r)
{
	cli_printf(cli, "%s%s%s: %s\n", cli_style(cli, reproduced_verdict_style(r->verdict)),
		   compare_verdict_name(r->verdict), cli_style(cli, STYLE_PLAIN),
		   reproduction_summary(cli, r));
	cli_printf(cli, "%s%s of %s (%s), run again as %s, %s%s\n", cli_style(cli, STYLE_DIM),
		   cli_hash(cli, &r->original), cli_text(cli, r->was.pipeline),
		   cli_text(cli, r->was.id), cli_text(cli, r->is.id),
		   r->mode == REPRODUCE_CHAINED ? "chained: each task given what was made now"
						: "isolated: each task given the inputs on record",
		   cli_style(cli, STYLE_PLAIN));
	if (r->first < r->n_tasks) {
		const struct reproduced_task *t = &r->tasks[r->first];

		cli_printf(cli, "\n%sfirst divergence: %s%s\n", cli_style(cli, STYLE_BOLD),
			   cli_text(cli, t->task), cli_style(cli, STYLE_PLAIN));
		if (t->why)
			cli_printf(cli, "  %s\n", cli_text(cli, t->why));
		print_outputs(cli, t, false);
		cli_printf(cli, r->n_environment
					? "  different around it:\n"
					: "  nothing that is on record was different around it\n");
		print_environment(cli, r, "    ");
	}
	print_tasks(cli, r);
	if (r->first >= r->n_tasks && r->n_environment && cli->verbosity >= 0) {
		cli_printf(cli, "\ndifferent around it, and without effect:\n");
		print_environment(cli, r, "  ");
	}
}
