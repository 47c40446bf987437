/* tests/unit.h — what every test in C begins with. */
#ifndef CAIRN_TESTS_UNIT_H
#define CAIRN_TESTS_UNIT_H

/* cmocka.h wants these four before it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
/* What is undefined traps (CMakeLists.txt): the sanitizer says where, and cmocka can't hide it. */
const char *__asan_default_options(void)
{
	return "handle_sigill=2";
}
#endif

/* Size of a buffer for test_dir(): the path leaves room for a socket's name behind it. */
#define TEST_DIR_MAX 96

static inline void test_dir_below(const char *parent, char *ret, size_t n, const char *name)
{
	int len = snprintf(ret, n, "%s/cairn-%s-XXXXXX", parent, name);

	assert_true(len > 0 && (size_t)len < n);
	assert_non_null(mkdtemp(ret));
}

/* Makes a directory of this test's own below TMPDIR; the test removes it. `ret` has n bytes. */
static inline void test_dir(char *ret, size_t n, const char *name)
{
	const char *tmp = getenv("TMPDIR");

	test_dir_below(tmp && *tmp ? tmp : "/tmp", ret, n, name);
}

/* Likewise in memory, where the machine has such a place: for thousands of files or flushes. */
static inline void test_dir_in_memory(char *ret, size_t n, const char *name)
{
	if (access("/dev/shm", W_OK) == 0)
		test_dir_below("/dev/shm", ret, n, name);
	else
		test_dir(ret, n, name);
}

#endif
