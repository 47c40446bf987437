/* engine/record/facts.c — names of states, tasks with their results, and the JSON of runs, attempts
 * and tasks.
 *
 * A list of conversions without state. Each JSON function returns a new value that the caller owns.
 * All text goes through facts_text(), because names may hold any bytes and JSON may not.
 *
 * The state "died" is never recorded: facts_engine_died() looks for the engine's process each time.
 * The tasks of a run come from its results table; without one, from its attempts that succeeded or
 * failed only at their gate.
 *
 * Threads: those of the given handle and store. Not here: finding runs (rows/runs.c, run_query.c),
 * printing (cli/), HTTP (serve/api/).
 */
#include "record/facts.h"
#include <math.h>
#include <stdio.h>
#include "base/map.h"
#include "base/text/text.h"
#include "base/time/clock.h"
#include "record/lineage/outside.h"
#include "record/rows/approvals.h"
#include "record/rows/tags.h"
#include "storage/action.h"

json_t *facts_text(const char *s)
{
	return s ? json_name(s, strlen(s)) : json_null();
}

const char *facts_read_text(const char *text, struct arena *arena)
{
	_cleanup_(str_deinit) struct str raw = { 0 };

	str_add(&raw, "");
	if (json_name_decode(&raw, text, NULL) < 0 || memchr(raw.s, '\0', raw.len))
		return NULL;
	return arena_strndup(arena, raw.s, raw.len);
}

const char *facts_get_text(const json_t *o, const char *key, struct arena *arena)
{
	const char *s;

	return json_get_str(o, key, &s, NULL) < 0 ? NULL : facts_read_text(s, arena);
}

json_t *facts_number(double v)
{
	return isfinite(v) ? json_real(v) : json_null();
}

json_t *facts_causes(const char *reason)
{
	json_t *causes = json_array();

	for (const char *at = reason ? reason : ""; *at; at += strspn(at, "; ")) {
		size_t n = strcspn(at, ";");

		json_array_append_new(causes, json_name(at, n));
		at += n;
	}
	return causes;
}

json_t *facts_time(int64_t wall_ns)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	if (wall_ns == 0)
		return json_null();
	text_add_time(&text, wall_ns, 3);
	return json_string(text.s);
}

/* Trials. */

json_t *facts_trial_json(const struct run_trial *t)
{
	return json_pack("{s:o, s:s, s:I}", "sweep", facts_text(t->sweep), "id", t->id, "number",
			 (json_int_t)t->number);
}

bool facts_read_trial(const json_t *j, struct arena *arena, struct run_trial *ret)
{
	const char *sweep = facts_get_text(j, "sweep", arena), *id = facts_get_text(j, "id", arena);
	json_int_t n = json_integer_value(json_object_get(j, "number"));

	if (!sweep || !id || n < 1 || n > UINT32_MAX)
		return false;
	*ret = (struct run_trial){ sweep, id, (uint32_t)n };
	return true;
}

bool facts_trial(const char *options_json, struct arena *arena, struct run_trial *ret)
{
	_cleanup_(json_decrefp) json_t *j = NULL;

	if (!options_json || !strstr(options_json, "\"trial\""))
		return false;
	j = json_loads(options_json, 0, NULL);
	return facts_read_trial(json_object_get(j, "trial"), arena, ret);
}

static json_t *trial_of(const struct run_row *r)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct run_trial t;

	return facts_trial(r->options_json, arena, &t)
		       ? json_pack("{s:o, s:I}", "sweep", facts_text(t.sweep), "number",
				   (json_int_t)t.number)
		       : json_null();
}

/* The event that fired its schedule, from the run's options. */
static json_t *cause_of(const struct run_row *r)
{
	_cleanup_(json_decrefp) json_t *options =
		r->options_json ? json_loads(r->options_json, 0, NULL) : NULL;
	const json_t *schedule = json_object_get(options, "schedule");
	static const char *const kinds[] = { "run", "delivery" };

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (json_is_string(json_object_get(schedule, kinds[i])))
			return json_pack("{s:O}", kinds[i], json_object_get(schedule, kinds[i]));
	return json_null();
}

json_t *facts_event(const struct event_decl *on)
{
	if (on->pipeline)
		return json_pack("{s:o, s:s}", "pipeline", facts_text(on->pipeline), "state",
				 on->state);
	return on->webhook ? json_pack("{s:o}", "webhook", facts_text(on->webhook)) : json_null();
}

json_t *facts_counts(const struct run_counts *c)
{
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "total", (json_int_t)c->total,
			 "executed", (json_int_t)c->executed, "hits", (json_int_t)c->hits, "failed",
			 (json_int_t)c->failed, "skipped", (json_int_t)c->skipped, "blocked",
			 (json_int_t)c->blocked);
}

json_t *facts_run(const struct run_row *r)
{
	char hex[DIGEST_HEX_MAX];
	json_t *o = json_object(),
	       *params = r->params_json ? json_loads(r->params_json, 0, NULL) : NULL;

	json_object_set_new(o, "id", facts_text(r->id));
	json_object_set_new(o, "hash",
			    r->has_hash ? json_string(digest_hex(&r->hash, hex)) : json_null());
	json_object_set_new(o, "pipeline", facts_text(r->pipeline));
	json_object_set_new(o, "path", facts_text(r->path));
	json_object_set_new(o, "state", json_string(facts_state(r)));
	json_object_set_new(o, "started", facts_time(r->started_ns));
	json_object_set_new(o, "ended", facts_time(r->ended_ns));
	json_object_set_new(o, "duration_ns",
			    json_integer(r->ended_ns ? r->ended_ns - r->started_ns : 0));
	json_object_set_new(o, "saved_ns", json_integer(r->counts.saved_ns));
	json_object_set_new(o, "params", params ? params : json_object());
	json_object_set_new(o, "git_commit", facts_text(r->git.commit));
	json_object_set_new(o, "git_author", facts_text(r->git.author));
	json_object_set_new(o, "git_dirty", json_boolean(r->git.dirty));
	json_object_set_new(o, "counts", facts_counts(&r->counts));
	json_object_set_new(o, "reproduces",
			    r->has_reproduces ? json_string(digest_hex(&r->reproduces, hex))
					      : json_null());
	json_object_set_new(o, "message", facts_text(r->message));
	json_object_set_new(o, "schedule", facts_text(r->schedule));
	json_object_set_new(o, "trial", trial_of(r));
	json_object_set_new(o, "caused_by", cause_of(r));
	return o;
}

/* The questions of a run that goes on, and as a sentence the first of them. */
static void add_approvals(json_t *o, struct db *db, const struct run_row *r, struct arena *arena)
{
	json_t *list = json_array(), *waiting = NULL;
	struct attempt_row *v;
	size_t n = 0;

	if (r->state == RUN_RUNNING && record_approvals_open(db, r->rowid, arena, &v, &n, NULL) < 0)
		n = 0;
	for (size_t i = 0; i < n; i++) {
		struct approval a;

		if (!approval_parse(v[i].approval, arena, &a) || a.answer != APPROVAL_OPEN)
			continue;
		json_array_append_new(
			list, json_pack("{s:o, s:s, s:o}", "task", facts_text(v[i].task), "step",
					v[i].step, "approval", json_loads(v[i].approval, 0, NULL)));
		if (!waiting)
			waiting = facts_text(v[i].waiting);
	}
	json_object_set_new(o, "approvals", list);
	json_object_set_new(o, "waiting", waiting ? waiting : json_null());
}

json_t *facts_named_run(struct db *db, const struct run_row *r, struct arena *arena)
{
	json_t *o = facts_run(r), *names = json_array();
	struct tag_row *tags;
	size_t n;

	if (r->has_hash && record_tags(db, &r->hash, arena, &tags, &n, NULL) == 0)
		for (size_t i = 0; i < n; i++)
			json_array_append_new(names, facts_text(tags[i].name));
	json_object_set_new(o, "tags", names);
	add_approvals(o, db, r, arena);
	return o;
}

bool facts_engine_died(const struct run_row *r)
{
	return record_run_engine(r) == RUN_ENGINE_DIED;
}

const char *facts_state(const struct run_row *r)
{
	return facts_engine_died(r) ? "died" : run_state_name(r->state);
}

/* Attempts. */

/* "12 15" → [12, 15] */
static json_t *continues_json(const char *ids)
{
	json_t *list = json_array();
	char *end;

	for (const char *at = ids ? ids : ""; *at; at = end) {
		long long id = strtoll(at, &end, 10);

		if (end == at)
			break;
		json_array_append_new(list, json_integer(id));
	}
	return list;
}

json_t *facts_attempt(const struct attempt_row *a, bool died)
{
	int64_t until_ns = a->ended_ns ? a->ended_ns : clock_wall_ns();
	const char *state = !a->ended_ns                 ? died && !a->approval ? "lost" : "running"
			    : a->failure == FAILURE_NONE ? "succeeded"
			    : a->failure == FAILURE_CANCELLED ? "cancelled"
							      : "failed";
	json_t *o = json_object(),
	       *approval = a->approval ? json_loads(a->approval, 0, NULL) : NULL;

	json_object_set_new(o, "task", facts_text(a->task));
	json_object_set_new(o, "step", facts_text(a->step));
	json_object_set_new(o, "attempt", json_integer(a->number));
	json_object_set_new(o, "id", json_integer(a->id));
	json_object_set_new(o, "continues", continues_json(a->continues));
	json_object_set_new(o, "state", json_string(state));
	json_object_set_new(o, "started", facts_time(a->started_ns));
	json_object_set_new(o, "duration_ns", json_integer(until_ns - a->started_ns));
	json_object_set_new(o, "exit", a->ended_ns ? json_integer(a->exit_status) : json_null());
	json_object_set_new(o, "failure",
			    a->failure == FAILURE_NONE
				    ? json_null()
				    : json_string(failure_class_name(a->failure)));
	json_object_set_new(o, "message", facts_text(a->message));
	json_object_set_new(o, "reason", facts_text(a->reason));
	json_object_set_new(o, "waiting", a->ended_ns ? json_null() : facts_text(a->waiting));
	json_object_set_new(o, "image", facts_text(a->image));
	json_object_set_new(o, "approval", approval ? approval : json_null());
	return o;
}

int facts_exports(struct db *db, const struct run_row *run, struct arena *arena, json_t **ret,
		  struct err *err)
{
	struct export_row *v;
	json_t *out;
	size_t n;

	if (record_run_exports(db, run->rowid, arena, &v, &n, err) < 0)
		return -1;
	out = json_array();
	for (size_t i = 0; i < n; i++) {
		json_t *j =
			json_pack("{s:o, s:o, s:o, s:s}", "task", facts_text(v[i].task), "output",
				  facts_text(v[i].output), "uri", facts_text(v[i].uri), "state",
				  v[i].message ? "failed" : "exported");

		if (v[i].message)
			json_object_set_new(j, "message", facts_text(v[i].message));
		json_array_append_new(out, j);
	}
	*ret = out;
	return 0;
}

/* Tasks. */

struct task_list {
	VEC(struct facts_task) v;
};

void facts_of_entry(const struct results *r, const struct result_entry *e, struct arena *arena,
		    struct facts_task *ret)
{
	*ret = (struct facts_task){ .state = e->state,
				    .key = e->key,
				    .duration_ns = e->duration_ns,
				    .n_outputs = e->n_outputs,
				    .n_metrics = e->n_metrics };
	ret->task = arena_strdup(arena, e->task);
	ret->step = arena_strdup(arena, e->step);
	ret->outputs = arena_alloc(arena, (e->n_outputs + 1) * sizeof(*ret->outputs));
	for (size_t i = 0; i < e->n_outputs; i++) {
		ret->outputs[i].name = arena_strdup(arena, results_output_name(r, e, i));
		results_output(e, i, &ret->outputs[i].id);
	}
	ret->metrics = arena_alloc(arena, (e->n_metrics + 1) * sizeof(*ret->metrics));
	for (size_t i = 0; i < e->n_metrics; i++) {
		results_metric(e, i, &ret->metrics[i]);
		ret->metrics[i].name = arena_strdup(arena, ret->metrics[i].name);
	}
}

static int from_attempts(struct db *db, const struct run_row *run, struct arena *arena,
			 struct task_list *l, struct err *err)
{
	_cleanup_(map_freep) struct map *places = map_new(); /* task → index + 1 */
	struct attempt_row *a;
	size_t n;

	if (record_run_attempts(db, run->rowid, arena, &a, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct facts_task t = { .task = a[i].task,
					.step = a[i].step,
					.key = a[i].key,
					.duration_ns = a[i].ended_ns - a[i].started_ns };
		struct cached_result res;
		void **place;

		if (a[i].ended_ns == 0 ||
		    (a[i].failure != FAILURE_NONE && a[i].failure != FAILURE_GATE))
			continue;
		if (record_outputs(db, a[i].id, arena, &res, err) < 0)
			return -1;
		t.state = a[i].failure == FAILURE_NONE ? RESULT_SUCCEEDED : RESULT_FAILED;
		t.outputs = res.outputs;
		t.n_outputs = res.n_outputs;
		t.metrics = res.metrics;
		t.n_metrics = res.n_metrics;
		place = map_slot_str(places, t.task);
		if (*place) { /* a retry: the last one counts */
			l->v.v[(uintptr_t)*place - 1] = t;
			continue;
		}
		VEC_PUSH(&l->v, t);
		*place = (void *)(uintptr_t)l->v.n;
	}
	return 0;
}

int facts_read_tasks(struct db *db, struct store *s, const struct run_row *run, struct arena *arena,
		     struct facts_task **ret, size_t *ret_n, struct err *err)
{
	struct task_list l = { 0 };
	struct results_cursor c;
	struct result_entry e;
	struct results *table;
	int r;

	if (run->results.kind) {
		r = results_open(s, &run->results, &table, err);
		if (r < 0)
			return err_wrap(err, "results of run %s", run->id);
		results_first(table, &c);
		while (results_next(&c, &e))
			facts_of_entry(table, &e, arena, VEC_ADD(&l.v));
		results_free(table);
	} else {
		r = from_attempts(db, run, arena, &l, err);
	}

	VEC_TO_ARENA(&l.v, arena, ret, ret_n);
	return r;
}

int facts_made_by(struct db *db, const struct run_row *run, const struct facts_task *t,
		  struct arena *arena, struct attempt_row *ret, struct err *err)
{
	struct cached_result hit;
	struct attempt_row *a;
	struct run_row of;
	size_t n;
	int r;

	if (record_run_attempts(db, run->rowid, arena, &a, &n, err) < 0)
		return -1;
	for (size_t i = n; i-- > 0;)
		if (str_eq(a[i].task, t->task)) {
			*ret = a[i];
			return 1;
		}
	r = record_lookup(db, &t->key, arena, &hit, err);
	return r <= 0 ? r : record_attempt(db, hit.attempt, arena, ret, &of, err);
}

int facts_logged_by(struct db *db, struct store *s, const struct run_row *run,
		    const struct facts_task *t, struct arena *arena, struct attempt_row *ret,
		    struct err *err)
{
	struct action_record rec;
	int r = facts_made_by(db, run, t, arena, ret, err);

	if (r != 0)
		return r;
	if (!s || action_get(s, &t->key, arena, &rec, NULL) < 0 || !rec.log.kind)
		return 0;
	*ret = (struct attempt_row){ .task = t->task,
				     .step = t->step,
				     .number = 1,
				     .key = t->key,
				     .ended_ns = run->ended_ns,
				     .log = rec.log };
	return 1;
}

/* As JSON. */

const char *facts_result_state(enum result_state s)
{
	static const char *const names[] = { [RESULT_SUCCEEDED] = "succeeded",
					     [RESULT_FAILED] = "failed",
					     [RESULT_SKIPPED] = "skipped",
					     [RESULT_BLOCKED] = "blocked" };

	return (unsigned)s < ARRAY_LEN(names) && names[s] ? names[s] : "unknown";
}

json_t *facts_id(const struct content_id *id)
{
	char hex[DIGEST_HEX_MAX];

	return id && id->kind ? json_sprintf("sha256:%s", digest_hex(&id->digest, hex))
			      : json_null();
}

json_t *facts_content(const struct content_id *id)
{
	return id->kind == CONTENT_NONE
		       ? json_null()
		       : json_pack("{s:o, s:s, s:I}", "id", facts_id(id), "kind",
				   content_kind_name(id->kind), "size", (json_int_t)id->size_bytes);
}

/* Names of outputs and metrics become JSON keys, which must be text. */
static void set_named(json_t *o, const char *name, json_t *value)
{
	_cleanup_(json_decrefp) json_t *key = facts_text(name);

	json_object_set_new(o, json_string_value(key), value);
}

json_t *facts_metrics(const struct facts_task *t)
{
	json_t *o = json_object();

	for (size_t i = 0; i < t->n_metrics; i++)
		set_named(o, t->metrics[i].name, facts_number(t->metrics[i].value));
	return o;
}

json_t *facts_task_json(const struct facts_task *t)
{
	static const struct digest none;
	json_t *o = json_object(), *outputs = json_object();
	char hex[DIGEST_HEX_MAX];

	for (size_t i = 0; i < t->n_outputs; i++)
		set_named(outputs, t->outputs[i].name, facts_content(&t->outputs[i].id));
	json_object_set_new(o, "task", facts_text(t->task));
	json_object_set_new(o, "step", facts_text(t->step));
	json_object_set_new(o, "state", json_string(facts_result_state(t->state)));
	json_object_set_new(o, "key",
			    digest_eq(&t->key, &none) ? json_null()
						      : json_string(digest_hex(&t->key, hex)));
	json_object_set_new(o, "duration_ns", json_integer(t->duration_ns));
	json_object_set_new(o, "outputs", outputs);
	json_object_set_new(o, "metrics", facts_metrics(t));
	return o;
}
