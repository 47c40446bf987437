/* steps/spec/spec.c — checks settings against the tables.
 *
 * One walk does two jobs: it reports problems, and with walk.complete it builds the complete form.
 * A JSON null is a value that isn't known yet: it passes while checking, and is an error while
 * completing.
 *
 * walk_value() dispatches by type; each walk_*() gives the complete value, or NULL after a problem
 * or while only checking. Defaults go through the same walk (default_of()), so they have the same
 * form as given values. Keys come out in the order of the table.
 *
 * Problems go to walk.fn with their path, which is a chain of struct spec_path on the stack.
 * step_spec_complete() keeps the first of them. The depth is that of the tables, which are ours.
 *
 * The tables are constants and there is no other state; any thread. program.c, the model and the
 * steps check ports and the rules between two settings.
 */
#include <assert.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "base/text/text.h"
#include "steps/spec/tables.h"

static const struct step_spec *const specs[] = {
	&spec_shard, &spec_augment, &spec_train, &spec_evaluate, &spec_ray, &spec_spark_submit
};

const struct step_spec *const *step_specs(size_t *ret_n)
{
	*ret_n = ARRAY_LEN(specs);
	return specs;
}

const struct step_spec *step_spec_find(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(specs); i++)
		if (strcmp(specs[i]->name, name) == 0)
			return specs[i];
	return NULL;
}

void spec_path_add(struct str *out, const struct spec_path *path)
{
	if (!path)
		return;
	spec_path_add(out, path->up);
	if (!path->key)
		str_addf(out, "[%zu]", path->index);
	else
		str_addf(out, "%s%s", path->up ? "." : "", path->key);
}

struct walk {
	spec_problem_fn fn;
	void *arg;
	size_t n;
	bool complete; /* build the complete form; nothing may be unknown */
};

static void _printf_(3, 4) problem(struct walk *w, const struct spec_path *at, const char *fmt, ...)
{
	_cleanup_(str_deinit) struct str message = { 0 };
	va_list ap;

	va_start(ap, fmt);
	str_addv(&message, fmt, ap);
	va_end(ap);
	w->n++;
	if (w->fn)
		w->fn(w->arg, at, message.s);
}

static json_t *walk_value(struct walk *w, const struct spec_option *o, const json_t *v,
			  const struct spec_path *at);

/* Scalars. */

static void check_range(struct walk *w, const struct spec_option *o, double x,
			const struct spec_path *at, const char *what)
{
	if ((o->min == 0 && o->max == 0) || (x >= o->min && x <= o->max))
		return;
	if (o->max >= SPEC_UNBOUNDED_MAX)
		problem(w, at, "%s must be at least %.10g, not %.10g", what, o->min, x);
	else if (o->min <= SPEC_UNBOUNDED_MIN)
		problem(w, at, "%s must be at most %.10g, not %.10g", what, o->max, x);
	else
		problem(w, at, "%s must be between %.10g and %.10g, not %.10g", what, o->min,
			o->max, x);
}

static json_t *wrong_type(struct walk *w, const struct spec_path *at, const char *want,
			  const json_t *v)
{
	problem(w, at, "must be %s, not %s", want, json_describe(v));
	return NULL;
}

static json_t *walk_number(struct walk *w, const struct spec_option *o, const json_t *v,
			   const struct spec_path *at)
{
	double x = json_number_value(v);

	if (o->type == SPEC_INT && !json_is_integer(v))
		return wrong_type(w, at, "a whole number", v);
	if (!json_is_number(v))
		return wrong_type(w, at, "a number", v);
	check_range(w, o, x, at, "it");
	return o->type == SPEC_INT ? json_integer(json_integer_value(v)) : json_real(x);
}

/* "64Mi" or a number of bytes; "90s". */
static json_t *walk_quantity(struct walk *w, const struct spec_option *o, const json_t *v,
			     const struct spec_path *at)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err err = { 0 };
	uint64_t bytes = 0;
	int64_t ns = 0;
	int r = -1;

	if (o->type == SPEC_BYTES && json_is_integer(v) && json_integer_value(v) >= 0) {
		bytes = (uint64_t)json_integer_value(v);
		r = 0;
	} else if (!json_is_string(v)) {
		return wrong_type(w, at,
				  o->type == SPEC_BYTES ? "a size such as 64Mi"
							: "a duration such as 90s",
				  v);
	} else {
		r = o->type == SPEC_BYTES ? text_parse_bytes(json_string_value(v), &bytes, &err)
					  : text_parse_duration(json_string_value(v), &ns, &err);
	}
	if (r < 0) {
		problem(w, at, "%s", err.msg);
		return NULL;
	}
	if (o->type == SPEC_BYTES)
		check_range(w, o, (double)bytes, at, "it");
	if (o->type == SPEC_BYTES)
		return json_integer((json_int_t)bytes);
	text_add_duration_exact(&text, ns);
	return json_string(text.s);
}

void spec_choices_of(const struct spec_option *o, struct spec_choices *ret)
{
	assert(o->type == SPEC_CHOICE && strlen(o->choices) < sizeof(ret->text));
	ret->n = 0;
	snprintf(ret->text, sizeof(ret->text), "%s", o->choices);
	for (char *save, *p = strtok_r(ret->text, "|", &save); p && ret->n < ARRAY_LEN(ret->v);
	     p = strtok_r(NULL, "|", &save))
		ret->v[ret->n++] = p;
}

static json_t *walk_choice(struct walk *w, const struct spec_option *o, const json_t *v,
			   const struct spec_path *at)
{
	_cleanup_(str_deinit) struct str near = { 0 };
	struct spec_choices c;

	spec_choices_of(o, &c);
	if (!json_is_string(v))
		return wrong_type(w, at, "a word", v);
	for (size_t i = 0; i < c.n; i++)
		if (strcmp(c.v[i], json_string_value(v)) == 0)
			return json_string(c.v[i]);
	text_add_suggestion(&near, json_string_value(v), c.v, c.n);
	problem(w, at, "must be one of %s, not `%.60s`%s", o->choices, json_string_value(v),
		near.s ? near.s : "");
	return NULL;
}

/* Containers. */

static void put(json_t *obj, const char *key, json_t *v)
{
	if (obj && v)
		json_object_set_new(obj, key, v);
	else
		json_decref(v);
}

static void unknown_key(struct walk *w, const struct spec_option *options, const char *key,
			const struct spec_path *at)
{
	_cleanup_(str_deinit) struct str near = { 0 };
	const char *names[64];
	size_t n = 0;

	for (const struct spec_option *o = options; o && o->name && n < ARRAY_LEN(names); o++)
		names[n++] = o->name;
	text_add_suggestion(&near, key, names, n);
	problem(w, at, "unknown key `%.60s`%s", key, near.s ? near.s : "");
}

static const struct spec_option *find_option(const struct spec_option *options, const char *key)
{
	for (const struct spec_option *o = options; o && o->name; o++)
		if (strcmp(o->name, key) == 0)
			return o;
	return NULL;
}

static json_t *default_of(struct walk *w, const struct spec_option *o, const struct spec_path *at)
{
	struct err err = { 0 };
	json_t *def, *full;

	if (!o->def || json_parse(o->name, o->def, strlen(o->def), &def, &err) < 0) {
		assert(!o->def); /* a default in our own table is invalid JSON */
		return NULL;
	}
	full = walk_value(w, o, def, at);
	json_decref(def);
	return full;
}

static json_t *walk_table(struct walk *w, const struct spec_option *options, const json_t *v,
			  const struct spec_path *at)
{
	json_t *out = w->complete ? json_object() : NULL, *member;
	const char *key;

	if (v && !json_is_object(v)) {
		json_decref(out);
		return wrong_type(w, at, "a map", v);
	}
	json_object_foreach((json_t *)v, key, member)
	{
		struct spec_path here = { .up = at, .key = key };

		if (!find_option(options, key))
			unknown_key(w, options, key, &here);
	}
	for (const struct spec_option *o = options; o && o->name; o++) {
		struct spec_path here = { .up = at, .key = o->name };
		const json_t *given = json_object_get(v, o->name);

		if (given)
			put(out, o->name, walk_value(w, o, given, &here));
		else if (o->required)
			problem(w, at, "`%s` is missing: %s", o->name, o->help);
		else if (out)
			put(out, o->name, default_of(w, o, &here));
	}
	return out;
}

static json_t *walk_list(struct walk *w, const struct spec_option *o, const json_t *v,
			 const struct spec_path *at)
{
	json_t *out = w->complete ? json_array() : NULL;
	size_t n = json_is_array(v) ? json_array_size(v) : 1;

	for (size_t i = 0; i < n; i++) {
		struct spec_path here = { .up = at, .index = i };
		json_t *one = walk_value(w, &o->sub[0], json_is_array(v) ? json_array_get(v, i) : v,
					 json_is_array(v) ? &here : at);

		if (out && one)
			json_array_append_new(out, one);
		else
			json_decref(one);
	}
	check_range(w, o, (double)n, at, "the number of entries");
	return out;
}

static json_t *walk_map(struct walk *w, const struct spec_option *o, const json_t *v,
			const struct spec_path *at)
{
	json_t *out, *member;
	const char *key;

	if (!json_is_object(v))
		return wrong_type(w, at, "a map", v);
	out = w->complete ? json_object() : NULL;
	json_object_foreach((json_t *)v, key, member)
	{
		struct spec_path here = { .up = at, .key = key };

		put(out, key, walk_value(w, &o->sub[0], member, &here));
	}
	return out;
}

/* {NAME: 3} and {NAME: [1, 2]} set the first key of the variant's table. */
static json_t *walk_variant_body(struct walk *w, const struct spec_option *variant,
				 const json_t *body, const struct spec_path *at)
{
	const struct spec_option *first = variant->sub;
	json_t *wrapped, *out;

	if (!body || json_is_object(body) || json_is_null(body))
		return walk_table(w, variant->sub, json_is_null(body) ? NULL : body, at);
	if (!first || !first->name) {
		problem(w, at, "takes no settings");
		return NULL;
	}
	wrapped = json_pack("{sO}", first->name, body);
	out = walk_table(w, variant->sub, wrapped, at);
	json_decref(wrapped);
	return out;
}

static json_t *walk_variant(struct walk *w, const struct spec_option *o, const json_t *v,
			    const struct spec_path *at)
{
	const char *name = json_is_string(v) ? json_string_value(v) : NULL;
	const json_t *body = NULL;
	const struct spec_option *variant;
	json_t *out, *inner;

	if (json_is_object(v) && json_object_size(v) == 1) {
		name = json_object_iter_key(json_object_iter((json_t *)v));
		body = json_object_get(v, name);
	}
	if (!name)
		return wrong_type(w, at, "a name, or a map with one key", v);
	struct spec_path here = { .up = at, .key = name };

	variant = find_option(o->sub, name);
	if (!variant) {
		unknown_key(w, o->sub, name, &here);
		return NULL;
	}
	inner = walk_variant_body(w, variant, body, &here);
	if (!w->complete || !inner)
		return json_decref(inner), NULL;
	out = json_object();
	put(out, name, inner);
	return out;
}

static json_t *walk_value(struct walk *w, const struct spec_option *o, const json_t *v,
			  const struct spec_path *at)
{
	if (json_is_null(v)) {
		if (w->complete)
			problem(w, at, "must have a value");
		return NULL;
	}
	switch (o->type) {
	case SPEC_BOOL:
		return json_is_boolean(v) ? json_boolean(json_is_true(v))
					  : wrong_type(w, at, "true or false", v);
	case SPEC_INT:
	case SPEC_FLOAT:
		return walk_number(w, o, v, at);
	case SPEC_BYTES:
	case SPEC_DURATION:
		return walk_quantity(w, o, v, at);
	case SPEC_STRING:
		return json_is_string(v) ? json_string(json_string_value(v))
					 : wrong_type(w, at, "text", v);
	case SPEC_CHOICE:
		return walk_choice(w, o, v, at);
	case SPEC_LIST:
		return walk_list(w, o, v, at);
	case SPEC_MAP:
		return walk_map(w, o, v, at);
	case SPEC_TABLE:
		return walk_table(w, o->sub, v, at);
	case SPEC_VARIANT:
		return walk_variant(w, o, v, at);
	case SPEC_ANY:
		return json_deep_copy(v);
	}
	return NULL;
}

/* Both jobs. */

size_t step_spec_check(const struct step_spec *s, const json_t *with, spec_problem_fn fn, void *arg)
{
	struct walk w = { .fn = fn, .arg = arg };

	json_decref(walk_table(&w, s->options, with, NULL));
	return w.n;
}

static void keep_first(void *arg, const struct spec_path *where, const char *message)
{
	_cleanup_(str_deinit) struct str path = { 0 };
	struct err *err = arg;

	if (!err || err->code)
		return;
	spec_path_add(&path, where);
	if (path.len)
		err_set(err, ERR_INVALID, "with.%s: %s", path.s, message);
	else
		err_set(err, ERR_INVALID, "with: %s", message);
}

int step_spec_complete(const struct step_spec *s, const json_t *with, json_t **ret, struct err *err)
{
	struct err first = { 0 };
	struct walk w = { .fn = keep_first, .arg = &first, .complete = true };
	json_t *out = walk_table(&w, s->options, with, NULL);

	if (w.n) {
		json_decref(out);
		return err_pass(err, &first);
	}
	*ret = out;
	return 0;
}
