/* steps/shards/walk.h — the files below a directory, as paths relative to it, sorted by their
 * bytes.
 *
 * Symbolic links to files are listed and marked; those to directories, and hidden entries (names
 * that begin with a dot), are counted and skipped. Devices, sockets and pipes are ERR_INVALID.
 * Depth is bounded.
 */
#ifndef CAIRN_STEPS_SHARDS_WALK_H
#define CAIRN_STEPS_SHARDS_WALK_H

#include <stdbool.h>
#include "base/err.h"
#include "base/mem.h"

#define WALK_DEPTH_MAX 128

struct walk_file {
	const char *path; /* relative to the root; in the arena */
	bool link;
};

struct walk_list {
	VEC(struct walk_file) files;
	uint64_t hidden, links; /* skipped */
};

/* Names live in the arena. The caller frees ret->files.v, even after an error. */
int walk_directory(const char *root, struct arena *arena, struct walk_list *ret, struct err *err);

#endif
