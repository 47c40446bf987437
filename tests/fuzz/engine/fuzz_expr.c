/* Templates from bytes: parsed, checked for types, rendered with references that are values of all
 * kinds, unknown or errors. */
#include <string.h>
#include "model/internal.h"

/* What a reference is depends on its name only. */
static int resolve(void *arg, const struct ref *ref, struct value *ret, struct err *err)
{
	static const struct value items[] = { { VALUE_INT, { .i = -1 } },
					      { VALUE_FLOAT, { .f = 0.5 } } };
	size_t len = strlen(ref->name);

	switch (len % 8) {
	case 0:
		*ret = (struct value){ VALUE_INT, { .i = INT64_MAX } };
		return 0;
	case 1:
		*ret = (struct value){ VALUE_FLOAT, { .f = -1.5 } };
		return 0;
	case 2:
		*ret = (struct value){ VALUE_STRING, { .s = ref->name } };
		return 0;
	case 3:
		*ret = (struct value){ VALUE_LIST, { .list = { items, 2 } } };
		return 0;
	case 4:
		*ret = (struct value){ VALUE_BOOL, { .b = true } };
		return 0;
	case 5:
		*ret = (struct value){ VALUE_NULL, { 0 } };
		return 0;
	case 6:
		return 1;
	default:
		return err_set(err, ERR_IO, "%s", ref->name);
	}
}

static enum expr_type type_of(void *arg, const struct ref *ref, bool *ret_gathered)
{
	*ret_gathered = strlen(ref->name) % 3 == 0;
	return (enum expr_type)(strlen(ref->name) % 6);
}

static void mark_resolved(void *arg, struct ref *ref)
{
	ref->kind = REF_PARAM;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct arena *arena = arena_new();
	struct diag_list *diags = diag_list_new();
	char *text = arena_strndup(arena, (const char *)data, size);
	struct expr_source src = { .file = "f",
				   .text = text,
				   .len = strlen(text),
				   .line = 1,
				   .col = 1,
				   .arena = arena,
				   .diags = diags };
	struct expr_scope scope = { .resolve = resolve };
	struct expr_check check = { .type_of = type_of, .in_if = true, .diags = diags };
	struct expr_template *t = template_parse(&src);
	struct str out = { 0 };
	struct value v;

	template_refs_mut(t, mark_resolved, NULL);
	template_check(t, &check);
	if (template_render(t, &scope, arena, &out, NULL) != 0 && out.len != 0)
		abort(); /* half a text */
	if (template_eval(t, &scope, arena, &v, NULL) == 0) {
		value_add_json(&out, &v);
		value_add_canonical(&out, &v);
		if (v.type != VALUE_FLOAT && v.type != VALUE_LIST && !value_eq(&v, &v))
			abort();
	}
	if (size < 256) { /* the same bytes as text of a value */
		for (enum value_type type = VALUE_NULL; type <= VALUE_LIST; type++)
			value_parse(type, text, arena, &v, NULL);
	}
	str_deinit(&out);
	diag_list_free(diags);
	arena_free(arena);
	return 0;
}
