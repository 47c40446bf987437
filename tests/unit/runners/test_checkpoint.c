/* runners/checkpoint: what outlives attempts, and who had it. */
#include <stdlib.h>
#include <string.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "runners/checkpoint.h"
#include "unit.h"
#include "unit/broken_dir.h"

static char dir[TEST_DIR_MAX];
static struct digest key, other;

static int set_up(void **state)
{
	test_dir(dir, sizeof(dir), "checkpoint");
	digest_bytes("a", 1, &key);
	digest_bytes("b", 1, &other);
	return 0;
}

static int tear_down(void **state)
{
	fs_remove_tree(dir, NULL);
	return 0;
}

/* A fresh workspace for each attempt; what it continues, and a file that it saves. */
static void attempt(const struct digest *k, uint64_t id, const char *path, const char *want,
		    const char *saves)
{
	_cleanup_(freep) char *work = xasprintf("%s/work-%llu", dir, (unsigned long long)id),
			      *file = xasprintf("%s/%s", path, saves ? saves : "");
	_cleanup_(fd_closep) int fd = -1;
	_cleanup_(freep) char *continues = NULL;
	const struct runner_attempt a = { .key = k, .id = id, .checkpoint_path = path };
	struct err err = { 0 };

	fs_remove_tree(work, NULL);
	assert_int_equal(fs_mkdir_p(work, &err), 0);
	fd = open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(fd >= 0);
	if (checkpoint_attach(dir, &a, fd, &continues, &err) < 0)
		fail_msg("%s", err.msg);
	if (want)
		assert_string_equal(continues, want);
	else
		assert_null(continues);
	if (saves)
		assert_int_equal(fs_write_atomic_at(fd, file, "x", 1, 0644, 0, &err), 0);
	fs_remove_tree(work, NULL); /* as a workspace goes: what was saved stays */
}

static void test_attempts_follow_each_other(void **state)
{
	attempt(&key, 3, "ckpt", NULL, NULL);
	attempt(&key, 4, "ckpt", NULL, "one"); /* 3 saved nothing */
	attempt(&key, 9, "deep/down/ckpt", "4", "two");
	attempt(&key, 9, "ckpt", "4", NULL); /* begun once more after a crash */
	attempt(&key, 12, "ckpt", "4 9", NULL);
	attempt(&other, 13, "ckpt", NULL, NULL);
	checkpoint_drop(dir, &key);
	attempt(&key, 14, "ckpt", NULL, NULL);
	checkpoint_drop(dir, &key);
	checkpoint_drop(dir, &key); /* what isn't there is fine */
}

/* The launcher's series lies beside what the program sees, and goes when the program begins anew.
 */
static void test_series_beside(void **state)
{
	char hex[DIGEST_HEX_MAX];
	_cleanup_(freep) char *at =
		xasprintf("%s/checkpoints/%s/series.jsonl", dir, digest_hex(&key, hex));

	attempt(&key, 20, "ckpt", NULL, "../series.jsonl");
	assert_int_equal(access(at, F_OK), 0);
	attempt(&key, 21, "ckpt", NULL, "saved");
	assert_int_equal(access(at, F_OK), -1);
	attempt(&key, 22, "ckpt", "21", "../series.jsonl");
	attempt(&key, 23, "ckpt", "21 22", NULL);
	assert_int_equal(access(at, F_OK), 0);
	checkpoint_drop(dir, &key);
	assert_int_equal(access(at, F_OK), -1);
}

/* What is in the way isn't written over. */
static void test_place_is_taken(void **state)
{
	_cleanup_(freep) char *work = xasprintf("%s/taken", dir),
			      *place = xasprintf("%s/taken/ckpt", dir);
	_cleanup_(fd_closep) int fd = -1;
	char *continues = NULL;
	const struct runner_attempt a = { .key = &key, .id = 30, .checkpoint_path = "ckpt" };
	struct err err = { 0 };

	assert_int_equal(fs_mkdir_p(place, &err), 0);
	fd = open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_int_equal(checkpoint_attach(dir, &a, fd, &continues, &err), -1);
	assert_non_null(strstr(err.msg, "ckpt"));
	assert_null(continues);
}

/* What can't be looked into isn't empty: the series stays, and nobody is told to begin anew. */
static void test_cannot_look(void **state)
{
	_cleanup_(freep) char *work = xasprintf("%s/blind", dir);
	_cleanup_(fd_closep) int fd = -1;
	char *continues = NULL;
	const struct runner_attempt a = { .key = &key, .id = 42, .checkpoint_path = "ckpt" };
	struct err err = { 0 };

	attempt(&key, 40, "ckpt", NULL, "saved");
	attempt(&key, 41, "ckpt", "40", "../series.jsonl");
	assert_int_equal(fs_mkdir_p(work, &err), 0);
	fd = open(work, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	dir_breaks_after = 0;
	assert_int_equal(checkpoint_attach(dir, &a, fd, &continues, &err), -1);
	dir_breaks_after = -1;
	assert_int_equal(err.code, ERR_IO);
	attempt(&key, 43, "ckpt", "40 41", NULL);
	checkpoint_drop(dir, &key);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_attempts_follow_each_other),
					    cmocka_unit_test(test_series_beside),
					    cmocka_unit_test(test_place_is_taken),
					    cmocka_unit_test(test_cannot_look) };

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
