/* engine/record/rows/firings.c — firings, schedules and the servers that own them.
 *
 * The WHERE of the statement that changes a firing decides whether it may change. So two processes
 * that want the same one can't both get it: claim, take, set_run and told return how many rows they
 * changed. Invariants: an existing firing never begins a second run unless it is retried or
 * requested again; states below 3 are the open ones, in the SQL and in firings.h alike. Threads:
 * the thread of the handle. Not here: when something fires (serve/).
 */
#include "record/rows/firings.h"

#include <stdio.h>
#include "base/os/machine.h"
#include "base/os/process/process.h"
#include "base/text/text.h"
#include "record/db_sql.h"

const char *firing_cause_name(enum firing_cause c)
{
	static const char *const names[] = { "time",   "catch-up", "change",
					     "manual", "backfill", "event" };

	return (unsigned)c < ARRAY_LEN(names) ? names[c] : "unknown";
}

const char *firing_state_name(enum firing_state s)
{
	static const char *const names[] = { "waiting", "started",   "retrying", "succeeded",
					     "failed",  "cancelled", "skipped",  "missed" };

	return (unsigned)s < ARRAY_LEN(names) ? names[s] : "unknown";
}

void firing_add_name(struct str *out, const char *schedule, int64_t nominal_ns)
{
	str_addf(out, "%s@", schedule);
	text_add_time(out, nominal_ns, nominal_ns % NS_PER_S ? 9 : 0);
}

/* Firings. */

#define FIRING_COLUMNS                                                                         \
	"path, schedule, nominal_ns, cause, state, number, claimed_ns, started_ns, ended_ns, " \
	"run, server, message, resumes,"                                                       \
	" first_ns, times, event"

/* The primary key: a statement's first three values. */
#define IS_KEY "path=?1 AND schedule=?2 AND nominal_ns=?3"

int record_firing_claim(struct db *db, const struct firing *f, struct err *err)
{
	return db_change(
		db,
		"INSERT INTO firing (" FIRING_COLUMNS
		") VALUES (?1,?2,?3,?4,?5,0,?6,0,0,NULL,?7,?8,0,0,1,?9) ON CONFLICT DO UPDATE SET "
		"cause=?4, state=?5, number=0, resumes=0, claimed_ns=?6, started_ns=0, ended_ns=0, "
		"run=NULL, server=?7, message=?8, event=?9 WHERE state=7 AND ?5<>7",
		DB_IN(f->path, f->schedule, f->nominal_ns, f->cause, f->state, f->claimed_ns,
		      f->server, f->message, f->event),
		err);
}

static bool finish_firing(void *row)
{
	struct firing *f = row;

	if ((int64_t)f->times < 1)
		f->times = 1;
	if (f->first_ns == 0 || f->first_ns > f->nominal_ns)
		f->first_ns = f->nominal_ns;
	return true;
}

#define C(field) DB_COLUMN(struct firing, field)
static const struct db_row firing_of_columns =
	DB_ROW(struct firing, finish_firing, C(path), C(schedule), C(nominal_ns), C(cause),
	       C(state), C(number), C(claimed_ns), C(started_ns), C(ended_ns), C(run), C(server),
	       C(message), C(resumes), C(first_ns), C(times), C(event));
#undef C

int record_firing_missed(struct db *db, const struct firing *f, struct err *err)
{
	return db_do(db,
		     "INSERT INTO firing (" FIRING_COLUMNS
		     ") VALUES (?1,?2,?3,?4,7,0,?5,0,0,NULL,NULL,?6,0,?7,?8,NULL) ON "
		     "CONFLICT DO UPDATE SET first_ns=min(CASE first_ns WHEN 0 "
		     "THEN nominal_ns ELSE first_ns END, ?7), times=times+?8-1",
		     DB_IN(f->path, f->schedule, f->nominal_ns, f->cause, f->claimed_ns, f->message,
			   f->first_ns, MAX(f->times, 1u)),
		     err);
}

int record_firing(struct db *db, const char *path, const char *schedule, int64_t nominal_ns,
		  struct arena *arena, struct firing *ret, struct err *err)
{
	return db_get_row(db, "SELECT " FIRING_COLUMNS " FROM firing WHERE " IS_KEY,
			  DB_IN(path, schedule, nominal_ns), arena, &firing_of_columns, ret, err);
}

int record_firing_of_event(struct db *db, const char *path, const char *schedule, const char *event,
			   struct arena *arena, struct firing *ret, struct err *err)
{
	return db_get_row(db,
			  "SELECT " FIRING_COLUMNS
			  " FROM firing WHERE path=?1 AND schedule=?2 AND event=?3",
			  DB_IN(path, schedule, event), arena, &firing_of_columns, ret, err);
}

int record_firing_update(struct db *db, const struct firing *f, struct err *err)
{
	return db_do(db,
		     "UPDATE firing SET state=?4, number=?5, started_ns=?6, ended_ns=?7, run=?8, "
		     "server=?9, message=?10, resumes=?11 WHERE " IS_KEY,
		     DB_IN(f->path, f->schedule, f->nominal_ns, f->state, f->number, f->started_ns,
			   f->ended_ns, f->run, f->server, f->message, f->resumes),
		     err);
}

int record_firing_take(struct db *db, const struct firing *f, const char *from, const char *to,
		       struct err *err)
{
	return db_change(
		db, "UPDATE firing SET server=?5 WHERE " IS_KEY " AND server IS ?4 AND state<3",
		DB_IN(f->path, f->schedule, f->nominal_ns, from, to), err);
}

static int already(const struct firing *f, struct err *err)
{
	_cleanup_(str_deinit) struct str name = { 0 };

	firing_add_name(&name, f->schedule, f->nominal_ns);
	if (f->state == FIRING_WAITING)
		return err_set(err, ERR_BUSY, "%s waits for its turn in a server", name.s);
	if (f->state == FIRING_RETRYING)
		return err_set(err, ERR_BUSY, "a server is going to try %s again", name.s);
	if (f->state == FIRING_STARTED)
		return err_set(err, ERR_BUSY, "%s is running as %s", name.s,
			       f->run ? f->run : "a run that begins");
	return err_set(err, ERR_EXISTS, "%s has fired already: %s%s%s", name.s,
		       firing_state_name(f->state), f->run ? ", run " : "", f->run ? f->run : "");
}

/* Whether a run may begin for an existing firing. */
static int may_begin(struct db *db, const struct firing *f, const struct firing_begin *b,
		     struct err *err)
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

int record_firing_begin(struct db *db, const struct firing_begin *b, struct arena *arena,
			struct err *err)
{
	struct firing f;
	int r = record_firing(db, b->path, b->schedule, b->nominal_ns, arena, &f, err);

	if (r < 0)
		return -1;
	if (r == 0) {
		f = (struct firing){ .path = b->path,
				     .schedule = b->schedule,
				     .nominal_ns = b->nominal_ns,
				     .cause = b->cause,
				     .state = FIRING_WAITING,
				     .claimed_ns = b->wall_ns };
		if (record_firing_claim(db, &f, err) < 0)
			return -1;
	} else if (may_begin(db, &f, b, err) < 0) {
		return -1;
	}
	if (f.state != FIRING_STARTED) { /* else a server started this process */
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

int record_firing_ended(struct db *db, const struct run_row *run, struct arena *arena,
			struct err *err)
{
	struct firing f;
	bool lives = false;
	int r = run->path ? record_firing(db, run->path, run->schedule, run->nominal_ns, arena, &f,
					  err)
			  : 0;

	if (r <= 0 || f.state != FIRING_STARTED || !str_eq(f.run, run->id) ||
	    run->state == RUN_RUNNING || run->state == RUN_INTERRUPTED)
		return MIN(r, 0);
	if (f.server && !str_eq(f.server, server_name_self(arena)) &&
	    record_server_lives(db, f.server, run->ended_ns, &lives, err) < 0)
		return -1;
	if (lives)
		return 0;
	f.state = run->state == RUN_SUCCEEDED ? FIRING_SUCCEEDED
		  : run->state == RUN_FAILED  ? FIRING_FAILED
					      : FIRING_CANCELLED;
	f.ended_ns = run->ended_ns;
	f.message = run->message;
	if (record_firing_update(db, &f, err) < 0)
		return -1;
	/* Its server is dead: the next one reports it. A user who ran it by hand sees the end. */
	if (!f.server || str_eq(f.server, server_name_self(arena)))
		return 0;
	return db_do(db, "UPDATE firing SET untold=1 WHERE " IS_KEY,
		     DB_IN(f.path, f.schedule, f.nominal_ns), err);
}

int record_firing_reported(struct db *db, const struct firing *f, struct err *err)
{
	return db_change(db, "UPDATE firing SET untold=0 WHERE " IS_KEY " AND untold=1",
			 DB_IN(f->path, f->schedule, f->nominal_ns), err);
}

int record_firings_unreported(struct db *db, struct arena *arena, struct firing **ret,
			      size_t *ret_n, struct err *err)
{
	return db_get_rows(db,
			   "SELECT " FIRING_COLUMNS
			   " FROM firing WHERE untold=1 ORDER BY nominal_ns, path, schedule",
			   DB_IN(), arena, &firing_of_columns, ret, ret_n, err);
}

int record_firing_release(struct db *db, const char *server, struct err *err)
{
	return db_do(db, "UPDATE firing SET server=NULL WHERE state IN (0, 2) AND server=?",
		     DB_IN(server), err);
}

int record_firings(struct db *db, const struct firing_filter *f, struct arena *arena,
		   struct firing **ret, size_t *ret_n, struct err *err)
{
	/* Each order is a statement of its own and uses an index. */
	static const char open[] =
		"SELECT " FIRING_COLUMNS
		" FROM firing WHERE state<3 AND (?1 IS NULL OR path=?1) AND (?2 IS NULL OR "
		"schedule=?2) AND (?3=0 OR nominal_ns<?3) AND nominal_ns>=?4 AND ?5=?5 "
		"AND ?7 IS ?7 ORDER BY nominal_ns, path, schedule LIMIT ?6";
	static const char of_one[] =
		"SELECT " FIRING_COLUMNS " FROM firing WHERE path=?1 AND schedule=?2 AND (?3=0 OR "
		"nominal_ns<?3) AND nominal_ns>=?4 AND (?5=0 OR state IN (3, 4)) "
		"AND ?7 IS ?7 ORDER BY nominal_ns DESC LIMIT ?6";
	static const char of_all[] =
		"SELECT " FIRING_COLUMNS
		" FROM firing WHERE (?1 IS NULL OR path=?1) AND (?2 IS NULL OR "
		"schedule=?2) AND (?3=0 OR nominal_ns<?3 OR (nominal_ns=?3 AND path>?7)) AND "
		"nominal_ns>=?4 AND (?5=0 "
		"OR state IN (3, 4)) ORDER BY nominal_ns DESC, path, schedule LIMIT ?6";

	return db_get_rows(db,
			   f->open                  ? open
			   : f->path && f->schedule ? of_one
						    : of_all,
			   DB_IN(f->path, f->schedule, f->before_ns,
				 f->since_ns ? f->since_ns : INT64_MIN, f->ended_runs,
				 f->limit ? (int64_t)f->limit : -1, f->before_path),
			   arena, &firing_of_columns, ret, ret_n, err);
}

/* Schedules. */

#define SCHEDULE_COLUMNS "path, name, seen_ns, paused_ns, rule, inputs, alerted_ns, seen_end"

#define C(field) DB_COLUMN(struct schedule_row, field)
static const struct db_row schedule_of_columns =
	DB_ROW(struct schedule_row, NULL, C(path), C(name), C(seen_ns), C(paused_ns), C(rule),
	       C(inputs), C(alerted_ns), C(seen_end));
#undef C

int record_schedule(struct db *db, const char *path, const char *name, struct arena *arena,
		    struct schedule_row *ret, struct err *err)
{
	*ret = (struct schedule_row){ .path = path, .name = name };
	return db_get_row(db, "SELECT " SCHEDULE_COLUMNS " FROM schedule WHERE path=? AND name=?",
			  DB_IN(path, name), arena, &schedule_of_columns, ret, err);
}

int record_schedule_put(struct db *db, const struct schedule_row *r, struct err *err)
{
	return db_do(db,
		     "INSERT OR REPLACE INTO schedule (" SCHEDULE_COLUMNS
		     ") VALUES (?,?,?,?,?,?,?,?)",
		     DB_IN(r->path, r->name, r->seen_ns, r->paused_ns, r->rule, r->inputs,
			   r->alerted_ns, r->seen_end),
		     err);
}

/* Ends of runs. */

int record_last_end(struct db *db, int64_t *ret, struct err *err)
{
	*ret = 0;
	return db_get(db, "SELECT coalesce(max(seq), 0) FROM run_end", DB_IN(), NULL, DB_OUT(ret),
		      err) < 0
		       ? -1
		       : 0;
}

#define C(field) DB_COLUMN(struct ended_run, field)
static const struct db_row ended_run_of_columns =
	DB_ROW(struct ended_run, NULL, C(seq), C(run), C(state), C(ended_ns));
#undef C

int record_ends(struct db *db, const char *path, int64_t after, int64_t until, struct arena *arena,
		struct ended_run **ret, size_t *ret_n, struct err *err)
{
	return db_get_rows(db,
			   "SELECT e.seq, e.run, e.state, e.ended_ns FROM run_end e JOIN run r ON "
			   "r.id = e.run WHERE e.seq > ?1 AND e.seq <= ?2 AND r.path = ?3 AND "
			   "r.reproduces IS NULL ORDER BY e.seq",
			   DB_IN(after, until, path), arena, &ended_run_of_columns, ret, ret_n,
			   err);
}

void schedule_row_pause(struct schedule_row *s, bool paused, int64_t wall_ns)
{
	if (paused == (s->paused_ns != 0))
		return;
	s->paused_ns = paused ? wall_ns : 0;
	s->seen_ns = s->alerted_ns = wall_ns;
}

/* Servers. */

const char *server_name_self(struct arena *arena)
{
	char host[MACHINE_NAME_BYTES];
	pid_t pid = getpid();

	return arena_printf(arena, "%s:%d:%llu", machine_name(host), (int)pid,
			    (unsigned long long)process_start_time(pid));
}

#define SERVER_KEEP_NS (30LL * 86400 * NS_PER_S)

int record_server_heartbeat(struct db *db, const char *server, int64_t wall_ns, struct err *err)
{
	if (db_do(db,
		  "DELETE FROM server WHERE beat_ns<? AND NOT EXISTS (SELECT 1 FROM firing WHERE "
		  "state<3 AND server=name)",
		  DB_IN(wall_ns - SERVER_KEEP_NS), err) < 0)
		return -1;
	return db_do(db, "INSERT OR REPLACE INTO server (name, beat_ns) VALUES (?,?)",
		     DB_IN(server, wall_ns), err);
}

int record_server_gone(struct db *db, const char *server, struct err *err)
{
	return db_do(db, "UPDATE server SET beat_ns=-1 WHERE name=?", DB_IN(server), err);
}

int server_lives_here(const char *server)
{
	char host[MACHINE_NAME_BYTES];
	unsigned long long start;
	const char *rest;
	int pid;

	machine_name(host);
	rest = strrchr(server, ':');
	while (rest && rest > server && rest[-1] != ':')
		rest--;
	if (!rest || (size_t)(rest - 1 - server) != strlen(host) ||
	    memcmp(server, host, strlen(host)) != 0)
		return -1;
	return sscanf(rest, "%d:%llu", &pid, &start) == 2 && start &&
	       process_start_time(pid) == start;
}

static bool beat_is_fresh(int64_t beat_ns, int64_t wall_ns)
{
	return beat_ns > wall_ns - SERVER_SILENT_NS;
}

int record_server_lives(struct db *db, const char *server, int64_t wall_ns, bool *ret,
			struct err *err)
{
	int here = server_lives_here(server), r;
	int64_t beat_ns = 0;

	if (here >= 0) {
		*ret = here;
		return 0;
	}
	r = record_server_heartbeat_of(db, server, &beat_ns, err);
	/* A `cairn run` of another machine never gives a sign of life. */
	*ret = r == 0 || beat_is_fresh(beat_ns, wall_ns);
	return r < 0 ? -1 : 0;
}

int record_server_heartbeat_of(struct db *db, const char *server, int64_t *ret_beat_ns,
			       struct err *err)
{
	return db_get(db, "SELECT beat_ns FROM server WHERE name=?", DB_IN(server), NULL,
		      DB_OUT(ret_beat_ns), err);
}

static const struct db_row server_of_columns =
	DB_ROW(struct server_row, NULL, DB_COLUMN(struct server_row, name),
	       DB_COLUMN(struct server_row, beat_ns));

int record_servers(struct db *db, struct arena *arena, struct server_row **ret, size_t *ret_n,
		   struct err *err)
{
	return db_get_rows(db, "SELECT name, beat_ns FROM server ORDER BY name", DB_IN(), arena,
			   &server_of_columns, ret, ret_n, err);
}

int record_server_any(struct db *db, int64_t wall_ns, struct arena *arena, const char **ret,
		      struct err *err)
{
	struct db_query q;
	const char *name;
	int64_t beat_ns;
	int r = 0;

	*ret = NULL;
	if (db_query(db, &q, "SELECT name, beat_ns FROM server ORDER BY beat_ns DESC", DB_IN(),
		     arena, err) < 0)
		return -1;
	while (!*ret && (r = db_next(&q, DB_OUT(&name, &beat_ns), err)) > 0) {
		int here = server_lives_here(name);

		if (here > 0 || (here < 0 && beat_is_fresh(beat_ns, wall_ns)))
			*ret = name;
	}
	db_end(&q);
	return MIN(r, 0);
}
