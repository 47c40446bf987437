/* engine/run/git.h — what git says of the project when a run starts: commit, and whether anything differs from it.
 *
 * libgit2 is loaded only where there is a repository (dlopen), and looks on a thread of its own while the run is planned. Facts for the record, never
 * for a key: the code tree holds what was really there. Whatever goes wrong leaves the facts unknown.
 */
#ifndef CAIRN_RUN_GIT_H
#define CAIRN_RUN_GIT_H

#include <stdbool.h>
#include "base/mem.h"

struct git_look;
/* NULL when `root` is in no repository. The state directory (below root) doesn't count as a difference. */
struct git_look *git_look_start(const char *root, const char *state_dir);
/* Waits for it and frees it (NULL is fine). *ret_commit: 40 or 64 hex digits in `arena`, NULL when unknown or there is no commit yet; *ret_dirty: tracked files
 * differ, or there are untracked ones that aren't ignored. */
void git_look_end(struct git_look *l, struct arena *arena, const char **ret_commit, bool *ret_dirty);

#endif
