/* runners/series/series.c — the tail of a metrics file, or of a directory (events.c). */
#include "runners/series/series.h"
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "runners/series/events.h"

/* Longer lines, with their ends, are skipped: they aren't for people. */
#define LINE_BYTES (8 * KIB)

/* `whole`: buf begins at the start of the file. */
static bool last_line(const char *buf, size_t n, bool whole, const char **ret, size_t *ret_n)
{
	const char *end = memrchr(buf, '\n', n), *start;

	if (!end || end == buf)
		return false;
	start = memrchr(buf, '\n', (size_t)(end - buf));
	if (!start && !whole)
		return false; /* the line begins before buf */
	start = start ? start + 1 : buf;
	*ret = start;
	*ret_n = (size_t)(end - start);
	return *ret_n < LINE_BYTES;
}

/* These say when, not what. */
static bool is_axis(const char *name)
{
	return !*name || strcmp(name, "step") == 0 || strcmp(name, "epoch") == 0 ||
	       strcmp(name, "time") == 0 || strcmp(name, "wall_time") == 0;
}

/* The header of a CSV and its last line, both cut at their commas. */
static void report_columns(int fd, const char *line, size_t len, const char *wanted,
			   void (*fn)(void *arg, const char *name, double value), void *arg)
{
	char header[LINE_BYTES + 1];
	ssize_t n = pread(fd, header, sizeof(header), 0);
	const char *name = header, *at = line, *stop = line + len,
		   *end = n > 0 ? memchr(header, '\n', (size_t)n) : NULL;

	while (end && name < end && at <= stop) {
		const char *comma = memchr(name, ',', (size_t)(end - name)),
			   *next = memchr(at, ',', (size_t)(stop - at));
		char key[128], number[64];
		double v;

		comma = comma ? comma : end;
		next = next ? next : stop;
		snprintf(key, sizeof(key), "%.*s", (int)(comma - name), name);
		snprintf(number, sizeof(number), "%.*s", (int)(next - at), at);
		key[strcspn(key, "\r")] = number[strcspn(number, "\r")] = '\0';
		if ((wanted ? strcmp(key, wanted) == 0 : !is_axis(key)) &&
		    text_is_utf8(key, strlen(key)) && text_parse_double(number, &v) && isfinite(v))
			fn(arg, wanted ? SERIES_STEP : key, v);
		name = comma + 1;
		at = next + 1;
	}
}

struct step_seen {
	double value;
	bool seen;
};

static void see_step(void *arg, const char *name, double value)
{
	struct step_seen *s = arg;

	(void)name;
	*s = (struct step_seen){ value, true };
}

static void report_row(int fd, const char *line, size_t len,
		       void (*fn)(void *arg, const char *name, double value), void *arg)
{
	static const char *const axes[] = { SERIES_STEP, "epoch" };
	struct step_seen step = { 0 };

	for (size_t i = 0; i < ARRAY_LEN(axes) && !step.seen; i++)
		report_columns(fd, line, len, axes[i], see_step, &step);
	if (step.seen)
		fn(arg, SERIES_STEP, step.value);
	report_columns(fd, line, len, NULL, fn, arg);
}

void series_poll(struct series_tail *t, int dir_fd, const char *path,
		 void (*fn)(void *arg, const char *name, double value), void *arg)
{
	char buf[LINE_BYTES + 1]; /* one more for the end of the line before */
	const char *line, *name;
	struct stat st;
	uint64_t from;
	json_t *j, *v;
	ssize_t n;
	size_t len;

	if (t->fd < 0)
		t->fd = fs_open_beneath(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK, true);
	if (t->fd < 0 || fstat(t->fd, &st) < 0)
		return;
	if (S_ISDIR(st.st_mode) && st.st_nlink == 0) { /* it may be made anew */
		series_close(t);
		return;
	}
	if (S_ISDIR(st.st_mode)) {
		t->events = t->events ? t->events : event_tail_new();
		event_tail_poll(t->events, t->fd, fn, arg);
		return;
	}
	if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size == t->size)
		return;
	t->size = (uint64_t)st.st_size;
	from = t->size > sizeof(buf) ? t->size - sizeof(buf) : 0;
	n = pread(t->fd, buf, sizeof(buf), (off_t)from);
	if (n <= 0 || !last_line(buf, (size_t)n, from == 0, &line, &len) || len == 0)
		return;
	if (line[0] != '{') {
		report_row(t->fd, line, len, fn, arg);
		return;
	}
	if (json_parse("series", line, len, &j, NULL) < 0)
		return;
	v = json_object_get(j, SERIES_STEP);
	if (!json_is_number(v))
		v = json_object_get(j, "epoch");
	if (json_is_number(v))
		fn(arg, SERIES_STEP, json_number_value(v));
	json_object_foreach(j, name, v) if (json_is_number(v) && !is_axis(name))
		fn(arg, name, json_number_value(v));
	json_decref(j);
}

void series_close(struct series_tail *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
	event_tail_free(t->events);
	t->events = NULL;
}
