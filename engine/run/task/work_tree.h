/* engine/run/task/work_tree.h — compares a git index with the work tree by times and sizes, in one
 * pass and little memory. libgit2 would load the whole index: 235 bytes a file.
 *
 * Reads version 2, 3 and 4 of the index (gitformat-index(5)) with SHA-1. Any thread.
 */
#ifndef CAIRN_RUN_TASK_WORK_TREE_H
#define CAIRN_RUN_TASK_WORK_TREE_H

#include <stdbool.h>
#include <stdint.h>

enum work_tree_state {
	WORK_TREE_UNSURE, /* times don't tell, or the index has what isn't read here: ask libgit2 */
	WORK_TREE_CLEAN,
	WORK_TREE_DIRTY
};

struct work_tree_scan {
	const char *index;        /* the file */
	const char *workdir;      /* the top of the work tree */
	const char *state_dir;    /* a directory that isn't looked into */
	const uint8_t *head_tree; /* the 20 bytes of HEAD's tree */
	/* Tells whether git ignores the path below the work tree; a directory's ends in '/'. */
	bool (*is_ignored)(void *arg, const char *path);
	void *arg;
};

/* Dirty: a tracked file differs or is gone, there are untracked files that aren't ignored, or the
 * index isn't what HEAD is. Submodules aren't looked at. */
enum work_tree_state work_tree_scan(const struct work_tree_scan *l);

#endif
