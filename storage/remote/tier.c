/* storage/remote/tier.c — a directory in front of a bucket.
 *
 * Every function tries the directory first. Objects that it lacks are fetched into it and used from
 * there (tier_bring.c). Objects that are put, or that a put finds there, are sent to the bucket by
 * the next sync (tier_queue.c). transfer.c moves what manifests reach.
 *
 * A failure of the bucket doesn't fail the run. Objects that couldn't be sent stay in the queue and
 * are counted; a bucket that can't be reached counts as empty until the next try. A bucket that
 * refuses us (credentials, another format) is an error, because the user must fix it.
 *
 * base.lock is never held during a request.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include "base/os/fs.h"
#include "storage/remote/evict.h"
#include "storage/remote/tier_internal.h"

/* The pause after a failure, because the client below has already retried for a while. */
#define TRY_AGAIN_NS (30 * NS_PER_S)

/* Failures of the bucket. */

bool tier_may_try(struct tier *t)
{
	bool r;

	pthread_mutex_lock(&t->base.lock);
	r = !t->failed_at_ns || tier_now_ns() - t->failed_at_ns >= TRY_AGAIN_NS;
	pthread_mutex_unlock(&t->base.lock);
	return r;
}

void tier_note_failure(struct tier *t, const struct err *e)
{
	pthread_mutex_lock(&t->base.lock);
	t->failed_at_ns = tier_now_ns();
	t->failures++;
	if (!t->failure.code)
		t->failure = *e;
	pthread_mutex_unlock(&t->base.lock);
}

int tier_away(struct tier *t, const struct err *e, struct err *err)
{
	tier_note_failure(t, e);
	return e->code == ERR_IO ? 0 : err_pass(err, e);
}

/* Operations. */

/* Touches an object once per process; once is enough to mark it as in use. */
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

static bool is_noted(struct tier *t, enum store_space space, const struct digest *name)
{
	bool noted;

	if (space > STORE_TREE)
		return false;
	pthread_mutex_lock(&t->base.lock);
	noted = digest_set_has(t->noted, name);
	pthread_mutex_unlock(&t->base.lock);
	return noted;
}

static int tier_has(struct store *s, enum store_space space, const struct digest *names,
		    const uint64_t *sizes, size_t n, bool *ret, struct err *err)
{
	_cleanup_(freep) struct remote_object *v = xcalloc(n + 1, sizeof(*v));
	struct tier *t = tier_of(s);
	struct err e = { 0 };
	size_t m = 0;

	if (t->local->ops->has(t->local, space, names, sizes, n, ret, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		struct remote_object o = { .space = space,
					   .name = names[i],
					   .size = sizes ? sizes[i] : UINT64_MAX };

		if (ret[i])
			tier_enqueue(t, &o);
		else if (!is_noted(t, space, &names[i]))
			v[m++] = o;
		else
			ret[i] = true;
	}
	if (m && tier_may_try(t) && remote_has(t->remote, v, m, &e) < 0 &&
	    tier_away(t, &e, err) < 0)
		return -1;
	m = 0;
	for (size_t i = 0; i < n; i++)
		if (!ret[i])
			ret[i] = v[m++].there;
	return 0;
}

static int tier_get(struct store *s, enum store_space space, const struct digest *name,
		    uint64_t max_bytes, struct str *ret, struct err *err)
{
	const struct remote_object o = { .space = space, .name = *name, .size = UINT64_MAX };
	struct tier *t = tier_of(s);
	struct err e = { 0 };

	if (t->local->ops->get(t->local, space, name, max_bytes, ret, &e) == 0) {
		touch(t, space, name);
		return 0;
	}
	if (tier_bring_one(t, &o, &e, err) < 0)
		return -1;
	return t->local->ops->get(t->local, space, name, max_bytes, ret, err);
}

static int tier_open(struct store *s, const struct digest *name, uint64_t size, int *ret_fd,
		     uint64_t *ret_size, struct err *err)
{
	const struct remote_object o = { .space = STORE_BLOB, .name = *name, .size = size };
	struct tier *t = tier_of(s);
	struct err e = { 0 };

	if (t->local->ops->open(t->local, name, size, ret_fd, ret_size, &e) == 0) {
		touch(t, STORE_BLOB, name);
		return 0;
	}
	if (tier_bring_one(t, &o, &e, err) < 0)
		return -1;
	return t->local->ops->open(t->local, name, size, ret_fd, ret_size, err);
}

static int tier_list(struct store *s, enum store_space space, store_list_fn *fn, void *arg,
		     struct err *err)
{
	return tier_of(s)->local->ops->list(tier_of(s)->local, space, fn, arg, err);
}

/* A listing that is known to be complete there needn't be read to find that out. */
static void tier_note_present(struct store *s, const struct content_id *ids, size_t n)
{
	static const struct digest any = { { 0 } };
	struct tier *t = tier_of(s);

	pthread_mutex_lock(&s->lock);
	if (n == 0) {
		digest_set_free(t->noted);
		t->noted = digest_set_new();
	}
	for (size_t i = 0; i < n; i++)
		if (ids[i].kind != CONTENT_NONE)
			digest_set_add(t->noted, &ids[i].digest);
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

static int tier_put(struct store *s, enum store_space space, const struct digest *name,
		    const void *bytes, size_t n, bool replace, struct err *err)
{
	struct tier *t = tier_of(s);
	bool noted = t->unsent && space > STORE_TREE; /* records are journalled: unsent.h */
	int r;

	if (noted)
		unsent_add(t->unsent, &(struct unsent_record){
					      .space = space, .name = *name, .replace = replace });
	r = t->local->ops->put(t->local, space, name, bytes, n, replace, err);
	if (r >= 0)
		tier_enqueue(t, &(struct remote_object){ .space = space,
							 .name = *name,
							 .size = n,
							 .verified = space <= STORE_TREE,
							 .replace = replace });
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
		tier_enqueue(t, &(struct remote_object){ .space = STORE_BLOB,
							 .name = *name,
							 .size = (uint64_t)st.st_size,
							 .verified = true });
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
		tier_enqueue(t, &(struct remote_object){ .space = STORE_BLOB,
							 .name = *name,
							 .size = (uint64_t)st.st_size,
							 .verified = true });
	return r;
}

static int tier_link_in(struct store *s, int fd, const struct stat *st, const char *path,
			const struct digest *name, struct err *err)
{
	struct tier *t = tier_of(s);
	int r = t->local->ops->files->link_in(t->local, fd, st, path, name, err);

	/* Not `verified`: the file is the user's, and is hashed again when it is sent. */
	if (r >= 0)
		tier_enqueue(t, &(struct remote_object){ .space = STORE_BLOB,
							 .name = *name,
							 .size = (uint64_t)st->st_size });
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

int tier_has_here(struct store *s, enum store_space space, const struct digest *names, size_t n,
		  bool *ret, struct err *err)
{
	struct store *local = tier_local(s);

	memset(ret, !local || !tier_of(s)->writes, n * sizeof(*ret));
	return local && tier_of(s)->writes ? local->ops->has(local, space, names, NULL, n, ret, err)
					   : 0;
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
	return tier_failures(s) != before || !tier_may_try(tier_of(s)) ? tier_failure(s, err) : 0;
}

static int tier_attach(struct store *s, struct err *err)
{
	struct tier *t = tier_of(s);
	struct err e = { 0 };

	return remote_attach(t->remote, &e) < 0 ? tier_away(t, &e, err) : 0;
}

/* Open and close. */

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
	digest_set_free(t->noted);
	VEC_FREE(&t->objects);
	pthread_mutex_destroy(&t->sending);
	store_base_deinit(s);
	free(t);
}

static const struct store_file_ops tier_files = {
	.open_temp = tier_open_temp,
	.publish_temp = tier_publish_temp,
	.move_in = tier_move_in,
	.link_in = tier_link_in,
};
static const struct store_shared_ops tier_shared = {
	.bring = tier_bring,
	.place = tier_place,
	.bring_records = tier_bring_records,
	.refresh = tier_refresh,
	.note_present = tier_note_present,
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

	assert(o->mode != STORE_OFF && !tier_local(local)); /* tiers don't nest */
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
	t->noted = digest_set_new();
	/* Other processes may evict from the directory, so they must know of us. If registering
	 * fails, the worst is that we fetch again. */
	if (local->ops->files)
		evict_user_new(local->uri, &t->user, NULL);
	pthread_mutex_init(&t->sending, NULL);
	return &t->base;
}

void tier_keep_unsent(struct store *s, const char *dir)
{
	assert(!tier_of(s)->unsent);
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
	struct err why;

	if (!is_tier(s))
		return 0;
	pthread_mutex_lock(&s->lock);
	why = tier_of(s)->failure;
	pthread_mutex_unlock(&s->lock);
	return why.code ? err_pass(err, &why) : 0;
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

int store_tier_open(const char *uri, const struct store_options *o, bool create, struct store **ret,
		    struct err *err)
{
	_cleanup_(freep) char *dir = NULL, *uploads = NULL, *unsent = NULL;
	char hex[DIGEST_HEX_MAX];
	struct digest d;
	struct bucket_options bo;
	struct remote_options ro = { 0 };
	struct store *local = NULL;
	struct remote *remote;
	struct bucket *b;

	if (!o || !o->local)
		return err_set(err, ERR_INVALID, "store %s: a directory is needed in front of it",
			       uri);
	/* The directory is a cache here, so it is always created. */
	if (store_dir_open(o->local, true, &local, err) < 0)
		return -1;
	if (o->mode == STORE_OFF) {
		*ret = local;
		return 0;
	}
	/* Knowledge of a bucket is kept beside the objects, in one directory per bucket. */
	digest_bytes(uri, strlen(uri), &d);
	dir = xasprintf("%s/remote/%.16s", o->local, digest_hex(&d, hex));
	ro = (struct remote_options){ .dir = dir,
				      .writes = o->mode == STORE_READ_WRITE,
				      .lease_ns = o->lease_ns,
				      .mark_gap_ns = o->mark_gap_ns };
	bo = o->bucket ? *o->bucket : (struct bucket_options){ 0 };
	uploads = fs_join(dir, "uploads");
	bo.uploads_dir = uploads;
	if (bucket_open(uri, &bo, &b, err) < 0 || remote_open(b, &ro, &remote, err) < 0) {
		store_free(local);
		return -1;
	}
	*ret = tier_new(local, remote, o);
	if (o->mode == STORE_READ_WRITE) {
		unsent = fs_join(dir, "unsent");
		tier_keep_unsent(*ret, unsent);
	}
	return 0;
}
