/* storage/local/linked.h — files of the user's that a directory store has as hard links, instead of
 * copies (`mode: link` of an input).
 *
 * linked/ab/HEX is a second name of the user's file, which is read-only from then on (0444). Only
 * its owner's promise keeps it as it is, so a process notes size and modification time of each such
 * file that it names or opens. linked_check() compares, and hashes a file where they differ. A file
 * that has other bytes than its name loses that name: the store no longer has this content.
 *
 * The inode's times belong to the user. So a linked file that has another name is never made young,
 * and counts as young (gc would free nothing). Any thread may call these.
 */
#ifndef CAIRN_STORAGE_LOCAL_LINKED_H
#define CAIRN_STORAGE_LOCAL_LINKED_H

#include <sys/stat.h>
#include "base/crypto/digest.h"

#define LINKED_DIR      "linked"
#define LINKED_PATH_MAX 80

struct store;
struct linked;
/* `root` is the store's directory, `s` the store; both outlive it. */
struct linked *linked_new(struct store *s, int root);
void linked_free(struct linked *l);

/* LINKED_DIR/ab/HEX, below the store's directory. */
const char *linked_path(char buf[LINKED_PATH_MAX], const struct digest *name);

/* A regular file of the user's, open for reading and hashed. */
struct linked_file {
	int fd;
	struct stat st;
	const char *path; /* as the user knows it */
};
/* Gives the file its name in the store. ERR_UNSUPPORTED: it can't be linked, and why; ERR_CHANGED:
 * it is linked already as other content, so it was changed; it isn't any more. */
int linked_add(struct linked *l, const struct linked_file *f, const struct digest *name,
	       struct err *err);
/* Tells whether the store's name leads to this very file, which is still read-only. Notes it. */
bool linked_is(struct linked *l, const struct digest *name, const struct stat *st,
	       const char *path);
/* The store's file was opened. False: it isn't as it was when this process noted it. */
bool linked_opened(struct linked *l, const struct digest *name, const struct stat *st);
/* The content was read and has other bytes. 0: it isn't linked. Else takes its name away;
 * ERR_CORRUPT. */
int linked_damaged(struct linked *l, const struct digest *name, struct err *err);
/* Looks at all that this process has noted. ERR_CHANGED names the first file that was changed. */
int linked_check(struct linked *l, struct err *err);

#endif
