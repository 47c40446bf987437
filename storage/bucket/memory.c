/* storage/bucket/memory.c — object storage in memory, for tests, with faults.
 *
 * A `struct space` holds all objects of one bucket name in a map, and its own clock, faults and
 * counts; every bucket of that name points to it. Spaces live in a global list until
 * bucket_memory_forget().
 *
 * An operation calls begin(), has its effect, then ends. begin() gets the operation's fate from the
 * test, takes the space's lock, and fails if the faults say so. A late or repeated write is kept as
 * a `struct late`; bucket_memory_deliver() carries out the oldest one. The test's functions
 * `before` and `fate` run without the lock, so they may call other clients.
 *
 * A batch is a loop of operations, each with its own fate. Ranges, retries and multipart uploads
 * exist only in the real kinds.
 */
#include "storage/bucket/memory.h"
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <time.h>
#include "base/map.h"
#include "base/os/fs.h"
#include "storage/bucket/internal.h"
#include "storage/content/content.h"

struct object {
	char *key;
	bool present;
	uint8_t *bytes;
	uint64_t size;
	int64_t mtime_ns;
	char version[24], encoding[16];
};

/* A write that takes effect later. */
struct late {
	char *key;
	uint8_t *bytes; /* NULL: a delete */
	uint64_t size;
	bool if_absent;
	char encoding[16], version[24]; /* version "": delete whatever is there */
};

/* Shared by all buckets of one name. Only bucket_memory_forget() frees it. */
struct space {
	char *name;
	pthread_mutex_t lock;
	struct map *objects;
	struct bucket_memory_faults faults;
	struct bucket_memory_counts counts;
	struct clock *clock;
	enum bucket_memory_fate fate; /* of the operation that holds the lock */
	VEC(struct late) late;
	int64_t last_ns;
	uint64_t random, generation, writes;
};

struct memory_bucket {
	struct bucket base;
	struct space *space;
};

static pthread_mutex_t spaces_lock = PTHREAD_MUTEX_INITIALIZER;
static VEC(struct space *) spaces;

static struct space *space_of(const char *name, size_t n)
{
	struct space *s = NULL;

	pthread_mutex_lock(&spaces_lock);
	for (size_t i = 0; i < spaces.n && !s; i++)
		if (strlen(spaces.v[i]->name) == n && memcmp(spaces.v[i]->name, name, n) == 0)
			s = spaces.v[i];
	if (!s) {
		s = xcalloc(1, sizeof(*s));
		s->name = xstrndup(name, n);
		pthread_mutex_init(&s->lock, NULL);
		s->objects = map_new();
		VEC_PUSH(&spaces, s);
	}
	pthread_mutex_unlock(&spaces_lock);
	return s;
}

static void late_free(struct late *l)
{
	free(l->key);
	free(l->bytes);
}

static void space_free(struct space *s)
{
	for (size_t i = 0; i < s->late.n; i++)
		late_free(&s->late.v[i]);
	VEC_FREE(&s->late);
	for (size_t i = 0; i < map_len(s->objects); i++) {
		struct object *o = map_at(s->objects, i, NULL, NULL);

		free(o->key);
		free(o->bytes);
		free(o);
	}
	map_free(s->objects);
	pthread_mutex_destroy(&s->lock);
	free(s->name);
	free(s);
}

void bucket_memory_forget(const char *name)
{
	pthread_mutex_lock(&spaces_lock);
	for (size_t i = 0; i < spaces.n; i++)
		if (str_eq(spaces.v[i]->name, name)) {
			space_free(spaces.v[i]);
			spaces.v[i] = spaces.v[--spaces.n];
			break;
		}
	if (spaces.n == 0)
		VEC_FREE(&spaces);
	pthread_mutex_unlock(&spaces_lock);
}

void bucket_memory_faults(const char *name, const struct bucket_memory_faults *f)
{
	struct space *s = space_of(name, strlen(name));

	pthread_mutex_lock(&s->lock);
	s->faults = *f;
	s->random = f->seed * 2 + 1;
	s->writes = 0;
	pthread_mutex_unlock(&s->lock);
}

void bucket_memory_clock(const char *name, struct clock *c)
{
	space_of(name, strlen(name))->clock = c;
}

void bucket_memory_count(const char *name, struct bucket_memory_counts *ret)
{
	struct space *s = space_of(name, strlen(name));

	pthread_mutex_lock(&s->lock);
	*ret = s->counts;
	for (size_t i = 0; i < map_len(s->objects); i++) {
		const struct object *o = map_at(s->objects, i, NULL, NULL);

		ret->objects += o->present;
		ret->bytes += o->present ? o->size : 0;
	}
	pthread_mutex_unlock(&s->lock);
}

static struct object *find(struct space *s, const char *key)
{
	struct object *o = map_get_str(s->objects, key);

	return o && o->present ? o : NULL;
}

bool bucket_memory_damage(const char *name, const char *key, uint64_t offset)
{
	struct space *s = space_of(name, strlen(name));
	struct object *o;

	pthread_mutex_lock(&s->lock);
	o = find(s, key);
	if (o && offset < o->size)
		o->bytes[offset] ^= 0x55;
	pthread_mutex_unlock(&s->lock);
	return o && offset < o->size;
}

/* Start and end of an operation. */

static struct space *space_in(struct bucket *b)
{
	return CONTAINER_OF(b, struct memory_bucket, base)->space;
}

static uint64_t next_random(struct space *s)
{
	s->random ^= s->random << 13;
	s->random ^= s->random >> 7;
	s->random ^= s->random << 17;
	return s->random;
}

/* Takes the lock when it returns 0. */
static int begin(struct space *s, const char *what, const char *key, bool write, struct err *err)
{
	const struct bucket_memory_faults *f = &s->faults;
	enum bucket_memory_fate fate = f->fate ? f->fate(f->arg, what, key) : FATE_PASSES;
	bool cut;

	if (f->before)
		f->before(f->arg, what, key);
	pthread_mutex_lock(&s->lock);
	cut = f->fail_after_writes && s->writes >= f->fail_after_writes;
	s->fate = write || fate == FATE_PASSES ? fate
		  : fate == FATE_REPEATED      ? FATE_PASSES
					       : FATE_LOST;
	if (f->down || cut || s->fate == FATE_LOST ||
	    (f->fail_per_mille && next_random(s) % 1000 < f->fail_per_mille))
		err_set(err, ERR_IO, "cannot %s %s: the connection was reset", what, key);
	else if (write && f->refuses_writes)
		err_set(err, ERR_READ_ONLY, "cannot %s %s: access denied", what, key);
	else {
		s->writes += write;
		return 0;
	}
	pthread_mutex_unlock(&s->lock);
	return -1;
}

/* Ends a write that was made or is late. Releases the lock. */
static int end_write(struct space *s, const char *what, const char *key, int r, struct err *err)
{
	bool answered = s->fate == FATE_PASSES || s->fate == FATE_REPEATED;

	pthread_mutex_unlock(&s->lock);
	return answered ? r : err_set(err, ERR_IO, "cannot %s %s: no answer came", what, key);
}

/* Tells whether the write has its effect now. Keeps a copy of a write that is late or repeated. */
static bool is_now(struct space *s, const char *key, const struct bucket_put *p,
		   const uint8_t *bytes, const char *version)
{
	struct late l = { .key = NULL };

	if (s->fate != FATE_LATE && s->fate != FATE_REPEATED)
		return true;
	l.key = xstrdup(key);
	if (p) {
		l.bytes = xmalloc(p->size + 1);
		memcpy(l.bytes, bytes, p->size);
		l.size = p->size;
		l.if_absent = p->if_absent;
		snprintf(l.encoding, sizeof(l.encoding), "%s", p->encoding ? p->encoding : "");
	}
	snprintf(l.version, sizeof(l.version), "%s", version);
	VEC_PUSH(&s->late, l);
	return s->fate == FATE_REPEATED;
}

static void wait_latency(const struct space *s)
{
	if (s->faults.latency_ns)
		clock_sleep(s->faults.latency_ns);
}

static int not_found(const struct bucket *b, const char *key, struct err *err)
{
	return err_set(err, ERR_NOT_FOUND, "%s is not in %s", key, b->uri);
}

/* Operations. */

static int read_put(const struct bucket_put *p, uint8_t **ret, struct err *err)
{
	uint8_t *bytes = xmalloc(p->size + 1);
	ssize_t n;

	if (p->fd < 0) {
		if (p->size)
			memcpy(bytes, p->bytes, p->size);
		*ret = bytes;
		return 0;
	}
	n = fs_read_at(p->fd, bytes, p->size, (off_t)p->offset);
	if (n != (ssize_t)p->size) {
		free(bytes);
		return n < 0 ? err_errno(err, "cannot read what is sent")
			     : err_set(err, ERR_CHANGED, "what is sent got shorter");
	}
	*ret = bytes;
	return 0;
}

/* Owns `bytes`. 1: the object exists. */
static int apply_put(struct space *s, const char *key, uint8_t *bytes, uint64_t size,
		     bool if_absent, const char *encoding)
{
	struct clock *clock = s->clock ? s->clock : clock_system();
	void **slot = map_slot_str(s->objects, key);
	struct object *o = *slot;

	if (o && o->present && if_absent && !s->faults.ignores_if_absent) {
		free(bytes);
		return 1;
	}
	if (!o) {
		o = *slot = xcalloc(1, sizeof(*o));
		o->key = xstrdup(key);
	}
	free(o->bytes);
	o->bytes = bytes;
	o->size = size;
	o->present = true;
	o->mtime_ns = s->last_ns = MAX(clock->wall_ns(clock), s->last_ns + 1000);
	snprintf(o->version, sizeof(o->version), "%llu", (unsigned long long)++s->generation);
	snprintf(o->encoding, sizeof(o->encoding), "%s", encoding);
	return 0;
}

static int put_one(struct bucket *b, struct bucket_put *p)
{
	struct space *s = space_in(b);
	uint8_t *bytes = NULL;
	int r = 0;

	if (read_put(p, &bytes, &p->err) < 0)
		return -1;
	if (begin(s, "put", p->key, true, &p->err) < 0) {
		free(bytes);
		return -1;
	}
	if (bucket_may_put(p->may, p->may_arg, p->key, &p->err) < 0) {
		pthread_mutex_unlock(&s->lock);
		free(bytes);
		return -1;
	}
	s->counts.puts++;
	s->counts.bytes_in += p->size;
	if (is_now(s, p->key, p, bytes, ""))
		r = apply_put(s, p->key, bytes, p->size, p->if_absent,
			      p->encoding ? p->encoding : "");
	else
		free(bytes);
	return end_write(s, "put", p->key, r, &p->err);
}

static int memory_put_many(struct bucket *b, struct bucket_put *const *v, size_t n, struct err *err)
{
	wait_latency(space_in(b));
	for (size_t i = 0; i < n; i++)
		v[i]->result = put_one(b, v[i]);
	return 0;
}

static int write_got(struct bucket_get *g, const uint8_t *bytes, uint64_t n)
{
	if (g->fd < 0) {
		uint64_t max = bucket_get_limit(g);

		if (n > max)
			return err_set(&g->err, ERR_TOO_LARGE,
				       "%s has %llu bytes; at most %llu are read here", g->key,
				       (unsigned long long)n, (unsigned long long)max);
		str_addn(&g->body, bytes, n);
		return 0;
	}
	for (uint64_t done = 0; done < n;) {
		ssize_t r = pwrite(g->fd, bytes + done, n - done, (off_t)(g->file_offset + done));

		if (r < 0 && errno != EINTR)
			return err_errno(&g->err, "cannot write what came");
		done += r > 0 ? (uint64_t)r : 0;
	}
	return 0;
}

static int get_one(struct bucket *b, struct bucket_get *g)
{
	struct space *s = space_in(b);
	struct content_id id;
	struct object *o;
	int r;

	if (begin(s, "get", g->key, false, &g->err) < 0)
		return -1;
	o = find(s, g->key);
	s->counts.gets++;
	if (!o) {
		r = not_found(b, g->key, &g->err);
	} else if (g->version && !str_eq(g->version, o->version)) {
		r = err_set(&g->err, ERR_CHANGED, "%s has changed", g->key);
	} else {
		uint64_t from = MIN(g->offset, o->size);

		g->n = MIN(g->size, o->size - from);
		snprintf(g->encoding, sizeof(g->encoding), "%s", o->encoding);
		s->counts.bytes_out += g->n;
		r = write_got(g, o->bytes + from, g->n);
		g->hashed = r == 0 && g->fd >= 0 && g->hash && !o->encoding[0];
		if (g->hashed) {
			content_id_of_bytes(o->bytes + from, g->n, &id);
			g->digest = id.digest;
		}
	}
	pthread_mutex_unlock(&s->lock);
	return r;
}

static int memory_get_many(struct bucket *b, struct bucket_get *const *v, size_t n, struct err *err)
{
	wait_latency(space_in(b));
	for (size_t i = 0; i < n; i++)
		v[i]->result = get_one(b, v[i]);
	return 0;
}

static void describe(const struct space *s, const struct object *o, struct bucket_object *ret)
{
	int64_t grain_ns = MAX(s->faults.grain_ns, (int64_t)1);

	*ret = (struct bucket_object){
		.key = o->key,
		.size = o->size,
		.mtime_ns = o->mtime_ns - o->mtime_ns % grain_ns,
		.version = o->version,
		.etag = o->version,
		.encoding = o->encoding,
	};
}

static int memory_head_many(struct bucket *b, const char *const *keys, size_t n, bool *ret_there,
			    uint64_t *ret_sizes, struct err *err)
{
	struct space *s = space_in(b);

	wait_latency(s);
	for (size_t i = 0; i < n; i++) {
		struct object *o;

		if (begin(s, "look for", keys[i], false, err) < 0)
			return -1;
		o = find(s, keys[i]);
		s->counts.heads++;
		ret_there[i] = o != NULL;
		ret_sizes[i] = o ? o->size : 0;
		pthread_mutex_unlock(&s->lock);
	}
	return 0;
}

static int memory_head(struct bucket *b, const char *key, struct bucket_object *ret,
		       struct str *strings, struct err *err)
{
	struct space *s = space_in(b);
	size_t version, encoding;
	struct object *o;

	wait_latency(s);
	if (begin(s, "look for", key, false, err) < 0)
		return -1;
	o = find(s, key);
	s->counts.heads++;
	if (!o) {
		pthread_mutex_unlock(&s->lock);
		return not_found(b, key, err);
	}
	describe(s, o, ret);
	version = bucket_add_string(strings, o->version);
	encoding = bucket_add_string(strings, o->encoding);
	ret->key = key;
	ret->version = ret->etag = strings->s + version;
	ret->encoding = strings->s + encoding;
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static void drop(struct object *o)
{
	free(o->bytes);
	o->bytes = NULL;
	o->present = false;
}

static int memory_delete_many(struct bucket *b, const char *const *keys, size_t n, struct err *err)
{
	struct space *s = space_in(b);

	wait_latency(s);
	for (size_t i = 0; i < n; i++) {
		struct object *o;

		if (begin(s, "delete", keys[i], true, err) < 0)
			return -1;
		s->counts.deletes++;
		o = is_now(s, keys[i], NULL, NULL, "") ? find(s, keys[i]) : NULL;
		if (o)
			drop(o);
		if (end_write(s, "delete", keys[i], 0, err) < 0)
			return -1;
	}
	return 0;
}

static int memory_delete_if(struct bucket *b, const char *key, const char *version, struct err *err)
{
	struct space *s = space_in(b);
	struct object *o;
	int r = 0;

	if (begin(s, "delete", key, true, err) < 0)
		return -1;
	s->counts.deletes++;
	o = is_now(s, key, NULL, NULL, version) ? find(s, key) : NULL;
	if (o && !s->faults.ignores_delete_if && !str_eq(o->version, version))
		r = 1;
	else if (o)
		drop(o);
	return end_write(s, "delete", key, r, err);
}

bool bucket_memory_deliver(const char *name)
{
	struct space *s = space_of(name, strlen(name));
	struct late l = { .key = NULL };
	struct object *o;
	bool was;

	pthread_mutex_lock(&s->lock);
	was = s->late.n > 0;
	if (was) {
		l = s->late.v[0];
		memmove(s->late.v, s->late.v + 1, --s->late.n * sizeof(l));
		o = find(s, l.key);
		if (l.bytes)
			apply_put(s, l.key, TAKE_PTR(l.bytes), l.size, l.if_absent, l.encoding);
		else if (o && (!*l.version || s->faults.ignores_delete_if ||
			       str_eq(o->version, l.version)))
			drop(o);
	}
	pthread_mutex_unlock(&s->lock);
	late_free(&l);
	return was;
}

void bucket_memory_each(const char *name,
			void (*fn)(void *arg, const char *key, const uint8_t *bytes, uint64_t size),
			void *arg)
{
	struct space *s = space_of(name, strlen(name));

	pthread_mutex_lock(&s->lock);
	for (size_t i = 0; i < map_len(s->objects); i++) {
		const struct object *o = map_at(s->objects, i, NULL, NULL);

		if (o->present)
			fn(arg, o->key, o->bytes, o->size);
	}
	pthread_mutex_unlock(&s->lock);
}

/* Lists a snapshot, so that `fn` may call the bucket. */

struct listed {
	char *key;
	struct bucket_object o;
	char version[24];
};

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct listed *)a)->key, ((const struct listed *)b)->key);
}

static struct listed *snapshot(struct space *s, const char *prefix, const char *after,
			       struct arena *arena, size_t *ret_n)
{
	VEC(struct listed) v = { 0 };

	for (size_t i = 0; i < map_len(s->objects); i++) {
		const struct object *o = map_at(s->objects, i, NULL, NULL);
		struct listed *l;

		if (!o->present || !str_has_prefix(o->key, prefix) ||
		    (after && strcmp(o->key, after) <= 0))
			continue;
		l = VEC_ADD(&v);
		describe(s, o, &l->o);
		l->key = arena_strdup(arena, o->key);
		memcpy(l->version, o->version, sizeof(l->version));
	}
	if (v.n)
		qsort(v.v, v.n, sizeof(*v.v), by_key);
	*ret_n = v.n;
	return v.v;
}

static int memory_list(struct bucket *b, const struct bucket_listing *l, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct space *s = space_in(b);
	_cleanup_(freep) struct listed *v = NULL;
	const char *last_common = "";
	size_t n;
	int r = 0;

	wait_latency(s);
	if (begin(s, "list", l->prefix, false, err) < 0)
		return -1;
	v = snapshot(s, l->prefix, l->start_after, arena, &n);
	s->counts.lists += 1 + n / 1000;
	pthread_mutex_unlock(&s->lock);
	for (size_t i = 0; i < n && r == 0; i++) {
		const char *cut =
			l->delimiter ? strchr(v[i].key + strlen(l->prefix), l->delimiter) : NULL;

		v[i].o.key = v[i].key;
		v[i].o.version = v[i].o.etag = v[i].version;
		v[i].o.encoding = "";
		if (cut) {
			char *common = arena_strndup(arena, v[i].key, (size_t)(cut - v[i].key) + 1);

			if (str_eq(common, last_common))
				continue;
			last_common = common;
			v[i].o = (struct bucket_object){
				.key = common, .version = "", .etag = "", .encoding = ""
			};
		}
		r = l->fn(l->arg, &v[i].o);
	}
	return r;
}

static int memory_abort_stale(struct bucket *b, int64_t before_ns, uint64_t *ret_n, struct err *err)
{
	*ret_n = 0;
	return 0;
}

static int memory_probe(struct bucket *b, struct bucket_abilities *ret, struct err *err)
{
	struct space *s = space_in(b);

	if (begin(s, "probe", b->uri, true, err) < 0)
		return -1;
	*ret = (struct bucket_abilities){ .if_absent = !s->faults.ignores_if_absent,
					  .checks_body = true,
					  .delete_if = !s->faults.ignores_delete_if,
					  .ranges = true };
	pthread_mutex_unlock(&s->lock);
	return 0;
}

static void memory_free(struct bucket *b)
{
	free(CONTAINER_OF(b, struct memory_bucket, base));
}

static const struct bucket_ops memory_ops = {
	.put_many = memory_put_many,
	.get_many = memory_get_many,
	.head_many = memory_head_many,
	.head = memory_head,
	.delete_many = memory_delete_many,
	.delete_if = memory_delete_if,
	.list = memory_list,
	.abort_stale = memory_abort_stale,
	.probe = memory_probe,
	.free = memory_free,
};

/* bucket.c sets and frees uri, name and prefix. */
int bucket_memory_open(const char *uri, struct bucket **ret, struct err *err)
{
	struct memory_bucket *m = xcalloc(1, sizeof(*m));
	const char *name = uri + strlen("mem-bucket://");

	m->base.ops = &memory_ops;
	m->space = space_of(name, strcspn(name, "/"));
	*ret = &m->base;
	return 0;
}
