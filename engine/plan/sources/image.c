/* engine/plan/sources/image.c — the images that commands run in, where they run in containers.
 *
 * The registry resolves a name when the run starts, and the answer holds until the run ends: it is
 * pinned ("image:NAME") as "registry/name@sha256:… linux/amd64". plan_pin_images() collects the
 * names that have no pin (struct asking), resolves all of them in one call, pins them, and then
 * gives each step its pin. So a resumed run asks no registry.
 *
 * A step's key holds the digest and the platform, so the same image is the same under any name.
 * Built-in steps run in Cairn's own image, whose digest is in no key: their name and version are.
 * The caller decides how to ask a registry (plan_images.resolve).
 */
#include "base/map.h"
#include "model/step/placement.h"
#include "plan/internal.h"

#define PINNED_MAX 1024

const char *plan_step_image(const struct plan *p, size_t step, const char **ret_name)
{
	const struct plan_step *s = &p->steps[step];
	const struct plan_variant *first = s->fan->variants;

	if (s->facts.image || !first) {
		*ret_name = s->facts.image ? s->decl->machine->place.image : NULL;
		return s->facts.image;
	}
	for (const struct plan_variant *v = first; v; v = v->next)
		if (!str_eq(v->image, first->image))
			return NULL;
	*ret_name = first->image ? first->step.machine->place.image : NULL;
	return first->image;
}

const char *plan_task_image(const struct plan *p, const struct plan_task *t)
{
	const struct plan_step *s = &p->steps[t->step];

	return s->fan->variant_of ? s->fan->variant_of[t->loop]->image : s->facts.image;
}

static bool runs_in_image(const struct plan *p, const struct plan_step *s)
{
	return p->ctx.images && s->selected && s->decl->program.run;
}

static int at_step(const struct step *s, const char *image, struct err *err)
{
	return err_wrap(err, "%s:%d:%d: step `%s`: image `%s`", s->pos.file, s->pos.line,
			s->pos.col, s->name, image);
}

/* Pins: "registry/name@sha256:… linux/amd64". */

static char *pin_name(const char *image)
{
	return xasprintf("image:%s", image);
}

/* As the run's record has it, in the plan's arena. */
struct pinned_image {
	const char *ref, *platform;
};

static int read_pin(struct plan *p, const char *image, struct pinned_image *ret, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	_cleanup_(freep) char *name = pin_name(image);
	const struct plan_pin *pin = plan_pin_find(p, name);
	const char *space, *at;

	if (!pin) /* a resumed or repeated run has the pins of its beginning */
		return err_set(err, ERR_INVALID, "image `%s` wasn't known when the run began",
			       image);
	if (content_read(p->ctx.store, &pin->id, PINNED_MAX, &text, err) < 0)
		return err_wrap(err, "%s", pin->name);
	at = text.len ? strstr(text.s, "@sha256:") : NULL;
	space = at ? strchr(at, ' ') : NULL;
	if (!space || strlen(text.s) != text.len)
		return err_set(err, ERR_CORRUPT, "the run's record of %s is damaged", pin->name);
	ret->ref = arena_strndup(p->arena, text.s, (size_t)(space - text.s));
	ret->platform = arena_strdup(p->arena, space + 1);
	return 0;
}

/* Thousands of steps may name one image: its pin is read once. */
static int take_pin(struct plan *p, const char *image, const char **ret_image,
		    const char **ret_platform, struct err *err)
{
	struct pinned_image *pinned = map_get_str(p->pins.images, image), read;

	if (!pinned) {
		if (read_pin(p, image, &read, err) < 0)
			return -1;
		pinned = arena_memdup(p->arena, &read, sizeof(read));
		*map_slot_str(p->pins.images, image) = pinned;
	}
	*ret_image = pinned->ref;
	*ret_platform = pinned->platform;
	return 0;
}

/* Asking. */

struct asking {
	struct map *seen; /* name → number + 1 */
	VEC(struct plan_image_wanted) wanted;
	VEC(const struct step *) by; /* the first step that names each one */
};

/* The secrets with which the step's pod pulls also let us ask the registry. */
static void add_secrets(struct plan *p, const struct step *s, struct plan_image_wanted *w)
{
	json_t *placement =
		       s->machine->place.json ? json_loads(s->machine->place.json, 0, NULL) : NULL,
	       *entry;
	size_t i;

	json_array_foreach(json_object_get(placement, "image_pull_secrets"), i, entry)
	{
		const char **v, *name = json_string_value(json_is_object(entry)
								  ? json_object_get(entry, "name")
								  : entry);
		size_t n = 0;

		while (w->pull_secrets[n] && !str_eq(w->pull_secrets[n], name))
			n++;
		if (!name || w->pull_secrets[n])
			continue;
		v = arena_alloc(p->arena, (n + 2) * sizeof(*v));
		memcpy(v, w->pull_secrets, n * sizeof(*v));
		v[n] = arena_strdup(p->arena, name);
		w->pull_secrets = v;
	}
	json_decref(placement);
}

static void note_unknown(struct plan *p, const struct step *s, struct asking *a)
{
	static const char *const none[] = { NULL };
	_cleanup_(freep) char *name = pin_name(s->machine->place.image);
	void **seen;

	if (plan_pin_find(p, name))
		return;
	seen = map_slot_str(a->seen, name);
	if (!*seen) {
		VEC_PUSH(&a->wanted, ((struct plan_image_wanted){ s->machine->place.image, none }));
		VEC_PUSH(&a->by, s);
		*seen = (void *)(uintptr_t)a->wanted.n;
	}
	add_secrets(p, s, &a->wanted.v[(uintptr_t)*seen - 1]);
}

static int ask(struct plan *p, const struct asking *a, struct err *err)
{
	const char **refs = arena_alloc(p->arena, (a->wanted.n + 1) * sizeof(*refs));
	size_t failed = 0;

	if (a->wanted.n == 0)
		return 0;
	if (p->ctx.images->resolve(p->ctx.images->arg, a->wanted.v, a->wanted.n, p->arena, refs,
				   &failed, err) < 0)
		return at_step(a->by.v[failed], a->wanted.v[failed].name, err);
	for (size_t i = 0; i < a->wanted.n; i++) {
		_cleanup_(freep) char *name = pin_name(a->wanted.v[i].name),
				      *text = xasprintf("%s %s", refs[i], p->ctx.images->platform);
		struct content_id id;

		if (content_put_bytes(p->ctx.store, text, strlen(text), &id, err) < 0)
			return at_step(a->by.v[i], a->wanted.v[i].name, err);
		plan_pin_add(p, name, refs[i], &id);
	}
	return 0;
}

static int has_image(const struct step *s, struct err *err)
{
	return s->machine->place.image
		       ? 0
		       : err_set(err, ERR_INVALID,
				 "%s:%d:%d: step `%s` has no `image`, and on Kubernetes its "
				 "command needs one: say `image:` there, or for all steps "
				 "under `defaults:`",
				 s->pos.file, s->pos.line, s->pos.col, s->name);
}

/* A step that selects its nodes by their processor runs there, whatever the others do
 * (runners/kubernetes/job/placement.c). */
static const char *own_platform(struct plan *p, const struct step *s, const char *pinned)
{
	const char *json = s->machine->place.json, *arch;
	_cleanup_(json_decrefp) json_t *placement =
		json && strstr(json, "kubernetes.io/arch") ? json_loads(json, 0, NULL) : NULL;

	arch = placement_arch(placement);
	return arch ? arena_printf(p->arena, "linux/%s", arch) : pinned;
}

static int take_image(struct plan *p, const struct step *s, const char **ret_image,
		      const char **ret_platform, struct err *err)
{
	if (take_pin(p, s->machine->place.image, ret_image, ret_platform, err) < 0)
		return -1;
	*ret_platform = own_platform(p, s, *ret_platform);
	return 0;
}

int plan_take_image_pins(struct plan *p, struct plan_step *s, struct err *err)
{
	int r = 0;

	if (!runs_in_image(p, s))
		return 0;
	if (!s->decl->settings[SETTING_IMAGE] && !s->facts.image)
		r = take_image(p, s->decl, &s->facts.image, &s->facts.platform, err);
	for (struct plan_variant *v = s->fan->variants; v && r == 0; v = v->next)
		if (!v->image)
			r = take_image(p, &v->step, &v->image, &v->platform, err);
	return r;
}

int plan_pin_images(struct plan *p, struct err *err)
{
	struct asking a = { .seen = map_new() };
	int r = 0;

	for (size_t i = 0; i < p->n_steps && r == 0; i++) {
		const struct plan_step *s = &p->steps[i];

		if (!runs_in_image(p, s))
			continue;
		for (const struct plan_variant *v = s->fan->variants; v && r == 0; v = v->next)
			r = has_image(&v->step, err);
		if (r == 0 && !s->fan->variants && !s->decl->settings[SETTING_IMAGE])
			r = has_image(s->decl, err);
		if (r < 0)
			break;
		for (const struct plan_variant *v = s->fan->variants; v; v = v->next)
			note_unknown(p, &v->step, &a);
		if (!s->fan->variants && s->decl->machine->place.image)
			note_unknown(p, s->decl, &a);
	}
	if (r == 0)
		r = ask(p, &a, err);
	for (size_t i = 0; i < p->n_steps && r == 0; i++)
		r = plan_take_image_pins(p, &p->steps[i], err);
	map_free(a.seen);
	VEC_FREE(&a.wanted);
	VEC_FREE(&a.by);
	return r;
}

void plan_image_key(const struct plan *p, const struct plan_task *t, struct str *record)
{
	const struct plan_step *s = &p->steps[t->step];
	const struct plan_variant *v = s->fan->variant_of ? s->fan->variant_of[t->loop] : NULL;
	const char *image = v ? v->image : s->facts.image,
		   *platform = v ? v->platform : s->facts.platform;
	const char *at = image ? strchr(image, '@') : NULL;
	_cleanup_(freep) char *text = at ? xasprintf("%s %s", at + 1, platform) : NULL;

	if (text)
		key_record_add(record, KEY_IMAGE, "", text, strlen(text));
}
