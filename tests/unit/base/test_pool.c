#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include "base/mem.h"
#include "base/os/loop.h"
#include "unit.h"

#define JOBS 3000

struct bench {
	struct loop *loop;
	struct pool *pool;
	atomic_int at_work, most, runs;
	pthread_t owner;
	int dones, generations;
	VEC(int) order;
};

struct job {
	struct bench *b;
	int id, ran; /* plain: the pool hands it from thread to thread */
};

static void run(void *arg)
{
	struct job *j = arg;
	int now = atomic_fetch_add(&j->b->at_work, 1) + 1, most = atomic_load(&j->b->most);

	while (now > most && !atomic_compare_exchange_weak(&j->b->most, &most, now))
		;
	j->ran++;
	atomic_fetch_add(&j->b->runs, 1);
	atomic_fetch_sub(&j->b->at_work, 1);
}

static void done(void *arg)
{
	struct job *j = arg;

	assert_true(pthread_equal(pthread_self(), j->b->owner));
	assert_int_equal(j->ran, 1);
	j->b->dones++;
	VEC_PUSH(&j->b->order, j->id);
}

static void submit_many(struct bench *b, struct job *jobs)
{
	for (int i = 0; i < JOBS; i++) {
		jobs[i] = (struct job){ .b = b, .id = i };
		pool_submit(b->pool, run, done, &jobs[i]);
	}
}

static const unsigned thread_counts[] = { 0, 1, 2, 7 };

static void every_job_runs_once_and_comes_back(void **state)
{
	static struct job jobs[JOBS];

	for (size_t i = 0; i < ARRAY_LEN(thread_counts); i++) {
		struct bench b = { .owner = pthread_self() };

		assert_int_equal(loop_new(clock_system(), &b.loop, NULL), 0);
		assert_int_equal(pool_new(b.loop, thread_counts[i], &b.pool, NULL), 0);
		submit_many(&b, jobs);
		assert_int_equal(pool_pending(b.pool), JOBS);
		while (pool_pending(b.pool))
			assert_int_equal(loop_turn(b.loop, -1, NULL), 1);
		assert_int_equal(b.dones, JOBS);
		assert_int_equal(b.runs, JOBS);
		assert_true(b.most <= (int)MAX(thread_counts[i], 1));
		for (int k = 0; thread_counts[i] <= 1 && k < JOBS; k++)
			assert_int_equal(b.order.v[k], k); /* one at a time: as submitted */
		assert_int_equal(loop_turn(b.loop, -1, NULL), 0);
		pool_free(b.pool);
		loop_free(b.loop);
		VEC_FREE(&b.order);
	}
}

static void free_finishes_what_was_submitted(void **state)
{
	static struct job jobs[JOBS];

	for (size_t i = 0; i < ARRAY_LEN(thread_counts); i++) {
		struct bench b = { .owner = pthread_self() };

		assert_int_equal(loop_new(clock_system(), &b.loop, NULL), 0);
		assert_int_equal(pool_new(b.loop, thread_counts[i], &b.pool, NULL), 0);
		submit_many(&b, jobs);
		pool_free(b.pool);
		assert_int_equal(b.dones, JOBS);
		assert_int_equal(loop_turn(b.loop, -1, NULL), 0);
		loop_free(b.loop);
		VEC_FREE(&b.order);
	}
}

static void breed(void *arg)
{
	struct job *j = arg;
	struct bench *b = j->b;

	b->dones++;
	free(j);
	if (b->generations-- > 0) {
		struct job *child = xcalloc(1, sizeof(*child));

		child->b = b;
		pool_submit(b->pool, run, breed, child);
	}
}

static void free_runs_what_done_submits(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(thread_counts); i++) {
		struct bench b = { .owner = pthread_self(), .generations = 20 };
		struct job *first = xcalloc(1, sizeof(*first));

		assert_int_equal(loop_new(clock_system(), &b.loop, NULL), 0);
		assert_int_equal(pool_new(b.loop, thread_counts[i], &b.pool, NULL), 0);
		first->b = &b;
		pool_submit(b.pool, run, breed, first);
		pool_free(b.pool);
		assert_int_equal(b.dones, 21);
		loop_free(b.loop);
	}
}

static void note_thread(void *arg)
{
	struct job *j = arg;

	if (!pthread_equal(pthread_self(), j->b->owner))
		atomic_fetch_add(&j->b->at_work, 1);
	j->ran++;
}

/* Jobs that come while the pool is freed: nobody would join a worker that began with them. */
static void submit_late(void *arg)
{
	static struct job late[4];
	struct job *j = arg;

	for (size_t i = 0; i < ARRAY_LEN(late); i++) {
		late[i] = (struct job){ .b = j->b };
		pool_submit(j->b->pool, note_thread, done, &late[i]);
	}
	for (int i = 0; i < 2000 && atomic_load(&j->b->at_work) == 0; i++)
		sched_yield();
}

static void free_starts_no_worker(void **state)
{
	struct bench b = { .owner = pthread_self() };
	struct job first = { .b = &b };

	assert_int_equal(loop_new(clock_system(), &b.loop, NULL), 0);
	assert_int_equal(pool_new(b.loop, 4, &b.pool, NULL), 0);
	pool_submit(b.pool, run, submit_late, &first);
	pool_free(b.pool);
	assert_int_equal(b.dones, 4);
	assert_int_equal(atomic_load(&b.at_work), 0);
	loop_free(b.loop);
	VEC_FREE(&b.order);
}

static void on_timer(void *arg)
{
	struct bench *b = arg;

	assert_int_equal(b->dones, JOBS); /* the clock stood still while jobs were out */
	b->generations = 1;
}

static void virtual_clock_waits_for_jobs(void **state)
{
	static struct job jobs[JOBS];

	for (size_t i = 0; i < ARRAY_LEN(thread_counts); i++) {
		struct bench b = { .owner = pthread_self() };
		struct clock clock;

		clock_virtual_init(&clock, 0);
		assert_int_equal(loop_new(&clock, &b.loop, NULL), 0);
		assert_int_equal(pool_new(b.loop, thread_counts[i], &b.pool, NULL), 0);
		loop_add_timer(b.loop, NS_PER_S, on_timer, &b);
		submit_many(&b, jobs);
		assert_int_equal(loop_run(b.loop, NULL), 0);
		assert_int_equal(b.generations, 1);
		assert_int_equal(clock.now_ns, NS_PER_S);
		pool_free(b.pool);
		loop_free(b.loop);
		VEC_FREE(&b.order);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_job_runs_once_and_comes_back),
		cmocka_unit_test(free_finishes_what_was_submitted),
		cmocka_unit_test(free_runs_what_done_submits),
		cmocka_unit_test(free_starts_no_worker),
		cmocka_unit_test(virtual_clock_waits_for_jobs),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
