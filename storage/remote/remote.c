/* storage/remote/remote.c — a shared store in a bucket: names of its objects, attaching, open and
 * close.
 *
 * attach() follows the order of the protocol: version, lease, condemned list, list of packs, the
 * directory's knowledge; only then is the lease trusted. A collector that doesn't see our lease may
 * remove what we read before it.
 *
 * A bucket without `version` becomes a store, if we may write. A probe finds what the server
 * supports (if-absent, delete-if), and `version` keeps that. A damaged `version` is rewritten if
 * the bucket has cairn's records. A bucket that refuses the lease is only read, and `refused` keeps
 * the reason.
 *
 * `io` is held for a whole attach, and is taken before `lock`. The other parts of a struct remote
 * are in presence.c (what the bucket has), lease.c, send.c, fetch.c, list.c and collect.c.
 */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <time.h>
#include "base/os/fs.h"
#include "storage/remote/internal.h"

#define VERSION_KEY  "version"
#define VERSION_LINE "cairn bucket store 1\n"
#define VERSION_MAX  4096
#define LEASE_NS     (3600 * NS_PER_S)
/* Between two marks of a collector: what a mark condemned is removed no earlier. */
#define MARK_GAP_NS (3600 * NS_PER_S)

/* Names. */

const char *remote_key(char buf[REMOTE_KEY_MAX], enum store_space space, const struct digest *name)
{
	char hex[DIGEST_HEX_MAX];

	assert(space < STORE_SPACES && space != STORE_TREE); /* trees are only in packs */
	digest_hex(name, hex);
	snprintf(buf, REMOTE_KEY_MAX, "%s/%.2s/%s", store_space_names[space], hex, hex);
	return buf;
}

const char *remote_pack_key(char buf[REMOTE_KEY_MAX], const struct digest *name, bool index)
{
	char hex[DIGEST_HEX_MAX];

	snprintf(buf, REMOTE_KEY_MAX, "packs/%s%s", digest_hex(name, hex), index ? ".idx" : "");
	return buf;
}

bool remote_name_in(const char *key, size_t skip, struct digest *ret)
{
	char hex[DIGEST_HEX_MAX];

	if (strlen(key) < skip + 64)
		return false;
	memcpy(hex, key + skip, 64);
	hex[64] = '\0';
	return digest_parse(hex, ret, NULL) == 0;
}

enum remote_kind remote_kind_of(enum store_space space)
{
	return space == STORE_ACTION ? KIND_ACTION : space == STORE_RUN ? KIND_RUN : KIND_BLOB;
}

/* Small objects. */

int remote_get_bytes(struct remote *r, const char *key, uint64_t max_bytes, struct str *ret,
		     struct err *err)
{
	struct bucket_get g = { .key = key, .size = UINT64_MAX, .fd = -1, .max_bytes = max_bytes };
	int got = bucket_get(r->bucket, &g, err);

	if (got == 0)
		str_addn(ret, g.body.s ? g.body.s : "", g.body.len);
	str_deinit(&g.body);
	return got;
}

int remote_put_bytes(struct remote *r, const char *key, const void *bytes, size_t n, bool if_absent,
		     struct err *err)
{
	struct bucket_put p = {
		.key = key, .bytes = bytes, .fd = -1, .size = n, .if_absent = if_absent
	};

	return bucket_put(r->bucket, &p, err);
}

void remote_gets_init(struct remote_gets *g, size_t n)
{
	*g = (struct remote_gets){ .v = xcalloc(n + 1, sizeof(*g->v)),
				   .keys = xcalloc(n + 1, sizeof(*g->keys)),
				   .n = n };
}

int remote_gets_run(struct remote *r, struct remote_gets *g, struct err *err)
{
	_cleanup_(freep) struct bucket_get **list = xcalloc(g->n + 1, sizeof(struct bucket_get *));

	for (size_t i = 0; i < g->n; i++) {
		g->v[i].key = g->keys[i];
		list[i] = &g->v[i];
	}
	return bucket_get_many(r->bucket, list, g->n, err);
}

void remote_gets_deinit(struct remote_gets *g)
{
	for (size_t i = 0; i < g->n; i++)
		str_deinit(&g->v[i].body);
	free(g->v);
	free(g->keys);
}

/* Attaching. */

static int make_store(struct remote *r, bool if_absent, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct bucket_abilities can = { 0 };

	if (!r->o.writes)
		return err_set(
			err, ERR_NOT_FOUND,
			"there is no store at %s; the first run that may write to it creates it",
			remote_uri(r));
	if (bucket_probe(r->bucket, &can, err) < 0)
		return err_wrap(err, "trying what %s can do", remote_uri(r));
	str_addf(&text, VERSION_LINE "if-absent %s\ndelete-if %s\n", can.if_absent ? "yes" : "no",
		 can.delete_if ? "yes" : "no");
	r->if_absent = can.if_absent;
	r->delete_if = can.delete_if;
	return remote_put_bytes(r, VERSION_KEY, text.s, text.len, if_absent, err) < 0 ? -1 : 0;
}

static int note_record(void *arg, const struct bucket_object *o)
{
	struct digest name;
	const char *slash = strrchr(o->key, '/');

	*(bool *)arg = slash && strlen(slash + 1) == 64 && remote_name_in(slash + 1, 0, &name);
	return 1;
}

/* Handles a damaged `version`. If the bucket has records, it is a store all the same: a writer
 * rewrites `version`, a reader continues without it. */
static int mend_version(struct remote *r, struct err *err)
{
	static const enum store_space spaces[] = { STORE_RUN, STORE_ACTION };
	bool ours = false;

	for (size_t i = 0; i < ARRAY_LEN(spaces) && !ours; i++) {
		_cleanup_(freep) char *prefix = xasprintf("%s/", store_space_names[spaces[i]]);

		if (bucket_list(r->bucket, prefix, NULL, 0, note_record, &ours, err) < 0)
			return -1;
	}
	if (!ours)
		return err_set(
			err, ERR_CORRUPT,
			"%s holds something else: its object `version` is not that of a store",
			remote_uri(r));
	if (!r->o.writes)
		return 0;
	if (make_store(r, false, err) < 0)
		return err_wrap(err, "the object `version` of %s is damaged; writing it anew",
				remote_uri(r));
	r->healed++;
	return 0;
}

static int check_version(struct remote *r, struct err *err)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	struct err e = { 0 };
	unsigned number;

	if (remote_get_bytes(r, VERSION_KEY, VERSION_MAX, &text, &e) < 0)
		return e.code == ERR_NOT_FOUND ? make_store(r, true, err) : err_pass(err, &e);
	if (text.s && str_has_prefix(text.s, VERSION_LINE)) {
		r->if_absent = strstr(text.s, "\nif-absent yes\n") != NULL;
		r->delete_if = strstr(text.s, "\ndelete-if yes\n") != NULL;
		return 0;
	}
	if (text.s && sscanf(text.s, "cairn bucket store %u", &number) == 1 && number > 1)
		return err_set(
			err, ERR_NEWER,
			"the store %s was written by a newer cairn; upgrade, or name another store",
			remote_uri(r));
	return mend_version(r, err);
}

/* The lease must be taken before the condemned list is read: see remote.h. */
static int attach(struct remote *r, struct err *err)
{
	struct err e = { 0 };

	if (check_version(r, err) < 0)
		return -1;
	if (r->o.writes && lease_take(r, &e) < 0) {
		if (e.code != ERR_READ_ONLY)
			return err_set(err, e.code, "taking a lease in %s: %s", remote_uri(r),
				       e.msg);
		r->o.writes = false; /* reading may still be allowed */
		r->refused = e;
	}
	presence_forget(r); /* this may be the next lease after one that lapsed */
	if (condemned_load(r, err) < 0 || presence_load(r, err) < 0)
		return -1;
	presence_recall(r);
	if (r->lease.key)
		lease_trust(r);
	return 0;
}

int remote_attach(struct remote *r, struct err *err)
{
	int got = 0;

	pthread_mutex_lock(&r->io);
	if (!r->attached) {
		got = attach(r, err);
		r->attached = got == 0;
	}
	pthread_mutex_unlock(&r->io);
	return got;
}

/* Life. */

int remote_open(struct bucket *b, const struct remote_options *o, struct remote **ret,
		struct err *err)
{
	struct remote *r = xcalloc(1, sizeof(*r));

	assert(o->lease_ns >= 0);
	r->bucket = b;
	r->o = *o;
	r->o.dir = NULL;
	if (!r->o.mark_gap_ns)
		r->o.mark_gap_ns = MARK_GAP_NS;
	if (!r->o.lease_ns)
		r->o.lease_ns = LEASE_NS;
	if (!r->o.clock)
		r->o.clock = clock_system();
	r->dir = -1;
	r->known = map_new();
	r->bad = map_new();
	r->lost = map_new();
	r->pack_by_name = map_new();
	pthread_mutex_init(&r->io, NULL);
	pthread_mutex_init(&r->lock, NULL);
	if (o->dir) {
		_cleanup_(freep) char *indexes = fs_join(o->dir, "packs");

		if (fs_mkdir_p(indexes, err) == 0 &&
		    (r->dir = open(o->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
			err_errno(err, "cannot open %s", o->dir);
		if (r->dir < 0) {
			remote_free(r);
			return -1;
		}
	}
	*ret = r;
	return 0;
}

void remote_free(struct remote *r)
{
	if (!r)
		return;
	lease_give_back(r);
	presence_remember(r);
	presence_free(r);
	bucket_free(r->bucket);
	if (r->dir >= 0)
		close(r->dir);
	pthread_mutex_destroy(&r->io);
	pthread_mutex_destroy(&r->lock);
	free(r);
}

const char *remote_uri(const struct remote *r)
{
	return bucket_uri(r->bucket);
}

uint64_t remote_healed(struct remote *r)
{
	return atomic_load(&r->healed);
}

struct bucket *remote_bucket(struct remote *r)
{
	return r->bucket;
}

int64_t remote_boottime_ns(struct remote *r)
{
	struct timespec t;

	if (r->o.clock->is_virtual)
		return r->o.clock->mono_ns(r->o.clock);
	clock_gettime(CLOCK_BOOTTIME, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}
