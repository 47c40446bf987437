/* Names of tasks and of their entries in gathered directories. */
#include "base/os/fs.h"
#include "plan/internal.h"

/* Longer values are cut, and end in a digest: a file name has at most 255 bytes. */
#define VALUE_MAX 120

/* A value as part of a file name: '/' and control characters become '_'. */
void label_add_value(struct str *out, const struct value *v)
{
	struct str text = { 0 };
	struct digest d;
	char hex[DIGEST_HEX_MAX];

	if (v->type == VALUE_OBJECT) /* as the values of a matrix are named */
		for (size_t i = 0; i < v->object.n; i++) {
			str_addf(&text, "%s%s=", i ? "," : "", v->object.v[i].name);
			value_add_text(&text, &v->object.v[i].value);
		}
	else
		value_add_text(&text, v);
	for (size_t i = 0; i < text.len; i++)
		if (text.s[i] == '/' || (unsigned char)text.s[i] < ' ')
			text.s[i] = '_';
	if (text.len == 0) {
		str_add(out, "_");
	} else if (text.len <= VALUE_MAX) {
		str_addn(out, text.s, text.len);
	} else {
		digest_bytes(text.s, text.len, &d);
		str_addn(out, text.s, VALUE_MAX - 9);
		str_addf(out, "-%.8s", digest_hex(&d, hex));
	}
	str_deinit(&text);
}

/* "fold=0,lr=0.1"; axes of `without` are left out. Returns how many were written. */
static size_t add_axes(const struct plan_step *s, const struct plan_task *t,
		       const struct plan_dep *without, struct str *out)
{
	size_t n = 0;

	for (size_t a = 0; a < s->decl->tasks->matrix.n_axes; a++) {
		bool shared = false;

		for (size_t i = 0; without && i < without->decl->n_shared; i++)
			shared |= without->decl->shared[i].theirs == a;
		if (shared)
			continue;
		if (n++)
			str_addc(out, ',');
		str_addf(out, "%s=", s->decl->tasks->matrix.axes[a].name);
		label_add_value(
			out,
			&s->fan->axes[a].v
				 [s->fan->axis_index[t->loop * s->decl->tasks->matrix.n_axes + a]]);
	}
	return n;
}

static void add_label(const struct plan *p, const struct plan_task *t, bool with_round,
		      struct str *out)
{
	const struct plan_step *s = &p->steps[t->step];
	const bool axes = s->decl->tasks->matrix.n_axes > 0, round = with_round && t->round;

	str_reset(out);
	str_add(out, s->decl->name);
	if (s->fan->items) {
		str_addf(out, "[%s]", s->fan->items[t->index].path);
	} else if (axes || round) {
		str_addc(out, '[');
		add_axes(s, t, NULL, out);
		if (round)
			str_addf(out, "%sround=%u", axes ? "," : "", t->round);
		str_addc(out, ']');
	}
}

void plan_task_label(const struct plan *p, const struct plan_task *t, struct str *out)
{
	add_label(p, t, true, out);
}

void plan_loop_label(const struct plan *p, const struct plan_task *t, struct str *out)
{
	add_label(p, t, false, out);
}

void plan_entry_add_suffix(const struct step_output *o, struct str *out)
{
	const char *base = fs_basename(o->path), *dot = strrchr(base, '.');
	const char *suffix = dot && dot != base && !o->is_dir ? dot : "";

	if (*suffix && !str_has_suffix(out->s, suffix))
		str_add(out, suffix);
}

void label_entry(const struct plan *p, const struct plan_dep *d, const struct plan_task *t,
		 const struct step_output *o, struct str *out)
{
	const struct plan_step *s = &p->steps[t->step];

	str_reset(out);
	if (s->fan->items)
		str_add(out, s->fan->items[t->index].path);
	else
		add_axes(s, t, d, out);
	plan_entry_add_suffix(o, out);
}
