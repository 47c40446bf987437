#include "record/internal.h"
#include "record/lineage.h"

static const char neighbours[] = "SELECT " ATTEMPT_COLUMNS " FROM attempt WHERE id IN (SELECT io.attempt FROM content JOIN io ON io.content = content.id"
				 " WHERE content.digest = ?1 AND content.kind IN (?2, ?5) AND io.dir = ?4) ORDER BY id LIMIT ?3";

/* Lineage follows bytes: those of an executable are the same in a plain file. The other kind, else the same one. */
static enum content_kind other_kind(const struct content_id *id)
{
	if (!content_is_file(id))
		return id->kind;
	return id->kind == CONTENT_EXECUTABLE ? CONTENT_BLOB : CONTENT_EXECUTABLE;
}

static int read_attempts(struct db *db, sqlite3_stmt *s, const struct content_id *id, size_t max, struct arena *arena, struct attempt_row **ret,
			 size_t *ret_n, struct err *err)
{
	bind_digest(s, 1, &id->digest);
	sqlite3_bind_int(s, 2, id->kind);
	sqlite3_bind_int(s, 5, other_kind(id));
	sqlite3_bind_int64(s, 3, (int64_t)max);
	return read_attempt_rows(db, s, arena, ret, ret_n, err);
}

int lineage_neighbours(struct db *db, const struct content_id *id, enum lineage_direction direction, size_t max, struct arena *arena,
		       struct attempt_row **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, neighbours, err);

	if (!s)
		return -1;
	sqlite3_bind_int(s, 4, direction == LINEAGE_UP ? 1 : 0);
	return read_attempts(db, s, id, max, arena, ret, ret_n, err);
}

int lineage_find(struct db *db, const char *hex, struct content_id *ret, struct err *err)
{
	/* There are at most so many rows of one digest; one more is another digest. */
	_Static_assert(CONTENT_KIND_MAX == 4, "the limit below is one more than there are kinds");
	sqlite3_stmt *s = db_prepare(db, "SELECT digest, kind, size FROM content WHERE digest BETWEEN ? AND ? ORDER BY kind DESC LIMIT 5", err);
	struct digest first, last, digest;
	struct content_id found = { 0 };
	int r;

	if (!s)
		return -1;
	if (str_has_prefix(hex, "sha256:"))
		hex += 7;
	if (!digest_prefix_range(hex, &first, &last))
		return err_set(err, ERR_INVALID, "`%s` is not the beginning of a content id (4 to 64 hex digits)", hex);
	bind_digest(s, 1, &first);
	bind_digest(s, 2, &last);
	while ((r = db_step(db, s, err)) > 0 && column_digest(s, 0, &digest)) {
		if (found.kind && !digest_eq(&digest, &found.digest)) {
			sqlite3_reset(s);
			return err_set(err, ERR_INVALID, "several contents begin with `%s`: give more digits", hex);
		}
		if (!found.kind)
			found = (struct content_id){ .digest = digest, .kind = (uint8_t)sqlite3_column_int(s, 1), .size_bytes = (uint64_t)sqlite3_column_int64(s, 2) };
	}
	sqlite3_reset(s);
	if (r < 0)
		return -1;
	if (!found.kind)
		return err_set(err, ERR_NOT_FOUND, "no attempt on record read or made content that begins with `%s`", hex);
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

int lineage_newest_trees(struct db *db, size_t max, struct arena *arena, struct content_id **ret, size_t *ret_n, struct err *err)
{
	/* Rows are numbered as they come: no sorting of all of them. The inner bound is on what is looked at where few are directories. */
	sqlite3_stmt *s = db_prepare(db, "SELECT digest, kind, size FROM (SELECT * FROM content ORDER BY id DESC LIMIT ?1 * 100) WHERE kind = 2 LIMIT ?1", err);
	struct content_id *v = arena_alloc(arena, (max + 1) * sizeof(*v));
	size_t n = 0;
	int r;

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, (int64_t)max);
	while ((r = db_step(db, s, err)) > 0 && n < max)
		if (column_digest(s, 0, &v[n].digest)) {
			v[n].kind = (uint8_t)sqlite3_column_int(s, 1);
			v[n++].size_bytes = (uint64_t)sqlite3_column_int64(s, 2);
		}
	sqlite3_reset(s);
	*ret = v;
	*ret_n = n;
	return r < 0 ? -1 : 0;
}

const char *record_run_id(struct db *db, int64_t run, struct arena *arena)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT id FROM run WHERE rowid_ = ?", NULL);
	const char *id = NULL;

	if (!s)
		return NULL;
	sqlite3_bind_int64(s, 1, run);
	if (db_step(db, s, NULL) > 0)
		id = column_text(s, 0, arena);
	sqlite3_reset(s);
	return id;
}
