/* A store in memory, for tests: the same verbs, no files. */
#include <sys/mman.h>
#include "base/fs.h"
#include "storage/internal.h"

struct object {
	bool present;
	size_t n;
	uint8_t *bytes;
};

struct memory_store {
	struct store base;
	struct map *objects[STORE_SPACES];
};

static struct object *find(struct memory_store *m, enum store_space space, const struct digest *name)
{
	struct object *o = map_get(m->objects[space], name->b, DIGEST_BYTES);

	return o && o->present ? o : NULL;
}

static int memory_has(struct store *s, enum store_space space, const struct digest *names, const uint64_t *sizes, size_t n, bool *ret, struct err *err)
{
	struct memory_store *m = CONTAINER_OF(s, struct memory_store, base);

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < n; i++) {
		struct object *o = find(m, space, &names[i]);

		ret[i] = o && (sizes[i] == UINT64_MAX || sizes[i] == o->n);
	}
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static int not_found(const struct digest *name, struct err *err)
{
	char hex[DIGEST_HEX_MAX];

	return err_set(err, ERR_NOT_FOUND, "sha256:%s is not in the store", digest_hex(name, hex));
}

static int memory_get(struct store *s, enum store_space space, const struct digest *name, uint64_t max_bytes, struct str *ret, struct err *err)
{
	struct memory_store *m = CONTAINER_OF(s, struct memory_store, base);
	struct object *o;
	int r = 0;

	pthread_mutex_lock(&s->lock);
	o = find(m, space, name);
	if (!o)
		r = not_found(name, err);
	else if (o->n > max_bytes)
		r = err_set(err, ERR_TOO_LARGE, "an object has %zu bytes; at most %llu are read here", o->n, (unsigned long long)max_bytes);
	else
		str_addn(ret, o->bytes, o->n);
	pthread_mutex_unlock(&s->lock);
	return r;
}

static int memory_put(struct store *s, enum store_space space, const struct digest *name, const void *bytes, size_t n, bool replace, struct err *err)
{
	struct memory_store *m = CONTAINER_OF(s, struct memory_store, base);
	struct object *o;
	void **slot;
	int r = 1;

	pthread_mutex_lock(&s->lock);
	slot = map_slot(m->objects[space], name->b, DIGEST_BYTES, NULL);
	o = *slot ? *slot : (*slot = xcalloc(1, sizeof(*o)));
	if (!o->present || replace) {
		free(o->bytes);
		o->bytes = xmalloc(n + 1);
		if (n)
			memcpy(o->bytes, bytes, n);
		o->n = n;
		o->present = true;
		r = 0;
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

static int memory_del(struct store *s, enum store_space space, const struct digest *name, struct err *err)
{
	struct memory_store *m = CONTAINER_OF(s, struct memory_store, base);
	struct object *o;

	pthread_mutex_lock(&s->lock);
	o = find(m, space, name);
	if (o)
		o->present = false;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static int memory_list(struct store *s, enum store_space space, int (*fn)(void *arg, const struct digest *name, uint64_t size_bytes, int64_t mtime_ns),
		       void *arg, struct err *err)
{
	struct memory_store *m = CONTAINER_OF(s, struct memory_store, base);

	for (size_t i = 0; i < map_len(m->objects[space]); i++) {
		const void *key;
		struct object *o = map_at(m->objects[space], i, &key, NULL);
		struct digest d;
		int r;

		if (!o || !o->present)
			continue;
		memcpy(d.b, key, DIGEST_BYTES);
		r = fn(arg, &d, o->n, 0);
		if (r)
			return r;
	}
	return 0;
}

static int memory_sync(struct store *s, struct err *err)
{
	return 0;
}

static int memory_open(struct store *s, const struct digest *name, int *ret_fd, struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	_cleanup_(fd_closep) int fd = -1;

	if (memory_get(s, STORE_BLOB, name, UINT64_MAX, &bytes, err) < 0)
		return -1;
	fd = memfd_create("blob", MFD_CLOEXEC);
	if (fd < 0)
		return err_errno(err, "cannot make a file in memory");
	if (fs_write_all(fd, bytes.s ? bytes.s : "", bytes.len, err) < 0)
		return -1;
	lseek(fd, 0, SEEK_SET);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static void memory_set_aside(struct store *s, enum store_space space, const struct digest *name)
{
	memory_del(s, space, name, NULL);
}

static void memory_free(struct store *s)
{
	struct memory_store *m = CONTAINER_OF(s, struct memory_store, base);

	for (int space = 0; space < STORE_SPACES; space++) {
		for (size_t i = 0; i < map_len(m->objects[space]); i++) {
			struct object *o = map_at(m->objects[space], i, NULL, NULL);

			if (o)
				free(o->bytes);
			free(o);
		}
		map_free(m->objects[space]);
	}
	store_base_deinit(s);
	free(m);
}

static const struct store_ops memory_ops = {
	.has = memory_has, .get = memory_get, .put = memory_put, .del = memory_del, .list = memory_list, .sync = memory_sync,
	.open = memory_open, .set_aside = memory_set_aside, .free = memory_free,
};

struct store *store_memory_new(void)
{
	struct memory_store *m = xcalloc(1, sizeof(*m));

	store_base_init(&m->base, &memory_ops, "memory:");
	for (int space = 0; space < STORE_SPACES; space++)
		m->objects[space] = map_new();
	return &m->base;
}
