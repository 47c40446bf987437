/* engine/base/os/process_internal.h — what process.c (one program: start, end) and process_tree.c
 * (all that it started) share. */
#ifndef CAIRN_BASE_OS_PROCESS_INTERNAL_H
#define CAIRN_BASE_OS_PROCESS_INTERNAL_H

#include "base/os/process.h"

struct process {
	struct loop *loop;
	struct loop_source *source;
	pid_t pid;
	int pidfd; /* -1: the kernel has none; SIGCHLD is used */
	char *marker;
	uint64_t since; /* clock ticks since boot, a little before it started: nothing of its tree
			   is older */
	process_exit_fn on_exit;
	void *arg;
	int terminal_fd; /* foreground: whose group it got, else -1 */
	bool reaped;
};

/* Those that run, in no order; each is a child that on_ended() waits for. Loop's thread only. */
size_t process_running(struct process *const **ret);

#endif
