/* storage/origin/check.c — compares pinned references with the current objects.
 *
 * Each listing of a tree is checked separately. LIST_FROM or more neighbours in one place
 * (in_one_place()) are compared with one listing of that place. The others are checked with single
 * requests on ASKERS threads. A listing has no version ids of S3, so references with a version id
 * always need single requests.
 *
 * `lock` guards the counts and the callback. A failed request gives that reference the state
 * ORIGIN_UNREACHABLE, and doesn't end the check.
 */
#include "storage/bucket/transfer.h"
#include "storage/origin/internal.h"

#define LIST_FROM 8 /* objects in one place; a listing has up to 1,000 of them per request */
#define ASKERS    16

struct checking {
	struct store *s;
	struct origin_check *c;
	pthread_mutex_t lock;
	const struct reference *refs;
	enum origin_state *states;
};

/* One by one. */

static bool same(const struct reference *r, const struct bucket_object *o)
{
	return o->size == r->size_bytes &&
	       (str_eq(r->version, o->etag) || (*o->version && str_eq(r->version, o->version)));
}

static void tell(struct checking *k, const struct reference *r, enum origin_state state,
		 const char *why)
{
	pthread_mutex_lock(&k->lock);
	k->c->n[state]++;
	if (state != ORIGIN_UNCHANGED && k->c->on_problem)
		k->c->on_problem(k->c->arg, r, state, why);
	pthread_mutex_unlock(&k->lock);
}

static void ask_one(struct work_queue *q, void *arg, size_t i)
{
	struct checking *k = arg;
	const struct reference *r = &k->refs[i];
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str strings = { 0 };
	struct bucket_object o;
	struct bucket *b;
	const char *key;
	struct err e = { 0 };

	if (reference_is_volume(r->uri)) /* nobody here can look */
		return;
	if (origin_locate(k->s, r->uri, r->options, arena, &b, &key, &e) < 0 ||
	    bucket_head(b, key, &o, &strings, &e) < 0)
		tell(k, r, e.code == ERR_NOT_FOUND ? ORIGIN_GONE : ORIGIN_UNREACHABLE,
		     e.code == ERR_NOT_FOUND ? "" : e.msg);
	else
		tell(k, r, same(r, &o) ? ORIGIN_UNCHANGED : ORIGIN_CHANGED, "");
}

/* A listing. */

struct matching {
	struct map *by_key; /* → index in refs + 1, of the last one with this key */
	struct checking *k;
	const struct reference *refs;
	struct match {
		uintptr_t same_key; /* index + 1 of the previous one; 0: none */
		bool reported;
	} * v;
};

static int match_object(void *arg, const struct bucket_object *o)
{
	struct matching *m = arg;
	uintptr_t at = (uintptr_t)map_get_str(m->by_key, o->key);

	for (; at && !m->v[at - 1].reported; at = m->v[at - 1].same_key) {
		m->v[at - 1].reported = true;
		tell(m->k, &m->refs[at - 1],
		     same(&m->refs[at - 1], o) ? ORIGIN_UNCHANGED : ORIGIN_CHANGED, "");
	}
	return 0;
}

/* Checks references of one directory and place. Reports each once: a reference that the listing
 * lacks is gone. If the listing fails, all are unreachable. */
static void compare_listing(struct checking *k, const struct reference *refs, size_t n)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(map_freep) struct map *by_key = map_new();
	_cleanup_(freep) struct match *v = xcalloc(n, sizeof(*v));
	struct matching m = { .by_key = by_key, .k = k, .refs = refs, .v = v };
	struct bucket *b = NULL;
	const char *key = NULL, *slash, *prefix;
	struct err e = { 0 };
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		r = origin_locate(k->s, refs[i].uri, refs[i].options, arena, &b, &key, &e);
		if (r == 0) {
			void **slot = map_slot_str(by_key, key);

			v[i].same_key = (uintptr_t)*slot;
			*slot = (void *)(uintptr_t)(i + 1);
		}
	}
	slash = key ? strrchr(key, '/') : NULL;
	prefix = slash ? arena_strndup(arena, key, (size_t)(slash + 1 - key)) : "";
	if (r == 0)
		r = bucket_list(b, prefix, NULL, '/', match_object, &m, &e);
	for (size_t i = 0; i < n; i++)
		if (!v[i].reported)
			tell(k, &refs[i], r < 0 ? ORIGIN_UNREACHABLE : ORIGIN_GONE,
			     r < 0 ? e.msg : "");
}

/* Tells whether one listing can compare two references: their URIs differ only in the name, and a
 * listing has their kind of version. */
static bool in_one_place(const struct reference *a, const struct reference *b)
{
	const char *x = strrchr(a->uri, '/'), *y = strrchr(b->uri, '/');
	bool listed = *a->version == '"' || str_has_prefix(a->uri, "gs://") ||
		      str_has_prefix(a->uri, "mem-bucket://");

	return listed && origin_in_bucket(a->uri) && x - a->uri == y - b->uri &&
	       memcmp(a->uri, b->uri, (size_t)(x - a->uri)) == 0 &&
	       str_eq(a->options, b->options) && (*a->version == '"') == (*b->version == '"');
}

static void check_refs(struct checking *k, const struct reference *refs, size_t n)
{
	for (size_t i = 0, end; i < n; i = end) {
		for (end = i + 1; end < n && in_one_place(&refs[i], &refs[end]); end++)
			;
		if (end - i >= LIST_FROM) {
			compare_listing(k, refs + i, end - i);
		} else {
			k->refs = refs + i;
			work_run(ASKERS, (struct work){ ask_one, k, end - i });
		}
	}
}

/* A content. */

static int check_listing(void *arg, const struct tree *t, struct err *err)
{
	size_t n = 0;
	_cleanup_(freep) struct reference *refs = xcalloc(tree_len(t) + 1, sizeof(*refs));

	for (size_t i = 0; i < tree_len(t); i++)
		if (tree_at(t, i)->kind == TREE_REFERENCE)
			refs[n++] = *tree_at(t, i)->ref;
	check_refs(arg, refs, n);
	return 0;
}

int origin_check(struct store *s, const struct content_id *id, struct origin_check *c,
		 struct err *err)
{
	struct checking k = { .s = s, .c = c, .lock = PTHREAD_MUTEX_INITIALIZER };
	_cleanup_(arena_freep) struct arena *arena = NULL;
	struct reference ref;

	if (id->kind == CONTENT_TREE)
		return tree_each_listing(s, id, check_listing, &k, err);
	if (id->kind != CONTENT_REFERENCE)
		return 0;
	arena = arena_new();
	if (reference_load(s, id, arena, &ref, err) < 0)
		return -1;
	check_refs(&k, &ref, 1);
	return 0;
}
