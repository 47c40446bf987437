/* engine/model/sweep.c — reads `sweeps`: searches over the pipeline's params.
 *
 * Sweeps are read after params and steps, which they name. Every value that a sweep may try is
 * checked against its param's declaration here: the values of a list one by one, a range by its two
 * ends. So no trial is refused for its params after hours.
 *
 * Invariants of a decl: each param stands once; a range belongs to an int or a float, and a
 * logarithmic one is above 0; a grid has lists or ranges of ints only, and its trials are its
 * points; `rungs` is set only if sweep_has_rungs(). Not here: choosing values (run/sweep/search.h).
 */
#include <math.h>
#include "model/read.h"

static const char *const search_names[SWEEP_SEARCHES] = { "grid", "random",  "sobol",
							  "tpe",  "halving", "asha" };

const char *sweep_search_name(enum sweep_search s)
{
	return (unsigned)s < SWEEP_SEARCHES ? search_names[s] : "?";
}

const struct sweep_decl *pipeline_find_sweep(const struct pipeline *p, const char *name)
{
	for (size_t i = 0; i < p->n_sweeps; i++)
		if (strcmp(p->sweeps[i].name, name) == 0)
			return &p->sweeps[i];
	return NULL;
}

/* The param of that name; NULL after a report. */
static const struct param_decl *param_at(struct loader *l, const struct yaml_node *at,
					 const char *name, uint32_t *ret)
{
	size_t i = (size_t)(uintptr_t)map_get_str(l->names.params, name);

	if (i == 0) {
		doc_error(&l->doc, at, "the pipeline has no param `%.60s`%s", name,
			  param_hint(name, l->params.v, l->n_own_params, l->scratch));
		return NULL;
	}
	*ret = (uint32_t)(i - 1);
	return &l->params.v[i - 1];
}

#define INT_EXACT_MAX 9007199254740992.0 /* 2^53: a double holds every int up to it */

/* One end of a range, in the param's type and within its declaration. */
static bool read_end(const struct doc *d, const struct yaml_node *n, const char *what,
		     const struct param_decl *decl, double *ret)
{
	struct err err = { 0 };
	struct value v, fit;

	if (!read_value_as(d, n, decl->type, what, &v))
		return false;
	if (param_check_value(decl, &v, &fit, &err) < 0) {
		doc_error(d, n, "param `%s` %s", decl->name, err.msg);
		return false;
	}
	*ret = fit.type == VALUE_INT ? (double)fit.i : fit.f;
	if (isfinite(*ret) && (fit.type == VALUE_FLOAT || fabs(*ret) <= INT_EXACT_MAX))
		return true;
	doc_error(d, n, "%s is too large for a search", what);
	return false;
}

static bool read_range(const struct doc *d, const struct yaml_node *key, const struct yaml_node *n,
		       const struct param_decl *decl, struct sweep_param *ret)
{
	static const char *const keys[] = { "min", "max", "scale" }, *const scales[] = { "linear",
											 "log" };
	const struct yaml_node *min = yaml_get(n, "min"), *max = yaml_get(n, "max"),
			       *scale = yaml_get(n, "scale");
	const char *chosen = scales[0];

	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	if (decl->type != VALUE_INT && decl->type != VALUE_FLOAT) {
		doc_error(d, n,
			  "param `%s` is %s, which has no range: write a list of values, [a, b]",
			  decl->name, value_type_phrase(decl->type));
		return false;
	}
	if (!min || !max) {
		doc_error(d, key, "the range of param `%s` has no `%s`", decl->name,
			  min ? "max" : "min");
		return false;
	}
	if (!read_end(d, min, "`min`", decl, &ret->min) ||
	    !read_end(d, max, "`max`", decl, &ret->max) ||
	    (scale && !read_choice(d, scale, "`scale`", scales, ARRAY_LEN(scales), &chosen)))
		return false;
	ret->log = chosen == scales[1];
	if (ret->min >= ret->max)
		doc_error(d, max, "`max` must be larger than `min`");
	else if (ret->log && ret->min <= 0)
		doc_error(d, min, "a range with `scale: log` must be above 0");
	else
		return true;
	return false;
}

static bool read_values(const struct doc *d, const struct yaml_node *n,
			const struct param_decl *decl, struct sweep_param *ret)
{
	struct value *values = arena_alloc(d->l->arena, (n->len + 1) * sizeof(*values)), v;
	bool ok = n->len > 0;

	if (!ok)
		doc_error(d, n, "param `%s` has no values to try", decl->name);
	for (size_t i = 0; i < n->len; i++) {
		struct err err = { 0 };

		if (!read_value_as(d, n->items[i], decl->type, "a param", &v)) {
			ok = false;
			continue;
		}
		if (param_check_value(decl, &v, &values[i], &err) < 0) {
			doc_error(d, n->items[i], "param `%s` %s", decl->name, err.msg);
			ok = false;
		}
		for (size_t k = 0; k < i && ok; k++)
			if (value_eq(&values[i], &values[k])) {
				doc_error(d, n->items[i], "param `%s` has this value twice",
					  decl->name);
				ok = false;
			}
	}
	ret->values = values;
	ret->n_values = n->len;
	return ok;
}

typedef VEC(struct sweep_param) param_list;

/* A mapping whose name is no param's is a group of params, as in the pipeline's `params`. Recursion
 * is bounded by YAML_DEPTH_MAX. */
static bool read_group(struct loader *l, const struct yaml_node *map, const char *group,
		       param_list *list)
{
	const struct doc *d = &l->doc;
	bool ok = true;

	for (size_t i = 0; i < map->len; i++) {
		const struct yaml_node *key = map->pairs[i].key, *v = map->pairs[i].value;
		const char *name =
			group ? arena_printf(l->scratch, "%s.%s", group, key->text) : key->text;
		const struct param_decl *decl;
		struct sweep_param p = { 0 };

		if (v->kind == YAML_KIND_MAP && v->len && !map_get_str(l->names.params, name) &&
		    v->pairs[0].value->kind >= YAML_KIND_SEQ) {
			ok &= read_group(l, v, name, list);
			continue;
		}
		decl = param_at(l, key, name, &p.param);
		if (!decl)
			ok = false;
		else if (v->kind == YAML_KIND_MAP)
			ok &= read_range(d, key, v, decl, &p);
		else if (v->kind == YAML_KIND_SEQ)
			ok &= read_values(d, v, decl, &p);
		else {
			doc_error(d, v,
				  "param `%s` needs values to try, [a, b], or a range, {min: 0, "
				  "max: 1}, not %s",
				  decl->name, yaml_describe(v));
			ok = false;
		}
		for (size_t k = 0; decl && k < list->n; k++)
			if (list->v[k].param == p.param) {
				doc_error(d, key, "param `%s` stands here twice", decl->name);
				ok = false;
			}
		VEC_PUSH(list, p);
	}
	return ok;
}

static bool read_sweep_params(struct loader *l, const struct yaml_node *n, struct sweep_decl *s)
{
	param_list list = { 0 };
	struct sweep_param *params;
	bool ok;

	if (!doc_want_map(&l->doc, n, "`params` of a sweep"))
		return false;
	ok = read_group(l, n, NULL, &list);
	if (ok && (list.n == 0 || list.n > SWEEP_PARAMS_MAX)) {
		doc_error(&l->doc, n, "a sweep searches over 1 to %d params, not %zu",
			  SWEEP_PARAMS_MAX, list.n);
		ok = false;
	}
	VEC_TO_ARENA(&list, l->arena, &params, &s->n_params);
	s->params = params;
	return ok;
}

static bool read_objective(struct loader *l, const struct yaml_node *key, const struct yaml_node *n,
			   struct sweep_decl *s)
{
	const struct yaml_node *max = yaml_get(n, "maximize"), *min = yaml_get(n, "minimize"),
			       *v = max ? max : min;
	const struct doc *d = &l->doc;
	const char *dot, *step;
	size_t at;

	if (!v || (max && min)) {
		doc_error(d, v ? min : key,
			  v ? "`maximize` and `minimize` can't both stand here"
			    : "sweep `%s` has no objective: write `maximize: STEP.METRIC` or "
			      "`minimize: STEP.METRIC`",
			  s->name);
		return false;
	}
	s->maximize = v == max;
	if (!doc_want_text(d, v, max ? "`maximize`" : "`minimize`"))
		return false;
	s->objective = doc_text(d, v);
	dot = strchr(s->objective, '.');
	if (!dot || dot == s->objective || !dot[1]) {
		doc_error(d, v,
			  "`%.60s` names no metric: write STEP.METRIC, such as "
			  "evaluate.accuracy",
			  s->objective);
		return false;
	}
	step = arena_strndup(l->arena, s->objective, (size_t)(dot - s->objective));
	s->metric = dot + 1;
	at = (size_t)(uintptr_t)map_get_str(l->names.steps, step);
	if (at == 0) {
		doc_error(d, v, "the pipeline has no step `%.60s`%s", step,
			  doc_suggest_key(l, step, l->names.steps));
		return false;
	}
	if (at & USE_BIT) {
		doc_error(
			d, v,
			"step `%s` uses a pipeline: the objective of a sweep is a metric of a step "
			"in this file. Let one write it, or put the sweep into the other file",
			step);
		return false;
	}
	s->step = (uint32_t)(at - 1);
	if (!l->steps[s->step].measured->metrics) {
		doc_error(d, v, "step `%s` has no `metrics`, so `%.60s` never gets a value", step,
			  s->metric);
		return false;
	}
	return true;
}

static void read_rungs(struct loader *l, const struct yaml_node *n, struct sweep_decl *s)
{
	static const char *const keys[] = { "param", "min", "max", "factor" };
	const struct doc *d = &l->doc;
	const struct yaml_node *param, *min, *max, *factor;
	const struct param_decl *decl;
	double lo = 0, hi = 0;
	int64_t v = 3;

	if (!doc_want_map(d, n, "`rungs`"))
		return;
	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	param = yaml_get(n, "param");
	min = yaml_get(n, "min");
	max = yaml_get(n, "max");
	factor = yaml_get(n, "factor");
	if (!param || !min || !max) {
		doc_error(d, n,
			  "`rungs` needs `param`, `min` and `max`, such as {param: epochs, "
			  "min: 1, max: 27}");
		return;
	}
	if (!doc_want_text(d, param, "`param`") ||
	    !(decl = param_at(l, param, param->text, &s->rungs.param)))
		return;
	if (decl->type != VALUE_INT) {
		doc_error(d, param, "param `%s` is %s; `rungs` multiplies an int", decl->name,
			  value_type_phrase(decl->type));
		return;
	}
	if (!read_end(d, min, "`min`", decl, &lo) || !read_end(d, max, "`max`", decl, &hi))
		return;
	if (factor)
		read_count(d, factor, "`factor`", 2, 1000, &v);
	if (lo < 1)
		doc_error(d, min, "`min` must be at least 1");
	else if (lo >= hi)
		doc_error(d, max, "`max` must be larger than `min`");
	s->rungs.min = (int64_t)lo;
	s->rungs.max = (int64_t)hi;
	s->rungs.factor = (uint32_t)v;
	for (size_t i = 0; i < s->n_params; i++)
		if (s->params[i].param == s->rungs.param)
			doc_error(d, param, "param `%s` can't be searched and be the rungs' param",
				  decl->name);
}

#define EARLY_STOP_TRIALS 5

/* true, or {after: 3, trials: 5}. */
static void read_early_stop(struct loader *l, const struct yaml_node *n, const struct step *step,
			    struct sweep_decl *s)
{
	static const char *const keys[] = { "after", "trials" };
	const struct doc *d = &l->doc;
	const struct yaml_node *v;
	int64_t trials = EARLY_STOP_TRIALS, after = 0;
	bool on = true;

	if (n->kind == YAML_KIND_SCALAR) {
		read_bool(d, n, "`early_stop`", &on);
		if (!on)
			return;
	} else {
		if (!doc_want_map(d, n, "`early_stop`"))
			return;
		doc_check_keys(d, n, keys, ARRAY_LEN(keys));
		if ((v = yaml_get(n, "after")))
			read_count(d, v, "`after`", 0, INT64_MAX, &after);
		if ((v = yaml_get(n, "trials")))
			read_count(d, v, "`trials`", 1, SWEEP_TRIALS_MAX, &trials);
	}
	if (sweep_has_rungs(s))
		doc_error(d, n,
			  "`early_stop` has no meaning with `search: %s`, whose rungs end "
			  "bad trials",
			  search_names[s->search]);
	else if (step && !step->measured->series)
		doc_error(
			d, n,
			"`early_stop` looks at metrics over time while they are written, and step "
			"`%s` has no `series`: name a file of JSON lines or CSV, or a directory of "
			"event files",
			step->name);
	else if (step && (step->tasks->matrix.n_axes || step->tasks->matrix.n_include ||
			  step->tasks->each || step->tasks->repeat))
		doc_error(d, n, "`early_stop` needs one task to look at, and step `%s` has several",
			  step->name);
	s->early_stop.trials = (uint32_t)trials;
	s->early_stop.after = (uint64_t)after;
}

/* The number of points of a grid. */
static void count_grid(struct loader *l, const struct yaml_node *at, struct sweep_decl *s)
{
	double n = 1;

	for (size_t i = 0; i < s->n_params; i++) {
		const struct sweep_param *p = &s->params[i];
		const struct param_decl *decl = &l->params.v[p->param];

		if (!p->values && decl->type == VALUE_FLOAT) {
			doc_error(&l->doc, at,
				  "a grid needs a list of values for `%s`, [a, b]: a range of "
				  "floats has no end (or use `search: sobol`)",
				  decl->name);
			return;
		}
		n *= p->values ? (double)p->n_values : p->max - p->min + 1;
	}
	if (n > SWEEP_GRID_MAX)
		doc_error(
			&l->doc, at,
			"this grid has %.0f points; at most %d are allowed: give fewer values, or "
			"use `search: sobol` with `trials`",
			n, SWEEP_GRID_MAX);
	else
		s->trials = (uint32_t)n;
}

static void read_search(struct loader *l, const struct yaml_node *key, const struct yaml_node *n,
			bool params_ok, struct sweep_decl *s)
{
	const struct yaml_node *search = yaml_get(n, "search"), *trials = yaml_get(n, "trials"),
			       *rungs = yaml_get(n, "rungs");
	const struct doc *d = &l->doc;
	const char *name = NULL;
	int64_t v = 0;

	if (!search) {
		doc_error(d, key,
			  "sweep `%s` has no `search`: grid, random, sobol, tpe, halving or asha",
			  s->name);
		return;
	}
	if (!read_choice(d, search, "`search`", search_names, SWEEP_SEARCHES, &name))
		return;
	while (search_names[s->search] != name)
		s->search++;
	if (s->search == SWEEP_GRID && params_ok)
		count_grid(l, search, s);
	if (s->search == SWEEP_GRID && trials)
		doc_error(d, trials,
			  "a grid tries each of its points once: `trials` has no "
			  "meaning here");
	else if (trials && read_count(d, trials, "`trials`", 1, SWEEP_TRIALS_MAX, &v))
		s->trials = (uint32_t)v;
	else if (!trials && s->search != SWEEP_GRID)
		doc_error(d, key, "sweep `%s` has no `trials`", s->name);
	if (rungs && !sweep_has_rungs(s))
		doc_error(d, rungs,
			  "`rungs` has no meaning without `search: halving` or `search: asha`");
	else if (rungs)
		read_rungs(l, rungs, s);
	else if (sweep_has_rungs(s))
		doc_error(d, key,
			  "sweep `%s` needs `rungs`, such as {param: epochs, min: 1, max: 27}",
			  s->name);
}

static bool is_searched(const struct sweep_decl *s, uint32_t param)
{
	for (size_t i = 0; i < s->n_params; i++)
		if (s->params[i].param == param)
			return true;
	return sweep_has_rungs(s) && s->rungs.param == param;
}

static void read_sweep(struct loader *l, const struct yaml_node *key, const struct yaml_node *n,
		       struct sweep_decl *s)
{
	static const char *const keys[] = { "params",       "maximize",  "minimize", "search",
					    "trials",       "seed",      "parallel", "rungs",
					    "max_failures", "early_stop" };
	const struct doc *d = &l->doc;
	const struct yaml_node *v;
	bool params_ok = false, judged;
	int64_t count;

	if (!doc_want_map(d, n, "a sweep"))
		return;
	doc_check_keys(d, n, keys, ARRAY_LEN(keys));
	if ((v = yaml_get(n, "params")))
		params_ok = read_sweep_params(l, v, s);
	else
		doc_error(d, key, "sweep `%s` has no `params` to search over", s->name);
	judged = read_objective(l, key, n, s);
	read_search(l, key, n, params_ok, s);
	if ((v = yaml_get(n, "seed")) && read_count(d, v, "`seed`", 0, INT64_MAX, &count))
		s->seed = (uint64_t)count;
	if ((v = yaml_get(n, "parallel")) &&
	    read_count(d, v, "`parallel`", 1, SWEEP_AT_ONCE_MAX, &count))
		s->parallel = (uint32_t)count;
	if ((v = yaml_get(n, "max_failures")) &&
	    read_count(d, v, "`max_failures`", 0, SWEEP_TRIALS_MAX, &count))
		s->max_failures = (uint32_t)count;
	if ((v = yaml_get(n, "early_stop")))
		read_early_stop(l, v, judged ? &l->steps[s->step] : NULL, s);
	for (uint32_t i = 0; i < l->n_own_params && params_ok; i++)
		if (!l->params.v[i].has_default && !is_searched(s, i))
			diag_warn_at(l->diags, &s->pos,
				     "sweep `%s` gives no value for param `%s`, which has no "
				     "default: give it with -p",
				     s->name, l->params.v[i].name);
}

void read_sweeps(struct loader *l, const struct yaml_node *n)
{
	if (!n || yaml_is_null(n) || !doc_want_map(&l->doc, n, "`sweeps`"))
		return;
	for (size_t i = 0; i < n->len; i++) {
		const struct yaml_node *key = n->pairs[i].key;
		struct sweep_decl s = { .name = doc_text(&l->doc, key),
					.objective = "",
					.metric = "",
					.parallel = 1,
					.max_failures = 3,
					.pos = doc_pos(&l->doc, key) };

		doc_check_name(&l->doc, key, NAME_STEP, "sweep");
		read_sweep(l, key, n->pairs[i].value, &s);
		VEC_PUSH(&l->sweeps, s);
	}
}
