/* engine/serve/api/run/curves.c — metrics over time that steps wrote (their output `series`).
 *
 * Of a task that has ended, they are in the store. Those of one that runs on this machine are read
 * where it writes them, in its workspace; of its file, the last line may be half there and is left
 * out; of a directory, TensorBoard's event files are read as far as they are whole. On a cluster
 * the run's engine fetches the numbers of a running task while somebody asks here
 * (run/view/watched.h).
 *
 * Invariants: what a step wrote is read only up to SERIES_READ_MAX, and never through a link out of
 * its workspace.
 *
 * Threads: the pool's.
 */
#include <fcntl.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "run/run.h"
#include "run/view/watched.h"
#include "runners/runner.h"
#include "serve/api/run/views.h"

#define SERIES_READ_MAX (64 * MIB)
#define POINTS_DEFAULT  1000
#define POINTS_MAX      10000
#define SERIES_MAX      200

static bool is_small(const struct facts_task *f)
{
	for (size_t i = 0; i < f->n_outputs; i++)
		if (str_eq(f->outputs[i].name, STEP_SERIES_OUTPUT))
			return f->outputs[i].id.kind == CONTENT_TREE ||
			       f->outputs[i].id.size_bytes <= SERIES_READ_MAX;
	return false;
}

/* Where the step writes its series, in its workspace; NULL: it has none. */
static const char *place_of(const struct step *s)
{
	for (size_t i = 0; s && i < s->n_outputs; i++)
		if (str_eq(s->outputs[i].name, STEP_SERIES_OUTPUT))
			return s->outputs[i].path;
	return NULL;
}

/* Up to the last whole line of a file, or what a directory has. False: there is nothing. */
static bool read_growing(const struct viewed *v, const struct view_task *t, struct arena *arena,
			 struct series *ret)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	const char *path = place_of(v->v->steps[t->step].decl);
	_cleanup_(freep) char *dir = path ? runner_local_workspace(v->a->project->config->state_dir,
								   (uint64_t)t->attempt)
					  : NULL;
	_cleanup_(fd_closep) int dir_fd =
		dir ? open(dir, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	_cleanup_(fd_closep) int fd = -1;
	struct stat st;
	ssize_t n;

	if (dir_fd < 0)
		return false;
	fd = fs_open_file_beneath(dir_fd, path, false, &st, NULL);
	if (fd < 0)
		return series_read_growing(dir_fd, path, SERIES_READ_MAX, arena, ret);
	if (st.st_size <= 0 || (uint64_t)st.st_size > SERIES_READ_MAX)
		return false;
	str_reserve(&text, (size_t)st.st_size);
	n = fs_read_at(fd, text.s, (size_t)st.st_size, 0);
	while (n > 0 && text.s[n - 1] != '\n')
		n--;
	return n > 0 && series_parse(text.s, (size_t)n, arena, ret, NULL) == 0;
}

/* The page asks again every few seconds, so the engine goes on fetching. */
static bool read_watched(const struct viewed *v, const struct view_task *t, struct arena *arena,
			 struct series *ret)
{
	const char *state_dir = v->a->project->config->state_dir;

	if (v->v->pipeline && !place_of(v->v->steps[t->step].decl))
		return false;
	watched_ask(state_dir, (uint64_t)t->attempt);
	return watched_read(state_dir, (uint64_t)t->attempt, arena, ret);
}

int api_series_read(const struct viewed *v, struct store *s, const struct view_task *t,
		    const struct facts_task *results, struct arena *arena, struct series *ret,
		    struct err *err)
{
	struct err why = { 0 };
	int r = 0;

	if (t->state == VIEW_RUNNING && t->attempt) {
		*ret = (struct series){ .run = v->v->run.id, .task = t->name };
		r = str_eq(run_durable_runner(v->v->run.options_json, arena), "kubernetes")
			    ? read_watched(v, t, arena, ret)
			    : read_growing(v, t, arena, ret);
	} else if (s && is_small(results)) {
		r = series_load(s, &v->v->run, results, arena, ret, &why);
	}
	if (r < 0 && (why.code == ERR_INVALID || why.code == ERR_CORRUPT))
		return 0;
	return r < 0 ? err_pass(err, &why) : r;
}

struct curve {
	const struct series_metric *m;
	double begin_s; /* of the task's series; NAN: no times */
	json_t *points;
};

static void add_point(struct curve *c, const struct series_point *p)
{
	double since_ns = (p->time_s - c->begin_s) * NS_PER_S;
	json_t *point = json_array();

	json_array_append_new(point, facts_number(p->x));
	json_array_append_new(point, facts_number(p->y));
	if (since_ns >= 0 && since_ns < (double)INT64_MAX)
		json_array_append_new(point, json_integer((json_int_t)since_ns));
	json_array_append_new(c->points, point);
}

/* At most `max` points: of each of max/2 stretches the smallest and the largest, in their order. So
 * no peak is lost. */
static void add_points(struct curve *c, uint64_t max)
{
	size_t stretches = (size_t)MAX(max / 2, 1);
	const struct series_metric *m = c->m;

	for (size_t i = 0; m->n <= max && i < m->n; i++)
		add_point(c, &m->v[i]);
	for (size_t k = 0; m->n > max && k < stretches; k++) {
		size_t from = m->n * k / stretches, to = m->n * (k + 1) / stretches, low = from,
		       high = from;

		for (size_t i = from; i < to; i++) {
			if (m->v[i].y < m->v[low].y || isnan(m->v[low].y))
				low = i;
			if (m->v[i].y > m->v[high].y || isnan(m->v[high].y))
				high = i;
		}
		add_point(c, &m->v[MIN(low, high)]);
		if (low != high)
			add_point(c, &m->v[MAX(low, high)]);
	}
}

static void add_curves(const struct viewed *v, const struct view_task *t, const struct series *s,
		       uint64_t max, json_t *list)
{
	const char *metric = web_param(v->a->x, "metric");

	for (size_t i = 0; i < s->n_metrics && json_array_size(list) < SERIES_MAX; i++) {
		struct curve c = { &s->metrics[i], series_begin_s(s), json_array() };
		json_t *o;

		if (metric && !str_eq(metric, c.m->name)) {
			json_decref(c.points);
			continue;
		}
		add_points(&c, max);
		o = json_object();
		json_object_set_new(o, "task", facts_text(t->name));
		json_object_set_new(o, "metric", facts_text(c.m->name));
		json_object_set_new(o, "points", c.points);
		json_object_set_new(o, "n", json_integer((json_int_t)c.m->n));
		json_object_set_new(o, "downsampled", json_boolean(c.m->n > max));
		json_array_append_new(list, o);
	}
}

static bool has_some(const struct view_task *t)
{
	return t->state == VIEW_EXECUTED || t->state == VIEW_HIT || t->state == VIEW_FAILED ||
	       t->state == VIEW_RUNNING;
}

void api_run_series(struct api *a)
{
	const char *name = web_param(a->x, "task");
	uint64_t points = POINTS_DEFAULT;
	struct store *s = NULL;
	struct err err = { 0 };
	struct viewed v;
	json_t *list;
	int r = 0;

	if (!api_uint(a, "points", 2, POINTS_MAX, &points) || !api_view(a, &v))
		return;
	if (project_store(a->project, &s, NULL) < 0)
		s = NULL;
	list = json_array();
	for (size_t i = 0; i < v.v->n_tasks && r >= 0; i++) {
		const struct view_task *t = &v.v->tasks[i];
		struct facts_task f;
		struct series series;

		if ((name && !str_eq(name, t->name) && !str_eq(name, v.v->steps[t->step].name)) ||
		    json_array_size(list) >= SERIES_MAX || !has_some(t))
			continue;
		r = view_results(v.v, a->db, t, a->arena, &f, &err);
		if (r == 0)
			r = api_series_read(&v, s, t, &f, a->arena, &series, &err);
		if (r > 0)
			add_curves(&v, t, &series, points, list);
	}
	if (r < 0)
		web_problem_err(a->x, &err);
	else
		web_answer_json(a->x, 200, json_pack("{s:O}", "series", list));
	json_decref(list);
	api_view_return(&v);
}
