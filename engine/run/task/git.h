/* engine/run/task/git.h — what git says of the project when a run starts: commit, remote,
 * submodules, and whether anything differs.
 *
 * libgit2 is loaded only where there is a repository (dlopen), and looks on a thread of its own
 * while the run is planned. Facts for the record, never for a key: the code tree holds what was
 * really there. Whatever goes wrong leaves the facts unknown.
 */
#ifndef CAIRN_RUN_TASK_GIT_H
#define CAIRN_RUN_TASK_GIT_H

#include <stdbool.h>
#include "base/mem.h"

struct git_look;
/* NULL when `root` is in no repository. The state directory (below root) doesn't count as a
 * difference. */
struct git_look *git_look_start(const char *root, const char *state_dir);
struct git_facts {
	const char *commit; /* 40 or 64 hex digits; NULL: unknown, or there is none yet (then
			       nothing else is set either) */
	bool dirty; /* tracked files differ, or there are untracked ones that aren't ignored */
		    /* URL of `origin`, or of the only remote, without credentials; or NULL. */
	const char *remote;
	const char *submodules_json; /* [{"path", "commit", "dirty"}] in the order of their names;
					NULL: none */
};
/* Waits for it and frees it (NULL is fine); strings in `arena`. */
void git_look_end(struct git_look *l, struct arena *arena, struct git_facts *ret);

/* A remote's URL as it may be kept: without user and password (of ssh: without password), query and
 * fragment. The caller frees it. */
char *git_url_without_secrets(const char *url);

#endif
