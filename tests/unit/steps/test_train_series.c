/* train: metrics over time, in one attempt and over several. */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "steps/train/gang.h"
#include "unit.h"

static char dir[TEST_DIR_MAX];
static char *path, *kept;

static int set_up(void **state)
{
	test_dir(dir, sizeof(dir), "series");
	path = fs_join(dir, "series.jsonl");
	kept = fs_join(dir, "kept.jsonl");
	return 0;
}

static int tear_down(void **state)
{
	fs_remove_tree(dir, NULL);
	free(path);
	free(kept);
	return 0;
}

static void feed(struct series *s, const char *lines)
{
	for (const char *at = lines; *at;) {
		size_t n = strcspn(at, "\n");

		series_line(s, at, n);
		at += n + (at[n] == '\n');
	}
}

static void attempt(const char *lines, bool ends, const char *kept_path, json_t *last)
{
	struct series *s;
	struct err err = { 0 };

	if (series_open(path, kept_path, &s, &err) < 0)
		fail_msg("%s", err.msg);
	feed(s, lines);
	if (ends)
		assert_int_equal(series_finish(s, last, &err), 0);
	series_free(s);
}

static void check_file(const char *file, const char *want)
{
	struct str got = { 0 };

	assert_int_equal(fs_read_file(file, 1 << 20, &got, NULL), 0);
	assert_string_equal(got.len ? got.s : "", want);
	str_deinit(&got);
}

static void test_merged_and_sorted(void **state)
{
	json_t *last = json_object();

	attempt("loss=3 step=10\nnot one\nloss=1 step=2\nacc=0.5 step=10\nloss=2 step=10\nloss=nan "
		"step=11\nstep=12\nepoch=4 x=1\nx=2\n",
		true, NULL, last);
	check_file(path, "{\"loss\":1,\"step\":2}\n{\"epoch\":4,\"step\":4,\"x\":1}\n{\"step\":5,"
			 "\"x\":2}\n{\"acc\":0.5,\"loss\":2,\"step\":10}\n"
			 "{\"loss\":null,\"step\":11}\n");
	assert_true(json_is_null(json_object_get(last, "loss")));
	assert_int_equal(json_integer_value(json_object_get(last, "x")), 2);
	assert_null(json_object_get(last, "step"));
	json_decref(last);
}

static void test_nothing(void **state)
{
	json_t *last = json_object();

	attempt("hello\n", true, NULL, last);
	check_file(path, "");
	assert_int_equal(json_object_size(last), 0);
	json_decref(last);
}

/* Killed after any line, with the tail of the kept file cut at any byte, then gone on from an
 * earlier step: the same file. */
static void test_cut_anywhere(void **state)
{
	static const char *const lines[] = { "a=1.5 step=1\n", "b=0.1 step=1\n",
					     "{\"a\":NaN,\"step\":2}\n", "a=1e-7 step=3\n",
					     "a=3 b=4 step=4\n" };
	const char *want = "{\"a\":1.5,\"b\":0.1,\"step\":1}\n{\"a\":null,\"step\":2}\n{\"a\":1e-"
			   "07,\"step\":3}\n{\"a\":3,\"b\":4,\"step\":4}\n";

	for (size_t upto = 0; upto <= ARRAY_LEN(lines); upto++)
		for (size_t cut = 0; cut < 40; cut++) {
			json_t *last = json_object();
			struct str first = { 0 }, rest = { 0 };
			struct stat st;

			str_add(&first, "");
			for (size_t i = 0; i < upto; i++)
				str_add(&first, lines[i]);
			str_add(&rest, "");
			for (size_t i = upto > 2 ? upto - 2 : 0; i < ARRAY_LEN(lines); i++)
				str_add(&rest, lines[i]);
			unlink(kept);
			attempt(first.s, false, kept, NULL);
			if (stat(kept, &st) == 0 && st.st_size > 0)
				assert_int_equal(truncate(kept, st.st_size - (off_t)MIN(cut, 10)),
						 0);
			attempt(rest.s, false, kept, NULL); /* killed again at its end */
			attempt(lines[4], true, kept, last);
			if (cut == 0 || upto > 0)
				check_file(path, want);
			str_deinit(&first);
			str_deinit(&rest);
			json_decref(last);
		}
}

static void test_kept_that_is_hostile(void **state)
{
	json_t *last = json_object();
	struct err err = { 0 };
	struct series *s;

	assert_int_equal(fs_write_atomic(kept,
					 "\n[]\n{}\n{\"step\":\"x\",\"a\":1}\n\xff\n{\"a\":1,"
					 "\"step\":1e400}\n{\"b\":2,\"step\":7}\n",
					 67, NULL),
			 0);
	attempt("", true, kept, last);
	check_file(path, "{\"a\":1,\"step\":0}\n{\"b\":2,\"step\":7}\n");
	json_decref(last);
	unlink(kept);
	assert_int_equal(symlink(dir, kept), 0);
	assert_int_equal(series_open(path, kept, &s, &err), -1);
	unlink(kept);
}

/* What is kept is never more than the next attempt reads; the last values stay true when there is
 * no more room. */
static void test_no_more_room(void **state)
{
	const uint64_t most = 256 * MIB;
	json_t *last = json_object();
	struct series *s;
	struct err err = { 0 };
	struct stat st;
	int fd = open(kept, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, "\n", 1, (off_t)(most - 40)),
			 1); /* a line that says nothing, in front of it a hole */
	close(fd);
	for (int i = 0; i < 2; i++) {
		if (series_open(NULL, kept, &s, &err) < 0)
			fail_msg("%s", err.msg);
		feed(s, "loss=0.5 step=1\nloss=0.25 step=2\nloss=0.125 step=3\n");
		assert_int_equal(series_finish(s, last, &err), 0);
		series_free(s);
		assert_float_equal(json_number_value(json_object_get(last, "loss")), 0.125, 0);
		assert_int_equal(stat(kept, &st), 0);
		assert_true((uint64_t)st.st_size <= most);
	}
	json_decref(last);
}

/* A point takes about as much memory as its line. (Under a sanitizer mallinfo2() says nothing.) */
static void test_memory(void **state)
{
	const unsigned n = 50000;
	size_t before = mallinfo2().uordblks, text = 0;
	json_t *last = json_object();
	struct series *s;
	struct stat st;
	char line[64];

	assert_int_equal(series_open(path, NULL, &s, NULL), 0);
	for (unsigned i = 0; i < n; i++) {
		int len = snprintf(line, sizeof(line), "loss=0.%05u step=%u", i, n - i);

		series_line(s, line, (size_t)len);
		text += (size_t)len + 8;
	}
	assert_true(mallinfo2().uordblks - before < 3 * text);
	assert_int_equal(series_finish(s, last, NULL), 0);
	series_free(s);
	assert_int_equal(stat(path, &st), 0);
	assert_true((size_t)st.st_size > text / 2);
	assert_float_equal(json_number_value(json_object_get(last, "loss")), 0, 0);
	json_decref(last);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_merged_and_sorted),    cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_cut_anywhere),         cmocka_unit_test(test_no_more_room),
		cmocka_unit_test(test_kept_that_is_hostile), cmocka_unit_test(test_memory),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
