/* The stat cache: one file of sorted fixed-size entries, keyed by SHA-256 of the path.
 *
 * Loaded whole (100,000 entries are 12 MB), looked up by binary search; new entries go to a map and are merged on save, under a lock file,
 * with what another process saved meanwhile. */
#include <pthread.h>
#include "base/fs.h"
#include "base/map.h"
#include "base/mem.h"
#include "storage/statcache.h"

#define MAGIC "cairn-statcache/1"
/* Above this the file is started anew: two million files are 250 MB of cache. */
#define FILE_MAX (256 * MIB)
/* Times on ext4, xfs and btrfs have the resolution of the kernel's tick (at most 10 ms); a change within this of the moment of
 * hashing could bear the same times. Coarser file systems (FAT: 2 s) show by whole seconds, see racy(). */
#define TICK_NS (20 * NS_PER_MS)

struct entry {
	uint8_t path[16]; /* first half of SHA-256 of the path */
	uint64_t dev, ino, size;
	int64_t mtime_ns, ctime_ns;
	int64_t hashed_ns; /* wall clock before hashing began */
	uint64_t content_size;
	uint8_t digest[DIGEST_BYTES];
};

struct statcache {
	char *path;
	struct entry *old;
	size_t n_old;
	struct map *fresh; /* path hash → struct entry * */
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

/* File: magic, its SHA-256 checksum of the entries, entries. Anything else is ignored. */
static void load(const char *path, struct entry **ret, size_t *ret_n)
{
	_cleanup_(str_deinit) struct str bytes = { 0 };
	const size_t head = sizeof(MAGIC) + DIGEST_BYTES;
	struct digest d;
	size_t n;

	*ret = NULL;
	*ret_n = 0;
	if (fs_read_file(path, FILE_MAX, &bytes, NULL) < 0 || bytes.len < head || memcmp(bytes.s, MAGIC, sizeof(MAGIC)) != 0)
		return;
	digest_bytes(bytes.s + head, bytes.len - head, &d);
	n = (bytes.len - head) / sizeof(struct entry);
	if (memcmp(d.b, bytes.s + sizeof(MAGIC), DIGEST_BYTES) != 0 || n * sizeof(struct entry) != bytes.len - head)
		return;
	*ret = xmalloc(n * sizeof(struct entry) + 1);
	memcpy(*ret, bytes.s + head, n * sizeof(struct entry));
	*ret_n = n;
}

int statcache_open(const char *path, struct statcache **ret, struct err *err)
{
	struct statcache *c = xcalloc(1, sizeof(*c));

	c->path = xstrdup(path);
	c->fresh = map_new();
	pthread_mutex_init(&c->lock, NULL);
	load(path, &c->old, &c->n_old);
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
	free(c->old);
	free(c->path);
	free(c);
}

static int64_t ns_of(struct timespec t)
{
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

/* Could the file have been changed after it was hashed without its times showing it? */
static bool racy(const struct entry *e)
{
	int64_t newest = MAX(e->mtime_ns, e->ctime_ns);
	bool whole_seconds = e->mtime_ns % NS_PER_S == 0 && e->ctime_ns % NS_PER_S == 0;

	return newest + (whole_seconds ? 2 * NS_PER_S : TICK_NS) > e->hashed_ns;
}

bool statcache_get(struct statcache *c, const char *path, const struct stat *st, struct content_id *ret)
{
	struct entry key, *e;

	hash_path(path, key.path);
	pthread_mutex_lock(&c->lock);
	e = map_get(c->fresh, key.path, sizeof(key.path));
	if (!e && c->n_old)
		e = bsearch(&key, c->old, c->n_old, sizeof(key), order);
	if (e)
		key = *e;
	pthread_mutex_unlock(&c->lock);
	if (!e || key.dev != st->st_dev || key.ino != st->st_ino || key.size != (uint64_t)st->st_size || key.mtime_ns != ns_of(st->st_mtim) ||
	    key.ctime_ns != ns_of(st->st_ctim) || racy(&key))
		return false;
	*ret = (struct content_id){ .size_bytes = key.content_size, .kind = CONTENT_BLOB };
	memcpy(ret->digest.b, key.digest, DIGEST_BYTES);
	return true;
}

void statcache_put(struct statcache *c, const char *path, const struct stat *st, int64_t hashed_wall_ns, const struct content_id *id)
{
	struct entry *e = xcalloc(1, sizeof(*e));
	void **slot;

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
	pthread_mutex_unlock(&c->lock);
}

static void merge(const struct entry *old, size_t n_old, const struct map *fresh, struct entry **ret, size_t *ret_n)
{
	size_t n_fresh = map_len(fresh), n = 0, i = 0, k = 0;
	struct entry *sorted = xcalloc(n_fresh + 1, sizeof(*sorted)), *out = xcalloc(n_old + n_fresh + 1, sizeof(*out));

	for (size_t f = 0; f < n_fresh; f++)
		sorted[f] = *(struct entry *)map_at(fresh, f, NULL, NULL);
	qsort(sorted, n_fresh, sizeof(*sorted), order);
	while (i < n_old || k < n_fresh) {
		int r = i == n_old ? 1 : k == n_fresh ? -1 : order(&old[i], &sorted[k]);

		out[n++] = r < 0 ? old[i] : sorted[k];
		i += r <= 0;
		k += r >= 0;
	}
	free(sorted);
	*ret = out;
	*ret_n = n;
}

static int write_entries(const char *path, const struct entry *e, size_t n, struct err *err)
{
	_cleanup_(str_deinit) struct str out = { 0 };
	struct digest d;

	digest_bytes(e, n * sizeof(*e), &d);
	str_addn(&out, MAGIC, sizeof(MAGIC));
	str_addn(&out, d.b, DIGEST_BYTES);
	str_addn(&out, e, n * sizeof(*e));
	return fs_write_atomic_at(AT_FDCWD, path, out.s, out.len, 0644, FS_WRITE_NO_SYNC, err);
}

int statcache_save(struct statcache *c, struct err *err)
{
	_cleanup_(freep) char *lock_path = xasprintf("%s.lock", c->path);
	_cleanup_(fd_closep) int lock = -1;
	struct entry *old, *merged;
	size_t n_old, n;
	int r;

	if (map_len(c->fresh) == 0)
		return 0;
	if (fs_lock_path(lock_path, true, &lock, err) < 0)
		return -1;
	load(c->path, &old, &n_old);
	merge(old, n_old, c->fresh, &merged, &n);
	if (n * sizeof(*merged) + 1024 > FILE_MAX)
		n = 0;
	r = write_entries(c->path, merged, n, err);
	free(old);
	free(merged);
	return r;
}
