/* base/process: how programs start, end, and are ended with all that they started. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/os/process/process.h"
#include "base/text/text.h"
#include "unit.h"

#define DEADLINE_NS (60 * NS_PER_S)

struct bench {
	char dir[TEST_DIR_MAX];
	struct loop *loop;
	struct loop_source *out_source;
	struct process *p;
	int out[2]; /* the program's standard output; what it says is in `said` */
	struct str said;
	int exits;
	struct process_exit ex;
};

/* Of this process alone: tests may run several at a time. */
static char marker[64], other_marker[64];
static const char *const plain_env[] = { "PATH=/usr/bin:/bin", marker, NULL };

static void on_output(void *arg, int fd, uint32_t events)
{
	struct bench *b = arg;
	char buf[4096];
	ssize_t n = read(fd, buf, sizeof(buf));

	if (n > 0)
		str_addn(&b->said, buf, (size_t)n);
}

static void on_exit_(void *arg, const struct process_exit *ex)
{
	struct bench *b = arg;

	b->exits++;
	b->ex = *ex;
}

static int setup(void **state)
{
	struct bench *b = xcalloc(1, sizeof(*b));

	test_dir(b->dir, sizeof(b->dir), "process");
	assert_int_equal(process_become_subreaper(NULL), 0);
	assert_int_equal(loop_new(clock_system(), &b->loop, NULL), 0);
	assert_int_equal(pipe2(b->out, O_CLOEXEC | O_NONBLOCK), 0);
	assert_int_equal(
		loop_add_fd(b->loop, b->out[0], EPOLLIN, on_output, b, &b->out_source, NULL), 0);
	*state = b;
	return 0;
}

static int teardown(void **state)
{
	struct bench *b = *state;

	process_free(b->p);
	loop_free(b->loop);
	close(b->out[0]);
	close(b->out[1]);
	str_deinit(&b->said);
	fs_remove_tree(b->dir, NULL);
	free(b);
	return 0;
}

static void turn_until(struct bench *b, bool (*done)(const struct bench *b))
{
	int64_t until = clock_system()->mono_ns(clock_system()) + DEADLINE_NS;

	while (!done(b)) {
		assert_true(loop_turn(b->loop, NS_PER_S, NULL) >= 0);
		assert_true(clock_system()->mono_ns(clock_system()) < until);
	}
}

static bool has_ended(const struct bench *b)
{
	return b->exits > 0;
}

static bool has_said_a_line(const struct bench *b)
{
	return b->said.len && memchr(b->said.s, '\n', b->said.len);
}

static int start_argv(struct bench *b, const char *const *argv, const char *const *env,
		      const char *cwd, struct err *err)
{
	struct process_spec spec = { .argv = argv,
				     .env = env,
				     .cwd = cwd,
				     .stdin_fd = -1,
				     .stdout_fd = b->out[1],
				     .stderr_fd = b->out[1],
				     .marker = marker };

	return process_start(b->loop, &spec, on_exit_, b, &b->p, err);
}

static void start(struct bench *b, const char *script)
{
	const char *argv[] = { "sh", "-c", script, NULL };
	struct err err = { 0 };

	if (start_argv(b, argv, plain_env, b->dir, &err) < 0)
		fail_msg("%s", err.msg);
}

static void drain(struct bench *b)
{
	char buf[4096];
	ssize_t n;

	while ((n = read(b->out[0], buf, sizeof(buf))) > 0)
		str_addn(&b->said, buf, (size_t)n);
}

/* Start. */

static const struct {
	const char *program, *cwd;
	enum err_code code;
	int sys;
	const char *message;
} no_starts[] = {
	{ "no-such-program-here", NULL, ERR_NOT_FOUND, 0, "`no-such-program-here` is not in PATH" },
	{ "", NULL, ERR_NOT_FOUND, 0, "`` is not in PATH" },
	{ "/no/such/program", NULL, ERR_NOT_FOUND, ENOENT, "cannot run `/no/such/program`" },
	{ "./no-such", NULL, ERR_NOT_FOUND, ENOENT, "cannot run `./no-such`" },
	{ "/etc", NULL, ERR_IO, EACCES, "cannot run `/etc`" },
	{ "/etc/passwd", NULL, ERR_IO, EACCES, "cannot run `/etc/passwd`" },
	{ "sh", "/no/such/directory", ERR_NOT_FOUND, ENOENT,
	  "cannot enter the working directory of `sh`" },
	{ "sh", "/etc/passwd", ERR_IO, ENOTDIR, "cannot enter the working directory of `sh`" },
	{ "./garbage", NULL, ERR_IO, ENOEXEC, "cannot run `./garbage`" },
	{ "./no-interpreter", NULL, ERR_NOT_FOUND, ENOENT, "cannot run `./no-interpreter`" },
};

static void put_program(struct bench *b, const char *name, const char *text)
{
	_cleanup_(freep) char *path = fs_join(b->dir, name);

	assert_int_equal(fs_write_atomic(path, text, strlen(text), NULL), 0);
	assert_int_equal(chmod(path, 0755), 0);
}

/* The whole error at once, no child left, no descriptor lost. */
static void start_errors_come_back(void **state)
{
	struct bench *b = *state;

	put_program(b, "garbage",
		    "\x7f"
		    "ELF nonsense");
	put_program(b, "no-interpreter", "#!/no/such/interpreter\n");
	for (size_t i = 0; i < ARRAY_LEN(no_starts); i++) {
		const char *argv[] = { no_starts[i].program, NULL };
		int fd = dup(0);
		struct err err = { 0 };

		close(fd);
		assert_int_equal(start_argv(b, argv, plain_env,
					    no_starts[i].cwd ? no_starts[i].cwd : b->dir, &err),
				 -1);
		assert_int_equal(err.sys, no_starts[i].sys);
		assert_int_equal(err.code, no_starts[i].code);
		assert_non_null(strstr(err.msg, no_starts[i].message));
		assert_null(b->p);
		assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
		assert_int_equal(errno, ECHILD);
		assert_int_equal(dup(0), fd);
		close(fd);
	}
}

static void programs_are_found_along_their_own_path(void **state)
{
	struct bench *b = *state;
	_cleanup_(freep) char *bin = fs_join(b->dir, "bin");
	_cleanup_(freep) char *path = xasprintf("PATH=/no/such:%s/passwd:bin:/usr/bin", "/etc");
	const char *env[] = { path, NULL }, *argv[] = { "mine", "a b", NULL };

	assert_int_equal(mkdir(bin, 0755), 0);
	put_program(b, "bin/mine", "#!/bin/sh\necho mine \"$1\"\n");
	assert_int_equal(start_argv(b, argv, env, b->dir, NULL),
			 0); /* "bin" is below the working directory */
	turn_until(b, has_ended);
	drain(b);
	assert_int_equal(b->ex.status, 0);
	assert_string_equal(b->said.s, "mine a b\n");
}

/* No blocked or ignored signal, no descriptor, nothing in the environment that wasn't given. */
static void it_starts_clean(void **state)
{
	struct bench *b = *state;
	sigset_t some, old;
	int stray = open("/dev/null",
			 O_RDONLY); /* no O_CLOEXEC: of a library that doesn't know better */

	sigemptyset(&some);
	sigaddset(&some, SIGTERM);
	sigaddset(&some, SIGUSR1);
	sigprocmask(SIG_BLOCK, &some, &old);
	signal(SIGPIPE, SIG_IGN); /* lint: signal because ignoring needs no handler */
	start(b, "ls /proc/self/fd | wc -l; grep -E '^Sig(Blk|Ign)' /proc/$$/status | tr -d "
		 "'\\t\\n'; echo; env | grep -vE '^(PATH|PWD|OLDPWD|_|SHLVL|CAIRN_TEST_TREE)='; "
		 "read x </dev/stdin || echo no input; [ $(ps -o sid= $$) = $$ ] && echo session");
	signal(SIGPIPE, SIG_DFL); /* lint: signal because ignoring needs no handler */
	sigprocmask(SIG_SETMASK, &old, NULL);
	turn_until(b, has_ended);
	drain(b);
	close(stray);
	assert_string_equal(
		b->said.s,
		"4\nSigBlk:0000000000000000SigIgn:0000000000000000\nno input\nsession\n");
}

static void foreground_stays_in_the_session_in_a_group_of_its_own(void **state)
{
	struct bench *b = *state;
	const char *argv[] = { "sh", "-c", "ps -o sid=,pgid= $$", NULL };
	struct process_spec spec = { .argv = argv,
				     .env = plain_env,
				     .stdin_fd = 0,
				     .stdout_fd = b->out[1],
				     .stderr_fd = b->out[1],
				     .foreground = true };
	int sid, group;

	assert_int_equal(process_start(b->loop, &spec, on_exit_, b, &b->p, NULL), 0);
	turn_until(b, has_ended);
	drain(b);
	assert_int_equal(sscanf(b->said.s, "%d %d", &sid, &group), 2);
	assert_int_equal(sid, getsid(0));
	assert_int_equal(group, process_pid(b->p));
}

/* End. */

static const struct {
	const char *script;
	int status, signo;
} ends[] = {
	{ "exit 0", 0, 0 },
	{ "exit 42", 42, 0 },
	{ "exit 255", 255, 0 },
	{ "kill -TERM $$", -1, SIGTERM },
	{ "kill -KILL $$", -1, SIGKILL },
	{ "ulimit -c 0; kill -ABRT $$", -1, SIGABRT },
	{ "exec sh -c 'exit 9'", 9, 0 },
};

static void exits_are_told_as_they_were(void **state)
{
	struct bench *b = *state;

	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		b->exits = 0;
		start(b, ends[i].script);
		turn_until(b, has_ended);
		assert_int_equal(b->exits, 1);
		assert_int_equal(b->ex.status, ends[i].status);
		assert_int_equal(b->ex.signo, ends[i].signo);
		assert_true(b->ex.usage.ru_maxrss > 0);
		assert_false(process_left_orphans(b->p));
		process_free(b->p);
		b->p = NULL;
	}
}

/* Its number may be another's by then: here its group still has it. */
static void nothing_is_signalled_once_it_was_reaped(void **state)
{
	struct bench *b = *state;

	start(b, "sleep 1000 & exit 0");
	turn_until(b, has_ended);
	assert_int_equal(kill(-process_pid(b->p), 0), 0);
	assert_int_equal(process_signal_group(b->p, SIGKILL), -1);
	assert_int_equal(errno, ESRCH);
	assert_int_equal(process_signal(b->p, SIGKILL), -1);
	assert_int_equal(errno, ESRCH);
	assert_int_equal(kill(-process_pid(b->p), 0), 0);
	process_kill_leftovers(b->p);
}

static void on_exit_frees(void *arg, const struct process_exit *ex)
{
	struct bench *b = arg;

	b->exits++;
	process_free(b->p);
	b->p = NULL;
}

static void it_may_be_freed_in_its_exit_and_before(void **state)
{
	struct bench *b = *state;
	const char *argv[] = { "true", NULL };
	struct process_spec spec = {
		.argv = argv, .env = plain_env, .stdin_fd = -1, .stdout_fd = -1, .stderr_fd = -1
	};

	assert_int_equal(process_start(b->loop, &spec, on_exit_frees, b, &b->p, NULL), 0);
	turn_until(b, has_ended);
	assert_int_equal(process_start(b->loop, &spec, on_exit_frees, b, &b->p, NULL), 0);
	waitpid(process_pid(b->p), NULL, 0);
	process_free(b->p); /* on_exit isn't called any more */
	b->p = NULL;
	loop_turn(b->loop, 0, NULL);
	assert_int_equal(b->exits, 1);
}

/* Trees. */

/* Each says "pid\n" of what must be gone afterwards, then stays. */
static const char *const trees[] = {
	"echo $$; exec sleep 1000",
	"trap '' TERM INT; echo $$; while :; do sleep 1000; done",
	"sh -c 'echo $$; exec sleep 1000' & wait",
	"setsid sh -c 'echo $$; exec sleep 1000' & wait",
	"(setsid sh -c '(setsid sh -c \"echo \\$\\$; exec sleep 1000\" &)' &); exec sleep 1000",
	("(env -i setsid sh -c '(setsid sh -c \"echo \\$\\$; exec sleep 1000\" &)' &); "
	 "exec sleep 1000"),
	"sh -c 'echo $$; kill -STOP $$' & wait",
	"echo $$; kill -STOP $$",
	"(setsid nohup sh -c 'trap \"\" TERM HUP; echo $$; kill -STOP $$' &); exec sleep 1000",
};

static void a_tree_is_killed_whole(void **state)
{
	struct bench *b = *state;

	for (size_t i = 0; i < ARRAY_LEN(trees); i++) {
		pid_t pid;

		b->exits = 0;
		str_reset(&b->said);
		start(b, trees[i]);
		turn_until(b, has_said_a_line);
		pid = (pid_t)strtol(b->said.s, NULL, 10);
		assert_true(process_start_time(pid) != 0);
		assert_true(process_signal_tree(b->p, SIGKILL) >= 1);
		turn_until(b, has_ended);
		assert_int_equal(b->ex.signo, SIGKILL);
		process_kill_leftovers(b->p);
		assert_true(process_start_time(pid) == 0);
		process_free(b->p);
		b->p = NULL;
	}
}

/* The leader has ended well and left one: seen, and gone. */
static void leftovers_are_seen_and_killed(void **state)
{
	struct bench *b = *state;
	pid_t pid;

	for (size_t i = 4; i <= 5; i++) {
		_cleanup_(freep) char *script =
			xstrndup(trees[i], strlen(trees[i]) - strlen("; exec sleep 1000"));

		b->exits = 0;
		str_reset(&b->said);
		start(b, script);
		turn_until(b, has_ended);
		turn_until(b, has_said_a_line);
		pid = (pid_t)strtol(b->said.s, NULL, 10);
		assert_int_equal(b->ex.status, 0);
		assert_true(process_start_time(pid) != 0);
		assert_true(process_left_orphans(b->p));
		process_kill_leftovers(b->p);
		assert_true(process_start_time(pid) == 0);
		assert_false(process_left_orphans(b->p));
		process_free(b->p);
		b->p = NULL;
	}
}

/* A child that we wait for ourselves is nobody's leftover. */
static void a_noted_child_is_left_alone(void **state)
{
	struct bench *b = *state;
	int hold[2];
	pid_t mine;
	char c;

	assert_int_equal(pipe(hold), 0);
	mine = fork();
	if (mine == 0) {
		close(hold[1]);
		(void)!read(hold[0], &c, 1);
		_exit(5);
	}
	process_note_child(mine);
	start(b, "true");
	turn_until(b, has_ended);
	assert_false(process_left_orphans(b->p));
	process_kill_leftovers(b->p);
	process_forget_child(mine);
	close(hold[0]);
	close(hold[1]);
	{
		int status;

		assert_int_equal(waitpid(mine, &status, 0), mine);
		assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 5);
	}
}

static void two_trees_are_two(void **state)
{
	struct bench *b = *state, other = { 0 };
	const char *argv[] = { "sh", "-c",
			       "(setsid sh -c 'echo $$; exec sleep 1000' &); exec sleep 1000",
			       NULL };
	const char *env[] = { "PATH=/usr/bin:/bin", other_marker, NULL };
	struct process_spec spec = { .argv = argv,
				     .env = env,
				     .stdin_fd = -1,
				     .stdout_fd = b->out[1],
				     .stderr_fd = -1,
				     .marker = env[1] };
	pid_t theirs;

	assert_int_equal(process_start(b->loop, &spec, on_exit_, &other, &other.p, NULL), 0);
	turn_until(b, has_said_a_line);
	theirs = (pid_t)strtol(b->said.s, NULL, 10);
	start(b, "exec sleep 1000");
	process_signal_tree(b->p, SIGKILL);
	turn_until(b, has_ended);
	process_kill_leftovers(b->p);
	assert_true(process_start_time(theirs) != 0);
	assert_true(process_start_time(process_pid(other.p)) != 0);
	assert_int_equal(process_signal_marked(other_marker, 0), 2);
	assert_true(process_signal_marked(other_marker, SIGKILL) >= 2);
	assert_true(process_start_time(theirs) == 0);
	assert_int_equal(process_signal_marked(other_marker, SIGKILL), 0);
	process_free(other.p);
	while (waitpid(-1, NULL, 0) > 0)
		;
}

/* A gentle signal comes once to each of the group and of what left it. */
static void a_gentle_signal_comes_once(void **state)
{
	struct bench *b = *state;
	int times = 0;

	start(b,
	      "trap 'echo term' TERM; setsid sh -c 'trap \"echo term\" TERM; echo ready; while [ ! "
	      "-e stop ]; do sleep 0.01; done' & while [ ! -e stop ]; do sleep 0.01; done; wait");
	turn_until(b, has_said_a_line);
	process_signal_tree(b->p, SIGTERM);
	put_program(b, "stop", "");
	turn_until(b, has_ended);
	drain(b);
	/* The shell also says what became of its `sleep`. */
	for (const char *at = b->said.s; (at = strstr(at, "term\n")); at++)
		times++;
	assert_int_equal(times, 2);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(start_errors_come_back),
		TEST(programs_are_found_along_their_own_path),
		TEST(it_starts_clean),
		TEST(foreground_stays_in_the_session_in_a_group_of_its_own),
		TEST(exits_are_told_as_they_were),
		TEST(nothing_is_signalled_once_it_was_reaped),
		TEST(it_may_be_freed_in_its_exit_and_before),
		TEST(a_tree_is_killed_whole),
		TEST(leftovers_are_seen_and_killed),
		TEST(a_noted_child_is_left_alone),
		TEST(two_trees_are_two),
		TEST(a_gentle_signal_comes_once),
	};

	snprintf(marker, sizeof(marker), "CAIRN_TEST_TREE=%d-a", (int)getpid());
	snprintf(other_marker, sizeof(other_marker), "CAIRN_TEST_TREE=%d-b", (int)getpid());
	return cmocka_run_group_tests(tests, NULL, NULL);
}
