/* engine/run/task/environment.h — environments of steps on disk: where they are, whether they are
 * whole, and which aren't used any more. The run makes them (environment.c).
 *
 * STATE/environments/NAME/ has `env` (what the tool made, at the path where it stays, because
 * virtual environments can't be moved), `files` (the lock file for the tool), `log` (what the tool
 * printed; who makes, uses or removes the environment locks it) and `made`. NAME is the digest of
 * the lock file's content, the tool, and the Python that it is for. An environment is whole when
 * `made` exists, and says which packages were installed, and these still are. The file's time is
 * that of the last use.
 */
#ifndef CAIRN_RUN_TASK_ENVIRONMENT_H
#define CAIRN_RUN_TASK_ENVIRONMENT_H

#include "model/config/config.h"
#include "plan/environment.h"

/* Caller frees. */
char *environment_dir(const struct config *c, const struct plan_environment *e);
/* May read a whole list of packages. Any thread. */
bool environment_is_whole(const char *dir);

struct environment_gc_result {
	uint64_t removed, bytes;
};
/* Removes environments that no run has used since `before_ns`, and what builds that were killed
 * left. Skips those that are being made. With dry_run only counts. */
int environment_gc(const struct config *c, int64_t before_ns, bool dry_run,
		   struct environment_gc_result *ret, struct err *err);

#endif
