#include "serve/notify/rules.h"

#include <string.h>
#include "model/pipeline.h"
#include "plan/metrics.h"
#include "record/facts.h"

/* Runs with more tasks than this aren't searched for metrics. */
#define TASKS_MAX 100000

struct values {
	struct facts_task *v;
	size_t n;
};

void notify_rules_write(json_t *row, const struct notify_decl *d, const char *before)
{
	json_t *rules = json_array();

	for (size_t i = 0; i < d->n_metrics; i++)
		json_array_append_new(rules, facts_text(d->metrics[i].text));
	json_object_set_new(row, "rules", rules);
	json_object_set_new(row, "before", facts_text(before));
}

static int read_values(struct project *p, struct db *db, const char *id, struct arena *arena,
		       struct values *ret, struct err *err)
{
	struct run_row run;
	struct store *s = NULL;

	if (record_find_run(db, id, arena, &run, err) < 0 || project_store(p, &s, err) < 0 ||
	    (run.counts.total > TASKS_MAX &&
	     err_set(err, ERR_TOO_LARGE, "it has more than %d tasks", TASKS_MAX) < 0) ||
	    facts_read_tasks(db, s, &run, arena, &ret->v, &ret->n, err) < 0)
		return err_wrap(err, "the metrics of run %s", id);
	return 0;
}

/* When several tasks have the metric, the last counts: results are in the pipeline's order. */
static bool value_of(const struct values *v, const char *metric, double *ret)
{
	for (size_t i = v->n; i-- > 0;)
		for (size_t k = 0; k < v->v[i].n_metrics; k++)
			if (str_eq(v->v[i].metrics[k].name, metric)) {
				*ret = v->v[i].metrics[k].value;
				return true;
			}
	return false;
}

/* A rule doesn't hold when the run, or the run before that it needs, lacks the metric. */
static json_t *holding(const struct notify_metric *rules, size_t n, const struct values *now,
		       const struct values *before)
{
	json_t *found = json_array();

	for (size_t i = 0; i < n; i++) {
		const struct notify_metric *m = &rules[i];
		double value, bound = m->bound;

		if (!value_of(now, m->metric, &value) ||
		    (m->last && !value_of(before, m->metric, &bound)) ||
		    !compare_numbers(m->op, value, bound))
			continue;
		json_array_append_new(found,
				      json_pack("{s:s, s:o, s:o}", "rule", m->text, "value",
						facts_number(value), "bound", facts_number(bound)));
	}
	return found;
}

static int read_rules(const json_t *row, struct arena *arena, struct notify_metric **ret,
		      size_t *ret_n, struct err *err)
{
	json_t *texts = json_object_get(row, "rules");
	struct notify_metric *v = arena_alloc(arena, (json_array_size(texts) + 1) * sizeof(*v));

	for (size_t i = 0; i < json_array_size(texts); i++) {
		const char *text = json_string_value(json_array_get(texts, i));

		if (!text || !notify_metric_parse(text, arena, &v[i]))
			return err_set(err, ERR_CORRUPT,
				       "the record of a metric rule can't be read");
	}
	*ret = v;
	*ret_n = json_array_size(texts);
	return 0;
}

int notify_rules_hold(struct project *p, const json_t *row, const char *run, json_t **ret,
		      struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	const char *last = json_string_value(json_object_get(row, "before"));
	struct values now = { 0 }, before = { 0 };
	struct notify_metric *rules = NULL;
	struct db *db = NULL;
	size_t n = 0;
	int r = -1;

	if (read_rules(row, arena, &rules, &n, err) == 0 && project_reader(p, &db, err) == 0 &&
	    read_values(p, db, run, arena, &now, err) == 0)
		r = last ? read_values(p, db, last, arena, &before, err) : 0;
	project_reader_return(p, db);
	if (r == 0)
		*ret = holding(rules, n, &now, &before);
	return r;
}
