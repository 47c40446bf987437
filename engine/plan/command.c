/* A task's command, its environment, and its key record.
 *
 * Values that are put into a shell command are quoted for where they stand: bare, they become one word; inside double or
 * single quotes, what would end the quote or expand is escaped. So a file called `$(rm -rf ~).png` is a file name. Items of
 * a list are words of their own.
 */
#include <stdio.h>
#include "base/text.h"
#include "plan/internal.h"

enum quote { BARE, SINGLE, DOUBLE, COMMENT };

/* Follows the shell's quoting through literal text. */
static enum quote quote_after(enum quote q, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char c = text[i];

		switch (q) {
		case BARE:
			if (c == '\\')
				i++;
			else if (c == '\'')
				q = SINGLE;
			else if (c == '"')
				q = DOUBLE;
			else if (c == '#' && (i == 0 || text[i - 1] == ' ' || text[i - 1] == '\n' || text[i - 1] == '\t' || text[i - 1] == ';'))
				q = COMMENT;
			break;
		case SINGLE:
			q = c == '\'' ? BARE : SINGLE;
			break;
		case DOUBLE:
			if (c == '\\')
				i++;
			else if (c == '"')
				q = BARE;
			break;
		case COMMENT:
			q = c == '\n' ? BARE : COMMENT;
			break;
		}
	}
	return q;
}

static bool plain_word(const char *s, size_t n)
{
	static const char safe[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=@%+,-";

	return n > 0 && strspn(s, safe) == n;
}

static void add_quoted(struct str *out, enum quote q, const char *s, size_t n)
{
	if (q == BARE && plain_word(s, n)) {
		str_addn(out, s, n);
		return;
	}
	if (q == BARE)
		str_addc(out, '\'');
	for (size_t i = 0; i < n; i++) {
		if (q == DOUBLE && strchr("\\$`\"", s[i]))
			str_addc(out, '\\');
		if (q == COMMENT && s[i] == '\n')
			str_addc(out, ' ');
		else if ((q == BARE || q == SINGLE) && s[i] == '\'')
			str_add(out, "'\\''");
		else
			str_addc(out, s[i]);
	}
	if (q == BARE)
		str_addc(out, '\'');
}

static void add_value(struct str *out, enum quote q, const struct value *v)
{
	struct str text = { 0 };

	if (v->type == VALUE_LIST && q == BARE) {
		for (size_t i = 0; i < v->list.n; i++) {
			if (i)
				str_addc(out, ' ');
			add_value(out, q, &v->list.v[i]);
		}
		return;
	}
	value_add_text(&text, v);
	add_quoted(out, q, text.len ? text.s : "", text.len);
	str_deinit(&text);
}

int command_script(struct plan *p, const struct plan_task *t, const struct task_input *inputs, size_t n, struct arena *arena, struct str *out, struct err *err)
{
	const struct expr_template *run = p->steps[t->step].decl->run;
	struct task_scope sc = { .plan = p, .task = t, .arena = arena, .inputs = inputs, .n_inputs = n };
	struct expr_scope es = { .resolve = scope_resolve, .arg = &sc };
	enum quote q = BARE;

	for (size_t i = 0; run && i < run->n_parts; i++) {
		const struct expr_part *part = &run->parts[i];
		struct value v;

		if (!part->expr) {
			str_addn(out, part->text, part->len);
			q = quote_after(q, part->text, part->len);
			continue;
		}
		if (expr_eval(part->expr, &es, arena, &v, err) != 0)
			return err_wrap(err, "command of step `%s`", p->steps[t->step].decl->name);
		add_value(out, q, &v);
	}
	str_addn(out, "", 0);
	return 0;
}

/* --- key record ------------------------------------------------------------------------------------------------------- */

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

/* Params that the step names: in its command, its settings, env, seed, or what it gives to a step file. */
static void add_params(struct plan *p, const struct step *s, struct str *record)
{
	const struct pipeline *pl = p->ctx.pipeline;
	_cleanup_(freep) bool *used = xcalloc(pl->n_params + 1, sizeof(*used));
	struct param_set set = { p, used };
	struct str text = { 0 };

	if (pl->n_params == 0)
		return;
	if (s->run)
		template_refs(s->run, note_param, &set);
	builtin_refs(s, note_param, &set);
	for (size_t i = 0; i < s->n_env; i++)
		template_refs(s->env[i].value, note_param, &set);
	if (s->seed)
		template_refs(s->seed, note_param, &set);
	for (size_t i = 0; i < s->n_locals; i++)
		if (s->locals[i].value)
			template_refs(s->locals[i].value, note_param, &set);
	for (size_t k = 0; k < pl->n_params; k++) {
		size_t i = p->params_by_name[k];

		if (!used[i])
			continue;
		str_reset(&text);
		value_add_canonical(&text, &p->ctx.params[i]);
		key_record_add(record, KEY_PARAM, pl->params[i].name, text.s, text.len);
	}
	str_deinit(&text);
}

static int add_env(struct plan *p, const struct plan_task *t, struct expr_scope *es, struct arena *arena, struct str *record, struct err *err)
{
	const struct step *s = p->steps[t->step].decl;
	struct str text = { 0 };
	int r = 0;

	for (size_t i = 0; i < s->n_env && r == 0; i++) {
		str_reset(&text);
		r = template_render(s->env[i].value, es, arena, &text, err);
		if (r == 0)
			key_record_add(record, KEY_ENV, s->env[i].name, text.len ? text.s : "", text.len);
	}
	for (size_t i = 0; i < s->n_secrets && r == 0; i++)
		key_record_add(record, KEY_SECRET, s->secrets[i], "", 0);
	str_deinit(&text);
	return r < 0 ? err_wrap(err, "env of step `%s`", s->name) : 0;
}

static void add_outputs(const struct step *s, struct str *record)
{
	struct str path = { 0 };

	for (size_t i = 0; i < s->n_outputs; i++) {
		str_reset(&path);
		str_addf(&path, "%s%s", s->outputs[i].path, s->outputs[i].is_dir ? "/" : "");
		key_record_add(record, KEY_OUTPUT, s->outputs[i].name, path.s, path.len);
	}
	str_deinit(&path);
	if (s->metrics)
		key_record_add(record, KEY_METRICS, "", s->metrics, strlen(s->metrics));
}

static int add_seed(const struct step *s, struct expr_scope *es, struct arena *arena, struct str *record, struct err *err)
{
	struct str text = { 0 };
	struct value v;

	if (!s->seed)
		return 0;
	if (template_eval(s->seed, es, arena, &v, err) != 0)
		return err_wrap(err, "seed of step `%s`", s->name);
	value_add_canonical(&text, &v);
	key_record_add(record, KEY_SEED, "", text.s, text.len);
	str_deinit(&text);
	return 0;
}

int command_key_record(struct plan *p, const struct plan_task *t, const struct task_input *inputs, size_t n, const char *script,
		       struct arena *arena, struct str *record, struct err *err)
{
	const struct plan_step *ps = &p->steps[t->step];
	const struct step *s = ps->decl;
	struct task_scope sc = { .plan = p, .task = t, .arena = arena, .inputs = inputs, .n_inputs = n };
	struct expr_scope es = { .resolve = scope_resolve, .arg = &sc };

	key_record_init(record);
	if (p->ctx.config->salt)
		key_record_add(record, KEY_PROJECT_SALT, "", p->ctx.config->salt, strlen(p->ctx.config->salt));
	if (s->salt)
		key_record_add(record, KEY_STEP_SALT, "", s->salt, strlen(s->salt));
	if (s->run) {
		key_record_add(record, KEY_SHELL, "", s->shell, strlen(s->shell));
		key_record_add(record, KEY_SCRIPT, "", script, strlen(script));
	}
	if (add_env(p, t, &es, arena, record, err) < 0)
		return -1;
	add_params(p, s, record);
	if (add_seed(s, &es, arena, record, err) < 0)
		return -1;
	for (size_t i = 0; i < s->n_tools && ps->tool_text; i++)
		key_record_add(record, KEY_TOOL, s->tools[i], ps->tool_text[i], strlen(ps->tool_text[i]));
	add_outputs(s, record);
	for (size_t i = 0; i < n; i++)
		key_record_add_content(record, KEY_INPUT, inputs[i].name, inputs[i].path, &inputs[i].id);
	if (ps->code.kind)
		key_record_add_content(record, KEY_CODE, "", "", &ps->code);
	if (s->key_resources) {
		struct resources_decl r = s->resources;
		char text[64];

		snprintf(text, sizeof(text), "cpu %um memory %llu gpu %u", r.cpu_milli, (unsigned long long)r.memory_bytes, r.gpus);
		key_record_add(record, KEY_RESOURCES, "", text, strlen(text));
	}
	if ((s->builtin || s->distributed.framework) && builtin_key(p, t, inputs, n, arena, record, err) < 0)
		return -1;
	image_key(p, ps, record);
	return 0;
}

/* --- the whole command -------------------------------------------------------------------------------------------------- */

static const char *upper(struct arena *arena, const char *prefix, const char *name, const char *value)
{
	char *s = arena_printf(arena, "%s%s=%s", prefix, name, value);

	for (char *c = s; *c != '='; c++)
		*c = *c == '-' ? '_' : *c >= 'a' && *c <= 'z' ? (char)(*c - 32) : *c;
	return s;
}

static int render_env(struct plan *p, const struct plan_task *t, struct arena *arena, struct task_command *c, struct err *err)
{
	const struct step *s = p->steps[t->step].decl;
	struct task_scope sc = { .plan = p, .task = t, .arena = arena, .inputs = c->inputs, .n_inputs = c->n_inputs };
	struct expr_scope es = { .resolve = scope_resolve, .arg = &sc };
	const char **env = arena_alloc(arena, (s->n_env + s->n_inputs + s->n_outputs + 3) * sizeof(*env));
	struct str text = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < s->n_env; i++) {
		str_reset(&text);
		if (template_render(s->env[i].value, &es, arena, &text, err) != 0) {
			str_deinit(&text);
			return -1;
		}
		env[n++] = arena_printf(arena, "%s=%s", s->env[i].name, text.len ? text.s : "");
	}
	str_deinit(&text);
	for (size_t i = 0; i < c->n_inputs; i++)
		env[n++] = upper(arena, "CAIRN_INPUT_", c->inputs[i].name, c->inputs[i].path);
	for (size_t i = 0; i < s->n_outputs; i++)
		env[n++] = upper(arena, "CAIRN_OUTPUT_", s->outputs[i].name, s->outputs[i].path);
	if (s->checkpoint)
		env[n++] = arena_printf(arena, "CAIRN_CHECKPOINT=%s", s->checkpoint);
	c->env = env;
	return 0;
}

static const char *const *shell_argv(const struct step *s, struct arena *arena, const char *script)
{
	bool bash = str_eq(s->shell, "bash");
	const char *const words[] = { bash ? "/bin/bash" : "/bin/sh", bash ? "-eo" : "-ec", bash ? "pipefail" : script, bash ? "-c" : NULL, script, NULL };

	return arena_memdup(arena, words, sizeof(words));
}

int plan_task_command(struct plan *p, const struct plan_task *t, struct arena *arena, struct task_command *ret, struct err *err)
{
	const struct step *s = p->steps[t->step].decl;
	struct task_command c = { .code = p->steps[t->step].code };
	struct task_scope sc = { .plan = p, .task = t, .arena = arena };
	struct expr_scope es = { .resolve = scope_resolve, .arg = &sc };
	struct str script = { 0 };
	int r = task_inputs(p, t, arena, &c.inputs, &c.n_inputs, err);

	if (r == 0)
		r = command_script(p, t, c.inputs, c.n_inputs, arena, &script, err);
	if (r == 0)
		c.script = arena_strdup(arena, script.s);
	if (r == 0)
		r = render_env(p, t, arena, &c, err);
	if (r == 0 && s->concurrency.group) {
		str_reset(&script);
		r = template_render(s->concurrency.group, &es, arena, &script, err);
		c.concurrency_group = r == 0 ? arena_strdup(arena, script.len ? script.s : "") : NULL;
	}
	str_deinit(&script);
	if (r == 0)
		r = command_key_record(p, t, c.inputs, c.n_inputs, c.script, arena, &c.key_record, err);
	if (r < 0) {
		str_deinit(&c.key_record);
		return -1;
	}
	c.argv = shell_argv(s, arena, c.script);
	c.secrets = s->secrets;
	c.image = plan_step_image(p, t->step);
	if ((s->builtin || s->distributed.framework) && builtin_argv(p, t, arena, &c, err) < 0) {
		str_deinit(&c.key_record);
		return -1;
	}
	*ret = c;
	return 0;
}
