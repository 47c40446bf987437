/* Requests to end: each listener hears of a terminal that goes, once. */
#include <signal.h>
#include <unistd.h>
#include "base/os/stop.h"
#include "base/time/clock.h"
#include "unit.h"

static void note(void *arg, int signo)
{
	*(int *)arg += signo;
}

/* Until the sum is there, or a deadline. */
static void turn_until(struct loop *l, const int *sum, int want)
{
	int64_t end = clock_system()->mono_ns(clock_system()) + 5 * NS_PER_S;

	while (*sum != want && clock_system()->mono_ns(clock_system()) < end)
		assert_int_equal(loop_turn(l, 100 * NS_PER_MS, NULL), 1);
	assert_int_equal(*sum, want);
}

static void each_listener_hears_of_a_hang_up_once(void **state)
{
	struct loop *l;

	assert_int_equal(loop_new(clock_system(), &l, NULL), 0);
	for (int i = 0; i < 3; i++) {
		int sum = 0;

		assert_int_equal(stop_listen(l, "ended", note, &sum, NULL), 0);
		assert_int_equal(kill(getpid(), SIGHUP), 0);
		turn_until(l, &sum, SIGHUP);
		assert_int_equal(kill(getpid(), SIGHUP), 0); /* the terminal says it again */
		assert_int_equal(loop_turn(l, 20 * NS_PER_MS, NULL), 1);
		assert_int_equal(sum, SIGHUP);
		stop_unlisten();
	}
	loop_free(l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(each_listener_hears_of_a_hang_up_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
