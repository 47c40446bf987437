/* storage/local/statcache.h — remembers the ids of files, so that unchanged files aren't read
 * again.
 *
 * Trusts an entry only when device, inode, size, mtime_ns and ctime_ns are the same and the entry
 * isn't racy: both times older than the moment at which the file was hashed by more than the file
 * system's granularity (git's racy rule, with ctime, which catches same-size rewrites with mtime
 * set back, and inode reuse). The caller of statcache_put() must know that the file's times show
 * every change (content.c). One sorted file, rewritten atomically; a broken or foreign file is
 * ignored and replaced. Thread-safe.
 */
#ifndef CAIRN_STORAGE_LOCAL_STATCACHE_H
#define CAIRN_STORAGE_LOCAL_STATCACHE_H

#include <sys/stat.h>
#include "base/crypto/digest.h"

struct statcache;
int statcache_open(const char *path, struct statcache **ret, struct err *err);
void statcache_free(struct statcache *c);
/* `path` is absolute, or relative to the project; always in the same form. Returns true and the id
 * on a trusted hit. */
bool statcache_get(struct statcache *c, const char *path, const struct stat *st,
		   struct content_id *ret);
/* The same for a file that the store may have linked (linked.h): its ctime doesn't count, because
 * every link changes it. */
bool statcache_get_linked(struct statcache *c, const char *path, const struct stat *st,
			  struct content_id *ret);
/* `st` must be the same before and after hashing. `hashed_wall_ns` is from before hashing began. */
void statcache_put(struct statcache *c, const char *path, const struct stat *st,
		   int64_t hashed_wall_ns, const struct content_id *id);
/* Merges with what another process saved meanwhile; no-op when unchanged. */
int statcache_save(struct statcache *c, struct err *err);

#endif
