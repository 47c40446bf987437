/* storage/store.c — the functions common to all stores, and what a process remembers.
 *
 * Each function checks the rules common to all kinds, then calls the store's table (struct
 * store_ops). A NULL entry means that this kind has nothing to do. A URI decides the kind:
 * `memory:`, a directory, or a directory in front of a bucket (remote/tier.c). store_get() hashes
 * the bytes it read, except for action records: their name is the key, not their digest.
 *
 * A process remembers three sets of at most REMEMBER_MAX digests: blobs that it hashed
 * (`verified`), blobs that it hashed as they arrived (`arrived`), and trees whose members are all
 * there (`complete`). When an object is deleted or set aside, store_forget() empties `complete`,
 * because any tree may have it as a member.
 *
 * Any thread may call any function. s->lock guards the sets, and is never held while a store's own
 * function runs. signature.c decides which records are believed; content/ defines the layout of
 * content.
 */
#include <assert.h>
#include "storage/internal.h"
#include "storage/local/packs.h"
#include "storage/origin/internal.h"
#include "storage/remote/tier.h"
#include "storage/signature.h"

/* How many digests a process remembers as complete or verified; enough for any run on one machine
 * (about 42 bytes each). */
#define REMEMBER_MAX 2000000

const char *const store_space_names[STORE_SPACES] = { "blobs", "trees", "actions", "runs", "tags" };

void store_base_init(struct store *s, const struct store_ops *ops, const char *uri)
{
	s->ops = ops;
	s->here = s;
	s->uri = xstrdup(uri);
	pthread_mutex_init(&s->lock, NULL);
	pthread_mutex_init(&s->views, NULL);
	s->complete = digest_set_new();
	s->verified = digest_set_new();
	s->arrived = digest_set_new();
}

void store_base_deinit(struct store *s)
{
	origins_free(s->origins);
	signature_tear_down(s);
	free(s->uri);
	digest_set_free(s->complete);
	digest_set_free(s->verified);
	digest_set_free(s->arrived);
	pthread_mutex_destroy(&s->lock);
	pthread_mutex_destroy(&s->views);
}

static bool is_bucket(const char *uri)
{
	static const char *const schemes[] = { "s3://", "gs://", "mem-bucket://" };

	for (size_t i = 0; i < ARRAY_LEN(schemes); i++)
		if (str_has_prefix(uri, schemes[i]))
			return true;
	return false;
}

/* lint: unused but by tests: the program has options */
int store_open(const char *uri, bool create, struct store **ret, struct err *err)
{
	return store_open_with(uri, NULL, create, ret, err);
}

int store_open_with(const char *uri, const struct store_options *o, bool create, struct store **ret,
		    struct err *err)
{
	struct store *s;

	if (str_eq(uri, "memory:")) {
		*ret = store_memory_new();
		return 0;
	}
	if (!is_bucket(uri) && *uri != '/')
		return err_set(err, ERR_INVALID,
			       "store `%s` is neither a directory nor an s3:// or gs:// address",
			       uri);
	if ((is_bucket(uri) ? store_tier_open(uri, o, create, &s, err)
			    : store_dir_open(uri, create, &s, err)) < 0)
		return -1;
	if (signature_set_up(s, err) < 0) {
		store_free(s);
		return -1;
	}
	*ret = s;
	return 0;
}

int store_use(struct store *s, struct err *err)
{
	return s->ops->gc && s->ops->gc->use ? s->ops->gc->use(s, err) : 0;
}

void store_free(struct store *s)
{
	if (s)
		s->ops->free(s);
}

const char *store_uri(const struct store *s)
{
	return s->uri;
}

/* What is asked of one space; on the stack for the few that most calls have. */
#define FEW 4

static int has_in_space(struct store *s, enum store_space space, const struct content_id *ids,
			size_t n, bool *ret, struct err *err)
{
	struct digest few_names[FEW], *names = few_names;
	uint64_t few_sizes[FEW], *sizes = few_sizes;
	size_t few_places[FEW], *place = few_places, m = 0;
	bool few_found[FEW], *found = few_found;
	_cleanup_(freep) uint8_t *many = NULL;
	int r = 0;

	if (n > FEW) {
		many = xmalloc(n *
			       (sizeof(*names) + sizeof(*sizes) + sizeof(*place) + sizeof(*found)));
		sizes = (uint64_t *)(void *)many;
		place = (size_t *)(void *)(sizes + n);
		names = (struct digest *)(void *)(place + n);
		found = (bool *)(void *)(names + n);
	}
	for (size_t i = 0; i < n; i++) {
		if (content_space(&ids[i]) != space)
			continue;
		names[m] = ids[i].digest;
		sizes[m] = ids[i].size_bytes;
		place[m++] = i;
	}
	if (m)
		r = s->ops->has(s, space, names, sizes, m, found, err);
	for (size_t i = 0; i < m && r == 0; i++)
		ret[place[i]] = found[i];
	return r;
}

int store_has(struct store *s, const struct content_id *ids, size_t n, bool *ret, struct err *err)
{
	memset(ret, 0, n);
	if (has_in_space(s, STORE_BLOB, ids, n, ret, err) < 0 ||
	    has_in_space(s, STORE_TREE, ids, n, ret, err) < 0)
		return err_wrap(err, "store %s", s->uri);
	return 0;
}

int store_damaged(struct store *s, enum store_space space, const struct digest *name,
		  struct err *err)
{
	const struct store_file_ops *files = s->here->ops->files;
	char hex[DIGEST_HEX_MAX];
	bool moved;

	if (space == STORE_BLOB && files && files->damaged_linked &&
	    files->damaged_linked(s->here, name, err) < 0) {
		store_forget(s, name);
		return -1;
	}
	moved = s->ops->set_aside(s, space, name);
	return err_set(err, ERR_CORRUPT,
		       "store %s: the bytes of sha256:%s don't match it any more; %s", s->uri,
		       digest_hex(name, hex),
		       moved ? "the copy was set aside, run again to make a new one"
			     : "the store can't be written to, so the copy stays");
}

int store_get(struct store *s, enum store_space space, const struct digest *name,
	      uint64_t max_bytes, struct str *ret, struct err *err)
{
	struct content_id id = { 0 };
	size_t from = ret->len;
	const char *bytes;

	if (s->ops->get(s, space, name, max_bytes, ret, err) < 0)
		return -1;
	if (space == STORE_ACTION)
		return 0; /* its name is the key, not the digest of its bytes */
	bytes = ret->s ? ret->s + from : "";
	if (space == STORE_BLOB)
		content_id_of_bytes(bytes, ret->len - from, &id);
	else
		digest_bytes(bytes, ret->len - from, &id.digest);
	if (digest_eq(&id.digest, name))
		return 0;
	ret->len = from;
	return store_damaged(s, space, name, err);
}

static const struct {
	const char *what;
	uint64_t max;
} limits[STORE_SPACES] = {
	[STORE_BLOB] = { "a file", CONTENT_BLOB_MAX },
	[STORE_TREE] = { "a directory's listing", TREE_LISTING_MAX },
	[STORE_ACTION] = { "a task's record", ACTION_RECORD_MAX },
	[STORE_RUN] = { "a run's manifest", RUN_MANIFEST_MAX },
	[STORE_TAG] = { "the record of a tag", REMOTE_RECORD_MAX },
};

uint64_t store_max_size(enum store_space space)
{
	assert(space < STORE_SPACES);
	return limits[space].max;
}

int store_check_size(enum store_space space, uint64_t n, struct err *err)
{
	if (n <= store_max_size(space))
		return 0;
	return err_set(err, ERR_TOO_LARGE, "%s has %llu bytes; a store keeps at most %llu",
		       limits[space].what, (unsigned long long)n,
		       (unsigned long long)limits[space].max);
}

int store_put(struct store *s, enum store_space space, const struct digest *name, const void *bytes,
	      size_t n, struct err *err)
{
	if (store_check_size(space, n, err) < 0)
		return -1;
	return s->ops->put(s, space, name, bytes, n, false, err);
}

static int put_each(struct store *s, const struct store_item *v, size_t n, struct err *err)
{
	bool records = false;

	for (size_t i = 0; i < n; i++) {
		/* What a record names is durable before it. */
		if (v[i].space == STORE_ACTION && !records && s->ops->sync(s, err) < 0)
			return -1;
		records |= v[i].space == STORE_ACTION;
		if (store_put(s, v[i].space, &v[i].name, v[i].bytes, v[i].n, err) < 0)
			return -1;
	}
	return 0;
}

int store_put_many(struct store *s, const struct store_item *v, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++)
		if (store_check_size(v[i].space, v[i].n, err) < 0)
			return -1;
	return s->ops->put_many && n >= PACKS_WORTH ? s->ops->put_many(s, v, n, err)
						    : put_each(s, v, n, err);
}

/* lint: unused but by tests: they lose content */
int store_delete(struct store *s, enum store_space space, const struct digest *name,
		 struct err *err)
{
	return s->ops->del(s, space, name, err);
}

int store_list(struct store *s, enum store_space space, store_list_fn *fn, void *arg,
	       struct err *err)
{
	return s->ops->list(s, space, fn, arg, err);
}

int store_sync(struct store *s, struct err *err)
{
	return s->ops->sync(s, err);
}

uint64_t store_unsynced(struct store *s)
{
	return s->ops->unsynced ? s->ops->unsynced(s) : 0;
}

int store_attach(struct store *s, struct err *err)
{
	return s->ops->shared ? s->ops->shared->attach(s, err) : 0;
}

int store_refresh(struct store *s, enum store_space space, const struct digest *names, size_t n,
		  struct err *err)
{
	return s->ops->shared ? s->ops->shared->refresh(s, space, names, n, err) : 0;
}

void store_note_present(struct store *s, const struct content_id *ids, size_t n)
{
	if (s->ops->shared)
		s->ops->shared->note_present(s, ids, n);
}

int store_drop(struct store *s, enum store_space space, const struct digest *name, struct err *err)
{
	if (s->ops->shared && s->ops->shared->drop(s, space, name, err) < 0)
		return -1;
	return s->ops->del(s, space, name, err);
}

bool store_is_shared(const struct store *s)
{
	return s->ops->shared != NULL;
}

int store_bring(struct store *s, const struct content_id *ids, size_t n, enum store_bring what,
		struct err *err)
{
	return s->ops->shared ? s->ops->shared->bring(s, ids, n, what, err) : 0;
}

int store_place_blobs(struct store *s, struct store_place *v, size_t n, struct err *err)
{
	for (size_t i = 0; i < n; i++)
		assert(v[i].id.size_bytes >= REMOTE_LOOSE_MIN && !v[i].placed);
	return s->ops->shared && s->ops->shared->place ? s->ops->shared->place(s, v, n, err) : 0;
}

int store_bring_records(struct store *s, enum store_space space, const struct digest *names,
			size_t n, struct err *err)
{
	return s->ops->shared ? s->ops->shared->bring_records(s, space, names, n, err) : 0;
}

void store_expect(struct store *s, enum store_space space, const struct digest *names, size_t n)
{
	if (n)
		store_bring_records(s, space, names, n, NULL);
}

uint64_t store_unsent(struct store *s, struct err *ret_first)
{
	return s->ops->shared ? s->ops->shared->unsent(s, ret_first) : 0;
}

uint64_t store_healed(struct store *s)
{
	uint64_t n = atomic_load(&s->healed);

	if (tier_local(s))
		n += atomic_load(&tier_local(s)->healed) + remote_healed(tier_remote(s));
	return n;
}

/* The set is passed by address, because store_forget() replaces it under the lock. */
static bool remembers(struct store *s, struct digest_set *const *set, const struct digest *d)
{
	bool r;

	pthread_mutex_lock(&s->lock);
	r = digest_set_has(*set, d);
	pthread_mutex_unlock(&s->lock);
	return r;
}

static void remember(struct store *s, struct digest_set *const *set, const struct digest *d)
{
	pthread_mutex_lock(&s->lock);
	if (digest_set_len(*set) < REMEMBER_MAX)
		digest_set_add(*set, d);
	pthread_mutex_unlock(&s->lock);
}

bool store_is_verified(struct store *s, const struct digest *d)
{
	return remembers(s, &s->verified, d);
}

void store_note_verified(struct store *s, const struct digest *d)
{
	remember(s, &s->verified, d);
}

/* What stands for a file with these bytes, until it is written to. A blob that is damaged later, or
 * another file in its place, has another one. */
static bool arrival(const struct digest *d, int fd, struct digest *ret)
{
	uint64_t is[4];
	_cleanup_(str_deinit) struct str text = { 0 };
	struct stat st;

	if (fstat(fd, &st) < 0)
		return false;
	is[0] = (uint64_t)st.st_dev;
	is[1] = (uint64_t)st.st_ino;
	is[2] = (uint64_t)st.st_size;
	is[3] = (uint64_t)ns_of(st.st_mtim);
	str_addn(&text, d->b, DIGEST_BYTES);
	str_addn(&text, is, sizeof(is));
	digest_bytes(text.s, text.len, ret);
	return true;
}

void store_note_arrived(struct store *s, const struct digest *d, int fd)
{
	struct digest file;

	if (arrival(d, fd, &file))
		remember(s->here, &s->here->arrived, &file);
}

bool store_take_arrived(struct store *s, const struct digest *d, int fd)
{
	struct store *here = s->here;
	struct digest file;
	bool r = false;

	pthread_mutex_lock(&here->lock);
	if (digest_set_len(here->arrived) && arrival(d, fd, &file)) {
		r = digest_set_has(here->arrived, &file);
		digest_set_remove(here->arrived, &file);
	}
	pthread_mutex_unlock(&here->lock);
	return r;
}

bool store_is_complete(struct store *s, const struct digest *d)
{
	return remembers(s, &s->complete, d);
}

void store_note_complete(struct store *s, const struct digest *d)
{
	remember(s, &s->complete, d);
}

void store_forget(struct store *s, const struct digest *d)
{
	pthread_mutex_lock(&s->lock);
	if (digest_set_len(s->complete)) {
		digest_set_free(s->complete);
		s->complete = digest_set_new();
	}
	digest_set_remove(s->verified, d);
	pthread_mutex_unlock(&s->lock);
}
