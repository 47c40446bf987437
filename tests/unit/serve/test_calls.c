/* Calls from HTTP threads into the loop, at the end of the daemon: what was posted and is freed is
 * never run. */
#include "unit.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include "serve/calls.h"

struct caller {
	struct calls *calls;
	atomic_bool calling, ran;
};

static void never(void *arg)
{
	fail_msg("the loop was told to end before");
}

static void *call(void *arg)
{
	struct caller *c = arg;

	atomic_store(&c->calling, true);
	atomic_store(&c->ran, calls_run(c->calls, never, NULL));
	return NULL;
}

static void nothing(void *arg)
{
}

/* The daemon's order: calls are closed and freed while a pool still has a job out, and pool_free()
 * reads the loop's mail. */
static void a_call_that_comes_too_late(void **state)
{
	struct caller c = { 0 };
	struct pool *pool;
	struct loop *loop;
	pthread_t thread;

	assert_int_equal(loop_new(clock_system(), &loop, NULL), 0);
	assert_int_equal(pool_new(loop, 1, &pool, NULL), 0);
	c.calls = calls_new(loop);
	assert_int_equal(pthread_create(&thread, NULL, call, &c), 0);
	while (!atomic_load(&c.calling) || !calls_waiting(c.calls))
		sched_yield();
	pool_submit(pool, nothing, nothing, NULL);
	calls_close(c.calls);
	pthread_join(thread, NULL);
	assert_false(atomic_load(&c.ran));
	calls_free(c.calls);
	pool_free(pool);
	loop_free(loop);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(a_call_that_comes_too_late) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
