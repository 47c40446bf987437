/* steps/submit/child.c — runs a program of the cluster and passes on what it prints.
 *
 * The program leads a process group of its own, and reads nothing. Its standard output and error
 * are one pipe. Signals are blocked but while we wait in ppoll(), so none is lost between a look at
 * `stopped` and the wait. A signal goes on to the group, once; whoever sent it kills us, too, when
 * the time is up. Programs that stop our work on the cluster aren't interrupted (ends_our_work).
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/time/clock.h"
#include "steps/submit/submit.h"

/* Of a program whose output is only looked at. */
#define OUT_MAX       (1 * MIB)
#define EXIT_NO_START 127

static volatile sig_atomic_t stopped;
static sigset_t before; /* what the caller blocked */

static void on_signal(int signo)
{
	stopped = signo;
}

void submit_begin(void)
{
	struct sigaction act = { .sa_handler = on_signal };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigprocmask(SIG_BLOCK, &set, &before);
	sigdelset(&before, SIGTERM);
	sigdelset(&before, SIGINT);
	sigaction(SIGTERM, &act, NULL);
	sigaction(SIGINT, &act, NULL);
}

int submit_stopped(void)
{
	return stopped;
}

void submit_wait(int64_t ns)
{
	const struct timespec t = { .tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S };

	if (!stopped)
		(void)ppoll(NULL, 0, &t, &before);
}

char *submit_name(void)
{
	const char *name = getenv("CAIRN_SUBMISSION");

	return name && *name ? xstrdup(name)
			     : xasprintf("cairn-%lld-%d", (long long)(clock_wall_ns() / NS_PER_S),
					 (int)getpid());
}

const char *submit_last_line(const struct str *text, int *ret_len)
{
	size_t end = text->len, begin;

	while (end > 0 && strchr("\r\n\t ", text->s[end - 1]))
		end--;
	for (begin = end; begin > 0 && text->s[begin - 1] != '\n'; begin--)
		;
	*ret_len = (int)MIN(end - begin, (size_t)300);
	return text->s ? text->s + begin : "";
}

/* In the child: doesn't return. */
static void become(const struct submit_child *c, int to)
{
	const struct sigaction usual = { .sa_handler = SIG_DFL };
	int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
	sigset_t none;

	setpgid(0, 0);
	for (const char *const *e = c->env; e && *e; e++)
		putenv((char *)*e);
	sigemptyset(&none);
	if (nothing < 0 || dup2(nothing, STDIN_FILENO) < 0 || dup2(to, STDOUT_FILENO) < 0 ||
	    dup2(to, STDERR_FILENO) < 0)
		_exit(EXIT_NO_START);
	sigaction(SIGTERM, &usual, NULL);
	sigaction(SIGINT, &usual, NULL);
	sigprocmask(SIG_SETMASK, &none, NULL);
	execvp(c->argv[0], (char *const *)c->argv);
	_exit(EXIT_NO_START);
}

static void take(const struct submit_child *c, const char *bytes, size_t n)
{
	if (c->printed)
		c->printed(c->arg, bytes, n);
	if (c->out && c->out->len < OUT_MAX)
		str_addn(c->out, bytes, n);
}

/* Until its end of the pipe is closed. */
static void pump(const struct submit_child *c, int from, pid_t pid)
{
	struct pollfd p = { .fd = from, .events = POLLIN };
	bool told = false;
	char buf[16384];
	ssize_t n;

	for (;;) {
		if (stopped && !told && !c->ends_our_work) {
			kill(-pid, SIGTERM);
			told = true;
		}
		if (ppoll(&p, 1, NULL, told || c->ends_our_work ? NULL : &before) < 0 &&
		    errno != EINTR)
			return;
		n = p.revents ? read(from, buf, sizeof(buf)) : 1;
		if (n == 0 || (n < 0 && errno != EINTR))
			return;
		if (p.revents && n > 0)
			take(c, buf, (size_t)n);
		p.revents = 0;
	}
}

int submit_run(const struct submit_child *c, int *ret_status, struct err *err)
{
	int fds[2], status;
	pid_t pid;

	assert(c->argv[0]);
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_errno(err, "cannot make a pipe");
	fflush(NULL);
	pid = fork();
	if (pid < 0) {
		close(fds[0]);
		close(fds[1]);
		return err_errno(err, "cannot start %s", c->argv[0]);
	}
	if (pid == 0)
		become(c, fds[1]);
	setpgid(pid, pid); /* both do it: whoever comes first */
	close(fds[1]);
	pump(c, fds[0], pid);
	close(fds[0]);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	*ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (*ret_status == EXIT_NO_START && !strchr(c->argv[0], '/'))
		return err_set(err, ERR_NOT_FOUND,
			       "`%s` could not be started: it must be on PATH, in the step's "
			       "environment or image",
			       c->argv[0]);
	return 0;
}
