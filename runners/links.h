/* runners/links.h — inputs that are hard links of the store's files, and the rule that keeps their
 * readers from writing to them.
 *
 * Where the file system has no reflinks, a link is the only way to an input that costs neither time
 * nor space. But it is the store's own file. So the program comes under a Landlock ruleset: it can
 * write where it could, but not to the store, not to workspaces, and in its own workspace neither
 * to inputs/ nor to the directory itself, where it can make no new names. Worker threads may call
 * these.
 */
#ifndef CAIRN_RUNNERS_LINKS_H
#define CAIRN_RUNNERS_LINKS_H

#include "runners/workspace.h"

/* Inputs of fewer bytes in all are copied in less time than anybody notices. */
#define LINKS_WORTH_BYTES (64 * MIB)

/* Tries whether files of store_dir can be linked into workspaces below state_dir and protected
 * there. On failure *err says why not. */
int links_check(const char *store_dir, const char *state_dir, struct err *err);
/* Whether copies share the store's bytes. */
bool links_reflinks(const char *store_dir, const char *state_dir);
/* False: an output is a file at the top of the workspace, or all of it, where nothing new can be
 * made. */
bool links_fit(const struct runner_attempt *a);
/* The ruleset for a workspace that is laid out; close it. */
int links_rules(const char *store_dir, const char *state_dir, const struct workspace *w,
		int *ret_fd, struct err *err);
/* Landlock lets a program change a file's mode, owner and times. Gives the links below the
 * workspace w/ that is open at `dir_fd` the store's mode and owner again, and makes those that were
 * changed since `since_ns` (wall clock; INT64_MAX: not known) young, so that no collector takes
 * them for old ones. */
void links_mend(int dir_fd, int64_t since_ns);

#endif
