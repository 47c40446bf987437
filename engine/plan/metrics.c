/* engine/plan/metrics.c — a step's metrics file, flattened to names and numbers, and its gates.
 *
 * flatten() walks the JSON with the name so far in one string. Numbers and booleans become metrics;
 * text doesn't, and metrics_first_text() finds it, so that its author is told. The file is hostile
 * input, bounded by METRICS_MAX_BYTES and METRICS_MAX. Any thread.
 */
#include "plan/metrics.h"
#include <jansson.h>
#include <math.h>
#include <string.h>
#include "base/text/text.h"

struct flattener {
	struct arena *arena;
	VEC(struct metric_value) out;
	struct str name;
	bool too_many;
};

static void flatten(struct flattener *f, const json_t *v);

static void flatten_member(struct flattener *f, const char *key, const json_t *v)
{
	size_t len = f->name.len;

	if (len)
		str_addc(&f->name, '.');
	str_add(&f->name, key);
	flatten(f, v);
	f->name.len = len;
	f->name.s[len] = '\0';
}

static void flatten(struct flattener *f, const json_t *v)
{
	const char *key;
	json_t *member;
	size_t i;
	char index[24];

	if (json_is_object(v)) {
		json_object_foreach((json_t *)v, key, member) flatten_member(f, key, member);
	} else if (json_is_array(v)) {
		json_array_foreach(v, i, member)
		{
			snprintf(index, sizeof(index), "%zu", i);
			flatten_member(f, index, member);
		}
	} else if (json_is_number(v) || json_is_boolean(v)) {
		struct metric_value m = { .value = json_is_boolean(v) ? json_is_true(v)
								      : json_number_value(v) };

		f->too_many |= f->out.n >= METRICS_MAX;
		if (f->too_many)
			return;
		m.name = arena_strndup(f->arena, f->name.s, f->name.len);
		VEC_PUSH(&f->out, m);
	}
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct metric_value *)a)->name,
		      ((const struct metric_value *)b)->name);
}

int metrics_parse(const char *json, struct arena *arena, struct metric_value **ret, size_t *ret_n,
		  struct err *err)
{
	struct flattener f = { .arena = arena };
	json_error_t je;
	json_t *root = json_loads(json, JSON_REJECT_DUPLICATES, &je);

	if (!json_is_object(root)) {
		json_decref(root);
		return err_set(err, ERR_INVALID,
			       "metrics must be a JSON object: line %d, column %d: %s",
			       root ? 1 : je.line, root ? 1 : je.column,
			       root ? "it is something else" : json_problem(&je));
	}
	str_add(&f.name, "");
	flatten(&f, root);
	json_decref(root);
	str_deinit(&f.name);
	if (f.too_many) {
		VEC_FREE(&f.out);
		return err_set(err, ERR_TOO_LARGE, "metrics hold more than %d numbers",
			       METRICS_MAX);
	}
	if (f.out.n)
		qsort(f.out.v, f.out.n, sizeof(*f.out.v), by_name);
	VEC_TO_ARENA(&f.out, arena, ret, ret_n);
	return 0;
}

/* `name` is that of `v`, and afterwards that of the text. */
static bool find_text(const json_t *v, struct str *name)
{
	size_t len = name->len;
	const char *key;
	json_t *member;

	if (json_is_string(v))
		return true;
	json_object_foreach((json_t *)(uintptr_t)v, key, member)
	{
		str_addf(name, "%s%s", len ? "." : "", key);
		if (find_text(member, name))
			return true;
		name->len = len;
	}
	return false;
}

const char *metrics_first_text(const char *json, struct arena *arena)
{
	_cleanup_(json_decrefp) json_t *root = json_loads(json, 0, NULL);
	_cleanup_(str_deinit) struct str name = { 0 };

	str_add(&name, "");
	return json_is_object(root) && find_text(root, &name)
		       ? arena_strndup(arena, name.s, name.len)
		       : NULL;
}

void metrics_json(const struct metric_value *m, size_t n, struct str *out)
{
	json_t *o = json_object();
	char *text;

	for (size_t i = 0; i < n; i++)
		json_object_set_new(o, m[i].name, json_real(m[i].value));
	text = json_dumps(o, JSON_COMPACT | JSON_SORT_KEYS);
	str_add(out, text);
	free(text);
	json_decref(o);
}

/* Metrics that the step did give, to tell a wrong name. */
#define NAMED_MAX 12

static void add_names(struct str *out, const char *wanted, const struct metric_value *m, size_t n)
{
	_cleanup_(freep) const char **names = xcalloc(n + 1, sizeof(*names));

	for (size_t i = 0; i < n; i++)
		names[i] = m[i].name;
	str_add(out, n ? "; it gave " : "; it gave none");
	text_add_names(out, names, n, NAMED_MAX);
	text_add_suggestion(out, wanted, names, n);
}

int metrics_gate(const struct step *s, const struct metric_value *m, size_t n, struct err *err)
{
	_cleanup_(str_deinit) struct str names = { 0 };

	for (size_t i = 0; i < s->measured->n_gates; i++) {
		const struct gate_rule *g = &s->measured->gates[i];
		size_t k = 0;

		while (k < n && strcmp(m[k].name, g->metric) != 0)
			k++;
		if (k == n) {
			add_names(&names, g->metric, m, n);
			return err_set(err, ERR_FAILED,
				       "gate failed: the step gave no metric `%s`%s (%s:%d:%d)",
				       g->metric, names.s, g->pos.file, g->pos.line, g->pos.col);
		}
		if (!compare_numbers(g->op, m[k].value, g->bound))
			return err_set(err, ERR_FAILED,
				       "gate failed: %s is %.6g, must be %s (%s:%d:%d)", g->metric,
				       m[k].value, g->text, g->pos.file, g->pos.line, g->pos.col);
	}
	return 0;
}
