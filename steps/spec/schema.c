/* The settings of a built-in step as JSON Schema (2020-12), for editors: pipelines/schema.json holds what this gives, and a test compares. */
#include <string.h>
#include "base/mem.h"
#include "steps/spec/spec.h"

/* What only a run will know stands as an expression. */
static json_t *expression(void)
{
	return json_pack("{ss}", "$ref", "#/$defs/expression");
}

static json_t *or_expression(json_t *schema)
{
	return json_pack("{s[oo]}", "anyOf", schema, expression());
}

static void add_limits(json_t *schema, const struct spec_option *o, const char *min, const char *max)
{
	bool whole = o->type != SPEC_FLOAT;

	if (o->min == 0 && o->max == 0)
		return;
	if (o->min > SPEC_UNBOUNDED_MIN)
		json_object_set_new(schema, min, whole ? json_integer((json_int_t)o->min) : json_real(o->min));
	if (o->max < SPEC_UNBOUNDED_MAX)
		json_object_set_new(schema, max, whole ? json_integer((json_int_t)o->max) : json_real(o->max));
}

static json_t *schema_of(const struct spec_option *o);

static json_t *number(const struct spec_option *o, const char *type)
{
	json_t *s = json_pack("{ss}", "type", type);

	add_limits(s, o, "minimum", "maximum");
	return or_expression(s);
}

static json_t *choice(const struct spec_option *o)
{
	json_t *values = json_array();
	struct spec_choices c;

	spec_choices_of(o, &c);
	for (size_t i = 0; i < c.n; i++)
		json_array_append_new(values, json_string(c.v[i]));
	return or_expression(json_pack("{so}", "enum", values));
}

static json_t *table(const struct spec_option *options)
{
	json_t *properties = json_object(), *required = json_array(), *s;

	for (const struct spec_option *o = options; o && o->name; o++) {
		if (o->engine)
			continue;
		s = schema_of(o);
		if (o->help)
			json_object_set_new(s, "description", json_string(o->help));
		json_object_set_new(properties, o->name, s);
		if (o->required)
			json_array_append_new(required, json_string(o->name));
	}
	s = json_pack("{sssbso}", "type", "object", "additionalProperties", 0, "properties", properties);
	if (json_array_size(required))
		json_object_set_new(s, "required", required);
	else
		json_decref(required);
	return s;
}

/* One such value alone is a list of one. */
static json_t *list(const struct spec_option *o)
{
	json_t *one = schema_of(&o->sub[0]), *many = json_pack("{sssO}", "type", "array", "items", one);

	add_limits(many, o, "minItems", "maxItems");
	return json_pack("{s[oo]}", "anyOf", many, one);
}

/* A NAME, or {NAME: settings}, where what isn't a map fills the first setting. */
static json_t *variant(const struct spec_option *o)
{
	json_t *names = json_array(), *forms = json_object(), *body;

	for (const struct spec_option *v = o->sub; v && v->name; v++) {
		bool alone = true; /* may it stand without settings? */

		for (const struct spec_option *k = v->sub; k && k->name; k++)
			alone &= !k->required;
		if (alone)
			json_array_append_new(names, json_string(v->name));
		body = v->sub && v->sub->name ? json_pack("{s[oo]}", "anyOf", table(v->sub), schema_of(&v->sub[0])) : table(v->sub);
		if (v->help)
			json_object_set_new(body, "description", json_string(v->help));
		json_object_set_new(forms, v->name, body);
	}
	body = json_pack("{sssisisbso}", "type", "object", "minProperties", 1, "maxProperties", 1, "additionalProperties", 0, "properties", forms);
	return json_pack("{s[ooo]}", "anyOf", json_pack("{so}", "enum", names), body, expression());
}

static json_t *schema_of(const struct spec_option *o)
{
	switch (o->type) {
	case SPEC_BOOL:
		return or_expression(json_pack("{ss}", "type", "boolean"));
	case SPEC_INT:
		return number(o, "integer");
	case SPEC_FLOAT:
		return number(o, "number");
	case SPEC_STRING:
		return json_pack("{ss}", "type", "string");
	case SPEC_CHOICE:
		return choice(o);
	case SPEC_BYTES:
		return json_pack("{s[ooo]}", "anyOf", json_pack("{sssi}", "type", "integer", "minimum", 0), json_pack("{ss}", "$ref", "#/$defs/bytes"), expression());
	case SPEC_DURATION:
		return or_expression(json_pack("{ss}", "$ref", "#/$defs/duration"));
	case SPEC_LIST:
		return list(o);
	case SPEC_MAP:
		return json_pack("{ssso}", "type", "object", "additionalProperties", schema_of(&o->sub[0]));
	case SPEC_TABLE:
		return table(o->sub);
	case SPEC_VARIANT:
		return variant(o);
	case SPEC_ANY:
		break;
	}
	return json_object();
}

json_t *step_spec_schema(const struct step_spec *s)
{
	json_t *out = table(s->options);

	json_object_set_new(out, "description", json_string(s->summary));
	return out;
}
