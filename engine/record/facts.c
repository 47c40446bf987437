#include <math.h>
#include <stdio.h>
#include "base/clock.h"
#include "base/text.h"
#include "record/facts.h"
#include "record/tags.h"

json_t *facts_text(const char *s)
{
	return s ? json_name(s, strlen(s)) : json_null();
}

json_t *facts_time(int64_t wall_ns)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	if (wall_ns == 0)
		return json_null();
	text_add_time(&text, wall_ns, 3);
	return json_string(text.s);
}

json_t *facts_run(const struct run_row *r)
{
	const struct run_counts *c = &r->counts;
	char hex[DIGEST_HEX_MAX];
	json_t *o = json_object(), *params = r->params_json ? json_loads(r->params_json, 0, NULL) : NULL;

	json_object_set_new(o, "id", facts_text(r->id));
	json_object_set_new(o, "hash", r->has_hash ? json_string(digest_hex(&r->hash, hex)) : json_null());
	json_object_set_new(o, "pipeline", facts_text(r->pipeline));
	json_object_set_new(o, "path", facts_text(r->path));
	json_object_set_new(o, "state", json_string(facts_state(r)));
	json_object_set_new(o, "started", facts_time(r->started_ns));
	json_object_set_new(o, "duration_ns", json_integer(r->ended_ns ? r->ended_ns - r->started_ns : 0));
	json_object_set_new(o, "saved_ns", json_integer(c->saved_ns));
	json_object_set_new(o, "params", params ? params : json_object());
	json_object_set_new(o, "git_commit", facts_text(r->git_commit));
	json_object_set_new(o, "git_dirty", json_boolean(r->git_dirty));
	json_object_set_new(o, "counts", json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "total", (json_int_t)c->total, "executed", (json_int_t)c->executed,
						    "hits", (json_int_t)c->hits, "failed", (json_int_t)c->failed, "skipped", (json_int_t)c->skipped,
						    "blocked", (json_int_t)c->blocked));
	json_object_set_new(o, "reproduces", r->has_reproduces ? json_string(digest_hex(&r->reproduces, hex)) : json_null());
	json_object_set_new(o, "message", facts_text(r->message));
	return o;
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

/* --- attempts -------------------------------------------------------------------------------------------------------------- */

const char *facts_attempt_state(const struct attempt_row *a, bool died)
{
	if (a->ended_ns == 0)
		return died ? "lost" : "running";
	return a->failure == FAILURE_NONE ? "succeeded" : "failed";
}

int64_t facts_attempt_duration(const struct attempt_row *a)
{
	struct clock *c = clock_system();

	return (a->ended_ns ? a->ended_ns : c->wall_ns(c)) - a->started_ns;
}

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
	json_t *o = json_object();

	json_object_set_new(o, "task", facts_text(a->task));
	json_object_set_new(o, "step", facts_text(a->step));
	json_object_set_new(o, "attempt", json_integer(a->number));
	json_object_set_new(o, "id", json_integer(a->id));
	json_object_set_new(o, "continues", continues_json(a->continues));
	json_object_set_new(o, "state", json_string(facts_attempt_state(a, died)));
	json_object_set_new(o, "started", facts_time(a->started_ns));
	json_object_set_new(o, "duration_ns", json_integer(facts_attempt_duration(a)));
	json_object_set_new(o, "exit", a->ended_ns ? json_integer(a->exit_status) : json_null());
	json_object_set_new(o, "failure", a->failure == FAILURE_NONE ? json_null() : json_string(failure_class_name(a->failure)));
	json_object_set_new(o, "message", facts_text(a->message));
	json_object_set_new(o, "reason", facts_text(a->reason));
	json_object_set_new(o, "waiting", a->ended_ns ? json_null() : facts_text(a->waiting));
	json_object_set_new(o, "image", facts_text(a->image));
	return o;
}

/* --- tasks ------------------------------------------------------------------------------------------------------------------- */

struct task_list {
	VEC(struct facts_task) v;
};

void facts_of_entry(const struct results *r, const struct result_entry *e, struct arena *arena, struct facts_task *ret)
{
	*ret = (struct facts_task){ .state = e->state, .key = e->key, .duration_ns = e->duration_ns, .n_outputs = e->n_outputs, .n_metrics = e->n_metrics };
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

static int from_table(struct store *s, const struct run_row *run, struct arena *arena, struct task_list *l, struct err *err)
{
	struct results_cursor c;
	struct result_entry e;
	struct results *r;

	if (results_open(s, &run->results, &r, err) < 0)
		return err_wrap(err, "results of run %s", run->id);
	results_first(r, &c);
	while (results_next(&c, &e))
		facts_of_entry(r, &e, arena, VEC_ADD(&l->v));
	results_free(r);
	return 0;
}

static int from_attempts(struct db *db, const struct run_row *run, struct arena *arena, struct task_list *l, struct err *err)
{
	struct attempt_row *a;
	size_t n;

	if (record_run_attempts(db, run->rowid, arena, &a, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct facts_task t = { .task = a[i].task, .step = a[i].step, .key = a[i].key, .duration_ns = a[i].ended_ns - a[i].started_ns };
		struct cached_result res;

		if (a[i].ended_ns == 0 || (a[i].failure != FAILURE_NONE && a[i].failure != FAILURE_GATE))
			continue;
		if (record_outputs(db, a[i].id, arena, &res, err) < 0)
			return -1;
		t.state = a[i].failure == FAILURE_NONE ? RESULT_SUCCEEDED : RESULT_FAILED;
		t.outputs = res.outputs;
		t.n_outputs = res.n_outputs;
		t.metrics = res.metrics;
		t.n_metrics = res.n_metrics;
		VEC_PUSH(&l->v, t);
	}
	return 0;
}

int facts_read_tasks(struct db *db, struct store *s, const struct run_row *run, struct arena *arena, struct facts_task **ret, size_t *ret_n, struct err *err)
{
	struct task_list l = { 0 };
	int r = run->results.kind ? from_table(s, run, arena, &l, err) : from_attempts(db, run, arena, &l, err);

	VEC_TO_ARENA(&l.v, arena, ret, ret_n);
	return r;
}

/* --- as JSON -------------------------------------------------------------------------------------------------------------------- */

static const char *result_state_name(enum result_state s)
{
	static const char *const names[] = { [RESULT_SUCCEEDED] = "succeeded", [RESULT_FAILED] = "failed", [RESULT_SKIPPED] = "skipped", [RESULT_BLOCKED] = "blocked" };

	return (unsigned)s < ARRAY_LEN(names) && names[s] ? names[s] : "unknown";
}

json_t *facts_content(const struct content_id *id)
{
	char hex[DIGEST_HEX_MAX], text[sizeof("sha256:") + DIGEST_HEX_MAX];

	if (id->kind == CONTENT_NONE)
		return json_null();
	snprintf(text, sizeof(text), "sha256:%s", digest_hex(&id->digest, hex));
	return json_pack("{s:s, s:s, s:I}", "id", text, "kind", content_kind_name(id->kind), "size", (json_int_t)id->size_bytes);
}

/* Names of outputs and metrics are keys: they must be text. */
static void set_named(json_t *o, const char *name, json_t *value)
{
	_cleanup_(json_decrefp) json_t *key = facts_text(name);

	json_object_set_new(o, json_string_value(key), value);
}

json_t *facts_metrics(const struct facts_task *t)
{
	json_t *o = json_object();

	for (size_t i = 0; i < t->n_metrics; i++)
		set_named(o, t->metrics[i].name, isfinite(t->metrics[i].value) ? json_real(t->metrics[i].value) : json_null());
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
	json_object_set_new(o, "state", json_string(result_state_name(t->state)));
	json_object_set_new(o, "key", digest_eq(&t->key, &none) ? json_null() : json_string(digest_hex(&t->key, hex)));
	json_object_set_new(o, "duration_ns", json_integer(t->duration_ns));
	json_object_set_new(o, "outputs", outputs);
	json_object_set_new(o, "metrics", facts_metrics(t));
	return o;
}
