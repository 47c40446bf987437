/* steps/step.c — helpers for steps: ports, settings, metrics, progress.
 *
 * Settings are read from the complete form, so a missing one or a wrong type is a bug in our
 * tables: it is asserted.
 *
 * A metric's name is split at its dots into nested objects of a->metrics. program.c writes the file
 * at the end, so metrics belong to run()'s thread.
 *
 * Progress is one static state for the process, under one lock, since a process runs one step. A
 * line is printed when it is due (progress.next_ns); the last one of a phase is kept in `unit` and
 * printed when the next phase or the end comes. On a terminal `on_line` means that a line must
 * still be ended before other text.
 */
#include "steps/step.h"
#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include "base/text/text.h"
#include "base/time/clock.h"

/* Time between two progress lines: a terminal's is rewritten in place, a log keeps each. */
#define PROGRESS_TERMINAL_NS NS_PER_S
#define PROGRESS_LOG_NS      (10 * NS_PER_S)

static const struct step_port *find_port(const struct step_port *v, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(v[i].name, name) == 0)
			return &v[i];
	return NULL;
}

const struct step_port *step_input(const struct step_args *a, const char *name)
{
	return find_port(a->inputs, a->n_inputs, name);
}

const struct step_port *step_output(const struct step_args *a, const char *name)
{
	return find_port(a->outputs, a->n_outputs, name);
}

/* Settings. */

const json_t *step_value(const json_t *with, const char *name)
{
	return json_object_get(with, name);
}

bool step_bool(const json_t *with, const char *name)
{
	const json_t *v = step_value(with, name);

	assert(json_is_boolean(v));
	return json_is_true(v);
}

int64_t step_int(const json_t *with, const char *name)
{
	const json_t *v = step_value(with, name);

	assert(json_is_integer(v));
	return json_integer_value(v);
}

double step_float(const json_t *with, const char *name)
{
	const json_t *v = step_value(with, name);

	assert(json_is_number(v));
	return json_number_value(v);
}

int64_t step_duration(const json_t *with, const char *name)
{
	int64_t ns = 0;
	int r = text_parse_duration(step_text(with, name), &ns, NULL);

	assert(r == 0);
	return ns;
}

const char *step_text(const json_t *with, const char *name)
{
	return json_string_value(step_value(with, name));
}

size_t step_choice(const struct step_args *a, const char *name)
{
	const char *text = step_text(a->with, name);
	const struct spec_option *o = a->spec->options;
	struct spec_choices c;
	size_t i = 0;

	while (o->name && strcmp(o->name, name) != 0)
		o++;
	assert(o->name);
	spec_choices_of(o, &c);
	while (i < c.n && strcmp(c.v[i], text) != 0)
		i++;
	assert(i < c.n);
	return i;
}

/* Metrics. */

json_t *step_number(double v)
{
	if (!isfinite(v))
		return json_null();
	return v == floor(v) && fabs(v) < 1e15 ? json_integer((json_int_t)v) : json_real(v);
}

void step_metric(struct step_args *a, const char *name, double value)
{
	json_t *at = a->metrics;
	const char *dot;

	while ((dot = strchr(name, '.'))) {
		char part[256];
		json_t *inner;

		snprintf(part, sizeof(part), "%.*s", (int)(dot - name), name);
		inner = json_object_get(at, part);
		if (!inner) {
			inner = json_object();
			json_object_set_new(at, part, inner);
		}
		at = inner;
		name = dot + 1;
	}
	json_object_set_new(at, name, step_number(value));
}

/* Progress. */

static struct {
	pthread_mutex_t lock;
	int64_t next_ns;
	uint64_t done, total; /* the last values, which may not be printed yet */
	const char *unit;     /* NULL: it is printed */
	bool on_line;         /* a terminal's line must be ended before other text */
} progress = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Prints the pending line; call it under the lock. */
static void print_progress(bool terminal)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	if (!progress.unit)
		return;
	text_add_count(&s, progress.done);
	if (progress.total) {
		str_add(&s, " of ");
		text_add_count(&s, progress.total);
	}
	str_addf(&s, " %s", progress.unit);
	fprintf(stderr, terminal ? "\r\033[K%s" : "%s\n", s.s);
	progress.on_line = terminal;
	progress.unit = NULL;
}

void step_progress(uint64_t done, uint64_t total, const char *unit)
{
	int64_t now = clock_mono_ns();
	bool terminal = isatty(STDERR_FILENO);

	assert(unit);
	pthread_mutex_lock(&progress.lock);
	/* Another phase begins: print the last line of the old one. */
	if (progress.unit && strcmp(progress.unit, unit) != 0)
		print_progress(terminal);
	/* Workers count in order, but their calls may arrive in any order. */
	progress.done = progress.unit ? MAX(progress.done, done) : done;
	progress.total = total;
	progress.unit = unit;
	if (now >= progress.next_ns) {
		progress.next_ns = now + (terminal ? PROGRESS_TERMINAL_NS : PROGRESS_LOG_NS);
		print_progress(terminal);
	}
	pthread_mutex_unlock(&progress.lock);
}

void step_progress_end(void)
{
	pthread_mutex_lock(&progress.lock);
	print_progress(isatty(STDERR_FILENO));
	if (progress.on_line)
		fputc('\n', stderr);
	progress.on_line = false;
	pthread_mutex_unlock(&progress.lock);
}

void step_note(const char *fmt, ...)
{
	_cleanup_(str_deinit) struct str s = { 0 };
	va_list ap;

	va_start(ap, fmt);
	str_addv(&s, fmt, ap);
	va_end(ap);
	pthread_mutex_lock(&progress.lock);
	fprintf(stderr, "%snote: %s\n", progress.on_line ? "\r\033[K" : "", s.s);
	progress.on_line = false;
	pthread_mutex_unlock(&progress.lock);
}
