/* steps/mapped.h — a regular file's bytes, mapped for reading. */
#ifndef CAIRN_STEPS_MAPPED_H
#define CAIRN_STEPS_MAPPED_H

#include "base/err.h"

struct mapped {
	const char *text; /* never NULL while it is open */
	size_t n;
};

/* `flags`: of mmap(2), besides MAP_PRIVATE; usually 0. ERR_INVALID when it isn't a regular file. */
int mapped_open(struct mapped *m, const char *path, int flags, struct err *err);
void mapped_close(struct mapped *m); /* also if it was never opened and is all zero */

#endif
