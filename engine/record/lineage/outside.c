/* Origins of inputs, and exports. */
#include "record/lineage/outside.h"
#include "record/rows/rows.h"

static const struct db_row origin_of_columns =
	DB_ROW(struct run_input_row, NULL, DB_NEEDED(struct run_input_row, name),
	       DB_NEEDED(struct run_input_row, origin), DB_NEEDED(struct run_input_row, id));

int record_origins(struct db *db, struct arena *arena, struct run_input_row **ret, size_t *ret_n,
		   struct err *err)
{
	return db_get_rows(db,
			   "SELECT name, origin, content FROM run_input WHERE name >= "
			   "'input:' AND name < 'input;' AND origin NOT LIKE 'path:%' "
			   "GROUP BY origin, content ORDER BY max(run) DESC, name",
			   DB_IN(), arena, &origin_of_columns, ret, ret_n, err);
}

/* So many of the newest runs are asked for a place: of one that nobody read, all their inputs are
 * looked at, which takes 30 ms. */
#define PLACE_RUNS "50000"

/* True of a place that is ?1 or that ?1 lies in; ?1 has a slash at its end. The first part is for
 * speed. */
#define IS_AT(column)                                                                        \
	"substr(?1, 1, length(" column ")) = " column " AND substr(?1, length(rtrim(" column \
	", '/')) + 1, 1) = '/'"

int record_place(struct db *db, const char *place, const char *path, int64_t run,
		 struct arena *arena, struct place_row *ret, struct err *err)
{
	const char *slash = str_has_suffix(place, "/") ? "" : "/";
	const char *read = arena_printf(arena, "%s%s%s", path ? "path:" : "", place, slash);
	const char *wrote = arena_printf(arena, "%s%s", path ? path : place, slash);
	int64_t read_by = 0, written_by = 0;
	struct place_row was_read = { 0 }, written = { 0 };

	if (db_get(db,
		   "SELECT run, substr(name, 7), content FROM run_input WHERE "
		   "run > (SELECT coalesce(max(rowid_), 0) FROM run) - " PLACE_RUNS
		   " AND name >= 'input:' AND name < 'input;' AND (?2 = 0 OR run = ?2) "
		   "AND " IS_AT("origin") " ORDER BY run DESC, name DESC LIMIT 1",
		   DB_IN(read, run), arena, DB_OUT(&read_by, &was_read.name, &was_read.id),
		   err) < 0 ||
	    db_get(db,
		   "SELECT run, output, content FROM export WHERE message IS NULL AND (?2 = 0 OR "
		   "run = ?2) AND " IS_AT("uri") " ORDER BY at_ns DESC LIMIT 1",
		   DB_IN(wrote, run), arena, DB_OUT(&written_by, &written.name, &written.id),
		   err) < 0)
		return -1;
	/* A run reads before it writes. */
	*ret = written_by >= read_by ? written : was_read;
	return written_by || read_by;
}

/* Exports. */

/* The last write is the content at the place. So its time is made later than all earlier ones, even
 * if a clock went back. */
int record_export(struct db *db, const struct export_row *e, struct err *err)
{
	return db_do(db,
		     "INSERT OR REPLACE INTO export (run, task, output, uri, content, at_ns, "
		     "message) VALUES (?1, ?2, ?3, ?4, ?5, max(?6, (SELECT "
		     "coalesce(max(at_ns), 0) + 1 FROM export WHERE uri = ?4)), ?7)",
		     DB_IN(e->run, e->task, e->output, e->uri, &e->id, e->at_ns, e->message), err);
}

int record_exported(struct db *db, const char *uri, const struct content_id *id, struct err *err)
{
	struct content_id last;
	int arrived;
	int r = db_get(db,
		       "SELECT content, message IS NULL FROM export WHERE uri = ? ORDER BY at_ns "
		       "DESC LIMIT 1",
		       DB_IN(uri), NULL, DB_OUT(&last, &arrived), err);

	return r <= 0 ? r : last.kind != CONTENT_NONE && content_id_eq(&last, id) && arrived;
}

#define C(field) DB_COLUMN(struct export_row, field)
static const struct db_row export_of_columns = DB_ROW(
	struct export_row, NULL, C(run), C(task), C(output), C(uri), C(id), C(at_ns), C(message));
#undef C

int record_run_exports(struct db *db, int64_t run, struct arena *arena, struct export_row **ret,
		       size_t *ret_n, struct err *err)
{
	return db_get_rows(db,
			   "SELECT run, task, output, uri, content, at_ns, message FROM export "
			   "WHERE run = ? ORDER BY task, output",
			   DB_IN(run), arena, &export_of_columns, ret, ret_n, err);
}
