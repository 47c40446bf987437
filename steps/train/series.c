/* steps/train/series.c — the metrics of a training over time.
 *
 * A point is an object of numbers with its `step` (or `epoch`, else one more than the point
 * before). A value that isn't finite is null, since JSON can't express it.
 *
 * Points are kept in memory as their lines, in the order in which they come. Each is appended to
 * two files at once: the output `series`, for readers meanwhile, and `kept`, a copy in the
 * checkpoint that outlives the attempt. series_open() reads `kept` first and drops a line that a
 * crash cut off. series_finish() sorts by step, merges points of one step (the later value wins),
 * and rewrites the output atomically. So an interrupted and resumed training gives the same file as
 * an uninterrupted one.
 *
 * The lines in memory, and those in `kept`, are bounded by SERIES_MAX_BYTES each. Later lines
 * aren't points any more: only their last values are kept (`rest`), for the step's metrics. `last`
 * and `last_at` hold the last value of each metric among the points and its step, as many as there
 * are names.
 *
 * A failed write of a line doesn't end the training. One thread, the gang's. lines.c decides which
 * lines are metrics.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include "base/os/fs.h"
#include "steps/train/gang.h"

/* A training that prints more than this is writing a log, not metrics. */
#define SERIES_MAX_BYTES (256 * MIB)

/* As JSON objects they would take fifteen times the memory of their lines. */
struct point {
	double step;
	size_t at; /* offset of its line in `lines`, which is in the order of arrival */
};

struct series {
	char *path, *kept;
	int fd, kept_fd;
	uint64_t bytes;   /* in `kept` */
	double next_step; /* for lines without a step */
	VEC(struct point) points;
	struct str lines;
	json_t *last, *last_at;
	json_t *rest; /* last values once there was no more room; NULL: there was always room */
};

/* Sets the step in `values`. */
static double place(struct series *s, json_t *values)
{
	const json_t *step = json_object_get(values, "step"),
		     *epoch = json_object_get(values, "epoch");
	double at = json_is_number(step)    ? json_number_value(step)
		    : json_is_number(epoch) ? json_number_value(epoch)
					    : s->next_step;

	if (!json_is_number(step))
		json_object_set_new(values, "step", step_number(at));
	s->next_step = at + 1;
	return at;
}

/* Of two values at one step the later one wins. */
static void note_last(struct series *s, double step, json_t *values)
{
	const char *name;
	json_t *v;

	json_object_foreach(values, name, v)
	{
		const json_t *at = json_object_get(s->last_at, name);

		if (strcmp(name, "step") == 0 || (at && step < json_real_value(at)))
			continue;
		json_object_set(s->last, name, v);
		json_object_set_new(s->last_at, name, json_real(step));
	}
}

static void set_number(void *arg, const char *name, double v)
{
	json_object_set_new(arg, name, step_number(v));
}

static void add_text(struct str *out, const json_t *values)
{
	json_add_canonical(out, values);
	str_addc(out, '\n');
}

/* Makes the line a point, and sets *line to its text; false when it holds no metrics, or when there
 * is no more room. Then the next attempt won't read it from `kept` either; `bytes` are already
 * there. */
static bool take_line(struct series *s, const char *at, size_t n, uint64_t bytes, struct str *line)
{
	json_t *values = json_object();
	double step;
	bool room;

	gang_metrics_of_line(at, n, set_number, values);
	if (json_object_size(values) <= (json_object_get(values, "step") ? 1u : 0u)) {
		json_decref(values);
		return false;
	}
	step = place(s, values);
	str_reset(line);
	add_text(line, values);
	room = line->len <= SERIES_MAX_BYTES - MAX(bytes, s->lines.len);
	if (room) {
		VEC_PUSH(&s->points, ((struct point){ step, s->lines.len }));
		str_addn(&s->lines, line->s, line->len);
		note_last(s, step, values);
	} else { /* the series ends here, but the last values are still updated */
		if (!s->rest) {
			s->rest = json_object();
			step_note("the metrics over time end here: they take %llu bytes",
				  (unsigned long long)MAX(s->bytes, s->lines.len));
		}
		json_object_update(s->rest, values);
	}
	json_decref(values);
	return room;
}

static int load_kept(struct series *s, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 }, line = { 0 };
	struct err why = { 0 };
	const char *nl;
	size_t whole;

	if (fs_read_file(s->kept, SERIES_MAX_BYTES, &text, &why) < 0)
		return why.code == ERR_NOT_FOUND ? 0 : (*err = why, -1);
	/* A last line that a crash cut off is removed, so that the next one starts on a new
	 * line. */
	nl = text.len ? memrchr(text.s, '\n', text.len) : NULL;
	whole = nl ? (size_t)(nl - text.s) + 1 : 0;
	if (whole < text.len && truncate(s->kept, (off_t)whole) < 0)
		return err_errno(err, "cannot write %s", s->kept);
	text.len = whole;
	for (size_t at = 0; at < whole; at = (size_t)(nl - text.s) + 1) {
		nl = memchr(text.s + at, '\n', whole - at);
		take_line(s, text.s + at, (size_t)(nl - text.s) - at, 0, &line);
	}
	s->bytes = text.len;
	return s->fd >= 0 && text.len ? fs_write_all(s->fd, text.s, text.len, err) : 0;
}

int series_open(const char *path, const char *kept, struct series **ret, struct err *err)
{
	struct series *s = xcalloc(1, sizeof(*s));

	s->last = json_object();
	s->last_at = json_object();
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

void series_line(struct series *s, const char *line, size_t n)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	if (!take_line(s, line, n, s->bytes, &text))
		return;
	s->bytes += text.len;
	if (s->fd >= 0) /* for readers meanwhile; series_finish() writes the whole */
		(void)fs_write_all(s->fd, text.s, text.len, NULL);
	if (s->kept && s->kept_fd < 0) /* the program may make its directory only now */
		s->kept_fd = open(s->kept, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
	if (s->kept_fd >= 0)
		(void)fs_write_all(s->kept_fd, text.s, text.len, NULL);
}

static int by_step(const void *a, const void *b)
{
	const struct point *x = a, *y = b;

	if (x->step != y->step)
		return x->step < y->step ? -1 : 1;
	return x->at < y->at ? -1 : 1;
}

/* The one line that several points of one step become. */
static void add_merged(const struct series *s, const struct point *v, size_t n, struct str *out)
{
	json_t *merged = json_object();

	for (size_t i = 0; i < n; i++) {
		const char *line = s->lines.s + v[i].at;
		json_t *values = json_loadb(line, strcspn(line, "\n"), 0, NULL);

		assert(values); /* add_text() wrote it */
		json_object_update(merged, values);
		json_decref(values);
	}
	add_text(out, merged);
	json_decref(merged);
}

int series_finish(struct series *s, json_t *ret_last, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	size_t n = s->points.n;
	struct point *v = s->points.v;

	if (n)
		qsort(v, n, sizeof(*v), by_step);
	for (size_t i = 0, end; i < n; i = end) {
		const char *line = s->lines.s + v[i].at;

		for (end = i + 1; end < n && v[end].step == v[i].step; end++)
			;
		if (end == i + 1)
			str_addn(&text, line, strcspn(line, "\n") + 1);
		else
			add_merged(s, v + i, end - i, &text);
	}
	json_object_update(ret_last, s->last);
	if (s->rest) {
		json_object_update(ret_last, s->rest);
		json_object_del(ret_last, "step");
	}
	return s->path ? fs_write_atomic(s->path, text.len ? text.s : "", text.len, err) : 0;
}

void series_free(struct series *s)
{
	if (!s)
		return;
	VEC_FREE(&s->points);
	str_deinit(&s->lines);
	json_decref(s->last);
	json_decref(s->last_at);
	json_decref(s->rest);
	fd_closep(&s->fd);
	fd_closep(&s->kept_fd);
	free(s->path);
	free(s->kept);
	free(s);
}
