#include "record/rows/takeover.h"

#include "record/db_sql.h"

int record_run_left(struct db *db, struct run_row *r, const char *why, int64_t wall_ns,
		    struct err *err)
{
	r->state = RUN_INTERRUPTED;
	r->message = why;
	r->ended_ns = wall_ns;
	r->engine.pid = 0;
	return record_run_update(db, r, err);
}

int record_take_over(struct db *db, const char *server, int64_t wall_ns, size_t *ret_runs,
		     struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct run_row *rows;
	size_t n;
	int r = -1;

	*ret_runs = 0;
	if (db_begin(db, err) < 0)
		return -1;
	/* Without this, a firing of a server without any sign of life (a `cairn run` elsewhere)
	 * would count as owned for ever. */
	if (db_do(db, "UPDATE server SET beat_ns=0 WHERE name<>?", DB_IN(server), err) == 0 &&
	    db_do(db,
		  "UPDATE firing SET server=NULL WHERE state<3 AND server<>?1 AND "
		  "substr(server,1,instr(server,':'))<>substr(?1,1,instr(?1,':'))",
		  DB_IN(server), err) == 0 &&
	    db_do(db, "UPDATE notice SET server=NULL WHERE state=0 AND server<>?", DB_IN(server),
		  err) == 0)
		r = record_running(db, arena, &rows, &n, err);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (record_run_engine(&rows[i]) != RUN_ENGINE_ELSEWHERE)
			continue;
		r = record_run_left(db, &rows[i], "the host of its engine is gone", wall_ns, err);
		++*ret_runs;
	}
	return db_finish(db, r, err);
}
