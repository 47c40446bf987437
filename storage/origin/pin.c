/* storage/origin/pin.c — pins the current objects at a URI (one object, a prefix or a glob) as
 * references or as a copy.
 *
 * A listing streams in. The name, size and version of each object stay in memory, grouped into
 * directories (struct dir). At the end the total size decides whether to copy (wants_copy()). Then
 * each directory becomes one tree listing, children first: its files are references, or the blobs
 * that origin_fetch_into() gave.
 *
 * Globs have the rules of tree_glob(), applied to keys. An invalid file name fails the pin. A call
 * uses one thread; `arena` holds everything but the lists of files.
 */
#include <fnmatch.h>
#include "base/os/fs.h"
#include "storage/origin/internal.h"

struct file {
	const char *name, *version;
	uint64_t size;
};

struct dir {
	const char *name;
	struct dir *next_child;
	struct dir *children, *last_child;
	VEC(struct file) files;
};

struct pinning {
	struct store *s;
	const struct origin_request *request;
	struct origin_pinned *res;
	struct origin_sink to; /* where copies go: the store itself */
	struct bucket *bucket;
	const char *base;    /* "s3://BUCKET/", the part before keys */
	const char *fixed;   /* common start of the keys, up to the slash where paths begin */
	const char *pattern; /* the rest, a glob; NULL: everything */
	struct arena *arena;
	struct map *dirs; /* by path; "" is the root */
	bool copy;
	struct err err; /* the error that ended a listing */
};

/* Globs. */

/* Same rules as tree_glob(): component by component, `**` matches any number of directories, hidden
 * names need a dot in the pattern. */
static bool matches(const char *pattern, const char *path)
{
	size_t n = strcspn(pattern, "/"), k = strcspn(path, "/");
	char part[256], name[256];

	if (n == 2 && memcmp(pattern, "**", 2) == 0) {
		const char *rest = pattern[2] ? pattern + 3 : "*";

		for (;; path += k + 1, k = strcspn(path, "/")) {
			if (matches(rest, path))
				return true;
			if (!path[k] || *path == '.')
				return false;
		}
	}
	if ((pattern[n] == '\0') != (path[k] == '\0') || n >= sizeof(part) || k >= sizeof(name))
		return false;
	memcpy(part, pattern, n);
	part[n] = '\0';
	memcpy(name, path, k);
	name[k] = '\0';
	if (fnmatch(part, name, FNM_PERIOD | FNM_NOESCAPE) != 0)
		return false;
	return pattern[n] ? matches(pattern + n + 1, path + k + 1) : true;
}

/* The listing. */

static struct dir *dir_at(struct pinning *p, const char *path, size_t n)
{
	void **slot = map_slot(p->dirs, path, n, NULL);
	const char *slash = n ? memrchr(path, '/', n) : NULL;
	struct dir *d = *slot, *parent;

	if (d)
		return d;
	d = *slot = arena_alloc(p->arena, sizeof(*d));
	if (n == 0)
		return d;
	d->name = arena_strndup(p->arena, slash ? slash + 1 : path,
				n - (slash ? (size_t)(slash + 1 - path) : 0));
	parent = dir_at(p, path, slash ? (size_t)(slash - path) : 0);
	if (parent->last_child)
		parent->last_child->next_child = d;
	else
		parent->children = d;
	parent->last_child = d;
	return d;
}

/* The version, or else the ETag. S3's listing has no version ids; S3 gives "null" for unversioned
 * objects.
 */
static const char *version_of(const struct bucket_object *o)
{
	return o->version && *o->version && !str_eq(o->version, "null") ? o->version
	       : o->etag                                                ? o->etag
									: "";
}

static int take_object(void *arg, const struct bucket_object *o)
{
	struct pinning *p = arg;
	const char *path = o->key + strlen(p->fixed), *slash = strrchr(path, '/');
	struct dir *d;

	if (!*path || str_has_suffix(path, "/") || (p->pattern && !matches(p->pattern, path)))
		return 0;
	if (*path == '/' || strstr(path, "//"))
		return err_set(&p->err, ERR_INVALID,
			       "%s%.300s can't be laid out as a file: its name has an empty part",
			       p->base, o->key);
	d = dir_at(p, path, slash ? (size_t)(slash - path) : 0);
	VEC_PUSH(&d->files, ((struct file){ arena_strdup(p->arena, slash ? slash + 1 : path),
					    arena_strdup(p->arena, version_of(o)), o->size }));
	p->res->objects++;
	p->res->bytes += o->size;
	return 0;
}

/* Trees. */

static int refer(struct pinning *p, const char *dir, const struct file *f, struct arena *arena,
		 struct reference *ret, struct err *err)
{
	if (!*f->version && !p->copy)
		return err_set(
			err, ERR_INVALID,
			"%s%s: the server gives no version of it, so it can't be referenced; "
			"use `mode: copy`",
			dir, f->name);
	*ret = (struct reference){ .uri = arena_printf(arena, "%s%s", dir, f->name),
				   .version = f->version,
				   .options = p->request->options,
				   .size_bytes = f->size };
	return 0;
}

/* Adds the directory's files as entries: references, or the blobs that were fetched. */
static int files_of(struct pinning *p, struct tree_builder *b, const struct dir *d, const char *uri,
		    struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	size_t n = d->files.n;
	_cleanup_(freep) struct reference *refs = xcalloc(n + 1, sizeof(*refs));
	_cleanup_(freep) struct content_id *blobs = p->copy ? xcalloc(n + 1, sizeof(*blobs)) : NULL;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = refer(p, uri, &d->files.v[i], arena, &refs[i], err);
	if (r == 0 && p->copy)
		r = origin_fetch_into(p->s, &p->to, refs, n, blobs, err);
	for (size_t i = 0; i < n && r == 0; i++) {
		struct tree_entry e = { .name = d->files.v[i].name,
					.name_len = strlen(d->files.v[i].name),
					.kind = p->copy ? TREE_FILE : TREE_REFERENCE };

		if (p->copy)
			e.id = blobs[i];
		else
			e.ref = &refs[i];
		r = tree_builder_add(b, &e, err);
	}
	return r < 0 ? err_wrap(err, "%.300s", uri) : 0;
}

static int store_dir(struct pinning *p, struct dir *d, const char *uri, int depth,
		     struct content_id *ret, struct err *err)
{
	struct tree_builder *b = tree_builder_new();
	struct err e = { 0 };
	int r = 0;

	if (depth > CONTENT_DEPTH_MAX)
		r = err_set(err, ERR_TOO_LARGE, "%.300s...: names have more than %d parts", uri,
			    CONTENT_DEPTH_MAX);
	for (struct dir *c = d->children; c && r == 0; c = c->next_child) {
		_cleanup_(freep) char *below = xasprintf("%s%s/", uri, c->name);
		struct tree_entry entry = { .name = c->name,
					    .name_len = strlen(c->name),
					    .kind = TREE_DIR };

		r = store_dir(p, c, below, depth + 1, &entry.id, err);
		if (r == 0)
			r = tree_builder_add(b, &entry, err);
	}
	if (r == 0)
		r = files_of(p, b, d, uri, err);
	VEC_FREE(&d->files);
	if (r == 0 && (r = tree_builder_store(b, p->s, ret, &e)) < 0)
		err_set(err, e.code,
			e.code == ERR_INVALID ? "%.300s: an object and a prefix have one name: %s"
					      : "%.300s: %s",
			uri, e.msg);
	tree_builder_free(b);
	return r;
}

static bool wants_copy(const struct pinning *p)
{
	return p->request->mode == ORIGIN_COPY ||
	       (p->request->mode == ORIGIN_AUTO && p->res->bytes <= p->request->copy_max);
}

/* `prefix`: the start of every key that can match. */
static int pin_listing(struct pinning *p, const char *prefix, struct err *err)
{
	_cleanup_(freep) char *uri = xasprintf("%s%s", p->base, p->fixed);
	bool flat = p->pattern && !strchr(p->pattern, '/') && !strstr(p->pattern, "**");
	int r;

	p->dirs = map_new();
	dir_at(p, "", 0);
	r = bucket_list(p->bucket, prefix, NULL, flat ? '/' : '\0', take_object, p, err);
	if (p->err.code)
		r = err_pass(err, &p->err);
	if (r == 0 && p->res->objects == 0)
		r = err_set(err, ERR_NOT_FOUND,
			    p->pattern ? "no object matches it" : "there is no object under it");
	p->copy = wants_copy(p);
	p->res->by_reference = !p->copy;
	if (r == 0)
		r = store_dir(p, dir_at(p, "", 0), uri, 0, &p->res->id, err);
	for (size_t i = 0; i < map_len(p->dirs); i++) {
		struct dir *d = map_at(p->dirs, i, NULL, NULL);

		VEC_FREE(&d->files);
	}
	map_free(p->dirs);
	return r;
}

/* One object. */

static int note_first(void *arg, const struct bucket_object *o)
{
	*(bool *)arg = true;
	return 1;
}

/* The object is absent; the error says if the user perhaps meant a prefix. */
static int absent(struct pinning *p, const char *key, struct err *err)
{
	_cleanup_(freep) char *prefix = xasprintf("%s/", key);
	bool there = false;

	if (origin_in_bucket(p->request->uri) &&
	    bucket_list(p->bucket, prefix, NULL, '\0', note_first, &there, NULL) >= 0 && there)
		return err_set(err, ERR_NOT_FOUND,
			       "there is no such object, but some below it: write it with a slash "
			       "at its end");
	return err_set(err, ERR_NOT_FOUND, "there is no such object");
}

static int pin_object(struct pinning *p, const char *key, const char *uri, struct err *err)
{
	_cleanup_(str_deinit) struct str strings = { 0 };
	struct bucket_object o;
	struct reference ref;
	struct err e = { 0 };

	if (bucket_head(p->bucket, key, &o, &strings, &e) < 0)
		return e.code == ERR_NOT_FOUND ? absent(p, key, err) : err_pass(err, &e);
	p->res->objects = 1;
	p->res->bytes = o.size == UINT64_MAX ? 0 : o.size;
	ref = (struct reference){ .uri = uri,
				  .version = version_of(&o),
				  .options = p->request->options,
				  .size_bytes = o.size };
	p->copy = p->request->mode == ORIGIN_COPY ||
		  (p->request->mode == ORIGIN_AUTO &&
		   (wants_copy(p) || !*ref.version || o.size == UINT64_MAX));
	p->res->by_reference = !p->copy;
	if (p->copy)
		return origin_fetch_into(p->s, &p->to, &ref, 1, &p->res->id, err);
	if (!*ref.version || o.size == UINT64_MAX)
		return err_set(
			err, ERR_INVALID,
			"the server gives %s, so it can't be pinned by reference; use `mode: copy`",
			*ref.version ? "no size" : "neither an ETag nor a time of the last change");
	return reference_check(&ref, err) < 0 ? -1 : reference_put(p->s, &ref, &p->res->id, err);
}

/* A URI. */

static int pin_key(struct pinning *p, const char *key, const char *uri, struct err *err)
{
	size_t special = origin_in_bucket(uri) ? strcspn(key, "*?[") : strlen(key), slash = special;

	if (!key[special] && *key && !(origin_in_bucket(uri) && str_has_suffix(key, "/")))
		return pin_object(p, key, uri, err);
	while (slash && key[slash - 1] != '/')
		slash--;
	p->base = arena_strndup(p->arena, uri, strlen(uri) - strlen(key));
	p->fixed = arena_strndup(p->arena, key, slash);
	p->pattern = key[special] ? key + slash : NULL;
	return pin_listing(p, arena_strndup(p->arena, key, special), err);
}

int origin_pin(struct store *s, const struct origin_request *request, struct origin_pinned *ret,
	       struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	_cleanup_(str_deinit) struct str uri = { 0 };
	struct origin_pinned res = { 0 };
	struct pinning p = {
		.s = s, .request = request, .res = &res, .to = { .store = s }, .arena = arena
	};
	const char *key;

	store_know_origin(s, request->uri);
	origin_public_uri(request->uri, &uri);
	if (origin_in_bucket(uri.s) && !strchr(strstr(uri.s, "://") + 3, '/'))
		str_addc(&uri, '/');
	if (origin_locate(s, uri.s, request->options, arena, &p.bucket, &key, err) < 0 ||
	    pin_key(&p, key, uri.s, err) < 0)
		return -1;
	res.fetched = p.to.fetched;
	*ret = res;
	return 0;
}
