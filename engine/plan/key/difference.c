#include "plan/key/difference.h"
#include "model/pipeline.h"
#include "storage/origin/reference.h"

/* Key records. */

static bool is_params(const struct key_fact *f)
{
	return f->kind == KEY_ENV && f->name_len == strlen(STEP_PARAMS_VARIABLE) &&
	       memcmp(f->name, STEP_PARAMS_VARIABLE, f->name_len) == 0;
}

void key_differences(const struct key_fact *was, size_t n_was, const struct key_fact *now,
		     size_t n_now, key_difference_fn fn, void *arg)
{
	const struct key_fact *script[2] = { NULL, NULL }, *params[2] = { NULL, NULL };
	size_t named = 0, named_params = 0;

	for (size_t i = 0, k = 0; i < n_was || k < n_now;) {
		int order = i == n_was ? 1 : k == n_now ? -1 : key_fact_order(&was[i], &now[k]);
		const struct key_fact *a = order <= 0 ? &was[i++] : NULL,
				      *b = order >= 0 ? &now[k++] : NULL;

		if (a && b && a->value_len == b->value_len &&
		    memcmp(a->value, b->value, a->value_len) == 0)
			continue;
		if (a && b && a->kind == KEY_SCRIPT) {
			script[0] = a;
			script[1] = b;
			continue;
		}
		if (a && b && is_params(a)) {
			params[0] = a;
			params[1] = b;
			continue;
		}
		fn(arg, a, b);
		named++;
		named_params += (a ? a : b)->kind == KEY_PARAM;
	}
	if (params[0] && !named_params) {
		fn(arg, params[0], params[1]);
		named++;
	}
	if (script[0] && !named)
		fn(arg, script[0], script[1]);
}

/* Trees. */

/* Whether both are the same member. Ids of references are compared by what they refer to. */
static bool same_entry(const struct tree_entry *a, const struct tree_entry *b)
{
	struct content_id x, y;

	if (a->kind != b->kind || !content_id_eq(&a->id, &b->id) ||
	    a->target_len != b->target_len ||
	    (a->target_len && memcmp(a->target, b->target, a->target_len) != 0))
		return false;
	return a->kind != TREE_REFERENCE ||
	       (reference_put(NULL, a->ref, &x, NULL) == 0 &&
		reference_put(NULL, b->ref, &y, NULL) == 0 && content_id_eq(&x, &y));
}

struct search {
	struct store *store;
	const char *const *but;
	size_t n_but;
	struct str path;
	bool passed_by; /* a path in `but` differs */
};

static void first_place(struct search *s, const struct content_id *was,
			const struct content_id *now, struct str *out)
{
	struct str *path = &s->path;
	_cleanup_(tree_freep) struct tree *a = NULL;
	_cleanup_(tree_freep) struct tree *b = NULL;
	struct err ignored = { 0 };
	size_t i = 0, k = 0;

	if (content_same_bytes(was, now) && was->kind != now->kind) {
		str_addf(out, "%s %s", path->len ? path->s : "it",
			 now->kind == CONTENT_EXECUTABLE ? "is executable now"
							 : "isn't executable any more");
		return;
	}
	if (was->kind != CONTENT_TREE || now->kind != CONTENT_TREE ||
	    tree_load(s->store, was, &a, &ignored) < 0 ||
	    tree_load(s->store, now, &b, &ignored) < 0)
		return;
	while (i < tree_len(a) || k < tree_len(b)) {
		const struct tree_entry *ea = i < tree_len(a) ? tree_at(a, i) : NULL,
					*eb = k < tree_len(b) ? tree_at(b, k) : NULL;
		int order = !ea ? 1 : !eb ? -1 : strcmp(ea->name, eb->name);
		const struct tree_entry *e = order < 0 ? ea : eb;
		size_t len = path->len;

		if (order == 0 && same_entry(ea, eb)) {
			i++, k++;
			continue;
		}
		str_addf(path, "%s%s", path->len ? "/" : "", e->name);
		s->passed_by = false;
		for (size_t n = 0; n < s->n_but && !s->passed_by; n++)
			s->passed_by = strcmp(path->s, s->but[n]) == 0;
		if (!s->passed_by && order == 0 && tree_entry_is_kept(ea) && tree_entry_is_kept(eb))
			first_place(s, &ea->id, &eb->id, out);
		if (out->len == 0 && s->passed_by) {
			path->len = len;
			path->s[len] = '\0';
			i += order <= 0;
			k += order >= 0;
			continue;
		}
		if (out->len == 0)
			str_addf(out, "%s%s", path->s,
				 order < 0   ? " removed"
				 : order > 0 ? " added"
					     : "");
		path->len = len;
		return;
	}
}

void tree_first_difference_but(struct store *s, const struct content_id *was,
			       const struct content_id *now, const char *const *but, size_t n,
			       struct str *out)
{
	struct search search = { .store = s, .but = but, .n_but = n };
	_cleanup_(str_deinit) struct str place = { 0 };

	first_place(&search, was, now, &place);
	str_addn(out, place.s ? place.s : "", place.len);
	str_deinit(&search.path);
}

void tree_first_difference(struct store *s, const struct content_id *was,
			   const struct content_id *now, struct str *out)
{
	tree_first_difference_but(s, was, now, NULL, 0, out);
}
