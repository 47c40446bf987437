/* The tail of a metrics file. */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include "base/json.h"
#include "runners/series.h"

/* Longer lines aren't for people. */
#define TAIL_BYTES (8 * KIB)

static bool last_line(const char *buf, size_t n, const char **ret, size_t *ret_n)
{
	const char *end = memrchr(buf, '\n', n), *start;

	if (!end || end == buf)
		return false;
	start = memrchr(buf, '\n', (size_t)(end - buf));
	if (!start && n == TAIL_BYTES)
		return false; /* its beginning is further up */
	start = start ? start + 1 : buf;
	*ret = start;
	*ret_n = (size_t)(end - start);
	return true;
}

void series_look(struct series_tail *t, int dir_fd, const char *path, void (*fn)(void *arg, const char *name, double value), void *arg)
{
	char buf[TAIL_BYTES];
	const char *line, *name;
	struct stat st;
	uint64_t from;
	json_t *j, *v;
	ssize_t n;
	size_t len;

	if (t->fd < 0)
		t->fd = openat(dir_fd, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (t->fd < 0 || fstat(t->fd, &st) < 0 || !S_ISREG(st.st_mode) || (uint64_t)st.st_size == t->size)
		return;
	t->size = (uint64_t)st.st_size;
	from = t->size > TAIL_BYTES ? t->size - TAIL_BYTES : 0;
	n = pread(t->fd, buf, sizeof(buf), (off_t)from);
	if (n <= 0 || !last_line(buf, (size_t)n, &line, &len) || json_parse("series", line, len, &j, NULL) < 0)
		return;
	json_object_foreach(j, name, v)
		if (json_is_number(v) && strcmp(name, "step") != 0 && strcmp(name, "time") != 0)
			fn(arg, name, json_number_value(v));
	json_decref(j);
}

void series_close(struct series_tail *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}
