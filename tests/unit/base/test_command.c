/* Helper programs end in time, or are ended. */
#include <signal.h>
#include <string.h>
#include <sys/time.h>
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(output_and_status),
		cmocka_unit_test(deadline_counts_behind_the_output),
		cmocka_unit_test(deadline_counts_behind_a_signal),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
