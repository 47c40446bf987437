/* runners/guard.c — the guard waits at a pipe. When the engine dies, however that is, the kernel
 * closes the other end, and the read gives nothing. One byte says instead that the engine ended
 * well.
 *
 * When an engine is killed, its direct children die by PR_SET_PDEATHSIG. Their descendants don't:
 * the guard finds them by the engine's marker in their environment (process_signal_marked()).
 *
 * It is forked and doesn't exec, and allocates memory. After a fork in a process with threads any
 * lock may be held for ever, so it must be forked before the first worker thread. One thread exists
 * before; it listens for signals (base/os/stop.c) and takes no lock that the guard needs.
 */
#include "runners/guard.h"
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/process/process.h"
#include "runners/workspace.h"

/* What the engine tells when it ends. Without that it has died. */
#define REMOVES_TRASH 't'

static void run(int fd, const char *engine_marker, const char *state_dir)
{
	ssize_t n;
	char c = 0;

	setsid();
	prctl(PR_SET_NAME, "cairn-guard");
	for (int s = 1; s < NSIG; s++)
		/* lint: signal because ignoring needs no handler */
		signal(s, s == SIGCHLD ? SIG_DFL : SIG_IGN);
	while ((n = read(fd, &c, 1)) < 0 && errno == EINTR)
		;
	if (n == 1 && c == REMOVES_TRASH) {
		int null = open("/dev/null", O_RDWR);

		/* It holds nothing that somebody waits for: a pipe from the command, a mount. */
		for (int std = 0; null >= 0 && std <= 2; std++)
			dup2(null, std);
		(void)!chdir("/");
		(void)!nice(10);
		workspace_remove_trash(state_dir);
	} else {
		process_signal_marked(engine_marker, SIGKILL);
	}
	_exit(0);
}

void guard_start(struct guard *g, const char *engine_marker, const char *state_dir)
{
	int fds[2];

	if (g->pid || pipe2(fds, O_CLOEXEC) < 0)
		return;
	g->pid = fork();
	if (g->pid == 0) {
		if (fds[0] > 3)
			close_range(3, (unsigned)fds[0] - 1, 0);
		close_range((unsigned)fds[0] + 1, ~0U, 0);
		run(fds[0], engine_marker, state_dir);
	}
	close(fds[0]);
	g->pipe = fds[1];
	if (g->pid > 0)
		process_note_child(g->pid); /* so that it isn't taken for a program's leftover */
}

void guard_end(struct guard *g, bool removes_trash)
{
	if (g->pid == 0)
		return;
	if (g->pid > 0 && removes_trash) {
		(void)!write(g->pipe, &(char){ REMOVES_TRASH }, 1);
	} else if (g->pid > 0) {
		kill(g->pid, SIGKILL);
		waitpid(g->pid, NULL, 0);
	}
	if (g->pid > 0)
		process_forget_child(g->pid);
	close(g->pipe);
	*g = (struct guard){ 0 };
}
