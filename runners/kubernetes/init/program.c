/* runners/kubernetes/init/program.c — runs one program, and ends it with all its processes.
 *
 * watch() waits in one poll() for signals, output and the next deadline, until the leader has ended
 * and no child is left. Deadlines are monotonic times in `running`. The timeout and a signal lead
 * to TERM and begin the grace time (begin_end()); its end leads to KILL (kill_all()); REAP_NS after
 * a KILL the helper gives up. As process 1 it signals every process of the container; in tests only
 * the program's process group and its own children.
 *
 * A shell dies of TERM at once, while its child still saves its work. So the grace time covers the
 * whole tree then. If the leader exits by itself, the grace time is over and the rest is killed.
 *
 * Output is read in bounded rounds, so that a signal never waits for it; finish_log() reads the
 * rest of the pipe. One thread. log.c handles the output; cgroup.c tells whether memory was the
 * cause.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include "base/mem.h"
#include "runners/kubernetes/init/init.h"
#include "runners/runner.h"

#define DEFAULT_GRACE_NS (10 * NS_PER_S)
/* After a KILL: a process that waits for a dead disk may not react. */
#define REAP_NS    (10 * NS_PER_S)
#define READ_BYTES (64 * KIB)
/* More than a pipe holds: only a process that escaped the KILL still writes then. */
#define ROUNDS_ALL 64
#define NEVER      INT64_MAX

struct running {
	const struct init_program *p;
	const struct init_surroundings *s;
	struct init_exit *e;
	bool *stopped;
	pid_t pid;
	int pipe; /* its output; -1: the program closed it */
	struct init_log log;
	bool ended, childless, killed;
	int64_t timeout_at, kill_at, give_up_at; /* monotonic; NEVER */
	uint64_t oom_before;
};

int64_t init_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

static int64_t wall_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t); /* lint: CLOCK_REALTIME for records; and init is alone */
	return t.tv_sec * NS_PER_S + t.tv_nsec;
}

void init_signals(sigset_t *ret)
{
	static const int all[] = { SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 };

	sigemptyset(ret);
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		sigaddset(ret, all[i]);
}

/* Start. */

static bool is_named(const char *assignment, const char *name)
{
	size_t n = strcspn(name, "=");

	return strncmp(assignment, name, n) == 0 && assignment[n] == '=';
}

static bool has_name(const char *const *env, const char *name)
{
	for (; *env; env++)
		if (is_named(*env, name))
			return true;
	return false;
}

/* The container's environment, overlaid by the program's. */
static char **environment(const struct init_program *p)
{
	VEC(char *) v = { 0 };

	for (char **e = environ; *e; e++) {
		/* For the helper, not for the program: TMPDIR, and the index of an array. */
		bool hidden = is_named(*e, "TMPDIR") || (is_named(*e, "JOB_COMPLETION_INDEX") &&
							 !getenv("CAIRN_POD_SERVICE"));

		if (!hidden && !has_name(p->env, *e))
			VEC_PUSH(&v, *e);
	}
	for (const char *const *e = p->env; *e; e++)
		VEC_PUSH(&v, (char *)*e);
	if (!has_name(p->env, "TMPDIR"))
		VEC_PUSH(&v, xasprintf("TMPDIR=%s", p->tmp));
	VEC_PUSH(&v, NULL);
	return v.v;
}

_noreturn_ static void become(const struct init_program *p, int out)
{
	int null = open("/dev/null", O_RDONLY);
	sigset_t none;

	setsid();
	umask(RUNNER_UMASK);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	signal(SIGPIPE, SIG_DFL); /* lint: signal because there is no handler to set */
	if (null >= 0)
		dup2(null, 0);
	dup2(out, 1);
	dup2(out, 2);
	if (chdir(p->dir) < 0) {
		dprintf(2, "cairn-init: cannot go to %s: %s\n", p->dir, strerrordesc_np(errno));
		_exit(126);
	}
	environ = environment(p);
	execvp(p->argv[0], (char *const *)p->argv);
	dprintf(2, "cairn-init: cannot run %s: %s\n", p->argv[0], strerrordesc_np(errno));
	_exit(errno == ENOENT ? 127 : 126);
}

static int start(struct running *r)
{
	int fds[2];

	if (pipe2(fds, O_CLOEXEC) < 0)
		return -1;
	r->e->started_ns = wall_ns();
	r->pid = fork();
	if (r->pid == 0)
		become(r->p, fds[1]);
	close(fds[1]);
	r->pipe = fds[0];
	fcntl(r->pipe, F_SETFL, O_NONBLOCK);
	return r->pid < 0 ? -1 : 0;
}

/* Signals. */

/* As process 1 it reaches all processes, in a test only the program's group and its children. */
static void signal_all(struct running *r, int signo)
{
	_cleanup_(fd_closep) int fd = -1;
	char path[64], text[4096], *at = text;
	ssize_t n;

	if (r->s->alone) {
		kill(-1, signo);
		return;
	}
	kill(-r->pid, signo);
	snprintf(path, sizeof(path), "/proc/self/task/%ld/children", (long)syscall(SYS_gettid));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (n <= 0)
		return;
	text[n] = '\0';
	for (long pid; (pid = strtol(at, &at, 10)) > 1;)
		kill((pid_t)pid, signo);
}

static void pass_on(struct running *r, int signo)
{
	if (r->p->forwards_signals && !r->ended)
		kill(r->pid, signo);
	else
		signal_all(r, signo);
}

static void kill_all(struct running *r)
{
	r->killed = true;
	r->kill_at = NEVER;
	r->give_up_at = init_now_ns() + REAP_NS;
	signal_all(r, SIGKILL);
}

static void begin_end(struct running *r)
{
	if (r->kill_at == NEVER && !r->killed)
		r->kill_at = init_now_ns() + (r->p->grace_ns ? r->p->grace_ns : DEFAULT_GRACE_NS);
	r->timeout_at = NEVER;
}

static void reap(struct running *r)
{
	struct rusage ru;
	int status;
	pid_t pid;

	while ((pid = wait4(-1, &status, WNOHANG, &ru)) > 0) {
		if (pid != r->pid)
			continue;
		r->ended = true;
		r->e->ended_ns = wall_ns();
		r->e->status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
		r->e->signo = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
		r->e->max_rss_bytes = (uint64_t)ru.ru_maxrss * 1024;
		r->e->cpu_ns = (ru.ru_utime.tv_sec + ru.ru_stime.tv_sec) * NS_PER_S +
			       (ru.ru_utime.tv_usec + ru.ru_stime.tv_usec) * 1000LL;
	}
	r->childless = pid < 0 && errno == ECHILD;
}

static void on_signals(struct running *r)
{
	struct signalfd_siginfo info;

	while (read(r->s->signals, &info, sizeof(info)) == sizeof(info)) {
		int signo = (int)info.ssi_signo;

		if (signo == SIGCHLD)
			continue;
		pass_on(r, signo);
		if (signo != SIGTERM && signo != SIGINT)
			continue;
		r->e->told_to_end = *r->stopped = true;
		begin_end(r);
	}
	reap(r);
}

/* Output. */

/* Bounded, because signals come first. */
static void on_output(struct running *r, bool all)
{
	static char buf[READ_BYTES];
	ssize_t n = 0;

	for (int rounds = 0; rounds < (all ? ROUNDS_ALL : 16) && !init_log_is_full(&r->log) &&
			     (n = read(r->pipe, buf, sizeof(buf))) > 0;
	     rounds++)
		init_log_feed(&r->log, buf, (size_t)n, false);
	if (n == 0 && !init_log_is_full(&r->log))
		fd_closep(&r->pipe), r->pipe = -1;
}

/* Waiting. */

static int poll_ms(int64_t until_ns)
{
	int64_t left = until_ns - init_now_ns();

	if (until_ns == NEVER)
		return -1;
	return left <= 0 ? 0 : (int)MIN(left / NS_PER_MS + 1, 3600 * 1000LL);
}

static void wait_for_something(struct running *r, int64_t until_ns)
{
	struct pollfd fds[] = { { .fd = r->s->signals, .events = POLLIN },
				{ .fd = init_log_is_full(&r->log) ? -1 : r->pipe,
				  .events = POLLIN },
				{ .fd = r->log.out.len ? 1 : -1, .events = POLLOUT } };

	if (poll(fds, ARRAY_LEN(fds), poll_ms(until_ns)) <= 0)
		return;
	if (fds[0].revents)
		on_signals(r);
	if (fds[2].revents)
		init_log_flush(&r->log);
	if (fds[1].revents && r->pipe >= 0)
		on_output(r, false);
}

static void watch(struct running *r)
{
	while (!r->ended || !r->childless) {
		int64_t now;
		bool others_may_go_on;

		wait_for_something(r, MIN(MIN(r->timeout_at, r->kill_at), r->give_up_at));
		now = init_now_ns();
		if (now >= r->timeout_at && !r->ended) {
			r->e->timed_out = true;
			pass_on(r, SIGTERM);
			begin_end(r);
		}
		if (now >= r->kill_at)
			kill_all(r);
		/* After the leader's end the others may continue only if it died of TERM. */
		others_may_go_on = r->e->signo == SIGTERM && r->kill_at != NEVER && !r->killed;
		if (r->ended && !r->childless && !r->killed && !others_may_go_on)
			kill_all(r);
		if (init_now_ns() >= r->give_up_at)
			break;
	}
}

/* The program has ended, so the pipe holds the rest of its output, unless a process escaped. A
 * stopped reader of the container's output doesn't keep I/log from being complete. */
static void finish_log(struct running *r)
{
	int64_t until = init_now_ns() + r->s->flush_ns;

	for (;;) {
		if (r->pipe >= 0)
			on_output(r, true);
		if (!r->log.out.len)
			break;
		if (init_now_ns() >= until) {
			init_log_give_up_output(&r->log);
			continue;
		}
		poll(&(struct pollfd){ .fd = 1, .events = POLLOUT }, 1, poll_ms(until));
		init_log_flush(&r->log);
	}
	init_log_feed(&r->log, "", 0, true);
	init_log_close(&r->log);
	fd_closep(&r->pipe);
}

void init_run(const struct init_program *p, const struct init_surroundings *s, int dir_fd,
	      bool *stopped, struct init_exit *ret)
{
	struct running r = { .p = p,
			     .s = s,
			     .e = ret,
			     .stopped = stopped,
			     .pipe = -1,
			     .timeout_at = NEVER,
			     .kill_at = NEVER,
			     .give_up_at = NEVER,
			     .oom_before = init_oom_kills(s->cgroup) };

	*ret = (struct init_exit){ 0 };
	init_log_open(&r.log, dir_fd, p->redact);
	if (start(&r) < 0) {
		char text[128];
		int n = snprintf(text, sizeof(text), "cairn-init: cannot start a process: %s\n",
				 strerrordesc_np(errno));

		init_log_feed(&r.log, text, (size_t)n, false);
		ret->status = 126;
		ret->ended_ns = wall_ns();
	} else {
		if (p->timeout_ns)
			r.timeout_at = init_now_ns() + p->timeout_ns;
		watch(&r);
	}
	finish_log(&r);
	ret->oom = init_oom_kills(s->cgroup) > r.oom_before;
}
