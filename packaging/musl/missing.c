/* Rows are by number; what isn't in a table has no name. */
#include "missing.h"
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define NS_PER_S 1000000000

int renameat2(int old_dir, const char *old_path, int new_dir, const char *new_path, unsigned flags)
{
	return (int)syscall(SYS_renameat2, old_dir, old_path, new_dir, new_path, flags);
}

int close_range(unsigned first, unsigned last, int flags)
{
	return (int)syscall(SYS_close_range, first, last, flags);
}

int epoll_pwait2(int epoll, struct epoll_event *events, int max, const struct timespec *wait,
		 const sigset_t *mask)
{
	/* The kernel's mask has 64 bits. */
	return (int)syscall(SYS_epoll_pwait2, epoll, events, max, wait, mask, 8L);
}

/* musl's strerror() is constant text in the C locale, and the program sets no other. */
const char *strerrordesc_np(int error)
{
	return strerror(error);
}

const char *sigabbrev_np(int signal)
{
	static const char *const names[] = {
		[SIGABRT] = "ABRT",     [SIGALRM] = "ALRM",     [SIGBUS] = "BUS",
		[SIGCHLD] = "CHLD",     [SIGCONT] = "CONT",     [SIGFPE] = "FPE",
		[SIGHUP] = "HUP",       [SIGILL] = "ILL",       [SIGINT] = "INT",
		[SIGKILL] = "KILL",     [SIGPIPE] = "PIPE",     [SIGPOLL] = "POLL",
		[SIGPROF] = "PROF",     [SIGPWR] = "PWR",       [SIGQUIT] = "QUIT",
		[SIGSEGV] = "SEGV",     [SIGSTKFLT] = "STKFLT", [SIGSTOP] = "STOP",
		[SIGSYS] = "SYS",       [SIGTERM] = "TERM",     [SIGTRAP] = "TRAP",
		[SIGTSTP] = "TSTP",     [SIGTTIN] = "TTIN",     [SIGTTOU] = "TTOU",
		[SIGURG] = "URG",       [SIGUSR1] = "USR1",     [SIGUSR2] = "USR2",
		[SIGVTALRM] = "VTALRM", [SIGWINCH] = "WINCH",   [SIGXCPU] = "XCPU",
		[SIGXFSZ] = "XFSZ",
	};

	return signal > 0 && (size_t)signal < sizeof(names) / sizeof(*names) ? names[signal] : NULL;
}

/* musl waits by the time of day only. Should somebody set it meanwhile, the wait is longer or
 * shorter. */
int pthread_clockjoin_np(pthread_t thread, void **value, clockid_t clock,
			 const struct timespec *until)
{
	struct timespec now, day;

	clock_gettime(clock, &now);
	clock_gettime(CLOCK_REALTIME, &day);
	day.tv_sec += until->tv_sec - now.tv_sec;
	day.tv_nsec += until->tv_nsec - now.tv_nsec;
	if (day.tv_nsec < 0) {
		day.tv_nsec += NS_PER_S;
		day.tv_sec--;
	} else if (day.tv_nsec >= NS_PER_S) {
		day.tv_nsec -= NS_PER_S;
		day.tv_sec++;
	}
	return pthread_timedjoin_np(thread, value, &day);
}
