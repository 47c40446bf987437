/* storage/remote/presence.c — what the bucket has: the indexes of all packs, and the names of
 * separate objects that were seen.
 *
 * Packs are listed when the store is attached. They are listed again when content is missing and a
 * record was read since: a record is written after the packs with its contents, so newer packs may
 * exist. Indexes never change, so they are kept in the directory. `slots` has all members of all
 * packs, sorted by the first eight bytes of their names; after packs were added (slots.old) it is
 * rebuilt when next needed.
 *
 * Names of separate objects are remembered between processes for half of mark_gap_ns (half an
 * hour), from the start of the lease under which they were seen. That is safe: a collector removes
 * nothing that it condemned less than mark_gap_ns ago, and this process has read the list of what
 * was condemned before.
 *
 * A damaged copy (`bad`) counts as absent, and its name as condemned. A pack is never removed from
 * `packs`, only marked as gone, so that its index stays valid.
 *
 * r->io is held while packs are listed, r->lock for every access to the tables; no request is sent
 * under r->lock.
 */
#include <assert.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include "base/os/fs.h"
#include "storage/remote/internal.h"

#define KNOWN_FILE      "seen"
#define KNOWN_MAGIC     "cairn-seen/1\n"
#define KNOWN_MAGIC_LEN (sizeof(KNOWN_MAGIC) - 1)
#define KNOWN_LEN       (NAME_LEN + 8)
#define KNOWN_FILE_MAX  (64 * MIB)
/* HEAD requests in one batch; more would only take memory. */
#define HEADS_AT_ONCE   4096
#define INDEXES_AT_ONCE 256

static uint64_t prefix_of(const struct digest *d)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | d->b[i];
	return v;
}

/* Packs. */

static bool is_bad_locked(const struct remote *r, enum store_space space, const struct digest *name,
			  uint32_t pack)
{
	uint8_t key[NAME_LEN + 4];

	if (map_len(r->bad) == 0)
		return false;
	remote_name_key(key, space, name);
	memcpy(key + NAME_LEN, &pack, 4);
	return map_has(r->bad, key, sizeof(key));
}

void presence_note_bad(struct remote *r, enum store_space space, const struct digest *name,
		       uint32_t pack)
{
	uint8_t key[NAME_LEN + 4];

	remote_name_key(key, space, name);
	memcpy(key + NAME_LEN, &pack, 4);
	pthread_mutex_lock(&r->lock);
	*map_slot(r->bad, key, sizeof(key), NULL) = r;
	r->damaged++;
	pthread_mutex_unlock(&r->lock);
}

/* A damaged copy counts as condemned: its replacement gets another name. Tags are never
 * condemned. */
bool presence_is_unusable_locked(const struct remote *r, enum store_space space,
				 const struct digest *name)
{
	return is_bad_locked(r, space, name, BAD_ALONE) ||
	       (space != STORE_TAG && condemned_since(r, remote_kind_of(space), name));
}

/* Takes ownership of the index. */
static void add_pack_locked(struct remote *r, const struct digest *name, uint8_t *index, size_t len,
			    int64_t mtime_ns)
{
	void **slot = map_slot(r->pack_by_name, name->b, DIGEST_BYTES, NULL);
	struct pack p = { .name = *name,
			  .index = index,
			  .index_len = len,
			  .n = pack_index_len(index),
			  .mtime_ns = mtime_ns };

	p.size = pack_index_pack_size(index);
	p.condemned = condemned_since(r, KIND_PACK, name) != 0;
	VEC_PUSH(&r->packs, p);
	*slot = (void *)(uintptr_t)r->packs.n;
	r->slots.old = true;
}

void presence_add_pack(struct remote *r, const struct digest *name, struct str *index)
{
	size_t len = index->len;
	uint8_t *bytes = (uint8_t *)str_take(index);

	pthread_mutex_lock(&r->lock);
	add_pack_locked(r, name, bytes, len, 0);
	pthread_mutex_unlock(&r->lock);
	if (r->dir >= 0) {
		char path[REMOTE_KEY_MAX];

		fs_write_atomic_at(r->dir, remote_pack_key(path, name, true), bytes, len, 0644,
				   FS_WRITE_NO_SYNC, NULL);
	}
}

static int slot_order(const void *a, const void *b)
{
	const struct slot *x = a, *y = b;

	return x->prefix < y->prefix   ? -1
	       : x->prefix > y->prefix ? 1
	       : x->pack < y->pack     ? -1
				       : x->pack > y->pack;
}

static void build_slots(struct remote *r)
{
	size_t n = 0;

	for (size_t i = 0; i < r->packs.n; i++)
		n += r->packs.v[i].gone ? 0 : r->packs.v[i].n;
	free(r->slots.v);
	r->slots.v = xreallocarray(NULL, n + 1, sizeof(*r->slots.v));
	r->slots.n = 0;
	for (size_t i = 0; i < r->packs.n; i++) {
		struct pack *p = &r->packs.v[i];

		for (size_t k = 0; k < p->n && !p->gone; k++) {
			struct pack_member m;

			pack_index_at(p->index, k, &m);
			r->slots.v[r->slots.n++] =
				(struct slot){ prefix_of(&m.name), (uint32_t)i, (uint32_t)k };
		}
	}
	if (r->slots.n)
		qsort(r->slots.v, r->slots.n, sizeof(*r->slots.v), slot_order);
	r->slots.old = false;
}

bool presence_find_locked(struct remote *r, const struct remote_object *o, bool condemned_too,
			  uint32_t *ret_pack, struct pack_member *ret)
{
	uint64_t prefix = prefix_of(&o->name);
	size_t lo = 0, hi;
	bool found = false;

	assert(o->space <= STORE_TREE);
	if (r->slots.old)
		build_slots(r);
	for (hi = r->slots.n; lo < hi;) {
		size_t mid = lo + (hi - lo) / 2;

		if (r->slots.v[mid].prefix < prefix)
			lo = mid + 1;
		else
			hi = mid;
	}
	for (; lo < r->slots.n && r->slots.v[lo].prefix == prefix; lo++) {
		const struct pack *p = &r->packs.v[r->slots.v[lo].pack];
		struct pack_member m;

		if (p->gone || (p->condemned && (found || !condemned_too)) ||
		    is_bad_locked(r, o->space, &o->name, r->slots.v[lo].pack))
			continue;
		pack_index_at(p->index, r->slots.v[lo].at, &m);
		if (m.space != o->space || !digest_eq(&m.name, &o->name) ||
		    (o->size != UINT64_MAX && m.size != o->size))
			continue;
		*ret = m;
		*ret_pack = r->slots.v[lo].pack;
		found = true;
		if (!p->condemned)
			break;
	}
	return found;
}

bool presence_is_damaged(struct remote *r, enum store_space space, const struct digest *name)
{
	bool damaged;

	pthread_mutex_lock(&r->lock);
	damaged = is_bad_locked(r, space, name, BAD_ALONE);
	for (size_t i = 0; i < r->packs.n && space <= STORE_TREE && !damaged; i++)
		damaged = !r->packs.v[i].gone && is_bad_locked(r, space, name, (uint32_t)i);
	pthread_mutex_unlock(&r->lock);
	return damaged;
}

/* Listing packs. */

struct wanted_index {
	struct digest name;
	int64_t mtime_ns;
};

struct pack_listing {
	struct remote *r;
	struct map *listed;
	VEC(struct wanted_index) wanted;
};

static int see_pack(void *arg, const struct bucket_object *o)
{
	struct pack_listing *l = arg;
	struct wanted_index w = { .mtime_ns = o->mtime_ns };
	uintptr_t known;

	if (!str_has_suffix(o->key, ".idx") || !remote_name_in(o->key, strlen("packs/"), &w.name))
		return 0;
	*map_slot(l->listed, w.name.b, DIGEST_BYTES, NULL) = l;
	pthread_mutex_lock(&l->r->lock);
	known = (uintptr_t)map_get(l->r->pack_by_name, w.name.b, DIGEST_BYTES);
	if (known)
		l->r->packs.v[known - 1].mtime_ns = o->mtime_ns;
	pthread_mutex_unlock(&l->r->lock);
	if (!known)
		VEC_PUSH(&l->wanted, w);
	return 0;
}

static bool take_index(struct remote *r, const struct wanted_index *w, struct str *bytes)
{
	size_t len = bytes->len;

	if (!bytes->s || pack_index_check(&w->name, bytes->s, bytes->len, STORE_TREE, NULL) < 0)
		return false;
	pthread_mutex_lock(&r->lock);
	add_pack_locked(r, &w->name, (uint8_t *)str_take(bytes), len, w->mtime_ns);
	pthread_mutex_unlock(&r->lock);
	return true;
}

/* Skips indexes that are damaged, too large or gone; members of their packs count as absent. */
static int fetch_indexes(struct remote *r, const struct wanted_index *w, size_t n, struct err *err)
{
	struct remote_gets gets;
	int got;

	remote_gets_init(&gets, n);
	for (size_t i = 0; i < n; i++) {
		remote_pack_key(gets.keys[i], &w[i].name, true);
		gets.v[i] = (struct bucket_get){ .size = UINT64_MAX,
						 .fd = -1,
						 .max_bytes = PACK_INDEX_MAX };
	}
	got = remote_gets_run(r, &gets, err);
	for (size_t i = 0; i < n && got == 0; i++) {
		struct bucket_get *g = &gets.v[i];
		bool too_large = g->result < 0 && g->err.code == ERR_TOO_LARGE;

		if (g->result < 0 && !too_large && g->err.code != ERR_NOT_FOUND)
			got = err_pass(err, &g->err);
		if (g->result == 0 && r->dir >= 0 && g->body.s &&
		    pack_index_check(&w[i].name, g->body.s, g->body.len, STORE_TREE, NULL) == 0)
			fs_write_atomic_at(r->dir, gets.keys[i], g->body.s, g->body.len, 0644,
					   FS_WRITE_NO_SYNC, NULL);
		if (too_large || (g->result == 0 && !take_index(r, &w[i], &g->body)))
			VEC_PUSH(&r->bad_indexes, w[i].name);
	}
	remote_gets_deinit(&gets);
	return got;
}

/* Keeps our own packs that aren't listed yet (mtime 0): they exist, but the listing may have begun
 * before they were written. */
static void drop_unlisted(struct remote *r, const struct map *listed)
{
	pthread_mutex_lock(&r->lock);
	for (size_t i = 0; i < r->packs.n; i++) {
		struct pack *p = &r->packs.v[i];

		if (!p->gone && p->mtime_ns && !map_has(listed, p->name.b, DIGEST_BYTES)) {
			p->gone = true;
			r->slots.old = true;
		}
	}
	pthread_mutex_unlock(&r->lock);
}

/* Removes the directory's indexes of packs that are gone. */
static void clean_dir(struct remote *r, const struct map *listed)
{
	_cleanup_(closedirp) DIR *d = r->dir < 0 ? NULL : fs_list_at(r->dir, "packs", 0);
	struct dirent *e;
	struct digest name;

	while (d && fs_next(d, "packs", &e, NULL) > 0)
		if (remote_name_in(e->d_name, 0, &name) && !map_has(listed, name.b, DIGEST_BYTES))
			unlinkat(dirfd(d), e->d_name, 0);
}

static int load_wanted(struct remote *r, struct pack_listing *l, struct err *err)
{
	size_t far = 0;

	for (size_t i = 0; i < l->wanted.n; i++) {
		const struct wanted_index w = l->wanted.v[i];
		_cleanup_(str_deinit) struct str bytes = { 0 };
		char path[REMOTE_KEY_MAX];

		if (r->dir < 0 ||
		    fs_read_file_at(r->dir, remote_pack_key(path, &w.name, true), PACK_INDEX_MAX,
				    &bytes, NULL) < 0 ||
		    !take_index(r, &w, &bytes))
			l->wanted.v[far++] = w;
	}
	for (size_t i = 0; i < far; i += INDEXES_AT_ONCE)
		if (fetch_indexes(r, l->wanted.v + i, MIN(far - i, (size_t)INDEXES_AT_ONCE), err) <
		    0)
			return -1;
	return 0;
}

/* `keep`: keeps packs that aren't listed any more. */
static int load(struct remote *r, bool keep, struct err *err)
{
	struct pack_listing l = { .r = r, .listed = map_new() };
	bool first = !r->attached;
	int got;

	pthread_mutex_lock(&r->lock);
	r->packs_old = false;
	r->bad_indexes.n = 0;
	pthread_mutex_unlock(&r->lock);
	got = bucket_list(r->bucket, "packs/", NULL, 0, see_pack, &l, err);
	if (got == 0)
		got = load_wanted(r, &l, err);
	pthread_mutex_lock(&r->lock);
	r->n_lists += got == 0;
	pthread_mutex_unlock(&r->lock);
	if (got == 0 && !keep) {
		drop_unlisted(r, l.listed);
		if (first)
			clean_dir(r, l.listed);
	}
	map_free(l.listed);
	VEC_FREE(&l.wanted);
	return got < 0 ? err_wrap(err, "looking for packs in %s", remote_uri(r)) : 0;
}

int presence_load(struct remote *r, struct err *err)
{
	return load(r, false, err);
}

int presence_load_new(struct remote *r, struct err *err)
{
	bool old;
	int got;

	pthread_mutex_lock(&r->io);
	pthread_mutex_lock(&r->lock);
	old = r->packs_old;
	pthread_mutex_unlock(&r->lock);
	got = old ? load(r, true, err) : 0;
	pthread_mutex_unlock(&r->io);
	return got;
}

void remote_expect_changes(struct remote *r)
{
	pthread_mutex_lock(&r->lock);
	r->packs_old = true;
	pthread_mutex_unlock(&r->lock);
}

uint64_t presence_lists(struct remote *r)
{
	uint64_t n;

	pthread_mutex_lock(&r->lock);
	n = r->n_lists;
	pthread_mutex_unlock(&r->lock);
	return n;
}

int presence_refresh_if_old(struct remote *r, uint64_t seen, bool *ret_did, struct err *err)
{
	bool old, newer;
	int got = 0;

	pthread_mutex_lock(&r->io);
	pthread_mutex_lock(&r->lock);
	old = r->packs_old;
	newer = r->n_lists !=
		seen; /* by another thread while we waited; its packs haven't been searched yet */
	pthread_mutex_unlock(&r->lock);
	if (old && !newer)
		got = presence_load(r, err);
	pthread_mutex_unlock(&r->io);
	*ret_did = old || newer;
	return got;
}

/* Separate objects. */

void presence_note(struct remote *r, enum store_space space, const struct digest *name)
{
	uint8_t key[NAME_LEN];
	void **slot;

	remote_name_key(key, space, name);
	pthread_mutex_lock(&r->lock);
	slot = map_slot(r->known, key, NAME_LEN, NULL);
	if (!*slot)
		for (size_t i = 0; i < NAME_LEN; i++)
			VEC_PUSH(&r->seen, key[i]);
	*slot = r;
	if (map_get(r->lost, key, NAME_LEN))
		*map_slot(r->lost, key, NAME_LEN, NULL) = NULL;
	pthread_mutex_unlock(&r->lock);
}

/* Maps never remove keys. So a lost name has the value NULL in `known`, and a name found again has
 * NULL in `lost`. */
void presence_lost(struct remote *r, enum store_space space, const struct digest *name)
{
	uint8_t key[NAME_LEN];

	remote_name_key(key, space, name);
	pthread_mutex_lock(&r->lock);
	if (map_get(r->known, key, NAME_LEN)) {
		*map_slot(r->known, key, NAME_LEN, NULL) = NULL;
		*map_slot(r->lost, key, NAME_LEN, NULL) = r;
	}
	pthread_mutex_unlock(&r->lock);
}

void presence_forget(struct remote *r)
{
	pthread_mutex_lock(&r->lock);
	map_free(r->known);
	r->known = map_new();
	r->seen.n = 0;
	for (size_t i = 0; i < r->packs.n; i++)
		r->packs.v[i].mtime_ns = MAX(r->packs.v[i].mtime_ns,
					     1); /* our own packs must be listed from now on too */
	pthread_mutex_unlock(&r->lock);
}

/* Calls fn for each entry that is young enough. */
static void each_remembered(struct remote *r,
			    void (*fn)(struct remote *r, const char *entry, struct str *out),
			    struct str *out)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };

	if (r->dir < 0 || fs_read_file_at(r->dir, KNOWN_FILE, KNOWN_FILE_MAX, &bytes, NULL) < 0 ||
	    bytes.len < KNOWN_MAGIC_LEN || memcmp(bytes.s, KNOWN_MAGIC, KNOWN_MAGIC_LEN) != 0)
		return;
	for (size_t at = KNOWN_MAGIC_LEN; at + KNOWN_LEN <= bytes.len; at += KNOWN_LEN) {
		int64_t seen_ns = (int64_t)get_le64(bytes.s + at + NAME_LEN);

		if (seen_ns > r->lease.started_ns - r->o.mark_gap_ns / 2 &&
		    seen_ns <= r->lease.started_ns)
			fn(r, bytes.s + at, out);
	}
}

static void recall_one(struct remote *r, const char *entry, struct str *out)
{
	*map_slot(r->known, entry, NAME_LEN, NULL) = r;
}

/* Needs a lease: ages are compared with its time. */
void presence_recall(struct remote *r)
{
	if (!r->lease.started_ns)
		return;
	pthread_mutex_lock(&r->lock);
	each_remembered(r, recall_one, NULL);
	pthread_mutex_unlock(&r->lock);
}

static void keep_one(struct remote *r, const char *entry, struct str *out)
{
	if (!map_get(r->lost, entry, NAME_LEN))
		str_addn(out, entry, KNOWN_LEN);
}

void presence_remember(struct remote *r)
{
	_cleanup_(str_deinit) struct str out = { 0 };

	if (r->dir < 0 || !r->lease.started_ns || (r->seen.n == 0 && map_len(r->lost) == 0))
		return;
	str_addn(&out, KNOWN_MAGIC, KNOWN_MAGIC_LEN);
	each_remembered(r, keep_one, &out);
	for (size_t at = 0; at + NAME_LEN <= r->seen.n && out.len + KNOWN_LEN <= KNOWN_FILE_MAX;
	     at += NAME_LEN) {
		if (map_get(r->lost, r->seen.v + at, NAME_LEN))
			continue;
		str_addn(&out, r->seen.v + at, NAME_LEN);
		str_add_u64(&out, (uint64_t)r->lease.started_ns);
	}
	fs_write_atomic_at(r->dir, KNOWN_FILE, out.s, out.len, 0644, FS_WRITE_NO_SYNC, NULL);
}

void presence_free(struct remote *r)
{
	for (size_t i = 0; i < r->packs.n; i++)
		free(r->packs.v[i].index);
	VEC_FREE(&r->packs);
	VEC_FREE(&r->seen);
	VEC_FREE(&r->bad_indexes);
	map_free(r->pack_by_name);
	map_free(r->known);
	map_free(r->bad);
	map_free(r->lost);
	free(r->slots.v);
	condemned_list_deinit(&r->condemned.list);
}

/* Asking. */

/* What `has` learns without a request. */
struct answer {
	size_t *ask; /* indices of possible separate objects, which need a request */
	size_t n_ask, missing;
	uint64_t lists; /* listings made at that time */
};

/* Marks what is known to be there. */
static void look(struct remote *r, struct remote_object *v, size_t n, struct answer *a)
{
	a->n_ask = a->missing = 0;
	pthread_mutex_lock(&r->lock);
	a->lists = r->n_lists;
	for (size_t i = 0; i < n; i++) {
		struct remote_object *o = &v[i];
		uint8_t key[NAME_LEN];
		struct pack_member m;
		uint32_t pack;

		if (o->there)
			continue;
		remote_name_key(key, o->space, &o->name);
		if (o->space <= STORE_TREE && presence_find_locked(r, o, false, &pack, &m))
			o->there = true;
		else if (o->space != STORE_TREE &&
			 (o->space != STORE_BLOB || o->size >= REMOTE_LOOSE_MIN) &&
			 !presence_is_unusable_locked(r, o->space, &o->name)) {
			o->there = map_get(r->known, key, NAME_LEN) != NULL;
			if (!o->there)
				a->ask[a->n_ask++] = i;
		}
		a->missing += !o->there;
	}
	pthread_mutex_unlock(&r->lock);
}

/* A blob may be stored compressed, so fewer bytes than its size are valid; more aren't. */
static int ask_heads(struct remote *r, struct remote_object *v, const size_t *ask, size_t n,
		     struct err *err)
{
	char(*keys)[REMOTE_KEY_MAX] = xcalloc(n, sizeof(*keys));
	_cleanup_(freep) const char **pointers = xcalloc(n, sizeof(*pointers));
	_cleanup_(freep) bool *there = xcalloc(n, sizeof(*there));
	_cleanup_(freep) uint64_t *sizes = xcalloc(n, sizeof(*sizes));
	int got;

	for (size_t i = 0; i < n; i++)
		pointers[i] = remote_key(keys[i], v[ask[i]].space, &v[ask[i]].name);
	got = bucket_head_many(r->bucket, pointers, n, there, sizes, err);
	for (size_t i = 0; i < n && got == 0; i++) {
		struct remote_object *o = &v[ask[i]];

		o->there = there[i] && (o->size == UINT64_MAX || sizes[i] <= o->size);
		if (o->there)
			presence_note(r, o->space, &o->name);
	}
	free(keys);
	return got;
}

static int has(struct remote *r, struct remote_object *v, size_t n, bool fresh, struct err *err)
{
	_cleanup_(freep) size_t *ask = xcalloc(n + 1, sizeof(*ask));
	struct answer a = { .ask = ask };
	bool did = false;

	if (remote_attach(r, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		v[i].there = false;
	look(r, v, n, &a);
	/* Another thread's listing may have begun before this call; the listing after it didn't. So
	 * two tries. */
	for (int lists = 0; fresh && lists < 2 && a.missing > a.n_ask; lists++) {
		if (presence_refresh_if_old(r, a.lists, &did, err) < 0)
			return -1;
		if (!did)
			break;
		look(r, v, n, &a);
	}
	for (size_t i = 0; i < a.n_ask; i += HEADS_AT_ONCE)
		if (ask_heads(r, v, ask + i, MIN(a.n_ask - i, (size_t)HEADS_AT_ONCE), err) < 0)
			return err_wrap(err, "looking into %s", remote_uri(r));
	return 0;
}

int remote_has(struct remote *r, struct remote_object *v, size_t n, struct err *err)
{
	return has(r, v, n, true, err);
}

int remote_has_as_listed(struct remote *r, struct remote_object *v, size_t n, struct err *err)
{
	return has(r, v, n, false, err);
}
