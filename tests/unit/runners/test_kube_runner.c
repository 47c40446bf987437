/* The Kubernetes runner where no server is: what fails here leaves it whole. */
#include <errno.h>
#include "base/os/loop.h"
#include "base/os/thread.h"
#include "runners/kubernetes/runner.h"
#include "unit.h"

static unsigned started, fails_at;

int __real_thread_start(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);
int __wrap_thread_start(pthread_t *ret, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
	return ++started == fails_at ? EAGAIN : __real_thread_start(ret, attr, fn, arg);
}

static void on_started(void *arg, uint64_t attempt_id, int64_t wall_ns, pid_t pid)
{
}

static void on_finished(void *arg, uint64_t attempt_id, struct runner_result *result)
{
}

/* Each watch takes two threads, its HTTP client's and its own. Whichever of the four can't be
 * started: one that was begun whole isn't begun again. */
static void a_watch_that_cannot_begin_is_begun_later(void **state)
{
	static const char *const none[] = { NULL };
	static const struct kube_access access = { .source = "here",
						   .server = "http://127.0.0.1:1",
						   .namespace_ = "lab" };
	static const struct kube_profile profile = { .project = "p", .namespace_ = "lab" };
	const struct runner_kubernetes_options o = { .access = &access, .profile = &profile };
	const struct digest key = { .b = { 7 } };
	const struct runner_attempt a = { .id = 1,
					  .run_id = "r",
					  .task = "t",
					  .number = 1,
					  .key = &key,
					  .argv = none,
					  .env = none,
					  .secrets = none };

	for (unsigned at = 1; at <= 4; at++) {
		struct runner *r;
		struct loop *l;
		struct err err = { 0 };

		assert_int_equal(loop_new(clock_system(), &l, &err), 0);
		assert_int_equal(runner_kubernetes_new(l, &o, &r, &err), 0);
		r->events =
			(struct runner_events){ .started = on_started, .finished = on_finished };
		started = 0;
		fails_at = at;
		assert_int_equal(r->ops->submit(r, &a, &err), -1);
		assert_int_equal(r->ops->submit(r, &a, &err), 0);
		assert_int_equal(started, at + (at <= 2 ? 4 : 2));
		r->ops->free(r);
		loop_free(l);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(
		a_watch_that_cannot_begin_is_begun_later) };

	return cmocka_run_group_tests(tests, NULL, NULL);
}
