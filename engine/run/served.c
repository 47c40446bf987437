#include "run/served.h"

#include "run/internal.h"

int served_runs(struct db *db, struct arena *arena, const char ***ret, size_t *ret_n, struct err *err)
{
	struct run_row *rows;
	const char **ids;
	size_t n, kept = 0;

	if (record_resumable(db, arena, &rows, &n, err) < 0)
		return -1;
	ids = arena_alloc(arena, (n + 1) * sizeof(*ids));
	for (size_t i = 0; i < n; i++) {
		struct run_options o;

		if (options_from_json(rows[i].options_json, arena, &o, NULL) == 0 && o.served)
			ids[kept++] = rows[i].id;
	}
	*ret = ids;
	*ret_n = kept;
	return 0;
}

int served_run_end(struct db *db, const char *run, enum run_state state, const char *why, struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct clock *c = clock_system();
	struct run_row row;

	if (db_begin(db, err) < 0)
		return -1;
	if (record_find_run(db, run, arena, &row, err) < 0) {
		db_rollback(db);
		return -1;
	}
	row.state = state;
	row.message = why;
	row.ended_ns = c->wall_ns(c);
	row.pid = 0;
	if (record_run_update(db, &row, err) < 0) {
		db_rollback(db);
		return -1;
	}
	return db_commit(db, err);
}
