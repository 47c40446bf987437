/* Files of the user's that a store has as hard links: what is linked and what isn't, times, changes
 * in place, verify, gc, and the limit of links. */
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include "base/os/fs.h"
#include "base/time/clock.h"
#include "storage/internal.h"
#include "storage/local/linked.h"
#include "storage/local/maintain.h"
#include "storage/local/statcache.h"
#include "unit/storage/store_fixture.h"

#define HOUR (3600 * NS_PER_S)
/* More than ext4 (65,000) and btrfs (65,535) allow. */
#define LINKS_MANY 66000

static void make_file(struct fixture *f, const char *name, const char *text)
{
	/* Old times: what the store does with them must show. */
	static const struct timespec old[2] = { { 1000000000, 5 }, { 1000000000, 5 } };

	assert_int_equal(
		fs_write_atomic_at(f->fd, name, text, strlen(text), 0644, FS_WRITE_NO_SYNC, NULL),
		0);
	assert_int_equal(utimensat(f->fd, name, old, 0), 0);
}

static struct stat stat_of(struct fixture *f, const char *name)
{
	struct stat st;

	assert_int_equal(fstatat(f->fd, name, &st, AT_SYMLINK_NOFOLLOW), 0);
	return st;
}

static int put(struct fixture *f, const char *name, struct statcache *cache, struct content_id *ret,
	       struct err *err)
{
	const struct content_put_options o = { .flags = CONTENT_PUT_LINK, .cache = cache };

	return content_put_at(f->s, f->fd, name, &o, ret, err);
}

static bool has(struct fixture *f, const struct content_id *id)
{
	bool r;

	assert_int_equal(store_has(f->s, id, 1, &r, NULL), 0);
	return r;
}

/* Writes over the first byte as a careless program does; size and times may be put back. */
static void change(struct fixture *f, const char *name, bool hide)
{
	const struct stat was = stat_of(f, name);
	const struct timespec old[2] = { was.st_atim, was.st_mtim };
	_cleanup_(fd_closep) int fd = -1;

	assert_int_equal(fchmodat(f->fd, name, 0644, 0), 0);
	fd = openat(f->fd, name, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, "#", 1, 0), 1);
	if (hide) {
		assert_int_equal(futimens(fd, old), 0);
		assert_int_equal(fchmod(fd, 0444), 0);
	}
}

static void test_links(void **state)
{
	struct fixture *f = *state;
	struct content_id id, want, tool;
	struct stat st;

	make_file(f, "a", "some text");
	content_id_of_bytes("some text", 9, &want);
	assert_int_equal(put(f, "a", NULL, &id, NULL), 0);
	assert_true(content_id_eq(&id, &want));
	assert_true(has(f, &id));
	st = stat_of(f, "a");
	assert_int_equal(st.st_nlink, 2);
	assert_int_equal(st.st_mode & 07777, 0444);
	assert_int_equal(st.st_mtim.tv_sec, 1000000000);
	assert_int_equal(content_verify(f->s, &id, NULL), 0);
	assert_int_equal(store_use(f->s, NULL), 0); /* a run makes young what it finds */
	assert_true(has(f, &id));
	assert_int_equal(stat_of(f, "a").st_mtim.tv_sec, 1000000000);
	/* An equal file, and bytes that are put, need no second blob. */
	make_file(f, "b", "some text");
	assert_int_equal(put(f, "b", NULL, &id, NULL), 0);
	assert_int_equal(stat_of(f, "b").st_nlink, 1);
	assert_int_equal(content_put_bytes(f->s, "some text", 9, &id, NULL), 0);
	assert_int_equal(faccessat(f->fd, "store/blobs/b9", F_OK, 0), -1);
	/* Executables and empty files are copies. */
	make_file(f, "x", "#!/bin/sh\n");
	assert_int_equal(fchmodat(f->fd, "x", 0755, 0), 0);
	assert_int_equal(put(f, "x", NULL, &tool, NULL), 0);
	assert_int_equal(tool.kind, CONTENT_EXECUTABLE);
	assert_int_equal(stat_of(f, "x").st_nlink, 1);
	make_file(f, "e", "");
	assert_int_equal(put(f, "e", NULL, &id, NULL), 0);
	assert_int_equal(stat_of(f, "e").st_nlink, 1);
	assert_int_equal(store_sync(f->s, NULL), 0);
}

/* A blob that the store has stays, and the user's file too. */
static void test_copies_stay(void **state)
{
	struct fixture *f = *state;
	struct content_id id;

	assert_int_equal(content_put_bytes(f->s, "some text", 9, &id, NULL), 0);
	make_file(f, "a", "some text");
	assert_int_equal(put(f, "a", NULL, &id, NULL), 0);
	assert_int_equal(stat_of(f, "a").st_nlink, 1);
	assert_int_equal(stat_of(f, "a").st_mode & 07777, 0644);
}

/* Links change the ctime, which would be a change for other files. In memory, times don't tell all
 * changes, so there every file is read. */
static void test_not_read_again(void **state)
{
	struct fixture *f = *state;
	struct statcache *cache;
	char path[TEST_DIR_MAX + 16];
	struct content_id id, again;
	struct statfs fs;

	assert_int_equal(fstatfs(f->fd, &fs), 0);
	if (fs.f_type == TMPFS_MAGIC)
		skip();
	snprintf(path, sizeof(path), "%s/statcache", f->dir);
	assert_int_equal(statcache_open(path, &cache, NULL), 0);
	make_file(f, "a", "some text");
	assert_int_equal(put(f, "a", cache, &id, NULL), 0);
	assert_int_equal(linkat(f->fd, "a", f->fd, "other", 0), 0);
	change(f, "a", true); /* so cleverly that only reading it tells */
	assert_int_equal(put(f, "a", cache, &again, NULL), 0);
	assert_true(content_id_eq(&id, &again));
	assert_int_equal(content_verify(f->s, &id, NULL), -1);
	assert_false(has(f, &id));
	statcache_free(cache);
}

static void test_changed(void **state)
{
	struct fixture *f = *state;
	struct err err = { 0 };
	struct content_id id, now;

	make_file(f, "dir-file", "some text");
	assert_int_equal(put(f, "dir-file", NULL, &id, NULL), 0);
	assert_int_equal(content_check_linked(f->s, NULL), 0);
	change(f, "dir-file", false);
	assert_int_equal(put(f, "dir-file", NULL, &now, &err), -1);
	assert_int_equal(err.code, ERR_CHANGED);
	assert_non_null(strstr(err.msg, "dir-file was changed after it was linked"));
	assert_false(has(f, &id));
	/* The second time it is taken as it is. */
	assert_int_equal(put(f, "dir-file", NULL, &now, NULL), 0);
	assert_false(content_id_eq(&id, &now));
	assert_int_equal(stat_of(f, "dir-file").st_mode & 07777, 0444);
	/* While a process relies on it: new times alone are no change. */
	assert_int_equal(utimensat(f->fd, "dir-file", NULL, 0), 0);
	assert_int_equal(content_check_linked(f->s, NULL), 0);
	assert_int_equal(fchmodat(f->fd, "dir-file", 0644, 0), 0);
	{
		_cleanup_(fd_closep) int fd = openat(f->fd, "dir-file", O_WRONLY | O_CLOEXEC);

		assert_int_equal(ftruncate(fd, 3), 0);
	}
	assert_int_equal(content_check_linked(f->s, &err), -1);
	assert_int_equal(err.code, ERR_CHANGED);
	assert_non_null(strstr(err.msg, "dir-file"));
	assert_false(has(f, &now));
	assert_int_equal(content_check_linked(f->s, NULL), 0);
}

static void find(void *arg, const struct store_problem *p)
{
	if (strstr(p->err.msg, "was changed after it was linked"))
		++*(int *)arg;
}

/* Another process, which doesn't know the file's path. */
static void test_verify_and_gc(void **state)
{
	struct fixture *f = *state;
	struct store_gc_options o = { .now_ns = clock_wall_ns() + 365 * 24 * HOUR,
				      .grace_ns = HOUR,
				      .mark_gap_ns = HOUR };
	char path[TEST_DIR_MAX + 16];
	struct store_gc_result res;
	struct content_id a, b;
	int found = 0;

	make_file(f, "a", "text a");
	make_file(f, "b", "text b");
	assert_int_equal(put(f, "a", NULL, &a, NULL), 0);
	assert_int_equal(put(f, "b", NULL, &b, NULL), 0);
	store_free(f->s);
	snprintf(path, sizeof(path), "%s/store", f->dir);
	assert_int_equal(store_open(path, false, &f->s, NULL), 0);
	change(f, "a", true);
	assert_int_equal(store_verify(f->s, NULL, find, NULL, &found, NULL), 1);
	assert_int_equal(found, 1);
	assert_false(has(f, &a));
	assert_int_equal(store_verify(f->s, NULL, find, NULL, &found, NULL), 0);
	assert_int_equal(stat_of(f, "a").st_nlink, 1);
	/* Nobody names b, but its bytes are the user's anyway. */
	for (int i = 0; i < 3; i++) {
		assert_int_equal(store_gc(f->s, &o, &res, NULL), 0);
		assert_int_equal(res.deleted, 0);
		o.now_ns += 2 * HOUR;
	}
	assert_true(has(f, &b));
	assert_int_equal(unlinkat(f->fd, "b", 0), 0);
	assert_int_equal(store_gc(f->s, &o, &res, NULL), 0);
	assert_int_equal(res.condemned, 1);
	o.now_ns += 2 * HOUR;
	assert_int_equal(store_gc(f->s, &o, &res, NULL), 0);
	assert_int_equal(res.deleted, 1);
	assert_false(has(f, &b));
}

static void test_refused(void **state)
{
	struct fixture *f = *state;
	struct err err = { 0 };
	struct content_id id;
	int n = 0;

	make_file(f, "private", "text");
	assert_int_equal(fchmodat(f->fd, "private", 0640, 0), 0);
	assert_int_equal(put(f, "private", NULL, &id, &err), -1);
	assert_int_equal(err.code, ERR_UNSUPPORTED);
	assert_int_equal(stat_of(f, "private").st_mode & 07777, 0640);
	if (geteuid() == 0) {
		make_file(f, "theirs", "text");
		assert_int_equal(fchownat(f->fd, "theirs", 65534, 65534, 0), 0);
		assert_int_equal(put(f, "theirs", NULL, &id, &err), -1);
		assert_non_null(strstr(err.msg, "another user"));
	}
	make_file(f, "many", "text of many links");
	assert_int_equal(mkdirat(f->fd, "links", 0755), 0);
	for (; n < LINKS_MANY; n++) {
		char name[32];

		snprintf(name, sizeof(name), "links/%d", n);
		if (linkat(f->fd, "many", f->fd, name, 0) < 0)
			break;
	}
	if (n == LINKS_MANY)
		return; /* this file system has no such limit */
	assert_int_equal(errno, EMLINK);
	assert_int_equal(put(f, "many", NULL, &id, &err), -1);
	assert_int_equal(err.code, ERR_UNSUPPORTED);
	assert_non_null(strstr(err.msg, "as many links as the file system allows"));
	assert_non_null(strstr(err.msg, "leave out `mode: link`"));
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, store_setup, store_teardown)
	const struct CMUnitTest tests[] = {
		T(test_links),   T(test_copies_stay),   T(test_not_read_again),
		T(test_changed), T(test_verify_and_gc), T(test_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
