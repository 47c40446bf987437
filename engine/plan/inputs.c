/* engine/plan/inputs.c — the content of a task's inputs, and where it came from.
 *
 * plan_task_inputs() finds the source of each input: a pinned input of the pipeline, an output of a
 * needed task, or an item of `each`. Then it follows a path below that, if there is one, and
 * decides where the input lies in the workspace. The name is `inputs/NAME` with the last suffix of
 * the source, if that has only letters and digits.
 *
 * Where several tasks make one output, the outputs become one tree (gather()), whose entries are
 * named by label_entry(). The tree is made once for each group and output, and kept in
 * plan_dep.gathered. Skipped tasks have no entry in it.
 *
 * Only ids are passed on. No bytes are read except listings, and those only for a path below a
 * tree. plan_task_sources() gives lineage the parts of which an input is made, up to SOURCES_MAX.
 */
#include "base/text/text.h"
#include "plan/internal.h"
#include "storage/origin/reference.h"

/* Trees from paths. */

static int by_path(const void *a, const void *b)
{
	return strcmp(((const struct path_entry *)a)->path, ((const struct path_entry *)b)->path);
}

/* Makes the tree of entries[0..n), all below the directory whose path is `skip` bytes long. The
 * input is sorted, but entries of one subdirectory are not always adjacent in byte order ("a",
 * "a.x", "a/b"), so each name is collected by a separate scan. */
static int tree_level(struct store *s, struct map *stored, struct path_entry **e, size_t n,
		      size_t skip, struct content_id *ret, struct err *err)
{
	struct tree_builder *b = tree_builder_new();
	_cleanup_(freep) struct path_entry **below = xcalloc(n + 1, sizeof(*below));
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		const char *name, *slash;
		struct tree_entry te = { 0 };
		size_t n_below = 0;

		if (!e[i])
			continue;
		name = e[i]->path + skip;
		slash = strchr(name, '/');
		te.name_len = slash ? (size_t)(slash - name) : strlen(name);
		te.name = xstrndup(name, te.name_len);
		if (!slash) {
			te.kind = e[i]->kind;
			te.id = e[i]->id;
			te.target = e[i]->target;
			te.target_len = te.target ? strlen(te.target) : 0;
		} else {
			for (size_t k = i; k < n; k++)
				if (e[k] &&
				    strncmp(e[k]->path + skip, name, te.name_len + 1) == 0) {
					below[n_below++] = e[k];
					e[k] = k == i ? e[k] : NULL;
				}
			te.kind = TREE_DIR;
			r = tree_level(s, stored, below, n_below, skip + te.name_len + 1, &te.id,
				       err);
		}
		if (r == 0)
			r = tree_builder_add(b, &te, err);
		free((char *)te.name);
	}
	if (r == 0 && stored)
		r = tree_builder_store(b, NULL, ret, err);
	if (r == 0 && (!stored || !map_has(stored, &ret->digest, sizeof(ret->digest))))
		r = tree_builder_store(b, s, ret, err);
	if (r == 0 && stored)
		*map_slot(stored, &ret->digest, sizeof(ret->digest), NULL) = stored;
	tree_builder_free(b);
	return r;
}

int plan_tree_of_paths(struct store *s, struct map *stored, struct path_entry *entries, size_t n,
		       struct content_id *ret, struct err *err)
{
	_cleanup_(freep) struct path_entry **e = xcalloc(n + 1, sizeof(*e));

	qsort(entries, n, sizeof(*entries), by_path);
	for (size_t i = 0; i < n; i++)
		e[i] = &entries[i];
	return tree_level(s, stored, e, n, 0, ret, err);
}

/* Outputs of needed tasks. */

/* Whether what was only named can be stored now. */
static bool may_be_stored(struct plan *p, struct plan_dep *d, uint32_t group)
{
	for (size_t i = 0; i < dep_group_size(p, d, group); i++)
		if (dep_group_task(p, d, group, i)->absent)
			return false;
	return true;
}

/* With parts whose content is gone it is only named: a tree in the store has all its members. */
static int gather(struct plan *p, struct plan_dep *d, uint32_t group, uint32_t output,
		  struct gathered *ret, struct err *err)
{
	const struct plan_step *u = &p->steps[d->decl->step];
	size_t n = dep_group_size(p, d, group), used = 0;
	_cleanup_(freep) struct path_entry *entries = xcalloc(n + 1, sizeof(*entries));
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct str name = { 0 };
	int r;

	ret->is_stored = true;
	for (size_t i = 0; i < n; i++) {
		const struct plan_task *t = dep_group_task(p, d, group, i);

		if (!t->outputs || task_tolerated(p, t))
			continue; /* tasks that were left out leave no entry */
		label_entry(p, d, t, &u->decl->outputs[output], &name);
		entries[used].path = arena_strndup(arena, name.s, name.len);
		entries[used].id = t->outputs[output];
		entries[used].kind = tree_entry_kind_of(&t->outputs[output]);
		used++;
		ret->is_stored &= !t->absent;
	}
	str_deinit(&name);
	r = plan_tree_of_paths(ret->is_stored ? p->ctx.store : NULL, NULL, entries, used, &ret->id,
			       err);
	return r < 0 ? err_wrap(err, "gathering `%s` of step `%s`", u->decl->outputs[output].name,
				u->decl->name)
		     : 0;
}

int scope_content(struct task_scope *scope, const struct ref *ref, struct content_id *ret,
		  struct err *err)
{
	struct plan *p = scope->plan;
	struct plan_step *s = &p->steps[scope->task->step];
	struct plan_dep *d = plan_dep_on(p, s, ref->step);
	size_t n_outputs = p->steps[ref->step].decl->n_outputs;
	const struct plan_task *before = plan_round_before(p, scope->task);
	struct gathered *memo;
	uint32_t g;

	if (ref->step == scope->task->step && before && before->outputs) {
		*ret = before->outputs[ref->index];
		return 0;
	}
	if (!d)
		return err_set(err, ERR_INVALID, "%d:%d: step `%s` doesn't need `%s`", ref->line,
			       ref->col, s->decl->name, p->steps[ref->step].decl->name);
	g = dep_group_of(d, scope->task);
	if (!dep_gathers(p, d)) {
		const struct plan_task *t = dep_single(p, d, g);

		if (!t->outputs)
			return err_set(err, ERR_FAILED, "step `%s` made no output",
				       p->steps[ref->step].decl->name);
		*ret = t->outputs[ref->index];
		return 0;
	}
	if (!d->gathered)
		d->gathered = arena_alloc(p->arena,
					  (size_t)d->n_groups * n_outputs * sizeof(*d->gathered));
	memo = &d->gathered[g * n_outputs + ref->index];
	if ((memo->id.kind == CONTENT_NONE || (!memo->is_stored && may_be_stored(p, d, g))) &&
	    gather(p, d, g, ref->index, memo, err) < 0)
		return -1;
	*ret = memo->id;
	return 0;
}

/* Inputs. */

/* ".tar.gz" becomes ".gz", since programs look at the last suffix. Odd characters must not reach a
 * command line. */
static const char *safe_suffix(const char *path)
{
	const char *base = strrchr(path, '/');
	const char *dot = strrchr(base ? base + 1 : path, '.');
	size_t n = dot ? strlen(dot) : 0;

	if (n < 2 || n > 16 || dot == (base ? base + 1 : path))
		return "";
	for (size_t i = 1; i < n; i++)
		if (!((dot[i] >= 'a' && dot[i] <= 'z') || (dot[i] >= 'A' && dot[i] <= 'Z') ||
		      (dot[i] >= '0' && dot[i] <= '9')))
			return "";
	return dot;
}

/* "inputs/NAME.csv". Made for each input of each task, so without printf. */
static const char *place_of_input(struct arena *arena, const char *name, const char *suffix)
{
	static const char dir[] = "inputs/";
	size_t n = strlen(name), n_suffix = strlen(suffix);
	char *path = arena_alloc(arena, strlen(dir) + n + n_suffix + 1);

	memcpy(path, dir, strlen(dir));
	memcpy(path + strlen(dir), name, n);
	memcpy(path + strlen(dir) + n, suffix, n_suffix);
	return path;
}

/* A path in a volume of a cluster: nobody here can look whether it is there. */
static int below_volume(struct plan *p, const char *sub, struct arena *arena, struct content_id *id,
			const char **volume, struct err *err)
{
	struct reference r;

	sub += strspn(sub, "/");
	if (!*sub)
		return 0;
	if (reference_load(p->ctx.store, id, arena, &r, err) < 0)
		return -1;
	*volume = r.uri = arena_printf(arena, "%s/%s", *volume, sub);
	return reference_put(p->ctx.store, &r, id, err);
}

static int below(struct plan *p, const struct step_input *in, const char *sub, struct arena *arena,
		 struct content_id *id, struct err *err)
{
	struct tree_entry e;

	while (*sub == '/')
		sub++;
	if (*sub == '\0')
		return 0;
	if (id->kind != CONTENT_TREE)
		return err_set(err, ERR_INVALID, "%s:%d:%d: input `%s` asks for `%s` below a file",
			       in->pos.file, in->pos.line, in->pos.col, in->name, sub);
	if (tree_lookup(p->ctx.store, id, sub, arena, &e, err) < 0)
		return err_wrap(err, "%s:%d:%d: input `%s`", in->pos.file, in->pos.line,
				in->pos.col, in->name);
	if (e.kind == TREE_SYMLINK)
		return err_set(err, ERR_INVALID, "%s:%d:%d: input `%s`: `%s` is a symbolic link",
			       in->pos.file, in->pos.line, in->pos.col, in->name, sub);
	if (tree_entry_resolve(p->ctx.store, &e, err) < 0)
		return -1;
	*id = e.id;
	return 0;
}

/* An input as this round has it. */
static const struct step_input *in_round(const struct step_input *in, const struct plan_task *t)
{
	return in->then && t->round > 1 ? in->then : in;
}

static int input_content(struct task_scope *sc, const struct step_input *in, struct content_id *id,
			 const char **ret_named, struct err *err)
{
	struct plan *p = sc->plan;
	const struct input_decl *decl;
	const struct plan_item *item;
	const char *named;

	switch (in->from.kind) {
	case REF_PIPELINE_INPUT:
		*id = p->pins.input_ids[in->from.index];
		decl = &p->ctx.pipeline->inputs[in->from.index];
		named = decl->taken_from ? decl->taken_from : p->pins.input_uris[in->from.index];
		*ret_named = str_has_prefix(named, "http://") || str_has_prefix(named, "https://")
				     ? arena_strndup(sc->arena, named, strcspn(named, "?"))
				     : named;
		return 0;
	case REF_STEP_OUTPUT:
		*ret_named = p->steps[in->from.step].decl->outputs[in->from.index].path;
		return scope_content(sc, &in->from, id, err);
	default:
		item = &p->steps[sc->task->step].fan->items[sc->task->index];
		*id = item->id;
		*ret_named = item->path;
		return 0;
	}
}

static void see_whether_same(void *arg, const struct ref *ref)
{
	bool *same = arg;

	*same &= ref->kind == REF_PARAM || ref->kind == REF_SCHEDULE;
}

bool plan_input_is_shared(const struct plan *p, size_t step, size_t input)
{
	struct plan_step *s = &p->steps[step];
	const struct step_input *in = &s->decl->inputs[input];
	const struct plan_dep *d;
	bool same = !in->then;

	if (in->subpath)
		template_refs(in->subpath, see_whether_same, &same);
	if (!same || in->from.kind == REF_PIPELINE_INPUT)
		return same;
	if (in->from.kind != REF_STEP_OUTPUT)
		return false;
	d = plan_dep_on(p, s, in->from.step);
	return d && !d->match;
}

int plan_task_inputs(struct plan *p, const struct plan_task *t, struct arena *arena,
		     struct task_input **ret, size_t *ret_n, struct err *err)
{
	const struct step *s = p->steps[t->step].decl;
	struct task_input *v = arena_alloc(arena, (s->n_inputs + 1) * sizeof(*v));
	struct task_scope sc = { .plan = p, .task = t, .arena = arena };
	struct expr_scope es = { .resolve = scope_resolve, .arg = &sc };
	struct str sub = { 0 };

	for (size_t i = 0; i < s->n_inputs; i++) {
		const struct step_input *in = in_round(&s->inputs[i], t);
		const char *named = "";
		int r = input_content(&sc, in, &v[i].id, &named, err);

		v[i].volume = r == 0 && reference_is_volume(named) ? named : NULL;
		if (r == 0 && in->subpath) {
			str_reset(&sub);
			r = template_render(in->subpath, &es, arena, &sub, err);
			if (r == 0 && sub.len && v[i].volume)
				r = below_volume(p, sub.s, arena, &v[i].id, &v[i].volume, err);
			else if (r == 0 && sub.len)
				r = below(p, in, sub.s, arena, &v[i].id, err);
			named = sub.len ? sub.s : named;
		}
		if (r == 0 && v[i].volume)
			named = text_volume_path(v[i].volume);
		if (r != 0) {
			str_deinit(&sub);
			return -1;
		}
		v[i].name = in->name;
		v[i].path = place_of_input(arena, in->name,
					   v[i].id.kind != CONTENT_TREE ? safe_suffix(named) : "");
	}
	str_deinit(&sub);
	*ret = v;
	*ret_n = s->n_inputs;
	return 0;
}

/* Lineage. */

/* More edges than this tell a person nothing, and would make wide joins quadratic. */
#define SOURCES_MAX 1000

struct sources {
	struct arena *arena;
	VEC(struct named_content) out;
	struct str name;
};

static void add_source(struct sources *s, const char *input, const char *part,
		       const struct content_id *id)
{
	if (id->kind == CONTENT_NONE || s->out.n >= SOURCES_MAX)
		return;
	str_reset(&s->name);
	str_addf(&s->name, "%s:%s", input, part);
	VEC_PUSH(&s->out,
		 ((struct named_content){ arena_strndup(s->arena, s->name.s, s->name.len), *id }));
}

static void add_gathered(struct plan *p, struct sources *s, const struct plan_task *t,
			 const char *input, const struct ref *ref)
{
	struct plan_dep *d = plan_dep_on(p, &p->steps[t->step], ref->step);
	uint32_t g = d ? dep_group_of(d, t) : 0;
	size_t n = d && dep_gathers(p, d) ? dep_group_size(p, d, g) : 0;

	for (size_t i = 0; i < n && n <= SOURCES_MAX; i++) {
		const struct plan_task *made = dep_group_task(p, d, g, i);

		plan_task_label(p, made, &p->scratch);
		if (made->outputs)
			add_source(s, input, p->scratch.s, &made->outputs[ref->index]);
	}
}

int plan_task_sources(struct plan *p, const struct plan_task *t, struct arena *arena,
		      struct named_content **ret, size_t *ret_n, struct err *err)
{
	const struct step *st = p->steps[t->step].decl;
	struct task_scope sc = { .plan = p, .task = t, .arena = arena };
	struct sources s = { .arena = arena };
	int r = 0;

	for (size_t i = 0; i < st->n_inputs && r == 0; i++) {
		const struct step_input *in = in_round(&st->inputs[i], t);
		const struct ref *from = in->from.kind == REF_ITEM && st->tasks->each
						 ? &st->tasks->each->from
						 : &in->from;
		struct content_id whole = { .kind = CONTENT_NONE };

		if (from->kind == REF_STEP_OUTPUT)
			add_gathered(p, &s, t, in->name, from);
		if (in->from.kind != REF_ITEM && !in->subpath)
			continue;
		if (from->kind == REF_PIPELINE_INPUT)
			whole = p->pins.input_ids[from->index];
		else if (from->kind == REF_STEP_OUTPUT)
			r = scope_content(&sc, from, &whole, err);
		if (r == 0)
			add_source(&s, in->name, "(whole)", &whole);
	}
	VEC_TO_ARENA(&s.out, arena, ret, ret_n);
	str_deinit(&s.name);
	return r;
}
