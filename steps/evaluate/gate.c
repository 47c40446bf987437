/* "roc_auc: >= 0.9": held against the metrics, whose names have dots where they are nested (names may have dots of their own). */
#include <string.h>
#include "base/text.h"
#include "steps/evaluate/results.h"

static const char *const operators[] = { ">=", "<=", "==", "!=", ">", "<" };

static int parse(const char *name, const char *text, size_t *ret_operator, double *ret, struct err *err)
{
	size_t i = 0;
	const char *p;

	while (i < ARRAY_LEN(operators) && !str_has_prefix(text, operators[i]))
		i++;
	if (i < ARRAY_LEN(operators)) {
		p = text + strlen(operators[i]);
		p += strspn(p, " ");
		if (text_parse_double(p, ret)) {
			*ret_operator = i;
			return 0;
		}
	}
	return err_set(err, ERR_INVALID, "gate.%.60s: `%.60s` is no condition such as \">= 0.85\"", name, text);
}

static bool holds(double v, size_t operator, double limit)
{
	switch (operator) {
	case 0:
		return v >= limit;
	case 1:
		return v <= limit;
	case 2:
		return v == limit;
	case 3:
		return v != limit;
	case 4:
		return v > limit;
	default:
		return v < limit;
	}
}

static const json_t *find(const json_t *metrics, const char *name)
{
	const json_t *v = json_object_get(metrics, name);
	const char *key;
	json_t *member;

	if (v)
		return v;
	json_object_foreach ((json_t *)(uintptr_t)metrics, key, member) {
		size_t n = strlen(key);

		if (strncmp(name, key, n) == 0 && name[n] == '.' && json_is_object(member) && (v = find(member, name + n + 1)))
			return v;
	}
	return NULL;
}

int gate_check(const json_t *gate, struct err *err)
{
	const char *name;
	json_t *v;
	size_t operator;
	double limit;

	json_object_foreach ((json_t *)(uintptr_t)gate, name, v)
		if (parse(name, json_string_value(v), &operator, &limit, err) < 0)
			return -1;
	return 0;
}

int gate_judge(const json_t *gate, const json_t *metrics, char **ret_why, struct err *err)
{
	_cleanup_(str_deinit) struct str why = { 0 };
	const char *name;
	json_t *v;

	str_add(&why, "");
	json_object_foreach ((json_t *)(uintptr_t)gate, name, v) {
		const json_t *metric = find(metrics, name);
		size_t operator;
		double limit;

		if (parse(name, json_string_value(v), &operator, &limit, err) < 0)
			return -1;
		if (json_is_number(metric) && holds(json_number_value(metric), operator, limit))
			continue;
		str_addf(&why, "%s%.100s is ", why.len ? ", " : "", name);
		if (json_is_number(metric))
			text_add_double(&why, json_number_value(metric));
		else
			str_add(&why, metric ? "not defined" : "no metric");
		str_addf(&why, ", not %s", json_string_value(v));
	}
	if (!why.len)
		return 0;
	*ret_why = str_take(&why);
	return 1;
}
