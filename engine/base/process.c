/* engine/base/process.c — programs and all that they start.
 *
 * Started with CLONE_VM|CLONE_VFORK: the child borrows our memory until exec, so that the cost doesn't grow with the engine. Its exec
 * error comes back through that shared memory. A pidfd tells the loop when it ends.
 *
 * The tree. Most programs leave nothing behind; when one does, the orphans are re-parented to us (we are their subreaper), which
 * /proc/self/task/TID/children shows without looking at every process of the machine. Only for signalling is all of /proc read.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include "base/fs.h"
#include "base/mem.h"
#include "base/process.h"
#include "base/str.h"

#define CHILD_STACK (64 * KIB)
/* Bounds what is read of another process's environment: the kernel's own limit for argv and env is of this order. */
#define ENVIRON_MAX (8 * MIB)

struct process {
	struct loop *loop;
	struct loop_source *source;
	pid_t pid;
	int pidfd;
	char *marker;
	process_exit_fn on_exit;
	void *arg;
	bool reaped;
};

static void note_child(pid_t pid);
static void forget_child(pid_t pid);

/* --- starting ---------------------------------------------------------------------------------------------------------- */

struct child {
	const struct process_spec *spec;
	const char *path; /* of the program */
	pid_t parent;
	int failed_errno;
	const char *failed_at;
	sigset_t mask; /* what the child starts with */
};

/* The child runs on a stack of ours in memory of ours: sanitizers would take its frames for the parent's. */
#define _in_child_ __attribute__((no_sanitize("address", "undefined", "thread"), noinline))

_in_child_ static int put_fd(int from, int to)
{
	if (from < 0)
		from = open("/dev/null", to == 0 ? O_RDONLY : O_WRONLY);
	if (from < 0)
		return -1;
	return from == to ? fcntl(to, F_SETFD, 0) : dup2(from, to);
}

_in_child_ static void reset_signals(void)
{
	struct sigaction dfl = { .sa_handler = SIG_DFL };

	for (int s = 1; s < NSIG; s++)
		if (s != SIGKILL && s != SIGSTOP)
			sigaction(s, &dfl, NULL);
}

/* In the child, with the parent's memory: only system calls. */
_in_child_ static int child_main(void *arg)
{
	struct child *c = arg;
	const struct process_spec *s = c->spec;

	c->failed_at = "cannot start";
	if ((s->foreground ? setpgid(0, 0) : setsid()) < 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) < 0)
		goto fail;
	if (s->foreground && isatty(s->stdin_fd))
		tcsetpgrp(s->stdin_fd, getpid()); /* signals are blocked here, SIGTTOU too */
	reset_signals();
	if (put_fd(s->stdin_fd, 0) < 0 || put_fd(s->stdout_fd, 1) < 0 || put_fd(s->stderr_fd, 2) < 0)
		goto fail;
	c->failed_at = "cannot enter the working directory of";
	if (s->cwd && chdir(s->cwd) < 0)
		goto fail;
	syscall(SYS_close_range, 3, ~0U, 4 /* CLOSE_RANGE_CLOEXEC */);
	sigprocmask(SIG_SETMASK, &c->mask, NULL);
	c->failed_at = "cannot run";
	execve(c->path, (char *const *)s->argv, (char *const *)s->env);
fail:
	c->failed_errno = errno;
	_exit(127);
}

/* argv[0] along PATH of the environment that the program gets. */
static char *find_program(const struct process_spec *s)
{
	const char *name = s->argv[0], *path = "/usr/local/bin:/usr/bin:/bin";

	if (strchr(name, '/'))
		return xstrdup(name);
	for (const char *const *e = s->env; e && *e; e++)
		if (strncmp(*e, "PATH=", 5) == 0)
			path = *e + 5;
	while (*path) {
		size_t n = strcspn(path, ":");
		char *full = xasprintf("%.*s/%s", (int)n, path, name);

		if (access(full, X_OK) == 0)
			return full;
		free(full);
		path += n + (path[n] == ':');
	}
	return NULL;
}

static void on_ended(void *arg, int fd, uint32_t events)
{
	struct process *p = arg;
	struct process_exit ex = { .status = -1 };
	int status;

	if (wait4(p->pid, &status, WNOHANG, &ex.usage) != p->pid)
		return;
	p->reaped = true;
	forget_child(p->pid);
	loop_remove(p->loop, p->source);
	p->source = NULL;
	if (WIFEXITED(status))
		ex.status = WEXITSTATUS(status);
	else
		ex.signo = WTERMSIG(status);
	p->on_exit(p->arg, &ex);
}

static pid_t clone_child(struct child *c)
{
	static __thread void *stack;
	sigset_t all;
	pid_t pid;

	if (!stack) {
		stack = mmap(NULL, CHILD_STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
		if (stack == MAP_FAILED) {
			stack = NULL;
			return -1;
		}
	}
	sigfillset(&all); /* no handler may run in the child while it uses our memory */
	pthread_sigmask(SIG_SETMASK, &all, &c->mask);
	pid = clone(child_main, (char *)stack + CHILD_STACK, CLONE_VM | CLONE_VFORK | SIGCHLD, c);
	pthread_sigmask(SIG_SETMASK, &c->mask, NULL);
	sigemptyset(&c->mask);
	return pid;
}

int process_start(struct loop *l, const struct process_spec *spec, process_exit_fn on_exit, void *arg, struct process **ret, struct err *err)
{
	_cleanup_(freep) char *path = find_program(spec);
	struct child c = { .spec = spec, .path = path };
	struct process *p;
	pid_t pid;

	if (!path)
		return err_set(err, ERR_NOT_FOUND, "program `%s` is not in PATH", spec->argv[0]);
	pid = clone_child(&c);
	if (pid < 0)
		return err_errno(err, "cannot start `%s`", spec->argv[0]);
	if (c.failed_errno) {
		waitpid(pid, NULL, 0);
		errno = c.failed_errno;
		return err_errno(err, "%s `%s`", c.failed_at, spec->argv[0]);
	}
	p = xcalloc(1, sizeof(*p));
	*p = (struct process){ .loop = l, .pid = pid, .on_exit = on_exit, .arg = arg, .marker = spec->marker ? xstrdup(spec->marker) : NULL };
	p->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (p->pidfd < 0 || loop_add_fd(l, p->pidfd, EPOLLIN, on_ended, p, &p->source, err) < 0) {
		if (p->pidfd < 0)
			err_errno(err, "cannot watch `%s`", spec->argv[0]);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
		process_free(p);
		return -1;
	}
	note_child(pid);
	*ret = p;
	return 0;
}

void process_free(struct process *p)
{
	if (!p)
		return;
	loop_remove(p->loop, p->source);
	fd_closep(&p->pidfd);
	free(p->marker);
	free(p);
}

pid_t process_pid(const struct process *p)
{
	return p->pid;
}

/* --- /proc --------------------------------------------------------------------------------------------------------------- */

/* Fields after the command name of /proc/PID/stat: field 3 (state) on. */
static int read_stat(pid_t pid, char *state, pid_t *parent, pid_t *session, uint64_t *start)
{
	char path[64], buf[1024], *close_paren;
	int fd, n;
	int ppid, pgrp, sid;
	unsigned long long start_time;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : (int)read(fd, buf, sizeof(buf) - 1);
	if (fd >= 0)
		close(fd);
	if (n <= 0)
		return -1;
	buf[n] = '\0';
	close_paren = strrchr(buf, ')');
	if (!close_paren || sscanf(close_paren + 1, " %c %d %d %d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu", state, &ppid, &pgrp,
				   &sid, &start_time) != 5)
		return -1;
	*parent = ppid;
	*session = sid;
	*start = start_time;
	return 0;
}

uint64_t process_start_time(pid_t pid)
{
	pid_t parent, session;
	uint64_t start;
	char state;

	return read_stat(pid, &state, &parent, &session, &start) < 0 || state == 'Z' || state == 'X' ? 0 : start;
}

static bool has_marker(pid_t pid, const char *marker)
{
	_cleanup_(str_deinit) struct str env = { 0 };
	size_t n = strlen(marker);
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/environ", (int)pid);
	if (fs_read_file(path, ENVIRON_MAX, &env, NULL) < 0 || env.len == 0)
		return false;
	for (const char *e = env.s; e < env.s + env.len; e += strlen(e) + 1)
		if (strncmp(e, marker, n) == 0 && (e[n] == '\0' || marker[n - 1] == '/'))
			return true;
	return false;
}

struct proc_entry {
	pid_t pid, parent, session;
	bool ours;
};

static size_t read_processes(struct proc_entry **ret)
{
	VEC(struct proc_entry) out = { 0 };
	DIR *d = opendir("/proc");
	struct dirent *e;

	while (d && (e = readdir(d))) {
		struct proc_entry p = { .pid = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? (pid_t)strtol(e->d_name, NULL, 10) : 0 };
		uint64_t start;
		char state;

		if (p.pid > 0 && read_stat(p.pid, &state, &p.parent, &p.session, &start) == 0 && state != 'Z' && state != 'X')
			VEC_PUSH(&out, p);
	}
	if (d)
		closedir(d);
	*ret = out.v;
	return out.n;
}

/* Marks: those with the marker, of the session, and all their descendants. */
static void find_tree(struct proc_entry *v, size_t n, pid_t leader, const char *marker)
{
	bool grew = true;

	for (size_t i = 0; i < n; i++)
		v[i].ours = v[i].pid != getpid() && ((leader && (v[i].pid == leader || v[i].session == leader)) || (marker && has_marker(v[i].pid, marker)));
	while (grew) {
		grew = false;
		for (size_t i = 0; i < n; i++)
			for (size_t k = 0; k < n && !v[i].ours; k++)
				if (v[k].ours && v[i].parent == v[k].pid && v[i].pid != getpid())
					v[i].ours = grew = true;
	}
}

static int signal_found(pid_t leader, const char *marker, int signo)
{
	struct proc_entry *v;
	size_t n = read_processes(&v);
	int found = 0;

	find_tree(v, n, leader, marker);
	for (size_t i = 0; i < n; i++)
		if (v[i].ours && kill(v[i].pid, signo) == 0)
			found++;
	free(v);
	return found;
}

/* SIGKILL: stop everything first, round by round, so that nothing can fork faster than we look. */
static int kill_found(pid_t leader, const char *marker)
{
	int found = 0, before = -1;

	for (int round = 0; round < 20 && found != before; round++) {
		before = found;
		found = signal_found(leader, marker, SIGSTOP);
	}
	return signal_found(leader, marker, SIGKILL);
}

int process_signal_tree(struct process *p, int signo)
{
	/* Once reaped, its pid may be another's: the session and the marker still name what it left. */
	if (!p->reaped && signo == SIGKILL)
		kill(-p->pid, signo); /* at once; anything gentler must reach each process once only */
	return signo == SIGKILL ? kill_found(p->pid, p->marker) : signal_found(p->pid, p->marker, signo);
}

int process_signal_marked(const char *marker, int signo)
{
	return signo == SIGKILL ? kill_found(0, marker) : signal_found(0, marker, signo);
}

int process_become_subreaper(struct err *err)
{
	return prctl(PR_SET_CHILD_SUBREAPER, 1) < 0 ? err_errno(err, "cannot become the reaper of daemonised children") : 0;
}

/* --- what a program leaves behind ---------------------------------------------------------------------------------------- */

/* Children that somebody waits for by their pid; every other child of ours is an orphan that came to us. */
static struct {
	VEC(pid_t) pids;
} waited_for;

static bool is_waited_for(pid_t pid)
{
	for (size_t i = 0; i < waited_for.pids.n; i++)
		if (waited_for.pids.v[i] == pid)
			return true;
	return false;
}

static void note_child(pid_t pid)
{
	VEC_PUSH(&waited_for.pids, pid);
}

static void forget_child(pid_t pid)
{
	for (size_t i = 0; i < waited_for.pids.n; i++)
		if (waited_for.pids.v[i] == pid) {
			waited_for.pids.v[i] = waited_for.pids.v[--waited_for.pids.n];
			return;
		}
}

/* Reaps orphans that ended; returns whether a live one belongs to `marker`. */
static bool look_at_orphans(const char *marker)
{
	char path[64], buf[4096];
	bool any = false;
	int fd;
	ssize_t n;

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, buf, sizeof(buf) - 1);
	if (fd >= 0)
		close(fd);
	if (n < 0)
		return marker != NULL; /* can't tell: look properly */
	buf[n] = '\0';
	for (char *at = buf, *end;; at = end) {
		pid_t pid = (pid_t)strtol(at, &end, 10);

		if (end == at)
			return any;
		if (is_waited_for(pid) || waitpid(pid, NULL, WNOHANG) == pid)
			continue;
		any |= marker && has_marker(pid, marker);
	}
}

bool process_left_orphans(const struct process *p)
{
	/* kill(2) with 0 asks whether the group still has members. Not after its number may be another's: the group keeps the pid
	 * taken as long as it lives. */
	return kill(-p->pid, 0) == 0 || look_at_orphans(p->marker);
}

void process_kill_leftovers(struct process *p)
{
	const struct timespec pause = { .tv_nsec = 2 * NS_PER_MS };

	/* What is killed takes a moment to go; what can't go (in the kernel, on a dead disk) isn't waited for longer than 2 s. */
	for (int round = 0; round < 1000; round++) {
		if (kill_found(p->pid, p->marker) == 0)
			break;
		nanosleep(&pause, NULL); /* lint: nanosleep because the kernel says nothing when a process that isn't ours to wait for has gone */
		look_at_orphans(NULL);
	}
	look_at_orphans(NULL);
}
