#include "record/takeover.h"

#include "record/internal.h"

static int forget_servers(struct db *db, const char *server, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE server SET beat_ns=0 WHERE name<>?", err);

	if (!s)
		return -1;
	bind_text(s, 1, server);
	return db_run(db, s, err);
}

/* A firing of a server that never beat (a `cairn run` elsewhere) is trusted for ever otherwise. */
static int forget_firings(struct db *db, const char *server, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE firing SET server=NULL WHERE state<3 AND server<>?1 AND substr(server,1,instr(server,':'))<>substr(?1,1,instr(?1,':'))", err);

	if (!s)
		return -1;
	bind_text(s, 1, server);
	return db_run(db, s, err);
}

static int forget_notices(struct db *db, const char *server, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE notice SET server=NULL WHERE state=0 AND server<>?", err);

	if (!s)
		return -1;
	bind_text(s, 1, server);
	return db_run(db, s, err);
}

static int interrupt_runs(struct db *db, int64_t wall_ns, struct arena *arena, size_t *ret_runs, struct err *err)
{
	struct run_row *rows;
	size_t n;

	if (record_running(db, arena, &rows, &n, err) < 0)
		return -1;
	for (size_t i = 0; i < n; i++) {
		if (record_run_engine(&rows[i]) != RUN_ENGINE_ELSEWHERE)
			continue;
		rows[i].state = RUN_INTERRUPTED;
		rows[i].message = "the host of its engine is gone";
		rows[i].ended_ns = wall_ns;
		rows[i].pid = 0;
		if (record_run_update(db, &rows[i], err) < 0)
			return -1;
		++*ret_runs;
	}
	return 0;
}

int record_take_over(struct db *db, const char *server, int64_t wall_ns, size_t *ret_runs, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();

	*ret_runs = 0;
	if (db_begin(db, err) < 0)
		return -1;
	if (forget_servers(db, server, err) < 0 || forget_firings(db, server, err) < 0 || forget_notices(db, server, err) < 0 ||
	    interrupt_runs(db, wall_ns, arena, ret_runs, err) < 0) {
		db_rollback(db);
		return -1;
	}
	return db_commit(db, err);
}
