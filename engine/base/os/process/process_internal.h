/* engine/base/os/process/process_internal.h — shared by process.c (start and end of one program)
 * and process_tree.c (all that it started). */
#ifndef CAIRN_BASE_OS_PROCESS_PROCESS_INTERNAL_H
#define CAIRN_BASE_OS_PROCESS_PROCESS_INTERNAL_H

#include "base/os/process/process.h"

struct process {
	struct loop *loop;
	struct loop_source *source;
	pid_t pid;
	int pidfd; /* -1: the kernel has none; SIGCHLD is used */
	char *marker;
	/* Clock ticks since boot, a little before it started: no process of its tree is older. */
	uint64_t since;
	process_exit_fn on_exit;
	void *arg;
	int terminal_fd; /* foreground: the terminal that its group got, else -1 */
	bool reaped;
};

/* The running programs, in no order; on_ended() waits for each. Loop's thread only. */
size_t process_running(struct process *const **ret);

#endif
