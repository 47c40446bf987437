/* storage/bucket/bucket.c — chooses the kind of object storage for a URI, and adds the prefix to
 * every key.
 *
 * The kinds see full keys. During a batch the full keys are in the callers' structs, and `struct
 * keys` restores the callers' keys afterwards. So two batches must not share a struct at the same
 * time. A listing removes the prefix, and skips an object that lacks it.
 *
 * struct bucket, which the kinds extend, is the only state, so any thread may call. The kinds make
 * requests, retries and batches (s3/, gcs/, memory.c).
 */
#include "storage/bucket/internal.h"

#include <assert.h>
#include "base/os/machine.h"
#include "base/text/str.h"

/* Open and close. */

int bucket_base_init(struct bucket *b, const char *uri, const char *scheme, struct err *err)
{
	const char *name = uri + strlen(scheme), *slash = strchr(name, '/');
	size_t n = slash ? (size_t)(slash - name) : strlen(name), prefix_n;

	if (n == 0 || n > BUCKET_NAME_MAX ||
	    strspn(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._:") < n)
		return err_set(err, ERR_INVALID,
			       "the bucket's name must be of letters, digits, dots and dashes: "
			       "%sBUCKET/PREFIX",
			       scheme);
	while (slash && *slash == '/')
		slash++;
	prefix_n = slash ? str_len_without(slash, '/') : 0;
	if (prefix_n > BUCKET_KEY_MAX / 2)
		return err_set(err, ERR_INVALID, "the prefix is longer than %d bytes",
			       BUCKET_KEY_MAX / 2);
	b->uri = xstrdup(uri);
	b->name = xstrndup(name, n);
	b->prefix = prefix_n ? xasprintf("%.*s/", (int)prefix_n, slash) : xstrdup("");
	return 0;
}

void bucket_base_deinit(struct bucket *b)
{
	free(b->uri);
	free(b->name);
	free(b->prefix);
}

static int open_memory(const char *uri, struct bucket **ret, struct err *err)
{
	struct bucket names = { 0 };

	if (bucket_base_init(&names, uri, "mem-bucket://", err) < 0 ||
	    bucket_memory_open(uri, ret, err) < 0) {
		bucket_base_deinit(&names);
		return -1;
	}
	(*ret)->uri = names.uri;
	(*ret)->name = names.name;
	(*ret)->prefix = names.prefix;
	return 0;
}

int bucket_open(const char *uri, const struct bucket_options *o, struct bucket **ret,
		struct err *err)
{
	static const struct bucket_options none;
	int r;

	if (!o)
		o = &none;
	if (str_has_prefix(uri, "s3://"))
		r = bucket_s3_open(uri, o, ret, err);
	else if (str_has_prefix(uri, "gs://"))
		r = bucket_gcs_open(uri, o, ret, err);
	else if (str_has_prefix(uri, "mem-bucket://"))
		r = open_memory(uri, ret, err);
	else
		r = err_set(
			err, ERR_INVALID,
			"`%s` names no object storage: s3://BUCKET/PREFIX or gs://BUCKET/PREFIX",
			uri);
	if (r == 0)
		(*ret)->first_tries = o->first_tries;
	return r;
}

void bucket_free(struct bucket *b)
{
	if (!b)
		return;
	bucket_base_deinit(b);
	b->ops->free(b);
}

const char *bucket_uri(const struct bucket *b)
{
	return b->uri;
}

bool bucket_has_answered(const struct bucket *b)
{
	return atomic_load(&b->answered);
}

char *bucket_probe_key(const struct bucket *b)
{
	return xasprintf("%scairn-probe-%016llx%016llx", b->prefix,
			 (unsigned long long)random_u64(), (unsigned long long)random_u64());
}

/* Keys. */

/* Full keys of a batch. */
struct keys {
	struct arena *arena;
	const char **whole;
	const char ***places; /* where the full keys are during a call */
	const char **given;   /* the callers' keys */
	size_t n;
};

static void keys_init(struct keys *k, size_t n)
{
	*k = (struct keys){ .arena = arena_new() };
	k->whole = arena_alloc(k->arena, (n + 1) * sizeof(*k->whole));
	k->places = arena_alloc(k->arena, (n + 1) * sizeof(*k->places));
	k->given = arena_alloc(k->arena, (n + 1) * sizeof(*k->given));
}

static void keys_add(struct keys *k, const struct bucket *b, const char *key)
{
	k->whole[k->n++] = arena_printf(k->arena, "%s%s", b->prefix, key);
}

static void keys_add_in_place(struct keys *k, const struct bucket *b, const char **place)
{
	k->places[k->n] = place;
	k->given[k->n] = *place;
	keys_add(k, b, *place);
	*place = k->whole[k->n - 1];
}

static void keys_deinit(struct keys *k)
{
	for (size_t i = 0; i < k->n; i++)
		if (k->places[i])
			*k->places[i] = k->given[i];
	arena_free(k->arena);
}

int bucket_put_many(struct bucket *b, struct bucket_put *const *v, size_t n, struct err *err)
{
	struct keys k;
	int r;

	keys_init(&k, n);
	for (size_t i = 0; i < n; i++) {
		assert(v[i]->fd >= 0 || v[i]->bytes || !v[i]->size);
		keys_add_in_place(&k, b, &v[i]->key);
	}
	r = b->ops->put_many(b, v, n, err);
	keys_deinit(&k);
	return r;
}

int bucket_get_many(struct bucket *b, struct bucket_get *const *v, size_t n, struct err *err)
{
	struct keys k;
	int r;

	keys_init(&k, n);
	for (size_t i = 0; i < n; i++) {
		assert(v[i]->fd >= 0 || !v[i]->hash);
		keys_add_in_place(&k, b, &v[i]->key);
	}
	r = b->ops->get_many(b, v, n, err);
	keys_deinit(&k);
	return r;
}

int bucket_put(struct bucket *b, struct bucket_put *p, struct err *err)
{
	if (bucket_put_many(b, &p, 1, err) < 0)
		return -1;
	return p->result < 0 ? err_pass(err, &p->err) : p->result;
}

int bucket_get(struct bucket *b, struct bucket_get *g, struct err *err)
{
	if (bucket_get_many(b, &g, 1, err) < 0)
		return -1;
	return g->result < 0 ? err_pass(err, &g->err) : 0;
}

int bucket_head_many(struct bucket *b, const char *const *keys, size_t n, bool *ret_there,
		     uint64_t *ret_sizes, struct err *err)
{
	struct keys k;
	int r;

	keys_init(&k, n);
	for (size_t i = 0; i < n; i++)
		keys_add(&k, b, keys[i]);
	r = b->ops->head_many(b, k.whole, n, ret_there, ret_sizes, err);
	keys_deinit(&k);
	return r;
}

int bucket_delete_many(struct bucket *b, const char *const *keys, size_t n, struct err *err)
{
	struct keys k;
	int r;

	keys_init(&k, n);
	for (size_t i = 0; i < n; i++)
		keys_add(&k, b, keys[i]);
	r = b->ops->delete_many(b, k.whole, n, err);
	keys_deinit(&k);
	return r;
}

int bucket_head(struct bucket *b, const char *key, struct bucket_object *ret, struct str *strings,
		struct err *err)
{
	_cleanup_(freep) char *k = xasprintf("%s%s", b->prefix, key);
	int r = b->ops->head(b, k, ret, strings, err);

	if (r == 0)
		ret->key = key;
	return r;
}

int bucket_delete_if(struct bucket *b, const char *key, const char *version, struct err *err)
{
	_cleanup_(freep) char *k = xasprintf("%s%s", b->prefix, key);

	return b->ops->delete_if(b, k, version, err);
}

struct relative {
	bucket_list_fn *fn;
	void *arg;
	const char *prefix;
	size_t skip;
};

static int list_one(void *arg, const struct bucket_object *o)
{
	struct relative *l = arg;
	struct bucket_object relative = *o;

	if (!str_has_prefix(o->key, l->prefix)) /* the server returned a key outside the prefix */
		return 0;
	relative.key += l->skip;
	return l->fn(l->arg, &relative);
}

int bucket_list(struct bucket *b, const char *prefix, const char *start_after, char delimiter,
		bucket_list_fn *fn, void *arg, struct err *err)
{
	_cleanup_(freep) char *p = xasprintf("%s%s", b->prefix, prefix ? prefix : "");
	_cleanup_(freep) char *after =
		start_after ? xasprintf("%s%s", b->prefix, start_after) : NULL;
	struct relative r = { .fn = fn, .arg = arg, .prefix = p, .skip = strlen(b->prefix) };

	assert(delimiter == '\0' || delimiter == '/');
	return b->ops->list(b,
			    &(struct bucket_listing){ .prefix = p,
						      .start_after = after,
						      .delimiter = delimiter,
						      .fn = list_one,
						      .arg = &r },
			    err);
}

int bucket_abort_stale(struct bucket *b, int64_t before_ns, uint64_t *ret_n, struct err *err)
{
	uint64_t n = 0;
	int r = b->ops->abort_stale ? b->ops->abort_stale(b, before_ns, &n, err) : 0;

	if (ret_n)
		*ret_n = n;
	return r;
}

int bucket_probe(struct bucket *b, struct bucket_abilities *ret, struct err *err)
{
	*ret = (struct bucket_abilities){ 0 };
	return b->ops->probe(b, ret, err);
}
