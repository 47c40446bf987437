/* engine/model/params.c — params: their declarations, and the values of one run.
 *
 * A declaration is a value (its type is the value's type) or a mapping with type, default, min,
 * max, enum and help. read_long() reads the type first, then the choices, then the bounds, and the
 * default last, so that the default can be checked against all of them.
 *
 * Any other mapping is a group of params. From here on a param of a group is a param like any other
 * whose name is the path to it, "model.lr": flatten_params() makes such a list of a mapping. So
 * keys, records, filters and commands know nothing of groups.
 *
 * A run's values are the defaults, then each override in order (params_resolve()); a later one
 * wins. An override from a file has a value and its text: where a string is wanted, the text
 * counts, so that 1.10 stays "1.10". One from a command line has only text, which is parsed as the
 * declared type.
 *
 * Every value, wherever it comes from, passes param_check_value(). Only UTF-8 is accepted, since
 * values are recorded as text.
 */
#include <assert.h>
#include <math.h>
#include "model/read.h"

static const char *const type_names[] = { "string", "int", "float", "bool", "list" };
static const enum value_type types[] = { VALUE_STRING, VALUE_INT, VALUE_FLOAT, VALUE_BOOL,
					 VALUE_LIST };

/* Checking values against a declaration. */

static int check_choices(const struct param_decl *decl, const struct value *v, struct err *err)
{
	struct str all = { 0 }, text = { 0 };
	int r = 0;

	for (size_t i = 0; i < decl->n_choices; i++) {
		if (value_eq(&decl->choices[i], v))
			goto done;
		str_add(&all, i ? ", " : "");
		value_add_text(&all, &decl->choices[i]);
	}
	value_add_text(&text, v);
	r = err_set(err, ERR_INVALID, "must be one of %s, not `%.60s`", all.s,
		    text.s ? text.s : "");
done:
	str_deinit(&all);
	str_deinit(&text);
	return r;
}

static int check_range(const struct param_decl *decl, const struct value *v, struct err *err)
{
	struct value min = { .type = VALUE_FLOAT, .f = decl->min },
		     max = { .type = VALUE_FLOAT, .f = decl->max };
	bool low = decl->has_min && value_compare_numbers(v, &min) < 0,
	     high = decl->has_max && value_compare_numbers(v, &max) == 1;
	struct str bound = { 0 }, text = { 0 };
	int r;

	if (!low && !high)
		return 0;
	value_add_text(&bound, low ? &min : &max);
	value_add_text(&text, v);
	r = err_set(err, ERR_INVALID, "must be %s %s, not %s", low ? "at least" : "at most",
		    bound.s, text.s);
	str_deinit(&bound);
	str_deinit(&text);
	return r;
}

int param_check_value(const struct param_decl *decl, const struct value *in, struct value *ret,
		      struct err *err)
{
	static const char *const wanted[] = {
		[VALUE_NULL] = "null",      [VALUE_BOOL] = "true or false",
		[VALUE_INT] = "an integer", [VALUE_FLOAT] = "a number",
		[VALUE_STRING] = "text",    [VALUE_LIST] = "a list",
	};
	struct value v = *in;
	struct str text = { 0 };
	int r;

	assert((size_t)decl->type < ARRAY_LEN(wanted));
	if (v.type == VALUE_INT && decl->type == VALUE_FLOAT)
		v = (struct value){ .type = VALUE_FLOAT, .f = (double)in->i };
	if (v.type != decl->type) {
		value_add_text(&text, in);
		r = err_set(err, ERR_INVALID, "must be %s, not %s `%.60s`", wanted[decl->type],
			    value_type_phrase(in->type), text.s ? text.s : "");
		str_deinit(&text);
		return r;
	}
	if (decl->n_choices && check_choices(decl, &v, err) < 0)
		return -1;
	if ((v.type == VALUE_INT || v.type == VALUE_FLOAT) && check_range(decl, &v, err) < 0)
		return -1;
	*ret = v;
	return 0;
}

/* Declarations. */

static bool read_type(const struct doc *d, const struct yaml_node *n, struct param_decl *decl)
{
	static const struct {
		const char *said, *meant;
	} others[] = { { "integer", "int" }, { "number", "float" },     { "double", "float" },
		       { "str", "string" },  { "text", "string" },      { "boolean", "bool" },
		       { "array", "list" },  { "enum", "enum: [a, b]" } };
	const char *name;

	if (n->kind == YAML_KIND_SCALAR)
		for (size_t i = 0; i < ARRAY_LEN(others); i++)
			if (strcmp(n->text, others[i].said) == 0) {
				doc_error(d, n, "there is no type `%s`: write `%s`", others[i].said,
					  others[i].meant);
				return false;
			}
	if (!read_choice(d, n, "`type`", type_names, ARRAY_LEN(type_names), &name))
		return false;
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (name == type_names[i])
			decl->type = types[i];
	return true;
}

static bool read_bound(const struct doc *d, const struct yaml_node *n,
		       const struct param_decl *decl, const char *what, double *ret)
{
	if (!n)
		return false;
	if (decl->type != VALUE_INT && decl->type != VALUE_FLOAT) {
		doc_error(d, n, "%s has a meaning for numbers only; param `%s` is %s", what,
			  decl->name, value_type_phrase(decl->type));
		return false;
	}
	if (n->kind != YAML_KIND_SCALAR || !yaml_as_float(n, ret) || !isfinite(*ret)) {
		doc_error(d, n, "%s must be a number, not %s", what, yaml_describe(n));
		return false;
	}
	return true;
}

/* The common type of the values in `enum`; VALUE_NULL when there is none. */
static enum value_type type_of_choices(const struct value *v, size_t n)
{
	enum value_type t = n ? v[0].type : VALUE_NULL;

	for (size_t i = 1; i < n; i++) {
		if (v[i].type == t)
			continue;
		if ((t != VALUE_INT && t != VALUE_FLOAT) ||
		    (v[i].type != VALUE_INT && v[i].type != VALUE_FLOAT))
			return VALUE_NULL;
		t = VALUE_FLOAT;
	}
	return t;
}

static bool read_choices(const struct doc *d, const struct yaml_node *n, struct param_decl *decl,
			 bool typed)
{
	struct value list, *choices;
	struct param_decl plain = { .type = decl->type };
	enum value_type found;

	if (!read_list_value(d, n, "`enum`", &list))
		return false;
	found = type_of_choices(list.list.v, list.list.n);
	if (list.list.n == 0 || found == VALUE_NULL) {
		doc_error(d, n,
			  list.list.n ? "the values of `enum` must be of one type"
				      : "`enum` lists no values");
		return false;
	}
	if (!typed)
		plain.type = decl->type = found;
	choices = arena_alloc(d->l->arena, list.list.n * sizeof(*choices));
	for (size_t i = 0; i < list.list.n; i++) {
		struct err err = { 0 };

		if (param_check_value(&plain, &list.list.v[i], &choices[i], &err) < 0) {
			doc_error(d, n->items[i], "a value of `enum` %s", err.msg);
			return false;
		}
		for (size_t k = 0; k < i; k++)
			if (value_eq(&choices[k], &choices[i]))
				doc_error(d, n->items[i], "`enum` lists `%s` twice",
					  n->items[i]->text);
	}
	decl->choices = choices;
	decl->n_choices = list.list.n;
	return true;
}

/* The keys of a declaration. */
static const char *const keys[] = { "type", "default", "min", "max", "enum", "help" };

/* The key by which a mapping is a declaration; NULL: it is a group. None of these keys takes a
 * mapping, so `type: {default: adam}` is a param of a group. */
static const char *declaration_word(const struct yaml_node *n)
{
	for (size_t i = 0; i < n->len; i++)
		if (n->pairs[i].value->kind != YAML_KIND_MAP &&
		    text_is_one_of(n->pairs[i].key->text, keys, ARRAY_LEN(keys)))
			return n->pairs[i].key->text;
	return NULL;
}

static void check_long_keys(const struct doc *d, const struct yaml_node *n,
			    const struct param_decl *decl)
{
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key;
		const char *hint, *word = declaration_word(n);

		if (text_is_one_of(key->text, keys, ARRAY_LEN(keys)))
			continue;
		hint = loader_suggest(d->l, key->text, keys, ARRAY_LEN(keys));
		if (*hint)
			doc_error(d, key, "unknown key `%.60s`%s", key->text, hint);
		else
			doc_error(d, key,
				  "unknown key `%.60s`: `%s` is one param and no group, because of "
				  "its `%s`. In a group, write a param of that name as a mapping: "
				  "%s: {default: …}",
				  key->text, decl->name, word, word);
	}
}

static void read_long(const struct doc *d, const struct yaml_node *n, struct param_decl *decl)
{
	const struct yaml_node *type = yaml_get(n, "type"), *def = yaml_get(n, "default"),
			       *choices = yaml_get(n, "enum");
	const struct yaml_node *min = yaml_get(n, "min"), *max = yaml_get(n, "max"),
			       *help = yaml_get(n, "help");
	struct err err = { 0 };
	struct value v;
	bool typed = false;

	check_long_keys(d, n, decl);
	if (help)
		read_text(d, help, "`help`", &decl->help);
	if (!type && !def && !choices) {
		doc_error(d, n, "param `%s` needs a `type`, a `default` or an `enum`", decl->name);
		return;
	}
	if (type && !(typed = read_type(d, type, decl)))
		return;
	if (choices && !(read_choices(d, choices, decl, typed)))
		return;
	typed |= choices != NULL;
	if (!typed && def->kind == YAML_KIND_SCALAR && !yaml_is_null(def) && (min || max) &&
	    read_number_or_text(d, def, "`default`", &v))
		decl->type = v.type; /* so that bounds are known before the default is checked
					against them */
	decl->has_min = read_bound(d, min, decl, "`min`", &decl->min);
	decl->has_max = read_bound(d, max, decl, "`max`", &decl->max);
	if (decl->has_min && decl->has_max && decl->min > decl->max)
		doc_error(d, min, "`min` is larger than `max`");
	if (!def || !read_value_as(d, def, decl->type, "`default`", &v))
		return;
	if (!typed)
		decl->type = v.type;
	decl->has_default = param_check_value(decl, &v, &decl->def, &err) == 0;
	if (!decl->has_default)
		doc_error(d, def, "the default of param `%s` %s", decl->name, err.msg);
}

/* Groups. */

static bool is_declared(const struct yaml_node *n)
{
	return n->kind != YAML_KIND_MAP || declaration_word(n);
}

static bool is_value(const struct yaml_node *n)
{
	return n->kind != YAML_KIND_MAP;
}

typedef VEC(struct param_node) node_list;

/* Recursion is bounded by YAML_DEPTH_MAX. */
static void add_group(const struct doc *d, const struct yaml_node *map, const char *group,
		      bool (*is_param)(const struct yaml_node *n), node_list *list)
{
	for (size_t i = 0; i < map->len; i++) {
		const struct yaml_node *key = map->pairs[i].key, *value = map->pairs[i].value;
		const char *name = group ? arena_printf(d->l->arena, "%s.%s", group, key->text)
					 : doc_text(d, key);

		if (is_param == is_declared)
			doc_check_name(d, key, NAME_IDENT, "param");
		if (is_param != is_declared && strchr(key->text, '.'))
			doc_error(d, key,
				  "`%.60s`: a param of a group is written as a mapping, %.*s: "
				  "{…}",
				  key->text, (int)strcspn(key->text, "."), key->text);
		else if (is_param(value))
			VEC_PUSH(list, ((struct param_node){ name, key, value }));
		else if (value->len)
			add_group(d, value, name, is_param, list);
		else
			doc_error(d, value, "param `%s` needs a value, or a `type`: {type: float}",
				  name);
	}
}

static void flatten(const struct doc *d, const struct yaml_node *map,
		    bool (*is_param)(const struct yaml_node *n), struct param_node **ret,
		    size_t *ret_n)
{
	node_list list = { 0 };

	add_group(d, map, NULL, is_param, &list);
	VEC_TO_ARENA(&list, d->l->scratch, ret, ret_n);
}

void flatten_params(const struct doc *d, const struct yaml_node *map, struct param_node **ret,
		    size_t *ret_n)
{
	flatten(d, map, is_value, ret, ret_n);
}

const char *param_hint(const char *word, const struct param_decl *params, size_t n,
		       struct arena *arena)
{
	_cleanup_(freep) const char **names = xcalloc(n, sizeof(*names));
	struct str hint = { 0 };
	size_t len = strlen(word), below = 0;
	const char *found = "";

	n = MIN(n, SUGGEST_PARAMS_MAX);
	for (size_t i = 0; i < n; i++) {
		const char *name = names[i] = params[i].name, *last = strrchr(name, '.');

		if (strncmp(name, word, len) == 0 && name[len] == '.')
			str_addf(&hint, "%s%s", below++ ? ", " : " (it is a group: ", name);
		else if (str_has_prefix(word, name) && word[strlen(name)] == '.')
			found = arena_printf(arena, " (`%s` is a param, not a group)", name);
		else if (last && str_eq(last + 1, word) && !*found)
			found = arena_printf(arena, " (did you mean `%s`?)", name);
	}
	if (below)
		str_addc(&hint, ')');
	else if (!*found)
		text_add_suggestion(&hint, word, names, n);
	if (hint.len)
		found = arena_strndup(arena, hint.s, hint.len);
	str_deinit(&hint);
	return found;
}

void read_params(const struct doc *d, const struct yaml_node *n, struct param_decl **ret,
		 size_t *ret_n)
{
	struct param_decl *decls;
	struct param_node *nodes;
	struct value v;

	*ret = NULL;
	*ret_n = 0;
	if (!n || yaml_is_null(n) || !doc_want_map(d, n, "`params`"))
		return;
	flatten(d, n, is_declared, &nodes, ret_n);
	decls = arena_alloc(d->l->arena, *ret_n * sizeof(*decls));
	for (size_t i = 0; i < *ret_n; i++) {
		const struct yaml_node *key = nodes[i].key, *value = nodes[i].value;
		struct param_decl *decl = &decls[i];

		*decl = (struct param_decl){ .name = nodes[i].name,
					     .type = VALUE_STRING,
					     .pos = doc_pos(d, key) };
		if (value->kind == YAML_KIND_MAP) {
			read_long(d, value, decl);
		} else if (yaml_is_null(value)) {
			doc_error(d, key,
				  "param `%s` has no value: give one, or a type: {type: float}",
				  decl->name);
		} else if (read_any_value(d, value, "a param", &v)) {
			decl->type = v.type;
			decl->def = v;
			decl->has_default = true;
		}
	}
	*ret = decls;
}

/* The values of a run. */

static void apply_override(const struct pipeline *p, const struct map *index,
			   const struct param_override *o, struct arena *arena,
			   struct value *values, bool *given, struct diag_list *diags)
{
	size_t i = (size_t)(uintptr_t)map_get_str(index, o->name);
	const char *where = o->where ? o->where : "-p";
	const struct param_decl *decl;
	struct err err = { 0 };
	struct value v = { 0 };
	int r = 0;

	if (i == 0) {
		diag_error(diags, where, 0, 0, "pipeline `%s` has no param `%.60s`%s", p->name,
			   o->name, param_hint(o->name, p->params, p->n_params, arena));
		return;
	}
	given[i - 1] = true;
	decl = &p->params[i - 1];
	/* A file's scalars have the type that they look like; for a string param, 1.10 is the text
	 * "1.10". */
	if (o->value && !(decl->type == VALUE_STRING && o->value->type != VALUE_STRING &&
			  o->value->type != VALUE_LIST && o->text))
		v = *o->value;
	else if (o->text && !text_is_utf8(o->text, strlen(o->text)))
		/* The record can't hold other bytes, so a resumed run would have another value. */
		r = err_set(&err, ERR_INVALID,
			    "must be UTF-8 text; other bytes can come from a file, as an input");
	else
		r = value_parse(decl->type, o->text ? o->text : "", arena, &v, &err);
	if (r < 0 || param_check_value(decl, &v, &values[i - 1], &err) < 0)
		diag_error(diags, where, 0, 0, "param `%s` %s", o->name, err.msg);
}

/* A run's params have several origins, so no one prints these errors with their files. */
static int fail_all(struct diag_list *diags, struct err *err)
{
	_cleanup_(str_deinit) struct str all = { 0 };

	diag_render(diags, &all);
	all.s[all.len - 1] = '\0'; /* the last line's end */
	for (char *p = all.s; (p = strchr(p, '\n'));)
		*p = ';';
	return err_set(err, ERR_INVALID, "%s", all.s);
}

/* Each is evaluated once, with values that stand before it. */
static int give(void *arg, const struct ref *ref, struct value *ret, struct err *err)
{
	const struct value *values = arg;

	if (ref->kind != REF_PARAM)
		return err_set(err, ERR_INVALID, "%d:%d: only params have a value here", ref->line,
			       ref->col);
	*ret = values[ref->index];
	return 0;
}

int params_give(const struct pipeline *p, struct arena *arena, struct value *values,
		struct err *err)
{
	struct expr_scope scope = { .resolve = give, .arg = values };

	for (size_t i = 0; i < p->n_given; i++) {
		const struct param_decl *decl = &p->params[p->n_params + i];
		const struct expr_template *t = p->given[i].value;
		struct value *ret = &values[p->n_params + i], v;
		int r = 0;

		*ret = decl->def;
		if (!t)
			continue;
		r = template_eval(t, &scope, arena, &v, err);
		assert(r <= 0);
		if (r == 0 && v.type == VALUE_STRING && decl->type != VALUE_STRING)
			r = value_parse(decl->type, v.s, arena, &v, err);
		if (r == 0)
			r = param_check_value(decl, &v, ret, err);
		if (r < 0)
			return err_wrap(err, "%s:%d:%d: step `%s`, with.%s", t->file, t->line,
					t->col, p->given[i].by, decl->name);
	}
	return 0;
}

int params_resolve(const struct pipeline *p, const struct param_override *overrides, size_t n,
		   struct arena *arena, struct value *ret_values, struct diag_list *diags,
		   struct err *err)
{
	_cleanup_(freep) struct value *values = xcalloc(pipeline_n_values(p), sizeof(*values));
	_cleanup_(freep) bool *given = xcalloc(p->n_params, sizeof(*given));
	size_t before = diag_errors(diags);
	struct map *index = map_new();

	for (size_t i = 0; i < p->n_params; i++) {
		*map_slot_str(index, p->params[i].name) = (void *)(uintptr_t)(i + 1);
		values[i] = p->params[i].def;
	}
	for (size_t i = 0; i < n; i++)
		apply_override(p, index, &overrides[i], arena, values, given, diags);
	map_free(index);
	for (size_t i = 0; i < p->n_params; i++)
		if (!given[i] && !p->params[i].has_default)
			diag_error(diags, p->params[i].pos.file, p->params[i].pos.line,
				   p->params[i].pos.col,
				   "param `%s` has no default: give it with -p %s=VALUE",
				   p->params[i].name, p->params[i].name);
	if (diag_errors(diags) > before)
		return fail_all(diags, err);
	if (params_give(p, arena, values, err) < 0)
		return -1;
	if (pipeline_n_values(p))
		memcpy(ret_values, values, pipeline_n_values(p) * sizeof(*values));
	return 0;
}

int params_load_file(const char *path, struct arena *arena, struct param_override **ret,
		     size_t *ret_n, struct diag_list *diags, struct err *err)
{
	_cleanup_(yaml_tree_freep) struct yaml_tree *tree = NULL;
	_cleanup_(arena_freep) struct arena *scratch = arena_new();
	struct loader l = { .arena = arena, .scratch = scratch, .diags = diags };
	struct doc d = { .l = &l, .file = path };
	size_t before = diag_errors(diags), n = 0;
	struct param_override *list;
	struct param_node *nodes = NULL;

	if (yaml_tree_load(path, diags, &tree, err) < 0)
		return -1;
	if (!yaml_is_null(tree->root) && doc_want_map(&d, tree->root, "a file of params"))
		flatten_params(&d, tree->root, &nodes, &n);
	list = arena_alloc(arena, n * sizeof(*list));
	for (size_t i = 0; i < n; i++) {
		const struct yaml_node *key = nodes[i].key, *value = nodes[i].value;
		struct value *v = arena_alloc(arena, sizeof(*v));
		const char *what = arena_printf(scratch, "param `%s`", nodes[i].name);

		list[i] = (struct param_override){
			.name = nodes[i].name,
			.text = value->kind == YAML_KIND_SCALAR ? doc_text(&d, value) : NULL,
			/* A text that looks like a number is the text of `text`. */
			.value = read_value_as(&d, value, VALUE_FLOAT, what, v) ? v : NULL,
			.where = arena_printf(arena, "%s:%d:%d", path, key->line, key->col),
		};
	}
	if (diag_errors(diags) > before)
		return diag_to_err(diags, path, err);
	*ret = list;
	*ret_n = n;
	return 0;
}
