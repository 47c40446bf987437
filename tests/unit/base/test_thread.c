#include <signal.h>
#include <time.h>
#include <unistd.h>
#include "base/macros.h"
#include "base/os/thread.h"
#include "unit.h"

static void *wait_for_usr1(void *arg)
{
	const struct timespec none = { 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	return sigtimedwait(&set, NULL, &none) == SIGUSR1 ? arg : NULL;
}

static void *read_mask(void *arg)
{
	pthread_sigmask(SIG_SETMASK, NULL, arg);
	return NULL;
}

static void blocks_what_others_send(void **state)
{
	static const int sent[] = { SIGINT, SIGTERM, SIGHUP, SIGCHLD, SIGWINCH, SIGUSR1 },
			 own[] = { SIGSEGV, SIGBUS, SIGABRT };
	sigset_t mask, before, after;
	pthread_t t;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	assert_int_equal(thread_start(&t, NULL, read_mask, &mask), 0);
	pthread_join(t, NULL);
	for (size_t i = 0; i < ARRAY_LEN(sent); i++)
		assert_true(sigismember(&mask, sent[i]));
	for (size_t i = 0; i < ARRAY_LEN(own); i++)
		assert_false(sigismember(&mask, own[i]));
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int s = 1; s < SIGRTMIN; s++)
		assert_int_equal(sigismember(&before, s), sigismember(&after, s));
}

/* One that is sent to the process, while the main thread has it blocked as the loop does, is there
 * for whoever waits for it. */
static void a_signal_waits_for_who_wants_it(void **state)
{
	sigset_t set, old;
	void *got = NULL;
	pthread_t t;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, &old);
	kill(getpid(), SIGUSR1);
	assert_int_equal(thread_start(&t, NULL, wait_for_usr1, &got), 0);
	pthread_join(t, &got);
	assert_non_null(got);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Threads that hand a number round: each adds one when it is its turn. */

enum { RING = 4, ROUNDS = 100 };

struct ring {
	struct threads threads;
	unsigned n, next; /* under the lock */
};

static void *add_in_turn(void *arg)
{
	struct ring *r = arg;
	unsigned own;

	pthread_mutex_lock(&r->threads.lock);
	own = r->next++;
	while (!r->threads.ending) {
		if (r->n < RING * ROUNDS && r->n % RING == own) {
			r->n++;
			pthread_cond_broadcast(&r->threads.changed);
		}
		pthread_cond_wait(&r->threads.changed, &r->threads.lock);
	}
	pthread_mutex_unlock(&r->threads.lock);
	return NULL;
}

static void threads_work_until_they_are_told_to_end(void **state)
{
	struct ring r = { .n = 0 };

	threads_init(&r.threads);
	for (int i = 0; i < RING; i++)
		assert_int_equal(threads_start(&r.threads, add_in_turn, &r, NULL), 0);
	pthread_mutex_lock(&r.threads.lock);
	while (r.n < RING * ROUNDS)
		pthread_cond_wait(&r.threads.changed, &r.threads.lock);
	pthread_mutex_unlock(&r.threads.lock);
	threads_end(&r.threads);
	assert_int_equal(r.threads.n, 0);
	threads_end(&r.threads);
	threads_deinit(&r.threads);
}

static void no_thread_is_no_wait(void **state)
{
	struct threads none;

	threads_init(&none);
	threads_deinit(&none);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_what_others_send),
		cmocka_unit_test(a_signal_waits_for_who_wants_it),
		cmocka_unit_test(threads_work_until_they_are_told_to_end),
		cmocka_unit_test(no_thread_is_no_wait),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
