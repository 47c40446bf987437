/* engine/base/gitindex.h — reads git's index (gitformat-index(5)), entry by entry and in little
 * memory. libgit2 would load it whole, 235 bytes a file, and is loaded by few commands.
 *
 * Versions 2, 3 and 4. The file may be hostile: all lengths are checked, and a path is only text.
 * One thread a reader.
 */
#ifndef CAIRN_BASE_GITINDEX_H
#define CAIRN_BASE_GITINDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#define GITINDEX_SHA1   20
#define GITINDEX_SHA256 32
/* Longer paths are cut; path_len tells. */
#define GITINDEX_PATH_MAX 4096

#define GITINDEX_VALID    0x8000 /* "assume unchanged" */
#define GITINDEX_EXTENDED 0x4000 /* outside of a sparse checkout, or without content yet */
#define GITINDEX_STAGE    0x3000 /* of a merge */

struct gitindex;

struct gitindex_entry {
	uint32_t ctime_s, ctime_ns, mtime_s, mtime_ns, ino, mode, size;
	uint16_t flags;
	size_t path_len;
	char path[GITINDEX_PATH_MAX];
};

/* The index in this file, of a repository whose ids have so many bytes. NULL: it can't be read, or
 * is no index. */
struct gitindex *gitindex_open(const char *file, size_t id_bytes);
void gitindex_free(struct gitindex *x); /* takes NULL */

/* The file, as it was when it was opened. */
const struct stat *gitindex_stat(const struct gitindex *x);

/* The next entry, in the order of paths; it stays until the next call. 1: here it is, 0: none is
 * left, -1: the file has another shape. */
int gitindex_next(struct gitindex *x, const struct gitindex_entry **ret);

/* After the last entry: the id of the tree that all entries are, which git may have noted (the
 * extension TREE). False: it hasn't, or there is an extension that must not be ignored. */
bool gitindex_tree(struct gitindex *x, uint8_t *ret_id);

/* Tells whether a path in the index begins with `prefix`. An index of another shape has none. */
bool gitindex_has(const char *file, const char *prefix);

#endif
