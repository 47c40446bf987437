#include "record/internal.h"
#include "record/pages.h"

#define ATTEMPTS_WHERE                                                                                                              \
	"SELECT " ATTEMPT_COLUMNS " FROM attempt WHERE run = ?1 AND id > ?2 AND (?3 IS NULL OR task = ?3 OR step = ?3)"              \
	" AND (?4 = 0 OR number = ?4) ORDER BY id "

int record_page_attempts(struct db *db, const struct attempt_page *p, struct arena *arena, struct attempt_row **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = p->newest_first ? db_prepare(db, ATTEMPTS_WHERE "DESC LIMIT ?5", err) : db_prepare(db, ATTEMPTS_WHERE "LIMIT ?5", err);

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, p->run);
	sqlite3_bind_int64(s, 2, p->after);
	bind_text(s, 3, p->task);
	sqlite3_bind_int64(s, 4, p->number);
	sqlite3_bind_int64(s, 5, (int64_t)p->limit);
	return read_attempt_rows(db, s, arena, ret, ret_n, err);
}

static void read_sum(sqlite3_stmt *s, struct arena *arena, struct run_sum *ret)
{
	*ret = (struct run_sum){ .pipeline = column_text(s, 0, arena), .state = (enum run_state)sqlite3_column_int(s, 1), .n = (uint64_t)sqlite3_column_int64(s, 2),
				 .duration_ns = sqlite3_column_int64(s, 3) };
	ret->counts = (struct run_counts){ .total = (uint64_t)sqlite3_column_int64(s, 4),   .executed = (uint64_t)sqlite3_column_int64(s, 5),
					   .hits = (uint64_t)sqlite3_column_int64(s, 6),    .failed = (uint64_t)sqlite3_column_int64(s, 7),
					   .skipped = (uint64_t)sqlite3_column_int64(s, 8), .blocked = (uint64_t)sqlite3_column_int64(s, 9),
					   .saved_ns = sqlite3_column_int64(s, 10) };
}

int record_run_sums(struct db *db, size_t max, struct arena *arena, struct run_sum **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db,
				     "SELECT pipeline, state, count(*), sum(max(ended_ns - started_ns, 0)), sum(total), sum(executed), sum(hits), sum(failed), sum(skipped),"
				     " sum(blocked), sum(saved_ns) FROM run GROUP BY pipeline, state LIMIT ?",
				     err);
	VEC(struct run_sum) out = { 0 };
	int r;

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, (int64_t)max);
	while ((r = db_step(db, s, err)) > 0)
		read_sum(s, arena, VEC_ADD(&out));
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r;
}
