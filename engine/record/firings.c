/* Firings, schedules and the servers that look after them, in the database. */
#include "record/firings.h"

#include <stdio.h>
#include "base/process.h"
#include "base/text.h"
#include "record/internal.h"

const char *firing_cause_name(enum firing_cause c)
{
	static const char *const names[] = { "time", "catch-up", "change", "manual", "backfill" };

	return (unsigned)c < ARRAY_LEN(names) ? names[c] : "unknown";
}

const char *firing_state_name(enum firing_state s)
{
	static const char *const names[] = { "waiting", "started", "retrying", "succeeded", "failed", "cancelled", "skipped", "missed" };

	return (unsigned)s < ARRAY_LEN(names) ? names[s] : "unknown";
}

void firing_add_name(struct str *out, const char *schedule, int64_t nominal_ns)
{
	str_addf(out, "%s@", schedule);
	text_add_time(out, nominal_ns, nominal_ns % NS_PER_S ? 9 : 0);
}

/* --- firings -------------------------------------------------------------------------------------------------------------- */

#define FIRING_COLUMNS "path, schedule, nominal_ns, cause, state, number, claimed_ns, started_ns, ended_ns, run, server, message, resumes," \
		       " first_ns, times"

static void bind_key(sqlite3_stmt *s, int first, const struct firing *f)
{
	bind_text(s, first, f->path);
	bind_text(s, first + 1, f->schedule);
	sqlite3_bind_int64(s, first + 2, f->nominal_ns);
}

/* Runs a statement that writes; how many rows it changed, or -1. */
static int run_counting(struct db *db, sqlite3_stmt *s, struct err *err)
{
	return db_run(db, s, err) < 0 ? -1 : sqlite3_changes(db->sql);
}

int record_firing_claim(struct db *db, const struct firing *f, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db,
				     "INSERT INTO firing (" FIRING_COLUMNS ") VALUES (?1,?2,?3,?4,?5,0,?6,0,0,NULL,?7,?8,0,0,1) ON CONFLICT DO UPDATE SET cause=?4,"
				     " state=?5, number=0, resumes=0, claimed_ns=?6, started_ns=0, ended_ns=0, run=NULL, server=?7, message=?8 WHERE state=7 AND ?5<>7",
				     err);

	if (!s)
		return -1;
	bind_key(s, 1, f);
	sqlite3_bind_int(s, 4, f->cause);
	sqlite3_bind_int(s, 5, f->state);
	sqlite3_bind_int64(s, 6, f->claimed_ns);
	bind_text(s, 7, f->server);
	bind_text(s, 8, f->message);
	return run_counting(db, s, err);
}

static void read_firing(sqlite3_stmt *s, struct arena *arena, struct firing *ret)
{
	*ret = (struct firing){
		.path = column_text(s, 0, arena),     .schedule = column_text(s, 1, arena),  .nominal_ns = sqlite3_column_int64(s, 2),
		.cause = (enum firing_cause)sqlite3_column_int(s, 3), .state = (enum firing_state)sqlite3_column_int(s, 4),
		.number = (uint32_t)sqlite3_column_int(s, 5), .claimed_ns = sqlite3_column_int64(s, 6), .started_ns = sqlite3_column_int64(s, 7),
		.ended_ns = sqlite3_column_int64(s, 8), .run = column_text(s, 9, arena), .server = column_text(s, 10, arena),
		.message = column_text(s, 11, arena), .resumes = (uint32_t)sqlite3_column_int(s, 12),
		.first_ns = sqlite3_column_int64(s, 13), .times = (uint64_t)MAX(sqlite3_column_int64(s, 14), 1),
	};
	if (ret->first_ns == 0 || ret->first_ns > ret->nominal_ns)
		ret->first_ns = ret->nominal_ns;
}

int record_firing_missed(struct db *db, const struct firing *f, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db,
				     "INSERT INTO firing (" FIRING_COLUMNS ") VALUES (?1,?2,?3,?4,7,0,?5,0,0,NULL,NULL,?6,0,?7,?8) ON CONFLICT DO UPDATE SET"
				     " first_ns=min(CASE first_ns WHEN 0 THEN nominal_ns ELSE first_ns END, ?7), times=times+?8-1",
				     err);

	if (!s)
		return -1;
	bind_key(s, 1, f);
	sqlite3_bind_int(s, 4, f->cause);
	sqlite3_bind_int64(s, 5, f->claimed_ns);
	bind_text(s, 6, f->message);
	sqlite3_bind_int64(s, 7, f->first_ns);
	sqlite3_bind_int64(s, 8, (int64_t)MAX(f->times, 1u));
	return db_run(db, s, err);
}

int record_firing(struct db *db, const char *path, const char *schedule, int64_t nominal_ns, struct arena *arena, struct firing *ret, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " FIRING_COLUMNS " FROM firing WHERE path=? AND schedule=? AND nominal_ns=?", err);
	struct firing key = { .path = path, .schedule = schedule, .nominal_ns = nominal_ns };
	int r;

	if (!s)
		return -1;
	bind_key(s, 1, &key);
	r = db_step(db, s, err);
	if (r > 0)
		read_firing(s, arena, ret);
	sqlite3_reset(s);
	return r;
}

int record_firing_update(struct db *db, const struct firing *f, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db,
				     "UPDATE firing SET state=?4, number=?5, started_ns=?6, ended_ns=?7, run=?8, server=?9, message=?10, resumes=?11"
				     " WHERE path=?1 AND schedule=?2 AND nominal_ns=?3",
				     err);

	if (!s)
		return -1;
	bind_key(s, 1, f);
	sqlite3_bind_int(s, 4, f->state);
	sqlite3_bind_int64(s, 5, f->number);
	sqlite3_bind_int64(s, 6, f->started_ns);
	sqlite3_bind_int64(s, 7, f->ended_ns);
	bind_text(s, 8, f->run);
	bind_text(s, 9, f->server);
	bind_text(s, 10, f->message);
	sqlite3_bind_int64(s, 11, f->resumes);
	return db_run(db, s, err);
}

int record_firing_take(struct db *db, const struct firing *f, const char *from, const char *to, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE firing SET server=?5 WHERE path=?1 AND schedule=?2 AND nominal_ns=?3 AND server IS ?4 AND state<3", err);

	if (!s)
		return -1;
	bind_key(s, 1, f);
	bind_text(s, 4, from);
	bind_text(s, 5, to);
	return run_counting(db, s, err);
}

int record_firing_set_run(struct db *db, const struct firing *f, const char *run, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE firing SET run=?4 WHERE path=?1 AND schedule=?2 AND nominal_ns=?3 AND state=1 AND run IS NULL", err);

	if (!s)
		return -1;
	bind_key(s, 1, f);
	bind_text(s, 4, run);
	return run_counting(db, s, err);
}

static int already(const struct firing *f, struct err *err)
{
	struct str name = { 0 };

	firing_add_name(&name, f->schedule, f->nominal_ns);
	if (f->state == FIRING_WAITING)
		err_set(err, ERR_BUSY, "%s waits for its turn in a server", name.s);
	else if (f->state == FIRING_RETRYING)
		err_set(err, ERR_BUSY, "%s is going to be tried again by a server", name.s);
	else if (f->state == FIRING_STARTED)
		err_set(err, ERR_BUSY, "%s is running as %s", name.s, f->run ? f->run : "a run that begins");
	else
		err_set(err, ERR_EXISTS, "%s has fired already: %s%s%s", name.s, firing_state_name(f->state), f->run ? ", run " : "", f->run ? f->run : "");
	str_deinit(&name);
	return -1;
}

/* May a run begin for a firing that is there? */
static int may_begin(struct db *db, const struct firing *f, const struct firing_begin *b, struct err *err)
{
	bool lives = true;

	switch (f->state) {
	case FIRING_STARTED:
		return f->run ? already(f, err) : 0;
	case FIRING_WAITING:
		if (f->server && record_server_lives(db, f->server, b->wall_ns, &lives, err) < 0)
			return -1;
		return f->server && lives ? already(f, err) : 0;
	case FIRING_MISSED:
		return 0;
	case FIRING_FAILED:
	case FIRING_CANCELLED:
	case FIRING_SKIPPED:
		return b->again ? 0 : already(f, err);
	default:
		return already(f, err);
	}
}

int record_firing_begin(struct db *db, const struct firing_begin *b, struct arena *arena, struct err *err)
{
	struct firing f;
	int r = record_firing(db, b->path, b->schedule, b->nominal_ns, arena, &f, err);

	if (r < 0)
		return -1;
	if (r == 0) {
		f = (struct firing){ .path = b->path, .schedule = b->schedule, .nominal_ns = b->nominal_ns, .cause = b->cause, .state = FIRING_WAITING,
				     .claimed_ns = b->wall_ns };
		if (record_firing_claim(db, &f, err) < 0)
			return -1;
	} else if (may_begin(db, &f, b, err) < 0) {
		return -1;
	}
	if (f.state != FIRING_STARTED) { /* else it was a server that started this very process */
		f.state = FIRING_STARTED;
		f.server = server_name_self(arena);
		f.started_ns = b->wall_ns;
		f.ended_ns = 0;
		f.number++;
		f.message = NULL;
	}
	f.run = b->run;
	return record_firing_update(db, &f, err);
}

static int mark_untold(struct db *db, const struct firing *f, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE firing SET untold=1 WHERE path=?1 AND schedule=?2 AND nominal_ns=?3", err);

	if (!s)
		return -1;
	bind_key(s, 1, f);
	return db_run(db, s, err);
}

int record_firing_ended(struct db *db, const struct run_row *run, struct arena *arena, struct err *err)
{
	struct firing f;
	bool lives = false;
	int r = run->path ? record_firing(db, run->path, run->schedule, run->nominal_ns, arena, &f, err) : 0;

	if (r <= 0 || f.state != FIRING_STARTED || !str_eq(f.run, run->id) || run->state == RUN_RUNNING || run->state == RUN_INTERRUPTED)
		return MIN(r, 0);
	if (f.server && !str_eq(f.server, server_name_self(arena)) && record_server_lives(db, f.server, run->ended_ns, &lives, err) < 0)
		return -1;
	if (lives)
		return 0;
	f.state = run->state == RUN_SUCCEEDED ? FIRING_SUCCEEDED : run->state == RUN_FAILED ? FIRING_FAILED : FIRING_CANCELLED;
	f.ended_ns = run->ended_ns;
	f.message = run->message;
	if (record_firing_update(db, &f, err) < 0)
		return -1;
	/* Its server is dead, so nobody is told now: the next one does it. Who ran it by hand sees it. */
	return f.server && !str_eq(f.server, server_name_self(arena)) ? mark_untold(db, &f, err) : 0;
}

int record_firing_told(struct db *db, const struct firing *f, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE firing SET untold=0 WHERE path=?1 AND schedule=?2 AND nominal_ns=?3 AND untold=1", err);

	if (!s)
		return -1;
	bind_key(s, 1, f);
	return run_counting(db, s, err);
}

int record_firings_untold(struct db *db, struct arena *arena, struct firing **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " FIRING_COLUMNS " FROM firing WHERE untold=1 ORDER BY nominal_ns, path, schedule", err);
	VEC(struct firing) out = { 0 };
	int r;

	if (!s)
		return -1;
	while ((r = db_step(db, s, err)) > 0)
		read_firing(s, arena, VEC_ADD(&out));
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r;
}

int record_firing_release(struct db *db, const char *server, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE firing SET server=NULL WHERE state IN (0, 2) AND server=?", err);

	if (!s)
		return -1;
	bind_text(s, 1, server);
	return db_run(db, s, err);
}

/* The two orders are two statements: each walks an index. */
static sqlite3_stmt *prepare_list(struct db *db, const struct firing_filter *f, struct err *err)
{
	if (f->open)
		return db_prepare(db,
				  "SELECT " FIRING_COLUMNS " FROM firing WHERE state<3 AND (?1 IS NULL OR path=?1) AND (?2 IS NULL OR schedule=?2)"
				  " AND (?3=0 OR nominal_ns<?3) AND nominal_ns>=?4 AND ?5=?5 ORDER BY nominal_ns, path, schedule LIMIT ?6",
				  err);
	if (f->path && f->schedule)
		return db_prepare(db,
				  "SELECT " FIRING_COLUMNS " FROM firing WHERE path=?1 AND schedule=?2 AND (?3=0 OR nominal_ns<?3) AND nominal_ns>=?4"
				  " AND (?5=0 OR state IN (3, 4)) ORDER BY nominal_ns DESC LIMIT ?6",
				  err);
	return db_prepare(db,
			  "SELECT " FIRING_COLUMNS " FROM firing WHERE (?1 IS NULL OR path=?1) AND (?2 IS NULL OR schedule=?2) AND (?3=0 OR nominal_ns<?3)"
			  " AND nominal_ns>=?4 AND (?5=0 OR state IN (3, 4)) ORDER BY nominal_ns DESC, path, schedule LIMIT ?6",
			  err);
}

int record_firings(struct db *db, const struct firing_filter *f, struct arena *arena, struct firing **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = prepare_list(db, f, err);
	VEC(struct firing) out = { 0 };
	int r;

	if (!s)
		return -1;
	bind_text(s, 1, f->path);
	bind_text(s, 2, f->schedule);
	sqlite3_bind_int64(s, 3, f->before_ns);
	sqlite3_bind_int64(s, 4, f->since_ns ? f->since_ns : INT64_MIN);
	sqlite3_bind_int(s, 5, f->ended_runs);
	sqlite3_bind_int64(s, 6, f->limit ? (int64_t)f->limit : -1);
	while ((r = db_step(db, s, err)) > 0)
		read_firing(s, arena, VEC_ADD(&out));
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r;
}

/* --- schedules -------------------------------------------------------------------------------------------------------------- */

#define SCHEDULE_COLUMNS "path, name, seen_ns, paused_ns, rule, inputs, alerted_ns"

static void read_schedule(sqlite3_stmt *s, struct arena *arena, struct schedule_row *ret)
{
	*ret = (struct schedule_row){
		.path = column_text(s, 0, arena), .name = column_text(s, 1, arena), .seen_ns = sqlite3_column_int64(s, 2),
		.paused_ns = sqlite3_column_int64(s, 3), .rule = column_text(s, 4, arena), .inputs = column_text(s, 5, arena),
		.alerted_ns = sqlite3_column_int64(s, 6),
	};
}

int record_schedule(struct db *db, const char *path, const char *name, struct arena *arena, struct schedule_row *ret, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " SCHEDULE_COLUMNS " FROM schedule WHERE path=? AND name=?", err);
	int r;

	if (!s)
		return -1;
	*ret = (struct schedule_row){ .path = path, .name = name };
	bind_text(s, 1, path);
	bind_text(s, 2, name);
	r = db_step(db, s, err);
	if (r > 0)
		read_schedule(s, arena, ret);
	sqlite3_reset(s);
	return r;
}

int record_schedule_put(struct db *db, const struct schedule_row *r, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "INSERT OR REPLACE INTO schedule (" SCHEDULE_COLUMNS ") VALUES (?,?,?,?,?,?,?)", err);

	if (!s)
		return -1;
	bind_text(s, 1, r->path);
	bind_text(s, 2, r->name);
	sqlite3_bind_int64(s, 3, r->seen_ns);
	sqlite3_bind_int64(s, 4, r->paused_ns);
	bind_text(s, 5, r->rule);
	bind_text(s, 6, r->inputs);
	sqlite3_bind_int64(s, 7, r->alerted_ns);
	return db_run(db, s, err);
}

int record_schedules(struct db *db, struct arena *arena, struct schedule_row **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT " SCHEDULE_COLUMNS " FROM schedule ORDER BY path, name", err);
	VEC(struct schedule_row) out = { 0 };
	int r;

	if (!s)
		return -1;
	while ((r = db_step(db, s, err)) > 0)
		read_schedule(s, arena, VEC_ADD(&out));
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r;
}

void schedule_row_pause(struct schedule_row *s, bool paused, int64_t wall_ns)
{
	if (paused == (s->paused_ns != 0))
		return;
	s->paused_ns = paused ? wall_ns : 0;
	s->seen_ns = s->alerted_ns = wall_ns;
}

/* --- servers ------------------------------------------------------------------------------------------------------------------ */

const char *server_name_self(struct arena *arena)
{
	char host[256] = "";
	pid_t pid = getpid();

	gethostname(host, sizeof(host) - 1);
	return arena_printf(arena, "%s:%d:%llu", host, (int)pid, (unsigned long long)process_start_time(pid));
}

#define SERVER_KEEP_NS (30LL * 86400 * NS_PER_S)

int record_server_beat(struct db *db, const char *server, int64_t wall_ns, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "DELETE FROM server WHERE beat_ns<? AND NOT EXISTS (SELECT 1 FROM firing WHERE state<3 AND server=name)", err);

	if (!s)
		return -1;
	sqlite3_bind_int64(s, 1, wall_ns - SERVER_KEEP_NS);
	if (db_run(db, s, err) < 0)
		return -1;
	s = db_prepare(db, "INSERT OR REPLACE INTO server (name, beat_ns) VALUES (?,?)", err);
	if (!s)
		return -1;
	bind_text(s, 1, server);
	sqlite3_bind_int64(s, 2, wall_ns);
	return db_run(db, s, err);
}

int record_server_gone(struct db *db, const char *server, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "UPDATE server SET beat_ns=-1 WHERE name=?", err);

	if (!s)
		return -1;
	bind_text(s, 1, server);
	return db_run(db, s, err);
}

int server_lives_here(const char *server)
{
	char host[256] = "";
	unsigned long long start;
	const char *rest;
	int pid;

	gethostname(host, sizeof(host) - 1);
	rest = strrchr(server, ':');
	while (rest && rest > server && rest[-1] != ':')
		rest--;
	if (!rest || (size_t)(rest - 1 - server) != strlen(host) || memcmp(server, host, strlen(host)) != 0)
		return -1;
	return sscanf(rest, "%d:%llu", &pid, &start) == 2 && start && process_start_time(pid) == start;
}

static bool beat_is_fresh(int64_t beat_ns, int64_t wall_ns)
{
	return beat_ns > wall_ns - SERVER_SILENT_NS;
}

int record_server_lives(struct db *db, const char *server, int64_t wall_ns, bool *ret, struct err *err)
{
	int here = server_lives_here(server), r;
	int64_t beat_ns = 0;

	if (here >= 0) {
		*ret = here;
		return 0;
	}
	r = record_server_beat_of(db, server, &beat_ns, err);
	*ret = r == 0 || beat_is_fresh(beat_ns, wall_ns); /* a `cairn run` of another machine has no heart that beats */
	return r < 0 ? -1 : 0;
}

int record_server_beat_of(struct db *db, const char *server, int64_t *ret_beat_ns, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT beat_ns FROM server WHERE name=?", err);
	int r;

	if (!s)
		return -1;
	bind_text(s, 1, server);
	r = db_step(db, s, err);
	if (r > 0)
		*ret_beat_ns = sqlite3_column_int64(s, 0);
	sqlite3_reset(s);
	return r;
}

int record_servers(struct db *db, struct arena *arena, struct server_row **ret, size_t *ret_n, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT name, beat_ns FROM server ORDER BY name", err);
	VEC(struct server_row) out = { 0 };
	int r;

	if (!s)
		return -1;
	while ((r = db_step(db, s, err)) > 0)
		VEC_PUSH(&out, ((struct server_row){ column_text(s, 0, arena), sqlite3_column_int64(s, 1) }));
	sqlite3_reset(s);
	VEC_TO_ARENA(&out, arena, ret, ret_n);
	return r;
}

int record_server_any(struct db *db, int64_t wall_ns, struct arena *arena, const char **ret, struct err *err)
{
	sqlite3_stmt *s = db_prepare(db, "SELECT name, beat_ns FROM server ORDER BY beat_ns DESC", err);
	int r;

	*ret = NULL;
	if (!s)
		return -1;
	while ((r = db_step(db, s, err)) > 0) {
		const char *name = column_text(s, 0, arena);
		int here = server_lives_here(name);

		if (here > 0 || (here < 0 && beat_is_fresh(sqlite3_column_int64(s, 1), wall_ns))) {
			*ret = name;
			break;
		}
	}
	sqlite3_reset(s);
	return r < 0 ? -1 : 0;
}
