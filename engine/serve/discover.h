/* serve/discover.h — the pipeline files of a project that have schedules: *.yaml and *.yml at its root and in pipelines/, found by their text. */
#ifndef CAIRN_SERVE_DISCOVER_H
#define CAIRN_SERVE_DISCOVER_H

#include "base/mem.h"

/* Paths relative to the root, sorted, in `arena`. What can't be read isn't one. */
void discover_scheduled(const char *root, struct arena *arena, const char ***ret, size_t *ret_n);

#endif
