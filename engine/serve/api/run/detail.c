/* engine/serve/api/run/detail.c — one task of a run with all that is on record of it.
 *
 * What the task was made of comes from its key record: command, params, environment, code, tools.
 * Secrets are in it by name only. What it read is on record with the attempt that made the result:
 * its own one, or the one behind a hit. Where an input came from is looked for among the tasks
 * that this one needs, then among the inputs of the run.
 *
 * Invariants: lists of other tasks are cut at NEIGHBOURS_MAX, texts at TEXT_MAX, and attempts at
 * ATTEMPTS_MAX.
 *
 * Threads: the pool's. Not here: rows (tasks.c), metrics over time (curves.c), logs (../log.c).
 */
#include <string.h>
#include <sys/stat.h>
#include "model/expr/value.h"
#include "plan/key/difference.h"
#include "record/rows/pages.h"
#include "run/run.h"
#include "run/view/series.h"
#include "runners/runner.h"
#include "serve/api/run/views.h"
#include "storage/action.h"

#define NEIGHBOURS_MAX 200
#define TEXT_MAX       (64 * KIB)
#define ATTEMPTS_MAX   100

struct detail {
	const struct viewed *v;
	struct api *a;
	const struct view_task *t;
	struct store *store;     /* or NULL */
	bool has_attempt;        /* `made` is on record here */
	struct attempt_row made; /* the execution that made its result, or its last attempt */
	struct facts_task results;
	json_t *o;
};

/* What it was made of. */

static json_t *text_json(const char *s, size_t n)
{
	return json_name(s, MIN(n, TEXT_MAX));
}

static json_t *fact_value(const struct key_fact *f)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	if (f->kind != KEY_PARAM && f->kind != KEY_SEED)
		return text_json(f->value, f->value_len);
	value_canonical_text(f->value, f->value_len, &s);
	return text_json(s.s ? s.s : "", s.len);
}

static void set_fact(json_t *list, const struct key_fact *f)
{
	_cleanup_(json_decrefp) json_t *name = text_json(f->name, f->name_len);

	json_object_set_new(list, json_string_value(name), fact_value(f));
}

static void add_facts(struct detail *d, const struct key_fact *facts, size_t n)
{
	json_t *params = json_object(), *env = json_object(), *tools = json_object(),
	       *with = json_object(), *secrets = json_array(), *command = json_null(),
	       *builtin = json_null(), *code = json_null();
	struct content_id id;
	const char *path;

	for (size_t i = 0; i < n; i++) {
		const struct key_fact *f = &facts[i];

		if (f->kind == KEY_PARAM || f->kind == KEY_ENV || f->kind == KEY_TOOL ||
		    f->kind == KEY_WITH)
			set_fact(f->kind == KEY_PARAM  ? params
				 : f->kind == KEY_ENV  ? env
				 : f->kind == KEY_TOOL ? tools
						       : with,
				 f);
		else if (f->kind == KEY_SECRET)
			json_array_append_new(secrets, text_json(f->name, f->name_len));
		else if (f->kind == KEY_SCRIPT)
			json_decref(command), command = text_json(f->value, f->value_len);
		else if (f->kind == KEY_BUILTIN)
			json_decref(builtin), builtin = text_json(f->name, f->name_len);
		else if (f->kind == KEY_CODE && key_fact_content(f, &path, &id))
			json_decref(code), code = facts_content(&id);
	}
	json_object_set_new(d->o, "command", command);
	json_object_set_new(d->o, "builtin", builtin);
	json_object_set_new(d->o, "code", code);
	json_object_set_new(d->o, "params", params);
	json_object_set_new(d->o, "env", env);
	json_object_set_new(d->o, "tools", tools);
	json_object_set_new(d->o, "with", with);
	json_object_set_new(d->o, "secrets", secrets);
}

/* Why. */

struct changes {
	struct detail *d;
	json_t *list;
};

static void add_change(void *arg, const struct key_fact *was, const struct key_fact *now)
{
	struct changes *c = arg;
	const struct key_fact *f = now ? now : was;
	_cleanup_(str_deinit) struct str where = { 0 };
	struct content_id a = { 0 }, b = { 0 };
	json_t *o = json_object();
	bool content;
	const char *path;

	content = (!was || key_fact_content(was, &path, &a)) &&
		  (!now || key_fact_content(now, &path, &b)) &&
		  (f->kind == KEY_INPUT || f->kind == KEY_CODE);
	if (content && a.kind && b.kind && c->d->store)
		tree_first_difference(c->d->store, &a, &b, &where);
	json_object_set_new(o, "what", json_string(key_fact_kind_name(f->kind)));
	json_object_set_new(o, "name", text_json(f->name, f->name_len));
	json_object_set_new(o, "was", !was || content ? json_null() : fact_value(was));
	json_object_set_new(o, "now", !now || content ? json_null() : fact_value(now));
	json_object_set_new(o, "was_content", content ? facts_content(&a) : json_null());
	json_object_set_new(o, "now_content", content ? facts_content(&b) : json_null());
	json_object_set_new(o, "detail", facts_text(where.len ? where.s : NULL));
	json_array_append_new(c->list, o);
}

/* How its key differs from that of the attempt of this task before it. */
static void add_changes(struct detail *d, const struct key_fact *now, size_t n_now, json_t *why)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	_cleanup_(freep) struct key_fact *was = NULL;
	struct changes c = { d, json_array() };
	struct attempt_row before;
	struct run_row of;
	json_t *since = json_null();
	size_t n_was;

	if (d->has_attempt && n_now &&
	    record_previous_attempt(d->a->db, d->v->v->run.pipeline, d->t->name, d->made.id,
				    d->a->arena, &before, NULL) > 0 &&
	    record_key_bytes(d->a->db, &before.key, &bytes, NULL) == 0 &&
	    key_record_decode(bytes.s, bytes.len, &was, &n_was, NULL) == 0) {
		key_differences(was, n_was, now, n_now, add_change, &c);
		if (record_attempt(d->a->db, before.id, d->a->arena, &before, &of, NULL) > 0)
			json_decref(since), since = facts_text(of.id);
	}
	json_object_set_new(why, "changes", c.list);
	json_object_set_new(why, "since", since);
}

static void add_made_of(struct detail *d)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	_cleanup_(freep) struct key_fact *facts = NULL;
	const char *reason = d->t->state == VIEW_HIT
				     ? "nothing changed since its result was recorded"
			     : d->t->attempt ? d->made.reason
					     : view_reason(d->v->v, d->t, d->a->arena);
	json_t *why = json_pack("{s:o}", "causes", facts_causes(reason));
	size_t n = 0;

	if (record_key_bytes(d->a->db, &d->t->key, &bytes, NULL) < 0 ||
	    key_record_decode(bytes.s, bytes.len, &facts, &n, NULL) < 0)
		n = 0;
	add_changes(d, facts, n, why);
	add_facts(d, facts, n);
	json_object_set_new(d->o, "why", why);
}

/* Inputs. */

/* The output of `t` that has this content. */
static json_t *output_of(struct detail *d, const struct view_task *t, const struct content_id *id)
{
	struct facts_task f;

	if (view_results(d->v->v, d->a->db, t, d->a->arena, &f, NULL) < 0)
		return NULL;
	for (size_t i = 0; i < f.n_outputs; i++)
		if (content_id_eq(&f.outputs[i].id, id))
			return json_pack("{s:o, s:o}", "task", facts_text(t->name), "output",
					 facts_text(f.outputs[i].name));
	return NULL;
}

static json_t *origin_of(struct detail *d, const struct named_content *row,
			 const struct view_task *const *needs, size_t n_needs,
			 const struct run_input_row *pins, size_t n_pins)
{
	const char *colon = strchr(row->name, ':');
	const struct view_task *named = colon ? view_find(d->v->v, colon + 1) : NULL;
	json_t *from = named ? output_of(d, named, &row->id) : NULL;

	for (size_t i = 0; i < n_needs && !from; i++)
		from = output_of(d, needs[i], &row->id);
	for (size_t i = 0; i < n_pins && !from; i++)
		if (str_has_prefix(pins[i].name, "input:") && content_id_eq(&pins[i].id, &row->id))
			from = json_pack("{s:o, s:o}", "input",
					 facts_text(pins[i].name + strlen("input:")), "origin",
					 facts_text(pins[i].origin));
	return from ? from : json_null();
}

static json_t *names_json(const struct view_task *const *tasks, size_t n)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(list, facts_text(tasks[i]->name));
	return list;
}

static int add_inputs(struct detail *d, struct err *err)
{
	const struct view_task *const *up, *const *down;
	size_t n_up, n_down, all_up, all_down, n = 0, n_pins;
	json_t *list = json_array();
	struct named_content *rows;
	struct run_input_row *pins;

	json_object_set_new(d->o, "inputs", list);
	n_up = view_neighbours(d->v->v, d->t, false, NEIGHBOURS_MAX, d->a->arena, &up, &all_up);
	n_down =
		view_neighbours(d->v->v, d->t, true, NEIGHBOURS_MAX, d->a->arena, &down, &all_down);
	json_object_set_new(d->o, "upstream", names_json(up, n_up));
	json_object_set_new(d->o, "downstream", names_json(down, n_down));
	json_object_set_new(d->o, "upstream_total", json_integer((json_int_t)all_up));
	json_object_set_new(d->o, "downstream_total", json_integer((json_int_t)all_down));
	if (!d->has_attempt)
		return 0;
	if (record_inputs(d->a->db, d->made.id, d->a->arena, &rows, &n, err) < 0 ||
	    record_run_inputs(d->a->db, d->v->v->run.rowid, d->a->arena, &pins, &n_pins, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		json_array_append_new(list,
				      json_pack("{s:o, s:o, s:o}", "name", facts_text(rows[i].name),
						"content", facts_content(&rows[i].id), "from",
						origin_of(d, &rows[i], up, n_up, pins, n_pins)));
	return 0;
}

/* The rest. */

static int add_attempts(struct detail *d, struct err *err)
{
	struct attempt_page p = { .run = d->v->v->run.rowid,
				  .task = d->t->name,
				  .limit = ATTEMPTS_MAX,
				  .newest_first = true };
	json_t *list = json_array();
	struct attempt_row *rows;
	size_t n;

	json_object_set_new(d->o, "attempts_list", list);
	if (record_page_attempts(d->a->db, &p, d->a->arena, &rows, &n, err) < 0)
		return -1;
	while (n-- > 0) {
		json_t *o = facts_attempt(&rows[n], run_is_left(&d->v->v->run));

		json_object_set_new(o, "ended", facts_time(rows[n].ended_ns));
		json_object_set_new(o, "node", facts_text(rows[n].node));
		json_object_set_new(o, "signal",
				    rows[n].signo ? json_integer(rows[n].signo) : json_null());
		json_object_set_new(o, "max_rss_bytes",
				    rows[n].max_rss_bytes
					    ? json_integer((json_int_t)rows[n].max_rss_bytes)
					    : json_null());
		json_object_set_new(o, "cpu_ns",
				    rows[n].cpu_ns ? json_integer(rows[n].cpu_ns) : json_null());
		json_object_set_new(o, "log", facts_content(&rows[n].log));
		json_array_append_new(list, o);
	}
	return 0;
}

/* How many bytes the last log has; null: there is none, or it is in a pod. */
static json_t *log_json(struct detail *d)
{
	_cleanup_(freep) char *path = NULL;
	struct action_record rec;
	struct content_id log = d->made.log;
	struct stat st;

	if (d->t->state == VIEW_RUNNING) {
		path = runner_local_log_path(d->a->project->config->state_dir,
					     (uint64_t)d->t->attempt);
		return stat(path, &st) < 0 ? json_null()
					   : json_pack("{s:I}", "bytes", (json_int_t)st.st_size);
	}
	if (!log.kind && !d->has_attempt && d->store && d->t->state == VIEW_HIT &&
	    action_get(d->store, &d->t->key, d->a->arena, &rec, NULL) == 0)
		log = rec.log;
	return log.kind ? json_pack("{s:I}", "bytes", (json_int_t)log.size_bytes) : json_null();
}

static json_t *outputs_json(const struct facts_task *f)
{
	json_t *list = json_array();

	for (size_t i = 0; i < f->n_outputs; i++)
		json_array_append_new(list, json_pack("{s:o, s:o}", "name",
						      facts_text(f->outputs[i].name), "content",
						      facts_content(&f->outputs[i].id)));
	return list;
}

static json_int_t ranks_of(const struct step *s)
{
	return s && s->machine->distributed.framework
		       ? (json_int_t)s->machine->distributed.nodes *
					 s->machine->distributed.procs_per_node +
				 s->machine->distributed.servers
		       : 1;
}

static int find_made(struct detail *d, struct err *err)
{
	struct cached_result hit = { .attempt = d->t->attempt };
	struct run_row of;
	int r = 1;

	if (!hit.attempt && d->t->state == VIEW_HIT)
		r = record_lookup(d->a->db, &d->t->key, d->a->arena, &hit, err);
	if (r > 0)
		r = hit.attempt
			    ? record_attempt(d->a->db, hit.attempt, d->a->arena, &d->made, &of, err)
			    : 0;
	d->has_attempt = r > 0;
	return MIN(r, 0);
}

static json_t *series_names(struct detail *d)
{
	json_t *list = json_array();
	struct series s;

	if (api_series_read(d->v, d->store, d->t, &d->results, d->a->arena, &s, NULL) > 0)
		for (size_t i = 0; i < s.n_metrics; i++)
			json_array_append_new(list, facts_text(s.metrics[i].name));
	return list;
}

static int fill(struct detail *d, struct err *err)
{
	const struct step *decl = d->v->v->steps[d->t->step].decl;

	if (find_made(d, err) < 0 ||
	    view_results(d->v->v, d->a->db, d->t, d->a->arena, &d->results, err) < 0)
		return -1;
	add_made_of(d);
	json_object_set_new(d->o, "outputs", outputs_json(&d->results));
	json_object_set_new(d->o, "series", series_names(d));
	json_object_set_new(d->o, "ranks", json_integer(ranks_of(decl)));
	json_object_set_new(d->o, "log", log_json(d));
	json_object_set_new(d->o, "description", facts_text(decl ? decl->description : NULL));
	return add_inputs(d, err) < 0 ? -1 : add_attempts(d, err);
}

static bool open_detail(struct api *a, struct viewed *v, struct detail *ret)
{
	*ret = (struct detail){ .a = a, .v = v };
	if (!api_view(a, v))
		return false;
	ret->t = api_view_task(v);
	if (ret->t && project_store(a->project, &ret->store, NULL) < 0)
		ret->store = NULL;
	return ret->t != NULL;
}

void api_run_task(struct api *a)
{
	struct err err = { 0 };
	struct viewed v;
	struct detail d;

	if (open_detail(a, &v, &d)) {
		d.o = api_task_row(&v, d.t, a->arena, &err);
		if (!d.o || fill(&d, &err) < 0)
			web_problem_err(a->x, &err);
		else
			web_answer_json(a->x, 200, json_incref(d.o));
		json_decref(d.o);
	}
	api_view_return(&v);
}
