#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include "base/mem.h"
#include "base/os/loop.h"
#include "unit.h"

struct world {
	struct clock clock;
	struct loop *loop;
	VEC(int) seen;
};

static int set_up(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	clock_virtual_init(&w->clock, 1000);
	assert_int_equal(loop_new(&w->clock, &w->loop, NULL), 0);
	*state = w;
	return 0;
}

static int tear_down(void **state)
{
	struct world *w = *state;

	loop_free(w->loop);
	VEC_FREE(&w->seen);
	free(w);
	return 0;
}

static int set_up_real(void **state)
{
	struct world *w = xcalloc(1, sizeof(*w));

	assert_int_equal(loop_new(clock_system(), &w->loop, NULL), 0);
	*state = w;
	return 0;
}

/* Timers against a naive model. */

struct ticket {
	struct world *w;
	struct loop_source *source;
	int64_t at;
	int id;
	bool pending;
};

static void on_ticket(void *arg)
{
	struct ticket *t = arg;

	assert_true(t->pending);
	assert_true(t->w->clock.now_ns >= t->at);
	t->pending = false;
	t->source = NULL;
	VEC_PUSH(&t->w->seen, t->id);
}

/* The one that must fire next: the earliest, of those the one added first. */
static struct ticket *next_of(struct ticket *v, size_t n)
{
	struct ticket *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (v[i].pending &&
		    (!best || v[i].at < best->at || (v[i].at == best->at && v[i].id < best->id)))
			best = &v[i];
	return best;
}

static void timers_fire_in_order(void **state)
{
	struct world *w = *state;
	struct ticket v[400] = { 0 };
	unsigned seed = 42;
	size_t n = 0;

	for (int step = 0; step < 3000; step++) {
		switch (rand_r(&seed) % 4) {
		case 0:
		case 1:
			if (n < ARRAY_LEN(v)) {
				v[n] = (struct ticket){ .w = w,
							.id = (int)n,
							.pending = true,
							.at = w->clock.now_ns +
							      rand_r(&seed) % 50 };
				v[n].source = loop_add_timer(w->loop, v[n].at, on_ticket, &v[n]);
				n++;
			}
			break;
		case 2:
			if (n) {
				struct ticket *t = &v[(size_t)rand_r(&seed) % n];

				loop_remove(w->loop, t->source);
				t->source = NULL;
				t->pending = false;
			}
			break;
		case 3: {
			/* Those of one time fire in one turn. */
			struct ticket *want = next_of(v, n);
			int64_t at = want ? MAX(want->at, w->clock.now_ns) : 0;
			size_t before = w->seen.n;
			int ids[ARRAY_LEN(v)], n_ids = 0;

			for (struct ticket *t; (t = next_of(v, n)) && t->at <= at;
			     t->pending = false)
				ids[n_ids++] = t->id;
			for (int i = 0; i < n_ids; i++)
				v[ids[i]].pending = true;
			assert_int_equal(loop_turn(w->loop, -1, NULL), want ? 1 : 0);
			assert_int_equal(w->seen.n - before, n_ids);
			if (n_ids)
				assert_memory_equal(&w->seen.v[before], ids,
						    (size_t)n_ids * sizeof(int));
			break;
		}
		}
	}
	assert_int_equal(n, ARRAY_LEN(v));
}

static void add_again(void *arg)
{
	struct world *w = arg;

	VEC_PUSH(&w->seen, 1);
	if (w->seen.n < 5)
		loop_add_timer(w->loop, w->clock.now_ns, add_again, w);
}

static void timer_added_by_timer_waits_a_turn(void **state)
{
	struct world *w = *state;

	loop_add_timer(w->loop, 0, add_again, w);
	assert_int_equal(loop_turn(w->loop, -1, NULL), 1);
	assert_int_equal(w->seen.n, 1);
	assert_int_equal(loop_run(w->loop, NULL), 0);
	assert_int_equal(w->seen.n, 5);
	assert_int_equal(w->clock.now_ns, 1000);
}

static void virtual_hour_takes_no_time(void **state)
{
	struct world *w = *state;
	int64_t before = clock_system()->mono_ns(clock_system());

	loop_add_timer(w->loop, 3600 * NS_PER_S, add_again, w);
	assert_int_equal(loop_turn(w->loop, -1, NULL), 1);
	assert_int_equal(w->clock.now_ns, 3600 * NS_PER_S);
	assert_true(clock_system()->mono_ns(clock_system()) - before < 60 * NS_PER_S);
}

static void nothing_left_is_zero(void **state)
{
	struct world *w = *state;

	assert_int_equal(loop_turn(w->loop, -1, NULL), 0);
	assert_int_equal(loop_run(w->loop, NULL), 0);
}

/* Descriptors. */

struct pair {
	struct world *w;
	struct loop_source *a, *b;
	int calls;
};

static void remove_both(void *arg, int fd, uint32_t events)
{
	struct pair *p = arg;

	p->calls++;
	loop_remove(p->w->loop, p->a);
	loop_remove(p->w->loop, p->b);
	loop_remove(p->w->loop, p->b); /* twice is fine within the turn */
}

static void removed_while_ready_is_not_called(void **state)
{
	struct world *w = *state;
	struct pair p = { .w = w };
	int a[2], b[2];

	assert_int_equal(pipe(a) | pipe(b), 0);
	assert_int_equal(loop_add_fd(w->loop, a[0], EPOLLIN, remove_both, &p, &p.a, NULL), 0);
	assert_int_equal(loop_add_fd(w->loop, b[0], EPOLLIN, remove_both, &p, &p.b, NULL), 0);
	assert_int_equal(write(a[1], "x", 1) + write(b[1], "x", 1), 2);
	assert_int_equal(loop_turn(w->loop, -1, NULL), 1);
	assert_int_equal(p.calls, 1);
	assert_int_equal(loop_turn(w->loop, -1, NULL), 0);
	for (int i = 0; i < 2; i++) {
		close(a[i]);
		close(b[i]);
	}
}

static void bad_descriptor_is_an_error(void **state)
{
	struct world *w = *state;
	struct loop_source *s = NULL;
	struct err err = { 0 };

	assert_int_equal(loop_add_fd(w->loop, 9999, EPOLLIN, remove_both, NULL, &s, &err), -1);
	assert_int_equal(err.code, ERR_IO);
	assert_null(s);
	assert_int_equal(loop_turn(w->loop, -1, NULL), 0);
}

/* Signals, posts, hooks. */

static void on_signal(void *arg, int signo)
{
	struct world *w = arg;

	VEC_PUSH(&w->seen, signo);
	loop_stop(w->loop);
}

static void signals_arrive(void **state)
{
	struct world *w = *state;
	struct loop_source *s;

	assert_int_equal(loop_add_signal(w->loop, SIGUSR1, on_signal, w, &s, NULL), 0);
	raise(SIGUSR1);
	assert_int_equal(loop_run(w->loop, NULL), 0);
	assert_int_equal(w->seen.n, 1);
	assert_int_equal(w->seen.v[0], SIGUSR1);
	loop_remove(w->loop, s);
	assert_int_equal(loop_turn(w->loop, -1, NULL), 0);
}

#define POSTS 2000
struct poster {
	struct world *w;
	int base, n;
	int ids[POSTS];
};
static struct world *post_world;

static void on_post(void *arg)
{
	VEC_PUSH(&post_world->seen, *(int *)arg);
}

static void *post_many(void *arg)
{
	struct poster *p = arg;

	for (int i = 0; i < POSTS; i++) {
		p->ids[i] = p->base + i;
		loop_post(p->w->loop, on_post, &p->ids[i]);
	}
	return NULL;
}

static void keep_alive(void *arg)
{
}

static void posts_arrive_in_each_threads_order(void **state)
{
	static struct poster p[4];
	struct world *w = *state;
	pthread_t threads[ARRAY_LEN(p)];
	struct loop_source *far =
		loop_add_timer(w->loop, clock_system()->mono_ns(clock_system()) + 3600 * NS_PER_S,
			       keep_alive, NULL);
	int last[ARRAY_LEN(p)];

	post_world = w;
	for (int i = 0; i < (int)ARRAY_LEN(p); i++) {
		p[i] = (struct poster){ .w = w, .base = i * 100000 };
		last[i] = -1;
		assert_int_equal(pthread_create(&threads[i], NULL, post_many, &p[i]), 0);
	}
	while (w->seen.n < POSTS * ARRAY_LEN(p))
		assert_int_equal(loop_turn(w->loop, -1, NULL), 1);
	for (size_t i = 0; i < ARRAY_LEN(p); i++)
		pthread_join(threads[i], NULL);
	for (size_t i = 0; i < w->seen.n; i++) {
		int *l = &last[w->seen.v[i] / 100000];

		assert_int_equal(w->seen.v[i] % 100000, *l + 1);
		++*l;
	}
	loop_remove(w->loop, far);
}

static void hook(void *arg)
{
	struct world *w = arg;

	VEC_PUSH(&w->seen, -1);
}

static void hooks_run_after_work_only(void **state)
{
	struct world *w = *state;
	int one = 1;

	post_world = w;
	loop_add_idle(w->loop, hook, w);
	assert_int_equal(loop_turn(w->loop, 0, NULL), 0);
	assert_int_equal(w->seen.n, 0);
	loop_post(w->loop, on_post, &one);
	loop_post(w->loop, on_post, &one);
	assert_int_equal(loop_turn(w->loop, 0, NULL), 1);
	assert_int_equal(w->seen.n, 3);
	assert_int_equal(w->seen.v[2], -1);
	loop_remove_idle(w->loop, hook, w);
	loop_post(w->loop, on_post, &one);
	assert_int_equal(loop_turn(w->loop, 0, NULL), 1);
	assert_int_equal(w->seen.n, 4);
}

static void hook_once(void *arg)
{
	struct world *w = arg;

	VEC_PUSH(&w->seen, -2);
	loop_remove_idle(w->loop, hook_once, w);
}

/* The one behind it has its turn all the same. */
static void hook_that_removes_itself(void **state)
{
	struct world *w = *state;
	int one = 1;

	post_world = w;
	loop_add_idle(w->loop, hook_once, w);
	loop_add_idle(w->loop, hook, w);
	for (int turn = 0; turn < 2; turn++) {
		loop_post(w->loop, on_post, &one);
		assert_int_equal(loop_turn(w->loop, 0, NULL), 1);
		assert_int_equal(w->seen.v[w->seen.n - 1], -1);
	}
	assert_int_equal(w->seen.n, 5);
	loop_remove_idle(w->loop, hook, w);
}

static void real_timer_fires_when_due(void **state)
{
	struct world *w = *state;
	struct clock *c = clock_system();
	int64_t at = c->mono_ns(c) + 5 * NS_PER_MS;

	loop_add_timer(w->loop, at, hook, w);
	while (w->seen.n == 0)
		assert_int_equal(loop_turn(w->loop, -1, NULL), 1);
	assert_true(c->mono_ns(c) >= at);
	assert_int_equal(loop_turn(w->loop, -1, NULL), 0);
}

static void max_wait_bounds_a_turn(void **state)
{
	struct world *w = *state;
	struct clock *c = clock_system();
	struct loop_source *s = loop_add_timer(w->loop, c->mono_ns(c) + 3600 * NS_PER_S, hook, w);

	assert_int_equal(loop_turn(w->loop, NS_PER_MS, NULL), 1);
	assert_int_equal(w->seen.n, 0);
	loop_remove(w->loop, s);
}

/* Mail that nobody wants any more. */

static void on_unwanted(void *arg)
{
	fail_msg("it was taken back");
}

struct taker {
	struct loop *loop;
	void *arg;
};

static void take_back(void *arg)
{
	struct taker *t = arg;

	loop_unpost(t->loop, on_unwanted, t->arg);
}

static void nothing_to_do(void *arg)
{
}

/* Also by a mail of the same batch, and by what pool_free() reads. */
static void what_is_unposted_never_runs(void **state)
{
	struct world *w = *state;
	struct taker t = { w->loop, xmalloc(1) };
	struct pool *p;

	loop_post(w->loop, on_unwanted, t.arg);
	loop_unpost(w->loop, on_unwanted, t.arg);
	assert_int_equal(loop_turn(w->loop, 0, NULL), 1);
	loop_post(w->loop, take_back, &t);
	loop_post(w->loop, on_unwanted, t.arg);
	assert_int_equal(loop_turn(w->loop, 0, NULL), 1);
	assert_int_equal(pool_new(w->loop, 1, &p, NULL), 0);
	pool_submit(p, nothing_to_do, nothing_to_do, NULL);
	loop_post(w->loop, on_unwanted, t.arg);
	loop_unpost(w->loop, on_unwanted, t.arg);
	free(t.arg);
	pool_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(timers_fire_in_order, set_up, tear_down),
		cmocka_unit_test_setup_teardown(timer_added_by_timer_waits_a_turn, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(virtual_hour_takes_no_time, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nothing_left_is_zero, set_up, tear_down),
		cmocka_unit_test_setup_teardown(removed_while_ready_is_not_called, set_up,
						tear_down),
		cmocka_unit_test_setup_teardown(bad_descriptor_is_an_error, set_up, tear_down),
		cmocka_unit_test_setup_teardown(signals_arrive, set_up, tear_down),
		cmocka_unit_test_setup_teardown(posts_arrive_in_each_threads_order, set_up_real,
						tear_down),
		cmocka_unit_test_setup_teardown(what_is_unposted_never_runs, set_up_real,
						tear_down),
		cmocka_unit_test_setup_teardown(hooks_run_after_work_only, set_up, tear_down),
		cmocka_unit_test_setup_teardown(hook_that_removes_itself, set_up, tear_down),
		cmocka_unit_test_setup_teardown(real_timer_fires_when_due, set_up_real, tear_down),
		cmocka_unit_test_setup_teardown(max_wait_bounds_a_turn, set_up_real, tear_down),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
