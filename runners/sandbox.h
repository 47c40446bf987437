/* runners/sandbox.h — what an attempt on this machine can see and reach: `sandbox: strict` and
 * `network:`.
 *
 * A strict attempt reads, writes and runs only what sandbox_paths() lists. Landlock refuses the
 * rest, to every user and in containers too. The kernel's refusals look like missing permissions to
 * the program. Not hidden: names, sizes and times of files (stat), Unix sockets with a path, and
 * /dev/shm, which all programs share. It keeps an honest program from undeclared data; a hostile
 * one of root has other ways.
 *
 * Worker threads may call these, except where said.
 */
#ifndef CAIRN_RUNNERS_SANDBOX_H
#define CAIRN_RUNNERS_SANDBOX_H

#include "base/os/process/landlock.h"
#include "base/os/process/namespace.h"
#include "runners/workspace.h"

struct sandbox_path {
	char *path; /* absolute; may not exist */
	enum landlock_use use;
};
struct sandbox_paths {
	VEC(struct sandbox_path) list;
};
/* What a strict attempt may use: its workspace, temporary directory and checkpoint; the system's
 * directories; devices, except those that hold file systems; the program that the engine starts for
 * it; its tools and the Python environments on PATH, each with the directory it is installed in. */
void sandbox_paths(const struct runner_attempt *a, const struct workspace *w, const char *state_dir,
		   struct sandbox_paths *ret);
void sandbox_paths_deinit(struct sandbox_paths *p);
/* The ruleset; the caller closes it. ERR_UNSUPPORTED: the kernel can't, or the project lies in a
 * directory that a step may use (/opt, /dev/shm), which would show all of it. */
int sandbox_rules(const struct sandbox_paths *p, const char *project_dir, int *ret_fd,
		  struct err *err);

/* Adds the attempt's network to what its program doesn't share with us. p->users becomes a user
 * namespace if one is needed; the caller keeps it for the next attempt and closes it in the end.
 * Loop's thread. */
int sandbox_network(const struct runner_attempt *a, struct namespace_plan *p, struct err *err);
/* Tries whether attempts can have a network of their own. */
int sandbox_check_network(struct err *err);

/* Adds what the attempt couldn't do to the reason why it failed. `refused`: lines of audit_say(),
 * or NULL. */
void sandbox_explain(const struct runner_attempt *a, const char *refused, struct err *err);

#endif
