#include "base/log.h"
#include "base/text.h"

static enum log_level level_max = LOG_LEVEL_INFO;
static int log_fd = 2;
static struct {
	void (*before)(void *arg);
	void (*after)(void *arg);
	void *arg;
} hooks;

void log_set_level(enum log_level max)
{
	level_max = max;
}

enum log_level log_get_level(void)
{
	return level_max;
}

void log_set_fd(int fd)
{
	log_fd = fd;
}

void log_set_hooks(void (*before)(void *arg), void (*after)(void *arg), void *arg)
{
	hooks.before = before;
	hooks.after = after;
	hooks.arg = arg;
}

void log_atv(enum log_level level, const char *fmt, va_list ap)
{
	_cleanup_(str_deinit) struct str raw = { 0 }, line = { 0 };

	if (level > level_max)
		return;
	str_addv(&raw, fmt, ap);
	str_add(&line, level == LOG_LEVEL_ERROR ? "error: " : level == LOG_LEVEL_WARNING ? "warning: " : "");
	text_add_printable(&line, raw.len ? raw.s : "", raw.len);
	str_addc(&line, '\n');
	if (hooks.before)
		hooks.before(hooks.arg);
	if (write(log_fd, line.s, line.len) < 0) {
		/* Nowhere left to say it. */
	}
	if (hooks.after)
		hooks.after(hooks.arg);
}

void log_at(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_atv(level, fmt, ap);
	va_end(ap);
}

void log_err(const struct err *err)
{
	log_at(LOG_LEVEL_ERROR, "%s", err->msg);
}
