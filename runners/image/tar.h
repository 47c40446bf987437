/* runners/image/tar.h — a tar stream in one canonical form: owner 0, time 0, the same bytes for the
 * same entries.
 *
 * POSIX ustar, with a pax header (POSIX.1-2001) only where a name, a link's target or a size
 * doesn't fit. Why not libarchive: cairn starts for every command and so doesn't link it, and its
 * bytes change with its version.
 */
#ifndef CAIRN_RUNNERS_IMAGE_TAR_H
#define CAIRN_RUNNERS_IMAGE_TAR_H

#include "base/err.h"

struct tar_writer {
	int (*write)(void *arg, const void *bytes, size_t n, struct err *err);
	void *arg;
};

/* `path`: in the archive, without a leading slash. */
int tar_add_dir(struct tar_writer *w, const char *path, unsigned mode, struct err *err);
int tar_add_link(struct tar_writer *w, const char *path, const char *target, struct err *err);
int tar_add_bytes(struct tar_writer *w, const char *path, unsigned mode, const void *bytes,
		  size_t n, struct err *err);
/* ERR_CHANGED when `source` shrinks while it is read. */
int tar_add_file(struct tar_writer *w, const char *path, unsigned mode, const char *source,
		 struct err *err);
int tar_end(struct tar_writer *w, struct err *err);

#endif
