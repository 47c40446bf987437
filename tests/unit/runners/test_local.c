/* runners/local: real programs, with a staging that keeps nothing but what tests ask for. */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/os/process/process.h"
#include "base/text/text.h"
#include "runners/runner.h"
#include "unit.h"

/* ThreadSanitizer takes the child of clone(CLONE_VM | CLONE_VFORK), which only calls exec, for a
 * fork of its parent's threads. */
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
	return "die_after_fork=0";
}

#define DEADLINE_NS (120 * NS_PER_S)
#define MANY        200

/* What came of an attempt. */
struct outcome {
	int starts, ends;
	enum failure_class failure;
	int exit_status, signo;
	struct err err;
	struct str log;
	char *tail, *metrics, *workspace;
	bool has_outputs;
	uint64_t first_output_size;
};

struct bench {
	char dir[TEST_DIR_MAX];
	struct loop *loop;
	struct runner *runner;
	int fifo; /* programs write a byte when they are where a test wants them */
	char *fifo_path;
	size_t ready, ended;
	bool fail_prepare, fail_collect, cancel_when_ready, hard;
	pthread_mutex_t lock;
	size_t written_over;               /* inputs; under lock */
	struct outcome outcomes[MANY + 8]; /* by id */
};

/* Staging. */

/* A file that is there must be like a new one, but for its bytes. */
static int write_over(struct bench *b, int dir_fd, const char *path)
{
	_cleanup_(fd_closep) int fd = openat(dir_fd, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW);
	struct stat st;

	assert_true(fd >= 0 && fstat(fd, &st) == 0);
	assert_int_equal(st.st_mode, S_IFREG | 0644);
	assert_int_equal(st.st_nlink, 1);
	pthread_mutex_lock(&b->lock);
	b->written_over++;
	pthread_mutex_unlock(&b->lock);
	return ftruncate(fd, 0) == 0 && write(fd, "in", 2) == 2 && fchmod(fd, 0444) == 0 ? 0 : -1;
}

static int prepare(void *arg, const struct runner_attempt *a, int dir_fd,
		   struct runner_placing *placing, struct err *err)
{
	struct bench *b = arg;

	for (size_t i = 0; i < a->n_outputs; i++) {
		_cleanup_(freep) char *parent = fs_dirname(a->outputs[i].path);

		if (fs_mkdir_p_at(dir_fd, parent, 0755, err) < 0)
			return -1;
	}
	for (size_t i = 0; i < a->n_inputs; i++) {
		_cleanup_(freep) char *parent = fs_dirname(a->inputs[i].path);
		_cleanup_(fd_closep) int dir = fs_make_beneath(dir_fd, parent, 0755, err);

		if (placing->spares && write_over(b, dir_fd, a->inputs[i].path) < 0)
			return err_errno(err, "cannot write over %s", a->inputs[i].path);
		if (dir < 0 ||
		    (!placing->spares &&
		     (faccessat(dir_fd, a->inputs[i].path, F_OK, AT_SYMLINK_NOFOLLOW) == 0 ||
		      fs_write_atomic_at(dir_fd, a->inputs[i].path, "in", 2, 0444, FS_WRITE_NO_SYNC,
					 err) < 0)))
			return -1;
	}
	return b->fail_prepare ? err_set(err, ERR_NO_SPACE, "no room for the inputs") : 0;
}

static int collect(void *arg, const struct runner_attempt *a, int dir_fd, enum runner_place did,
		   struct content_id *ret_ids, struct err *err)
{
	struct bench *b = arg;
	struct stat st;

	if (b->fail_collect)
		return err_set(err, ERR_IO, "the store is away");
	for (size_t i = 0; i < a->n_outputs; i++) {
		if (fstatat(dir_fd, a->outputs[i].path, &st, AT_SYMLINK_NOFOLLOW) < 0)
			return err_set(err, ERR_NOT_FOUND, "output `%s` is missing",
				       a->outputs[i].name);
		if (S_ISDIR(st.st_mode) != a->outputs[i].is_dir)
			return err_set(err, ERR_INVALID, "output `%s` is of the wrong kind",
				       a->outputs[i].name);
		ret_ids[i] = (struct content_id){ .kind = CONTENT_BLOB,
						  .size_bytes = (uint64_t)st.st_size };
	}
	return 0;
}

static int put_log(void *arg, int fd, struct content_id *ret, struct err *err)
{
	struct bench *b = arg;
	char path[64];
	char target[4096];
	uint64_t id = 0;
	ssize_t n;

	/* Which attempt: its log lies in a directory that has its number. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	n = readlink(path, target, sizeof(target) - 1);
	assert_true(n > 0);
	target[n] = '\0';
	assert_memory_equal(target, b->dir, strlen(b->dir));
	assert_int_equal(sscanf(target + strlen(b->dir), "/work/%lu", &id), 1);
	assert_in_range(id, 1, MANY + 7);
	pthread_mutex_lock(&b->lock);
	assert_true(lseek(fd, 0, SEEK_SET) == 0);
	while ((n = read(fd, target, sizeof(target))) > 0)
		str_addn(&b->outcomes[id].log, target, (size_t)n);
	pthread_mutex_unlock(&b->lock);
	*ret = (struct content_id){ .kind = CONTENT_BLOB };
	return 0;
}

/* Reports. */

static void started(void *arg, uint64_t id, int64_t wall_ns, pid_t pid)
{
	struct bench *b = arg;

	assert_true(pid > 0);
	b->outcomes[id].starts++;
}

static void finished(void *arg, uint64_t id, struct runner_result *r)
{
	struct bench *b = arg;
	struct outcome *o = &b->outcomes[id];

	o->ends++;
	b->ended++;
	o->failure = r->failure;
	o->exit_status = r->exit_status;
	o->signo = r->signo;
	o->err = r->err;
	o->has_outputs = r->outputs != NULL;
	if (r->outputs)
		o->first_output_size = r->outputs[0].size_bytes;
	o->tail = r->log_tail ? xstrdup(r->log_tail) : NULL;
	o->metrics = r->metrics_json ? xstrdup(r->metrics_json) : NULL;
	o->workspace = r->workspace ? xstrdup(r->workspace) : NULL;
	assert_true(r->ended_ns >= r->started_ns);
	assert_non_null(r->node);
}

static void on_fifo(void *arg, int fd, uint32_t events)
{
	struct bench *b = arg;
	char buf[512];
	ssize_t n = read(fd, buf, sizeof(buf));

	b->ready += n > 0 ? (size_t)n : 0;
	if (b->cancel_when_ready && b->ready)
		b->runner->ops->cancel(b->runner, 1, !b->hard);
}

/* The bench. */

static void open_bench_with(struct bench *b, struct clock *clock, unsigned n_workers)
{
	struct loop_source *source;
	struct err err = { 0 };
	struct runner_local_options o = {
		.n_workers = n_workers,
		.staging = { .prepare = prepare, .collect = collect, .put_log = put_log, .arg = b }
	};

	memset(b, 0, sizeof(*b));
	pthread_mutex_init(&b->lock, NULL);
	test_dir(b->dir, sizeof(b->dir), "local");
	b->fifo_path = fs_join(b->dir, "fifo");
	assert_int_equal(mkfifo(b->fifo_path, 0600), 0);
	b->fifo = open(b->fifo_path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
	assert_true(b->fifo >= 0);
	o.state_dir = b->dir;
	assert_int_equal(loop_new(clock, &b->loop, &err), 0);
	assert_int_equal(runner_local_new(b->loop, &o, &b->runner, &err), 0);
	b->runner->events =
		(struct runner_events){ .started = started, .finished = finished, .arg = b };
	assert_int_equal(loop_add_fd(b->loop, b->fifo, EPOLLIN, on_fifo, b, &source, &err), 0);
}

static void open_bench(struct bench *b, struct clock *clock)
{
	open_bench_with(b, clock, 4);
}

/* Nothing is left in the workspaces but what was kept. */
static void close_bench(struct bench *b)
{
	b->runner->ops->free(b->runner);
	loop_free(b->loop);
	close(b->fifo);
	free(b->fifo_path);
	for (size_t i = 0; i < ARRAY_LEN(b->outcomes); i++) {
		str_deinit(&b->outcomes[i].log);
		free(b->outcomes[i].tail);
		free(b->outcomes[i].metrics);
		free(b->outcomes[i].workspace);
	}
	assert_int_equal(fs_remove_tree(b->dir, NULL), 0);
	pthread_mutex_destroy(&b->lock);
}

static void run_until(struct bench *b, const size_t *counter, size_t n)
{
	int64_t until = clock_system()->mono_ns(clock_system()) + DEADLINE_NS;
	struct err err = { 0 };

	while (*counter < n) {
		assert_true(loop_turn(b->loop, NS_PER_S, &err) >= 0);
		assert_true(clock_system()->mono_ns(clock_system()) < until);
	}
}

/* A shell script as an attempt; its $1 is the fifo. */
struct script {
	struct runner_attempt a;
	const char *argv[6], *env[2];
};

static struct runner_attempt *script(struct script *s, const struct bench *b, uint64_t id,
				     const char *text)
{
	static const char *const none[] = { NULL };

	memset(s, 0, sizeof(*s));
	s->argv[0] = "sh";
	s->argv[1] = "-c";
	s->argv[2] = text;
	s->argv[3] = "sh";
	s->argv[4] = b->fifo_path;
	s->env[0] = "PATH=/usr/bin:/bin";
	s->a = (struct runner_attempt){ .id = id,
					.run_id = "r",
					.task = "t",
					.number = 1,
					.argv = s->argv,
					.env = s->env,
					.secrets = none };
	return &s->a;
}

static void submit(struct bench *b, const struct runner_attempt *a)
{
	struct err err = { 0 };

	assert_int_equal(b->runner->ops->submit(b->runner, a, &err), 0);
}

static struct outcome *run_one(struct bench *b, const struct runner_attempt *a)
{
	size_t before = b->ended;

	submit(b, a);
	run_until(b, &b->ended, before + 1);
	assert_int_equal(b->outcomes[a->id].ends, 1);
	return &b->outcomes[a->id];
}

/* How attempts end. */

static const struct runner_output file_out = { "o", "o", false }, dir_out = { "o", "o", true };

static const struct {
	const char *text;
	const struct runner_output *output;
	const char *metrics;
	enum failure_class failure;
	int status, signo;
	const char *message; /* part of it */
} endings[] = {
	{ "echo hello", NULL, NULL, FAILURE_NONE, 0, 0, NULL },
	{ "exit 3", NULL, NULL, FAILURE_FAILED, 3, 0, "exit status 3" },
	{ "kill -SEGV $$", NULL, NULL, FAILURE_FAILED, -1, SIGSEGV, "SIGSEGV" },
	{ "kill -KILL $$", NULL, NULL, FAILURE_FAILED, -1, SIGKILL, "SIGKILL" },
	{ "echo x >o", &file_out, NULL, FAILURE_NONE, 0, 0, NULL },
	{ "mkdir o", &dir_out, NULL, FAILURE_NONE, 0, 0, NULL },
	{ "true", &file_out, NULL, FAILURE_OUTPUT, 0, 0, "`o` is missing" },
	{ "mkdir o", &file_out, NULL, FAILURE_OUTPUT, 0, 0, "wrong kind" },
	{ "echo x >o", &dir_out, NULL, FAILURE_OUTPUT, 0, 0, "wrong kind" },
	{ "exit 1", &file_out, NULL, FAILURE_FAILED, 1, 0, "exit status 1" },
	{ "true", NULL, "m.json", FAILURE_OUTPUT, 0, 0, "m.json" },
	{ "echo '{\"a\": 1}' >m.json", NULL, "m.json", FAILURE_NONE, 0, 0, NULL },
};

static void classes_come_from_how_it_ended(void **state)
{
	struct bench b;

	open_bench(&b, clock_system());
	for (size_t i = 0; i < ARRAY_LEN(endings); i++) {
		struct script s;
		struct runner_attempt *a = script(&s, &b, i + 1, endings[i].text);
		struct outcome *o;

		a->outputs = endings[i].output;
		a->n_outputs = endings[i].output != NULL;
		a->metrics_path = endings[i].metrics;
		o = run_one(&b, a);
		assert_int_equal(o->failure, endings[i].failure);
		assert_int_equal(o->exit_status, endings[i].status);
		assert_int_equal(o->signo, endings[i].signo);
		assert_int_equal(o->starts, 1);
		if (endings[i].message)
			assert_non_null(strstr(o->err.msg, endings[i].message));
		if (endings[i].metrics && !endings[i].message)
			assert_string_equal(o->metrics, "{\"a\": 1}\n");
		if (endings[i].failure == FAILURE_NONE && endings[i].output == &file_out)
			assert_int_equal(o->first_output_size, 2);
	}
	close_bench(&b);
}

static void what_cannot_start_says_so(void **state)
{
	struct bench b;
	struct script s;
	struct runner_attempt *a;
	struct outcome *o;

	open_bench(&b, clock_system());
	a = script(&s, &b, 1, "true");
	s.argv[0] = "no-such-program";
	o = run_one(&b, a);
	assert_int_equal(o->failure, FAILURE_FAILED);
	assert_int_equal(o->exit_status, 127);
	assert_int_equal(o->starts, 0);
	assert_non_null(strstr(o->err.msg, "no-such-program"));
	b.fail_prepare = true;
	o = run_one(&b, script(&s, &b, 2, "true"));
	assert_int_equal(o->failure, FAILURE_STORE);
	assert_int_equal(o->err.code, ERR_NO_SPACE);
	b.fail_prepare = false;
	b.fail_collect = true;
	o = run_one(&b, script(&s, &b, 3, "true"));
	assert_int_equal(o->failure, FAILURE_STORE);
	assert_string_equal(o->err.msg, "the store is away");
	close_bench(&b);
}

static void submit_is_idempotent_by_id(void **state)
{
	struct bench b;
	struct script s;
	struct runner_attempt *a;

	open_bench(&b, clock_system());
	a = script(&s, &b, 1, "echo once");
	submit(&b, a);
	submit(&b, a);
	run_until(&b, &b.ended, 1);
	b.runner->ops->cancel(b.runner, 1, true);   /* ended: nothing */
	b.runner->ops->cancel(b.runner, 99, false); /* never was */
	run_one(&b, script(&s, &b, 2, "true"));
	assert_int_equal(b.outcomes[1].ends, 1);
	assert_string_equal(b.outcomes[1].log.s, "once\n");
	close_bench(&b);
}

/* Stopping. */

/* Nothing but the timer can end it, and a virtual clock comes to it at once. */
static void a_timeout_ends_it(void **state)
{
	struct bench b;
	struct script s;
	struct runner_attempt *a;
	struct outcome *o;
	struct clock clock;

	clock_virtual_init(&clock, NS_PER_S);
	open_bench(&b, &clock);
	a = script(&s, &b, 1, "trap '' TERM; while :; do sleep 1000; done");
	a->timeout_ns = 3600 * NS_PER_S;
	a->grace_ns = 60 * NS_PER_S;
	o = run_one(&b, a);
	assert_int_equal(o->failure, FAILURE_TIMEOUT);
	assert_int_equal(o->exit_status, -1);
	assert_true(o->signo == SIGKILL || o->signo == SIGTERM);
	assert_non_null(strstr(o->err.msg, "timeout of 3600s"));
	close_bench(&b);
}

static int64_t ahead_ns;

static int64_t mono_ahead(struct clock *c)
{
	return clock_system()->mono_ns(clock_system()) + ahead_ns;
}

static int64_t wall_ahead(struct clock *c)
{
	return clock_system()->wall_ns(clock_system()) + ahead_ns;
}

static void a_cancel_after_the_timeout_gives_no_more_time(void **state)
{
	struct clock clock = { mono_ahead, wall_ahead };
	struct bench b;
	struct script s;
	struct runner_attempt *a;

	ahead_ns = 0;
	open_bench(&b, &clock);
	a = script(&s, &b, 1, "trap 'echo . >$1' TERM; while :; do sleep 1000; done");
	a->timeout_ns = NS_PER_S / 2;
	a->grace_ns = 1000 * NS_PER_S;
	submit(&b, a);
	run_until(&b, &b.ready, 1);
	ahead_ns = 990 * NS_PER_S;
	b.runner->ops->cancel(b.runner, 1, true);
	ahead_ns = 1010 * NS_PER_S;
	run_until(&b, &b.ended, 1);
	assert_int_equal(b.outcomes[1].failure, FAILURE_CANCELLED);
	assert_int_equal(b.outcomes[1].signo, SIGKILL);
	close_bench(&b);
}

static const struct {
	const char *text;
	bool hard;
	enum failure_class failure;
	int status, signo;
	const char *log;
} stops[] = {
	{ "echo . >$1; exec sleep 1000", false, FAILURE_CANCELLED, -1, SIGTERM, NULL },
	{ "echo . >$1; exec sleep 1000", true, FAILURE_CANCELLED, -1, SIGKILL, NULL },
	{ "trap '' TERM; echo . >$1; while :; do sleep 1000; done", false, FAILURE_CANCELLED, -1,
	  SIGKILL, NULL },
	{ "trap 'echo saved; exit 7' TERM; echo . >$1; sleep 1000 & wait", false, FAILURE_CANCELLED,
	  7, 0, "saved\n" },
	{ "trap 'echo saved; exit 7' TERM; echo . >$1; sleep 1000 & wait", true, FAILURE_CANCELLED,
	  -1, SIGKILL, "" },
	/* It ended well in spite of all: that is a result. */
	{ "trap 'echo x >o; exit 0' TERM; echo . >$1; sleep 1000 & wait", false, FAILURE_NONE, 0, 0,
	  NULL },
	/* The shell dies of the TERM, and its child has the grace time all the same. */
	{ "(trap 'for i in 1 2 3 4 5 6 7 8 9; do head -c 9999999 /dev/zero >z; done; echo saved; "
	  "exit 0' TERM; echo . >$1; while :; do :; done); true",
	  false, FAILURE_CANCELLED, -1, SIGTERM, "saved\n" },
	{ "trap '' TERM; echo . >$1; kill -STOP $$", false, FAILURE_CANCELLED, -1, SIGKILL, NULL },
};

static void cancel_is_gentle_then_hard(void **state)
{
	for (size_t i = 0; i < ARRAY_LEN(stops); i++) {
		struct bench b;
		struct script s;
		struct runner_attempt *a;
		struct outcome *o;

		open_bench(&b, clock_system());
		a = script(&s, &b, 1, stops[i].text);
		a->grace_ns = stops[i].signo == SIGKILL ? NS_PER_MS : 100 * NS_PER_S;
		if (stops[i].failure == FAILURE_NONE) {
			a->outputs = &file_out;
			a->n_outputs = 1;
		}
		b.cancel_when_ready = true;
		b.hard = stops[i].hard;
		o = run_one(&b, a);
		assert_int_equal(o->failure, stops[i].failure);
		assert_int_equal(o->exit_status, stops[i].status);
		assert_int_equal(o->signo, stops[i].signo);
		if (stops[i].log)
			assert_string_equal(o->log.len ? o->log.s : "", stops[i].log);
		close_bench(&b);
	}
}

static int64_t mono(struct clock *c)
{
	return clock_system()->mono_ns(clock_system());
}

static int64_t wall_that_goes_back(struct clock *c)
{
	return c->now_ns -= 3600 * NS_PER_S;
}

/* That an attempt has ended isn't read off the clock: finished() asserts the order of its times. */
static void a_clock_may_be_set_back(void **state)
{
	struct clock clock = { mono, wall_that_goes_back, .now_ns = 1000000 * NS_PER_S };
	struct bench b;
	struct script s;
	struct runner_attempt *a;

	open_bench(&b, &clock);
	a = script(&s, &b, 1, "echo . >$1; exec sleep 1000");
	b.cancel_when_ready = true;
	assert_int_equal(run_one(&b, a)->failure, FAILURE_CANCELLED);
	b.cancel_when_ready = false;
	assert_int_equal(run_one(&b, script(&s, &b, 2, "exit 3"))->exit_status, 3);
	close_bench(&b);
}

static void a_cancel_before_it_started_starts_nothing(void **state)
{
	struct bench b;
	struct script s;

	open_bench(&b, clock_system());
	submit(&b, script(&s, &b, 1, "echo . >$1"));
	b.runner->ops->cancel(b.runner, 1, true);
	run_until(&b, &b.ended, 1);
	assert_int_equal(b.outcomes[1].failure, FAILURE_CANCELLED);
	assert_int_equal(b.outcomes[1].starts, 0);
	assert_int_equal(b.ready, 0);
	close_bench(&b);
}

/* What programs leave. */

static const char *const leavers[] = {
	"(setsid sh -c 'echo $$ >p; exec sleep 1000' &)",
	"setsid sh -c 'setsid sh -c \"echo \\$\\$ >p; exec sleep 1000\" & exit 0'",
	"(env -i setsid sh -c 'echo $$ >p; exec sleep 1000' &)",
	"(trap '' TERM INT HUP; env -i setsid sh -c 'echo $$ >p; while :; do sleep 1000; done' &)",
	"sh -c 'echo $$ >p; kill -STOP $$' &",
};

static pid_t read_pid(const char *dir, const char *name)
{
	_cleanup_(freep) char *path = xasprintf("%s/%s", dir, name);
	_cleanup_(str_deinit) struct str text = { 0 };

	assert_int_equal(fs_read_file(path, 64, &text, NULL), 0);
	return (pid_t)strtol(text.s, NULL, 10);
}

static pid_t find_guard(void)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	assert_int_equal(fs_read_file(path, MIB, &text, NULL), 0);
	for (char *at = text.s, *end;; at = end) {
		_cleanup_(str_deinit) struct str comm = { 0 };
		pid_t pid = (pid_t)strtol(at, &end, 10);

		if (end == at)
			return 0;
		snprintf(path, sizeof(path), "/proc/%d/comm", (int)pid);
		if (fs_read_file(path, 64, &comm, NULL) == 0 && str_eq(comm.s, "cairn-guard\n"))
			return pid;
	}
}

/* The guard names itself in its first moments. */
static pid_t wait_for_guard(void)
{
	int64_t until = clock_system()->mono_ns(clock_system()) + DEADLINE_NS;
	pid_t guard;

	while ((guard = find_guard()) == 0)
		assert_true(clock_system()->mono_ns(clock_system()) < until);
	return guard;
}

static void daemonised_children_go_with_it_and_the_guard_stays(void **state)
{
	struct bench b;
	struct script first;
	pid_t guard;

	open_bench(&b, clock_system());
	assert_int_equal(find_guard(), 0); /* it comes with the first attempt */
	run_one(&b, script(&first, &b, 100, "true"));
	guard = wait_for_guard();
	for (size_t i = 0; i < ARRAY_LEN(leavers); i++) {
		_cleanup_(freep) char *text =
			xasprintf("%s\nwhile [ ! -s p ]; do :; done", leavers[i]);
		struct script s;
		struct runner_attempt *a = script(&s, &b, i + 1, text);
		struct outcome *o;

		a->keep_workspace = true;
		o = run_one(&b, a);
		assert_int_equal(o->failure, FAILURE_NONE);
		assert_true(process_start_time(read_pid(o->workspace, "p")) == 0);
		assert_int_equal(find_guard(), guard);
	}
	close_bench(&b);
	assert_int_equal(find_guard(), 0);
}

/* Logs. */

static void the_tail_of_a_long_log_is_bounded(void **state)
{
	struct bench b;
	struct script s;
	struct outcome *o;

	open_bench(&b, clock_system());
	o = run_one(&b, script(&s, &b, 1, "seq 100000; echo last >&2; exit 1"));
	assert_int_equal(o->failure, FAILURE_FAILED);
	assert_true(strlen(o->tail) <= 4096 && strlen(o->tail) > 4000);
	assert_true(strtol(o->tail, NULL, 10) > 99000); /* begins with a whole line */
	assert_non_null(strstr(o->tail, "\n100000\nlast\n"));
	assert_int_equal(o->log.len, 588895 + 5);
	o = run_one(&b, script(&s, &b, 2, "exit 1"));
	assert_null(o->tail);
	o = run_one(&b, script(&s, &b, 3, "printf 'a\\0b'; exit 1"));
	assert_string_equal(o->tail, "a b");
	o = run_one(&b, script(&s, &b, 4, "head -c 9000 /dev/zero | tr '\\0' x; exit 1"));
	assert_int_equal(strlen(o->tail), 4096); /* one line only: its end */
	close_bench(&b);
}

/* The pipe is read in pieces of 64 KiB: a value is put across each border, at each of its places.
 */
static void secrets_are_taken_out_across_pieces(void **state)
{
	static const char *const secrets[] = { "TOKEN=hunter2-x", "EMPTY=", NULL };
	struct bench b;
	struct script s;
	struct runner_attempt *a;
	struct outcome *o;
	size_t found = 0;

	open_bench(&b, clock_system());
	a = script(&s, &b, 1,
		   "i=0; while [ $i -lt 10 ]; do head -c $((65536 - i)) /dev/zero | tr '\\0' .; "
		   "printf %s \"$TOKEN\"; i=$((i + 1)); done; printf %s \"$TOKEN\" | head -c 3; "
		   "printf '|'; printf hunter; sleep 0; printf '2-x\\nhunter2-'");
	a->secrets = secrets;
	o = run_one(&b, a);
	assert_int_equal(o->failure, FAILURE_NONE);
	assert_null(strstr(o->log.s, "hunter2-x"));
	for (const char *at = o->log.s; (at = strstr(at, "***")); at += 3)
		found++;
	assert_int_equal(found, 11);
	assert_string_equal(o->log.s + o->log.len - strlen("hun|***\nhunter2-"),
			    "hun|***\nhunter2-"); /* what only begins like it stays */
	close_bench(&b);
}

/* Faster than it is read, so that the engine turns to others with the pipe still full. */
static void no_byte_of_a_long_log_is_lost_beside_a_secret(void **state)
{
	static const char *const secrets[] = { "TOKEN=hunter2-x", NULL };
	struct bench b;
	struct script s;
	struct runner_attempt *a;
	struct outcome *o;
	size_t at = 0;
	char line[32];

	open_bench(&b, clock_system());
	a = script(&s, &b, 1, "seq 1500000; echo $TOKEN");
	a->secrets = secrets;
	o = run_one(&b, a);
	for (int i = 1; i <= 1500000; i++) {
		size_t n = (size_t)snprintf(line, sizeof(line), "%d\n", i);

		assert_true(at + n <= o->log.len && memcmp(o->log.s + at, line, n) == 0);
		at += n;
	}
	assert_string_equal(o->log.s + at, "***\n");
	close_bench(&b);
}

/* Workspaces. */

static void a_workspace_is_kept_on_request_only(void **state)
{
	struct bench b;
	struct script s;
	struct runner_attempt *a;
	struct outcome *o;
	_cleanup_(freep) char *kept = NULL, *gone = NULL;

	open_bench(&b, clock_system());
	a = script(&s, &b, 1, "echo x >f; exit 1");
	a->keep_workspace = true;
	o = run_one(&b, a);
	kept = xasprintf("%s/f", o->workspace);
	assert_int_equal(access(kept, F_OK), 0);
	o = run_one(&b, script(&s, &b, 2, "touch f; chmod 0 .; exit 1"));
	assert_null(o->workspace);
	/* The next one finds an empty directory of its own, whatever the last one did to its. */
	o = run_one(&b, script(&s, &b, 3, "ls -A; ls -A \"$TMPDIR\"; echo x >f; exit 0"));
	assert_int_equal(o->failure, FAILURE_NONE);
	assert_int_equal(o->log.len, 0);
	b.runner->ops->free(b.runner); /* as close_bench does, to look between */
	gone = xasprintf("%s/work/2", b.dir);
	assert_int_equal(access(kept, F_OK), 0);
	assert_int_equal(access(gone, F_OK), -1);
	{
		struct runner_local_options opts = { .state_dir = b.dir, .n_workers = 1 };
		struct err err = { 0 };

		assert_int_equal(runner_local_new(b.loop, &opts, &b.runner, &err), 0);
	}
	close_bench(&b);
}

static void names_are_passed_as_they_are(void **state)
{
	static const struct runner_output out = { "o", "mit Leerzeichen/für\n'\"$x.txt", false };
	struct bench b;
	struct script s;
	struct runner_attempt *a;
	struct outcome *o;

	open_bench(&b, clock_system());
	a = script(&s, &b, 1, "printf %s \"$2\" >\"$2\"; printf %s \"$V\"");
	s.argv[5] = NULL;
	{
		const char *argv[] = { "sh", "-c", s.argv[2], "sh", "x", out.path, NULL };
		const char *env[] = { "PATH=/usr/bin:/bin", "V=zwei\nZeilen & \xff", NULL };

		a->argv = argv;
		a->env = env;
		a->outputs = &out;
		a->n_outputs = 1;
		o = run_one(&b, a);
	}
	assert_int_equal(o->failure, FAILURE_NONE);
	assert_int_equal(o->first_output_size, strlen(out.path));
	assert_string_equal(o->log.s, "zwei\nZeilen & \xff");
	close_bench(&b);
}

static void nothing_of_the_host_leaks_in(void **state)
{
	struct bench b;
	struct script s;
	struct outcome *o;

	setenv("CAIRN_TEST_LEAK", "1", 1);
	open_bench(&b, clock_system());
	o = run_one(&b, script(&s, &b, 1, "env | grep -c LEAK; ls /proc/self/fd | wc -l"));
	/* 0, 1, 2 and the one that ls reads the directory with */
	assert_string_equal(o->log.s, "0\n4\n");
	close_bench(&b);
	unsetenv("CAIRN_TEST_LEAK");
}

static void what_is_gone_is_not_adopted(void **state)
{
	struct bench b;
	struct script s;
	struct err err = { 0 };
	_cleanup_(freep) char *w = NULL, *f = NULL;
	uint64_t *ids;

	open_bench(&b, clock_system());
	w = xasprintf("%s/work/77/w", b.dir);
	f = xasprintf("%s/left", w);
	assert_int_equal(fs_mkdir_p(w, &err), 0);
	assert_int_equal(fs_write_atomic(f, "x", 1, &err), 0);
	assert_int_equal(b.runner->ops->leftovers(b.runner, &ids), 1);
	assert_int_equal(ids[0], 77);
	free(ids);
	assert_int_equal(b.runner->ops->adopt(b.runner, script(&s, &b, 77, "true"), &err), 0);
	assert_int_equal(b.runner->ops->leftovers(b.runner, &ids), 0);
	free(ids);
	assert_int_equal(access(w, F_OK), -1);
	assert_int_equal(b.runner->ops->adopt(b.runner, script(&s, &b, 78, "true"), &err),
			 0); /* nothing there at all */
	assert_int_equal(b.outcomes[77].ends + b.outcomes[78].ends, 0);
	close_bench(&b);
}

/* Many. */

/* Whatever an attempt did to its directories, the next one can't tell. */
static void nobody_can_tell_that_a_workspace_was_used(void **state)
{
	static const char *const does[] = {
		"echo x >a; mkdir inputs/d sub; echo y >inputs/d/f; echo z >sub/g",
		"chmod 700 . inputs 2>/dev/null; chmod 1777 \"$TMPDIR\"; echo x >\"$TMPDIR\"/t",
		"rm -rf inputs; ln -s / inputs",
		"rm -rf inputs; mkdir inputs; echo x >inputs/mine",
		"rm -rf inputs; echo x >inputs",
		"i=0; while [ $i -lt 40 ]; do echo x >f$i; i=$((i+1)); done",
		":",
	};
	static const struct runner_input input = { .name = "i", .path = "inputs/i" };
	const size_t n = 8 * ARRAY_LEN(does);
	char inode[32], first[2][32] = { "" };
	static struct script s[64];
	bool again = false;
	struct bench b;

	assert_true(n <= ARRAY_LEN(s));
	open_bench(&b, clock_system());
	for (size_t i = 0; i < n; i++) {
		_cleanup_(freep) char *text = xasprintf(
			"stat -c '%%a %%U' . \"$TMPDIR\" inputs; ls -A \"$TMPDIR\"; find .; "
			"stat -c %%i .; %s; exit 0",
			does[i / 2 % ARRAY_LEN(does)]);
		struct runner_attempt *a = script(&s[i], &b, i + 1, text);
		struct outcome *o = &b.outcomes[i + 1];
		_cleanup_(freep) char *want = NULL;
		char user[32];

		a->inputs = &input;
		a->n_inputs = i % 2;
		submit(&b, a);
		run_until(&b, &b.ended, i + 1);
		assert_int_equal(o->failure, FAILURE_NONE);
		assert_int_equal(sscanf(o->log.s, "755 %31s", user), 1);
		want = i % 2 ? xasprintf("755 %s\n755 %s\n755 %s\n.\n./inputs\n./inputs/i\n", user,
					 user, user)
			     : xasprintf(
				       "755 %s\n755 %s\nstat: cannot statx 'inputs': No such file "
				       "or directory\n.\n",
				       user, user);
		assert_memory_equal(o->log.s, want, strlen(want));
		assert_int_equal(sscanf(o->log.s + strlen(want), "%31[0-9]", inode), 1);
		again |= str_eq(inode, first[i % 2]);
		snprintf(first[i % 2], sizeof(first[0]), "%s", inode);
	}
	assert_true(again);
	close_bench(&b);
}

/* The files of small inputs are used again for others of the same names, unless the program did
 * something to them that the next one could tell, or that others have. */
static void small_inputs_are_written_over(void **state)
{
	static const struct {
		const char *names, *does;
		bool used_before;
	} rows[] = {
		{ "i", ":", false },
		{ "i", "cat inputs/i >/dev/null", true },
		{ "i", "chmod 600 inputs/i", true },
		{ "i", "ln inputs/i o", false },
		{ "i", "mv inputs/i elsewhere; ln -s /etc/passwd inputs/i", false },
		{ "i", "chmod 644 inputs/i; echo longer than before >inputs/i; chmod 444 inputs/i",
		  false },
		{ "i", "echo x >inputs/k", true },
		{ "i", "rm -rf inputs; mkdir inputs; mkdir inputs/i", true },
		{ "i", "rm -f inputs/i; mkfifo -m 444 inputs/i", false },
		{ "i", ":", false },
		{ "ij", ":", false },
		{ "ij", "rm inputs/j", true },
		{ "ij", ":", false },
		{ "", ":", false },
		{ "j", ":", false },
		{ "j", ":", true },
	};
	static struct runner_input inputs[ARRAY_LEN(rows)][2];
	static struct script s[ARRAY_LEN(rows)];
	struct bench b;

	open_bench_with(&b, clock_system(), 1); /* it tidies up before it prepares the next one */
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		_cleanup_(freep) char *text =
			xasprintf("find inputs -type f | sort; cat inputs/* | tr -d 'n'; stat -c "
				  "'%%a %%h' inputs/*; %s; exit 0",
				  rows[i].does);
		struct runner_attempt *a = script(&s[i], &b, i + 1, text);
		const size_t n = strlen(rows[i].names), before = b.written_over;
		_cleanup_(str_deinit) struct str want = { 0 };

		for (size_t k = 0; k < n; k++) {
			inputs[i][k] = (struct runner_input){
				.name = "i",
				.path = rows[i].names[k] == 'i' ? "inputs/i" : "inputs/j",
				.id = { .kind = CONTENT_BLOB, .size_bytes = 2 }
			};
			str_addf(&want, "%s\n", inputs[i][k].path);
		}
		for (size_t k = 0; k < n; k++)
			str_add(&want, "i");
		for (size_t k = 0; k < n; k++)
			str_add(&want, "444 1\n");
		a->inputs = inputs[i];
		a->n_inputs = n;
		if (run_one(&b, a)->failure != FAILURE_NONE)
			fail_msg("row %zu: %s", i, b.outcomes[i + 1].err.msg);
		if (n)
			assert_memory_equal(b.outcomes[i + 1].log.s, want.s, want.len);
		if (b.written_over - before != (rows[i].used_before ? n : 0))
			fail_msg("row %zu: %zu inputs were written over", i,
				 b.written_over - before);
	}
	close_bench(&b);
}

static void two_hundred_at_once(void **state)
{
	static struct script s[MANY];
	struct bench b;

	open_bench(&b, clock_system());
	for (uint64_t i = 0; i < MANY; i++) {
		struct runner_attempt *a = script(
			&s[i], &b, i + 1, "echo $NUMBER; echo $NUMBER >o; exit $((NUMBER % 3))");
		_cleanup_(freep) char *number = xasprintf("NUMBER=%u", (unsigned)i + 1);

		s[i].env[0] = xstrdup(number);
		a->outputs = &file_out;
		a->n_outputs = 1;
		submit(&b, a);
	}
	for (uint64_t i = 5; i <= MANY; i += 17)
		b.runner->ops->cancel(b.runner, i, i % 2);
	run_until(&b, &b.ended, MANY);
	for (uint64_t i = 1; i <= MANY; i++) {
		struct outcome *o = &b.outcomes[i];
		char want[32];

		snprintf(want, sizeof(want), "%u\n", (unsigned)i);
		assert_int_equal(o->ends, 1);
		if (o->failure != FAILURE_CANCELLED) {
			assert_int_equal(o->failure, i % 3 ? FAILURE_FAILED : FAILURE_NONE);
			assert_int_equal(o->exit_status, i % 3);
			assert_string_equal(o->log.s, want);
		}
		free((char *)s[i - 1].env[0]);
	}
	close_bench(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(classes_come_from_how_it_ended),
		cmocka_unit_test(what_cannot_start_says_so),
		cmocka_unit_test(submit_is_idempotent_by_id),
		cmocka_unit_test(a_timeout_ends_it),
		cmocka_unit_test(a_cancel_after_the_timeout_gives_no_more_time),
		cmocka_unit_test(cancel_is_gentle_then_hard),
		cmocka_unit_test(a_clock_may_be_set_back),
		cmocka_unit_test(a_cancel_before_it_started_starts_nothing),
		cmocka_unit_test(daemonised_children_go_with_it_and_the_guard_stays),
		cmocka_unit_test(the_tail_of_a_long_log_is_bounded),
		cmocka_unit_test(secrets_are_taken_out_across_pieces),
		cmocka_unit_test(no_byte_of_a_long_log_is_lost_beside_a_secret),
		cmocka_unit_test(a_workspace_is_kept_on_request_only),
		cmocka_unit_test(names_are_passed_as_they_are),
		cmocka_unit_test(nothing_of_the_host_leaks_in),
		cmocka_unit_test(what_is_gone_is_not_adopted),
		cmocka_unit_test(nobody_can_tell_that_a_workspace_was_used),
		cmocka_unit_test(small_inputs_are_written_over),
		cmocka_unit_test(two_hundred_at_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
