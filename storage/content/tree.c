/* storage/content/tree.c — trees: decodes, builds, searches and globs canonical listings. The
 * format is in FORMAT.md. Input is hostile.
 *
 * A decoded tree is a copy of its bytes and an array of entries that point into it; names in the
 * format end in NUL, so they serve as C strings. Entries are strictly sorted, so tree_find()
 * bisects. A listing has one canonical form, and a reader refuses every other.
 *
 * References are in the listing itself, because a prefix may have a million objects. Neighbours
 * with the same place (options and base) share it: it is written once. base_len() says how much of
 * a URI is the base. Their texts are in the tree's arena.
 *
 * A tree is immutable, so any thread may read it. A builder belongs to one thread. Globs recurse,
 * at most CONTENT_DEPTH_MAX levels.
 */
#include <assert.h>
#include <fnmatch.h>
#include "storage/internal.h"
#include "storage/origin/reference.h"

#define MAGIC           "cairn-tree/1\n"
#define MAGIC_LEN       (sizeof(MAGIC) - 1)
#define TREE_TARGET_MAX 4095 /* of a symbolic link; Linux allows no more */

struct tree {
	uint8_t *bytes;
	struct tree_entry *entries;
	size_t n;
	struct arena *arena; /* references; NULL when there are none */
};

/* Reading. */

struct reader {
	uint8_t *at, *end;
	struct arena *arena;        /* created when needed */
	const char *options, *base; /* of the previous reference; or NULL */
};

static bool read_bytes(struct reader *r, size_t n, uint8_t **ret)
{
	if ((size_t)(r->end - r->at) < n)
		return false;
	*ret = r->at;
	r->at += n;
	return true;
}

static bool good_name(const char *name, size_t n)
{
	if (n == 0 || n > TREE_NAME_MAX || memchr(name, '/', n) || memchr(name, '\0', n))
		return false;
	return !(n == 1 && name[0] == '.') && !(n == 2 && name[0] == '.' && name[1] == '.');
}

static int name_order(const char *a, size_t na, const char *b, size_t nb)
{
	int r = memcmp(a, b, MIN(na, nb));

	return r ? r : na < nb ? -1 : na > nb;
}

enum content_kind tree_entry_content_kind(enum tree_entry_kind kind)
{
	switch (kind) {
	case TREE_FILE:
		return CONTENT_BLOB;
	case TREE_EXECUTABLE:
		return CONTENT_EXECUTABLE;
	case TREE_DIR:
		return CONTENT_TREE;
	case TREE_SYMLINK:
	case TREE_REFERENCE:
		break;
	}
	return CONTENT_NONE;
}

enum tree_entry_kind tree_entry_kind_of(const struct content_id *id)
{
	switch ((enum content_kind)id->kind) {
	case CONTENT_EXECUTABLE:
		return TREE_EXECUTABLE;
	case CONTENT_TREE:
		return TREE_DIR;
	case CONTENT_BLOB:
	case CONTENT_NONE:
	case CONTENT_REFERENCE:
		break;
	}
	return TREE_FILE; /* tree_builder_add() refuses all other kinds */
}

static bool read_id(struct reader *r, enum content_kind kind, struct content_id *ret)
{
	uint8_t *p;

	if (!read_bytes(r, 8 + DIGEST_BYTES, &p))
		return false;
	ret->kind = (uint8_t)kind;
	ret->size_bytes = get_le64(p);
	memcpy(ret->digest.b, p + 8, DIGEST_BYTES);
	return true;
}

/* Reads a text with its NUL, borrowed; NULL when it is invalid. */
static const char *read_text(struct reader *r, size_t max, size_t *ret_len)
{
	uint8_t *p;
	uint32_t n;

	if (!read_bytes(r, 4, &p))
		return NULL;
	n = get_le32(p);
	if (n > max || !read_bytes(r, (size_t)n + 1, &p) || p[n] != '\0' || memchr(p, '\0', n))
		return NULL;
	*ret_len = n;
	return (char *)p;
}

/* Length of the base of a reference's URI. The base is the URI without the entry's name, if the URI
 * ends in `/` and that name; else the whole URI. */
static size_t base_len(const char *uri, const char *name, size_t name_len)
{
	size_t n = strlen(uri);

	return n > name_len && uri[n - name_len - 1] == '/' &&
			       memcmp(uri + n - name_len, name, name_len) == 0
		       ? n - name_len
		       : n;
}

/* Reads a place, if the entry has its own; else the previous reference's place stays. */
static bool read_place(struct reader *r)
{
	const char *options, *base;
	uint8_t *p;
	size_t n;
	bool same;

	if (!read_bytes(r, 1, &p) || *p > 1)
		return false;
	if (*p == 0)
		return r->base != NULL;
	options = read_text(r, REFERENCE_OPTIONS_MAX, &n);
	base = options ? read_text(r, REFERENCE_URI_MAX, &n) : NULL;
	same = base && r->base && str_eq(options, r->options) && str_eq(base, r->base);
	r->options = options;
	r->base = base;
	return base && *base && !same;
}

static bool read_reference(struct reader *r, struct tree_entry *e)
{
	struct reference *ref;
	uint8_t *p;
	size_t n;
	bool whole;

	if (!r->arena)
		r->arena = arena_new();
	ref = arena_alloc(r->arena, sizeof(*ref));
	if (!read_bytes(r, 8, &p))
		return false;
	ref->size_bytes = get_le64(p);
	ref->version = read_text(r, REFERENCE_VERSION_MAX, &n);
	if (!ref->version || !read_place(r))
		return false;
	whole = !str_has_suffix(r->base, "/");
	ref->options = r->options;
	ref->uri = whole ? r->base : arena_printf(r->arena, "%s%s", r->base, e->name);
	e->ref = ref;
	return reference_check(ref, NULL) == 0 &&
	       base_len(ref->uri, e->name, e->name_len) == strlen(r->base);
}

/* Entry: kind (1 byte), name field, NUL, then id or target field, NUL. */
static bool read_entry(struct reader *r, struct tree_entry *e)
{
	uint8_t *p;

	if (!read_bytes(r, 1, &p) || *p < TREE_FILE || *p > TREE_REFERENCE)
		return false;
	e->kind = *p;
	e->name = read_text(r, TREE_NAME_MAX, &e->name_len);
	if (!e->name || !good_name(e->name, e->name_len))
		return false;
	if (e->kind == TREE_REFERENCE)
		return read_reference(r, e);
	if (e->kind != TREE_SYMLINK)
		return read_id(r, tree_entry_content_kind(e->kind), &e->id);
	e->target = read_text(r, TREE_TARGET_MAX, &e->target_len);
	return e->target && e->target_len > 0;
}

static int bad_tree(struct err *err)
{
	return err_set(err, ERR_CORRUPT, "a tree listing is damaged");
}

int tree_decode(const void *bytes, size_t n, struct tree **ret, struct err *err)
{
	_cleanup_(tree_freep) struct tree *t = xcalloc(1, sizeof(*t));
	VEC(struct tree_entry) entries = { 0 };
	struct reader r;

	if (n < MAGIC_LEN || memcmp(bytes, MAGIC, MAGIC_LEN) != 0)
		return bad_tree(err);
	t->bytes = xmalloc(n);
	memcpy(t->bytes, bytes, n);
	r = (struct reader){ .at = t->bytes + MAGIC_LEN, .end = t->bytes + n };
	while (r.at < r.end) {
		struct tree_entry e = { 0 };
		const struct tree_entry *last = entries.n ? &entries.v[entries.n - 1] : NULL;

		if (!read_entry(&r, &e) ||
		    (last && name_order(last->name, last->name_len, e.name, e.name_len) >= 0)) {
			VEC_FREE(&entries);
			arena_free(r.arena);
			return bad_tree(err);
		}
		VEC_PUSH(&entries, e);
	}
	t->entries = entries.v;
	t->n = entries.n;
	t->arena = r.arena;
	*ret = TAKE_PTR(t);
	return 0;
}

int tree_load(struct store *s, const struct content_id *id, struct tree **ret, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };

	if (id->kind != CONTENT_TREE)
		return err_set(err, ERR_INVALID, "this content is a file, not a directory");
	/* No writer makes such a listing, so the id that names it is damaged or hostile. */
	if (id->size_bytes > TREE_LISTING_MAX)
		return err_set(err, ERR_CORRUPT,
			       "the listing of a directory is said to have %llu bytes; it can't "
			       "have more than %llu",
			       (unsigned long long)id->size_bytes,
			       (unsigned long long)TREE_LISTING_MAX);
	if (content_read(s, id, TREE_LISTING_MAX, &bytes, err) < 0)
		return -1;
	return tree_decode(bytes.s ? bytes.s : "", bytes.len, ret, err);
}

void tree_free(struct tree *t)
{
	if (!t)
		return;
	free(t->bytes);
	free(t->entries);
	arena_free(t->arena);
	free(t);
}

size_t tree_len(const struct tree *t)
{
	return t->n;
}

const struct tree_entry *tree_at(const struct tree *t, size_t i)
{
	assert(i < t->n);
	return &t->entries[i];
}

const struct tree_entry *tree_find(const struct tree *t, const char *name, size_t len)
{
	size_t lo = 0, hi = t->n;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		int order = name_order(t->entries[mid].name, t->entries[mid].name_len, name, len);

		if (order == 0)
			return &t->entries[mid];
		if (order < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return NULL;
}

/* Building. */

struct tree_builder {
	struct arena *arena;
	VEC(struct tree_entry) entries;
};

struct tree_builder *tree_builder_new(void)
{
	struct tree_builder *b = xcalloc(1, sizeof(*b));

	b->arena = arena_new();
	return b;
}

void tree_builder_free(struct tree_builder *b)
{
	if (!b)
		return;
	VEC_FREE(&b->entries);
	arena_free(b->arena);
	free(b);
}

/* Copies all of it into `arena`. */
static void keep_entry(struct arena *arena, const struct tree_entry *e, struct tree_entry *ret)
{
	*ret = *e;
	ret->name = arena_strndup(arena, e->name, e->name_len);
	ret->target = e->target ? arena_strndup(arena, e->target, e->target_len) : NULL;
	if (e->ref) {
		struct reference *ref = arena_memdup(arena, e->ref, sizeof(*ref));

		ref->uri = arena_strdup(arena, e->ref->uri);
		ref->version = arena_strdup(arena, e->ref->version);
		ref->options = *e->ref->options ? arena_strdup(arena, e->ref->options) : "";
		ret->ref = ref;
	}
}

int tree_builder_add(struct tree_builder *b, const struct tree_entry *e, struct err *err)
{
	struct tree_entry copy;

	if (!good_name(e->name, e->name_len))
		return err_set(err, ERR_INVALID, "`%.*s` can't be the name of a file",
			       (int)MIN(e->name_len, (size_t)300), e->name);
	if (e->kind == TREE_SYMLINK && (e->target_len == 0 || e->target_len > TREE_TARGET_MAX))
		return err_set(err, ERR_INVALID, "symbolic link `%s` has no usable target",
			       e->name);
	if (e->kind == TREE_REFERENCE && reference_check(e->ref, err) < 0)
		return -1;
	if (tree_entry_is_kept(e) && e->id.kind != tree_entry_content_kind(e->kind))
		return err_set(err, ERR_INVALID, "entry `%s` has content of the wrong kind",
			       e->name);
	keep_entry(b->arena, e, &copy);
	VEC_PUSH(&b->entries, copy);
	return 0;
}

static int by_name(const void *a, const void *b)
{
	const struct tree_entry *x = a, *y = b;

	return name_order(x->name, x->name_len, y->name, y->name_len);
}

static void encode_text(struct str *out, const char *s, size_t n)
{
	str_add_u32(out, (uint32_t)n);
	str_addn(out, s, n);
	str_addc(out, '\0');
}

/* `last`: the previous reference; or NULL. */
static void encode_reference(struct str *out, const struct tree_entry *e,
			     const struct tree_entry *last)
{
	size_t n = base_len(e->ref->uri, e->name, e->name_len);
	size_t before = last ? base_len(last->ref->uri, last->name, last->name_len) : 0;
	bool same = last && n == before && memcmp(e->ref->uri, last->ref->uri, n) == 0 &&
		    str_eq(e->ref->options, last->ref->options);

	str_add_u64(out, e->ref->size_bytes);
	encode_text(out, e->ref->version, strlen(e->ref->version));
	str_addc(out, same ? 0 : 1);
	if (same)
		return;
	encode_text(out, e->ref->options, strlen(e->ref->options));
	encode_text(out, e->ref->uri, n);
}

static void encode_entry(struct str *out, const struct tree_entry *e,
			 const struct tree_entry *last_reference)
{
	str_addc(out, (char)e->kind);
	str_add_u32(out, (uint32_t)e->name_len);
	str_addn(out, e->name, e->name_len + 1);
	if (e->kind == TREE_SYMLINK) {
		encode_text(out, e->target, e->target_len);
	} else if (e->kind == TREE_REFERENCE) {
		encode_reference(out, e, last_reference);
	} else {
		str_add_u64(out, e->id.size_bytes);
		str_addn(out, e->id.digest.b, DIGEST_BYTES);
	}
}

int tree_builder_store(struct tree_builder *b, struct store *s, struct content_id *ret,
		       struct err *err)
{
	_cleanup_(str_deinit) struct str out = { 0 };
	const struct tree_entry *last = NULL;

	if (b->entries.n)
		qsort(b->entries.v, b->entries.n, sizeof(*b->entries.v), by_name);
	str_addn(&out, MAGIC, MAGIC_LEN);
	for (size_t i = 0; i < b->entries.n; i++) {
		if (i && by_name(&b->entries.v[i - 1], &b->entries.v[i]) == 0)
			return err_set(err, ERR_INVALID, "two entries are named `%s`",
				       b->entries.v[i].name);
		encode_entry(&out, &b->entries.v[i], last);
		if (b->entries.v[i].kind == TREE_REFERENCE)
			last = &b->entries.v[i];
	}
	if (out.len > TREE_LISTING_MAX)
		return err_set(err, ERR_TOO_LARGE,
			       "a directory has too many entries for one listing (%zu)",
			       b->entries.n);
	ret->kind = CONTENT_TREE;
	ret->size_bytes = out.len;
	digest_bytes(out.s, out.len, &ret->digest);
	return s && store_put(s, STORE_TREE, &ret->digest, out.s, out.len, err) < 0 ? -1 : 0;
}

/* Paths. */

int tree_entry_resolve(struct store *s, struct tree_entry *e, struct err *err)
{
	return e->kind == TREE_REFERENCE && e->id.kind == CONTENT_NONE
		       ? reference_put(s, e->ref, &e->id, err)
		       : 0;
}

int tree_lookup(struct store *s, const struct content_id *root, const char *path,
		struct arena *arena, struct tree_entry *ret, struct err *err)
{
	struct tree_entry at = { .name = "", .kind = TREE_DIR, .id = *root };
	const char *c = path;

	for (;;) {
		_cleanup_(tree_freep) struct tree *t = NULL;
		const struct tree_entry *e;
		size_t n;

		c += strspn(c, "/");
		n = strcspn(c, "/");
		if (n == 0)
			break;
		if (at.kind != TREE_DIR)
			return err_set(err, ERR_NOT_FOUND,
				       "`%s` does not exist: a part of it is a file", path);
		if (tree_load(s, &at.id, &t, err) < 0)
			return -1;
		e = tree_find(t, c, n);
		if (!e)
			return err_set(err, ERR_NOT_FOUND, "`%s` does not exist in the directory",
				       path);
		keep_entry(arena, e, &at);
		c += n;
	}
	*ret = at;
	return 0;
}

/* Globs. */

struct globber {
	struct store *store;
	struct arena *arena;
	VEC(struct tree_match) out;
	struct str path;
	bool dirs_only;
};

static int glob_level(struct globber *g, const struct content_id *tree, const char *pattern,
		      int depth, struct err *err);

static int glob_entry(struct globber *g, const struct tree_entry *e, const char *rest, int depth,
		      struct err *err)
{
	size_t len = g->path.len;
	int r = 0;

	str_addf(&g->path, "%s%s", len ? "/" : "", e->name);
	if (*rest) {
		r = e->kind == TREE_DIR ? glob_level(g, &e->id, rest, depth + 1, err) : 0;
	} else if (!g->dirs_only || e->kind == TREE_DIR) {
		struct tree_match m = { .path = arena_strndup(g->arena, g->path.s, g->path.len) };

		keep_entry(g->arena, e, &m.entry);
		VEC_PUSH(&g->out, m);
	}
	g->path.len = len;
	g->path.s[len] = '\0';
	return r;
}

static int glob_level(struct globber *g, const struct content_id *tree, const char *pattern,
		      int depth, struct err *err)
{
	_cleanup_(tree_freep) struct tree *t = NULL;
	size_t n = strcspn(pattern, "/");
	const char *rest = pattern + n + strspn(pattern + n, "/");
	_cleanup_(freep) char *part = xstrndup(pattern, n);
	bool deep = str_eq(part, "**"); /* this directory and all below it */

	if (depth > CONTENT_DEPTH_MAX)
		return err_set(err, ERR_TOO_LARGE, "directories are nested deeper than %d levels",
			       CONTENT_DEPTH_MAX);
	if (tree_load(g->store, tree, &t, err) < 0)
		return -1;
	if (deep && glob_level(g, tree, *rest ? rest : "*", depth, err) < 0)
		return -1;
	for (size_t i = 0; i < tree_len(t); i++) {
		const struct tree_entry *e = tree_at(t, i);
		bool hit = deep ? e->kind == TREE_DIR && e->name[0] != '.'
				: fnmatch(part, e->name, FNM_PERIOD | FNM_NOESCAPE) == 0;

		if (hit && glob_entry(g, e, deep ? pattern : rest, depth, err) < 0)
			return -1;
	}
	return 0;
}

static int by_match_path(const void *a, const void *b)
{
	return strcmp(((const struct tree_match *)a)->path, ((const struct tree_match *)b)->path);
}

int tree_glob(struct store *s, const struct content_id *root, const char *pattern,
	      struct arena *arena, struct tree_match **ret, size_t *ret_n, struct err *err)
{
	struct globber g = { .store = s, .arena = arena };
	_cleanup_(freep) char *p = xstrdup(pattern + strspn(pattern, "/"));
	size_t n = strlen(p), kept = 0;
	int r;

	while (n && p[n - 1] == '/') {
		p[--n] = '\0';
		g.dirs_only = true;
	}
	for (char *c = p; (c = strstr(c, "**/**")) !=
			  NULL;) /* twice means the same as once, but each costs a walk */
		if ((c == p || c[-1] == '/') && (c[5] == '/' || c[5] == '\0'))
			memmove(c, c + 3, strlen(c + 3) + 1);
		else
			c++;
	n = strlen(p);
	str_add(&g.path, "");
	r = glob_level(&g, root, n ? p : "*", 0, err);
	if (r == 0 && g.out.n) {
		qsort(g.out.v, g.out.n, sizeof(*g.out.v), by_match_path);
		for (size_t i = 0; i < g.out.n; i++) /* `**` may reach a path twice */
			if (kept == 0 || strcmp(g.out.v[kept - 1].path, g.out.v[i].path) != 0)
				g.out.v[kept++] = g.out.v[i];
	}
	if (r == 0) {
		*ret = arena_alloc(arena, (kept + 1) * sizeof(**ret));
		if (kept)
			memcpy(*ret, g.out.v, kept * sizeof(**ret));
		*ret_n = kept;
	}
	VEC_FREE(&g.out);
	str_deinit(&g.path);
	return r;
}
