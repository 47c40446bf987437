/* engine/base/os/process/command.c — runs a helper program to its end and takes its output.
 *
 * posix_spawn starts it with pipes, in a process group of its own. read_output() polls the pipe
 * until its end, the deadline or the limit; then we wait for the program's end until the same
 * deadline. On any error the group is killed. The whole input is written into a pipe before the
 * start, so that writing can't block; so its limit is COMMAND_INPUT_MAX. Passed descriptors are
 * first duplicated above their target range.
 *
 * The caller blocks. Calls share nothing. process.c starts the programs of runs.
 */
#include "base/os/process/command.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/os/fs.h"
#include "base/os/process/process.h"
#include "base/time/clock.h"

extern char **environ;

/* Waits until there is something to read, or the end. A signal doesn't stop the wait, because the
 * code after it may block. */
static int wait_ready(int fd, const struct command *c, int64_t end, struct err *err)
{
	for (;;) {
		struct pollfd p = { .fd = fd, .events = POLLIN };
		int64_t left = end - clock_mono_ns();
		int r = left > 0 ? poll(&p, 1, (int)MIN(left / NS_PER_MS + 1, INT32_MAX)) : 0;

		if (r > 0)
			return 0;
		if (r == 0)
			return err_set(err, ERR_IO, "it didn't end within %lld seconds",
				       (long long)(c->timeout_ns / NS_PER_S));
		if (errno != EINTR)
			return err_errno(err, "cannot wait for it");
	}
}

/* Reads until the end of the file. */
static int read_output(int fd, const struct command *c, int64_t end, struct str *out,
		       struct err *err)
{
	for (;;) {
		char piece[4096];
		ssize_t n;

		if (wait_ready(fd, c, end, err) < 0)
			return -1;
		n = read(fd, piece, sizeof(piece));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, "cannot read what it prints");
		if (out->len + (size_t)n > c->max_bytes)
			return err_set(err, ERR_TOO_LARGE, "it prints too much, over %zu bytes",
				       c->max_bytes);
		if (n == 0)
			return 0;
		str_addn(out, piece, (size_t)n);
	}
}

static bool is_replaced(const struct command *c, const char *entry)
{
	size_t n = strcspn(entry, "=") + 1;

	for (size_t i = 0; c->env && c->env[i]; i++)
		if (strncmp(c->env[i], entry, n) == 0)
			return true;
	return false;
}

char *command_find(const char *name)
{
	const char *path = getenv("PATH");

	if (strchr(name, '/'))
		return access(name, X_OK) == 0 ? xstrdup(name) : NULL;
	while (*name && path && *path) {
		size_t n = strcspn(path, ":");
		char *file = xasprintf("%.*s/%s", n ? (int)n : 1, n ? path : ".", name);
		struct stat st;

		if (stat(file, &st) == 0 && S_ISREG(st.st_mode) && access(file, X_OK) == 0)
			return file;
		free(file);
		path += n + (path[n] == ':');
	}
	return NULL;
}

const char *const command_step_variables[] = { "PATH",  "HOME",        "USER",         "LOGNAME",
					       "SHELL", "VIRTUAL_ENV", "CONDA_PREFIX", NULL };

static bool is_passed(const struct command *c, const char *entry)
{
	size_t n = strcspn(entry, "=");

	for (const char *const *v = command_step_variables; c->bare && *v; v++)
		if (strlen(*v) == n && strncmp(*v, entry, n) == 0)
			return true;
	return !c->bare;
}

/* The caller frees the list; its strings are borrowed. */
static char **environment(const struct command *c)
{
	size_t n = 0, have = 0, more = 0;
	char **v;

	while (environ[have])
		have++;
	while (c->env && c->env[more])
		more++;
	v = xcalloc(have + more + 1, sizeof(*v));
	for (size_t i = 0; i < have && !c->only_env; i++)
		if (is_passed(c, environ[i]) && !is_replaced(c, environ[i]))
			v[n++] = environ[i];
	for (size_t i = 0; i < more; i++)
		v[n++] = (char *)c->env[i];
	return v;
}

static int start(const struct command *c, int in_fd, int out_fd, pid_t *ret, struct err *err)
{
	_cleanup_(freep) char **env = environment(c);
	int high[COMMAND_FDS_MAX], r = 0;
	posix_spawn_file_actions_t a;
	posix_spawnattr_t attr;
	sigset_t none;

	sigemptyset(&none);
	posix_spawn_file_actions_init(&a);
	if (in_fd >= 0)
		posix_spawn_file_actions_adddup2(&a, in_fd, 0);
	else
		posix_spawn_file_actions_addopen(&a, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&a, out_fd, 1);
	/* First duplicate them above the target range, so that none is overwritten before its
	 * turn. */
	for (size_t i = 0; i < c->n_fds; i++) {
		high[i] = fcntl(c->fds[i], F_DUPFD_CLOEXEC, 3 + COMMAND_FDS_MAX);
		r = high[i] < 0 ? errno : r;
		posix_spawn_file_actions_adddup2(&a, high[i], 3 + (int)i);
	}
	posix_spawnattr_init(&attr);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setpgroup(&attr, 0);
	posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
	if (r == 0)
		r = posix_spawnp(ret, c->argv[0], &a, &attr, (char *const *)c->argv, env);
	for (size_t i = 0; i < c->n_fds; i++)
		if (high[i] >= 0)
			close(high[i]);
	posix_spawn_file_actions_destroy(&a);
	posix_spawnattr_destroy(&attr);
	errno = r;
	return r ? err_errno(err, "cannot start %s", c->argv[0]) : 0;
}

int command_output(const struct command *c, struct str *out, int *ret_status, struct err *err)
{
	_cleanup_(fd_closep) int in = -1, input = -1;
	int64_t end = clock_mono_ns() + c->timeout_ns;
	int fds[2], r, status = 0;
	pid_t pid, reaped;

	assert(c->timeout_ns > 0 && c->max_bytes > 0 && c->n_fds <= COMMAND_FDS_MAX);
	if (c->input) { /* the pipe holds all of it */
		if (strlen(c->input) > COMMAND_INPUT_MAX)
			return err_set(err, ERR_TOO_LARGE, "its input is over %d bytes",
				       COMMAND_INPUT_MAX);
		if (pipe2(fds, O_CLOEXEC) < 0)
			return err_errno(err, "no pipe");
		input = fds[0];
		r = fs_write_all(fds[1], c->input, strlen(c->input), err);
		close(fds[1]);
		if (r < 0)
			return -1;
	}
	if (pipe2(fds, O_CLOEXEC) < 0)
		return err_errno(err, "no pipe");
	in = fds[0];
	r = start(c, input, fds[1], &pid, err);
	close(fds[1]);
	if (r < 0)
		return -1;
	if (c->on_loop)
		process_note_child(pid);
	r = read_output(in, c, end, out, err);
	if (r ==
	    0) { /* a program may close its output and continue; it may also be reaped already */
		_cleanup_(fd_closep) int fd = (int)syscall(SYS_pidfd_open, pid, 0);

		r = fd < 0 ? 0 : wait_ready(fd, c, end, err);
	}
	if (r < 0)
		kill(-pid, SIGKILL);
	/* ECHILD: the engine's reaper was faster; then only the output counts. */
	while ((reaped = waitpid(pid, &status, 0)) < 0 && errno == EINTR)
		;
	if (reaped < 0)
		status = 0;
	*ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
	if (c->on_loop)
		process_forget_child(pid);
	return r;
}

char *command_self(void)
{
	static const char gone[] = " (deleted)";
	char path[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

	if (n <= 0)
		return NULL;
	path[n] = '\0';
	if (str_has_suffix(path, gone) && access(path, F_OK) < 0)
		n -= (ssize_t)strlen(gone);
	return xstrndup(path, (size_t)n);
}
