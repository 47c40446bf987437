#include "run/handover/served.h"

#include "record/facts.h"
#include "record/rows/takeover.h"
#include "run/internal.h"

int served_runs(struct db *db, struct arena *arena, struct served_run **ret, size_t *ret_n,
		struct err *err)
{
	struct run_row *rows;
	struct served_run *v;
	size_t n, kept = 0;

	if (record_resumable(db, arena, &rows, &n, err) < 0)
		return -1;
	v = arena_alloc(arena, (n + 1) * sizeof(*v));
	for (size_t i = 0; i < n; i++) {
		struct run_options o;

		/* A run without a host came out of a store: only a user may resume it here. */
		if (rows[i].engine.host &&
		    options_from_json(rows[i].options_json, arena, &o, NULL) == 0 && o.served)
			v[kept++] = (struct served_run){ rows[i].id, o.unbegun,
							 facts_engine_died(&rows[i]) };
	}
	*ret = v;
	*ret_n = kept;
	return 0;
}

bool run_is_served(const struct run_row *r)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct run_options o;

	return options_from_json(r->options_json, arena, &o, NULL) == 0 && o.served;
}

static int write_wait(struct db *db, const char *run, unsigned unbegun, const char *why,
		      struct arena *arena, struct err *err)
{
	struct run_options o;
	struct run_row row;

	if (record_find_run(db, run, arena, &row, err) < 0 ||
	    options_from_json(row.options_json, arena, &o, err) < 0)
		return -1;
	if (row.state != RUN_INTERRUPTED && !facts_engine_died(&row))
		return 0;
	o.unbegun = unbegun;
	if (row.state == RUN_INTERRUPTED && unbegun == 0)
		why = row.message; /* its own engine has written the reason */
	return record_run_left(db, &row, why,
			       row.state == RUN_INTERRUPTED ? row.ended_ns : clock_wall_ns(),
			       err) < 0 ||
			       record_run_set_options(db, row.rowid, options_to_json(&o, arena),
						      err) < 0
		       ? -1
		       : 0;
}

int served_run_wait(struct db *db, const char *run, unsigned unbegun, const char *why,
		    struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();

	return db_begin(db, err) < 0
		       ? -1
		       : db_finish(db, write_wait(db, run, unbegun, why, arena, err), err);
}

int served_run_end(struct db *db, const char *run, enum run_state state, const char *why,
		   struct err *err)
{
	_cleanup_(arena_freep) struct arena *arena = arena_new();
	struct run_row row;
	int r;

	if (db_begin(db, err) < 0)
		return -1;
	r = record_find_run(db, run, arena, &row, err);
	if (r == 0) {
		row.state = state;
		row.message = why;
		row.ended_ns = clock_wall_ns();
		row.engine.pid = 0;
		r = record_run_update(db, &row, err);
	}
	return db_finish(db, r, err);
}
