/* storage/remote/evict.h — bounds the directory in front of a bucket: evicts what was used least
 * recently, when the bucket has it.
 *
 * In use is whatever was made, read or found since the first of the processes began that have this
 * directory open (each holds a lock on a file of its own). What isn't in the bucket, or is
 * condemned there, never goes; records and manifests don't either.
 */
#ifndef CAIRN_STORAGE_REMOTE_EVICT_H
#define CAIRN_STORAGE_REMOTE_EVICT_H

#include "storage/remote/remote.h"

struct evict_user; /* says that this process uses the directory; NULL is fine everywhere */
int evict_user_new(const char *local, struct evict_user **ret, struct err *err);
void evict_user_free(struct evict_user *u);

struct evicted {
	uint64_t bytes, objects; /* that the directory had */
	uint64_t evicted_bytes, evicted;
};
/* Evicts from the directory store at path `local` (open as `s`) until it has max_bytes or fewer, as
 * far as it may. 1: another process is doing it. */
int evict(struct store *s, const char *local, struct remote *r, uint64_t max_bytes,
	  struct evicted *ret, struct err *err);

#endif
