/* engine/model/step/builtin.c — built-in steps: checks `with`, inputs and outputs against the
 * step's own description (steps/spec).
 *
 * `with` is turned into JSON, with null for values that only a run will know, and step_spec_check()
 * of steps/spec checks it; report() finds the YAML node for a path of that JSON. Inputs and outputs
 * are checked against the ports in the description.
 *
 * A step that is launched as ranks gets one more output, the metrics over time (step_add_output()).
 * engine/plan/builtin.c makes the settings of a task and its command line.
 */
#include "base/text/json.h"
#include "model/read.h"
#include "steps/spec/spec.h"

/* With. */

/* JSON null replaces a value that only a run will know. Recursion is bounded by YAML_DEPTH_MAX. */
static json_t *json_of_node(const struct doc *d, const struct yaml_node *n)
{
	struct value v;
	json_t *out;

	if (n->kind == YAML_KIND_SCALAR)
		return !template_text_has_expr(n->text, n->len) &&
				       read_number_or_text(d, n, "a value of `with`", &v)
			       ? value_json(&v)
			       : json_null();
	out = n->kind == YAML_KIND_MAP ? json_object() : json_array();
	for (size_t i = 0; i < n->len; i++)
		if (n->kind == YAML_KIND_MAP)
			json_object_set_new(out, n->pairs[i].key->text,
					    json_of_node(d, n->pairs[i].value));
		else
			json_array_append_new(out, json_of_node(d, n->items[i]));
	return out;
}

/* The node at a path, or the nearest one around it: shorthands have no node for each part. */
static const struct yaml_node *node_at(const struct yaml_node *root, const struct spec_path *path,
				       const struct yaml_node **ret_key)
{
	const struct yaml_node *up = path->up ? node_at(root, path->up, ret_key) : root;

	if (path->key && up->kind == YAML_KIND_MAP)
		for (size_t i = 0; i < up->len; i++)
			if (strcmp(up->pairs[i].key->text, path->key) == 0) {
				*ret_key = up->pairs[i].key;
				return up->pairs[i].value;
			}
	if (!path->key && up->kind == YAML_KIND_SEQ && path->index < up->len)
		return up->items[path->index];
	return up;
}

struct with_check {
	struct reader *r;
	const struct yaml_node *with;
};

static void report(void *arg, const struct spec_path *where, const char *message)
{
	struct with_check *c = arg;
	const struct yaml_node *key = NULL, *node = !c->with ? c->r->b->key
						    : where  ? node_at(c->with, where, &key)
							     : c->with;
	struct str path = { 0 };

	str_add(&path, "");
	spec_path_add(&path, where);
	if (strncmp(message, "unknown key", 11) == 0 && key)
		node = key;
	doc_error(c->r->d, node, "`with%s%s` of `%s`: %s", path.len ? "." : "", path.s,
		  c->r->s->program.builtin, message);
	str_deinit(&path);
}

void step_check_with(struct reader *r, const struct yaml_node *n)
{
	struct with_check c = { r, n };
	const struct step_spec *spec = step_spec_find(r->s->program.builtin);
	json_t *with = n ? json_of_node(r->d, n) : NULL;

	for (const struct spec_option *o = spec->options; o->name; o++)
		if (o->engine && json_object_get(with, o->name))
			doc_error(r->d, yaml_get(n, o->name), "`%s` belongs into `distributed`",
				  str_eq(o->name, "min_nodes") ? "nodes: {min, max}" : o->name);

	step_spec_check(spec, with, report, &c);
	json_decref(with);
}

/* Ports. */

static bool takes(const struct spec_port *ports, const char *name)
{
	for (const struct spec_port *p = ports; p && p->name; p++)
		if (strcmp(p->name, "*") == 0 || strcmp(p->name, name) == 0)
			return true;
	return false;
}

static void unknown_port(struct build *b, const struct spec_port *ports, const char *what,
			 const char *name, const struct pos *pos)
{
	const char *names[16];
	size_t n = 0;

	for (const struct spec_port *p = ports; p && p->name && n < ARRAY_LEN(names); p++)
		names[n++] = p->name;
	doc_error_at(b->doc->l->diags, pos, "the built-in step `%s` has no %s `%s`%s",
		     b->s->program.builtin, what, name, loader_suggest(b->doc->l, name, names, n));
}

static void check_ports(struct build *b, const struct step_spec *spec)
{
	const struct step *s = b->s;

	for (size_t i = 0; i < s->n_inputs; i++)
		if (!takes(spec->inputs, s->inputs[i].name))
			unknown_port(b, spec->inputs, "input", s->inputs[i].name,
				     &s->inputs[i].pos);
	for (size_t i = 0; i < s->n_outputs; i++)
		if (!takes(spec->outputs, s->outputs[i].name))
			unknown_port(b, spec->outputs, "output", s->outputs[i].name,
				     &s->outputs[i].pos);
	for (const struct spec_port *p = spec->inputs; p && p->name; p++) {
		bool there = !p->required;

		for (size_t i = 0; i < s->n_inputs && !there; i++)
			there = str_eq(p->name, "*") || str_eq(p->name, s->inputs[i].name);
		if (!there)
			doc_error(b->doc, b->key,
				  "step `%s` lacks the input `%s` of the built-in step `%s`: %s",
				  s->name, p->name, spec->name, p->help);
	}
	for (const struct spec_port *p = spec->outputs; p && p->name; p++) {
		bool there = !p->required;

		for (size_t i = 0; i < s->n_outputs && !there; i++)
			there = str_eq(p->name, "*") || str_eq(p->name, s->outputs[i].name);
		if (!there)
			doc_error(b->doc, b->key,
				  "step `%s` lacks the output `%s` of the built-in step `%s`: %s",
				  s->name, strcmp(p->name, "*") ? p->name : "NAME", spec->name,
				  p->help);
	}
}

bool step_has_ranks(const struct step *s)
{
	return step_is_launched(s) &&
	       (!s->program.builtin || step_spec_find(s->program.builtin)->ranks);
}

void step_finish_builtin(struct build *b)
{
	struct step *s = b->s;
	const struct step_spec *spec =
		s->program.builtin ? step_spec_find(s->program.builtin) : NULL;

	if (spec && !spec->wraps_command)
		check_ports(b, spec);
	if (spec && !s->measured->metrics)
		b->parts->measured.metrics = spec->metrics;
	if (spec && spec->wraps_command && !s->program.run)
		doc_error(b->doc, b->key,
			  "step `%s` uses `%s` but has no `run`: the command that it starts",
			  s->name, s->program.builtin);
	if (spec && spec->wraps_command && !spec->ranks && s->machine->distributed.framework)
		doc_error(
			b->doc, b->key,
			"step `%s` uses `%s`, whose cluster has the nodes: leave out `distributed`",
			s->name, s->program.builtin);
	if (step_has_ranks(s))
		/* Like any output, it is kept, compared and found again. */
		step_add_output(b,
				&(struct step_output){ .name = STEP_SERIES_OUTPUT,
						       .path = STEP_SERIES_PATH,
						       .pos = s->pos },
				"its launcher, for the metrics over time");
}
