/* The journal of records that may not be in the bucket: what is on it after a life, a death, a
 * take-over; and garbage. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "storage/remote/unsent.h"
#include "unit.h"

static char root[TEST_DIR_MAX], *dir;

static int setup(void **state)
{
	test_dir(root, sizeof(root), "unsent");
	dir = fs_join(root, "unsent");
	return 0;
}

static int teardown(void **state)
{
	fs_remove_tree(root, NULL);
	free(dir);
	return 0;
}

static struct unsent_record record(uint8_t n, bool replace)
{
	struct unsent_record r = { .space = n % 2 ? STORE_RUN : STORE_ACTION, .replace = replace };

	memset(r.name.b, n, sizeof(r.name.b));
	return r;
}

static void add(struct unsent *u, uint8_t n)
{
	const struct unsent_record r = record(n, false);

	unsent_add(u, &r);
	unsent_added(u);
}

/* Another process puts these, and is killed. */
static void die_with(uint8_t first, uint8_t n)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		struct unsent *u = unsent_new(dir);

		for (uint8_t i = 0; i < n; i++)
			add(u, (uint8_t)(first + i));
		kill(getpid(), SIGKILL);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
}

static size_t taken(struct unsent *u)
{
	struct unsent_record *v;
	size_t n;

	unsent_take_over(u, &v, &n);
	free(v);
	return n;
}

static size_t files(void)
{
	_cleanup_(freep) char *cmd = xasprintf("exit $(ls %s 2>/dev/null | wc -l)", dir);

	return (size_t)WEXITSTATUS(system(cmd)); /* lint: system because ls says it best */
}

static void nothing_is_left_of_what_was_sent(void **state)
{
	struct unsent *u = unsent_new(dir);

	assert_int_equal(files(), 0);
	add(u, 1);
	assert_int_equal(files(), 1);
	unsent_clear(u, false);
	unsent_free(u);
	assert_int_equal(files(), 0);
}

static void what_was_not_sent_is_there_for_others(void **state)
{
	struct unsent *u = unsent_new(dir), *other;

	add(u, 1);
	add(u, 2);
	other = unsent_new(dir);
	assert_int_equal(taken(other), 0); /* the first lives */
	unsent_free(u);
	assert_int_equal(taken(other), 2);
	assert_int_equal(taken(other), 2); /* until it is sent */
	unsent_clear(other, false);
	assert_int_equal(taken(other), 2);
	unsent_clear(other, true);
	assert_int_equal(taken(other), 0);
	unsent_free(other);
	assert_int_equal(files(), 0);
}

static void the_killed_leave_theirs_and_so_does_who_takes_over_and_dies(void **state)
{
	struct unsent *u = unsent_new(dir);
	pid_t pid;
	int status;

	die_with(10, 3);
	die_with(12, 2); /* 12 twice */
	pid = fork();
	if (pid == 0) {
		struct unsent *heir = unsent_new(dir);

		if (taken(heir) == 4)
			kill(getpid(), SIGKILL);
		_exit(1);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(files(), 1);
	assert_int_equal(taken(u), 4);
	unsent_clear(u, true);
	unsent_free(u);
	assert_int_equal(files(), 0);
}

/* All kinds of records that a store puts: what isn't taken over is lost for the others. */
static void every_kind_is_taken_over(void **state)
{
	static const enum store_space kinds[] = { STORE_ACTION, STORE_RUN, STORE_TAG };
	struct unsent *u = unsent_new(dir), *other = unsent_new(dir);
	struct unsent_record *v;
	size_t n;

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++) {
		struct unsent_record r = record((uint8_t)(i + 1), false);

		r.space = kinds[i];
		unsent_add(u, &r);
		unsent_added(u);
	}
	unsent_free(u);
	unsent_take_over(other, &v, &n);
	assert_int_equal(n, ARRAY_LEN(kinds));
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(v[i].space, kinds[i]);
		assert_int_equal(v[i].name.b[0], i + 1);
	}
	free(v);
	unsent_clear(other, true);
	unsent_free(other);
}

static void entries_say_what_they_are(void **state)
{
	const struct unsent_record a = record(2, true), b = record(3, false);
	struct unsent *u = unsent_new(dir), *other = unsent_new(dir);
	struct unsent_record *v;
	size_t n;

	unsent_add(u, &a);
	unsent_add(u, &b);
	unsent_free(u);
	unsent_take_over(other, &v, &n);
	assert_int_equal(n, 2);
	for (size_t i = 0; i < n; i++) {
		const struct unsent_record *want = v[i].space == STORE_ACTION ? &a : &b;

		assert_true(digest_eq(&v[i].name, &want->name));
		assert_int_equal(v[i].replace, want->replace);
	}
	free(v);
	unsent_clear(other, true);
	unsent_free(other);
}

/* Between unsent_add() and unsent_added() the record isn't in the queue yet that says whether all
 * was sent. */
static void what_is_being_put_is_not_cleared(void **state)
{
	const struct unsent_record r = record(4, false);
	struct unsent *u = unsent_new(dir), *other = unsent_new(dir);

	unsent_add(u, &r);
	unsent_clear(u, true);
	unsent_added(u);
	unsent_free(u);
	assert_int_equal(taken(other), 1);
	unsent_clear(other, true);
	unsent_free(other);
}

static void garbage_counts_for_nothing(void **state)
{
	struct {
		const char *name, *bytes;
		size_t n;
	} bad[] = {
		{ "1-1", "", 0 },
		{ "1-2", "cairn-unsent/9\n", 15 },
		{ "1-3", "cairn-unsent/1\n\x02torn", 20 },
		{ "1-4",
		  "cairn-unsent/1\n\x07"
		  "01234567890123456789012345678901",
		  48 }, /* no such space */
		{ "1-5",
		  "cairn-unsent/1\n\x02"
		  "01234567890123456789012345678901\x02half",
		  53 },
	};
	struct unsent *u = unsent_new(dir);

	assert_int_equal(fs_mkdir_p(dir, NULL), 0);
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		_cleanup_(freep) char *path = fs_join(dir, bad[i].name);

		assert_int_equal(fs_write_atomic(path, bad[i].bytes, bad[i].n, NULL), 0);
	}
	assert_int_equal(taken(u), 1);
	unsent_clear(u, true);
	unsent_free(u);
	assert_int_equal(files(), 0);
}

/* Two million records of a machine that was offline, and one more: none is too many. */
static void a_long_file_is_taken_over_to_its_end(void **state)
{
	_cleanup_(freep) char *path = fs_join(dir, "1-1");
	struct unsent *u = unsent_new(dir);
	const off_t at = 15 + 33 * (off_t)(2 * MIB);
	const uint8_t entry[33] = { STORE_RUN, 7 }; /* what is before it is a hole: no records */
	int fd;

	assert_int_equal(fs_mkdir_p(dir, NULL), 0);
	assert_int_equal(fs_write_atomic(path, "cairn-unsent/1\n", 15, NULL), 0);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	assert_int_equal(pwrite(fd, entry, sizeof(entry), at), sizeof(entry));
	close(fd);
	assert_int_equal(taken(u), 1);
	assert_int_equal(access(path, F_OK), -1);
	unsent_clear(u, true);
	unsent_free(u);
}

static void a_directory_that_cannot_be_made_is_no_failure(void **state)
{
	_cleanup_(freep) char *file = fs_join(root, "file"), *below = fs_join(file, "x");
	struct unsent *u = unsent_new(below);

	assert_int_equal(fs_write_atomic(file, "x", 1, NULL), 0);
	add(u, 1);
	assert_int_equal(taken(u), 0);
	unsent_clear(u, true);
	unsent_free(u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(nothing_is_left_of_what_was_sent, setup, teardown),
		cmocka_unit_test_setup_teardown(what_was_not_sent_is_there_for_others, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			the_killed_leave_theirs_and_so_does_who_takes_over_and_dies, setup,
			teardown),
		cmocka_unit_test_setup_teardown(entries_say_what_they_are, setup, teardown),
		cmocka_unit_test_setup_teardown(every_kind_is_taken_over, setup, teardown),
		cmocka_unit_test_setup_teardown(what_is_being_put_is_not_cleared, setup, teardown),
		cmocka_unit_test_setup_teardown(garbage_counts_for_nothing, setup, teardown),
		cmocka_unit_test_setup_teardown(a_long_file_is_taken_over_to_its_end, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_directory_that_cannot_be_made_is_no_failure,
						setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
