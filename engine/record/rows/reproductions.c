#include "record/rows/reproductions.h"
#include "record/db_sql.h"

int record_reproduction_add(struct db *db, const struct reproduction_row *r, struct err *err)
{
	return db_do(db,
		     "INSERT OR REPLACE INTO reproduction (run, original, mode, verdict, report) "
		     "VALUES (?,?,?,?,?)",
		     DB_IN(r->run, &r->original, r->mode, r->verdict, &r->report), err);
}

#define C(field) DB_COLUMN(struct reproduction_row, field)
static const struct db_row reproduction_of_columns =
	DB_ROW(struct reproduction_row, NULL, C(run), C(run_id),
	       DB_OPTIONAL(struct reproduction_row, hash, has_hash),
	       DB_NEEDED(struct reproduction_row, original), C(mode), C(verdict), C(report));
#undef C

int record_reproductions(struct db *db, struct arena *arena, struct reproduction_row **ret,
			 size_t *ret_n, struct err *err)
{
	return db_get_rows(
		db,
		"SELECT p.run, run.id, run.hash, p.original, p.mode, p.verdict, p.report FROM "
		"reproduction p JOIN run ON run.rowid_ = p.run ORDER BY p.run DESC",
		DB_IN(), arena, &reproduction_of_columns, ret, ret_n, err);
}

int record_reproduction_drop(struct db *db, const struct run_row *run, struct err *err)
{
	return db_change(db, "DELETE FROM reproduction WHERE run = ?1 OR original = ?2",
			 DB_IN(run->rowid, run->has_hash ? &run->hash : NULL), err);
}
