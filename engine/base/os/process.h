/* engine/base/os/process.h — start a program, know when it ends, and end all that it started.
 *
 * A started program leads a session and a process group of its own. Descendants are found again,
 * also daemonised ones, by the marker variable that process_spec.marker puts into their environment
 * (read from /proc/PID/environ), by session and by parenthood, so the caller should be a child
 * subreaper (process_become_subreaper). One that shook off all three (env -i, setsid, two forks)
 * has come to us as an orphan: it goes with the last program that can have started it. The child
 * dies with the engine (PR_SET_PDEATHSIG), unless it is to outlive it; what it left behind is found
 * by the marker later. Every child of the caller that neither process_start() started nor
 * process_note_child() names counts as such an orphan: it is reaped, and killed at the end of the
 * program that it seems to come from, if it is younger than that. Only the loop's thread may call
 * this, and that must be the thread that lives as long as the process; process_signal_marked() any.
 */
#ifndef CAIRN_BASE_OS_PROCESS_H
#define CAIRN_BASE_OS_PROCESS_H

#include <stdbool.h>
#include <sys/resource.h>
#include "base/os/loop.h"

struct process_spec {
	const char *const *argv; /* argv[0] is looked up in PATH of `env` */
	const char *const *env;  /* "NAME=value", NULL-terminated: the whole environment */
	const char *cwd;
	int stdin_fd, stdout_fd, stderr_fd; /* -1: /dev/null */
	const char *marker; /* "NAME=value" that is also in env; identifies the whole tree */
	bool foreground; /* interactive: stays in our session, its group gets the terminal that is
			    stdin_fd */
	mode_t umask;    /* that it starts with; 0: ours */
	int rules;       /* of landlock.h that it and all that it starts come under; 0: none */
	int opens;       /* of opens.h: they are watched; 0: they aren't */
	bool outlives;   /* doesn't die with the caller: for an engine that goes on when the daemon
			    that started it is gone */
};

struct process_exit {
	int status;          /* exit code, or -1 when killed by a signal */
	int signo;           /* the signal, or 0 */
	struct rusage usage; /* of the direct child and what it waited for */
};

struct process;
typedef void (*process_exit_fn)(void *arg, const struct process_exit *ex);

/* Starts it without copying the engine's memory (vfork semantics); exec failures come back as an
 * error here (ERR_NOT_FOUND for a program that doesn't exist), never as an exit code. It starts
 * with no signal blocked or ignored and no descriptor but 0, 1 and 2. `on_exit` is called once,
 * from the loop; it may free the process. */
int process_start(struct loop *l, const struct process_spec *spec, process_exit_fn on_exit,
		  void *arg, struct process **ret, struct err *err);
void process_free(
	struct process *p); /* NULL is fine; doesn't kill; on_exit isn't called any more */
pid_t process_pid(const struct process *p);
uint64_t process_start_time(pid_t pid); /* clock ticks since boot from /proc/PID/stat, 0 when gone:
					   tells a reused pid */

/* Signals the process group, then every marked or descended process outside of it, each once.
 * SIGKILL stops them all first, so that nothing forks faster than we look. Doesn't wait. Returns
 * how many were signalled. */
int process_signal_tree(struct process *p, int signo);
/* Signals it alone, or its process group; never who has its number after it was reaped: then -1
 * with ESRCH. */
int process_signal(struct process *p, int signo);
int process_signal_group(struct process *p, int signo);
/* The same for a tree whose leader isn't ours (left by a dead engine): all processes whose
 * environment holds `marker`, or begins with it when it ends in '/'. SIGKILL is repeated until none
 * is left, for 2 s at most. */
int process_signal_marked(const char *marker, int signo);
int process_become_subreaper(struct err *err);
/* After its exit: is anything of its tree still there? Cheap; may say yes wrongly. */
bool process_left_orphans(const struct process *p);
/* Kills it and waits (2 s at most) until it is gone. Blocks the loop: for the rare program that
 * leaves something behind. */
void process_kill_leftovers(struct process *p);
/* `pid` is a child that the caller waits for himself: nobody's leftover, until it is forgotten. */
void process_note_child(pid_t pid);
void process_forget_child(pid_t pid);

/* Keeps our environment and memory from other programs of the same user, such as those that we
 * start: /proc/PID/environ is emptied but for variables that begin with one of `kept` (getenv()
 * still has all), and no program may trace us or read /proc/PID/mem, nor is there a core file
 * when we crash. With one of `kept` in the environment the latter is left out: who gave it to us
 * finds us by it. Call it first of all, with no thread running. What is forked has it too, until
 * it calls exec. */
void process_hide(const char *const *kept);

#endif
