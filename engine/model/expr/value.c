/* engine/model/expr/value.c — values: comparing, writing as text, canonical bytes and JSON,
 * reading from text.
 *
 * Numbers are compared as long double, which holds every int64_t and every double exactly. Text
 * is what a command sees: whole floats have no exponent up to WHOLE_MAX and no ".0". The
 * canonical form (tag, then a fixed form) goes into keys, so it must never change. In it int 1
 * and float 1.0 differ, as they do in JSON.
 *
 * Reading takes the declared type, and guesses only the types of a list's items. value_text.c
 * turns canonical bytes back into text.
 */
#include "model/expr/value.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include "base/text/json.h"
#include "base/text/text.h"

/* Items of a list that is given as text. Lists on a command line are short; a file may hold
 * more. */
#define LIST_TEXT_MAX 1048576
#define WHOLE_MAX     1e15 /* from there on whole numbers are written with an exponent */

const char *value_type_name(enum value_type t)
{
	static const char *const names[] = {
		[VALUE_NULL] = "null",     [VALUE_BOOL] = "bool",     [VALUE_INT] = "int",
		[VALUE_FLOAT] = "float",   [VALUE_STRING] = "string", [VALUE_LIST] = "list",
		[VALUE_OBJECT] = "object",
	};

	return (unsigned)t < ARRAY_LEN(names) ? names[t] : "unknown";
}

const char *value_type_phrase(enum value_type t)
{
	static const char *const phrases[] = {
		[VALUE_NULL] = "null",        [VALUE_BOOL] = "a bool",     [VALUE_INT] = "an int",
		[VALUE_FLOAT] = "a float",    [VALUE_STRING] = "a string", [VALUE_LIST] = "a list",
		[VALUE_OBJECT] = "an object",
	};

	return (unsigned)t < ARRAY_LEN(phrases) ? phrases[t] : "unknown";
}

static bool is_number(const struct value *v)
{
	return v->type == VALUE_INT || v->type == VALUE_FLOAT;
}

/* Wide enough for every int64_t and every double, so that 2^53 + 1 isn't equal to 2.0^53. */
static long double number_of(const struct value *v)
{
	return v->type == VALUE_INT ? (long double)v->i : (long double)v->f;
}

int value_compare_numbers(const struct value *a, const struct value *b)
{
	long double x = number_of(a), y = number_of(b);

	if (isnan(x) || isnan(y))
		return 2;
	return (x > y) - (x < y);
}

bool value_eq(const struct value *a, const struct value *b)
{
	if (is_number(a) && is_number(b))
		return value_compare_numbers(a, b) == 0;
	if (a->type != b->type)
		return false;
	switch (a->type) {
	case VALUE_NULL:
		return true;
	case VALUE_BOOL:
		return a->b == b->b;
	case VALUE_STRING:
		return strcmp(a->s, b->s) == 0;
	case VALUE_LIST:
		for (size_t i = 0; i < a->list.n && a->list.n == b->list.n; i++)
			if (!value_eq(&a->list.v[i], &b->list.v[i]))
				return false;
		return a->list.n == b->list.n;
	case VALUE_OBJECT:
		for (size_t i = 0; i < a->object.n && a->object.n == b->object.n; i++)
			if (strcmp(a->object.v[i].name, b->object.v[i].name) != 0 ||
			    !value_eq(&a->object.v[i].value, &b->object.v[i].value))
				return false;
		return a->object.n == b->object.n;
	default:
		return false;
	}
}

/* Writes whole numbers without an exponent where people (and int() of other languages) expect it:
 * 10, not 1e+01. */
static void add_double(struct str *out, double f)
{
	if (fabs(f) < WHOLE_MAX && f == (double)(int64_t)f && !(f == 0 && signbit(f)))
		str_addf(out, "%lld", (long long)f);
	else
		text_add_double(out, f);
}

void value_add_text(struct str *out, const struct value *v)
{
	switch (v->type) {
	case VALUE_NULL:
		str_add(out, "");
		break;
	case VALUE_BOOL:
		str_add(out, v->b ? "true" : "false");
		break;
	case VALUE_INT:
		str_addf(out, "%lld", (long long)v->i);
		break;
	case VALUE_FLOAT:
		add_double(out, v->f);
		break;
	case VALUE_STRING:
		str_add(out, v->s);
		break;
	case VALUE_LIST:
		for (size_t i = 0; i < v->list.n; i++) {
			if (i)
				str_addc(out, ' ');
			value_add_text(out, &v->list.v[i]);
		}
		break;
	case VALUE_OBJECT:
		value_add_json(out, v);
		break;
	}
}

void value_add_canonical(struct str *out, const struct value *v)
{
	static const char tags[] = "nbifslo";
	uint64_t bits;
	double f;

	assert((size_t)v->type < sizeof(tags) - 1);
	str_addc(out, tags[v->type]);
	switch (v->type) {
	case VALUE_NULL:
		break;
	case VALUE_BOOL:
		str_addc(out, v->b ? 1 : 0);
		break;
	case VALUE_INT:
		str_add_u64(out, (uint64_t)v->i);
		break;
	case VALUE_FLOAT:
		f = isnan(v->f) ? (double)NAN : v->f == 0 ? 0 : v->f; /* -0.0 too */
		memcpy(&bits, &f, sizeof(bits));
		str_add_u64(out, bits);
		break;
	case VALUE_STRING:
		str_add_field(out, v->s, strlen(v->s));
		break;
	case VALUE_LIST:
		str_add_u32(out, (uint32_t)v->list.n);
		for (size_t i = 0; i < v->list.n; i++)
			value_add_canonical(out, &v->list.v[i]);
		break;
	case VALUE_OBJECT:
		str_add_u32(out, (uint32_t)v->object.n);
		for (size_t i = 0; i < v->object.n; i++) {
			const char *name = v->object.v[i].name;

			str_add_field(out, name, strlen(name));
			value_add_canonical(out, &v->object.v[i].value);
		}
		break;
	}
}

json_t *value_json(const struct value *v)
{
	json_t *out;

	switch (v->type) {
	case VALUE_BOOL:
		return json_boolean(v->b);
	case VALUE_INT:
		return json_integer(v->i);
	case VALUE_FLOAT:
		return json_real(v->f);
	case VALUE_STRING:
		return json_string(v->s);
	case VALUE_LIST:
		out = json_array();
		for (size_t i = 0; i < v->list.n; i++)
			json_array_append_new(out, value_json(&v->list.v[i]));
		return out;
	case VALUE_OBJECT:
		out = json_object();
		for (size_t i = 0; i < v->object.n; i++)
			json_object_set_new(out, v->object.v[i].name,
					    value_json(&v->object.v[i].value));
		return out;
	default:
		return json_null();
	}
}

void value_add_json(struct str *out, const struct value *v)
{
	size_t start;

	switch (v->type) {
	case VALUE_NULL:
		str_add(out, "null");
		break;
	case VALUE_FLOAT:
		start = out->len;
		if (!isfinite(v->f)) {
			str_add(out, "null");
			break;
		}
		add_double(out, v->f);
		if (!strpbrk(out->s + start, ".e"))
			str_add(out, ".0");
		break;
	case VALUE_STRING:
		json_add_string(out, v->s, strlen(v->s));
		break;
	case VALUE_LIST:
		str_addc(out, '[');
		for (size_t i = 0; i < v->list.n; i++) {
			if (i)
				str_addc(out, ',');
			value_add_json(out, &v->list.v[i]);
		}
		str_addc(out, ']');
		break;
	case VALUE_OBJECT:
		str_addc(out, '{');
		for (size_t i = 0; i < v->object.n; i++) {
			const struct value_member *m = &v->object.v[i];

			if (i)
				str_addc(out, ',');
			json_add_string(out, m->name, strlen(m->name));
			str_addc(out, ':');
			value_add_json(out, &m->value);
		}
		str_addc(out, '}');
		break;
	default:
		value_add_text(out, v);
		break;
	}
}

/* Reading. */

static int not_a(enum value_type type, const char *text, struct err *err)
{
	static const char *const wanted[] = {
		[VALUE_NULL] = "null",        [VALUE_BOOL] = "true or false",
		[VALUE_INT] = "an integer",   [VALUE_FLOAT] = "a number",
		[VALUE_STRING] = "text",      [VALUE_LIST] = "a list like [1, 2, 3]",
		[VALUE_OBJECT] = "an object",
	};

	return err_set(err, ERR_INVALID, "must be %s, not `%.60s`", wanted[type], text);
}

static bool parse_bool(const char *text, bool *ret)
{
	*ret = strcmp(text, "true") == 0;
	return *ret || strcmp(text, "false") == 0;
}

const char *value_parse_quoted(const char *p, const char *end, struct arena *arena,
			       struct value *ret)
{
	char quote = *p++, *text;
	const char *stop = p;
	size_t n = 0;

	while (stop < end && (*stop != quote || (stop + 1 < end && stop[1] == quote)))
		stop += *stop == quote ? 2 : 1;
	if (stop >= end)
		return NULL;
	text = arena_alloc(arena, (size_t)(stop - p) + 1);
	for (; p < stop; p++) {
		p += *p == quote;
		text[n++] = *p;
	}
	*ret = (struct value){ .type = VALUE_STRING, .s = text };
	return stop + 1;
}

/* Reads one item at `p`: quoted text, or a word up to the next comma, with the type that it looks
 * like. Returns a pointer behind it, NULL when a quote isn't closed. */
static const char *parse_item(const char *p, const char *end, struct arena *arena,
			      struct value *ret)
{
	const char *stop = p, *text;

	if (p < end && (*p == '\'' || *p == '"'))
		return value_parse_quoted(p, end, arena, ret);
	while (stop < end && *stop != ',')
		stop++;
	end = stop;
	while (end > p && end[-1] == ' ')
		end--;
	text = arena_strndup(arena, p, (size_t)(end - p));
	if (strcmp(text, "null") == 0)
		ret->type = VALUE_NULL;
	else if (parse_bool(text, &ret->b))
		ret->type = VALUE_BOOL;
	else if (text_parse_int(text, &ret->i))
		ret->type = VALUE_INT;
	else if (text_parse_double(text, &ret->f) && isfinite(ret->f))
		ret->type = VALUE_FLOAT;
	else
		*ret = (struct value){ .type = VALUE_STRING, .s = text };
	return stop;
}

/* "[1, 2, 3]", or the same without brackets. */
static int parse_list(const char *text, struct arena *arena, struct value *ret, struct err *err)
{
	size_t len = strlen(text);
	const char *p = text, *end = text + len;
	VEC(struct value) items = { 0 };
	bool ok = true;

	if (len >= 2 && text[0] == '[' && text[len - 1] == ']')
		p++, end--;
	else if (len && (text[0] == '[' || text[len - 1] == ']'))
		return not_a(VALUE_LIST, text, err); /* half of it was forgotten */
	while (p < end && *p == ' ')
		p++;
	while (p < end) {
		struct value item = { 0 };

		while (p < end && *p == ' ')
			p++;
		p = p < end && *p != ',' ? parse_item(p, end, arena, &item) : NULL;
		while (p && p < end && *p == ' ')
			p++;
		ok = p && (p == end || *p == ',') && items.n < LIST_TEXT_MAX;
		if (!ok)
			break;
		VEC_PUSH(&items, item);
		if (p == end)
			break;
		p++;
		ok = p < end; /* an item must follow a comma */
	}
	if (ok)
		*ret = (struct value){ .type = VALUE_LIST,
				       .list = { arena_memdup(arena, items.n ? (void *)items.v : "",
							      items.n * sizeof(*items.v)),
						 items.n } };
	VEC_FREE(&items);
	return ok ? 0 : not_a(VALUE_LIST, text, err);
}

int value_parse(enum value_type type, const char *text, struct arena *arena, struct value *ret,
		struct err *err)
{
	struct value v = { .type = type };

	switch (type) {
	case VALUE_NULL:
		if (strcmp(text, "null") != 0 && *text)
			return not_a(type, text, err);
		break;
	case VALUE_BOOL:
		if (!parse_bool(text, &v.b))
			return not_a(type, text, err);
		break;
	case VALUE_INT:
		if (!text_parse_int(text, &v.i))
			return not_a(type, text, err);
		break;
	case VALUE_FLOAT:
		if (!text_parse_double(text, &v.f) || !isfinite(v.f))
			return not_a(type, text, err);
		break;
	case VALUE_STRING:
		v.s = arena_strdup(arena, text);
		break;
	case VALUE_LIST:
		return parse_list(text, arena, ret, err);
	case VALUE_OBJECT: /* only steps make them */
		return not_a(type, text, err);
	}
	*ret = v;
	return 0;
}
