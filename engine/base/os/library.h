/* engine/base/os/library.h — libraries that are opened when they are first needed, so that no other
 * start of the program pays for them.
 *
 * In the static program (CAIRN_STATIC) nothing can be opened: they are linked in, and the same
 * table is filled from the program itself. So each row names a function twice.
 */
#ifndef CAIRN_BASE_OS_LIBRARY_H
#define CAIRN_BASE_OS_LIBRARY_H

#include <stddef.h>

struct library_function {
	const char *name;
	size_t offset; /* of its pointer in the caller's table */
	void *linked;  /* LIBRARY_LINKED(name) */
};
#ifdef CAIRN_STATIC
#define LIBRARY_LINKED(function) ((void *)(function))
#else
#define LIBRARY_LINKED(function) NULL
#endif

/* Opens the first of `names` that is there (NULL-terminated: "libcurl.so.4") and fills `table`. It
 * is never closed. -1: none is there (*ret_missing is NULL), or it lacks the function
 * *ret_missing. */
int library_open(const char *const *names, const struct library_function *functions, size_t n,
		 void *table, const char **ret_missing);

#endif
