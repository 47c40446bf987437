#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include "base/mem.h"
#include "steps/step.h"
#include "unit.h"

/* A stream of numbers, whose life is counted. */
struct numbers {
	unsigned n, made, next_fails_at, work_fails_from, work_fails_every,
		done_fails_at; /* UINT32_MAX: never */
	atomic_uint alive, most_alive, worked, in_next, in_done;
	unsigned dropped, finished;
	bool wrong_order, next_overlaps, done_overlaps;
	pthread_barrier_t *meet; /* every item waits for the others that are in work */
};

#define NEVER UINT32_MAX

static struct numbers numbers_of(unsigned n)
{
	return (struct numbers){ .n = n,
				 .next_fails_at = NEVER,
				 .work_fails_from = NEVER,
				 .work_fails_every = 1,
				 .done_fails_at = NEVER };
}

static void *next(void *arg, struct err *err)
{
	struct numbers *s = arg;
	unsigned *item;

	s->next_overlaps |= atomic_fetch_add(&s->in_next, 1) > 0;
	if (s->made == s->next_fails_at) {
		err_set(err, ERR_IO, "next %u", s->made);
		atomic_fetch_sub(&s->in_next, 1);
		return NULL;
	}
	if (s->made == s->n) {
		atomic_fetch_sub(&s->in_next, 1);
		return NULL;
	}
	item = xmalloc(sizeof(*item));
	*item = s->made++;
	unsigned alive = atomic_fetch_add(&s->alive, 1) + 1, most = atomic_load(&s->most_alive);

	while (alive > most && !atomic_compare_exchange_weak(&s->most_alive, &most, alive))
		;
	atomic_fetch_sub(&s->in_next, 1);
	return item;
}

static int work(void *arg, void *p, struct err *err)
{
	struct numbers *s = arg;
	unsigned *item = p;

	if (s->meet)
		pthread_barrier_wait(s->meet);
	atomic_fetch_add(&s->worked, 1);
	if (*item >= s->work_fails_from && (*item - s->work_fails_from) % s->work_fails_every == 0)
		return err_set(err, ERR_CORRUPT, "work %u", *item);
	*item = *item * 3 + 1;
	return 0;
}

static int done(void *arg, void *p, struct err *err)
{
	struct numbers *s = arg;
	unsigned *item = p;
	int r = 0;

	s->done_overlaps |= atomic_fetch_add(&s->in_done, 1) > 0;
	s->wrong_order |= *item != s->finished * 3 + 1;
	if (s->finished == s->done_fails_at)
		r = err_set(err, ERR_NO_SPACE, "done %u", s->finished);
	s->finished++;
	free(item);
	atomic_fetch_sub(&s->alive, 1);
	atomic_fetch_sub(&s->in_done, 1);
	return r;
}

static void drop(void *arg, void *p)
{
	struct numbers *s = arg;

	free(p);
	s->dropped++;
	atomic_fetch_sub(&s->alive, 1);
}

static int stream(struct numbers *s, unsigned threads, size_t max_in_flight, struct err *err)
{
	const struct step_stream st = { next, work, done, drop, s, max_in_flight };

	return step_stream(threads, &st, err);
}

static void check_whole(const struct numbers *s)
{
	assert_int_equal(s->alive, 0);
	assert_false(s->wrong_order);
	assert_false(s->next_overlaps);
	assert_false(s->done_overlaps);
	assert_int_equal(s->made, s->finished + s->dropped);
}

static void test_order(void **state)
{
	static const unsigned sizes[] = { 0, 1, 2, 7, 5000 }, threads[] = { 1, 2, 3, 16 };

	for (size_t i = 0; i < ARRAY_LEN(sizes); i++)
		for (size_t k = 0; k < ARRAY_LEN(threads); k++) {
			struct numbers s = numbers_of(sizes[i]);
			struct err err = { 0 };

			assert_int_equal(stream(&s, threads[k], 0, &err), 0);
			assert_int_equal(err.code, ERR_NONE);
			check_whole(&s);
			assert_int_equal(s.finished, sizes[i]);
			assert_int_equal(s.dropped, 0);
			assert_true(s.most_alive <= threads[k] * 4);
		}
}

static void test_bound(void **state)
{
	for (size_t most = 1; most < 6; most++) {
		struct numbers s = numbers_of(500);

		assert_int_equal(stream(&s, 4, most, NULL), 0);
		check_whole(&s);
		assert_true(s.most_alive <= most);
	}
}

/* Four items meet in work() before any may leave it: they really run at once. */
static void test_at_once(void **state)
{
	struct numbers s = numbers_of(40);
	pthread_barrier_t meet;

	pthread_barrier_init(&meet, NULL, 4);
	s.meet = &meet;
	assert_int_equal(stream(&s, 4, 0, NULL), 0);
	check_whole(&s);
	pthread_barrier_destroy(&meet);
}

static void test_first_error(void **state)
{
	for (unsigned threads = 1; threads < 9; threads++)
		for (unsigned at = 0; at < 60; at += 7) {
			struct numbers s = numbers_of(60);
			struct err err = { 0 };
			char want[32];

			s.work_fails_from = at;
			s.work_fails_every = 3;
			assert_int_equal(stream(&s, threads, 0, &err), -1);
			snprintf(want, sizeof(want), "work %u", at);
			assert_string_equal(err.msg, want);
			assert_int_equal(err.code, ERR_CORRUPT);
			check_whole(&s);
			assert_int_equal(s.finished,
					 at); /* all before it were done, nothing after it */
		}
}

static void test_next_fails(void **state)
{
	for (unsigned at = 0; at < 20; at++) {
		struct numbers s = numbers_of(20);
		struct err err = { 0 };

		s.next_fails_at = at;
		assert_int_equal(stream(&s, 3, 0, &err), -1);
		assert_int_equal(err.code, ERR_IO);
		check_whole(&s);
		assert_int_equal(s.finished, at);
	}
	struct numbers s = numbers_of(
		20); /* the item before the one that can't be made is the earlier error */
	struct err err = { 0 };

	s.next_fails_at = 10;
	s.work_fails_from = 9;
	assert_int_equal(stream(&s, 3, 0, &err), -1);
	assert_string_equal(err.msg, "work 9");
	check_whole(&s);
}

static void test_done_fails(void **state)
{
	for (unsigned at = 0; at < 20; at++) {
		struct numbers s = numbers_of(20);
		struct err err = { 0 };

		s.done_fails_at = at;
		s.work_fails_from = at + 1;
		assert_int_equal(stream(&s, 3, 0, &err), -1);
		assert_int_equal(err.code, ERR_NO_SPACE);
		check_whole(&s);
		assert_int_equal(s.finished, at + 1);
	}
}

/* A known number. */

struct range_test {
	atomic_uint count[1000];
	size_t fails_from;
};

static int touch(void *arg, size_t i, struct err *err)
{
	struct range_test *t = arg;

	atomic_fetch_add(&t->count[i], 1);
	return i >= t->fails_from ? err_set(err, ERR_CORRUPT, "at %zu", i) : 0;
}

static void test_range(void **state)
{
	for (unsigned threads = 1; threads < 6; threads++)
		for (size_t n = 0; n <= 1000; n = n * 3 + 1) {
			struct range_test t = { .fails_from = SIZE_MAX };

			assert_int_equal(step_parallel(threads, n, touch, &t, NULL), 0);
			for (size_t i = 0; i < 1000; i++)
				assert_int_equal(t.count[i], i < n);
		}
}

static void test_range_error(void **state)
{
	for (unsigned threads = 1; threads < 6; threads++)
		for (size_t from = 0; from < 1000; from += 111) {
			struct range_test t = { .fails_from = from };
			struct err err = { 0 };
			char want[32];

			assert_int_equal(step_parallel(threads, 1000, touch, &t, &err), -1);
			snprintf(want, sizeof(want), "at %zu", from);
			assert_string_equal(err.msg, want);
			for (size_t i = 0; i <= from; i++)
				assert_int_equal(t.count[i], 1);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_order),      cmocka_unit_test(test_bound),
		cmocka_unit_test(test_at_once),    cmocka_unit_test(test_first_error),
		cmocka_unit_test(test_next_fails), cmocka_unit_test(test_done_fails),
		cmocka_unit_test(test_range),      cmocka_unit_test(test_range_error),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
