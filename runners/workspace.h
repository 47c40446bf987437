/* runners/workspace.h — the directory of one attempt: state_dir/work/ID/ with w/ (where the program runs), tmp/ and log.
 *
 * Made and removed on worker threads; nothing here is shared between attempts. Errors name the path.
 */
#ifndef CAIRN_RUNNERS_WORKSPACE_H
#define CAIRN_RUNNERS_WORKSPACE_H

#include "runners/runner.h"

struct workspace {
	char *dir;   /* absolute: state_dir/work/ID */
	char *path;  /* absolute: dir/w */
	int dir_fd;  /* of path */
	int log_fd;  /* O_APPEND */
};

/* A left-over directory of that number is removed first. */
int workspace_make(struct workspace *w, const char *state_dir, uint64_t attempt_id, struct err *err);
void workspace_close(struct workspace *w); /* closes and frees; leaves the files */
int workspace_remove(const char *dir, struct err *err);
char *workspace_dir(const char *state_dir, uint64_t attempt_id);

/* The environment of a program: what passes from the host, what the attempt says, what the runner adds. NULL-terminated; each
 * name once, the attempt's before the host's. Free with workspace_env_free. */
char **workspace_env(const struct runner_attempt *a, const struct workspace *w, const char *attempt_marker, const char *engine_marker);
void workspace_env_free(char **env);
/* The last lines of the log, at most 4 KiB; NULL when it is empty. */
char *workspace_log_tail(int log_fd);

#endif
