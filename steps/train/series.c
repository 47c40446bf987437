/* The metrics of a training over time.
 *
 * A point is an object of numbers with its `step`. What isn't finite is null: JSON has no word for it. */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include "base/fs.h"
#include "steps/train/gang.h"

/* A training that prints more than this is writing a log, not metrics. */
#define SERIES_MAX_BYTES (256 * MIB)

struct point {
	double step;
	size_t order; /* points of one step are merged in the order in which they came */
	json_t *values;
};

struct series {
	char *path, *kept;
	int fd, kept_fd;
	uint64_t bytes;
	double next_step; /* for lines that don't say theirs */
	VEC(struct point) points;
};

static void add_point(struct series *s, json_t *values)
{
	const json_t *step = json_object_get(values, "step"), *epoch = json_object_get(values, "epoch");
	double at = json_is_number(step) ? json_number_value(step) : json_is_number(epoch) ? json_number_value(epoch) : s->next_step;

	if (!json_is_number(step))
		json_object_set_new(values, "step", at == floor(at) && fabs(at) < 1e15 ? json_integer((json_int_t)at) : json_real(at));
	s->next_step = at + 1;
	VEC_PUSH(&s->points, ((struct point){ at, s->points.n, values }));
}

static void set_number(void *arg, const char *name, double v)
{
	json_t *values = arg;

	if (!isfinite(v))
		json_object_set_new(values, name, json_null());
	else
		json_object_set_new(values, name, v == floor(v) && fabs(v) < 1e15 ? json_integer((json_int_t)v) : json_real(v));
}

static json_t *point_of_line(const char *line, size_t n)
{
	json_t *values = json_object();

	metrics_of_line(line, n, set_number, values);
	if (json_object_size(values) > (json_object_get(values, "step") ? 1u : 0u))
		return values;
	json_decref(values);
	return NULL;
}

static void add_text(struct str *out, const json_t *values)
{
	json_add_canonical(out, values);
	str_addc(out, '\n');
}

/* What a crash cut off goes, so that what comes now begins a line of its own. */
static int drop_cut_line(struct series *s, struct str *text, struct err *err)
{
	const char *nl = text->len ? memrchr(text->s, '\n', text->len) : NULL;
	size_t whole = nl ? (size_t)(nl - text->s) + 1 : 0;

	if (whole == text->len)
		return 0;
	text->len = whole;
	return truncate(s->kept, (off_t)whole) < 0 ? err_errno(err, "cannot write %s", s->kept) : 0;
}

static int load_kept(struct series *s, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err why = { 0 };

	if (fs_read_file(s->kept, SERIES_MAX_BYTES, &text, &why) < 0)
		return why.code == ERR_NOT_FOUND ? 0 : (*err = why, -1);
	if (drop_cut_line(s, &text, err) < 0)
		return -1;
	for (const char *at = text.s, *end = text.s + text.len; at && at < end;) {
		const char *nl = memchr(at, '\n', (size_t)(end - at));
		json_t *values;

		if (!nl)
			break;
		values = point_of_line(at, (size_t)(nl - at));
		if (values)
			add_point(s, values);
		at = nl + 1;
	}
	s->bytes = text.len;
	return s->fd >= 0 && text.len ? fs_write_all(s->fd, text.s, text.len, err) : 0;
}

int series_open(const char *path, const char *kept, struct series **ret, struct err *err)
{
	struct series *s = xcalloc(1, sizeof(*s));

	s->path = path ? xstrdup(path) : NULL;
	s->kept = kept ? xstrdup(kept) : NULL;
	s->kept_fd = -1;
	s->fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0666) : -1;
	if (path && s->fd < 0) {
		err_errno(err, "cannot write %s", path);
		series_free(s);
		return -1;
	}
	if (kept && load_kept(s, err) < 0) {
		series_free(s);
		return err_wrap(err, "the metrics of earlier attempts");
	}
	*ret = s;
	return 0;
}

/* The checkpoint's directory may come to be only when the program makes it. */
static void keep_line(struct series *s, const struct str *text)
{
	if (!s->kept)
		return;
	if (s->kept_fd < 0)
		s->kept_fd = open(s->kept, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (s->kept_fd >= 0)
		(void)fs_write_all(s->kept_fd, text->s, text->len, NULL);
}

void series_line(struct series *s, const char *line, size_t n)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	json_t *values = s->bytes < SERIES_MAX_BYTES ? point_of_line(line, n) : NULL;

	if (!values)
		return;
	add_point(s, values);
	add_text(&text, values);
	s->bytes += text.len;
	if (s->fd >= 0)
		(void)fs_write_all(s->fd, text.s, text.len, NULL); /* for who looks on; the whole is written at the end */
	keep_line(s, &text);
}

static int by_step(const void *a, const void *b)
{
	const struct point *x = a, *y = b;

	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static void take_last(json_t *last, const json_t *values)
{
	const char *name;
	json_t *v;

	json_object_foreach((json_t *)values, name, v)
		if (strcmp(name, "step") != 0)
			json_object_set(last, name, v);
}

int series_finish(struct series *s, json_t *ret_last, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	size_t n = s->points.n;
	struct point *v = s->points.v;

	if (n)
		qsort(v, n, sizeof(*v), by_step);
	for (size_t i = 0; i < n;) {
		json_t *merged = json_object();
		size_t k = i;

		for (; k < n && v[k].step == v[i].step; k++)
			json_object_update(merged, v[k].values);
		add_text(&text, merged);
		take_last(ret_last, merged);
		json_decref(merged);
		i = k;
	}
	return s->path ? fs_write_atomic(s->path, text.len ? text.s : "", text.len, err) : 0;
}

void series_free(struct series *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->points.n; i++)
		json_decref(s->points.v[i].values);
	VEC_FREE(&s->points);
	fd_closep(&s->fd);
	fd_closep(&s->kept_fd);
	free(s->path);
	free(s->kept);
	free(s);
}
