/* tests/unit/broken_dir.h — readdir() that fails as an NFS server's or a bad disk's does: NULL with
 * EIO, after so many calls. */
#ifndef TESTS_UNIT_BROKEN_DIR_H
#define TESTS_UNIT_BROKEN_DIR_H

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>

static long dir_breaks_after = -1; /* calls, of any directory; -1: never */
static bool dir_broke;

struct dirent *readdir(DIR *d)
{
	static struct dirent *(*next)(DIR * d);

	if (dir_breaks_after == 0) {
		dir_broke = true;
		errno = EIO;
		return NULL;
	}
	if (dir_breaks_after > 0)
		dir_breaks_after--;
	if (!next)
		next = (struct dirent * (*)(DIR *))
			dlsym(RTLD_NEXT, sizeof(ino_t) == 8 ? "readdir64" : "readdir");
	return next(d);
}

#endif
