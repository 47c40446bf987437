/* Helper programs end in time, or are ended. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/time.h>
#include "base/os/fs.h"
#include "base/os/process/command.h"
#include "base/time/clock.h"
#include "unit.h"

static int ask(const char *script, int64_t timeout_ns, struct str *out, int *status,
	       struct err *err)
{
	const char *const argv[] = { "/bin/sh", "-c", script, NULL };
	struct command c = { .argv = argv, .timeout_ns = timeout_ns, .max_bytes = 1000 };

	return command_output(&c, out, status, err);
}

static void output_and_status(void **state)
{
	_cleanup_(str_deinit) struct str out = { 0 };
	int status;

	assert_int_equal(ask("echo a; exit 7", 60 * NS_PER_S, &out, &status, NULL), 0);
	assert_string_equal(out.s, "a\n");
	assert_int_equal(status, 7);
	assert_int_equal(ask("kill -9 $$", 60 * NS_PER_S, &out, &status, NULL), 0);
	assert_int_equal(status, 128 + 9);
}

static void must_end_late(const char *script)
{
	_cleanup_(str_deinit) struct str out = { 0 };
	int64_t began = clock_system()->mono_ns(clock_system());
	struct err err = { 0 };
	int status;

	assert_int_equal(ask(script, 100 * NS_PER_MS, &out, &status, &err), -1);
	assert_int_equal(err.code, ERR_IO);
	assert_non_null(strstr(err.msg, "didn't end"));
	assert_int_equal(status, 128 + 9);
	assert_true(clock_system()->mono_ns(clock_system()) - began < 3 * NS_PER_S);
}

static void deadline_counts_behind_the_output(void **state)
{
	must_end_late("exec sleep 4");
	must_end_late("echo a; exec >&-; exec sleep 4");
}

static void on_alarm(int signo)
{
}

/* A signal ends poll(), but not the read() of who goes on with one. */
static void deadline_counts_behind_a_signal(void **state)
{
	struct sigaction act = { .sa_handler = on_alarm, .sa_flags = SA_RESTART };
	struct itimerval soon = { .it_value.tv_usec = 20000 };

	assert_int_equal(sigaction(SIGALRM, &act, NULL), 0);
	assert_int_equal(setitimer(ITIMER_REAL, &soon, NULL), 0);
	must_end_late("exec sleep 4");
}

/* What a copy of this test, that is asked so, prints. */
static void says(const char *copy, const char *how, const char *want)
{
	_cleanup_(str_deinit) struct str out = { 0 };
	const char *const argv[] = { copy, how, NULL };
	struct command c = { .argv = argv, .timeout_ns = 60 * NS_PER_S, .max_bytes = 10000 };
	int status;

	assert_int_equal(command_output(&c, &out, &status, NULL), 0);
	assert_int_equal(status, 0);
	assert_string_equal(out.s, want);
}

/* A program that was replaced is started again from where the new one is. */
static void own_path_of_a_replaced_program(void **state)
{
	_cleanup_(freep) char *self = command_self(), *copy = NULL, *odd = NULL;
	_cleanup_(str_deinit) struct str bytes = { 0 };
	char dir[TEST_DIR_MAX];

	test_dir(dir, sizeof(dir), "command");
	copy = fs_join(dir, "copy");
	odd = fs_join(dir, "copy (deleted)");
	assert_int_equal(fs_read_file(self, 64 * MIB, &bytes, NULL), 0);
	for (int i = 0; i < 2; i++) {
		const char *path = i ? odd : copy;

		assert_int_equal(fs_write_atomic(path, bytes.s, bytes.len, NULL), 0);
		assert_int_equal(chmod(path, 0700), 0);
		says(path, "self", path);
		says(path, "replaced", path);
	}
	fs_remove_tree(dir, NULL);
}

static int say_own_path(const char *argv0, bool replaced)
{
	_cleanup_(freep) char *self = NULL;

	if (replaced && unlink(argv0) < 0)
		return 1;
	self = command_self();
	return self && fputs(self, stdout) >= 0 ? 0 : 1;
}

int main(int argc, char *argv[])
{
	if (argc > 1)
		return say_own_path(argv[0], str_eq(argv[1], "replaced"));

	const struct CMUnitTest tests[] = {
		cmocka_unit_test(output_and_status),
		cmocka_unit_test(deadline_counts_behind_the_output),
		cmocka_unit_test(deadline_counts_behind_a_signal),
		cmocka_unit_test(own_path_of_a_replaced_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
