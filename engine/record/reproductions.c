#include "record/internal.h"
#include "record/reproductions.h"

int record_reproduction_add(struct db *db, const struct reproduction_row *r, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "INSERT OR REPLACE INTO reproduction (run, original, mode, verdict, report) VALUES (?,?,?,?,?)", err);

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, r->run);
	bind_digest(s, 2, &r->original);
	sqlite3_bind_int(s, 3, r->mode);
	sqlite3_bind_int(s, 4, r->verdict);
	bind_id(s, 5, &r->report);
	return db_run(db, s, err);
}

int record_reproductions(struct db *db, struct arena *arena, struct reproduction_row **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db,
				     "SELECT p.run, run.id, run.hash, p.original, p.mode, p.verdict, p.report FROM reproduction p JOIN run ON run.rowid_ = p.run"
				     " ORDER BY p.run DESC",
				     err);
	VEC(struct reproduction_row) out = { 0 };
	int r;

	if (!s)
		return -1;
	while ((r = db_step(db, s, err)) > 0) {
		struct reproduction_row row = { .run = sqlite3_column_int64(s, 0), .run_id = column_text(s, 1, arena), .mode = sqlite3_column_int(s, 4),
						.verdict = sqlite3_column_int(s, 5) };

		row.has_hash = column_digest(s, 2, &row.hash);
		column_id(s, 6, &row.report);
		if (column_digest(s, 3, &row.original))
			VEC_PUSH(&out, row);
	}
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r < 0 ? -1 : 0;
}

int record_reproduction_drop(struct db *db, const struct run_row *run, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "DELETE FROM reproduction WHERE run = ?1 OR original = ?2", err);

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, run->rowid);
	if (run->has_hash)
		bind_digest(s, 2, &run->hash);
	return db_run(db, s, err) < 0 ? -1 : sqlite3_changes(db->sql);
}
