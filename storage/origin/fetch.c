/* storage/origin/fetch.c — fetches the bytes of references into a store.
 *
 * An object isn't fetched if the memo knows it and the store still has its blob. The rest is
 * fetched in groups of GROUP objects: small ones into memory, others into temporary files of the
 * store that become blobs. Empty objects need no request. After a group has arrived, HASHERS
 * threads hash and publish it.
 *
 * A fetch gives exactly the pinned version, or an error (judge()). One failed object fails the
 * call, but the memo keeps those that arrived, so that the next call fetches less. A version of ""
 * can't be remembered.
 */
#include <sys/mman.h>
#include "storage/bucket/transfer.h"
#include "storage/origin/internal.h"

#define GROUP         128         /* fetched at once; each needs a descriptor */
#define IN_MEMORY_MAX (128 * KIB) /* times GROUP: 16 MiB */
#define HASHERS       4
/* Looked up at once. */
#define BATCH 8192

struct fetching {
	const struct reference *ref;
	struct bucket *bucket;
	struct bucket_get get;
	char *temp; /* of the file that get.fd writes to; NULL: memory */
	struct content_id id;
	int result;
	struct err err;
	bool published;
};

struct group {
	struct store *into;
	struct fetching *v;
	size_t n;
	struct arena *arena;
};

/* One object. */

static int changed(const struct reference *r, const char *how, struct err *err)
{
	return err_set(err, ERR_CHANGED,
		       "%.500s: the origin has changed since the run pinned it (%s)", r->uri, how);
}

static int begin(struct group *g, struct fetching *f, struct store *s, struct err *err)
{
	const struct reference *r = f->ref;

	f->get = (struct bucket_get){ .size = r->size_bytes,
				      .version = *r->version ? r->version : NULL,
				      .fd = -1 };
	if (origin_locate(s, r->uri, r->options, g->arena, &f->bucket, &f->get.key, err) < 0)
		return err_wrap(err, "%.500s", r->uri);
	if (r->size_bytes <= IN_MEMORY_MAX) {
		f->get.max_bytes = IN_MEMORY_MAX;
		return 0;
	}
	f->get.max_bytes = UINT64_MAX;
	f->get.hash = f->get.flush = g->into->ops->files;
	if (g->into->ops->files)
		return g->into->ops->files->open_temp(g->into, &f->get.fd, &f->temp, err);
	f->get.fd = memfd_create("origin", MFD_CLOEXEC);
	return f->get.fd < 0 ? err_errno(err, "cannot keep what is fetched") : 0;
}

static int judge(const struct fetching *f, struct err *err)
{
	const struct reference *r = f->ref;
	const struct err *e = &f->get.err;

	if (f->get.result == 0 && r->size_bytes != UINT64_MAX && f->get.n != r->size_bytes)
		return changed(r, "its size is another one", err);
	if (f->get.result == 0)
		return 0;
	if (e->code == ERR_CHANGED)
		return changed(r, "it is another version now", err);
	if (e->code == ERR_NOT_FOUND && *r->version)
		return changed(r, "it is gone", err);
	if (e->code == ERR_NO_SPACE)
		return err_pass(err, e);
	return err_set(err, e->code, "fetching %.500s: %s", r->uri, e->msg);
}

static int publish(struct group *g, struct fetching *f, struct err *err)
{
	int fd = f->get.fd, r;

	if (fd < 0)
		return content_put_bytes(g->into, f->get.n ? f->get.body.s : "", f->get.n, &f->id,
					 err);
	f->id = (struct content_id){ .kind = CONTENT_BLOB, .size_bytes = f->get.n };
	if (!f->temp)
		return content_put_fd(g->into, fd, &f->id, err);
	if (f->get.hashed)
		f->id.digest = f->get.digest;
	else if (content_hash_fd(fd, f->get.n, 1, &f->id.digest, err) < 0)
		return -1;
	f->get.fd = -1;
	store_note_arrived(g->into, &f->id.digest, fd);
	r = g->into->ops->files->publish_temp(g->into, fd, TAKE_PTR(f->temp), &f->id.digest, err);
	return r < 0 ? -1 : 0;
}

static void finish(struct work_queue *q, void *arg, size_t i)
{
	struct group *g = arg;
	struct fetching *f = &g->v[i];

	f->result = judge(f, &f->err);
	if (f->result == 0)
		f->result = publish(g, f, &f->err);
}

/* A group. */

/* The objects of one bucket form one batch. An empty object needs no request. */
static int get_all(struct group *g, struct err *err)
{
	struct bucket_get *gets[GROUP];
	bool asked[GROUP] = { false };

	for (size_t i = 0; i < g->n; i++) {
		size_t n = 0;

		if (asked[i] || g->v[i].ref->size_bytes == 0)
			continue;
		for (size_t k = i; k < g->n; k++)
			if (!asked[k] && g->v[k].bucket == g->v[i].bucket &&
			    g->v[k].ref->size_bytes) {
				asked[k] = true;
				gets[n++] = &g->v[k].get;
			}
		if (bucket_get_many(g->v[i].bucket, gets, n, err) < 0)
			return err_wrap(err, "fetching %.500s", g->v[i].ref->uri);
	}
	return 0;
}

static int remember(struct store *s, struct group *g, struct err *err)
{
	struct digest records[GROUP];
	struct content_id blobs[GROUP], id;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < g->n; i++) {
		struct fetching *f = &g->v[i];

		if (f->result < 0) {
			if (r == 0 && err)
				*err = f->err;
			r = -1;
		} else if (*f->ref->version) {
			reference_put(NULL, f->ref, &id, NULL);
			records[n] = id.digest;
			blobs[n++] = f->id;
		}
	}
	origin_memo_put(origin_memo_of(s), records, blobs, n);
	return r;
}

static int fetch_group(struct store *s, struct store *into, const struct reference *const *refs,
		       struct content_id **ret, size_t n, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(freep) struct fetching *v = xcalloc(n, sizeof(*v));
	struct group g = { .into = into, .v = v, .arena = arena };
	int r = 0;

	for (; g.n < n && r == 0; g.n++) {
		v[g.n].ref = refs[g.n];
		r = begin(&g, &v[g.n], s, err);
	}
	if (r == 0)
		r = get_all(&g, err);
	if (r == 0) {
		work_run(HASHERS, (struct work){ finish, &g, g.n });
		r = remember(s, &g, err);
	}
	for (size_t i = 0; i < g.n; i++) {
		struct bucket_get *get = &v[i].get;

		*ret[i] = v[i].id;
		str_deinit(&get->body);
		if (v[i].temp)
			into->ops->files->publish_temp(into, get->fd, v[i].temp, NULL, NULL);
		else if (get->fd >= 0)
			close(get->fd);
	}
	return r;
}

/* Many. */

static int fetch_batch(struct store *s, struct origin_sink *to, const struct reference *refs,
		       size_t n, struct content_id *ret, struct err *err)
{
	_cleanup_(freep) bool *known = xcalloc(n + 1, sizeof(*known));
	struct origin_memo *memo = origin_memo_of(s);
	const struct reference *want[GROUP];
	struct content_id *places[GROUP], record;
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		ret[i] = (struct content_id){ .kind = CONTENT_NONE };
		reference_put(NULL, &refs[i], &record, NULL);
		if (*refs[i].version)
			origin_memo_get(memo, &record.digest, &ret[i]);
	}
	if (store_has(to->store, ret, n, known, err) < 0)
		return -1;
	for (size_t i = 0; i <= n; i++) {
		if (i < n && !known[i]) {
			want[m] = &refs[i];
			places[m++] = &ret[i];
		}
		if (m == 0 || (m < GROUP && i < n))
			continue;
		if (fetch_group(s, to->store, want, places, m, err) < 0)
			return -1;
		to->fetched += m;
		m = 0;
	}
	return 0;
}

int origin_fetch_into(struct store *s, struct origin_sink *to, const struct reference *refs,
		      size_t n, struct content_id *ret, struct err *err)
{
	for (size_t i = 0; i < n; i += BATCH)
		if (fetch_batch(s, to, refs + i, MIN(n - i, (size_t)BATCH), ret + i, err) < 0)
			return -1;
	return 0;
}

int origin_fetch(struct store *s, const struct reference *refs, size_t n, struct content_id *ret,
		 struct err *err)
{
	return origin_fetch_into(s, &(struct origin_sink){ .store = origin_cache(s) }, refs, n, ret,
				 err);
}

/* What a content reaches. */

static int bring_listing(void *arg, const struct tree *t, struct err *err)
{
	size_t n = tree_len(t), m = 0;
	_cleanup_(freep) struct reference *refs = xcalloc(n + 1, sizeof(*refs));
	_cleanup_(freep) struct content_id *blobs = xcalloc(n + 1, sizeof(*blobs));

	for (size_t i = 0; i < n; i++)
		if (tree_at(t, i)->kind == TREE_REFERENCE)
			refs[m++] = *tree_at(t, i)->ref;
	return m ? origin_fetch(arg, refs, m, blobs, err) : 0;
}

int origin_bring(struct store *s, const struct content_id *id, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = NULL;
	struct reference ref;
	struct content_id blob;

	if (id->kind == CONTENT_TREE)
		return tree_each_listing(s, id, bring_listing, s, err);
	if (id->kind != CONTENT_REFERENCE)
		return 0;
	arena = arena_new();
	return reference_load(s, id, arena, &ref, err) < 0 ? -1
							   : origin_fetch(s, &ref, 1, &blob, err);
}
