/* storage/content/view.h — kept views: contents laid out once as directories beside the blobs, for
 * mounting them read-only into many workspaces.
 *
 * A view's files are hard links to the blobs where possible, else copies; modes are those of
 * CONTENT_HARD_LINK. Whoever mounts one must make sure that nobody can write to it through the
 * mount. A view is a cache: it is made when it is missing, and a collection of the store removes
 * those that nobody uses. Only a store in a directory has views, and not one on a network file
 * system. Any thread.
 */
#ifndef CAIRN_STORAGE_CONTENT_VIEW_H
#define CAIRN_STORAGE_CONTENT_VIEW_H

#include "storage/content/content.h"

/* "BOOT/NAME" below the store's directory `views`. */
#define VIEW_NAME_MAX 48

struct view {
	int fd; /* its directory; holds a shared lock, so that it stays until this is closed */
	char name[VIEW_NAME_MAX];
};

/* Makes or finds the view that has this content at `path` (a relative path without ".."). It may be
 * made out of the view of a similar content at the same path that nobody uses. This process has
 * compared all of it with the store once, whoever made it; files that didn't change since they were
 * hashed in this boot aren't hashed again. ERR_UNSUPPORTED and ERR_READ_ONLY: this store can't have
 * views. */
int view_take(struct store *s, const struct content_id *id, const char *path, struct view *ret,
	      struct err *err);
/* Removes the views that nobody uses now, and nobody took since `unused_since_ns` (wall clock);
 * also unfinished ones, and all of earlier boots. Returns how many. */
uint64_t view_evict(struct store *s, int64_t unused_since_ns);

/* Views that the caller keeps, in a directory of its own on the store's file system. Who uses one
 * must not be able to write to it, either. `known` (or NULL) remembers which of the store's files
 * were right, under the names of their blobs. A file that has the inode, size and mtime noted there
 * isn't hashed again; its ctime doesn't count, because every link changes it. */

/* Fills the empty directory or file at `path`, which stays the same inode: a directory with hard
 * links where possible, a file with a copy. content_fetch() must have succeeded. ERR_CORRUPT: a
 * file of the store was damaged, and is set aside; what is at `path` is undefined after an error.
 */
int view_fill_at(struct store *s, const struct content_id *id, struct statcache *known, int dir_fd,
		 const char *path, struct err *err);
/* Makes the blob as a hard link `path`, which must not exist. Returns at once: false when the
 * store's directory lacks the blob, when it would have to be hashed, or can't be linked. */
bool view_link_at(struct store *s, const struct content_id *id, struct statcache *known, int dir_fd,
		  const char *path);

#endif
