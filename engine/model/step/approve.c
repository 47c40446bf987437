/* Reads `approve`: a step that waits for a person. */
#include "model/read.h"

static size_t read_names(const struct reader *r, const struct yaml_node *n, const char *const **ret)
{
	const size_t count = n->kind == YAML_KIND_SEQ ? n->len : 1;
	const char **v = arena_alloc(r->l->arena, (count + 1) * sizeof(*v));
	size_t k = 0;

	if (count == 0 || count > APPROVE_BY_MAX)
		doc_error(r->d, n,
			  "`by` needs 1 to %d names; without it, everybody who may use the "
			  "project can answer",
			  APPROVE_BY_MAX);
	for (size_t i = 0; i < count && i < APPROVE_BY_MAX; i++) {
		const struct yaml_node *one = n->kind == YAML_KIND_SEQ ? n->items[i] : n;

		if (!doc_want_text(r->d, one, "a name of `by`"))
			continue;
		if (has_space_or_control(one->text) || template_text_has_expr(one->text, one->len))
			doc_error(
				r->d, one,
				"a name of `by` is that of a user, such as alice; it has no blanks "
				"and no expressions");
		else
			v[k++] = doc_text(r->d, one);
	}
	*ret = v;
	return k;
}

void step_read_approve(struct reader *r, const struct yaml_node *n)
{
	static const char *const keys[] = { "message", "by", "default" };
	static const char *const defaults[] = { "refuse", "approve" };
	struct step_approve *a = arena_alloc(r->l->arena, sizeof(*a));
	const struct yaml_node *message, *by, *otherwise;
	const char *word = defaults[0];
	bool on = false;

	r->s->approve = a;
	if (n->kind == YAML_KIND_SCALAR && yaml_as_bool(n, &on) && on)
		return;
	if (n->kind != YAML_KIND_MAP) {
		doc_error(r->d, n,
			  "`approve` is `true`, or a mapping with `message`, `by` and `default`");
		return;
	}
	if (yaml_get(n, "timeout")) {
		doc_error(r->d, yaml_get(n, "timeout"),
			  "the time limit is the step's own `timeout`: write it beside `approve`");
		return;
	}
	doc_check_keys(r->d, n, keys, ARRAY_LEN(keys));
	message = yaml_get(n, "message");
	by = yaml_get(n, "by");
	otherwise = yaml_get(n, "default");
	if (message && doc_want_text(r->d, message, "`message`"))
		a->message = read_template(r->d, message);
	if (by)
		a->n_by = read_names(r, by, &a->by);
	if (otherwise)
		read_choice(r->d, otherwise, "`default`", defaults, ARRAY_LEN(defaults), &word);
	a->at_limit = word == defaults[1];
	if (otherwise && !yaml_get(r->b->node, "timeout"))
		doc_error(r->d, otherwise,
			  "`default` is what counts when `timeout` is over: give the step a "
			  "`timeout`");
}
