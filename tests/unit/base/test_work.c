/* base/os/work.h: each call once, on no more threads than allowed; work that adds work; the first
 * failure. */
#include <pthread.h>
#include "base/mem.h"
#include "base/os/work.h"
#include "unit.h"

struct count {
	pthread_mutex_t lock;
	unsigned calls[1000], under_way, most;
};

static unsigned enter(struct count *c, size_t i)
{
	unsigned n;

	pthread_mutex_lock(&c->lock);
	n = ++c->calls[i];
	c->under_way++;
	c->most = MAX(c->most, c->under_way);
	pthread_mutex_unlock(&c->lock);
	return n;
}

static void leave(struct count *c)
{
	pthread_mutex_lock(&c->lock);
	c->under_way--;
	pthread_mutex_unlock(&c->lock);
}

static void count_one(struct work_queue *q, void *arg, size_t i)
{
	enter(arg, i);
	leave(arg);
}

/* A tree of work. */
static void push_more(struct work_queue *q, void *arg, size_t i)
{
	struct count *c = arg;

	if (enter(c, i) < 5)
		work_push(q, (struct work){ push_more, c, 4 });
	leave(c);
}

static void test_work_runs_once_each(void **state)
{
	for (unsigned threads = 1; threads <= 8; threads *= 2) {
		struct count c = { .lock = PTHREAD_MUTEX_INITIALIZER };

		work_run(threads, (struct work){ count_one, &c, 1000 });
		for (size_t i = 0; i < 1000; i++)
			assert_int_equal(c.calls[i], 1);
		assert_in_range(c.most, 1, threads);
		assert_int_equal(c.under_way, 0);
	}
	work_run(4, (struct work){ count_one, NULL, 0 });
}

static void test_work_may_push(void **state)
{
	struct count c = { .lock = PTHREAD_MUTEX_INITIALIZER };

	work_run(4, (struct work){ push_more, &c, 4 });
	for (size_t i = 0; i < 4; i++)
		assert_in_range(c.calls[i], 5, 1000);
	assert_int_equal(c.under_way, 0);
}

/* The calls from the third on fail, each in its own words. */
static int fail_from_two(void *arg, size_t i, struct err *err)
{
	++*(size_t *)arg;
	return i < 2 ? (int)i : err_set(err, ERR_IO, "call %zu", i);
}

static void test_the_first_failure(void **state)
{
	struct err err = { 0 };
	size_t calls = 0;

	assert_int_equal(work_each(4, 0, false, fail_from_two, &calls, &err), 0);
	assert_int_equal(work_each(1, 2, false, fail_from_two, &calls, &err), 0);
	assert_int_equal(calls, 2);
	assert_int_equal(err.code, ERR_NONE);
	calls = 0;
	assert_int_equal(work_each(1, 10, false, fail_from_two, &calls, &err), -1);
	assert_int_equal(calls, 3); /* those that haven't begun aren't made */
	assert_string_equal(err.msg, "call 2");
	calls = 0;
	assert_int_equal(work_each(1, 10, true, fail_from_two, &calls, &err), -1);
	assert_int_equal(calls, 10);
	assert_string_equal(err.msg, "call 2");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_work_runs_once_each),
		cmocka_unit_test(test_work_may_push),
		cmocka_unit_test(test_the_first_failure),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
