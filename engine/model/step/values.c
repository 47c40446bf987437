/* engine/model/step/values.c — reads what a step's program gets besides its inputs: environment,
 * params, secrets, tools, the values of `with`.
 *
 * `env` is sorted by name and merged with earlier layers, name by name. `params` becomes one more
 * variable of it, so nothing else needs to know of them. For secrets, only names are read. A tool
 * without arguments becomes "NAME --version".
 *
 * `with` means two things. For a built-in step it is a tree of templates (with_node) with the keys
 * of maps sorted; scalars that aren't text keep their type. For a step file it gives values to the
 * file's params (step_local): literals are checked against the declaration at once, expressions
 * when a task has its values (engine/plan/scope.c). step_make_locals() comes before the keys of the
 * step, step_check_locals() after them.
 */
#include "model/read.h"

size_t read_name_list(const struct doc *d, const struct yaml_node *n, const char *what,
		      const struct yaml_node ***ret)
{
	const struct yaml_node **list;
	struct map *seen;
	size_t count = 0;

	*ret = NULL;
	if (!doc_want_list(d, n, what))
		return 0;
	list = arena_alloc(d->l->scratch, n->len * sizeof(struct yaml_node *));
	seen = map_new();
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *item = n->items[i];
		bool is_new;

		if (!doc_want_text(d, item, what))
			continue;
		map_slot(seen, item->text, item->len, &is_new);
		if (is_new)
			list[count++] = item;
		else
			doc_error(d, item, "%s lists `%.60s` twice", what, item->text);
	}
	map_free(seen);
	*ret = list;
	return count;
}

/* Env. */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct named_template *)a)->name,
		      ((const struct named_template *)b)->name);
}

/* Both lists are sorted; where both have a name, `over` wins. */
static void merge_env(struct reader *r, const struct named_template *over, size_t n_over)
{
	const struct named_template *under = r->s->reads->env;
	size_t n_under = r->s->reads->n_env, i = 0, k = 0, n = 0;
	struct named_template *all = arena_alloc(r->l->arena, (n_under + n_over) * sizeof(*all));

	while (i < n_under || k < n_over) {
		int order = i == n_under  ? 1
			    : k == n_over ? -1
					  : strcmp(under[i].name, over[k].name);

		all[n++] = order < 0 ? under[i] : over[k];
		i += order <= 0;
		k += order >= 0;
	}
	r->b->parts->reads.env = all;
	r->b->parts->reads.n_env = n;
}

void step_read_env(struct reader *r, const struct yaml_node *n)
{
	struct named_template *env;
	size_t count = 0;

	if (!doc_want_map(r->d, n, "`env`"))
		return;
	env = arena_alloc(r->l->scratch, n->len * sizeof(*env));
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key, *value = n->pairs[i].value;

		if (!doc_check_name(r->d, key, NAME_ENV, "variable"))
			continue;
		if (str_has_prefix(key->text, "CAIRN_"))
			doc_error(r->d, key, "`%s`: names that begin with CAIRN_ are set by cairn",
				  key->text);
		else if (doc_want_scalar(r->d, value, "a variable"))
			env[count++] = (struct named_template){ doc_text(r->d, key),
								read_template(r->d, value),
								doc_pos(r->d, key) };
	}
	qsort(env, count, sizeof(*env), by_name);
	merge_env(r, env, count);
}

/* Params. */

struct params_list {
	VEC(struct named_template) v;
};

/* `"NAME":` and the value as JSON. A text that is made here has no places of its own, so errors in
 * it have that of the node. */
static void add_param(struct reader *r, struct params_list *l, const char *name,
		      const struct yaml_node *at, const char *json)
{
	struct str text = { 0 };

	json_add_string(&text, name, strlen(name));
	str_addf(&text, ":%s", json);
	VEC_PUSH(&l->v, ((struct named_template){
				name,
				template_parse(&(struct expr_source){
					.file = r->d->file,
					.text = arena_strndup(r->l->arena, text.s, text.len),
					.len = text.len,
					.line = at->line,
					.col = at->col,
					.arena = r->l->arena,
					.diags = r->l->diags }),
				doc_pos(r->d, at) }));
	str_deinit(&text);
}

/* A param of the pipeline, or all of a group. A name that is neither is an unknown reference. */
static void add_named_param(struct reader *r, struct params_list *l, const struct yaml_node *n)
{
	const struct use *use = r->b->use;
	const char *name = doc_text(r->d, n);
	size_t before = l->v.n;
	char *group = arena_printf(r->l->scratch, "%s.", name);

	for (size_t i = 0; i < use->n_params; i++) {
		const char *param = r->l->params.v[use->first_param + i].name;

		if (str_has_prefix(param, group))
			add_param(r, l, param, n,
				  arena_printf(r->l->scratch, "${{ json(params.%s) }}", param));
	}
	if (l->v.n == before)
		add_param(r, l, name, n,
			  arena_printf(r->l->scratch, "${{ json(params.%s) }}", name));
}

static void add_given_param(struct reader *r, struct params_list *l, const struct yaml_node *key,
			    const struct yaml_node *n)
{
	struct str text = { 0 };
	size_t errors = diag_errors(r->l->diags);
	struct value v;
	bool has_expr;

	if (!doc_check_name(r->d, key, NAME_IDENT, "param") ||
	    !doc_want_scalar(r->d, n, "a value of `params`"))
		return;
	has_expr = template_text_has_expr(n->text, n->len);
	if (has_expr && !template_single(read_template(r->d, n))) {
		if (diag_errors(r->l->diags) == errors)
			doc_error(r->d, n, "a value of `params` is a constant or one expression");
	} else if (has_expr) {
		str_addf(&text, "${{ json(%.*s) }}", (int)(n->len - strlen("${{}}")),
			 n->text + strlen("${{"));
	} else if (read_value(r->d, n, "a value of `params`", &v)) {
		value_add_json(&text, &v);
	}
	if (text.len)
		add_param(r, l, doc_text(r->d, key), n, text.s);
	str_deinit(&text);
}

/* The program gets them as one variable, an object in JSON. So they are keyed, checked and handed
 * on as every variable is. Their order changes nothing. */
void step_read_params(struct reader *r, const struct yaml_node *n)
{
	struct params_list l = { 0 };
	struct expr_template *all = doc_literal_template(r->d, n, "{", 1);
	VEC(struct expr_part) parts = { 0 };
	const struct yaml_node **names;
	size_t count = 0;

	if (n->kind == YAML_KIND_MAP)
		for (size_t i = 0; i < n->len; i++)
			add_given_param(r, &l, n->pairs[i].key, n->pairs[i].value);
	else
		count = read_name_list(r->d, n, "`params`", &names);
	for (size_t i = 0; i < count; i++)
		add_named_param(r, &l, names[i]);
	if (l.v.n)
		qsort(l.v.v, l.v.n, sizeof(*l.v.v), by_name);
	for (size_t i = 0; i < l.v.n; i++) {
		const struct expr_template *t = l.v.v[i].value;

		if (i && strcmp(l.v.v[i - 1].name, l.v.v[i].name) == 0)
			continue;
		VEC_PUSH(&parts, ((struct expr_part){ .text = i ? "," : "{", .len = 1 }));
		for (size_t k = 0; k < t->n_parts; k++)
			VEC_PUSH(&parts, t->parts[k]);
	}
	VEC_PUSH(&parts, ((struct expr_part){ .text = l.v.n ? "}" : "{}", .len = l.v.n ? 1 : 2 }));
	all->n_parts = parts.n;
	all->parts = arena_memdup(r->l->arena, parts.v, parts.n * sizeof(*parts.v));
	merge_env(r, &(struct named_template){ STEP_PARAMS_VARIABLE, all, doc_pos(r->d, n) }, 1);
	VEC_FREE(&parts);
	VEC_FREE(&l.v);
}

void step_read_secrets(struct reader *r, const struct yaml_node *n)
{
	const struct yaml_node **names;
	size_t count = read_name_list(r->d, n, "`secrets`", &names), kept = 0;
	const char **secrets = arena_alloc(r->l->arena, count * sizeof(*secrets));

	for (size_t i = 0; i < count; i++) {
		if (!doc_check_name(r->d, names[i], NAME_ENV, "secret"))
			continue;
		if (str_has_prefix(names[i]->text, "CAIRN_"))
			doc_error(r->d, names[i],
				  "`%s`: names that begin with CAIRN_ are set by cairn",
				  names[i]->text);
		else
			secrets[kept++] = doc_text(r->d, names[i]);
	}
	r->b->parts->reads.secrets = secrets;
	r->b->parts->reads.n_secrets = kept;
}

void step_read_tools(struct reader *r, const struct yaml_node *n)
{
	const struct yaml_node **names;
	size_t count = read_name_list(r->d, n, "`tools`", &names);
	const char **tools = arena_alloc(r->l->arena, count * sizeof(*tools));

	for (size_t i = 0; i < count; i++) {
		const char *text = doc_text(r->d, names[i]);

		if (template_text_has_expr(names[i]->text, names[i]->len))
			doc_error(r->d, names[i], "`tools` can't depend on expressions");
		if (strpbrk(text, "\n\r") || *text == ' ')
			doc_error(r->d, names[i],
				  "a tool is a program, or a command of one line that prints its "
				  "version");
		tools[i] = strpbrk(text, " \t") ? text
						: arena_printf(r->l->arena, "%s --version", text);
	}
	r->b->parts->reads.tools = tools;
	r->b->parts->reads.n_tools = count;
}

/* With. */

/* A scalar that isn't text keeps its type. */
static const struct expr_template *typed_template(const struct doc *d, const struct yaml_node *n)
{
	struct value v;

	if (yaml_scalar_type(n) == YAML_TYPE_STRING)
		return read_template(d, n);
	if (!read_number_or_text(d, n, "a value of `with`", &v))
		return doc_literal_template(d, n, "", 0);
	return template_of_value(&v, d->file, n->line, n->col, d->l->arena);
}

struct pair_ref {
	const char *key;
	const struct yaml_node *value;
};

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct pair_ref *)a)->key, ((const struct pair_ref *)b)->key);
}

/* Recursion is bounded by YAML_DEPTH_MAX. */
static void read_with_node(struct reader *r, const struct yaml_node *n, struct with_node *ret)
{
	struct pair_ref *sorted;

	if (n->kind == YAML_KIND_SCALAR) {
		ret->kind = WITH_SCALAR;
		ret->scalar = typed_template(r->d, n);
		return;
	}
	ret->kind = n->kind == YAML_KIND_MAP ? WITH_MAP : WITH_LIST;
	ret->n = n->len;
	ret->children = arena_alloc(r->l->arena, n->len * sizeof(*ret->children));
	for (size_t i = 0; i < n->len && n->kind == YAML_KIND_SEQ; i++)
		read_with_node(r, n->items[i], &ret->children[i]);
	if (n->kind == YAML_KIND_SEQ)
		return;
	sorted = arena_alloc(r->l->scratch, n->len * sizeof(*sorted));
	ret->keys = arena_alloc(r->l->arena, n->len * sizeof(*ret->keys));
	for (size_t i = 0; i < n->len; i++)
		sorted[i] = (struct pair_ref){ doc_text(r->d, n->pairs[i].key), n->pairs[i].value };
	qsort(sorted, n->len, sizeof(*sorted), by_key);
	for (size_t i = 0; i < n->len; i++) {
		ret->keys[i] = sorted[i].key;
		read_with_node(r, sorted[i].value, &ret->children[i]);
	}
}

/* The value that a param of a step file gets. A literal is checked against the declaration now; a
 * wrong one leaves an empty template. */
static const struct expr_template *local_value(struct reader *r, const struct param_decl *decl,
					       const struct yaml_node *n)
{
	struct err err = { 0 };
	struct value v, fit;

	if (n->kind == YAML_KIND_SCALAR && template_text_has_expr(n->text, n->len))
		return read_template(r->d, n);
	if (!read_value_as(r->d, n, decl->type, "a value of `with`", &v))
		return doc_literal_template(r->d, n, "", 0);
	if (param_check_value(decl, &v, &fit, &err) < 0) {
		doc_error(r->d, n, "param `%s` of `%s` %s", decl->name, doc_name(&r->b->file->doc),
			  err.msg);
		return doc_literal_template(r->d, n, "", 0);
	}
	return template_of_value(&fit, r->d->file, n->line, n->col, r->l->arena);
}

static void read_locals(struct reader *r, const struct yaml_node *n)
{
	struct step_file *f = r->b->file;
	struct step_local *locals = (struct step_local *)(uintptr_t)r->s->program.locals;
	struct param_node *nodes;
	size_t count;

	flatten_params(r->d, n, &nodes, &count);
	for (size_t i = 0; i < count; i++) {
		size_t k = 0;

		while (k < f->n_params && strcmp(f->params[k].name, nodes[i].name) != 0)
			k++;
		if (k == f->n_params)
			doc_error(r->d, nodes[i].key, "`%s` has no param `%.60s`%s",
				  doc_name(&f->doc), nodes[i].name,
				  param_hint(nodes[i].name, f->params, f->n_params, r->l->scratch));
		else
			locals[k].value = local_value(r, locals[k].decl, nodes[i].value);
	}
}

void step_read_with(struct reader *r, const struct yaml_node *n)
{
	struct with_node *with;

	if (!doc_want_map(r->d, n, "`with`"))
		return;
	if (r->context == CONTEXT_USE || r->context == CONTEXT_PIPELINE) {
		if (r->b->file && !r->b->file->broken)
			read_locals(r, n);
		return;
	}
	with = arena_alloc(r->l->arena, sizeof(*with));
	read_with_node(r, n, with);
	r->s->program.with = with;
	step_check_with(r, n);
}

/* Before the keys of a step that uses a step file: makes a place for each of the file's params. */
void step_make_locals(struct build *b)
{
	struct step_file *f = b->file;
	struct step_local *locals = arena_alloc(b->doc->l->arena, f->n_params * sizeof(*locals));

	for (size_t i = 0; i < f->n_params; i++)
		locals[i].decl = &f->params[i];
	b->s->program.locals = locals;
	b->s->program.n_locals = f->n_params;
}

/* After them: checks that each param without a default got a value. */
void step_check_locals(struct build *b)
{
	const struct yaml_node *with = yaml_get(b->node, "with");

	for (size_t i = 0; i < b->s->program.n_locals; i++) {
		const struct step_local *local = &b->s->program.locals[i];
		const struct param_decl *decl = local->decl;

		if (!decl->has_default && !local->value)
			doc_error(b->doc, with ? with : b->key,
				  "step `%s` must give `%s` its param `%s`: with: {%s: …}",
				  b->s->name, doc_name(&b->file->doc), decl->name, decl->name);
	}
}
