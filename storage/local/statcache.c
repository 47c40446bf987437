/* storage/local/statcache.c — the stat cache: one file of sorted entries of fixed size, keyed by
 * SHA-256 of the path.
 *
 * The file is loaded whole (100,000 entries are 10 MB) and searched by bisection. New entries go to
 * the map `fresh`, and are merged on save, under a lock file, with what another process saved
 * meanwhile. An incomplete file (magic, length, checksum) counts as absent.
 *
 * racy() decides whether an entry can be trusted. An entry names the bytes as a plain file; whether
 * the file is executable is read from its mode each time.
 *
 * `lock` guards `fresh` and is held while the file is saved.
 */
#include "storage/local/statcache.h"
#include <assert.h>
#include <fcntl.h>
#include <pthread.h>
#include "base/os/fs.h"
#include "storage/internal.h"

/* 3: entries of version 2 may be of file systems whose times don't show every change. */
#define MAGIC "cairn-statcache/3"
/* Above this the file is started anew: it holds 2.5 million files. */
#define FILE_MAX (256 * MIB)
/* Times on ext4, xfs and btrfs are those of the kernel's last tick (1 to 10 ms ago), so a change
 * gets a time up to 10 ms too early. If hashing began at h, a later change has a ctime after h - 10
 * ms, and so can't match an entry with older times. Doubled, because the wall clock may be slewed.
 * Coarser file systems (FAT: 2 s) are recognised by their whole seconds, see racy(). */
#define TICK_NS (20 * NS_PER_MS)

struct entry {
	uint8_t path[16]; /* first half of SHA-256 of the path */
	uint64_t dev, ino, size;
	int64_t mtime_ns, ctime_ns;
	int64_t hashed_ns; /* wall clock before hashing began */
	uint64_t content_size;
	uint8_t digest[DIGEST_BYTES];
};

/* The file: this, then entries in the order of their paths; host byte order, since it never leaves
 * the machine. */
struct head {
	char magic[24];
	uint64_t n, sum;
};

struct loaded {
	struct str bytes;
	const struct entry *v;
	size_t n;
};

struct statcache {
	char *path;
	struct loaded old;
	struct map *fresh; /* path hash → struct entry * */
	bool dirty;        /* `fresh` has entries that the file lacks */
	pthread_mutex_t lock;
};

static int order(const void *a, const void *b)
{
	return memcmp(((const struct entry *)a)->path, ((const struct entry *)b)->path, 16);
}

static void hash_path(const char *path, uint8_t ret[16])
{
	struct digest d;

	digest_bytes(path, strlen(path), &d);
	memcpy(ret, d.b, 16);
}

/* Detects files that a crash cut short or filled with zeros, not attacks. SHA-256 would take longer
 * than reading. Four chains, multiplied by odd constants of splitmix64 (Steele, Lea, Flood
 * 2014). */
static uint64_t checksum(const void *bytes, size_t n)
{
	uint64_t h[4] = { n, 1, 2, 3 }, w[4];

	_Static_assert(sizeof(struct entry) % 8 == 0, "read by words");
	for (size_t at = 0; at < n; at += sizeof(w)) {
		memset(w, 0, sizeof(w));
		memcpy(w, (const uint8_t *)bytes + at, MIN(sizeof(w), n - at));
		for (int i = 0; i < 4; i++) {
			h[i] = (h[i] ^ w[i]) * 0xbf58476d1ce4e5b9ULL;
			h[i] ^= h[i] >> 29;
		}
	}
	for (int i = 1; i < 4; i++)
		h[0] = ((h[0] ^ h[i]) * 0x94d049bb133111ebULL) ^ (h[0] >> 31);
	return h[0];
}

/* Ignores a file that isn't complete. */
static void load(const char *path, struct loaded *ret)
{
	struct head head;

	*ret = (struct loaded){ 0 };
	if (fs_read_file(path, FILE_MAX, &ret->bytes, NULL) < 0 || ret->bytes.len < sizeof(head))
		return;
	memcpy(&head, ret->bytes.s, sizeof(head));
	if (memcmp(head.magic, MAGIC, sizeof(MAGIC)) != 0 ||
	    head.n != (ret->bytes.len - sizeof(head)) / sizeof(struct entry) ||
	    ret->bytes.len != sizeof(head) + head.n * sizeof(struct entry) ||
	    head.sum != checksum(ret->bytes.s + sizeof(head), ret->bytes.len - sizeof(head)))
		return;
	ret->v = (const struct entry
			  *)(const void *)(ret->bytes.s +
					   sizeof(head)); /* malloc's alignment, and 40 bytes */
	ret->n = head.n;
}

int statcache_open(const char *path, struct statcache **ret, struct err *err)
{
	struct statcache *c = xcalloc(1, sizeof(*c));

	c->path = xstrdup(path);
	c->fresh = map_new();
	pthread_mutex_init(&c->lock, NULL);
	load(path, &c->old);
	*ret = c;
	return 0;
}

void statcache_free(struct statcache *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < map_len(c->fresh); i++)
		free(map_at(c->fresh, i, NULL, NULL));
	map_free(c->fresh);
	pthread_mutex_destroy(&c->lock);
	str_deinit(&c->old.bytes);
	free(c->path);
	free(c);
}

/* Tells whether the file could have changed after it was hashed without a change of its times. */
static bool racy(const struct entry *e)
{
	int64_t newest = MAX(e->mtime_ns, e->ctime_ns);
	bool whole_seconds = e->mtime_ns % NS_PER_S == 0 && e->ctime_ns % NS_PER_S == 0;

	return newest + (whole_seconds ? 2 * NS_PER_S : TICK_NS) > e->hashed_ns;
}

bool statcache_get(struct statcache *c, const char *path, const struct stat *st,
		   struct content_id *ret)
{
	const struct entry *e;
	struct entry key;

	hash_path(path, key.path);
	pthread_mutex_lock(&c->lock);
	e = map_get(c->fresh, key.path, sizeof(key.path));
	if (!e && c->old.n)
		e = bsearch(&key, c->old.v, c->old.n, sizeof(key), order);
	if (e)
		key = *e;
	pthread_mutex_unlock(&c->lock);
	if (!e || key.dev != st->st_dev || key.ino != st->st_ino ||
	    key.size != (uint64_t)st->st_size || key.mtime_ns != ns_of(st->st_mtim) ||
	    key.ctime_ns != ns_of(st->st_ctim) || racy(&key))
		return false;
	*ret = (struct content_id){ .size_bytes = key.content_size, .kind = CONTENT_BLOB };
	memcpy(ret->digest.b, key.digest, DIGEST_BYTES);
	return true;
}

void statcache_put(struct statcache *c, const char *path, const struct stat *st,
		   int64_t hashed_wall_ns, const struct content_id *id)
{
	struct entry *e = xcalloc(1, sizeof(*e));
	void **slot;

	assert(content_is_file(id));
	hash_path(path, e->path);
	e->dev = st->st_dev;
	e->ino = st->st_ino;
	e->size = (uint64_t)st->st_size;
	e->mtime_ns = ns_of(st->st_mtim);
	e->ctime_ns = ns_of(st->st_ctim);
	e->hashed_ns = hashed_wall_ns;
	e->content_size = id->size_bytes;
	memcpy(e->digest, id->digest.b, DIGEST_BYTES);
	pthread_mutex_lock(&c->lock);
	slot = map_slot(c->fresh, e->path, sizeof(e->path), NULL);
	free(*slot);
	*slot = e;
	c->dirty = true;
	pthread_mutex_unlock(&c->lock);
}

/* Our entries win over theirs: both were true when they were hashed, and this process will look for
 * ours again. */
static void merge(const struct loaded *theirs, const struct map *fresh, struct str *out)
{
	size_t n_fresh = map_len(fresh), i = 0, k = 0;
	struct entry *sorted = xcalloc(n_fresh + 1, sizeof(*sorted));
	struct head head = { .magic = MAGIC };

	for (size_t f = 0; f < n_fresh; f++)
		sorted[f] = *(struct entry *)map_at(fresh, f, NULL, NULL);
	qsort(sorted, n_fresh, sizeof(*sorted), order);
	if ((theirs->n + n_fresh) * sizeof(*sorted) + sizeof(head) > FILE_MAX)
		i = theirs->n; /* drop the old entries: many are of files long gone */
	str_reserve(out, sizeof(head) + (theirs->n - i + n_fresh) * sizeof(*sorted));
	str_addn(out, &head, sizeof(head));
	while (i < theirs->n || k < n_fresh) {
		int r = i == theirs->n ? 1 : k == n_fresh ? -1 : order(&theirs->v[i], &sorted[k]);

		str_addn(out, r < 0 ? &theirs->v[i] : &sorted[k], sizeof(*sorted));
		i += r <= 0;
		k += r >= 0;
	}
	free(sorted);
	head.n = (out->len - sizeof(head)) / sizeof(*sorted);
	head.sum = checksum(out->s + sizeof(head), out->len - sizeof(head));
	memcpy(out->s, &head, sizeof(head));
}

int statcache_save(struct statcache *c, struct err *err)
{
	_cleanup_(freep) char *lock_path = xasprintf("%s.lock", c->path);
	_cleanup_(str_deinit) struct str out = { 0 };
	_cleanup_(fd_closep) int lock = -1;
	struct loaded theirs;
	int r = 0;

	pthread_mutex_lock(&c->lock);
	if (c->dirty)
		r = fs_lock_path(lock_path, true, &lock, err);
	if (c->dirty && r == 0) {
		load(c->path, &theirs);
		merge(&theirs, c->fresh, &out);
		str_deinit(&theirs.bytes);
		r = fs_write_atomic_at(AT_FDCWD, c->path, out.s, out.len, 0644, FS_WRITE_NO_SYNC,
				       err);
		c->dirty = r != 0;
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}
