/* engine/cli/progress/end.c — the end of a run, in a few lines: its state, what was done and what
 * was saved, the run hash, and what to type next.
 *
 * Text only, from what progress.c has counted: no state of the run is decided here. The command to
 * type next depends on the end: `resume` for a run that can go on, `logs` for one that failed.
 * Names go through text_add_printable(). The loop's thread.
 */
#include <string.h>
#include "base/text/text.h"
#include "cli/progress/internal.h"

static const char *style(const struct progress *p, enum cli_style s)
{
	return p->o.color_summary ? cli_style_escape(s) : "";
}

static void add_count(struct str *s, uint64_t n, const char *what)
{
	if (!n)
		return;
	str_add(s, ", ");
	text_add_count(s, n);
	str_addf(s, " %s", what);
}

static void add_saved(struct str *s, const struct run_counts *c)
{
	if (c->saved_ns < NS_PER_MS)
		return;
	str_add(s, ", which saved ");
	text_add_duration(s, c->saved_ns);
}

static void add_counts(struct str *s, const struct run_counts *c)
{
	str_add(s, "  ");
	text_add_count(s, c->total);
	str_add(s, c->total == 1 ? " task" : " tasks");
	if (c->total && c->hits == c->total) {
		str_add(s, ": nothing to do, all on record");
		add_saved(s, c);
		str_addc(s, '\n');
		return;
	}
	add_count(s, c->executed, "executed");
	add_count(s, c->failed, "failed");
	add_count(s, c->skipped, "skipped");
	add_count(s, c->blocked, "not run");
	add_count(s, c->hits, "on record");
	if (c->hits)
		add_saved(s, c);
	str_addc(s, '\n');
}

static void add_head(const struct progress *p, struct str *s, const struct run_row *run,
		     int64_t took_ns)
{
	bool well = run->state == RUN_SUCCEEDED;

	str_addf(s, "%s%s%s ", style(p, cli_state_style(run_state_name(run->state))),
		 p->o.utf8 ? well                       ? "✓"
			     : run->state == RUN_FAILED ? "✗"
							: "■"
		 : well    ? "ok"
			   : "!!",
		 style(p, STYLE_PLAIN));
	str_addf(s, "%s", style(p, STYLE_BOLD));
	text_add_printable(s, run->id, strlen(run->id));
	str_addf(s, "%s %s in ", style(p, STYLE_PLAIN), run_state_name(run->state));
	text_add_duration(s, took_ns);
	if (run->state == RUN_FAILED && run->message &&
	    !p->failed.n) { /* a failed task's message was shown when it failed */
		str_add(s, ": ");
		text_add_printable(s, run->message, strlen(run->message));
	}
	str_addc(s, '\n');
}

/* Places are text that people copy: a path of the project or a URL, as the shell takes it. */
static void add_exported(const struct progress *p, struct str *s)
{
	for (size_t i = 0; i < MIN(p->exported.n, ARRAY_LEN(p->exported.v)); i++)
		str_addf(s, "  exported %s\n", p->exported.v[i].s);
	if (p->exported.n > ARRAY_LEN(p->exported.v))
		str_addf(s, "  exported %zu more: cairn status %s\n",
			 p->exported.n - ARRAY_LEN(p->exported.v), p->run.id.s);
}

void progress_exported(void *arg, const char *task, const char *output, const char *place)
{
	struct progress *p = arg;
	_cleanup_(str_deinit) struct str quoted = { 0 };
	struct str *line;

	if (p->exported.n++ >= ARRAY_LEN(p->exported.v))
		return;
	line = &p->exported.v[p->exported.n - 1];
	str_reset(line);
	text_add_printable(line, task, strlen(task));
	str_addf(line, "/%s to ", output);
	text_add_shell_quoted(&quoted, place);
	text_add_printable(line, quoted.s, quoted.len);
}

static void add_next_line(struct str *s, bool *first, const char *command)
{
	str_addf(s, "%s%s\n", *first ? "  next: " : "        ", command);
	*first = false;
}

static void add_next(const struct progress *p, struct str *s, const struct run_row *run)
{
	_cleanup_(freep) char *resume = xasprintf("cairn resume %s", p->run.id.s),
			      *metrics = xasprintf("cairn metrics %s", p->run.id.s),
			      *status = xasprintf("cairn status %s", p->run.id.s);
	bool first = true;

	switch (run->state) {
	case RUN_SUCCEEDED:
		if (p->run.has_metrics)
			add_next_line(s, &first, metrics);
		if (p->run.result) {
			_cleanup_(freep) char *get =
				xasprintf("cairn get %s/%s", p->run.id.s, p->run.result);

			add_next_line(s, &first, get);
		}
		break;
	case RUN_FAILED:
		for (size_t i = 0; i < MIN(p->failed.n, ARRAY_LEN(p->failed.v)); i++) {
			_cleanup_(str_deinit) struct str task = { 0 }, line = { 0 };

			text_add_shell_quoted(&task, p->failed.v[i].s);
			str_addf(&line, "cairn logs -r %s ", p->run.id.s);
			text_add_printable(&line, task.s, task.len);
			add_next_line(s, &first, line.s);
		}
		if (first)
			add_next_line(s, &first, status);
		break;
	case RUN_CANCELLED:
	case RUN_INTERRUPTED:
		add_next_line(s, &first, resume);
		break;
	case RUN_RUNNING:
		break;
	}
}

void progress_has_metrics(struct progress *p)
{
	p->run.has_metrics = true;
}

void progress_has_result(struct progress *p, const char *output)
{
	p->run.result = output;
}

void progress_finish(struct progress *p, const struct run_row *run)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	int64_t took = run->ended_ns > run->started_ns ? run->ended_ns - run->started_ns
						       : progress_now(p) - p->run.started_ns;

	if (p->run.finished)
		return;
	live_clear(p);
	progress_flush(p);
	p->run.finished = true;
	if (!p->o.summary)
		return;
	if (!p->run.id.len)
		text_add_printable(&p->run.id, run->id, strlen(run->id));
	add_head(p, &s, run, took);
	if (p->o.verbosity >= 0) {
		char hex[DIGEST_HEX_MAX];
		add_counts(&s, &run->counts);
		if (run->state == RUN_SUCCEEDED && run->message) {
			str_add(&s, "  ");
			text_add_printable(&s, run->message, strlen(run->message));
			str_addc(&s, '\n');
		}
		if (run->has_hash)
			str_addf(&s, "  run hash %.12s\n", digest_hex(&run->hash, hex));
		add_exported(p, &s);
		add_next(p, &s, run);
	}
	fwrite(s.s, 1, s.len, p->o.summary);
	fflush(p->o.summary);
}
