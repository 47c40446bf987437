/* base/os/opens: what real programs open is told, and nothing else. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/os/process/opens.h"
#include "base/os/process/process.h"
#include "unit.h"

#define DEADLINE_NS (60 * NS_PER_S)

/* ThreadSanitizer takes the child of clone(CLONE_VM | CLONE_VFORK), which only calls exec, for a
 * fork of its parent's threads. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}

struct bench {
	char dir[TEST_DIR_MAX];
	char *real; /* the same without links */
	struct loop *loop;
	struct process *p;
	bool ended;
	int status;
	enum opens_what what;
};

static void on_exit_(void *arg, const struct process_exit *ex)
{
	struct bench *b = arg;

	b->ended = true;
	b->status = ex->status;
}

static int setup(void **state)
{
	struct bench *b = xcalloc(1, sizeof(*b));

	test_dir(b->dir, sizeof(b->dir), "opens");
	b->real = realpath(b->dir, NULL);
	assert_int_equal(process_become_subreaper(NULL), 0);
	assert_int_equal(loop_new(clock_system(), &b->loop, NULL), 0);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct bench *b = *state;

	loop_free(b->loop);
	assert_int_equal(fs_remove_tree(b->dir, NULL), 0);
	free(b->real);
	free(b);
	return 0;
}

static void write_file(const struct bench *b, const char *name)
{
	_cleanup_(freep) char *path = fs_join(b->dir, name), *parent = fs_dirname(path);
	_cleanup_(fd_closep) int fd = -1;

	assert_int_equal(fs_mkdir_p(parent, NULL), 0);
	fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0755);
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "text\n", 5), 5);
}

/* The clock that files' times are by moves in steps: what is made next has another time. */
static void let_time_pass(const struct bench *b)
{
	_cleanup_(freep) char *path = fs_join(b->dir, ".time");
	struct statx first, later;

	write_file(b, ".time");
	assert_int_equal(statx(AT_FDCWD, path, 0, STATX_BTIME, &first), 0);
	if (!(first.stx_mask & STATX_BTIME))
		return;
	do {
		assert_int_equal(unlink(path), 0);
		write_file(b, ".time");
		assert_int_equal(statx(AT_FDCWD, path, 0, STATX_BTIME, &later), 0);
	} while (later.stx_btime.tv_sec == first.stx_btime.tv_sec &&
		 later.stx_btime.tv_nsec == first.stx_btime.tv_nsec);
}

/* Runs it under watch and adds what it opened below the directory to *ret, a line each. */
static void watched(struct bench *b, const char *script, const char *except, struct str *ret,
		    size_t *ret_untold)
{
	const char *argv[] = { "sh", "-c", script, NULL };
	const char *env[] = { "PATH=/usr/bin:/bin", NULL };
	_cleanup_(freep) char *except_path = except ? fs_join(b->real, except) : NULL;
	const char *no[] = { except_path };
	struct process_spec spec = { .argv = argv,
				     .env = env,
				     .cwd = b->dir,
				     .stdin_fd = -1,
				     .stdout_fd = -1,
				     .stderr_fd = -1 };
	int64_t until = clock_system()->mono_ns(clock_system()) + DEADLINE_NS;
	const char *const *paths;
	struct err err = { 0 };
	struct opens *o;
	size_t n;

	let_time_pass(b);
	b->ended = false;
	if (opens_new(b->what, no, except ? 1 : 0, &o, &err) < 0) {
		if (err.code != ERR_UNSUPPORTED)
			fail_msg("%s", err.msg);
		print_message("skipped: %s\n", err.msg);
		skip();
	}
	let_time_pass(b); /* nor has what it makes the time of the beginning */
	spec.opens = opens_fd(o);
	if (process_start(b->loop, &spec, on_exit_, b, &b->p, &err) < 0)
		fail_msg("%s", err.msg);
	opens_started(o);
	while (!b->ended) {
		assert_true(loop_turn(b->loop, NS_PER_S, NULL) >= 0);
		assert_true(clock_system()->mono_ns(clock_system()) < until);
	}
	process_kill_leftovers(b->p);
	process_free(b->p);
	n = opens_stop(o, &paths, ret_untold);
	for (size_t i = 0; i < n; i++)
		if (fs_is_inside(b->real, paths[i]))
			str_addf(ret, "%s\n", paths[i] + strlen(b->real) + 1);
	assert_true(n > 0); /* the shell's own libraries */
	opens_free(o);
}

static void check(struct bench *b, const char *script, const char *except, const char *want)
{
	_cleanup_(str_deinit) struct str got = { 0 };
	size_t untold;

	watched(b, script, except, &got, &untold);
	assert_int_equal(b->status, 0);
	assert_int_equal(untold, 0);
	str_addn(&got, "", 0);
	assert_string_equal(got.s, want);
}

static void what_is_read_is_told(void **state)
{
	struct bench *b = *state;

	write_file(b, "a");
	write_file(b, "not read");
	write_file(b, "d/b");
	write_file(b, "d/ü ö");
	check(b, "cat a d/../d/b >/dev/null; cat a; cd d && cat \"ü ö\" $PWD/../a", NULL,
	      "a\nd/b\nd/ü ö\n");
	check(b, "exec cat a", NULL, "a\n");
}

static void a_link_is_told_as_what_it_leads_to(void **state)
{
	struct bench *b = *state;
	_cleanup_(freep) char *link = fs_join(b->dir, "link");

	write_file(b, "d/b");
	assert_int_equal(symlink("d/b", link), 0);
	check(b, "cat link", NULL, "d/b\n");
}

static void what_is_not_read_is_not_told(void **state)
{
	struct bench *b = *state;

	write_file(b, "a");
	write_file(b, "d/b");
	check(b, "cat missing; ls d; stat a; : >>a; echo x >new; cat new; cp new newer; cat newer",
	      NULL, "");
	check(b, "cat d/b a", "d", "a\n");
}

static void on_request_all_is_told(void **state)
{
	struct bench *b = *state;

	b->what = OPENS_ALL;
	write_file(b, "a");
	write_file(b, "d/b");
	check(b, "ls d >/dev/null; : >>a; stat d/b >/dev/null; cat missing 2>/dev/null || true",
	      NULL, "a\nd\n");
	check(b, "echo x >d/new; mkdir e; echo x >e/f; cat d/b", NULL, "d/b\nd/new\n");
	check(b, "(cd d && echo x >../d/new2); cat a >d/b", "d", "a\n");
}

static void programs_are_told(void **state)
{
	struct bench *b = *state;

	write_file(b, "a");
	check(b, "cp /bin/cat new; ./new a", NULL, "a\n");
	check(b, "./new a", NULL, "a\nnew\n");
	check(b, "( setsid sh -c './new a; exec 2>&- ; :' & wait )", NULL, "a\nnew\n");
}

static void many_at_once_are_told_once(void **state)
{
	struct bench *b = *state;

	write_file(b, "a");
	write_file(b, "b");
	check(b,
	      "for i in 1 2 3 4 5 6 7 8; do (for j in 1 2 3 4 5 6 7 8 9; do read x <a; read x <b; "
	      "done) & done; wait",
	      NULL, "a\nb\n");
}

static void a_path_that_cannot_be_read_is_counted(void **state)
{
	struct bench *b = *state;
	_cleanup_(str_deinit) struct str got = { 0 };
	size_t untold = 0;

	watched(b, "python3 -c 'import ctypes; ctypes.CDLL(None).open(ctypes.c_void_p(8), 0)'",
		NULL, &got, &untold);
	assert_int_equal(b->status, 0);
	assert_int_equal(untold, 1);
}

static void who_is_killed_leaves_nothing_waiting(void **state)
{
	struct bench *b = *state;
	_cleanup_(str_deinit) struct str got = { 0 };
	size_t untold;

	write_file(b, "a");
	watched(b, "while :; do read x <a; done & sleep 0.05; kill -9 $$", NULL, &got, &untold);
	str_addn(&got, "", 0);
	assert_string_equal(got.s, "a\n");
}

static void a_program_that_is_not_there(void **state)
{
	struct bench *b = *state;
	const char *argv[] = { "/nowhere/program", NULL }, *env[] = { NULL };
	struct process_spec spec = {
		.argv = argv, .env = env, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1
	};
	const char *const *paths;
	struct err err = { 0 };
	struct opens *o;
	size_t untold;

	if (opens_new(OPENS_READS, NULL, 0, &o, &err) < 0)
		skip();
	spec.opens = opens_fd(o);
	assert_int_equal(process_start(b->loop, &spec, on_exit_, b, &b->p, &err), -1);
	assert_int_equal(err.code, ERR_NOT_FOUND);
	opens_started(o);
	assert_int_equal(opens_stop(o, &paths, &untold), 0);
	assert_int_equal(opens_stop(o, &paths, &untold), 0);
	opens_free(o);
	opens_free(NULL);
	assert_int_equal(opens_new(OPENS_READS, NULL, 0, &o, &err), 0);
	opens_free(o); /* nobody ever came */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(what_is_read_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(a_link_is_told_as_what_it_leads_to, setup,
						teardown),
		cmocka_unit_test_setup_teardown(what_is_not_read_is_not_told, setup, teardown),
		cmocka_unit_test_setup_teardown(on_request_all_is_told, setup, teardown),
		cmocka_unit_test_setup_teardown(programs_are_told, setup, teardown),
		cmocka_unit_test_setup_teardown(many_at_once_are_told_once, setup, teardown),
		cmocka_unit_test_setup_teardown(a_path_that_cannot_be_read_is_counted, setup,
						teardown),
		cmocka_unit_test_setup_teardown(who_is_killed_leaves_nothing_waiting, setup,
						teardown),
		cmocka_unit_test_setup_teardown(a_program_that_is_not_there, setup, teardown),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
