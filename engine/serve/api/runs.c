/* engine/serve/api/runs.c — routes that read runs, their attempts and metrics, in the shapes that
 * `cairn runs`, `status` and `metrics` print.
 *
 * Runs and attempts are pages of the database, whose cursor is the last row's id. Metrics come from
 * the results table, or from attempts when there is none; their cursor counts the tasks that match
 * (struct task_walk).
 *
 * Invariants: one results table is in memory at a time, however many requests run (walk_results()).
 * A query can't tell whether an engine lives, so `running` and `died` are separated after the
 * query. A page may therefore have fewer rows than `limit` and still have a next one.
 *
 * Threads: the pool's; the reader belongs to the request. Not here: changes (actions.c), tasks
 * (run/tasks.c).
 */
#include <string.h>
#include "record/facts.h"
#include "record/rows/pages.h"
#include "record/run_query.h"
#include "run/run.h"
#include "run/view/live.h"
#include "serve/internal.h"

static bool parse_state(struct api *a, struct run_query *q, bool *ret_died)
{
	const char *word = web_param(a->x, "state");

	*ret_died = str_eq(word, "died");
	q->has_state = word != NULL;
	q->state = RUN_RUNNING;
	if (!word || *ret_died)
		return true;
	for (int s = RUN_RUNNING; s <= RUN_INTERRUPTED; s++)
		if (str_eq(word, run_state_name((enum run_state)s))) {
			q->state = (enum run_state)s;
			return true;
		}
	web_problem(a->x, 400,
		    "parameter `state` must be running, died, succeeded, failed, cancelled or "
		    "interrupted");
	return false;
}

/* True with *ret_n 0 when the parameter is missing. */
static bool parse_condition(struct api *a, const char *name, struct run_condition *ret,
			    size_t *ret_n)
{
	const char *text = web_param(a->x, name);
	struct err err = { 0 };

	*ret_n = text != NULL;
	if (!text || run_condition_parse(text, a->arena, ret, &err) == 0)
		return true;
	web_problem(a->x, 400, "parameter `%s`: %s", name, err.msg);
	return false;
}

static bool parse_sort(struct api *a, struct run_query *q)
{
	const char *sort = web_param(a->x, "sort");

	q->paged = !sort;
	if (!sort)
		return true;
	q->largest_first = *sort == '-';
	q->sort = sort + q->largest_first;
	if (*q->sort && !q->before)
		return true;
	web_problem(a->x, 400,
		    q->before ? "`cursor` has no meaning with `sort`"
			      : "parameter `sort` must be a metric's name, with `-` before it for "
				"the largest first");
	return false;
}

/* Text is looked for in at most this many rows for a page, so that none takes long; the page may
 * then be empty and still have a next one. */
#define TEXT_ROWS 4000

static bool bound_text(struct api *a, struct run_query *q)
{
	int64_t newest = q->before - 1;
	struct err err = { 0 };

	q->text = web_param(a->x, "q");
	if (q->text && !*q->text)
		q->text = NULL;
	if (!q->text || !q->paged)
		return true;
	if (!q->before && record_newest_run(a->db, &newest, &err) < 0) {
		web_problem_err(a->x, &err);
		return false;
	}
	q->after = MAX(newest - TEXT_ROWS, 0);
	return true;
}

#define COLUMNS_MAX 20

/* {NAME: value or null}: of several tasks the largest, or the one by which the list is sorted. */
static json_t *columns_json(struct api *a, const struct run_row *run, const struct run_query *q)
{
	const char *names = web_param(a->x, "metrics");
	json_t *o = json_object();

	for (const char *at = names; at && *at;) {
		size_t n = strcspn(at, ",");
		const char *name = arena_strndup(a->arena, at, n);
		bool largest = !q->sort || !str_eq(q->sort, name) || q->largest_first;
		double v;

		if (n && json_object_size(o) < COLUMNS_MAX)
			json_object_set_new(o, name,
					    record_run_metric(a->db, run, name, largest, &v, NULL) >
							    0
						    ? facts_number(v)
						    : json_null());
		at += n + (at[n] == ',');
	}
	return o;
}

json_t *api_run_json(const struct project *p, struct db *db, const struct run_row *run,
		     struct arena *arena)
{
	json_t *o = facts_named_run(db, run, arena);
	bool goes_on = run->state == RUN_RUNNING && !facts_engine_died(run);
	struct live_head live;

	if (goes_on)
		json_object_set_new(o, "expected_end", json_null());
	if (!run->results.kind && live_read_head(p->config->state_dir, run->id, &live)) {
		json_object_set_new(o, "counts", facts_counts(&live.counts));
		json_object_set_new(o, "saved_ns", json_integer(live.counts.saved_ns));
		if (goes_on)
			json_object_set_new(o, "expected_end", facts_time(live.expected_end_ns));
	}
	return o;
}

static json_t *run_json(struct api *a, const struct run_row *run)
{
	return api_run_json(a->project, a->db, run, a->arena);
}

static void answer_runs(struct api *a, const struct run_query *q, json_t *list, int64_t next)
{
	bool looked = q->has_state && q->state == RUN_RUNNING; /* at engines, not only at rows */
	uint64_t total;
	int known = looked ? 0 : record_count_runs(a->db, q, &total, NULL);

	web_answer_json(a->x, 200,
			json_pack("{s:o, s:o, s:o}", "runs", list, "next",
				  facts_text(api_cursor(a, (uint64_t)next)), "total",
				  known > 0 ? json_integer((json_int_t)total) : json_null()));
}

void api_runs(struct api *a)
{
	struct run_query q = { .pipeline = web_param(a->x, "pipeline"),
			       .schedule = web_param(a->x, "schedule"),
			       .tag = web_param(a->x, "tag"),
			       .commit = web_param(a->x, "commit"),
			       .limit = API_LIMIT_DEFAULT };
	struct run_condition param, metric;
	uint64_t cursor = 0;
	struct err err = { 0 };
	struct run_row *rows;
	bool died;
	json_t *list;
	size_t n;

	if (!parse_state(a, &q, &died) || !api_uint(a, "limit", 1, API_LIMIT_MAX, &q.limit) ||
	    !api_uint(a, "cursor", 1, API_CURSOR_MAX, &cursor) ||
	    !api_time(a, "since", &q.since_ns) || !api_time(a, "until", &q.until_ns) ||
	    !parse_condition(a, "param", &param, &q.n_params) ||
	    !parse_condition(a, "metric", &metric, &q.n_metrics))
		return;
	q.params = &param;
	q.metrics = &metric;
	q.before = (int64_t)cursor;
	if (!parse_sort(a, &q) || !bound_text(a, &q))
		return;
	if (record_query_runs(a->db, &q, a->arena, &rows, &n, &err) < 0) {
		web_problem_err(a->x, &err);
		return;
	}
	list = json_array();
	for (size_t i = 0; i < n; i++) { /* a query can't tell whether an engine lives */
		json_t *o;

		if (q.has_state && q.state == RUN_RUNNING && facts_engine_died(&rows[i]) != died)
			continue;
		o = run_json(a, &rows[i]);
		if (web_param(a->x, "metrics"))
			json_object_set_new(o, "metrics", columns_json(a, &rows[i], &q));
		json_array_append_new(list, o);
	}
	answer_runs(a, &q, list,
		    !q.paged       ? 0
		    : n == q.limit ? rows[n - 1].rowid
		    : q.after      ? q.after + 1
				   : 0);
}

void api_run_one(struct api *a)
{
	json_t *answer, *exports;
	struct err err = { 0 };
	struct run_row run;

	if (!api_run(a, &run))
		return;
	if (facts_exports(a->db, &run, a->arena, &exports, &err) < 0) {
		web_problem_err(a->x, &err);
		return;
	}
	answer = run_json(a, &run);
	json_object_set_new(answer, "exports", exports);
	web_answer_json(a->x, 200, answer);
}

void api_run_attempts(struct api *a)
{
	struct attempt_page p = { .task = web_param(a->x, "task"), .limit = API_LIMIT_DEFAULT };
	uint64_t cursor = 0;
	struct attempt_row *rows;
	struct err err = { 0 };
	struct run_row run;
	json_t *list;
	bool lost;
	size_t n;

	if (!api_run(a, &run) || !api_uint(a, "limit", 1, API_LIMIT_MAX, &p.limit) ||
	    !api_uint(a, "cursor", 1, API_CURSOR_MAX, &cursor))
		return;
	p.run = run.rowid;
	p.after = (int64_t)cursor;
	if (record_page_attempts(a->db, &p, a->arena, &rows, &n, &err) < 0) {
		web_problem_err(a->x, &err);
		return;
	}
	lost = run_is_left(&run);
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, facts_attempt(&rows[i], lost));
	api_answer_page(a, "attempts", list,
			api_cursor(a, n == p.limit ? (uint64_t)rows[n - 1].id : 0));
}

/* Metrics of tasks. */

struct task_walk {
	struct api *a;
	const char *step, *task;
	uint64_t skip, limit, at, next; /* these count matching tasks */
	json_t *out;                    /* {TASK: metrics} */
};

static void walk_task(struct task_walk *w, const struct facts_task *t)
{
	json_t *name;

	if ((w->step && !str_eq(w->step, t->step)) || (w->task && !str_eq(w->task, t->task)) ||
	    !t->n_metrics)
		return;
	if (w->at++ < w->skip || w->next)
		return;
	if (w->at > w->skip + w->limit) {
		w->next = w->at - 1;
		return;
	}
	name = facts_text(t->task);
	json_object_set_new(w->out, json_string_value(name), facts_metrics(t));
	json_decref(name);
}

/* One table in memory at a time: a million tasks take 200 MB. */
static int walk_results(struct task_walk *w, const struct run_row *run, struct err *err)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
	struct results_cursor c;
	struct result_entry e;
	struct results *r;
	struct store *s;
	int result;

	if (project_store(w->a->project, &s, err) < 0)
		return -1;
	pthread_mutex_lock(&one);
	result = results_open(s, &run->results, &r, err);
	if (result == 0) {
		results_first(r, &c);
		while (!w->next && results_next(&c, &e)) {
			_cleanup_(arena_freep) struct arena *arena = arena_new();
			struct facts_task t;

			facts_of_entry(r, &e, arena, &t);
			walk_task(w, &t);
		}
		results_free(r);
	}
	pthread_mutex_unlock(&one);
	return result;
}

static int walk(struct task_walk *w, const struct run_row *run, struct err *err)
{
	struct facts_task *tasks;
	size_t n;

	if (run->results.kind)
		return walk_results(w, run, err);
	if (facts_read_tasks(w->a->db, NULL, run, w->a->arena, &tasks, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		walk_task(w, &tasks[i]);
	return 0;
}

void api_run_metrics(struct api *a)
{
	struct task_walk w = { .a = a,
			       .step = web_param(a->x, "step"),
			       .task = web_param(a->x, "task"),
			       .limit = API_LIMIT_DEFAULT };
	struct err err = { 0 };
	struct run_row run;

	if (!api_run(a, &run) || !api_uint(a, "limit", 1, API_LIMIT_MAX, &w.limit) ||
	    !api_uint(a, "cursor", 1, INT64_MAX / 2, &w.skip))
		return;
	w.out = json_object();
	if (walk(&w, &run, &err) < 0) {
		json_decref(w.out);
		web_problem_err(a->x, &err);
		return;
	}
	api_answer_page(a, "metrics", w.out, api_cursor(a, w.next));
}
