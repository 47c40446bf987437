/* storage/content/materialise.h — what materialise.c and change.c share: the making, or checking,
 * of one content.
 */
#ifndef CAIRN_STORAGE_CONTENT_MATERIALISE_H
#define CAIRN_STORAGE_CONTENT_MATERIALISE_H

#include "storage/internal.h"

struct materialise {
	struct store *store;
	enum content_materialise_mode mode;
	bool no_reflink; /* found out with the first file */
	bool no_link;    /* likewise */
	int depth;
	struct str path;           /* for messages */
	struct digest_set *linked; /* the blobs that this content has links to; or NULL */
	const struct content_id *root;
	bool brought;        /* the bytes of all references are in the store */
	bool in_place;       /* the top exists, and is empty */
	bool check;          /* makes nothing: compares what is there, and adds to `linked` */
	int64_t verified_ns; /* with check: files that didn't change since then aren't hashed */
	VEC(struct store_place)
	places;            /* files whose bytes are still to be fetched; owns their fd */
	VEC(char *) paths; /* theirs, for messages */
};

/* Makes or checks the entry in the open directory. blob: a reference's bytes. */
int materialise_entry(struct materialise *m, const struct tree_entry *e,
		      const struct content_id *blob, int fd, struct err *err);
/* ERR_CORRUPT unless the directory has as many entries as the listing, and this mode. */
int materialise_check_count(const struct materialise *m, const struct tree *t, int dir_fd,
			    mode_t mode, struct err *err);

#endif
