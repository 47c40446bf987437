/* engine/model/step/step.c — steps: one table says which keys exist, where each may stand, and
 * which function reads it.
 *
 * A step is made in layers: built-in defaults, the pipeline's `defaults`, the step file (if any),
 * the step itself. Each layer's keys are read into the same struct step; a later one replaces what
 * an earlier one gave (`env` by name, `kubernetes` key by key). A step file is read anew for each
 * use of it, so that every step owns its templates and their references.
 *
 * kind_of_step() decides first what the step is (command, built-in, built-in around a command, step
 * file, pipeline); the kind is the context that the table's bits are tested for. `rules` is sorted
 * by name, for find_rule(). All names of steps are known before the first one is read.
 * finish_step() checks rules that span several keys; resolve.c resolves the references of a step.
 *
 * What steps may share (struct step_parts) is each step's own while it is read. When all is
 * resolved, step_keep_parts() puts it into the model, where equal parts are one. Equal bytes are
 * equal parts: two steps have the same template only from the same defaults.
 */
#include "model/read.h"
#include "model/step/placement.h"
#include "steps/spec/spec.h"

static void key_description(struct reader *r, const struct yaml_node *n)
{
	read_text(r->d, n, "`description`", &r->s->description);
}

static void key_run(struct reader *r, const struct yaml_node *n)
{
	if (doc_want_text(r->d, n, "`run`"))
		r->s->program.run = read_template(r->d, n);
}

static void key_shell(struct reader *r, const struct yaml_node *n)
{
	static const char *const shells[] = { "sh", "bash" };

	read_choice(r->d, n, "`shell`", shells, ARRAY_LEN(shells), &r->s->program.shell);
}

static void key_needs(struct reader *r, const struct yaml_node *n)
{
	const struct yaml_node **names;
	size_t count = read_name_list(r->d, n, "`needs`", &names);

	for (size_t i = 0; i < count; i++) {
		struct need need = { .name = doc_text(r->d, names[i]),
				     .pos = doc_pos(r->d, names[i]) };

		VEC_PUSH(&r->b->needs, need);
	}
}

const struct expr *step_read_condition(struct reader *r, const struct yaml_node *n,
				       const char *what)
{
	const struct expr_template *t;
	const struct expr *e;
	struct value v = { .type = VALUE_BOOL };
	size_t errors = diag_errors(r->l->diags);

	if (n->kind == YAML_KIND_SCALAR && yaml_as_bool(n, &v.b))
		return template_single(
			template_of_value(&v, r->d->file, n->line, n->col, r->l->arena));
	if (!doc_want_text(r->d, n, what))
		return NULL;
	t = read_template(r->d, n);
	if (diag_errors(r->l->diags) > errors)
		return NULL;
	e = template_single(t);
	if (!e)
		doc_error(r->d, n, "%s must be one expression: \"${{ … }}\"", what);
	return e;
}

static void key_if(struct reader *r, const struct yaml_node *n)
{
	r->s->condition = step_read_condition(r, n, "`if`");
}

static void key_cache(struct reader *r, const struct yaml_node *n)
{
	read_bool(r->d, n, "`cache`", &r->s->cache);
}

static void key_fail_fast(struct reader *r, const struct yaml_node *n)
{
	read_bool(r->d, n, "`fail_fast`", &r->b->parts->policy.fail_fast);
}

static void key_continue_on_error(struct reader *r, const struct yaml_node *n)
{
	read_bool(r->d, n, "`continue_on_error`", &r->b->parts->policy.continue_on_error);
}

static void key_salt(struct reader *r, const struct yaml_node *n)
{
	if (!doc_want_scalar(r->d, n, "`salt`"))
		return;
	if (template_text_has_expr(n->text, n->len))
		doc_error(r->d, n, "`salt` can't depend on expressions; `seed` can");
	else
		r->b->parts->keyed.salt = doc_text(r->d, n);
}

static void key_seed(struct reader *r, const struct yaml_node *n)
{
	if (doc_want_scalar(r->d, n, "`seed`"))
		r->b->parts->keyed.seed = read_template(r->d, n);
}

static void key_key(struct reader *r, const struct yaml_node *n)
{
	static const char *const keys[] = { "resources" };
	const struct yaml_node *resources;

	if (!doc_want_map(r->d, n, "`key`"))
		return;
	doc_check_keys(r->d, n, keys, ARRAY_LEN(keys));
	resources = yaml_get(n, "resources");
	if (resources)
		read_bool(r->d, resources, "`resources`", &r->b->parts->keyed.resources);
}

static void key_image(struct reader *r, const struct yaml_node *n)
{
	setting_read(r, SETTING_IMAGE, n, NULL);
}

static void key_pack(struct reader *r, const struct yaml_node *n)
{
	int64_t pack;

	if (n->kind == YAML_KIND_SCALAR && str_eq(n->text, "auto"))
		r->b->parts->machine.place.pack = PACK_AUTO;
	else if (n->kind != YAML_KIND_SCALAR || !yaml_as_int(n, &pack))
		doc_error(r->d, n, "`pack` must be `auto` or a number from 1 to %d", PACK_MAX);
	else if (read_count(r->d, n, "`pack`", 1, PACK_MAX, &pack))
		r->b->parts->machine.place.pack = (uint32_t)pack;
}

static void key_workspace(struct reader *r, const struct yaml_node *n)
{
	static const char *const ways[] = { "copy" };
	const char *way;

	r->b->parts->machine.copies =
		read_choice(r->d, n, "`workspace`", ways, ARRAY_LEN(ways), &way);
}

static void key_sandbox(struct reader *r, const struct yaml_node *n)
{
	read_strictness(r->d, n, &r->b->parts->machine.sandbox);
}

static void key_network(struct reader *r, const struct yaml_node *n)
{
	read_network(r->d, n, &r->b->parts->machine.sandbox);
}

static void key_elsewhere(struct reader *r, const struct yaml_node *n)
{
	/* `uses` and `step` are read earlier, where the step's kind is decided. */
}

/* In a step file it declares the file's own, which are read earlier, too. */
static void key_params(struct reader *r, const struct yaml_node *n)
{
	if (r->context != CONTEXT_FILE)
		step_read_params(r, n);
}

#define CONTEXT_ANY_STEP (CONTEXT_RUN | CONTEXT_BUILTIN | CONTEXT_WRAP | CONTEXT_USE)
/* … and those that wait for a person. */
#define CONTEXT_EVERY_STEP (CONTEXT_ANY_STEP | CONTEXT_APPROVE)
/* Steps with a command. */
#define CONTEXT_COMMAND      (CONTEXT_RUN | CONTEXT_WRAP | CONTEXT_FILE)
#define CONTEXT_ALL          (CONTEXT_ANY_STEP | CONTEXT_FILE | CONTEXT_DEFAULTS)
#define CONTEXT_NOT_DEFAULTS (CONTEXT_ANY_STEP | CONTEXT_FILE)

static const struct key_rule {
	const char *name;
	void (*read)(struct reader *r, const struct yaml_node *n);
	unsigned contexts;
} rules[] = {
	{ "approve", step_read_approve, CONTEXT_APPROVE },
	{ "cache", key_cache, CONTEXT_ALL },
	{ "checkpoint", step_read_checkpoint, CONTEXT_COMMAND },
	{ "code", step_read_code, CONTEXT_COMMAND | CONTEXT_DEFAULTS },
	{ "concurrency", step_read_concurrency, CONTEXT_ALL },
	{ "continue_on_error", key_continue_on_error, CONTEXT_EVERY_STEP | CONTEXT_DEFAULTS },
	{ "description", key_description,
	  CONTEXT_NOT_DEFAULTS | CONTEXT_PIPELINE | CONTEXT_APPROVE },
	{ "distributed", step_read_distributed, CONTEXT_COMMAND | CONTEXT_USE },
	{ "each", step_read_each, CONTEXT_EVERY_STEP },
	{ "env", step_read_env, CONTEXT_ALL },
	{ "env_file", step_read_env_file, CONTEXT_COMMAND | CONTEXT_DEFAULTS },
	{ "environment", step_read_environment, CONTEXT_COMMAND | CONTEXT_DEFAULTS },
	{ "fail_fast", key_fail_fast, CONTEXT_EVERY_STEP | CONTEXT_DEFAULTS },
	{ "gate", step_read_gate, CONTEXT_NOT_DEFAULTS },
	{ "if", key_if, CONTEXT_EVERY_STEP | CONTEXT_PIPELINE },
	{ "image", key_image, CONTEXT_ALL },
	{ "inputs", step_read_inputs, CONTEXT_NOT_DEFAULTS | CONTEXT_PIPELINE },
	{ "key", key_key, CONTEXT_ALL },
	{ "kubernetes", step_read_kubernetes, CONTEXT_ALL },
	{ "matrix", step_read_matrix, CONTEXT_EVERY_STEP },
	{ "metrics", step_read_metrics, CONTEXT_COMMAND | CONTEXT_BUILTIN },
	{ "needs", key_needs, CONTEXT_EVERY_STEP | CONTEXT_PIPELINE },
	{ "network", key_network, CONTEXT_ALL },
	{ "outputs", step_read_outputs, CONTEXT_COMMAND | CONTEXT_BUILTIN },
	{ "pack", key_pack, CONTEXT_ALL },
	{ "params", key_params, CONTEXT_COMMAND },
	{ "repeat", step_read_repeat, CONTEXT_ANY_STEP },
	{ "resources", step_read_resources, CONTEXT_ALL },
	{ "retry", step_read_retry, CONTEXT_ALL },
	{ "run", key_run, CONTEXT_COMMAND },
	{ "salt", key_salt, CONTEXT_ALL },
	{ "sandbox", key_sandbox, CONTEXT_ALL },
	{ "secrets", step_read_secrets, CONTEXT_ALL },
	{ "seed", key_seed, CONTEXT_ALL },
	{ "series", step_read_series, CONTEXT_COMMAND },
	{ "shell", key_shell, CONTEXT_COMMAND | CONTEXT_DEFAULTS },
	{ "spot", step_read_spot, CONTEXT_ALL },
	{ "step", key_elsewhere, CONTEXT_FILE },
	{ "timeout", step_read_timeout, CONTEXT_ALL | CONTEXT_APPROVE },
	{ "tolerance", step_read_tolerance, CONTEXT_NOT_DEFAULTS },
	{ "tools", step_read_tools, CONTEXT_COMMAND | CONTEXT_DEFAULTS },
	{ "uses", key_elsewhere, CONTEXT_BUILTIN | CONTEXT_WRAP | CONTEXT_USE | CONTEXT_PIPELINE },
	{ "values", step_read_values, CONTEXT_COMMAND },
	{ "volumes", step_read_volumes, CONTEXT_ALL },
	{ "with", step_read_with, CONTEXT_BUILTIN | CONTEXT_WRAP | CONTEXT_USE | CONTEXT_PIPELINE },
	{ "workspace", key_workspace, CONTEXT_ALL },
};

static const struct key_rule *find_rule(const char *name)
{
	size_t lo = 0, hi = ARRAY_LEN(rules);

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		int order = strcmp(name, rules[mid].name);

		if (order == 0)
			return &rules[mid];
		if (order < 0)
			hi = mid;
		else
			lo = mid + 1;
	}
	return NULL;
}

static void misplaced_key(struct reader *r, const struct key_rule *rule)
{
	const char *name = rule->name;

	if (strcmp(name, "run") == 0 && r->context & (CONTEXT_USE | CONTEXT_BUILTIN)) {
		doc_error(r->d, r->key, "step `%s` has both `run` and `uses`", r->s->name);
		return;
	}
	if (rule->contexts == CONTEXT_APPROVE && r->context & CONTEXT_ANY_STEP) {
		doc_error(r->d, r->key,
			  "step `%s` has `approve` beside `run` or `uses`: a step that waits for a "
			  "person is one of its own, which others name in `needs`",
			  r->s->name);
		return;
	}
	switch (r->context) {
	case CONTEXT_APPROVE:
		doc_error(r->d, r->key,
			  "`%s` has no meaning for step `%s`, which waits for a person (`approve`) "
			  "and executes nothing",
			  name, r->s->name);
		break;
	case CONTEXT_DEFAULTS:
		doc_error(r->d, r->key, "`%s` can't have a default: it belongs to a step", name);
		break;
	case CONTEXT_FILE:
		if (strcmp(name, "uses") == 0 || strcmp(name, "with") == 0)
			doc_error(r->d, r->key,
				  "a step file can't use another one: it needs a `run`");
		else
			doc_error(r->d, r->key, "`%s` belongs to the step that uses this file",
				  name);
		break;
	case CONTEXT_USE:
		doc_error(r->d, r->key,
			  "`%s` comes from the step file and can't stand beside `uses`", name);
		break;
	case CONTEXT_PIPELINE:
		if (strcmp(name, "matrix") == 0 || strcmp(name, "each") == 0 ||
		    strcmp(name, "repeat") == 0)
			doc_error(r->d, r->key,
				  "`%s` isn't possible on a step that uses a pipeline: put it on "
				  "steps in %s, or use that once for each value",
				  name, r->b->file->doc.file);
		else if (strcmp(name, "outputs") == 0)
			doc_error(
				r->d, r->key,
				"what a pipeline offers is said in its own file: `outputs` at the "
				"top of %s",
				r->b->file->doc.file);
		else
			doc_error(r->d, r->key,
				  "`%s` isn't possible on a step that uses a pipeline: say it in "
				  "the steps or the `defaults` of %s",
				  name, r->b->file->doc.file);
		break;
	case CONTEXT_BUILTIN:
		doc_error(r->d, r->key, "`%s` has no meaning for the built-in step `%s`", name,
			  r->s->program.builtin ? r->s->program.builtin : "?");
		break;
	default:
		if (strcmp(name, "with") == 0)
			doc_error(r->d, r->key,
				  "`with` goes with `uses`; a command gets values as ${{ "
				  "params.NAME }} or by `env`");
		else
			doc_error(r->d, r->key, "`%s` belongs into a step file", name);
		break;
	}
}

static void unknown_key(struct reader *r)
{
	const char *names[ARRAY_LEN(rules)];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_LEN(rules); i++)
		if (rules[i].contexts & r->context)
			names[n++] = rules[i].name;
	doc_error(r->d, r->key, "unknown key `%.60s`%s", r->key->text,
		  loader_suggest_key(r->l, r->key->text, names, n));
}

static void read_layer(struct reader *r, const struct yaml_node *map)
{
	for (size_t i = 0; i < map->len; i++) {
		const struct key_rule *rule = find_rule(map->pairs[i].key->text);

		r->key = map->pairs[i].key;
		if (!rule)
			unknown_key(r);
		else if (!(rule->contexts & r->context))
			misplaced_key(r, rule);
		else
			rule->read(r, map->pairs[i].value);
	}
}

void read_defaults(struct loader *l, struct use *use, const struct yaml_node *n)
{
	struct build b = { .s = &use->defaults, .use = use, .doc = use->doc };
	struct reader r = { .l = l, .b = &b, .s = b.s, .d = use->doc, .context = CONTEXT_DEFAULTS };

	use->defaults = (struct step){ .program.shell = "sh", .cache = true };
	step_begin_parts(l, &b, NULL);
	use->default_parts = b.parts;
	if (n && !yaml_is_null(n) && doc_want_map(use->doc, n, "`defaults`"))
		read_layer(&r, n);
	VEC_FREE(&b.needs);
	resolve_defaults(l, use);
}

/* One step. */

/* What kind of step it is; 0 after a report. */
static unsigned kind_of_step(struct build *b)
{
	const struct doc *d = b->doc;
	const struct yaml_node *run = yaml_get(b->node, "run"), *uses = yaml_get(b->node, "uses");
	const struct step_spec *spec, *const *all;
	const char *names[16];
	size_t n;

	if (!uses) {
		if (!run && yaml_get(b->node, "approve"))
			return CONTEXT_APPROVE;
		if (!run)
			doc_error(d, b->key, "step `%s` has neither `run` nor `uses`", b->s->name);
		return CONTEXT_RUN;
	}
	if (!doc_want_text(d, uses, "`uses`"))
		return 0;
	if (step_file_looks_like(uses->text)) {
		b->file = step_file_get(d, uses);
		return CONTEXT_USE;
	}
	spec = step_spec_find(uses->text);
	if (spec) {
		b->s->program.builtin = spec->name;
		return spec->wraps_command ? CONTEXT_WRAP : CONTEXT_BUILTIN;
	}
	all = step_specs(&n);
	for (size_t i = 0; i < n && i < ARRAY_LEN(names); i++)
		names[i] = all[i]->name;
	doc_error(d, uses,
		  "there is no built-in step `%.60s`%s; a step file's path starts with ./ and ends "
		  "in .yaml",
		  uses->text, loader_suggest(d->l, uses->text, names, MIN(n, ARRAY_LEN(names))));
	return 0;
}

/* Whether the step has the shape of the kind that it names. In `defaults` and cairn.yaml `as` holds
 * for those steps that have several nodes. */
static void check_as(const struct build *b)
{
	const struct yaml_node *place = yaml_get(b->node, "kubernetes"), *as, *workers;
	const struct step *s = b->s;
	bool several = s->machine->distributed.nodes > 1, with_workers;

	if (!place || place->kind != YAML_KIND_MAP)
		return;
	as = yaml_get(place, "as");
	workers = yaml_get(place, "workers");
	with_workers = as && as->kind == YAML_KIND_SCALAR && placement_kind_has_workers(as->text);
	if (workers && !with_workers)
		doc_error(
			b->doc, workers,
			"`workers` goes with `as: rayjob` or `as: sparkapplication`; the nodes of "
			"other kinds are those of `distributed`");
	if (with_workers && several)
		doc_error(
			b->doc, as,
			"`as: %.40s` is for a step with one node: step `%s` has %u; say `workers` "
			"instead of `distributed`",
			as->text, s->name, s->machine->distributed.nodes);
	if (with_workers && s->machine->place.pack > 1 && s->machine->place.pack != PACK_AUTO)
		doc_error(b->doc, as,
			  "`as: %.40s` makes an object for each task: step `%s` can't have `pack`",
			  as->text, s->name);
	if (as && as->kind == YAML_KIND_SCALAR && !with_workers && !several &&
	    !str_eq(as->text, "job"))
		doc_error(b->doc, as,
			  "`as: %.40s` is for a step over several nodes: step `%s` has no "
			  "`distributed` with `nodes: 2` or more",
			  as->text, s->name);
}

/* torchrun starts the ranks where nodes come and go, and it is in a Job whose controller replaces
 * pods. */
static void check_elastic(const struct build *b)
{
	const struct yaml_node *place = yaml_get(b->node, "kubernetes"),
			       *with = yaml_get(b->node, "with"), *as, *starts;

	as = place && place->kind == YAML_KIND_MAP ? yaml_get(place, "as") : NULL;
	starts = with && with->kind == YAML_KIND_MAP ? yaml_get(with, "starts") : NULL;
	if (!b->s->machine->distributed.min_nodes)
		return;
	if (as && as->kind == YAML_KIND_SCALAR && !str_eq(as->text, "job"))
		doc_error(b->doc, as,
			  "`as: %.40s` needs a fixed number of nodes: step `%s` has "
			  "`nodes: {min, max}`, which only a Job can have",
			  as->text, b->s->name);
	if (starts && starts->kind == YAML_KIND_SCALAR && str_eq(starts->text, "nodes"))
		doc_error(b->doc, starts,
			  "`starts: nodes` needs a fixed number of nodes: with `nodes: {min, max}` "
			  "Cairn calls torchrun itself, and the command is one rank");
}

/* Parts. */

void step_begin_parts(struct loader *l, struct build *b, const struct step_parts *like)
{
	struct step_parts *p = arena_alloc(l->scratch, sizeof(*p));

	if (like) {
		*p = *like;
	} else {
		p->policy.fail_fast = true;
		p->policy.concurrency.max = 1;
		p->machine.place.pack = PACK_AUTO;
		retry_defaults(&p->policy.retry);
	}
	b->parts = p;
	b->s->reads = &p->reads;
	b->s->tasks = &p->tasks;
	b->s->keyed = &p->keyed;
	b->s->policy = &p->policy;
	b->s->machine = &p->machine;
	b->s->measured = &p->measured;
	b->s->settings = p->settings;
}

/* A copy in the model. `kind` tells parts of different types apart. */
static const void *keep_part(struct loader *l, struct map *kept, char kind, const void *part,
			     size_t n)
{
	char bytes[1 + sizeof(struct step_parts)];
	void **slot;

	bytes[0] = kind;
	memcpy(bytes + 1, part, n);
	slot = map_slot(kept, bytes, 1 + n, NULL);
	if (!*slot)
		*slot = arena_memdup(l->arena, part, n);
	return *slot;
}

void step_keep_parts(struct loader *l, struct map *kept, struct step *s)
{
	s->reads = keep_part(l, kept, 'r', s->reads, sizeof(*s->reads));
	s->tasks = keep_part(l, kept, 't', s->tasks, sizeof(*s->tasks));
	s->keyed = keep_part(l, kept, 'k', s->keyed, sizeof(*s->keyed));
	s->policy = keep_part(l, kept, 'p', s->policy, sizeof(*s->policy));
	s->machine = keep_part(l, kept, 'm', s->machine, sizeof(*s->machine));
	s->measured = keep_part(l, kept, 'e', s->measured, sizeof(*s->measured));
	s->settings = keep_part(l, kept, 's', s->settings, STEP_SETTINGS * sizeof(*s->settings));
}

static void finish_step(struct build *b, unsigned context)
{
	struct step *s = b->s;

	if (s->tasks->each && s->tasks->matrix.n_axes)
		doc_error(b->doc, b->key,
			  "step `%s` has both `matrix` and `each`: give it one of them", s->name);
	step_check_repeat(b);
	if (context == CONTEXT_USE && !b->file->broken) {
		step_match_file_inputs(b);
		step_check_locals(b);
	}
	if (s->measured->n_gates && !s->measured->metrics && !s->program.builtin &&
	    !(b->file && b->file->broken))
		doc_error_at(
			b->doc->l->diags, &s->measured->gates[0].pos,
			"`gate` of step `%s` needs `metrics`: the file that the step writes its "
			"metrics to",
			s->name);
	if (s->measured->n_tolerances && !s->measured->metrics && !s->program.builtin &&
	    !(b->file && b->file->broken))
		doc_error_at(
			b->doc->l->diags, &s->measured->tolerances[0].pos,
			"`tolerance` of step `%s` needs `metrics`: the file that the step writes "
			"its metrics to",
			s->name);
	if (s->machine->distributed.framework && s->machine->sandbox.network == NETWORK_NONE)
		doc_error(b->doc, b->key,
			  "the ranks of step `%s` meet by network: `network: none` isn't possible "
			  "with `distributed`; `loopback` is",
			  s->name);
	check_as(b);
	check_elastic(b);
	step_finish_builtin(b);
	if (s->measured->values)
		step_add_output(b,
				&(struct step_output){ .name = STEP_VALUES_OUTPUT,
						       .path = s->measured->values,
						       .pos = b->values_pos },
				"the file of its `values`");
	step_finish_series(b);
	if (s->program.builtin && !yaml_get(b->node, "with")) {
		struct reader r = { .l = b->doc->l, .b = b, .s = s, .d = b->doc };

		step_check_with(&r, NULL);
	}
	step_check_paths(b);
	for (size_t i = 0; i < s->reads->n_secrets; i++)
		for (size_t k = 0; k < s->reads->n_env; k++)
			if (strcmp(s->reads->secrets[i], s->reads->env[k].name) == 0)
				doc_error_at(b->doc->l->diags, &s->reads->env[k].pos,
					     "`%s` is a secret of step `%s` and in its `env` too",
					     s->reads->secrets[i], s->name);
	retry_finish(b->parts);
}

/* Nothing is executed, so of the defaults only those for any step's end apply. Each run asks
 * anew. */
static void begin_approve(struct loader *l, struct build *b)
{
	const struct step d = *b->s;

	*b->s = (struct step){ .name = d.name,
			       .index = d.index,
			       .pos = d.pos,
			       .finally = d.finally,
			       .program.shell = "sh" };
	step_begin_parts(l, b, NULL);
	b->parts->policy.fail_fast = d.policy->fail_fast;
	b->parts->policy.continue_on_error = d.policy->continue_on_error;
}

static void finish_approve(struct build *b)
{
	if (b->s->finally)
		doc_error(b->doc, b->key,
			  "step `%s` is one of `finally`, and those can't wait for a person: they "
			  "are for the end of a run, which may be its interruption",
			  b->s->name);
}

/* It acts on how the run ended, which no key says. */
static void finish_finally(struct build *b)
{
	const struct yaml_node *cache = yaml_get(b->node, "cache");

	if (cache && b->s->cache)
		doc_error(b->doc, cache,
			  "step `%s` is one of `finally`, and those act in each run: there is no "
			  "`cache` for them",
			  b->s->name);
	b->s->cache = false;
}

void read_step(struct loader *l, struct build *b)
{
	struct reader r = { .l = l, .b = b, .s = b->s, .d = b->doc };
	const char *name = b->s->name;
	uint32_t index = b->s->index;
	bool finally = b->s->finally;
	struct step_file *f;

	*b->s = b->use->defaults;
	step_begin_parts(l, b, b->use->default_parts);
	b->s->name = name;
	b->s->index = index;
	b->s->finally = finally;
	b->s->pos = doc_pos(b->doc, b->key);
	if (b->node->kind != YAML_KIND_MAP) {
		doc_error(b->doc, b->node, "step `%s` must be a mapping, not %s", name,
			  yaml_describe(b->node));
		return;
	}
	r.context = kind_of_step(b);
	if (r.context == 0) { /* its keys must at least exist */
		r.context = CONTEXT_ANY_STEP;
		for (size_t i = 0; i < b->node->len; i++) {
			r.key = b->node->pairs[i].key;
			if (!find_rule(r.key->text))
				unknown_key(&r);
		}
		return;
	}
	if (r.context == CONTEXT_APPROVE) {
		begin_approve(l, b);
	} else if (!(r.context & CONTEXT_COMMAND)) {
		/* The pipeline's defaults for its own commands don't apply to steps that bring
		 * their code themselves. */
		b->s->program.shell = "sh";
		b->parts->reads.code = b->parts->reads.tools = b->parts->reads.env_files = NULL;
		b->parts->reads.n_code = b->parts->reads.n_tools = b->parts->reads.n_env_files = 0;
		b->parts->reads.environment = NULL;
		b->parts->reads.no_imports = false;
	}
	b->s->root = b->doc->root;
	f = b->file;
	if (f) {
		b->s->program.step_file = f->doc.path;
		b->s->root = f->doc.root;
		if (!f->broken) {
			struct reader inner = {
				.l = l, .b = b, .s = b->s, .d = &f->doc, .context = CONTEXT_FILE
			};

			step_make_locals(b);
			read_layer(&inner, f->doc.tree->root);
		}
	}
	read_layer(&r, b->node);
	if (r.context == CONTEXT_APPROVE)
		finish_approve(b);
	else if (finally)
		finish_finally(b);
	finish_step(b, r.context);
}

/* Which inputs the pipeline declares is known. */
static void match_inputs(struct loader *l, struct use *use)
{
	const struct step *s = use->by->s;

	for (size_t i = 0; i < s->n_inputs; i++)
		if (!map_get_str(use->names.inputs, s->inputs[i].name))
			doc_error_at(l->diags, &s->inputs[i].pos, "`%s` has no input `%s`%s",
				     doc_name(use->doc), s->inputs[i].name,
				     doc_suggest_key(l, s->inputs[i].name, use->names.inputs));
}

void read_using_step(struct loader *l, struct use *use)
{
	struct build *b = use->by;
	struct reader r = { .l = l, .b = b, .s = b->s, .d = b->doc, .context = CONTEXT_PIPELINE };

	b->s->pos = doc_pos(b->doc, b->key);
	step_make_locals(b);
	read_layer(&r, b->node);
	step_check_locals(b);
	match_inputs(l, use);
	if (b->s->condition && expr_handles_failure(b->s->condition))
		doc_error(b->doc, yaml_get(b->node, "if"),
			  "`if` of a step that uses a pipeline holds for each of its steps, so it "
			  "can't call always() or failed(): put those on the steps in %s",
			  use->doc->file);
	use->bound = (struct step_input *)(uintptr_t)b->s->inputs;
	for (size_t i = 0; i < b->s->program.n_locals; i++)
		l->given[use->first_param + i - l->n_own_params] = b->s->program.locals[i].value;
}
