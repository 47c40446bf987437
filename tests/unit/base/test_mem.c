#include <string.h>
#include <sys/wait.h>
#include "base/mem.h"
#include "base/text/str.h"
#include "base/time/clock.h"
#include "unit.h"

/* Random sizes: everything zeroed, aligned, apart from each other, and still there at the end. */
static void test_arena_random(void **state)
{
	for (unsigned seed = 1; seed <= 20; seed++) {
		struct arena *a = arena_new();
		VEC(struct {
			unsigned char *p;
			size_t n;
		})
		got = { 0 };

		srand(seed);
		for (size_t i = 0; i < 2000; i++) {
			size_t n = rand() % 100 == 0 ? (size_t)(rand() % 300000)
						     : (size_t)(rand() % 200);
			unsigned char *p = arena_alloc(a, n);

			assert_int_equal((uintptr_t)p % 16, 0);
			for (size_t k = 0; k < n; k++)
				assert_int_equal(p[k], 0);
			memset(p, (int)(i % 251 + 1), n);
			__auto_type e = VEC_ADD(&got);
			e->p = p;
			e->n = n;
		}
		for (size_t i = 0; i < got.n; i++)
			for (size_t k = 0; k < got.v[i].n; k++)
				assert_int_equal(got.v[i].p[k], i % 251 + 1);
		assert_true(arena_bytes(a) > 0);
		__auto_type taken = VEC_TAKE(&got);
		assert_null(got.v);
		assert_int_equal(got.n + got.cap, 0);
		VEC_FREE(&taken);
		assert_null(taken.v);
		arena_free(a);
	}
	arena_free(NULL);
}

static void test_arena_is_frugal(void **state)
{
	_cleanup_(arena_freep) struct arena *a = arena_new();

	for (size_t i = 0; i < 100000; i++)
		arena_alloc(a, 64);
	assert_true(arena_bytes(a) < 100000 * 64 + 3 * MIB);
}

static void test_arena_strings(void **state)
{
	_cleanup_(arena_freep) struct arena *a = arena_new();
	char big[10000];

	memset(big, 'b', sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	assert_string_equal(arena_strdup(a, "abc"), "abc");
	assert_string_equal(arena_strndup(a, "abcdef", 3), "abc");
	assert_string_equal(arena_strndup(a, "ab", 30), "ab");
	assert_memory_equal(arena_memdup(a, "a\0b", 3), "a\0b", 3);
	assert_non_null(arena_memdup(a, NULL, 0));
	assert_string_equal(arena_printf(a, "%d %s", 5, big) + 2, big);
}

static void test_plain_helpers(void **state)
{
	_cleanup_(freep) char *a = xstrndup("hello", 2), *b = xasprintf("%03d", 7),
			      *c = xstrdup("");
	_cleanup_(freep) int *z = xcalloc(10, sizeof(int));
	int *moved = TAKE_PTR(z);

	assert_null(z);
	z = moved;
	assert_string_equal(a, "he");
	assert_string_equal(b, "007");
	assert_string_equal(c, "");
	assert_int_equal(z[9], 0);
}

static int exit_status_of(void (*fn)(void))
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		close(STDERR_FILENO);
		fn();
		_exit(99);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void overflow_array(void)
{
	xreallocarray(NULL, SIZE_MAX / 2, 4);
}

static void overflow_str(void)
{
	struct str s = { 0 };

	str_addc(&s, 'x');
	str_reserve(&s, SIZE_MAX);
}

static void test_overflow_is_fatal(void **state)
{
	assert_int_equal(exit_status_of(overflow_array), 4);
	assert_int_equal(exit_status_of(overflow_str), 4);
}

static void test_clocks(void **state)
{
	struct clock *c = clock_system(), v;
	int64_t before = c->mono_ns(c);

	assert_true(c->mono_ns(c) >= before);
	assert_true(c->wall_ns(c) > 1600000000 * NS_PER_S);
	clock_virtual_init(&v, 5);
	clock_virtual_advance(&v, 7);
	assert_int_equal(v.mono_ns(&v), 12);
	assert_int_equal(v.wall_ns(&v), 12);
	assert_true(v.is_virtual);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_arena_random),      cmocka_unit_test(test_arena_is_frugal),
		cmocka_unit_test(test_arena_strings),     cmocka_unit_test(test_plain_helpers),
		cmocka_unit_test(test_overflow_is_fatal), cmocka_unit_test(test_clocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
