/* steps/spec/schema.c — the settings of a built-in step as JSON Schema (2020-12), for editors. The
 * result is in pipelines/schema.json, and a test compares.
 *
 * Schemas that several settings share (a number within limits, a list of such numbers, the table of
 * an op) are in `$defs` once, under a descriptive name, and settings refer to them (refer(), which
 * asserts that two schemas of one name are equal). A description belongs to the place and stands
 * next to the reference.
 *
 * Settings with `engine` are left out: a pipeline sets them by another key. Wherever a value may be
 * an expression, `#/$defs/expression` is allowed too; that one, `bytes` and `duration` are defined
 * in the file that contains the result. schema_of() mirrors walk_value() of spec.c: a new type
 * needs both.
 */
#include <assert.h>
#include <string.h>
#include "base/mem.h"
#include "steps/spec/spec.h"

/* Adds `schema` to `defs` as NAME and returns a reference to it. Two schemas of one name must be
 * equal. */
static json_t *refer(json_t *defs, const char *name, json_t *schema)
{
	json_t *there = json_object_get(defs, name);

	assert(!there || json_equal(there, schema));
	if (there)
		json_decref(schema);
	else
		json_object_set_new(defs, name, schema);
	return json_pack("{s:o}", "$ref", json_sprintf("#/$defs/%s", name));
}

/* An expression may replace a value that only a run will know. */
static json_t *or_expression(json_t *schema)
{
	return json_pack("{s[o{ss}]}", "anyOf", schema, "$ref", "#/$defs/expression");
}

/* "-1-65500": the part of the name for the limits; an open end has no number. */
static void name_limits(struct str *name, const struct spec_option *o)
{
	bool from = o->min > SPEC_UNBOUNDED_MIN, to = o->max < SPEC_UNBOUNDED_MAX;

	if ((o->min == 0 && o->max == 0) || (!from && !to))
		return;
	str_addc(name, '-');
	if (from)
		str_addf(name, "%.15g", o->min);
	str_addc(name, '-');
	if (to)
		str_addf(name, "%.15g", o->max);
}

static void add_limits(json_t *schema, const struct spec_option *o, const char *min,
		       const char *max)
{
	bool whole = o->type != SPEC_FLOAT;

	if (o->min == 0 && o->max == 0)
		return;
	if (o->min > SPEC_UNBOUNDED_MIN)
		json_object_set_new(schema, min,
				    whole ? json_integer((json_int_t)o->min) : json_real(o->min));
	if (o->max < SPEC_UNBOUNDED_MAX)
		json_object_set_new(schema, max,
				    whole ? json_integer((json_int_t)o->max) : json_real(o->max));
}

static json_t *schema_of(json_t *defs, const struct spec_option *o);

static json_t *number(json_t *defs, const struct spec_option *o, const char *type)
{
	_cleanup_(str_deinit) struct str name = { 0 };
	json_t *s = json_pack("{ss}", "type", type);

	str_addf(&name, "value-%s", type);
	name_limits(&name, o);
	add_limits(s, o, "minimum", "maximum");
	return refer(defs, name.s, or_expression(s));
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

static json_t *table(json_t *defs, const struct spec_option *options)
{
	json_t *properties = json_object(), *required = json_array(), *s;

	for (const struct spec_option *o = options; o && o->name; o++) {
		if (o->engine)
			continue;
		s = schema_of(defs, o);
		if (o->help)
			json_object_set_new(s, "description", json_string(o->help));
		json_object_set_new(properties, o->name, s);
		if (o->required)
			json_array_append_new(required, json_string(o->name));
	}
	s = json_pack("{sssbso}", "type", "object", "additionalProperties", 0, "properties",
		      properties);
	if (json_array_size(required))
		json_object_set_new(s, "required", required);
	else
		json_decref(required);
	return s;
}

/* A single value counts as a list of one. */
static json_t *list(json_t *defs, const struct spec_option *o)
{
	_cleanup_(str_deinit) struct str name = { 0 };
	json_t *one = schema_of(defs, &o->sub[0]),
	       *many = json_pack("{sssO}", "type", "array", "items", one);
	const char *ref = json_string_value(json_object_get(one, "$ref")),
		   *of = ref ? strstr(ref, "/value-") : NULL;
	json_t *both = json_pack("{s[oo]}", "anyOf", many, one);

	add_limits(many, o, "minItems", "maxItems");
	if (!of)
		return both;
	str_add(&name, "value-list");
	name_limits(&name, o);
	str_addf(&name, "-of-%s", of + strlen("/value-"));
	return refer(defs, name.s, both);
}

/* A NAME, or {NAME: settings}; settings that aren't a map set the first key. */
static json_t *variant(json_t *defs, const struct spec_option *o)
{
	_cleanup_(freep) char *name = xasprintf("value-%s", o->name);
	json_t *names = json_array(), *forms = json_object(), *body;

	for (const struct spec_option *v = o->sub; v && v->name; v++) {
		_cleanup_(freep) char *form = xasprintf("value-form-%s", v->name);
		bool alone = true; /* it may stand without settings */

		for (const struct spec_option *k = v->sub; k && k->name; k++)
			alone &= !k->required;
		if (alone)
			json_array_append_new(names, json_string(v->name));
		body = table(defs, v->sub);
		if (v->sub && v->sub->name)
			body = json_pack("{s[oo]}", "anyOf", body, schema_of(defs, &v->sub[0]));
		body = refer(defs, form, body);
		if (v->help)
			json_object_set_new(body, "description", json_string(v->help));
		json_object_set_new(forms, v->name, body);
	}
	body = json_pack("{sssisisbso}", "type", "object", "minProperties", 1, "maxProperties", 1,
			 "additionalProperties", 0, "properties", forms);
	body = json_pack("{s[oo{ss}]}", "anyOf", json_pack("{so}", "enum", names), body, "$ref",
			 "#/$defs/expression");
	return refer(defs, name, body);
}

static json_t *schema_of(json_t *defs, const struct spec_option *o)
{
	switch (o->type) {
	case SPEC_BOOL:
		return refer(defs, "value-boolean",
			     or_expression(json_pack("{ss}", "type", "boolean")));
	case SPEC_INT:
		return number(defs, o, "integer");
	case SPEC_FLOAT:
		return number(defs, o, "number");
	case SPEC_STRING:
		return json_pack("{ss}", "type", "string");
	case SPEC_CHOICE:
		return choice(o);
	case SPEC_BYTES:
		return refer(defs, "value-bytes",
			     json_pack("{s[{sssi}{ss}{ss}]}", "anyOf", "type", "integer", "minimum",
				       0, "$ref", "#/$defs/bytes", "$ref", "#/$defs/expression"));
	case SPEC_DURATION:
		return refer(defs, "value-duration",
			     or_expression(json_pack("{ss}", "$ref", "#/$defs/duration")));
	case SPEC_LIST:
		return list(defs, o);
	case SPEC_MAP:
		return json_pack("{ssso}", "type", "object", "additionalProperties",
				 schema_of(defs, &o->sub[0]));
	case SPEC_TABLE:
		return table(defs, o->sub);
	case SPEC_VARIANT:
		return variant(defs, o);
	case SPEC_ANY:
		break;
	}
	return json_object();
}

void step_spec_schema(const struct step_spec *s, json_t *defs)
{
	_cleanup_(freep) char *name = xasprintf("with-%s", s->name);
	json_t *with = table(defs, s->options);

	json_object_set_new(with, "description", json_string(s->summary));
	json_decref(refer(defs, name, with));
}
