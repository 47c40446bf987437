/* engine/plan/past/reason.c — why a task runs: compares its key record with that of the latest
 * earlier execution of the same task.
 *
 * When the plan knows the cause of a miss (forced, `cache: false`, content gone), that is the
 * reason. Otherwise the database names the last attempt with this label, key_differences() compares
 * the two records, and each difference becomes a cause in words. CAUSES_MAX are written; the rest
 * is only counted. For content, the first place that differs is looked up in the trees.
 *
 * A record that is gone or damaged is no error: then the text says that the earlier state isn't on
 * record.
 */
#include "base/text/text.h"
#include "plan/internal.h"
#include "plan/key/difference.h"

/* Causes that are named; the rest is only counted. */
#define CAUSES_MAX 3

struct causes {
	struct str *out;
	size_t n;
};

static void add_cause(struct causes *c, const char *fmt, ...) _printf_(2, 3);
static void add_cause(struct causes *c, const char *fmt, ...)
{
	va_list ap;

	if (c->n++ >= CAUSES_MAX)
		return;
	if (c->n > 1)
		str_add(c->out, "; ");
	va_start(ap, fmt);
	str_addv(c->out, fmt, ap);
	va_end(ap);
}

/* ": shard/train-00017.tar (made by shard)" for an input that changed. */
static void describe_input(struct plan *p, const struct plan_task *t, const char *name,
			   const struct content_id *was, const struct content_id *now,
			   struct str *out)
{
	const struct step *s = p->steps[t->step].decl;
	struct str where = { 0 };

	tree_first_difference(p->ctx.store, was, now, &where);
	if (where.len)
		str_addf(out, ": %s", where.s);
	for (size_t i = 0; i < s->n_inputs; i++)
		if (str_eq(s->inputs[i].name, name) && s->inputs[i].from.kind == REF_STEP_OUTPUT)
			str_addf(out, " (made by %s)", p->steps[s->inputs[i].from.step].decl->name);
		else if (str_eq(s->inputs[i].name, name) &&
			 s->inputs[i].from.kind == REF_PIPELINE_INPUT)
			str_addf(out, " (%s)", p->pins.input_uris[s->inputs[i].from.index]);
	str_deinit(&where);
}

/* Names the step's lock files, then the first place in the rest of its code. */
static void describe_code(struct plan *p, const struct plan_task *t, struct causes *c,
			  const struct content_id *was, const struct content_id *now)
{
	const struct step *s = p->steps[t->step].decl;
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str where = { 0 };
	size_t n = 0;

	for (size_t i = 0; i < s->reads->n_env_files; i++) {
		struct tree_entry a, b;
		struct err none = { 0 };
		const char *path = s->reads->env_files[i];

		/* Commands that only look don't keep whole projects in the store. */
		if (tree_lookup(p->ctx.store, now, path, arena, &b, &none) < 0 ||
		    (tree_lookup(p->ctx.store, was, path, arena, &a, &none) == 0 &&
		     content_id_eq(&a.id, &b.id)))
			continue;
		add_cause(c, "environment file %s changed", path);
		n++;
	}
	tree_first_difference_but(p->ctx.store, was, now, s->reads->env_files,
				  s->reads->n_env_files, &where);
	if (where.len || !n)
		add_cause(c, "code changed%s%s", where.len ? ": " : "", where.len ? where.s : "");
}

/* The canonical value of a param, as text. */
static void param_text(const struct key_fact *f, struct str *out)
{
	value_canonical_text(f->value, f->value_len, out);
}

/* "sha256:0123456789ab linux/amd64" */
static void image_text(const struct key_fact *f, bool with_platform, struct str *out)
{
	const char *space = memchr(f->value, ' ', f->value_len);
	size_t digest = space ? (size_t)(space - f->value) : f->value_len;

	str_addn(out, f->value, MIN(digest, strlen("sha256:") + 12));
	if (with_platform)
		str_addn(out, f->value + digest, f->value_len - digest);
}

static void describe_image(struct plan *p, const struct plan_task *t, struct causes *c,
			   const struct key_fact *was, const struct key_fact *now)
{
	_cleanup_(str_deinit) struct str a = { 0 }, b = { 0 };
	const char *name = plan_task_step(p, t)->machine->place.image;

	image_text(was, false, &a);
	image_text(now, false, &b);
	if (a.len && b.len && strcmp(a.s, b.s) == 0) {
		str_reset(&a);
		str_reset(&b);
		image_text(was, true, &a);
		image_text(now, true, &b);
	}
	add_cause(c, "image %s changed: %s → %s", name ? name : "", a.len ? a.s : "",
		  b.len ? b.s : "");
}

static size_t first_line(const struct key_fact *f)
{
	const char *end = memchr(f->value, '\n', f->value_len);

	return MIN(end ? (size_t)(end - f->value) : f->value_len, (size_t)60);
}

static void compare_fact(struct plan *p, const struct plan_task *t, struct causes *c,
			 const struct key_fact *was, const struct key_fact *now)
{
	struct str a = { 0 }, b = { 0 };
	struct content_id ia, ib;
	const char *pa, *pb;
	char *name = xstrndup(now->name, now->name_len);

	switch (now->kind) {
	case KEY_PARAM:
		param_text(was, &a);
		param_text(now, &b);
		add_cause(c, "param %s changed: %s → %s", name, a.s, b.s);
		break;
	case KEY_INPUT:
	case KEY_CODE:
		if (key_fact_content(was, &pa, &ia) && key_fact_content(now, &pb, &ib)) {
			str_add(&a, "");
			if (now->kind == KEY_CODE) {
				describe_code(p, t, c, &ia, &ib);
				break;
			}
			describe_input(p, t, name, &ia, &ib, &a);
			add_cause(c, "input %s changed%s", name, a.s);
		}
		break;
	case KEY_ENV:
		add_cause(c, "env %s changed: %.*s → %.*s", name, (int)MIN(was->value_len, 60),
			  was->value, (int)MIN(now->value_len, 60), now->value);
		break;
	case KEY_ENVIRONMENT:
		if (str_eq(name, "python"))
			add_cause(c, "Python of the environment changed: %.*s → %.*s",
				  (int)first_line(was), was->value, (int)first_line(now),
				  now->value);
		else
			add_cause(c, "environment %s changed",
				  p->steps[t->step].facts.environment
					  ? p->steps[t->step].facts.environment->path
					  : name);
		break;
	case KEY_SCRIPT:
		add_cause(c, "command changed");
		break;
	case KEY_IMAGE:
		describe_image(p, t, c, was, now);
		break;
	default:
		add_cause(c, "%s%s%s changed", key_fact_kind_name(now->kind), *name ? " " : "",
			  name);
	}
	free(name);
	str_deinit(&a);
	str_deinit(&b);
}

struct comparison {
	struct plan *p;
	const struct plan_task *t;
	struct causes *c;
};

static void note_difference(void *arg, const struct key_fact *was, const struct key_fact *now)
{
	struct comparison *cmp = arg;
	const struct key_fact *f = was ? was : now;

	if (was && now)
		compare_fact(cmp->p, cmp->t, cmp->c, was, now);
	else
		add_cause(cmp->c, "%s%s%.*s %s", key_fact_kind_name(f->kind),
			  f->name_len ? " " : "", (int)f->name_len, f->name,
			  was ? "removed" : "added");
}

static int explain(struct plan *p, const struct plan_task *t, const struct attempt_row *earlier,
		   const struct str *key_record, struct str *out, struct err *err)
{
	struct causes c = { .out = out };
	struct str old = { 0 };
	struct key_fact *was = NULL, *now = NULL;
	size_t n_was = 0, n_now = 0;
	struct err ignored = { 0 };
	int r = 0;

	if (record_key_bytes(p->ctx.db, &earlier->key, &old, &ignored) < 0 ||
	    key_record_decode(old.s, old.len, &was, &n_was, &ignored) < 0)
		str_add(out, "changed, but what it was before is not on record");
	else if (key_record_decode(key_record->s, key_record->len, &now, &n_now, err) < 0)
		r = -1;
	else
		key_differences(was, n_was, now, n_now, note_difference,
				&(struct comparison){ p, t, &c });
	if (c.n > CAUSES_MAX)
		str_addf(out, "; and %zu more", c.n - CAUSES_MAX);
	free(was);
	free(now);
	str_deinit(&old);
	return r;
}

int plan_task_reason(struct plan *p, const struct plan_task *t, const struct str *key_record,
		     struct str *out, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = NULL;
	struct attempt_row earlier;
	int found;

	switch (t->miss) {
	case MISS_FORCED:
		str_add(out, "forced");
		return 0;
	case MISS_NO_CACHE:
		str_add(out,
			p->steps[t->step].decl->approve ? "asks for approval" : "cache: false");
		return 0;
	case MISS_BLOBS_GONE:
		str_add(out, "its output is missing from the store");
		return 0;
	default:
		break;
	}
	if (!p->ctx.db)
		return 0;
	arena = arena_new();
	plan_task_label(p, t, &p->scratch);
	found = record_previous_attempt(p->ctx.db, p->ctx.pipeline->name, p->scratch.s, 0, arena,
					&earlier, err);
	if (found < 0)
		return -1;
	if (found == 0)
		str_add(out, "first run");
	else if (digest_eq(&earlier.key, &t->key))
		str_addf(out,
			 earlier.failure == FAILURE_NONE ? "its result is not on record any more"
							 : "the last attempt ended as %s",
			 failure_class_name(earlier.failure));
	else
		return explain(p, t, &earlier, key_record, out, err);
	return 0;
}
