/* storage/local/statcache.c — the stat cache: one file of sorted entries of fixed size, keyed by
 * SHA-256 of the path.
 *
 * The file is loaded whole (100,000 entries are 10 MB) and searched by the first bits of their
 * keys. New entries go to the map `fresh`, and are merged on save, under a lock file, with what
 * another process saved meanwhile. An incomplete file (magic, length, checksum) counts as absent.
 * The merged entries go to the new file in pieces, and a file that is still the one we loaded isn't
 * loaded again. So a save takes little memory beside what is held anyway: 108 bytes a file.
 *
 * racy() decides whether an entry can be trusted. An entry names the bytes as a plain file; whether
 * the file is executable is read from its mode each time.
 *
 * `lock` guards `fresh` and is held while the file is saved. What was loaded never changes.
 */
#include "storage/local/statcache.h"
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "storage/internal.h"

/* 3: entries of version 2 may be of file systems whose times don't show every change. */
#define MAGIC "cairn-statcache/3"
/* Above this the file is started anew: it holds 2.5 million files. */
#define FILE_MAX (256 * MIB)

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
	uint32_t *starts; /* of the entries whose keys begin with these `bits` bits: index in v */
	unsigned bits;
	struct stat st; /* of the file, from before it was read; zeros: there was none */
};

struct statcache {
	char *path;
	struct loaded old;
	struct map *fresh;   /* path hash → struct entry * */
	struct arena *arena; /* the entries of `fresh` */
	bool dirty;          /* `fresh` has entries that the file lacks */
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
struct checksum {
	uint64_t h[4];
};

#define CHECKSUM_BLOCK (4 * sizeof(uint64_t))

/* `n`: all bytes that will be added. */
static struct checksum checksum_begin(size_t n)
{
	return (struct checksum){ { n, 1, 2, 3 } };
}

/* All pieces but the last are multiples of CHECKSUM_BLOCK. */
static void checksum_add(struct checksum *c, const void *bytes, size_t n)
{
	uint64_t w[4];

	_Static_assert(sizeof(struct entry) % 8 == 0, "read by words");
	for (size_t at = 0; at < n; at += sizeof(w)) {
		memset(w, 0, sizeof(w));
		memcpy(w, (const uint8_t *)bytes + at, MIN(sizeof(w), n - at));
		for (int i = 0; i < 4; i++) {
			c->h[i] = (c->h[i] ^ w[i]) * 0xbf58476d1ce4e5b9ULL;
			c->h[i] ^= c->h[i] >> 29;
		}
	}
}

static uint64_t checksum_end(const struct checksum *c)
{
	uint64_t sum = c->h[0];

	for (int i = 1; i < 4; i++)
		sum = ((sum ^ c->h[i]) * 0x94d049bb133111ebULL) ^ (sum >> 31);
	return sum;
}

static size_t bucket_of(const struct loaded *l, const struct entry *e)
{
	uint32_t head = 0;

	for (size_t i = 0; i < sizeof(head); i++)
		head = head << 8 | e->path[i];
	return head >> (32 - l->bits);
}

/* Keys are digests, so about one entry begins with each value of `bits` bits. Looking it up costs
 * two cache misses. Bisection among a million entries costs twenty. False: they aren't sorted. */
static bool make_starts(struct loaded *l)
{
	size_t bucket = 0;

	for (l->bits = 1; l->bits < 31 && (size_t)1 << l->bits < l->n; l->bits++)
		;
	l->starts = xcalloc(((size_t)1 << l->bits) + 1, sizeof(*l->starts));
	for (size_t i = 0; i < l->n; i++) {
		size_t b = bucket_of(l, &l->v[i]);

		if (b < bucket)
			return false;
		while (bucket < b)
			l->starts[++bucket] = (uint32_t)i;
	}
	while (bucket < (size_t)1 << l->bits)
		l->starts[++bucket] = (uint32_t)l->n; /* n < 2^32: FILE_MAX */
	return true;
}

static void loaded_deinit(struct loaded *l)
{
	str_deinit(&l->bytes);
	free(l->starts);
}

/* Ignores a file that isn't complete. */
static void load(const char *path, struct loaded *ret)
{
	struct checksum sum;
	struct head head;

	*ret = (struct loaded){ 0 };
	if (stat(path, &ret->st) < 0)
		ret->st = (struct stat){ 0 };
	if (fs_read_file(path, FILE_MAX, &ret->bytes, NULL) < 0 || ret->bytes.len < sizeof(head))
		return;
	memcpy(&head, ret->bytes.s, sizeof(head));
	sum = checksum_begin(ret->bytes.len - sizeof(head));
	checksum_add(&sum, ret->bytes.s + sizeof(head), ret->bytes.len - sizeof(head));
	if (memcmp(head.magic, MAGIC, sizeof(MAGIC)) != 0 ||
	    head.n != (ret->bytes.len - sizeof(head)) / sizeof(struct entry) ||
	    ret->bytes.len != sizeof(head) + head.n * sizeof(struct entry) ||
	    head.sum != checksum_end(&sum))
		return;
	ret->v = (const struct entry
			  *)(const void *)(ret->bytes.s +
					   sizeof(head)); /* malloc's alignment, and 40 bytes */
	ret->n = head.n;
	if (!make_starts(ret))
		ret->n = 0;
}

int statcache_open(const char *path, struct statcache **ret, struct err *err)
{
	struct statcache *c = xcalloc(1, sizeof(*c));

	c->path = xstrdup(path);
	c->fresh = map_new();
	c->arena = arena_new();
	pthread_mutex_init(&c->lock, NULL);
	load(path, &c->old);
	*ret = c;
	return 0;
}

void statcache_free(struct statcache *c)
{
	if (!c)
		return;
	map_free(c->fresh);
	arena_free(c->arena);
	pthread_mutex_destroy(&c->lock);
	loaded_deinit(&c->old);
	free(c->path);
	free(c);
}

/* Tells whether the file could have changed after it was hashed without a change of its times. */
static bool racy(const struct entry *e, bool linked)
{
	int64_t newest = linked ? e->mtime_ns : MAX(e->mtime_ns, e->ctime_ns);
	bool whole_seconds = e->mtime_ns % NS_PER_S == 0 && e->ctime_ns % NS_PER_S == 0;

	return newest + ns_of_tick(whole_seconds) > e->hashed_ns;
}

static const struct entry *find(const struct loaded *l, const struct entry *key)
{
	size_t bucket, low;

	if (l->n == 0)
		return NULL;
	bucket = bucket_of(l, key);
	low = l->starts[bucket];
	return bsearch(key, l->v + low, l->starts[bucket + 1] - low, sizeof(*key), order);
}

static bool get(struct statcache *c, const char *path, const struct stat *st, bool linked,
		struct content_id *ret)
{
	const struct entry *e;
	struct entry key;
	bool fresh;

	hash_path(path, key.path);
	pthread_mutex_lock(&c->lock);
	e = map_get(c->fresh, key.path, sizeof(key.path));
	fresh = e != NULL;
	if (fresh)
		key = *e;
	pthread_mutex_unlock(&c->lock);
	if (!fresh) {
		e = find(&c->old, &key); /* it never changes */
		if (e)
			key = *e;
	}
	if (!e || key.dev != st->st_dev || key.ino != st->st_ino ||
	    key.size != (uint64_t)st->st_size || key.mtime_ns != ns_of(st->st_mtim) ||
	    (!linked && key.ctime_ns != ns_of(st->st_ctim)) || racy(&key, linked))
		return false;
	*ret = (struct content_id){ .size_bytes = key.content_size, .kind = CONTENT_BLOB };
	memcpy(ret->digest.b, key.digest, DIGEST_BYTES);
	return true;
}

bool statcache_get(struct statcache *c, const char *path, const struct stat *st,
		   struct content_id *ret)
{
	return get(c, path, st, false, ret);
}

bool statcache_get_linked(struct statcache *c, const char *path, const struct stat *st,
			  struct content_id *ret)
{
	return get(c, path, st, true, ret);
}

void statcache_put(struct statcache *c, const char *path, const struct stat *st,
		   int64_t hashed_wall_ns, const struct content_id *id)
{
	struct entry e = { .dev = st->st_dev,
			   .ino = st->st_ino,
			   .size = (uint64_t)st->st_size,
			   .mtime_ns = ns_of(st->st_mtim),
			   .ctime_ns = ns_of(st->st_ctim),
			   .hashed_ns = hashed_wall_ns,
			   .content_size = id->size_bytes };
	void **slot;

	assert(content_is_file(id));
	hash_path(path, e.path);
	memcpy(e.digest, id->digest.b, DIGEST_BYTES);
	pthread_mutex_lock(&c->lock);
	slot = map_slot(c->fresh, e.path, sizeof(e.path), NULL);
	if (!*slot)
		*slot = arena_alloc(c->arena, sizeof(e));
	memcpy(*slot, &e, sizeof(e));
	c->dirty = true;
	pthread_mutex_unlock(&c->lock);
}

static int order_at(const void *a, const void *b)
{
	return order(*(const struct entry *const *)a, *(const struct entry *const *)b);
}

/* How many of the entries have a path that `theirs` has too. */
static size_t n_common(const struct loaded *theirs, const struct entry *const *sorted, size_t n)
{
	size_t common = 0;

	for (size_t i = 0; i < n; i++)
		common += find(theirs, sorted[i]) != NULL;
	return common;
}

/* A multiple of CHECKSUM_BLOCK, because an entry is a multiple of 8. */
#define PIECE_ENTRIES ((size_t)4 * 1024)

/* Writes the merged entries to the empty file. Our entries win over theirs: both were true when
 * they were hashed, and this process will look for ours again. */
static int write_merged(int fd, const struct loaded *theirs, const struct entry *const *sorted,
			size_t n_fresh, struct err *err)
{
	_cleanup_(freep) struct entry *piece = xcalloc(PIECE_ENTRIES, sizeof(*piece));
	struct head head = { .magic = MAGIC };
	size_t i = 0, k = 0, used = 0;
	struct checksum sum;

	_Static_assert(PIECE_ENTRIES * sizeof(*piece) % CHECKSUM_BLOCK == 0, "whole blocks");
	if ((theirs->n + n_fresh) * sizeof(*piece) + sizeof(head) > FILE_MAX)
		i = theirs->n; /* drop the old entries: many are of files long gone */
	head.n = theirs->n - i + n_fresh - (i ? 0 : n_common(theirs, sorted, n_fresh));
	sum = checksum_begin(head.n * sizeof(*piece));
	if (fs_write_all(fd, &head, sizeof(head), err) < 0)
		return -1;
	while (i < theirs->n || k < n_fresh) {
		int r = i == theirs->n ? 1 : k == n_fresh ? -1 : order(&theirs->v[i], sorted[k]);

		piece[used++] = r < 0 ? theirs->v[i] : *sorted[k];
		i += r <= 0;
		k += r >= 0;
		if (used < PIECE_ENTRIES && (i < theirs->n || k < n_fresh))
			continue;
		checksum_add(&sum, piece, used * sizeof(*piece));
		if (fs_write_all(fd, piece, used * sizeof(*piece), err) < 0)
			return -1;
		used = 0;
	}
	head.sum = checksum_end(&sum);
	return pwrite(fd, &head, sizeof(head), 0) == sizeof(head) ? 0
								  : err_errno(err, "cannot write");
}

/* Replaces the file. Without fsync: a file that a crash damages is ignored. */
static int replace(const struct statcache *c, const struct loaded *theirs, struct err *err)
{
	size_t n = map_len(c->fresh);
	_cleanup_(freep) const struct entry **sorted = xcalloc(n + 1, sizeof(*sorted));
	_cleanup_(freep) char *temp = NULL;
	_cleanup_(fd_closep) int fd = -1;
	int r;

	for (size_t i = 0; i < n; i++)
		sorted[i] = map_at(c->fresh, i, NULL, NULL);
	qsort(sorted, n, sizeof(*sorted), order_at);
	if (fs_temp_at(AT_FDCWD, c->path, 0644, &fd, &temp, err) < 0)
		return -1;
	r = write_merged(fd, theirs, sorted, n, err);
	if (r == 0 && rename(temp, c->path) < 0)
		r = err_errno(err, "cannot replace");
	if (r < 0) {
		unlink(temp);
		return err_wrap(err, "%s", c->path);
	}
	return 0;
}

/* Tells whether the file is still the one that was loaded. It is only ever replaced whole. */
static bool is_current(const struct statcache *c)
{
	const struct stat *was = &c->old.st;
	struct stat st;

	if (stat(c->path, &st) < 0)
		return errno == ENOENT && was->st_ino == 0;
	return st.st_dev == was->st_dev && st.st_ino == was->st_ino && st.st_size == was->st_size &&
	       ns_of(st.st_mtim) == ns_of(was->st_mtim) && ns_of(st.st_ctim) == ns_of(was->st_ctim);
}

int statcache_save(struct statcache *c, struct err *err)
{
	_cleanup_(freep) char *lock_path = xasprintf("%s.lock", c->path);
	_cleanup_(fd_closep) int lock = -1;
	struct loaded theirs = { 0 };
	int r = 0;

	pthread_mutex_lock(&c->lock);
	if (c->dirty)
		r = fs_lock_path(lock_path, true, &lock, err);
	if (c->dirty && r == 0) {
		bool current = is_current(c);

		if (!current)
			load(c->path, &theirs);
		r = replace(c, current ? &c->old : &theirs, err);
		loaded_deinit(&theirs);
		c->dirty = r != 0;
	}
	pthread_mutex_unlock(&c->lock);
	return r;
}
