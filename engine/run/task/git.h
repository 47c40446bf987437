/* engine/run/task/git.h — the git facts of the project when a run starts: commit, its
 * author, remote, submodules, and whether anything differs.
 *
 * libgit2 is loaded only where there is a repository, and reads it on a thread of its own
 * while the run is planned. The facts are for the record, never for a key: the code tree holds the
 * real code. After any error the facts stay unknown.
 */
#ifndef CAIRN_RUN_TASK_GIT_H
#define CAIRN_RUN_TASK_GIT_H

#include <stdbool.h>
#include "base/mem.h"

#define GIT_AUTHOR_MAX 1000 /* bytes of a name */

struct git_query;
/* NULL when `root` is in no repository. Changes in the state directory (below root) don't count. */
struct git_query *git_query_start(const char *root, const char *state_dir);
struct git_facts {
	const char *commit; /* 40 or 64 hex digits; NULL: unknown, or none yet (no other field is
			       set) */
	const char *author; /* the name of who wrote the commit; NULL: it has none */
	bool dirty; /* tracked files differ, or there are untracked files that aren't ignored */
		    /* URL of `origin`, or of the only remote, without credentials; or NULL. */
	const char *remote;
	const char *submodules_json; /* [{"path", "commit", "dirty"}] sorted by name; NULL: none */
};
/* Waits for the thread and frees `l` (NULL is fine); strings in `arena`. */
void git_query_end(struct git_query *l, struct arena *arena, struct git_facts *ret);

/* A remote's URL without secrets: no user and password (ssh: no password), no query and fragment.
 * The caller frees it. */
char *git_url_without_secrets(const char *url);

#endif
