/* engine/run/reproduce/reproduce.c — a past run, executed again.
 *
 * The manifest decides everything: pipeline, params, options, project salt, inputs and code by
 * their content. Facts of the machine are read anew, and differences are reported: versions of
 * tools, kernel, cpu. While the tools are the same, the keys equal those of the recorded tasks, so
 * each execution is an observation under the right key.
 *
 * run_reproduce() loads the past run, checks names, and goes through run_begin() like any run.
 * reproduce_admit() runs before each task: missing content or secrets end that task with a reason
 * in the plan (plan_lose()), and the others go on.
 *
 * Invariants: nothing is read from the checkout or from the database of the past run. A
 * reproduction never affects others' results: it uses no action record, and adds one only beside an
 * existing one (publish.c).
 *
 * Threads: the loop's. Not here: comparing (report.c, compare.c, environment.c).
 */
#include "base/text/text.h"
#include "run/internal.h"
#include "run/task/secret.h"

/* The past run. */

int past_run_load(const struct run_context *ctx, const struct digest *hash, const char *salt,
		  struct arena *arena, struct past_run *ret, struct err *err)
{
	const struct run_row *run;
	char hex[DIGEST_HEX_MAX];

	*ret = (struct past_run){ .hash = *hash, .config = *ctx->config };
	if (manifest_load(ctx->store, hash, arena, &ret->manifest, err) < 0)
		return err_wrap(err, "the manifest of run %.12s", digest_hex(hash, hex));
	run = ret->manifest.run;
	if (ret->manifest.results.kind == CONTENT_NONE)
		return err_set(err, ERR_NOT_FOUND,
			       "run %s was %s before its end: there is nothing to compare a "
			       "reproduction with",
			       run->id, run_state_name(run->state));
	if (results_open(ctx->store, &ret->manifest.results, &ret->results, err) < 0)
		return err_wrap(err, "the results of run %s", run->id);
	ret->config.salt = salt;
	return 0;
}

void past_run_deinit(struct past_run *past)
{
	results_free(past->results);
	past->results = NULL;
}

/* Pins of inputs and code. Tools aren't pinned: their present versions are read. */
static const struct plan_pin *pins_of(const struct manifest *m, struct arena *arena, size_t *ret_n)
{
	struct plan_pin *v = arena_alloc(arena, (m->n_inputs + m->n_code + 1) * sizeof(*v));
	size_t n = 0;

	for (size_t i = 0; i < m->n_inputs; i++)
		if (!str_has_prefix(m->inputs[i].name, "tool:"))
			v[n++] = (struct plan_pin){ m->inputs[i].name,
						    m->inputs[i].origin ? m->inputs[i].origin : "",
						    m->inputs[i].id };
	for (size_t i = 0; i < m->n_code; i++)
		v[n++] = (struct plan_pin){ arena_printf(arena, "code:%s", m->code[i].step), "code",
					    m->code[i].tree };
	*ret_n = n;
	return v;
}

/* Which tasks are selected. */

/* The names of all steps and tasks of the run. */
static struct map *names_of(const struct past_run *past, const struct pipeline *p)
{
	struct map *names = map_new();
	struct results_cursor c;
	struct result_entry e;

	for (size_t i = 0; i < p->n_steps; i++)
		*map_slot_str(names, p->steps[i].name) = names;
	results_first(past->results, &c);
	while (results_next(&c, &e))
		*map_slot_str(names, e.task) = names;
	return names;
}

static const struct step *step_of_task(const struct pipeline *p, const char *task)
{
	_cleanup_(freep) char *step = xstrndup(task, strcspn(task, "["));

	return pipeline_find_step(p, step);
}

static int check_names(const struct past_run *past, const struct pipeline *p,
		       const struct reproduce_options *o, struct err *err)
{
	_cleanup_(map_freep) struct map *known = o->n_only + o->n_skip ? names_of(past, p) : NULL;
	_cleanup_(freep) const char **steps = xcalloc(p->n_steps + 1, sizeof(*steps));
	_cleanup_(str_deinit) struct str hint = { 0 };

	for (size_t i = 0; i < p->n_steps; i++)
		steps[i] = p->steps[i].name;

	for (size_t i = 0; i < o->n_only + o->n_skip; i++) {
		const char *name = i < o->n_only ? o->only[i] : o->skip[i - o->n_only];

		const struct step *s = map_get_str(known, name) ? step_of_task(p, name) : NULL;

		if (i < o->n_only && s && s->finally)
			return err_set(err, ERR_INVALID,
				       "step `%s` is one of `finally`, which a reproduction leaves "
				       "out: it compares what the other steps make",
				       s->name);
		if (map_get_str(known, name))
			continue;
		str_add(&hint, "");
		text_add_suggestion(&hint, name, steps, p->n_steps);
		return err_set(err, ERR_INVALID, "run %s has no step or task `%s`%s",
			       past->manifest.run->id, name, hint.s);
	}
	return 0;
}

static int options_of(const struct past_run *past, const struct reproduce_options *o,
		      struct arena *arena, struct run_options *ret, struct err *err)
{
	struct run_options was;

	if (options_from_json(past->manifest.run->options_json, arena, &was, err) < 0)
		return -1;
	*ret = (struct run_options){ .select = { .targets = was.select.targets,
						 .n_targets = was.select.n_targets,
						 .until = was.select.until },
				     .keep_going = true,
				     .keep_workspace = o->keep_workspace,
				     .jobs = o->jobs,
				     .kind = o->mode == REPRODUCE_CHAINED ? RUN_CHAINED
									  : RUN_ISOLATED,
				     .tasks.only = o->only,
				     .tasks.n_only = o->n_only,
				     .tasks.skip = o->skip,
				     .tasks.n_skip = o->n_skip,
				     .salt = was.salt,
				     .firing.times = was.firing.times };
	if (o->mode == REPRODUCE_CHAINED && o->n_only) {
		ret->select.targets = o->only;
		ret->select.n_targets = o->n_only;
		ret->select.until = NULL;
	}
	return 0;
}

/* Before a task starts. */

bool reproduce_leaves_out(const struct run_options *o, const char *step, const char *task)
{
	for (size_t i = 0; i < o->tasks.n_skip; i++)
		if (str_eq(o->tasks.skip[i], step) || str_eq(o->tasks.skip[i], task))
			return true;
	return false;
}

static int lacks_content(struct run *r, struct attempt *a, struct str *why, struct err *err)
{
	size_t n = a->command.n_inputs;
	struct content_id *ids = arena_alloc(a->arena, (n + 1) * sizeof(*ids));
	bool *present = arena_alloc(a->arena, (n + 1) * sizeof(*present));
	char hex[DIGEST_HEX_MAX];

	for (size_t i = 0; i < n; i++)
		ids[i] = a->command.inputs[i].id;
	if (a->command.code.kind != CONTENT_NONE)
		ids[n++] = a->command.code;
	if (content_complete(r->ctx->store, ids, n, present, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		const char *name = i < a->command.n_inputs ? a->command.inputs[i].name : "";

		if (!present[i])
			str_addf(why, "%s%s%s%s (sha256:%.12s) is not in the store, or not whole",
				 why->len ? "; " : "", *name ? "input `" : "its code", name,
				 *name ? "`" : "", digest_hex(&ids[i].digest, hex));
	}
	return 0;
}

int reproduce_admit(struct run *r, struct attempt *a, struct plan_task **ret_after, struct err *err)
{
	_cleanup_(str_deinit) struct str why = { 0 }, value = { 0 };
	const struct approval *answer;
	int found;

	if (reproduce_leaves_out(r->o, a->step->name, a->label))
		str_add(&why, "left out (--skip)");
	else if (lacks_content(r, a, &why, err) < 0)
		return -1;
	else if (why.len && (*ret_after = plan_pending_need(r->plan, a->task->plan)))
		return 2;
	else if (a->step->approve && (found = approve_recorded(r, a->label, &answer, err)) <= 0) {
		if (found < 0)
			return -1;
		str_add(&why, "the run has no answer to its question on record");
	} else
		for (size_t i = 0; i < a->step->reads->n_secrets; i++) {
			struct err e = { 0 };

			str_reset(&value);
			if (secret_get(r->ctx->config, a->step->reads->secrets[i], &value, &e) < 0)
				str_addf(&why, "%s%s", why.len ? "; " : "", e.msg);
		}
	str_wipe(&value);
	if (why.len == 0)
		return 1;
	plan_lose(r->plan, a->task->plan, why.s);
	r->wake = true;
	return 0;
}

/* The run. */

static int reproduce(struct run *r, struct run_row *ret, struct reproduction **ret_reproduction,
		     struct err *err)
{
	const struct run_row *was = r->past->manifest.run;
	size_t n;
	const struct plan_pin *pins = pins_of(&r->past->manifest, r->arena, &n);

	if (params_from_json(r->pipeline, was->params_json, r->arena, r->params, err) < 0)
		return err_wrap(err, "run %s", was->id);
	r->row = (struct run_row){ .pipeline = was->pipeline,
				   .path = was->path,
				   .state = RUN_RUNNING,
				   .started_ns = run_wall_ns(r),
				   .pipeline_blob = was->pipeline_blob,
				   .params_json = was->params_json,
				   .git.commit = was->git.commit,
				   .git.author = was->git.author,
				   .git.dirty = was->git.dirty,
				   .git.remote = was->git.remote,
				   .git.submodules = was->git.submodules,
				   .has_reproduces = true,
				   .reproduces = r->past->hash };
	if (run_begin(r, pins, n, ret, err) < 0)
		return -1;
	return reproduce_report(r, ret_reproduction, err);
}

int run_reproduce(const struct run_context *ctx, const struct digest *original,
		  const struct reproduce_options *o, struct arena *arena, struct run_row *ret,
		  struct reproduction **ret_reproduction, struct err *err)
{
	_cleanup_(past_run_deinit) struct past_run past = { 0 };
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	struct run_options ro;
	struct run r;
	int result;

	*ret = (struct run_row){ 0 };
	*ret_reproduction = NULL;
	if (past_run_load(ctx, original, NULL, arena, &past, err) < 0)
		return -1;
	if (options_of(&past, o, arena, &ro, err) < 0 ||
	    pipeline_files_load(ctx->store, &past.manifest.pipeline_tree, past.manifest.run->path,
				&p, err) < 0)
		return err_wrap(err, "run %s", past.manifest.run->id);
	if (check_names(&past, p, o, err) < 0)
		return -1;
	past.config.salt = ro.salt;
	run_init(&r, ctx, p, &ro, arena);
	r.past = &past;
	result = reproduce(&r, ret, ret_reproduction, err);
	run_deinit(&r);
	return result;
}
