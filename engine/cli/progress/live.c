/* engine/cli/progress/live.c — the block at the bottom of a terminal: a line per running task, then
 * a bar.
 *
 * A frame goes up to the block's first line and draws over it, each line followed by "clear to the
 * end of line", then "clear below". A frame is one write. No line reaches the last column, so that
 * no terminal wraps it; after the terminal got narrower, lines that were drawn wider count as
 * several (`drawn` keeps each line's columns). The cursor rests at the start of the line below the
 * block.
 *
 * Events only mark the block as dirty. It is drawn at once when the last frame is FRAME_NS old;
 * otherwise the timer draws it then. The same timer fires once a second, because times in the block
 * go on; without a block it gives signs of life.
 *
 * Invariants: at most one timer is armed, at `timer_at`. Nothing is drawn once the run has
 * finished.
 *
 * Threads: the loop's; SIGWINCH comes through the loop as well.
 */
#include <assert.h>
#include <signal.h>
#include <string.h>
#include "base/text/text.h"
#include "cli/progress/internal.h"
#include "cli/render/table.h"

#define TIME_COLUMNS 7 /* "99h59m" */
#define METRIC_MIN   18
#define NAME_MIN     12
#define BAR_MIN      8
#define BAR_MAX      30

/* One frame. */

static unsigned physical_lines(const struct progress *p)
{
	unsigned n = 0;

	for (size_t i = 0; i < p->block.n_drawn; i++)
		n += p->block.drawn[i] <= p->o.columns
			     ? 1
			     : (p->block.drawn[i] + p->o.columns - 1) / p->o.columns;
	return n;
}

void live_clear(struct progress *p)
{
	unsigned n = physical_lines(p);

	if (n)
		str_addf(&p->buf, "\033[%uA\r\033[J", n);
	p->block.n_drawn = 0;
}

static void end_line(struct progress *p, size_t columns)
{
	assert(columns < p->o.columns); /* the last column would wrap the line */
	str_add(&p->buf, "\033[K\n");
	p->block.drawn =
		xreallocarray(p->block.drawn, p->block.n_drawn + 1, sizeof(*p->block.drawn));
	p->block.drawn[p->block.n_drawn++] = (unsigned)columns;
}

/* Whole seconds: changing tenths would only distract. */
static void add_seconds(struct str *out, int64_t ns)
{
	if (ns < 10 * NS_PER_S)
		str_addf(out, "%ds", (int)(ns / NS_PER_S));
	else
		text_add_duration(out, ns / NS_PER_S * NS_PER_S);
}

static void draw_row(struct progress *p, const struct row *r, size_t name_columns, int64_t now)
{
	_cleanup_(str_deinit) struct str time = { 0 }, note = { 0 };
	size_t used = 2 + name_columns + 2 + TIME_COLUMNS;
	size_t left = p->o.columns - 1 > used + 2 ? p->o.columns - 1 - used - 2 : 0;

	add_seconds(&time, now - r->started_ns);
	if (r->number > 1)
		str_addf(&note, "attempt %u%s", r->number, r->metric.len ? "  " : "");
	if (r->metric.len)
		str_addn(&note, r->metric.s, r->metric.len);
	if (r->output.last.len)
		str_addf(&note, "%s%.*s", note.len ? "  " : "", (int)MIN(r->output.last.len, 500),
			 r->output.last.s);
	str_add(&p->buf, "  ");
	table_add_cut(&p->buf, r->name.s, name_columns, p->o.utf8);
	str_addf(&p->buf, "  %s%*s%s", progress_style(p, STYLE_DIM), TIME_COLUMNS, time.s,
		 progress_style(p, STYLE_PLAIN));
	if (note.len && left >= 6) {
		str_add(&p->buf, "  ");
		used += 2 + MIN(left, text_width(note.s, note.len));
		table_add_cut(&p->buf, note.s, MIN(left, text_width(note.s, note.len)), p->o.utf8);
	}
	end_line(p, used);
}

static void draw_rows(struct progress *p, int64_t now)
{
	size_t room = p->o.lines > 4 ? p->o.lines - 3 : 1,
	       n = MIN(MIN(p->n_rows, room), (size_t)ROWS_MAX), name = 0, space;
	bool notes = false; /* there are notes after the times; else the names get that room */
	_cleanup_(str_deinit) struct str more = { 0 };

	if (p->n_rows > n && n > 0)
		n--; /* its line says how many more there are */
	space = p->o.columns - 1 > 2 + 2 + TIME_COLUMNS ? p->o.columns - 1 - 2 - 2 - TIME_COLUMNS
							: 1;
	for (size_t i = 0; i < n; i++) {
		const struct row *r = &p->rows.v[i];

		name = MAX(name, text_width(r->name.s, r->name.len));
		notes |= r->metric.len || r->number > 1 || r->output.last.len;
	}
	name = MIN(name, space);
	if (name > NAME_MIN && space - name < METRIC_MIN + 2 && notes)
		name = MIN(name, MAX(space, (size_t)(METRIC_MIN + 2 + NAME_MIN)) - METRIC_MIN - 2);
	name = MIN(name, space);
	for (size_t i = 0; i < n; i++)
		draw_row(p, &p->rows.v[i], name, now);
	if (p->n_rows > n) {
		str_addf(&more, "  and %zu more running", p->n_rows - n);
		if (more.len >= p->o.columns)
			more.len = p->o.columns - 1;
		str_addn(&p->buf, more.s, more.len);
		end_line(p, more.len);
	}
}

/* The bar. */

struct part {
	char text[96];
	enum cli_style style;
};

static size_t bar_parts(const struct progress *p, struct part *v)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	const struct run_counts *c = &p->run.counts;
	size_t n = 0;

	if (c->failed) {
		v[n].style = STYLE_RED;
		snprintf(v[n++].text, sizeof(v->text), "%llu failed",
			 (unsigned long long)c->failed);
	}
	if (p->run.remaining_ns >= 0 && progress_ended(c) < c->total) {
		add_seconds(&s, p->run.remaining_ns);
		v[n].style = STYLE_PLAIN;
		snprintf(v[n++].text, sizeof(v->text), "%s left", s.s);
	}
	if (c->hits) {
		str_reset(&s);
		text_add_duration(&s, c->saved_ns);
		v[n].style = STYLE_CYAN;
		snprintf(v[n++].text, sizeof(v->text),
			 c->saved_ns >= NS_PER_MS ? "%llu hits saved %s" : "%llu hits",
			 (unsigned long long)c->hits, s.s);
	}
	if (c->skipped + c->blocked) {
		v[n].style = STYLE_DIM;
		snprintf(v[n++].text, sizeof(v->text), "%llu not run",
			 (unsigned long long)(c->skipped + c->blocked));
	}
	return n;
}

static void draw_bar_itself(struct progress *p, size_t columns)
{
	const struct run_counts *c = &p->run.counts;
	size_t full =
		c->total ? (size_t)((double)columns * (double)MIN(progress_ended(c), c->total) /
				    (double)c->total)
			 : 0;

	str_add(&p->buf, progress_style(p, c->failed ? STYLE_RED : STYLE_GREEN));
	for (size_t i = 0; i < full; i++)
		str_add(&p->buf, p->o.utf8 ? "━" : "#");
	str_add(&p->buf, progress_style(p, STYLE_PLAIN));
	str_add(&p->buf, progress_style(p, STYLE_DIM));
	for (size_t i = full; i < columns; i++)
		str_add(&p->buf, p->o.utf8 ? "─" : "-");
	str_addf(&p->buf, "%s ", progress_style(p, STYLE_PLAIN));
}

/* Adds the parts from the left as far as they fit; the bar takes the rest. */
static void draw_bar(struct progress *p, int64_t now)
{
	struct part parts[8];
	_cleanup_(str_deinit) struct str head = { 0 };
	size_t n = bar_parts(p, parts), kept = 0, used, room = p->o.columns - 1;

	str_addf(&head, "%llu/%llu  ", (unsigned long long)progress_ended(&p->run.counts),
		 (unsigned long long)p->run.counts.total);
	add_seconds(&head, now - p->run.started_ns);
	if (head.len > room)
		head.len = room;
	for (used = head.len; kept < n && used + 2 + strlen(parts[kept].text) <= room; kept++)
		used += 2 + strlen(parts[kept].text);
	if (used + 1 + BAR_MIN <= room) {
		size_t bar = MIN(room - used - 1, (size_t)BAR_MAX);
		draw_bar_itself(p, bar);
		used += bar + 1;
	}
	str_addn(&p->buf, head.s, head.len);
	for (size_t i = 0; i < kept; i++)
		str_addf(&p->buf, "  %s%s%s", progress_style(p, parts[i].style), parts[i].text,
			 parts[i].style == STYLE_PLAIN ? "" : progress_style(p, STYLE_PLAIN));
	end_line(p, used);
}

/* Timing. */

static void on_timer(void *arg);

static void arm(struct progress *p, int64_t at)
{
	if (!p->loop || (p->timer && p->timer_at <= at))
		return;
	loop_remove(p->loop, p->timer);
	p->timer = loop_add_timer(p->loop, at, on_timer, p);
	p->timer_at = at;
}

/* Times of running tasks change once a second. */
static void on_timer(void *arg)
{
	struct progress *p = arg;

	p->timer = NULL;
	followed_poll(p);
	if (p->o.live) {
		p->block.dirty = true;
		progress_draw(p, false);
	} else {
		progress_status_line(p);
	}
	arm(p, progress_now(p) + (p->o.live && p->block.dirty ? FRAME_NS
				  : p->o.state_dir            ? FOLLOW_NS
							      : NS_PER_S));
}

void live_touch(struct progress *p)
{
	p->block.dirty = true;
	if (!p->o.live || p->run.finished)
		return;
	progress_draw(p, false);
	if (p->block.dirty)
		arm(p, p->block.frame_ns + FRAME_NS);
}

void progress_draw(struct progress *p, bool now)
{
	if (!p->o.live || p->run.finished ||
	    (!now && (!p->block.dirty || progress_now(p) - p->block.frame_ns < FRAME_NS)))
		return;
	if (p->run.counts.total) {
		int64_t at = progress_now(p);
		unsigned up = physical_lines(p);

		if (up)
			str_addf(&p->buf, "\033[%uA\r", up);
		p->block.n_drawn = 0;
		draw_rows(p, at);
		draw_bar(p, at);
		str_add(&p->buf, "\033[J");
		p->block.frame_ns = at;
		p->block.dirty = false;
	}
	progress_flush(p);
}

static void on_winch(void *arg, int signo)
{
	struct progress *p = arg;
	unsigned before = p->o.columns;

	cli_terminal_size(p->o.out, &p->o.columns, &p->o.lines);
	p->o.columns = MAX(p->o.columns, 20u);
	if (p->o.columns != before || p->block.n_drawn) {
		live_clear(p);
		progress_draw(p, true);
	}
}

int progress_attach(struct progress *p, struct loop *loop, struct err *err)
{
	assert(!p->loop && !p->run.finished);
	if (p->o.live && !p->fixed_size &&
	    loop_add_signal(loop, SIGWINCH, on_winch, p, &p->winch, err) < 0)
		return -1;
	p->loop = loop;
	arm(p, progress_now(p) + (p->o.state_dir ? FOLLOW_NS : NS_PER_S));
	return 0;
}

void progress_detach(struct progress *p)
{
	if (!p->loop)
		return;
	loop_remove(p->loop, p->timer);
	loop_remove(p->loop, p->winch);
	p->timer = p->winch = NULL;
	p->loop = NULL;
}
