/* storage/remote/tier.c — a directory in front of a bucket.
 *
 * Every verb is the directory's first. What it lacks is fetched into it and used from there. What
 * is put, and what is found there instead of being put, stands in a queue (`objects`) until the
 * next sync: then the bucket is asked, in one batch, what it lacks of it, and gets that. So a
 * manifest or an action record that arrives there never names what isn't there.
 *
 * Whoever puts a record believes in what it names: it was put here, or seen in the bucket. That
 * holds as long as the lease under which it was seen. Once a lease has lapsed in this process, or
 * content of the queue can't be had any more, each record goes only after the bucket was asked for
 * all that it names. A record that lacks something is held back, and store_unsent() counts it.
 *
 * The bucket's failures aren't the run's: what couldn't be sent stays in the queue and is counted;
 * a bucket that can't be reached counts as empty, until the next try. A bucket that refuses us
 * (credentials, another format) is an error, since whoever named it would wonder.
 *
 * base.lock guards the queue and is never held during a request; `sending` lets one sync at a time
 * send. What manifests reach is moved by transfer.c.
 */
#include "storage/remote/tier.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "storage/action.h"
#include "storage/remote/evict.h"
#include "storage/remote/internal.h"
#include "storage/remote/unsent.h"

/* After a failure the bucket is left alone for so long: the client below has tried for a while
 * already. */
#define TRY_AGAIN_NS (30 * NS_PER_S)
#define LEVEL_MAX    65536
/* A machine that sleeps so often while it sends doesn't send. */
#define LAPSES_MAX 3
/* Somebody else may write a record at any time; within this, nobody asks again. */
#define ABSENT_S 60

struct tier {
	struct store base;
	struct store *local;
	struct remote *remote;
	bool writes;
	uint64_t cache_max;
	pthread_mutex_t sending; /* one sync sends at a time */
	const struct closure_names *names;
	/* Under `sending`: */
	uint64_t lease; /* the number of the lease under which `there` of the objects was found */
	bool lapsed;    /* a lease did: what was believed under it may be gone */
	/* Under base.lock: */
	struct map *index;                 /* name → place in `objects` + 1 */
	VEC(struct remote_object) objects; /* there: known to be in the bucket */
	size_t n_unsent;
	uint64_t failures;    /* so far */
	int64_t failed_at_ns; /* monotonic; 0: the last try went well */
	struct err failure;   /* the first since it went well */
	size_t n_held;        /* records that name what is in neither place */
	struct map *absent; /* records that the bucket was just asked for in vain: name → second of
			       the monotonic clock */
	struct digest_set *told; /* contents that are in the bucket, say those who put them there */
	struct map *
		touched; /* objects that were read by this process, when the directory is bounded */
	uint64_t added_bytes; /* to the directory, since it was last looked at */
	bool was_scanned;
	struct evict_user *user;
	struct unsent *unsent; /* what must be sent though we die; or NULL */
};

static struct tier *tier_of(struct store *s)
{
	return CONTAINER_OF(s, struct tier, base);
}

static int64_t now_ns(void)
{
	return clock_system()->mono_ns(clock_system());
}

/* The queue. */

static void enqueue(struct tier *t, enum store_space space, const struct digest *name,
		    uint64_t size, bool sound, bool replace)
{
	struct remote_object *o;
	uint8_t key[NAME_LEN];
	void **slot;

	if (!t->writes)
		return;
	key[0] = (uint8_t)space;
	memcpy(key + 1, name->b, DIGEST_BYTES);
	pthread_mutex_lock(&t->base.lock);
	slot = map_slot(t->index, key, NAME_LEN, NULL);
	if (!*slot) {
		o = VEC_ADD(&t->objects);
		*o = (struct remote_object){ .space = space,
					     .name = *name,
					     .size = size,
					     .sound = sound,
					     .replace = replace };
		*slot = (void *)(uintptr_t)t->objects.n;
		t->n_unsent++;
		t->added_bytes += sound && size != UINT64_MAX ? size : 0;
	} else if (replace) {
		o = &t->objects.v[(uintptr_t)*slot - 1];
		t->n_unsent += o->there;
		o->there = false;
		o->replace = true;
	}
	pthread_mutex_unlock(&t->base.lock);
}

static bool may_try(struct tier *t)
{
	bool r;

	pthread_mutex_lock(&t->base.lock);
	r = !t->failed_at_ns || now_ns() - t->failed_at_ns >= TRY_AGAIN_NS;
	pthread_mutex_unlock(&t->base.lock);
	return r;
}

static void note_failure(struct tier *t, const struct err *e)
{
	pthread_mutex_lock(&t->base.lock);
	t->failed_at_ns = now_ns();
	t->failures++;
	if (!t->failure.code)
		t->failure = *e;
	pthread_mutex_unlock(&t->base.lock);
}

static void note_success(struct tier *t)
{
	pthread_mutex_lock(&t->base.lock);
	t->failed_at_ns = 0;
	t->failure = (struct err){ 0 };
	pthread_mutex_unlock(&t->base.lock);
}

/* Is it one that may go better another time? Then it is noted, and the bucket counts as empty. */
static int away(struct tier *t, const struct err *e, struct err *err)
{
	note_failure(t, e);
	return e->code == ERR_IO ? 0 : err_set(err, e->code, "%s", e->msg);
}

/* Once a process: that it is in use is known from then on. */
static void touch(struct tier *t, enum store_space space, const struct digest *name)
{
	bool is_new;

	if (!t->cache_max || !t->local->ops->files || space > STORE_TREE)
		return;
	pthread_mutex_lock(&t->base.lock);
	*map_slot(t->touched, name->b, DIGEST_BYTES, &is_new) = t;
	pthread_mutex_unlock(&t->base.lock);
	if (is_new)
		t->local->ops->files->touch(t->local, space, name);
}

/* Reading. */

static void take_told(struct tier *t, const struct digest *names, size_t n, bool *ret)
{
	pthread_mutex_lock(&t->base.lock);
	for (size_t i = 0; i < n && digest_set_len(t->told); i++)
		ret[i] |= digest_set_has(t->told, &names[i]);
	pthread_mutex_unlock(&t->base.lock);
}

static int ask_remote(struct tier *t, enum store_space space, const struct digest *names,
		      const uint64_t *sizes, size_t n, bool *ret, struct err *err)
{
	struct remote_object *v = xcalloc(n + 1, sizeof(*v));
	struct err e = { 0 };
	size_t m = 0;
	int r = 0;

	for (size_t i = 0; i < n; i++)
		if (!ret[i])
			v[m++] = (struct remote_object){ .space = space,
							 .name = names[i],
							 .size = sizes[i] };
	if (m && may_try(t) && (r = remote_has(t->remote, v, m, &e)) < 0)
		r = away(t, &e, err);
	m = 0;
	for (size_t i = 0; i < n; i++)
		if (!ret[i])
			ret[i] = v[m++].there;
	free(v);
	return r;
}

static int tier_has(struct store *s, enum store_space space, const struct digest *names,
		    const uint64_t *sizes, size_t n, bool *ret, struct err *err)
{
	struct tier *t = tier_of(s);

	if (t->local->ops->has(t->local, space, names, sizes, n, ret, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++)
		if (ret[i])
			enqueue(t, space, &names[i], sizes[i], false, false);
	if (space <= STORE_TREE)
		take_told(t, names, n, ret);
	return ask_remote(t, space, names, sizes, n, ret, err);
}

/* 0 when it lies in the directory now, 1 when it can't be had. */
static int fetch(struct tier *t, struct remote_object *v, size_t n, struct err *err)
{
	struct err e = { 0 };

	if (!may_try(t))
		return 1;
	if (remote_fetch(t->remote, t->local, v, n, &e) < 0)
		return away(t, &e, err) < 0 ? -1 : 1;
	pthread_mutex_lock(&t->base.lock);
	for (size_t i = 0; i < n; i++)
		t->added_bytes += v[i].there && v[i].size != UINT64_MAX ? v[i].size : 0;
	pthread_mutex_unlock(&t->base.lock);
	return v[0].there ? 0 : 1;
}

static int fetch_one(struct tier *t, enum store_space space, const struct digest *name,
		     uint64_t size, struct err *err)
{
	struct remote_object o = { .space = space, .name = *name, .size = size };
	bool absent = false;
	uintptr_t when_s;

	if (space == STORE_ACTION) {
		pthread_mutex_lock(&t->base.lock);
		when_s = (uintptr_t)map_get(t->absent, name->b, DIGEST_BYTES);
		absent = when_s && when_s + ABSENT_S > (uintptr_t)(now_ns() / NS_PER_S) + 1;
		pthread_mutex_unlock(&t->base.lock);
	}
	return absent ? 1 : fetch(t, &o, 1, err);
}

/* `e`: what the directory says. Always -1. */
static int not_to_be_had(struct tier *t, const struct err *e, struct err *err)
{
	struct err why = { 0 };

	pthread_mutex_lock(&t->base.lock);
	if (t->failed_at_ns)
		why = t->failure;
	pthread_mutex_unlock(&t->base.lock);
	return why.code ? err_set(err, e->code, "%s, and %s does not answer: %s", e->msg,
				  t->base.uri, why.msg)
			: err_set(err, e->code, "%s", e->msg);
}

static int tier_get(struct store *s, enum store_space space, const struct digest *name,
		    uint64_t max_bytes, struct str *ret, struct err *err)
{
	struct tier *t = tier_of(s);
	struct err e = { 0 };
	int r;

	if (t->local->ops->get(t->local, space, name, max_bytes, ret, &e) == 0) {
		touch(t, space, name);
		return 0;
	}
	if (e.code != ERR_NOT_FOUND)
		return err_set(err, e.code, "%s", e.msg);
	r = fetch_one(t, space, name, UINT64_MAX, err);
	if (r == 0)
		return t->local->ops->get(t->local, space, name, max_bytes, ret, err);
	return r < 0 ? -1 : not_to_be_had(t, &e, err);
}

static int tier_open(struct store *s, const struct digest *name, uint64_t size, int *ret_fd,
		     uint64_t *ret_size, struct err *err)
{
	struct tier *t = tier_of(s);
	struct err e = { 0 };
	int r;

	if (t->local->ops->open(t->local, name, size, ret_fd, ret_size, &e) == 0) {
		touch(t, STORE_BLOB, name);
		return 0;
	}
	if (e.code != ERR_NOT_FOUND)
		return err_set(err, e.code, "%s", e.msg);
	r = fetch_one(t, STORE_BLOB, name, size, err);
	if (r == 0)
		return t->local->ops->open(t->local, name, size, ret_fd, ret_size, err);
	return r < 0 ? -1 : not_to_be_had(t, &e, err);
}

static int tier_list(struct store *s, enum store_space space,
		     int (*fn)(void *arg, const struct digest *name, uint64_t size_bytes,
			       int64_t mtime_ns),
		     void *arg, struct err *err)
{
	return tier_of(s)->local->ops->list(tier_of(s)->local, space, fn, arg, err);
}

/* Bringing much at once. */

static void note_absent(struct tier *t, const struct remote_object *v, size_t n)
{
	uintptr_t now_s = (uintptr_t)(now_ns() / NS_PER_S) + 1;

	pthread_mutex_lock(&t->base.lock);
	for (size_t i = 0; i < n; i++)
		if (v[i].space == STORE_ACTION)
			*map_slot(t->absent, v[i].name.b, DIGEST_BYTES, NULL) =
				v[i].there ? NULL : (void *)now_s;
	pthread_mutex_unlock(&t->base.lock);
}

/* Those that the directory lacks. */
static int fetch_lacking(struct tier *t, enum store_space space, const struct digest *names,
			 const uint64_t *sizes, size_t n, struct err *err)
{
	_cleanup_(freep) bool *there = xcalloc(n + 1, sizeof(*there));
	struct remote_object *v;
	size_t m = 0;
	int r;

	if (t->local->ops->has(t->local, space, names, sizes, n, there, err) < 0)
		return -1;
	v = xcalloc(n + 1, sizeof(*v));
	for (size_t i = 0; i < n; i++)
		if (!there[i])
			v[m++] = (struct remote_object){ .space = space,
							 .name = names[i],
							 .size = sizes[i] };
	r = m ? fetch(t, v, m, err) : 0;
	if (r >= 0)
		note_absent(t, v, m);
	free(v);
	return r < 0 ? -1 : 0;
}

struct level {
	VEC(struct digest) names[2]; /* blobs, trees */
	VEC(uint64_t) sizes[2];
	struct map *seen;
	bool only_these;
};

static void add_to_level(struct level *l, const struct content_id *id)
{
	enum store_space space = content_space(id);
	bool is_new;

	if (space == STORE_SPACES)
		return;
	*map_slot(l->seen, id->digest.b, DIGEST_BYTES, &is_new) = l;
	if (!is_new)
		return;
	VEC_PUSH(&l->names[space], id->digest);
	VEC_PUSH(&l->sizes[space], id->size_bytes);
}

static int bring_blobs(struct tier *t, struct level *l, struct err *err)
{
	int r = l->names[STORE_BLOB].n
			? fetch_lacking(t, STORE_BLOB, l->names[STORE_BLOB].v,
					l->sizes[STORE_BLOB].v, l->names[STORE_BLOB].n, err)
			: 0;

	l->names[STORE_BLOB].n = l->sizes[STORE_BLOB].n = 0;
	return r;
}

/* One depth of trees, whose members are the next. */
static int bring_trees(struct tier *t, struct level *l, struct err *err)
{
	size_t n = l->names[STORE_TREE].n;
	_cleanup_(freep) struct digest *names = l->names[STORE_TREE].v;
	_cleanup_(freep) uint64_t *sizes = l->sizes[STORE_TREE].v;

	memset(&l->names[STORE_TREE], 0, sizeof(l->names[STORE_TREE]));
	memset(&l->sizes[STORE_TREE], 0, sizeof(l->sizes[STORE_TREE]));
	if (fetch_lacking(t, STORE_TREE, names, sizes, n, err) < 0)
		return -1;
	for (size_t i = 0; i < n && !l->only_these; i++) {
		struct content_id id = { .digest = names[i],
					 .size_bytes = sizes[i],
					 .kind = CONTENT_TREE };
		_cleanup_(tree_freep) struct tree *tree = NULL;

		if (tree_load(t->local, &id, &tree, NULL) < 0)
			continue; /* whoever needs it will be told */
		for (size_t k = 0; k < tree_len(tree); k++)
			if (tree_entry_is_kept(tree_at(tree, k)))
				add_to_level(l, &tree_at(tree, k)->id);
		if (l->names[STORE_BLOB].n >= LEVEL_MAX && bring_blobs(t, l, err) < 0)
			return -1;
	}
	return 0;
}

static int tier_bring(struct store *s, const struct content_id *ids, size_t n, bool only_these,
		      struct err *err)
{
	struct tier *t = tier_of(s);
	struct level l = { .seen = map_new(), .only_these = only_these };
	int r = 0;

	for (size_t i = 0; i < n; i++)
		add_to_level(&l, &ids[i]);
	while (r == 0 && l.names[STORE_TREE].n)
		r = bring_trees(t, &l, err);
	if (r == 0)
		r = bring_blobs(t, &l, err);
	for (int i = 0; i < 2; i++) {
		VEC_FREE(&l.names[i]);
		VEC_FREE(&l.sizes[i]);
	}
	map_free(l.seen);
	return r;
}

/* Whoever looks at a record looks at its metrics next. */
static int bring_metrics(struct tier *t, const struct digest *names, size_t n, struct err *err)
{
	_cleanup_(freep) struct digest *blobs = xcalloc(n + 1, sizeof(*blobs));
	_cleanup_(freep) uint64_t *sizes = xcalloc(n + 1, sizeof(*sizes));
	size_t m = 0;

	for (size_t i = 0; i < n; i++) {
		_cleanup_(arena_freep) struct arena *arena = arena_new();
		_cleanup_(str_deinit) struct str bytes = { 0 };
		struct action_record a;

		if (t->local->ops->get(t->local, STORE_ACTION, &names[i], ACTION_RECORD_MAX, &bytes,
				       NULL) < 0 ||
		    action_decode(bytes.s ? bytes.s : "", bytes.len, arena, &a, NULL) < 0 ||
		    a.metrics.kind == CONTENT_NONE)
			continue;
		blobs[m] = a.metrics.digest;
		sizes[m++] = a.metrics.size_bytes;
	}
	return m ? fetch_lacking(t, STORE_BLOB, blobs, sizes, m, err) : 0;
}

static int tier_bring_records(struct store *s, enum store_space space, const struct digest *names,
			      size_t n, struct err *err)
{
	_cleanup_(freep) uint64_t *sizes = xcalloc(n + 1, sizeof(*sizes));

	for (size_t i = 0; i < n; i++)
		sizes[i] = UINT64_MAX;
	if (fetch_lacking(tier_of(s), space, names, sizes, n, err) < 0)
		return -1;
	return space == STORE_ACTION ? bring_metrics(tier_of(s), names, n, err) : 0;
}

static void forget_absent(struct tier *t, const struct digest *name)
{
	pthread_mutex_lock(&t->base.lock);
	*map_slot(t->absent, name->b, DIGEST_BYTES, NULL) = NULL;
	pthread_mutex_unlock(&t->base.lock);
}

/* The directory's copy becomes what the bucket has. */
static int take_fresh(struct tier *t, struct store *fresh, const struct remote_object *o,
		      struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };

	forget_absent(t, &o->name);
	if (!o->there)
		return t->local->ops->del(t->local, o->space, &o->name, err);
	if (fresh->ops->get(fresh, o->space, &o->name, REMOTE_RECORD_MAX, &bytes, err) < 0)
		return -1;
	return t->local->ops->put(t->local, o->space, &o->name, bytes.s ? bytes.s : "", bytes.len,
				  true, err) < 0
		       ? -1
		       : 0;
}

static int tier_refresh(struct store *s, enum store_space space, const struct digest *names,
			size_t n, struct err *err)
{
	struct tier *t = tier_of(s);
	struct store *fresh = n ? store_memory_new() : NULL;
	struct remote_object *v = xcalloc(n + 1, sizeof(*v));
	int r = 0;

	remote_expect_news(t->remote);
	for (size_t i = 0; i < n; i++)
		v[i] = (struct remote_object){ .space = space,
					       .name = names[i],
					       .size = UINT64_MAX };
	if (n)
		r = remote_fetch(t->remote, fresh, v, n, err);
	for (size_t i = 0; i < n && r == 0; i++)
		r = take_fresh(t, fresh, &v[i], err);
	store_free(fresh);
	free(v);
	return r;
}

/* A listing that is there with all that it reaches needn't be read to find that out. */
static void tier_told(struct store *s, const struct content_id *ids, size_t n)
{
	static const struct digest any = { { 0 } };
	struct tier *t = tier_of(s);

	pthread_mutex_lock(&s->lock);
	if (n == 0) {
		digest_set_free(t->told);
		t->told = digest_set_new();
	}
	for (size_t i = 0; i < n; i++)
		if (ids[i].kind != CONTENT_NONE)
			digest_set_add(t->told, &ids[i].digest);
	pthread_mutex_unlock(&s->lock);
	if (n == 0)
		store_forget(s, &any);
	for (size_t i = 0; i < n; i++)
		if (ids[i].kind == CONTENT_TREE)
			store_note_complete(s, &ids[i].digest);
}

static int tier_drop(struct store *s, enum store_space space, const struct digest *name,
		     struct err *err)
{
	struct tier *t = tier_of(s);

	if (!t->writes)
		return err_set(err, ERR_READ_ONLY, "%s is used read-only", s->uri);
	return remote_drop(t->remote, space, name, err);
}

/* Writing. */

static int tier_put(struct store *s, enum store_space space, const struct digest *name,
		    const void *bytes, size_t n, bool replace, struct err *err)
{
	struct tier *t = tier_of(s);
	bool noted = t->unsent && space > STORE_TREE; /* all records: unsent.h */
	int r;

	if (noted)
		unsent_add(t->unsent, &(struct unsent_record){
					      .space = space, .name = *name, .replace = replace });
	r = t->local->ops->put(t->local, space, name, bytes, n, replace, err);
	if (r >= 0)
		enqueue(t, space, name, n, space <= STORE_TREE, replace);
	if (noted)
		unsent_added(t->unsent);
	return r;
}

static int tier_open_temp(struct store *s, int *ret_fd, char **ret_name, struct err *err)
{
	return tier_of(s)->local->ops->files->open_temp(tier_of(s)->local, ret_fd, ret_name, err);
}

static int tier_publish_temp(struct store *s, int fd, char *temp, const struct digest *name,
			     struct err *err)
{
	struct tier *t = tier_of(s);
	struct stat st = { 0 };
	int r;

	if (name && fstat(fd, &st) < 0)
		st.st_size = 0;
	r = t->local->ops->files->publish_temp(t->local, fd, temp, name, err);
	if (r >= 0 && name)
		enqueue(t, STORE_BLOB, name, (uint64_t)st.st_size, true, false);
	return r;
}

static int tier_move_in(struct store *s, int dir_fd, const char *path, const struct digest *name,
			struct err *err)
{
	struct tier *t = tier_of(s);
	struct stat st;
	int r;

	if (fstatat(dir_fd, path, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return err_errno(err, "cannot read %s", path);
	r = t->local->ops->files->move_in(t->local, dir_fd, path, name, err);
	if (r == 0)
		enqueue(t, STORE_BLOB, name, (uint64_t)st.st_size, true, false);
	return r;
}

static int tier_del(struct store *s, enum store_space space, const struct digest *name,
		    struct err *err)
{
	struct tier *t = tier_of(s);

	store_forget(s, name);
	return t->local->ops->del(t->local, space, name, err);
}

static bool tier_set_aside(struct store *s, enum store_space space, const struct digest *name)
{
	struct tier *t = tier_of(s);

	store_forget(s, name);
	return t->local->ops->set_aside(t->local, space, name);
}

/* Sync. */

static struct remote_object *take_queue(struct tier *t, size_t *ret_n)
{
	struct remote_object *v;
	size_t n = 0;

	pthread_mutex_lock(&t->base.lock);
	v = xcalloc(t->n_unsent + 1, sizeof(*v));
	for (size_t i = 0; i < t->objects.n && n < t->n_unsent; i++)
		if (!t->objects.v[i].there)
			v[n++] = t->objects.v[i];
	pthread_mutex_unlock(&t->base.lock);
	*ret_n = n;
	return v;
}

static void settle(struct tier *t, const struct remote_object *v, size_t n)
{
	pthread_mutex_lock(&t->base.lock);
	for (size_t i = 0; i < n; i++) {
		uint8_t key[NAME_LEN];
		struct remote_object *o;

		key[0] = (uint8_t)v[i].space;
		memcpy(key + 1, v[i].name.b, DIGEST_BYTES);
		o = &t->objects.v[(uintptr_t)map_get(t->index, key, NAME_LEN) - 1];
		if (!v[i].there || o->there || o->replace != v[i].replace)
			continue;
		o->there = true;
		o->replace = false;
		t->n_unsent--;
	}
	pthread_mutex_unlock(&t->base.lock);
}

/* The lease had lapsed: nothing that was there needs to be there still. */
static void doubt_all(struct tier *t)
{
	pthread_mutex_lock(&t->base.lock);
	for (size_t i = 0; i < t->objects.n; i++)
		t->objects.v[i].there = false;
	t->n_unsent = t->objects.n;
	pthread_mutex_unlock(&t->base.lock);
}

/* The queue may have grown since it was taken. */
static void clear_unsent(struct tier *t, bool taken_over)
{
	pthread_mutex_lock(&t->base.lock);
	if (t->unsent && t->n_unsent == 0)
		unsent_clear(t->unsent, taken_over);
	pthread_mutex_unlock(&t->base.lock);
}

static size_t records_unsent(const struct remote_object *v, size_t n)
{
	size_t m = 0;

	for (size_t i = 0; i < n; i++)
		m += v[i].space > STORE_TREE && !v[i].there;
	return m;
}

/* Contents first; then those records of which all is there. A change of a name needs nothing. */
static int send_carefully(struct tier *t, struct remote_object *v, size_t n,
			  struct remote_sent *sent, struct err *err)
{
	size_t m = 0;

	for (size_t i = 0; i < n; i++)
		if (v[i].space <= STORE_TREE || v[i].space == STORE_TAG) {
			struct remote_object o = v[i];

			v[i] = v[m];
			v[m++] = o;
		}
	if (remote_send(t->remote, t->local, v, m, sent, err) < 0)
		return -1;
	return transfer_send_whole(&t->base, t->names, v + m, n - m, sent, err);
}

static int send_queue(struct tier *t, struct remote_sent *sent, struct err *err)
{
	struct remote_object *v;
	size_t n, held = 0;
	int r = 0;

	if (remote_attach(t->remote, err) < 0)
		return -1;
	r = remote_renew(t->remote, err);
	if (r < 0)
		return -1;
	/* Also when the new lease was taken by somebody else, or by an attempt that failed after
	 * it. */
	if (lease_number(t->remote) != t->lease) {
		t->lease = lease_number(t->remote);
		t->lapsed = t->lease > 1;
		doubt_all(t);
	}
	v = take_queue(t, &n);
	if (n && !t->lapsed)
		r = remote_send(t->remote, t->local, v, n, sent, err);
	held = records_unsent(v, n);
	if (r == 0 && held) {
		r = send_carefully(t, v, n, sent, err);
		held = records_unsent(v, n);
	}
	settle(t, v, n);
	free(v);
	pthread_mutex_lock(&t->base.lock);
	t->n_held = held;
	pthread_mutex_unlock(&t->base.lock);
	return r;
}

/* The directory is gone through when it was never, or has grown by a twentieth of what it may have.
 * What can't be done now is done another time. */
static void bound(struct tier *t)
{
	struct evicted res;
	bool due;

	if (!t->cache_max || !t->user)
		return;
	pthread_mutex_lock(&t->base.lock);
	due = !t->was_scanned || t->added_bytes >= t->cache_max / 20;
	if (due) {
		t->was_scanned = true;
		t->added_bytes = 0;
	}
	pthread_mutex_unlock(&t->base.lock);
	if (due)
		evict(t->local, t->local->uri, t->remote, t->cache_max, &res, NULL);
}

static int tier_sync(struct store *s, struct err *err)
{
	struct tier *t = tier_of(s);
	struct remote_sent sent = { 0 };
	struct err e = { 0 };
	int r;

	if (t->local->ops->sync(t->local, err) < 0)
		return -1;
	if (!t->writes || !may_try(t))
		return 0;
	pthread_mutex_lock(&t->sending);
	/* A lease that lapsed meanwhile (this machine slept) says nothing about the bucket: all is
	 * sent anew. */
	for (int tries = 0;
	     (r = send_queue(t, &sent, &e)) < 0 && e.code == ERR_CHANGED && tries < LAPSES_MAX;
	     tries++)
		;
	if (r < 0)
		note_failure(t, &e);
	else {
		note_success(t);
		clear_unsent(t, false);
		bound(t);
	}
	pthread_mutex_unlock(&t->sending);
	return 0;
}

int tier_has_here(struct store *s, enum store_space space, const struct digest *names, size_t n,
		  bool *ret, struct err *err)
{
	_cleanup_(freep) uint64_t *sizes = NULL;

	memset(ret, true, n * sizeof(*ret));
	if (!tier_local(s) || !tier_of(s)->writes)
		return 0;
	sizes = xcalloc(n + 1, sizeof(*sizes));
	memset(ret, false, n * sizeof(*ret));
	memset(sizes, 0xff, n * sizeof(*sizes)); /* UINT64_MAX: not known */
	return tier_of(s)->local->ops->has(tier_of(s)->local, space, names, sizes, n, ret, err);
}

uint64_t tier_failures(struct store *s)
{
	uint64_t n;

	pthread_mutex_lock(&s->lock);
	n = tier_of(s)->failures;
	pthread_mutex_unlock(&s->lock);
	return n;
}

int tier_failed_since(struct store *s, uint64_t before, struct err *err)
{
	return tier_failures(s) != before || !may_try(tier_of(s)) ? tier_failure(s, err) : 0;
}

/* What ended processes left unsent, if the bucket may be asked now. */
void tier_take_unsent(struct store *s, struct unsent_record **ret, size_t *ret_n)
{
	struct tier *t = tier_of(s);

	*ret = NULL;
	*ret_n = 0;
	if (t->unsent && may_try(t))
		unsent_take_over(t->unsent, ret, ret_n);
}

void tier_sent_unsent(struct store *s, const struct err *failure)
{
	if (failure)
		note_failure(tier_of(s), failure);
	else
		clear_unsent(tier_of(s), true);
}

static int tier_attach(struct store *s, struct err *err)
{
	struct tier *t = tier_of(s);
	struct err e = { 0 };

	return remote_attach(t->remote, &e) < 0 ? away(t, &e, err) : 0;
}

/* Content that the directory lacks itself isn't counted: it was asked for, and set aside or
 * collected since. A record that names it is. */
static uint64_t tier_unsent(struct store *s, struct err *ret_first)
{
	struct tier *t = tier_of(s);
	uint64_t n;

	pthread_mutex_lock(&t->base.lock);
	n = t->failure.code && t->failed_at_ns ? t->n_unsent : t->n_held;
	*ret_first = t->failure;
	if (!t->failure.code && n)
		err_set(ret_first, ERR_NOT_FOUND,
			"a record names content that neither the store nor this machine has any "
			"more: it was collected while this machine slept, or is damaged; run "
			"again");
	pthread_mutex_unlock(&t->base.lock);
	return n;
}

/* Life. */

static void tier_free(struct store *s)
{
	struct tier *t = tier_of(s);

	remote_free(t->remote);
	evict_user_free(t->user);
	unsent_free(t->unsent);
	store_free(t->local);
	map_free(t->index);
	map_free(t->touched);
	map_free(t->absent);
	digest_set_free(t->told);
	VEC_FREE(&t->objects);
	pthread_mutex_destroy(&t->sending);
	store_base_deinit(s);
	free(t);
}

static const struct store_file_ops tier_files = {
	.open_temp = tier_open_temp,
	.publish_temp = tier_publish_temp,
	.move_in = tier_move_in,
};
static const struct store_shared_ops tier_shared = {
	.bring = tier_bring,
	.bring_records = tier_bring_records,
	.refresh = tier_refresh,
	.told = tier_told,
	.drop = tier_drop,
	.attach = tier_attach,
	.unsent = tier_unsent,
};
#define TIER_OPS                                                                               \
	.has = tier_has, .get = tier_get, .put = tier_put, .del = tier_del, .list = tier_list, \
	.sync = tier_sync, .open = tier_open, .set_aside = tier_set_aside, .free = tier_free,  \
	.shared = &tier_shared
static const struct store_ops tier_ops = { TIER_OPS, .files = &tier_files };
/* In front of a store in memory, which has no files. */
static const struct store_ops memory_tier_ops = { TIER_OPS };

struct store *tier_new(struct store *local, struct remote *remote, const struct store_options *o)
{
	struct tier *t = xcalloc(1, sizeof(*t));

	store_base_init(&t->base, local->ops->files ? &tier_ops : &memory_tier_ops,
			remote_uri(remote));
	t->local = t->base.here = local;
	t->remote = remote;
	t->writes = o->mode == STORE_READ_WRITE;
	t->cache_max = o->cache_max;
	t->names = o->names;
	t->index = map_new();
	t->touched = map_new();
	t->absent = map_new();
	t->told = digest_set_new();
	/* Others may bound the directory: they must know of us. When it can't be said, they may
	 * only cost us another fetch. */
	if (local->ops->files)
		evict_user_new(local->uri, &t->user, NULL);
	pthread_mutex_init(&t->sending, NULL);
	return &t->base;
}

void tier_keep_unsent(struct store *s, const char *dir)
{
	tier_of(s)->unsent = unsent_new(dir);
}

static bool is_tier(const struct store *s)
{
	return s->ops == &tier_ops || s->ops == &memory_tier_ops;
}

struct remote *tier_remote(struct store *s)
{
	return is_tier(s) ? tier_of(s)->remote : NULL;
}

struct store *tier_local(struct store *s)
{
	return is_tier(s) ? tier_of(s)->local : NULL;
}

typedef VEC(struct digest) digest_list;

static int add_name(void *arg, const struct digest *name, uint64_t size, int64_t mtime_ns)
{
	VEC_PUSH((digest_list *)arg, *name);
	return 0;
}

static int by_digest(const void *a, const void *b)
{
	return memcmp(a, b, DIGEST_BYTES);
}

int tier_names(struct store *s, enum store_space space, struct digest **ret, size_t *ret_n,
	       struct err *err)
{
	digest_list v = { 0 };
	size_t n = 0;

	*ret = NULL;
	*ret_n = 0;
	if (store_list(s, space, add_name, &v, err) < 0 ||
	    (tier_remote(s) && remote_list(tier_remote(s), space, add_name, &v, err) < 0)) {
		VEC_FREE(&v);
		return -1;
	}
	if (v.n)
		qsort(v.v, v.n, sizeof(*v.v), by_digest);
	for (size_t i = 0; i < v.n; i++)
		if (i == 0 || !digest_eq(&v.v[i], &v.v[n - 1]))
			v.v[n++] = v.v[i];
	*ret = v.v;
	*ret_n = n;
	return 0;
}

int tier_failure(struct store *s, struct err *err)
{
	struct err why = { 0 };

	if (!is_tier(s))
		return 0;
	pthread_mutex_lock(&s->lock);
	if (tier_of(s)->failed_at_ns)
		why = tier_of(s)->failure;
	pthread_mutex_unlock(&s->lock);
	return why.code ? err_set(err, why.code, "%s", why.msg) : 0;
}

int tier_scratch(struct store *tier, const char *path, struct store **ret, struct err *err)
{
	if (tier_local(tier) && tier_local(tier)->ops->files)
		return store_dir_open(path, true, ret, err);
	*ret = store_memory_new();
	return 0;
}

void tier_scratch_drop(struct store *tier, const char *path, struct store **s)
{
	store_free(TAKE_PTR(*s));
	if (tier_local(tier) && tier_local(tier)->ops->files)
		fs_remove_tree(path, NULL);
}

int tier_pack_add(struct pack_writer *w, struct store *scratch, const struct remote_object *o,
		  struct err *err)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	_cleanup_(fd_closep) int fd = -1;
	uint64_t size;

	if (o->space == STORE_BLOB && o->size >= REMOTE_LOOSE_MIN) {
		if (scratch->ops->open(scratch, &o->name, o->size, &fd, &size, err) < 0)
			return -1;
		return pack_writer_add_fd(w, o->space, &o->name, fd, size, err);
	}
	if (store_get(scratch, o->space, &o->name, o->size, &bytes, err) < 0)
		return -1;
	return pack_writer_add(w, o->space, &o->name, bytes.s ? bytes.s : "", bytes.len, err);
}

/* What is remembered of a bucket lies beside the objects: one directory for each that this store
 * was ever in front of. */
static char *memory_dir(const char *local, const char *uri)
{
	char hex[DIGEST_HEX_MAX];
	struct digest d;

	digest_bytes(uri, strlen(uri), &d);
	return xasprintf("%s/remote/%.16s", local, digest_hex(&d, hex));
}

int store_tier_open(const char *uri, const struct store_options *o, bool create, struct store **ret,
		    struct err *err)
{
	_cleanup_(freep) char *dir = NULL, *uploads = NULL;
	struct bucket_options bo;
	struct remote_options ro = { 0 };
	struct store *local = NULL;
	struct remote *remote;
	struct bucket *b;

	if (!o || !o->local)
		return err_set(err, ERR_INVALID, "store %s: a directory is needed in front of it",
			       uri);
	/* The directory is a cache here, so that it is always made. */
	if (store_dir_open(o->local, true, &local, err) < 0)
		return -1;
	if (o->mode == STORE_OFF) {
		*ret = local;
		return 0;
	}
	dir = memory_dir(o->local, uri);
	ro = (struct remote_options){ .dir = dir,
				      .writes = o->mode == STORE_READ_WRITE,
				      .lease_ns = o->lease_ns };
	bo = o->bucket ? *o->bucket : (struct bucket_options){ 0 };
	uploads = fs_join(dir, "uploads");
	bo.uploads_dir = uploads;
	if (bucket_open(uri, &bo, &b, err) < 0 || remote_open(b, &ro, &remote, err) < 0) {
		store_free(local);
		return -1;
	}
	*ret = tier_new(local, remote, o);
	if (o->mode == STORE_READ_WRITE) {
		_cleanup_(freep) char *unsent = fs_join(dir, "unsent");

		tier_keep_unsent(*ret, unsent);
	}
	return 0;
}
