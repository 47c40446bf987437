#include "base/text.h"
#include "cli/facts.h"

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
	json_object_set_new(o, "message", facts_text(r->message));
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

int facts_find_run(struct cli *cli, struct db *db, const char *what, struct run_row *ret, struct err *err)
{
	return record_find_run(db, what ? what : "last", cli->arena, ret, err);
}

/* --- tasks ------------------------------------------------------------------------------------------------------------------- */

struct task_list {
	VEC(struct facts_task) v;
};

static void add_entry(struct cli *cli, struct task_list *l, const struct results *r, const struct result_entry *e)
{
	struct facts_task t = { .state = e->state, .key = e->key, .duration_ns = e->duration_ns, .n_outputs = e->n_outputs, .n_metrics = e->n_metrics };

	t.task = arena_strdup(cli->arena, e->task);
	t.step = arena_strdup(cli->arena, e->step);
	t.outputs = arena_alloc(cli->arena, (e->n_outputs + 1) * sizeof(*t.outputs));
	for (size_t i = 0; i < e->n_outputs; i++) {
		t.outputs[i].name = arena_strdup(cli->arena, results_output_name(r, e, i));
		results_output(e, i, &t.outputs[i].id);
	}
	t.metrics = arena_alloc(cli->arena, (e->n_metrics + 1) * sizeof(*t.metrics));
	for (size_t i = 0; i < e->n_metrics; i++) {
		results_metric(e, i, &t.metrics[i]);
		t.metrics[i].name = arena_strdup(cli->arena, t.metrics[i].name);
	}
	VEC_PUSH(&l->v, t);
}

static int from_table(struct cli *cli, const struct run_row *run, struct task_list *l, struct err *err)
{
	struct results_cursor c;
	struct result_entry e;
	struct results *r;
	struct store *s;

	if (cli_store(cli, false, &s, err) < 0 || results_open(s, &run->results, &r, err) < 0)
		return err_wrap(err, "results of run %s", run->id);
	results_first(r, &c);
	while (results_next(&c, &e))
		add_entry(cli, l, r, &e);
	results_free(r);
	return 0;
}

static int from_attempts(struct cli *cli, struct db *db, const struct run_row *run, struct task_list *l, struct err *err)
{
	struct attempt_row *a;
	size_t n;

	if (record_run_attempts(db, run->rowid, cli->arena, &a, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct facts_task t = { .task = a[i].task, .step = a[i].step, .key = a[i].key, .duration_ns = a[i].ended_ns - a[i].started_ns };
		struct cached_result res;

		if (a[i].ended_ns == 0 || (a[i].failure != FAILURE_NONE && a[i].failure != FAILURE_GATE))
			continue;
		if (record_outputs(db, a[i].id, cli->arena, &res, err) < 0)
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

int facts_tasks(struct cli *cli, struct db *db, const struct run_row *run, struct facts_task **ret, size_t *ret_n, struct err *err)
{
	struct task_list l = { 0 };
	int r = run->results.kind ? from_table(cli, run, &l, err) : from_attempts(cli, db, run, &l, err);

	*ret = arena_alloc(cli->arena, (l.v.n + 1) * sizeof(**ret));
	if (l.v.n)
		memcpy(*ret, l.v.v, l.v.n * sizeof(**ret));
	*ret_n = l.v.n;
	VEC_FREE(&l.v);
	return r;
}

/* --- TASK/OUTPUT -------------------------------------------------------------------------------------------------------------- */

static const struct named_content *output_named(const struct facts_task *t, const char *name)
{
	if (!name)
		return t->n_outputs == 1 ? &t->outputs[0] : NULL;
	for (size_t i = 0; i < t->n_outputs; i++)
		if (str_eq(t->outputs[i].name, name))
			return &t->outputs[i];
	return NULL;
}

/* The name before `/`, when what is behind it is an output; labels may hold slashes themselves. */
static bool names_task(const struct facts_task *t, const char *what, size_t n)
{
	return (strlen(t->task) == n && memcmp(t->task, what, n) == 0) || (strlen(t->step) == n && memcmp(t->step, what, n) == 0);
}

int facts_find_output(struct cli *cli, const struct facts_task *tasks, size_t n, const char *what, const struct facts_task **ret_task,
		      const struct named_content **ret, struct err *err)
{
	const char *slash = strrchr(what, '/');
	const struct facts_task *several = NULL, *without = NULL;
	size_t found = 0;

	for (size_t i = 0; i < n; i++) {
		const struct named_content *o = NULL;

		if (names_task(&tasks[i], what, strlen(what)))
			o = output_named(&tasks[i], NULL), without = o ? without : &tasks[i];
		else if (slash && names_task(&tasks[i], what, (size_t)(slash - what)))
			o = output_named(&tasks[i], slash + 1), without = o ? without : &tasks[i];
		if (!o || o->id.kind == CONTENT_NONE)
			continue;
		several = found ? tasks + i : several;
		if (found++ == 0) {
			*ret_task = &tasks[i];
			*ret = o;
		}
	}
	if (found == 1)
		return 0;
	if (several)
		return err_set(err, ERR_INVALID, "`%s` could be %s or %s: name the task", what, (*ret_task)->task, several->task);
	if (without && without->n_outputs > 1)
		return err_set(err, ERR_NOT_FOUND, "`%s`: task %s has %zu outputs; name one as %s/%s", what, without->task, without->n_outputs, without->task,
			       without->outputs[0].name);
	return err_set(err, ERR_NOT_FOUND, "the run has no output `%s` (write TASK/OUTPUT)", what);
}
