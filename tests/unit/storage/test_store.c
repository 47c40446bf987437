/* The store interface, on a directory and in memory: the same random operations against a naive
 * model; versions, full and read-only disks, damage, durability of what is found instead of
 * written. */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include "base/os/fs.h"
#include "base/time/clock.h"
#include "storage/internal.h"
#include "unit.h"
#include "unit/broken_dir.h"

/* The store's calls come here. */
static unsigned n_fsync, n_syncfs;

int fsync(int fd)
{
	n_fsync++;
	return (int)syscall(SYS_fsync, fd);
}

int syncfs(int fd)
{
	n_syncfs++;
	return (int)syscall(SYS_syncfs, fd);
}

struct fixture {
	char dir[TEST_DIR_MAX];
	char *path;
	struct store *s;
};

static int setup(void **state)
{
	struct fixture *f = xcalloc(1, sizeof(*f));

	test_dir(f->dir, sizeof(f->dir), "store");
	f->path = xasprintf("%s/store", f->dir);
	assert_int_equal(store_open(f->path, true, &f->s, NULL), 0);
	*state = f;
	return 0;
}

static int teardown(void **state)
{
	struct fixture *f = *state;

	store_free(f->s);
	fs_remove_tree(f->dir, NULL);
	free(f->path);
	free(f);
	return 0;
}

static uint64_t rnd_state;
static uint32_t rnd(uint32_t n)
{
	rnd_state = rnd_state * 6364136223846793005ULL + 1442695040888963407ULL;
	return (uint32_t)(rnd_state >> 33) % n;
}

static char *object_path(const struct fixture *f, const char *space, const struct digest *d)
{
	char hex[DIGEST_HEX_MAX];

	digest_hex(d, hex);
	return xasprintf("%s/%s/%.2s/%s", f->path, space, hex, hex);
}

/* Against a model. */

#define N_NAMES 40

struct model {
	struct digest names[N_NAMES];
	char bytes[N_NAMES][32];
	bool there[STORE_SPACES][N_NAMES];
	size_t listed;
	enum store_space space;
};

static int list_model(void *arg, const struct digest *name, uint64_t size_bytes, int64_t mtime_ns)
{
	struct model *m = arg;

	for (size_t i = 0; i < N_NAMES; i++)
		if (digest_eq(&m->names[i], name)) {
			assert_true(m->there[m->space][i]);
			assert_int_equal(size_bytes, strlen(m->bytes[i]));
			m->listed++;
			return 0;
		}
	fail_msg("listed what was never put");
	return 0;
}

static void check_all(struct store *s, struct model *m)
{
	for (int space = 0; space < STORE_SPACES; space++) {
		size_t want = 0;

		for (size_t i = 0; i < N_NAMES; i++)
			want += m->there[space][i];
		m->space = (enum store_space)space;
		m->listed = 0;
		assert_int_equal(store_list(s, m->space, list_model, m, NULL), 0);
		assert_int_equal(m->listed, want);
	}
}

static void check_has(struct store *s, const struct model *m)
{
	struct content_id ids[2 * N_NAMES + 1] = { 0 };
	bool ret[ARRAY_LEN(ids)];

	for (size_t i = 0; i < N_NAMES; i++) {
		uint64_t lie = rnd(4) == 0;

		ids[2 * i] =
			(struct content_id){ m->names[i], strlen(m->bytes[i]) + lie, CONTENT_BLOB };
		ids[2 * i + 1] =
			(struct content_id){ m->names[i], strlen(m->bytes[i]), CONTENT_TREE };
	}
	memset(ret, 0x55, sizeof(ret));
	assert_int_equal(store_has(s, ids, ARRAY_LEN(ids), ret, NULL), 0);
	for (size_t i = 0; i < N_NAMES; i++) {
		assert_int_equal(ret[2 * i], m->there[STORE_BLOB][i] &&
						     ids[2 * i].size_bytes == strlen(m->bytes[i]));
		assert_int_equal(ret[2 * i + 1], m->there[STORE_TREE][i]);
	}
	assert_false(ret[2 * N_NAMES]); /* kind none is nowhere */
}

static void one_operation(struct store *s, struct model *m)
{
	enum store_space space = (enum store_space)rnd(STORE_SPACES);
	size_t i = rnd(N_NAMES), n = strlen(m->bytes[i]);
	struct str got = { 0 };
	struct err err = { 0 };

	switch (rnd(4)) {
	case 0:
		assert_int_equal(store_put(s, space, &m->names[i], m->bytes[i], n, NULL),
				 m->there[space][i]);
		m->there[space][i] = true;
		break;
	case 1:
		assert_int_equal(store_delete(s, space, &m->names[i], NULL), 0);
		m->there[space][i] = false;
		break;
	case 2:
		str_add(&got, "before");
		assert_int_equal(store_get(s, space, &m->names[i], n, &got, &err),
				 m->there[space][i] ? 0 : -1);
		assert_int_equal(err.code, m->there[space][i] ? ERR_NONE : ERR_NOT_FOUND);
		assert_int_equal(got.len, 6 + (m->there[space][i] ? n : 0));
		assert_memory_equal(got.s + 6, m->bytes[i], got.len - 6);
		if (m->there[space][i] && n) {
			assert_int_equal(store_get(s, space, &m->names[i], n - 1, &got, &err), -1);
			assert_int_equal(err.code, ERR_TOO_LARGE);
		}
		str_deinit(&got);
		break;
	default:
		check_has(s, m);
	}
}

static void random_operations(struct store *s)
{
	struct model m = { 0 };

	for (size_t i = 1; i < N_NAMES; i++)
		snprintf(m.bytes[i], sizeof(m.bytes[i]), "object %zu", i);
	for (size_t i = 0; i < N_NAMES; i++)
		digest_bytes(m.bytes[i], strlen(m.bytes[i]), &m.names[i]);
	for (int step = 0; step < 3000; step++) {
		one_operation(s, &m);
		if (step % 300 == 0) {
			check_all(s, &m);
			assert_int_equal(store_sync(s, NULL), 0);
		}
	}
}

static void test_model_dir(void **state)
{
	struct fixture *f = *state;

	rnd_state = 1;
	random_operations(f->s);
}

static void test_model_memory(void **state)
{
	struct store *s;

	rnd_state = 2;
	assert_int_equal(store_open("memory:", true, &s, NULL), 0);
	random_operations(s);
	store_free(s);
}

static int stop_at_two(void *arg, const struct digest *name, uint64_t size_bytes, int64_t mtime_ns)
{
	return ++*(int *)arg == 2 ? 77 : 0;
}

static void test_list_stops(void **state)
{
	struct fixture *f = *state;
	struct content_id id;
	int n = 0;

	for (int i = 0; i < 5; i++)
		content_put_bytes(f->s, &i, sizeof(i), &id, NULL);
	assert_int_equal(store_list(f->s, STORE_BLOB, stop_at_two, &n, NULL), 77);
	assert_int_equal(n, 2);
}

static int count(void *arg, const struct digest *name, uint64_t size_bytes, int64_t mtime_ns)
{
	++*(int *)arg;
	return 0;
}

/* gc takes what isn't listed for gone: of a directory that breaks off, no part is the whole. */
static void test_list_breaks(void **state)
{
	struct fixture *f = *state;
	struct content_id id;
	long after = 0;
	int n, r;

	for (int i = 0; i < 5; i++)
		content_put_bytes(f->s, &i, sizeof(i), &id, NULL);
	do {
		struct err err = { 0 };

		n = 0;
		dir_broke = false;
		dir_breaks_after = after++;
		r = store_list(f->s, STORE_BLOB, count, &n, &err);
		dir_breaks_after = -1;
		assert_int_equal(r, dir_broke ? -1 : 0);
		assert_int_equal(err.code, dir_broke ? ERR_IO : ERR_NONE);
	} while (dir_broke);
	assert_int_equal(n, 5);
	assert_true(after > 5);
}

/* Opening. */

static void open_fails(const char *uri, bool create, enum err_code code, const char *says)
{
	struct err err = { 0 };
	struct store *s = NULL;

	assert_int_equal(store_open(uri, create, &s, &err), -1);
	assert_int_equal(err.code, code);
	assert_null(s);
	if (!strstr(err.msg, says))
		fail_msg("`%s` doesn't say `%s`", err.msg, says);
}

static void test_open(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *absent = xasprintf("%s/no/where", f->dir),
			      *version = xasprintf("%s/version", f->path);
	struct store *s;

	open_fails("s3://bucket/x", true, ERR_INVALID, "a directory is needed in front of it");
	open_fails("gs://bucket/x", true, ERR_INVALID, "a directory is needed in front of it");
	open_fails("ftp://bucket/x", true, ERR_INVALID, "neither a directory nor");
	open_fails("relative/path", true, ERR_INVALID, "relative/path");
	open_fails(absent, false, ERR_NOT_FOUND, absent);
	open_fails(f->dir, false, ERR_NOT_FOUND, "version");
	assert_int_equal(store_open(absent, true, &s, NULL), 0); /* parents too */
	assert_string_equal(store_uri(s), absent);
	store_free(s);
	assert_int_equal(store_open(absent, false, &s, NULL), 0);
	store_free(s);
	assert_int_equal(fs_write_atomic(version, "cairn store 3\n", 14, NULL), 0);
	open_fails(f->path, true, ERR_NEWER, "newer");
	assert_int_equal(fs_write_atomic(version, "something", 9, NULL), 0);
	open_fails(f->path, true, ERR_CORRUPT, "version");
	store_free(NULL);
}

/* Damage. */

static void overwrite(const char *path, const char *bytes)
{
	int fd;

	assert_int_equal(chmod(path, 0644), 0);
	fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(fs_write_all(fd, bytes, strlen(bytes), NULL), 0);
	close(fd);
}

static void test_get_verifies(void **state)
{
	static const struct {
		enum store_space space;
		const char *dir;
		bool checked;
	} rows[] = { { STORE_BLOB, "blobs", true },
		     { STORE_TREE, "trees", true },
		     { STORE_RUN, "runs", true },
		     { STORE_ACTION, "actions", false } };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(str_deinit) struct str got = { 0 };
		_cleanup_(freep) char *path = NULL;
		struct err err = { 0 };
		struct digest d;

		digest_bytes("good", 4, &d);
		assert_int_equal(store_put(f->s, rows[i].space, &d, "good", 4, NULL), 0);
		path = object_path(f, rows[i].dir, &d);
		overwrite(path, "evil");
		if (!rows[i].checked) { /* named by its key: who decodes it checks */
			assert_int_equal(store_get(f->s, rows[i].space, &d, 4, &got, &err), 0);
			continue;
		}
		assert_int_equal(store_get(f->s, rows[i].space, &d, 4, &got, &err), -1);
		assert_int_equal(err.code, ERR_CORRUPT);
		assert_int_equal(got.len, 0);
		assert_int_equal(access(path, F_OK),
				 -1); /* set aside, so that the next put makes it anew */
		assert_int_equal(store_put(f->s, rows[i].space, &d, "good", 4, NULL), 0);
		assert_int_equal(store_get(f->s, rows[i].space, &d, 4, &got, NULL), 0);
	}
}

/* A listing can state any size for a blob. The blob isn't to blame. */
static void test_wrong_size_is_not_damage(void **state)
{
	struct fixture *f = *state;
	_cleanup_(str_deinit) struct str got = { 0 };
	struct content_id id, lie;
	struct err err = { 0 };
	bool present = false;
	int fd;

	assert_int_equal(content_put_bytes(f->s, "in order", 8, &id, NULL), 0);
	lie = id;
	lie.size_bytes = 9;
	assert_int_equal(content_open(f->s, &lie, &fd, &err), -1);
	assert_int_equal(err.code, ERR_CORRUPT);
	assert_int_equal(content_read(f->s, &lie, 100, &got, &err), -1);
	assert_int_equal(err.code, ERR_CORRUPT);
	assert_int_equal(got.len, 0);
	assert_int_equal(content_verify(f->s, &lie, &err), -1);
	assert_int_equal(store_has(f->s, &id, 1, &present, NULL), 0);
	assert_true(present);
	assert_int_equal(content_read(f->s, &id, 8, &got, NULL), 0);
	assert_memory_equal(got.s, "in order", 8);
}

static void test_found_looks_young(void **state)
{
	struct fixture *f = *state;
	_cleanup_(freep) char *path = NULL;
	const struct timespec old[2] = { { .tv_sec = 1000000000 }, { .tv_sec = 1000000000 } };
	struct content_id id;
	struct stat st;

	assert_int_equal(content_put_bytes(f->s, "x", 1, &id, NULL), 0);
	path = object_path(f, "blobs", &id.digest);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0444);
	assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
	assert_int_equal(content_put_bytes(f->s, "x", 1, &id, NULL), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_true(st.st_mtime > 1000000000);
}

/* Disks that are full or can't be written to. */

/* In a child with a mount namespace of its own: exit status 0 as it should be, 77 mounting isn't
 * allowed here. */
static int with_small_disk(const char *dir, int (*fn)(struct store *s, const char *dir))
{
	pid_t pid = fork();
	int status = 0;

	assert_true(pid >= 0);
	if (pid == 0) {
		struct store *s;

		if (unshare(CLONE_NEWNS) < 0 ||
		    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		    mount("small", dir, "tmpfs", 0, "size=256k,nr_inodes=1k") < 0)
			_exit(77);
		_exit(store_open(dir, true, &s, NULL) < 0 ? 1 : fn(s, dir));
	}
	waitpid(pid, &status, 0);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 99;
}

static int fill(struct store *s, const char *dir)
{
	char bytes[8192] = { 0 };
	struct err err = { 0 };
	struct content_id id;
	struct store_leftovers left = { 0 };
	int i;

	for (i = 0; i < 100; i++) {
		memcpy(bytes, &i, sizeof(i));
		if (content_put_bytes(s, bytes, sizeof(bytes), &id, &err) < 0)
			break;
	}
	if (i == 100 || err.code != ERR_NO_SPACE || !strstr(err.msg, dir))
		return 2;
	if (s->ops->gc->leftovers(s, LEFTOVER_TEMPORARY, INT64_MAX, true, &left, NULL) < 0 ||
	    left.n != 0)
		return 3; /* the half-written one is gone */
	if (store_delete(s, STORE_BLOB, &id.digest, NULL) < 0)
		return 4;
	return 0;
}

static int read_only(struct store *s, const char *dir)
{
	struct err err = { 0 };
	struct content_id id;
	struct str got = { 0 };

	if (content_put_bytes(s, "before", 6, &id, NULL) < 0 ||
	    mount(NULL, dir, NULL, MS_REMOUNT | MS_RDONLY, NULL) < 0)
		return 2;
	if (content_read(s, &id, 100, &got, NULL) < 0)
		return 3;
	if (content_put_bytes(s, "before", 6, &id, NULL) < 0)
		return 4; /* what is there needs no writing */
	if (content_put_bytes(s, "after", 5, &id, &err) == 0 || err.code != ERR_READ_ONLY ||
	    !strstr(err.msg, dir))
		return 5;
	return 0;
}

static void test_full_disk(void **state)
{
	struct fixture *f = *state;
	int r = with_small_disk(f->dir, fill);

	if (r == 77)
		skip();
	assert_int_equal(r, 0);
}

static void test_read_only_disk(void **state)
{
	struct fixture *f = *state;
	int r = with_small_disk(f->dir, read_only);

	if (r == 77)
		skip();
	assert_int_equal(r, 0);
}

/* Many at once. */

#define N_THREADS 4
#define N_EACH    300

/* Threads put, find, read, look up, sync and forget the same objects. */
static void *busy(void *arg)
{
	struct store *s = arg;

	for (int i = 0; i < N_EACH; i++) {
		_cleanup_(str_deinit) struct str got = { 0 };
		struct content_id id;
		char bytes[32];
		bool present = false;

		snprintf(bytes, sizeof(bytes), "busy %d", i);
		if (content_put_bytes(s, bytes, strlen(bytes), &id, NULL) < 0 ||
		    store_has(s, &id, 1, &present, NULL) < 0 || !present ||
		    content_read(s, &id, 100, &got, NULL) < 0 || strcmp(got.s, bytes) != 0)
			return s;
		store_note_complete(s, &id.digest);
		if (i % 20 == 0 && store_sync(s, NULL) < 0)
			return s;
		if (i % 50 == 0)
			store_forget(s, &id.digest);
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct fixture *f = *state;
	struct store *memory;
	pthread_t t[N_THREADS];
	void *failed;

	assert_int_equal(store_open("memory:", true, &memory, NULL), 0);
	for (size_t k = 0; k < 2; k++) {
		for (size_t i = 0; i < N_THREADS; i++)
			assert_int_equal(pthread_create(&t[i], NULL, busy, k ? memory : f->s), 0);
		for (size_t i = 0; i < N_THREADS; i++) {
			pthread_join(t[i], &failed);
			assert_null(failed);
		}
	}
	store_free(memory);
}

/* Every new object is flushed: alone with its directory, or with all of the file system. Few never
 * wait for what other programs write. */
static void test_flushes(void **state)
{
	static const struct {
		unsigned n;
		bool may_each, may_all;
	} rows[] = { { 1, true, false },
		     { 4, true, false },
		     { 5, true, true },
		     { 300, true, true },
		     { 4097, false, true } };
	struct fixture *f = *state;

	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct content_id id;

		for (unsigned k = 0; k < rows[i].n; k++) {
			char text[32];

			snprintf(text, sizeof(text), "%zu %u", i, k);
			assert_int_equal(content_put_bytes(f->s, text, strlen(text), &id, NULL), 0);
		}
		n_fsync = n_syncfs = 0;
		assert_int_equal(store_sync(f->s, NULL), 0);
		if (n_syncfs == 0) {
			assert_true(rows[i].may_each);
			assert_true(n_fsync >= rows[i].n + 1);
		} else {
			assert_true(rows[i].may_all);
			assert_int_equal(n_syncfs, 1);
			assert_int_equal(n_fsync, 0);
		}
		n_fsync = n_syncfs = 0;
		assert_int_equal(store_sync(f->s, NULL), 0);
		assert_int_equal(n_fsync + n_syncfs, 0);
	}
}

/* What was put and isn't flushed yet. What a process finds that another one put a moment ago
 * counts, too. */
static void test_unsynced(void **state)
{
	struct fixture *f = *state;
	struct store *memory;
	struct content_id id;

	assert_int_equal(store_unsynced(f->s), 0);
	assert_int_equal(content_put_bytes(f->s, "four", 4, &id, NULL), 0);
	assert_int_equal(content_put_bytes(f->s, "seven..", 7, &id, NULL), 0);
	assert_int_equal(store_unsynced(f->s), 11);
	assert_int_equal(store_sync(f->s, NULL), 0);
	assert_int_equal(store_unsynced(f->s), 0);
	assert_int_equal(content_put_bytes(f->s, "four", 4, &id, NULL), 0);
	assert_int_equal(store_unsynced(f->s), 4);
	assert_int_equal(store_open("memory:", true, &memory, NULL), 0);
	assert_int_equal(content_put_bytes(memory, "four", 4, &id, NULL), 0);
	assert_int_equal(store_unsynced(memory), 0);
	store_free(memory);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(test_flushes),
		T(test_unsynced),
		T(test_model_dir),
		cmocka_unit_test(test_model_memory),
		T(test_list_stops),
		T(test_list_breaks),
		T(test_open),
		T(test_get_verifies),
		T(test_wrong_size_is_not_damage),
		T(test_found_looks_young),
		T(test_full_disk),
		T(test_read_only_disk),
		T(test_threads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
