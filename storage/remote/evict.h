/* storage/remote/evict.h — limits the size of the directory in front of a bucket: evicts the least
 * recently used objects that the bucket has.
 *
 * An object is in use if it was made, read or found since the oldest process that has this
 * directory open began (each holds a lock on its own file). Never evicted: objects in use, objects
 * that the bucket lacks or has condemned, records and manifests.
 */
#ifndef CAIRN_STORAGE_REMOTE_EVICT_H
#define CAIRN_STORAGE_REMOTE_EVICT_H

#include "storage/remote/remote.h"

/* Registers this process as a user of the directory; NULL is allowed everywhere. */
struct evict_user;
int evict_user_new(const char *local, struct evict_user **ret, struct err *err);
void evict_user_free(struct evict_user *u);

struct evicted {
	uint64_t bytes, objects; /* in the directory before */
	uint64_t evicted_bytes, evicted;
};
/* Evicts from the directory store at path `local` (open as `s`) until it has max_bytes or less, as
 * far as allowed. 1: another process is evicting. */
int evict(struct store *s, const char *local, struct remote *r, uint64_t max_bytes,
	  struct evicted *ret, struct err *err);

#endif
