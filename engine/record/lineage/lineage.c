#include "record/lineage/lineage.h"
#include "record/rows/rows.h"

/* Lineage follows bytes, and an executable has the same bytes as a plain file. Returns the other of
 * these two kinds; any other kind is returned unchanged. */
static enum content_kind other_kind(const struct content_id *id)
{
	if (!content_is_file(id))
		return id->kind;
	return id->kind == CONTENT_EXECUTABLE ? CONTENT_BLOB : CONTENT_EXECUTABLE;
}

int lineage_neighbours(struct db *db, const struct content_id *id, enum lineage_direction direction,
		       size_t max, struct arena *arena, struct attempt_row **ret, size_t *ret_n,
		       struct err *err)
{
	return db_get_rows(
		db,
		"SELECT " ATTEMPT_COLUMNS
		" FROM attempt WHERE id IN (SELECT io.attempt FROM content JOIN "
		"io ON io.content = content.id WHERE content.digest = ?1 AND "
		"content.kind IN (?2, ?5) AND io.dir = ?4) ORDER BY id LIMIT ?3",
		DB_IN(&id->digest, id->kind, max, direction == LINEAGE_UP ? 1 : 0, other_kind(id)),
		arena, &attempt_of_columns, ret, ret_n, err);
}

int lineage_find(struct db *db, const char *hex, struct content_id *ret, struct err *err)
{
	/* A digest has at most one row for each kind; one more row is another digest. */
	_Static_assert(CONTENT_KIND_MAX == 4, "the limit below is one more than there are kinds");
	struct content_id found = { 0 }, c;
	struct digest first, last;
	struct db_query q;
	int r;

	if (str_has_prefix(hex, "sha256:"))
		hex += 7;
	if (!digest_prefix_range(hex, &first, &last))
		return err_set(err, ERR_INVALID,
			       "`%s` is not the beginning of a content id (4 to 64 hex digits)",
			       hex);
	if (db_query(db, &q,
		     "SELECT digest, kind, size FROM content WHERE digest BETWEEN ? AND ? ORDER BY "
		     "kind DESC LIMIT 5",
		     DB_IN(&first, &last), NULL, err) < 0)
		return -1;
	while ((r = db_next(&q, DB_OUT(&c.digest, &c.kind, &c.size_bytes), err)) > 0 &&
	       db_has(&q, 0)) {
		if (found.kind && !digest_eq(&c.digest, &found.digest)) {
			db_end(&q);
			return err_set(err, ERR_INVALID,
				       "several contents begin with `%s`: give more digits", hex);
		}
		if (!found.kind)
			found = c;
	}
	db_end(&q);
	if (r < 0)
		return -1;
	if (!found.kind)
		return err_set(err, ERR_NOT_FOUND,
			       "no attempt on record read or made content that begins with `%s`",
			       hex);
	*ret = found;
	return 0;
}

int lineage_knows(struct db *db, const struct content_id *id, bool *ret, struct err *err)
{
	struct content_id other = *id;
	int64_t row;
	int r = content_row_find(db, id, &row, err);

	other.kind = (uint8_t)other_kind(id);
	if (r == 0 && other.kind != id->kind)
		r = content_row_find(db, &other, &row, err);
	*ret = r > 0;
	return r < 0 ? -1 : 0;
}

static const struct db_row content_id_of_columns =
	DB_ROW(struct content_id, NULL, DB_NEEDED(struct content_id, digest),
	       DB_COLUMN(struct content_id, kind), DB_COLUMN(struct content_id, size_bytes));

int lineage_newest_trees(struct db *db, size_t max, struct arena *arena, struct content_id **ret,
			 size_t *ret_n, struct err *err)
{
	/* Ids grow with time, so nothing is sorted. The inner LIMIT bounds the search when few rows
	 * are directories. */

	return db_get_rows(db,
			   "SELECT digest, kind, size FROM (SELECT * FROM content ORDER "
			   "BY id DESC LIMIT ?1 * 100) WHERE kind = 2 LIMIT ?1",
			   DB_IN(max), arena, &content_id_of_columns, ret, ret_n, err);
}
