/* engine/plan/builtin.c — built-in steps and launched ranks: the settings of a task, its command
 * line, and their part of its key.
 *
 * The settings are the templates of `with`, evaluated for the task, as JSON; steps/spec adds its
 * defaults. A built-in step's key has its name, its version, and each setting as a separate fact,
 * so that a difference can be named; but not what only says where it runs. For launched ranks the
 * key has only framework and number: how they are started and watched doesn't change the result.
 *
 * plan_builtin_argv() replaces the argv that command.c made by `PROGRAM STEP --with-json …`, with
 * the old argv behind `--` if the step wraps a command. It runs after the key record, so the path
 * of the program is in no key.
 */
#include "base/text/text.h"
#include "plan/internal.h"
#include "steps/spec/spec.h"

#define LAUNCHER_GRACE_NS (5 * NS_PER_S)

/* Settings. */

/* Recursion is bounded by the depth of the file (YAML_DEPTH_MAX). */
static int json_of_with(const struct with_node *w, struct expr_scope *es, struct arena *arena,
			json_t **ret, struct err *err)
{
	json_t *out, *one;
	struct value v;

	if (w->kind == WITH_SCALAR) {
		if (template_eval(w->scalar, es, arena, &v, err) != 0)
			return -1;
		*ret = value_json(&v);
		return *ret ? 0 : err_set(err, ERR_INVALID, "a value isn't UTF-8");
	}
	out = w->kind == WITH_MAP ? json_object() : json_array();
	for (size_t i = 0; i < w->n; i++) {
		if (json_of_with(&w->children[i], es, arena, &one, err) < 0) {
			json_decref(out);
			return -1;
		}
		if (w->kind == WITH_MAP)
			json_object_set_new(out, w->keys[i], one);
		else
			json_array_append_new(out, one);
	}
	*ret = out;
	return 0;
}

/* The settings with all defaults, as steps/spec names them; NULL for a step that has none. */
static int task_settings(struct task_scope *sc, json_t **ret, struct err *err)
{
	const struct step *s = sc->plan->steps[sc->task->step].decl;
	const struct distributed_decl *d = &s->machine->distributed;
	const struct step_spec *spec =
		step_spec_find(s->program.builtin ? s->program.builtin : "train");
	struct expr_scope es = { .resolve = scope_resolve, .arg = sc };
	json_t *with = NULL;
	int r = s->program.with ? json_of_with(s->program.with, &es, sc->arena, &with, err) : 0;

	if (r == 0 && !with)
		with = json_object();
	if (r == 0 && step_has_ranks(s)) { /* the settings are under `distributed`, not in `with` */
		json_object_set_new(with, "framework",
				    json_string(d->framework ? d->framework : "torch"));
		json_object_set_new(with, "nodes", json_integer(d->framework ? d->nodes : 1));
		json_object_set_new(with, "min_nodes", json_integer(d->min_nodes));
		json_object_set_new(with, "procs_per_node",
				    json_integer(d->framework ? d->procs_per_node : 1));
		json_object_set_new(with, "servers", json_integer(d->servers));
	}
	if (r == 0)
		r = step_spec_complete(spec, with, ret, err);
	json_decref(with);
	return r < 0 ? err_wrap(err, "%s:%d:%d: step `%s`", s->pos.file, s->pos.line, s->pos.col,
				s->name)
		     : 0;
}

/* Key. */

static bool is_elsewhere(const struct step_spec *spec, const char *key)
{
	const struct spec_option *o = spec->options;

	while (o->name && strcmp(o->name, key) != 0)
		o++;
	return o->elsewhere;
}

int plan_builtin_key(struct task_scope *sc, struct str *record, struct err *err)
{
	const struct step *s = sc->plan->steps[sc->task->step].decl;
	const struct distributed_decl *d = &s->machine->distributed;
	_cleanup_(str_deinit) struct str text = { 0 };
	const struct step_spec *spec;
	const char *key;
	json_t *with, *v;

	if (step_has_ranks(s)) {
		/* The number of ranks changes what a training gives; how they are started and
		 * watched doesn't. With `nodes: {min, max}` nobody knows the number beforehand, and
		 * it changes on the way: the step declares that any number of this range gives the
		 * same result. Another range is another declaration. */
		if (!d->framework)
			return 0;
		str_addf(&text, "%s nodes ", d->framework);
		if (d->min_nodes)
			str_addf(&text, "%u:", d->min_nodes);
		str_addf(&text, "%u procs_per_node %u servers %u", d->nodes, d->procs_per_node,
			 d->servers);
		key_record_add(record, KEY_DISTRIBUTED, "", text.s, text.len);
		return 0;
	}
	if (task_settings(sc, &with, err) < 0)
		return -1;
	spec = step_spec_find(s->program.builtin);
	str_addf(&text, "%u", spec->version);
	key_record_add(record, KEY_BUILTIN, s->program.builtin, text.s, text.len);
	json_object_foreach(with, key, v)
	{
		if (is_elsewhere(spec, key))
			continue;
		str_reset(&text);
		json_add_canonical(&text, v);
		key_record_add(record, KEY_WITH, key, text.s, text.len);
	}
	json_decref(with);
	return 0;
}

static void note_refs(const struct with_node *w, void (*fn)(void *arg, const struct ref *ref),
		      void *arg)
{
	if (w->kind == WITH_SCALAR)
		template_refs(w->scalar, fn, arg);
	for (size_t i = 0; w->kind != WITH_SCALAR && i < w->n; i++)
		note_refs(&w->children[i], fn, arg);
}

void plan_builtin_refs(const struct step *s, void (*fn)(void *arg, const struct ref *ref),
		       void *arg)
{
	if (s->program.with)
		note_refs(s->program.with, fn, arg);
}

/* Command line. */

struct words {
	VEC(const char *) v;
};

static void add_option(struct words *w, const char *option, const char *value)
{
	VEC_PUSH(&w->v, option);
	VEC_PUSH(&w->v, value);
}

int plan_builtin_argv(struct task_scope *sc, struct task_command *c, struct err *err)
{
	const struct plan *p = sc->plan;
	const struct step *s = plan_task_step(p, sc->task);
	struct arena *arena = sc->arena;
	struct words w = { 0 };
	struct str text = { 0 };
	uint64_t threads = (uint64_t)resources_cpu_milli(&s->machine->resources) *
			   MAX(s->machine->distributed.nodes, 1) / 1000;
	const char *program = p->ctx.steps_program ? p->ctx.steps_program : "cairn-steps", *grace;
	int64_t ns;
	json_t *with;

	if (task_settings(sc, &with, err) < 0)
		return -1;
	json_add_canonical(&text, with);
	/* The launcher gives its ranks the step's grace time, and needs a moment itself. */
	grace = json_string_value(json_object_get(with, "grace"));
	c->grace_ns =
		grace && text_parse_duration(grace, &ns, NULL) == 0 ? ns + LAUNCHER_GRACE_NS : 0;
	json_decref(with);
	if (p->ctx.launch_program && step_is_launched(s))
		program = p->ctx.launch_program; /* in the step's image, which holds no other
						    program of Cairn */
	VEC_PUSH(&w.v, program);
	VEC_PUSH(&w.v, s->program.builtin ? s->program.builtin : "train");
	add_option(&w, "--with-json", arena_strdup(arena, text.s));
	if (s->measured->metrics)
		add_option(&w, "--metrics", s->measured->metrics);
	add_option(&w, "--threads",
		   arena_printf(arena, "%u", (unsigned)MIN(MAX(threads, 1U), INT32_MAX)));
	if (!step_is_launched(s)) {
		for (size_t i = 0; i < c->n_inputs; i++)
			add_option(
				&w, "-i",
				arena_printf(arena, "%s=%s", c->inputs[i].name, c->inputs[i].path));
		for (size_t i = 0; i < s->n_outputs; i++)
			add_option(&w, "-o",
				   arena_printf(arena, "%s=%s%s", s->outputs[i].name,
						s->outputs[i].path,
						s->outputs[i].is_dir ? "/" : ""));
	} else {
		if (step_has_ranks(s))
			add_option(&w, "-o", STEP_SERIES_OUTPUT "=" STEP_SERIES_PATH);
		VEC_PUSH(&w.v, "--");
		for (const char *const *word = c->argv; *word; word++)
			VEC_PUSH(&w.v, *word);
	}
	VEC_PUSH(&w.v, NULL);
	c->argv = arena_memdup(arena, w.v.v, w.v.n * sizeof(*w.v.v));
	VEC_FREE(&w.v);
	str_deinit(&text);
	return 0;
}
