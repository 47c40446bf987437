/* engine/base/os/process/process_tree.c — finds, signals and kills all that a program started.
 *
 * Most programs leave nothing behind. If one does, the topmost process that it left is re-parented
 * to us (we are its subreaper), and /proc/self/task/TID/children shows it without a scan of all
 * processes. Only signalling reads all of /proc.
 *
 * A process belongs to a tree when it leads it, is in its session, carries its marker, is an orphan
 * of ours that no other program can have started, or descends from one of those. Signals go through
 * a pidfd. After the pidfd is opened, its process is checked again, so that a reused pid never gets
 * the signal.
 *
 * Killing first stops everything, round by round, until no new process appears and none runs; then
 * it kills what was found. It gives up after STOP_ROUNDS and KILL_NS, because some processes can't
 * die. Loop's thread only, except process_signal_marked(), which uses no state of ours.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/os/process/process_internal.h"

/* Most bytes read of another process's environment. The kernel's own limit for argv and env is of
 * this order. */
#define ENVIRON_MAX (8 * MIB)
/* A few rounds stop a fork bomb. What these rounds can't stop is killed as it is, repeatedly. */
#define STOP_ROUNDS 20
#define KILL_NS     (2 * NS_PER_S)
/* Bytes of /proc/PID/task/TID/children: some 100,000 children. */
#define CHILDREN_MAX (1 * MIB)

static VEC(pid_t) noted;

void process_note_child(pid_t pid)
{
	VEC_PUSH(&noted, pid);
}

void process_forget_child(pid_t pid)
{
	for (size_t i = 0; i < noted.n; i++)
		if (noted.v[i] == pid) {
			noted.v[i] = noted.v[--noted.n];
			break;
		}
	if (noted.n == 0)
		VEC_FREE(&noted);
}

int process_become_subreaper(struct err *err)
{
	return prctl(PR_SET_CHILD_SUBREAPER, 1) < 0
		       ? err_errno(err, "cannot become the reaper of daemonised children")
		       : 0;
}

static bool is_waited_for(pid_t pid)
{
	struct process *const *v;
	size_t n = process_running(&v);

	for (size_t i = 0; i < n; i++)
		if (v[i]->pid == pid)
			return true;
	for (size_t i = 0; i < noted.n; i++)
		if (noted.v[i] == pid)
			return true;
	return false;
}

/* /proc. */

struct entry {
	pid_t pid, parent, group, session;
	uint64_t start;
	char state; /* of proc(5): R, S, D, T, Z, … */
	enum { UNKNOWN, OURS, NOT_OURS } whose;
};

static int read_stat(pid_t pid, struct entry *e)
{
	char path[64], buf[1024], *close_paren;
	unsigned long long start;
	int fd, n;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : (int)read(fd, buf, sizeof(buf) - 1);
	fd_closep(&fd);
	if (n <= 0)
		return -1;
	buf[n] = '\0';
	/* The command name may hold anything, also ") R 1 1"; no other field holds a parenthesis.
	 * Start time is field 22 of proc(5). */
	close_paren = strrchr(buf, ')');
	if (!close_paren ||
	    sscanf(close_paren + 1,
		   " %c %d %d %d %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
		   &e->state, &e->parent, &e->group, &e->session, &start) != 5)
		return -1;
	e->pid = pid;
	e->start = start;
	return e->state == 'Z' || e->state == 'X' ? -1 : 0;
}

uint64_t process_start_time(pid_t pid)
{
	struct entry e;

	return read_stat(pid, &e) < 0 ? 0 : e.start;
}

static bool is_marked(const struct str *env, const char *marker)
{
	size_t n = strlen(marker);

	for (const char *e = env->s; e < env->s + env->len; e += strlen(e) + 1)
		if (strncmp(e, marker, n) == 0 && (e[n] == '\0' || marker[n - 1] == '/'))
			return true;
	return false;
}

static int by_pid(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	return (x->pid > y->pid) - (x->pid < y->pid);
}

struct entries {
	struct entry *v;
	size_t n, cap;
};

/* All live processes, sorted by pid. */
static void read_processes(struct entries *ret)
{
	DIR *d = opendir("/proc");
	struct dirent *f;

	ret->n = 0;
	while (d && fs_next(d, "/proc", &f, NULL) > 0) {
		struct entry e = { .pid = f->d_name[0] >= '1' && f->d_name[0] <= '9'
						  ? (pid_t)strtol(f->d_name, NULL, 10)
						  : 0 };

		if (e.pid > 0 && read_stat(e.pid, &e) == 0)
			VEC_PUSH(ret, e);
	}
	if (d)
		closedir(d);
	if (ret->n)
		qsort(ret->v, ret->n, sizeof(*ret->v), by_pid);
}

static struct entry *find_entry(const struct entries *all, pid_t pid)
{
	struct entry key = { .pid = pid };

	return all->n ? bsearch(&key, all->v, all->n, sizeof(*all->v), by_pid) : NULL;
}

/* Membership in a tree. */

/* Names a tree: a program of ours, or only a marker. */
struct tree {
	const struct process *p; /* or NULL */
	const char *marker;      /* or NULL */
};

/* Tells whether another running program than `p` may have started it. Then the end of that program
 * decides. */
static bool may_be_anothers(const struct process *p, const struct entry *e, const struct str *env)
{
	struct process *const *v;
	size_t n = process_running(&v);

	for (size_t i = 0; i < n; i++)
		if (v[i] != p &&
		    (v[i]->since <= e->start || (v[i]->marker && is_marked(env, v[i]->marker))))
			return true;
	return false;
}

/* Tells whether the process itself belongs to the tree, whatever its parent. */
static bool belongs(const struct tree *t, const struct entry *e, struct str *env)
{
	const struct process *p = t->p;
	char path[64];

	if (e->pid == getpid() || (p && e->start < p->since))
		return false;
	/* A session keeps its id in use, even after its leader is reaped; no process with that id
	 * is then the leader. */
	if (p && (p->reaped ? e->session == p->pid && e->pid != p->pid
			    : e->session == p->pid || e->pid == p->pid))
		return true;
	snprintf(path, sizeof(path), "/proc/%d/environ", (int)e->pid);
	str_reset(env);
	(void)fs_read_file(path, ENVIRON_MAX, env,
			   NULL); /* no text: it is gone, or another user's */
	if (t->marker && is_marked(env, t->marker))
		return true;
	return p && e->parent == getpid() && !is_waited_for(e->pid) && !may_be_anothers(p, e, env);
}

/* Goes up until the answer is known, then notes it for all on the way. */
static bool descends(const struct entries *all, struct entry *e)
{
	struct entry *up = e;
	int whose = NOT_OURS;

	for (size_t depth = 0; up && depth <= all->n;
	     depth++) { /* parents that changed while we read might form a cycle */
		if (up->whose != UNKNOWN) {
			whose = up->whose;
			break;
		}
		up = up->pid == getpid() ? NULL : find_entry(all, up->parent);
	}
	for (up = e; up && up->whose == UNKNOWN && up->pid != getpid();
	     up = find_entry(all, up->parent))
		up->whose = whose;
	return whose == OURS;
}

/* Keeps only the tree's processes in *all, never this process. */
static void find_tree(const struct tree *t, struct entries *all)
{
	_cleanup_(str_deinit) struct str env = { 0 };
	size_t kept = 0;

	read_processes(all);
	for (size_t i = 0; i < all->n; i++)
		all->v[i].whose = belongs(t, &all->v[i], &env) ? OURS : UNKNOWN;
	for (size_t i = 0; i < all->n; i++)
		descends(all, &all->v[i]);
	for (size_t i = 0; i < all->n; i++)
		if (all->v[i].whose == OURS && all->v[i].pid != getpid())
			all->v[kept++] = all->v[i];
	all->n = kept;
}

/* Signals. */

/* Opens the very process, never another one with its pid; -1 when it is gone. */
static int open_pidfd(const struct entry *e)
{
	struct entry now = { 0 };
	int fd = (int)syscall(SYS_pidfd_open, e->pid, 0);

	if (fd >= 0 && (read_stat(e->pid, &now) < 0 || now.start != e->start))
		fd_closep(&fd);
	return fd;
}

static bool signal_one(const struct entry *e, int signo)
{
	_cleanup_(fd_closep) int fd = open_pidfd(e);

	if (fd < 0 && (errno == ENOSYS || errno == EPERM || errno == EMFILE || errno == ENFILE))
		return process_start_time(e->pid) == e->start && kill(e->pid, signo) == 0;
	return fd >= 0 && syscall(SYS_pidfd_send_signal, fd, signo, NULL, 0) == 0;
}

static int signal_all(const struct entries *all, int signo)
{
	int n = 0;

	for (size_t i = 0; i < all->n; i++)
		n += signal_one(&all->v[i], signo);
	return n;
}

/* Tells whether `now` has a process that wasn't in `before`, or that still runs. */
static bool still_moves(const struct entries *now, const struct entries *before)
{
	for (size_t i = 0; i < now->n; i++) {
		const struct entry *e = &now->v[i], *was = find_entry(before, e->pid);

		if (!was || was->start != e->start || e->state == 'R' || e->state == 'S')
			return true;
	}
	return false;
}

/* Stops everything first, round by round, so that nothing forks faster than we look, then kills
 * what was found: *all. */
static int kill_tree(const struct tree *t, struct entries *all)
{
	struct entries before = { 0 }, swap;

	find_tree(t, all);
	for (int round = 0; round < STOP_ROUNDS && still_moves(all, &before); round++) {
		signal_all(all, SIGSTOP);
		swap = before;
		before = *all;
		*all = swap;
		find_tree(t, all);
	}
	free(before.v);
	return signal_all(all, SIGKILL);
}

int process_signal_tree(struct process *p, int signo)
{
	struct tree t = { .p = p, .marker = p->marker };
	struct entries all = { 0 };
	int n = 0;

	/* After it was reaped, another process may have its pid; session and marker still identify
	 * what it left. */
	if (!p->reaped)
		kill(-p->pid, signo == SIGKILL ? SIGSTOP : signo);
	if (signo == SIGKILL) {
		n = kill_tree(&t, &all);
		if (!p->reaped) /* where /proc can't be read */
			kill(-p->pid, SIGKILL);
	} else {
		find_tree(&t, &all);
		for (size_t i = 0; i < all.n; i++) /* the group has it already: a second TERM means
						      something else to many programs */
			n += (!p->reaped && all.v[i].group == p->pid) ||
			     signal_one(&all.v[i], signo);
	}
	free(all.v);
	return n;
}

int process_signal(struct process *p, int signo)
{
	if (!p->reaped)
		return kill(p->pid, signo);
	errno = ESRCH;
	return -1;
}

int process_signal_group(struct process *p, int signo)
{
	if (!p->reaped)
		return kill(-p->pid, signo);
	errno = ESRCH;
	return -1;
}

/* Until nothing is left. */

/* A killed process takes a moment to end. */
static void wait_for_end(const struct entries *all, int64_t until_ns)
{
	for (size_t i = 0; i < all->n; i++) {
		_cleanup_(fd_closep) int fd = open_pidfd(&all->v[i]);
		struct pollfd pfd = { .fd = fd, .events = POLLIN };
		int64_t left = until_ns - clock_mono_ns();

		if (fd >= 0)
			(void)poll(&pfd, 1, (int)MAX(left / NS_PER_MS, 0));
	}
}

static void reap_orphans(void);

/* Waits at most KILL_NS for processes that can't end (in the kernel, on a dead disk; another
 * user's). */
static int kill_until_gone(const struct tree *t)
{
	int64_t until = clock_mono_ns() + KILL_NS;
	struct entries all = { 0 };
	int n, sum = 0;

	while ((n = kill_tree(t, &all)) > 0 && clock_mono_ns() < until) {
		sum += n;
		wait_for_end(&all, until);
		if (t->p)
			reap_orphans();
	}
	free(all.v);
	return sum;
}

int process_signal_marked(const char *marker, int signo)
{
	struct tree t = { .marker = marker };
	struct entries all = { 0 };
	int n;

	if (signo == SIGKILL)
		return kill_until_gone(&t);
	find_tree(&t, &all);
	n = signal_all(&all, signo);
	free(all.v);
	return n;
}

void process_kill_leftovers(struct process *p)
{
	struct tree t = { .p = p, .marker = p->marker };

	kill_until_gone(&t);
}

/* Orphans. */

/* Reaps orphans that have ended, and adds live ones to `ret`. -1 when they can't be listed. */
static int look_at_orphans(struct entries *ret)
{
	_cleanup_(str_deinit) struct str text = { 0 };
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
	if (fs_read_file(path, CHILDREN_MAX, &text, NULL) < 0)
		return -1;
	for (char *at = text.s, *end;; at = end) {
		struct entry e = { .pid = (pid_t)strtol(at, &end, 10) };

		if (end == at)
			return 0;
		if (is_waited_for(e.pid) || waitpid(e.pid, NULL, WNOHANG) == e.pid)
			continue;
		if (read_stat(e.pid, &e) == 0)
			VEC_PUSH(ret, e);
	}
}

static void reap_orphans(void)
{
	struct entries ignored = { 0 };

	look_at_orphans(&ignored);
	free(ignored.v);
}

bool process_left_orphans(const struct process *p)
{
	_cleanup_(str_deinit) struct str env = { 0 };
	struct tree t = { .p = p, .marker = p->marker };
	struct entries orphans = { 0 };
	/* kill(2) with 0 tells whether the group still has members. While it has, its id isn't
	 * reused. */
	bool any = kill(-p->pid, 0) == 0 || errno == EPERM;

	any = look_at_orphans(&orphans) < 0 || any;
	for (size_t i = 0; i < orphans.n && !any; i++)
		any = belongs(&t, &orphans.v[i], &env);
	free(orphans.v);
	return any;
}
