/* storage/remote/tier_bring.c — fetches into the directory what it lacks and the bucket has.
 *
 * A bucket that can't be reached counts as empty; the later read of a missing object reports it.
 * Trees are fetched level by level, each level in one batch. A record that the bucket lacks is
 * noted (`absent`), so that it isn't requested again at once.
 */
#include <assert.h>
#include "storage/action.h"
#include "storage/remote/tier_internal.h"

/* Blobs that wait while trees are fetched; limits the memory. */
#define LEVEL_MAX 65536
/* An absent record isn't requested again within this time. Longer isn't possible, because others
 * may write it. */
#define ABSENT_S 60

/* 0: the first is in the directory now, 1: it can't be fetched. */
static int fetch(struct tier *t, struct remote_object *v, size_t n, struct err *err)
{
	struct err e = { 0 };

	if (!tier_may_try(t))
		return 1;
	if (remote_fetch(t->remote, t->local, v, n, &e) < 0)
		return tier_away(t, &e, err) < 0 ? -1 : 1;
	pthread_mutex_lock(&t->base.lock);
	for (size_t i = 0; i < n; i++)
		if (v[i].there && v[i].size != UINT64_MAX && !(v[i].place && v[i].place->placed))
			t->added_bytes += v[i].size;
	pthread_mutex_unlock(&t->base.lock);
	return v[0].there ? 0 : 1;
}

int tier_bring_one(struct tier *t, const struct remote_object *o, const struct err *lacking,
		   struct err *err)
{
	struct remote_object mine = *o;
	struct err why;
	uintptr_t when_s = 0;
	int r = 1;

	assert(lacking->code);
	if (lacking->code != ERR_NOT_FOUND)
		return err_pass(err, lacking);
	pthread_mutex_lock(&t->base.lock);
	if (o->space == STORE_ACTION)
		when_s = (uintptr_t)map_get(t->absent, o->name.b, DIGEST_BYTES);
	pthread_mutex_unlock(&t->base.lock);
	if (!when_s || when_s + ABSENT_S <= (uintptr_t)(tier_now_ns() / NS_PER_S) + 1)
		r = fetch(t, &mine, 1, err);
	if (r <= 0)
		return r;
	pthread_mutex_lock(&t->base.lock);
	why = t->failure;
	pthread_mutex_unlock(&t->base.lock);
	return why.code ? err_set(err, lacking->code, "%s, and %s does not answer: %s",
				  lacking->msg, t->base.uri, why.msg)
			: err_pass(err, lacking);
}

/* Fetches those that the directory lacks. sizes NULL: not known. */
static int fetch_lacking(struct tier *t, enum store_space space, const struct digest *names,
			 const uint64_t *sizes, size_t n, struct err *err)
{
	_cleanup_(freep) bool *there = xcalloc(n + 1, sizeof(*there));
	_cleanup_(freep) struct remote_object *v = xcalloc(n + 1, sizeof(*v));
	uintptr_t now_s;
	size_t m = 0;

	if (t->local->ops->has(t->local, space, names, sizes, n, there, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (!there[i])
			v[m++] = (struct remote_object){ .space = space,
							 .name = names[i],
							 .size = sizes ? sizes[i] : UINT64_MAX };
	if (m && fetch(t, v, m, err) < 0)
		return -1;
	now_s = (uintptr_t)(tier_now_ns() / NS_PER_S) + 1;
	pthread_mutex_lock(&t->base.lock);
	for (size_t i = 0; i < m && space == STORE_ACTION; i++)
		*map_slot(t->absent, v[i].name.b, DIGEST_BYTES, NULL) =
			v[i].there ? NULL : (void *)now_s;
	pthread_mutex_unlock(&t->base.lock);
	return 0;
}

/* Contents. */

struct level {
	VEC(struct digest) names[2]; /* blobs, trees */
	VEC(uint64_t) sizes[2];
	struct map *seen;
	enum store_bring what;
};
static void add_to_level(struct level *l, const struct content_id *id)
{
	enum store_space space = content_space(id);
	bool is_new;

	if (space == STORE_SPACES ||
	    (l->what == BRING_SMALL && space == STORE_BLOB && id->size_bytes >= REMOTE_LOOSE_MIN))
		return;
	*map_slot(l->seen, id->digest.b, DIGEST_BYTES, &is_new) = l;
	if (!is_new)
		return;
	VEC_PUSH(&l->names[space], id->digest);
	VEC_PUSH(&l->sizes[space], id->size_bytes);
}

static int bring_blobs(struct tier *t, struct level *l, struct err *err)
{
	int r = l->names[STORE_BLOB].n
			? fetch_lacking(t, STORE_BLOB, l->names[STORE_BLOB].v,
					l->sizes[STORE_BLOB].v, l->names[STORE_BLOB].n, err)
			: 0;

	l->names[STORE_BLOB].n = l->sizes[STORE_BLOB].n = 0;
	return r;
}

/* Fetches one level of trees; their members form the next level. */
static int bring_trees(struct tier *t, struct level *l, struct err *err)
{
	size_t n = l->names[STORE_TREE].n;
	_cleanup_(freep) struct digest *names = l->names[STORE_TREE].v;
	_cleanup_(freep) uint64_t *sizes = l->sizes[STORE_TREE].v;

	memset(&l->names[STORE_TREE], 0, sizeof(l->names[STORE_TREE]));
	memset(&l->sizes[STORE_TREE], 0, sizeof(l->sizes[STORE_TREE]));
	if (fetch_lacking(t, STORE_TREE, names, sizes, n, err) < 0)
		return -1;
	for (size_t i = 0; i < n && l->what != BRING_THESE; i++) {
		struct content_id id = { .digest = names[i],
					 .size_bytes = sizes[i],
					 .kind = CONTENT_TREE };
		_cleanup_(tree_freep) struct tree *tree = NULL;

		if (tree_load(t->local, &id, &tree, NULL) < 0)
			continue; /* the reader that needs it gets the error */
		for (size_t k = 0; k < tree_len(tree); k++)
			if (tree_entry_is_kept(tree_at(tree, k)))
				add_to_level(l, &tree_at(tree, k)->id);
		if (l->names[STORE_BLOB].n >= LEVEL_MAX && bring_blobs(t, l, err) < 0)
			return -1;
	}
	return 0;
}

int tier_bring(struct store *s, const struct content_id *ids, size_t n, enum store_bring what,
	       struct err *err)
{
	struct tier *t = tier_of(s);
	struct level l = { .seen = map_new(), .what = what };
	int r = 0;

	for (size_t i = 0; i < n; i++)
		add_to_level(&l, &ids[i]);
	while (r == 0 && l.names[STORE_TREE].n)
		r = bring_trees(t, &l, err);
	if (r == 0)
		r = bring_blobs(t, &l, err);
	for (int i = 0; i < 2; i++) {
		VEC_FREE(&l.names[i]);
		VEC_FREE(&l.sizes[i]);
	}
	map_free(l.seen);
	return r;
}

int tier_place(struct store *s, struct store_place *places, size_t n, struct err *err)
{
	_cleanup_(freep) struct remote_object *v = xcalloc(n + 1, sizeof(*v));

	for (size_t i = 0; i < n; i++)
		v[i] = (struct remote_object){ .space = STORE_BLOB,
					       .name = places[i].id.digest,
					       .size = places[i].id.size_bytes,
					       .place = &places[i] };
	return n && fetch(tier_of(s), v, n, err) < 0 ? -1 : 0;
}

/* Records. The metrics of an action record are usually read next, so they are fetched too. */

int tier_bring_records(struct store *s, enum store_space space, const struct digest *names,
		       size_t n, struct err *err)
{
	_cleanup_(freep) struct digest *blobs = xcalloc(n + 1, sizeof(*blobs));
	_cleanup_(freep) uint64_t *sizes = xcalloc(n + 1, sizeof(*sizes));
	struct tier *t = tier_of(s);
	size_t m = 0;

	if (fetch_lacking(t, space, names, NULL, n, err) < 0)
		return -1;
	for (size_t i = 0; i < n && space == STORE_ACTION; i++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		_cleanup_(str_deinit) struct str bytes = { 0 };
		struct action_record a;

		if (t->local->ops->get(t->local, STORE_ACTION, &names[i], ACTION_RECORD_MAX, &bytes,
				       NULL) < 0 ||
		    action_decode(bytes.s ? bytes.s : "", bytes.len, arena, &a, NULL) < 0 ||
		    a.metrics.kind == CONTENT_NONE)
			continue;
		blobs[m] = a.metrics.digest;
		sizes[m++] = a.metrics.size_bytes;
	}
	return m ? fetch_lacking(t, STORE_BLOB, blobs, sizes, m, err) : 0;
}

/* Replaces the directory's copy with the bucket's. */
static int take_fresh(struct tier *t, struct store *fresh, const struct remote_object *o,
		      struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };

	pthread_mutex_lock(&t->base.lock);
	*map_slot(t->absent, o->name.b, DIGEST_BYTES, NULL) = NULL;
	pthread_mutex_unlock(&t->base.lock);
	if (!o->there)
		return t->local->ops->del(t->local, o->space, &o->name, err);
	if (fresh->ops->get(fresh, o->space, &o->name, REMOTE_RECORD_MAX, &bytes, err) < 0 ||
	    t->local->ops->put(t->local, o->space, &o->name, bytes.s ? bytes.s : "", bytes.len,
			       true, err) < 0)
		return -1;
	return 0;
}

int tier_refresh(struct store *s, enum store_space space, const struct digest *names, size_t n,
		 struct err *err)
{
	_cleanup_(freep) struct remote_object *v = xcalloc(n + 1, sizeof(*v));
	struct tier *t = tier_of(s);
	struct store *fresh;
	int r;

	assert(space > STORE_TREE); /* contents never change */
	remote_expect_changes(t->remote);
	if (n == 0)
		return 0;
	for (size_t i = 0; i < n; i++)
		v[i] = (struct remote_object){ .space = space,
					       .name = names[i],
					       .size = UINT64_MAX };
	fresh = store_memory_new();
	r = remote_fetch(t->remote, fresh, v, n, err);
	for (size_t i = 0; i < n && r == 0; i++)
		r = take_fresh(t, fresh, &v[i], err);
	store_free(fresh);
	return r;
}
