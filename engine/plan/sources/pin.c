/* engine/plan/sources/pin.c — the pipeline's inputs when a run starts.
 *
 * Paths of the project are hashed into the store (plan_put_path()), artifacts are found there, and
 * storage/origin/origin.h pins what lies outside. Each gets a pin "input:NAME", from which a
 * resumed run takes it without looking again. Only inputs that a selected step reads are pinned.
 *
 * With hash_only, a path isn't copied into the store unless planning needs its listing. The URI is
 * recorded and shown without its query (know_uri()); the store gets the whole one, with which it
 * can fetch.
 */
#include "plan/internal.h"
#include "storage/origin/origin.h"

static int at_input(const struct input_decl *in, const char *uri, struct err *err)
{
	bool named = !str_eq(in->name, in->uri); /* else it stands in the step that uses it */

	return err_wrap(err, "%s:%d:%d: input `%s`%s%s%s", in->pos.file, in->pos.line, in->pos.col,
			named ? in->name : uri, named ? " (" : "", named ? uri : "",
			named ? ")" : "");
}

static int pin_path(struct plan *p, size_t i, struct err *err)
{
	const struct input_decl *in = &p->ctx.pipeline->inputs[i];
	const struct pipeline *pl = p->ctx.pipeline;
	const char *file = in->pos.file;
	bool hash_only = p->options.hash_only;

	for (size_t k = 0; k < pl->n_steps && hash_only; k++)
		hash_only = !plan_reads_bytes(&pl->steps[k], REF_PIPELINE_INPUT, (uint32_t)i);
	if (plan_put_path(p, in->root, in->uri,
			  (hash_only ? CONTENT_PUT_HASH_ONLY : 0) |
				  (in->mode == INPUT_LINK ? CONTENT_PUT_LINK : 0),
			  &p->pins.input_ids[i], err) < 0) {
		if (err && err->code == ERR_NOT_FOUND)
			return err_set(err, ERR_NOT_FOUND,
				       "%s:%d:%d: input `%s`: %s does not exist in the %s", file,
				       in->pos.line, in->pos.col, in->name, in->uri,
				       in->root ? "commit or run that uses it" : "project");
		return err_wrap(err, "%s:%d:%d: input `%s`", file, in->pos.line, in->pos.col,
				in->name);
	}
	if (in->must_be_dir && p->pins.input_ids[i].kind != CONTENT_TREE)
		return err_set(err, ERR_INVALID,
			       "%s:%d:%d: input `%s`: %s is a file, but is written as a directory",
			       file, in->pos.line, in->pos.col, in->name, in->uri);
	return 0;
}

static int pin_origin(struct plan *p, size_t i, struct err *err)
{
	static const enum origin_mode modes[] = { [INPUT_AUTO] = ORIGIN_AUTO,
						  [INPUT_COPY] = ORIGIN_COPY,
						  [INPUT_REFERENCE] = ORIGIN_REFERENCE };
	const struct input_decl *in = &p->ctx.pipeline->inputs[i];
	const struct reference_options access = { in->access.endpoint, in->access.region,
						  in->access.profile, in->access.anonymous };
	_cleanup_(str_deinit) struct str options = { 0 };
	struct origin_request request = { .uri = in->uri,
					  .mode = modes[in->mode],
					  .copy_max = p->ctx.config->reference_above };
	struct origin_pinned pinned;

	str_add(&options, "");
	reference_options_text(&access, &options);
	request.options = options.s;
	if (origin_pin(p->ctx.store, &request, &pinned, err) < 0)
		return at_input(in, p->pins.input_uris[i], err);
	p->pins.input_ids[i] = pinned.id;
	return 0;
}

/* Nothing is asked: the record is what the pipeline says. */
static int pin_volume(struct plan *p, size_t i, struct err *err)
{
	const struct input_decl *in = &p->ctx.pipeline->inputs[i];
	const struct reference r = { .uri = in->uri, .version = in->pin, .options = "" };

	return reference_put(p->ctx.store, &r, &p->pins.input_ids[i], err) < 0
		       ? at_input(in, in->uri, err)
		       : 0;
}

/* Keeps the URI that is recorded and shown. The signature in a URL's query is left out, though a
 * fetch needs it, in a resumed run too. */
static void know_uri(struct plan *p, size_t i)
{
	const struct input_decl *in = &p->ctx.pipeline->inputs[i];
	_cleanup_(str_deinit) struct str public = { 0 };

	p->pins.input_uris[i] =
		in->root ? arena_printf(p->arena, "%s/%s", in->root, in->uri) : in->uri;
	if (in->access.endpoint)
		store_trust_endpoint(p->ctx.store, in->access.endpoint);
	if (in->origin != INPUT_HTTPS)
		return;
	origin_public_uri(in->uri, &public);
	p->pins.input_uris[i] = arena_strdup(p->arena, public.s);
	store_know_origin(p->ctx.store, in->uri);
}

static int pin_input(struct plan *p, size_t i, struct err *err)
{
	const struct input_decl *in = &p->ctx.pipeline->inputs[i];
	const char *named = in->origin == INPUT_HTTPS ? p->pins.input_uris[i] : in->name;
	_cleanup_(freep) char *name =
		xasprintf("input:%s", str_eq(in->name, in->uri) ? named : in->name);
	_cleanup_(freep) char *origin =
		xasprintf("%s%s", in->origin == INPUT_PATH ? "path:" : "", p->pins.input_uris[i]);
	const struct plan_pin *pin = plan_pin_find(p, name);
	struct digest digest;
	int r;

	if (pin) {
		p->pins.input_ids[i] = pin->id;
		return 0;
	}
	if (plan_is_resumed(p))
		return err_set(err, ERR_CORRUPT, "the run's record lacks input `%s`", in->name);
	if (in->origin == INPUT_VOLUME) {
		r = pin_volume(p, i, err);
	} else if (in->origin == INPUT_PATH) {
		r = pin_path(p, i, err);
	} else if (in->origin != INPUT_ARTIFACT) {
		r = pin_origin(p, i, err);
	} else {
		r = digest_parse(in->uri + strlen("artifact:"), &digest, err);
		if (r == 0)
			r = content_find(p->ctx.store, &digest, &p->pins.input_ids[i], err);
		if (r == 0 && content_is_file(&p->pins.input_ids[i]) &&
		    (in->taken_kind == CONTENT_EXECUTABLE || in->taken_kind == CONTENT_REFERENCE))
			p->pins.input_ids[i].kind = in->taken_kind; /* a digest doesn't tell */
		if (r < 0)
			at_input(in, in->uri, err);
	}
	if (r == 0)
		plan_pin_add(p, name, origin, &p->pins.input_ids[i]);
	return r;
}

int plan_pin_inputs(struct plan *p, struct err *err)
{
	const struct pipeline *pl = p->ctx.pipeline;
	_cleanup_(freep) bool *needed = xcalloc(pl->n_inputs + 1, sizeof(*needed));

	for (size_t i = 0; i < p->n_steps; i++) {
		const struct step *s = p->steps[i].decl;
		bool selected = p->steps[i].selected;

		for (size_t k = 0; k < s->n_inputs && selected; k++)
			if (s->inputs[k].from.kind == REF_PIPELINE_INPUT)
				needed[s->inputs[k].from.index] = true;
		if (selected && s->tasks->each && !s->tasks->each->is_list &&
		    s->tasks->each->from.kind == REF_PIPELINE_INPUT)
			needed[s->tasks->each->from.index] = true;
	}
	for (size_t i = 0; i < pl->n_inputs; i++)
		know_uri(p, i);
	for (size_t i = 0; i < pl->n_inputs; i++)
		if (needed[i] && pin_input(p, i, err) < 0)
			return -1;
	return 0;
}
