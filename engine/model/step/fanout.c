/* engine/model/step/fanout.c — reads what makes several tasks of one step: `matrix`, `each` and
 * `repeat`.
 *
 * An axis has literal values, or one expression that gives a list. No two literal values have the
 * same text, since the text names the task. `exclude` and `include` become one value per axis
 * (matrix_rule.by_axis), VALUE_NULL for an axis that isn't named; an entry of `include` names every
 * axis. They are read after the axes, wherever they stand.
 *
 * `each` is a literal list, or a reference that may have a pattern after it. resolve.c finds out
 * the kind of reference. The number of tasks is bounded as far as values are known
 * (check_fan_out()); engine/plan/expand.c makes the tasks. A step with `repeat` counts as if each
 * loop took all rounds.
 */
#include "model/read.h"

/* Two values with the same text would give two tasks the same name. */
static void check_distinct(struct reader *r, const struct yaml_node *n, const struct value *v,
			   const char *what)
{
	struct map *seen = map_new();
	struct str text = { 0 };
	bool is_new;

	for (size_t i = 0; i < v->list.n; i++) {
		str_reset(&text);
		value_add_text(&text, &v->list.v[i]);
		map_slot(seen, text.s, text.len, &is_new);
		if (!is_new)
			doc_error(r->d, n->items[i], "%s lists `%.60s` twice", what, text.s);
	}
	str_deinit(&text);
	map_free(seen);
}

/* Matrix. */

static void read_axis(struct reader *r, const struct yaml_node *n, struct matrix_axis *a)
{
	char what[100];
	struct value v;

	snprintf(what, sizeof(what), "matrix axis `%s`", a->name);
	if (n->kind == YAML_KIND_SCALAR && template_text_has_expr(n->text, n->len)) {
		size_t errors = diag_errors(r->l->diags);

		a->list = read_template(r->d, n);
		if (diag_errors(r->l->diags) == errors && !template_single(a->list))
			doc_error(r->d, n, "%s must be a list, or one expression that gives a list",
				  what);
		return;
	}
	if (!read_list_value(r->d, n, what, &v))
		return;
	if (v.list.n == 0)
		doc_error(r->d, n, "%s has no values", what);
	check_distinct(r, n, &v, what);
	a->values = v.list.v;
	a->n_values = v.list.n;
}

/* The text under which an axis's literal values are looked up: the kind of a number doesn't matter,
 * and text never equals a number. */
static void add_lookup(struct str *out, const struct value *v)
{
	str_reset(out);
	str_addc(out, v->type == VALUE_STRING ? 's' : 'v');
	value_add_text(out, v);
}

static struct map *values_of_axis(const struct matrix_axis *a)
{
	struct map *m = map_new();
	struct str key = { 0 };

	for (size_t i = 0; i < a->n_values; i++) {
		add_lookup(&key, &a->values[i]);
		map_slot(m, key.s, key.len, NULL);
	}
	str_deinit(&key);
	return m;
}

static bool axis_has(const struct map *values, const struct value *v)
{
	struct str key = { 0 };
	bool has;

	add_lookup(&key, v);
	has = map_has(values, key.s, key.len);
	str_deinit(&key);
	return has;
}

/* `values`: per axis, for `exclude`; NULL for `include`, which may have new ones. */
static void read_rule(struct reader *r, const struct yaml_node *n, struct map *const *values,
		      struct matrix_rule *rule)
{
	const struct step *s = r->s;
	bool include = !values;
	_cleanup_(freep) const char **names = xcalloc(s->tasks->matrix.n_axes, sizeof(*names));

	rule->by_axis = arena_alloc(r->l->arena, s->tasks->matrix.n_axes * sizeof(*rule->by_axis));
	if (!doc_want_map(r->d, n, include ? "an entry of `include`" : "an entry of `exclude`"))
		return;
	for (size_t i = 0; i < s->tasks->matrix.n_axes; i++)
		names[i] = s->tasks->matrix.axes[i].name;
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key, *value = n->pairs[i].value;
		const struct matrix_axis *a;
		size_t axis = 0;

		while (axis < s->tasks->matrix.n_axes && strcmp(names[axis], key->text) != 0)
			axis++;
		if (axis == s->tasks->matrix.n_axes) {
			doc_error(r->d, key, "the matrix has no axis `%.60s`%s", key->text,
				  loader_suggest(r->l, key->text, names, s->tasks->matrix.n_axes));
			continue;
		}
		a = &s->tasks->matrix.axes[axis];
		if (!read_value(r->d, value, "a value of an axis", &rule->by_axis[axis]))
			continue;
		if (!include && a->values && !axis_has(values[axis], &rule->by_axis[axis]))
			doc_error(r->d, value,
				  "`exclude` names a value that axis `%s` doesn't have: `%.60s`",
				  a->name, value->text);
	}
	if (!include && n->len == 0)
		doc_error(r->d, n, "an empty entry of `exclude` would leave nothing");
	for (size_t i = 0; include && i < s->tasks->matrix.n_axes; i++)
		if (!yaml_get(n, names[i]))
			doc_error(r->d, n,
				  "an entry of `include` must name every axis: `%s` is missing",
				  names[i]);
}

static void read_rules(struct reader *r, const struct yaml_node *n, bool include,
		       const struct matrix_rule **ret, size_t *ret_n)
{
	struct map *values[MATRIX_AXES_MAX] = { 0 };
	struct matrix_rule *rules;

	if (!doc_want_list(r->d, n, include ? "`include`" : "`exclude`"))
		return;
	rules = arena_alloc(r->l->arena, n->len * sizeof(*rules));
	for (size_t i = 0; !include && i < r->s->tasks->matrix.n_axes; i++)
		values[i] = values_of_axis(&r->s->tasks->matrix.axes[i]);
	for (size_t i = 0; i < n->len; i++)
		read_rule(r, n->items[i], include ? NULL : values, &rules[i]);
	for (size_t i = 0; i < MATRIX_AXES_MAX; i++)
		map_free(values[i]);
	*ret = rules;
	*ret_n = n->len;
}

/* Bounds the number of tasks, as far as the axes' values are known. */
static void check_fan_out(struct reader *r, const struct yaml_node *n)
{
	size_t product = 1;

	for (size_t i = 0; i < r->s->tasks->matrix.n_axes; i++) {
		size_t count = r->s->tasks->matrix.axes[i].values
				       ? r->s->tasks->matrix.axes[i].n_values
				       : 1;

		if (__builtin_mul_overflow(product, count, &product) || product > MATRIX_TASKS_MAX)
			break;
	}
	if (product > MATRIX_TASKS_MAX ||
	    product + r->s->tasks->matrix.n_include > MATRIX_TASKS_MAX)
		doc_error(r->d, n, "the matrix of step `%s` has more than %d combinations",
			  r->s->name, MATRIX_TASKS_MAX);
}

/* Without axes the entries of `include` are all combinations. Their names are those of the first
 * one; the others must have the same (read_rule()). */
static size_t axes_of_include(struct reader *r, const struct yaml_node *n, struct matrix_axis *axes)
{
	const struct yaml_node *include = yaml_get(n, "include"), *first;
	size_t count = 0;

	if (!include || include->kind != YAML_KIND_SEQ || include->len == 0)
		return 0;
	first = include->items[0];
	for (size_t i = 0; first->kind == YAML_KIND_MAP && i < first->len; i++) {
		if (count == MATRIX_AXES_MAX) {
			doc_error(r->d, first->pairs[i].key, "a matrix has at most %d axes",
				  MATRIX_AXES_MAX);
			break;
		}
		doc_check_name(r->d, first->pairs[i].key, NAME_IDENT, "axis");
		axes[count].values = arena_alloc(r->l->arena, sizeof(*axes->values)); /* none */
		axes[count++].name = doc_text(r->d, first->pairs[i].key);
	}
	return count;
}

void step_read_matrix(struct reader *r, const struct yaml_node *n)
{
	const struct yaml_node *include, *exclude;
	struct step_matrix *m = &r->b->parts->tasks.matrix;
	struct matrix_axis *axes;
	size_t count = 0;

	if (!doc_want_map(r->d, n, "`matrix`"))
		return;
	axes = arena_alloc(r->l->arena, MATRIX_AXES_MAX * sizeof(*axes));
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key;

		if (str_eq(key->text, "include") || str_eq(key->text, "exclude"))
			continue;
		if (count == MATRIX_AXES_MAX) {
			doc_error(r->d, key, "a matrix has at most %d axes", MATRIX_AXES_MAX);
			break;
		}
		doc_check_name(r->d, key, NAME_IDENT, "axis");
		axes[count].name = doc_text(r->d, key);
		read_axis(r, n->pairs[i].value, &axes[count++]);
	}
	if (count == 0)
		count = axes_of_include(r, n, axes);
	if (count == 0)
		doc_error(r->d, n,
			  "`matrix` has no axis: give one as `name: [value, …]`, or the "
			  "combinations as `include: [{name: value, …}, …]`");
	m->axes = axes;
	m->n_axes = count;
	if ((exclude = yaml_get(n, "exclude")))
		read_rules(r, exclude, false, &m->exclude, &m->n_exclude);
	if ((include = yaml_get(n, "include")))
		read_rules(r, include, true, &m->include, &m->n_include);
	check_fan_out(r, n);
}

/* Each. */

static void check_glob(struct reader *r, const struct yaml_node *n, const char *glob)
{
	for (const char *p = glob; *p; p += strcspn(p, "/"), p += *p == '/') {
		size_t len = strcspn(p, "/");

		if (len == 0 || (len == 1 && *p == '.') || (len == 2 && memcmp(p, "..", 2) == 0)) {
			doc_error(
				r->d, n,
				"`%.80s` is not a pattern of members: it has an empty, `.` or `..` "
				"part",
				glob);
			return;
		}
	}
}

/* "${{ reference }}/glob"; the kind of reference is known only when references are resolved. */
static void read_each_reference(struct reader *r, const struct yaml_node *n, struct each_decl *e)
{
	size_t errors = diag_errors(r->l->diags);
	const struct expr_template *t = read_template(r->d, n);

	if (diag_errors(r->l->diags) > errors)
		return;
	if (t->n_parts == 0 || !t->parts[0].expr || t->parts[0].expr->kind != EXPR_REF ||
	    t->n_parts > 2 ||
	    (t->n_parts == 2 && (t->parts[1].expr || t->parts[1].text[0] != '/'))) {
		doc_error(r->d, n,
			  "`each` ranges over a list or the members of a directory: [a, b], \"${{ "
			  "params.list }}\" or \"${{ inputs.raw }}/*.csv\"");
		return;
	}
	e->from = t->parts[0].expr->ref;
	if (t->n_parts == 2 && t->parts[1].len > 1) {
		e->glob = arena_strdup(r->l->arena, t->parts[1].text + 1);
		check_glob(r, n, e->glob);
	}
}

void step_read_each(struct reader *r, const struct yaml_node *n)
{
	struct each_decl *e = arena_alloc(r->l->arena, sizeof(*e));
	struct value v = { 0 };

	r->b->parts->tasks.each = e;
	e->from.kind = REF_BROKEN; /* until it proves to be a reference */
	e->is_list = n->kind == YAML_KIND_SEQ;
	if (!e->is_list) {
		if (doc_want_text(r->d, n, "`each`"))
			read_each_reference(r, n, e);
	} else if (read_list_value(r->d, n, "`each`", &v)) {
		check_distinct(r, n, &v, "`each`");
		e->values = v.list.v;
		e->n_values = v.list.n;
	}
}

/* Repeat. */

void step_read_repeat(struct reader *r, const struct yaml_node *n)
{
	static const char *const keys[] = { "until", "max" };
	struct step_repeat *rep = arena_alloc(r->l->arena, sizeof(*rep));
	const struct yaml_node *until, *max;
	int64_t count = 1;

	r->b->parts->tasks.repeat = rep;
	rep->pos = doc_pos(r->d, r->key);
	if (!doc_want_map(r->d, n, "`repeat`"))
		return;
	doc_check_keys(r->d, n, keys, ARRAY_LEN(keys));
	if (!(until = yaml_get(n, "until")))
		doc_error(r->d, n,
			  "`repeat` has no `until`: the condition that ends it, such as "
			  "\"${{ steps.STEP.metrics.loss < 0.1 }}\"");
	else
		rep->until = step_read_condition(r, until, "`until`");
	if (!(max = yaml_get(n, "max")))
		doc_error(r->d, n, "`repeat` has no `max`: the most rounds that it may take");
	else
		read_count(r->d, max, "`max` of `repeat`", 1, REPEAT_MAX, &count);
	rep->max = (uint32_t)count;
}

void step_check_repeat(struct build *b)
{
	const struct step *s = b->s;
	size_t combinations = s->tasks->matrix.n_include, product = s->tasks->matrix.n_axes != 0;

	for (size_t i = 0; i < s->n_inputs && !s->tasks->repeat; i++)
		if (s->inputs[i].then)
			doc_error_at(
				b->doc->l->diags, &s->inputs[i].pos,
				"input `%s` has a `then`, but step `%s` has one round only: it "
				"has no `repeat`",
				s->inputs[i].name, s->name);
	if (!s->tasks->repeat)
		return;
	if (s->tasks->each)
		doc_error_at(b->doc->l->diags, &s->tasks->repeat->pos,
			     "step `%s` has both `each` and `repeat`: loop over combinations of a "
			     "`matrix`, or let the command go through the items",
			     s->name);
	for (size_t i = 0; i < s->tasks->matrix.n_axes; i++) {
		if (str_eq(s->tasks->matrix.axes[i].name, "round"))
			doc_error_at(b->doc->l->diags, &s->tasks->repeat->pos,
				     "an axis of step `%s` is named `round`, as the rounds of its "
				     "`repeat` are: give it another name",
				     s->name);
		product *= s->tasks->matrix.axes[i].values ? MIN(s->tasks->matrix.axes[i].n_values,
								 (size_t)MATRIX_TASKS_MAX)
							   : 1;
		product = MIN(product, (size_t)MATRIX_TASKS_MAX);
	}
	combinations += product;
	if (combinations * s->tasks->repeat->max > MATRIX_TASKS_MAX)
		doc_error_at(b->doc->l->diags, &s->tasks->repeat->pos,
			     "the rounds of step `%s` could be more than %d tasks: lower `max`",
			     s->name, MATRIX_TASKS_MAX);
}
