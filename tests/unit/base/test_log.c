#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>
#include "base/log.h"

static int pipe_fds[2];

static int setup(void **state)
{
	assert_int_equal(pipe(pipe_fds), 0);
	log_set_fd(pipe_fds[1]);
	log_set_level(LOG_LEVEL_INFO);
	return 0;
}

static int teardown(void **state)
{
	log_set_fd(2);
	log_set_hooks(NULL, NULL, NULL);
	close(pipe_fds[0]);
	close(pipe_fds[1]);
	return 0;
}

static void assert_logged(const char *want)
{
	char got[4096] = { 0 };

	assert_int_equal(write(pipe_fds[1], "#", 1), 1); /* so that nothing logged doesn't block */
	assert_true(read(pipe_fds[0], got, sizeof(got) - 1) > 0);
	got[strlen(got) - 1] = '\0';
	assert_string_equal(got, want);
}

static void test_levels(void **state)
{
	log_debug("hidden");
	log_info("shown %d", 1);
	log_warning("careful");
	log_error("broken");
	assert_logged("shown 1\nwarning: careful\nerror: broken\n");
	log_set_level(LOG_LEVEL_ERROR);
	assert_int_equal(log_get_level(), LOG_LEVEL_ERROR);
	log_warning("hidden");
	assert_logged("");
	log_set_level(LOG_LEVEL_DEBUG);
	log_debug("shown");
	assert_logged("shown\n");
}

static void test_one_line(void **state)
{
	struct err err = { 0 };

	log_info("%s", "a\nb\x1b[2J\xff");
	err_set(&err, ERR_IO, "disk");
	log_err(&err);
	log_info("%s", "");
	assert_logged("a\\nb\\e[2J\\xff\nerror: disk\n\n");
}

static int order[4], n_order;

static void before(void *arg)
{
	order[n_order++] = *(int *)arg;
}

static void after(void *arg)
{
	order[n_order++] = -*(int *)arg;
}

static void test_hooks(void **state)
{
	int id = 5;

	log_set_hooks(before, after, &id);
	log_debug("hidden: no hook either");
	log_info("x");
	assert_int_equal(n_order, 2);
	assert_int_equal(order[0], 5);
	assert_int_equal(order[1], -5);
	assert_logged("x\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_levels, setup, teardown),
		cmocka_unit_test_setup_teardown(test_one_line, setup, teardown),
		cmocka_unit_test_setup_teardown(test_hooks, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
