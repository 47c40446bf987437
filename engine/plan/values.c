/* engine/plan/values.c — reads the `values` file of a step, and finds values in it.
 *
 * The parser is jansson's, which refuses duplicate names, NaN, text that isn't UTF-8, and NUL. It
 * would round numbers, though. So exact_numbers() first looks at every number as it is written: an
 * integer must fit 64 bits, and any other number must be what the double next to it prints with as
 * many digits. 0.1 and 0.10000000000000001 pass, and mean the same; 0.1234567890123456789 doesn't.
 *
 * Members are sorted by name, so that equal objects give equal text, keys and labels.
 */
#include "plan/values.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/text/text.h"

#define SHOWN        10      /* names that an error lists */
#define DIGITS_MAX   767     /* no double has more */
#define EXPONENT_MAX 2000000 /* more than a file of zeros can make up for */

/* Numbers. */

/* The digits of a decimal number without the zeros around them, and its exponent: its value is
 * 0.DIGITS × 10^exponent. */
struct decimal {
	struct str digits;
	long exponent;
};

/* False: it has an exponent that no double has. */
static bool read_decimal(const char *s, size_t n, struct decimal *ret)
{
	bool seen_point = false;
	size_t i = 0, kept;
	long exponent = 0;

	str_reset(&ret->digits);
	str_add(&ret->digits, "");
	for (i = s[0] == '-'; i < n && s[i] != 'e' && s[i] != 'E'; i++) {
		if (s[i] == '.') {
			seen_point = true;
			continue;
		}
		if (ret->digits.len || s[i] != '0')
			str_addc(&ret->digits, s[i]);
		exponent += seen_point ? ret->digits.len == 0 ? -1 : 0 : ret->digits.len > 0;
	}
	for (kept = ret->digits.len; kept && ret->digits.s[kept - 1] == '0';)
		ret->digits.s[--kept] = '\0';
	ret->digits.len = kept;
	if (i < n) {
		char *end;
		long e = strtol(s + i + 1, &end, 10);

		if (e > EXPONENT_MAX || e < -EXPONENT_MAX)
			return kept == 0;
		exponent += e;
	}
	ret->exponent = kept ? exponent : 0;
	return true;
}

static bool is_exact_float(const char *s, size_t n)
{
	struct decimal written = { 0 }, held = { 0 };
	char *text = xstrndup(s, n), *printed = NULL;
	double d = strtod(text, NULL);
	bool ok = isfinite(d) && read_decimal(text, n, &written);

	ok = ok && written.digits.len <= DIGITS_MAX;
	if (ok) {
		printed = xasprintf("%.*e", (int)MAX(written.digits.len, 1) - 1, d);
		ok = read_decimal(printed, strlen(printed), &held) &&
		     str_eq(written.digits.s, held.digits.s) && written.exponent == held.exponent;
	}
	free(text);
	free(printed);
	str_deinit(&written.digits);
	str_deinit(&held.digits);
	return ok;
}

static bool is_exact(const char *s, size_t n)
{
	_cleanup_(freep) char *text = NULL;
	int64_t i;

	for (size_t k = 0; k < n; k++)
		if (s[k] == '.' || s[k] == 'e' || s[k] == 'E')
			return is_exact_float(s, n);
	text = xstrndup(s, n);
	return strcmp(text, "-0") == 0 || text_parse_int(text, &i);
}

/* Goes over the bytes without judging anything but numbers. */
static int exact_numbers(const char *what, const char *s, size_t n, struct err *err)
{
	int line = 1;

	for (size_t i = 0, len; i < n; i += len) {
		len = 1;
		line += s[i] == '\n';
		if (s[i] == '"') {
			while (i + len < n && s[i + len] != '"')
				len += s[i + len] == '\\' ? 2 : 1;
			len = MIN(len + 1, n - i);
		} else if (s[i] == '-' || (s[i] >= '0' && s[i] <= '9')) {
			while (i + len < n && s[i + len] && strchr("0123456789.eE+-", s[i + len]))
				len++;
			if (!is_exact(s + i, len))
				return err_set(err, ERR_INVALID,
					       "%s, line %d: the number %.*s%s doesn't fit 64 "
					       "bits, and rounding it would change it: write it "
					       "as text, in quotes",
					       what, line, (int)MIN(len, 40), s + i,
					       len > 40 ? "…" : "");
		}
	}
	return 0;
}

/* Reading. */

struct reading {
	const char *what;
	struct arena *arena;
	struct err *err;
};

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct value_member *)a)->name,
		      ((const struct value_member *)b)->name);
}

static int convert(const struct reading *r, const json_t *j, int depth, struct value *ret);

static int convert_list(const struct reading *r, const json_t *j, int depth, struct value *ret)
{
	size_t n = json_array_size(j);
	struct value *v = arena_alloc(r->arena, (n + 1) * sizeof(*v));

	for (size_t i = 0; i < n; i++)
		if (convert(r, json_array_get(j, i), depth + 1, &v[i]) < 0)
			return -1;
	*ret = (struct value){ .type = VALUE_LIST, .list = { v, n } };
	return 0;
}

static int convert_object(const struct reading *r, const json_t *j, int depth, struct value *ret)
{
	size_t n = json_object_size(j), i = 0;
	struct value_member *v = arena_alloc(r->arena, (n + 1) * sizeof(*v));
	const char *name;
	json_t *member;

	json_object_foreach((json_t *)j, name, member)
	{
		v[i].name = arena_strdup(r->arena, name);
		if (convert(r, member, depth + 1, &v[i++].value) < 0)
			return -1;
	}
	qsort(v, n, sizeof(*v), by_name);
	*ret = (struct value){ .type = VALUE_OBJECT, .object = { v, n } };
	return 0;
}

static int convert(const struct reading *r, const json_t *j, int depth, struct value *ret)
{
	bool list = json_is_array(j);

	if (list || json_is_object(j)) {
		size_t n = list ? json_array_size(j) : json_object_size(j);

		if (depth > VALUES_MAX_DEPTH)
			return err_set(r->err, ERR_TOO_LARGE,
				       "%s: lists and objects lie deeper in one another than %d",
				       r->what, VALUES_MAX_DEPTH);
		if (n > VALUES_MAX_ITEMS)
			return err_set(
				r->err, ERR_TOO_LARGE,
				"%s: %s of %zu members is larger than %d: write such data to "
				"an output",
				r->what, list ? "a list" : "an object", n, VALUES_MAX_ITEMS);
		return list ? convert_list(r, j, depth, ret) : convert_object(r, j, depth, ret);
	}
	if (json_is_string(j))
		*ret = (struct value){ .type = VALUE_STRING,
				       .s = arena_strdup(r->arena, json_string_value(j)) };
	else if (json_is_integer(j))
		*ret = (struct value){ .type = VALUE_INT, .i = json_integer_value(j) };
	else if (json_is_real(j))
		*ret = (struct value){ .type = VALUE_FLOAT, .f = json_real_value(j) };
	else if (json_is_boolean(j))
		*ret = (struct value){ .type = VALUE_BOOL, .b = json_is_true(j) };
	else
		*ret = (struct value){ .type = VALUE_NULL };
	return 0;
}

int values_parse(const char *what, const char *json, size_t n, struct arena *arena,
		 struct value *ret, struct err *err)
{
	const struct reading r = { what, arena, err };
	_cleanup_(json_decrefp) json_t *root = NULL;

	if (n > VALUES_MAX_BYTES)
		return err_set(err, ERR_TOO_LARGE,
			       "%s: it has more than %d bytes: write such data to an output", what,
			       (int)VALUES_MAX_BYTES);
	if (exact_numbers(what, json, n, err) < 0 || json_parse(what, json, n, &root, err) < 0)
		return -1;
	if (!json_is_object(root))
		return err_set(err, ERR_INVALID,
			       "%s: it must be a JSON object, {\"name\": value}, not %s", what,
			       json_describe(root));
	return convert(&r, root, 1, ret);
}

/* Finding. */

static const struct value *member(const struct value *object, const char *name, size_t len)
{
	size_t lo = 0, hi = object->object.n;

	while (lo < hi) {
		size_t mid = (lo + hi) / 2;
		const struct value_member *m = &object->object.v[mid];
		int order = strncmp(name, m->name, len);

		if (order == 0 && m->name[len] == '\0')
			return &m->value;
		if (order > 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

/* The longest beginning of `path` that names a member. */
static const struct value *longest(const struct value *object, const char *path, size_t *ret_len)
{
	for (size_t len = strlen(path); len; len--) {
		const struct value *v =
			path[len] == '\0' || path[len] == '.' ? member(object, path, len) : NULL;

		*ret_len = len;
		if (v)
			return v;
	}
	return NULL;
}

static const struct value *item(const struct value *list, const char *path, size_t *ret_len)
{
	size_t i = 0, len = strspn(path, "0123456789");

	*ret_len = len;
	if (len == 0 || len > 9 || (path[len] && path[len] != '.'))
		return NULL;
	for (size_t k = 0; k < len; k++)
		i = i * 10 + (size_t)(path[k] - '0');
	return i < list->list.n ? &list->list.v[i] : NULL;
}

static int missing(const struct value *in, const char *path, size_t at, struct err *err)
{
	_cleanup_(str_deinit) struct str there = { 0 };
	int before = (int)(at ? at - 1 : 0);

	if (in->type == VALUE_LIST)
		return err_set(err, ERR_NOT_FOUND,
			       "there is no `%s`: `%.*s` is a list of %zu, its items are 0 to %zu",
			       path, before, path, in->list.n, in->list.n ? in->list.n - 1 : 0);
	if (in->type != VALUE_OBJECT)
		return err_set(err, ERR_NOT_FOUND, "there is no `%s`: `%.*s` is %s", path, before,
			       path, value_type_phrase(in->type));
	for (size_t i = 0; i < MIN(in->object.n, (size_t)SHOWN); i++)
		str_addf(&there, "%s`%.60s`", i ? ", " : "", in->object.v[i].name);
	if (in->object.n > SHOWN)
		str_addf(&there, " and %zu more", in->object.n - SHOWN);
	if (at == 0)
		return err_set(err, ERR_NOT_FOUND, "there is no `%s`, but %s", path,
			       there.len ? there.s : "nothing at all");
	return err_set(err, ERR_NOT_FOUND, "there is no `%s`: `%.*s` has %s", path, before, path,
		       there.len ? there.s : "no members");
}

int values_at(const struct value *v, const char *path, const struct value **ret, struct err *err)
{
	const char *p = path;

	for (;;) {
		const struct value *next = NULL;
		size_t len = 0;

		if (v->type == VALUE_OBJECT)
			next = longest(v, p, &len);
		else if (v->type == VALUE_LIST)
			next = item(v, p, &len);
		if (!next)
			return missing(v, path, (size_t)(p - path), err);
		v = next;
		if (p[len] == '\0')
			break;
		p += len + 1;
	}
	*ret = v;
	return 0;
}

bool values_hold(const struct value *v, const char *s)
{
	switch (v->type) {
	case VALUE_STRING:
		return strstr(v->s, s) != NULL;
	case VALUE_LIST:
		for (size_t i = 0; i < v->list.n; i++)
			if (values_hold(&v->list.v[i], s))
				return true;
		return false;
	case VALUE_OBJECT:
		for (size_t i = 0; i < v->object.n; i++)
			if (strstr(v->object.v[i].name, s) || values_hold(&v->object.v[i].value, s))
				return true;
		return false;
	default:
		return false;
	}
}
