/* engine/cli/progress/progress.c — events of a run, as lines.
 *
 * The run calls this struct run_observer. Each call updates what is known (counts, rows of running
 * tasks, failures) and, if it matters, adds lines. On a terminal the lines scroll above the block
 * of live.c: lines_begin() removes the block, lines_end() flushes and has it drawn again. Elsewhere
 * there are only lines.
 *
 * A token bucket (`tokens`) keeps a run of ten thousand quick tasks from writing ten thousand
 * lines: a burst of LINES_BURST is allowed, then LINES_PER_S. Lines that are left out are counted
 * in the next one. A task's final failure always gets its line. When nothing was written for
 * SILENCE_NS, progress_status_line() gives a sign of life.
 *
 * Invariants: during the run, all output goes through p->buf and is written in one piece. Rows are
 * in the order of start; slots from n_rows on keep their memory for later tasks. A failure is shown
 * once, although both on_attempt_failed() and on_task_ended() report it (`failed_attempt`).
 *
 * Threads: the loop's. What it doesn't do: redraw (live.c), read output (followed.c), report how
 * the run ended (end.c).
 */
#include <assert.h>
#include <string.h>
#include "base/text/text.h"
#include "cli/progress/internal.h"

#define LINES_BURST  40
#define LINES_PER_S  4
#define SILENCE_NS   (30 * NS_PER_S) /* then a sign of life */
#define TAIL_LINES   12              /* of the log of a failed attempt */
#define TAIL_RETRIED 3               /* of an attempt that is retried */

const char *progress_style(const struct progress *p, enum cli_style s)
{
	return p->o.color ? cli_style_escape(s) : "";
}

void progress_flush(struct progress *p)
{
	if (p->buf.len && !p->o.finding)
		fwrite(p->buf.s, 1, p->buf.len, p->o.out);
	fflush(p->o.out);
	str_reset(&p->buf);
}

/* Lines. */

/* Text that is added to p->buf between these two calls scrolls above the block. */
static void lines_begin(struct progress *p)
{
	live_clear(p);
}

static void lines_end(struct progress *p)
{
	p->lines.last_ns = progress_now(p);
	progress_flush(p);
	live_touch(p);
}

static void add_sign(struct progress *p, enum cli_style style, const char *utf8, const char *ascii)
{
	str_addf(&p->buf, "%s%s%s ", progress_style(p, style), p->o.utf8 ? utf8 : ascii,
		 progress_style(p, STYLE_PLAIN));
}

static void add_text(struct progress *p, const char *s)
{
	_cleanup_(str_deinit) struct str shown = { 0 };

	cli_add_signs(&shown, s, strlen(s), p->o.utf8);
	text_add_printable(&p->buf, shown.s ? shown.s : "", shown.len);
}

/* Whether an optional line may be written now. */
static bool line_allowed(struct progress *p)
{
	int64_t now = progress_now(p);

	p->lines.tokens =
		MIN(p->lines.tokens + (double)(now - p->lines.tokens_at) * LINES_PER_S / NS_PER_S,
		    (double)LINES_BURST);
	p->lines.tokens_at = now;
	if (p->lines.tokens < 1) {
		p->lines.unsaid++;
		return false;
	}
	p->lines.tokens -= 1;
	return true;
}

static void add_unsaid(struct progress *p)
{
	if (!p->lines.unsaid)
		return;
	str_addf(&p->buf, "  and %llu more tasks\n", (unsigned long long)p->lines.unsaid);
	p->lines.unsaid = 0;
}

void progress_status_line(struct progress *p)
{
	int64_t now = progress_now(p);

	if (p->o.verbosity < 0 || now - p->lines.last_ns < SILENCE_NS)
		return;
	lines_begin(p);
	add_unsaid(p);
	str_addf(&p->buf, "  %llu of %llu tasks, %llu running",
		 (unsigned long long)progress_ended(&p->run.counts),
		 (unsigned long long)p->run.counts.total, (unsigned long long)p->run.n_running);
	for (size_t i = 0; i < MIN(p->n_rows, (size_t)3); i++) {
		str_addf(&p->buf, "%s%s ", i ? ", " : ": ", p->rows.v[i].name.s);
		text_add_duration(&p->buf, (now - p->rows.v[i].started_ns) / NS_PER_S * NS_PER_S);
	}
	str_addc(&p->buf, '\n');
	lines_end(p);
}

/* Running tasks. */

static struct row *row_find(struct progress *p, uint64_t attempt)
{
	for (size_t i = 0; i < p->n_rows; i++)
		if (p->rows.v[i].attempt == attempt)
			return &p->rows.v[i];
	return NULL;
}

static void row_remove(struct progress *p, uint64_t attempt)
{
	struct row *r = row_find(p, attempt), gone;

	if (!r)
		return;
	followed_drop(r);
	gone = *r;
	memmove(r, r + 1, (size_t)(p->rows.v + --p->n_rows - r) * sizeof(*r));
	p->rows.v[p->n_rows] = gone; /* its memory is used for the next one */
}

void progress_metric(struct progress *p, uint64_t attempt, const char *name, double value)
{
	struct row *r = row_find(p, attempt);

	if (!r)
		return;
	str_reset(&r->metric);
	text_add_printable(&r->metric, name, strlen(name));
	str_addf(&r->metric, "=%.5g", value);
	live_touch(p);
}

/* Events. */

static void on_started(void *arg, const struct run_row *run, int64_t estimate_ns)
{
	struct progress *p = arg;

	str_reset(&p->run.id);
	text_add_printable(&p->run.id, run->id, strlen(run->id));
	p->run.started_ns = p->lines.last_ns = p->lines.tokens_at = progress_now(p);
	p->block.frame_ns = p->run.started_ns + FIRST_FRAME_NS - FRAME_NS;
	p->run.remaining_ns = estimate_ns > 0 ? estimate_ns : -1;
	if (p->o.verbosity < 0)
		return;
	lines_begin(p);
	str_addf(&p->buf, "%s%s%s", progress_style(p, STYLE_BOLD), p->run.id.s,
		 progress_style(p, STYLE_PLAIN));
	if (run->path) {
		str_add(&p->buf, ": ");
		add_text(p, run->path);
	}
	if (estimate_ns > 0) {
		str_add(&p->buf, ", about ");
		text_add_duration(&p->buf, estimate_ns);
	}
	str_addc(&p->buf, '\n');
	lines_end(p);
}

static void on_progress(void *arg, const struct run_counts *counts, uint64_t running,
			int64_t remaining_ns)
{
	struct progress *p = arg;

	p->run.counts = *counts;
	p->run.n_running = running;
	p->run.remaining_ns = remaining_ns;
	live_touch(p);
}

static void on_task_started(void *arg, uint64_t attempt, const char *task, unsigned number,
			    const char *reason)
{
	struct progress *p = arg;
	struct row *r;

	if (p->n_rows == p->rows.n)
		(void)VEC_ADD(&p->rows);
	r = &p->rows.v[p->n_rows++];
	r->attempt = attempt;
	r->number = number;
	r->started_ns = progress_now(p);
	str_reset(&r->name);
	str_reset(&r->metric);
	str_reset(&r->last_shown);
	r->output = (typeof(r->output)){ .fd = -1 };
	text_add_printable(&r->name, task, strlen(task));
	str_add(&r->name, "");
	if (p->o.verbosity >= 1) {
		lines_begin(p);
		add_sign(p, STYLE_BLUE, "▶", ">");
		str_add(&p->buf, r->name.s);
		if (number > 1)
			str_addf(&p->buf, ", attempt %u", number);
		if (reason && *reason) {
			str_addf(&p->buf, " %s", progress_style(p, STYLE_DIM));
			add_text(p, reason);
			str_add(&p->buf, progress_style(p, STYLE_PLAIN));
		}
		str_addc(&p->buf, '\n');
		lines_end(p);
		return;
	}
	live_touch(p);
}

static void on_attempt_ended(void *arg, uint64_t attempt, const struct content_id *log)
{
	struct row *r = row_find(arg, attempt);

	if (r)
		followed_ended(arg, r, log);
}

static void remember_failed(struct progress *p, const char *task)
{
	if (p->failed.n < ARRAY_LEN(p->failed.v)) {
		str_reset(&p->failed.v[p->failed.n]);
		str_add(&p->failed.v[p->failed.n], task);
	}
	p->failed.n++;
}

/* The last lines of a log, indented. */
static void add_tail(struct progress *p, const char *tail, unsigned max)
{
	const char *end = tail + strlen(tail), *from;
	unsigned n = 0;

	while (end > tail && (end[-1] == '\n' || end[-1] == '\r'))
		end--;
	for (from = end; from > tail; from--)
		if (from[-1] == '\n' && ++n == max)
			break;
	while (from < end) {
		const char *nl = memchr(from, '\n', (size_t)(end - from)), *stop = nl ? nl : end;
		_cleanup_(str_deinit) struct str line = { 0 };

		text_add_printable(&line, from,
				   (size_t)(stop - from) - (stop > from && stop[-1] == '\r'));
		str_add(&line, "");
		str_addf(&p->buf, "    %s", progress_style(p, STYLE_DIM));
		str_addf(&p->buf, "%s%s\n", line.s, progress_style(p, STYLE_PLAIN));
		from = nl ? nl + 1 : end;
	}
}

/* A program reads the reason from the record; a person who reads its log sees why at once. */
static void find_failed(struct progress *p, const char *task, const struct runner_result *result,
			bool will_retry)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	str_addf(&s, "task %s %s after ", task, will_retry ? "had to stop" : "failed");
	text_add_duration(&s, MAX(result->ended_ns - result->started_ns, (int64_t)0));
	str_addf(&s, ": %s",
		 *result->err.msg ? result->err.msg : failure_class_name(result->failure));
	if (result->log_tail && *result->log_tail)
		str_addf(&s, "\n%s", result->log_tail);
	p->o.finding(p->o.arg, will_retry ? DIAG_WARNING : DIAG_ERROR, s.s);
}

static void on_attempt_failed(void *arg, uint64_t attempt, const char *task, unsigned number,
			      const struct runner_result *result, bool will_retry, int64_t delay_ns)
{
	struct progress *p = arg;

	row_remove(p, attempt);
	p->failed_attempt = attempt;
	if (!will_retry)
		remember_failed(p, task);
	else if (p->o.verbosity < 0)
		return;
	if (p->o.finding) {
		find_failed(p, task, result, will_retry);
		return;
	}
	lines_begin(p);
	add_unsaid(p);
	if (will_retry)
		add_sign(p, STYLE_YELLOW, "↻", "!");
	else
		add_sign(p, STYLE_RED, "✗", "FAILED");
	add_text(p, task);
	str_addf(&p->buf, " %s after ", will_retry ? "had to stop" : "failed");
	text_add_duration(&p->buf, MAX(result->ended_ns - result->started_ns, (int64_t)0));
	str_add(&p->buf, ": ");
	add_text(p, *result->err.msg ? result->err.msg : failure_class_name(result->failure));
	if (will_retry) {
		str_addf(&p->buf, "; attempt %u follows", number + 1);
		if (delay_ns > 0) {
			str_add(&p->buf, " in ");
			text_add_duration(&p->buf, delay_ns);
		}
	}
	str_addc(&p->buf, '\n');
	if (result->log_tail && *result->log_tail)
		add_tail(p, result->log_tail,
			 will_retry           ? TAIL_RETRIED
			 : p->o.verbosity > 0 ? 1000
					      : TAIL_LINES);
	if (result->workspace) {
		str_add(&p->buf, "    its workspace: ");
		add_text(p, result->workspace);
		str_addc(&p->buf, '\n');
	}
	lines_end(p);
}

static void say_ended(struct progress *p, const char *task, enum task_outcome outcome,
		      int64_t duration_ns)
{
	static const struct {
		enum cli_style style;
		const char *utf8, *ascii, *word;
	} forms[] = {
		[OUTCOME_HIT] = { STYLE_CYAN, "=", "=", "on record" },
		[OUTCOME_DONE] = { STYLE_GREEN, "✓", "+", "" },
		[OUTCOME_FAILED] = { STYLE_RED, "✗", "FAILED", "failed" },
		[OUTCOME_SKIPPED] = { STYLE_DIM, "-", "-", "skipped" },
		[OUTCOME_BLOCKED] = { STYLE_DIM, "-", "-", "not run" },
		[OUTCOME_CANCELLED] = { STYLE_YELLOW, "-", "-", "stopped" },
	};
	lines_begin(p);
	add_unsaid(p);
	add_sign(p, forms[outcome].style, forms[outcome].utf8, forms[outcome].ascii);
	add_text(p, task);
	str_addf(&p->buf, "%s%s%s", progress_style(p, STYLE_DIM), *forms[outcome].word ? " " : "",
		 forms[outcome].word);
	if (duration_ns > 0 && outcome <= OUTCOME_FAILED) {
		str_add(&p->buf, outcome == OUTCOME_HIT ? ", saves " : " ");
		text_add_duration(&p->buf, duration_ns);
	}
	str_addf(&p->buf, "%s\n", progress_style(p, STYLE_PLAIN));
	lines_end(p);
}

static void on_task_ended(void *arg, uint64_t attempt, const char *task, enum task_outcome outcome,
			  int64_t duration_ns)
{
	struct progress *p = arg;
	bool shown = outcome == OUTCOME_FAILED && attempt && p->failed_attempt == attempt;

	row_remove(p, attempt);
	if (outcome == OUTCOME_FAILED && !shown)
		remember_failed(p, task);
	if (shown)
		live_touch(p);
	else if (outcome == OUTCOME_FAILED || p->o.verbosity >= 1)
		say_ended(p, task, outcome, duration_ns);
	else if (p->o.verbosity == 0 && !p->o.live && outcome == OUTCOME_DONE && line_allowed(p))
		say_ended(p, task, outcome, duration_ns);
	else
		live_touch(p);
}

/* It wasn't executed: a hit, skipped or blocked. */
static void on_task_spared(void *arg, const char *task, enum task_outcome outcome,
			   int64_t duration_ns)
{
	say_ended(arg, task, outcome, duration_ns);
}

/* Whether two reasons differ only in numbers. The number of full nodes, or of a pod, changes all
 * the time. */
static bool says_the_same(const char *a, const char *b)
{
	for (;; a++, b++) {
		a += strspn(a, "0123456789");
		b += strspn(b, "0123456789");
		if (*a != *b || !*a)
			return *a == *b;
	}
}

/* The block shows the reason where the newest metric will stand. Without a block, each reason gets
 * one line. */
static void on_waiting(void *arg, uint64_t attempt, const char *task, const char *why)
{
	struct progress *p = arg;
	struct row *r = row_find(p, attempt);
	/* Somebody has to answer: no limit of lines hides that. */
	const bool asks = why && str_has_prefix(why, "waiting for approval: ");

	if (!r)
		return;
	str_reset(&r->metric);
	if (why)
		text_add_printable(&r->metric, why, strlen(why));
	if (p->o.live || !why || p->o.verbosity < 0 ||
	    (r->last_shown.s && says_the_same(r->last_shown.s, r->metric.s)) ||
	    (p->lines.tokens < 1 && !asks)) {
		live_touch(p);
		return;
	}
	(void)line_allowed(p);
	str_reset(&r->last_shown);
	str_add(&r->last_shown, r->metric.s);
	lines_begin(p);
	if (asks)
		str_addf(&p->buf, "  %s\n", r->metric.s);
	else
		str_addf(&p->buf, "  %s waits: %s\n", r->name.s, r->metric.s);
	lines_end(p);
}

static void on_metric(void *arg, uint64_t attempt, const char *name, double value)
{
	progress_metric(arg, attempt, name, value);
}

static void on_notice(void *arg, const char *text)
{
	struct progress *p = arg;

	if (p->o.verbosity < 0)
		return;
	if (p->o.finding)
		p->o.finding(p->o.arg, DIAG_WARNING, text);
	lines_begin(p);
	add_sign(p, STYLE_YELLOW, "·", "-");
	add_text(p, text);
	str_addc(&p->buf, '\n');
	lines_end(p);
}

static void on_ended(void *arg, const struct run_row *run)
{
	progress_finish(arg, run);
}

void progress_plain(struct progress *p)
{
	live_clear(p);
	progress_flush(p);
	p->o.live = false;
}

void progress_follow(struct progress *p, const char *state_dir, struct store *store)
{
	assert(store);
	p->o.state_dir = state_dir;
	p->o.store = store;
}

/* Life cycle. */

struct progress *progress_new(const struct progress_options *o)
{
	struct progress *p = xcalloc(1, sizeof(*p));

	p->o = *o;
	p->fixed_size = o->columns && o->lines;
	if (!p->fixed_size)
		cli_terminal_size(o->out, &p->o.columns, &p->o.lines);
	p->o.columns = MAX(p->o.columns, 20u);
	p->run.remaining_ns = -1;
	p->lines.tokens = LINES_BURST;
	p->block.frame_ns = -FRAME_NS;
	p->run.started_ns = p->lines.last_ns = progress_now(p);
	p->observer =
		(struct run_observer){ .started = on_started,
				       .progress = on_progress,
				       .task_started = on_task_started,
				       .attempt_ended = on_attempt_ended,
				       .task_ended = on_task_ended,
				       .task_spared = o->verbosity >= 1 ? on_task_spared : NULL,
				       .attempt_failed = on_attempt_failed,
				       .metric = o->live ? on_metric : NULL,
				       .waiting = on_waiting,
				       .notice = on_notice,
				       .exported = progress_exported,
				       .ended = on_ended,
				       .arg = p };
	return p;
}

static void add_finding(void *arg, enum diag_severity severity, const char *text)
{
	cli_add_finding(arg, &(struct diag){ .severity = severity, .message = text });
}

struct progress *progress_for(struct cli *cli, struct clock *clock)
{
	struct progress_options o = { .out = cli->err,
				      .summary = cli->json ? NULL : cli->out,
				      .color_summary = cli->color_out,
				      .clock = clock,
				      .live = cli->tty_err && cli->verbosity >= 0 && !cli->json,
				      .color = cli->color_err,
				      .utf8 = cli->utf8,
				      .verbosity =
					      cli->json ? MIN(cli->verbosity, 0) : cli->verbosity,
				      .finding = cli->json ? add_finding : NULL,
				      .arg = cli };
	return progress_new(&o);
}

void progress_free(struct progress *p)
{
	if (!p)
		return;
	progress_detach(p);
	if (p->block.n_drawn) {
		live_clear(p);
		progress_flush(p);
	}
	for (size_t i = 0; i < p->n_rows; i++)
		followed_drop(&p->rows.v[i]);
	for (size_t i = 0; i < p->rows.n; i++) {
		str_deinit(&p->rows.v[i].name);
		str_deinit(&p->rows.v[i].metric);
		str_deinit(&p->rows.v[i].last_shown);
	}
	for (size_t i = 0; i < ARRAY_LEN(p->failed.v); i++)
		str_deinit(&p->failed.v[i]);
	for (size_t i = 0; i < ARRAY_LEN(p->exported.v); i++)
		str_deinit(&p->exported.v[i]);
	VEC_FREE(&p->rows);
	str_deinit(&p->run.id);
	str_deinit(&p->buf);
	free(p->block.drawn);
	free(p);
}

const struct run_observer *progress_observer(struct progress *p)
{
	return &p->observer;
}
