/* engine/model/use.c — pipelines that are used by steps of others (`uses: ./other.yaml`), read
 * inline.
 *
 * A step that uses a pipeline isn't in the model. The steps of that pipeline stand in its place,
 * named `step/inner`, so that everything after the model (plan, keys, cache, runners) knows only
 * steps. A file may be used by many steps, and its steps are read anew for each of these uses, as
 * those of step files are, because each has its own templates and references.
 *
 * A struct use has the names of one use: params, inputs, steps. The loader looks names up in the
 * one that use_enter() chose, so a file means the same inside of another pipeline as alone. What
 * crosses the border is:
 *
 *	with       params of the used pipeline. They are params of the model behind its own ones,
 *	           with templates that the using pipeline's params give values to (loader.given).
 *	inputs     references that stand for the used pipeline's inputs (use.bound). Inputs that
 *	           aren't given are declared in the model as `step/name`.
 *	outputs    what the used pipeline offers: names for outputs and metrics of its steps.
 *	needs, if  hold for each of its steps.
 *
 * Across the border no matrix axes are matched: an input is the same content as alone. So the keys
 * are the same, too.
 *
 * Phases: open_pipeline() finds all files and steps first, from the outside in. It refuses circles,
 * and bounds depth and number before it takes memory for a step. read_pipeline() reads the steps
 * then, and resolve.c resolves references. Until that is done, steps have the names that their own
 * file gives them, so that an error in a file that is used 100 times is one error. Defaults,
 * schedules and notifications of the outer pipeline never apply to a used one, and its own
 * schedules and sweeps are read only when it is run itself.
 */
#include <assert.h>
#include "base/os/fs.h"
#include "model/read.h"

#define USERS_SHOWN 4 /* of the files that use one another down to one with an error */

void use_enter(struct loader *l, const struct use *use)
{
	l->using.at = use;
	l->names = use->names;
}

static struct use *use_new(struct loader *l, struct use *parent, struct doc *doc)
{
	struct use *use = arena_alloc(l->scratch, sizeof(*use));

	*use = (struct use){ .parent = parent,
			     .doc = doc,
			     .prefix = "",
			     .depth = parent ? parent->depth + 1 : 0,
			     .names = { map_new(), map_new(), map_new() },
			     .first_param = l->params.n,
			     .first_step = (uint32_t)l->using.opened.n,
			     .end_step = (uint32_t)l->using.opened.n };
	VEC_PUSH(&l->uses, use);
	return use;
}

static void build_deinit(struct build *b)
{
	if (!b)
		return;
	VEC_FREE(&b->needs);
	VEC_FREE(&b->deps);
	map_free(b->input_names);
	map_free(b->output_names);
}

void use_deinit(struct use *use)
{
	build_deinit(use->by);
	build_deinit(use->offers);
	map_free(use->names.params);
	map_free(use->names.inputs);
	map_free(use->names.steps);
}

/* What a file has at its top. */

static void read_own_params(struct loader *l, struct use *use, const struct yaml_node *root)
{
	struct param_decl *params;
	size_t n;

	read_params(use->doc, yaml_get(root, "params"), &params, &n);
	use->n_params = n;
	for (size_t i = 0; i < n; i++) {
		VEC_PUSH(&l->params, params[i]);
		*map_slot_str(use->names.params, params[i].name) = (void *)(uintptr_t)l->params.n;
	}
}

static void read_head(struct loader *l, struct use *use, const struct yaml_node *root)
{
	static const char *const keys[] = { "pipeline", "description", "params",  "inputs",
					    "defaults", "steps",       "outputs", "schedules",
					    "metrics",  "finally",     "sweeps",  "notify" };
	const char *name = "", *description = NULL;
	const struct yaml_node *v;

	doc_check_keys(use->doc, root, keys, ARRAY_LEN(keys));
	if (!(v = yaml_get(root, "pipeline")))
		doc_error(
			use->doc, root,
			yaml_get(root, "step")
				? "this is a step file: a step of a pipeline uses it as `uses: ./…`"
				: "`pipeline` is missing: a pipeline has a name");
	else if (doc_check_name(use->doc, v, NAME_PIPELINE, "pipeline"))
		name = doc_text(use->doc, v);
	if ((v = yaml_get(root, "description")))
		read_text(use->doc, v, "`description`", &description);
	if (!use->parent) {
		l->p->name = name;
		l->p->description = description;
	}
	read_own_params(l, use, root);
	read_pipeline_inputs(l, use, yaml_get(root, "inputs"));
}

/* Finding all steps. */

/* `stages` or the like is an error of its own, which says `steps`. */
static bool has_peers_steps(const struct yaml_node *root)
{
	static const char *const steps = "steps";

	for (size_t i = 0; i < root->len; i++)
		if (loader_our_word(root->pairs[i].key->text, &steps, 1))
			return true;
	return false;
}

static void open_pipeline(struct loader *l, struct use *use);

/* The files from the outermost to this one, and where each uses the next. */
static void add_chain(struct str *out, const struct use *use)
{
	if (use->parent)
		add_chain(out, use->parent);
	if (use->by)
		str_addf(out, ":%d uses ", use->by->key->line);
	str_add(out, use->doc->file);
}

/* Whether the file may be used once more below `parent`. */
static bool may_use(struct loader *l, const struct use *parent, const struct build *by,
		    const struct step_file *f)
{
	const struct yaml_node *uses = yaml_get(by->node, "uses");
	_cleanup_(str_deinit) struct str chain = { 0 };

	for (const struct use *u = parent; u; u = u->parent)
		if (strcmp(u->doc->path, f->doc.path) == 0) {
			add_chain(&chain, parent);
			doc_error(by->doc, uses,
				  "pipelines use each other in a circle: %s:%d uses %s", chain.s,
				  uses->line, f->doc.file);
			return false;
		}
	if (parent->depth + 1 > USE_DEPTH_MAX) {
		doc_error(by->doc, uses, "more than %d pipelines use one another in a row",
			  USE_DEPTH_MAX);
		return false;
	}
	return true;
}

static void open_use(struct loader *l, struct use *parent, struct build *by, struct step_file *f)
{
	struct use *use;

	*map_slot_str(parent->names.steps, by->s->name) =
		(void *)(uintptr_t)(USE_BIT | (uint32_t)l->uses.n);
	use = use_new(l, parent, &f->doc);
	use->by = by;
	use->prefix = arena_printf(l->scratch, "%s%s/", parent->prefix, by->s->name);
	by->file = f;
	use->broken = !may_use(l, parent, by, f);
	if (!use->broken)
		open_pipeline(l, use);
	use->end_step = (uint32_t)l->using.opened.n;
}

static bool is_full(struct loader *l, const struct use *use, const struct yaml_node *at)
{
	if (use->depth == 0 || l->using.opened.n + l->uses.n < USE_STEPS_MAX)
		return false;
	if (!l->using.is_full)
		doc_error(use->doc, at, "the pipelines that %s uses have more than %d steps in all",
			  l->doc.file, USE_STEPS_MAX);
	l->using.is_full = true;
	return true;
}

/* `finally`: they are those of `finally`. */
static void open_steps(struct loader *l, struct use *use, const struct yaml_node *n, bool finally)
{
	if (n->kind == YAML_KIND_SEQ) {
		doc_error(use->doc, n,
			  "`%s` is a list here; steps have their names as keys: `train: {run: …}`",
			  finally ? "finally" : "steps");
		return;
	}
	if (!doc_want_map(use->doc, n, finally ? "`finally`" : "`steps`"))
		return;
	if (n->len == 0 && !finally)
		doc_error(use->doc, n, "`steps` is empty: a pipeline needs at least one step");
	for (size_t i = 0; i < n->len && !is_full(l, use, n); i++) {
		const struct yaml_node *key = n->pairs[i].key, *node = n->pairs[i].value;
		const struct yaml_node *uses =
			node->kind == YAML_KIND_MAP ? yaml_get(node, "uses") : NULL;
		struct build b = {
			.use = use, .doc = use->doc, .key = key, .node = node, .finally = finally
		};
		struct build *by;
		void **slot;

		doc_check_name(use->doc, key, NAME_STEP, "step");
		if (uses && uses->kind == YAML_KIND_SCALAR && step_file_looks_like(uses->text))
			b.file = step_file_get(use->doc, uses);
		slot = map_slot_str(use->names.steps, doc_text(use->doc, key));
		if (*slot)
			doc_error(use->doc, key,
				  "step `%s` stands in `steps` too: a name is given once",
				  key->text);
		if (b.file && b.file->is_pipeline && finally)
			doc_error(use->doc, uses, "a step of `finally` can't use a pipeline");
		if (b.file && b.file->is_pipeline && !b.file->broken) {
			by = arena_memdup(l->scratch, &b, sizeof(b));
			by->s = arena_alloc(l->scratch, sizeof(*by->s));
			by->s->name = doc_text(use->doc, key);
			step_begin_parts(l, by, NULL);
			open_use(l, use, by, b.file);
			continue;
		}
		VEC_PUSH(&l->using.opened, b);
		*slot = (void *)(uintptr_t)l->using.opened.n;
	}
}

static void open_pipeline(struct loader *l, struct use *use)
{
	const struct yaml_node *root = use->doc->tree->root, *steps = yaml_get(root, "steps");
	const struct yaml_node *finally = yaml_get(root, "finally");

	read_head(l, use, root);
	if (!use->parent)
		l->n_own_params = l->params.n;
	if (steps)
		open_steps(l, use, steps, false);
	else if (!has_peers_steps(root))
		doc_error(use->doc, root, "`steps` is missing: a pipeline needs at least one step");
	if (finally && use->parent)
		doc_error(use->doc, finally,
			  "a pipeline with `finally` can't be used by a step: its steps act when a "
			  "whole run ends. Put them into the pipeline that uses it");
	else if (steps && finally && !yaml_is_null(finally))
		open_steps(l, use, finally, true);
	use->end_step = (uint32_t)l->using.opened.n;
}

/* Reading them. */

/* `outputs` of a pipeline: as inputs of a step that sees its steps. */
static void read_offers(struct loader *l, struct use *use)
{
	const struct yaml_node *root = use->doc->tree->root, *outputs = yaml_get(root, "outputs");
	const struct yaml_node *metrics = yaml_get(root, "metrics");
	struct build *b = arena_alloc(l->scratch, sizeof(*b));
	struct reader r = { .l = l, .b = b, .d = use->doc, .context = CONTEXT_PIPELINE };

	*b = (struct build){ .use = use, .doc = use->doc };
	b->s = r.s = arena_alloc(l->scratch, sizeof(*b->s));
	b->s->name = "outputs";
	step_begin_parts(l, b, NULL);
	use->offers = b;
	if (outputs && doc_want_map(use->doc, outputs, "`outputs` of a pipeline"))
		step_read_inputs(&r, outputs);
	if (!metrics || !doc_want_map(use->doc, metrics, "`metrics` of a pipeline"))
		return;
	use->metrics = arena_alloc(l->scratch, metrics->len * sizeof(*use->metrics));
	for (size_t i = 0; i < metrics->len; i++) {
		const struct yaml_node *key = metrics->pairs[i].key, *v = metrics->pairs[i].value;
		struct offered_metric *m = &use->metrics[use->n_metrics];
		struct expr *e = NULL;

		*m = (struct offered_metric){ .name = doc_text(use->doc, key),
					      .pos = doc_pos(use->doc, key) };
		if (doc_want_text(use->doc, v, "a metric of a pipeline")) {
			m->from = read_template(use->doc, v);
			e = template_single(m->from);
		}
		if (m->from && (!e || e->kind != EXPR_REF)) {
			doc_error(use->doc, v,
				  "a metric of a pipeline is one of a step: \"${{ "
				  "steps.STEP.metrics.NAME }}\"");
		} else if (m->from) {
			m->ref = e->ref;
			use->n_metrics++;
		}
	}
}

static void take_steps(struct loader *l)
{
	l->n_steps = l->using.opened.n;
	l->steps = arena_alloc(l->arena, l->n_steps * sizeof(*l->steps));
	l->builds = arena_memdup(l->scratch, l->n_steps ? (void *)l->using.opened.v : "",
				 l->n_steps * sizeof(*l->builds));
	for (size_t i = 0; i < l->n_steps; i++) {
		struct build *b = &l->builds[i];

		b->s = &l->steps[i];
		b->s->name = doc_text(b->doc, b->key);
		b->s->index = (uint32_t)i;
		b->s->finally = b->finally;
	}
	l->param_used = arena_alloc(l->scratch, l->params.n);
	l->input_used = arena_alloc(l->scratch, l->inputs.n);
	l->given = arena_alloc(l->scratch, (l->params.n - l->n_own_params) * sizeof(*l->given));
}

/* Gives the steps of used pipelines their names in the model: "sub/train". */
static void name_steps(struct loader *l)
{
	if (l->uses.n == 1)
		return;
	for (size_t i = 0; i < l->n_steps; i++)
		l->steps[i].name =
			arena_printf(l->arena, "%s%s", l->builds[i].use->prefix, l->steps[i].name);
}

void read_pipeline(struct loader *l)
{
	const struct yaml_node *root = l->doc.tree->root;
	struct use *outer = use_new(l, NULL, &l->doc);

	use_enter(l, outer);
	if (yaml_is_null(root)) {
		doc_error(&l->doc, root,
			  "the file is empty: a pipeline has `pipeline` and `steps`");
		return;
	}
	if (!doc_want_map(&l->doc, root, "a pipeline"))
		return;
	open_pipeline(l, outer);
	take_steps(l);
	for (size_t i = 0; i < l->uses.n; i++)
		if (!l->uses.v[i]->broken) {
			struct use *use = l->uses.v[i];

			use_enter(l, use);
			read_defaults(l, use, yaml_get(use->doc->tree->root, "defaults"));
			read_offers(l, use);
			if (use->by) {
				use_enter(l, use->parent);
				read_using_step(l, use);
			}
		}
	for (size_t i = 0; i < l->n_steps; i++) {
		use_enter(l, l->builds[i].use);
		read_step(l, &l->builds[i]);
	}
	use_enter(l, outer);
	read_schedules(l, yaml_get(root, "schedules"));
	if (yaml_get(root, "notify"))
		read_notify(l, yaml_get(root, "notify"), false, &l->p->notify, &l->p->n_notify);
	read_sweeps(l, yaml_get(root, "sweeps"));
	resolve_all(l);
	name_steps(l);
	loader_order_steps(l);
}

/* Errors in a used pipeline say who uses it. */
void use_note(struct loader *l, size_t since)
{
	for (size_t i = 0; i < l->files.list.n; i++) {
		const struct step_file *f = l->files.list.v[i], *at = f;
		_cleanup_(str_deinit) struct str note = { 0 };

		if (!f->is_pipeline || strcmp(f->doc.path, l->doc.path) == 0)
			continue;
		for (unsigned depth = 0; at && depth < USERS_SHOWN; depth++) {
			const char *user = at->first_use.file;

			str_addf(&note, "%sused by %s:%d", depth ? ", " : " (", user,
				 at->first_use.line);
			at = NULL;
			for (size_t k = 0; k < l->files.list.n && user != l->doc.file; k++)
				if (l->files.list.v[k]->doc.file == user)
					at = l->files.list.v[k];
		}
		str_add(&note, ")");
		diag_note(l->diags, since, f->doc.file, note.s);
	}
}
