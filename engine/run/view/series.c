/* engine/run/view/series.c — reads the metrics over time that a step wrote (its output `series`).
 *
 * A file whose first character is `{` has a JSON object of numbers a line, as the launcher of ranks
 * writes them (steps/train/series.c); any other file is CSV with a header. The place on the x axis
 * is `step`, else `epoch`; a line without one is an error, and text is skipped. `wall_time`, in
 * seconds, is no metric but the time of the line's points. A directory has TensorBoard's event
 * files: their tags are names of metrics, behind the path of their directory
 * (runners/series/tensorboard.h).
 *
 * Invariants: all of it is hostile input, bounded by SERIES_MAX_BYTES, SERIES_MAX_COLUMNS and the
 * parsers. A metric's points are in the order of the file, those of event files sorted by step.
 */
#include "run/view/series.h"
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include "base/map.h"
#include "base/os/fs.h"
#include "base/text/text.h"
#include "runners/series/events.h"
#include "runners/series/tensorboard.h"
#include "storage/content/content.h"

#define SERIES_MAX_COLUMNS 1000 /* of a CSV */

struct column {
	VEC(struct series_point) v;
};

#define TIME_NAME "wall_time"

static void add_point(struct map *columns, const char *name, struct series_point p)
{
	struct column **slot = (struct column **)map_slot_str(columns, name);

	if (!*slot)
		*slot = xcalloc(1, sizeof(**slot));
	VEC_PUSH(&(*slot)->v, p);
}

static int add_object(struct map *columns, const json_t *o, struct err *err)
{
	const json_t *step = json_object_get(o, "step");
	const json_t *time = json_object_get(o, TIME_NAME);
	double time_s = json_is_number(time) ? json_number_value(time) : (double)NAN;
	const char *name;
	json_t *v;

	if (!json_is_number(step))
		step = json_object_get(o, "epoch");
	if (!json_is_object(o) || !json_is_number(step))
		return err_set(err, ERR_INVALID, "not an object with a number `step` or `epoch`");
	json_object_foreach((json_t *)(uintptr_t)o, name,
			    v) if (v != step && v != time && (json_is_number(v) || json_is_null(v)))
		add_point(columns, name,
			  (struct series_point){
				  json_number_value(step),
				  json_is_null(v) ? (double)NAN : json_number_value(v), time_s });
	return 0;
}

/* Cuts a line of CSV at its commas, in place; quotes around a field are dropped. */
static size_t cut_fields(char *line, const char *ret[static SERIES_MAX_COLUMNS])
{
	size_t n = 0;

	for (char *at = line, *next; at && n < SERIES_MAX_COLUMNS; at = next) {
		size_t len;

		next = strchr(at, ',');
		if (next)
			*next++ = '\0';
		at += strspn(at, " \t\"");
		len = strlen(at);
		while (len && strchr(" \t\r\"", at[len - 1]))
			at[--len] = '\0';
		ret[n++] = at;
	}
	return n;
}

struct csv {
	char *header;
	const char *names[SERIES_MAX_COLUMNS];
	size_t n, step, time; /* the columns of the x axis and of the time (n: none) */
};

static int read_header(struct csv *c, const char *line, size_t len, struct err *err)
{
	static const char *const axes[] = { "step", "epoch" };

	if (memchr(line, '\0', len) || !text_is_utf8(line, len))
		return err_set(err, ERR_INVALID, "neither JSON nor CSV");
	c->header = xstrndup(line, len);
	c->n = cut_fields(c->header, c->names);
	for (c->time = 0; c->time < c->n && !str_eq(c->names[c->time], TIME_NAME);)
		c->time++;
	for (size_t a = 0; a < ARRAY_LEN(axes); a++)
		for (c->step = 0; c->step < c->n; c->step++)
			if (str_eq(c->names[c->step], axes[a]))
				return 0;
	return err_set(err, ERR_INVALID,
		       "no JSON object, and no header of a CSV with a column `step` or `epoch`");
}

static int add_row(struct map *columns, const struct csv *c, const char *line, size_t len,
		   struct err *err)
{
	_cleanup_(freep) char *copy = xstrndup(line, len);
	const char *fields[SERIES_MAX_COLUMNS];
	size_t n = cut_fields(copy, fields);
	double x, y, time_s;

	if (n == 1 && !*fields[0])
		return 0;
	if (c->step >= n || !text_parse_double(fields[c->step], &x) || !isfinite(x))
		return err_set(err, ERR_INVALID, "no number in the column `%s`", c->names[c->step]);
	if (c->time >= n || !text_parse_double(fields[c->time], &time_s))
		time_s = (double)NAN;
	for (size_t i = 0; i < MIN(n, c->n); i++) {
		bool gap = !*fields[i] || strcasecmp(fields[i], "nan") == 0;

		if (i != c->step && i != c->time && *c->names[i] &&
		    (gap || text_parse_double(fields[i], &y)))
			add_point(columns, c->names[i],
				  (struct series_point){ x, gap ? (double)NAN : y, time_s });
	}
	return 0;
}

static int read_lines(struct map *columns, const char *text, size_t n, struct err *err)
{
	struct csv csv = { 0 };
	bool is_json = text[0] == '{';
	size_t number = 1;
	int r = 0;

	for (const char *at = text, *end = text + n; at < end && r == 0; number++) {
		const char *eol = memchr(at, '\n', (size_t)(end - at));
		size_t len = eol ? (size_t)(eol - at) : (size_t)(end - at);
		json_t *o = NULL;

		if (!is_json && !csv.header)
			r = read_header(&csv, at, len, err);
		else if (!is_json)
			r = add_row(columns, &csv, at, len, err);
		else if ((r = json_parse("series", at, len, &o, err)) == 0)
			r = add_object(columns, o, err);
		json_decref(o);
		if (r < 0)
			err_wrap(err, "line %zu of the series", number);
		at += len + (eol != NULL);
	}
	free(csv.header);
	return r;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct series_metric *)a)->name,
		      ((const struct series_metric *)b)->name);
}

/* Frees `columns`. */
static void take_columns(struct map *columns, struct arena *arena, struct series *ret)
{
	size_t count = map_len(columns);

	ret->metrics = arena_alloc(arena, (count + 1) * sizeof(*ret->metrics));
	ret->n_metrics = count;
	for (size_t i = 0; i < count; i++) {
		const void *name;
		size_t len;
		struct column *c = map_at(columns, i, &name, &len);

		ret->metrics[i] = (struct series_metric){
			arena_strndup(arena, name, len),
			arena_memdup(arena, c->v.v, c->v.n * sizeof(*c->v.v)), c->v.n
		};
		VEC_FREE(&c->v);
		free(c);
	}
	if (count)
		qsort(ret->metrics, count, sizeof(*ret->metrics), by_name);
	map_free(columns);
}

int series_parse(const char *text, size_t n, struct arena *arena, struct series *ret,
		 struct err *err)
{
	struct map *columns = map_new();
	int r = n ? read_lines(columns, text, n, err) : 0;

	take_columns(columns, arena, ret);
	return r;
}

/* Event files. */

struct event_target {
	struct map *columns;
	const char *prefix; /* "train/" */
};

static void add_scalar(void *arg, const char *tag, double step, double value, double time_s)
{
	const struct event_target *t = arg;
	_cleanup_(freep) char *name = xasprintf("%s%s", t->prefix, tag);

	add_point(t->columns, name, (struct series_point){ step, value, time_s });
}

static int by_step(const void *a, const void *b)
{
	double x = ((const struct series_point *)a)->x, y = ((const struct series_point *)b)->x;

	return (x > y) - (x < y);
}

static void take_events(struct map *columns, struct arena *arena, struct series *ret)
{
	take_columns(columns, arena, ret);
	for (size_t i = 0; i < ret->n_metrics; i++)
		qsort(ret->metrics[i].v, ret->metrics[i].n, sizeof(*ret->metrics[i].v), by_step);
}

/* A directory that a step still writes to. */
struct growing {
	struct map *columns;
	uint64_t bytes; /* that may still be read */
};

static void add_growing(void *arg, int fd, uint64_t size, ino_t ino, const char *prefix,
			const char *name)
{
	struct growing *g = arg;
	struct event_target t = { g->columns, prefix };
	_cleanup_(str_deinit) struct str bytes = { 0 };
	size_t end;

	(void)ino;
	(void)name;
	if (size > g->bytes)
		return;
	g->bytes -= size;
	str_reserve(&bytes, (size_t)size);
	bytes.len = (size_t)MAX(fs_read_at(fd, bytes.s, (size_t)size, 0), 0);
	tensorboard_read(bytes.s, bytes.len, add_scalar, &t, &end, NULL);
}

bool series_read_growing(int dir_fd, const char *path, uint64_t max_bytes, struct arena *arena,
			 struct series *ret)
{
	struct growing g = { map_new(), max_bytes };
	_cleanup_(fd_closep) int fd =
		fs_open_beneath(dir_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, false);

	if (fd >= 0)
		event_files_each(fd, add_growing, &g);
	take_events(g.columns, arena, ret);
	return ret->n_metrics > 0;
}

static int read_events(struct store *store, const struct content_id *tree, struct arena *arena,
		       struct series *ret, struct err *err)
{
	struct map *columns = map_new();
	struct tree_match *files;
	size_t n;
	int r = tree_glob(store, tree, "**/*tfevents*", arena, &files, &n, err);

	for (size_t i = 0; r == 0 && i < n; i++) {
		_cleanup_(str_deinit) struct str bytes = { 0 };
		const char *slash = strrchr(files[i].path, '/');
		struct event_target t = {
			columns, arena_strndup(arena, files[i].path,
					       slash ? (size_t)(slash + 1 - files[i].path) : 0)
		};
		size_t end;

		if (files[i].entry.kind != TREE_FILE && files[i].entry.kind != TREE_EXECUTABLE)
			continue;
		r = content_read(store, &files[i].entry.id, SERIES_MAX_BYTES, &bytes, err);
		if (r == 0 && tensorboard_read(bytes.s, bytes.len, add_scalar, &t, &end, err) < 0)
			r = err_wrap(err, "%s", files[i].path);
	}
	take_events(columns, arena, ret);
	return r;
}

static const struct named_content *output_of(const struct facts_task *task)
{
	for (size_t i = 0; i < task->n_outputs; i++)
		if (str_eq(task->outputs[i].name, STEP_SERIES_OUTPUT) &&
		    (content_is_file(&task->outputs[i].id) ||
		     task->outputs[i].id.kind == CONTENT_TREE))
			return &task->outputs[i];
	return NULL;
}

double series_begin_s(const struct series *s)
{
	double first = (double)NAN;

	for (size_t i = 0; i < s->n_metrics; i++)
		for (size_t k = 0; k < s->metrics[i].n; k++)
			first = fmin(first, s->metrics[i].v[k].time_s); /* NAN loses */
	return first;
}

bool series_is_there(const struct facts_task *task)
{
	return output_of(task) != NULL;
}

int series_load(struct store *store, const struct run_row *run, const struct facts_task *task,
		struct arena *arena, struct series *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	const struct named_content *output = output_of(task);
	int r;

	if (!output)
		return 0;
	*ret = (struct series){ .run = run->id, .task = task->task, .started_ns = run->started_ns };
	if (output->id.kind == CONTENT_TREE)
		r = read_events(store, &output->id, arena, ret, err);
	else if ((r = content_read(store, &output->id, SERIES_MAX_BYTES, &text, err)) == 0)
		r = series_parse(text.s, text.len, arena, ret, err);
	return r < 0 ? -1 : 1;
}
