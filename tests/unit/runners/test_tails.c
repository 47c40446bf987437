/* What is shown of the end of a file, at the limit and one beside it. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "runners/series.h"
#include "runners/workspace.h"
#include "unit.h"

#define TAIL_BYTES 4096
#define LINE_BYTES 8192

static char *tail_of(const char *first, size_t n, const char *last)
{
	_cleanup_(fd_closep) int fd = memfd_create("log", MFD_CLOEXEC);
	_cleanup_(str_deinit) struct str text = { 0 };

	str_add(&text, first);
	while (text.len < n - strlen(last))
		str_addc(&text, 'x');
	str_add(&text, last);
	assert_int_equal(write(fd, text.s, text.len), text.len);
	return workspace_log_tail(fd);
}

static void a_log_is_shown_from_a_whole_line(void **state)
{
	for (int over = -1; over <= 1; over++) {
		const size_t n = (size_t)(TAIL_BYTES + over);
		_cleanup_(freep) char *lines = tail_of("first\n", n, "\nlast\n"),
				      *one = tail_of("first", n, "end\n"),
				      *open_end = tail_of("first", n, "end");

		assert_int_equal(strlen(lines), over > 0 ? n - strlen("first\n") : n);
		assert_true(str_has_suffix(lines, "\nlast\n"));
		/* One line that is too long: its end, as it ends or not. */
		assert_int_equal(strlen(one), MIN(n, TAIL_BYTES));
		assert_true(str_has_suffix(one, "end\n"));
		assert_int_equal(strlen(open_end), MIN(n, TAIL_BYTES));
	}
}

static void note(void *arg, const char *name, double value)
{
	*(double *)arg = value;
}

/* Wherever the line stands: at the beginning of the file, behind others. */
static void a_line_of_a_series_has_a_length(void **state)
{
	char root[TEST_DIR_MAX];
	int dir_fd;

	test_dir(root, sizeof(root), "tails");
	dir_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (int before = 0; before <= 2; before++)
		for (int over = -1; over <= 1; over++) {
			_cleanup_(freep) char *path = fs_join(root, "m.jsonl");
			_cleanup_(str_deinit) struct str text = { 0 };
			struct series_tail t = { .fd = -1 };
			double got = 0;
			size_t from;

			for (int i = 0; i < before; i++)
				str_add(&text, "{\"loss\": 1}\n");
			from = text.len;
			str_add(&text, "{\"loss\": 2, \"s\": \"");
			while (text.len - from < (size_t)(LINE_BYTES + over) - 3)
				str_addc(&text, 'x');
			str_add(&text, "\"}\n");
			assert_int_equal(fs_write_atomic(path, text.s, text.len, NULL), 0);
			series_poll(&t, dir_fd, "m.jsonl", note, &got);
			assert_int_equal((int)got, over > 0 ? 0 : 2);
			series_close(&t);
		}
	close(dir_fd);
	fs_remove_tree(root, NULL);
}

static void collect(void *arg, const char *name, double value)
{
	str_addf(arg, "%s=%g ", name, value);
}

/* The newest whole line of a CSV, under the names of its header. */
static void a_series_in_csv(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = { { "step,loss,acc\n", "" },
		      { "step,loss,acc\n1,2,3\n", "step=1 loss=2 acc=3 " },
		      { "epoch,loss,acc\r\n1,2,3\r\n2,0.5,nan\r\n3,", "step=2 loss=0.5 " },
		      { "loss,epoch,step\n1,2,3\n", "step=3 loss=1 " },
		      { "step,loss\n1,2,3,4\n", "step=1 loss=2 " },
		      { "step,\xff,,x\n1,2,3\n", "step=1 " },
		      { "\n\n", "" } };
	char root[TEST_DIR_MAX];
	int dir_fd;

	test_dir(root, sizeof(root), "tails");
	dir_fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		_cleanup_(freep) char *path = fs_join(root, "m.csv");
		_cleanup_(str_deinit) struct str got = { 0 };
		struct series_tail t = { .fd = -1 };

		str_add(&got, "");
		assert_int_equal(fs_write_atomic(path, cases[i].text, strlen(cases[i].text), NULL),
				 0);
		series_poll(&t, dir_fd, "m.csv", collect, &got);
		assert_string_equal(got.s, cases[i].want);
		series_close(&t);
	}
	close(dir_fd);
	fs_remove_tree(root, NULL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_log_is_shown_from_a_whole_line),
		cmocka_unit_test(a_line_of_a_series_has_a_length),
		cmocka_unit_test(a_series_in_csv),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
