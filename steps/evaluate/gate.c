/* Checks conditions such as "roc_auc: >= 0.9" against the metrics. Dots in a metric's name stand
 * for nesting, but names may also contain dots themselves. */
#include <string.h>
#include "base/compare.h"
#include "base/mem.h"
#include "base/text/text.h"
#include "steps/evaluate/results.h"

static const json_t *find(const json_t *metrics, const char *name)
{
	const json_t *v = json_object_get(metrics, name);
	const char *key;
	json_t *member;

	if (v)
		return v;
	json_object_foreach((json_t *)(uintptr_t)metrics, key, member)
	{
		size_t n = strlen(key);

		if (strncmp(name, key, n) == 0 && name[n] == '.' && json_is_object(member) &&
		    (v = find(member, name + n + 1)))
			return v;
	}
	return NULL;
}

struct gate {
	const json_t *metrics; /* NULL: check only the form of the conditions */
	struct str why;
};

static int judge_one(struct gate *g, const char *name, const char *text, struct err *err)
{
	const json_t *metric = g->metrics ? find(g->metrics, name) : NULL;
	enum compare_op op;
	size_t n = compare_parse(text, &op);
	double limit;

	if (!n || !text_parse_double(text + n + strspn(text + n, " "), &limit))
		return err_set(err, ERR_INVALID,
			       "gate.%.60s: `%.60s` is no condition such as \">= 0.85\"", name,
			       text);
	if (json_is_number(metric) && compare_numbers(op, json_number_value(metric), limit))
		return 0;
	str_addf(&g->why, "%s%.100s is ", g->why.len ? ", " : "", name);
	if (json_is_number(metric))
		text_add_double(&g->why, json_number_value(metric));
	else
		str_add(&g->why, metric ? "not defined" : "no metric");
	str_addf(&g->why, ", not %.60s", text);
	return 0;
}

/* {ci: {accuracy: {low: "> 0.8"}}} means "ci.accuracy.low"; `-w gate.ci.accuracy.low=...` makes
 * this form.
 */
static int judge_all(struct gate *g, const char *prefix, const json_t *conditions, struct err *err)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)(uintptr_t)conditions, key, v)
	{
		_cleanup_(freep) char *name = xasprintf("%s%s%s", prefix, *prefix ? "." : "", key);

		if (json_is_object(v)
			    ? judge_all(g, name, v, err) < 0
			    : judge_one(g, name,
					json_is_string(v) ? json_string_value(v) : json_describe(v),
					err) < 0)
			return -1;
	}
	return 0;
}

int gate_check(const json_t *conditions, struct err *err)
{
	struct gate g = { 0 };
	int r = judge_all(&g, "", conditions, err);

	str_deinit(&g.why);
	return r;
}

int gate_judge(const json_t *conditions, const json_t *metrics, char **ret_why, struct err *err)
{
	struct gate g = { .metrics = metrics };
	int r = judge_all(&g, "", conditions, err);

	if (r == 0 && g.why.len) {
		*ret_why = str_take(&g.why);
		return 1;
	}
	str_deinit(&g.why);
	return r;
}
