/* serve/project/discover.h — the pipeline files of a project that have schedules: *.yaml and *.yml
 * at its root and in pipelines/, found by their text. */
#ifndef CAIRN_SERVE_PROJECT_DISCOVER_H
#define CAIRN_SERVE_PROJECT_DISCOVER_H

#include "base/err.h"
#include "base/mem.h"

/* Paths relative to the root, sorted, in `arena`. -1: some directory or file can't be read now;
 * then *ret has what was found all the same, and what it lacks may be there. */
int project_discover(const char *root, struct arena *arena, const char ***ret, size_t *ret_n,
		     struct err *err);

#endif
