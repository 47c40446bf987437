/* The stat cache: when an entry is trusted, what survives a damaged file, what two processes make
 * of one file. Times are given, not waited for. */
#include <pthread.h>
#include <stdio.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "storage/local/statcache.h"
#include "unit.h"

#define T0 (1700000000 * NS_PER_S)

struct fixture {
	char dir[TEST_DIR_MAX];
	char *path;
};

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	test_dir(f->dir, sizeof(f->dir), "statcache");
	f->path = xasprintf("%s/cache", f->dir);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	fs_remove_tree(f->dir, NULL);
	free(f->path);
	free(f);
	return 0;
}

static struct timespec ts(int64_t ns)
{
	return (struct timespec){ ns / NS_PER_S, ns % NS_PER_S };
}

static struct stat stat_of(int64_t mtime_ns, int64_t ctime_ns)
{
	return (struct stat){ .st_dev = 3,
			      .st_ino = 4,
			      .st_size = 5,
			      .st_mtim = ts(mtime_ns),
			      .st_ctim = ts(ctime_ns) };
}

static struct content_id id_of(const char *text)
{
	struct content_id id = { .kind = CONTENT_BLOB, .size_bytes = strlen(text) };

	digest_bytes(text, strlen(text), &id.digest);
	return id;
}

static struct statcache *open_cache(const struct fixture *f)
{
	struct statcache *c;

	assert_int_equal(statcache_open(f->path, &c, NULL), 0);
	return c;
}

/* When the file was changed, and when it was hashed: may the entry be believed? */
static void test_racy(void **state)
{
	static const struct {
		const char *why;
		int64_t mtime_ns, ctime_ns, hashed_ns;
		bool trusted;
	} rows[] = {
		{ "quiet for an hour", T0 + 1, T0 + 1, T0 + 3600 * NS_PER_S, true },
		{ "quiet for 30 ms", T0 + 1, T0 + 1, T0 + 1 + 30 * NS_PER_MS, true },
		{ "changed in the tick in which it was hashed", T0 + 1, T0 + 1, T0 + 2 * NS_PER_MS,
		  false },
		{ "one tick at 100 Hz", T0 + 1, T0 + 1, T0 + 1 + 10 * NS_PER_MS, false },
		{ "mtime set back, changed just now", T0 - 3600 * NS_PER_S + 1, T0 + 1,
		  T0 + 2 * NS_PER_MS, false },
		{ "mtime in the future", T0 + 3600 * NS_PER_S + 1, T0 + 1, T0 + 60 * NS_PER_S,
		  false },
		{ "whole seconds: a file system that counts in seconds, one later", T0, T0,
		  T0 + NS_PER_S, false },
		{ "whole seconds, three later", T0, T0, T0 + 3 * NS_PER_S, true },
		{ "only the mtime is whole (tar, touch -d)", T0, T0 + 1, T0 + 1 + 30 * NS_PER_MS,
		  true },
	};
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct stat st = stat_of(rows[i].mtime_ns, rows[i].ctime_ns);
		struct content_id id = id_of("bytes"), got;
		struct statcache *c = open_cache(f);

		statcache_put(c, "file", &st, rows[i].hashed_ns, &id);
		if (statcache_get(c, "file", &st, &got) != rows[i].trusted)
			fail_msg("%s", rows[i].why);
		statcache_free(c);
	}
}

/* Each field by itself makes another file of it. */
static void test_every_field_counts(void **state)
{
	struct fixture *f = *state;
	struct statcache *c = open_cache(f);
	const struct stat st = stat_of(T0 + 1, T0 + 2);
	struct content_id id = id_of("bytes"), got;
	struct stat other;

	statcache_put(c, "file", &st, T0 + NS_PER_S, &id);
	assert_true(statcache_get(c, "file", &st, &got));
	assert_true(content_id_eq(&got, &id));
	assert_false(statcache_get(c, "./file", &st, &got));
	other = st, other.st_dev++;
	assert_false(statcache_get(c, "file", &other, &got));
	other = st, other.st_ino++;
	assert_false(statcache_get(c, "file", &other, &got));
	other = st, other.st_size++;
	assert_false(statcache_get(c, "file", &other, &got));
	other = st, other.st_mtim.tv_nsec++;
	assert_false(statcache_get(c, "file", &other, &got));
	other = st, other.st_ctim.tv_nsec++; /* the same inode again, same size, mtime set back */
	assert_false(statcache_get(c, "file", &other, &got));
	other = st, other.st_ctim.tv_sec++;
	assert_false(statcache_get(c, "file", &other, &got));
	statcache_free(c);
}

static void put_numbered(struct statcache *c, int i, const char *text)
{
	struct stat st = stat_of(T0 + 1 + i, T0 + 1 + i);
	struct content_id id = id_of(text);
	char name[32];

	snprintf(name, sizeof(name), "file %d", i);
	statcache_put(c, name, &st, T0 + NS_PER_S, &id);
}

static bool has_numbered(struct statcache *c, int i, const char *text)
{
	struct stat st = stat_of(T0 + 1 + i, T0 + 1 + i);
	struct content_id want = id_of(text), got;
	char name[32];

	snprintf(name, sizeof(name), "file %d", i);
	return statcache_get(c, name, &st, &got) && content_id_eq(&want, &got);
}

/* Two processes hash different files, and one of them twice. */
static void test_merge(void **state)
{
	struct fixture *f = *state;
	struct statcache *a, *b = open_cache(f);

	for (int i = 0; i < 100; i++)
		put_numbered(b, i, "old");
	assert_int_equal(statcache_save(b, NULL), 0);
	statcache_free(b);
	a = open_cache(f);
	b = open_cache(f);
	for (int i = 50; i < 150; i++)
		put_numbered(a, i, "a");
	for (int i = 140; i < 200; i++)
		put_numbered(b, i, "b");
	assert_int_equal(statcache_save(a, NULL), 0);
	assert_int_equal(statcache_save(b, NULL), 0);
	statcache_free(a);
	assert_true(has_numbered(b, 30, "old")); /* from what it loaded */
	statcache_free(b);
	b = open_cache(f);
	for (int i = 0; i < 200; i++)
		assert_true(has_numbered(b, i, i < 50 ? "old" : i < 140 ? "a" : "b"));
	assert_false(has_numbered(b, 200, "b"));
	statcache_free(b);
}

static void test_unchanged_is_not_written(void **state)
{
	struct fixture *f = *state;
	struct statcache *c = open_cache(f);
	struct stat before, after;

	assert_int_equal(statcache_save(c, NULL), 0);
	assert_int_equal(stat(f->path, &before), -1); /* nothing to say, no file */
	put_numbered(c, 1, "x");
	assert_int_equal(statcache_save(c, NULL), 0);
	assert_int_equal(stat(f->path, &before), 0);
	assert_int_equal(statcache_save(c, NULL), 0);
	assert_true(has_numbered(c, 1, "x"));
	assert_int_equal(stat(f->path, &after), 0);
	assert_true(before.st_ino == after.st_ino &&
		    before.st_mtim.tv_nsec == after.st_mtim.tv_nsec);
	statcache_free(c);
}

/* Cut anywhere, any byte changed: what can still be had is right, or nothing is. */
static void test_damaged_file(void **state)
{
	struct fixture *f = *state;
	struct statcache *c = open_cache(f);
	struct str bytes = { 0 };

	for (int i = 0; i < 3; i++)
		put_numbered(c, i, "x");
	assert_int_equal(statcache_save(c, NULL), 0);
	statcache_free(c);
	assert_int_equal(fs_read_file(f->path, MIB, &bytes, NULL), 0);
	for (size_t i = 0; i < 2 * bytes.len; i++) {
		size_t n = i < bytes.len ? i : bytes.len;
		struct str bad = { 0 };

		str_addn(&bad, bytes.s, n);
		if (i >= bytes.len)
			bad.s[i - bytes.len] ^= 0x10;
		assert_int_equal(fs_write_atomic_at(-100, f->path, bad.len ? bad.s : "", bad.len,
						    0644, FS_WRITE_NO_SYNC, NULL),
				 0);
		c = open_cache(f);
		/* Of the magic's padding nothing depends. */
		assert_int_equal(has_numbered(c, 1, "x"),
				 i >= bytes.len && i - bytes.len >= 18 && i - bytes.len < 24);
		statcache_free(c);
		str_deinit(&bad);
	}
	c = open_cache(f); /* and it is made anew */
	put_numbered(c, 7, "y");
	assert_int_equal(statcache_save(c, NULL), 0);
	statcache_free(c);
	c = open_cache(f);
	assert_true(has_numbered(c, 7, "y"));
	statcache_free(c);
	str_deinit(&bytes);
}

/* Many pieces, and a second save by the same process: the file is then no longer the one that it
 * loaded. */
static void test_large(void **state)
{
	struct fixture *f = *state;
	struct statcache *c = open_cache(f);

	for (int i = 0; i < 20000; i++)
		put_numbered(c, i, i % 2 ? "odd" : "even");
	assert_int_equal(statcache_save(c, NULL), 0);
	for (int i = 15000; i < 25000; i++)
		put_numbered(c, i, "again");
	assert_int_equal(statcache_save(c, NULL), 0);
	statcache_free(c);
	c = open_cache(f);
	for (int i = 0; i < 25000; i++)
		assert_true(has_numbered(c, i, i >= 15000 ? "again" : i % 2 ? "odd" : "even"));
	put_numbered(c, 3, "one"); /* the file is the one that was loaded */
	assert_int_equal(statcache_save(c, NULL), 0);
	statcache_free(c);
	c = open_cache(f);
	for (int i = 0; i < 5; i++)
		assert_true(has_numbered(c, i, i == 3 ? "one" : i % 2 ? "odd" : "even"));
	statcache_free(c);
}

/* Piece borders: the checksum and the count of the file fit, whatever the number of entries. */
static void test_borders(void **state)
{
	struct fixture *f = *state;
	static const int sizes[] = { 1, 4095, 4096, 4097, 8192 };

	for (size_t k = 0; k < ARRAY_LEN(sizes); k++) {
		struct statcache *c;

		(void)unlink(f->path);
		c = open_cache(f);
		for (int i = 0; i < sizes[k]; i++)
			put_numbered(c, i, "x");
		assert_int_equal(statcache_save(c, NULL), 0);
		statcache_free(c);
		c = open_cache(f);
		assert_true(has_numbered(c, 0, "x") && has_numbered(c, sizes[k] - 1, "x"));
		statcache_free(c);
	}
}

static void *use(void *arg)
{
	for (int i = 0; i < 500; i++) {
		put_numbered(arg, i, "x");
		if (!has_numbered(arg, i, "x") || (i % 100 == 0 && statcache_save(arg, NULL) < 0))
			return arg;
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct fixture *f = *state;
	struct statcache *c = open_cache(f);
	pthread_t t[3];
	void *failed;

	for (size_t i = 0; i < ARRAY_LEN(t); i++)
		assert_int_equal(pthread_create(&t[i], NULL, use, c), 0);
	for (size_t i = 0; i < ARRAY_LEN(t); i++) {
		pthread_join(t[i], &failed);
		assert_null(failed);
	}
	statcache_free(c);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_racy),         T(test_every_field_counts),
		T(test_merge),        T(test_unchanged_is_not_written),
		T(test_damaged_file), T(test_large),
		T(test_borders),      T(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
