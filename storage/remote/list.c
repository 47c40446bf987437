/* Lists and counts the objects in the bucket. */
#include <stdio.h>
#include "storage/remote/internal.h"

struct listing {
	struct remote *r;
	enum store_space space;
	store_list_fn *fn;
	void *arg;
};

static int list_alone(void *arg, const struct bucket_object *o)
{
	struct listing *l = arg;
	struct digest name;

	/* space/ab/<64 hex digits>; anything else isn't ours */
	if (!remote_name_in(o->key, strlen(store_space_names[l->space]) + 4, &name))
		return 0;
	return l->fn(l->arg, &name, o->size, o->mtime_ns);
}

/* Lists the members of all packs, each once, from the first pack that has it. Skips packs that fn
 * adds meanwhile. */
static int list_packed(struct listing *l, struct err *err)
{
	size_t n_packs;

	pthread_mutex_lock(&l->r->lock);
	n_packs = l->r->packs.n;
	pthread_mutex_unlock(&l->r->lock);
	for (size_t i = 0; i < n_packs; i++) {
		struct pack p;

		pthread_mutex_lock(&l->r->lock);
		p = l->r->packs.v[i];
		pthread_mutex_unlock(&l->r->lock);
		for (size_t k = 0; k < p.n && !p.gone; k++) {
			struct pack_member m, first = { 0 };
			uint32_t pack = (uint32_t)i;
			bool found;
			int r;

			pack_index_at(p.index, k, &m);
			if (m.space != l->space)
				continue;
			pthread_mutex_lock(&l->r->lock);
			found = presence_find_locked(l->r,
						     &(struct remote_object){ .space = l->space,
									      .name = m.name,
									      .size = UINT64_MAX },
						     true, &pack, &first);
			pthread_mutex_unlock(&l->r->lock);
			if (found && pack != i)
				continue;
			r = l->fn(l->arg, &m.name, m.size, p.mtime_ns);
			if (r)
				return r;
		}
	}
	return 0;
}

int remote_list(struct remote *r, enum store_space space, store_list_fn *fn, void *arg,
		struct err *err)
{
	struct listing l = { r, space, fn, arg };
	char prefix[16];
	int got;

	if (remote_attach(r, err) < 0)
		return -1;
	if (space <= STORE_TREE && (got = list_packed(&l, err)) != 0)
		return got;
	if (space == STORE_TREE)
		return 0;
	snprintf(prefix, sizeof(prefix), "%s/", store_space_names[space]);
	return bucket_list(r->bucket, prefix, NULL, 0, list_alone, &l, err);
}

int remote_drop(struct remote *r, enum store_space space, const struct digest *name,
		struct err *err)
{
	char key[REMOTE_KEY_MAX];
	const char *v;

	if (space == STORE_TREE)
		return 0;
	v = remote_key(key, space, name);
	return bucket_delete_many(r->bucket, &v, 1, err);
}

/* Numbers. */

static int count(void *arg, const struct bucket_object *o)
{
	struct remote_stat *st = arg;

	if (str_has_prefix(o->key, "packs/")) {
		st->packs += str_has_suffix(o->key, ".idx");
		st->pack_bytes += o->size;
	} else if (str_has_prefix(o->key, "blobs/")) {
		st->loose++;
		st->loose_bytes += o->size;
	} else if (str_has_prefix(o->key, "actions/")) {
		st->actions++;
	} else if (str_has_prefix(o->key, "runs/")) {
		st->runs++;
	} else if (str_has_prefix(o->key, LEASES_PREFIX)) {
		st->leases++;
	} else if (!str_eq(o->key, "version") && !str_has_prefix(o->key, "gc/")) {
		st->others++;
	}
	return 0;
}

int remote_stat(struct remote *r, struct remote_stat *ret, struct err *err)
{
	*ret = (struct remote_stat){ 0 };
	if (remote_attach(r, err) < 0 || bucket_list(r->bucket, "", NULL, 0, count, ret, err) < 0)
		return -1;
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < r->packs.n; i++)
		ret->packed += r->packs.v[i].gone ? 0 : r->packs.v[i].n;
	ret->condemned = condemned_list_len(&r->condemned.list);
	ret->has_condemned = r->condemned.written_ns != 0;
	pthread_mutex_unlock(&r->lock);
	return 0;
}
