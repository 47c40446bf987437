#include "base/yaml_json.h"

#include <math.h>

static json_t *scalar(const struct yaml_node *n)
{
	int64_t i;
	double d;
	bool b;

	if (yaml_is_null(n))
		return json_null();
	if (yaml_as_bool(n, &b))
		return json_boolean(b);
	if (yaml_as_int(n, &i))
		return json_integer(i);
	if (yaml_as_float(n, &d) && isfinite(d))
		return json_real(d);
	return json_stringn(n->text, n->len);
}

/* Recursion is bounded by YAML_DEPTH_MAX. */
json_t *yaml_to_json(const struct yaml_node *n)
{
	json_t *out;

	if (n->kind == YAML_KIND_SCALAR)
		return scalar(n);
	out = n->kind == YAML_KIND_MAP ? json_object() : json_array();
	for (size_t i = 0; i < n->len; i++)
		if (n->kind == YAML_KIND_MAP)
			json_object_set_new(out, n->pairs[i].key->text, yaml_to_json(n->pairs[i].value));
		else
			json_array_append_new(out, yaml_to_json(n->items[i]));
	return out;
}
