/* engine/base/os/process/process.c — the start and the end of one program. process_tree.c handles
 * what it started in turn.
 *
 * Programs start with CLONE_VM|CLONE_VFORK: the child borrows our memory until exec, so that the
 * cost doesn't grow with the engine. An exec error comes back through the shared memory. The child
 * makes only system calls, on its own stack, with all signals blocked until just before exec.
 *
 * A pidfd tells the loop when a program ends. Without pidfds (kernel or sandbox), SIGCHLD does: one
 * source for all such programs. `running` lists programs that aren't reaped. A reaped program is
 * never signalled: another process may have its pid.
 *
 * Loop's thread only: `running`, `sigchld` and process_hide()'s `environment` have no lock.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include "base/mem.h"
#include "base/os/process/landlock.h"
#include "base/os/process/namespace.h"
#include "base/os/process/opens.h"
#include "base/os/process/process_internal.h"
#include "base/text/str.h"

#define CHILD_STACK (64 * KIB)
/* Without close_range(), descriptors up to this number are closed one by one: a shell may have left
 * them open. */
#define FDS_SWEPT 256
/* How far clocks and /proc may differ, in seconds. */
#define START_SLACK_S 1

static struct {
	VEC(struct process *) v;
} running;

size_t process_running(struct process *const **ret)
{
	*ret = running.v.v;
	return running.v.n;
}

/* One source for all programs without a pidfd; it is removed with the last of them. */
static struct {
	struct loop *loop;
	struct loop_source *source;
} sigchld;

static void no_longer_running(struct process *p)
{
	bool without_pidfd = false;

	for (size_t i = 0; i < running.v.n; i++)
		if (running.v.v[i] == p)
			running.v.v[i--] = running.v.v[--running.v.n];
		else
			without_pidfd |= running.v.v[i]->pidfd < 0;
	if (!without_pidfd && sigchld.source) {
		loop_remove(sigchld.loop, sigchld.source);
		sigchld.source = NULL;
	}
	if (running.v.n == 0)
		VEC_FREE(&running.v);
}

/* The child. */

struct child {
	const struct process_spec *spec;
	const char *path; /* of the program */
	pid_t parent;
	int failed_errno;
	const char *failed_at;
};

/* The child runs on our stack in our memory: sanitizers would take its frames for the parent's. */
#define _in_child_ __attribute__((no_sanitize("address", "undefined", "thread"), noinline))

/* Moves a descriptor away from 0, 1 and 2, which will be replaced: an engine that was started
 * without them may have its files there. */
_in_child_ static int lift(int fd, int to)
{
	return fd >= 0 && fd <= 2 && fd != to ? fcntl(fd, F_DUPFD_CLOEXEC, 3) : fd;
}

_in_child_ static int put_fd(int from, int to)
{
	if (from < 0)
		from = open("/dev/null", to == 0 ? O_RDONLY : O_WRONLY);
	if (from < 0)
		return -1;
	return from == to ? fcntl(to, F_SETFD, 0) : dup2(from, to);
}

_in_child_ static int put_fds(const struct process_spec *s)
{
	int in = lift(s->stdin_fd, 0), out = lift(s->stdout_fd, 1), error = lift(s->stderr_fd, 2);

	return put_fd(in, 0) < 0 || put_fd(out, 1) < 0 || put_fd(error, 2) < 0 ? -1 : 0;
}

_in_child_ static void close_the_rest(void)
{
	if (syscall(SYS_close_range, 3, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */) < 0)
		for (int fd = 3; fd < FDS_SWEPT; fd++)
			fcntl(fd, F_SETFD, FD_CLOEXEC);
}

_in_child_ static void reset_signals(void)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	for (int s = 1; s < NSIG; s++)
		if (s != SIGKILL && s != SIGSTOP)
			sigaction(s, &dfl, NULL);
}

/* Runs in the child, with the parent's memory: only system calls. */
_in_child_ static int child_main(void *arg)
{
	struct child *c = arg;
	const struct process_spec *s = c->spec;
	sigset_t none;

	/* First: new rights make the kernel forget PR_SET_PDEATHSIG. */
	if (s->apart && namespace_enter(s->apart, &c->failed_at) < 0)
		goto fail;
	c->failed_at = "cannot start";
	if ((s->foreground ? setpgid(0, 0) : setsid()) < 0 ||
	    (!s->outlives && prctl(PR_SET_PDEATHSIG, SIGKILL) < 0))
		goto fail;
	if (!s->outlives && getppid() != c->parent) /* the parent died before the prctl */
		_exit(127);
	if (s->foreground && isatty(s->stdin_fd))
		tcsetpgrp(s->stdin_fd, getpid()); /* signals are blocked here, SIGTTOU too */
	reset_signals();
	if (put_fds(s) < 0)
		goto fail;
	c->failed_at = "cannot enter the working directory of";
	if (s->cwd && chdir(s->cwd) < 0)
		goto fail;
	if (s->umask)
		umask(s->umask); /* the child's own: it was cloned without CLONE_FS */
	close_the_rest();
	c->failed_at = "cannot restrict (Landlock)";
	for (int i = 0; i < PROCESS_RULES_MAX; i++)
		if (s->rules[i] && landlock_enter(s->rules[i]) < 0)
			goto fail;
	c->failed_at = "cannot watch what is opened by";
	if (s->opens && opens_enter(s->opens) < 0)
		goto fail;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	c->failed_at = "cannot run";
	execve(c->path, (char *const *)s->argv, (char *const *)s->env);
fail:
	c->failed_errno = errno;
	_exit(127);
}

/* Ourselves. */

/* The engine's environment from now on: one block that stays, whatever is unset later. */
static char *environment;

static bool has_one_of(const char *variable, const char *const *prefixes)
{
	while (*prefixes && !str_has_prefix(variable, *prefixes))
		prefixes++;
	return *prefixes != NULL;
}

void process_hide(const char *const *kept)
{
	bool found = false;
	size_t size = 1;
	char *to;

	for (char **e = environ; *e; e++)
		size += strlen(*e) + 1;
	assert(!environment); /* only once: environ points into it */
	environment = to = xmalloc(size);
	for (char **e = environ; *e; e++) {
		size_t n = strlen(*e);

		if (has_one_of(*e, kept)) {
			found = true;
			continue;
		}
		memcpy(to, *e, n + 1);
		explicit_bzero(*e, n);
		*e = to;
		to += n + 1;
	}
	if (!found)
		prctl(PR_SET_DUMPABLE, 0); /* then only root can open /proc/PID/environ */
}

/* Starting. */

/* Finds argv[0] in PATH of the program's environment; relative entries are below its working
 * directory. */
static char *find_program(const struct process_spec *s)
{
	const char *name = s->argv[0], *path = "/usr/local/bin:/usr/bin:/bin";
	struct stat st;

	if (strchr(name, '/'))
		return xstrdup(name);
	for (const char *const *e = s->env; e && *e; e++)
		if (strncmp(*e, "PATH=", 5) == 0)
			path = *e + 5;
	for (;;) {
		size_t n = strcspn(path, ":");
		char *full = *path == '/' ? xasprintf("%.*s/%s", (int)n, path, name)
					  : xasprintf("%s/%.*s/%s", s->cwd ? s->cwd : ".", (int)n,
						      path, name);

		if (*name && stat(full, &st) == 0 && S_ISREG(st.st_mode) && access(full, X_OK) == 0)
			return full;
		free(full);
		if (!path[n])
			return NULL;
		path += n + 1;
	}
}

static pid_t clone_child(struct child *c)
{
	static __thread void *stack;
	int dumpable = c->spec->apart ? prctl(PR_GET_DUMPABLE) : -1;
	sigset_t all, old;
	pid_t pid;

	if (!stack) {
		stack = mmap(NULL, CHILD_STACK, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
		if (stack == MAP_FAILED) {
			stack = NULL;
			return -1;
		}
	}
	sigfillset(&all); /* no handler may run in the child while it uses our memory */
	pthread_sigmask(SIG_SETMASK, &all, &old);
	pid = clone(child_main, (char *)stack + CHILD_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (dumpable == 0 || dumpable == 1) /* the child's user namespace changed ours */
		prctl(PR_SET_DUMPABLE, dumpable);
	return pid;
}

/* The time in the unit of /proc/PID/stat, with some slack. */
static uint64_t ticks_now(void)
{
	struct timespec t;
	uint64_t per_s = (uint64_t)sysconf(_SC_CLK_TCK), ticks;

	clock_gettime(CLOCK_BOOTTIME, &t);
	ticks = (uint64_t)t.tv_sec * per_s + (uint64_t)t.tv_nsec * per_s / NS_PER_S;
	return ticks > START_SLACK_S * per_s ? ticks - START_SLACK_S * per_s : 0;
}

/* Makes our group the terminal's foreground group again. A process in the background is stopped
 * when it does this, unless it blocks SIGTTOU. */
static void take_terminal_back(int fd)
{
	sigset_t ttou, old;

	if (fd < 0 || !isatty(fd))
		return;
	sigemptyset(&ttou);
	sigaddset(&ttou, SIGTTOU);
	pthread_sigmask(SIG_BLOCK, &ttou, &old);
	tcsetpgrp(fd, getpgrp());
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

static int watch(struct process *p, struct err *err);

int process_start(struct loop *l, const struct process_spec *spec, process_exit_fn on_exit,
		  void *arg, struct process **ret, struct err *err)
{
	_cleanup_(freep) char *path = find_program(spec);
	struct child c = { .spec = spec, .path = path, .parent = getpid() };
	uint64_t since = ticks_now();
	struct process *p;
	pid_t pid;

	if (!path)
		return err_set(err, ERR_NOT_FOUND, "program `%s` is not in PATH", spec->argv[0]);
	pid = clone_child(&c);
	if (pid < 0)
		return err_errno(err, "cannot start `%s`", spec->argv[0]);
	if (c.failed_errno) {
		waitpid(pid, NULL, 0);
		if (spec->foreground)
			take_terminal_back(spec->stdin_fd);
		errno = c.failed_errno;
		return err_errno(err, "%s `%s`", c.failed_at, spec->argv[0]);
	}
	p = xcalloc(1, sizeof(*p));
	*p = (struct process){
		.loop = l, .pid = pid, .on_exit = on_exit, .arg = arg, .since = since, .pidfd = -1
	};
	p->marker = spec->marker ? xstrdup(spec->marker) : NULL;
	p->terminal_fd = spec->foreground ? spec->stdin_fd : -1;
	VEC_PUSH(&running.v, p);
	if (watch(p, err) < 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		take_terminal_back(p->terminal_fd);
		process_free(p);
		return err_wrap(err, "cannot watch `%s`", spec->argv[0]);
	}
	*ret = p;
	return 0;
}

void process_free(struct process *p)
{
	if (!p)
		return;
	no_longer_running(p);
	loop_remove(p->loop, p->source);
	fd_closep(&p->pidfd);
	free(p->marker);
	free(p);
}

pid_t process_pid(const struct process *p)
{
	return p->pid;
}

/* Ending. */

static void reap(struct process *p)
{
	struct process_exit ex = { .status = -1 };
	int status;

	if (wait4(p->pid, &status, WNOHANG, &ex.usage) != p->pid)
		return;
	p->reaped = true;
	no_longer_running(p);
	loop_remove(p->loop, p->source);
	p->source = NULL;
	take_terminal_back(p->terminal_fd);
	if (WIFEXITED(status))
		ex.status = WEXITSTATUS(status);
	else
		ex.signo = WTERMSIG(status);
	p->on_exit(p->arg, &ex);
}

static void on_pidfd(void *arg, int fd, uint32_t events)
{
	reap(arg);
}

static void look_at_all(void *arg)
{
	for (size_t i = running.v.n;
	     i-- > 0;) /* backwards: a removed entry is replaced by the last one */
		if (i < running.v.n && running.v.v[i]->pidfd < 0)
			reap(running.v.v[i]);
}

static void on_sigchld(void *arg, int signo)
{
	look_at_all(arg);
}

static int watch(struct process *p, struct err *err)
{
	p->pidfd = (int)syscall(SYS_pidfd_open, p->pid, 0);
	if (p->pidfd >= 0)
		return loop_add_fd(p->loop, p->pidfd, EPOLLIN, on_pidfd, p, &p->source, err);
	if (errno != ENOSYS && errno != EPERM)
		return err_errno(err, "no process descriptor");
	if (!sigchld.source) {
		sigchld.loop = p->loop;
		if (loop_add_signal(p->loop, SIGCHLD, on_sigchld, NULL, &sigchld.source, err) < 0)
			return -1;
	}
	loop_post(p->loop, look_at_all,
		  NULL); /* the program may have ended before the signal was blocked */
	return 0;
}
