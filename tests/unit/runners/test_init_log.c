/* The log of a program in a pod: it has a limit, and says what is missing. */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>
#include "base/os/fs.h"
#include "runners/kubernetes/init/init.h"
#include "unit.h"

static const char *const no_secrets[] = { NULL };

/* What is kept of `n` bytes in pieces of `piece`, where the log may have `max`. */
static void keep(uint64_t max, size_t n, size_t piece, struct str *ret)
{
	char dir[TEST_DIR_MAX], text[256];
	_cleanup_(fd_closep) int dir_fd = -1;
	struct init_log l;

	test_dir(dir, sizeof(dir), "init-log");
	dir_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	memset(text, 'x', sizeof(text));
	init_log_open(&l, dir_fd, no_secrets);
	assert_int_equal(l.max, INIT_LOG_MAX);
	init_log_give_up_output(&l);
	l.max = max;
	for (size_t done = 0; done < n; done += piece)
		init_log_feed(&l, text, MIN(piece, n - done), false);
	init_log_close(&l);
	assert_int_equal(fs_read_file_at(dir_fd, "log", 1 * MIB, ret, NULL), 0);
	assert_int_equal(fs_remove_tree(dir, NULL), 0);
}

static void a_log_has_a_limit(void **state)
{
	static const size_t pieces[] = { 1, 7, 100, 256 };

	for (size_t i = 0; i < ARRAY_LEN(pieces); i++) {
		_cleanup_(str_deinit) struct str got = { 0 };
		const char *note;
		unsigned long long missing = 0;

		keep(1000, 5000, pieces[i], &got);
		assert_in_range(got.len, 700, 1000);
		note = strstr(got.s, "\n[cairn: ");
		assert_non_null(note);
		assert_int_equal(sscanf(note,
					"\n[cairn: %llu bytes are missing here: the log is too ",
					&missing),
				 1);
		assert_int_equal(missing + (size_t)(note - got.s), 5000);
		assert_string_equal(strchr(note + 1, '\n'), "\n");
	}
}

static void a_log_below_its_limit_is_whole(void **state)
{
	_cleanup_(str_deinit) struct str got = { 0 };

	keep(1000, 808, 101, &got);
	assert_int_equal(got.len, 808);
	assert_null(strstr(got.s, "cairn"));
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_log_has_a_limit),
					    cmocka_unit_test(a_log_below_its_limit_is_whole) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
