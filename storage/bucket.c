/* Dispatch to the kinds of object storage, and the prefix before every key. */
#include "storage/bucket_internal.h"

static char *whole(const struct bucket *b, const char *key)
{
	return xasprintf("%s%s", b->prefix, key);
}

static void set_names(struct bucket *b, const char *uri)
{
	const char *name = strstr(uri, "://") + 3;
	size_t n = strcspn(name, "/");
	const char *prefix = name + n + (name[n] == '/');

	b->uri = xstrdup(uri);
	b->name = xstrndup(name, n);
	b->prefix = *prefix && !str_has_suffix(prefix, "/") ? xasprintf("%s/", prefix) : xstrdup(prefix);
}

int bucket_open(const char *uri, const struct bucket_options *o, struct bucket **ret, struct err *err)
{
	if (!str_has_prefix(uri, "mem-bucket://"))
		return err_set(err, ERR_UNSUPPORTED, "%s: this kind of object storage is not in this build", uri);
	if (bucket_memory_open(uri, ret, err) < 0)
		return -1;
	set_names(*ret, uri);
	return 0;
}

void bucket_free(struct bucket *b)
{
	if (!b)
		return;
	free(b->uri);
	free(b->name);
	free(b->prefix);
	b->ops->free(b);
}

const char *bucket_uri(const struct bucket *b)
{
	return b->uri;
}

static char **whole_keys(const struct bucket *b, const char *const *keys, size_t n)
{
	char **v = xcalloc(n + 1, sizeof(*v));

	for (size_t i = 0; i < n; i++)
		v[i] = whole(b, keys[i]);
	return v;
}

static void free_keys(char **v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(v[i]);
	free(v);
}

int bucket_put_many(struct bucket *b, struct bucket_put *const *v, size_t n, struct err *err)
{
	const char **given = xcalloc(n + 1, sizeof(*given));
	int r;

	for (size_t i = 0; i < n; i++) {
		given[i] = v[i]->key;
		v[i]->key = whole(b, given[i]);
	}
	r = b->ops->put_many(b, v, n, err);
	for (size_t i = 0; i < n; i++) {
		free((char *)v[i]->key);
		v[i]->key = given[i];
	}
	free(given);
	return r;
}

int bucket_get_many(struct bucket *b, struct bucket_get *const *v, size_t n, struct err *err)
{
	const char **given = xcalloc(n + 1, sizeof(*given));
	int r;

	for (size_t i = 0; i < n; i++) {
		given[i] = v[i]->key;
		v[i]->key = whole(b, given[i]);
	}
	r = b->ops->get_many(b, v, n, err);
	for (size_t i = 0; i < n; i++) {
		free((char *)v[i]->key);
		v[i]->key = given[i];
	}
	free(given);
	return r;
}

int bucket_head_many(struct bucket *b, const char *const *keys, size_t n, bool *ret_there, uint64_t *ret_sizes, struct err *err)
{
	char **v = whole_keys(b, keys, n);
	int r = b->ops->head_many(b, (const char *const *)v, n, ret_there, ret_sizes, err);

	free_keys(v, n);
	return r;
}

int bucket_head(struct bucket *b, const char *key, struct bucket_object *ret, struct str *strings, struct err *err)
{
	char *k = whole(b, key);
	int r = b->ops->head(b, k, ret, strings, err);

	free(k);
	ret->key = key;
	return r;
}

int bucket_delete_many(struct bucket *b, const char *const *keys, size_t n, struct err *err)
{
	char **v = whole_keys(b, keys, n);
	int r = b->ops->delete_many(b, (const char *const *)v, n, err);

	free_keys(v, n);
	return r;
}

int bucket_delete_if(struct bucket *b, const char *key, const char *version, struct err *err)
{
	char *k = whole(b, key);
	int r = b->ops->delete_if(b, k, version, err);

	free(k);
	return r;
}

struct listing {
	size_t skip;
	int (*fn)(void *arg, const struct bucket_object *o);
	void *arg;
};

static int without_prefix(void *arg, const struct bucket_object *o)
{
	struct listing *l = arg;
	struct bucket_object mine = *o;

	mine.key += l->skip;
	return l->fn(l->arg, &mine);
}

int bucket_list(struct bucket *b, const char *prefix, const char *start_after, char delimiter, int (*fn)(void *arg, const struct bucket_object *o), void *arg,
		struct err *err)
{
	struct listing l = { strlen(b->prefix), fn, arg };
	char *p = whole(b, prefix), *after = start_after ? whole(b, start_after) : NULL;
	int r = b->ops->list(b, p, after, delimiter, without_prefix, &l, err);

	free(p);
	free(after);
	return r;
}

int bucket_abort_stale(struct bucket *b, int64_t before_ns, uint64_t *ret_n, struct err *err)
{
	return b->ops->abort_stale(b, before_ns, ret_n, err);
}

int bucket_probe(struct bucket *b, struct bucket_abilities *ret, struct err *err)
{
	return b->ops->probe(b, ret, err);
}
