/* engine/base/text/yaml_json.c — YAML nodes as jansson values, and jansson values as YAML text.
 *
 * yaml_to_json() walks the tree by the core schema of yaml.c; an alias becomes a copy.
 * yaml_add_json() drives libyaml's emitter. Text is plain only if every YAML parser takes it as
 * text (is_plain()); otherwise it is quoted, or a literal block if it has several lines. Keys keep
 * the order of the JSON object.
 */
#include "base/text/yaml_json.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <strings.h>
#include <yaml.h>
#include "base/text/text.h"

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
			json_object_set_new(out, n->pairs[i].key->text,
					    yaml_to_json(n->pairs[i].value));
		else
			json_array_append_new(out, yaml_to_json(n->items[i]));
	return out;
}

/* Writing. */

/* Tells whether every YAML parser takes the text as text: it begins with a letter, `/` or `_`, and
 * has no special characters or words. */
static bool is_plain(const char *s)
{
	static const char *const words[] = { "true", "false", "null", "yes", "no",
					     "on",   "off",   "y",    "n" };
	size_t n = strlen(s);

	if (n == 0 ||
	    strspn(s,
		   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./@+=,:$()") !=
		    n ||
	    strchr("0123456789-.@+=,:()$", *s) || s[n - 1] == ':')
		return false;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcasecmp(s, words[i]) == 0)
			return false;
	return true;
}

/* Only memory can run out, and that is fatal. */
static void emit(yaml_emitter_t *e, yaml_event_t *event)
{
	int ok = yaml_emitter_emit(e, event);

	assert(ok);
}

static void emit_scalar(yaml_emitter_t *e, const char *text, size_t n, bool quoted)
{
	yaml_scalar_style_t style = !quoted                 ? YAML_PLAIN_SCALAR_STYLE
				    : memchr(text, '\n', n) ? YAML_LITERAL_SCALAR_STYLE
							    : YAML_DOUBLE_QUOTED_SCALAR_STYLE;
	yaml_event_t event;
	int ok = yaml_scalar_event_initialize(&event, NULL, NULL, (const yaml_char_t *)text, (int)n,
					      1, 1, style);

	assert(ok);
	emit(e, &event);
}

static void emit_value(yaml_emitter_t *e, const json_t *j);

static void emit_object(yaml_emitter_t *e, const json_t *j)
{
	bool empty = json_object_size(j) == 0;
	yaml_event_t event;
	const char *key;
	json_t *v;
	int ok = yaml_mapping_start_event_initialize(
		&event, NULL, NULL, 1, empty ? YAML_FLOW_MAPPING_STYLE : YAML_BLOCK_MAPPING_STYLE);

	assert(ok);
	emit(e, &event);
	json_object_foreach((json_t *)j, key, v)
	{
		emit_scalar(e, key, strlen(key), !is_plain(key));
		emit_value(e, v);
	}
	yaml_mapping_end_event_initialize(&event);
	emit(e, &event);
}

static void emit_array(yaml_emitter_t *e, const json_t *j)
{
	bool empty = json_array_size(j) == 0;
	yaml_event_t event;
	json_t *v;
	size_t i;
	int ok = yaml_sequence_start_event_initialize(&event, NULL, NULL, 1,
						      empty ? YAML_FLOW_SEQUENCE_STYLE
							    : YAML_BLOCK_SEQUENCE_STYLE);

	assert(ok);
	emit(e, &event);
	json_array_foreach(j, i, v) emit_value(e, v);
	yaml_sequence_end_event_initialize(&event);
	emit(e, &event);
}

static void emit_value(yaml_emitter_t *e, const json_t *j)
{
	_cleanup_(str_deinit) struct str number = { 0 };

	if (json_is_object(j)) {
		emit_object(e, j);
	} else if (json_is_array(j)) {
		emit_array(e, j);
	} else if (json_is_string(j)) {
		emit_scalar(e, json_string_value(j), json_string_length(j),
			    !is_plain(json_string_value(j)));
	} else { /* true, null and numbers are written alike */
		json_add_canonical(&number, j);
		emit_scalar(e, number.s, number.len, false);
	}
}

static int add_bytes(void *arg, unsigned char *bytes, size_t n)
{
	str_addn(arg, bytes, n);
	return 1;
}

void yaml_add_json(struct str *out, const json_t *j)
{
	yaml_emitter_t e;
	yaml_event_t event;

	if (!yaml_emitter_initialize(&e))
		mem_die(sizeof(e));
	yaml_emitter_set_output(&e, add_bytes, out);
	yaml_emitter_set_unicode(&e, 1);
	yaml_emitter_set_width(&e, -1);
	yaml_stream_start_event_initialize(&event, YAML_UTF8_ENCODING);
	emit(&e, &event);
	yaml_document_start_event_initialize(&event, NULL, NULL, NULL, 1);
	emit(&e, &event);
	emit_value(&e, j);
	yaml_document_end_event_initialize(&event, 1);
	emit(&e, &event);
	yaml_stream_end_event_initialize(&event);
	emit(&e, &event);
	yaml_emitter_delete(&e);
}
