/* engine/run/task/libgit2.h — what libgit2's file is called, for library_open(). Each user of
 * libgit2 has a table of the functions that it calls. */
#ifndef CAIRN_RUN_TASK_LIBGIT2_H
#define CAIRN_RUN_TASK_LIBGIT2_H

#include <stddef.h>

/* The soname of Debian 12 first; other versions have the same functions. */
static const char *const libgit2_names[] = {
	"libgit2.so.1.5", "libgit2.so", "libgit2.so.1.9", "libgit2.so.1.8", "libgit2.so.1.7",
	"libgit2.so.1.6", NULL
};

#endif
