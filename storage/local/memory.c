/* storage/local/memory.c — a store in memory, for tests: the same functions without files.
 *
 * One map per space, from digest to object. An object that is deleted stays in its map with
 * `present` false. s->lock guards the maps. gc's note isn't guarded, because only one thread
 * collects.
 *
 * A blob is opened as a copy in a memfd, so that callers get a descriptor as from a directory. An
 * object that is set aside is deleted. Nothing is durable and a crash leaves nothing, so the table
 * lacks those entries.
 */
#include <sys/mman.h>
#include "base/os/fs.h"
#include "base/time/clock.h"
#include "storage/internal.h"

struct object {
	bool present;
	int64_t mtime_ns;
	size_t n;
	uint8_t *bytes;
};

struct memory_store {
	struct store base;
	struct map *objects[STORE_SPACES];
	struct str note;
};

static struct object *find(struct memory_store *m, enum store_space space,
			   const struct digest *name)
{
	struct object *o = map_get(m->objects[space], name->b, DIGEST_BYTES);

	return o && o->present ? o : NULL;
}

static int memory_has(struct store *s, enum store_space space, const struct digest *names,
		      const uint64_t *sizes, size_t n, bool *ret, struct err *err)
{
	struct memory_store *m = CONTAINER_OF(s, struct memory_store, base);

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < n; i++) {
		struct object *o = find(m, space, &names[i]);

		ret[i] = o && (!sizes || sizes[i] == UINT64_MAX || sizes[i] == o->n);
	}
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static int memory_get(struct store *s, enum store_space space, const struct digest *name,
		      uint64_t max_bytes, struct str *ret, struct err *err)
{
	struct memory_store *m = CONTAINER_OF(s, struct memory_store, base);
	char hex[DIGEST_HEX_MAX];
	struct object *o;
	int r = 0;

	pthread_mutex_lock(&s->lock);
	o = find(m, space, name);
	if (!o)
		r = err_set(err, ERR_NOT_FOUND, "sha256:%s is not in the store",
			    digest_hex(name, hex));
	else if (o->n > max_bytes)
		r = err_set(err, ERR_TOO_LARGE,
			    "an object has %zu bytes; at most %llu are read here", o->n,
			    (unsigned long long)max_bytes);
	else
		str_addn(ret, o->bytes, o->n);
	pthread_mutex_unlock(&s->lock);
	return r;
}

static int memory_put(struct store *s, enum store_space space, const struct digest *name,
		      const void *bytes, size_t n, bool replace, struct err *err)
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
	o->mtime_ns = clock_wall_ns();
	pthread_mutex_unlock(&s->lock);
	return r;
}

static int memory_del_old(struct store *s, enum store_space space, const struct digest *name,
			  int64_t unless_since_ns, struct err *err)
{
	struct memory_store *m = CONTAINER_OF(s, struct memory_store, base);
	struct object *o;
	bool young;

	pthread_mutex_lock(&s->lock);
	o = find(m, space, name);
	young = o && o->mtime_ns >= unless_since_ns;
	if (o && !young) {
		free(o->bytes);
		*o = (struct object){ 0 };
	}
	pthread_mutex_unlock(&s->lock);
	if (!young)
		store_forget(s, name);
	return young;
}

static int memory_del(struct store *s, enum store_space space, const struct digest *name,
		      struct err *err)
{
	return memory_del_old(s, space, name, INT64_MAX, err);
}

struct listed {
	struct digest name;
	uint64_t size;
	int64_t mtime_ns;
};

/* Lists a snapshot, so that `fn` may call the store. */
static struct listed *snapshot(struct memory_store *m, enum store_space space, size_t *ret_n)
{
	struct listed *l;
	size_t n = 0;

	pthread_mutex_lock(&m->base.lock);
	l = xcalloc(map_len(m->objects[space]) + 1, sizeof(*l));
	for (size_t i = 0; i < map_len(m->objects[space]); i++) {
		const void *key;
		struct object *o = map_at(m->objects[space], i, &key, NULL);

		if (!o || !o->present)
			continue;
		memcpy(l[n].name.b, key, DIGEST_BYTES);
		l[n].size = o->n;
		l[n++].mtime_ns = o->mtime_ns;
	}
	pthread_mutex_unlock(&m->base.lock);
	*ret_n = n;
	return l;
}

static int memory_list(struct store *s, enum store_space space, store_list_fn *fn, void *arg,
		       struct err *err)
{
	size_t n;
	_cleanup_(freep) struct listed *l =
		snapshot(CONTAINER_OF(s, struct memory_store, base), space, &n);
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = fn(arg, &l[i].name, l[i].size, l[i].mtime_ns);
	return r;
}

static int memory_sync(struct store *s, struct err *err)
{
	return 0;
}

static int memory_open(struct store *s, const struct digest *name, uint64_t size, int *ret_fd,
		       uint64_t *ret_size, struct err *err)
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
	*ret_size = bytes.len;
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static bool memory_set_aside(struct store *s, enum store_space space, const struct digest *name)
{
	return memory_del(s, space, name, NULL) == 0;
}

static int memory_read_note(struct store *s, struct str *ret, int64_t *ret_ns, struct err *err)
{
	struct memory_store *m = CONTAINER_OF(s, struct memory_store, base);

	if (m->note.len == 0)
		return err_set(err, ERR_NOT_FOUND, "there is no such note");
	str_addn(ret, m->note.s, m->note.len);
	*ret_ns = clock_wall_ns();
	return 0;
}

static int memory_write_note(struct store *s, const struct str *bytes, struct err *err)
{
	struct memory_store *m = CONTAINER_OF(s, struct memory_store, base);

	str_reset(&m->note);
	if (bytes)
		str_addn(&m->note, bytes->s, bytes->len);
	return 0;
}

static int memory_lock_gc(struct store *s, int *ret_fd, struct err *err)
{
	*ret_fd = -1; /* no lock needed: one process, and its tests collect in one thread */
	return 0;
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
	str_deinit(&m->note);
	store_base_deinit(s);
	free(m);
}

static const struct store_gc_ops memory_gc = {
	.del_old = memory_del_old,
	.read_note = memory_read_note,
	.write_note = memory_write_note,
	.lock = memory_lock_gc,
};
static const struct store_ops memory_ops = {
	.has = memory_has,
	.get = memory_get,
	.put = memory_put,
	.del = memory_del,
	.list = memory_list,
	.sync = memory_sync,
	.open = memory_open,
	.set_aside = memory_set_aside,
	.free = memory_free,
	.gc = &memory_gc,
};

struct store *store_memory_new(void)
{
	struct memory_store *m = xcalloc(1, sizeof(*m));

	store_base_init(&m->base, &memory_ops, "memory:");
	for (int space = 0; space < STORE_SPACES; space++)
		m->objects[space] = map_new();
	return &m->base;
}
