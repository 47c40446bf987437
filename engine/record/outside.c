/* What came from outside, and what went there. */
#include "record/internal.h"
#include "record/outside.h"

int record_origins(struct db *db, struct arena *arena, struct run_input_row **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db,
				     "SELECT name, origin, content FROM run_input WHERE name >= 'input:' AND name < 'input;' AND origin NOT LIKE 'path:%'"
				     " GROUP BY origin, content ORDER BY max(run) DESC, name",
				     err);
	VEC(struct run_input_row) out = { 0 };
	int r;

	if (!s)
		return -1;
	while ((r = db_step(db, s, err)) > 0) {
		struct run_input_row row = { column_text(s, 0, arena), column_text(s, 1, arena), { .kind = CONTENT_NONE } };

		if (row.name && row.origin && column_id(s, 2, &row.id))
			VEC_PUSH(&out, row);
	}
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r;
}

/* --- exports ------------------------------------------------------------------------------------------------------------ */

/* What is written last is what lies there: its time is later than that of all before it, though a clock may have gone back. */
int record_export(struct db *db, const struct export_row *e, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db,
				     "INSERT OR REPLACE INTO export (run, task, output, uri, content, at_ns, message)"
				     " VALUES (?1, ?2, ?3, ?4, ?5, max(?6, (SELECT coalesce(max(at_ns), 0) + 1 FROM export WHERE uri = ?4)), ?7)",
				     err);

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, e->run);
	bind_text(s, 2, e->task);
	bind_text(s, 3, e->output);
	bind_text(s, 4, e->uri);
	bind_id(s, 5, &e->id);
	sqlite3_bind_int64(s, 6, e->at_ns);
	bind_text(s, 7, e->message);
	return db_run(db, s, err);
}

int record_exported(struct db *db, const char *uri, const struct content_id *id, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT content, message FROM export WHERE uri = ? ORDER BY at_ns DESC LIMIT 1", err);
	struct content_id last;
	int r;

	if (!s)
		return -1;
	bind_text(s, 1, uri);
	r = db_step(db, s, err);
	if (r > 0)
		r = column_id(s, 0, &last) && content_id_eq(&last, id) && sqlite3_column_type(s, 1) == SQLITE_NULL;
	sqlite3_reset(s);
	return r;
}

int record_run_exports(struct db *db, int64_t run, struct arena *arena, struct export_row **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT task, output, uri, content, at_ns, message FROM export WHERE run = ? ORDER BY task, output", err);
	VEC(struct export_row) out = { 0 };
	int r;

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, run);
	while ((r = db_step(db, s, err)) > 0) {
		struct export_row e = { .run = run, .task = column_text(s, 0, arena), .output = column_text(s, 1, arena), .uri = column_text(s, 2, arena) };

		column_id(s, 3, &e.id);
		e.at_ns = sqlite3_column_int64(s, 4);
		e.message = column_text(s, 5, arena);
		VEC_PUSH(&out, e);
	}
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r;
}
