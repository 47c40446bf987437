/* engine/serve/api/runs.c — routes that read runs, their attempts, tasks and metrics, in the shapes
 * that `cairn runs`, `status` and `metrics` print.
 *
 * Runs and attempts are pages of the database, whose cursor is the last row's id. Tasks come from
 * the results table, or from attempts when there is none; their cursor counts the tasks that match
 * (struct task_walk).
 *
 * Invariants: one results table is in memory at a time, however many requests run (walk_results()).
 * A query can't tell whether an engine lives, so `running` and `died` are separated after the
 * query. A page may therefore have fewer rows than `limit` and still have a next one.
 *
 * Threads: the crew's; the reader belongs to the request. Not here: changes (actions.c).
 */
#include "record/facts.h"
#include "record/rows/pages.h"
#include "record/run_query.h"
#include "run/run.h"
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
	if (!parse_sort(a, &q))
		return;
	if (record_query_runs(a->db, &q, a->arena, &rows, &n, &err) < 0) {
		web_problem_err(a->x, &err);
		return;
	}
	list = json_array();
	for (size_t i = 0; i < n; i++) /* a query can't tell whether an engine lives */
		if (!q.has_state || q.state != RUN_RUNNING || facts_engine_died(&rows[i]) == died)
			json_array_append_new(list, facts_named_run(a->db, &rows[i], a->arena));
	api_answer_page(a, "runs", list,
			api_cursor(a, q.paged && n == q.limit ? (uint64_t)rows[n - 1].rowid : 0));
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
	answer = facts_named_run(a->db, &run, a->arena);
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

/* Tasks. */

struct task_walk {
	struct api *a;
	const char *step, *task;
	bool only_metrics;
	uint64_t skip, limit, at, next; /* these count matching tasks */
	json_t *out;                    /* array of tasks, or object of metrics */
};

static void walk_task(struct task_walk *w, const struct facts_task *t)
{
	if ((w->step && !str_eq(w->step, t->step)) || (w->task && !str_eq(w->task, t->task)) ||
	    (w->only_metrics && !t->n_metrics))
		return;
	if (w->at++ < w->skip || w->next)
		return;
	if (w->at > w->skip + w->limit) {
		w->next = w->at - 1;
		return;
	}
	if (w->only_metrics) {
		json_t *name = facts_text(t->task);

		json_object_set_new(w->out, json_string_value(name), facts_metrics(t));
		json_decref(name);
	} else {
		json_array_append_new(w->out, facts_task_json(t));
	}
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

static void answer_tasks(struct api *a, const char *key, bool only_metrics)
{
	struct task_walk w = { .a = a,
			       .step = web_param(a->x, "step"),
			       .task = web_param(a->x, "task"),
			       .only_metrics = only_metrics,
			       .limit = API_LIMIT_DEFAULT };
	struct err err = { 0 };
	struct run_row run;

	if (!api_run(a, &run) || !api_uint(a, "limit", 1, API_LIMIT_MAX, &w.limit) ||
	    !api_uint(a, "cursor", 1, INT64_MAX / 2, &w.skip))
		return;
	w.out = only_metrics ? json_object() : json_array();
	if (walk(&w, &run, &err) < 0) {
		json_decref(w.out);
		web_problem_err(a->x, &err);
		return;
	}
	api_answer_page(a, key, w.out, api_cursor(a, w.next));
}

void api_run_tasks(struct api *a)
{
	answer_tasks(a, "tasks", false);
}

void api_run_metrics(struct api *a)
{
	answer_tasks(a, "metrics", true);
}
