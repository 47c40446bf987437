/* engine/run/options.c — what a run's row says about the run: the options, as canonical JSON for
 * resume and for the manifest; path, files and commit.
 *
 * It is a list of members, written and read side by side. A missing member reads as not set. A new
 * option needs a line in options_to_json() and in options_from_json(). Names of tasks and steps go
 * through json_name(), since they may hold any bytes.
 *
 * Params are written with their values, after overrides and defaults. Reading turns an integer into
 * a float where the pipeline declares a float, because JSON has one kind of number.
 *
 * Any thread. Not here: checking names and params against the pipeline (plan/, model/params.c).
 */
#include "base/os/fs.h"
#include "base/text/json.h"
#include "record/facts.h"
#include "run/internal.h"

static const char *const kind_names[] = {
	[RUN_NEW] = "", [RUN_ISOLATED] = "isolated", [RUN_CHAINED] = "chained"
};

static json_t *names(const char *const *v, size_t n)
{
	json_t *a = json_array();

	for (size_t i = 0; i < n; i++)
		json_array_append_new(a, facts_text(v[i]));
	return a;
}

static const char *canonical(json_t *j, struct arena *arena)
{
	_cleanup_(str_deinit) struct str out = { 0 };

	json_add_canonical(&out, j);
	json_decref(j);
	return arena_strndup(arena, out.s, out.len);
}

const char *options_to_json(const struct run_options *o, struct arena *arena)
{
	const struct schedule_times *t = o->firing.times;
	json_t *j = json_object(), *schedule;

	json_object_set_new(j, "targets", names(o->select.targets, o->select.n_targets));
	json_object_set_new(j, "force", names(o->select.force, o->select.n_force));
	if (o->n_audit)
		json_object_set_new(j, "audit", names(o->audit, o->n_audit));
	json_object_set_new(j, "from", facts_text(o->select.from));
	json_object_set_new(j, "until", facts_text(o->select.until));
	json_object_set_new(j, "keep_going", json_boolean(o->keep_going));
	json_object_set_new(j, "keep_workspace", json_boolean(o->keep_workspace));
	json_object_set_new(j, "jobs", json_integer(o->jobs));
	if (t) {
		schedule = json_pack("{s:s, s:s, s:s, s:s}", "name", t->name, "time", t->time,
				     "interval_start", t->interval_start, "interval_end",
				     t->interval_end);
		if (t->run)
			json_object_set_new(schedule, "run", json_string(t->run));
		if (t->delivery)
			json_object_set_new(schedule, "delivery", facts_text(t->delivery));
		json_object_set_new(j, "schedule", schedule);
	}
	if (o->salt)
		json_object_set_new(j, "salt", facts_text(o->salt));
	if (o->runner)
		json_object_set_new(j, "runner", json_string(o->runner));
	if (o->cluster)
		json_object_set_new(j, "cluster",
				    json_pack("{s:o, s:o, s:o}", "name",
					      facts_text(o->cluster->name), "context",
					      facts_text(o->cluster->context), "namespace",
					      facts_text(o->cluster->namespace_)));
	if (o->served)
		json_object_set_new(j, "served", json_true());
	if (o->unbegun)
		json_object_set_new(j, "unbegun", json_integer(o->unbegun));
	if (o->trial.sweep)
		json_object_set_new(j, "trial", facts_trial_json(&o->trial));
	if (o->request)
		json_object_set_new(j, "request", json_string(o->request));
	if (o->kind != RUN_NEW) {
		json_object_set_new(j, "reproduces", json_string(kind_names[o->kind]));
		json_object_set_new(j, "only", names(o->tasks.only, o->tasks.n_only));
		json_object_set_new(j, "skip", names(o->tasks.skip, o->tasks.n_skip));
	}
	return canonical(j, arena);
}

/* Names of tasks may hold any bytes. A plain string comes from a version that didn't encode
 * names. */
static const char *decoded(const char *s, struct arena *arena)
{
	_cleanup_(str_deinit) struct str raw = { 0 };

	if (json_name_decode(&raw, s, NULL) < 0)
		return arena_strdup(arena, s);
	return arena_strndup(arena, raw.len ? raw.s : "", raw.len);
}

static const char *const *read_names(const json_t *j, const char *key, struct arena *arena,
				     size_t *ret_n)
{
	json_t *a = json_object_get(j, key);
	const char **v = arena_alloc(arena, (json_array_size(a) + 1) * sizeof(*v));

	for (size_t i = 0; i < json_array_size(a); i++)
		if (json_is_string(json_array_get(a, i)))
			v[(*ret_n)++] = decoded(json_string_value(json_array_get(a, i)), arena);
	return v;
}

static const char *read_name(const json_t *j, const char *key, struct arena *arena)
{
	const char *s = json_string_value(json_object_get(j, key));

	return s ? decoded(s, arena) : NULL;
}

static const struct schedule_times *read_schedule(const json_t *options, struct arena *arena)
{
	const json_t *j = json_object_get(options, "schedule");
	struct schedule_times *t = arena_alloc(arena, sizeof(*t));

	*t = (struct schedule_times){ read_name(j, "name", arena),
				      read_name(j, "time", arena),
				      read_name(j, "interval_start", arena),
				      read_name(j, "interval_end", arena),
				      read_name(j, "run", arena),
				      read_name(j, "delivery", arena) };
	return t->name && t->time && t->interval_start && t->interval_end ? t : NULL;
}

static const struct run_cluster *read_cluster(const json_t *options, struct arena *arena)
{
	const json_t *j = json_object_get(options, "cluster");
	struct run_cluster *c = arena_alloc(arena, sizeof(*c));

	*c = (struct run_cluster){ read_name(j, "name", arena), read_name(j, "context", arena),
				   read_name(j, "namespace", arena) };
	return json_is_object(j) ? c : NULL;
}

int options_from_json(const char *json, struct arena *arena, struct run_options *ret,
		      struct err *err)
{
	json_t *j;

	*ret = (struct run_options){ 0 };
	if (!json || json_parse("the run's options", json, strlen(json), &j, err) < 0)
		return json ? -1 : err_set(err, ERR_CORRUPT, "the run's options are not on record");
	ret->select.targets = read_names(j, "targets", arena, &ret->select.n_targets);
	ret->select.force = read_names(j, "force", arena, &ret->select.n_force);
	ret->audit = read_names(j, "audit", arena, &ret->n_audit);
	ret->select.from = read_name(j, "from", arena);
	ret->select.until = read_name(j, "until", arena);
	ret->keep_going = json_is_true(json_object_get(j, "keep_going"));
	ret->keep_workspace = json_is_true(json_object_get(j, "keep_workspace"));
	ret->jobs = (unsigned)MAX(json_integer_value(json_object_get(j, "jobs")), 0);
	ret->firing.times = read_schedule(j, arena);
	ret->salt = read_name(j, "salt", arena);
	ret->runner = read_name(j, "runner", arena);
	ret->cluster = read_cluster(j, arena);
	ret->served = json_is_true(json_object_get(j, "served"));
	ret->unbegun = (unsigned)MAX(json_integer_value(json_object_get(j, "unbegun")), 0);
	ret->request = read_name(j, "request", arena);
	facts_read_trial(json_object_get(j, "trial"), arena, &ret->trial);
	ret->tasks.only = read_names(j, "only", arena, &ret->tasks.n_only);
	ret->tasks.skip = read_names(j, "skip", arena, &ret->tasks.n_skip);
	for (size_t i = RUN_ISOLATED; i < ARRAY_LEN(kind_names); i++)
		if (str_eq(json_string_value(json_object_get(j, "reproduces")), kind_names[i]))
			ret->kind = (enum run_kind)i;
	json_decref(j);
	return 0;
}

/* Params. */

const char *params_to_json(const struct pipeline *p, const struct value *params,
			   struct arena *arena)
{
	json_t *j = json_object();

	for (size_t i = 0; i < p->n_params; i++) {
		_cleanup_(str_deinit) struct str text = { 0 };

		value_add_json(&text, &params[i]);
		json_object_set_new(j, p->params[i].name,
				    json_loads(text.s, JSON_DECODE_ANY, NULL));
	}
	return canonical(j, arena);
}

static void value_of_json(const json_t *j, struct arena *arena, struct value *ret)
{
	struct value *items;

	*ret = (struct value){ .type = VALUE_NULL };
	if (json_is_boolean(j))
		*ret = (struct value){ .type = VALUE_BOOL, .b = json_is_true(j) };
	else if (json_is_integer(j))
		*ret = (struct value){ .type = VALUE_INT, .i = json_integer_value(j) };
	else if (json_is_real(j))
		*ret = (struct value){ .type = VALUE_FLOAT, .f = json_real_value(j) };
	else if (json_is_string(j))
		*ret = (struct value){ .type = VALUE_STRING,
				       .s = arena_strdup(arena, json_string_value(j)) };
	if (!json_is_array(j))
		return;
	items = arena_alloc(arena, (json_array_size(j) + 1) * sizeof(*items));
	for (size_t i = 0; i < json_array_size(j); i++)
		value_of_json(json_array_get(j, i), arena, &items[i]);
	*ret = (struct value){ .type = VALUE_LIST, .list = { items, json_array_size(j) } };
}

int params_from_json(const struct pipeline *p, const char *json, struct arena *arena,
		     struct value *ret, struct err *err)
{
	json_t *j;

	if (!json || json_parse("the run's params", json, strlen(json), &j, err) < 0)
		return json ? -1 : err_set(err, ERR_CORRUPT, "the run's params are not on record");
	for (size_t i = 0; i < p->n_params; i++) {
		value_of_json(json_object_get(j, p->params[i].name), arena, &ret[i]);
		/* JSON has one kind of number where the pipeline has two. */
		if (p->params[i].type == VALUE_FLOAT && ret[i].type == VALUE_INT)
			ret[i] = (struct value){ .type = VALUE_FLOAT, .f = (double)ret[i].i };
	}
	json_decref(j);
	return params_give(p, arena, ret, err);
}

const char *run_durable_runner(const char *options_json, struct arena *arena)
{
	struct run_options o;

	return options_from_json(options_json, arena, &o, NULL) == 0 ? o.runner : NULL;
}

const struct run_cluster *run_cluster_of(const char *options_json, struct arena *arena)
{
	struct run_options o;

	return options_from_json(options_json, arena, &o, NULL) == 0 ? o.cluster : NULL;
}

bool run_is_left(const struct run_row *r)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();

	return facts_engine_died(r) ||
	       (r->state == RUN_INTERRUPTED && !run_durable_runner(r->options_json, arena));
}

/* The row. */

char *run_pipeline_path(const struct config *config, const char *path)
{
	_cleanup_(freep) char *real = realpath(path, NULL);
	char *inside = real ? fs_relative(config->project_root, real) : NULL;

	return inside ? inside : xstrdup(path);
}

int row_describe(const struct run_context *ctx, const struct pipeline *p,
		 const struct value *params, const struct run_options *o, struct arena *arena,
		 struct run_row *row, struct err *err)
{
	_cleanup_(freep) char *path = run_pipeline_path(ctx->config, p->path);
	struct run_options asked = *o;
	struct run_row last;
	int found;

	asked.salt = ctx->config->salt;
	row->pipeline = p->name;
	row->path = arena_strdup(arena, path);
	row->params_json = params_to_json(p, params, arena);
	row->options_json = options_to_json(&asked, arena);
	found = ctx->db ? record_last_results(ctx->db, p->name, arena, &last, err) : 0;
	return found < 0 ? -1
			 : pipeline_files_store(p, ctx->config, ctx->store,
						found ? &last.pipeline_blob : NULL,
						&row->pipeline_blob, err);
}

void row_add_git(struct run_row *row, struct git_query *look, struct arena *arena)
{
	struct git_facts git;

	git_query_end(look, arena, &git);
	row->git.commit = git.commit;
	row->git.author = git.author;
	row->git.dirty = git.dirty;
	row->git.remote = git.remote;
	row->git.submodules = git.submodules_json;
}
