#include "serve/event.h"
#include <assert.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include "base/text/text.h"
#include "base/time/clock.h"

static struct {
	bool json, journal;
	enum event_level max;
	atomic_uint_least64_t count[EVENT_DEBUG + 1];
} events = { .max = EVENT_INFO };

static const char *const level_names[] = { "error", "warning", "info", "debug" };

void event_init(bool json, enum event_level max)
{
	const char *journal = getenv("JOURNAL_STREAM");

	events.json = json;
	events.journal = journal && *journal;
	events.max = max;
}

uint64_t event_count(enum event_level level)
{
	return atomic_load_explicit(&events.count[level], memory_order_relaxed);
}

/* Words stay bare and everything else is quoted, so that a line can be parsed. */
static void add_text(struct str *out, const char *s)
{
	bool bare = *s != '\0';

	for (const char *c = s; *c && bare; c++)
		bare = (unsigned char)*c > ' ' && (unsigned char)*c < 0x7f && *c != '"' &&
		       *c != '\\' && *c != '=';
	if (bare)
		str_add(out, s);
	else
		json_add_string(out, s, strlen(s));
}

static void add_line(struct str *line, enum event_level level, const char *name, json_t *fields)
{
	static const char priority[] = { '3', '4', '6', '7' }; /* syslog(3) */
	_cleanup_(str_deinit) struct str time = { 0 };
	struct clock *c = clock_system();
	const char *key;
	json_t *v;

	text_add_time(&time, c->wall_ns(c), 3);
	if (events.json) {
		json_object_set_new(fields, "time", json_string(time.s));
		json_object_set_new(fields, "level", json_string(level_names[level]));
		json_object_set_new(fields, "event", json_string(name));
		json_add_canonical(line, fields);
	} else {
		if (events.journal)
			str_addf(line, "<%c>%s", priority[level], name);
		else
			str_addf(line, "%s %s %s", time.s, level_names[level], name);
		json_object_foreach(fields, key, v)
		{
			str_addf(line, " %s=", key);
			if (json_is_string(v))
				add_text(line, json_string_value(v));
			else
				json_add_canonical(line, v);
		}
	}
	str_addc(line, '\n');
}

void event(enum event_level level, const char *name, const char *fmt, ...)
{
	_cleanup_(str_deinit) struct str line = { 0 };
	json_t *fields = NULL;
	va_list ap;

	assert(level <= EVENT_DEBUG);
	atomic_fetch_add_explicit(&events.count[level], 1, memory_order_relaxed);
	if (fmt) { /* also for a hidden event: this takes over references */
		va_start(ap, fmt);
		fields = json_vpack_ex(NULL, 0, fmt, ap);
		va_end(ap);
	}
	if (!fields)
		fields = json_object();
	if (level <= events.max) {
		add_line(&line, level, name, fields);
		if (write(2, line.s, line.len) < 0) {
			/* There is nowhere left to report it. */
		}
	}
	json_decref(fields);
}

void event_err(const char *name, const char *what, const struct err *err)
{
	event(EVENT_ERROR, name, "{s:s*, s:o}", "what", what, "error",
	      json_name(err->msg, strlen(err->msg)));
}
