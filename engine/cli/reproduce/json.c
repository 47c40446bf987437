#include "cli/cli.h"
#include "cli/reproduce/reproduction.h"
#include "record/facts.h"

static json_t *number(bool there, double v)
{
	return there ? facts_number(v) : json_null();
}

static json_t *output_json(const struct reproduced_output *o)
{
	const struct compare_result *c = &o->result;
	json_t *j = json_object();

	json_object_set_new(j, "name", facts_text(o->name));
	json_object_set_new(j, "was", facts_id(&o->was));
	json_object_set_new(j, "is", facts_id(&o->is));
	json_object_set_new(j, "verdict", json_string(compare_verdict_name(c->verdict)));
	json_object_set_new(j, "normaliser", facts_text(c->normaliser));
	json_object_set_new(j, "path", facts_text(c->path));
	json_object_set_new(j, "offset",
			    c->has_offset ? json_integer((json_int_t)c->offset) : json_null());
	json_object_set_new(j, "detail", facts_text(c->detail));
	json_object_set_new(j, "files",
			    json_pack("{s:I, s:I, s:I, s:I, s:I}", "compared",
				      (json_int_t)c->n_files, "normalised",
				      (json_int_t)c->n_normalised, "different",
				      (json_int_t)c->n_different, "missing",
				      (json_int_t)c->n_missing, "extra", (json_int_t)c->n_extra));
	return j;
}

static json_t *task_json(const struct reproduced_task *t)
{
	json_t *j = json_object(), *outputs = json_array(), *metrics = json_array();

	json_object_set_new(j, "task", facts_text(t->task));
	json_object_set_new(j, "step", facts_text(t->step));
	json_object_set_new(j, "verdict", json_string(reproduce_verdict_name(t->verdict)));
	json_object_set_new(j, "why", facts_text(t->why));
	json_object_set_new(j, "after_divergence", json_boolean(t->after_divergence));
	json_object_set_new(j, "was_duration_ns", json_integer(t->was_duration_ns));
	json_object_set_new(j, "duration_ns", json_integer(t->duration_ns));
	for (size_t i = 0; i < t->n_outputs; i++)
		json_array_append_new(outputs, output_json(&t->outputs[i]));
	for (size_t i = 0; i < t->n_metrics; i++) {
		const struct reproduced_metric *m = &t->metrics[i];

		json_array_append_new(metrics,
				      json_pack("{s:o, s:o, s:o, s:o, s:s}", "name",
						facts_text(m->name), "was", number(m->had, m->was),
						"is", number(m->has, m->is), "tolerance",
						number(m->tolerance > 0, m->tolerance), "verdict",
						compare_verdict_name(m->verdict)));
	}
	json_object_set_new(j, "outputs", outputs);
	json_object_set_new(j, "metrics", metrics);
	return j;
}

json_t *reproduction_json(const struct reproduction *r)
{
	json_t *j = json_object(), *tasks = json_array(), *environment = json_array();
	char hex[DIGEST_HEX_MAX];

	json_object_set_new(j, "original", json_string(digest_hex(&r->original, hex)));
	json_object_set_new(j, "was", facts_run(&r->was));
	json_object_set_new(j, "is", facts_run(&r->is));
	json_object_set_new(j, "mode",
			    json_string(r->mode == REPRODUCE_CHAINED ? "chained" : "isolated"));
	json_object_set_new(j, "verdict", json_string(compare_verdict_name(r->verdict)));
	json_object_set_new(j, "first",
			    r->first < r->n_tasks ? facts_text(r->tasks[r->first].task)
						  : json_null());
	for (size_t i = 0; i < r->n_tasks; i++)
		json_array_append_new(tasks, task_json(&r->tasks[i]));
	for (size_t i = 0; i < r->n_environment; i++) {
		json_t *e = json_object();

		json_object_set_new(e, "what", facts_text(r->environment[i].what));
		json_object_set_new(e, "was", facts_text(r->environment[i].was));
		json_object_set_new(e, "is", facts_text(r->environment[i].is));
		json_array_append_new(environment, e);
	}
	json_object_set_new(j, "tasks", tasks);
	json_object_set_new(j, "environment", environment);
	return j;
}
