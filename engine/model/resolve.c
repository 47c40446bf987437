/* engine/model/resolve.c — references become indices, expressions get their types checked, and
 * steps learn which steps they need.
 *
 * What a name means depends on where it stands (enum place) and on whose text it is: a step file
 * sees its own params and the inputs and outputs of the step, nothing of the pipeline around it.
 * The table `roots` says for each first word of a reference which places allow it and which
 * function resolves it. A reference is changed in place: REF_UNRESOLVED becomes its final kind, or
 * REF_BROKEN after its error was reported. `step.dir` becomes a constant.
 *
 * Steps are found by name in constant time (loader.step_index). The dependencies of a step are
 * folded with one mark per needed step (resolver.mark), so that the time is linear in references. A
 * step's deps are complete when resolve_all() ends; graph.c orders the steps by them.
 *
 * What crosses the border of a used pipeline (use.c) is resolved on its own side of it first:
 * offers from the inside out, what using steps give from the outside in. A reference to it becomes
 * what it stands for (stand_for()).
 *
 * Values in commands: a value may stand only where the shell can name a variable
 * (model/shell/shell.h), or where is_inert() shows that it can't be code. across.c checks what only
 * all steps together show.
 */
#include "model/resolve.h"
#include <assert.h>
#include "model/shell/shell.h"

static struct dotted split(struct loader *l, const char *name)
{
	char *s = arena_strdup(l->scratch, name);
	struct dotted d = { .root = s };
	const char **parts[] = { &d.first, &d.second, &d.rest };

	for (size_t i = 0; i < ARRAY_LEN(parts); i++) {
		s = strchr(s, '.');
		if (!s)
			break;
		*s++ = '\0';
		*parts[i] = s;
	}
	return d;
}

bool fail_ref(const struct resolver *rs, struct ref *ref, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	diag_addv(rs->l->diags, DIAG_ERROR, rs->file, ref->line, ref->col, fmt, ap);
	va_end(ap);
	ref->kind = REF_BROKEN;
	return false;
}

static bool set_ref(const struct resolver *rs, struct ref *ref, enum ref_kind kind, uint32_t index,
		    const char *name)
{
	ref->kind = kind;
	ref->index = index;
	ref->name = arena_strdup(rs->l->arena, name);
	return true;
}

/* Which steps a step needs. */

/* Counts the axes that two steps share by name. Stores the pairs in `ret` unless it is NULL. Steps
 * of different pipelines share none. */
static size_t shared_axes(const struct resolver *rs, const struct step *needed,
			  struct axis_pair *ret)
{
	const struct step *s = rs->s;
	size_t n = 0;

	if (s->matrix.n_axes == 0 || rs->l->builds[needed->index].use != rs->b->use)
		return 0;
	for (uint32_t i = 0; i < s->matrix.n_axes; i++)
		for (uint32_t k = 0; k < needed->matrix.n_axes; k++)
			if (strcmp(s->matrix.axes[i].name, needed->matrix.axes[k].name) == 0) {
				if (ret)
					ret[n] = (struct axis_pair){ i, k };
				n++;
			}
	return n;
}

/* Whether a task of this step needs several tasks of that one. */
static bool gathers(const struct resolver *rs, const struct step *needed)
{
	return needed->each || shared_axes(rs, needed, NULL) < needed->matrix.n_axes;
}

struct step_dep *resolver_add_dep(struct resolver *rs, uint32_t needed, const struct pos *pos)
{
	struct step_dep dep = { .step = needed, .pos = *pos };
	const struct step *t = &rs->l->steps[needed];
	size_t most = MIN(rs->s->matrix.n_axes, t->matrix.n_axes);

	assert(needed < rs->l->n_steps);
	if (rs->mark[needed] == rs->s->index + 1)
		return &rs->b->deps.v[rs->mark_dep[needed]];
	if (t->finally && !rs->s->finally)
		doc_error_at(rs->l->diags, pos,
			     "step `%s` is one of `finally`, which begin when all of `steps` have "
			     "ended: `%s` can't wait for it",
			     t->name, rs->s->name);
	rs->mark[needed] = rs->s->index + 1;
	rs->mark_dep[needed] = (uint32_t)rs->b->deps.n;
	if (most) {
		dep.shared = arena_alloc(rs->l->arena, most * sizeof(*dep.shared));
		dep.n_shared = shared_axes(rs, t, dep.shared);
	}
	VEC_PUSH(&rs->b->deps, dep);
	return &rs->b->deps.v[rs->b->deps.n - 1];
}

/* Names. */

#define NAMES_LINEAR 16 /* more than that are looked up by hash */

/* Finds a name of one step. Makes a table in *cache when there are many names. */
static size_t find_name(struct map **cache, const char *name, size_t n,
			const char *(*name_at)(const struct step *s, size_t i),
			const struct step *s)
{
	if (n <= NAMES_LINEAR) {
		for (size_t i = 0; i < n; i++)
			if (strcmp(name_at(s, i), name) == 0)
				return i;
		return n;
	}
	if (!*cache) {
		*cache = map_new();
		for (size_t i = 0; i < n; i++)
			*map_slot_str(*cache, name_at(s, i)) = (void *)(uintptr_t)(i + 1);
	}
	n = (size_t)(uintptr_t)map_get_str(*cache, name);
	return n ? n - 1 : SIZE_MAX;
}

static const char *input_name(const struct step *s, size_t i)
{
	return s->inputs[i].name;
}

static const char *output_name(const struct step *s, size_t i)
{
	return s->outputs[i].name;
}

static const char *suggest_of_step(struct resolver *rs, const char *word, size_t n,
				   const char *(*name_at)(const struct step *s, size_t i),
				   const struct step *s)
{
	_cleanup_(freep) const char **names = xcalloc(n, sizeof(*names));

	for (size_t i = 0; i < n; i++)
		names[i] = name_at(s, i);
	return loader_suggest(rs->l, word, names, n);
}

static bool resolve_param(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	struct loader *l = rs->l;
	uintptr_t i;

	const char *name = strchr(ref->name, '.'); /* of a param in a group: "model.lr" */

	if (!d->first)
		return fail_ref(rs, ref, "write `params.NAME`");
	name++;
	if (rs->in_file) {
		struct step_file *f = rs->b->file;

		for (uint32_t k = 0; k < f->n_params; k++)
			if (strcmp(f->params[k].name, name) == 0)
				return set_ref(rs, ref, REF_LOCAL, k, name);
		return fail_ref(rs, ref, "the step file has no param `%s`%s", name,
				param_hint(name, f->params, f->n_params, l->scratch));
	}
	i = (uintptr_t)map_get_str(l->param_index, name);
	if (!i) {
		const char *near = diag_errors(l->diags) < DIAG_MAX
					   ? param_hint(name, l->params.v + l->at->first_param,
							l->at->n_params, l->scratch)
					   : "";

		if (!*near && strchr(name, '-'))
			near = " (a difference has blanks around `-`)";
		return fail_ref(rs, ref, "there is no param `%s`%s", name, near);
	}
	l->param_used[i - 1] = true;
	return set_ref(rs, ref, REF_PARAM, (uint32_t)(i - 1), name);
}

static bool resolve_input(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	struct step *s = rs->s;
	size_t i;

	if (!d->first || d->second)
		return fail_ref(
			rs, ref,
			"write `inputs.NAME`; a path in it goes behind: ${{ inputs.NAME }}/path");
	if (rs->place == AT_FROM || rs->place == AT_EACH) { /* content of the pipeline */
		i = (size_t)(uintptr_t)map_get_str(rs->l->input_index, d->first);
		if (!i)
			return fail_ref(rs, ref, "the pipeline has no input `%s`%s", d->first,
					doc_suggest_key(rs->l, d->first, rs->l->input_index));
		if (i & BOUND_BIT)
			return stand_for(rs, ref, &rs->b->use->bound[(i & ~BOUND_BIT) - 1]);
		rs->l->input_used[i - 1] = true;
		return set_ref(rs, ref, REF_PIPELINE_INPUT, (uint32_t)(i - 1), d->first);
	}
	if (rs->place != AT_COMMAND)
		return fail_ref(rs, ref,
				"`inputs` is content: it can be used in `inputs`, `each` and "
				"commands only");
	i = find_name(&rs->b->input_names, d->first, s->n_inputs, input_name, s);
	if (i < s->n_inputs)
		return set_ref(rs, ref, REF_INPUT, (uint32_t)i, d->first);
	if (!rs->in_file && map_get_str(rs->l->input_index, d->first))
		return fail_ref(rs, ref,
				"step `%s` doesn't declare input `%s`: add `inputs: {%s: \"${{ "
				"inputs.%s }}\"}` to it",
				s->name, d->first, d->first, d->first);
	return fail_ref(rs, ref, "step `%s` has no input `%s`%s", s->name, d->first,
			suggest_of_step(rs, d->first, s->n_inputs, input_name, s));
}

static bool resolve_output(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	struct step *s = rs->s;
	size_t i;

	if (!d->first || d->second)
		return fail_ref(
			rs, ref,
			"write `outputs.NAME`; a path in it goes behind: ${{ outputs.NAME }}/path");
	if (rs->place != AT_COMMAND)
		return fail_ref(rs, ref,
				"`outputs` are the step's own and known in its command only; "
				"another step's are `steps.STEP.outputs.%s`",
				d->first);
	i = find_name(&rs->b->output_names, d->first, s->n_outputs, output_name, s);
	if (i < s->n_outputs)
		return set_ref(rs, ref, REF_OUTPUT, (uint32_t)i, d->first);
	return fail_ref(rs, ref, "step `%s` has no output `%s`%s", s->name, d->first,
			suggest_of_step(rs, d->first, s->n_outputs, output_name, s));
}

static bool resolve_step_output(struct resolver *rs, struct ref *ref, uint32_t step,
				const char *name)
{
	struct build *needed = &rs->l->builds[step];
	struct step *t = needed->s;
	size_t i;

	if (rs->place != AT_FROM && rs->place != AT_EACH)
		return fail_ref(rs, ref,
				"content of another step comes as an input: add `inputs: {%s: "
				"\"${{ steps.%s.outputs.%s }}\"}` and use ${{ inputs.%s }}",
				name, t->name, name, name);
	if (needed->file && needed->file->broken)
		return fail_ref(rs, ref, "step `%s` has no outputs, since its step file has errors",
				t->name);
	i = find_name(&needed->output_names, name, t->n_outputs, output_name, t);
	if (i >= t->n_outputs)
		return fail_ref(rs, ref, "step `%s` has no output `%s`%s", t->name, name,
				suggest_of_step(rs, name, t->n_outputs, output_name, t));
	resolver_add_dep(rs, step, &(struct pos){ rs->file, ref->line, ref->col })->data = true;
	needed->output_used[i] = true;
	ref->step = step;
	return set_ref(rs, ref, REF_STEP_OUTPUT, (uint32_t)i, name);
}

static bool resolve_metric(struct resolver *rs, struct ref *ref, uint32_t step, const char *metric)
{
	struct build *needed = &rs->l->builds[step];

	if (rs->place != AT_IF && rs->place != AT_COMMAND)
		return fail_ref(rs, ref, "metrics can be used in `if` and in commands only");
	if (!needed->s->measured.metrics && !needed->s->program.builtin &&
	    !(needed->file && needed->file->broken))
		return fail_ref(rs, ref, "step `%s` has no `metrics`", needed->s->name);
	resolver_add_dep(rs, step, &(struct pos){ rs->file, ref->line, ref->col })->metrics = true;
	ref->step = step;
	return set_ref(rs, ref, REF_STEP_METRIC, 0, metric);
}

/* Waits for the step's end, whatever it is. A key with it would depend on who failed when. */
static bool resolve_state(struct resolver *rs, struct ref *ref, uint32_t step)
{
	if (rs->place != AT_IF && !rs->s->finally)
		return fail_ref(rs, ref,
				"the state of a step can be used in `if` and in the steps "
				"of `finally` only");
	resolver_add_dep(rs, step, &(struct pos){ rs->file, ref->line, ref->col })->state = true;
	ref->step = step;
	return set_ref(rs, ref, REF_STEP_STATE, 0, "state");
}

static bool resolve_value(struct resolver *rs, struct ref *ref, uint32_t step, const char *name)
{
	struct build *needed = &rs->l->builds[step];
	struct step *t = needed->s;
	struct step_dep *dep;
	size_t i = 0;

	if (rs->place == AT_FROM || rs->place == AT_PATH)
		return fail_ref(rs, ref,
				"a value is no content: use it in `if`, `each`, `env`, `with`, "
				"`seed` or commands. Its file is `steps.%s.outputs.values`",
				t->name);
	while (i < t->n_outputs && strcmp(t->outputs[i].name, STEP_VALUES_OUTPUT) != 0)
		i++;
	if (!t->measured.values || i == t->n_outputs)
		return fail_ref(rs, ref, "step `%s` has no `values`%s", t->name,
				needed->file && needed->file->broken
					? ", since its step file has errors"
					: ": add `values: FILE.json`, and let it write a JSON "
					  "object there");
	dep = resolver_add_dep(rs, step, &(struct pos){ rs->file, ref->line, ref->col });
	dep->data = dep->values = true;
	needed->output_used[i] = true;
	ref->step = step;
	return set_ref(rs, ref, REF_STEP_VALUE, (uint32_t)i, name);
}

static bool resolve_step(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	uintptr_t i;
	bool state = d->second && !d->rest && strcmp(d->second, "state") == 0;

	if (!d->first || !d->second || (!d->rest && !state))
		return fail_ref(rs, ref,
				"write `steps.STEP.outputs.NAME`, `steps.STEP.metrics.NAME`, "
				"`steps.STEP.values.NAME`, or `steps.STEP.state`");
	i = (uintptr_t)map_get_str(rs->l->step_index, d->first);
	if (!i)
		return fail_ref(rs, ref, "there is no step `%s`%s", d->first,
				doc_suggest_key(rs->l, d->first, rs->l->step_index));
	if (i & USE_BIT)
		return resolve_offer(rs, ref, d, rs->l->uses.v[i & ~USE_BIT]);
	if (state)
		return resolve_state(rs, ref, (uint32_t)(i - 1));
	if (strcmp(d->second, "metrics") == 0)
		return resolve_metric(rs, ref, (uint32_t)(i - 1), d->rest);
	if (strcmp(d->second, "values") == 0)
		return resolve_value(rs, ref, (uint32_t)(i - 1), d->rest);
	if (strcmp(d->second, "outputs") == 0)
		return resolve_step_output(rs, ref, (uint32_t)(i - 1), d->rest);
	return fail_ref(rs, ref, "a step has `outputs`, `metrics`, `values` and `state`, not `%s`",
			d->second);
}

static bool resolve_matrix(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	const struct step *s = rs->s;
	const char *names[MATRIX_AXES_MAX];

	if (!d->first || d->second)
		return fail_ref(rs, ref, "write `matrix.AXIS`");
	if (s->matrix.n_axes == 0)
		return fail_ref(rs, ref, "step `%s` has no `matrix`", s->name);
	for (uint32_t i = 0; i < s->matrix.n_axes; i++) {
		names[i] = s->matrix.axes[i].name;
		if (strcmp(names[i], d->first) == 0) {
			if (rs->b)
				rs->b->axes_used |= 1ULL << i;
			return set_ref(rs, ref, REF_MATRIX, i, d->first);
		}
	}
	return fail_ref(rs, ref, "the matrix of step `%s` has no axis `%s`%s", s->name, d->first,
			loader_suggest(rs->l, d->first, names, s->matrix.n_axes));
}

static bool resolve_item(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	static const char *const parts[] = { "name", "path", "stem" };
	static const enum ref_kind kinds[] = { REF_ITEM_NAME, REF_ITEM_PATH, REF_ITEM_STEM };
	const struct each_decl *e = rs->s->each;

	if (!e)
		return fail_ref(rs, ref,
				"`item` has a meaning in steps with `each`; step `%s` has none",
				rs->s->name);
	if (!d->first) {
		if (rs->place == AT_FROM && e->is_list)
			return fail_ref(
				rs, ref,
				"`item` is a value here, not content: use it in the command");
		if (rs->place != AT_FROM && !e->is_list)
			return fail_ref(
				rs, ref,
				"`item` is content here: take it as an input (`inputs: {file: "
				"\"${{ item }}\"}`), or use item.name, item.path or item.stem");
		return set_ref(rs, ref, REF_ITEM, 0, "item");
	}
	if (e->is_list && e->from.kind == REF_STEP_VALUE && rs->place != AT_FROM)
		return set_ref(rs, ref, REF_ITEM_VALUE, 0, ref->name + strlen("item."));
	for (size_t i = 0; i < ARRAY_LEN(parts) && !d->second; i++)
		if (strcmp(parts[i], d->first) == 0)
			return rs->place == AT_FROM
				       ? fail_ref(rs, ref, "`item.%s` is text; content is `item`",
						  d->first)
				       : set_ref(rs, ref, kinds[i], 0, d->first);
	return fail_ref(rs, ref, "an item has `name`, `path` and `stem`, not `%s`", d->first);
}

static bool resolve_schedule(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	static const char *const names[] = { "time", "name", "interval_start", "interval_end" };

	for (size_t i = 0; d->first && !d->second && i < ARRAY_LEN(names); i++)
		if (strcmp(names[i], d->first) == 0)
			return set_ref(rs, ref, REF_SCHEDULE, (uint32_t)i, d->first);
	return fail_ref(rs, ref,
			"a schedule has `time`, `name`, `interval_start` and `interval_end`%s",
			d->first ? loader_suggest(rs->l, d->first, names, ARRAY_LEN(names)) : "");
}

static bool resolve_run(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	if (d->first && !d->second && strcmp(d->first, "id") == 0)
		return rs->place == AT_EXPORT
			       ? set_ref(rs, ref, REF_RUN_ID, 0, "id")
			       : fail_ref(rs, ref,
					  "`run.id` can be used in `export` only: elsewhere each "
					  "run would do something else, and no result on record "
					  "could be used again");
	if (!d->first || d->second || strcmp(d->first, "state") != 0)
		return fail_ref(rs, ref, "write `run.state` or `run.id`");
	if (rs->in_file)
		return fail_ref(rs, ref,
				"a step file can't see `run.state`: declare a param and give it by "
				"`with`");
	if (!rs->s->finally || rs->place == AT_EXPORT)
		return fail_ref(rs, ref,
				"the run's state is known when all of `steps` have ended: "
				"`run.state` can be used in the steps of `finally` only");
	return set_ref(rs, ref, REF_RUN_STATE, 0, "state");
}

static bool resolve_failed(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	if (!d->first || d->second || strcmp(d->first, "tasks") != 0)
		return fail_ref(rs, ref, "write `failed.tasks`, or `failed()` in `if`");
	return set_ref(rs, ref, REF_FAILED_TASKS, 0, "tasks");
}

/* The directory of a step file is known now, so `step.dir` becomes a constant. */
static bool resolve_own_step(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	struct expr *e = CONTAINER_OF(ref, struct expr, ref);

	if (!d->first || d->second || strcmp(d->first, "dir") != 0)
		return fail_ref(rs, ref, "write `step.dir` for the directory of the step file");
	e->kind = EXPR_CONST;
	e->value = (struct value){ .type = VALUE_STRING, .s = rs->b->file->doc.dir };
	return true;
}

/* One reference. */

#define BIT(place) (1U << (place))
static const struct root {
	const char *name;
	bool (*resolve)(struct resolver *rs, struct ref *ref, const struct dotted *d);
	unsigned places;
	bool in_file; /* whether a step file may use it */
} roots[] = {
	{ "params", resolve_param,
	  BIT(AT_DEFAULTS) | BIT(AT_COMMAND) | BIT(AT_PATH) | BIT(AT_AXIS) | BIT(AT_IF) |
		  BIT(AT_EACH) | BIT(AT_EXPORT) | BIT(AT_SETTING) | BIT(AT_GIVEN),
	  true },
	{ "inputs", resolve_input,
	  BIT(AT_COMMAND) | BIT(AT_FROM) | BIT(AT_EACH) | BIT(AT_IF) | BIT(AT_PATH), true },
	{ "outputs", resolve_output,
	  BIT(AT_COMMAND) | BIT(AT_FROM) | BIT(AT_EACH) | BIT(AT_IF) | BIT(AT_PATH), true },
	{ "steps", resolve_step,
	  BIT(AT_COMMAND) | BIT(AT_FROM) | BIT(AT_EACH) | BIT(AT_IF) | BIT(AT_PATH), false },
	{ "matrix", resolve_matrix,
	  BIT(AT_COMMAND) | BIT(AT_PATH) | BIT(AT_IF) | BIT(AT_EXPORT) | BIT(AT_SETTING), false },
	{ "item", resolve_item,
	  BIT(AT_COMMAND) | BIT(AT_PATH) | BIT(AT_IF) | BIT(AT_FROM) | BIT(AT_EXPORT) |
		  BIT(AT_SETTING),
	  false },
	{ "schedule", resolve_schedule, BIT(AT_COMMAND) | BIT(AT_SCHEDULE), false },
	{ "run", resolve_run, BIT(AT_COMMAND) | BIT(AT_IF) | BIT(AT_EXPORT), true },
	{ "failed", resolve_failed, BIT(AT_COMMAND) | BIT(AT_IF), false },
	{ "step", resolve_own_step, BIT(AT_COMMAND), true },
};

static bool unknown_root(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	const char *names[ARRAY_LEN(roots)];

	if (strcmp(d->root, "env") == 0)
		return fail_ref(rs, ref, "the environment is read in the command itself: $%s",
				d->first ? d->first : "NAME");
	if (strcmp(d->root, "secrets") == 0)
		return fail_ref(
			rs, ref,
			"a secret is a variable of the command: list it in `secrets` and read $%s",
			d->first ? d->first : "NAME");
	if (strcmp(d->root, "task") == 0)
		return fail_ref(rs, ref,
				"a task knows nothing of itself, such as its attempt: each attempt "
				"must give the same result");
	for (size_t i = 0; i < ARRAY_LEN(roots); i++)
		names[i] = roots[i].name;
	return fail_ref(rs, ref, "there is nothing called `%s`%s", d->root,
			loader_suggest(rs->l, d->root, names, ARRAY_LEN(roots)));
}

static bool wrong_place(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	static const char *const wheres[] = {
		[AT_DEFAULTS] = "`defaults` can use `params` only",
		[AT_COMMAND] = "it has no meaning in a command",
		[AT_EXPORT] = "`export` can use `params`, `matrix`, `item.name` and `run.id` only",
		[AT_PATH] = "the path below a reference can use `params`, `matrix` and `item.name` "
			    "only",
		[AT_AXIS] = "a matrix can use `params` only, since its tasks must be known from "
			    "the start",
		[AT_IF] = "`if` can use `params`, `matrix`, `item`, metrics, values and states",
		[AT_FROM] = "an input is `inputs.NAME`, `steps.STEP.outputs.NAME` or `item`",
		[AT_EACH] = "`each` ranges over a list, over `steps.STEP.values.NAME`, or over "
			    "members of `inputs.NAME` or `steps.STEP.outputs.NAME`",
		[AT_GIVEN] = "the params of a used pipeline can use `params` only, since its tasks "
			     "must be known from the start",
		[AT_SCHEDULE] = "the params of a schedule can use `schedule` only",
		[AT_SETTING] = "an image, resources, `timeout` and `max` can use `params`, "
			       "`matrix` and `item` only, which are known before other steps end",
	};

	return fail_ref(rs, ref, "`%s` can't be used here: %s", d->root, wheres[rs->place]);
}

void resolve_ref(void *arg, struct ref *ref)
{
	struct resolver *rs = arg;
	struct dotted d;
	size_t i = 0;

	if (ref->kind != REF_UNRESOLVED)
		return;
	d = split(rs->l, ref->name);
	while (i < ARRAY_LEN(roots) && strcmp(roots[i].name, d.root) != 0)
		i++;
	if (i == ARRAY_LEN(roots))
		unknown_root(rs, ref, &d);
	else if (rs->in_file && !roots[i].in_file)
		fail_ref(rs, ref,
			 "a step file can't see `%s`: declare a param and give it by `with`",
			 d.root);
	else if (!rs->in_file && roots[i].resolve == resolve_own_step)
		fail_ref(rs, ref, "`step.dir` has a meaning in step files only");
	else if (!(roots[i].places & BIT(rs->place)))
		wrong_place(rs, ref, &d);
	else
		roots[i].resolve(rs, ref, &d);
}

/* Types. */

static enum expr_type type_of_axis(const struct matrix_axis *a)
{
	enum expr_type t = a->n_values ? expr_type_of_value(a->values[0].type) : TYPE_ANY;

	for (size_t i = 1; i < a->n_values; i++)
		if (expr_type_of_value(a->values[i].type) != t)
			return TYPE_ANY;
	return t;
}

static enum expr_type type_of(void *arg, const struct ref *ref, bool *ret_gathered)
{
	struct resolver *rs = arg;

	switch (ref->kind) {
	case REF_PARAM:
		return expr_type_of_value(rs->l->params.v[ref->index].type);
	case REF_LOCAL:
		return expr_type_of_value(rs->b->file->params[ref->index].type);
	case REF_STEP_METRIC:
		*ret_gathered = gathers(rs, &rs->l->steps[ref->step]);
		return TYPE_NUMBER;
	case REF_STEP_VALUE: /* of several tasks, in their order */
		return gathers(rs, &rs->l->steps[ref->step]) ? TYPE_LIST : TYPE_ANY;
	case REF_MATRIX:
		return type_of_axis(&rs->s->matrix.axes[ref->index]);
	case REF_ITEM_VALUE:
	case REF_ITEM:
		return TYPE_ANY;
	case REF_FAILED_TASKS:
		return TYPE_LIST;
	default:
		return TYPE_STRING;
	}
}

void resolver_enter(struct resolver *rs, enum place place, const char *file)
{
	rs->place = place;
	rs->file = file;
	rs->in_file = rs->b && rs->b->file && file == rs->b->file->doc.file;
}

static void resolve_template(struct resolver *rs, const struct expr_template *t, enum place place)
{
	struct expr_check ctx = { .type_of = type_of, .arg = rs, .diags = rs->l->diags };

	if (!t || (t->n_parts == 1 && !t->parts[0].expr))
		return;
	resolver_enter(rs, place, t->file);
	template_refs_mut(t, resolve_ref, rs);
	template_check(t, &ctx);
}

static enum expr_type type_of_template(struct resolver *rs, const struct expr_template *t,
				       enum place place)
{
	_cleanup_(diag_list_freep) struct diag_list *quiet = diag_list_new();
	struct expr_check ctx = { .type_of = type_of, .arg = rs, .diags = quiet };
	const struct expr *single = template_single(t);

	resolver_enter(rs, place, t->file);
	return single ? expr_check(single, &ctx) : TYPE_STRING;
}

/* One step. */

static void resolve_axes(struct resolver *rs)
{
	for (size_t i = 0; i < rs->s->matrix.n_axes; i++) {
		const struct matrix_axis *a = &rs->s->matrix.axes[i];
		enum expr_type t;

		if (!a->list)
			continue;
		resolve_template(rs, a->list, AT_AXIS);
		t = type_of_template(rs, a->list, AT_AXIS);
		if (t != TYPE_LIST && t != TYPE_ANY && template_single(a->list))
			diag_error(rs->l->diags, a->list->file, a->list->line, a->list->col,
				   "matrix axis `%s` needs a list, not %s", a->name,
				   expr_type_name(t));
	}
}

/* A single file has no members and nothing below it. */
static bool is_single_file(const struct resolver *rs, const struct ref *ref)
{
	const struct step *t;

	if (ref->kind != REF_STEP_OUTPUT)
		return false;
	t = &rs->l->steps[ref->step];
	return !t->outputs[ref->index].is_dir && !gathers(rs, t);
}

static void resolve_each(struct resolver *rs)
{
	struct each_decl *e = (struct each_decl *)(uintptr_t)rs->s->each;

	if (!e || e->from.kind != REF_UNRESOLVED)
		return;
	resolver_enter(rs, AT_EACH, rs->b->doc->file);
	rs->below = NULL;
	resolve_ref(rs, &e->from);
	if (rs->below) {
		fail_ref(rs, &e->from,
			 "`each` can't range over this input: what is given for it is a path below "
			 "a "
			 "reference (%s:%d); let a step give exactly these files",
			 rs->below->file, rs->below->line);
		return;
	}
	if (e->from.kind == REF_PARAM || e->from.kind == REF_STEP_VALUE) {
		bool param = e->from.kind == REF_PARAM;

		e->is_list = true;
		if (param && rs->l->params.v[e->from.index].type != VALUE_LIST)
			fail_ref(rs, &e->from, "`each` needs a list; param `%s` is %s",
				 e->from.name,
				 value_type_phrase(rs->l->params.v[e->from.index].type));
		else if (e->glob)
			fail_ref(rs, &e->from,
				 "%s `%s` is a list of values: nothing can stand behind it",
				 param ? "param" : "value", e->from.name);
		return;
	}
	if (is_single_file(rs, &e->from))
		fail_ref(rs, &e->from,
			 "output `%s` of step `%s` is a file; `each` needs a directory (a path "
			 "that ends in /)",
			 e->from.name, rs->l->steps[e->from.step].name);
	if (!e->glob)
		e->glob = "*";
}

/* A path below what a reference stands for, and one below that. */
static const struct expr_template *join_paths(struct loader *l, const struct expr_template *first,
					      const struct expr_template *second)
{
	struct expr_template *t = arena_memdup(l->arena, first, sizeof(*t));

	if (!second)
		return first;
	t->n_parts = first->n_parts + second->n_parts;
	t->parts = arena_alloc(l->arena, t->n_parts * sizeof(*t->parts));
	memcpy(t->parts, first->parts, first->n_parts * sizeof(*t->parts));
	memcpy(t->parts + first->n_parts, second->parts, second->n_parts * sizeof(*t->parts));
	return t;
}

void resolve_inputs(struct resolver *rs)
{
	struct step_input *inputs = (struct step_input *)(uintptr_t)rs->s->inputs;
	const struct expr_template *below;

	for (size_t i = 0; i < rs->s->n_inputs; i++) {
		resolver_enter(rs, AT_FROM, rs->b->doc->file);
		rs->below = NULL;
		resolve_ref(rs, &inputs[i].from);
		below = rs->below;
		if (inputs[i].subpath && is_single_file(rs, &inputs[i].from))
			fail_ref(rs, &inputs[i].from,
				 "output `%s` of step `%s` is a file: there is nothing below it",
				 inputs[i].from.name, rs->l->steps[inputs[i].from.step].name);
		resolve_template(rs, inputs[i].subpath, AT_PATH);
		if (below)
			inputs[i].subpath = join_paths(rs->l, below, inputs[i].subpath);
	}
}

static void resolve_with(struct resolver *rs, const struct with_node *w)
{
	if (w->kind == WITH_SCALAR)
		resolve_template(rs, w->scalar, AT_COMMAND);
	for (size_t i = 0; i < w->n; i++)
		resolve_with(rs, &w->children[i]);
}

/* Checks what `with` gives to the params of a step file or a pipeline, as far as the type is
 * known. */
void resolve_locals(struct resolver *rs, enum place place)
{
	for (size_t i = 0; i < rs->s->program.n_locals; i++) {
		const struct step_local *local = &rs->s->program.locals[i];
		enum expr_type t, wanted = expr_type_of_value(local->decl->type);

		if (!local->value || local->value->n_parts == 0)
			continue;
		resolve_template(rs, local->value, place);
		t = type_of_template(rs, local->value, place);
		if (t != TYPE_ANY && t != wanted)
			diag_error(rs->l->diags, local->value->file, local->value->line,
				   local->value->col, "param `%s` of `%s` must be %s, not %s",
				   local->decl->name, rs->b->file->doc.path, expr_type_name(wanted),
				   expr_type_name(t));
	}
}

void resolve_condition(struct resolver *rs)
{
	struct expr *e = (struct expr *)(uintptr_t)rs->s->condition;
	struct expr_check ctx = {
		.type_of = type_of, .arg = rs, .diags = rs->l->diags, .in_if = true
	};
	enum expr_type t;

	if (!e)
		return;
	resolver_enter(rs, AT_IF, e->file);
	expr_refs_mut(e, resolve_ref, rs);
	t = expr_check(e, &ctx);
	if (t != TYPE_ANY && t != TYPE_BOOL)
		diag_error(rs->l->diags, e->file, e->line, e->col,
			   "`if` must be true or false, not %s", expr_type_name(t));
}

/* Settings: image, resources, timeout, … (step/settings.c). */

static void resolve_settings(struct resolver *rs, enum place place)
{
	for (int i = 0; i < STEP_SETTINGS; i++) {
		const struct expr_template *t = rs->s->settings[i];
		size_t errors = diag_errors(rs->l->diags);

		if (!t || (rs->b && t == rs->b->use->defaults.settings[i]))
			continue; /* none, or checked already */
		resolve_template(rs, t, place);
		if (diag_errors(rs->l->diags) == errors)
			setting_check(rs->l, rs->s, i, type_of_template(rs, t, place));
	}
}

struct export_uses {
	uint64_t axes;
	bool item, local; /* the value of a step file's param isn't followed */
};

static void note_use(void *arg, const struct ref *ref)
{
	struct export_uses *u = arg;

	u->item |= ref->kind >= REF_ITEM && ref->kind <= REF_ITEM_VALUE;
	u->local |= ref->kind == REF_LOCAL;
	if (ref->kind == REF_MATRIX && ref->index < 64)
		u->axes |= 1ULL << ref->index;
}

/* Refuses tasks of one step that would all export to one place. */
static void check_export(struct resolver *rs, const struct step_output *o)
{
	const struct step *s = rs->s;
	struct export_uses uses = { 0 };

	template_refs(o->export, note_use, &uses);
	if (uses.local)
		return;
	if (s->each && !uses.item)
		doc_error_at(
			rs->l->diags, &o->pos,
			"all tasks of step `%s` would export `%s` to one place: put ${{ item.name "
			"}} into it",
			s->name, o->name);
	for (uint32_t i = 0; i < s->matrix.n_axes; i++)
		if (i < 64 && !(uses.axes & 1ULL << i))
			doc_error_at(rs->l->diags, &o->pos,
				     "several tasks of step `%s` would export `%s` to one place: "
				     "put ${{ matrix.%s }} into it",
				     s->name, o->name, s->matrix.axes[i].name);
}

/* Values in commands. */

static bool inert_values(const struct value *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].type == VALUE_LIST ||
		    (v[i].type == VALUE_STRING && !shell_plain_word(v[i].s, strlen(v[i].s))))
			return false;
	return n > 0;
}

static bool inert_axis(const struct step *s, size_t axis)
{
	const struct matrix_axis *a = &s->matrix.axes[axis];

	for (size_t i = 0; i < s->matrix.n_include; i++)
		if (s->matrix.include[i].by_axis[axis].type != VALUE_NULL &&
		    !inert_values(&s->matrix.include[i].by_axis[axis], 1))
			return false;
	if (a->values && a->n_values == 0) /* all come from `include` */
		return s->matrix.n_include > 0;
	return a->values && inert_values(a->values, a->n_values);
}

/* Whether its value can only be a number, true, false, or a plain word that the file spells out. */
static bool is_inert(struct resolver *rs, const struct expr *e)
{
	const struct param_decl *param = NULL;
	const struct step *s = rs->s;
	_cleanup_(diag_list_freep) struct diag_list *quiet = diag_list_new();
	enum expr_type t = expr_check(
		e, &(struct expr_check){ .type_of = type_of, .arg = rs, .diags = quiet });

	if (t == TYPE_NUMBER || t == TYPE_BOOL)
		return true;
	if (e->kind == EXPR_REF && e->ref.kind == REF_BROKEN) /* already reported */
		return true;
	if (e->kind == EXPR_CONST)
		return inert_values(&e->value, 1);
	if (e->kind == EXPR_CALL && e->op == FUNC_CHOOSE)
		return is_inert(rs, e->args[1]) && is_inert(rs, e->args[2]);
	if (e->kind != EXPR_REF)
		return false;
	switch (e->ref.kind) {
	case REF_STEP_STATE:
	case REF_RUN_STATE:
	case REF_INPUT: /* inputs/NAME, with an ending of letters and digits */
		return true;
	case REF_OUTPUT:
		return shell_plain_word(s->outputs[e->ref.index].path,
					strlen(s->outputs[e->ref.index].path));
	case REF_MATRIX:
		return inert_axis(s, e->ref.index);
	case REF_PARAM:
		param = &rs->l->params.v[e->ref.index];
		break;
	case REF_LOCAL:
		param = rs->b->file->params + e->ref.index;
		break;
	default:
		return false;
	}
	return param->choices && inert_values(param->choices, param->n_choices);
}

/* A command that names a place in the project by its absolute path reads it without the key
 * knowing. */
static void warn_of_project_paths(struct resolver *rs, const struct expr_template *run)
{
	const char *root = rs->l->root;
	size_t n = root ? strlen(root) : 0;

	for (size_t i = 0; i < run->n_parts && n > 1; i++) {
		const char *text = run->parts[i].text,
			   *found = text ? memmem(text, run->parts[i].len, root, n) : NULL;

		if (!found ||
		    (found + n < text + run->parts[i].len && !strchr("/ \t\n\"';)", found[n])))
			continue;
		diag_warning(rs->l->diags, run->file, run->line, run->col,
			     "step `%s` names the project's directory in its command. What it "
			     "reads there is not part of its key, so an edit doesn't run it again: "
			     "declare it in `inputs` or `code`",
			     rs->s->name);
		return;
	}
}

/* A value reaches the shell as a variable that the command names. Where no variable can be named,
 * only text that is never code may stand. */
static void check_command_places(struct resolver *rs, const struct expr_template *run)
{
	_cleanup_(freep) struct shell_place *places = xcalloc(run->n_parts + 1, sizeof(*places));

	shell_places(run, str_eq(rs->s->program.shell, "bash"), places);
	for (size_t i = 0; i < run->n_parts; i++) {
		const struct expr_part *part = &run->parts[i];
		const struct expr *e = part->expr;

		if (!e && shell_names_variable(part->text, part->len))
			diag_error(rs->l->diags, run->file, run->line, run->col,
				   "names that begin with " SHELL_VARIABLE
				   " and a digit are Cairn's own: choose another");
		else if (e && places[i].kind == SHELL_TEXT && (places[i].glued || !is_inert(rs, e)))
			diag_error(rs->l->diags, e->file, e->line, e->col,
				   "a value can't stand here: %s; %s", places[i].why,
				   places[i].code ? "give it by `env: {NAME: \"${{ … }}\"}` and "
						    "let the program read NAME from there"
						  : "set a variable on a line of its own, "
						    "NAME=${{ … }}, and use \"$NAME\" here");
	}
}

void resolver_begin(struct resolver *rs, struct build *b)
{
	use_enter(rs->l, b->use);
	rs->b = b;
	rs->s = b->s;
}

static void resolve_build(struct resolver *rs, struct build *b)
{
	struct step *s = b->s;

	resolver_begin(rs, b);
	resolve_axes(rs);
	resolve_each(rs);
	resolve_inputs(rs);
	resolve_template(rs, s->program.run, AT_COMMAND);
	if (s->program.run) {
		check_command_places(rs, s->program.run);
		warn_of_project_paths(rs, s->program.run);
	}
	for (size_t i = 0; i < s->reads.n_env; i++)
		resolve_template(rs, s->reads.env[i].value, AT_COMMAND);
	if (s->program.with)
		resolve_with(rs, s->program.with);
	resolve_locals(rs, AT_COMMAND);
	resolve_template(rs, s->keyed.seed, AT_COMMAND);
	resolve_template(rs, s->concurrency.group, AT_COMMAND);
	resolve_settings(rs, AT_SETTING);
	for (size_t i = 0; i < s->n_outputs; i++)
		if (s->outputs[i].export) {
			resolve_template(rs, s->outputs[i].export, AT_EXPORT);
			check_export(rs, &s->outputs[i]);
		}
	resolve_condition(rs);
	inherit_conditions(rs);
	for (size_t i = 0; i < b->needs.n; i++) {
		const struct need *need = &b->needs.v[i];
		uintptr_t found = (uintptr_t)map_get_str(rs->l->step_index, need->name);

		if (found & USE_BIT)
			continue; /* need_used() */
		else if (found)
			resolver_add_dep(rs, (uint32_t)(found - 1), &need->pos)->order = true;
		else
			doc_error_at(rs->l->diags, &need->pos,
				     "step `%s` needs `%s`, which does not exist%s", s->name,
				     need->name,
				     doc_suggest_key(rs->l, need->name, rs->l->step_index));
	}
}

void resolve_defaults(struct loader *l, struct use *use)
{
	struct step *s = &use->defaults;
	struct resolver rs = { .l = l, .s = s };

	for (size_t i = 0; i < s->reads.n_env; i++)
		resolve_template(&rs, s->reads.env[i].value, AT_DEFAULTS);
	resolve_template(&rs, s->keyed.seed, AT_DEFAULTS);
	resolve_template(&rs, s->concurrency.group, AT_DEFAULTS);
	resolve_settings(&rs, AT_DEFAULTS);
}

void resolve_schedule_params(struct loader *l, struct schedule_decl *s)
{
	struct resolver rs = { .l = l, .s = &l->uses.v[0]->defaults };

	for (size_t i = 0; i < s->n_params; i++)
		resolve_template(&rs, s->params[i].value, AT_SCHEDULE);
}

void resolve_all(struct loader *l)
{
	struct resolver rs = { .l = l };

	rs.mark = arena_alloc(l->scratch, l->n_steps * sizeof(*rs.mark));
	rs.mark_dep = arena_alloc(l->scratch, l->n_steps * sizeof(*rs.mark_dep));
	for (size_t i = 0; i < l->n_steps; i++)
		l->builds[i].output_used = arena_alloc(l->scratch, l->steps[i].n_outputs);
	/* Offers of inner pipelines first, since those of outer ones may be made of them. What
	 * steps give goes the other way. */
	for (size_t i = l->uses.n; i-- > 0;)
		if (!l->uses.v[i]->broken)
			resolve_offers(&rs, l->uses.v[i], (uint32_t)i);
	for (size_t i = 1; i < l->uses.n; i++)
		if (!l->uses.v[i]->broken)
			resolve_using(&rs, l->uses.v[i], (uint32_t)(l->uses.n + i));
	for (size_t i = 0; i < l->n_steps; i++)
		resolve_build(&rs, &l->builds[i]);
	resolve_needs_of_used(&rs);
	for (size_t i = 0; i < l->n_steps; i++) {
		const struct build *b = &l->builds[i];

		b->s->deps = arena_memdup(l->arena, b->deps.n ? (void *)b->deps.v : "",
					  b->deps.n * sizeof(*b->deps.v));
		b->s->n_deps = b->deps.n;
	}
	check_export_places(l);
	if (diag_errors(l->diags) == 0)
		warn_unused(l);
}
