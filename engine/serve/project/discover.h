/* engine/serve/project/discover.h — finds the pipeline files of a project, or those that have
 * schedules:
 * *.yaml and *.yml at its root and in pipelines/. Looks at their text only. */
#ifndef CAIRN_SERVE_PROJECT_DISCOVER_H
#define CAIRN_SERVE_PROJECT_DISCOVER_H

#include <stdbool.h>
#include "base/err.h"
#include "base/mem.h"

/* Paths relative to the root, sorted, in `arena`. -1: a directory or file can't be read now; *ret
 * then has the files that were found, and others may exist. */
int project_discover(const char *root, bool scheduled, struct arena *arena, const char ***ret,
		     size_t *ret_n, struct err *err);

#endif
