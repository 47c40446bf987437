/* runners/links.h — inputs that are hard links of the store's files, and the rules that keep
 * programs from writing to them.
 *
 * Where the file system has no reflinks, only a link costs neither time nor space. But a
 * link is the store's own file. So the program runs under a Landlock ruleset: it can write where it
 * could before, but not to the store and not to workspaces. In its own workspace it can't write to
 * inputs/, nor to the top directory, where it can't make new names. Worker threads may call these.
 */
#ifndef CAIRN_RUNNERS_LINKS_H
#define CAIRN_RUNNERS_LINKS_H

#include "runners/workspace.h"

/* Copying inputs of fewer bytes in all takes no noticeable time. */
#define LINKS_WORTH_BYTES (64 * MIB)

/* Tries whether files of store_dir can be linked into workspaces below state_dir and protected
 * there. On failure *err says why. */
int links_check(const char *store_dir, const char *state_dir, struct err *err);
/* Whether copies share the store's bytes. */
bool links_reflinks(const char *store_dir, const char *state_dir);
/* False: an output is a file at the top of the workspace, or all of it: nothing new can be made
 * there. */
bool links_fit(const struct runner_attempt *a);
/* The ruleset for a workspace whose inputs are in place; the caller closes it. */
int links_rules(const char *store_dir, const char *state_dir, const struct workspace *w,
		int *ret_fd, struct err *err);
/* Landlock lets a program change a file's mode, owner and times. This restores the store's mode and
 * owner on the links below the workspace w/ that is open at `dir_fd`. Links that were changed since
 * `since_ns` (wall clock; INT64_MAX: not known) also get a new time, so that no collector takes
 * them for old. */
void links_repair(int dir_fd, int64_t since_ns);
/* Adds to the reason why a program failed what links forbade it. */
void links_explain(struct err *err);

#endif
