/* engine/model/resolve/reference.c — what one reference means, and of which type its value is.
 *
 * What a name means depends on where it stands (enum place) and on whose text it is: a step file
 * sees its own params and the inputs and outputs of the step, nothing of the pipeline around it.
 * The table `roots` says for each first word of a reference which places allow it and which
 * function resolves it. A reference is changed in place: REF_UNRESOLVED becomes its final kind, or
 * REF_BROKEN after its error was reported. `step.dir` becomes a constant.
 *
 * Steps are found by name in constant time (loader.names.steps). The dependencies of a step are
 * folded with one mark per needed step (resolver.mark), so that the time is linear in references.
 *
 * A reference to what crosses the border of a used pipeline becomes what it stands for
 * (resolver_stand_for() in use.c).
 */
#include <assert.h>
#include "model/resolve/internal.h"

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

bool resolver_fail(const struct resolver *rs, struct ref *ref, const char *fmt, ...)
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

	if (s->tasks->matrix.n_axes == 0 || rs->l->builds[needed->index].use != rs->b->use)
		return 0;
	for (uint32_t i = 0; i < s->tasks->matrix.n_axes; i++)
		for (uint32_t k = 0; k < needed->tasks->matrix.n_axes; k++)
			if (strcmp(s->tasks->matrix.axes[i].name,
				   needed->tasks->matrix.axes[k].name) == 0) {
				if (ret)
					ret[n] = (struct axis_pair){ i, k };
				n++;
			}
	return n;
}

/* Whether a task of this step needs several tasks of that one. */
bool resolver_gathers(const struct resolver *rs, const struct step *needed)
{
	return needed->tasks->each || shared_axes(rs, needed, NULL) < needed->tasks->matrix.n_axes;
}

struct step_dep *resolver_add_dep(struct resolver *rs, uint32_t needed, const struct pos *pos)
{
	struct step_dep dep = { .step = needed, .pos = *pos };
	const struct step *t = &rs->l->steps[needed];
	size_t most = MIN(rs->s->tasks->matrix.n_axes, t->tasks->matrix.n_axes);

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
		return resolver_fail(rs, ref, "write `params.NAME`");
	name++;
	if (rs->in_file) {
		struct step_file *f = rs->b->file;

		for (uint32_t k = 0; k < f->n_params; k++)
			if (strcmp(f->params[k].name, name) == 0)
				return set_ref(rs, ref, REF_LOCAL, k, name);
		return resolver_fail(rs, ref, "the step file has no param `%s`%s", name,
				     param_hint(name, f->params, f->n_params, l->scratch));
	}
	i = (uintptr_t)map_get_str(l->names.params, name);
	if (!i) {
		const char *near = "";

		if (l->using.at->n_params > 0 && diag_errors(l->diags) < DIAG_MAX)
			near = param_hint(name, l->params.v + l->using.at->first_param,
					  l->using.at->n_params, l->scratch);

		if (!*near && strchr(name, '-'))
			near = " (a difference has blanks around `-`)";
		return resolver_fail(rs, ref, "there is no param `%s`%s", name, near);
	}
	l->param_used[i - 1] = true;
	return set_ref(rs, ref, REF_PARAM, (uint32_t)(i - 1), name);
}

static bool resolve_input(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	struct step *s = rs->s;
	size_t i;

	if (!d->first || d->second)
		return resolver_fail(
			rs, ref,
			"write `inputs.NAME`; a path in it goes behind: ${{ inputs.NAME }}/path");
	if (rs->place == AT_FROM || rs->place == AT_EACH) { /* content of the pipeline */
		i = (size_t)(uintptr_t)map_get_str(rs->l->names.inputs, d->first);
		if (!i)
			return resolver_fail(rs, ref, "the pipeline has no input `%s`%s", d->first,
					     doc_suggest_key(rs->l, d->first, rs->l->names.inputs));
		if (i & BOUND_BIT)
			return resolver_stand_for(rs, ref,
						  &rs->b->use->bound[(i & ~BOUND_BIT) - 1]);
		rs->l->input_used[i - 1] = true;
		return set_ref(rs, ref, REF_PIPELINE_INPUT, (uint32_t)(i - 1), d->first);
	}
	if (rs->place != AT_COMMAND)
		return resolver_fail(rs, ref,
				     "`inputs` is content: it can be used in `inputs`, `each` and "
				     "commands only");
	i = find_name(&rs->b->input_names, d->first, s->n_inputs, input_name, s);
	if (i < s->n_inputs)
		return set_ref(rs, ref, REF_INPUT, (uint32_t)i, d->first);
	if (!rs->in_file && map_get_str(rs->l->names.inputs, d->first))
		return resolver_fail(
			rs, ref,
			"step `%s` doesn't declare input `%s`: add `inputs: {%s: \"${{ "
			"inputs.%s }}\"}` to it",
			s->name, d->first, d->first, d->first);
	return resolver_fail(rs, ref, "step `%s` has no input `%s`%s", s->name, d->first,
			     suggest_of_step(rs, d->first, s->n_inputs, input_name, s));
}

static bool resolve_output(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	struct step *s = rs->s;
	size_t i;

	if (!d->first || d->second)
		return resolver_fail(
			rs, ref,
			"write `outputs.NAME`; a path in it goes behind: ${{ outputs.NAME }}/path");
	if (rs->place != AT_COMMAND)
		return resolver_fail(rs, ref,
				     "`outputs` are the step's own and known in its command only; "
				     "another step's are `steps.STEP.outputs.%s`",
				     d->first);
	i = find_name(&rs->b->output_names, d->first, s->n_outputs, output_name, s);
	if (i < s->n_outputs)
		return set_ref(rs, ref, REF_OUTPUT, (uint32_t)i, d->first);
	return resolver_fail(rs, ref, "step `%s` has no output `%s`%s", s->name, d->first,
			     suggest_of_step(rs, d->first, s->n_outputs, output_name, s));
}

static bool resolve_step_output(struct resolver *rs, struct ref *ref, uint32_t step,
				const char *name)
{
	struct build *needed = &rs->l->builds[step];
	struct step *t = needed->s;
	size_t i;

	if (rs->place != AT_FROM && rs->place != AT_EACH)
		return resolver_fail(rs, ref,
				     "content of another step comes as an input: add `inputs: {%s: "
				     "\"${{ steps.%s.outputs.%s }}\"}` and use ${{ inputs.%s }}",
				     name, t->name, name, name);
	if (needed->file && needed->file->broken)
		return resolver_fail(rs, ref,
				     "step `%s` has no outputs, since its step file has errors",
				     t->name);
	i = find_name(&needed->output_names, name, t->n_outputs, output_name, t);
	if (i >= t->n_outputs)
		return resolver_fail(rs, ref, "step `%s` has no output `%s`%s", t->name, name,
				     suggest_of_step(rs, name, t->n_outputs, output_name, t));
	resolver_add_dep(rs, step, &(struct pos){ rs->file, ref->line, ref->col })->data = true;
	needed->output_used[i] = true;
	ref->step = step;
	return set_ref(rs, ref, REF_STEP_OUTPUT, (uint32_t)i, name);
}

static bool resolve_metric(struct resolver *rs, struct ref *ref, uint32_t step, const char *metric)
{
	struct build *needed = &rs->l->builds[step];

	if (rs->place != AT_IF && rs->place != AT_COMMAND && rs->place != AT_UNTIL)
		return resolver_fail(rs, ref, "metrics can be used in `if` and in commands only");
	if (!needed->s->measured->metrics && !needed->s->program.builtin &&
	    !(needed->file && needed->file->broken))
		return resolver_fail(rs, ref, "step `%s` has no `metrics`", needed->s->name);
	resolver_add_dep(rs, step, &(struct pos){ rs->file, ref->line, ref->col })->metrics = true;
	ref->step = step;
	return set_ref(rs, ref, REF_STEP_METRIC, 0, metric);
}

/* Waits for the step's end, whatever it is. A key with it would depend on who failed when. */
static bool resolve_state(struct resolver *rs, struct ref *ref, uint32_t step)
{
	if (rs->place != AT_IF && !rs->s->finally)
		return resolver_fail(rs, ref,
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
		return resolver_fail(
			rs, ref,
			"a value is no content: use it in `if`, `each`, `env`, `with`, "
			"`seed` or commands. Its file is `steps.%s.outputs.values`",
			t->name);
	while (i < t->n_outputs && strcmp(t->outputs[i].name, STEP_VALUES_OUTPUT) != 0)
		i++;
	if (!t->measured->values || i == t->n_outputs)
		return resolver_fail(rs, ref, "step `%s` has no `values`%s", t->name,
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

/* What a step with `repeat` says of itself: in `then`, what the round before made; in `until`, what
 * this round gave. Neither is a need, so the step gets no dep on itself. */
static bool resolve_itself(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	const struct step *s = rs->s;
	const char *name = d->rest ? d->rest : "";
	size_t i = 0;

	if (strcmp(d->second, "outputs") == 0 && rs->place == AT_THEN) {
		i = find_name(&rs->b->output_names, name, s->n_outputs, output_name, s);
		if (i >= s->n_outputs)
			return resolver_fail(
				rs, ref, "step `%s` has no output `%s`%s", s->name, name,
				suggest_of_step(rs, name, s->n_outputs, output_name, s));
		rs->b->round_used = true;
		ref->step = s->index;
		return set_ref(rs, ref, REF_STEP_OUTPUT, (uint32_t)i, name);
	}
	if (strcmp(d->second, "outputs") == 0)
		return resolver_fail(
			rs, ref,
			"a round gets what the one before made as an input: `inputs: {%s: {first: "
			"…, then: \"${{ steps.%s.outputs.%s }}\"}}`",
			name, s->name, name);
	if (rs->place != AT_UNTIL)
		return resolver_fail(rs, ref,
				     "what a round of step `%s` gave is seen by its `until` only: "
				     "hand on what the next round needs as an output",
				     s->name);
	ref->step = s->index;
	if (strcmp(d->second, "metrics") == 0 && (s->measured->metrics || s->program.builtin))
		return set_ref(rs, ref, REF_STEP_METRIC, 0, name);
	while (i < s->n_outputs && strcmp(s->outputs[i].name, STEP_VALUES_OUTPUT) != 0)
		i++;
	if (strcmp(d->second, "values") == 0 && s->measured->values && i < s->n_outputs)
		return set_ref(rs, ref, REF_STEP_VALUE, (uint32_t)i, name);
	if (strcmp(d->second, "metrics") == 0 || strcmp(d->second, "values") == 0)
		return resolver_fail(rs, ref, "step `%s` has no `%s`: add `%s: FILE.json`", s->name,
				     d->second, d->second);
	return resolver_fail(rs, ref,
			     "`until` sees `metrics` and `values` of a round that succeeded, not "
			     "`%s`",
			     d->second);
}

static bool resolve_step(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	uintptr_t i;
	bool state = d->second && !d->rest && strcmp(d->second, "state") == 0;

	if (!d->first || !d->second || (!d->rest && !state))
		return resolver_fail(rs, ref,
				     "write `steps.STEP.outputs.NAME`, `steps.STEP.metrics.NAME`, "
				     "`steps.STEP.values.NAME`, or `steps.STEP.state`");
	i = (uintptr_t)map_get_str(rs->l->names.steps, d->first);
	if (!i)
		return resolver_fail(rs, ref, "there is no step `%s`%s", d->first,
				     doc_suggest_key(rs->l, d->first, rs->l->names.steps));
	if (!(i & USE_BIT) && rs->s->tasks->repeat && i - 1 == rs->s->index)
		return resolve_itself(rs, ref, d);
	if (rs->place == AT_THEN && !rs->s->tasks->repeat) { /* that was reported */
		ref->kind = REF_BROKEN;
		return false;
	}
	if (rs->place == AT_THEN)
		return resolver_fail(rs, ref,
				     "`then` is what the round before made: \"${{ "
				     "steps.%s.outputs.NAME }}\"",
				     rs->s->name);
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
	return resolver_fail(rs, ref,
			     "a step has `outputs`, `metrics`, `values` and `state`, not `%s`",
			     d->second);
}

static bool resolve_matrix(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	const struct step *s = rs->s;
	const char *names[MATRIX_AXES_MAX];

	if (!d->first || d->second)
		return resolver_fail(rs, ref, "write `matrix.AXIS`");
	if (s->tasks->matrix.n_axes == 0)
		return resolver_fail(rs, ref, "step `%s` has no `matrix`", s->name);
	for (uint32_t i = 0; i < s->tasks->matrix.n_axes; i++) {
		names[i] = s->tasks->matrix.axes[i].name;
		if (strcmp(names[i], d->first) == 0) {
			if (rs->b)
				rs->b->axes_used |= 1ULL << i;
			return set_ref(rs, ref, REF_MATRIX, i, d->first);
		}
	}
	return resolver_fail(rs, ref, "the matrix of step `%s` has no axis `%s`%s", s->name,
			     d->first,
			     loader_suggest(rs->l, d->first, names, s->tasks->matrix.n_axes));
}

static bool resolve_item(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	static const char *const parts[] = { "name", "path", "stem" };
	static const enum ref_kind kinds[] = { REF_ITEM_NAME, REF_ITEM_PATH, REF_ITEM_STEM };
	const struct each_decl *e = rs->s->tasks->each;

	if (!e)
		return resolver_fail(
			rs, ref, "`item` has a meaning in steps with `each`; step `%s` has none",
			rs->s->name);
	if (!d->first) {
		if (rs->place == AT_FROM && e->is_list)
			return resolver_fail(
				rs, ref,
				"`item` is a value here, not content: use it in the command");
		if (rs->place != AT_FROM && !e->is_list)
			return resolver_fail(
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
				       ? resolver_fail(rs, ref,
						       "`item.%s` is text; content is `item`",
						       d->first)
				       : set_ref(rs, ref, kinds[i], 0, d->first);
	return resolver_fail(rs, ref, "an item has `name`, `path` and `stem`, not `%s`", d->first);
}

static bool resolve_round(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	if (d->first)
		return resolver_fail(rs, ref, "`round` is a number: write `round`");
	if (!rs->s->tasks->repeat)
		return resolver_fail(
			rs, ref, "`round` has a meaning in steps with `repeat`; step `%s` has none",
			rs->s->name);
	if (rs->b && rs->place != AT_UNTIL)
		rs->b->round_used = true;
	return set_ref(rs, ref, REF_ROUND, 0, "round");
}

static bool resolve_schedule(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	static const char *const names[] = { "time", "name", "interval_start", "interval_end",
					     "run" };

	if (rs->schedule && d->first && strcmp(d->first, "run") == 0 && !rs->schedule->on.pipeline)
		return resolver_fail(
			rs, ref,
			"schedule `%s` isn't fired by a run: `schedule.run` needs `on: "
			"{pipeline: …}`",
			rs->schedule->name);
	for (size_t i = 0; d->first && !d->second && i < ARRAY_LEN(names); i++)
		if (strcmp(names[i], d->first) == 0)
			return set_ref(rs, ref, REF_SCHEDULE, (uint32_t)i, d->first);
	return resolver_fail(
		rs, ref,
		"a schedule has `time`, `name`, `interval_start`, `interval_end` and `run`%s",
		d->first ? loader_suggest(rs->l, d->first, names, ARRAY_LEN(names)) : "");
}

static bool resolve_run(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	if (d->first && !d->second && strcmp(d->first, "id") == 0)
		return rs->place == AT_EXPORT
			       ? set_ref(rs, ref, REF_RUN_ID, 0, "id")
			       : resolver_fail(
					 rs, ref,
					 "`run.id` can be used in `export` only: elsewhere each "
					 "run would do something else, and no result on record "
					 "could be used again");
	if (!d->first || d->second || strcmp(d->first, "state") != 0)
		return resolver_fail(rs, ref, "write `run.state` or `run.id`");
	if (rs->in_file)
		return resolver_fail(
			rs, ref,
			"a step file can't see `run.state`: declare a param and give it by "
			"`with`");
	if (!rs->s->finally || rs->place == AT_EXPORT)
		return resolver_fail(rs, ref,
				     "the run's state is known when all of `steps` have ended: "
				     "`run.state` can be used in the steps of `finally` only");
	return set_ref(rs, ref, REF_RUN_STATE, 0, "state");
}

static bool resolve_failed(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	if (!d->first || d->second || strcmp(d->first, "tasks") != 0)
		return resolver_fail(rs, ref, "write `failed.tasks`, or `failed()` in `if`");
	return set_ref(rs, ref, REF_FAILED_TASKS, 0, "tasks");
}

/* The directory of a step file is known now, so `step.dir` becomes a constant. */
static bool resolve_own_step(struct resolver *rs, struct ref *ref, const struct dotted *d)
{
	struct expr *e = CONTAINER_OF(ref, struct expr, ref);

	if (!d->first || d->second || strcmp(d->first, "dir") != 0)
		return resolver_fail(rs, ref,
				     "write `step.dir` for the directory of the step file");
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
		  BIT(AT_EACH) | BIT(AT_EXPORT) | BIT(AT_SETTING) | BIT(AT_GIVEN) | BIT(AT_UNTIL),
	  true },
	{ "inputs", resolve_input,
	  BIT(AT_COMMAND) | BIT(AT_FROM) | BIT(AT_EACH) | BIT(AT_IF) | BIT(AT_PATH), true },
	{ "outputs", resolve_output,
	  BIT(AT_COMMAND) | BIT(AT_FROM) | BIT(AT_EACH) | BIT(AT_IF) | BIT(AT_PATH), true },
	{ "steps", resolve_step,
	  BIT(AT_COMMAND) | BIT(AT_FROM) | BIT(AT_EACH) | BIT(AT_IF) | BIT(AT_PATH) | BIT(AT_THEN) |
		  BIT(AT_UNTIL),
	  false },
	{ "matrix", resolve_matrix,
	  BIT(AT_COMMAND) | BIT(AT_PATH) | BIT(AT_IF) | BIT(AT_EXPORT) | BIT(AT_SETTING) |
		  BIT(AT_UNTIL),
	  false },
	{ "round", resolve_round, BIT(AT_COMMAND) | BIT(AT_PATH) | BIT(AT_UNTIL), false },
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
		return resolver_fail(rs, ref, "the environment is read in the command itself: $%s",
				     d->first ? d->first : "NAME");
	if (strcmp(d->root, "secrets") == 0)
		return resolver_fail(
			rs, ref,
			"a secret is a variable of the command: list it in `secrets` and read $%s",
			d->first ? d->first : "NAME");
	if (strcmp(d->root, "task") == 0)
		return resolver_fail(
			rs, ref,
			"a task knows nothing of itself, such as its attempt: each attempt "
			"must give the same result");
	for (size_t i = 0; i < ARRAY_LEN(roots); i++)
		names[i] = roots[i].name;
	return resolver_fail(rs, ref, "there is nothing called `%s`%s", d->root,
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
		[AT_THEN] = "`then` is what the round before made: `steps.STEP.outputs.NAME` of "
			    "the step itself",
		[AT_UNTIL] = "`until` can use `round`, `params`, `matrix`, metrics and values",
		[AT_SCHEDULE] = "the params of a schedule can use `schedule` only",
		[AT_SETTING] = "an image, resources, `timeout` and `max` can use `params`, "
			       "`matrix` and `item` only, which are known before other steps end",
	};

	return resolver_fail(rs, ref, "`%s` can't be used here: %s", d->root, wheres[rs->place]);
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
		resolver_fail(rs, ref,
			      "a step file can't see `%s`: declare a param and give it by `with`",
			      d.root);
	else if (!rs->in_file && roots[i].resolve == resolve_own_step)
		resolver_fail(rs, ref, "`step.dir` has a meaning in step files only");
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

enum expr_type resolver_type_of(void *arg, const struct ref *ref, bool *ret_gathered)
{
	struct resolver *rs = arg;

	switch (ref->kind) {
	case REF_PARAM:
		return expr_type_of_value(rs->l->params.v[ref->index].type);
	case REF_LOCAL:
		return expr_type_of_value(rs->b->file->params[ref->index].type);
	case REF_ROUND:
		return TYPE_NUMBER;
	case REF_STEP_METRIC:
		*ret_gathered = resolver_gathers(rs, &rs->l->steps[ref->step]);
		return TYPE_NUMBER;
	case REF_STEP_VALUE: /* of several tasks, in their order */
		return resolver_gathers(rs, &rs->l->steps[ref->step]) ? TYPE_LIST : TYPE_ANY;
	case REF_MATRIX:
		return type_of_axis(&rs->s->tasks->matrix.axes[ref->index]);
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
