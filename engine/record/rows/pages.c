#include "record/rows/pages.h"
#include "record/rows/rows.h"

#define ATTEMPTS_WHERE                                                                        \
	"SELECT " ATTEMPT_COLUMNS                                                             \
	" FROM attempt WHERE run = ?1 AND id > ?2 AND (?3 IS NULL OR task = ?3 OR step = ?3)" \
	" AND (?4 = 0 OR number = ?4) ORDER BY id "

int record_page_attempts(struct db *db, const struct attempt_page *p, struct arena *arena,
			 struct attempt_row **ret, size_t *ret_n, struct err *err)
{
	return db_get_rows(
		db, p->newest_first ? ATTEMPTS_WHERE "DESC LIMIT ?5" : ATTEMPTS_WHERE "LIMIT ?5",
		DB_IN(p->run, p->after, p->task, p->number, p->limit), arena, &attempt_of_columns,
		ret, ret_n, err);
}

int record_open_attempts(struct db *db, int64_t run, struct arena *arena, struct attempt_row **ret,
			 size_t *ret_n, struct err *err)
{
	return db_get_rows(db,
			   "SELECT " ATTEMPT_COLUMNS
			   " FROM attempt WHERE run = ? AND ended_ns = 0 ORDER BY id",
			   DB_IN(run), arena, &attempt_of_columns, ret, ret_n, err);
}

#define C(field) DB_COLUMN(struct run_sum, field)
static const struct db_row run_sum_of_columns =
	DB_ROW(struct run_sum, NULL, C(pipeline), C(state), C(n), C(duration_ns), C(counts.total),
	       C(counts.executed), C(counts.hits), C(counts.failed), C(counts.skipped),
	       C(counts.blocked), C(counts.saved_ns));
#undef C

int record_run_sums(struct db *db, size_t max, struct arena *arena, struct run_sum **ret,
		    size_t *ret_n, struct err *err)
{
	return db_get_rows(db,
			   "SELECT pipeline, state, count(*), sum(max(ended_ns - started_ns, 0)), "
			   "sum(total), sum(executed), sum(hits), sum(failed), sum(skipped), "
			   "sum(blocked), sum(saved_ns) FROM run GROUP BY pipeline, state LIMIT ?",
			   DB_IN(max), arena, &run_sum_of_columns, ret, ret_n, err);
}
