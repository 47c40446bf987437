/* engine/record/lineage/lineage.h — which content came from which, by which attempt.
 *
 * Edges go through attempts: an attempt read content and made content. A closure is the set of
 * attempts that content comes from (up) or went into (down), over any number of steps. Content that
 * unrelated attempts share (an empty file) links them: same bytes, same node.
 */
#ifndef CAIRN_RECORD_LINEAGE_LINEAGE_H
#define CAIRN_RECORD_LINEAGE_LINEAGE_H

#include "record/rows/attempts.h"

enum lineage_direction { LINEAGE_UP, LINEAGE_DOWN };

/* Attempts that made (UP) or read (DOWN) exactly this content, oldest first. */
int lineage_neighbours(struct db *db, const struct content_id *id, enum lineage_direction direction,
		       size_t max, struct arena *arena, struct attempt_row **ret, size_t *ret_n,
		       struct err *err);
/* The content whose digest begins with these hex digits; ERR_NOT_FOUND; ERR_INVALID: several. */
int lineage_find(struct db *db, const char *hex, struct content_id *ret, struct err *err);
/* Whether the content is on record at all. */
int lineage_knows(struct db *db, const struct content_id *id, bool *ret, struct err *err);
/* Directories that attempts made or read, newest first. */
int lineage_newest_trees(struct db *db, size_t max, struct arena *arena, struct content_id **ret,
			 size_t *ret_n, struct err *err);

#endif
