/* GET /api/v1/pipelines: the pipeline files of a project, checked, with what a form for a run
 * needs.
 */
#include "base/diag.h"
#include "base/os/fs.h"
#include "model/expr/value.h"
#include "model/pipeline.h"
#include "record/facts.h"
#include "serve/internal.h"
#include "serve/project/discover.h"

#define PIPELINES_MAX 500
#define PROBLEMS_MAX  50

static json_t *param_json(const struct param_decl *p)
{
	json_t *o = json_object(), *choices = p->n_choices ? json_array() : json_null();
	json_t *def = p->has_default ? value_json(&p->def) : NULL;

	for (size_t i = 0; i < p->n_choices; i++) {
		json_t *v = value_json(&p->choices[i]);

		json_array_append_new(choices, v ? v : json_null());
	}
	json_object_set_new(o, "name", facts_text(p->name));
	json_object_set_new(o, "type", json_string(value_type_name(p->type)));
	json_object_set_new(o, "required", json_boolean(!p->has_default));
	json_object_set_new(o, "default", def ? def : json_null());
	json_object_set_new(o, "min", p->has_min ? facts_number(p->min) : json_null());
	json_object_set_new(o, "max", p->has_max ? facts_number(p->max) : json_null());
	json_object_set_new(o, "enum", choices);
	json_object_set_new(o, "help", facts_text(p->help));
	return o;
}

static json_t *problems_json(struct diag_list *diags)
{
	json_t *list = json_array();

	for (size_t i = 0; i < diag_len(diags) && i < PROBLEMS_MAX; i++) {
		const struct diag *d = diag_at(diags, i);

		json_array_append_new(
			list, json_pack("{s:s, s:o, s:i, s:i, s:o}", "severity",
					d->severity == DIAG_ERROR ? "error" : "warning", "file",
					facts_text(d->file), "line", d->line, "column", d->col,
					"message", facts_text(d->message)));
	}
	return list;
}

static void add_contents(const struct pipeline *p, json_t *o)
{
	json_t *params = json_array(), *steps = json_array(), *sweeps = json_array(),
	       *schedules = json_array();

	for (size_t i = 0; p && i < p->n_params; i++)
		json_array_append_new(params, param_json(&p->params[i]));
	for (size_t i = 0; p && i < p->n_steps; i++)
		json_array_append_new(steps, facts_text(p->steps[p->order[i]].name));
	for (size_t i = 0; p && i < p->n_sweeps; i++)
		json_array_append_new(sweeps, facts_text(p->sweeps[i].name));
	for (size_t i = 0; p && i < p->n_schedules; i++)
		json_array_append_new(schedules, facts_text(p->schedules[i].name));
	json_object_set_new(o, "pipeline", facts_text(p ? p->name : NULL));
	json_object_set_new(o, "description", facts_text(p ? p->description : NULL));
	json_object_set_new(o, "params", params);
	json_object_set_new(o, "steps", steps);
	json_object_set_new(o, "sweeps", sweeps);
	json_object_set_new(o, "schedules", schedules);
}

static json_t *pipeline_json(struct api *a, const char *path)
{
	_cleanup_(diag_list_freep) struct diag_list *diags = diag_list_new();
	_cleanup_(freep) char *absolute = fs_join(a->project->root, path);
	_cleanup_(pipeline_freep) struct pipeline *p = NULL;
	struct pipeline_load_options o = { .project_root = a->project->root,
					   .uses_dir = a->project->config->uses_dir };
	struct err err = { 0 };
	json_t *j = json_object(), *problems;
	bool valid = pipeline_load(absolute, &o, diags, &p, &err) == 0;

	problems = problems_json(diags);
	if (!valid && json_array_size(problems) == 0)
		json_array_append_new(problems,
				      json_pack("{s:s, s:o, s:n, s:n, s:o}", "severity", "error",
						"file", facts_text(path), "line", "column",
						"message", facts_text(err.msg)));
	json_object_set_new(j, "path", facts_text(path));
	json_object_set_new(j, "valid", json_boolean(valid));
	json_object_set_new(j, "problems", problems);
	add_contents(valid ? p : NULL, j);
	return j;
}

void api_pipelines(struct api *a)
{
	const char *only = web_param(a->x, "path"), **paths;
	json_t *list = json_array();
	struct err err = { 0 };
	size_t n;

	/* A file that can't be read now is left out. */
	(void)project_discover(a->project->root, false, a->arena, &paths, &n, &err);
	for (size_t i = 0; i < n && json_array_size(list) < PIPELINES_MAX; i++)
		if (!only || str_eq(only, paths[i]))
			json_array_append_new(list, pipeline_json(a, paths[i]));
	web_answer_json(a->x, 200, json_pack("{s:o}", "pipelines", list));
}
