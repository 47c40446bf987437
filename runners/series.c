/* runners/series.c — the tail of a metrics file. */
#include "runners/series.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "base/text/json.h"

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

void series_look(struct series_tail *t, int dir_fd, const char *path,
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
	if (t->fd < 0 || fstat(t->fd, &st) < 0 || !S_ISREG(st.st_mode) ||
	    (uint64_t)st.st_size == t->size)
		return;
	t->size = (uint64_t)st.st_size;
	from = t->size > sizeof(buf) ? t->size - sizeof(buf) : 0;
	n = pread(t->fd, buf, sizeof(buf), (off_t)from);
	if (n <= 0 || !last_line(buf, (size_t)n, from == 0, &line, &len) ||
	    json_parse("series", line, len, &j, NULL) < 0)
		return;
	json_object_foreach(j, name, v) if (json_is_number(v) && strcmp(name, "step") != 0 &&
					    strcmp(name, "time") != 0)
		fn(arg, name, json_number_value(v));
	json_decref(j);
}

void series_close(struct series_tail *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}
