/* steps/normalise/json.c — JSON: values.
 *
 * Both texts are parsed as a whole (SIZE_MAX_JSON bounds them) and compared in one recursion, whose
 * depth the parser bounds. An integer and a real of the same value are equal. -0.0 equals no
 * integer, and a real beyond 2^53 equals only the integer with exactly its value. The first
 * difference is reported by its path, `$.a[3]`; the order of keys doesn't matter. The parser
 * refuses duplicate keys.
 */
#include "base/text/json.h"
#include <math.h>
#include <string.h>
#include "base/text/text.h"
#include "steps/normalise/normalise.h"

#define SIZE_MAX_JSON (64 * MIB) /* a parsed value takes about ten times its text */

struct path {
	const struct path *up;
	const char *key; /* NULL: index */
	size_t index;
};

static void add_path(struct str *out, const struct path *p)
{
	if (!p) {
		str_addc(out, '$');
		return;
	}
	add_path(out, p->up);
	if (p->key)
		str_addf(out, ".%s", p->key);
	else
		str_addf(out, "[%zu]", p->index);
}

static const char *shown(struct normalise_job *j, const json_t *v)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	if (json_is_array(v) || json_is_object(v))
		return json_describe(v);
	json_add_canonical(&s, v);
	return normalise_text(j, s.s, s.len);
}

static bool same_number(const json_t *a, const json_t *b)
{
	if (json_is_integer(a) && json_is_integer(b))
		return json_integer_value(a) == json_integer_value(b);
	if (json_is_real(a) && json_is_real(b))
		return json_real_value(a) == json_real_value(b) &&
		       !signbit(json_real_value(a)) == !signbit(json_real_value(b));
	/* An integer and a real. Beyond 2^53 several integers convert to one double, so it must
	 * convert back to this one. */
	double real = json_is_real(a) ? json_real_value(a) : json_real_value(b);
	int64_t whole = json_is_real(a) ? json_integer_value(b) : json_integer_value(a);

	if (real == 0 && signbit(real)) /* no integer is -0.0 */
		return false;
	return real >= -9223372036854775808.0 && real < 9223372036854775808.0 &&
	       (int64_t)real == whole && real == trunc(real);
}

static bool report(struct normalise_job *j, const struct path *at, const char *text,
		   struct normalised *ret)
{
	_cleanup_(str_deinit) struct str s = { 0 };

	add_path(&s, at);
	ret->detail = arena_printf(j->arena, "`%s`: %s", normalise_text(j, s.s, s.len), text);
	return false;
}

static bool same(struct normalise_job *j, const json_t *a, const json_t *b, const struct path *at,
		 struct normalised *ret);

static bool same_array(struct normalise_job *j, const json_t *a, const json_t *b,
		       const struct path *at, struct normalised *ret)
{
	size_t n = MIN(json_array_size(a), json_array_size(b));

	for (size_t i = 0; i < n; i++) {
		struct path here = { .up = at, .index = i };

		if (!same(j, json_array_get(a, i), json_array_get(b, i), &here, ret))
			return false;
	}
	if (json_array_size(a) == json_array_size(b))
		return true;
	return report(j, at,
		      arena_printf(j->arena, "%zu items → %zu items", json_array_size(a),
				   json_array_size(b)),
		      ret);
}

static bool same_object(struct normalise_job *j, const json_t *a, const json_t *b,
			const struct path *at, struct normalised *ret)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)a, key, v)
	{
		struct path here = { .up = at, .key = key };

		if (!json_object_get(b, key))
			return report(j, &here, arena_printf(j->arena, "%s → absent", shown(j, v)),
				      ret);
		if (!same(j, v, json_object_get(b, key), &here, ret))
			return false;
	}
	json_object_foreach((json_t *)b, key, v)
	{
		struct path here = { .up = at, .key = key };

		if (!json_object_get(a, key))
			return report(j, &here, arena_printf(j->arena, "absent → %s", shown(j, v)),
				      ret);
	}
	return true;
}

/* Depth is bounded by the parser's. */
static bool same(struct normalise_job *j, const json_t *a, const json_t *b, const struct path *at,
		 struct normalised *ret)
{
	bool equal;

	if (json_is_array(a) && json_is_array(b))
		return same_array(j, a, b, at, ret);
	if (json_is_object(a) && json_is_object(b))
		return same_object(j, a, b, at, ret);
	equal = json_is_number(a) && json_is_number(b)
			? same_number(a, b)
			: json_typeof(a) == json_typeof(b) && json_equal(a, b);
	return equal ||
	       report(j, at, arena_printf(j->arena, "%s → %s", shown(j, a), shown(j, b)), ret);
}

static int parse(struct span s, json_t **ret, struct err *err)
{
	if (s.n > SIZE_MAX_JSON)
		return err_set(err, ERR_TOO_LARGE, "more than %llu bytes", SIZE_MAX_JSON);
	return json_parse("json", (const char *)s.p, s.n, ret, err);
}

int normalise_json(struct normalise_job *j, struct span a, struct span b, struct normalised *ret,
		   struct err *err)
{
	json_t *ja = NULL, *jb = NULL;
	int r = parse(a, &ja, err) < 0 || parse(b, &jb, err) < 0 ? -1 : 0;

	if (r == 0) {
		*ret = (struct normalised){ .normaliser = "json" };
		ret->verdict = same(j, ja, jb, NULL, ret) ? NORMALISED_SAME : NORMALISED_DIFFERENT;
		if (ret->verdict == NORMALISED_SAME)
			ret->detail = "order of keys, spaces, escapes or how numbers are written";
	}
	json_decref(ja);
	json_decref(jb);
	return r;
}
