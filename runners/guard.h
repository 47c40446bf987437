/* runners/guard.h — the guard: a process beside the engine that acts when the engine is gone.
 *
 * If the engine died, the guard kills what its programs started. If it ended well, nothing is left
 * to guard; but the guard can take over to remove trash, so that nobody waits for that.
 *
 * A zeroed struct is a guard that wasn't started. Loop's thread.
 */
#ifndef CAIRN_RUNNERS_GUARD_H
#define CAIRN_RUNNERS_GUARD_H

#include <stdbool.h>
#include <sys/types.h>

struct guard {
	pid_t pid; /* 0: not started; -1: it couldn't be */
	int pipe;  /* the end that only the engine has, while pid isn't 0 */
};

/* Does nothing when it was started before. Call it before the first worker thread. A failure isn't
 * reported: programs die with the engine by themselves, and the next engine kills what they left.
 */
void guard_start(struct guard *g, const char *engine_marker, const char *state_dir);
/* The engine ends. With `removes_trash` the guard removes the trash that was given to it
 * (workspace_pool_give_trash()), and lives on for that; else it is killed. */
void guard_end(struct guard *g, bool removes_trash);

#endif
