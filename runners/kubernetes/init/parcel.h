/* runners/kubernetes/init/parcel.h — small files as bytes, both ways between the engine and a pod
 * that has no sidecar (runners/kubernetes/job/light.h).
 *
 * A parcel is a list of entries and the content of its files, which several lists may share. Links
 * are kept as text and never followed. Neither owners nor times are kept.
 *
 * The static helper shares this file, so it uses only the C library and base/text/str.c. Any
 * thread. Errors: -1 with errno.
 */
#ifndef CAIRN_RUNNERS_KUBERNETES_INIT_PARCEL_H
#define CAIRN_RUNNERS_KUBERNETES_INIT_PARCEL_H

#include <stddef.h>
#include "base/text/str.h"

/* How deep directories may nest: a program chooses that, and each level costs two descriptors. */
#define PARCEL_DEPTH_MAX 64

struct parcel {
	struct str entries;
	struct str *bytes; /* lent; equal content is added once */
	size_t max;        /* of both together */
};

/* Adds the entry `path`, relative to dir_fd, with the directories on its way and all that is below
 * it. 1: it doesn't fit; the parcel is of no use then. An entry that is no file, directory or link
 * is kept as a pipe. A link on the way is an entry of its own; if what it leads to is below dir_fd,
 * that is added, too. ENOENT: nothing is there. */
int parcel_add(struct parcel *p, int dir_fd, const char *path);
/* Only the names in the directory of `path`, as empty files: to tell what is there instead. */
int parcel_add_names(struct parcel *p, int dir_fd, const char *path);
/* Adds all that is below dir_fd. */
int parcel_add_all(struct parcel *p, int dir_fd);

/* Makes the entries below dir_fd, with their modes, whatever the umask. Hostile input: nothing is
 * made outside, no link is followed, nothing is replaced except that directories may be there.
 * EINVAL: malformed. */
int parcel_lay(int dir_fd, const char *entries, size_t n, const char *bytes, size_t n_bytes);

#endif
