/* engine/base/os/process/process.h — start a program, know when it ends, and end all that it
 * started.
 *
 * A started program leads its own session and process group. Descendants, also daemons, are found
 * by the marker variable that process_spec.marker puts into their environment (read from
 * /proc/PID/environ), by session and by parent. So the caller should be a child subreaper
 * (process_become_subreaper). A descendant that lost all three (env -i, setsid, two forks) becomes
 * our child as an orphan: it is killed with the last program that can have started it. The child
 * dies with the engine (PR_SET_PDEATHSIG), unless `outlives` is set; processes that it left are
 * found later by the marker. Every child of the caller that neither process_start() started nor
 * process_note_child() names counts as such an orphan. It is reaped; or it is killed at the end of
 * the program that it seems to come from, if it is younger than that program. Only the loop's
 * thread may call these functions, and it must live as long as the process; any thread may call
 * process_signal_marked().
 */
#ifndef CAIRN_BASE_OS_PROCESS_PROCESS_H
#define CAIRN_BASE_OS_PROCESS_PROCESS_H

#include <stdbool.h>
#include <sys/resource.h>
#include "base/os/loop.h"
#include "base/os/process/namespace.h"

#define PROCESS_RULES_MAX 2

struct process_spec {
	const char *const *argv; /* argv[0] is looked up in PATH of `env` */
	const char *const *env;  /* "NAME=value", NULL-terminated: the whole environment */
	const char *cwd;
	int stdin_fd, stdout_fd, stderr_fd; /* -1: /dev/null */
	const char *marker; /* "NAME=value" that is also in env; identifies the whole tree */
	/* interactive: stays in our session, its group gets the terminal of stdin_fd. */
	bool foreground;
	mode_t umask; /* at its start; 0: ours */
	/* Of landlock.h, for it and all that it starts: what one of them refuses is refused; 0:
	 * none. */
	int rules[PROCESS_RULES_MAX];
	int opens; /* of opens.h: watches them; 0: no watch */
	/* What it doesn't share with us, of namespace.h. It is made before the program enters cwd,
	 * which may be in the mounts. NULL: nothing. */
	const struct namespace_plan *apart;
	/* doesn't die with the caller: for an engine that continues when the daemon that started it
	 * is gone. */
	bool outlives;
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
/* Clock ticks since boot from /proc/PID/stat, 0 when gone: tells a reused pid. */
uint64_t process_start_time(pid_t pid);

/* Signals the process group, then every marked or descended process outside of it, each once.
 * SIGKILL stops them all first, so that nothing forks faster than we look. Doesn't wait. Returns
 * how many were signalled. */
int process_signal_tree(struct process *p, int signo);
/* Signals the process alone, or its group. After it was reaped, -1 with ESRCH, because another
 * process may have its pid. */
int process_signal(struct process *p, int signo);
int process_signal_group(struct process *p, int signo);
/* As process_signal_tree(), for a tree whose leader isn't ours (left by a dead engine): all
 * processes with the variable `marker` in their environment, or with a variable that begins with it
 * when it ends in '/'. SIGKILL is repeated until none is left, for 2 s at most. */
int process_signal_marked(const char *marker, int signo);
int process_become_subreaper(struct err *err);
/* After its exit: tells whether processes of its tree are left. Cheap; may be wrongly true. */
bool process_left_orphans(const struct process *p);
/* Kills what is left of its tree, and waits (2 s at most) until it is gone. Blocks the loop: for
 * the rare program that leaves processes behind. */
void process_kill_leftovers(struct process *p);
/* Notes that the caller waits for the child `pid` itself, so it isn't an orphan, until
 * process_forget_child(). */
void process_note_child(pid_t pid);
void process_forget_child(pid_t pid);

/* Hides our environment and memory from other programs of the same user, such as those that we
 * start. Empties /proc/PID/environ except for variables that begin with one of `kept` (getenv()
 * still has all). Also prevents tracing, reads of /proc/PID/mem, and core files. With one of `kept`
 * in the environment this second part is left out, because the process that gave us the variable
 * finds us by it. Call it first, before any thread runs. Forked children inherit it until exec. */
void process_hide(const char *const *kept);

#endif
