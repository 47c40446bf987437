/* engine/plan/settings.c — a step as each task has it, where settings (image, resources, timeout,
 * …) are expressions.
 *
 * Tasks with equal values share one variant: a copy of the step with these values in it
 * (step_settle()). plan_settle_known() does this when a plan begins, for all tasks that are known
 * then, so that a wrong value is an error before anything runs, and all images have their digests
 * when the run begins. Tasks of an `each` over files or over a step's values come later; their
 * image can't depend on the item, so one variant for the image alone stands for them until then.
 */
#include <assert.h>
#include "base/map.h"
#include "plan/internal.h"

struct settling {
	struct map *seen; /* values → variant */
	struct arena *arena;
	struct str text;
};

static int settle_task(struct plan *p, struct plan_step *s, const struct step *decl, size_t index,
		       struct settling *st, struct plan_variant **ret, struct err *err)
{
	struct plan_task task = { .step = s->decl->index,
				  .index = (uint32_t)index,
				  .loop = (uint32_t)index };
	struct task_scope sc = { .plan = p, .task = &task, .arena = st->arena };
	struct expr_scope es = { .resolve = scope_resolve, .arg = &sc };
	struct value v[STEP_SETTINGS] = { 0 };
	struct plan_variant *made;
	struct str one = { 0 };
	void **slot;
	int r = 0;

	str_reset(&st->text);
	for (int i = 0; i < STEP_SETTINGS && r == 0; i++) {
		if (!decl->settings[i])
			continue;
		r = template_eval(decl->settings[i], &es, st->arena, &v[i], err);
		str_reset(&one);
		if (r == 0)
			value_add_canonical(&one, &v[i]);
		str_add_field(&st->text, one.s ? one.s : "", one.len);
	}
	str_deinit(&one);
	if (r != 0)
		return -1;
	slot = map_slot(st->seen, st->text.s, st->text.len, NULL);
	if (!*slot) {
		made = arena_alloc(p->arena, sizeof(*made));
		if (step_settle(decl, v, p->arena, &made->step, err) < 0)
			return -1;
		made->next = s->fan->variants;
		*slot = s->fan->variants = made;
	}
	*ret = *slot;
	return 0;
}

static int settle(struct plan *p, struct plan_step *s, const struct step *decl, size_t n,
		  struct plan_variant **ret, struct err *err)
{
	struct settling st = { .seen = map_new(), .arena = arena_new() };
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = settle_task(p, s, decl, i, &st, &ret[i], err);
	map_free(st.seen);
	arena_free(st.arena);
	str_deinit(&st.text);
	return r;
}

int plan_settle(struct plan *p, struct plan_step *s, size_t n_tasks, struct err *err)
{
	if (s->fan->variant_of || s->stands_in || !step_has_settings(s->decl))
		return 0;
	s->fan->variant_of = arena_alloc(p->arena, (n_tasks + 1) * sizeof(*s->fan->variant_of));
	return settle(p, s, s->decl, n_tasks, s->fan->variant_of, err);
}

/* For tasks that aren't known yet. */
static int settle_image(struct plan *p, struct plan_step *s, struct err *err)
{
	const struct expr_template *settings[STEP_SETTINGS] = {
		[SETTING_IMAGE] = s->decl->settings[SETTING_IMAGE]
	};
	struct step image = *s->decl;
	struct plan_variant *unused;

	image.settings = settings;
	return settings[SETTING_IMAGE] ? settle(p, s, &image, 1, &unused, err) : 0;
}

int plan_settle_known(struct plan *p, struct err *err)
{
	for (size_t i = 0; i < p->n_steps; i++) {
		struct plan_step *s = &p->steps[i];
		const struct each_decl *each = s->decl->tasks->each;
		int r = 0;

		if (!step_has_settings(s->decl))
			continue;
		if (each && !each_is_known(each))
			r = settle_image(p, s, err);
		else if ((r = plan_fan_out(p, s, err)) == 0)
			r = plan_settle(p, s, s->n_fanned, err);
		if (r < 0)
			return -1;
	}
	return 0;
}

const struct step *plan_task_step(const struct plan *p, const struct plan_task *t)
{
	const struct plan_step *s = &p->steps[t->step];

	return s->fan->variant_of ? &s->fan->variant_of[t->loop]->step : s->decl;
}
