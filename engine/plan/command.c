/* engine/plan/command.c — a task's command, its environment, and its key record.
 *
 * A script exists in two forms. The text for the key and for people has its values written in,
 * quoted for where they stand. The executed script has none: it names an environment variable where
 * a value stands (model/shell/shell.h), so that nothing depends on how a shell reads the value. A
 * file called `$(rm -rf ~).png` stays a file name. Both forms mean the same, and equal texts mean
 * the same command; that is why the text can be in the key.
 *
 * put_together() writes both in one pass over the parts of `run`. command_key_record() adds the
 * facts, and key_record_end() sorts them. It is called for each task of a batch.
 * plan_task_command() makes the whole command, and the same record again, only for tasks that are
 * executed.
 *
 * builtin.c adds what built-in steps need. past/lookup.c looks up the cache.
 */
#include <assert.h>
#include <stdio.h>
#include "base/text/json.h"
#include "base/text/text.h"
#include "model/shell/shell.h"
#include "plan/internal.h"

/* A script that is being put together. */
struct script {
	struct str *text;    /* with the values written in */
	struct str *program; /* with variables; NULL when only the text is wanted */
	struct arena *arena;
	VEC(const char *) variables; /* "CAIRN_V1=…", in order; only with `program` */
	uint32_t n_named;
};

/* One value, or an item of a list. */
static int add_piece(struct script *sc, const struct shell_place *place, const struct value *v,
		     struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };

	str_add(&text, "");
	value_add_text(&text, v);
	if (place->kind == SHELL_TEXT && (place->glued || !shell_plain_word(text.s, text.len)))
		return err_set(err, ERR_INVALID,
			       "the command has a value where a script can't take one: %s; "
			       "`cairn check` shows the place",
			       place->why);
	sc->n_named++;
	shell_add_literal(sc->text, place, text.s, text.len, sc->n_named);
	if (!sc->program || place->kind == SHELL_COMMENT)
		return 0;
	if (place->kind == SHELL_TEXT) {
		str_addn(sc->program, text.s, text.len);
		return 0;
	}
	if (text.len > SHELL_VALUE_MAX)
		return err_set(err, ERR_INVALID,
			       "a value of %zu bytes is more than a program can be given (%d): "
			       "pass it as a file",
			       text.len, SHELL_VALUE_MAX);
	shell_add_variable(sc->program, place->kind, sc->n_named);
	VEC_PUSH(&sc->variables,
		 arena_printf(sc->arena, SHELL_VARIABLE "%u=%s", sc->n_named, text.s));
	return 0;
}

/* Each item of a list is a word of its own. */
static int add_value(struct script *sc, const struct shell_place *place, const struct value *v,
		     struct err *err)
{
	int r = 0;

	if (v->type != VALUE_LIST || (place->kind != SHELL_BARE && place->kind != SHELL_ONE))
		return add_piece(sc, place, v, err);
	if (place->kind == SHELL_ONE && v->list.n != 1)
		return err_set(err, ERR_INVALID,
			       "a list of %zu items stands where one word is wanted: use join()",
			       v->list.n);
	for (size_t i = 0; i < v->list.n && r == 0; i++) {
		if (i)
			str_addc(sc->text, ' ');
		if (i && sc->program)
			str_addc(sc->program, ' ');
		r = add_value(sc, place, &v->list.v[i], err);
	}
	return r;
}

/* A step that asks people has the question in place of a command. */
static int put_question(struct task_scope *scope, const struct step *s, struct script *sc,
			struct err *err)
{
	struct expr_scope es = { .resolve = scope_resolve, .arg = scope };

	str_addn(sc->text, "", 0);
	if (s->approve->message &&
	    template_render(s->approve->message, &es, sc->arena, sc->text, err) != 0)
		return err_wrap(err, "`message` of step `%s`", s->name);
	return 0;
}

static int put_together(struct task_scope *scope, struct script *sc, struct err *err)
{
	const struct step *s = scope->plan->steps[scope->task->step].decl;
	const struct expr_template *run = s->program.run;
	const struct shell_place *place = s->program.places;
	struct expr_scope es = { .resolve = scope_resolve, .arg = scope };

	if (s->approve)
		return put_question(scope, s, sc, err);
	for (size_t i = 0; run && i < run->n_parts; i++) {
		const struct expr_part *part = &run->parts[i];
		struct value v;

		if (!part->expr) {
			str_addn(sc->text, part->text, part->len);
			if (sc->program)
				str_addn(sc->program, part->text, part->len);
		} else if (expr_eval(part->expr, &es, sc->arena, &v, err) != 0 ||
			   add_value(sc, place++, &v, err) < 0) {
			return err_wrap(err, "command of step `%s`", s->name);
		}
	}
	str_addn(sc->text, "", 0);
	return 0;
}

int command_script(struct task_scope *sc, struct str *out, struct err *err)
{
	struct script script = { .text = out, .arena = sc->arena };

	return put_together(sc, &script, err);
}

/* Key record. */

struct param_set {
	const struct plan *plan;
	bool *used;
};

static void note_param(void *arg, const struct ref *ref)
{
	struct param_set *s = arg;

	if (ref->kind == REF_PARAM)
		s->used[ref->index] = true;
}

/* Adds the params that the step names: in its command, its settings, env, seed, or what it passes
 * to a step file. Those of a used pipeline have their own names, as if it ran alone. */
static void add_params(struct plan *p, const struct step *s, struct str *record)
{
	const struct pipeline *pl = p->ctx.pipeline;
	_cleanup_(freep) bool *used = xcalloc(pipeline_n_values(pl) + 1, sizeof(*used));
	struct param_set set = { p, used };
	struct str text = { 0 };

	if (pipeline_n_values(pl) == 0)
		return;
	if (s->program.run)
		template_refs(s->program.run, note_param, &set);
	if (s->approve && s->approve->message)
		template_refs(s->approve->message, note_param, &set);
	plan_builtin_refs(s, note_param, &set);
	for (size_t i = 0; i < s->reads->n_env; i++)
		template_refs(s->reads->env[i].value, note_param, &set);
	if (s->keyed->seed)
		template_refs(s->keyed->seed, note_param, &set);
	for (size_t i = 0; i < s->program.n_locals; i++)
		if (s->program.locals[i].value)
			template_refs(s->program.locals[i].value, note_param, &set);
	for (size_t i = 0; i < pipeline_n_values(pl); i++) {
		if (!used[i])
			continue;
		str_reset(&text);
		value_add_canonical(&text, &p->ctx.params[i]);
		key_record_add(record, KEY_PARAM, pl->params[i].name, text.s, text.len);
	}
	str_deinit(&text);
}

static int add_env(struct task_scope *sc, struct str *record, struct err *err)
{
	const struct step *s = sc->plan->steps[sc->task->step].decl;
	struct expr_scope es = { .resolve = scope_resolve, .arg = sc };
	struct str text = { 0 };
	int r = 0;

	for (size_t i = 0; i < s->reads->n_env && r == 0; i++) {
		str_reset(&text);
		r = template_render(s->reads->env[i].value, &es, sc->arena, &text, err);
		if (r == 0)
			key_record_add(record, KEY_ENV, s->reads->env[i].name,
				       text.len ? text.s : "", text.len);
	}
	for (size_t i = 0; i < s->reads->n_secrets && r == 0; i++)
		key_record_add(record, KEY_SECRET, s->reads->secrets[i], "", 0);
	str_deinit(&text);
	return r < 0 ? err_wrap(err, "env of step `%s`", s->name) : 0;
}

/* The kind of device matters more than the number; a step that doesn't name one keeps its key. */
static void add_resources(const struct step *s, struct str *record)
{
	static const char *const more[] = { "gpu_type", "extended", "shm_bytes", "disk_bytes" };
	_cleanup_(json_decrefp) json_t *placement =
		s->machine->place.json ? json_loads(s->machine->place.json, 0, NULL) : NULL;
	_cleanup_(str_deinit) struct str text = { 0 };

	str_addf(&text, "cpu %um memory %llu gpu %u", resources_cpu_milli(&s->machine->resources),
		 (unsigned long long)s->machine->resources.memory_bytes,
		 s->machine->resources.gpus);
	for (size_t i = 0; i < ARRAY_LEN(more); i++) {
		const json_t *v = json_object_get(placement, more[i]);

		if (!v)
			continue;
		str_addf(&text, " %s ", more[i]);
		json_add_canonical(&text, v);
	}
	key_record_add(record, KEY_RESOURCES, "", text.s, text.len);
}

/* A step that tries a file, or a server, and does without it has another result in a sandbox.
 * Built-in steps read only inputs. */
static void add_sandbox(const struct plan *p, size_t step, struct str *record)
{
	const struct step_sandbox s = plan_step_sandbox(p, step);

	if (s.network == NETWORK_NONE)
		key_record_add(record, KEY_SANDBOX, "network", "none", strlen("none"));
	else if (s.network == NETWORK_LOOPBACK)
		key_record_add(record, KEY_SANDBOX, "network", "loopback", strlen("loopback"));
	if (s.strictness == STRICTNESS_STRICT)
		key_record_add(record, KEY_SANDBOX, "strict", "", 0);
}

int command_key_record(struct task_scope *sc, const char *script, struct str *record,
		       struct err *err)
{
	struct plan *p = sc->plan;
	const struct plan_step *ps = &p->steps[sc->task->step];
	const struct step *s = ps->decl;
	struct expr_scope es = { .resolve = scope_resolve, .arg = sc };
	_cleanup_(str_deinit) struct str text = { 0 };
	struct value seed;

	assert(sc->n_inputs == s->n_inputs); /* without them the key would be another */
	key_record_init(record);
	if (p->ctx.config->salt)
		key_record_add(record, KEY_PROJECT_SALT, "", p->ctx.config->salt,
			       strlen(p->ctx.config->salt));
	if (s->keyed->salt)
		key_record_add(record, KEY_STEP_SALT, "", s->keyed->salt, strlen(s->keyed->salt));
	if (s->program.run) {
		key_record_add(record, KEY_SHELL, "", s->program.shell, strlen(s->program.shell));
		key_record_add(record, KEY_SCRIPT, "", script, strlen(script));
	}
	if (s->approve) /* an answer holds for this question only */
		key_record_add(record, KEY_APPROVE, "", script, strlen(script));
	if (add_env(sc, record, err) < 0)
		return -1;
	add_params(p, s, record);
	if (s->keyed->seed) {
		if (template_eval(s->keyed->seed, &es, sc->arena, &seed, err) != 0)
			return err_wrap(err, "seed of step `%s`", s->name);
		value_add_canonical(&text, &seed);
		key_record_add(record, KEY_SEED, "", text.s, text.len);
	}
	for (size_t i = 0; i < s->reads->n_tools && ps->facts.tool_text; i++)
		key_record_add(record, KEY_TOOL, s->reads->tools[i], ps->facts.tool_text[i],
			       strlen(ps->facts.tool_text[i]));
	for (size_t i = 0; i < s->n_outputs; i++) {
		const struct step_output *o = &s->outputs[i];
		const char *path = o->path;

		if (o->is_dir) {
			str_reset(&text);
			str_add(&text, o->path);
			str_addc(&text, '/');
			path = text.s;
		}
		key_record_add(record, KEY_OUTPUT, o->name, path, strlen(path));
	}
	if (s->measured->metrics)
		key_record_add(record, KEY_METRICS, "", s->measured->metrics,
			       strlen(s->measured->metrics));
	if (s->measured->values) /* a result that was never checked as values is no hit */
		key_record_add(record, KEY_VALUES, "", s->measured->values,
			       strlen(s->measured->values));
	for (size_t i = 0; i < sc->n_inputs; i++)
		key_record_add_content(record, KEY_INPUT, sc->inputs[i].name, sc->inputs[i].path,
				       &sc->inputs[i].id);
	if (ps->facts.code)
		key_record_add_content(record, KEY_CODE, "", "", &ps->facts.code->tree);
	if (s->keyed->resources)
		add_resources(plan_task_step(p, sc->task), record);
	if ((s->program.builtin || s->machine->distributed.framework) &&
	    plan_builtin_key(sc, record, err) < 0)
		return -1;
	plan_image_key(p, sc->task, record);
	if (ps->facts.packages)
		key_record_add(record, KEY_PACKAGES, "", ps->facts.packages,
			       strlen(ps->facts.packages));
	plan_environment_key(ps->facts.environment, record);
	if (s->program.run)
		add_sandbox(p, sc->task->step, record);
	key_record_end(record);
	return 0;
}

/* The whole command. */

static const char *upper(struct arena *arena, const char *prefix, const char *name,
			 const char *value)
{
	char *s = arena_printf(arena, "%s%s=%s", prefix, name, value);

	for (char *c = s; *c != '='; c++)
		*c = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 32) : *c;
	return s;
}

/* The variables of `script` are part of the environment. */
static int render_env(struct task_scope *sc, const struct script *script, struct task_command *c,
		      struct err *err)
{
	const struct step *s = sc->plan->steps[sc->task->step].decl;
	struct arena *arena = sc->arena;
	struct expr_scope es = { .resolve = scope_resolve, .arg = sc };
	const char **env = arena_alloc(
		arena, (s->reads->n_env + s->n_inputs + s->n_outputs + script->variables.n + 5) *
			       sizeof(*env));
	struct str text = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < s->reads->n_env; i++) {
		str_reset(&text);
		if (template_render(s->reads->env[i].value, &es, arena, &text, err) != 0) {
			str_deinit(&text);
			return -1;
		}
		env[n++] =
			arena_printf(arena, "%s=%s", s->reads->env[i].name, text.len ? text.s : "");
	}
	for (size_t i = 0; i < c->n_inputs; i++)
		env[n++] = upper(arena, "CAIRN_INPUT_", c->inputs[i].name, c->inputs[i].path);
	for (size_t i = 0; i < s->n_outputs; i++)
		env[n++] = upper(arena, "CAIRN_OUTPUT_", s->outputs[i].name, s->outputs[i].path);
	if (s->checkpoint)
		env[n++] = arena_printf(arena, "CAIRN_CHECKPOINT=%s", s->checkpoint);
	if (s->measured->metrics)
		env[n++] = arena_printf(arena, "CAIRN_METRICS=%s", s->measured->metrics);
	/* `train` reads metrics from output that hasn't been masked yet. */
	if (s->reads->n_secrets) {
		str_reset(&text);
		for (size_t i = 0; i < s->reads->n_secrets; i++)
			str_addf(&text, "%s%s", i ? " " : "", s->reads->secrets[i]);
		env[n++] = arena_printf(arena, "CAIRN_SECRETS=%s", text.s);
	}
	str_deinit(&text);
	for (size_t i = 0; i < script->variables.n; i++)
		env[n++] = script->variables.v[i];
	c->env = env;
	return 0;
}

int plan_task_command(struct plan *p, const struct plan_task *t, struct arena *arena,
		      struct task_command *ret, struct err *err)
{
	const struct step *s = p->steps[t->step].decl;
	struct task_command c = { .code = plan_step_code(p, t->step) };
	struct task_scope sc = { .plan = p, .task = t, .arena = arena };
	struct expr_scope es = { .resolve = scope_resolve, .arg = &sc };
	struct str text = { 0 }, program = { 0 };
	struct script script = { .text = &text, .program = &program, .arena = arena };
	bool bash = str_eq(s->program.shell, "bash");
	int r = plan_task_inputs(p, t, arena, &c.inputs, &c.n_inputs, err);

	sc.inputs = c.inputs;
	sc.n_inputs = c.n_inputs;
	if (r == 0)
		r = put_together(&sc, &script, err);
	if (r == 0)
		c.script = arena_strdup(arena, text.s);
	if (r == 0)
		r = render_env(&sc, &script, &c, err);
	if (r == 0 && s->policy->concurrency.group) {
		str_reset(&text);
		r = template_render(s->policy->concurrency.group, &es, arena, &text, err);
		c.concurrency_group = r == 0 ? arena_strdup(arena, text.len ? text.s : "") : NULL;
	}
	if (r == 0) {
		const char *executed = arena_strdup(arena, program.len ? program.s : "");
		const char *const words[] = { bash ? "/bin/bash" : "/bin/sh",
					      bash ? "-eo" : "-ec",
					      bash ? "pipefail" : executed,
					      bash ? "-c" : NULL,
					      executed,
					      NULL };

		c.argv = arena_memdup(arena, words, sizeof(words));
	}
	VEC_FREE(&script.variables);
	str_deinit(&text);
	str_deinit(&program);
	if (r == 0)
		r = command_key_record(&sc, c.script, &c.key_record, err);
	if (r < 0) {
		str_deinit(&c.key_record);
		return -1;
	}
	c.secrets = s->reads->secrets;
	c.image = plan_task_image(p, t);
	if ((s->program.builtin || s->machine->distributed.framework) &&
	    plan_builtin_argv(&sc, &c, err) < 0) {
		str_deinit(&c.key_record);
		return -1;
	}
	*ret = c;
	return 0;
}
