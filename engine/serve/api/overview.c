/* engine/serve/api/overview.c — the whole project at a glance: its store, its cluster, and what
 * needs attention.
 *
 * These answers read many rows or list the store, so each is kept as text for a while
 * (struct kept_answers). One request makes it, and others wait for it; the maker decides how long
 * it is good.
 *
 * Threads: the pool's.
 */
#include <pthread.h>
#include <string.h>
#include "base/map.h"
#include "base/time/clock.h"
#include "record/facts.h"
#include "record/rows/pages.h"
#include "record/run_query.h"
#include "run/run.h"
#include "serve/internal.h"
#include "storage/local/maintain.h"

#define STORE_FOR_NS   (300 * NS_PER_S)
#define HOME_FOR_NS    (5 * NS_PER_S)
#define DAY_NS         (86400 * NS_PER_S)
#define WEEK_NS        (7 * DAY_NS)
#define WEEKS          26
#define RUNS_LOOKED_AT 200
#define ATTENTION_MAX  50
#define WAITING_MAX    500

struct kept_answer {
	const struct project *project;
	const char *what; /* a literal */
	char *text;
	int64_t until_ns; /* monotonic */
	struct kept_answer *next;
};

struct kept_answers {
	pthread_mutex_t lock; /* held while one is made */
	struct kept_answer *first;
};

struct kept_answers *api_kept_answers_new(void)
{
	struct kept_answers *k = xcalloc(1, sizeof(*k));

	pthread_mutex_init(&k->lock, NULL);
	return k;
}

void api_kept_answers_free(struct kept_answers *k)
{
	struct kept_answer *next;

	for (struct kept_answer *at = k ? k->first : NULL; at; at = next) {
		next = at->next;
		free(at->text);
		free(at);
	}
	if (k)
		pthread_mutex_destroy(&k->lock);
	free(k);
}

/* With the lock. */
static struct kept_answer *answer_of(struct kept_answers *k, const struct project *p,
				     const char *what)
{
	struct kept_answer *at = k->first;

	while (at && (at->project != p || !str_eq(at->what, what)))
		at = at->next;
	if (at)
		return at;
	at = xcalloc(1, sizeof(*at));
	*at = (struct kept_answer){ .project = p, .what = what, .next = k->first };
	k->first = at;
	return at;
}

static void answer_kept(struct api *a, const char *what, int64_t for_ns,
			json_t *(*make)(struct api *a, struct err *err))
{
	struct kept_answers *k = a->d->http.answers;
	struct kept_answer *at;
	struct err err = { 0 };

	pthread_mutex_lock(&k->lock);
	at = answer_of(k, a->project, what);
	if (!at->text || clock_mono_ns() >= at->until_ns) {
		_cleanup_(json_decrefp) json_t *made = make(a, &err);

		free(at->text);
		at->text = made ? json_dumps(made, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
		at->until_ns = clock_mono_ns() + for_ns;
	}
	if (at->text) {
		str_add(&a->x->out, at->text);
		str_addc(&a->x->out, '\n');
		a->x->status = 200;
	}
	pthread_mutex_unlock(&k->lock);
	if (!a->x->status && err.code)
		web_problem_err(a->x, &err);
}

/* Store. */

static json_t *weeks_json(struct api *a, struct err *err)
{
	struct run_stretch *v;
	json_t *list;
	size_t n;

	if (record_run_stretches(a->db, clock_wall_ns() - WEEKS * WEEK_NS, WEEK_NS, a->arena, &v,
				 &n, err) < 0)
		return NULL;
	list = json_array();
	for (size_t i = 0; i < n; i++)
		json_array_append_new(
			list, json_pack("{s:o, s:I, s:I, s:I, s:I, s:I}", "begin",
					facts_time(v[i].begin_ns), "runs", (json_int_t)v[i].runs,
					"failed", (json_int_t)v[i].failed, "executed",
					(json_int_t)v[i].executed, "hits", (json_int_t)v[i].hits,
					"saved_ns", (json_int_t)v[i].saved_ns));
	return list;
}

static json_t *make_store(struct api *a, struct err *err)
{
	static const char *const names[STORE_SPACES] = { "blobs", "trees", "actions", "runs",
							 "tags" };
	json_t *o, *spaces, *weeks;
	struct store_stat st;
	struct store *s;

	if (project_store(a->project, &s, err) < 0 || store_stat_all(s, &st, err) < 0)
		return NULL;
	weeks = weeks_json(a, err);
	if (!weeks)
		return NULL;
	o = json_object();
	spaces = json_object();
	for (int i = 0; i < STORE_SPACES; i++)
		json_object_set_new(spaces, names[i],
				    json_pack("{s:I, s:I}", "objects", (json_int_t)st.objects[i],
					      "bytes", (json_int_t)st.bytes[i]));
	json_object_set_new(o, "uri", facts_text(store_uri(s)));
	json_object_set_new(o, "shared", json_boolean(store_is_shared(s)));
	json_object_set_new(o, "spaces", spaces);
	json_object_set_new(o, "temporaries", json_integer((json_int_t)st.temporaries));
	json_object_set_new(o, "temporary_bytes", json_integer((json_int_t)st.temporary_bytes));
	json_object_set_new(o, "set_aside", json_integer((json_int_t)st.set_aside));
	json_object_set_new(o, "weeks", weeks);
	json_object_set_new(o, "at", facts_time(clock_wall_ns()));
	return o;
}

void api_store(struct api *a)
{
	answer_kept(a, "store", STORE_FOR_NS, make_store);
}

/* Cluster. */

static int add_waiting(struct api *a, const struct run_row *run, json_t *list, struct err *err)
{
	struct attempt_row *v;
	size_t n;

	if (record_open_attempts(a->db, run->rowid, a->arena, &v, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n && json_array_size(list) < WAITING_MAX; i++)
		json_array_append_new(
			list, json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "run",
					facts_text(run->id), "task", facts_text(v[i].task),
					"started", facts_time(v[i].started_ns), "node",
					facts_text(v[i].node), "image", facts_text(v[i].image),
					"waiting", facts_text(v[i].waiting)));
	return 0;
}

void api_cluster(struct api *a)
{
	const struct config *c = a->project->config;
	json_t *list = json_array();
	struct err err = { 0 };
	struct run_row *runs;
	size_t n;
	int r = record_running(a->db, a->arena, &runs, &n, &err);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (str_eq(run_durable_runner(runs[i].options_json, a->arena), "kubernetes"))
			r = add_waiting(a, &runs[i], list, &err);
	if (r < 0)
		web_problem_err(a->x, &err);
	else
		web_answer_json(
			a->x, 200,
			json_pack("{s:b, s:o, s:O}", "configured",
				  str_eq(c->runner, "kubernetes") || json_array_size(list) > 0,
				  "namespace", facts_text(c->kubernetes.access.namespace_),
				  "attempts", list));
	json_decref(list);
}

/* Home. */

static void attend(json_t *list, const char *kind, const struct run_row *run, const char *words,
		   int64_t at_ns)
{
	if (json_array_size(list) < ATTENTION_MAX)
		json_array_append_new(list, json_pack("{s:s, s:o, s:o, s:o, s:o, s:o}", "kind",
						      kind, "run", facts_text(run->id), "pipeline",
						      facts_text(run->pipeline), "schedule",
						      facts_text(run->schedule), "words",
						      facts_text(words), "at", facts_time(at_ns)));
}

/* Of each pipeline and schedule, the newest run that ended: whether it failed. */
static void attend_to_failed(const struct run_row *rows, size_t n, json_t *list)
{
	_cleanup_(map_freep) struct map *seen = map_new();

	for (size_t i = 0; i < n; i++) {
		const struct run_row *r = &rows[i];
		_cleanup_(freep) char *key =
			xasprintf("%s\n%s", r->pipeline, r->schedule ? r->schedule : "");

		if (r->state == RUN_RUNNING || r->has_reproduces || map_has(seen, key, strlen(key)))
			continue;
		*map_slot_str(seen, key) = seen;
		if (r->state == RUN_FAILED)
			attend(list, "failed", r, r->message, r->ended_ns);
		else if (r->state == RUN_INTERRUPTED)
			attend(list, "interrupted", r, r->message, r->ended_ns);
	}
}

/* "deploy, report": the tasks that ask. */
static const char *names_of(const json_t *asked, struct arena *arena)
{
	_cleanup_(str_deinit) struct str out = { 0 };

	for (size_t i = 0; i < json_array_size(asked); i++)
		str_addf(&out, "%s%s", i ? ", " : "",
			 json_string_value(json_object_get(json_array_get(asked, i), "task")));
	return arena_strndup(arena, out.s, out.len);
}

static json_t *make_home(struct api *a, struct err *err)
{
	struct run_query q = { .paged = true, .limit = RUNS_LOOKED_AT };
	struct run_stretch *week;
	struct run_row *rows;
	uint64_t runs = 0, failed = 0, hits = 0, executed = 0;
	int64_t saved_ns = 0;
	size_t n, n_week, running = 0;
	json_t *list;

	if (record_running(a->db, a->arena, &rows, &n, err) < 0)
		return NULL;
	list = json_array();
	for (size_t i = 0; i < n; i++) {
		_cleanup_(json_decrefp) json_t *o = facts_named_run(a->db, &rows[i], a->arena);
		const json_t *asked = json_object_get(o, "approvals");
		bool died = facts_engine_died(&rows[i]);

		running += !died;
		if (died)
			attend(list, "died", &rows[i], "its engine died", rows[i].started_ns);
		else if (json_array_size(asked))
			attend(list, "approval", &rows[i], names_of(asked, a->arena),
			       rows[i].started_ns);
	}
	if (record_query_runs(a->db, &q, a->arena, &rows, &n, err) < 0 ||
	    record_run_stretches(a->db, clock_wall_ns() - WEEK_NS, DAY_NS, a->arena, &week, &n_week,
				 err) < 0) {
		json_decref(list);
		return NULL;
	}
	attend_to_failed(rows, n, list);
	for (size_t i = 0; i < n_week; i++) {
		runs += week[i].runs;
		failed += week[i].failed;
		hits += week[i].hits;
		executed += week[i].executed;
		saved_ns += week[i].saved_ns;
	}
	return json_pack("{s:o, s:I, s:{s:I, s:I, s:I, s:I, s:I}}", "attention", list, "running",
			 (json_int_t)running, "week", "runs", (json_int_t)runs, "failed",
			 (json_int_t)failed, "executed", (json_int_t)executed, "hits",
			 (json_int_t)hits, "saved_ns", (json_int_t)saved_ns);
}

void api_home(struct api *a)
{
	answer_kept(a, "home", HOME_FOR_NS, make_home);
}
