/* engine/run/reproduce/environment.c — what was different around a reproduction: tools, steps'
 * images and threads, and the machine, from the two manifests.
 *
 * A list of comparisons; add() keeps those whose texts differ. Only tools and steps that both runs
 * have are compared. Environments are compared as JSON, member by member; cpu flags are compared
 * word by word, and the host's name is left out.
 *
 * Threads: the loop's. Not here: gathering the environment (record/environment.c), comparing
 * results (report.c).
 */
#include "base/text/json.h"
#include "record/facts.h"
#include "run/internal.h"

#define TOOL_TEXT_MAX (64 * KIB)

struct differences {
	struct arena *arena;
	VEC(struct environment_difference) v;
};

static void add(struct differences *d, const char *what, const char *was, const char *is)
{
	if (str_eq(was, is))
		return;
	VEC_PUSH(&d->v, ((struct environment_difference){ arena_strdup(d->arena, what),
							  arena_strdup(d->arena, was),
							  arena_strdup(d->arena, is) }));
}

/* The machine. */

static bool has_word(const char *text, const char *word, size_t n)
{
	for (const char *at = text; *at;) {
		size_t len = strcspn(at, " ");

		if (len == n && memcmp(at, word, n) == 0)
			return true;
		at += len + (at[len] == ' ');
	}
	return false;
}

/* Words of `a` that are missing in `b`. */
static void words_only_in(const char *a, const char *b, struct str *out)
{
	for (const char *at = a; *at;) {
		size_t len = strcspn(at, " ");

		if (len && !has_word(b, at, len)) {
			if (out->len)
				str_addc(out, ' ');
			str_addn(out, at, len);
		}
		at += len + (at[len] == ' ');
	}
	if (out->len == 0)
		str_add(out, "-");
}

static const char *text_of(struct arena *arena, const json_t *v)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	const char *read;

	if (!v || json_is_null(v))
		return "-";
	if (json_is_string(v)) {
		read = facts_read_text(json_string_value(v), arena);
		return read ? read : "-";
	}
	json_add_canonical(&text, v);
	return arena_strndup(arena, text.s, text.len);
}

static const char *title_of(const char *key)
{
	static const struct {
		const char *key, *title;
	} titles[] = { { "cpu_flags", "cpu flags" },
		       { "cpu_model", "cpu" },
		       { "cpus", "number of cpus" },
		       { "machine", "architecture" },
		       { "gpus", "gpu" },
		       { "cpus_usable", "cpus usable" },
		       { "gpu_driver", "gpu driver" },
		       { "memory_bytes", "memory" } };

	for (size_t i = 0; i < ARRAY_LEN(titles); i++)
		if (str_eq(titles[i].key, key))
			return titles[i].title;
	return key;
}

static void add_object(struct differences *d, const char *prefix, const json_t *was,
		       const json_t *is);

static void add_member(struct differences *d, const char *prefix, const char *key,
		       const json_t *was, const json_t *is)
{
	const char *title = arena_printf(d->arena, "%s%s", prefix, title_of(key));
	const char *a = text_of(d->arena, was), *b = text_of(d->arena, is);

	if (str_eq(key, "host")) /* the name of the machine doesn't matter */
		return;
	if (json_is_object(was) || json_is_object(is)) {
		add_object(d,
			   str_eq(key, "variables") ? "variable "
						    : arena_printf(d->arena, "%s ", title),
			   was, is);
	} else if (str_eq(key, "cpu_flags")) {
		/* Hundreds of words: list only those that one machine lacks. */
		_cleanup_(str_deinit) struct str only_a = { 0 }, only_b = { 0 };

		words_only_in(a, b, &only_a);
		words_only_in(b, a, &only_b);
		add(d, title, only_a.s, only_b.s);
	} else {
		add(d, title, a, b);
	}
}

static void add_object(struct differences *d, const char *prefix, const json_t *was,
		       const json_t *is)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)was, key, v)
		add_member(d, prefix, key, v, json_object_get(is, key));
	json_object_foreach((json_t *)is, key, v)
	{
		if (!json_object_get(was, key))
			add_member(d, prefix, key, NULL, v);
	}
}

static int parse_environment(const struct manifest *m, json_t **ret, struct err *err)
{
	const char *text = m->environment_json ? m->environment_json : "{}";

	return json_parse("the environment of a run", text, strlen(text), ret, err);
}

/* Steps: images and threads, where the pipeline doesn't fix them. */

static const char *variable_of(const struct manifest_step *s, const char *name)
{
	for (size_t i = 0; i < s->n_threads; i++)
		if (str_eq(s->threads[i].name, name))
			return s->threads[i].value;
	return "-";
}

static void add_step(struct differences *d, const struct manifest_step *was,
		     const struct manifest_step *is)
{
	add(d, arena_printf(d->arena, "image of %s", was->name),
	    was->image_digest ? was->image_digest : "-", is->image_digest ? is->image_digest : "-");
	for (size_t i = 0; i < was->n_threads; i++)
		add(d, arena_printf(d->arena, "%s of %s", was->threads[i].name, was->name),
		    was->threads[i].value, variable_of(is, was->threads[i].name));
}

/* Tools. */

static const char *tool_text(struct store *s, const struct content_id *id, struct arena *arena)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err ignored = { 0 };

	if (content_read(s, id, TOOL_TEXT_MAX, &text, &ignored) < 0)
		return "(not in the store any more)";
	while (text.len && text.s[text.len - 1] == '\n')
		text.len--;
	return arena_strndup(arena, text.len ? text.s : "", text.len);
}

static void add_tools(struct run *r, struct differences *d)
{
	const struct manifest *m = &r->past->manifest;
	size_t n;
	const struct plan_pin *pins = plan_pins(r->plan, &n);

	for (size_t i = 0; i < m->n_inputs; i++) {
		const struct manifest_input *was = &m->inputs[i];

		for (size_t k = 0; k < n && str_has_prefix(was->name, "tool:"); k++) {
			if (!str_eq(pins[k].name, was->name) ||
			    content_id_eq(&pins[k].id, &was->id))
				continue;
			add(d, arena_printf(d->arena, "tool %s", was->name + strlen("tool:")),
			    tool_text(r->ctx->store, &was->id, d->arena),
			    tool_text(r->ctx->store, &pins[k].id, d->arena));
		}
	}
}

int reproduce_environment(struct run *r, struct reproduction *rep, struct err *err)
{
	struct differences d = { .arena = r->arena };
	const struct manifest *was = &r->past->manifest;
	_cleanup_(json_decrefp) json_t *around_was = NULL, *around_is = NULL;
	struct manifest is;

	if (manifest_load(r->ctx->store, &r->row.hash, r->arena, &is, err) < 0)
		return err_wrap(err, "the manifest of run %s", r->row.id);
	if (parse_environment(was, &around_was, err) < 0 ||
	    parse_environment(&is, &around_is, err) < 0)
		return err_wrap(err, "comparing the surroundings");
	add_tools(r, &d);
	for (size_t i = 0; i < was->n_steps; i++)
		for (size_t k = 0; k < is.n_steps; k++)
			if (str_eq(was->steps[i].name, is.steps[k].name))
				add_step(&d, &was->steps[i], &is.steps[k]);
	add_object(&d, "", around_was, around_is);
	VEC_TO_ARENA(&d.v, r->arena, &rep->environment, &rep->n_environment);
	return 0;
}
