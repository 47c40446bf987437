/* storage/content/walk.c — walks all that a content reaches: content_complete(), content_verify(),
 * tree_each_listing(), content_takes().
 *
 * Each walk has a list of trees still to read, and a map of trees seen. It doesn't recurse, because
 * a hostile tree may be nested very deeply. A tree that is met twice is read once.
 *
 * content_complete() looks up members in batches of BATCH_MAX. When it finds the whole tree, it
 * notes the listings as complete, so that this process doesn't walk them again. content_verify()
 * hashes every blob. It walks depth first in the order of names, so that it reports the first bad
 * member.
 *
 * A walk belongs to one thread. References aren't followed: their objects are outside the store.
 */
#include "base/os/fs.h"
#include "storage/internal.h"
#include "storage/origin/origin.h"

/* Members looked up at once; more would only take memory. */
#define BATCH_MAX 65536

struct walk {
	struct store *store;
	struct map *seen;             /* trees, by digest */
	VEC(struct content_id) todo;  /* trees */
	VEC(struct content_id) batch; /* members to look up */
};

static void walk_into(struct walk *w, const struct content_id *tree)
{
	bool is_new;

	*map_slot(w->seen, tree->digest.b, DIGEST_BYTES, &is_new) = w;
	if (is_new && !store_is_complete(w->store, &tree->digest))
		VEC_PUSH(&w->todo, *tree);
}

static int all_present(struct walk *w, bool *ret, struct err *err)
{
	_cleanup_(freep) bool *present = xcalloc(w->batch.n + 1, sizeof(*present));

	*ret = true;
	if (w->batch.n && store_has(w->store, w->batch.v, w->batch.n, present, err) < 0)
		return -1;
	for (size_t i = 0; i < w->batch.n; i++)
		*ret &= present[i];
	w->batch.n = 0;
	return 0;
}

/* Checks one listing. *ret becomes false when it is missing or damaged, or a member is missing.
 */
static int complete_listing(struct walk *w, const struct content_id *tree, bool *ret,
			    struct err *err)
{
	_cleanup_(tree_freep) struct tree *t = NULL;
	struct err e = { 0 };

	*ret = true;
	if (tree_load(w->store, tree, &t, &e) < 0) {
		*ret = false;
		if (e.code == ERR_NOT_FOUND || e.code == ERR_CORRUPT)
			return 0;
		if (err)
			*err = e;
		return -1;
	}
	for (size_t i = 0; i < tree_len(t) && *ret; i++) {
		const struct tree_entry *m = tree_at(t, i);

		if (m->kind == TREE_DIR)
			walk_into(w, &m->id);
		if (tree_entry_is_kept(
			    m)) /* listings too: a tier's next sync sends what it finds here */
			VEC_PUSH(&w->batch, m->id);
		if (w->batch.n >= BATCH_MAX && all_present(w, ret, err) < 0)
			return -1;
	}
	return 0;
}

static int tree_complete(struct store *s, const struct content_id *id, bool *ret, struct err *err)
{
	struct walk w = { .store = s, .seen = map_new() };
	int r = 0;

	*ret = true;
	walk_into(&w, id);
	while (w.todo.n && *ret && r == 0) {
		struct content_id tree = w.todo.v[--w.todo.n];

		r = complete_listing(&w, &tree, ret, err);
	}
	if (r == 0 && *ret)
		r = all_present(&w, ret, err);
	for (size_t i = 0; r == 0 && *ret && i < map_len(w.seen); i++) {
		const void *key;

		map_at(w.seen, i, &key, NULL);
		store_note_complete(s, key); /* true for any id of this digest */
	}
	map_free(w.seen);
	VEC_FREE(&w.todo);
	VEC_FREE(&w.batch);
	return r;
}

int content_complete(struct store *s, const struct content_id *ids, size_t n, bool *ret,
		     struct err *err)
{
	if (n && store_has(s, ids, n, ret, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (ret[i] && ids[i].kind == CONTENT_TREE &&
		    tree_complete(s, &ids[i], &ret[i], err) < 0)
			return -1;
	return 0;
}

/* Verifying. */

struct check_item {
	struct content_id id;
	char *path;
};

struct check {
	struct map *seen;
	VEC(struct check_item) todo;
};

static int check_blob(struct store *s, const struct content_id *id, struct err *err)
{
	_cleanup_(fd_closep) int fd = -1;
	struct digest d;

	if (content_open(s, id, &fd, err) < 0 ||
	    content_hash_fd(fd, id->size_bytes, 1, &d, err) < 0)
		return -1;
	if (!digest_eq(&d, &id->digest))
		return store_damaged(s, STORE_BLOB, &id->digest, err);
	store_note_verified(s, &id->digest);
	return 0;
}

static void check_later(struct check *c, const char *dir, const struct tree_entry *m)
{
	struct check_item item = { .id = m->id };
	struct str key = { 0 };
	bool is_new;

	str_addc(&key, (char)m->id.kind);
	str_addn(&key, m->id.digest.b, DIGEST_BYTES);
	str_add_u64(&key, m->id.size_bytes);
	*map_slot(c->seen, key.s, key.len, &is_new) = c;
	str_deinit(&key);
	if (!is_new)
		return;
	item.path = xasprintf("%s%s%s", dir, *dir ? "/" : "", m->name);
	VEC_PUSH(&c->todo, item);
}

int content_verify(struct store *s, const struct content_id *id, struct err *err)
{
	struct check c = { .seen = map_new() };
	struct check_item item = { .id = *id, .path = xstrdup("") };
	int r = 0;

	VEC_PUSH(&c.todo, item);
	while (c.todo.n && r == 0) {
		_cleanup_(tree_freep) struct tree *t = NULL;

		item = c.todo.v[--c.todo.n];
		r = item.id.kind == CONTENT_TREE ? tree_load(s, &item.id, &t, err)
						 : check_blob(s, &item.id, err);
		/* The last one pushed is checked next, so push in reverse order. */
		for (size_t i = t ? tree_len(t) : 0; i-- > 0;)
			if (tree_entry_is_kept(tree_at(t, i)))
				check_later(&c, item.path, tree_at(t, i));
		if (r < 0 && *item.path)
			err_wrap(err, "%s", item.path);
		free(item.path);
	}
	while (c.todo.n)
		free(c.todo.v[--c.todo.n].path);
	VEC_FREE(&c.todo);
	map_free(c.seen);
	return r;
}

/* Listings. */

int tree_each_listing(struct store *s, const struct content_id *root, tree_listing_fn *fn,
		      void *arg, struct err *err)
{
	_cleanup_(map_freep) struct map *seen = map_new();
	VEC(struct content_id) todo = { 0 };
	int r = 0;

	VEC_PUSH(&todo, *root);
	while (todo.n && r == 0) {
		struct content_id at = todo.v[--todo.n];
		_cleanup_(tree_freep) struct tree *t = NULL;

		r = tree_load(s, &at, &t, err);
		for (size_t i = 0; r == 0 && i < tree_len(t); i++) {
			const struct tree_entry *e = tree_at(t, i);
			bool is_new = false;

			if (e->kind == TREE_DIR)
				*map_slot(seen, e->id.digest.b, DIGEST_BYTES, &is_new) = seen;
			if (is_new)
				VEC_PUSH(&todo, e->id);
		}
		if (r == 0)
			r = fn(arg, t, err);
	}
	VEC_FREE(&todo);
	return r;
}

/* What a file of a tree counts at least: to make and to remove one takes as long as to copy so many
 * bytes. Where freeing a block takes a millisecond (ext4 with online discard), it takes longer. */
#define FILE_COUNTS_BYTES (16 * (uint64_t)KIB)

struct taking {
	uint64_t bytes, enough;
};

/* 1: the limit is reached, and the walk ends. */
static int add_sizes(void *arg, const struct tree *t, struct err *err)
{
	struct taking *k = arg;

	for (size_t i = 0; i < tree_len(t) && k->bytes < k->enough; i++) {
		const struct tree_entry *e = tree_at(t, i);

		if (e->kind == TREE_FILE || e->kind == TREE_EXECUTABLE)
			k->bytes += MIN(MAX(e->id.size_bytes, FILE_COUNTS_BYTES), k->enough);
		else if (e->kind == TREE_REFERENCE)
			k->bytes += MIN(e->ref->size_bytes, k->enough);
	}
	return k->bytes >= k->enough;
}

int content_weigh(struct store *s, const struct content_id *id, uint64_t enough, uint64_t *total,
		  struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct taking k = { .bytes = *total, .enough = enough };
	struct reference ref;

	if (k.bytes >= enough)
		return 0;
	if (content_is_file(id))
		k.bytes += MIN(id->size_bytes, enough);
	if (id->kind == CONTENT_TREE && tree_each_listing(s, id, add_sizes, &k, err) < 0)
		return -1;
	if (id->kind == CONTENT_REFERENCE) {
		if (reference_load(s, id, arena, &ref, err) < 0)
			return -1;
		k.bytes += MIN(ref.size_bytes, enough);
	}
	*total = k.bytes;
	return 0;
}

int content_takes(struct store *s, const struct content_id *id, uint64_t bytes, bool *ret,
		  struct err *err)
{
	uint64_t total = 0;

	if (content_weigh(s, id, bytes, &total, err) < 0)
		return -1;
	*ret = total >= bytes;
	return 0;
}
